//! The fit of path latencies to published hand-overs: `bench c2c --fit`.
//!
//! A published core-to-core latency is the result of a loop, so no leg can be read off it. Four
//! parameters, one for each class of distance, start at fixed values; in each round the loop runs,
//! and a parameter whose class misses by more than the tolerance moves by the miss over the number
//! of times that its leg counts in one hand-over. Nothing else is fitted, and no other result is
//! looked at. All values are rounded to picoseconds, so the fit repeats exactly.

use serde::Serialize;

use crate::c2c;
use crate::ending::LabError;
use crate::rig::{Progress, Rig};

/// A class is met when its median is this near to the published one, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;
/// Rounds after which the fit gives up.
const ROUNDS_MAX: usize = 12;

/// A parameter before the fit.
struct Parameter {
    class: &'static str,
    /// Keys that are set to the same value.
    keys: &'static [&'static str],
    start_ps: f64,
    /// Times that it counts in one hand-over.
    count: f64,
}

const PARAMETERS: [Parameter; 4] = [
    Parameter { class: "smt", keys: &["latency.smt_handover"], start_ps: 2_000.0, count: 1.0 },
    Parameter { class: "llc", keys: &["latency.line_keep"], start_ps: 0.0, count: 1.0 },
    Parameter {
        class: "package",
        keys: &["latency.llc_home.package", "latency.llc_llc.package"],
        start_ps: 25_000.0,
        count: 3.0,
    },
    Parameter {
        class: "cross-package",
        keys: &["latency.llc_home.remote", "latency.llc_llc.remote"],
        start_ps: 115_000.0,
        count: 2.0,
    },
];

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
    let mut values: Vec<f64> = PARAMETERS.iter().map(|p| p.start_ps).collect();
    let mut steps = Vec::new();
    for round in 0..ROUNDS_MAX {
        let mut request = request.clone();
        for (p, value) in PARAMETERS.iter().zip(&values) {
            request.set.extend(p.keys.iter().map(|key| format!("{key}={value:.0}ps")));
        }
        let report = c2c::run::<R>(&request, progress)?;
        let mut is_met = true;
        for (p, value) in PARAMETERS.iter().zip(&mut values) {
            let Some(class) = report.classes.iter().find(|c| c.class == p.class) else { continue };
            let Some(published) = class.published else {
                let text = format!("{}: no published hand-overs to fit to", report.machine);
                return Err(LabError::input(text));
            };
            let step = Step {
                round,
                class: p.class,
                keys: p.keys,
                value_ps: value.round() as u64,
                published_ns: published.ns,
                emulated_ns: class.handover_ns.median,
            };
            if step.error_percent().abs() > TOLERANCE_PERCENT {
                is_met = false;
                let miss_ps = (step.published_ns - step.emulated_ns) * 1000.0;
                *value = (*value + miss_ps / p.count).max(0.0).round();
            }
            steps.push(step);
        }
        if is_met {
            return Ok(Report { schema: SCHEMA, machine: report.machine, steps, is_met });
        }
    }
    Ok(Report { schema: SCHEMA, machine: request.machine.clone(), steps, is_met: false })
}

const SCHEMA: &str = "crosscall.c2c-fit/1";
