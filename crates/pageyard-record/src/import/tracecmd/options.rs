//! The options of a file.

use pageyard_trace::text::quoted;

use super::super::cursor::Cursor;
use super::super::kernel::{MAX_CPUS, plain};

// Kinds of options.
const CPUSTAT: u16 = 2;
const BUFFER: u16 = 3;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;
const CPUCOUNT: u16 = 8;
const EVENT_FORMATS: u16 = 18;

/// More buffers than anyone has: one for each instance of the tracer.
const MAX_BUFFERS: usize = 1024;

/// Clocks that count nanoseconds.
const NANOSECONDS: [&[u8]; 7] = [b"local", b"global", b"perf", b"mono", b"mono_raw", b"boot", b"tai"];

/// A buffer of one instance of the tracer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Buffer {
    /// Where its section begins.
    pub(super) at: u64,
    pub(super) page_bytes: u32,
    /// Each CPU's number, and where its pages are: offset and length.
    pub(super) cpus: Vec<(u32, u64, u64)>,
}

/// The options that matter.
#[derive(Clone, Debug, Default)]
pub(super) struct Options {
    pub(super) buffers: Vec<Buffer>,
    pub(super) release: Option<String>,
    pub(super) machine: Option<String>,
    pub(super) cpus: u32,
    /// Events that the kernel overwrote or dropped, by its own count.
    pub(super) lost: u64,
    /// Where the descriptions of tracepoints are, in version 7.
    pub(super) formats: Option<u64>,
}

impl Options {
    /// Takes in the options of a section, up to the last one; returns where the next section is, in version 7.
    ///
    /// # Errors
    /// The fault in them.
    pub(super) fn read(&mut self, cursor: &mut Cursor<'_>, version: u8) -> Result<u64, String> {
        loop {
            let kind = cursor.half()?;
            if kind == 0 && version == 6 {
                return Ok(0);
            }
            let bytes = cursor.word()?;
            let mut data = Cursor::new(cursor.take(bytes.into())?);
            match kind {
                0 => return data.long(),
                CPUSTAT => self.lost = self.lost.saturating_add(lost(data.rest())),
                BUFFER => self.buffer(&mut data, version)?,
                TRACECLOCK if version == 6 => check_clock(chosen(data.rest()))?,
                UNAME => self.name(data.rest()),
                CPUCOUNT => self.cpus = data.word()?,
                EVENT_FORMATS => self.formats = Some(data.long()?),
                _ => {}
            }
        }
    }

    fn buffer(&mut self, data: &mut Cursor<'_>, version: u8) -> Result<(), String> {
        if self.buffers.len() == MAX_BUFFERS {
            return Err(format!("it has more than {MAX_BUFFERS} buffers"));
        }
        let mut buffer = Buffer { at: data.long()?, ..Buffer::default() };
        data.text()?;
        if version == 7 {
            check_clock(data.text()?)?;
            buffer.page_bytes = data.word()?;
            let cpus = data.word()?;
            if cpus > MAX_CPUS {
                return Err(format!("it claims a buffer of {cpus} CPUs"));
            }
            for _ in 0..cpus {
                buffer.cpus.push((data.word()?, data.long()?, data.long()?));
            }
        }
        self.buffers.push(buffer);
        Ok(())
    }

    /// Takes the kernel's release and the machine from `Linux HOST RELEASE MACHINE`; the host's name is not kept.
    fn name(&mut self, text: &[u8]) {
        let text = text.split(|&b| b == 0).next().unwrap_or_default();
        let mut words = text.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty()).rev();
        self.machine = words.next().and_then(plain);
        self.release = words.next().and_then(plain);
    }
}

/// Adds up what a CPU's statistics say of lost events.
fn lost(text: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(text);
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let counts = lines.filter(|(name, _)| matches!(*name, "overrun" | "dropped events"));
    counts.filter_map(|(_, n)| n.trim_end_matches('\0').parse::<u32>().ok()).map(u64::from).sum()
}

/// Returns the clock in brackets: `[local] global counter`.
fn chosen(text: &[u8]) -> &[u8] {
    let inside = text.split(|&b| b == b'[').nth(1).and_then(|rest| rest.split(|&b| b == b']').next());
    inside.unwrap_or(b"local")
}

fn check_clock(clock: &[u8]) -> Result<(), String> {
    if NANOSECONDS.contains(&clock) {
        return Ok(());
    }
    Err(format!(
        "its clock `{}` does not count nanoseconds: record with `trace-cmd record -C mono`",
        quoted(clock)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn option(kind: u16, data: &[u8]) -> Vec<u8> {
        [&kind.to_le_bytes()[..], &(data.len() as u32).to_le_bytes(), data].concat()
    }

    #[test]
    fn what_is_lost_is_added_up_over_cpus() {
        let stat =
            b"CPU: 0\nentries: 5\noverrun: 30\ncommit overrun: 2\ndropped events: 4\nread events: 9\n\0";
        let bytes = [option(2, stat), option(2, stat), option(8, &2u32.to_le_bytes()), vec![0, 0]].concat();
        let mut options = Options::default();
        assert_eq!(options.read(&mut Cursor::new(&bytes), 6), Ok(0));
        assert_eq!((options.lost, options.cpus), (68, 2));
    }

    #[test]
    fn the_host_is_not_named() {
        let mut options = Options::default();
        options.name(b"Linux secret 6.1.0-13-amd64 x86_64\0");
        assert_eq!(options.release.as_deref(), Some("6.1.0-13-amd64"));
        assert_eq!(options.machine.as_deref(), Some("x86_64"));
        assert!(!format!("{options:?}").contains("secret"));
    }

    #[test]
    fn only_clocks_of_nanoseconds_are_taken() {
        assert_eq!(chosen(b"local global [mono] x86-tsc\n\0"), b"mono");
        assert_eq!(check_clock(chosen(b"corrupted")), Ok(()));
        let text = check_clock(b"x86-tsc").unwrap_err();
        assert!(text.contains("`x86-tsc`") && text.contains("-C mono"), "{text}");
    }

    #[test]
    fn options_end_or_are_cut_short() {
        let bytes = option(0, &77u64.to_le_bytes());
        assert_eq!(Options::default().read(&mut Cursor::new(&bytes), 7), Ok(77));
        for end in 0..bytes.len() {
            assert!(Options::default().read(&mut Cursor::new(&bytes[..end]), 7).is_err());
        }
        let many = [&[0; 9][..], b"local\0", &4096u32.to_le_bytes(), &u32::MAX.to_le_bytes()].concat();
        let text = Options::default().read(&mut Cursor::new(&option(3, &many)), 7).unwrap_err();
        assert!(text.contains("4294967295 CPUs"), "{text}");
    }
}
