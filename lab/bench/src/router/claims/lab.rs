//! Runs settings, each once: claims share many, and several threads ask at once.

use super::super::report::RouterFigures;
use super::super::run::{Effort, route};
use super::super::settings::{Coalescing, RouterSettings};
use super::super::throughput::{Trials, limit, limit_after_surge};
use crate::error::BenchError;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A setting, and what came of it once somebody ran it.
struct Known {
    settings: RouterSettings,
    routed: OnceLock<Result<(RouterFigures, Effort), String>>,
}

/// The settings that this process has run. One seed has one result.
static KNOWN: Mutex<Vec<Arc<Known>>> = Mutex::new(Vec::new());

/// Runs settings and remembers what came of them.
pub(crate) struct Lab {
    quick: bool,
    asked: Mutex<Vec<Arc<Known>>>,
}

impl Lab {
    /// Makes one; a quick one simulates less time, too little for large rings to settle under overload, and searches no
    /// limits.
    pub fn new(quick: bool) -> Lab {
        Lab { quick, asked: Mutex::new(Vec::new()) }
    }

    /// Returns whether it is a quick one.
    pub fn is_quick(&self) -> bool {
        self.quick
    }

    /// Returns what came of a setting.
    ///
    /// # Errors
    /// As [`route`].
    pub fn run(&self, settings: &RouterSettings) -> Result<RouterFigures, BenchError> {
        let known = known(&self.timed(settings));
        let routed = known.routed.get_or_init(|| {
            let routed = route(&known.settings).map_err(|e| e.to_string())?;
            Ok((routed.figures, routed.effort))
        });
        let figures = match routed {
            Ok((figures, _)) => figures.clone(),
            Err(why) => return Err(BenchError::Experiment { why: why.clone() }),
        };
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if !asked.iter().any(|k| Arc::ptr_eq(k, &known)) {
            asked.push(known);
        }
        Ok(figures)
    }

    /// The same with other parameters set.
    ///
    /// # Errors
    /// As [`route`].
    pub fn with(&self, settings: &RouterSettings, set: &[(&str, &str)]) -> Result<RouterFigures, BenchError> {
        self.run(&settings.with(set))
    }

    /// Returns the highest rate that a setting forwards without loss, Gbit/s; `None` where it loses packets at any.
    ///
    /// # Errors
    /// As [`route`].
    pub fn limit(&self, settings: &RouterSettings) -> Result<Option<f64>, BenchError> {
        limit(settings, Trials::FULL, &mut |setting| self.run(setting))
    }

    /// The same after a surge.
    ///
    /// # Errors
    /// As [`route`].
    pub fn limit_after_surge(&self, settings: &RouterSettings) -> Result<Option<f64>, BenchError> {
        limit_after_surge(settings, Trials::FULL, &mut |setting| self.run(setting))
    }

    /// Says what all settings that were asked for took, each once.
    pub fn effort(&self) -> Effort {
        let mut all = Effort::default();
        for known in self.asked.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            if let Some(Ok((_, effort))) = known.routed.get() {
                all.add(*effort);
            }
        }
        all
    }

    /// Sets for how long a setting is simulated, so that queues have settled before anything is counted.
    ///
    /// A host that is offered more than it can forward fills its receive rings first: 458,752 descriptors at most, of
    /// which some 5 million a second are filled. Adaptive coalescing looks at its rate every 64 interrupts, and takes
    /// several such looks. A quick run saves the time where neither is likely.
    fn timed(&self, settings: &RouterSettings) -> RouterSettings {
        /// From so much on, Gbit/s, a claim may mean more than the host can forward.
        const OVERLOAD: f64 = 100.0;
        if !self.quick {
            return Trials::FULL.timed(settings);
        }
        let adaptive = settings.rx.kind == Coalescing::Adaptive || settings.tx.kind == Coalescing::Adaptive;
        let slow = adaptive || settings.offered_gbit >= OVERLOAD;
        let (warm_up_us, run_us) = if slow { (35_000, 5_000) } else { (4_000, 6_000) };
        RouterSettings { warm_up_us, run_us, ..settings.clone() }
    }
}

/// Finds a setting among those known, or adds it. Who asks for one that is being run waits for it.
fn known(settings: &RouterSettings) -> Arc<Known> {
    let mut all = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = all.iter().find(|k| k.settings == *settings) {
        return Arc::clone(known);
    }
    let known = Arc::new(Known { settings: settings.clone(), routed: OnceLock::new() });
    all.push(Arc::clone(&known));
    known
}
