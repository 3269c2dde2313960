//! Where experiments find the recordings that ship with the repository.

/// Finds a recording that lies beside the program or below this folder.
pub(super) fn find(name: &str) -> Option<std::path::PathBuf> {
    let program = std::env::current_exe().ok();
    let folders = [std::env::current_dir().ok(), program];
    let above = folders.iter().flatten().flat_map(|f| f.ancestors());
    above
        .flat_map(|f| [f.join("data/traces"), f.join("shared/data/traces")])
        .map(|f| f.join(format!("{name}.trace")))
        .find(|p| p.join("meta.json").is_file())
}
