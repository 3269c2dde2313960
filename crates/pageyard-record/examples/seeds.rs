//! Writes the small good inputs that fuzzing starts from: `fuzz/seeds/TARGET/N`.

use pageyard_record::hostile::{every_seed, every_target};
use std::{fs, io, path::Path};

fn main() -> io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    for target in every_target() {
        let folder = root.join(target.name);
        fs::create_dir_all(&folder)?;
        for (n, seed) in every_seed(target.name).into_iter().enumerate() {
            fs::write(folder.join(n.to_string()), seed)?;
        }
    }
    Ok(())
}
