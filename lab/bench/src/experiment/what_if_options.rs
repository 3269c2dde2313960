//! Where the experiment `what-if` tries settings.

use std::path::PathBuf;

/// Where settings are tried, and by which order.
#[derive(Clone, Debug)]
pub struct Options {
    /// On this host.
    pub host: bool,
    /// In a guest with the kernel of the package that is unpacked there.
    pub guest: Option<PathBuf>,
    /// Also runs loads on the host that set nearly all of its memory aside: for a host that has nothing else to do. In
    /// a guest they run anyway.
    pub pieces: bool,
    /// The names of the loads to run; all where there is none.
    pub loads: Vec<String>,
    /// Decides the loads' choices, and the order of the runs.
    pub seed: u64,
    /// Where recordings and predictions go; it is made.
    pub folder: PathBuf,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            host: true,
            guest: None,
            pieces: false,
            loads: Vec::new(),
            seed: 1,
            folder: PathBuf::from("what-if"),
        }
    }
}
