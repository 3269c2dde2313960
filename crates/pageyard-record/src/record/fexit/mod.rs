//! Moves of frames, each as it happens: a small program that the kernel runs when it has moved a folio.
//!
//! No tracepoint names both frames of a move. A function of the kernel is given both, and where the kernel allows it a
//! program can be attached to that function (BPF, `fexit`). It writes both frames into a buffer of perf, with the time
//! and the CPU. Where the function is, and where a folio keeps its order, is read from the kernel's own description of
//! its types. Nothing of this stays when the recorder ends, however it ends.

mod call;
mod program;

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};

use pageyard_trace::source::reason;

use super::rings::{Rings, Seen};
use crate::btf::{Btf, TYPES};
use crate::tracepoint::{Decoder, Entry};
use program::ProbeTarget;

/// Where the kernel's symbols are.
const SYMBOLS: &str = "/proc/kallsyms";

/// The symbol of the address of the table of pages. # Linux: on x86-64 with `CONFIG_SPARSEMEM_VMEMMAP`.
const TABLE: &str = "vmemmap_base";

/// Each CPU's buffer: a compaction that moves a million frames a second fills half of it in 20 ms.
const BYTES: u64 = 4 << 20;

/// A watch on the function that moves folios.
pub(super) struct MoveProbe {
    place: ProbeTarget,
    program: OwnedFd,
    rings: Rings,
    /// The kernel takes the buffers out of a map that no process holds.
    _map: OwnedFd,
    link: Option<OwnedFd>,
}

impl MoveProbe {
    /// Loads the program; it does not run yet.
    ///
    /// # Errors
    /// Why this kernel does not allow it, as the end of a sentence.
    pub(super) fn open(cpus: &[u32]) -> Result<MoveProbe, String> {
        if !cfg!(target_arch = "x86_64") {
            return Err("where the table of pages begins is known on x86-64 only".to_owned());
        }
        let types = fs::read(TYPES).map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                format!("the kernel was built without a description of its types ({TYPES})")
            }
            _ => format!("{TYPES} cannot be read ({})", reason(&e)),
        })?;
        let btf = Btf::parse(&types).ok_or_else(|| format!("{TYPES} cannot be understood"))?;
        let place = ProbeTarget::find(&btf).map_err(str::to_owned)?;
        let symbols =
            File::open(SYMBOLS).map_err(|e| format!("{SYMBOLS} cannot be read ({})", reason(&e)))?;
        let table = address(BufReader::new(symbols), TABLE)
            .ok_or_else(|| format!("{SYMBOLS} does not say where {TABLE} is"))?;
        let refused = |e: &io::Error| {
            format!("the kernel refuses a program that is attached to {} ({})", place.function, reason(e))
        };
        let last = cpus.iter().max().map_or(0, |last| last + 1);
        let map = call::buffers(last).map_err(|e| refused(&e))?;
        let rings = Rings::of_programs(cpus, BYTES).map_err(|e| e.to_string())?;
        for (cpu, fd) in rings.descriptors() {
            call::set_buffer(&map, cpu, fd).map_err(|e| refused(&e))?;
        }
        let code = place.program(map.as_raw_fd(), table);
        let program = call::load(&code, place.id, place.at_exit).map_err(|e| refused(&e))?;
        // Whether it can be attached is known only then; nothing is written until the buffers are enabled.
        let link = Some(call::attach(&program).map_err(|e| refused(&e))?);
        Ok(MoveProbe { place, program, rings, _map: map, link })
    }

    /// Returns the function that is watched.
    pub(super) fn function(&self) -> &'static str {
        self.place.function
    }

    /// Starts watching.
    pub(super) fn enable(&mut self) -> Result<(), super::RecordError> {
        self.rings.enable()
    }

    /// Ends it; what was written can still be read.
    pub(super) fn disable(&mut self) {
        // From here on the program does not run, so nothing is written, whatever becomes of the buffers.
        self.link = None;
        let _ = self.rings.disable();
    }

    /// Hands over the moves that were there at `until`.
    pub(super) fn drain(
        &mut self,
        until: u64,
        decoder: &mut Decoder,
        seen: &mut Seen,
        out: &mut impl FnMut(Entry),
    ) {
        let page_bytes = self.place.page_bytes;
        self.rings.drain(until, seen, &mut |raw, time, cpu, seen| {
            let moved = program::read(raw, page_bytes);
            match moved.and_then(|m| decoder.moved(time, cpu, m.thread, m.pfn, m.to, m.order)) {
                Some(entry) => out(entry),
                None => seen.impossible += 1,
            }
        });
    }

    /// Returns how many moves were not reported, by the kernel's own count.
    pub(super) fn lost(&mut self) -> u64 {
        self.rings.lost_for_certain() + call::misses(&self.program).unwrap_or(0)
    }
}

/// Finds a symbol's address. A kernel that hides addresses says 0.
fn address(symbols: impl BufRead, name: &str) -> Option<u64> {
    symbols.split(b'\n').map_while(Result::ok).find_map(|line| {
        let line = std::str::from_utf8(&line).ok()?;
        let mut words = line.split_ascii_whitespace();
        let (address, _, found) = (words.next()?, words.next()?, words.next()?);
        (found == name).then(|| u64::from_str_radix(address, 16).ok())?.filter(|&a| a != 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbol_is_found_by_its_whole_name() {
        let text = "ffffffff81000000 T vmemmap_base_x\nffffffff82000010 D vmemmap_base\n0000000000000000 D hidden\nbad\n";
        assert_eq!(address(text.as_bytes(), TABLE), Some(0xffff_ffff_8200_0010));
        assert_eq!(address(text.as_bytes(), "hidden"), None);
        assert_eq!(address(text.as_bytes(), "vmemmap"), None);
    }

    #[test]
    fn a_host_is_watched_or_says_why_not() {
        match MoveProbe::open(&[0]) {
            Ok(mut watch) => {
                watch.enable().unwrap();
                watch.disable();
                assert_eq!(watch.lost(), 0);
            }
            Err(why) => {
                println!("moves are not watched: {why}");
                assert!(!why.is_empty() && !why.contains('\n') && !why.ends_with('.'), "{why}");
            }
        }
    }
}
