//! A subject: an allocator under its name, behind an interface that costs nothing in its inner loops.

use super::allocator::Allocator;
use super::bias::Counted;
use super::divided::{self, Divided, Meeting, Share};
use super::handover::{self, Crossed};
use super::load::{Busy, Load, Mix, Taken};
use super::loops;
use super::mixed::work::{self, Work};
use super::team::Team;
use pageyard::PageAllocator;
use std::sync::Arc;

/// A subject. Loops are compiled for each allocator, so the interface is crossed once a sample.
pub(crate) trait Subject {
    /// Returns the name.
    fn name(&self) -> &'static str;

    /// Takes batches and gives them back on this many threads; one result for each, or `None` where it cannot.
    fn sample(&self, team: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>>;

    /// Takes a block and gives it back, so many times, on this thread; returns the nanoseconds, or `None` where it
    /// cannot.
    fn pairs(&self, _times: u32) -> Option<u64> {
        None
    }

    /// Returns refills and spills so far, or `None` where they cannot be seen.
    fn moves(&self) -> Option<(u64, u64)>;

    /// Returns whether it can run on this many threads, and takes more than one block with a call.
    fn can(&self, threads: usize, call: usize) -> bool;

    /// Returns whether this many blocks can be held at a time.
    fn holds(&self, _: usize) -> bool {
        true
    }

    /// Takes blocks on one CPU and gives them back on another, or `None` where it cannot.
    fn cross(&self, _: &Team, _: usize) -> Option<Crossed> {
        None
    }

    /// Makes the calls of a recorded mix on this many threads, each of them all; or `None` where it cannot.
    fn mix(&self, _: &Team, _: usize, _: &Mix) -> Option<Vec<Busy>> {
        None
    }

    /// Makes the calls of a recorded mix, each CPU's on a thread of its own, or `None` where it cannot.
    fn divided(&self, _: &Team, _: &Arc<Divided>) -> Option<Vec<Share>> {
        None
    }

    /// Does the work of each thread of a mixed load, or `None` where it cannot.
    fn mixed(&self, _: &Team, _: &Work) -> Option<Vec<Busy>> {
        None
    }

    /// Runs a sample, and returns the share of its frees that were checked without a locked instruction, or `None`
    /// where that is not known.
    fn biased_share(&self, _: &Team, _: usize, _: &Load) -> Option<f64> {
        None
    }

    /// The same for [`cross`](Subject::cross).
    fn biased_share_across(&self, _: &Team, _: usize) -> Option<f64> {
        None
    }

    /// The same for [`mixed`](Subject::mixed).
    fn biased_share_of_mixed(&self, _: &Team, _: &Work) -> Option<f64> {
        None
    }

    /// Returns how often a pageblock's bias was taken back so far, or `None` where there is none.
    fn revocations(&self) -> Option<u64> {
        None
    }

    /// Returns the engine behind it, one call through a table each, where it is one of the project's.
    fn engine(&self) -> Option<&dyn PageAllocator> {
        None
    }
}

/// An allocator for one thread.
pub(crate) struct Alone<A> {
    pub name: &'static str,
    pub allocator: A,
    pub bulk: bool,
}

impl<A: Allocator> Subject for Alone<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, _: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>> {
        (threads == 1).then(|| vec![loops::run(&self.allocator, 0, load)])
    }

    fn moves(&self) -> Option<(u64, u64)> {
        self.allocator.moves()
    }

    fn can(&self, threads: usize, call: usize) -> bool {
        threads == 1 && (call == 1 || self.bulk)
    }

    fn mixed(&self, _: &Team, work: &Work) -> Option<Vec<Busy>> {
        (work.load.setting.threads == 1).then(|| vec![work::run(&self.allocator, 0, work)])
    }
}

/// An allocator for any number of threads.
pub(crate) struct Shared<A> {
    name: &'static str,
    allocator: Arc<A>,
    bulk: bool,
}

impl<A> Shared<A> {
    /// Makes the subject; `bulk` says whether the allocator takes more than one block with a call.
    pub fn new(name: &'static str, allocator: A, bulk: bool) -> Shared<A> {
        Shared { name, allocator: Arc::new(allocator), bulk }
    }

    /// Returns the allocator.
    pub fn allocator(&self) -> &A {
        &self.allocator
    }
}

impl<A: Allocator + Send + Sync + 'static> Shared<A> {
    /// Runs a job for each CPU: on this thread where it is one, on the team's where they are more. Each CPU number is
    /// one thread's at a time.
    fn on<L: Clone + Send + Sync + 'static, R: Send + 'static>(
        &self,
        team: &Team,
        threads: usize,
        load: &L,
        job: fn(&A, usize, &L) -> R,
    ) -> Option<Vec<R>> {
        if threads == 1 {
            return Some(vec![job(&self.allocator, 0, load)]);
        }
        let (allocator, load) = (self.allocator.clone(), load.clone());
        team.run(threads, move |cpu| job(&allocator, cpu, &load))
    }
}

impl<A: Allocator + Send + Sync + 'static> Subject for Shared<A> {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, team: &Team, threads: usize, load: &Load) -> Option<Vec<Taken>> {
        self.on(team, threads, load, loops::run)
    }

    fn pairs(&self, times: u32) -> Option<u64> {
        Some(loops::pairs(&*self.allocator, 0, times))
    }

    fn moves(&self) -> Option<(u64, u64)> {
        self.allocator.moves()
    }

    fn can(&self, _: usize, call: usize) -> bool {
        call == 1 || self.bulk
    }

    fn cross(&self, team: &Team, groups: usize) -> Option<Crossed> {
        handover::run(team, self.allocator.clone(), groups)
    }

    fn biased_share(&self, team: &Team, threads: usize, load: &Load) -> Option<f64> {
        let counted = Counted::new(self.allocator.clone())?;
        let subject = Shared { name: self.name, allocator: counted, bulk: self.bulk };
        subject.sample(team, threads, load)?;
        Some(subject.allocator.share())
    }

    fn biased_share_across(&self, team: &Team, groups: usize) -> Option<f64> {
        let counted = Counted::new(self.allocator.clone())?;
        handover::run(team, counted.clone(), groups)?;
        Some(counted.share())
    }

    fn mixed(&self, team: &Team, work: &Work) -> Option<Vec<Busy>> {
        self.on(team, work.load.setting.threads, work, work::run)
    }

    fn biased_share_of_mixed(&self, team: &Team, work: &Work) -> Option<f64> {
        let counted = Counted::new(self.allocator.clone())?;
        let subject = Shared { name: self.name, allocator: counted, bulk: self.bulk };
        subject.mixed(team, work)?;
        Some(subject.allocator.share())
    }

    fn revocations(&self) -> Option<u64> {
        self.allocator.revocations()
    }

    fn mix(&self, team: &Team, threads: usize, mix: &Mix) -> Option<Vec<Busy>> {
        self.on(team, threads, mix, loops::mix)
    }

    fn divided(&self, team: &Team, mix: &Arc<Divided>) -> Option<Vec<Share>> {
        let (allocator, mix, meeting) = (self.allocator.clone(), mix.clone(), Meeting::new(mix));
        team.run(mix.cpus(), move |cpu| divided::run(&*allocator, cpu, &mix, &meeting))
    }

    fn engine(&self) -> Option<&dyn PageAllocator> {
        self.allocator.engine()
    }
}
