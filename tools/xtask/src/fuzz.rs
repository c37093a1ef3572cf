//! `cargo xtask fuzz [TARGET] [RUNS] [FLAG...]`: runs fuzz targets under libFuzzer.
//!
//! On stable Rust: coverage is an LLVM pass that rustc is told to run, with no sanitizer, as the
//! workspace has no unsafe code; libFuzzer is built from its crate by the host's C++ compiler.
//! That is what `cargo fuzz run --sanitizer none` does, without a tool to install.
//!
//! Inputs that reach something new are kept below `fuzz/corpus` of the target directory, inputs
//! that fail below `fuzz/failed`. `minimise` in the place of RUNS puts the fewest of them that
//! reach the same code into `tests/fuzz/corpus`, to be committed.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tools_xtask::repository_root;

/// What cargo-fuzz passes, less the tracing of comparisons: that would find constants, which the
/// committed inputs have already, and halve the speed.
const FLAGS: [&str; 4] = [
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
];
const RUNS: &str = "100000";
/// Bounds of one input: bytes, seconds, and MiB of the process.
const BOUNDS: [&str; 3] = ["-max_len=4096", "-timeout=10", "-rss_limit_mb=2048"];
/// How inputs to commit are chosen: by code reached, whatever how often, up to 1 KiB each.
const MERGE: [&str; 4] = ["-set_cover_merge=1", "-use_counters=0", "-max_len=1024", "-verbosity=0"];

/// Builds the targets and runs one of them, or all.
pub(crate) fn run(args: &[String]) -> Result<(), String> {
    let root = fs::canonicalize(repository_root()).map_err(|error| error.to_string())?;
    let corpus = root.join("tests/fuzz/corpus");
    let all = names(&corpus)?;
    let (target, rest) = args.split_first().map_or(("all", args), |(t, rest)| (t.as_str(), rest));
    let (runs, flags) = rest.split_first().map_or((RUNS, rest), |(r, rest)| (r.as_str(), rest));
    let chosen: Vec<&String> =
        all.iter().filter(|name| target == "all" || name.as_str() == target).collect();
    if chosen.is_empty() {
        return Err(format!("no target {target}; known: all, {}", all.join(", ")));
    }
    let binary = build(&root)?;
    for name in chosen {
        let committed = corpus.join(name);
        let found = made(target_dir(&root).join("fuzz/corpus").join(name))?;
        let failed = made(target_dir(&root).join("fuzz/failed").join(name))?;
        let mut fuzz = Command::new(&binary);
        fuzz.env("FUZZ_TARGET", name);
        if runs == "minimise" {
            minimise(fuzz, &committed, &found)?;
            continue;
        }
        let prefix = format!("-artifact_prefix={}/", failed.display());
        fuzz.args(BOUNDS).arg(format!("-runs={runs}")).arg(prefix);
        fuzz.args(flags).arg(&found).arg(&committed);
        finish(name, &mut fuzz)?;
    }
    Ok(())
}

/// Names of the targets: the folders of their inputs.
fn names(corpus: &Path) -> Result<Vec<String>, String> {
    let unreadable = |error: std::io::Error| format!("{}: {error}", corpus.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(corpus).map_err(unreadable)? {
        names.push(entry.map_err(unreadable)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

fn build(root: &Path) -> Result<PathBuf, String> {
    let triple = host()?;
    let mut cargo = cargo();
    cargo.current_dir(root).args(["build", "--locked", "--profile", "fuzz", "--bin", "fuzz"]);
    cargo.args(["--package", "tests_fuzz", "--features", "libfuzzer"]);
    // With a target named, build scripts and macros are not instrumented.
    cargo.args(["--target", &triple]).env("CARGO_TARGET_DIR", target_dir(root));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")).env_remove("RUSTFLAGS");
    finish("build", &mut cargo)?;
    Ok(target_dir(root).join(triple).join("fuzz/fuzz"))
}

/// Adds the fewest found inputs that together reach all code that the named ones do not; those that
/// were added before, whose names are hashes, have to earn their place again.
fn minimise(mut fuzz: Command, committed: &Path, found: &Path) -> Result<(), String> {
    let failed = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let is_named = |name: &str| name.len() != 40 || name.bytes().any(|b| !b.is_ascii_hexdigit());
    for entry in fs::read_dir(committed).map_err(|error| failed(committed, error))? {
        let path = entry.map_err(|error| failed(committed, error))?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        let Some(name) = name.filter(|name| !is_named(name)) else { continue };
        fs::copy(&path, found.join(name)).map_err(|error| failed(&path, error))?;
        fs::remove_file(&path).map_err(|error| failed(&path, error))?;
    }
    fuzz.args(MERGE).arg(committed).arg(found);
    finish("minimise", &mut fuzz)
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The target triple of the compiler's own host.
fn host() -> Result<String, String> {
    let output = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()))
        .arg("-vV")
        .output()
        .map_err(|error| format!("rustc: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc -vV names no host".to_owned())
}

fn target_dir(root: &Path) -> PathBuf {
    root.join(std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| OsString::from("target")))
}

fn made(folder: PathBuf) -> Result<PathBuf, String> {
    fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

fn finish(name: &str, command: &mut Command) -> Result<(), String> {
    let status = command.status().map_err(|error| format!("{name}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{name}: {status}: {command:?}")) }
}
