//! The thread's claims about its router, as rows: the number of settings of the router model for which each holds.

use super::subjects::MODEL;
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::router::claims::judge;

const SECTION: &str = "The router model: settings for which a claim holds";

/// Judges the claims, and says in a note for each what decides it.
pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let (judged, effort) = judge(run.quick, &mut |done, all| run.at("router", done, all))?;
    rows.section(SECTION);
    for claim in &judged {
        let (_, settings) = claim.count();
        rows.setting(if settings == 1 { "1 setting".to_owned() } else { format!("{settings} settings") });
        rows.add(format!("claim: {}", claim.name), MODEL, claim.share_pct(), "% of settings");
    }
    rows.setting("");
    run.note(format!(
        "the router model has parameters that were chosen beforehand, and does not judge any real router: its rows say whether a claim \
         follows from them, and from which. It simulated {} packets for that, {:.2} million a second of processor time",
        pageyard_replay::text::count(effort.packets),
        effort.packets_per_cpu_s() * 1e-6
    ));
    for claim in &judged {
        let moved = if run.quick { String::new() } else { format!(" Moved: {}", claim.moved) };
        run.note(format!("claim: {}{moved}", claim.line()).trim_end_matches('.').to_owned());
    }
    Ok(())
}
