//! The kind of memory behind an arena.

use pageyard::Order;

/// The size of the pages that the host maps memory with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum PageSize {
    /// 4 KiB.
    Base,
    /// 2 MiB.
    Huge2M,
    /// 1 GiB.
    Huge1G,
}

impl PageSize {
    /// Returns the order of such a page.
    #[must_use]
    pub const fn order(self) -> Order {
        match self {
            PageSize::Base => Order::ZERO,
            PageSize::Huge2M => Order::of(9),
            PageSize::Huge1G => Order::of(18),
        }
    }

    /// Returns its size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        1 << (12 + self.order().get())
    }

    /// Returns the base-2 logarithm of its size in bytes, as flags of system calls have it.
    pub(super) const fn log(self) -> u32 {
        12 + self.order().get() as u32
    }
}

/// The kind of memory behind an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Backing {
    /// Anonymous memory, with transparent huge pages where the host grants them. It needs no setting of the host.
    #[default]
    Anonymous,
    /// Anonymous memory in pages of 4 KiB only.
    AnonymousBase,
    /// Huge pages that an administrator reserved: 2 MiB or 1 GiB each. The host takes none of them away.
    HugeTlb(PageSize),
    /// A file in memory, which other processes can map: its descriptor can be passed on. Its size is sealed, so that no
    /// process can cut it off under another one.
    Memfd(PageSize),
    /// The same, with transparent huge pages where the host grants them to such files
    /// (`/sys/kernel/mm/transparent_hugepage/shmem_enabled`: `advise`, `within_size` or `always`).
    MemfdTransparent,
}

impl Backing {
    /// Returns the pages that the memory is made of, or, for transparent huge pages, that it can be made of.
    #[must_use]
    pub const fn page_size(self) -> PageSize {
        match self {
            Backing::Anonymous | Backing::MemfdTransparent => PageSize::Huge2M,
            Backing::AnonymousBase => PageSize::Base,
            Backing::HugeTlb(size) | Backing::Memfd(size) => size,
        }
    }

    /// Returns the reserved huge pages that it needs, if any.
    pub(crate) const fn reserved(self) -> Option<PageSize> {
        match self {
            Backing::HugeTlb(PageSize::Base) => Some(PageSize::Huge2M),
            Backing::HugeTlb(size) => Some(size),
            Backing::Memfd(PageSize::Base) => None,
            Backing::Memfd(size) => Some(size),
            Backing::Anonymous | Backing::AnonymousBase | Backing::MemfdTransparent => None,
        }
    }

    /// Returns its name, as reports have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Backing::Anonymous => "anonymous-thp",
            Backing::AnonymousBase => "anonymous",
            Backing::HugeTlb(PageSize::Huge1G) => "hugetlb-1g",
            Backing::HugeTlb(_) => "hugetlb-2m",
            Backing::Memfd(PageSize::Base) => "memfd",
            Backing::Memfd(PageSize::Huge2M) => "memfd-2m",
            Backing::Memfd(PageSize::Huge1G) => "memfd-1g",
            Backing::MemfdTransparent => "memfd-thp",
        }
    }
}
