//! General allocators of 4 KiB blocks: mimalloc 2, jemalloc and tcmalloc, from the libraries that distributions ship,
//! and mimalloc 3 and snmalloc, which `bench/peers/build` makes.
//!
//! Each is loaded into a separate process, under its own names, and asked for blocks of 4,096 bytes, which all of them
//! align to their size; blocks that are not count as missing, and the row is left out. No block is touched, and an
//! untimed pass comes first, so the figures do not include a first touch. Settings keep free memory from going back to
//! the system, and let a thread keep as much as it wants.
//!
//! A mixed load also asks for larger blocks, which are page-aligned in all but jemalloc. That begins them at a random
//! cache line; its aligned call does not, but passes over the cache of the thread and is slower. So its plain call has
//! the row, and less is asked of it than of the others.
#![allow(unsafe_code, reason = "another allocator's functions are foreign")]

use super::remote::Remote;
use crate::harness::allocator::Allocator;
use crate::harness::memory::Memory;
use crate::harness::subject::Subject;
use libloading::{Library, os::unix};
use pageyard::{Order, PAGE_SIZE, Pfn};
use std::ffi::c_void;
use std::path::Path;
use std::process::Command;

/// A general allocator: its location, the names of its calls, and its best settings.
pub(super) struct Malloc {
    pub name: &'static str,
    /// File names, the newest first.
    libraries: &'static [&'static str],
    malloc: &'static [u8],
    free: &'static [u8],
    settings: &'static [(&'static str, &'static str)],
    /// How to get the library.
    from: &'static str,
}

/// All of them.
pub(super) const PEERS: [Malloc; 5] = [
    Malloc {
        name: "mimalloc",
        libraries: &["libmimalloc.so.2", "libmimalloc.so.2.0"],
        malloc: b"mi_malloc",
        free: b"mi_free",
        // The first two are those of version 2.0, the third that of 2.1 and later.
        settings: &[
            ("MIMALLOC_PAGE_RESET", "0"),
            ("MIMALLOC_ALLOW_DECOMMIT", "0"),
            ("MIMALLOC_PURGE_DELAY", "-1"),
        ],
        from: "Debian: apt-get install libmimalloc2.0",
    },
    Malloc {
        name: "mimalloc-3",
        libraries: &["libmimalloc.so.3"],
        malloc: b"mi_malloc",
        free: b"mi_free",
        settings: &[("MIMALLOC_PURGE_DELAY", "-1"), ("MIMALLOC_PAGE_MAX_CANDIDATES", "1")],
        from: BUILT,
    },
    Malloc {
        name: "jemalloc",
        libraries: &["libjemalloc.so.2", "libjemalloc.so"],
        malloc: b"malloc",
        free: b"free",
        settings: &[(
            "MALLOC_CONF",
            "dirty_decay_ms:-1,muzzy_decay_ms:-1,tcache_nslots_small_max:32768,lg_tcache_nslots_mul:15,\
             tcache_gc_incr_bytes:1099511627776",
        )],
        from: "Debian: apt-get install libjemalloc2",
    },
    Malloc {
        name: "tcmalloc",
        libraries: &["libtcmalloc_minimal.so.4", "libtcmalloc_minimal.so"],
        malloc: b"tc_malloc",
        free: b"tc_free",
        settings: &[("TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES", "1073741824"), ("TCMALLOC_RELEASE_RATE", "0")],
        from: "Debian: apt-get install libtcmalloc-minimal4",
    },
    Malloc {
        name: "snmalloc",
        libraries: &["libsnmalloc.so"],
        malloc: b"sn_malloc",
        free: b"sn_free",
        // It has none: how it is built keeps free memory.
        settings: &[],
        from: BUILT,
    },
];

/// How to get what distributions do not ship.
const BUILT: &str = "run bench/peers/build, and put the folder that it prints into LD_LIBRARY_PATH";

/// Room for the thread-local variables of a library that is loaded late: jemalloc's are large.
const TLS_ROOM: (&str, &str) = ("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=65536");

/// Starts a process that holds the allocator. `command` is the `pageyard` command.
pub(super) fn start(
    peer: &Malloc,
    command: Option<&Path>,
    cpus: &[usize],
) -> Result<Box<dyn Subject>, String> {
    let command = command.ok_or("it is measured by the pageyard command only")?;
    let mut command = Command::new(command);
    command
        .args(["bench", "peer", peer.name])
        .envs(peer.settings.iter().copied())
        .env(TLS_ROOM.0, TLS_ROOM.1);
    Ok(Box::new(Remote::start(peer.name, false, cpus.len(), &mut command)?.crossing()))
}

/// An allocator's two functions. Its library stays loaded: threads that end run its code.
pub(super) struct Loaded {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
}

/// Loads an allocator into this process, beside the one that the process itself uses.
pub(super) fn load(name: &str) -> Result<Loaded, String> {
    let peer = PEERS.iter().find(|p| p.name == name).ok_or_else(|| format!("no peer is called {name}"))?;
    if cfg!(target_feature = "crt-static") {
        return Err("a static build cannot load its library".into());
    }
    let mut why = String::new();
    for file in peer.libraries {
        // Its own names come first within it, and none is visible from outside.
        // SAFETY: they are general allocators; loading them runs their constructors, which set up their own state only.
        match unsafe { unix::Library::open(Some(file), unix::RTLD_NOW | unix::RTLD_LOCAL | DEEPBIND) } {
            Ok(library) => {
                let library = Box::leak(Box::new(Library::from(library)));
                // SAFETY: they have the types that C gives them.
                let (malloc, free) = unsafe { (library.get(peer.malloc), library.get(peer.free)) };
                let missing = |e: libloading::Error| format!("{file} lacks a function: {e}");
                return Ok(Loaded { malloc: *malloc.map_err(missing)?, free: *free.map_err(missing)? });
            }
            Err(e) if why.is_empty() || !e.to_string().contains("No such file") => why = e.to_string(),
            Err(_) => {}
        }
    }
    Err(if why.contains("No such file") {
        format!("its library is not installed ({})", peer.from)
    } else {
        format!("its library cannot be loaded: {why}")
    })
}

/// Bytes of a cache line.
const LINE: u64 = 64;

/// glibc's `RTLD_DEEPBIND`.
const DEEPBIND: i32 = 8;

impl Allocator for Loaded {
    #[inline(always)]
    fn take(&self, _: usize) -> Option<Pfn> {
        // SAFETY: any size may be asked for.
        let block = unsafe { (self.malloc)(PAGE_SIZE as usize) } as u64;
        // A block is known by its address here: nothing but `give` looks at it.
        (block != 0 && block.is_multiple_of(PAGE_SIZE)).then_some(Pfn(block))
    }

    #[inline(always)]
    fn give(&self, _: usize, block: Pfn) {
        // SAFETY: it came from `take` or `take_of`, and each block is given back once.
        unsafe { (self.free)(block.0 as *mut c_void) };
    }

    #[inline(always)]
    fn take_of(&self, cpu: usize, order: Order) -> Option<Pfn> {
        if order == Order::ZERO {
            return self.take(cpu);
        }
        // SAFETY: any size may be asked for.
        let block = unsafe { (self.malloc)((PAGE_SIZE as usize) << order.get()) } as u64;
        if block.is_multiple_of(LINE) {
            return (block != 0).then_some(Pfn(block));
        }
        self.give(cpu, Pfn(block));
        None
    }

    #[inline(always)]
    fn give_of(&self, cpu: usize, block: Pfn, _: Order) {
        self.give(cpu, block);
    }

    #[inline(always)]
    fn touch(&self, _: &Memory, block: Pfn, order: Order) {
        for frame in 0..1u64 << order.get() {
            // SAFETY: 1. `take_of` was asked for so many bytes, and the block is not given back yet. 2. Its start is
            //         aligned to a cache line.
            unsafe { ((block.0 + frame * PAGE_SIZE) as *mut u64).write_volatile(block.0) };
        }
    }

    fn moves(&self) -> Option<(u64, u64)> {
        None
    }
}
