//! Corrupt inputs for every reader: whatever the bytes, it returns in time, and memory stays bounded.
//!
//! This is the short form of the fuzzing in `fuzz/`, for every run of the tests; the inputs are the same each time.
//! Cases that fuzzing found are kept in `fuzz/found` and read here too.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use pageyard_record::hostile::{every_seed, every_target};
use pageyard_trace::hostile::Target;

/// Inputs for each reader.
const INPUTS: u64 = 15_000;

/// How long all of them together may take; the rest is then left out, and the test says so.
const TIME: Duration = Duration::from_secs(60);

/// The time that one of them may take, on a busy machine.
const ONE: Duration = Duration::from_secs(5);

/// The most memory that the process may have taken in the end.
const MEMORY_KIB: u64 = 1 << 20;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // xorshift64*, whose source is Vigna's paper of 2016.
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Numbers that have upset readers before.
const NUMBERS: [u64; 10] =
    [0, 1, 7, 0x7f, 0xff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, 0xffff_ffff_ffff_ffff];

fn spoil(bytes: &mut Vec<u8>, random: &mut Random) {
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(8) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => bytes.truncate(at),
            3 => {
                let n = random.below(32).min(bytes.len() - at);
                bytes.drain(at..at + n);
            }
            4 => {
                let piece = bytes[at..(at + random.below(64)).min(bytes.len())].to_vec();
                let to = random.below(bytes.len());
                bytes.splice(to..to, piece);
            }
            5 => {
                let width = [1, 2, 4, 8][random.below(4)].min(bytes.len() - at);
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                bytes[at..at + width].copy_from_slice(&number[..width]);
            }
            6 => {
                let n = random.below(16).min(bytes.len() - at);
                bytes[at..at + n].fill(random.next() as u8);
            }
            _ => {
                // Near the end, where Parquet has its footer.
                let at = bytes.len() - 1 - random.below(bytes.len().min(600));
                bytes[at] = random.next() as u8;
            }
        }
    }
}

fn timed(target: Target, bytes: &[u8], what: &str) {
    let start = Instant::now();
    (target.read)(bytes);
    assert!(start.elapsed() < ONE, "{} took {:?} for {what}", target.name, start.elapsed());
}

#[test]
fn spoilt_inputs_are_read_to_an_end() {
    let start = Instant::now();
    let mut done = 0;
    for input in 0..INPUTS {
        for (t, target) in every_target().enumerate() {
            let seeds = seeds_of(t);
            let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (input << 8) ^ t as u64);
            let mut bytes = seeds[random.below(seeds.len())].clone();
            spoil(&mut bytes, &mut random);
            timed(target, &bytes, &format!("input {input}"));
            done += 1;
        }
        if start.elapsed() > TIME {
            println!("after {done} inputs {TIME:?} are over: the rest is left out");
            break;
        }
    }
    assert!(done > 1000, "only {done} inputs were tried");
    check_memory();
}

fn seeds_of(target: usize) -> &'static [Vec<u8>] {
    static SEEDS: std::sync::OnceLock<Vec<Vec<Vec<u8>>>> = std::sync::OnceLock::new();
    &SEEDS.get_or_init(|| every_target().map(|t| every_seed(t.name)).collect())[target]
}

#[test]
fn every_beginning_is_read_to_an_end() {
    for target in every_target() {
        for seed in every_seed(target.name) {
            let step = (seed.len() / 400).max(1);
            for end in (0..seed.len()).step_by(step) {
                timed(target, &seed[..end], &format!("the first {end} bytes"));
            }
        }
    }
}

#[test]
fn what_fuzzing_found_is_read_to_an_end() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/found");
    for target in every_target() {
        let Ok(files) = fs::read_dir(found.join(target.name)) else { continue };
        for file in files {
            let path = file.unwrap().path();
            timed(target, &fs::read(&path).unwrap(), &path.display().to_string());
        }
    }
    check_memory();
}

fn check_memory() {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status
        .lines()
        .find_map(|l| l.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    if let Some(peak) = peak {
        assert!(peak < MEMORY_KIB, "reading took {peak} KiB of memory");
    }
}
