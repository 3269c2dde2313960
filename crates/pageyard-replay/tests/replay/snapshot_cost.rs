//! What snapshots cost, of recordings and of replays of them.

use crate::made::{KERNEL, alloc, event, free, memory, trace};
use pageyard_replay::engine::EngineSpec;
use pageyard_replay::snapshot_cost::{snapshot_cost, snapshot_cost_on};
use pageyard_trace::{EventKind, FrameKind, Trace};
use std::path::Path;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn a_replay_keeps_what_the_engine_holds_at_the_end() {
    let events = [
        alloc(2048, 9),
        event(EventKind::Alloc, 5000, 0, KERNEL),
        alloc(8192, 3),
        free(2048, 9),
        free(8192, 3),
    ];
    let trace = trace("snapshot-cost", &events, memory(FrameKind::Slab), None);
    let spec = EngineSpec::parse("linux-6.18", &[]).unwrap();
    let cost = snapshot_cost_on(&trace, &spec, SECOND, &mut |_, _, _| ()).unwrap();
    // Of 64 MiB two pageblocks are slab, and one frame is the kernel's; the rest is free again.
    assert_eq!((cost.live_frames, cost.free_frames), (1025, 15 * 1024 - 1));
    let huge = &cost.chunks[1];
    assert_eq!((huge.chunks, huge.live, huge.kept_by_one, huge.kept_frames), (32, 3, 1, 3 * 512));
    assert_eq!(cost.reporting[0].frames, cost.free_frames, "all that is free could be reported");
    assert_eq!(cost.reporting[9].blocks, 29);
    // What was allocated was written to, and nothing was moved.
    let pages = &cost.dirtied[0];
    assert_eq!((pages.in_all, pages.by_moves), (512 + 1 + 8, 0.0));
}

#[test]
fn a_replay_of_a_guest_has_the_guest_s_memory() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/traces/guest-6.12-atomic.trace");
    let trace = Trace::open(&path).unwrap();
    let recorded = snapshot_cost(&trace, SECOND, &mut |_, _| ()).unwrap();
    let spec = EngineSpec::parse("linux-6.12", &[]).unwrap();
    let replayed = snapshot_cost_on(&trace, &spec, SECOND, &mut |_, _, _| ()).unwrap();
    let all = |cost: &pageyard_trace::contents::SnapshotCost| cost.live_frames + cost.free_frames;
    assert_eq!(all(&recorded), all(&replayed));
    assert_eq!(recorded.chunks[1].chunks, replayed.chunks[1].chunks);
    // The replay's verdict has the replay in it.
    let replays = |cost: &pageyard_trace::contents::SnapshotCost| cost.trust.as_ref().unwrap().replays.len();
    assert_eq!((replays(&recorded), replays(&replayed)), (0, 1));
    // The calls are the same; where they were served is not.
    assert_eq!(recorded.dirtied[0].by_moves > 0.0, replayed.dirtied[0].by_moves > 0.0);
    let near = recorded.live_frames.abs_diff(replayed.live_frames) * 100;
    assert!(near < all(&recorded) * 5, "{} and {} live frames", recorded.live_frames, replayed.live_frames);
    // An engine in a guest cannot be followed.
    let kernel = EngineSpec::parse("kernel:6.12", &[]).unwrap();
    let refused = snapshot_cost_on(&trace, &kernel, SECOND, &mut |_, _, _| ()).unwrap_err().to_string();
    assert!(refused.contains("kernel:6.12"), "{refused}");
}
