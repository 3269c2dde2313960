//! The events of a file of Perfetto.

use bytes::Bytes;

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::kernel::{Kernel, MAX_CPUS, Recorder, plain};
use super::super::records::{Record, Records, Sample};
use super::event::{BYTES, formats, take};
use super::fields::{Fields, Malformed, Value};
use super::packets::Packets;

// The numbers of what matters in a packet, in a bundle, and in what is said of the host and of the tracer.
const FTRACE_EVENTS: u32 = 1;
const FTRACE_STATS: u32 = 34;
const SYSTEM_INFO: u32 = 45;
const BUNDLE_CPU: u32 = 1;
const BUNDLE_EVENT: u32 = 2;
const BUNDLE_LOST: u32 = 3;
const UTSNAME: u32 = 1;
const RELEASE: u32 = 3;
const MACHINE: u32 = 4;
const PAGE_SIZE: u32 = 6;
const NUM_CPUS: u32 = 8;
const STATS_PHASE: u32 = 1;
const STATS_CPU: u32 = 2;
const AT_START: u64 = 1;
const CPU_OVERRUN: u32 = 3;
const CPU_DROPPED: u32 = 8;

/// Reads events, bundle by bundle. A bundle has those of one CPU, in order; bundles come as the buffers were emptied,
/// so the file has no rounds.
pub(in super::super) struct PerfettoRecords<'a> {
    input: &'a Input,
    packets: Packets<'a>,
    kernel: Kernel,
    /// The bundle whose events are read, how much of it was used, and its CPU.
    bundle: Bytes,
    used: usize,
    cpu: u32,
    raw: [u8; BYTES],
    /// Bundles before which events are missing, as far as it was not reported.
    gaps: u64,
    /// The kernel's counts of lost events at the start and at the end.
    lost: (u64, u64),
}

impl<'a> PerfettoRecords<'a> {
    pub(in super::super) fn new(input: &'a Input) -> Result<PerfettoRecords<'a>, TraceError> {
        let kernel = Kernel::new(input.label(), Recorder::Perfetto, formats())?;
        Ok(PerfettoRecords {
            input,
            packets: Packets::new(input),
            kernel,
            bundle: Bytes::new(),
            used: 0,
            cpu: 0,
            raw: [0; BYTES],
            gaps: 0,
            lost: (0, 0),
        })
    }

    /// Takes in what a packet says, and begins its bundle if it has one.
    fn open(&mut self, packet: &Bytes) -> Result<(), Malformed> {
        let mut fields = Fields::new(packet);
        while let Some((number, value)) = fields.next()? {
            let Value::Bytes(bytes) = value else { continue };
            match number {
                FTRACE_EVENTS => self.begin(packet.slice_ref(bytes))?,
                FTRACE_STATS => self.count(bytes)?,
                SYSTEM_INFO => self.system(bytes)?,
                _ => {}
            }
        }
        Ok(())
    }

    fn begin(&mut self, bundle: Bytes) -> Result<(), Malformed> {
        // One packet has one bundle; of several, all but the last would be lost in silence.
        if self.used < self.bundle.len() {
            return Err(Malformed);
        }
        self.cpu = 0;
        let mut fields = Fields::new(&bundle);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (BUNDLE_CPU, Value::Number(cpu)) => self.cpu = u32::try_from(cpu).unwrap_or(u32::MAX),
                (BUNDLE_LOST, Value::Number(lost)) => self.gaps += u64::from(lost != 0),
                _ => {}
            }
        }
        (self.bundle, self.used) = (bundle, 0);
        Ok(())
    }

    /// Adds up what the kernel lost, as it was at the start or at the end.
    fn count(&mut self, stats: &[u8]) -> Result<(), Malformed> {
        let (mut at_start, mut lost) = (false, 0_u64);
        let mut fields = Fields::new(stats);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (STATS_PHASE, Value::Number(phase)) => at_start = phase == AT_START,
                (STATS_CPU, Value::Bytes(cpu)) => {
                    let mut fields = Fields::new(cpu);
                    while let Some((number, value)) = fields.next()? {
                        if matches!(number, CPU_OVERRUN | CPU_DROPPED) {
                            lost = lost.saturating_add(value.number().unwrap_or(0));
                        }
                    }
                }
                _ => {}
            }
        }
        *(if at_start { &mut self.lost.0 } else { &mut self.lost.1 }) = lost;
        Ok(())
    }

    fn system(&mut self, info: &[u8]) -> Result<(), Malformed> {
        let (mut release, mut machine, mut cpus) = (None, None, 1);
        let mut fields = Fields::new(info);
        while let Some((number, value)) = fields.next()? {
            match (number, value) {
                (UTSNAME, Value::Bytes(names)) => {
                    let mut fields = Fields::new(names);
                    while let Some((number, value)) = fields.next()? {
                        match number {
                            RELEASE => release = value.bytes().and_then(plain),
                            MACHINE => machine = value.bytes().and_then(plain),
                            _ => {}
                        }
                    }
                }
                (PAGE_SIZE, Value::Number(bytes)) if bytes != 4096 => self.kernel.page_bytes = bytes,
                (NUM_CPUS, Value::Number(n)) => cpus = u32::try_from(n).unwrap_or(MAX_CPUS),
                _ => {}
            }
        }
        self.kernel.describe(release.as_deref(), machine.as_deref(), cpus);
        Ok(())
    }

    /// Reads the bundle up to its next event, of this kind or another.
    fn event(&mut self) -> Result<Option<Option<u64>>, Malformed> {
        let mut fields = Fields::new(&self.bundle[self.used..]);
        while let Some((number, value)) = fields.next()? {
            if let (BUNDLE_EVENT, Value::Bytes(event)) = (number, value) {
                let taken = take(event)?;
                self.used = self.bundle.len() - fields.left();
                return Ok(Some(taken.map(|taken| {
                    self.raw = taken.raw;
                    taken.time
                })));
            }
        }
        self.used = self.bundle.len();
        Ok(None)
    }
}

impl Records for PerfettoRecords<'_> {
    fn next(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        loop {
            match self.event().map_err(|e| self.packets.damaged(e))? {
                Some(Some(time)) => {
                    return Ok(Some(Record::Sample(Sample { raw: &self.raw, time, cpu: self.cpu })));
                }
                Some(None) => return Ok(Some(Record::Skipped)),
                None => {}
            }
            let Some(packet) = self.packets.next()? else { break };
            self.open(&packet).map_err(|e| self.packets.damaged(e))?;
            if self.kernel.page_bytes != 4096 {
                let what =
                    format!("it was recorded on a machine with frames of {} bytes", self.kernel.page_bytes);
                return Err(TraceError::Unsupported { file: self.input.label().to_owned(), what });
            }
        }
        let gaps = std::mem::take(&mut self.gaps);
        if gaps > 0 {
            return Ok(Some(Record::Lost(gaps)));
        }
        let (start, end) = std::mem::take(&mut self.lost);
        let lost = end.saturating_sub(start).min(u32::MAX.into());
        Ok((lost > 0).then_some(Record::LostSamples(lost)))
    }

    fn done(&self) -> u64 {
        self.packets.done()
    }

    fn all(&self) -> u64 {
        self.input.size()
    }

    fn kernel(&self) -> &Kernel {
        &self.kernel
    }
}
