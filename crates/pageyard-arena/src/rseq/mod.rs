//! Restartable sequences: per-CPU lists that threads and signal handlers use without a lock, a mask or an atomic
//! instruction.
//!
//! * `answers`: why they are unavailable; what interrupted them.
//! * `area`: each thread's area that the kernel writes, and who registered it; [`current_cpu`].
//! * `barrier`: `membarrier`, by which one thread makes the sequences of another CPU restart.
//! * `sequences`: the sequences, in assembly; `emit`: what they have in common.
//! * `locked`: what a locked instruction costs here; `stepped`: how many of them a call takes.
//! * `percpu`: [`Rseq`], the engine's variant; [`Counts`], what interrupted it.
//! * `stack`: the smallest thing that such sequences can do, a floor for benchmarks.
//!
//! Why each is correct at every instruction: `docs/design/pcp.md`.

mod answers;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod area;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod barrier;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod emit;
mod locked;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod percpu;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod sequences;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stack;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod stepped;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
mod absent;

pub use answers::{Counts, Unavailable};
pub use locked::bias_pays;

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use area::{Registered, current_cpu, possible_cpus, register_thread};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use percpu::{BiasedRseq, Rseq};
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use stack::CpuStacks;
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
pub use stepped::locked_instructions;

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
pub use absent::{BiasedRseq, CpuStacks, Registered, Rseq, current_cpu, possible_cpus, register_thread};
