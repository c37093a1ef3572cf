//! Races as tables: `tests/wait/*.seq`, each with two roles, a sweep, and the outcomes it may have.
//!
//! ```text
//! ;! claim = what the file shows             with rules of the engine, and `manual` for a section
//! ;! at    = sibling same-llc                where role `b` is; everywhere, if left out
//! ;! delay = a 1500                          role `a` (or a mark) starts so many cycles late
//! ;! sweep = b 0..2500                       role `b` (or a mark) at each of these cycles
//! a monitor                                  steps of the roles, of handlers `h`, and of NMIs `n`
//! a mwait
//! b store 5                                  at byte 5 of the watched line
//! ;= saw done                                an outcome that comes at every place, in this order
//! ;? done                                    one that may come
//! ; sibling 0..212 saw done                  what is found, `BLESS=1` rewrites it
//! ```
//!
//! An outcome is what became of role `a`: the causes that ended its waits; the vectors that were
//! taken, each with the mark to which it returns (`after`, or `after+` somewhere behind it); `saw`
//! if a `look` found the store; `left` for interrupts that are still pending; `again` if the role
//! was started anew; and `done` if it came to its end. The same of role `b` follows behind a slash,
//! unless that is `done` alone. A timing that changes moves ranges; the outcomes and their order
//! are the claim.
//!
//! By default the cycles around every recorded change run, and some between. `EXHAUSTIVE=1` runs
//! every cycle of every window; `ONLY=name` takes some of the files.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use emu_observe::WakeCause;
use emu_sim::CpuId;
use iced_x86::code_asm::*;

use crate::world::{LINE, LOG, Rig, Role, Run, STARTUP, cluster, distances, word};

/// Cycles from one to the next between recorded changes, by default.
const STRIDE: usize = 131;
/// The same while ranges are written: only a change that lies between and goes back is missed.
const BLESS_STRIDE: usize = 16;
/// Cycles on either side of a recorded change that always run.
const AROUND: u64 = 2;

/// Words of a role: how often it was started, whether it came to its end.
const RUNS: [u64; 2] = [word(20), word(22)];
const DONE: [u64; 2] = [word(24), word(26)];

/// Cycles, and what was found in them.
type Found = (Range<u64>, String);

/// A table as written.
struct Table {
    at: Vec<String>,
    delays: Vec<(String, u64)>,
    sweep: (String, Range<u64>),
    /// Role, step, arguments.
    steps: Vec<(char, String, Vec<String>)>,
    /// Legal outcomes in their order; whether each must come.
    may: Vec<(String, bool)>,
    /// By place: each range and what was found in it.
    found: BTreeMap<String, Vec<Found>>,
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// `0..212`, its end included in what is recorded.
fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or_else(|| format!("`{text}` is no range"))?;
    Ok(number(from)?..number(to)? + 1)
}

impl Table {
    fn read(text: &str) -> Result<Table, String> {
        let mut t = Table {
            at: Vec::new(),
            delays: Vec::new(),
            sweep: (String::new(), 0..0),
            steps: Vec::new(),
            may: Vec::new(),
            found: BTreeMap::new(),
        };
        for line in text.lines().map(|l| l.split(" #").next().unwrap_or(l).trim()) {
            if let Some(head) = line.strip_prefix(";!") {
                t.head(head)?;
            } else if let Some(outcome) = line.strip_prefix(";?").or(line.strip_prefix(";=")) {
                t.may.push((outcome.trim().to_owned(), line.starts_with(";=")));
            } else if let Some(found) = line.strip_prefix("; ") {
                let mut parts = found.splitn(3, ' ');
                let (place, cycles) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
                let outcome = parts.next().unwrap_or("").trim().to_owned();
                t.found.entry(place.to_owned()).or_default().push((range(cycles)?, outcome));
            } else if !line.is_empty() && !line.starts_with('#') {
                let mut words = line.split_whitespace().map(str::to_owned);
                let role = words.next().filter(|w| ["a", "b", "h", "n"].contains(&w.as_str()));
                let role = role.and_then(|w| w.chars().next());
                let (Some(role), Some(step)) = (role, words.next()) else {
                    return Err(format!("cannot read `{line}`"));
                };
                t.steps.push((role, step, words.collect()));
            }
        }
        if t.sweep.1.is_empty() || t.may.is_empty() {
            return Err("a table needs a sweep and its outcomes".to_owned());
        }
        Ok(t)
    }

    fn head(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("cannot read `{line}`"))?;
        let mut words = value.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        match key.trim() {
            "claim" | "manual" => {}
            "at" => self.at = value.split_whitespace().map(str::to_owned).collect(),
            "delay" => self.delays.push((first.to_owned(), number(second)?)),
            "sweep" => self.sweep = (first.to_owned(), range(second)?),
            other => return Err(format!("unknown header `{other}`")),
        }
        Ok(())
    }

    /// Vectors that any step names.
    fn vectors(&self) -> Vec<u32> {
        let named = self.steps.iter().filter(|s| SENDS_VECTOR.contains(&s.1.as_str()));
        let mut all: Vec<u32> = named.filter_map(|s| hex(s.2.first()?).ok()).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn assemble(&self, r: &mut Role<'_>, role: char, apic_id: u32) -> Result<(), String> {
        let mut labels = BTreeMap::new();
        for (_, step, args) in self.steps.iter().filter(|s| s.0 == role) {
            emit(r, step, args, apic_id, &mut labels)?;
        }
        Ok(())
    }

    /// Boots both roles, `b` on that cpu.
    fn rig(&self, topology: &topology::Machine, b: u32) -> Result<Rig, String> {
        let ids = [topology.cpus[0].apic_id, topology.cpus[b as usize].apic_id];
        let problem = Mutex::new(Ok(()));
        let body = |r: &mut Role<'_>, n: usize| {
            let mut end = r.a.create_label();
            r.a.lock().inc(qword_ptr(RUNS[n])).unwrap();
            r.a.cmp(qword_ptr(RUNS[n]), 1).unwrap();
            r.a.jne(end).unwrap();
            // What a role touches besides its steps is there, so that only they take time.
            r.a.mov(qword_ptr(DONE[n]), 0).unwrap();
            r.a.mov(rbx, qword_ptr(LINE + 2048)).unwrap();
            r.a.mov(rbx, qword_ptr(LOG)).unwrap();
            r.a.mfence().unwrap();
            r.mark(["a", "b"][n]);
            let made = self.assemble(r, ['a', 'b'][n], ids[1 - n]);
            if made.is_err() {
                *problem.lock().unwrap() = made;
            }
            r.a.set_label(&mut end).unwrap();
            r.a.mov(qword_ptr(DONE[n]), 1).unwrap();
        };
        let handlers = |r: &mut Role<'_>| {
            if let Err(e) = self.handlers(r) {
                *problem.lock().unwrap() = Err(e);
            }
        };
        let mut points: Vec<&str> = vec![self.sweep.0.as_str()];
        points.extend(self.delays.iter().map(|d| d.0.as_str()));
        points.extend(["a", "b"].iter().filter(|p| !points.contains(p)).collect::<Vec<_>>());
        let rig =
            Rig::with_handlers(topology, b, |r| body(r, 0), |r| body(r, 1), handlers, &points);
        problem.into_inner().unwrap().map(|()| rig)
    }

    /// A handler logs its vector and where it returns to, then runs the steps of `h`, or of `n`.
    fn handlers(&self, r: &mut Role<'_>) -> Result<(), String> {
        let mut common = r.a.create_label();
        for vector in [vec![2], self.vectors()].concat() {
            r.mark(&if vector == 2 { "nmi".to_owned() } else { format!("irq{vector:x}") });
            r.a.push(rax).unwrap();
            r.a.mov(eax, vector).unwrap();
            r.a.jmp(common).unwrap();
        }
        let (mut nmi, mut out) = (r.a.create_label(), r.a.create_label());
        r.a.set_label(&mut common).unwrap();
        for register in [rcx, rdx, rbx] {
            r.a.push(register).unwrap();
        }
        r.a.mov(rcx, qword_ptr(rsp + 32)).unwrap();
        r.a.mov(edx, 1).unwrap();
        r.a.lock().xadd(qword_ptr(LOG), rdx).unwrap();
        r.a.shl(rdx, 4).unwrap();
        r.a.mov(rbx, LOG + 64).unwrap();
        r.a.mov(qword_ptr(rbx + rdx), rcx).unwrap();
        r.a.mov(qword_ptr(rbx + rdx + 8), rax).unwrap();
        r.a.cmp(eax, 2).unwrap();
        r.a.je(nmi).unwrap();
        r.mark("h");
        self.assemble(r, 'h', 0)?;
        if !self.steps.iter().any(|s| s.0 == 'h') {
            r.apic(0xb0, 0);
        }
        r.a.jmp(out).unwrap();
        r.a.set_label(&mut nmi).unwrap();
        // Two labels do not go to one instruction.
        r.a.nop().unwrap();
        r.mark("n");
        self.assemble(r, 'n', 0)?;
        r.a.set_label(&mut out).unwrap();
        r.a.nop().unwrap();
        r.mark("return");
        for register in [rbx, rdx, rcx, rax] {
            r.a.pop(register).unwrap();
        }
        r.a.iretq().unwrap();
        r.mark("fault");
        r.a.mov(qword_ptr(crate::world::FAULT), 1).unwrap();
        r.halt();
        Ok(())
    }
}

/// Steps whose first argument is a vector, in hexadecimal.
const SENDS_VECTOR: [&str; 4] = ["ipi", "self-ipi", "timer", "deadline"];

fn hex(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16).map_err(|_| format!("`{text}` is no vector"))
}

/// Emits one step; `other` is the APIC id of the other role.
fn emit(
    r: &mut Role<'_>,
    step: &str,
    args: &[String],
    other: u32,
    labels: &mut BTreeMap<String, CodeLabel>,
) -> Result<(), String> {
    let arg = |n: usize| args.get(n).map_or("0", String::as_str);
    let count = |n: usize| number(arg(n)).map(|v| v as u32);
    match step {
        // The watched line.
        "warm" => r.warm(),
        "monitor" => r.monitor(LINE),
        "mwait" => r.mwait(hex(arg(0))?, hex(arg(1))?),
        "look" => {
            r.a.mov(rbx, qword_ptr(LINE)).unwrap();
            r.a.or(r8, rbx).unwrap();
        }
        "store" => r.a.mov(byte_ptr(LINE + number(arg(0))?), 1).unwrap(),
        "lock-inc" => r.a.lock().inc(dword_ptr(LINE)).unwrap(),
        "flush" => {
            r.a.clflush(byte_ptr(LINE)).unwrap();
            r.a.mfence().unwrap();
        }
        // Interrupts.
        "sti" => r.a.sti().unwrap(),
        "cli" => r.a.cli().unwrap(),
        "hlt" => r.a.hlt().unwrap(),
        // MWAIT behind STI, with its registers set before.
        "sti-mwait" => {
            r.a.mov(eax, hex(arg(0))?).unwrap();
            r.a.xor(ecx, ecx).unwrap();
            r.a.sti().unwrap();
            r.a.mwait().unwrap();
        }
        // The instruction behind it is in its shadow: a register move at a mark.
        "mov-ss" => {
            r.a.mov(ebx, 0x10).unwrap();
            r.a.mov(ss, ebx).unwrap();
        }
        "ipi" => r.send(other, 0x4000 | hex(arg(0))?),
        "nmi" => r.send(other, 0x4400),
        "init" => r.send(other, 0x4500),
        "sipi" => r.send(other, STARTUP),
        "self-ipi" => r.send(0, 0x4_4000 | hex(arg(0))?),
        "eoi" => r.apic(0xb0, 0),
        "tpr" => r.apic(0x80, hex(arg(0))?),
        "cr8" => {
            r.a.mov(ebx, hex(arg(0))?).unwrap();
            r.a.mov(cr8, rbx).unwrap();
        }
        "timer" => {
            r.apic(0x3e0, 0b1011);
            r.apic(0x320, hex(arg(0))?);
            r.apic(0x380, count(1)?);
        }
        "deadline" => {
            r.apic(0x320, hex(arg(0))? | 2 << 17);
            r.a.mfence().unwrap();
            r.a.rdtsc().unwrap();
            r.a.add(eax, count(1)?).unwrap();
            r.a.mov(ecx, 0x6e0).unwrap();
            r.a.wrmsr().unwrap();
        }
        // Time and places.
        "spend" => r.spend(count(0)?),
        "nop" => r.a.nop().unwrap(),
        "mark" => {
            let label = *labels.entry(arg(0).to_owned()).or_insert_with(|| r.a.create_label());
            r.mark(arg(0));
            let mut here = label;
            r.a.set_label(&mut here).unwrap();
            r.a.nop().unwrap();
        }
        "goto-if-seen" | "goto-unless-seen" => {
            let label = *labels.entry(arg(0).to_owned()).or_insert_with(|| r.a.create_label());
            r.a.test(r8, r8).unwrap();
            if step == "goto-if-seen" { r.a.jne(label) } else { r.a.je(label) }.unwrap();
        }
        _ => return Err(format!("unknown step `{step}`")),
    }
    Ok(())
}

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
        if run.machine.cpu(cpu).state.gpr[8] != 0 {
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
            if let Err(e) = run_file(path, mode) {
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
