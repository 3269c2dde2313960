//! Which recordings can say nothing about a setting.

use crate::error::ReplayError;
use pageyard_trace::proctext::Vmstat;
use pageyard_trace::{Trace, Trust};

/// The largest share of reclaimed frames that were read again with which a replay still answers.
const MOST: f64 = 0.01;

/// Says why nothing can be predicted from a recording, where nothing can.
///
/// # Errors
/// When its events cannot be read.
pub fn unfit(trace: &Trace) -> Result<Option<String>, ReplayError> {
    let trust = Trust::of(trace.meta(), trace.rows()?);
    Ok(trust.is_low().then(|| format!("the recording lost {:.1} % of its events", trust.lost_pct)))
}

/// Says that what was reclaimed was read again, which is load that reclaim makes and no replay has.
///
/// # Errors
/// When its texts cannot be read.
pub fn read_again(trace: &Trace) -> Result<Option<String>, ReplayError> {
    let (Some(before), Some(after)) = (&trace.meta().before, &trace.meta().after) else { return Ok(None) };
    Ok(share_read_again(&Vmstat::parse(&before.vmstat)?, &Vmstat::parse(&after.vmstat)?))
}

/// Where nothing was reclaimed, what was read again had been dropped before the recording, to make its state.
fn share_read_again(before: &Vmstat, after: &Vmstat) -> Option<String> {
    let rose = |name: &str| after.get(name).unwrap_or(0).saturating_sub(before.get(name).unwrap_or(0)) as f64;
    let again = rose("workingset_refault_file") + rose("workingset_refault_anon");
    let freed = rose("pgsteal_kswapd") + rose("pgsteal_direct");
    (freed > 0.0 && again > MOST * freed).then(|| {
        format!(
            "{again:.0} of {freed:.0} reclaimed frames were read again, so reclaim decides what the load asks for"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reclaim_that_makes_load_is_refused() {
        let of = |again: u64, freed: u64| {
            let text = format!("workingset_refault_file {again}\npgsteal_kswapd {freed}\n");
            share_read_again(&Vmstat::parse("").unwrap(), &Vmstat::parse(&text).unwrap())
        };
        assert!(of(20, 1000).unwrap().starts_with("20 of 1000 reclaimed frames were read again"));
        assert_eq!(of(9, 1000), None);
        assert_eq!(of(1091, 0), None, "dropped before the recording");
    }
}
