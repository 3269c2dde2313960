//! Where a compactor keeps what it holds: an array, or what an engine with an allocator of its own prefers.

/// An ordered store of things that leave it one by one. Places are numbered from 0 and keep their numbers.
///
/// There is no allocator here, so [`Slots`] has a fixed number of places; a model of Linux isolates up to a pageblock
/// at once, and brings a store that grows.
pub trait Room<T> {
    /// Makes an empty one.
    fn new() -> Self;

    /// Adds a thing at the next place, which must be there: see [`is_full`](Self::is_full).
    fn push(&mut self, thing: T);

    /// Returns whether there is no place left.
    fn is_full(&self) -> bool;

    /// Returns the places that were ever filled.
    fn places(&self) -> &[Option<T>];

    /// Returns them to be changed.
    fn places_mut(&mut self) -> &mut [Option<T>];

    /// Forgets the places, of which none may hold anything any more.
    fn clear(&mut self);
}

/// A store of a fixed size.
pub struct Slots<T, const N: usize> {
    places: [Option<T>; N],
    /// How many have been filled. Only the first `filled` can hold something.
    filled: usize,
}

impl<T, const N: usize> Room<T> for Slots<T, N> {
    fn new() -> Self {
        Slots { places: [const { None }; N], filled: 0 }
    }

    fn push(&mut self, thing: T) {
        self.places[self.filled] = Some(thing);
        self.filled += 1;
    }

    fn is_full(&self) -> bool {
        self.filled == N
    }

    fn places(&self) -> &[Option<T>] {
        &self.places[..self.filled]
    }

    fn places_mut(&mut self) -> &mut [Option<T>] {
        &mut self.places[..self.filled]
    }

    fn clear(&mut self) {
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_keep_their_numbers_until_all_are_forgotten() {
        let mut slots: Slots<u8, 2> = Room::new();
        slots.push(1);
        assert!(!slots.is_full());
        slots.push(2);
        assert!(slots.is_full());
        assert_eq!(slots.places_mut()[0].take(), Some(1));
        assert_eq!((slots.places(), slots.is_full()), (&[None, Some(2)][..], true));
        slots.clear();
        assert!(slots.places().is_empty() && !slots.is_full());
    }
}
