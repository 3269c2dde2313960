//! Blame: which frames keep which pageblocks from becoming huge frames, whose they are, and since when.

use super::class::{BLOCK, Class, LostBy};
use super::line::Line;
use super::mark::NO_ORDER;
use super::owners::{Owner, Owners};
use std::collections::BTreeMap;

/// Frames of one owner and order in a pageblock that cannot be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Whose they are.
    pub owner: u32,
    /// The order that was asked for, where that is known.
    pub order: Option<u8>,
    /// Blocks, where their order is known, or runs of frames.
    pub blocks: u32,
    /// Frames.
    pub frames: u32,
    /// Since when the oldest is held, in nanoseconds from the start; `None` for before the recording.
    pub since_ns: Option<u64>,
    /// The first frame of the oldest.
    pub first_pfn: u64,
}

/// A pageblock that is lost to huge frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostPageblock {
    /// Its number in the story.
    pub number: u32,
    /// Its first frame.
    pub first_pfn: u64,
    /// Since when, in nanoseconds from the start; `None` for before the recording.
    pub since_ns: Option<u64>,
    /// Why.
    pub reason: LostBy,
    /// Who holds frames that cannot be moved, the oldest first.
    pub holders: Vec<Holder>,
}

/// Who keeps pageblocks from becoming huge frames at the end of a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Blame {
    /// Pageblocks in all.
    pub pageblocks: u64,
    /// Those that are wholly free.
    pub free: u64,
    /// Those that are lost, in order.
    pub lost: Vec<LostPageblock>,
}

impl Blame {
    /// Looks at the frames of a line's present moment.
    pub fn of(line: &Line<'_>) -> Blame {
        let layout = line.layout();
        let free = line.figures.last().map_or(0, |f| f.huge);
        let mut blame = Blame { pageblocks: layout.len() as u64, free, lost: Vec::new() };
        for (number, first_pfn) in layout.starts.iter().enumerate() {
            let Some((since, reason)) = line.frames.lost_since(number) else { continue };
            let mut by: BTreeMap<(u32, u8), Holder> = BTreeMap::new();
            let (absent, nowhere) = line.frames.absent(number);
            if absent > 0 {
                let (frames, first_pfn) = (u32::from(absent), *first_pfn);
                let gone =
                    Holder { owner: nowhere, order: None, blocks: 1, frames, since_ns: None, first_pfn };
                by.insert((nowhere, NO_ORDER), gone);
            }
            line.frames.parts(*first_pfn, first_pfn + BLOCK, |part| {
                if !part.class.spoils() {
                    return;
                }
                let since_ns = line.time_ns(part.held.since);
                let order = (part.order != NO_ORDER).then_some(part.order);
                let holder = by.entry((part.held.owner, part.order)).or_insert(Holder {
                    owner: part.held.owner,
                    order,
                    blocks: 0,
                    frames: 0,
                    since_ns,
                    first_pfn: part.pfn,
                });
                holder.blocks += 1;
                holder.frames += part.frames as u32;
                if since_ns < holder.since_ns {
                    (holder.since_ns, holder.first_pfn) = (since_ns, part.pfn);
                }
            });
            let mut holders: Vec<Holder> = by.into_values().collect();
            holders.sort_by_key(|h| (h.since_ns, h.owner != nowhere, h.first_pfn));
            let since_ns = line.time_ns(since);
            blame.lost.push(LostPageblock {
                number: number as u32,
                first_pfn: *first_pfn,
                since_ns,
                reason,
                holders,
            });
        }
        blame
    }

    /// Returns how many became lost during the recording.
    #[must_use]
    pub fn lost_meanwhile(&self) -> u64 {
        self.lost.iter().filter(|lost| lost.since_ns.is_some()).count() as u64
    }

    /// Adds up what is lost by a property of its holders. Pageblocks with several of a kind count for each.
    #[must_use]
    pub fn by(&self, property: impl Fn(&LostPageblock, &Holder) -> String) -> Vec<Share> {
        let mut shares: BTreeMap<String, Share> = BTreeMap::new();
        for lost in &self.lost {
            let mut names: BTreeMap<String, u64> = BTreeMap::new();
            for holder in &lost.holders {
                *names.entry(property(lost, holder)).or_default() += u64::from(holder.frames);
            }
            let alone = u64::from(names.len() == 1);
            for (name, frames) in names {
                let share = shares.entry(name.clone()).or_insert(Share { name, ..Share::default() });
                share.pageblocks += 1;
                share.alone += alone;
                share.frames += frames;
            }
        }
        let mut shares: Vec<Share> = shares.into_values().collect();
        shares.sort_by(|a, b| (b.pageblocks, b.frames, &a.name).cmp(&(a.pageblocks, a.frames, &b.name)));
        shares
    }

    /// Adds up what is lost by every property that documents show.
    #[must_use]
    pub fn shares(&self, owners: &Owners) -> Shares {
        let of = |h: &Holder| owners.get(h.owner).copied();
        let before = || "from before the recording".to_owned();
        Shares {
            gfp: self.by(|_, h| of(h).and_then(|o| owners.gfp(&o)).unwrap_or_else(before)),
            thread: self.by(|_, h| of(h).and_then(|o| owners.thread(&o)).unwrap_or_else(before)),
            context: self.by(|_, h| of(h).and_then(|o| o.context()).map_or_else(before, str::to_owned)),
            content: self.by(|_, h| match of(h) {
                Some(owner @ Owner::Before(..)) => owners.label(&owner),
                owner => format!(
                    "{}, asked for in the recording",
                    owner.map_or(Class::Pinned, |o| o.class()).name()
                ),
            }),
            reason: self.by(|lost, _| lost.reason.words().to_owned()),
        }
    }
}

/// The loss caused by one kind of holder.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Share {
    /// The kind.
    pub name: String,
    /// Lost pageblocks in which it holds a frame.
    pub pageblocks: u64,
    /// Of those, the ones in which nothing else stands in the way.
    pub alone: u64,
    /// Frames that it holds in them and that cannot be moved.
    pub frames: u64,
}

/// The loss, added up in several ways.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Shares {
    /// By the flags that were asked with.
    pub gfp: Vec<Share>,
    /// By thread.
    pub thread: Vec<Share>,
    /// By what the CPU was doing.
    pub context: Vec<Share>,
    /// By what the frames are.
    pub content: Vec<Share>,
    /// By how the pageblock was lost.
    pub reason: Vec<Share>,
}
