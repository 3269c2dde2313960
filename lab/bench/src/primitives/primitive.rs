//! One operation, and how it is timed.

use crate::harness::clock::now_ns;
use crate::harness::engines::{map_of, of_row, on, one_zone};
use pageyard::{CpuId, Cx, Migratetype, Order, Request};
use pageyard_replay::engine::{AnyEngine, Visit};
use std::hint::black_box;

/// An operation: `run` does it this many times.
pub(crate) struct Primitive {
    pub(crate) name: &'static str,
    pub(super) how: &'static str,
    times: u64,
    run: Box<dyn Fn(u64)>,
}

/// Times of one sample: about a millisecond of a fast operation.
pub(super) const TIMES: u64 = 1 << 19;

impl Primitive {
    pub(super) fn new(name: &'static str, how: &'static str, once: impl Fn() + 'static) -> Primitive {
        let run = move |n| {
            for i in 0..n {
                black_box(i);
                once();
            }
        };
        Primitive { name, how, times: TIMES, run: Box::new(run) }
    }

    /// The same for an operation that takes long.
    pub(super) fn slow(self, times: u64) -> Primitive {
        Primitive { times, ..self }
    }

    /// Takes a sample: nanoseconds of one.
    pub(crate) fn sample(&self) -> f64 {
        let start = now_ns();
        (self.run)(self.times);
        (now_ns() - start) as f64 / self.times as f64
    }
}

/// A frame taken from an engine and given back, by the name of the engine's row.
pub(super) fn pair(name: &'static str, how: &'static str, row: &str) -> Option<Primitive> {
    struct Pair(&'static str, &'static str);
    impl Visit for Pair {
        type Output = Primitive;

        fn visit<E: AnyEngine>(self, engine: E) -> Primitive {
            let request = Request::new(Order::ZERO, Migratetype::Movable);
            let cx = Cx::on(CpuId(0));
            let once = move || {
                if let Ok(pfn) = engine.alloc(&cx, &request) {
                    let _ = engine.free(&cx, black_box(pfn), Order::ZERO);
                }
            };
            Primitive::new(self.0, self.1, once).slow(TIMES / 8)
        }
    }
    // The rows named here need nothing of the host.
    on(&of_row(row, 1)?, &map_of(&one_zone(1 << 18)), Pair(name, how)).ok()
}
