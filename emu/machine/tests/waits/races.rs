//! Runs `tests/wait/*.seq` on x86.

use emu_observe::{WakeCause, cause_name};
use emu_sim::CpuId;

use crate::steps::{DONE, RUNS};
use crate::sweep::{Places, run_folder};
use crate::table::Table;
use crate::world::{LOG, Rig, Run, cluster, distances};

/// What became of both roles.
fn outcome(run: &Run, rig: &Rig) -> String {
    let taken =
        (0..run.word(LOG)).map(|n| (run.word(LOG + 64 + 16 * n), run.word(LOG + 72 + 16 * n)));
    let taken: Vec<(u64, u64)> = taken.collect();
    let roles = [CpuId(0), rig.b].map(|cpu| {
        let n = usize::from(cpu != CpuId(0));
        let (from, to) =
            [("a", "other"), ("b", "nmi")].map(|(a, b)| (rig.address(a), rig.address(b)))[n];
        let mut words: Vec<String> =
            run.exits(cpu).iter().map(|e| cause_name(e.cause).to_owned()).collect();
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

/// Role `b` at each distance that the table names.
fn boot(table: &Table) -> Result<Places<'_>, String> {
    let topology = cluster();
    let mut places: Places<'_> = Vec::new();
    for (name, b) in distances(&topology) {
        let place = name.to_lowercase().replace(' ', "-");
        if table.at.is_empty() || table.at.contains(&place) {
            let rig = table.rig(&topology, b)?;
            places.push((place, Box::new(move |at| run_cycle(table, &rig, at))));
        }
    }
    Ok(places)
}

#[test]
fn races_end_as_written_at_every_cycle() {
    run_folder("tests/wait", boot);
}
