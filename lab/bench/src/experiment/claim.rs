//! Claims: what a document says or a target asks, what was measured, and whether the two agree.

use super::figure::Figure;
use super::{Row, Rows};
use std::fmt::Write;

/// Who makes a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// The document that an experiment reproduces.
    Document,
    /// A target of this project.
    Target,
}

/// The outcome of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimOutcome {
    /// Every row that it rests on agrees.
    Reproduced,
    /// A row disagrees.
    Missed,
    /// This run is too small or too disturbed to say; why.
    NotCarried(String),
    /// It was not measured; why.
    Unmeasured(String),
}

impl ClaimOutcome {
    /// Returns its name in documents, and its class on a page.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ClaimOutcome::Reproduced => "reproduced",
            ClaimOutcome::Missed => "missed",
            ClaimOutcome::NotCarried(_) => "not_carried",
            ClaimOutcome::Unmeasured(_) => "unmeasured",
        }
    }

    /// Returns why there is no verdict, where there is none.
    #[must_use]
    pub fn why(&self) -> Option<&str> {
        match self {
            ClaimOutcome::NotCarried(why) | ClaimOutcome::Unmeasured(why) => Some(why),
            ClaimOutcome::Reproduced | ClaimOutcome::Missed => None,
        }
    }

    /// Judges an effect, in percent, by a condition. An effect no larger than the difference of a variant from itself
    /// says nothing.
    #[must_use]
    pub fn of_effect(holds: bool, effect: f64, pair: f64) -> ClaimOutcome {
        match effect.abs() <= pair.abs() {
            true => ClaimOutcome::NotCarried(format!(
                "the same variant measured twice differs by {:.1} %, which is no less",
                pair.abs()
            )),
            false => ClaimOutcome::of(holds),
        }
    }

    /// Judges a figure that has to be no less than what is asked, where another run of the same code may differ by
    /// `noise`, in its unit: closer to what is asked than that, it says nothing.
    #[must_use]
    pub fn at_least(figure: f64, asked: f64, noise: f64) -> ClaimOutcome {
        match (figure - asked).abs() < noise.abs() {
            true => ClaimOutcome::NotCarried(format!(
                "two runs may differ by {:.2}, and it is closer to what is asked",
                noise.abs()
            )),
            false => ClaimOutcome::of(figure >= asked),
        }
    }

    /// Judges a figure that has to be no more than what is asked, in the same way.
    #[must_use]
    pub fn at_most(figure: f64, asked: f64, noise: f64) -> ClaimOutcome {
        ClaimOutcome::at_least(-figure, -asked, noise)
    }

    /// Judges a figure that has to be no less than what is asked by the interval that its seeds leave it: one that
    /// holds what is asked says nothing.
    #[must_use]
    pub fn of_interval([low, high]: [f64; 2], asked: f64) -> ClaimOutcome {
        match (low >= asked, high < asked) {
            (true, _) => ClaimOutcome::Reproduced,
            (_, true) => ClaimOutcome::Missed,
            _ => ClaimOutcome::NotCarried(format!(
                "the seeds' interval, {low:.1} to {high:.1}, holds what is asked"
            )),
        }
    }

    /// Judges a sign by the share of the seeds that have it, in percent: all of them must agree.
    #[must_use]
    pub fn of_seeds(share: f64) -> ClaimOutcome {
        match share {
            100.0.. => ClaimOutcome::Reproduced,
            0.0 => ClaimOutcome::Missed,
            _ => ClaimOutcome::NotCarried("the seeds differ in sign".into()),
        }
    }

    /// Judges by a condition.
    #[must_use]
    pub fn of(holds: bool) -> ClaimOutcome {
        if holds { ClaimOutcome::Reproduced } else { ClaimOutcome::Missed }
    }
}

/// Rows that a claim rests on: a metric, where it was measured, and in which columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ground {
    /// The metric.
    pub metric: String,
    /// The table, and the machine and load, as rows have it.
    pub setting: String,
    /// The columns.
    pub columns: Vec<String>,
}

/// The weight of a quick run's figures for a claim.
#[derive(Clone, Copy, Debug)]
enum Quick {
    /// As much as a full run.
    Carries,
    /// Figures, but no verdict.
    TooSmall(&'static str),
    /// Nothing: its figures are of another machine or load.
    Elsewhere(&'static str),
}

/// A claim.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who makes it.
    pub by: By,
    /// The claim, as a sentence without a full stop.
    pub what: String,
    /// Where it stands: in the document, and which part of it.
    pub at: &'static str,
    /// The value to reach; empty if the sentence names it.
    pub asked: String,
    /// The published value; empty if there is none.
    pub published: String,
    /// The measured value; empty if nothing was measured, or if this run's figures do not belong to the claim.
    pub measured: String,
    /// Whether it holds.
    pub outcome: ClaimOutcome,
    /// The rows that it rests on.
    pub rows: Vec<Ground>,
    /// Its picture.
    pub figure: Option<Figure>,
    quick: Quick,
}

impl Claim {
    fn new(by: By, what: impl Into<String>) -> Claim {
        Claim {
            by,
            what: what.into(),
            at: "",
            asked: String::new(),
            published: String::new(),
            measured: String::new(),
            outcome: ClaimOutcome::Unmeasured("its rows are not there".into()),
            rows: Vec::new(),
            figure: None,
            quick: Quick::Carries,
        }
    }

    /// Begins a claim of the document, which was not measured until [`Claim::measured`] says otherwise.
    #[must_use]
    pub fn document(what: impl Into<String>) -> Claim {
        Claim::new(By::Document, what)
    }

    /// Begins a target of this project, likewise.
    #[must_use]
    pub fn target(what: impl Into<String>) -> Claim {
        Claim::new(By::Target, what)
    }

    /// Says where it stands.
    #[must_use]
    pub fn at(mut self, at: &'static str) -> Claim {
        self.at = at;
        self
    }

    /// Says what has to be reached.
    #[must_use]
    pub fn asked(mut self, asked: impl Into<String>) -> Claim {
        self.asked = asked.into();
        self
    }

    /// Says what was published, where it is known.
    #[must_use]
    pub fn published(mut self, published: Option<String>) -> Claim {
        self.published = published.unwrap_or_default();
        self
    }

    /// Says what was measured and what follows from it.
    #[must_use]
    pub fn measured(mut self, outcome: ClaimOutcome, measured: impl Into<String>) -> Claim {
        (self.outcome, self.measured) = (outcome, measured.into());
        self
    }

    /// Says why it was not measured.
    #[must_use]
    pub fn unmeasured(mut self, why: impl Into<String>) -> Claim {
        self.outcome = ClaimOutcome::Unmeasured(why.into());
        self
    }

    /// Adds rows that it rests on; those that are not there are left out.
    #[must_use]
    pub fn on<M: AsRef<str>>(mut self, rows: &Rows, metrics: &[M], columns: &[&str]) -> Claim {
        for metric in metrics {
            for row in columns.iter().filter_map(|c| rows.row(metric.as_ref(), c)) {
                self.rest(row);
            }
        }
        self
    }

    /// Adds a picture, and its rows.
    #[must_use]
    pub fn figure(mut self, figure: Figure) -> Claim {
        for row in figure.rows() {
            self.rest(row);
        }
        self.figure = Some(figure).filter(|f| !f.groups.is_empty());
        self
    }

    /// Says that a quick run measures too little for a verdict.
    #[must_use]
    pub fn quick_is_too_small(mut self, why: &'static str) -> Claim {
        self.quick = Quick::TooSmall(why);
        self
    }

    /// Says that a quick run's figures are of another machine or load.
    #[must_use]
    pub fn quick_is_elsewhere(mut self, why: &'static str) -> Claim {
        self.quick = Quick::Elsewhere(why);
        self
    }

    fn rest(&mut self, row: &Row) {
        let setting = row.whole_setting();
        match self.rows.iter_mut().find(|g| g.metric == row.metric && g.setting == setting) {
            Some(ground) if ground.columns.contains(&row.column) => {}
            Some(ground) => ground.columns.push(row.column.clone()),
            None => {
                let (metric, columns) = (row.metric.clone(), vec![row.column.clone()]);
                self.rows.push(Ground { metric, setting, columns });
            }
        }
    }

    /// Returns the claim as a quick run leaves it.
    #[must_use]
    pub fn of_a_quick_run(mut self) -> Claim {
        match self.quick {
            Quick::Carries => {}
            Quick::TooSmall(why) => self.outcome = ClaimOutcome::NotCarried(why.into()),
            Quick::Elsewhere(why) => {
                self.outcome = ClaimOutcome::NotCarried(why.into());
                self.measured.clear();
                self.figure = self.figure.and_then(Figure::published_only);
                for ground in &mut self.rows {
                    ground.columns.retain(|c| c.starts_with("published"));
                }
                self.rows.retain(|g| !g.columns.is_empty());
            }
        }
        self
    }

    /// Returns the claim as a checked build leaves it: without a verdict, since assertions are part of every figure.
    #[must_use]
    pub fn of_a_checked_build(mut self) -> Claim {
        if self.outcome.why().is_none() {
            self.outcome = ClaimOutcome::NotCarried("a checked build measures its assertions, too".into());
        }
        self
    }

    /// Returns the verdict in two words at most.
    #[must_use]
    pub fn mark(&self) -> &'static str {
        match (&self.outcome, self.by) {
            (ClaimOutcome::Reproduced, By::Document) => "reproduced",
            (ClaimOutcome::Reproduced, By::Target) => "reached",
            (ClaimOutcome::Missed, By::Document) => "not reproduced",
            (ClaimOutcome::Missed, By::Target) => "missed",
            (ClaimOutcome::NotCarried(_), _) => "not judged",
            (ClaimOutcome::Unmeasured(_), _) => "not measured",
        }
    }

    /// Returns it as one line.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = format!("{}: {}.", self.mark(), self.what);
        let parts = [("Asked", &self.asked), ("Published", &self.published), ("Here", &self.measured)];
        for (name, said) in parts.into_iter().filter(|(_, said)| !said.is_empty()) {
            let _ = write!(line, " {name}: {said}.");
        }
        if let Some(why) = self.outcome.why() {
            let _ = write!(line, " No verdict: {why}.");
        }
        line
    }
}

/// The marks, in the order in which a tally has them.
const MARKS: [&str; 6] = ["reproduced", "not reproduced", "reached", "missed", "not judged", "not measured"];

/// Counts claims by mark; marks without a claim are left out.
#[must_use]
pub fn tally(claims: &[Claim]) -> Vec<(&'static str, usize)> {
    let count = |mark: &&'static str| (*mark, claims.iter().filter(|c| c.mark() == *mark).count());
    MARKS.iter().map(count).filter(|(_, n)| *n > 0).collect()
}

/// Returns by how many percent the same variant, measured twice, differed at most in these rows; 0 where there is none.
#[must_use]
pub fn worst_pair<'a>(rows: impl Iterator<Item = &'a Row>) -> f64 {
    rows.filter(|r| r.metric.starts_with(PAIR)).map(|r| r.value.abs()).fold(0.0, f64::max)
}

/// The prefix of metrics of pairs of the same variant.
pub const PAIR: &str = "A/A ";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::samples::Samples;
    use fastrand::Rng;

    /// Samples of a variant that takes so long, each off by 3 % in the mean of squares, in turns that are themselves
    /// off by 10 %.
    fn samples(rng: &mut Rng, turns: &[f64], ns: f64) -> Samples {
        // The sum of twelve uniform numbers is close to a normal one of variance 1.
        let mut normal = || (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        Samples::new(turns.iter().map(|turn| ns * turn * (1.0 + 0.03 * normal())).collect())
    }

    /// The gain of a variant that takes `effect` percent less, and the pair of the first variant with itself.
    fn measured(rng: &mut Rng, effect: f64) -> (f64, f64) {
        let turns: Vec<f64> = (0..15).map(|_| 1.0 + 0.1 * rng.f64()).collect();
        let (a, b) = (samples(rng, &turns, 50.0), samples(rng, &turns, 50.0 * (1.0 - effect / 100.0)));
        let again = samples(rng, &turns, 50.0);
        (a.paired_gain(&b), a.paired_gain(&again))
    }

    #[test]
    fn planted_effects_of_one_and_a_half_intervals_are_found_and_none_is_where_none_was_planted() {
        let mut rng = Rng::with_seed(34);
        let mut pairs: Vec<f64> = (0..1000).map(|_| measured(&mut rng, 0.0).1.abs()).collect();
        pairs.sort_unstable_by(f64::total_cmp);
        let interval = pairs[950];
        let mut found = |effect: f64| {
            let judged = (0..100).map(|_| {
                let (gain, pair) = measured(&mut rng, effect);
                ClaimOutcome::of_effect(gain > 0.0, gain, pair)
            });
            judged.filter(|o| *o == ClaimOutcome::Reproduced).count()
        };
        assert!(found(1.5 * interval) >= 90, "{}", found(1.5 * interval));
        assert!(found(0.0) <= 35, "a pair and an effect of nothing are as likely either way: {}", found(0.0));
        assert_eq!(found(-1.5 * interval), 0);
        // Beside a target, whose noise is the whole interval, two intervals are needed.
        let mut reached = |off: f64| {
            let judged = (0..100).map(|_| {
                let (gain, _) = measured(&mut rng, 20.0 + off);
                ClaimOutcome::at_least(gain, 20.0, interval).name()
            });
            let all: Vec<&str> = judged.collect();
            ["reproduced", "missed"].map(|name| all.iter().filter(|o| **o == name).count())
        };
        let (above, below) = (reached(2.0 * interval), reached(-2.0 * interval));
        assert!(above[0] >= 90 && above[1] == 0, "{above:?}");
        assert!(below[1] >= 90 && below[0] == 0, "{below:?}");
    }

    #[test]
    fn a_figure_close_to_what_is_asked_says_nothing() {
        let outcome = |figure| ClaimOutcome::at_least(figure, 2.5, 0.125).name();
        assert_eq!(
            [2.2, 2.45, 2.56, 2.7].map(outcome),
            ["missed", "not_carried", "not_carried", "reproduced"]
        );
        let outcome = |figure| ClaimOutcome::at_most(figure, 1.0, 0.05).name();
        assert_eq!([0.9, 1.02, 1.1].map(outcome), ["reproduced", "not_carried", "missed"]);
        assert_eq!(ClaimOutcome::at_least(3.0, 3.0, 0.0), ClaimOutcome::Reproduced, "counts have no noise");
    }
}
