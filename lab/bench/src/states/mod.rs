//! The fragmentation bank: named states of memory in three degrees, from a seed or from a recording, as openings for
//! engines and kernels and as calls for any other allocator. `docs/design/states.md` describes them.
//!
//! * `memory`: frames, and what each holds; of a recording those in whole pageblocks;
//! * `degree`: how fragmented memory is, as asked for and as measured;
//! * `bank`: the states; `make`: memory laid out as one of them;
//! * `trace`: memory as a recording without events, with the texts of the reference in that state;
//! * `load`: what a recorded host did next, on the frames of the state;
//! * `calls`: memory as a list of calls, and an allocator that follows one.

mod bank;
mod calls;
mod degree;
mod document;
mod load;
mod make;
mod memory;
mod trace;

pub use bank::{BANK, Level, State};
pub use calls::{Followed, follow, write_calls};
pub use degree::{Degree, MOST_OFF, Measured};
pub use document::{StateRow, StatesDocument};
pub use load::Load;
pub use make::make;
pub use memory::{Content, Memory, Places};
pub use trace::StateTrace;
