//! A host's summary as one JSON document.

use serde_json::{Map, Value, json};

use pageyard_trace::FrameKind;

use super::answer::Answer;
use super::collect::{HostSummary, HostZone};
use super::kpageflags::BuddyMarks;
use super::pageblocks::Spoiler;
use super::text::COUNTERS;

impl HostSummary {
    /// Returns the summary as JSON, without nulls: what could not be read is left out and named in `not_read`.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut document = Map::new();
        document.insert("zones".into(), self.zones.iter().map(zone).collect::<Vec<Value>>().into());
        document.insert("orders".into(), answers(&self.answers()));
        if let Some(frames) = &self.frames {
            let by_kind: Map<String, Value> =
                FrameKind::ALL.iter().zip(frames).map(|(k, &n)| (k.name().to_owned(), n.into())).collect();
            document.insert("frames".into(), by_kind.into());
        }
        if !self.answers().is_empty() {
            document.insert("orders_are_for".into(), Answer::REQUEST.into());
        }
        if let Some(culprits) = &self.culprits {
            let mut other: Map<String, Value> =
                culprits.known.iter().map(|c| (c.name.to_owned(), c.frames.into())).collect();
            other.insert("unaccounted".into(), culprits.unaccounted.into());
            document.insert("other_frames".into(), other.into());
        }
        if let Some(marks) = self.marks {
            document.insert("free_frames_exact".into(), (marks == BuddyMarks::EveryFrame).into());
        }
        if let Some(blocks) = &self.pageblocks {
            let by_spoiler: Map<String, Value> =
                Spoiler::ALL.iter().map(|s| (s.name().to_owned(), blocks.count(*s).into())).collect();
            document.insert("pageblocks".into(), by_spoiler.into());
        }
        if let Some(types) = &self.pagetypes {
            let zones: Vec<Value> = types
                .zones
                .iter()
                .map(|z| json!({ "node": z.node, "zone": z.name, "pageblocks": z.blocks }))
                .collect();
            document.insert("pageblocks_by_migratetype".into(), zones.into());
        }
        if let Some(vmstat) = &self.vmstat {
            let counters: Map<String, Value> = COUNTERS
                .iter()
                .filter_map(|(name, _)| Some(((*name).to_owned(), vmstat.get(name)?.into())))
                .collect();
            document.insert("counters".into(), counters.into());
        }
        document.insert("not_read".into(), self.not_read.clone().into());
        document.into()
    }
}

fn answers(answers: &[Answer]) -> Value {
    answers.iter().map(|a| a.name()).collect::<Vec<_>>().into()
}

fn zone(zone: &HostZone) -> Value {
    let mut object = zone.fragmentation.json();
    if let Some(marks) = zone.watermarks {
        object["min"] = marks.min.into();
        object["low"] = marks.low.into();
        object["high"] = marks.high.into();
        object["managed"] = marks.managed.into();
        object["pcp"] = marks.pcp.into();
        object["answers"] = answers(&zone.answers);
    }
    object
}
