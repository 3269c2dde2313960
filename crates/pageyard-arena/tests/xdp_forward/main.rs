//! The example `xdp-forward`: its parts that need neither root nor packets, with the tests that stand in them, and the
//! whole command.

mod command;

#[allow(dead_code, reason = "the tests of other parts need a part of it")]
#[path = "../../examples/xdp-forward/board.rs"]
mod board;
#[allow(dead_code, reason = "as above")]
#[path = "../../examples/xdp-forward/frames/mod.rs"]
mod frames;
#[allow(dead_code, reason = "as above")]
#[path = "../../examples/xdp-forward/packet.rs"]
mod packet;
#[allow(dead_code, reason = "as above")]
#[path = "../../examples/xdp-forward/shared.rs"]
mod shared;
