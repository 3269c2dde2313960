//! Recording and importing, and this host's memory.

mod host;
mod hostile;
mod perf;
mod perfetto;
mod recording;
mod tracecmd;
