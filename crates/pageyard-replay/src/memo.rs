//! Answers remembered by the number that was asked about: a recording repeats a few dozen gfp words.

/// Answers that are remembered at a time.
const PLACES: usize = 64;

/// The last answers, each in the one place that its number leads to. Numbers that share a place cost a new answer each
/// time, as much as without it, so no crafted file gains anything.
pub(crate) struct Memo<T> {
    places: [Option<(u64, T)>; PLACES],
}

impl<T: Copy> Memo<T> {
    /// Remembers nothing yet.
    pub fn new() -> Memo<T> {
        Memo { places: [None; PLACES] }
    }

    /// Returns the answer for a number, from `find` if it is not remembered.
    #[inline]
    pub fn of(&mut self, number: u64, find: impl FnOnce() -> T) -> T {
        // Fibonacci hashing: the highest bits of the product depend on all of the number.
        let place = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - PLACES.ilog2());
        let place = &mut self.places[place as usize];
        match *place {
            Some((known, answer)) if known == number => answer,
            _ => place.insert((number, find())).1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_found_once_and_never_mistaken_for_another() {
        let mut memo = Memo::new();
        let mut found = 0;
        let mut answer = |number: u64| {
            memo.of(number, || {
                found += 1;
                !number
            })
        };
        // More numbers than places, so that some share one.
        for number in (0..1000).chain(0..1000) {
            assert_eq!(answer(number), !number);
            assert_eq!(answer(number), !number);
        }
        assert!((1000..=2000).contains(&found), "{found}");
    }
}
