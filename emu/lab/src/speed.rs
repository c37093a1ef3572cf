//! `bench speed`: how fast the emulator itself is, on this host.
//!
//! N1 is an integer loop on one cpu, N2 is many cpus at work on memory, N5 coherence
//! transactions of the ping-pong loop, N7 an idle machine for a second of simulated time. Host time
//! comes from the caller's clock and goes into this report only.

use emu_machine::{Options, Stop, Until};
use emu_sim::SimTime;
use serde::Serialize;

use crate::bench;
use crate::counters::Counters;
use crate::ending::{Ending, LabError};
use crate::image;
use crate::machines;
use crate::rig::{Program, Progress, Rig};
use crate::settings::Switches;
use crate::stats::Stats;

/// What is asked for.
pub struct Request<'a> {
    /// Times each measurement is repeated; the median counts.
    pub repeats: usize,
    /// Divides the work of each measurement, for tests.
    pub divide: u32,
    /// Seconds of host time since some start.
    pub clock: &'a dyn Fn() -> f64,
}

/// Result of the bench.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Version of the tool.
    pub version: &'static str,
    /// Measurements.
    pub figures: Vec<Figure>,
}

/// One measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// Id in the project's list of owed numbers.
    pub id: &'static str,
    /// What is measured.
    pub what: &'static str,
    /// Unit of the values.
    pub unit: &'static str,
    /// Value that must be reached.
    pub must: f64,
    /// Whether larger values are better.
    pub larger_is_better: bool,
    /// Values.
    pub values: Stats,
    /// Simulated time of one run in s.
    pub simulated_s: f64,
    /// Guest instructions of one run.
    pub instructions: u64,
}

impl Figure {
    /// Whether the median reaches what is owed.
    #[must_use]
    pub fn is_reached(&self) -> bool {
        let median = self.values.median;
        if self.larger_is_better { median >= self.must } else { median <= self.must }
    }
}

/// Turns of the integer loop.
const ALU_TURNS: u32 = 4_000_000;

struct Work<'a> {
    machine: &'static str,
    /// None for the guest kernel.
    image: Option<&'a [u8]>,
    bootargs: String,
    elide_spins: bool,
}

/// One timed run: seconds of host time, counters since boot, simulated time.
struct Timed {
    seconds: f64,
    counters: Counters,
    simulated: SimTime,
}

/// Runs to the exit. Only what follows the first region mark is timed, if `from_region`.
fn timed<R: Rig>(request: &Request, work: &Work, from_region: bool) -> Result<Timed, LabError> {
    let machine = machines::load(work.machine, &[])?;
    let options = Options { elide_spins: work.elide_spins, ..Options::default() };
    let image = work.image.unwrap_or(image::kernel(machine.isa));
    let mut rig = R::build(&machine, options, &Program::new(image, &work.bootargs))?;
    let limit = SimTime::from_us(100_000_000);
    if from_region {
        let stop = rig.run(&Until { time: limit, regions: true }, &mut ());
        if !matches!(stop, Stop::Region { begin: true, .. }) {
            return Err(LabError::Ended(Box::new(Ending::of(&rig, stop))));
        }
    }
    let (before, begun) = (Counters::read(&rig)?, rig.now());
    let start = (request.clock)();
    let stop = rig.run(&Until { time: limit, regions: false }, &mut ());
    let seconds = (request.clock)() - start;
    bench::passed(&rig, stop)?;
    let counters = Counters::read(&rig)?.since(&before);
    Ok(Timed { seconds, counters, simulated: rig.now().saturating_sub(begun) })
}

fn bootargs(pairs: &[(&str, &str)]) -> Result<String, LabError> {
    let mut switches = Switches::default();
    for (key, value) in pairs {
        switches.set(key, value)?;
    }
    Ok(switches.bootargs())
}

/// Measures one figure; `value` makes it from a run.
fn figure<R: Rig>(
    request: &Request,
    progress: &dyn Progress,
    work: &Work,
    from_region: bool,
    head: Figure,
    value: impl Fn(&Timed) -> f64,
) -> Result<Figure, LabError> {
    let (mut values, mut last) = (Vec::new(), (0.0, 0));
    for _ in 0..request.repeats.max(1) {
        let run = timed::<R>(request, work, from_region).map_err(|e| e.during(head.what))?;
        let instructions = run.counters.sum("instructions").unwrap_or(0);
        last = (run.simulated.ps() as f64 / 1e12, instructions);
        values.push(value(&run));
        progress.advance(1, instructions);
    }
    let values = Stats::of(&values).unwrap_or(head.values);
    Ok(Figure { values, simulated_s: last.0, instructions: last.1, ..head })
}

fn head(id: &'static str, what: &'static str, unit: &'static str, must: f64, up: bool) -> Figure {
    let values = Stats {
        mean: 0.0,
        stddev: 0.0,
        spread_percent: 0.0,
        min: 0.0,
        max: 0.0,
        median: 0.0,
        values: Vec::new(),
    };
    let larger_is_better = up;
    Figure { id, what, unit, must, larger_is_better, values, simulated_s: 0.0, instructions: 0 }
}

/// Guest instructions in millions a second.
fn mips(run: &Timed) -> f64 {
    run.counters.sum("instructions").unwrap_or(0) as f64 / run.seconds / 1e6
}

/// Requests for lines in millions a second.
fn requests(run: &Timed) -> f64 {
    run.counters.sum("line_requests").unwrap_or(0) as f64 / run.seconds / 1e6
}

/// A run of the guest kernel.
fn kernel<'a>(machine: &'static str, pairs: &[(&str, &str)]) -> Result<Work<'a>, LabError> {
    Ok(Work { machine, image: None, bootargs: bootargs(pairs)?, elide_spins: true })
}

/// Runs the bench.
///
/// Errors: `Ended` when a run does not end as it should.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    const X86: &str = "epyc-9654-2s";
    const ARM: &str = "smp-arm-384";
    let shared = |count: u32| (count / request.divide.max(1)).max(1);
    let text = |count: u32| shared(count).to_string();
    let loops = [image::alu_loop(shared(ALU_TURNS)), image::alu_loop_arm64(shared(ALU_TURNS))];
    let alone = |machine, image| Work {
        machine,
        image: Some(image),
        bootargs: String::new(),
        elide_spins: false,
    };
    let handover = [
        ("bench", "c2c"),
        ("c2c_a", "0"),
        ("c2c_b", "3"),
        ("iters", &text(20_000)),
        ("c2c_samples", "10"),
    ];
    let idle = [("bench", "idle"), ("duration_us", &text(1_000_000))];
    let busy = [("bench", "busy"), ("on", "0-31"), ("iters", &text(500))];
    type Value = fn(&Timed) -> f64;
    let works: [(Figure, Work, Value); 6] = [
        (head("N1", "integer loop, 1 cpu", "MIPS", 15.0, true), alone("duo", &loops[0]), mips),
        (head("N1", "the same, arm64", "MIPS", 15.0, true), alone("duo-arm", &loops[1]), mips),
        (head("N2", "32 cpus busy", "MIPS", 6.0, true), kernel(X86, &busy)?, mips),
        (
            head("N5", "coherence transactions", "M/s", 1.0, true),
            kernel("quad", &handover)?,
            requests,
        ),
        (head("N7", "384 cpus idle, 1 s simulated", "s", 1.0, false), kernel(X86, &idle)?, |run| {
            run.seconds
        }),
        (head("N7", "the same, arm64", "s", 1.0, false), kernel(ARM, &idle)?, |run| run.seconds),
    ];
    progress.begin("timing", (works.len() * request.repeats.max(1)) as u64);
    let figures = works.into_iter().map(|(head, work, value)| {
        let from_region = work.image.is_none();
        figure::<R>(request, progress, &work, from_region, head, value)
    });
    let figures = figures.collect::<Result<Vec<Figure>, LabError>>()?;
    progress.end();
    Ok(Report { schema: "crosscall.speed/1", version: env!("CARGO_PKG_VERSION"), figures })
}

/// Returns the report as CSV, one line a measurement.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from("id,what,unit,must,median,min,max\n");
    for figure in &report.figures {
        text.push_str(&crate::csv::line(&[
            figure.id.to_owned(),
            figure.what.to_owned(),
            figure.unit.to_owned(),
            figure.must.to_string(),
            figure.values.median.to_string(),
            figure.values.min.to_string(),
            figure.values.max.to_string(),
        ]));
    }
    text
}
