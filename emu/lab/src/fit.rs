//! The fit of path latencies to published hand-overs: `bench c2c --fit`.
//!
//! A published core-to-core latency is the result of a loop, so no leg can be read off it.
//! Parameters, one for each class of distance that was published, start at fixed values; in each
//! round the loop runs, and a parameter whose class misses by more than the tolerance moves by the
//! miss over the number of times that its leg counts in one hand-over. Nothing else is fitted, and
//! no other result is looked at. All values are rounded to picoseconds, so the fit repeats exactly.
//!
//! On x86 the legs of a core follow from the latency of its LLC, and what is left of the class is
//! the time for which a core keeps a line. On Arm no latency of the LLC is known well: the legs
//! are fitted, and lines are not kept.

use serde::Serialize;

use crate::c2c::{self, Atomics};
use crate::ending::LabError;
use crate::machines;
use crate::published;
use crate::rig::{Progress, Rig};

/// A class is met when its median is this near to the published one, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;
/// Rounds after which the fit gives up.
const ROUNDS_MAX: usize = 12;

/// A parameter before the fit.
struct Parameter {
    class: &'static str,
    atomics: Atomics,
    /// Keys that are set to the same value.
    keys: &'static [&'static str],
    start_ps: f64,
    /// Times that it counts in one hand-over.
    count: f64,
}

const PARAMETERS: [Parameter; 6] = [
    Parameter {
        class: "smt",
        atomics: Atomics::Lock,
        keys: &["latency.smt_handover"],
        start_ps: 2_000.0,
        count: 1.0,
    },
    Parameter {
        class: "llc",
        atomics: Atomics::Lock,
        keys: &["latency.line_keep"],
        start_ps: 0.0,
        count: 1.0,
    },
    Parameter {
        class: "package",
        atomics: Atomics::Lock,
        keys: &["latency.llc_home.package", "latency.llc_llc.package"],
        start_ps: 25_000.0,
        count: 3.0,
    },
    Parameter {
        class: "cross-package",
        atomics: Atomics::Lock,
        keys: &["latency.llc_home.remote", "latency.llc_llc.remote"],
        start_ps: 115_000.0,
        count: 2.0,
    },
    Parameter {
        class: "llc",
        atomics: Atomics::Lse,
        keys: CORE_LEGS,
        start_ps: 12_000.0,
        count: 2.0,
    },
    Parameter {
        class: "llc",
        atomics: Atomics::Exclusives,
        keys: CORE_LEGS,
        start_ps: 12_000.0,
        count: 8.0,
    },
];

const CORE_LEGS: &[&str] = &["latency.core_llc_request", "latency.llc_core_response"];

/// One parameter in one round.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// Round, from 0.
    pub round: usize,
    /// Class of distance.
    pub class: &'static str,
    /// Keys of the machine file.
    pub keys: &'static [&'static str],
    /// Their value in the round, in ps.
    pub value_ps: u64,
    /// Median hand-over that was published, in ns.
    pub published_ns: f64,
    /// Median hand-over with these values, in ns.
    pub emulated_ns: f64,
}

impl Step {
    /// Difference to the published value in percent of it.
    #[must_use]
    pub fn error_percent(&self) -> f64 {
        (self.emulated_ns / self.published_ns - 1.0) * 100.0
    }
}

/// The fit of one machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Machine.
    pub machine: String,
    /// All rounds in order; the last one holds the result.
    pub steps: Vec<Step>,
    /// Whether every class is within the tolerance.
    pub is_met: bool,
}

/// Fits the machine of `request`.
///
/// Errors: `Input` for a machine without published hand-overs; those of [`c2c::run`].
pub fn run<R: Rig>(request: &c2c::Request, progress: &dyn Progress) -> Result<Report, LabError> {
    let machine = machines::load(&request.setup.machine, &request.setup.set)?.id;
    let target = |p: &Parameter| published::handover(&machine, p.class, p.atomics);
    let mut parameters: Vec<(&Parameter, f64, f64)> = PARAMETERS
        .iter()
        .filter_map(|p| target(p).map(|published| (p, published.ns, p.start_ps)))
        .collect();
    if parameters.is_empty() {
        return Err(LabError::input(format!("{machine}: no published hand-overs to fit to")));
    }
    let mut report = Report { schema: SCHEMA, machine, steps: Vec::new(), is_met: false };
    for round in 0..ROUNDS_MAX {
        let mut request = request.clone();
        for (p, _, value) in &parameters {
            request.setup.set.extend(p.keys.iter().map(|key| format!("{key}={value:.0}ps")));
        }
        let classes = c2c::run::<R>(&request, progress)?.classes;
        report.is_met = true;
        for (p, published_ns, value) in &mut parameters {
            let is_it = |c: &&c2c::Class| (c.class, c.atomics) == (p.class, p.atomics);
            let Some(class) = classes.iter().find(is_it) else { continue };
            let step = Step {
                round,
                class: p.class,
                keys: p.keys,
                value_ps: value.round() as u64,
                published_ns: *published_ns,
                emulated_ns: class.handover_ns.median,
            };
            if step.error_percent().abs() > TOLERANCE_PERCENT {
                report.is_met = false;
                let miss_ps = (step.published_ns - step.emulated_ns) * 1000.0;
                *value = (*value + miss_ps / p.count).max(0.0).round();
            }
            report.steps.push(step);
        }
        if report.is_met {
            break;
        }
    }
    Ok(report)
}

const SCHEMA: &str = "crosscall.c2c-fit/1";
