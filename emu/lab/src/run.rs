//! `run`: an image on a machine until it ends, and what was counted meanwhile.

use emu_machine::{Options, PointRule, Stop, Until};
use emu_observe::Observer;
use emu_sim::{CpuId, SimTime};
use serde::Serialize;
use serde_json::{Map, Value};
use topology::Machine;

use crate::counters::Counters;
use crate::ending::{Ending, LabError};
use crate::ipistorm::LedgerLine;
use crate::laws;
use crate::rig::{Program, Progress, Rig};

/// Simulated time between two reports of progress.
const SLICE: SimTime = SimTime::from_us(200);

/// What is asked for.
pub struct Request<'a> {
    /// Machine with its overrides.
    pub machine: Machine,
    /// Overrides, for the result.
    pub overrides: Vec<String>,
    /// Options.
    pub options: Options,
    /// Command line of the guest.
    pub bootargs: String,
    /// Rules at points.
    pub rules: Vec<PointRule>,
    /// Simulated time after which the run ends.
    pub limit: SimTime,
    /// Image.
    pub image: &'a [u8],
    /// Address of a raw image.
    pub load_at: Option<u64>,
    /// Initial RAM disk.
    pub initrd: Option<&'a [u8]>,
    /// Symbols in place of the image's.
    pub symbols: Option<&'a [u8]>,
}

/// The far end of the guest's serial port.
pub trait Terminal {
    /// The guest has printed this.
    fn print(&mut self, bytes: &[u8]);

    /// What was typed until the machine came to this time; a machine that `waits` has nothing to
    /// do before. `None`: nothing is typed any more.
    fn typed(&mut self, now: SimTime, waits: bool) -> Option<Vec<u8>>;
}

/// Prints only.
impl<F: FnMut(&[u8])> Terminal for F {
    fn print(&mut self, bytes: &[u8]) {
        self(bytes);
    }

    fn typed(&mut self, _: SimTime, _: bool) -> Option<Vec<u8>> {
        None
    }
}

/// Builds the machine of a request.
///
/// Errors: `Input` when machine, image or rules do not go together.
pub fn build<R: Rig>(request: &Request) -> Result<R, LabError> {
    let options = request.options.clone();
    let program = Program {
        image: request.image,
        load_at: request.load_at,
        bootargs: &request.bootargs,
        initrd: request.initrd,
        symbols: request.symbols,
    };
    let mut rig = R::build(&request.machine, options, &program)?;
    if !request.rules.is_empty() {
        rig.set_rules(&request.rules)?;
    }
    Ok(rig)
}

/// Runs to the end. `terminal` is handed each new part of the guest's output, and may type.
pub fn run<R: Rig>(
    rig: &mut R,
    limit: SimTime,
    observer: &mut impl Observer,
    progress: &dyn Progress,
    terminal: &mut impl Terminal,
) -> Ending {
    progress.begin("running", 0);
    let (mut shown, mut executed) = (0, 0);
    let stop = loop {
        let time = limit.min(rig.now().saturating_add(SLICE));
        let stop = rig.run(&Until { time, regions: false }, observer);
        if let Some(new) = rig.console().get(shown..).filter(|new| !new.is_empty()) {
            terminal.print(new);
            shown += new.len();
        }
        let cpus = (0..rig.cpus()).map(|n| CpuId(u32::try_from(n).unwrap_or(u32::MAX)));
        let total: u64 = cpus.map(|cpu| rig.counters(cpu).instructions).sum();
        progress.advance(0, total - executed);
        executed = total;
        let waits = stop == Stop::Stalled;
        if !waits && stop != Stop::TimeLimit || time >= limit {
            break stop;
        }
        match terminal.typed(rig.now(), waits) {
            Some(bytes) => rig.input(&bytes),
            None if waits => break stop,
            None => {}
        }
    };
    progress.end();
    Ending::of(rig, stop)
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Version of the tool.
    pub version: &'static str,
    /// Machine.
    pub machine: String,
    /// Overrides of the machine.
    pub overrides: Vec<String>,
    /// Number of cpus.
    pub cpus: usize,
    /// Seed.
    pub seed: u64,
    /// Command line of the guest.
    pub bootargs: String,
    /// How it ended: `exit`, `stalled`, `guest_fault`, `reset`, `time_limit`, `output_limit`.
    pub ending: &'static str,
    /// The guest's exit code, if it wrote one.
    pub guest_code: Option<u64>,
    /// The end in words.
    pub message: String,
    /// Simulated time in ps.
    pub time_ps: u64,
    /// Console output; bytes that are no UTF-8 are replaced.
    pub console: String,
    /// Counters, summed over cpus.
    pub counters: Map<String, Value>,
    /// Laws of the model that do not hold.
    pub breaches: Vec<String>,
    /// The wake ledger, if it was asked for.
    pub ledger: Vec<LedgerLine>,
}

/// Describes an ended run.
///
/// Errors: `Input` when the image's counter block lies.
pub fn report<R: Rig>(
    rig: &R,
    request: &Request,
    ending: &Ending,
    ledger: Vec<LedgerLine>,
) -> Result<Report, LabError> {
    let counters = Counters::read(rig)?;
    let names = counters.names().iter();
    let sums = names.map(|name| (name.clone(), Value::from(counters.sum(name).unwrap_or(0))));
    let breaches = laws::check_machine(rig).iter().map(ToString::to_string).collect();
    Ok(Report {
        schema: "crosscall.run/1",
        version: env!("CARGO_PKG_VERSION"),
        machine: request.machine.id.clone(),
        overrides: request.overrides.clone(),
        cpus: rig.cpus(),
        seed: request.options.seed,
        bootargs: request.bootargs.clone(),
        ending: ending.word(),
        guest_code: ending.guest_code(),
        message: ending.to_string(),
        time_ps: rig.now().ps(),
        console: String::from_utf8_lossy(rig.console()).into_owned(),
        counters: sums.collect(),
        breaches,
        ledger,
    })
}

/// Returns the report as CSV, one line a counter.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from("machine,counter,value\n");
    for (name, value) in &report.counters {
        let fields = [report.machine.clone(), name.clone(), value.to_string()];
        text.push_str(&crate::csv::line(&fields));
    }
    text
}
