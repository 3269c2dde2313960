//! The catalogue: every engine by its one name, and the one way to build it.
//!
//! A variant of the lock-free engine is an entry of [`Variant::ALL`], a release of Linux a preset of the reference.
#![allow(unsafe_code, reason = "a caller promises that calls of some variants do not overlap")]

use super::ReplayEngine;
use pageyard::{Alone, Exclusive, MapError, MemoryMap, Pageyard, PressureAllocator, TryLock};
use pageyard_arena::rseq::{Rseq, Unavailable, possible_cpus};
use pageyard_linux::{Config, LinuxAllocator};

/// How the lock-free engine keeps per-CPU lists to one user at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// Restartable sequences, on the CPU that a call really runs on.
    Restartable,
    /// The same, with pageblocks biased to CPUs.
    Biased,
    /// One owner: one call at a time.
    Exclusive,
    /// The same, with frees checked without locked instructions.
    Alone,
    /// A lock that is tried once.
    TryLock,
}

impl Variant {
    /// Every variant.
    pub const ALL: [Variant; 5] =
        [Variant::Restartable, Variant::Biased, Variant::Exclusive, Variant::Alone, Variant::TryLock];

    /// Returns the engine's name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Variant::Restartable => "pageyard",
            Variant::Biased => "pageyard-biased",
            Variant::Exclusive => "pageyard-exclusive",
            Variant::Alone => "pageyard-alone",
            Variant::TryLock => "pageyard-trylock",
        }
    }

    /// Returns whether only one thread may use it.
    #[must_use]
    pub const fn is_for_one_thread(self) -> bool {
        matches!(self, Variant::Exclusive | Variant::Alone)
    }

    /// Returns whether it takes restartable sequences, which not every host has.
    #[must_use]
    pub const fn needs_sequences(self) -> bool {
        matches!(self, Variant::Restartable | Variant::Biased)
    }
}

/// An engine with its settings, ready to be built over a memory map.
#[derive(Clone, Debug)]
pub enum Engine {
    /// The lock-free engine.
    Yard(Variant, Box<pageyard::Config>),
    /// The reference.
    Linux(Box<Config>),
}

/// Reason why an engine was not built.
#[derive(Clone, Copy, Debug, thiserror::Error)]
pub enum NotBuilt {
    /// The memory map cannot be used.
    #[error("{0}")]
    Map(MapError),
    /// This host lacks restartable sequences.
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl From<MapError> for NotBuilt {
    fn from(why: MapError) -> NotBuilt {
        NotBuilt::Map(why)
    }
}

/// An engine that a visitor gets: one that reclaims, replays, and can be given to another thread.
pub trait AnyEngine: PressureAllocator + ReplayEngine + Send + 'static {}

impl<E: PressureAllocator + ReplayEngine + Send + 'static> AnyEngine for E {}

/// Code that is generic over the engine's type.
pub trait Visit {
    /// Result of the visit.
    type Output;

    /// Receives the engine, with everything free.
    fn visit<E: AnyEngine>(self, engine: E) -> Self::Output;
}

impl Engine {
    /// Returns the names of all engines, except posted patches ([`pageyard_linux::Posted`]).
    pub fn names() -> impl Iterator<Item = &'static str> {
        Variant::ALL.into_iter().map(Variant::name).chain(Config::PRESETS)
    }

    /// Returns the engine of a name with its defaults, for one CPU.
    #[must_use]
    pub fn named(name: &str) -> Option<Engine> {
        let variant = Variant::ALL.into_iter().find(|variant| variant.name() == name);
        variant
            .map(|variant| Engine::Yard(variant, Box::new(pageyard::Config::new(1))))
            .or_else(|| Some(Engine::Linux(Box::new(Config::named(name)?))))
    }

    /// Returns the lock-free engine for several threads, by the best protection that this host has.
    #[must_use]
    pub fn on_this_host(config: pageyard::Config) -> Engine {
        let cpus = config.cpus;
        Engine::Yard(Variant::Restartable, Box::new(config)).or_try_lock().with_cpus(cpus)
    }

    /// Returns the same engine behind a lock that is tried, if it takes restartable sequences and this host has none.
    #[must_use]
    pub fn or_try_lock(self) -> Engine {
        match self {
            Engine::Yard(variant, config) if variant.needs_sequences() && Rseq::new().is_err() => {
                Engine::Yard(Variant::TryLock, config)
            }
            engine => engine,
        }
    }

    /// Returns the same engine with lists for this many CPUs.
    #[must_use]
    pub fn with_cpus(mut self, cpus: u32) -> Engine {
        match &mut self {
            // A thread may be moved to any CPU.
            Engine::Yard(variant, config) if variant.needs_sequences() => {
                config.cpus = cpus.max(possible_cpus())
            }
            Engine::Yard(_, config) => config.cpus = cpus,
            Engine::Linux(config) => config.cpus = cpus,
        }
        self
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Engine::Yard(variant, _) => variant.name(),
            Engine::Linux(config) => config.name,
        }
    }

    /// Returns whether only one thread may use it.
    #[must_use]
    pub fn is_for_one_thread(&self) -> bool {
        matches!(self, Engine::Yard(variant, _) if variant.is_for_one_thread())
    }

    /// Builds the engine with everything free, and hands it over.
    ///
    /// # Errors
    /// [`NotBuilt`].
    ///
    /// # Safety
    /// Calls of an engine that [is for one thread](Engine::is_for_one_thread) do not overlap.
    pub unsafe fn on<V: Visit>(&self, map: &MemoryMap<'_>, visit: V) -> Result<V::Output, NotBuilt> {
        let (variant, config) = match self {
            Engine::Linux(config) => return Ok(visit.visit(LinuxAllocator::new(map, config)?)),
            Engine::Yard(variant, config) => (*variant, **config),
        };
        Ok(match variant {
            Variant::Restartable => visit.visit(Pageyard::owned(map, config, Rseq::new()?)?),
            Variant::Biased => visit.visit(Pageyard::owned(map, config, Rseq::new()?.biased())?),
            Variant::TryLock => visit.visit(Pageyard::owned(map, config, TryLock)?),
            Variant::Exclusive => {
                // SAFETY: the caller's promise.
                let percpu = unsafe { Exclusive::by_instance() };
                visit.visit(Pageyard::owned(map, config, percpu)?)
            }
            Variant::Alone => {
                // SAFETY: as above.
                let percpu = unsafe { Alone::by_instance() };
                visit.visit(Pageyard::owned(map, config, percpu)?)
            }
        })
    }
}
