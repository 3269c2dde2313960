//! How far an answer can be trusted that stands on a recording, or on replays of one.
//!
//! The verdict is made in one place, here, and every text, page and document that stands on a recording begins with it.

use std::fmt;

use serde::Serialize;

use crate::meta::Meta;
use crate::text::{count, grouped, percent, shown};

/// The percentage of lost events from which on a trace no longer shows what happened: about the share of a compile
/// job's frees that are of memory older than its recording.
const UNFIT_PCT: f64 = 1.0;

/// A replay's refusals and the host's may differ by this factor, each with 1 added, before trust is limited.
const NEAR: f64 = 2.0;

/// From this factor on, the replay shows another host under pressure than the recorded one.
const FAR: f64 = 8.0;

/// The percentage of requests served in another zone than on the host from which on trust is limited.
const ELSEWHERE_PCT: f64 = 5.0;

/// Returns the lost events as a percentage of all; 0 where there were none.
#[must_use]
pub fn lost_pct(lost: u64, kept: u64) -> f64 {
    100.0 * lost as f64 / (lost as f64 + kept as f64).max(1.0)
}

/// Explains what losing `lost` events and keeping `kept` means; nothing where none were lost.
#[must_use]
pub fn lost_sentence(lost: u64, kept: u64) -> Option<String> {
    if lost == 0 {
        return None;
    }
    let pct = lost_pct(lost, kept);
    let lost = format!("{} lost, {pct:.2} % of all", were(lost, "event"));
    Some(if pct < UNFIT_PCT {
        format!("{lost}: every count is low by about as much")
    } else {
        format!(
            "{lost}: too many for a count or a replay to be trusted; record again, with less else running"
        )
    })
}

/// Writes `n` and the noun, and the verb that goes with them.
fn were(n: u64, noun: &str) -> String {
    format!("{} {}", count(n, noun), if n == 1 { "was" } else { "were" })
}

/// How far an answer can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum TrustLevel {
    /// Nothing that is known speaks against it.
    High,
    /// It holds with the reservations that the reasons name.
    Limited,
    /// It may be wrong about the host. No conclusion is drawn and no advice given, and counts are of what was seen.
    Low,
}

impl TrustLevel {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TrustLevel::High => "high",
            TrustLevel::Limited => "limited",
            TrustLevel::Low => "low",
        }
    }
}

/// How far an answer can be trusted that stands on a recording, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trust {
    /// The verdict.
    pub level: TrustLevel,
    /// The verdict of the recording alone, whatever its replays came to.
    pub recording: TrustLevel,
    /// Reasons against it, a sentence each; empty if trust is high.
    pub reasons: Vec<String>,
    /// Events that the recorder missed.
    pub lost: u64,
    /// The same as a percentage of all that happened.
    pub lost_pct: f64,
    /// Whether the recording has a picture of memory when it began; omitted if the answer does not stand on one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<bool>,
    /// Whether the recording has samples of its host, or its end, to compare a replay with; omitted if nothing was
    /// replayed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub comparable: Option<bool>,
    /// The replays that the answer stands on, beside the host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub replays: Vec<ReplayTrust>,
}

/// A replay beside the host that was recorded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReplayTrust {
    /// The engine, with its settings.
    pub engine: String,
    /// Requests that it refused.
    pub refused: u64,
    /// Requests that the host refused; omitted if the replay had less memory than the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused_on_host: Option<u64>,
    /// How far its end is from the host's by free blocks, in percent; omitted if the host's is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub distance_pct: Option<f64>,
    /// How far the host's own beginning is from its end: a replay that is further off says less than that nothing
    /// changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unchanged_distance_pct: Option<f64>,
    /// Requests that it served in another zone than the host, in percent; omitted if they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_elsewhere_pct: Option<f64>,
    /// Whether it was compared with the kernel that it is named after, frame by frame; omitted for engines of no
    /// kernel's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub judged: Option<bool>,
    /// Whether it stands for the recorded host: its kernel's reference, with its settings and its memory.
    pub stands_for_host: bool,
}

impl Trust {
    /// Judges what a recording with so many events says of them.
    #[must_use]
    pub fn of(meta: &Meta, events: u64) -> Trust {
        let mut trust = Trust {
            level: TrustLevel::High,
            recording: TrustLevel::High,
            reasons: Vec::new(),
            lost: meta.lost,
            lost_pct: lost_pct(meta.lost, events),
            snapshot: None,
            comparable: None,
            replays: Vec::new(),
        };
        if let Some(why) = lost_sentence(meta.lost, events) {
            let level = if trust.lost_pct < UNFIT_PCT { TrustLevel::Limited } else { TrustLevel::Low };
            trust.lower(level, why);
        }
        if let Some(why) = &meta.partial {
            trust.lower(TrustLevel::Limited, format!("the recording ended early, because {why}"));
        }
        trust
    }

    /// Adds that the answer stands on memory as it was when the recording began.
    #[must_use]
    pub fn opened(mut self, snapshot: bool) -> Trust {
        self.snapshot = Some(snapshot);
        if !snapshot {
            self.lower(
                TrustLevel::Limited,
                "the recording has no snapshot of memory, so what was held before it is not known".to_owned(),
            );
        }
        self
    }

    /// Adds whether the recording has anything to compare a replay with.
    #[must_use]
    pub fn comparable(mut self, comparable: bool) -> Trust {
        self.comparable = Some(comparable);
        if !comparable {
            self.lower(
                TrustLevel::Limited,
                "the recording has neither samples of its host nor its end, so nothing says how near a replay is"
                    .to_owned(),
            );
        }
        self
    }

    /// Adds a replay.
    #[must_use]
    pub fn replayed(mut self, replay: ReplayTrust) -> Trust {
        for (level, why) in replay.doubts() {
            self.level = self.level.max(level);
            self.reasons.push(why);
        }
        self.replays.push(replay);
        self
    }

    /// Adds a reservation about the recording.
    pub fn lower(&mut self, level: TrustLevel, why: String) {
        self.level = self.level.max(level);
        self.recording = self.recording.max(level);
        self.reasons.push(why);
    }

    /// Returns the lower of two verdicts about the same recording.
    #[must_use]
    pub fn or_lower(self, other: Trust) -> Trust {
        if other.level > self.level { other } else { self }
    }

    /// Returns whether no conclusion can be drawn.
    #[must_use]
    pub fn is_low(&self) -> bool {
        self.level == TrustLevel::Low
    }

    /// Returns the reasons; of high trust, what speaks for it.
    #[must_use]
    pub fn words(&self) -> Vec<String> {
        if self.level > TrustLevel::High {
            return self.reasons.clone();
        }
        let replays = self.replays.iter().map(ReplayTrust::words);
        std::iter::once("no event was lost".to_owned()).chain(replays).collect()
    }
}

/// Writes a line with the verdict, and one for each reason.
impl fmt::Display for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.words();
        write!(f, "Trust: {}", self.level.name())?;
        match &words[..] {
            [only] => writeln!(f, ": {only}."),
            all => {
                writeln!(f, ":")?;
                all.iter().try_for_each(|why| writeln!(f, "  {why}."))
            }
        }
    }
}

impl ReplayTrust {
    /// Returns by what factor refusals differ, with 1 added to both; 1 where they cannot be compared.
    fn refusals_apart(&self) -> f64 {
        let Some(on_host) = self.refused_on_host else { return 1.0 };
        let (here, host) = (self.refused as f64 + 1.0, on_host as f64 + 1.0);
        (here / host).max(host / here)
    }

    fn refusals(&self) -> String {
        let host = self
            .refused_on_host
            .map_or_else(String::new, |n| format!(" where the host refused {}", grouped(n)));
        format!("{} refuses {}{host}", shown(&self.engine), count(self.refused, "request"))
    }

    /// Returns what speaks against it.
    fn doubts(&self) -> Vec<(TrustLevel, String)> {
        let mut doubts = Vec::new();
        let apart = self.refusals_apart();
        if apart > FAR && self.stands_for_host {
            doubts.push((TrustLevel::Low, format!("{}: it is no picture of that host", self.refusals())));
        } else if apart > NEAR {
            doubts.push((TrustLevel::Limited, self.refusals()));
        }
        if self.judged == Some(false) {
            doubts.push((
                TrustLevel::Limited,
                format!("{} was not compared with a kernel frame by frame", shown(&self.engine)),
            ));
        }
        if !self.stands_for_host {
            return doubts;
        }
        if let (Some(here), Some(unchanged)) = (self.distance_pct, self.unchanged_distance_pct)
            && here > unchanged
        {
            doubts.push((
                TrustLevel::Limited,
                format!(
                    "{} ends {here:.1} % from the host, further than the host's beginning ({unchanged:.1} %)",
                    shown(&self.engine)
                ),
            ));
        }
        if let Some(pct) = self.served_elsewhere_pct.filter(|pct| *pct > ELSEWHERE_PCT) {
            doubts.push((
                TrustLevel::Limited,
                format!(
                    "{} serves {} of the requests in another zone",
                    shown(&self.engine),
                    percent(pct / 100.0)
                ),
            ));
        }
        doubts
    }

    /// Describes how near it is to the host.
    fn words(&self) -> String {
        let distance = match (self.distance_pct, self.unchanged_distance_pct) {
            (Some(here), Some(unchanged)) if self.stands_for_host => {
                format!(
                    ", and ends {here:.1} % from the host's end (its beginning is {unchanged:.1} % from it)"
                )
            }
            (Some(here), _) if self.stands_for_host => format!(", and ends {here:.1} % from the host's end"),
            _ => String::new(),
        };
        format!("{}{distance}", self.refusals())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(lost: u64) -> Trust {
        Trust::of(&Meta { lost, ..Meta::new(2) }, 1_000_000 - lost)
    }

    fn replay(refused: u64, refused_on_host: u64) -> ReplayTrust {
        ReplayTrust {
            engine: "linux-6.12".to_owned(),
            refused,
            refused_on_host: Some(refused_on_host),
            distance_pct: Some(7.0),
            unchanged_distance_pct: Some(20.0),
            served_elsewhere_pct: None,
            judged: Some(true),
            stands_for_host: true,
        }
    }

    #[test]
    fn a_seventh_of_all_events_is_not_a_little() {
        assert_eq!(lost_sentence(0, 10), None);
        let few = lost_sentence(317, 2_000_000).unwrap();
        assert_eq!(few, "317 events were lost, 0.02 % of all: every count is low by about as much");
        let many = lost_sentence(317_000, 1_683_000).unwrap();
        assert!(many.starts_with("317,000 events were lost, 15.85 % of all: too many"), "{many}");
        assert!(lost_sentence(u64::MAX, u64::MAX).unwrap().contains("50.00 %"));
    }

    #[test]
    fn lost_events_lower_trust() {
        assert_eq!(recording(0).to_string(), "Trust: high: no event was lost.\n");
        assert_eq!(recording(1).level, TrustLevel::Limited);
        assert_eq!(recording(9_999).level, TrustLevel::Limited);
        assert_eq!(recording(10_000).level, TrustLevel::Low);
        let most = recording(700_000);
        assert!(
            most.is_low() && most.to_string().contains("700,000 events were lost, 70.00 % of all"),
            "{most}"
        );
    }

    #[test]
    fn a_replay_under_more_pressure_than_the_host_lowers_trust() {
        for (here, host, level) in [
            (0, 0, TrustLevel::High),
            (1, 0, TrustLevel::High),
            (2, 0, TrustLevel::Limited),
            (102, 102, TrustLevel::High),
            (40, 102, TrustLevel::Limited),
            (19_013, 102, TrustLevel::Low),
            (0, 102, TrustLevel::Low),
        ] {
            assert_eq!(recording(0).replayed(replay(here, host)).level, level, "{here} and {host}");
        }
        let far = recording(0).replayed(replay(19_013, 102)).to_string();
        assert!(far.contains("refuses 19,013 requests where the host refused 102"), "{far}");
        assert_eq!(recording(0).replayed(replay(19_013, 102)).recording, TrustLevel::High);
    }

    #[test]
    fn a_replay_further_off_than_no_change_or_unjudged_lowers_trust() {
        let further = ReplayTrust { distance_pct: Some(21.0), ..replay(0, 0) };
        assert_eq!(recording(0).replayed(further.clone()).level, TrustLevel::Limited);
        // Other settings may end anywhere.
        let other = ReplayTrust { stands_for_host: false, ..further };
        assert_eq!(recording(0).replayed(other.clone()).level, TrustLevel::High);
        // Nor is another setting to refuse what the host refused.
        let other = ReplayTrust { refused: 0, refused_on_host: Some(102), ..other };
        assert_eq!(recording(0).replayed(other).level, TrustLevel::Limited);
        let unjudged = ReplayTrust { judged: Some(false), ..replay(0, 0) };
        assert_eq!(recording(0).replayed(unjudged).level, TrustLevel::Limited);
        let elsewhere = ReplayTrust { served_elsewhere_pct: Some(12.0), ..replay(0, 0) };
        assert_eq!(recording(0).replayed(elsewhere).level, TrustLevel::Limited);
    }
}
