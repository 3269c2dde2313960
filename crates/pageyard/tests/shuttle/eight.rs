//! Tags that are won eight at a time, in a row, while others win some of them one by one or eight at a time too.

use crate::common::{Machine, explore, stop_everywhere};
use crate::sequences::{Sequences, run_on};
use pageyard::engine::BiasState;
use pageyard::engine::Internals;
use pageyard::{Config, CpuId, Cx, FreeError, Order, PageAllocator, PerCpu, Pfn, TryLock};
use shuttle::thread;
use std::sync::Arc;

/// Frames of a test: two words of tags.
const FRAMES: u64 = 16;

/// Frees frames in one call; returns how many it freed.
fn free<P: PerCpu>(m: &Machine<P>, frames: &[Pfn]) -> usize {
    let mut refused = 0;
    m.engine.free_bulk(&Cx::on(CpuId(0)), frames, Order::ZERO, &mut |pfn, why| {
        assert_eq!(why, FreeError::NotAllocated, "{pfn}");
        refused += 1;
    });
    frames.len() - refused
}

/// A thread's share of the frees: all frames upwards, all downwards, or every third one, each with a call.
#[derive(Clone, Copy)]
enum Part {
    Up,
    Down,
    Some,
}

impl Part {
    fn run<P: PerCpu>(self, m: &Machine<P>) -> usize {
        let up = (0..FRAMES).map(Pfn);
        match self {
            Part::Up => free(m, &up.collect::<Vec<_>>()),
            Part::Down => free(m, &up.rev().collect::<Vec<_>>()),
            Part::Some => up.step_by(3).map(|pfn| free(m, &[pfn])).sum(),
        }
    }
}

/// Takes the first frames of a machine, which then have no owner that is noted.
fn take<P: PerCpu>(m: &Machine<P>) {
    let block = m.movable(0, FRAMES.ilog2() as u8).unwrap();
    assert_eq!(block.0, Pfn(0));
    m.split(block, 0).into_iter().for_each(|frame| m.disown(frame));
}

/// Runs parts on threads of these CPUs; between them they free each frame once.
fn shared_out<P: PerCpu + Send + 'static>(m: &Arc<Machine<P>>, parts: &[(Option<u32>, Part)]) {
    let start = |(cpu, part): &(Option<u32>, Part)| {
        let (m, cpu, part) = (m.clone(), *cpu, *part);
        thread::spawn(move || {
            run_on(cpu);
            part.run(&m)
        })
    };
    let threads: Vec<_> = parts.iter().map(start).collect();
    let freed: usize = threads.into_iter().map(|t| t.join().unwrap()).sum();
    assert_eq!(freed, FRAMES as usize, "of several frees of one frame one wins");
    m.end([]);
}

fn biased(cpus: u32, moves: bool) -> Arc<Machine<Sequences>> {
    run_on(Some(0));
    let m = Machine::of(1, Config::new(cpus), Sequences::new(cpus, moves));
    take(&m);
    // A thread that moved in the middle of its split has taken the bias away.
    assert!(moves || matches!(m.engine.bias_of(Pfn(0)), Some(BiasState::Biased(_))));
    m
}

#[test]
fn eight_at_a_time_upwards_and_downwards_and_one_by_one() {
    explore("sixteen frames, by compare-and-swaps", || {
        let m = Machine::of(1, Config::new(2), TryLock);
        take(&m);
        shared_out(&m, &[(None, Part::Up), (None, Part::Down), (None, Part::Some)]);
    });
}

#[test]
fn the_owner_eight_at_a_time_and_others_one_by_one() {
    explore("sixteen frames, biased", || {
        shared_out(&biased(3, false), &[(Some(0), Part::Up), (Some(1), Part::Some), (Some(0), Part::Down)]);
    });
    explore("sixteen frames, biased, by threads that move or have no sequences", || {
        let parts = [(Some(0), Part::Up), (Some(1), Part::Down), (None, Part::Some)];
        shared_out(&biased(3, true), &parts);
    });
}

#[test]
fn the_owner_is_stopped_at_every_place_while_another_cpu_frees_some() {
    stop_everywhere("eight at a time", &[40, 40], || {
        shared_out(&biased(2, false), &[(Some(0), Part::Up), (Some(1), Part::Some)]);
    });
}
