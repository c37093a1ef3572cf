//! `reproduce`: published results beside what the machines here say, with a verdict on each.
//!
//! `rows.toml` holds the published rows and the runs that they are judged by; `plan` turns it into
//! measurements, `store` keeps finished ones on disk so that a run which was killed goes on where
//! it stood, `judge` makes verdicts by fixed rules. A published figure is never an input of a run.

mod judge;
mod plan;
mod store;

use emu_sim::SimTime;
use serde::Serialize;

pub use judge::{Attribution, Doubling, Verdict};
pub use plan::{Class, Row, Rows};

use crate::ending::LabError;
use crate::rig::{Progress, Rig};
use crate::workload;
use judge::judge;
use plan::{Measurement, Scale};
use store::Store;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// One seed and the smallest scale; the verdicts are indicative.
    pub quick: bool,
    /// Only rows whose id begins with one of these; all when empty.
    pub only: Vec<String>,
    /// Seeds of a full run.
    pub seeds: Vec<u64>,
    /// Simulated time after which a run is given up.
    pub limit: SimTime,
    /// Host threads.
    pub jobs: usize,
    /// File that keeps measurements, if any.
    pub results: Option<std::path::PathBuf>,
}

/// Result of a reproduction.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Version of the tool.
    pub version: &'static str,
    /// Whether one seed and the smallest scale were measured.
    pub quick: bool,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Rows in the order of the list.
    pub rows: Vec<RowReport>,
}

/// One published row and what came out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RowReport {
    /// Id of the row.
    pub id: String,
    /// A: primary target, B: ordering and rough size, C: no change, X: not usable.
    pub class: Class,
    /// What is compared.
    pub what: String,
    /// Machine, preset, switches and scale, for people.
    pub setup: String,
    /// Published value.
    pub published: Option<f64>,
    /// Emulated value.
    pub emulated: Option<f64>,
    /// Its standard deviation over the seeds.
    pub spread: Option<f64>,
    /// Verdict.
    pub verdict: Verdict,
    /// How far the value moved when the scaled quantity was doubled.
    pub doubling: Option<Doubling>,
    /// Which class of line carries the difference.
    pub attribution: Option<Attribution>,
    /// What has to be known to read the row.
    pub note: String,
}

/// Runs what the rows need and judges them.
///
/// Errors: `Input` for rows or results that cannot be read; a measurement that fails is a verdict
/// of its rows, not an error.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    let rows = Rows::published()?;
    let chosen = rows.chosen(&request.only)?;
    let scale = if request.quick { Scale::Quick } else { Scale::Full };
    let seeds = if request.quick { &request.seeds[..1] } else { &request.seeds[..] };
    let measurements = plan::measurements(&rows, &chosen, scale)?;
    let store = Store::open(request.results.as_deref())?;
    measure_all::<R>(request, seeds, &measurements, &store, progress);
    let reports = chosen.iter().map(|row| judge(&rows, row, seeds, scale, &store)).collect();
    Ok(Report {
        schema: "crosscall.reproduce/1",
        version: env!("CARGO_PKG_VERSION"),
        quick: request.quick,
        seeds: seeds.to_vec(),
        rows: reports,
    })
}

/// Measures what the store does not hold yet, and keeps each result as soon as it is there.
fn measure_all<R: Rig>(
    request: &Request,
    seeds: &[u64],
    measurements: &[Measurement],
    store: &Store,
    progress: &dyn Progress,
) {
    let missing: Vec<&Measurement> =
        measurements.iter().filter(|m| store.find(&m.key(seeds)).is_none()).collect();
    progress.begin("reproducing", missing.len() as u64);
    crate::bench::in_parallel(request.jobs, missing.len(), |n| {
        let measurement = missing[n];
        let result = workload::run::<R>(&measurement.request(request, seeds), &());
        let executed = store.keep(measurement.key(seeds), result);
        progress.advance(1, executed);
    });
    progress.end();
}

/// Checks that a request can be met, up to where a machine would boot.
///
/// Errors: `Input` for rows that do not exist or do not fit together.
pub fn check(request: &Request) -> Result<(), LabError> {
    let rows = Rows::published()?;
    let chosen = rows.chosen(&request.only)?;
    plan::measurements(&rows, &chosen, Scale::Full).map(drop)
}

/// Returns the report as CSV, one line a row.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text =
        String::from("id,class,what,setup,published,emulated,spread,verdict,doubled,carried_by\n");
    for row in &report.rows {
        let number = |value: Option<f64>| value.map_or(String::new(), |value| value.to_string());
        let fields = [
            row.id.clone(),
            format!("{:?}", row.class),
            row.what.clone(),
            row.setup.clone(),
            number(row.published),
            number(row.emulated),
            number(row.spread),
            format!("{:?}", row.verdict),
            number(row.doubling.map(|doubling| doubling.change_percent)),
            row.attribution.as_ref().map_or(String::new(), |carried| carried.class.clone()),
        ];
        text.push_str(&crate::csv::line(&fields));
    }
    text
}
