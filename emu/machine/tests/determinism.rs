//! One run has one trace: whatever the window, the host's order, and with spins skipped or not.

#[path = "common/laws.rs"]
mod laws;

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_observe::{Event, Observer, Record, Wanted};
use emu_sim::{CpuId, SimTime};

/// Keeps every record as text, so that a difference can be read.
#[derive(Default)]
struct Lines(Vec<String>);

impl Observer for Lines {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, lines: true, steps: false }
    }
    fn record(&mut self, r: &Record) {
        self.0.push(format!("{} {} {:?}", r.time.ps(), r.cpu, r.event));
    }
}

fn kernel() -> Image {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/images/x86_64/kern.elf");
    Image::from_elf(&std::fs::read(path).expect("an image"), None).expect("a good one")
}

/// Runs the kernel to its exit; returns the trace, closed by each cpu's counters and registers.
fn trace(machine: &str, args: &str, options: Options) -> Vec<String> {
    let (name, overrides) = match machine.split_once('+') {
        Some((name, smt)) => (name, vec![format!("smp.smt={smt}")]),
        None => (machine, Vec::new()),
    };
    let topology = topology::Machine::load(name, &overrides).expect("a machine");
    let elides = options.elide_spins;
    let mut machine = Machine::new(&topology, options).expect("it is built");
    machine.load(&kernel(), args).expect("the kernel fits");
    let mut lines = Lines::default();
    let until = Until { time: SimTime::from_us(5_000), regions: false };
    let stop = machine.run(&until, &mut lines);
    assert_eq!(stop, Stop::Exit { code: 0 }, "{}", String::from_utf8_lossy(machine.console()));
    laws::check(&machine);
    let is_eliding = machine.topology().cpus.len() > 1 && args.contains("idle=poll") && elides;
    let mut elided = 0;
    for cpu in (0..machine.cpus() as u32).map(CpuId) {
        elided += machine.counters(cpu).elided;
        let mut counters = machine.counters(cpu);
        counters.elided = 0;
        lines.0.push(format!("{cpu} {counters:?} {:x?}", machine.cpu(cpu).state));
    }
    assert!(!is_eliding || elided > 0, "no spin was skipped");
    lines.0
}

fn check_same(what: &str, a: &[String], b: &[String]) {
    if let Some(at) = (0..a.len().min(b.len())).find(|i| a[*i] != b[*i]) {
        let from = at.saturating_sub(3);
        panic!("{what}: line {at}\n{:#?}\nagainst\n{:#?}", &a[from..=at], &b[from..=at]);
    }
    assert_eq!(a.len(), b.len(), "{what}: one trace ends early");
}

const STORM: &str = "bench=ipistorm numipi=40 warmup=5 cpulist=0 offset=1";

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
