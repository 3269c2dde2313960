//! The command as a user meets it.

mod compare;
mod doctor;
mod export;
mod external;
mod knobs;
mod limits;
mod map;
mod numbers;
mod printed;
mod recording;
mod router;
mod sampled;
mod schemas;
mod series;
mod verbs;
mod watch;
mod what_if;
