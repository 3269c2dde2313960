//! Values by small numbers that a recording chooses: of CPUs, of threads.

use std::collections::HashMap;

/// Numbers below this have a place of their own. Recordings number threads in the order in which they meet them.
const DENSE: u32 = 1 << 16;

/// A value for each number. The few that are large are looked up in a map that no crafted file can make slow.
#[derive(Clone, Debug)]
pub(crate) struct ByNumber<T> {
    dense: Vec<T>,
    others: HashMap<u32, T>,
}

impl<T: Default> Default for ByNumber<T> {
    fn default() -> ByNumber<T> {
        ByNumber { dense: Vec::new(), others: HashMap::new() }
    }
}

impl<T: Default> ByNumber<T> {
    /// Returns the value of a number; the default if it had none.
    #[inline]
    pub fn of(&mut self, number: u32) -> &mut T {
        if number >= DENSE {
            return self.others.entry(number).or_default();
        }
        let at = number as usize;
        if at >= self.dense.len() {
            self.dense.resize_with(at + 1, T::default);
        }
        &mut self.dense[at]
    }

    /// Returns the value of a number that has one.
    #[inline]
    pub fn get(&self, number: u32) -> Option<&T> {
        if number < DENSE { self.dense.get(number as usize) } else { self.others.get(&number) }
    }

    /// Iterates over numbers and their values, those that were never asked for among them.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..).zip(&self.dense).chain(self.others.iter().map(|(number, value)| (*number, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_and_large_numbers_have_values() {
        let mut values = ByNumber::<u64>::default();
        for number in [0, 7, DENSE - 1, DENSE, u32::MAX] {
            *values.of(number) += u64::from(number) + 1;
        }
        assert_eq!(values.get(7), Some(&8));
        assert_eq!(values.get(u32::MAX), Some(&(u64::from(u32::MAX) + 1)));
        assert_eq!(values.get(8), Some(&0));
        assert_eq!(values.get(DENSE + 1), None);
        assert_eq!(values.iter().filter(|(_, value)| **value > 0).count(), 5);
    }
}
