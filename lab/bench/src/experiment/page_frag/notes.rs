//! The notes that a pass over the packets takes beside forwarding them: nothing where it is timed.

use pageyard::Pfn;
use pageyard_linux::place::FreeObserver;

/// A place in the experiment's own code that a profile shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// `napi_consume_skb`: the completion of one packet.
    Consume,
    /// `skb_release_data`: its header is read.
    Release,
    /// `page_frag_free`: its buffer is given back, the allocator's part included.
    FragFree,
}

/// Notes of a pass.
pub(super) trait Notes: Send + Sync + 'static {
    /// The watcher that the reference reports its places to.
    type FreeObserver: FreeObserver;
    /// The stay in a place: it ends when this is dropped.
    type Stay;
    /// A thread's part in the pass: it ends when this is dropped.
    type Thread;

    /// Begins the part of the calling thread, which is this CPU.
    fn begin(&self, cpu: usize) -> Self::Thread;

    /// Says that the calling thread enters a place.
    fn at(&self, stage: Stage) -> Self::Stay;

    /// Says that a CPU received a packet into this frame.
    fn received(&self, cpu: usize, page: Pfn);
}

/// A timed pass notes nothing, and no code is left of it.
impl Notes for () {
    type FreeObserver = ();
    type Stay = ();
    type Thread = ();

    #[inline(always)]
    fn begin(&self, _: usize) {}

    #[inline(always)]
    fn at(&self, _: Stage) {}

    #[inline(always)]
    fn received(&self, _: usize, _: Pfn) {}
}
