//! Runs tables of races, see `table`: every file at every place, cycle by cycle.

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::table::{Found, Table};

/// What a table finds at a cycle of its sweep, by place.
pub(crate) type Places<'a> = Vec<(String, Box<dyn Fn(u64) -> String + 'a>)>;

/// Boots the machines of a table.
pub(crate) type Boot = fn(&Table) -> Result<Places<'_>, String>;

/// Cycles from one to the next between recorded changes, by default.
const STRIDE: usize = 131;
/// The same while ranges are written: only a change that lies between and goes back is missed.
const BLESS_STRIDE: usize = 16;
/// Cycles on either side of a recorded change that always run.
const AROUND: u64 = 2;

/// How much of a window runs.
#[derive(Clone, Copy, PartialEq)]
enum Mode {
    Cut,
    Exhaustive,
    Bless,
}

/// The cycles that a mode runs of a window with these ranges.
fn cycles(mode: Mode, window: &Range<u64>, found: &[Found]) -> Vec<u64> {
    let stride = match mode {
        Mode::Exhaustive => 1,
        Mode::Cut => STRIDE,
        Mode::Bless => BLESS_STRIDE,
    };
    let near = found.iter().flat_map(|(r, _)| r.start.saturating_sub(AROUND)..r.start + AROUND);
    let mut all: Vec<u64> = window.clone().step_by(stride).chain(near).collect();
    all.push(window.end - 1);
    all.retain(|at| window.contains(at));
    all.sort_unstable();
    all.dedup();
    all
}

/// Runs one place of a table; returns what was found in ranges.
fn run_place(
    table: &Table,
    place: &str,
    outcome_at: &dyn Fn(u64) -> String,
    mode: Mode,
) -> Result<Vec<Found>, String> {
    let recorded = table.found.get(place).map_or(&[][..], Vec::as_slice);
    let mut found: Vec<Found> = Vec::new();
    for at in cycles(mode, &table.sweep.1, recorded) {
        let outcome = outcome_at(at);
        // Between two cycles that differ, a blessing looks at each.
        let before = found.last().map(|f| (f.0.end, f.1 != outcome));
        if let Some((from, true)) = before.filter(|_| mode == Mode::Bless) {
            (from..at).for_each(|at| push(&mut found, at, outcome_at(at)));
        }
        push(&mut found, at, outcome);
    }
    let mut from = 0;
    for (range, outcome) in &found {
        let describe = |what: &str| {
            let (start, end) = (range.start, range.end - 1);
            format!("{place} {start}..{end}: `{outcome}` {what}; found {found:?}")
        };
        let Some(index) = table.may.iter().position(|m| m.0 == *outcome) else {
            return Err(describe("is not legal here"));
        };
        if index < from {
            return Err(describe("comes too late"));
        }
        from = index;
        let is_as_written = recorded
            .iter()
            .any(|(r, o)| o == outcome && r.start <= range.start && range.end <= r.end);
        if mode != Mode::Bless && !is_as_written {
            return Err(describe("is not what is written, BLESS=1 moves ranges"));
        }
    }
    Ok(found)
}

fn push(found: &mut Vec<Found>, at: u64, outcome: String) {
    match found.last_mut() {
        Some((range, same)) if *same == outcome => range.end = at + 1,
        _ => found.push((at..at + 1, outcome)),
    }
}

fn run_file(path: &Path, boot: Boot, mode: Mode) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let table = Table::read(&text)?;
    let mut found = Vec::new();
    for (place, outcome_at) in boot(&table)? {
        let ranges = run_place(&table, &place, &*outcome_at, mode)?;
        found.push((place, ranges));
    }
    if found.is_empty() {
        return Err("no place of the table exists".to_owned());
    }
    for (place, ranges) in &found {
        let comes = |outcome: &str| ranges.iter().any(|r| r.1 == outcome);
        if let Some((never, _)) = table.may.iter().find(|m| m.1 && !comes(&m.0)) {
            return Err(format!("{place}: `{never}` never came: {ranges:?}"));
        }
    }
    if mode == Mode::Bless {
        let kept = text.lines().filter(|l| !l.starts_with("; "));
        let mut out: String = kept.map(|l| format!("{l}\n")).collect();
        for (place, ranges) in &found {
            for (r, outcome) in ranges {
                writeln!(out, "; {place} {}..{} {outcome}", r.start, r.end - 1)
                    .expect("a string takes all");
            }
        }
        std::fs::write(path, out).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn files(folder: &str) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(folder);
    let mut files: Vec<_> = std::fs::read_dir(dir)
        .expect("the folder of the tables")
        .map(|file| file.expect("a file").path())
        .collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "seq"));
    let only = std::env::var("ONLY").unwrap_or_default();
    files.retain(|f| f.to_string_lossy().contains(&only));
    files.sort();
    files
}

/// Runs all tables of a folder.
pub(crate) fn run_folder(folder: &str, boot: Boot) {
    let is_set = |name| std::env::var_os(name).is_some();
    let mode = match (is_set("BLESS"), is_set("EXHAUSTIVE")) {
        (true, _) => Mode::Bless,
        (_, true) => Mode::Exhaustive,
        _ => Mode::Cut,
    };
    let files = files(folder);
    assert!(!files.is_empty());
    let (next, failed) = (Mutex::new(files.iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(path) = next.lock().expect("no thread panics here").next() else { return };
            let ended = std::panic::catch_unwind(|| run_file(path, boot, mode));
            if let Err(e) = ended.unwrap_or(Err("an assertion above does not hold".to_owned())) {
                failed
                    .lock()
                    .expect("no thread panics here")
                    .push(format!("{}: {e}", path.display()));
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(work);
        }
    });
    let failed = failed.into_inner().expect("no thread panics here");
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
