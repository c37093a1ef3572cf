//! One run has one trace: whatever the window, the host's order, and with spins skipped or not.

#[path = "common/trace.rs"]
mod common;

use common::{STORM, difference, topology};
use emu_machine::{CpuCounters, Machine, Options, Until};
use emu_observe::{Event, Observer, Record, Wanted};
use emu_sim::{CpuId, SimTime};

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

/// Instructions and interrupt entries that were listed, of each cpu.
struct Steps {
    is_asked: bool,
    listed: [u64; 2],
}

impl Observer for Steps {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, lines: false, steps: self.is_asked }
    }
    fn record(&mut self, r: &Record) {
        if let Event::Step { .. } | Event::InterruptTaken { .. } = r.event {
            self.listed[r.cpu.index()] += 1;
        }
    }
}

#[test]
fn every_instruction_is_listed_if_asked_for_and_that_changes_nothing() {
    for name in ["duo", "duo-arm"] {
        let run = |is_asked| {
            let topology = topology(name);
            let mut m = Machine::new(&topology, Options::default()).expect("a machine");
            m.load(&common::kernel(topology.isa), STORM).expect("it fits");
            let mut steps = Steps { is_asked, listed: [0; 2] };
            m.run(&Until { time: SimTime::from_us(5_000), regions: false }, &mut steps);
            (m, steps.listed)
        };
        let ((plain, _), (asked, listed)) = (run(false), run(true));
        for cpu in [CpuId(0), CpuId(1)] {
            let counters = asked.counters(cpu);
            assert_eq!(listed[cpu.index()], counters.instructions, "{name} {cpu}");
            assert_eq!(CpuCounters { elided: 0, ..plain.counters(cpu) }, counters, "{name} {cpu}");
        }
        assert_eq!(plain.now(), asked.now(), "{name}");
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
