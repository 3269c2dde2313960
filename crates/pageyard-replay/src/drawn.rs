//! Intervals from drawing what was seen again.

/// Returns the interval that holds the change of a mean 999 times of 1000, if others are like those that were seen: so
/// many are drawn again from each side, those `together` that follow each other as one, `times` times (at least 2,000).
pub(crate) fn change_interval(before: &[f64], after: &[f64], together: usize, times: usize) -> (f64, f64) {
    let mut rng = fastrand::Rng::with_seed(1);
    let mut changes: Vec<f64> =
        (0..times).map(|_| drawn(after, together, &mut rng) - drawn(before, together, &mut rng)).collect();
    changes.sort_by(f64::total_cmp);
    let beyond = times / 2000;
    (changes[beyond], changes[times - 1 - beyond])
}

/// Draws as many values as there are, some next to each other together, and returns their mean.
fn drawn(values: &[f64], together: usize, rng: &mut fastrand::Rng) -> f64 {
    let n = values.len();
    let starts = (0..n.div_ceil(together)).map(|_| rng.usize(..n.max(1)));
    let at =
        starts.flat_map(|start| (start..start + together).map(|at| if at < n { at } else { at - n })).take(n);
    at.map(|at| values[at]).sum::<f64>() / n.max(1) as f64
}
