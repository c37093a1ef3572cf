//! Runs the transcripts of `tests/cli`: command, stdout, stderr, exit code.
//!
//! A transcript is a list of blocks. `$ crosscall ...` begins one; its stdout follows as it is,
//! its stderr with `! ` before each line, its exit code as `? N` unless it is 0. Lines that begin
//! with `#` before the first command are for readers. Words are split at spaces; single quotes
//! keep them together. Simulated times stand as `<time>`, since every change of the guest or of a
//! latency moves them. `BLESS=1` rewrites the files; a blessed change is reviewed like code.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use libtest_mimic::{Arguments, Failed, Trial};

fn main() {
    let args = Arguments::from_args();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let dir = root.join("tests/cli");
    let mut paths: Vec<PathBuf> = std::fs::read_dir(&dir)
        .expect("tests/cli exists")
        .map(|entry| entry.expect("readable folder").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "cli"))
        .collect();
    paths.sort();
    let trials = paths.into_iter().map(|path| {
        let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
        let root = root.clone();
        Trial::test(format!("cli::{name}"), move || check(&path, &root))
    });
    libtest_mimic::run(&args, trials.collect()).exit();
}

/// Runs the commands of one file and compares what they print with what stands there.
fn check(path: &Path, root: &Path) -> Result<(), Failed> {
    let golden = std::fs::read_to_string(path)?;
    let head: Vec<&str> = golden.lines().take_while(|line| !line.starts_with("$ ")).collect();
    let mut found: String = head.iter().map(|line| format!("{line}\n")).collect();
    for command in golden.lines().filter(|line| line.starts_with("$ ")) {
        found.push_str(command);
        found.push('\n');
        run(command, root, &mut found)?;
    }
    if found == golden {
        return Ok(());
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(path, found)?;
        return Ok(());
    }
    let diff = similar::TextDiff::from_lines(&golden, &found);
    let text = diff.unified_diff().header("expected", "found").to_string();
    Err(format!("{text}BLESS=1 rewrites {}", path.display()).into())
}

fn run(line: &str, root: &Path, found: &mut String) -> Result<(), Failed> {
    let words = split(line.trim_start_matches("$ "));
    if words.first().map(String::as_str) != Some("crosscall") {
        return Err(format!("{line}: only crosscall can be run").into());
    }
    let output = Command::new(env!("CARGO_BIN_EXE_crosscall"))
        .args(&words[1..])
        .current_dir(root)
        .env_remove("RUST_BACKTRACE")
        .env("COLUMNS", "100")
        .output()?;
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    for line in stdout.lines() {
        writeln!(found, "{}", without_times(line).trim_end())?;
    }
    for line in stderr.lines() {
        writeln!(found, "{}", format!("! {}", without_times(line)).trim_end())?;
    }
    match output.status.code() {
        Some(0) => {}
        Some(code) => writeln!(found, "? {code}")?,
        None => writeln!(found, "? killed")?,
    }
    Ok(())
}

/// Replaces `at 83.599 us` by `at <time>`.
fn without_times(line: &str) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    for at in 2..words.len() {
        let is_unit = matches!(words[at].trim_end_matches([';', ':']), "ns" | "us" | "ms" | "s");
        let is_number = words[at - 1].parse::<f64>().is_ok();
        if words[at - 2] == "at" && is_number && is_unit {
            words[at - 1] = "<time>";
            words[at] = words[at].trim_start_matches(char::is_alphabetic);
        }
    }
    words.join(" ").replace("<time> ;", "<time>;").replace("<time>  ", "<time> ")
}

/// Splits a command at spaces outside of single quotes.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut word, mut is_quoted) = (Vec::new(), String::new(), false);
    for letter in line.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => {
                if !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
            }
            other => word.push(other),
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    words
}
