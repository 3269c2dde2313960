//! Runs settings, each once: claims share many.

use super::super::report::RouterFigures;
use super::super::run::{Effort, route};
use super::super::settings::{Coalescing, RouterSettings};
use crate::error::BenchError;
use std::sync::{Mutex, PoisonError};

/// The results and the effort of settings that this process has run. One seed has one result.
static KNOWN: Mutex<Vec<(RouterSettings, RouterFigures, Effort)>> = Mutex::new(Vec::new());

/// Runs settings and remembers what came of them.
pub(crate) struct Lab {
    quick: bool,
    known: Vec<(RouterSettings, RouterFigures)>,
    effort: Effort,
}

impl Lab {
    /// Makes one; a quick one simulates less time, too little for large rings to settle under overload.
    pub fn new(quick: bool) -> Lab {
        Lab { quick, known: Vec::new(), effort: Effort::default() }
    }

    /// Returns what came of a setting.
    ///
    /// # Errors
    /// As [`route`].
    pub fn run(&mut self, settings: &RouterSettings) -> Result<RouterFigures, BenchError> {
        let settings = self.timed(settings);
        if let Some((_, figures)) = self.known.iter().find(|(known, _)| *known == settings) {
            return Ok(figures.clone());
        }
        let (figures, effort) = ran(&settings)?;
        self.effort.add(effort);
        self.known.push((settings, figures.clone()));
        Ok(figures)
    }

    /// The same with other parameters set.
    ///
    /// # Errors
    /// As [`route`].
    pub fn with(
        &mut self,
        settings: &RouterSettings,
        set: &[(&str, &str)],
    ) -> Result<RouterFigures, BenchError> {
        self.run(&settings.with(set))
    }

    /// Says what all runs took.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Sets for how long a setting is simulated, so that queues have settled before anything is counted.
    ///
    /// A host that is offered more than it can forward fills its receive rings first: 458,752 descriptors at most, of
    /// which some 5 million a second are filled. Adaptive coalescing looks at its rate every 64 interrupts, and takes
    /// several such looks.
    fn timed(&self, settings: &RouterSettings) -> RouterSettings {
        /// From so much on, Gbit/s, a claim means more than the host can forward.
        const OVERLOAD: f64 = 100.0;
        let adaptive = settings.rx.kind == Coalescing::Adaptive || settings.tx.kind == Coalescing::Adaptive;
        let slow = adaptive || settings.offered_gbit >= OVERLOAD;
        let (warm_up_us, run_us) = match (slow, self.quick) {
            (false, false) => (10_000, 20_000),
            (false, true) => (4_000, 6_000),
            (true, false) => (80_000, 20_000),
            (true, true) => (35_000, 5_000),
        };
        RouterSettings { warm_up_us, run_us, ..settings.clone() }
    }
}

/// Runs a setting, unless another lab of this process has.
fn ran(settings: &RouterSettings) -> Result<(RouterFigures, Effort), BenchError> {
    // Kept while it runs: who asks for the same meanwhile waits for it.
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, figures, effort)) = known.iter().find(|(known, ..)| known == settings) {
        return Ok((figures.clone(), *effort));
    }
    let routed = route(settings)?;
    known.push((settings.clone(), routed.figures.clone(), routed.effort));
    Ok((routed.figures, routed.effort))
}
