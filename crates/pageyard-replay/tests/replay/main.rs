//! Replays of made-up and of recorded traces, and workloads.

mod bounds;
mod distance;
mod early;
mod host_state;
mod made;
mod made_up;
mod moves;
mod openings;
mod recorded;
mod recorder;
mod refusals;
mod series;
mod snapshot_cost;
mod story;
mod workload;
