//! Memory that is mapped as long as its owner lives.

use super::error::BackingError;
use super::host;
use super::kind::{Backing, PageSize};
use crate::clear::Extent;
use pageyard::{Frames, PAGE_SIZE};
use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, ftruncate, memfd_create};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap, mmap_anonymous, munmap};
use rustix::process::{Resource, getrlimit};
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

/// Mapped memory: whole frames, aligned to the backing's pages.
///
/// It is unmapped when this is dropped, but for memory that the caller owns.
#[derive(Debug)]
pub struct Mapping {
    at: NonNull<u8>,
    bytes: usize,
    /// None for memory that the caller owns.
    backing: Option<Backing>,
    /// The range to unmap: the mapping, and the addresses around it that were reserved to align it.
    whole: (NonNull<u8>, usize),
    file: Option<OwnedFd>,
}

// SAFETY: it is memory, which any thread may use; this type hands out addresses only.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps memory: `bytes`, rounded up to the backing's pages. None of it is touched.
    ///
    /// # Errors
    /// [`BackingError`], which names the setting to change.
    pub fn new(bytes: usize, backing: Backing) -> Result<Mapping, BackingError> {
        if bytes == 0 {
            return Err(BackingError::Empty);
        }
        let page = match backing.reserved() {
            Some(size) => size,
            // Transparent huge pages are a wish: an arena smaller than one is not rounded up.
            None if bytes < backing.page_size().bytes() => PageSize::Base,
            None => backing.page_size(),
        };
        let round = if backing.reserved().is_some() { page } else { PageSize::Base };
        let too_large = BackingError::TooLarge { bytes };
        let rounded = bytes.checked_next_multiple_of(round.bytes()).ok_or(too_large.clone())?;
        if rounded > isize::MAX as usize / 2 {
            return Err(too_large);
        }
        match backing.reserved() {
            Some(size) => host::check_huge_pages(size, (rounded / size.bytes()) as u64)?,
            None => host::check_memory(rounded as u64)?,
        }
        match backing {
            Backing::Anonymous | Backing::AnonymousBase => anonymous(rounded, page, backing),
            Backing::HugeTlb(_) => huge(rounded, page, backing),
            Backing::Memfd(_) | Backing::MemfdTransparent => file(rounded, page, backing),
        }
    }

    /// Takes memory that the caller owns: a guest's memory, a mapped device. Dropping this leaves it mapped.
    ///
    /// # Errors
    /// [`BackingError::Misaligned`], [`BackingError::Empty`].
    ///
    /// # Safety
    /// The memory is mapped, readable and writable, and used by nothing else as long as this, or an arena over it,
    /// lives. If it is a file that another process cuts off, touching it kills this process (SIGBUS): seal the file
    /// against that.
    pub unsafe fn of_caller(at: NonNull<u8>, bytes: usize) -> Result<Mapping, BackingError> {
        let address = at.addr().get();
        if bytes == 0 {
            return Err(BackingError::Empty);
        }
        if !(address as u64 | bytes as u64).is_multiple_of(PAGE_SIZE) {
            return Err(BackingError::Misaligned { address, bytes });
        }
        Ok(Mapping { at, bytes, backing: None, whole: (at, 0), file: None })
    }

    /// Has the kernel take this memory from one node only.
    ///
    /// # Errors
    /// [`BackingError::Node`].
    ///
    /// # Linux
    /// `mbind` with `MPOL_BIND`; pages that are already there stay where they are.
    pub fn bind(&self, node: u32) -> Result<(), BackingError> {
        const MPOL_BIND: libc::c_long = 2;
        const NODES: usize = 1024;
        let fail = |why: String| BackingError::Node { node, why };
        if node as usize >= NODES {
            return Err(fail(format!("no kernel has more than {NODES} nodes")));
        }
        let mut mask = [0_u64; NODES / 64];
        mask[node as usize / 64] |= 1 << (node % 64);
        // SAFETY: the range is this mapping, and the mask is read only; the kernel counts its bits and one more.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_mbind,
                self.at.as_ptr(),
                self.bytes,
                MPOL_BIND,
                mask.as_ptr(),
                NODES + 1,
                0,
            )
        };
        if answer == 0 { Ok(()) } else { Err(fail(std::io::Error::last_os_error().to_string())) }
    }

    /// Returns where the memory begins.
    #[must_use]
    pub fn start(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns its size in frames.
    #[must_use]
    pub fn frames(&self) -> Frames {
        Frames(self.bytes as u64 / PAGE_SIZE)
    }

    /// Returns what it is; none where the caller owns it.
    #[must_use]
    pub fn backing(&self) -> Option<Backing> {
        self.backing
    }

    /// Returns the file of memory that other processes can map.
    ///
    /// ```compile_fail,E0133
    /// # use pageyard_arena::backing::{Backing, Mapping, PageSize};
    /// let mapping = Mapping::new(4096, Backing::Memfd(PageSize::Base)).unwrap();
    /// let file = mapping.file(); // writing to a file is safe, and would change bytes that somebody borrows
    /// ```
    ///
    /// # Safety
    /// Reads and writes by way of the file are accesses to this memory. While a thread has bytes of it borrowed, from
    /// this or from an arena over it, nothing writes there by the file, and where they are borrowed to be written,
    /// nothing in this process reads.
    #[must_use]
    pub unsafe fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }

    /// Returns whether the memory is a file's.
    pub(super) fn is_file(&self) -> bool {
        self.file.is_some()
    }

    /// Borrows all of it as something to clear, or to write to.
    pub fn extent(&mut self) -> Extent<'_> {
        // SAFETY: 1. It is mapped and writable. 2. The borrow keeps others away.
        unsafe { Extent::at(self.at, self.frames()) }
    }

    /// Borrows all of it as bytes. The kernel's memory is initialised, with zeros.
    pub fn as_bytes_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.at.as_ptr().cast(), self.bytes) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        let (at, bytes) = self.whole;
        if bytes > 0 {
            // SAFETY: it was mapped by this, and what lives in it was dropped or gave it up.
            let _ = unsafe { munmap(at.as_ptr().cast::<c_void>(), bytes) };
        }
    }
}

/// Sets addresses aside for so many bytes, aligned to a pageblock or to the backing's pages: a block of an order is
/// then aligned to its size in memory, too, up to that.
fn set_aside(bytes: usize, page: PageSize) -> Result<ReservedRange, BackingError> {
    let align = page.max(PageSize::Huge2M).bytes();
    let all = bytes.checked_add(align).ok_or(BackingError::TooLarge { bytes })?;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping, at an address that the kernel chooses; it cannot be touched.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), all, ProtFlags::empty(), flags) };
    let whole = at.map_err(|why| refused("to set addresses aside", &why, ADDRESS_SPACE))?;
    let whole = NonNull::new(whole.cast::<u8>()).expect("the kernel maps nothing at address 0");
    let skip = whole.align_offset(align);
    // SAFETY: at most what was set aside in excess.
    Ok(ReservedRange { at: unsafe { whole.add(skip) }, whole, all })
}

/// Addresses that were set aside; given up when it is dropped.
struct ReservedRange {
    at: NonNull<u8>,
    whole: NonNull<u8>,
    all: usize,
}

impl ReservedRange {
    /// Makes the mapping that was put there the owner of the addresses.
    fn filled(self, bytes: usize, backing: Backing, file: Option<OwnedFd>) -> Mapping {
        let whole = (self.whole, self.all);
        let at = self.at;
        std::mem::forget(self);
        Mapping { at, bytes, backing: Some(backing), whole, file }
    }
}

impl Drop for ReservedRange {
    fn drop(&mut self) {
        // SAFETY: it was mapped by this, and nothing lives there.
        let _ = unsafe { munmap(self.whole.as_ptr().cast(), self.all) };
    }
}

const READ_WRITE: ProtFlags = ProtFlags::READ.union(ProtFlags::WRITE);

fn anonymous(bytes: usize, page: PageSize, backing: Backing) -> Result<Mapping, BackingError> {
    let place = set_aside(bytes, page)?;
    let at = place.at.as_ptr().cast();
    // What is not touched is not counted against the host's memory: the size was checked, and frames are touched one by
    // one.
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
    // SAFETY: these addresses were set aside, and nothing lives there.
    unsafe { mmap_anonymous(at, bytes, READ_WRITE, flags) }
        .map_err(|why| refused("to map memory", &why, ADDRESS_SPACE))?;
    wish_for(page, place.at, bytes);
    Ok(place.filled(bytes, backing, None))
}

/// Tells the kernel which pages are wanted. One without transparent huge pages refuses; the memory is there
/// nonetheless.
fn wish_for(page: PageSize, at: NonNull<u8>, bytes: usize) {
    let advice = if page == PageSize::Base { Advice::LinuxNoHugepage } else { Advice::LinuxHugepage };
    // SAFETY: it changes no contents.
    let _ = unsafe { madvise(at.as_ptr().cast(), bytes, advice) };
}

/// The setting to change if mapping fails.
const ADDRESS_SPACE: &str =
    "raise the limit of address space (ulimit -v), or set vm.overcommit_memory to 0 or 1";

fn huge(bytes: usize, page: PageSize, backing: Backing) -> Result<Mapping, BackingError> {
    let place = set_aside(bytes, page)?;
    let size = MapFlags::from_bits_retain(page.log() << 26);
    let flags = MapFlags::PRIVATE | MapFlags::HUGETLB | MapFlags::FIXED | size;
    // SAFETY: these addresses were set aside, and nothing lives there.
    unsafe { mmap_anonymous(place.at.as_ptr().cast(), bytes, READ_WRITE, flags) }
        .map_err(|why| refused("to map huge pages", &why, HUGE))?;
    Ok(place.filled(bytes, backing, None))
}

/// The setting to change if huge pages are refused.
const HUGE: &str =
    "reserve more of them in /sys/kernel/mm/hugepages, or raise hugetlb.*.max of the control group";

fn file(bytes: usize, page: PageSize, backing: Backing) -> Result<Mapping, BackingError> {
    let mut flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    if page != PageSize::Base && backing.reserved().is_some() {
        flags |= MemfdFlags::HUGETLB | MemfdFlags::from_bits_retain(page.log() << 26);
    }
    let files = "raise the limit of open files (ulimit -n) or of file sizes (ulimit -f)";
    let fail = |why: rustix::io::Errno| refused("a file in memory", &why, files);
    // The kernel answers a file that is too large with a signal that ends the process (SIGXFSZ).
    if let Some(limit) = getrlimit(Resource::Fsize).current.filter(|limit| bytes as u64 > *limit) {
        let why = format!("{bytes} bytes are more than the limit of {limit}");
        return Err(BackingError::Refused { what: "a file in memory", why, setting: files });
    }
    let file = memfd_create("pageyard", flags).map_err(fail)?;
    ftruncate(&file, bytes as u64).map_err(fail)?;
    fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL).map_err(fail)?;
    let place = set_aside(bytes, page)?;
    let flags = MapFlags::SHARED | MapFlags::FIXED;
    // SAFETY: these addresses were set aside, and nothing lives there; the file cannot shrink.
    unsafe { mmap(place.at.as_ptr().cast(), bytes, READ_WRITE, flags, &file, 0) }
        .map_err(|why| refused("to map a file in memory", &why, ADDRESS_SPACE))?;
    if backing == Backing::MemfdTransparent {
        wish_for(page, place.at, bytes);
    }
    Ok(place.filled(bytes, backing, Some(file)))
}

fn refused(what: &'static str, why: &rustix::io::Errno, setting: &'static str) -> BackingError {
    BackingError::Refused { what, why: why.to_string(), setting }
}
