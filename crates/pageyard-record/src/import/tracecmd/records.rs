//! The events of all CPUs, in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pageyard_trace::TraceError;
use pageyard_trace::source::Input;

use super::super::kernel::Kernel;
use super::super::records::{Record, Records, Sample};
use super::container::TraceDat;
use super::pages::CpuPages;

/// Events after which a round ends: they come in order, and the sorter may let them go.
const ROUND: u32 = 32 << 10;

/// Merges the pages of all CPUs.
pub(in super::super) struct TraceCmdRecords<'a> {
    input: &'a Input,
    file: &'a TraceDat,
    cpus: Vec<CpuPages>,
    /// The CPUs that have an event left, by its time.
    heap: BinaryHeap<Reverse<(u64, u32, usize)>>,
    /// The CPU whose event was handed out last, and CPUs whose first event was not read.
    current: Option<usize>,
    unread: usize,
    in_round: u32,
    /// Events that the kernel counted as lost and that were not reported yet.
    lost: u64,
}

impl<'a> TraceCmdRecords<'a> {
    pub(in super::super) fn new(input: &'a Input, file: &'a TraceDat) -> TraceCmdRecords<'a> {
        let cpus: Vec<CpuPages> =
            file.pages.iter().map(|pages| CpuPages::new(*pages, file.pages.len())).collect();
        let (heap, unread) = (BinaryHeap::with_capacity(cpus.len()), cpus.len());
        TraceCmdRecords { input, file, cpus, heap, current: None, unread, in_round: 0, lost: file.lost }
    }

    /// Reads the next event of a CPU.
    fn advance(&mut self, index: usize) -> Result<(), TraceError> {
        let cpu = &mut self.cpus[index];
        if cpu.advance(self.input)? {
            self.heap.push(Reverse((cpu.time, cpu.pages.cpu, index)));
        }
        Ok(())
    }
}

impl Records for TraceCmdRecords<'_> {
    fn next(&mut self) -> Result<Option<Record<'_>>, TraceError> {
        while let Some(index) = self.unread.checked_sub(1) {
            self.unread = index;
            self.advance(index)?;
        }
        if let Some(index) = self.current.take() {
            self.advance(index)?;
        }
        if self.in_round == ROUND {
            self.in_round = 0;
            return Ok(Some(Record::EndOfRound));
        }
        let Some(Reverse((time, cpu, index))) = self.heap.pop() else {
            let missed: u64 = self.cpus.iter_mut().map(|cpu| std::mem::take(&mut cpu.missed)).sum();
            if missed > 0 {
                return Ok(Some(Record::Lost(missed)));
            }
            let lost = std::mem::take(&mut self.lost);
            return Ok((lost > 0).then_some(Record::LostSamples(lost)));
        };
        self.in_round += 1;
        self.current = Some(index);
        Ok(Some(Record::Sample(Sample { raw: self.cpus[index].raw(), time, cpu })))
    }

    fn done(&self) -> u64 {
        self.cpus.iter().map(CpuPages::done).sum()
    }

    fn all(&self) -> u64 {
        self.file.pages.iter().map(|pages| pages.len).sum()
    }

    fn kernel(&self) -> &Kernel {
        &self.file.kernel
    }
}
