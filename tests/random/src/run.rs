//! A case on its machine: seed in, hash and counts out, or what is wrong.

use std::fmt;

use emu_machine::{Machine, Options, Stop, Until};
use emu_observe::{Observer, PointTable, Record, Wanted, trace_line};
use emu_sim::mutant::Mutation;
use emu_sim::{CpuId, SimTime};
use sha2::{Digest, Sha256};
use tests_litmus::plan::Draw;
use topology::{ApicMode, Isa};

use crate::guest::{Plan, UNWRITTEN};
use crate::program::{self, Rules};
use crate::{arena, order, replay, shape};

/// Lines under test, at most.
pub const LINES_MAX: u64 = 8;
/// Cpus that run, at most: a line has so many bits.
pub const CPUS_MAX: usize = 512;
/// Operations of a cpu, at most: numbers of writes have 16 bits.
pub const OPERATIONS_MAX: u64 = 0xffff;
/// Simulated time in which an operation ends, however many want the same line.
const TIME_PER_OPERATION: SimTime = SimTime::from_us(200);
/// Streams of chance beside those of the programs.
const SHAPE: u64 = u64::MAX;
const ARENA: u64 = u64::MAX - 1;
const SEATS: u64 = u64::MAX - 2;

/// What is run. Its `Display` is the command line that runs it again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Name of the machine; the rest of its shape is drawn.
    pub machine: String,
    /// Seed of everything.
    pub seed: u64,
    /// Cpus that run.
    pub cpus: usize,
    /// Operations of a round.
    pub ops: usize,
    /// Rounds.
    pub rounds: u64,
    /// Lines.
    pub lines: u64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { machine, seed, cpus, ops, rounds, lines } = self;
        write!(
            f,
            "cargo run --release -p tests_random -- --machine {machine} --seeds {seed}..{} \
             --cpus {cpus} --ops {ops} --rounds {rounds} --lines {lines}",
            seed + 1
        )
    }
}

/// What changes the speed of a run and nothing else.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// Steps spins.
    pub steps_spins: bool,
    /// Draws windows and host order from this seed.
    pub shuffle: Option<u64>,
    /// Picoseconds of a window.
    pub window_ps: Option<u64>,
    /// What the machine does wrong, under the feature `mutants`; the one choice that may change
    /// more than speed.
    pub mutation: Mutation,
}

/// What a clean run was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Of trace, counters, registers, logs and lines.
    pub hash: String,
    /// Memory operations on lines under test and on lines that sweep them out.
    pub operations: u64,
    /// Accesses judged.
    pub judged: u64,
    /// Instructions.
    pub instructions: u64,
    /// Interrupts sent.
    pub ipis: u64,
    /// Of these, merged into a pending one.
    pub merged: u64,
    /// Waits ended by a store.
    pub store_wakes: u64,
    /// Instructions of skipped spins.
    pub elided: u64,
    /// Simulated time.
    pub time: SimTime,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} operations {} judged {} instructions {} ipis {} merged {} store-wakes {} time {}",
            self.hash,
            self.operations,
            self.judged,
            self.instructions,
            self.ipis,
            self.merged,
            self.store_wakes,
            self.time
        )
    }
}

/// Hashes the text of all records.
struct Hash(Sha256, PointTable);

impl Observer for Hash {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, lines: true, steps: false }
    }
    fn record(&mut self, record: &Record) {
        self.0.update(trace_line(record, &self.1));
        self.0.update("\n");
    }
}

/// Runs a case.
///
/// # Errors
/// What was wrong.
pub fn run(case: &Case, host: &Host) -> Result<Report, String> {
    let load = |set: &[String]| {
        topology::Machine::load(&case.machine, set).map_err(|e| format!("{set:?}: {e}"))
    };
    let isa = load(&[])?.isa;
    let topology = load(&shape::overrides(&case.machine, isa, &mut Draw::new(case.seed, SHAPE)))?;
    let plan = plan(case, &topology)?;
    let image = plan.image()?;
    let options = Options {
        seed: case.seed,
        elide_spins: !host.steps_spins,
        shuffle_host: host.shuffle,
        window_ps: host.window_ps,
        mutation: host.mutation,
        ..Options::default()
    };
    let mut machine = Machine::new(&topology, options).map_err(|e| e.to_string())?;
    machine.load(&image, "").map_err(|e| format!("{e:?}"))?;
    for seat in 0..plan.seats.len() {
        let (address, bytes) = plan.log(seat);
        machine.write_guest(address, &UNWRITTEN.to_le_bytes().repeat(bytes / 8));
    }
    let operations = case.ops as u64 * case.rounds * plan.seats.len() as u64;
    let time = SimTime(TIME_PER_OPERATION.ps().saturating_mul(100 + operations));
    let mut hash = Hash(Sha256::new(), PointTable::new(Vec::new(), Vec::new()));
    let stop = machine.run(&Until { time, regions: false }, &mut hash);
    if stop != (Stop::Exit { code: 0 }) {
        let fault = machine.read_guest_u64(plan.unexpected());
        let states = plan.seats.iter().map(|(cpu, _)| {
            let cpu = CpuId(*cpu as u32);
            format!("\n{cpu} at {:#x}: {:?}", machine.pc(cpu), machine.run_state(cpu))
        });
        let states: String = states.collect();
        let now = machine.now();
        return Err(format!("ended by {stop:?} at {now}, exceptions {fault}{states}"));
    }
    machine.check_laws().map_err(|e| e.to_string())?;
    let replay = replay::replay(&machine, &plan)?;
    counts(&machine, &plan, replay.ipis)?;
    order::check(&replay.execution).map_err(|e| e.to_string())?;
    Ok(report(&machine, &plan, &replay, hash.0))
}

fn plan(case: &Case, topology: &topology::Machine) -> Result<Plan, String> {
    let seats = shape::seats(topology, case.cpus, &mut Draw::new(case.seed, SEATS));
    if case.ops == 0 || case.rounds == 0 || case.lines == 0 || seats.len() > CPUS_MAX {
        return Err(format!("at least an operation, a round, a line; at most {CPUS_MAX} cpus"));
    }
    if case.ops as u64 * case.rounds > OPERATIONS_MAX {
        return Err(format!("more than {OPERATIONS_MAX} operations of a cpu"));
    }
    let mut draw = Draw::new(case.seed, ARENA);
    let has_meetings = draw.below(2) == 1;
    let arena = arena::draw(topology, case.lines, seats.len(), &mut draw);
    let hints = shape::hints(topology);
    let rules = Rules {
        arena: &arena,
        seats: seats.len(),
        rounds: case.rounds,
        hints: &hints,
        has_meetings,
    };
    let programs =
        (0..seats.len()).map(|s| program::draw(&rules, s, case.ops, case.seed)).collect();
    let is_x2apic = topology.apic.mode == ApicMode::X2apic;
    let isa = topology.isa;
    let base = match isa {
        Isa::X86_64 => 0,
        Isa::Aarch64 => topology.ram().first().map_or(0, |ram| ram.base),
    };
    let (seed, rounds) = (case.seed, case.rounds);
    let plan = Plan { isa, base, seed, arena, programs, rounds, seats, is_x2apic };
    if plan.fits() { Ok(plan) } else { Err("the logs do not fit; take fewer rounds".to_owned()) }
}

/// The handlers counted what the machine says was taken, and every round was run.
fn counts(machine: &Machine, plan: &Plan, sent: u64) -> Result<(), String> {
    let mut total = 0;
    for (seat, (cpu, _)) in plan.seats.iter().enumerate() {
        let c = machine.counters(CpuId(*cpu as u32));
        let [ipis, ticks, rounds] = plan.counts(seat).map(|at| machine.read_guest_u64(at));
        total += c.ipi_sent;
        let is_settled = c.ipi_pending == 0 && c.ipi_dropped == 0;
        if !is_settled || ipis != c.ipi_taken || ipis + ticks != c.handler_entries {
            return Err(format!("seat {seat}: handlers ran {ipis} + {ticks} times, but {c:?}"));
        }
        if rounds != plan.rounds {
            return Err(format!("seat {seat}: {rounds} rounds of {}", plan.rounds));
        }
    }
    if total != sent || machine.ipis_under_way() != 0 {
        return Err(format!("{total} interrupts sent, not {sent}"));
    }
    Ok(())
}

fn report(machine: &Machine, plan: &Plan, replay: &replay::Replay, mut hash: Sha256) -> Report {
    let mut report = Report {
        hash: String::new(),
        operations: replay.operations,
        judged: replay.execution.cpus.iter().map(|c| c.len() as u64).sum(),
        instructions: 0,
        ipis: replay.ipis,
        merged: 0,
        store_wakes: 0,
        elided: 0,
        time: machine.now(),
    };
    for (seat, (cpu, _)) in plan.seats.iter().enumerate() {
        let cpu = CpuId(*cpu as u32);
        let mut counters = machine.counters(cpu);
        report.instructions += counters.instructions;
        report.merged += counters.ipi_merged;
        report.store_wakes += counters.idle_wake_write;
        report.elided += std::mem::take(&mut counters.elided);
        hash.update(format!("{cpu} {counters:?} {}\n", machine.state_text(cpu)));
        let (log, bytes) = plan.log(seat);
        hash.update(machine.read_guest(log, bytes));
    }
    for line in &plan.arena.lines {
        hash.update(machine.read_guest(*line, arena::LINE as usize));
    }
    report.hash = hash.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    report
}
