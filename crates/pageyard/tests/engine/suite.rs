//! The suite that every engine must pass, on the engine's variants.

use one_at_a_time::OneAtATime;
use pageyard::{Alone, Config, Exclusive, MapError, MemoryMap, Order, OwnedPageyard, Pageyard, TryLock};
use pageyard_testkit::Build;

struct TryLocked;

impl Build for TryLocked {
    type Engine = OwnedPageyard<TryLock>;

    fn name(&self) -> String {
        "pageyard-trylock".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        Pageyard::owned(map, Config::new(cpus), TryLock)
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

/// Without per-CPU lists: every call goes to the zone, so what they would hide is seen. And through the interface that
/// the engine itself implements, where owned ones pass calls on to the methods of the same names.
struct Bare;

impl Build for Bare {
    type Engine = through_the_interface::Engine;

    fn name(&self) -> String {
        "pageyard without lists".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        let config = Config { pcp: false, ..Config::new(cpus) };
        Pageyard::owned(map, config, TryLock).map(through_the_interface::Engine)
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

/// The exclusive variant, kept to what it promises: one call at a time.
struct Exclusively;

impl Build for Exclusively {
    type Engine = OneAtATime<Exclusive>;

    fn name(&self) -> String {
        "pageyard-exclusive".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        // SAFETY: a lock around every call keeps them from overlapping.
        let percpu = unsafe { Exclusive::by_instance() };
        Pageyard::owned(map, Config::new(cpus), percpu).map(OneAtATime::new)
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

/// The variant without locked checks, kept to what it promises.
struct OnItsOwn;

impl Build for OnItsOwn {
    type Engine = OneAtATime<Alone>;

    fn name(&self) -> String {
        "pageyard-alone".to_owned()
    }

    fn build(&self, map: &MemoryMap<'_>, cpus: u32) -> Result<Self::Engine, MapError> {
        // SAFETY: a lock around every call keeps them from overlapping.
        let percpu = unsafe { Alone::by_instance() };
        Pageyard::owned(map, Config::new(cpus), percpu).map(OneAtATime::new)
    }

    fn largest_order(&self) -> Order {
        Order::MAX
    }
}

mod through_the_interface {
    use pageyard::{OwnedPageyard, PageAllocator, TryLock, forward_page_allocator};

    pub struct Engine(pub OwnedPageyard<TryLock>);

    impl Engine {
        fn interface(&self) -> &impl PageAllocator {
            &*self.0
        }
    }

    forward_page_allocator! { unsafe [] Engine, this => this.interface() }
}

mod one_at_a_time {
    use pageyard::forward_page_allocator;
    use pageyard::{OwnedPageyard, PerCpu};
    use std::sync::{Mutex, MutexGuard};

    pub struct OneAtATime<P: PerCpu + Send>(Mutex<OwnedPageyard<P>>);

    impl<P: PerCpu + Send> OneAtATime<P> {
        pub fn new(engine: OwnedPageyard<P>) -> OneAtATime<P> {
            OneAtATime(Mutex::new(engine))
        }

        fn lock(&self) -> MutexGuard<'_, OwnedPageyard<P>> {
            self.0.lock().unwrap()
        }
    }

    forward_page_allocator! { unsafe [P: PerCpu + Send] OneAtATime<P>, this => this.lock() }
}

mod trylock {
    pageyard_testkit::suite!(super::TryLocked, random_ops = 4_000_000);
}

mod exclusive {
    pageyard_testkit::suite!(super::Exclusively, random_ops = 4_000_000);
}

mod alone {
    pageyard_testkit::suite!(super::OnItsOwn, random_ops = 2_000_000);
}

mod bare {
    pageyard_testkit::suite!(super::Bare, random_ops = 2_000_000);
}
