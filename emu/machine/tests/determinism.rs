//! One run has one trace: whatever the window, the host's order, and with spins skipped or not.

#[path = "common/trace.rs"]
mod common;

use common::{STORM, difference, topology};
use emu_machine::Options;
use emu_observe::Event;

fn trace(machine: &str, args: &str, options: Options) -> Vec<String> {
    common::trace(&topology(machine), args, options)
}

fn check_same(what: &str, a: &[String], b: &[String]) {
    assert_eq!(difference(a, b), None, "{what}");
}

#[test]
fn two_runs_have_one_trace() {
    let run = || trace("quad", STORM, Options::default());
    check_same("twice", &run(), &run());
}

#[test]
fn the_window_and_the_order_of_the_host_change_nothing() {
    for (machine, args) in [
        ("duo", STORM.to_owned() + " call_idle=revert"),
        ("quad", STORM.to_owned() + " idle=halt"),
        ("quad", STORM.to_owned() + " idle=poll call_idle=notify_ipi"),
        ("smp-6", STORM.to_owned() + " cpulist=0,2,4"),
        ("smp-8+2", STORM.to_owned() + " cpulist=0,2,4 idle=poll"),
    ] {
        let reference = trace(machine, &args, Options::default());
        for window in [1, 777, 4_000] {
            let options = Options { window_ps: Some(window), ..Options::default() };
            check_same(&format!("window {window}"), &reference, &trace(machine, &args, options));
        }
        for seed in 0..3 {
            let options = Options { shuffle_host: Some(seed), ..Options::default() };
            check_same(&format!("shuffle {seed}"), &reference, &trace(machine, &args, options));
        }
    }
}

#[test]
fn skipped_spins_leave_the_state_of_stepped_ones() {
    for (machine, idle) in [("duo", "poll"), ("quad", "poll"), ("quad", "mwait"), ("smp-6", "poll")]
    {
        let args = format!("{STORM} idle={idle}");
        let skipped = trace(machine, &args, Options::default());
        let options = Options { elide_spins: false, ..Options::default() };
        check_same(&format!("{machine} {idle}"), &skipped, &trace(machine, &args, options));
    }
}

#[test]
fn the_seed_changes_the_trace() {
    let run = |seed| trace("quad", STORM, Options { seed, ..Options::default() });
    assert_ne!(run(1), run(2));
}

#[test]
fn ipis_are_sent_before_they_arrive() {
    let lines = trace("quad", STORM, Options::default());
    assert!(lines.iter().any(|l| l.contains("IpiSent")), "{:?}", Event::HandlerEnd);
}
