//! The file through which the driver and a guest that replays a recording speak. `bench/linux/judge/replay.h` has the
//! same layout for the guest.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = u64::from_le_bytes(*b"pjurepl1");
const VERSION: u64 = 2;
const MIB: u64 = 1 << 20;

/// Kinds of zone: DMA, DMA32, Normal, Movable.
pub const ZONES: usize = 4;
/// Orders of blocks.
pub const ORDERS: usize = 11;
/// Types of pageblocks that are told apart: unmovable, movable, reclaimable, set aside, and all others.
pub const TYPES: usize = 5;
/// The answer of a step that got nothing.
pub const NO_FRAME: u32 = u32::MAX;

const ZONE_WORDS: usize = 1 + 2 + 3 + ZONES + 3;
/// Where in the head the words of the guest lie, after those of the driver.
const DONE: u64 = 8 * 22;
const ZONES_AT: u64 = DONE + 8 * (5 + TYPES * TYPES) as u64;
const RELEASE_AT: u64 = ZONES_AT + 8 * (ZONES * ZONE_WORDS) as u64;
const HEAD: usize = RELEASE_AT as usize + 64 + 256;

/// The kind of a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum StepKind {
    /// Asks for a block.
    Alloc = 0,
    /// Frees a part of what step `arg` got, `offset` frames from its first on.
    Free = 1,
    /// Frees the block at frame `arg`, which the opening holds.
    FreeAt = 2,
    /// Drains the lists of all CPUs.
    Drain = 3,
    /// Lets the vmstat worker of its CPU run.
    Tick = 4,
    /// Lets the background reclaimer go to sleep.
    KswapdEnds = 5,
    /// Records the free and listed frames of all zones.
    Sample = 6,
}

/// One step. The flags are those of [`crate::request`], as far as a recording has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The kind.
    pub kind: StepKind,
    /// The order of the block.
    pub order: u8,
    /// Of requests: 0 unmovable, 1 movable, 2 reclaimable.
    pub migratetype: u8,
    /// Of requests: the highest kind of zone that may serve.
    pub zone: u8,
    /// The CPU.
    pub cpu: u16,
    /// Of requests: how hard to try.
    pub flags: u16,
    /// The kind's argument.
    pub arg: u32,
    /// The kind's second argument.
    pub offset: u32,
}

impl Step {
    /// Bytes of a step as the guest reads it.
    pub const BYTES: usize = 16;

    /// Makes a step that needs no more than a CPU, an order and two numbers.
    #[must_use]
    pub const fn new(kind: StepKind, cpu: u16, order: u8, arg: u32, offset: u32) -> Step {
        Step { kind, order, migratetype: 0, zone: 0, cpu, flags: 0, arg, offset }
    }

    /// Writes it as the guest reads it.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Step::BYTES] {
        let mut out =
            [self.kind as u8, self.order, self.migratetype, self.zone, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        out[4..6].copy_from_slice(&self.cpu.to_le_bytes());
        out[6..8].copy_from_slice(&self.flags.to_le_bytes());
        out[8..12].copy_from_slice(&self.arg.to_le_bytes());
        out[12..].copy_from_slice(&self.offset.to_le_bytes());
        out
    }
}

/// How much a guest has to be told, at most.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sizes {
    /// Frames from 0 to the guest's last.
    pub frames: u64,
    /// Steps.
    pub steps: u64,
    /// Samples.
    pub samples: u64,
    /// CPUs.
    pub cpus: u64,
}

/// Where things lie, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Places {
    taken: u64,
    free: u64,
    cached: u64,
    types: u64,
    lists: u64,
    cached_lists: u64,
    highs: u64,
    movable: u64,
    steps: u64,
    answers: u64,
    samples: u64,
    samples_room: u64,
    /// The whole file: a power of two, as a device's memory is.
    size: u64,
}

impl Sizes {
    fn places(self) -> Places {
        let mut at = MIB;
        let mut room = |bytes: u64| {
            let place = at;
            at += bytes.next_multiple_of(MIB);
            place
        };
        let map = self.frames.div_ceil(64) * 8;
        let samples_room = self.samples.saturating_mul(sample_words(self.cpus) as u64);
        let places = Places {
            taken: room(map),
            free: room(map),
            cached: room(map),
            types: room(self.frames / 512 * 8),
            // Every frame a block of its own, and the heads of lists.
            lists: room(self.frames * 4 + MIB),
            cached_lists: room(self.frames * 8 + MIB),
            highs: room(self.cpus * ZONES as u64 * 16),
            movable: room(map),
            steps: room(self.steps * Step::BYTES as u64),
            answers: room(self.steps * 4),
            samples: room(samples_room * 8),
            samples_room,
            size: 0,
        };
        Places { size: at.next_power_of_two(), ..places }
    }
}

/// Words of a sample.
fn sample_words(cpus: u64) -> usize {
    1 + ZONES * (3 + ORDERS * TYPES + TYPES + 2 * cpus as usize)
}

/// The sizes of the recorded machine's zones, before the guest boots.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Wanted {
    /// Managed frames of each kind of zone, 0 if there is none.
    pub managed: [u64; ZONES],
    /// `vm.min_free_kbytes`.
    pub min_free_kbytes: u64,
}

/// A zone of the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct GuestZone {
    /// Its first frame.
    pub start: u64,
    /// Frames from its first to its last; 0 where the guest has no such zone.
    pub spanned: u64,
    /// The watermarks min, low and high.
    pub marks: [u64; 3],
    /// `lowmem_reserve`.
    pub protection: [u64; ZONES],
    /// Of a CPU's lists: batch, `high_min` and `high_max`.
    pub lists: [u64; 3],
}

/// The opening state of a guest, in its own frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GuestOpening {
    /// Pageblocks and their types.
    pub types: Vec<[u32; 2]>,
    /// Of each free list: order, type, number of blocks, and their first frames, head first.
    pub lists: Vec<u32>,
    /// Of each list of a CPU: CPU, kind of zone, list, order, number of blocks; then of each block, the next to be
    /// taken first, its first frame and the type that it was cached with.
    pub cached: Vec<u32>,
    /// CPU, kind of zone, limit of its lists in frames, 0.
    pub highs: Vec<[u32; 4]>,
    /// The frames whose holders can move them: a request that takes from their pageblock asks how many there are.
    pub movable: Vec<u32>,
}

/// The free and listed frames of zones at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GuestSample {
    /// The step that took it.
    pub step: u64,
    /// By kind of zone.
    pub zones: [SampledZone; ZONES],
}

/// A zone in a sample.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SampledZone {
    /// Free frames.
    pub free: u64,
    /// The boost that fragmentation adds to the watermarks.
    pub boost: u64,
    /// Frames set aside for high-order requests that cannot wait.
    pub highatomic: u64,
    /// Free blocks by order and type.
    pub blocks: [[u64; TYPES]; ORDERS],
    /// Pageblocks by type.
    pub pageblocks: [u64; TYPES],
    /// Of each CPU: frames in its lists, and their limit.
    pub lists: Vec<(u64, u64)>,
}

/// A set of the guest's frames.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameMap(Vec<u64>);

impl FrameMap {
    /// Makes the set from bits, lowest first.
    #[must_use]
    pub fn from_words(words: Vec<u64>) -> FrameMap {
        FrameMap(words)
    }

    /// Returns whether a frame is in the set.
    #[must_use]
    pub fn contains(&self, pfn: u64) -> bool {
        self.0.get((pfn / 64) as usize).is_some_and(|word| word >> (pfn % 64) & 1 == 1)
    }

    /// Counts the frames from `start` on, `frames` of them, that are in the set.
    #[must_use]
    pub fn count(&self, start: u64, frames: u64) -> u64 {
        (start..start + frames).filter(|pfn| self.contains(*pfn)).count() as u64
    }
}

/// The results of a guest's steps.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Replayed {
    /// The frame that each step got, [`NO_FRAME`] for none.
    pub answers: Vec<u32>,
    /// The zones and lists at each step that asked for a sample, and after each refused request.
    pub samples: Vec<GuestSample>,
    /// Blocks of the opening that are not on the list that they belong on.
    pub misplaced: u64,
    /// Requests that found no zone above its low watermark, of those that may wake the background reclaimer.
    pub slow: u64,
    /// Bytes of a `struct page`.
    pub page_bytes: u64,
    /// How often a request of a type (first index) took from a block of another.
    pub fallbacks: [[u64; TYPES]; TYPES],
    /// Frames on free lists at the end.
    pub free: FrameMap,
    /// Frames in lists of CPUs at the end.
    pub cached: FrameMap,
}

/// Where a guest is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Status {
    /// It boots.
    Waiting,
    /// It has all memory, and waits for its opening.
    Taken,
    /// It carries out steps: how many it has.
    Running(u64),
    /// It is done.
    Done,
    /// It could not: why.
    Failed(String),
}

/// The file.
#[derive(Debug)]
pub struct Exchange {
    file: File,
    places: Places,
    sizes: Sizes,
}

impl Exchange {
    /// Makes the file.
    ///
    /// # Errors
    /// Whatever keeps it from being made.
    pub fn create(path: &Path, sizes: Sizes, wanted: &Wanted) -> io::Result<Exchange> {
        let places = sizes.places();
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        file.set_len(places.size)?;
        let this = Exchange { file, places, sizes };
        this.put_words(0, &[MAGIC, VERSION, sizes.cpus, wanted.min_free_kbytes, sizes.frames])?;
        this.put_words(40, &[places.taken, places.free, places.cached])?;
        for (zone, managed) in wanted.managed.iter().enumerate() {
            this.put_words(ZONES_AT + (zone * ZONE_WORDS * 8) as u64, &[*managed])?;
        }
        Ok(this)
    }

    /// Returns the length of the file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.places.size
    }

    /// Says where the guest is.
    ///
    /// # Errors
    /// Whatever keeps the file from being read.
    pub fn status(&self) -> io::Result<Status> {
        let head = self.bytes_at(0, HEAD)?;
        let text = |from: usize, bytes: usize| {
            let text = &head[from..from + bytes];
            String::from_utf8_lossy(&text[..text.iter().position(|b| *b == 0).unwrap_or(bytes)]).into_owned()
        };
        Ok(match u32::from_le_bytes(std::array::from_fn(|i| head[12 + i])) {
            0 => Status::Waiting,
            1 => Status::Taken,
            2 => Status::Running(word(&head, DONE as usize)),
            3 => Status::Done,
            _ => Status::Failed(text(RELEASE_AT as usize + 64, 256)),
        })
    }

    /// Returns the kernel's release, the guest's zones and the frames that its module got, once it has taken all
    /// memory.
    ///
    /// # Errors
    /// Whatever keeps the file from being read.
    pub fn taken(&self) -> io::Result<(String, [GuestZone; ZONES], FrameMap)> {
        let head = self.bytes_at(0, HEAD)?;
        let release = &head[RELEASE_AT as usize..RELEASE_AT as usize + 64];
        let release = String::from_utf8_lossy(release).trim_end_matches('\0').to_owned();
        let zones = std::array::from_fn(|zone| {
            let at = |n: usize| word(&head, ZONES_AT as usize + (zone * ZONE_WORDS + n) * 8);
            GuestZone {
                start: at(1),
                spanned: at(2),
                marks: std::array::from_fn(|i| at(3 + i)),
                protection: std::array::from_fn(|i| at(6 + i)),
                lists: std::array::from_fn(|i| at(6 + ZONES + i)),
            }
        });
        Ok((release, zones, self.map_at(self.places.taken)?))
    }

    /// Tells the guest what to open with and what to do, and lets it begin.
    ///
    /// # Errors
    /// Whatever keeps the file from being written, or more than there is room for.
    pub fn go(&self, opening: &GuestOpening, steps: &[Step]) -> io::Result<()> {
        if steps.len() as u64 > self.sizes.steps {
            return Err(io::Error::other("there are more steps than the exchange has room for"));
        }
        let p = &self.places;
        self.put_numbers(p.types, opening.types.iter().flatten())?;
        self.put_numbers(p.lists, opening.lists.iter())?;
        self.put_numbers(p.cached_lists, opening.cached.iter())?;
        self.put_numbers(p.highs, opening.highs.iter().flatten())?;
        let mut movable = vec![0u64; self.sizes.frames.div_ceil(64) as usize];
        for frame in &opening.movable {
            let word = movable.get_mut((frame / 64) as usize);
            *word.ok_or_else(|| io::Error::other("a frame lies behind the guest's last"))? |=
                1 << (frame % 64);
        }
        self.put_words(p.movable, &movable)?;
        for (n, chunk) in steps.chunks(1 << 16).enumerate() {
            let bytes: Vec<u8> = chunk.iter().flat_map(|s| s.to_bytes()).collect();
            self.file.write_all_at(&bytes, p.steps + (n as u64 * (1 << 16)) * Step::BYTES as u64)?;
        }
        let words = [
            opening.types.len() as u64,
            p.types,
            opening.lists.len() as u64,
            p.lists,
            opening.cached.len() as u64,
            p.cached_lists,
            opening.highs.len() as u64,
            p.highs,
            p.movable,
            steps.len() as u64,
            p.steps,
            p.answers,
            p.samples,
            p.samples_room,
        ];
        self.put_words(64, &words)?;
        self.file.write_all_at(&2u32.to_le_bytes(), 12)
    }

    /// Returns what the guest did with its steps, of which there are as many as this.
    ///
    /// # Errors
    /// Whatever keeps the file from being read.
    pub fn answers(&self, steps: usize) -> io::Result<Replayed> {
        let head = self.bytes_at(0, HEAD)?;
        let counted = |n: usize| word(&head, DONE as usize + 8 * n);
        let words = counted(1);
        let bytes = self.bytes_at(self.places.answers, steps * 4)?;
        let answers =
            bytes.chunks_exact(4).map(|b| u32::from_le_bytes(std::array::from_fn(|i| b[i]))).collect();
        let samples = self.words_at(self.places.samples, words.min(self.places.samples_room) as usize)?;
        let samples = samples.chunks_exact(sample_words(self.sizes.cpus));
        let samples = samples.map(|words| GuestSample::read(words, self.sizes.cpus as usize)).collect();
        Ok(Replayed {
            answers,
            samples,
            misplaced: counted(2),
            slow: counted(3),
            page_bytes: counted(4),
            fallbacks: std::array::from_fn(|m| std::array::from_fn(|from| counted(5 + m * TYPES + from))),
            free: self.map_at(self.places.free)?,
            cached: self.map_at(self.places.cached)?,
        })
    }

    fn map_at(&self, at: u64) -> io::Result<FrameMap> {
        Ok(FrameMap(self.words_at(at, self.sizes.frames.div_ceil(64) as usize)?))
    }

    fn put_words(&self, at: u64, words: &[u64]) -> io::Result<()> {
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, at)
    }

    fn put_numbers<'a>(&self, at: u64, numbers: impl Iterator<Item = &'a u32>) -> io::Result<()> {
        let bytes: Vec<u8> = numbers.flat_map(|n| n.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, at)
    }

    fn bytes_at(&self, at: u64, bytes: usize) -> io::Result<Vec<u8>> {
        let mut out = vec![0; bytes];
        self.file.read_exact_at(&mut out, at)?;
        Ok(out)
    }

    fn words_at(&self, at: u64, words: usize) -> io::Result<Vec<u64>> {
        let bytes = self.bytes_at(at, words * 8)?;
        Ok(bytes.chunks_exact(8).map(|b| word(b, 0)).collect())
    }
}

impl GuestSample {
    /// Reads a sample; there must be as many words as one has.
    fn read(words: &[u64], cpus: usize) -> GuestSample {
        let each = 3 + ORDERS * TYPES + TYPES + 2 * cpus;
        let zones = std::array::from_fn(|zone| {
            let words = &words[1 + zone * each..][..each];
            let (blocks, rest) = words[3..].split_at(ORDERS * TYPES);
            SampledZone {
                free: words[0],
                boost: words[1],
                highatomic: words[2],
                blocks: std::array::from_fn(|order| std::array::from_fn(|m| blocks[order * TYPES + m])),
                pageblocks: std::array::from_fn(|m| rest[m]),
                lists: rest[TYPES..].chunks_exact(2).map(|pair| (pair[0], pair[1])).collect(),
            }
        });
        GuestSample { step: words[0], zones }
    }
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[offset + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_the_file_is_a_power_of_two() {
        let sizes = Sizes { frames: 3_000_001, steps: 1_234_567, samples: 40, cpus: 3 };
        let p = sizes.places();
        let ends = [
            (p.taken, sizes.frames / 8),
            (p.free, sizes.frames / 8),
            (p.cached, sizes.frames / 8),
            (p.types, sizes.frames / 512 * 8),
            (p.lists, sizes.frames * 4),
            (p.cached_lists, sizes.frames * 8),
            (p.highs, 3 * 4 * 16),
            (p.movable, sizes.frames / 8),
            (p.steps, sizes.steps * 16),
            (p.answers, sizes.steps * 4),
            (p.samples, p.samples_room * 8),
            (p.size, 0),
        ];
        assert!(ends.windows(2).all(|w| w[0].0 + w[0].1 <= w[1].0), "{ends:?}");
        assert!(p.size.is_power_of_two() && p.taken >= HEAD as u64);
    }

    #[test]
    fn what_a_guest_writes_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let sizes = Sizes { frames: 1024, steps: 8, samples: 2, cpus: 1 };
        let wanted = Wanted { managed: [0, 700, 0, 0], min_free_kbytes: 5 };
        let exchange = Exchange::create(&folder.path().join("x"), sizes, &wanted).unwrap();
        assert_eq!(exchange.status().unwrap(), Status::Waiting);
        let steps = [Step::new(StepKind::Alloc, 0, 3, 0, 0), Step::new(StepKind::Sample, 0, 0, 0, 0)];
        let opening = GuestOpening { movable: vec![65, 1023], ..GuestOpening::default() };
        exchange.go(&opening, &steps).unwrap();
        let movable = exchange.map_at(exchange.places.movable).unwrap();
        assert!(movable.contains(65) && movable.contains(1023) && movable.count(0, 1024) == 2);
        assert!(exchange.go(&GuestOpening { movable: vec![1024], ..opening }, &steps).is_err());
        assert_eq!(exchange.status().unwrap(), Status::Running(0));
        // As the guest would.
        let mut sample = vec![0u64; sample_words(1)];
        (sample[0], sample[1], sample[1 + 3 + TYPES]) = (1, 77, 5);
        exchange.put_words(exchange.places.samples, &sample).unwrap();
        exchange.put_numbers(exchange.places.answers, [640, NO_FRAME].iter()).unwrap();
        exchange.put_words(exchange.places.free, &[0b100]).unwrap();
        exchange.put_words(DONE, &[2, sample.len() as u64, 3]).unwrap();
        let Replayed { answers, samples, misplaced, free, cached, .. } = exchange.answers(2).unwrap();
        assert_eq!((answers, misplaced), (vec![640, NO_FRAME], 3));
        assert_eq!((samples.len(), samples[0].zones[0].free, samples[0].zones[0].blocks[1][0]), (1, 77, 5));
        assert!(free.contains(2) && !free.contains(3) && cached.count(0, 1024) == 0);
        assert!(exchange.go(&GuestOpening::default(), &[steps[0]; 9]).is_err());
    }
}
