//! Runs `tests/wait/*.seq`, see `table`: every file at every place, cycle by cycle.

use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use emu_observe::WakeCause;
use emu_sim::CpuId;

use crate::steps::{DONE, RUNS};
use crate::table::{Found, Table};
use crate::world::{LOG, Rig, Run, cluster, distances};

/// Cycles from one to the next between recorded changes, by default.
const STRIDE: usize = 131;
/// The same while ranges are written: only a change that lies between and goes back is missed.
const BLESS_STRIDE: usize = 16;
/// Cycles on either side of a recorded change that always run.
const AROUND: u64 = 2;

/// What became of both roles.
fn outcome(run: &Run, rig: &Rig) -> String {
    let taken =
        (0..run.word(LOG)).map(|n| (run.word(LOG + 64 + 16 * n), run.word(LOG + 72 + 16 * n)));
    let taken: Vec<(u64, u64)> = taken.collect();
    let roles = [CpuId(0), rig.b].map(|cpu| {
        let n = usize::from(cpu != CpuId(0));
        let (from, to) =
            [("a", "other"), ("b", "nmi")].map(|(a, b)| (rig.address(a), rig.address(b)))[n];
        let mut words: Vec<String> = run.exits(cpu).iter().map(|e| cause(e.cause)).collect();
        for (rip, vector) in &taken {
            // Handlers run on one role only, so their own addresses are its.
            let is_handler = *rip >= rig.address("nmi");
            if (from..to).contains(rip) || n == 0 && is_handler {
                let name = if *vector == 2 { "nmi".to_owned() } else { format!("{vector:x}") };
                words.push(format!("{name}@{}", rig.place(*rip)));
            }
        }
        if run.machine.x86(cpu).state.gpr[8] != 0 {
            words.push("saw".to_owned());
        }
        if run.machine.counters(cpu).ipi_pending > 0 {
            words.push("left".to_owned());
        }
        match run.word(RUNS[n]) {
            0 | 1 => {}
            2 => words.push("again".to_owned()),
            runs => words.push(format!("runs={runs}")),
        }
        if run.word(DONE[n]) != 0 {
            words.push("done".to_owned());
        }
        if words.is_empty() { "nothing".to_owned() } else { words.join(" ") }
    });
    let [a, b] = roles;
    if b == "done" { a } else { format!("{a} / {b}") }
}

fn cause(cause: WakeCause) -> String {
    match cause {
        WakeCause::MonitorStore => "store",
        WakeCause::Interrupt => "interrupt",
        WakeCause::Nmi => "nmi",
        WakeCause::Reset => "reset",
        WakeCause::Event => "event",
        WakeCause::Timeout => "timeout",
        WakeCause::Spurious => "spurious",
    }
    .to_owned()
}

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

/// Runs one cycle of a place.
fn run_cycle(table: &Table, rig: &Rig, at: u64) -> String {
    let delays = table.delays.iter().map(|d| (d.0.as_str(), d.1));
    let delays: Vec<_> = delays.chain([(table.sweep.0.as_str(), at)]).collect();
    let run = rig.run_delayed(&delays, |_| {});
    assert_eq!(run.stop, emu_machine::Stop::Stalled, "{delays:?}; {}", run.describe());
    let is_own =
        table.steps.iter().any(|s| ["self-ipi", "timer", "deadline"].contains(&s.1.as_str()));
    for (cpu, other) in [(CpuId(0), rig.b), (rig.b, CpuId(0))] {
        for e in run.exits(cpu) {
            // A wait for a start-up message may end as it begins.
            let takes_time = e.resumes > e.since || e.cause == WakeCause::Reset;
            assert!(takes_time, "{delays:?}: {e:?}");
            // Nothing ends a wait before the other role has begun.
            assert!(is_own || e.at >= run.begins(other), "{delays:?}: {e:?}");
        }
    }
    outcome(&run, rig)
}

/// Runs one place of a table; returns what was found in ranges.
fn run_place(table: &Table, place: &str, rig: &Rig, mode: Mode) -> Result<Vec<Found>, String> {
    let recorded = table.found.get(place).map_or(&[][..], Vec::as_slice);
    let mut found: Vec<Found> = Vec::new();
    for at in cycles(mode, &table.sweep.1, recorded) {
        let outcome = run_cycle(table, rig, at);
        // Between two cycles that differ, a blessing looks at each.
        let before = found.last().map(|f| (f.0.end, f.1 != outcome));
        if let Some((from, true)) = before.filter(|_| mode == Mode::Bless) {
            (from..at).for_each(|at| push(&mut found, at, run_cycle(table, rig, at)));
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

fn run_file(path: &Path, mode: Mode) -> Result<(), String> {
    let text = std::fs::read_to_string(path).map_err(|e| e.to_string())?;
    let table = Table::read(&text)?;
    let topology = cluster();
    let places = distances(&topology).map(|(name, b)| (name.to_lowercase().replace(' ', "-"), b));
    let mut found = Vec::new();
    for (place, b) in places {
        if table.at.is_empty() || table.at.contains(&place) {
            found
                .push((place.clone(), run_place(&table, &place, &table.rig(&topology, b)?, mode)?));
        }
    }
    if found.is_empty() {
        return Err("no place: sibling, same-llc, same-package, other-package".to_owned());
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
                writeln!(out, "; {place} {}..{} {outcome}", r.start, r.end - 1).unwrap();
            }
        }
        std::fs::write(path, out).map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn files() -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/wait");
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|f| f.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "seq"));
    let only = std::env::var("ONLY").unwrap_or_default();
    files.retain(|f| f.to_string_lossy().contains(&only));
    files.sort();
    files
}

#[test]
fn races_end_as_written_at_every_cycle() {
    let is_set = |name| std::env::var_os(name).is_some();
    let mode = match (is_set("BLESS"), is_set("EXHAUSTIVE")) {
        (true, _) => Mode::Bless,
        (_, true) => Mode::Exhaustive,
        _ => Mode::Cut,
    };
    let files = files();
    assert!(!files.is_empty());
    let (next, failed) = (Mutex::new(files.iter()), Mutex::new(Vec::new()));
    let work = || {
        loop {
            let Some(path) = next.lock().unwrap().next() else { return };
            let ended = std::panic::catch_unwind(|| run_file(path, mode));
            if let Err(e) = ended.unwrap_or(Err("an assertion above does not hold".to_owned())) {
                failed.lock().unwrap().push(format!("{}: {e}", path.display()));
            }
        }
    };
    std::thread::scope(|s| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            s.spawn(work);
        }
    });
    let failed = failed.into_inner().unwrap();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
