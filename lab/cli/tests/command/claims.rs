//! `docs/studies/claims.md` beside the runs that it is written from.

use pageyard_bench::experiment::kept::{Kept, page};
use std::path::PathBuf;

#[test]
fn the_page_of_claims_is_what_the_kept_runs_say() {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(root.join("data/runs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|e| e == "gz"));
    paths.sort();
    assert!(!paths.is_empty(), "no run is kept");
    let runs: Vec<Kept> = paths.iter().map(|path| Kept::read(path).unwrap()).collect();
    let (text, file) = (page(&runs), root.join("docs/studies/claims.md"));
    if std::env::var_os("PAGEYARD_BLESS").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    assert!(
        std::fs::read_to_string(&file).unwrap_or_default() == text,
        "{} is not what data/runs says: run `PAGEYARD_BLESS=1 cargo test -p pageyard-lab --test command claims`, and \
         read the difference",
        file.display()
    );
    for claim in runs.iter().flat_map(|run| &run.claims) {
        let placed =
            claim.at.starts_with("00") == (claim.by == pageyard_bench::experiment::claim::By::Document);
        assert!(placed, "where it stands: {}", claim.what);
    }
}
