//! How an arena is made.

use super::error::ArenaError;
use super::memory::{Arena, Forget};
use super::poison::{Corruption, Poison};
use super::zeros::Zeros;
use crate::backing::{Backing, Mapping, Prefault};
use crate::clear::Clearer;
use crate::rseq::{Rseq, bias_pays, current_cpu, possible_cpus};
use pageyard::{
    Config, Frames, MemoryMap, NodeId, Observer, Pageyard, PerCpu, Pfn, Region, TryLock, ZoneKind,
};
use std::ptr::NonNull;

impl Arena {
    /// Begins with the default settings.
    pub fn builder<'a>() -> ArenaBuilder<'a> {
        ArenaBuilder {
            bytes: 0,
            backing: Backing::default(),
            memory: None,
            node: None,
            prefault: None,
            clearer: None,
            config: None,
            observer: (),
            place: |(), _, _| (),
            forget: |(), _, _| (),
        }
    }
}

/// A program for an arena whatever protects its per-CPU lists, for [`ArenaBuilder::run_fastest`].
pub trait ArenaProgram<O: Observer = ()> {
    /// Its result.
    type Output;

    /// Runs it.
    fn run<P: PerCpu>(self, arena: Arena<P, O>) -> Self::Output;
}

/// Tells an observer where the frames from 0 on lie, before any is allocated.
type Place<O> = fn(&mut O, NonNull<u8>, Frames);

/// Settings of an [`Arena`].
///
/// By default its memory is anonymous, with transparent huge pages where the host grants them; nothing is faulted in;
/// all of it can be allocated; and what clears frames is measured once for the process.
#[must_use]
pub struct ArenaBuilder<'a, O: Observer = ()> {
    bytes: usize,
    backing: Backing,
    memory: Option<Mapping>,
    node: Option<u32>,
    prefault: Option<Prefault<'a>>,
    clearer: Option<Clearer>,
    config: Option<Config>,
    observer: O,
    place: Place<O>,
    forget: Forget<O>,
}

impl Default for ArenaBuilder<'_> {
    fn default() -> Self {
        Arena::builder()
    }
}

impl<'a> ArenaBuilder<'a> {
    /// Has an observer told of each block that is handed out, freed, split or moved. A reference or an `Arc` of one
    /// observes, too, and can be asked meanwhile; a pair is told one after the other.
    ///
    /// ```
    /// use pageyard::{BlockId, Migratetype, Observer, Order, Pfn};
    /// use pageyard_arena::Arena;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    ///
    /// /// Counts the blocks that are live.
    /// #[derive(Default)]
    /// struct Live(AtomicUsize);
    ///
    /// impl Observer for Live {
    ///     fn allocated(&self, _: Pfn, _: Order, _: Migratetype) {
    ///         self.0.fetch_add(1, Ordering::Relaxed);
    ///     }
    ///     fn freed(&self, _: Pfn, _: Order) {
    ///         self.0.fetch_sub(1, Ordering::Relaxed);
    ///     }
    ///     fn split(&self, _: Pfn, from: Order, to: Order) {
    ///         self.0.fetch_add((1 << (from.get() - to.get())) - 1, Ordering::Relaxed);
    ///     }
    ///     fn migrated(&self, _: BlockId, _: Pfn) {}
    /// }
    ///
    /// let live = Live::default();
    /// let arena = Arena::builder().size(4 << 20).observer(&live).build_locked()?;
    /// std::mem::forget(arena.alloc(Order::HUGE)?); // a leak
    /// drop(arena);
    /// assert_eq!(live.0.into_inner(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn observer<O: Observer>(self, observer: O) -> ArenaBuilder<'a, O> {
        self.observed_by(|()| observer, |_, _, _| (), |_, _, _| ())
    }
}

impl<'a, O: Observer> ArenaBuilder<'a, O> {
    /// Has every block filled with a pattern when it is freed, which is looked for when it is allocated again: `report`
    /// is told of each frame that was written to in between. It runs before the observer hears of the allocation, so
    /// one that keeps owners still knows who freed the frame. Where it panics, the block is leaked, and the panic goes
    /// to the caller that asked for it.
    ///
    /// A free writes to the whole block, and an allocation reads all of it. Frames that were purged hold zeros and are
    /// not looked at.
    /// [`init_on_free`](Config::init_on_free) has no effect, and what is freed is not known to be zeros.
    ///
    /// ```
    /// # use {pageyard::Order, pageyard_arena::{Arena, Block}};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let found = Arc::new(Mutex::new(Vec::new()));
    /// let report = found.clone();
    /// let builder = Arena::builder().size(4 << 20).poison(move |seen| report.lock().unwrap().push(seen.clone()));
    /// let arena = builder.build_locked()?;
    ///
    /// let at = arena.alloc(Order::ZERO)?.into_raw();
    /// // SAFETY: it came from `into_raw`.
    /// drop(unsafe { Block::from_raw_in(&arena, at) });
    /// // SAFETY: it is the arena's memory; but it is no longer ours: this is the mistake.
    /// unsafe { at.add(100).write(7) };
    /// let again = arena.alloc(Order::ZERO)?; // the same frame
    ///
    /// let found = found.lock().unwrap();
    /// assert_eq!((found[0].pfn, found[0].bytes.clone()), (again.pfn(), 100..101));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Linux
    /// `page_poison`.
    pub fn poison(self, report: impl Fn(&Corruption) + Send + Sync + 'static) -> ArenaBuilder<'a, Poison<O>> {
        let report = Box::new(report);
        self.observed_by(|inner| Poison::new(inner, report), Poison::place, Poison::forget)
    }

    fn observed_by<N: Observer>(
        self,
        make: impl FnOnce(O) -> N,
        place: Place<N>,
        forget: Forget<N>,
    ) -> ArenaBuilder<'a, N> {
        let ArenaBuilder { bytes, backing, memory, node, prefault, clearer, config, observer, .. } = self;
        let observer = make(observer);
        ArenaBuilder { bytes, backing, memory, node, prefault, clearer, config, observer, place, forget }
    }

    /// Sets the size in bytes; it is rounded up to the backing's pages.
    pub fn size(mut self, bytes: usize) -> Self {
        self.bytes = bytes;
        self
    }

    /// Sets what the memory is.
    pub fn backing(mut self, backing: Backing) -> Self {
        self.backing = backing;
        self
    }

    /// Uses memory that is mapped already: its size and backing replace those set here. Only memory that the arena maps
    /// itself is known to be zeros: anyone may have written to this, so what is to be zeros is cleared.
    pub fn memory(mut self, mapping: Mapping) -> Self {
        self.memory = Some(mapping);
        self
    }

    /// Has the host take the memory from one node.
    pub fn node(mut self, node: u32) -> Self {
        self.node = Some(node);
        self
    }

    /// Faults all memory in before the arena is used. Without it, the first write to each page waits for the kernel.
    pub fn prefault(mut self, how: Prefault<'a>) -> Self {
        self.prefault = Some(how);
        self
    }

    /// Sets what clears frames.
    pub fn clearer(mut self, clearer: Clearer) -> Self {
        self.clearer = Some(clearer);
        self
    }

    /// Sets the engine's configuration. By default it has lists for every CPU and keeps no reserve: a process has no
    /// interrupts to serve. A configuration for fewer CPUs than this host can have is one for all of them: any thread
    /// may call.
    pub fn config(mut self, config: Config) -> Self {
        self.config = Some(config);
        self
    }

    /// Builds an arena whose per-CPU lists are used by restartable sequences: no lock, and safe in signal handlers.
    ///
    /// # Errors
    /// [`ArenaError`]; [`ArenaError::Sequences`] where this host has none.
    pub fn build(self) -> Result<Arena<Rseq, O>, ArenaError> {
        self.build_with(Rseq::new().map_err(ArenaError::Sequences)?)
    }

    /// Builds an arena whose per-CPU lists stand behind a lock that is tried once: for every host.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn build_locked(self) -> Result<Arena<TryLock, O>, ArenaError> {
        self.build_with(TryLock)
    }

    /// Builds an arena with the protection of its per-CPU lists that is fastest on this machine, and runs a program
    /// with it: restartable sequences, with biased pageblocks where [`bias_pays`], or a lock that is tried once where
    /// the host has no sequences.
    ///
    /// For programs that free most blocks on the CPU they come from; for others [`build`](ArenaBuilder::build) is right
    /// everywhere. The protection is a type, so that no call pays for the choice: the program is compiled three times.
    ///
    /// # Errors
    /// [`ArenaError`]; the program did not run.
    ///
    /// # Examples
    /// ```
    /// use pageyard::{Order, PerCpu};
    /// use pageyard_arena::{Arena, ArenaProgram};
    ///
    /// struct Serve;
    /// impl ArenaProgram for Serve {
    ///     type Output = &'static str;
    ///     fn run<P: PerCpu>(self, arena: Arena<P>) -> &'static str {
    ///         drop(arena.alloc(Order::ZERO));
    ///         P::NAME
    ///     }
    /// }
    /// println!("{}", Arena::builder().size(64 << 20).run_fastest(Serve)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn run_fastest<T: ArenaProgram<O>>(self, program: T) -> Result<T::Output, ArenaError> {
        match Rseq::new() {
            Ok(rseq) if bias_pays() => Ok(program.run(self.build_with(rseq.biased())?)),
            Ok(rseq) => Ok(program.run(self.build_with(rseq)?)),
            Err(_) => Ok(program.run(self.build_locked()?)),
        }
    }

    /// Builds an arena with the protection of its per-CPU lists that is given.
    ///
    /// # Errors
    /// [`ArenaError`].
    pub fn build_with<P: PerCpu>(self, percpu: P) -> Result<Arena<P, O>, ArenaError> {
        // The first call of the process finds out where threads have their CPU's number, once: not in a signal handler
        // that interrupts that.
        let _ = current_cpu();
        let (mut mapping, is_zeros) = match self.memory {
            Some(mapping) => (mapping, false),
            None if self.bytes == 0 => return Err(ArenaError::NoSize),
            None => (Mapping::new(self.bytes, self.backing)?, true),
        };
        if let Some(node) = self.node {
            mapping.bind(node)?;
        }
        let region = Region::managed(Pfn(0), mapping.frames(), NodeId(0), ZoneKind::Normal);
        // Zeros or not, the kernel's memory is not touched here.
        let regions = [if is_zeros { region.zeroed() } else { region }];
        let default = || Config { compaction: true, ..Config::pool(possible_cpus()) };
        let mut config = self.config.unwrap_or_else(default);
        config.cpus = config.cpus.max(possible_cpus());
        let clearer = self.clearer.unwrap_or_else(|| *Clearer::of_this_machine());
        // SAFETY: the arena drops its engine before its mapping, and the map below has the mapping's frames.
        let zeros = unsafe { Zeros::new(mapping.start(), clearer) };
        let mut observer = self.observer;
        (self.place)(&mut observer, mapping.start(), mapping.frames());
        let yard = Pageyard::owned_with_clearer(&MemoryMap::new(&regions)?, config, percpu, observer, zeros)?;
        if let Some(how) = &self.prefault {
            mapping.prefault(how)?;
        }
        Ok(Arena::new(yard, mapping, self.forget)?)
    }
}
