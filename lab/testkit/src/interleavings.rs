//! Every interleaving of a model's threads, under `--cfg pageyard_loom`.

/// Explores every interleaving with at most `preemptions` preemptions.
pub fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 100_000;
    let start = std::time::Instant::now();
    let runs = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counted = runs.clone();
    builder.check(move || {
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        model();
    });
    println!("{} interleavings in {:?}", runs.load(std::sync::atomic::Ordering::Relaxed), start.elapsed());
}
