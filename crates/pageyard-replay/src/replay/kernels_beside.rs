//! The kernels of a replay beside the first of them, request by request.

use super::in_kernel_text::described;
use super::kernel_plan::request_of;
use super::kernel_report::{Answered, Beside, FirstOther};
use super::report::EngineReport;

/// Compares every kernel of a replay with the first one, request by request.
pub(super) fn compare_kernels(engines: &mut [EngineReport]) {
    let mut first: Option<(String, Answered)> = None;
    for engine in engines {
        let name = engine.name.clone();
        let Some(kernel) = &mut engine.kernel else { continue };
        let answered = std::mem::take(&mut kernel.answered);
        match &first {
            Some((name, there)) => kernel.beside = Some(beside(name, there, &answered)),
            None => first = Some((name, answered)),
        }
    }
}

/// Compares what requests got here and in the kernel of that name.
fn beside(name: &str, there: &Answered, here: &Answered) -> Beside {
    let mut others = (0..).zip(there.iter().zip(here)).filter(|(_, ((_, a), (_, b)))| a != b);
    let first = others.next().map(|(number, ((_, there), (step, here)))| FirstOther {
        number,
        request: described(&request_of(step)),
        cpu: step.cpu,
        here: here.map(|pfn| pfn.0),
        there: there.map(|pfn| pfn.0),
    });
    let other_frame = u64::from(first.is_some()) + others.count() as u64;
    Beside { engine: name.to_owned(), other_frame, first }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageyard::Pfn;
    use pageyard_guest::exchange::{Step, StepKind};

    #[test]
    fn kernels_are_compared_request_by_request() {
        let step = |n| Step::new(StepKind::Alloc, 1, 0, 0, n);
        let there: Vec<_> = (0..4).map(|n| (step(n), Some(Pfn(u64::from(n))))).collect();
        assert_eq!(
            beside("kernel:a", &there, &there),
            Beside { engine: "kernel:a".into(), other_frame: 0, first: None }
        );
        let mut here = there.clone();
        (here[1].1, here[3].1) = (None, Some(Pfn(9)));
        let compared = beside("kernel:a", &there, &here);
        let first = compared.first.unwrap();
        assert_eq!(compared.other_frame, 2);
        assert_eq!((first.number, first.here, first.there, first.cpu), (1, None, Some(1), 1), "{first:?}");
    }
}
