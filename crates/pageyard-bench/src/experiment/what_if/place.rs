//! Where settings are tried.

use super::figure::Figures;
use super::load::Load;
use super::setting::Baseline;
use std::path::PathBuf;

/// A machine on which loads are recorded and counted, each time from the same state.
pub trait Place {
    /// Returns what rows call it: `host`, or `guest`.
    fn name(&self) -> &'static str;

    /// Returns its kernel's release.
    fn kernel(&self) -> &str;

    /// Returns what its settings are.
    fn baseline(&self) -> &Baseline;

    /// Records a load with nothing changed, and returns where the trace is.
    ///
    /// # Errors
    /// One sentence.
    fn record(&mut self, load: &Load) -> Result<PathBuf, String>;

    /// Counts a load, with one setting changed or none.
    ///
    /// # Errors
    /// One sentence.
    fn count(&mut self, load: &Load, setting: Option<(&str, &str)>) -> Result<Figures, String>;
}

/// Names the preset of the reference that is nearest to a kernel's release, where there is one.
#[must_use]
pub fn preset(kernel: &str) -> Option<&'static str> {
    let mut numbers = kernel.split(['.', '-']).map(|n| n.parse::<u32>().ok());
    match (numbers.next()??, numbers.next()??) {
        (6, 18) => Some("linux-6.18"),
        (6, 12) => Some("linux-6.12"),
        (6, 1) => Some("linux-6.1"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::preset;

    #[test]
    fn only_kernels_that_the_reference_knows_have_a_preset() {
        assert_eq!(preset("6.18.44-fc-v669"), Some("linux-6.18"));
        assert_eq!(preset("6.12.117+deb12-cloud-amd64"), Some("linux-6.12"));
        assert_eq!(preset("6.1.0-56-cloud-amd64"), Some("linux-6.1"));
        for other in ["6.11.2", "5.10.0", "", "6", "x.y"] {
            assert_eq!(preset(other), None, "{other}");
        }
    }
}
