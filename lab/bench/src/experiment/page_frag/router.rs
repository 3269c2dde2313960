//! The thread's claims about its router, as rows: the number of settings of the router model for which each holds.

use super::subjects::MODEL;
use crate::error::BenchError;
use crate::experiment::{Rows, Run};
use crate::router::claims::{judge, ring_limits};

const SECTION: &str = "The router model: settings for which a claim holds";
const LIMITS: &str = "The router model: highest rates";

/// Returns the metric of the settings for which a claim holds.
pub(super) fn share(claim: &str) -> String {
    format!("claim: {claim}")
}

/// Returns the metric that says whether it holds for its own setting: 1 or 0.
pub(super) fn own(claim: &str) -> String {
    format!("own setting: {claim}")
}

/// Returns the metric of the settings that say nothing of it.
pub(super) fn idle(claim: &str) -> String {
    format!("say nothing: {claim}")
}

/// Judges the claims, and says in a note for each what decides it.
pub(super) fn measure(run: &mut Run<'_>, rows: &mut Rows) -> Result<(), BenchError> {
    let (judged, mut effort) = judge(run.quick, &mut |done, all| run.at("router", done, all))?;
    rows.section(SECTION);
    for claim in &judged {
        let (_, judged) = claim.count();
        rows.setting(if judged == 1 { "1 setting".to_owned() } else { format!("{judged} settings") });
        rows.add(share(claim.name), MODEL, claim.share_pct().unwrap_or(f64::NAN), "% of settings");
        rows.setting("");
        let holds = claim.settings.first().and_then(|s| s.holds);
        rows.add(own(claim.name), MODEL, holds.map_or(f64::NAN, |h| f64::from(u8::from(h))), "");
        rows.add(idle(claim.name), MODEL, claim.idle() as f64, "settings");
    }
    rows.setting("");
    let (limits, searched) = match run.quick {
        true => Default::default(),
        false => ring_limits(&mut |done, all| run.at("router's limits", done, all))?,
    };
    rows.section(LIMITS);
    for of in &limits {
        let mut add = |what: &str, gbit: Option<f64>| {
            rows.add(format!("{}: {what}", of.rings), MODEL, gbit.unwrap_or(f64::NAN), "Gbit/s");
        };
        add("highest rate without loss", of.lossless_gbit);
        add("the same after a surge", of.after_surge_gbit);
        add("sent of 100 Gbit/s", Some(of.overloaded_gbit));
    }
    effort.add(searched);
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
