//! The file through which the driver and the guest speak: the stream goes in, answers and two states come out. The
//! guest sees it as the memory of a device. `bench/linux/judge/exchange.h` has the same layout for the guest.

use crate::kernel_state::{KernelState, StateError};
use crate::operation::{Answer, Kind, Move, Operation};
use crate::steps::TakenStep;
use pageyard_guest::guest::Failure;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const MAGIC: u64 = u64::from_le_bytes(*b"pyjudge1");
const VERSION: u32 = 4;
const MIB: u64 = 1 << 20;

/// Where things lie, in bytes.
const OPERATIONS_AT: u64 = MIB;
/// The offset of the guest's result, after the driver's words: 8 + 4 + 4 + 16 * 8 + 4 + 4.
const DONE_AT: u64 = 152;
const ANSWERS_AT: u64 = 65 * MIB;
const FRAMES_AT: u64 = 129 * MIB;
/// Frame numbers of bulk requests that fit; behind them the guest keeps a list of its own.
const FRAMES_ROOM: u64 = 11 * MIB;
const OPENING_AT: u64 = 192 * MIB;
const CLOSING_AT: u64 = 224 * MIB;
const STATE_ROOM: u64 = 32 * MIB;
const COUNTS_AT: u64 = 256 * MIB;
/// Operations after which what is counted is kept, [`COUNTS`] numbers each.
const COUNTS_ROOM: u64 = 512 * 1024;
const COUNTS: usize = 64;
const WHERE_AT: u64 = 384 * MIB;
const OFF_LRU_AT: u64 = 446 * MIB;
const MOVES_AT: u64 = 448 * MIB;
const MOVES_ROOM: u64 = 2 * MIB;
const MOVE_BYTES: usize = 12;
const STEPS_AT: u64 = 472 * MIB;
const STEPS_ROOM: u64 = 2 * MIB;
/// The whole file: a power of two, as a device's memory is.
pub const SIZE: u64 = 512 * MIB;

/// The most operations that fit: as many as four bytes for each find room behind the frames.
pub const MOST_OPERATIONS: usize = 4 << 20;

const ANSWER_BYTES: usize = 16;
const FRAME_FREED: u32 = 1 << 31;
const NONE: u64 = u64::MAX;

/// A kernel's results for a stream.
#[derive(Clone, Debug)]
pub struct Ruling {
    /// The kernel's release.
    pub release: String,
    /// The state before the first operation.
    pub opening: KernelState,
    /// The answer to each operation.
    pub answers: Vec<Answer>,
    /// The frames that compaction moved, in order.
    pub moves: Vec<Move>,
    /// The steps of compaction, in order.
    pub steps: Vec<TakenStep>,
    /// How many requests were to isolate more frames than one may.
    pub cut_short: u64,
    /// How often each request reclaimed.
    pub reclaims: Vec<u16>,
    /// The counts of zones and lists after each operation, folded as [`crate::reference::Reference::counts`] does.
    pub counts: Vec<u32>,
    /// The cost of calls, if measured: an allocation, a free, a frame of a bulk request.
    pub weights: [f64; 3],
    /// The state after the last.
    pub closing: KernelState,
}

/// Why there is no ruling.
#[derive(Debug)]
pub enum ExchangeError {
    /// The file could not be written or read.
    Io(io::Error),
    /// The guest failed.
    Guest(Failure),
    /// Compaction did more than there is room to write down.
    TooMany,
    /// The guest's state makes no sense.
    State(StateError),
}

impl fmt::Display for ExchangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ExchangeError::Io(e) => write!(f, "the exchange with the guest failed: {e}"),
            ExchangeError::Guest(why) => why.fmt(f),
            ExchangeError::TooMany => {
                f.write_str("compaction did more than the exchange has room for: carry out fewer operations")
            }
            ExchangeError::State(e) => write!(f, "the guest wrote a state that makes no sense: {e}"),
        }
    }
}

impl std::error::Error for ExchangeError {}

impl From<Failure> for ExchangeError {
    fn from(why: Failure) -> Self {
        ExchangeError::Guest(why)
    }
}

impl From<io::Error> for ExchangeError {
    fn from(e: io::Error) -> Self {
        ExchangeError::Io(e)
    }
}

/// The guest's task for a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Carries it out; nothing is compacted.
    Plain,
    /// Carries it out; requests that may wait may also compact.
    Compact,
    /// Measures first what calls take, with the emulator counting instructions.
    Weigh,
}

/// Writes a stream for the guest.
///
/// # Errors
/// Whatever keeps the file from being written.
pub fn write(path: &Path, operations: &[Operation], task: Task) -> io::Result<()> {
    if operations.len() > MOST_OPERATIONS {
        return Err(io::Error::other(format!("a stream has at most {MOST_OPERATIONS} operations")));
    }
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
    file.set_len(SIZE)?;
    let mut head = Vec::new();
    head.extend(MAGIC.to_le_bytes());
    head.extend(VERSION.to_le_bytes());
    head.extend(0u32.to_le_bytes());
    for word in [
        operations.len() as u64,
        OPERATIONS_AT,
        ANSWERS_AT,
        FRAMES_AT,
        FRAMES_ROOM,
        OPENING_AT,
        CLOSING_AT,
        STATE_ROOM,
        COUNTS_AT,
        COUNTS_ROOM,
        WHERE_AT,
        MOVES_AT,
        MOVES_ROOM,
        OFF_LRU_AT,
        STEPS_AT,
        STEPS_ROOM,
    ] {
        head.extend(word.to_le_bytes());
    }
    head.extend(u32::from(task == Task::Compact).to_le_bytes());
    head.extend(u32::from(task == Task::Weigh).to_le_bytes());
    file.write_all(&head)?;
    file.seek(SeekFrom::Start(OPERATIONS_AT))?;
    let bytes: Vec<u8> = operations.iter().flat_map(|op| op.to_bytes()).collect();
    file.write_all(&bytes)
}

fn at(file: &mut File, offset: u64, bytes: usize) -> io::Result<Vec<u8>> {
    let mut out = vec![0; bytes];
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(&mut out)?;
    Ok(out)
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[offset + i]))
}

fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

/// Reads how many operations the guest has carried out so far.
///
/// # Errors
/// Whatever keeps the file from being read.
pub(crate) fn done(exchange: &File) -> io::Result<u64> {
    let mut bytes = [0; 8];
    exchange.read_exact_at(&mut bytes, DONE_AT)?;
    Ok(u64::from_le_bytes(bytes))
}

/// Reads what a guest counted after an operation, if that was among the first.
#[must_use]
pub fn counted(path: &Path, operation: u64) -> Option<Vec<u32>> {
    if operation >= COUNTS_ROOM {
        return None;
    }
    let offset = COUNTS_AT + operation * COUNTS as u64 * 4;
    let bytes = at(&mut File::open(path).ok()?, offset, COUNTS * 4).ok()?;
    Some(bytes.chunks_exact(4).map(|b| u32::from_le_bytes(std::array::from_fn(|i| b[i]))).collect())
}

/// Reads what the guest wrote.
///
/// # Errors
/// [`ExchangeError`].
pub fn read(path: &Path, operations: &[Operation]) -> Result<Ruling, ExchangeError> {
    let mut file = File::open(path)?;
    let head = at(&mut file, 0, 1024)?;
    let [done, frames, moves, steps, opening_len, closing_len] =
        std::array::from_fn(|i| word(&head, DONE_AT as usize + 8 * i));
    let weights = std::array::from_fn(|i| word(&head, 200 + 8 * i) as f64 / 1000.0);
    let release = text(&head[264..328]);
    match u32::from_le_bytes(std::array::from_fn(|i| head[12 + i])) {
        0 => return Err(Failure::NotBegun.into()),
        1 => return Err(Failure::Hung(done).into()),
        2 => {}
        _ => return Err(Failure::Refused(text(&head[328..584])).into()),
    }
    let frames = at(&mut file, FRAMES_AT, (frames.min(FRAMES_ROOM) * 4) as usize)?;
    let frames: Vec<u32> =
        frames.chunks_exact(4).map(|b| u32::from_le_bytes(std::array::from_fn(|i| b[i]))).collect();
    let bytes = at(&mut file, ANSWERS_AT, operations.len() * ANSWER_BYTES)?;
    let answers = operations.iter().zip(bytes.chunks_exact(ANSWER_BYTES)).map(|(op, b)| {
        let result = word(b, 0);
        match op.kind {
            Kind::Alloc => Answer::Block((result != NONE).then_some(result)),
            kind if kind.asks_for_frames() => {
                let first = (result >> 16) as usize;
                let got = frames.iter().skip(first).take((result & 0xffff) as usize);
                Answer::Bulk(got.map(|f| u64::from(f & !FRAME_FREED)).collect())
            }
            _ => Answer::Done,
        }
    });
    let answers = answers.collect();
    let reclaims = bytes.chunks_exact(ANSWER_BYTES).map(|b| (word(b, 8) >> 16) as u16).collect();
    let counts = bytes.chunks_exact(ANSWER_BYTES).map(|b| (word(b, 8) >> 32) as u32).collect();
    let cut_short = bytes.chunks_exact(ANSWER_BYTES).filter(|b| word(b, 8) & 0xffff != 0).count() as u64;
    if moves > MOVES_ROOM || steps > STEPS_ROOM {
        return Err(ExchangeError::TooMany);
    }
    let bytes = at(&mut file, MOVES_AT, moves as usize * MOVE_BYTES)?;
    let moves = bytes.chunks_exact(MOVE_BYTES).map(Move::read).collect();
    let bytes = at(&mut file, STEPS_AT, steps as usize * TakenStep::BYTES)?;
    let steps = bytes.chunks_exact(TakenStep::BYTES).map(TakenStep::read).collect();
    let mut state = |offset, len: u64| -> Result<KernelState, ExchangeError> {
        let bytes = at(&mut file, offset, len.min(STATE_ROOM) as usize)?;
        KernelState::read(&bytes).map_err(ExchangeError::State)
    };
    Ok(Ruling {
        release,
        opening: state(OPENING_AT, opening_len)?,
        answers,
        moves,
        steps,
        cut_short,
        reclaims,
        counts,
        weights,
        closing: state(CLOSING_AT, closing_len)?,
    })
}
