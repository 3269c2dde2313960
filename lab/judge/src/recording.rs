//! A ruling in a file: which preset should do the same, the settings, the stream, the kernel's answers and both states.
//! It is compared without a kernel, so that the reference cannot drift.
//!
//! The file is one zstd frame: `pyruling`, the length of a JSON document with names and sizes, that document, the
//! operations as [`Operation::to_bytes`] writes them, a 32-bit number of each answer's length with its frame numbers in
//! 32 bits each, the counts, reclaims, moves and steps, and the two states as the guest wrote them.

use crate::exchange::Ruling;
use crate::kernel_state::KernelState;
use crate::operation::{Answer, Kind, Move, Operation};
use crate::settings::Settings;
use crate::steps::TakenStep;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::io::{self, Read};
use std::path::Path;

const MAGIC: &[u8; 8] = b"pyruling";

/// A file is refused above this size, unpacked.
const MOST_BYTES: u64 = 1 << 30;

/// A ruling, and what it is to be compared with.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The preset that should do the same.
    pub preset: String,
    /// The kernel's settings.
    pub settings: Settings,
    /// Whether requests that may wait compacted.
    pub compacts: bool,
    /// The stream.
    pub operations: Vec<Operation>,
    /// The kernel's results.
    pub ruling: Ruling,
}

#[derive(Serialize, Deserialize)]
struct Head {
    preset: String,
    release: String,
    compacts: bool,
    settings: Settings,
    operations: usize,
    moves: usize,
    #[serde(default)]
    steps: usize,
    #[serde(default)]
    cut_short: u64,
    opening_bytes: usize,
    closing_bytes: usize,
}

/// Why a file is no recording.
#[derive(Debug)]
pub enum RecordingError {
    /// It cannot be read or written.
    Io(io::Error),
    /// The content is wrong.
    Content(String),
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecordingError::Io(e) => write!(f, "it cannot be read: {e}"),
            RecordingError::Content(what) => write!(f, "it is no recorded ruling: {what}"),
        }
    }
}

impl std::error::Error for RecordingError {}

impl From<io::Error> for RecordingError {
    fn from(e: io::Error) -> Self {
        RecordingError::Io(e)
    }
}

fn wrong<T>(what: impl Into<String>) -> Result<T, RecordingError> {
    Err(RecordingError::Content(what.into()))
}

/// Takes the next bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, n: usize, what: &str) -> Result<&'a [u8], RecordingError> {
        match self.0.split_at_checked(n) {
            Some((taken, rest)) => {
                self.0 = rest;
                Ok(taken)
            }
            None => wrong(format!("it ends within {what}")),
        }
    }

    fn number(&mut self, what: &str) -> Result<u32, RecordingError> {
        let bytes = self.take(4, what)?;
        Ok(u32::from_le_bytes(std::array::from_fn(|i| bytes[i])))
    }
}

impl Recording {
    /// Writes it.
    ///
    /// # Errors
    /// [`RecordingError::Io`].
    pub fn write(&self, path: &Path) -> Result<(), RecordingError> {
        let Ruling { release, opening, answers, moves, steps, cut_short, reclaims, counts, closing, .. } =
            &self.ruling;
        let head = Head {
            preset: self.preset.clone(),
            release: release.clone(),
            compacts: self.compacts,
            settings: self.settings.clone(),
            operations: self.operations.len(),
            moves: moves.len(),
            steps: steps.len(),
            cut_short: *cut_short,
            opening_bytes: opening.bytes.len(),
            closing_bytes: closing.bytes.len(),
        };
        let head = serde_json::to_vec(&head).map_err(io::Error::other)?;
        let mut out = MAGIC.to_vec();
        out.extend((head.len() as u32).to_le_bytes());
        out.extend(head);
        out.extend(self.operations.iter().flat_map(|op| op.to_bytes()));
        for answer in answers {
            let frames: &[u64] = match answer {
                Answer::Block(Some(pfn)) => std::slice::from_ref(pfn),
                Answer::Bulk(frames) => frames,
                _ => &[],
            };
            out.extend((frames.len() as u32).to_le_bytes());
            out.extend(frames.iter().flat_map(|f| (*f as u32).to_le_bytes()));
        }
        out.extend(counts.iter().flat_map(|n| n.to_le_bytes()));
        out.extend(reclaims.iter().flat_map(|n| n.to_le_bytes()));
        out.extend(moves.iter().flat_map(|m| m.to_bytes()));
        out.extend(steps.iter().flat_map(|s| s.to_bytes()));
        out.extend(&opening.bytes);
        out.extend(&closing.bytes);
        Ok(std::fs::write(path, zstd::encode_all(&out[..], 19)?)?)
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`RecordingError`], with the operation where there is one.
    pub fn read(path: &Path) -> Result<Recording, RecordingError> {
        let file = std::fs::File::open(path)?;
        let mut bytes = Vec::new();
        let unpacked = zstd::Decoder::new(file)?.take(MOST_BYTES + 1).read_to_end(&mut bytes);
        if let Err(e) = unpacked {
            return wrong(format!("it does not unpack: {e}"));
        }
        if bytes.len() as u64 > MOST_BYTES {
            return wrong(format!("it unpacks to more than {MOST_BYTES} bytes"));
        }
        let mut at = Cursor(&bytes);
        if at.take(MAGIC.len(), "its name")? != MAGIC {
            return wrong("it begins otherwise");
        }
        let length = at.number("its head")? as usize;
        let head: Head = match serde_json::from_slice(at.take(length, "its head")?) {
            Ok(head) => head,
            Err(e) => return wrong(format!("its head says nothing: {e}")),
        };
        let mut operations = Vec::new();
        for n in 0..head.operations {
            let bytes = at.take(Operation::BYTES, &format!("operation {n}"))?;
            match Operation::from_bytes(std::array::from_fn(|i| bytes[i])) {
                Some(op) if op.refers() && op.arg as usize >= n => {
                    return wrong(format!(
                        "operation {n} names operation {}, which has not happened",
                        op.arg
                    ));
                }
                Some(op) => operations.push(op),
                None => return wrong(format!("operation {n} is none that there is")),
            }
        }
        let mut answers = Vec::new();
        for (n, op) in operations.iter().enumerate() {
            let what = format!("the answer to operation {n}");
            let count = at.number(&what)?;
            let frames = (0..count).map(|_| Ok(u64::from(at.number(&what)?)));
            let frames = frames.collect::<Result<Vec<u64>, RecordingError>>()?;
            answers.push(match (op.kind, &frames[..]) {
                (Kind::Alloc, []) => Answer::Block(None),
                (Kind::Alloc, [one]) => Answer::Block(Some(*one)),
                (kind, _) if kind.asks_for_frames() && frames.len() <= op.arg as usize => {
                    Answer::Bulk(frames)
                }
                (kind, _) if kind.asks() => return wrong(format!("{what} has too many frames")),
                (_, []) => Answer::Done,
                _ => return wrong(format!("{what} has frames")),
            });
        }
        let all = operations.len();
        let counts = (0..all).map(|_| at.number("the counts")).collect::<Result<_, _>>()?;
        let reclaims = at.take(2 * all, "the reclaims")?;
        let reclaims = reclaims.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]])).collect();
        let moves =
            at.take(head.moves.saturating_mul(12), "the moves")?.chunks_exact(12).map(Move::read).collect();
        let steps = at.take(head.steps.saturating_mul(TakenStep::BYTES), "the steps")?;
        let steps = steps.chunks_exact(TakenStep::BYTES).map(TakenStep::read).collect();
        let mut state = |bytes, what: &str| match KernelState::read(at.take(bytes, what)?) {
            Ok(state) => Ok(state),
            Err(e) => wrong(format!("{what} makes no sense: {e}")),
        };
        let opening = state(head.opening_bytes, "the opening state")?;
        let closing = state(head.closing_bytes, "the closing state")?;
        if !at.0.is_empty() {
            return wrong(format!("{} bytes follow its end", at.0.len()));
        }
        let ruling = Ruling {
            release: head.release.clone(),
            opening,
            answers,
            moves,
            steps,
            cut_short: head.cut_short,
            reclaims,
            counts,
            weights: [0.0; 3],
            closing,
        };
        let Head { preset, settings, compacts, .. } = head;
        Ok(Recording { preset, settings, compacts, operations, ruling })
    }
}
