//! The verdict on `page-frag`, from its rows.

use super::contention::GAIN;
use super::{BUDDY, ENGINE, ONE, PCP, PROFILE, SHARE};
use crate::experiment::Rows;

pub(super) fn verdict(rows: &Rows) -> String {
    let (Some(gain), Some(before), Some(after)) =
        (rows.get(GAIN, PCP), rows.get(SHARE, BUDDY), rows.get(SHARE, PCP))
    else {
        return "two CPUs are needed to say anything about contention".into();
    };
    let sign = if gain > 0.0 && after < before { "reproduced in sign" } else { "not reproduced" };
    let printed =
        |metric: &str| rows.get(metric, PROFILE).map_or(String::new(), |v| format!(" (published: {v:.1} %)"));
    let size = if gain >= 7.0 && before >= 10.0 && after <= 1.0 {
        "as large as published or larger, and the contention is gone"
    } else if after < before / 2.0 {
        "the contention falls, but not as far as the target asks (7 % gained, waits from 10 % or more to 1 % or less)"
    } else {
        "smaller than published"
    };
    let one = match (rows.get(ONE, BUDDY), rows.get(ONE, PCP)) {
        (Some(b), Some(p)) => {
            format!(
                " On one CPU, where no thread waits, the lists alone gain {:.1} %.",
                (p / b - 1.0) * 100.0
            )
        }
        _ => String::new(),
    };
    let engine = rows.get(GAIN, ENGINE).map_or(String::new(), |g| {
        format!(" The engine, which has no zone lock, forwards {g:.0} % more than buddy.")
    });
    format!(
        "{sign}, {size}: freeing through the lists forwards {gain:.1} % more on two CPUs{}; waiting for the zone lock falls from \
         {before:.1} %{} to {after:.2} % of both CPUs' time.{one}{engine}",
        printed(GAIN),
        printed(SHARE)
    )
}
