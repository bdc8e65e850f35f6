//! Every seed and every input that once found something, through the target it belongs to. Stable.

use std::fs;
use std::path::{Path, PathBuf};

use ttsr_fuzz::targets::ALL;

fn inputs(folder: &str, target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(folder)
        .join(target);
    let entries = fs::read_dir(folder).into_iter().flatten();
    entries
        .map(|entry| entry.expect("it can be listed").path())
        .collect()
}

#[test]
fn seeds_and_regressions_pass() {
    let mut ran = 0;
    for (name, run) in ALL {
        let seeds = inputs("seeds", name);
        assert!(!seeds.is_empty(), "{name} has no seeds");
        for file in seeds.into_iter().chain(inputs("regressions", name)) {
            println!("{}", file.display());
            run(&fs::read(&file).expect("it can be read"));
            ran += 1;
        }
    }
    println!("{ran} inputs of {} targets", ALL.len());
}
