//! Replays the committed inputs of every fuzz target, `tests/fuzz/corpus/TARGET`.

use std::path::{Path, PathBuf};

use tests_fuzz::TARGETS;

/// Largest input that is committed, in bytes.
const BYTES_MAX: u64 = 4096;

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name)
}

fn inputs(name: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder(name)).expect("a folder for each target");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
    paths.sort();
    paths
}

#[test]
fn every_committed_input_is_handled() {
    std::thread::scope(|scope| {
        for target in &TARGETS {
            let replay = || {
                for path in inputs(target.name) {
                    let data = std::fs::read(&path).expect("readable");
                    assert!(data.len() as u64 <= BYTES_MAX, "{}: too long", path.display());
                    let done = std::panic::catch_unwind(|| (target.run)(&data));
                    assert!(done.is_ok(), "{} {}", target.name, path.display());
                }
            };
            scope.spawn(replay);
        }
    });
}

#[test]
fn every_folder_has_its_target_and_some_inputs() {
    for target in &TARGETS {
        assert!(inputs(target.name).len() >= 3, "{}", target.name);
    }
    for entry in std::fs::read_dir(folder("")).expect("the corpus") {
        let name = entry.expect("readable").file_name();
        assert!(TARGETS.iter().any(|target| name == target.name), "{}", name.display());
    }
}
