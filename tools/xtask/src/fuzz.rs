//! `cargo xtask fuzz [TARGET] [RUNS] [FLAG...]`: runs fuzz targets under libFuzzer.
//!
//! On stable Rust: coverage is an LLVM pass that rustc is told to run, with no sanitizer, as the
//! workspace has no unsafe code; libFuzzer is built from its crate by the host's C++ compiler.
//! That is what `cargo fuzz run --sanitizer none` does, without a tool to install.
//!
//! Inputs that reach something new are kept below `fuzz/corpus` of the target directory, inputs
//! that fail below `fuzz/failed`. `minimise` in the place of RUNS puts the smallest inputs that
//! together reach the same into `tests/fuzz/corpus`, to be committed.

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
/// Largest input that is committed, in bytes.
const COMMITTED_MAX: &str = "-max_len=4095";

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

/// Puts the inputs of both folders that are needed for what they reach into the first.
fn minimise(mut fuzz: Command, committed: &Path, found: &Path) -> Result<(), String> {
    let old = committed.with_extension("old");
    fs::rename(committed, &old).map_err(|error| format!("{}: {error}", committed.display()))?;
    let new = made(committed.to_owned())?;
    fuzz.args(["-merge=1", COMMITTED_MAX]).arg(new).arg(found).arg(&old);
    finish("minimise", &mut fuzz)?;
    fs::remove_dir_all(&old).map_err(|error| format!("{}: {error}", old.display()))
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
