//! Requests: one path for all of them, with help and without. Layer: requests, above `slowpath`.

use crate::allocator::LinuxAllocator;
use crate::effort::Wake;
use crate::events::Counts;
use crate::slowpath::Counted;
use crate::zonelist::{Called, Inlined, Step};
use pageyard_core::reclaim::{Attempts, Failure, Helpers, NoHelp};
use pageyard_core::{AllocError, Cx, Pfn, Request};

impl LinuxAllocator {
    /// Allocates without help.
    #[inline]
    pub(crate) fn alloc(&self, cx: &Cx, request: &Request) -> Result<Pfn, AllocError> {
        Ok(self.alloc_with_helpers(cx, request, None::<&NoHelp>)?)
    }

    /// Allocates, with help if any was given.
    ///
    /// # Linux
    /// `__alloc_pages`.
    #[inline(always)]
    pub(crate) fn alloc_with_helpers<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
    ) -> Result<Pfn, Failure> {
        let mut counted = Counted::default();
        self.serve(cx, request, help, &mut counted).map_err(|failure| self.refused(failure))
    }

    /// Serves a request, or says why not; `counted` says which of the events that count once a request were already
    /// counted.
    #[inline(always)]
    pub(crate) fn serve<H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        counted: &mut Counted,
    ) -> Result<Pfn, Failure> {
        match self.zonelists.inlined() {
            false => self.serve_by::<Called, H>(cx, request, help, counted),
            true => self.serve_by::<Inlined, H>(cx, request, help, counted),
        }
    }

    #[inline(always)]
    fn serve_by<S: Step, H: Helpers>(
        &self,
        cx: &Cx,
        request: &Request,
        help: Option<&H>,
        counted: &mut Counted,
    ) -> Result<Pfn, Failure> {
        if let Err(why) = self.check(cx, request) {
            return Err(Failure { why: why.into(), tried: Attempts::default() });
        }
        let changes = self.zonelists.cpusets.changes();
        match self.first_attempt::<S>(cx, request, Wake::of(request)) {
            Ok(Some(pfn)) => Ok(pfn),
            missed => self.slow_path(cx, request, help, missed.err(), changes, counted),
        }
    }

    /// Counts a valid request that is refused.
    #[cold]
    pub(crate) fn refused(&self, failure: Failure) -> Failure {
        if !matches!(failure.why, AllocError::BadRequest(_)) {
            Counts::add(&self.counts.fails);
        }
        failure
    }
}
