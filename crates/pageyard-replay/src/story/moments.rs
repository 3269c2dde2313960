//! How time is cut into moments.

/// How time is cut into moments. Moment `i` is the state at the end of `i * step` nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moments {
    /// Nanoseconds from one to the next.
    pub step: u64,
    /// How many there are, the opening's included.
    pub count: u32,
}

impl Moments {
    /// Cuts a recording into at most `most` moments.
    pub fn of(duration_ns: u64, most: u32) -> Moments {
        let step = duration_ns.div_ceil(u64::from(most.max(2)) - 1).max(1);
        Moments { step, count: duration_ns.div_ceil(step) as u32 + 1 }
    }

    /// Returns when a moment ends, in nanoseconds.
    pub fn end(&self, moment: u32) -> u64 {
        self.step.saturating_mul(moment.into())
    }

    /// Halves them: every other one goes away.
    pub fn halve(&mut self) {
        self.step = self.step.saturating_mul(2);
        self.count = self.count.div_euclid(2) + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_cut_to_its_end() {
        for duration in [0, 1, 2046, 2047, 2048, 12_004_615_756, u64::MAX - 1, u64::MAX] {
            let mut moments = Moments::of(duration, 2048);
            for _ in 0..3 {
                let last = moments.count - 1;
                assert!((1..=2048).contains(&moments.count), "{duration}");
                assert!(moments.end(last) >= duration && moments.end(last.saturating_sub(1)) <= duration);
                moments.halve();
            }
        }
    }
}
