use super::*;
use pageyard::{Frames, PAGE_SIZE, Pfn};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

const MIB: usize = 1 << 20;

fn dirty(mapping: &mut Mapping) {
    mapping.as_bytes_mut().iter_mut().for_each(|byte| {
        byte.write(0xA5);
    });
}

fn sum(mapping: &mut Mapping) -> u64 {
    let bytes = mapping.as_bytes_mut();
    // SAFETY: the kernel's memory is initialised.
    bytes.iter().map(|byte| u64::from(unsafe { byte.assume_init() })).sum()
}

#[test]
fn memory_is_zeros_aligned_and_as_large_as_asked() {
    for (backing, bytes, expected) in [
        (Backing::Anonymous, 5 * MIB, 5 * MIB),
        (Backing::Anonymous, 1, 4096),
        (Backing::AnonymousBase, 5 * MIB + 1, 5 * MIB + 4096),
        (Backing::Memfd(PageSize::Base), 3 * MIB, 3 * MIB),
    ] {
        let mut mapping = Mapping::new(bytes, backing).unwrap();
        assert_eq!(mapping.bytes(), expected);
        assert!(mapping.start().addr().get().is_multiple_of(2 * MIB), "{backing:?}");
        assert_eq!(sum(&mut mapping), 0);
        dirty(&mut mapping);
        assert_eq!(sum(&mut mapping), 0xA5 * expected as u64);
        assert_eq!(mapping.is_file(), matches!(backing, Backing::Memfd(_)));
    }
}

#[test]
fn what_is_given_back_is_zeros_again() {
    for backing in [Backing::Anonymous, Backing::AnonymousBase, Backing::Memfd(PageSize::Base)] {
        let mut mapping = Mapping::new(4 * MIB, backing).unwrap();
        dirty(&mut mapping);
        // SAFETY: nothing uses it.
        let given = unsafe { mapping.purge(Pfn(256), Frames(512)) }.unwrap();
        assert_eq!(given, Frames(512));
        assert_eq!(sum(&mut mapping), 0xA5 * (2 * MIB) as u64);
        // SAFETY: nothing uses it.
        let beyond = unsafe { mapping.purge(Pfn(1000), Frames(u64::MAX)) }.unwrap();
        assert_eq!(beyond, Frames(24));
        // SAFETY: nothing uses it.
        assert_eq!(unsafe { mapping.purge(Pfn(1 << 40), Frames(7)) }, Ok(Frames(0)));
    }
}

#[test]
fn memory_is_faulted_in_by_threads_and_says_how_far_it_is() {
    for threads in [0, 1, 3] {
        let mut mapping = Mapping::new(200 * MIB, Backing::Anonymous).unwrap();
        let most = AtomicUsize::new(0);
        let progress = |done: usize, all: usize| {
            assert_eq!(all, 200 * MIB);
            most.fetch_max(done, Ordering::Relaxed);
        };
        mapping.prefault(&Prefault { threads, progress: &progress }).unwrap();
        assert_eq!(most.into_inner(), 200 * MIB);
        assert_eq!(mapping.resident(Pfn(0), mapping.frames()), mapping.frames());
    }
}

#[test]
fn frames_are_resident_from_their_first_write_until_they_are_given_back() {
    let mut mapping = Mapping::new(4 * MIB, Backing::AnonymousBase).unwrap();
    assert_eq!(mapping.resident(Pfn(0), Frames(u64::MAX)), Frames(0));
    for page in [0, 511, 512, 1023] {
        mapping.as_bytes_mut()[page * 4096].write(1);
    }
    assert_eq!(mapping.resident(Pfn(0), Frames(u64::MAX)), Frames(4));
    assert_eq!(mapping.resident(Pfn(511), Frames(2)), Frames(2));
    assert_eq!(mapping.resident(Pfn(1024), Frames(7)), Frames(0));
    // SAFETY: nothing uses it.
    unsafe { mapping.purge(Pfn(0), Frames(512)) }.unwrap();
    assert_eq!(mapping.resident(Pfn(0), Frames(u64::MAX)), Frames(2));
}

#[test]
fn what_cannot_be_had_names_the_setting() {
    assert_eq!(Mapping::new(0, Backing::Anonymous).unwrap_err(), BackingError::Empty);
    assert!(matches!(Mapping::new(usize::MAX, Backing::Anonymous), Err(BackingError::TooLarge { .. })));
    let beyond = Mapping::new(1 << 55, Backing::Anonymous).unwrap_err().to_string();
    assert!(beyond.contains("ask for less"), "{beyond}");
    let huge = Mapping::new(1 << 46, Backing::HugeTlb(PageSize::Huge2M)).unwrap_err().to_string();
    assert!(huge.contains("/sys/kernel/mm/hugepages/hugepages-2048kB"), "{huge}");
    let missing =
        |needed, size| BackingError::HugePages { needed, free: 0, size, setting: "there".into() }.to_string();
    assert!(missing(1, PageSize::Huge2M).starts_with("1 huge page of 2 MiB is needed and 0 free"));
    assert!(missing(3, PageSize::Huge1G).starts_with("3 huge pages of 1 GiB are needed and 0 free"));
    let mapping = Mapping::new(4096, Backing::Anonymous).unwrap();
    for node in [1023, 5000] {
        let why = mapping.bind(node).unwrap_err().to_string();
        assert!(why.contains("/sys/devices/system/node"), "{why}");
    }
}

#[test]
fn reserved_huge_pages_are_taken_where_there_are_some() {
    // Passes without a look where the host reserved none.
    match Mapping::new(2 * MIB, Backing::HugeTlb(PageSize::Huge2M)) {
        Ok(mut mapping) => {
            dirty(&mut mapping);
            // SAFETY: nothing uses it.
            unsafe { mapping.purge(Pfn(0), Frames(512)) }.unwrap();
            assert_eq!(sum(&mut mapping), 0);
        }
        Err(BackingError::HugePages { .. } | BackingError::NoSuchPages { .. }) => {
            println!("skipped: no huge page of 2 MiB is reserved");
        }
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_file_in_memory_can_be_mapped_again_and_not_cut_off() {
    let mut mapping = Mapping::new(MIB, Backing::Memfd(PageSize::Base)).unwrap();
    dirty(&mut mapping);
    // SAFETY: its length is all that is used.
    let file = unsafe { mapping.file() }.unwrap().try_clone_to_owned().unwrap();
    let file = std::fs::File::from(file);
    assert_eq!(file.metadata().unwrap().len(), MIB as u64);
    assert!(file.set_len(0).is_err(), "its size is sealed");
}

#[test]
fn memory_of_the_caller_is_whole_frames_and_stays_mapped() {
    let mut memory = vec![7_u8; 4 * PAGE_SIZE as usize];
    let at = memory.as_ptr().align_offset(PAGE_SIZE as usize);
    let start = NonNull::new(memory[at..].as_mut_ptr()).unwrap();
    // SAFETY: it is the test's own.
    let take = |at: NonNull<u8>, bytes: usize| unsafe { Mapping::of_caller(at, bytes) };
    assert!(matches!(take(start, 4097), Err(BackingError::Misaligned { .. })));
    assert_eq!(take(start, 0).unwrap_err(), BackingError::Empty);
    let mapping = take(start, 2 * 4096).unwrap();
    assert!(mapping.backing().is_none() && mapping.frames() == Frames(2));
    // SAFETY: nothing else uses it; what a caller owns is not given back.
    assert_eq!(unsafe { mapping.purge(Pfn(0), Frames(2)) }, Ok(Frames(0)));
    drop(mapping);
    assert!(memory.iter().all(|byte| *byte == 7));
}
