//! The changes from one moment of a line to the next.

use super::pageblock::State;

/// A pageblock's new row at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// When.
    pub moment: u32,
    /// Which.
    pub pageblock: u32,
    /// The new state.
    pub state: State,
}

/// Where changes go.
pub trait ChangeSink {
    /// Takes the changes of a moment.
    fn take(&mut self, changes: &[Change]);
}

impl ChangeSink for () {
    fn take(&mut self, _: &[Change]) {}
}

/// Drops every other moment of some changes, which ascend by moment.
pub fn halve_changes(changes: &mut Vec<Change>, pageblocks: usize) {
    // From the last to the first: the later of two rows of a pageblock stays.
    let mut seen = vec![u32::MAX; pageblocks];
    let mut kept: Vec<Change> = Vec::with_capacity(changes.len());
    for change in changes.iter().rev() {
        let moment = change.moment.div_ceil(2);
        if std::mem::replace(&mut seen[change.pageblock as usize], moment) != moment {
            kept.push(Change { moment, ..*change });
        }
    }
    kept.reverse();
    kept.sort_by_key(|change| (change.moment, change.pageblock));
    *changes = kept;
}

#[cfg(test)]
mod tests {
    use super::super::class::NONE;
    use super::*;

    #[test]
    fn halved_changes_come_to_the_same_states() {
        const PAGEBLOCKS: usize = 20;
        let mut rng = fastrand::Rng::with_seed(3);
        let state = |free| State { free, largest: 0, kind: 1, held: [0; 4], owner: NONE };
        let mut changes = Vec::new();
        for moment in 1..=64 {
            for pageblock in 0..PAGEBLOCKS as u32 {
                if rng.u8(0..4) == 0 {
                    changes.push(Change { moment, pageblock, state: state(rng.u16(0..512)) });
                }
            }
        }
        let at = |changes: &[Change], moment: u32| {
            let mut states = [state(0); PAGEBLOCKS];
            changes
                .iter()
                .filter(|c| c.moment <= moment)
                .for_each(|c| states[c.pageblock as usize] = c.state);
            states
        };
        let mut halved = changes.clone();
        halve_changes(&mut halved, PAGEBLOCKS);
        assert!(halved.len() < changes.len() && halved.is_sorted_by_key(|c| (c.moment, c.pageblock)));
        for moment in 0..=32 {
            assert_eq!(at(&halved, moment), at(&changes, 2 * moment), "moment {moment}");
        }
    }
}
