//! One run of the guest kernel as text: every record, then all counters and registers.
#![allow(dead_code, reason = "each test file uses a part")]

use std::collections::BTreeMap;

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_observe::{Observer, Record, Wanted};
use emu_sim::{CpuId, SimTime};

/// Many interrupts between idle cpus.
pub(crate) const STORM: &str = "bench=ipistorm numipi=40 warmup=5 cpulist=0 offset=1";

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

/// The guest kernel.
pub(crate) fn kernel(isa: topology::Isa) -> Image {
    let folder = match isa {
        topology::Isa::X86_64 => "x86_64",
        topology::Isa::Aarch64 => "aarch64",
    };
    let images = concat!(env!("CARGO_MANIFEST_DIR"), "/../../guests/images");
    let elf = std::fs::read(format!("{images}/{folder}/kern.elf")).expect("an image");
    Image::from_elf(&elf, None).expect("a good one")
}

/// A machine by name; `name+n` has n siblings per core.
pub(crate) fn topology(name: &str) -> topology::Machine {
    let (name, overrides) = match name.split_once('+') {
        Some((name, smt)) => (name, vec![format!("smp.smt={smt}")]),
        None => (name, Vec::new()),
    };
    topology::Machine::load(name, &overrides).expect("a machine")
}

/// Runs the kernel to its exit.
pub(crate) fn trace(topology: &topology::Machine, args: &str, options: Options) -> Vec<String> {
    run(topology, args, options).1
}

/// Runs the kernel to its exit; the machine at the end, too.
pub(crate) fn run(
    topology: &topology::Machine,
    args: &str,
    options: Options,
) -> (Machine, Vec<String>) {
    run_beside(topology, args, options, |_| {})
}

/// As `run`, with a machine that was prepared.
pub(crate) fn run_beside(
    topology: &topology::Machine,
    args: &str,
    options: Options,
    prepare: impl FnOnce(&mut Machine),
) -> (Machine, Vec<String>) {
    let elides = options.elide_spins;
    let mut machine = Machine::new(topology, options).expect("it is built");
    machine.load(&kernel(topology.isa), args).expect("the kernel fits");
    prepare(&mut machine);
    let mut lines = Lines::default();
    let until = Until { time: SimTime::from_us(5_000), regions: false };
    let stop = machine.run(&until, &mut lines);
    assert_eq!(stop, Stop::Exit { code: 0 }, "{}", String::from_utf8_lossy(machine.console()));
    assert_eq!(machine.check_laws(), Ok(()));
    let is_eliding = machine.topology().cpus.len() > 1 && args.contains("idle=poll") && elides;
    let mut elided = 0;
    for cpu in (0..machine.cpus() as u32).map(CpuId) {
        elided += machine.counters(cpu).elided;
        let mut counters = machine.counters(cpu);
        counters.elided = 0;
        lines.0.push(format!("{cpu} {counters:?} {}", machine.state_text(cpu)));
    }
    assert!(!is_eliding || elided > 0, "no spin was skipped");
    lines.0.extend(machine.dma_done().iter().map(|d| format!("{d:?}")));
    lines.0.push(format!("{:?}", machine.line_counters()));
    lines.0.push(String::from_utf8_lossy(machine.console()).into_owned());
    (machine, lines.0)
}

/// The lines that cpus wrote to most often, those first.
pub(crate) fn hot_lines(trace: &[String], count: usize) -> Vec<u64> {
    let mut writes: BTreeMap<u64, usize> = BTreeMap::new();
    for text in trace.iter().filter(|t| t.contains("LineGrant") && t.ends_with("write: true }")) {
        let line = text.split(&['(', ')'][..]).nth(1).expect("a line");
        *writes.entry(line.parse().expect("a number")).or_default() += 1;
    }
    let mut lines: Vec<u64> = writes.keys().copied().collect();
    lines.sort_by_key(|line| std::cmp::Reverse(writes[line]));
    lines.truncate(count);
    lines
}

/// Where two traces part, with the lines before.
pub(crate) fn difference(a: &[String], b: &[String]) -> Option<String> {
    if let Some(at) = (0..a.len().min(b.len())).find(|i| a[*i] != b[*i]) {
        let from = at.saturating_sub(3);
        return Some(format!("line {at}\n{:#?}\nagainst\n{:#?}", &a[from..=at], &b[from..=at]));
    }
    (a.len() != b.len()).then(|| format!("{} lines against {}", a.len(), b.len()))
}
