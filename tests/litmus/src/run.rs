//! A test on an emulated machine: iterations in, histogram of final states out.

use std::collections::BTreeMap;

use emu_machine::{Machine, Options, Stop, Until};
use emu_sim::SimTime;
use emu_sim::mutant::Mutation;
use topology::Isa;

use crate::guest::{self, Seats};
use crate::place::Placement;
use crate::plan;
use crate::program::{Observed, Outcome, Test};

/// Iterations of one machine; more get a fresh one.
pub const ITERATIONS_PER_MACHINE: usize = 10_000;
/// Bytes of a node's memory below which its variables are put on another.
const NODE_BYTES_MIN: u64 = 0x2000_0000;
/// Simulated time in which an iteration ends unless something hangs.
const TIME_PER_ITERATION: SimTime = SimTime::from_us(100);

/// How often each state was seen.
pub type Histogram = BTreeMap<Outcome, u64>;

/// One way to run a test.
#[derive(Clone, Copy, Debug)]
pub struct Way<'a> {
    /// The machine.
    pub machine: &'a topology::Machine,
    /// Where its threads are.
    pub placement: Placement,
    /// Seed of plans and machines.
    pub seed: u64,
    /// Draws windows and host order too (rule D7).
    pub is_shuffled: bool,
    /// What the machine does wrong, under the feature `mutants`.
    pub mutation: Mutation,
}

/// Runs a test, and adds to `seen`.
///
/// Errors: the placement does not exist there; the guest did not end by itself.
pub fn run(test: &Test, way: &Way, iterations: usize, seen: &mut Histogram) -> Result<(), String> {
    let mut done = 0;
    while done < iterations {
        let now = (iterations - done).min(ITERATIONS_PER_MACHINE);
        chunk(test, way, done as u64, now, seen).map_err(|e| {
            format!("{}, placement {}, seed {}: {e}", test.name, way.placement.name(), way.seed)
        })?;
        done += now;
    }
    Ok(())
}

fn chunk(
    test: &Test,
    way: &Way,
    nth: u64,
    iterations: usize,
    seen: &mut Histogram,
) -> Result<(), String> {
    let threads = test.program.threads();
    let mut cpus = way
        .placement
        .cpus(way.machine, threads)
        .ok_or_else(|| format!("{} has no such place for {threads} threads", way.machine.id))?;
    let mut draw = plan::Draw::new(way.seed, nth);
    cpus.rotate_left(draw.below(threads as u64) as usize);
    let id = |cpu: usize| match way.machine.isa {
        Isa::X86_64 => u64::from(way.machine.cpus[cpu].apic_id),
        Isa::Aarch64 => way.machine.cpus[cpu].mpidr,
    };
    let seats = Seats {
        seats: cpus.iter().map(|c| (*c, id(*c))).collect(),
        ram: way.machine.ram().first().map_or(0, |r| r.base),
        is_x2apic: way.machine.apic.mode == topology::ApicMode::X2apic,
    };
    let nodes: Vec<u64> = way
        .machine
        .ram()
        .iter()
        .filter(|r| r.size >= NODE_BYTES_MIN)
        .map(|r| r.base.next_multiple_of(64))
        .collect();
    let plan = plan::draw(test, &nodes, draw.next_u64(), iterations);
    let image = guest::build(test, &plan, &seats)?;
    let options = Options {
        seed: draw.next_u64(),
        shuffle_host: way.is_shuffled.then(|| draw.next_u64()),
        mutation: way.mutation,
        ..Options::default()
    };
    let mut machine = Machine::new(way.machine, options).map_err(|e| e.to_string())?;
    machine.load(&image, "").map_err(|e| chain(&e))?;
    let time = SimTime::from_us(1000 + iterations as u64 * TIME_PER_ITERATION.ps() / 1_000_000);
    match machine.run(&Until { time, regions: false }, &mut ()) {
        Stop::Exit { code: 0 } => {}
        stop => return Err(format!("the guest ended by {stop:?} at {}", machine.now())),
    }
    machine.check_laws().map_err(|broken| broken.to_string())?;
    let len = guest::records_len(iterations);
    let records: Vec<Vec<u8>> =
        (0..threads).map(|t| machine.read_guest(seats.records(t, iterations), len)).collect();
    for (i, iteration) in plan.iter().enumerate() {
        let outcome = test.outcome(&|observed| match observed {
            Observed::Variable(v) => machine.read_guest_u64(iteration.addresses[v]),
            Observed::Register(t, register) => {
                let nth = test.recorded(t).position(|r| r == register);
                guest::register(&records[t], i, nth.unwrap_or(0))
            }
        });
        *seen.entry(outcome).or_insert(0) += 1;
    }
    Ok(())
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(e) = next {
        text = format!("{text}: {e}");
        next = e.source();
    }
    text
}
