//! The rules that must hold, and the first violation found.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::SeqCst};

/// A rule that an engine can break.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Rule {
    /// A frame has one owner.
    Owners,
    /// A free of what is held succeeds, as does its split.
    RightFree,
    /// A call that is wrong is refused, with the right reason.
    WrongCall,
    /// Of several frees of one block, one succeeds.
    Contest,
    /// Nothing of an isolated pageblock is handed out after a drain.
    Isolation,
    /// A pageblock has one lease at a time, and keeps it until it is ended.
    Leases,
    /// Blocks come from a zone that the request allows, are aligned, and compaction stays in its zone.
    Zone,
    /// A block that is said to hold zeros does, and so does one that was to be cleared.
    Zeros,
    /// The observer's calls fit its earlier ones and the blocks that are held.
    Told,
    /// The engine never panics, though its callbacks do.
    Panics,
    /// Isolated frames are moved or put back by compaction.
    PutBack,
    /// The engine's own audit finds nothing.
    Audit,
    /// The audit counts as many allocated frames as there are, and no frame is lost.
    Census,
    /// Frames allocated less frames freed are the frames held.
    Counters,
    /// Requests are counted once.
    Requests,
    /// Free frames can be allocated while nothing runs.
    Free,
    /// Free frames are merged, and can be allocated in blocks as large as the layout allows.
    Merged,
}

impl Rule {
    /// Every rule with its name and what a break of it says.
    pub const ALL: [(Rule, &'static str, &'static str); 17] = [
        (Rule::Owners, "owners", "a frame was handed out while it had another owner"),
        (Rule::RightFree, "right-free", "the engine refused to free or split a block that is held"),
        (Rule::WrongCall, "wrong-call", "a wrong call was not refused as it should be"),
        (Rule::Contest, "contest", "of several frees of one block not exactly one succeeded"),
        (Rule::Isolation, "isolation", "a frame of an isolated and drained pageblock was handed out"),
        (Rule::Leases, "leases", "a pageblock had two leases, or lost one"),
        (Rule::Zone, "zone", "a block came from a zone, or went to one, that it must not"),
        (Rule::Zeros, "zeros", "a block that is not all zeros was said to be, or was to be cleared"),
        (Rule::Told, "told", "the observer was told what does not fit the blocks that are live"),
        (Rule::Panics, "panics", "the engine panicked"),
        (
            Rule::PutBack,
            "put-back",
            "a frame that compaction isolated was not moved or put back as it should be",
        ),
        (Rule::Audit, "audit", "the engine's audit failed"),
        (Rule::Census, "census", "frames were lost, or counted as what they are not"),
        (Rule::Counters, "counters", "frames allocated less frames freed are not the frames held"),
        (Rule::Requests, "requests", "requests were not counted once each"),
        (Rule::Free, "free", "a request was refused although a block for it is free and nothing runs"),
        (Rule::Merged, "merged", "free memory was not merged as far as the layout allows"),
    ];

    /// Returns the name.
    #[must_use]
    pub fn name(self) -> &'static str {
        Rule::ALL[self as usize].1
    }

    /// Returns a bit set of the rules that are named, separated by commas.
    ///
    /// # Errors
    /// A sentence that names the unknown rule.
    pub fn parse(names: &str) -> Result<u32, String> {
        let mut set = 0;
        for name in names.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            let Some((rule, ..)) = Rule::ALL.iter().find(|r| r.1 == name) else {
                let all: Vec<&str> = Rule::ALL.iter().map(|r| r.1).collect();
                return Err(format!("`{name}` is no rule; there are {}", all.join(", ")));
            };
            set |= 1 << *rule as u8;
        }
        Ok(set)
    }
}

/// A broken rule.
#[derive(Clone, Debug)]
pub struct Fault {
    /// The rule.
    pub rule: Rule,
    /// The thread that found it, if it was one of the storm's.
    pub thread: Option<u32>,
    /// The frame that it is about, if it is about one.
    pub pfn: Option<u64>,
    /// The violation, in words.
    pub text: String,
}

const NONE: u64 = u64::MAX;

/// A thread that is not known.
pub(super) const UNKNOWN: u32 = u32::MAX;

/// Where the first fault of a round is kept. Signal handlers can raise one.
pub(super) struct Faults {
    /// Rules that are not looked at, as bits.
    ignored: u32,
    /// Rule of the first fault, plus one.
    first: AtomicU32,
    thread: AtomicU64,
    pfn: AtomicU64,
    values: [AtomicU64; 2],
    text: OnceLock<String>,
}

impl Faults {
    pub(super) fn new(ignored: u32) -> Faults {
        Faults {
            ignored,
            first: AtomicU32::new(0),
            thread: AtomicU64::new(NONE),
            pfn: AtomicU64::new(NONE),
            values: [AtomicU64::new(NONE), AtomicU64::new(NONE)],
            text: OnceLock::new(),
        }
    }

    /// Returns whether the round is to end.
    pub(super) fn any(&self) -> bool {
        self.first.load(SeqCst) != 0
    }

    fn is_first(&self, rule: Rule) -> bool {
        self.ignored >> rule as u8 & 1 == 0
            && self.first.compare_exchange(0, rule as u32 + 1, SeqCst, SeqCst).is_ok()
    }

    /// Raises a fault with two values, expected and actual; callable from a signal handler.
    pub(super) fn raise(&self, rule: Rule, thread: u32, pfn: u64, expected: u64, found: u64) {
        if self.is_first(rule) {
            self.thread.store(if thread == UNKNOWN { NONE } else { thread.into() }, SeqCst);
            self.pfn.store(pfn, SeqCst);
            self.values[0].store(expected, SeqCst);
            self.values[1].store(found, SeqCst);
        }
    }

    /// Raises a fault in words.
    pub(super) fn say(
        &self,
        rule: Rule,
        thread: Option<u32>,
        pfn: Option<u64>,
        text: impl FnOnce() -> String,
    ) {
        if self.is_first(rule) {
            self.thread.store(thread.map_or(NONE, u64::from), SeqCst);
            self.pfn.store(pfn.unwrap_or(NONE), SeqCst);
            let _ = self.text.set(text());
        }
    }

    /// Returns the first fault, after all threads have ended.
    pub(super) fn take(&self) -> Option<Fault> {
        let rule = Rule::ALL[self.first.load(SeqCst).checked_sub(1)? as usize].0;
        let some = |word: &AtomicU64| Some(word.load(SeqCst)).filter(|v| *v != NONE);
        let text = self.text.get().cloned().unwrap_or_else(|| {
            let [expected, found] = self.values.each_ref().map(|v| v.load(SeqCst));
            format!("expected {expected:#x}, found {found:#x}")
        });
        Some(Fault { rule, thread: some(&self.thread).map(|t| t as u32), pfn: some(&self.pfn), text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_numbered_as_they_are_listed() {
        for (n, (rule, ..)) in Rule::ALL.iter().enumerate() {
            assert_eq!(*rule as usize, n);
        }
    }

    #[test]
    fn the_first_fault_is_kept_and_an_ignored_rule_raises_none() {
        let faults = Faults::new(Rule::parse("counters").unwrap());
        faults.raise(Rule::Counters, 1, 2, 3, 4);
        assert!(!faults.any() && faults.take().is_none());
        faults.raise(Rule::Owners, 1, 2, 0, 4);
        faults.say(Rule::Audit, None, None, || "too late".to_owned());
        let fault = faults.take().unwrap();
        assert_eq!((fault.rule, fault.thread, fault.pfn), (Rule::Owners, Some(1), Some(2)));
        assert_eq!(fault.text, "expected 0x0, found 0x4");
    }
}
