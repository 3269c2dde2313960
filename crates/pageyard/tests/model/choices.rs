//! What an execution leaves to chance: decided by bytes, as a fuzzer gives them, and by a seed where these end.

/// Streams of choices that one input has: one for the schedule and one for the calls of each thread.
const STREAMS: usize = super::rules::THREADS + 1;

/// An input.
#[derive(Clone)]
pub struct Input {
    /// Decides what no byte decides.
    pub seed: u64,
    /// Dealt out to the streams, one byte to each in turn.
    pub bytes: Vec<u8>,
}

impl Input {
    /// Returns the input that leaves all to a seed.
    pub fn of_seed(seed: u64) -> Input {
        Input { seed, bytes: Vec::new() }
    }

    /// Returns a stream: 0 is the schedule, and after it come the threads.
    pub fn stream(&self, nth: usize) -> Choices {
        let own: Vec<u8> = self.bytes.iter().copied().skip(nth).step_by(STREAMS).collect();
        let random = fastrand::Rng::with_seed(self.seed ^ (nth as u64) << 32);
        Choices { bytes: own.into_iter(), random }
    }
}

/// A stream of choices.
pub struct Choices {
    bytes: std::vec::IntoIter<u8>,
    random: fastrand::Rng,
}

impl Choices {
    /// Returns one of the first `n` numbers, of which there are at least one and at most 256.
    pub fn below(&mut self, n: usize) -> usize {
        match self.bytes.next() {
            Some(byte) => usize::from(byte) % n,
            None => self.random.usize(..n),
        }
    }
}
