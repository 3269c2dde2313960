//! A replay in a Linux kernel: booted in a guest with as much memory, brought into the recorded state, it carries out
//! the rows; what it answers is reported as any engine's.

use super::direct::Direct;
use super::event_counts::EventCounts;
use super::free_view::FreeView;
use super::in_kernel_text::described;
use super::kernel_engine::{Answers, Asker, KernelEngine};
use super::kernel_plan::{KernelPlan, Steps, carried_out, carried_out_with, request_of};
use super::kernel_report::{InKernel, Parted};
use super::opening::BELOW_A_PAGEBLOCK;
use super::progress::Progress;
use super::report::{EngineReport, Seconds};
use super::trial::{CallTotals, Run, Trial};
use crate::engine::kernel::KernelSpec;
use crate::error::ReplayError;
use crate::limits;
use crate::machine::Mapping;
use pageyard::watermark::default_min_free_kbytes;
use pageyard::{MapError, MemoryMap, Order, PageAllocator, Pfn, Region};
use pageyard_guest::exchange::{GuestOpening, NO_FRAME, Sizes, Step, StepKind, Wanted};
use pageyard_guest::guest::{Guest, GuestError, PATIENCE};
use pageyard_guest::prepare;
use pageyard_linux::{Config, LinuxAllocator};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Instant;

/// Refusals after which a guest writes its zones down no more; the module has the same number.
const REFUSALS: u64 = 1 << 16;

/// Steps after which progress is told.
const TOLD: u64 = 1 << 12;

/// Bytes that a guest and its emulator take besides the kernel's table of frames, which has 64 for each frame.
const GUEST_BYTES: u64 = 1 << 30;

/// The largest share of the recorded frames for which the guest may have none, in percent.
const MOST_LOST_PCT: u64 = 5;

/// A kernel's replay.
pub(super) struct KernelTrial<'a> {
    pub(super) trial: Trial<'a>,
    pub(super) kernel: &'a KernelSpec,
    pub(super) judge: Option<&'a Path>,
}

impl KernelTrial<'_> {
    fn fail(&self, why: impl ToString) -> ReplayError {
        ReplayError::Kernel { engine: self.trial.spec.label().to_owned(), why: why.to_string() }
    }

    /// Replays; `progress` is told how many of how many rows or steps are done.
    pub(super) fn run(
        &self,
        progress: &mut dyn FnMut(Progress<'_>, u64, u64),
    ) -> Result<(EventCounts, EngineReport), ReplayError> {
        let (trace, whole) = (self.trial.trace, self.trial.machine);
        let (guest_machine, wanted) = whole
            .guest()
            .map_err(|why| self.fail(format!("{} does not fit into a guest: {why}", whole.name())))?;
        let need = guest_machine.end() * 64 + GUEST_BYTES;
        limits::check(
            &format!("{} in a guest", self.trial.spec.label()),
            need,
            "replay on a smaller machine (--memory)",
        )?;
        let judge = prepare::find_judge(self.judge).map_err(|why| self.fail(why))?;
        let label = self.trial.spec.label();
        let mut waiting = |seconds| progress(Progress::Preparing(label), seconds, 0);
        let (kernel, initrd) = self.kernel.prepare(&judge, &mut waiting).map_err(|why| self.fail(why))?;
        let progress = &mut |done, all| progress(Progress::Replaying(label), done, all);
        let mut folder = Folder::new().map_err(|why| self.fail(format!("no folder for the guest: {why}")))?;
        let guest = Guest { kernel, initrd, folder: folder.path.clone(), patience: PATIENCE };
        let rows = trace.rows()?;
        let ticks = self.trial.opening.duration_ns / 1_000_000;
        let sizes = Sizes {
            frames: guest_machine.end(),
            steps: 3 * rows + 3 * ticks + (1 << 16),
            samples: self.trial.samples + self.trial.host.0.samples.len() as u64 + 16 + REFUSALS,
            cpus: u64::from(whole.cpus),
        };
        let (reference, wanted) = self.config(wanted)?;
        let booted = Instant::now();
        let settings = self.trial.spec.settings();
        let taken = guest
            .take(guest_machine, sizes, &wanted, settings)
            .map_err(|why| self.stopped(&mut folder, &why))?;
        let booted = booted.elapsed();

        // The machine; what the guest's kernel needs itself is held there for good.
        let mut machine = whole.clone();
        let (mapping, lost) = machine.map_to(&taken.zones, &taken.frames).map_err(|why| self.fail(why))?;
        if lost.len() as u64 * 100 > whole.managed().0 * MOST_LOST_PCT {
            return Err(self.fail(format!(
                "{} of {} frames have no place in a guest, whose kernel and whose memory below 4 GiB take as many; a recording of a \
                 machine with 3 GiB or less below 4 GiB fits",
                lost.len(),
                whole.managed().0
            )));
        }
        let mut opening = self.trial.opening.clone();
        opening.cached.retain(|c| machine.is_cached(c.pfn, c.order.frames()));
        let view = FreeView::new(&machine);
        let regions = machine.regions();
        let map = MemoryMap::new(&regions).map_err(|why| self.map_fails(why))?;
        let trial = Trial { machine: &machine, opening: &opening, view: &view, ..self.trial.clone() };

        let steps = Steps::default();
        let build = || LinuxAllocator::new(&map, &reference).map_err(|why| self.map_fails(why));
        let writing = KernelEngine::new(build()?, &map, machine.cpus, &steps, None);
        let opened = plan(&trial, &writing, (&mapping, &lost), &steps)?;
        let recorded = steps.take();
        let by_reference = carried_out(writing.reference(), &recorded);
        let there: Vec<Step> = recorded.iter().map(|step| in_guest(step, &mapping)).collect();

        let (release, zones) = (taken.release.clone(), taken.zones);
        let begun = Instant::now();
        let all = recorded.len() as u64;
        let mut told = 0;
        let mut at = |done| {
            if done >= told {
                progress(done, all);
                told = done + TOLD;
            }
        };
        let replayed =
            taken.replay(&opened, &there, &mut at).map_err(|why| self.stopped(&mut folder, &why))?;
        let emulated = begun.elapsed();
        let managed = regions.iter().filter(|r| r.managed).flat_map(frames_of);
        let answers = Answers::new(&replayed, &recorded, zones, &mapping, managed);
        if answers.strays > 0 {
            return Err(self.fail(format!(
                "{} requests got frames that it was not opened with; the module that replays does not fit this kernel",
                answers.strays
            )));
        }
        let (same, first) = compared(&answers, &by_reference);
        let parted = match first {
            Some(first) => {
                let again =
                    Again { trial: &trial, map: &map, lost: &lost, answers: &answers, steps: &recorded };
                Some(again.explained(first, &reference).map_err(|why| self.fail(why))?)
            }
            None => None,
        };
        let requests = answers.frames().count() as u64;
        let in_kernel = InKernel {
            release,
            frames_not_mapped: lost.len() as u64,
            blocks_misplaced: answers.misplaced,
            reference: reference.name,
            same_as_reference: same,
            requests,
            first_otherwise: first.map(|(request, _)| request),
            parted,
            beside: None,
            answered: answers.frames().map(|(step, got)| (recorded[step as usize], got)).collect(),
        };
        let reading = KernelEngine::new(build()?, &map, machine.cpus, &steps, Some(answers));
        let (counts, mut report) = read(&trial, &reading, &lost)?;
        let seconds = Seconds { open: report.seconds.open + booted, replay: emulated, ..report.seconds };
        report.in_kernel(seconds, in_kernel);
        Ok((counts, report))
    }

    /// Returns the reference with the settings of this replay, and what the guest's zones are to come to.
    fn config(&self, wanted: Wanted) -> Result<(Config, Wanted), ReplayError> {
        let machine = self.trial.machine;
        let config = Config { cpus: machine.cpus, ..(*self.kernel.reference).clone() };
        let regions = machine.regions();
        let map = MemoryMap::new(&regions).map_err(|why| self.map_fails(why))?;
        let spans: Vec<_> = map.zones().map(|(_, span)| span).collect();
        let default =
            || default_min_free_kbytes(spans.iter().copied(), config.watermark.transparent_hugepage);
        let min_free_kbytes = config.watermark.min_free_kbytes.unwrap_or_else(default);
        Ok((config, Wanted { min_free_kbytes, ..wanted }))
    }

    fn map_fails(&self, why: MapError) -> ReplayError {
        ReplayError::Map { trace: self.trial.machine.name().to_owned(), why }
    }

    /// Says why a guest stopped, and keeps its log.
    fn stopped(&self, folder: &mut Folder, why: &GuestError) -> ReplayError {
        folder.kept = true;
        self.fail(why)
    }
}

/// A folder for the guest's files. It goes with this, but for the log of a guest that failed.
struct Folder {
    path: PathBuf,
    kept: bool,
}

impl Folder {
    fn new() -> io::Result<Folder> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            // ORDER: Relaxed: the number only has to be another one each time.
            let name = format!("pageyard-guest-{}-{}", std::process::id(), NEXT.fetch_add(1, Relaxed));
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| Folder { path, kept: false }),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = match self.kept {
            true => std::fs::remove_file(self.path.join("exchange")),
            false => std::fs::remove_dir_all(&self.path),
        };
    }
}

fn frames_of(region: &Region) -> impl Iterator<Item = Pfn> + use<> {
    let (start, end) = (region.start.0, region.end().0);
    (start..end).map(Pfn)
}

/// Counts the requests that both answered with the same frame, and finds the first that they did not: the request and
/// its step, both counted from 0.
fn compared(answers: &Answers, by_reference: &[u32]) -> (u64, Option<(u64, u32)>) {
    let (mut same, mut first) = (0, None);
    for (n, (step, got)) in (0..).zip(answers.frames()) {
        if got == frame(by_reference[step as usize]) {
            same += 1;
        } else if first.is_none() {
            first = Some((n, step));
        }
    }
    (same, first)
}

fn frame(answer: u32) -> Option<Pfn> {
    (answer != NO_FRAME).then_some(Pfn(u64::from(answer)))
}

/// A replay and its guest's answers, for carrying its steps out in the reference again.
struct Again<'a> {
    trial: &'a Trial<'a>,
    map: &'a MemoryMap<'a>,
    lost: &'a [Pfn],
    answers: &'a Answers,
    steps: &'a [Step],
}

impl Again<'_> {
    /// Says what is known of the first request, a step, that the kernel and its reference answered otherwise.
    fn explained(&self, (request, step): (u64, u32), config: &Config) -> Result<Parted, String> {
        let (upto, at) = (&self.steps[..=step as usize], step as usize);
        let (by_reference, counters) = self.carried_out(config, upto)?;
        let agrees = |config: &Config| {
            // What differs no later does not explain it. Without a rule, the opening may be none that the reference can
            // be in.
            let agree = |steps| {
                let (by_reference, _) = self.carried_out(config, steps).ok()?;
                let answered = self.answers.frames().take_while(|(n, _)| (*n as usize) < steps.len());
                Some(answered.take_while(|(n, got)| *got == frame(by_reference[*n as usize])).count() as u64)
            };
            match agree(upto) {
                Some(n) if n > request => agree(self.steps).unwrap_or(n),
                n => n.unwrap_or(0),
            }
        };
        let rule = config.rule_that_explains(request, agrees);
        let got = self.answers.frames().find(|(n, _)| *n == step).and_then(|(_, got)| got);
        Ok(Parted {
            request: described(&request_of(&self.steps[at])),
            cpu: self.steps[at].cpu,
            kernel: got.map(|pfn| pfn.0),
            reference: frame(by_reference[at]).map(|pfn| pfn.0),
            counters,
            rule: rule.as_ref().map(|(rule, _)| rule.to_string()),
            same_with_rule: rule.map(|(_, same)| same),
        })
    }

    /// Opens a reference and carries steps out. Returns its answers, and which counters the last step moved.
    fn carried_out(&self, config: &Config, steps: &[Step]) -> Result<(Vec<u32>, Vec<&'static str>), String> {
        let reference = LinuxAllocator::new(self.map, config).map_err(|why| why.to_string())?;
        let nothing = Steps::default();
        let engine = KernelEngine::new(reference, self.map, config.cpus, &nothing, None);
        let mut calls = KernelPlan::new(&nothing);
        let open = Run::open(&engine, self.trial, |_| BELOW_A_PAGEBLOCK, |pfn, _| calls.hold(pfn));
        let mut run = open.map_err(|why| why.to_string())?;
        self.lost.iter().for_each(|pfn| run.walk.forget(&mut calls, *pfn));
        drop(run);
        let reference = engine.reference();
        let mut before = PageAllocator::stats(reference);
        let answers = carried_out_with(reference, steps, &mut |n, _| {
            if n + 1 == steps.len() {
                before = PageAllocator::stats(reference);
            }
        });
        let after = PageAllocator::stats(reference);
        let moved = before.iter().zip(after.iter()).filter(|((_, was), (_, is))| was != is);
        Ok((answers, moved.map(|((counter, _), _)| counter.name()).collect()))
    }
}

/// Writes the calls down, and returns what the guest opens with.
fn plan(
    trial: &Trial<'_>,
    engine: &KernelEngine<'_>,
    (mapping, lost): (&Mapping, &[Pfn]),
    steps: &Steps,
) -> Result<GuestOpening, ReplayError> {
    let mut calls = KernelPlan::new(steps);
    let mut run = Run::open(engine, trial, |_| BELOW_A_PAGEBLOCK, |pfn, _| calls.hold(pfn))?;
    lost.iter().for_each(|pfn| run.walk.forget(&mut calls, *pfn));
    let opened = guest_opening(engine, mapping);
    let nothing = crate::bitmap::FrameSet::new(Pfn(0));
    engine.asked_by(Asker::Clock);
    run.clock.sample(0, &nothing);
    run.rows(trial, &mut |_, _| (), |run, row| {
        if run.clock.tick(row.time_ns()) {
            run.clock.sample(row.time_ns(), &nothing);
        }
        run.walk.row(&mut calls, row);
    })?;
    run.clock.sample_last(&nothing);
    // What is asked at the end is asked in the last state.
    steps.add(Step::new(StepKind::Sample, 0, 0, 0, 0));
    Ok(opened)
}

/// Goes through the replay again, answered by what the guest did.
fn read(
    trial: &Trial<'_>,
    engine: &KernelEngine<'_>,
    lost: &[Pfn],
) -> Result<(EventCounts, EngineReport), ReplayError> {
    let mut calls = Direct::new(engine, trial.machine, 0, trial.refusals(), ());
    let mut run = Run::open(engine, trial, |_| BELOW_A_PAGEBLOCK, |pfn, order| calls.hold(pfn, order))?;
    lost.iter().for_each(|pfn| run.walk.forget(&mut calls, *pfn));
    engine.asked_by(Asker::Clock);
    run.clock.sample(0, calls.held());
    run.rows(trial, &mut |_, _| (), |run, row| {
        if run.clock.tick(row.time_ns()) {
            run.clock.sample(row.time_ns(), calls.held());
        }
        if run.clock.score_is_due(row) {
            run.clock.sample_score(calls.held());
        }
        engine.asked_by(Asker::Row);
        run.walk.row(&mut calls, row);
        engine.asked_by(Asker::Clock);
    })?;
    run.clock.sample_last(calls.held());
    run.clock.sample_score(calls.held());
    let totals = CallTotals {
        // The guest is emulated: its calls are not timed.
        alloc: None,
        free: None,
        failures: calls.failures,
        refusals: calls.refusals,
        served_elsewhere: None,
        held_frames: calls.held_frames,
        waiting: None,
        slow_path: None,
    };
    run.finish(trial, totals)
}

/// Returns a step with the guest's frames for the recording's.
fn in_guest(step: &Step, mapping: &Mapping) -> Step {
    match step.kind {
        StepKind::FreeAt => {
            let arg = mapping.there(Pfn(u64::from(step.arg))).unwrap_or(u32::MAX);
            Step { arg, ..*step }
        }
        _ => *step,
    }
}

/// Returns the reference's state in the guest's frames.
fn guest_opening(engine: &KernelEngine<'_>, mapping: &Mapping) -> GuestOpening {
    let mut out = GuestOpening::default();
    let state = engine.reference().opening();
    for (span, zone) in engine.spans().iter().zip(&state.zones) {
        let first = span.start.pageblock();
        for (n, m) in zone.types.iter().enumerate() {
            let pfn = Pfn((first.index() as u64 + n as u64) * 512);
            if let Some(there) = mapping.there(pfn) {
                out.types.push([there / 512, m.index() as u32]);
            }
        }
        for list in &zone.free {
            let blocks: Vec<u32> = list.blocks.iter().filter_map(|pfn| mapping.there(*pfn)).collect();
            out.lists.extend([
                u32::from(list.order.get()),
                list.migratetype.index() as u32,
                blocks.len() as u32,
            ]);
            out.lists.extend(blocks);
        }
        let movable = zone.movable.iter().flat_map(|(start, frames)| start.0..start.0 + frames.0);
        out.movable.extend(movable.filter_map(|pfn| mapping.there(Pfn(pfn))));
        let kind = span.kind as u32;
        for (cpu, lists) in (0..).zip(&zone.cpus) {
            out.highs.push([cpu, kind, u32::try_from(lists.high).unwrap_or(u32::MAX), 0]);
            for (list, blocks) in (0..).zip(&lists.lists).filter(|(_, blocks)| !blocks.is_empty()) {
                let order = if list < 12 { Order::of((list / 3) as u8) } else { pageyard::PAGEBLOCK_ORDER };
                let blocks: Vec<_> = blocks
                    .iter()
                    .filter_map(|(pfn, m)| Some([mapping.there(*pfn)?, m.index() as u32]))
                    .collect();
                out.cached.extend([cpu, kind, list, u32::from(order.get()), blocks.len() as u32]);
                out.cached.extend(blocks.iter().flatten());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::distance::Baselines;
    use super::super::host::Host;
    use super::super::kernel_plan::carried_out_with;
    use super::super::run::SAMPLES;
    use super::super::walk::Follow;
    use super::*;
    use crate::engine::{EngineSpec, ReplayEngine};
    use crate::machine::Machine;
    use pageyard::ZoneKind;
    use pageyard::{
        ClaimError, CpuId, Cx, Frames, Migratetype, NodeId, PageAllocator, PageblockId, Region, ZoneId,
    };
    use pageyard_guest::exchange::{
        FrameMap, GuestSample, GuestZone, ORDERS, Replayed, SampledZone, TYPES, ZONES,
    };
    use pageyard_trace::Trace;
    use std::time::Duration;

    #[test]
    fn a_guest_lends_nothing() {
        let regions = [Region::managed(Pfn(0), Frames(4 * 512), NodeId(0), ZoneKind::Normal)];
        let map = MemoryMap::new(&regions).unwrap();
        let config = Config { cpus: 1, ..Config::preset("linux-6.12").unwrap() };
        let steps = Steps::default();
        let engine = KernelEngine::new(LinuxAllocator::new(&map, &config).unwrap(), &map, 1, &steps, None);
        let kinds =
            [Migratetype::Cma, Migratetype::Isolate, Migratetype::HighAtomic, Migratetype::Reclaimable];
        for (block, m) in (0..).map(PageblockId).zip(kinds) {
            engine.set_pageblock_migratetype(block, m);
        }
        let opened = &engine.reference().opening().zones[0].types;
        let movable = Migratetype::Movable;
        assert_eq!(opened[..], [movable, movable, Migratetype::HighAtomic, Migratetype::Reclaimable]);
    }

    /// Samples the reference's zones in the form that a guest reports.
    fn sampled(reference: &LinuxAllocator, step: u64, cpus: u32) -> GuestSample {
        let none = SampledZone {
            free: 0,
            boost: 0,
            highatomic: 0,
            blocks: [[0; TYPES]; ORDERS],
            pageblocks: [0; TYPES],
            lists: vec![(0, 0); cpus as usize],
        };
        let mut zones: [SampledZone; ZONES] = std::array::from_fn(|_| none.clone());
        for id in (0..).map(ZoneId) {
            let Some(stats) = reference.zone_stats(id) else { break };
            let zone = &mut zones[stats.span.kind as usize];
            zone.free = stats.free.0;
            for (order, m) in (0..ORDERS).flat_map(|o| (0..TYPES).map(move |m| (o, m))) {
                zone.blocks[order][m] = stats.free_blocks[order][m];
            }
            for (cpu, list) in (0..cpus).zip(&mut zone.lists) {
                let pcp = reference.pcp_stats(id, CpuId(cpu)).unwrap();
                *list = (pcp.count, pcp.high);
            }
        }
        GuestSample { step, zones }
    }

    /// A guest that does what the reference does is reported as the reference is: the same frames, samples, lists and
    /// distances.
    #[test]
    fn answers_are_reported_as_an_engines_own_are() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/build.trace");
        let trace = Trace::open(&path).unwrap();
        let mut machine = Machine::read(&trace, &mut |_, _| ()).unwrap();
        let opening = machine.open(&mut |_, _| ()).unwrap();
        let (guest, wanted) = machine.guest().unwrap();
        assert_eq!(wanted.managed.iter().sum::<u64>(), machine.managed().0);
        assert!(guest.low_mib + guest.high_mib < 14_000 && guest.cpus == 2, "{guest:?}");

        // A guest whose zones lie elsewhere and lack a few frames.
        let ends = [4096, 1 << 20, guest.end()];
        let mut words = vec![u64::MAX; (guest.end() / 64) as usize];
        words[3] = 0;
        let mut start = 0;
        let zones: [GuestZone; ZONES] = std::array::from_fn(|kind| {
            let Some(end) = ends.get(kind) else { return GuestZone::default() };
            let zone = GuestZone { start, spanned: end - start, ..GuestZone::default() };
            start = *end;
            zone
        });
        let taken = FrameMap::from_words(words);
        let (mapping, lost) = machine.map_to(&zones, &taken).unwrap();
        assert_eq!(lost, [], "those frames are not managed in the recording");

        let spec =
            EngineSpec::parse("linux-6.12", &[]).unwrap().with_min_free_kbytes(machine.min_free_kbytes);
        let regions = machine.regions();
        let map = MemoryMap::new(&regions).unwrap();
        let spans: Vec<_> = map.zones().map(|(_, span)| span).collect();
        let host = Host::read(&trace, &spans).unwrap();
        let baselines = Baselines::read(&trace, &host, None, &spans).unwrap();
        let (host, view) = ((host, baselines), FreeView::new(&machine));
        let trial = Trial {
            spec: &spec,
            trace: &trace,
            machine: &machine,
            opening: &opening,
            view: &view,
            host: &host,
            samples: SAMPLES,
            series: false,
            follow: Follow::default(),
            seed: 0,
            since: (Instant::now(), Duration::ZERO),
            ahead: None,
            faults: None,
        };
        let mut config = Config { cpus: machine.cpus, ..Config::preset("linux-6.12").unwrap() };
        config.watermark.min_free_kbytes = machine.min_free_kbytes;
        let build = || LinuxAllocator::new(&map, &config).unwrap();

        let steps = Steps::default();
        let writing = KernelEngine::new(build(), &map, machine.cpus, &steps, None);
        let opened = plan(&trial, &writing, (&mapping, &lost), &steps).unwrap();
        let recorded = steps.take();
        let reference = writing.reference();
        let mut samples = Vec::new();
        let by_reference = carried_out_with(reference, &recorded, &mut |n, step| {
            if step.kind == StepKind::Sample {
                samples.push(sampled(reference, n as u64, machine.cpus));
            }
        });
        let there = |pfn: &u32| mapping.there(Pfn(u64::from(*pfn))).unwrap_or(NO_FRAME);
        let mut free = vec![0u64; (guest.end() / 64) as usize];
        let mut cached = free.clone();
        let mark = |map: &mut Vec<u64>, pfn: Pfn, order: Order| {
            for f in pfn.0..pfn.0 + order.frames().0 {
                let at = mapping.there(Pfn(f)).unwrap();
                map[(at / 64) as usize] |= 1 << (at % 64);
            }
        };
        for zone in &reference.opening().zones {
            for list in &zone.free {
                list.blocks.iter().for_each(|pfn| mark(&mut free, *pfn, list.order));
            }
            for (list, blocks) in zone.cpus.iter().flat_map(|cpu| cpu.lists.iter().enumerate()) {
                let order = if list < 12 { Order::of((list / 3) as u8) } else { pageyard::PAGEBLOCK_ORDER };
                blocks.iter().for_each(|(pfn, _)| mark(&mut cached, *pfn, order));
            }
        }
        let replayed = Replayed {
            answers: by_reference.iter().map(there).collect(),
            samples,
            free: FrameMap::from_words(free),
            cached: FrameMap::from_words(cached),
            ..Replayed::default()
        };
        let managed = regions.iter().filter(|r| r.managed).flat_map(frames_of);
        let answers = Answers::new(&replayed, &recorded, zones, &mapping, managed);
        assert_eq!(answers.strays, 0);
        assert_eq!(compared(&answers, &by_reference), (310_967, None));
        let mut otherwise = by_reference.clone();
        let third = recorded.iter().enumerate().filter(|(_, s)| s.kind == StepKind::Alloc).nth(2).unwrap().0;
        otherwise[third] = NO_FRAME;
        assert_eq!(compared(&answers, &otherwise), (310_966, Some((2, third as u32))));

        // A kernel with another rule: it is named, and with it all requests agree.
        let mut other = config.clone();
        other.set("fallback", "alike").unwrap();
        let again = |answers| Again { trial: &trial, map: &map, lost: &lost, answers, steps: &recorded };
        let (by_other, _) = again(&answers).carried_out(&other, &recorded).unwrap();
        let replayed = Replayed { answers: by_other.iter().map(there).collect(), ..Replayed::default() };
        let theirs = Answers::new(&replayed, &recorded, zones, &mapping, std::iter::empty());
        let (same, first) = compared(&theirs, &by_reference);
        let parted = again(&theirs).explained(first.unwrap(), &config).unwrap();
        assert!(same < 310_967 && parted.kernel != parted.reference);
        assert!(parted.rule.unwrap().starts_with("fallback=alike: "));
        assert_eq!(parted.same_with_rule, Some(310_967));

        let reading = KernelEngine::new(build(), &map, machine.cpus, &steps, Some(answers));
        let (_, mut ours) = read(&trial, &reading, &lost).unwrap();
        // What the host moved stays where it was: a frame that is free in the opening may be another's in the guest.
        let state = reading.reference().opening();
        let free = state.zones[1].free.iter().find(|list| list.order == Order::ZERO).unwrap().blocks[0];
        let moved = reading.claim_exact(&Cx::on(CpuId(0)), free, Order::ZERO, Migratetype::Movable);
        assert_eq!(moved, Err(ClaimError::NotFree));
        let options = super::super::run::ReplayOptions::default();
        let spec = [EngineSpec::parse("linux-6.12", &[]).unwrap()];
        let theirs =
            &super::super::run::replay(&trace, &spec, &options, &mut |_, _, _| ()).unwrap().engines[0];
        assert_eq!(ours.samples, theirs.samples);
        assert_eq!(ours.buddyinfo, theirs.buddyinfo);
        assert_eq!(ours.prediction, theirs.prediction);
        assert_eq!(ours.distance, theirs.distance);
        assert_eq!((ours.leaked_frames, theirs.leaked_frames), (Some(0), Some(0)));
        assert!(ours.alloc.is_none() && theirs.alloc.is_some(), "the guest's calls are not timed");
        assert!(ours.is_sound() && ours.failures == theirs.failures);
        let census =
            |report: &EngineReport| report.audit.as_ref().map(|c| (c.free, c.cached, c.allocated)).ok();
        assert_eq!(census(&ours), census(theirs));

        // The figures that a kernel's replay does not have are left out, and a count of fallbacks is not.
        let in_kernel = InKernel {
            release: "6.12.0".to_owned(),
            frames_not_mapped: 0,
            blocks_misplaced: 0,
            reference: config.name,
            same_as_reference: 310_967,
            requests: 310_967,
            first_otherwise: None,
            parted: None,
            beside: None,
            answered: Vec::new(),
        };
        ours.in_kernel(ours.seconds, in_kernel);
        let json = serde_json::to_value(&ours).unwrap();
        for (key, of_kernel) in [
            ("alloc_ns", false),
            ("free_ns", false),
            ("one_call_timed_in", false),
            ("compact_stall", false),
            ("pgsteal", false),
            ("fallbacks", true),
            ("fallbacks_by_kind", true),
            ("low_watermark_hits", true),
        ] {
            assert_eq!(json.get(key).is_some(), of_kernel, "{key}");
        }
        assert_eq!(json["counters"].as_object().unwrap().len(), 2);

        // The guest opens with just the frames that nothing holds.
        let mut at = opened.lists.as_slice();
        let mut frames = 0;
        while let [order, _, blocks, rest @ ..] = at {
            frames += u64::from(*blocks) << order;
            at = &rest[*blocks as usize..];
        }
        assert_eq!(frames, theirs.samples[0].free);
    }
}
