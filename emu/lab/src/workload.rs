//! Workloads: benchmarks of the guest that are run in variants, over seeds, and compared by one
//! figure.
//!
//! A workload is a name, the switch `bench=` of the guest, and a function that makes figures of
//! what one seed measured. The driver does the rest: variants, forks by seed, means and spreads,
//! counters, and coherence traffic by class of line. Figures of a workload are a file below.

mod busy;
mod dmatest;
mod ipistorm;
mod messages;
mod schbench;

use std::collections::BTreeMap;

use emu_machine::Options;
use emu_observe::ClassTraffic;
use emu_sim::SimTime;
use guests_abi::block::SampleKind;
use guests_abi::class::LineClass;
use serde::Serialize;

use crate::bench::{Frame, SeedRun, Variant, run_variants};
use crate::counters::Counters;
use crate::ending::LabError;
use crate::rig::{Progress, Rig};
use crate::settings::{Cell, Dimension, Setting, Switches, cells};
use crate::stats::Stats;

/// A benchmark of the guest.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    /// Value of the switch `bench`.
    pub name: &'static str,
    /// Figures of one seed. The first is the one that variants are compared by.
    figures: fn(&Measured<'_>) -> Vec<Figure>,
}

/// All workloads.
const WORKLOADS: [Workload; 10] = [
    busy::BUSY,
    ipistorm::IPISTORM,
    messages::HACKBENCH,
    messages::CTXSW,
    messages::STREAM,
    messages::NETPERF,
    messages::TBENCH,
    messages::SYSBENCH,
    dmatest::DMATEST,
    schbench::SCHBENCH,
];

impl Workload {
    /// Finds a workload by its name.
    #[must_use]
    pub fn find(name: &str) -> Option<Workload> {
        WORKLOADS.into_iter().find(|workload| workload.name == name)
    }
}

/// Which way a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Smaller values.
    Lower,
    /// Larger values.
    Higher,
}

/// One figure of one seed.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Name, in the words of the tool that the benchmark stands for.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Which way it is better, if any.
    pub better: Option<Better>,
    /// Value.
    pub value: f64,
}

/// What one seed measured, for the figures of a workload.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// Boot switches.
    pub switches: &'a Switches,
    /// Number of cpus.
    pub cpus: usize,
    /// Counters of the region.
    pub counters: &'a Counters,
    tsc_khz: u64,
    run: &'a SeedRun,
}

impl Measured<'_> {
    /// Length of the region, in seconds.
    #[must_use]
    pub fn seconds(&self) -> f64 {
        self.run.region.as_ns_f64() / 1e9
    }

    /// Number that a boot switch has; 0 where it is none.
    #[must_use]
    pub fn number(&self, switch: &str) -> f64 {
        self.switches.get(switch).and_then(|text| text.parse().ok()).unwrap_or(0.0)
    }

    /// Values of a kind, with the cpu that measured each, in the order of the guest's table.
    pub fn samples(&self, kind: SampleKind) -> impl Iterator<Item = (usize, u64)> {
        let series = self.run.samples.iter().filter(move |series| series.kind == kind);
        series.flat_map(|series| series.values.iter().map(|&value| (series.cpu, value)))
    }

    /// Units of work that were done, all together.
    #[must_use]
    pub fn units(&self) -> f64 {
        self.samples(SampleKind::Units).map(|(_, units)| units as f64).sum()
    }

    /// Number of series of a kind: threads that report it.
    #[must_use]
    pub fn threads(&self, kind: SampleKind) -> usize {
        self.run.samples.iter().filter(|series| series.kind == kind).count()
    }

    /// Times of a kind, in microseconds, sorted.
    #[must_use]
    pub fn times_us(&self, kind: SampleKind) -> Vec<f64> {
        let us = |(_, ticks)| crate::machines::ticks_to_ps(ticks, self.tsc_khz) as f64 / 1e6;
        let mut times: Vec<f64> = self.samples(kind).map(us).collect();
        times.sort_by(f64::total_cmp);
        times
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The benchmark.
    pub workload: Workload,
    /// Machine: name or path.
    pub machine: String,
    /// Overrides as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Number of cpus, all when `None`.
    pub cpus: Option<u32>,
    /// Boot switches, those of the benchmark's flags included.
    pub switches: Switches,
    /// What varies.
    pub vary: Vec<Dimension>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Simulated time after which a run is given up.
    pub limit: SimTime,
    /// Host threads.
    pub jobs: usize,
    /// Sum coherence traffic by class of line.
    pub lines: bool,
}

/// Result of a workload.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Version of the tool.
    pub version: &'static str,
    /// The benchmark.
    pub workload: &'static str,
    /// Machine.
    pub machine: String,
    /// Overrides of the machine.
    pub overrides: Vec<String>,
    /// Number of cpus.
    pub cpus: usize,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Boot switches of all variants.
    pub bootargs: String,
    /// One row a variant.
    pub rows: Vec<Row>,
}

/// One variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// What was set.
    pub settings: Vec<Setting>,
    /// Figures; the first is the one that variants are compared by.
    pub figures: Vec<FigureStats>,
    /// First figure over that of the first row.
    pub ratio: f64,
    /// Counters of machine and guest, summed over cpus, mean of a run.
    pub counters: BTreeMap<String, f64>,
    /// Coherence traffic, if it was asked for.
    pub lines: Vec<LineRow>,
}

impl Row {
    /// Mean of a figure.
    #[must_use]
    pub fn mean(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.stats.mean)
    }

    /// Mean of a counter over the runs; 0 for one that is not kept.
    #[must_use]
    pub fn counter(&self, name: &str) -> f64 {
        self.counters.get(name).copied().unwrap_or(0.0)
    }
}

/// One figure over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FigureStats {
    /// Name.
    pub name: &'static str,
    /// Unit.
    pub unit: &'static str,
    /// Which way it is better, if any.
    pub better: Option<Better>,
    /// Statistics over the seeds.
    pub stats: Stats,
}

/// Coherence traffic of one class of line, mean of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LineRow {
    /// Class.
    pub class: &'static str,
    /// Requests that left a core.
    pub requests: f64,
    /// Of these, requests to write.
    pub writes: f64,
    /// Time from request to permission, in us, summed over cpus.
    pub waited_us: f64,
    /// Permissions lost to snoops.
    pub lost: f64,
}

/// Runs a workload.
///
/// Errors: `Input` for settings that do not work, `Ended` and `Laws` from the runs.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    let plans = plan(request)?;
    let frame = Frame {
        options: Options { cpus: request.cpus, ..Options::default() },
        seeds: request.seeds.clone(),
        limit: request.limit,
        jobs: request.jobs,
        ledger: false,
        lines: request.lines,
    };
    let variants: Vec<Variant> = plans.iter().map(|plan| plan.variant.clone()).collect();
    let results = run_variants::<R>(&frame, &variants, progress)?;
    let mut rows = Vec::new();
    for (plan, runs) in plans.iter().zip(&results) {
        rows.push(row(request, plan, runs)?);
    }
    let first = |row: &Row| row.figures.first().map(|figure| figure.stats.mean);
    let base = rows.first().and_then(first);
    for row in &mut rows {
        row.ratio = first(row).zip(base).map_or(1.0, |(value, base)| value / base);
    }
    let machine = variants.first().map(|variant| &variant.machine);
    Ok(Report {
        schema: "crosscall.workload/1",
        version: env!("CARGO_PKG_VERSION"),
        workload: request.workload.name,
        machine: machine.map_or_else(String::new, |machine| machine.id.clone()),
        overrides: request.set.clone(),
        cpus: plans.first().map_or(0, |plan| plan.cpus),
        seeds: request.seeds.clone(),
        bootargs: request.switches.bootargs(),
        rows,
    })
}

/// Checks that a request can be met, up to where a machine would boot.
///
/// Errors: `Input` for settings that do not work.
pub fn check(request: &Request) -> Result<(), LabError> {
    plan(request).map(drop)
}

/// One boot and its place in the report.
struct Plan {
    cell: Cell,
    switches: Switches,
    cpus: usize,
    variant: Variant,
}

fn plan(request: &Request) -> Result<Vec<Plan>, LabError> {
    let plan = |cell: Cell| {
        let overrides: Vec<String> = request.set.iter().cloned().chain(cell.machine()).collect();
        let machine = crate::machines::load(&request.machine, &overrides)?;
        let cpus = crate::machines::cpu_count(&machine, request.cpus)?;
        let mut switches = request.switches.clone();
        switches.set("bench", request.workload.name)?;
        for (key, value) in cell.guest() {
            switches.set(key, value)?;
        }
        let label = format!("{} {}", request.workload.name, cell.label()).trim_end().to_owned();
        let bootargs = switches.bootargs_on(machine.isa)?;
        Ok(Plan { cell, switches, cpus, variant: Variant { label, machine, bootargs } })
    };
    cells(&request.vary)?.into_iter().map(plan).collect()
}

/// Makes the row of a variant; `ratio` is not known yet.
fn row(request: &Request, plan: &Plan, runs: &[SeedRun]) -> Result<Row, LabError> {
    let figures_of = |run: &SeedRun| {
        (request.workload.figures)(&Measured {
            switches: &plan.switches,
            cpus: plan.cpus,
            counters: &run.counters,
            tsc_khz: plan.variant.machine.clocks.tsc_khz,
            run,
        })
    };
    let by_seed: Vec<Vec<Figure>> = runs.iter().map(figures_of).collect();
    let first = by_seed.first().ok_or_else(|| LabError::input("no seeds"))?;
    let over_seeds = |(at, figure): (usize, &Figure)| {
        let values: Vec<f64> = by_seed.iter().map(|figures| figures[at].value).collect();
        let Figure { name, unit, better, .. } = *figure;
        Some(FigureStats { name, unit, better, stats: Stats::of(&values)? })
    };
    let figures = first.iter().enumerate().filter_map(over_seeds).collect();
    let lines = line_rows(runs);
    let settings = plan.cell.settings.clone();
    Ok(Row { settings, figures, ratio: 1.0, counters: mean_counters(runs), lines })
}

fn mean_counters(runs: &[SeedRun]) -> BTreeMap<String, f64> {
    let mut means = BTreeMap::new();
    for run in runs {
        for name in run.counters.names() {
            let sum = run.counters.sum(name).unwrap_or(0) as f64;
            *means.entry(name.clone()).or_insert(0.0) += sum / runs.len() as f64;
        }
    }
    means
}

/// Traffic by class, the class that was waited for longest first.
fn line_rows(runs: &[SeedRun]) -> Vec<LineRow> {
    let n = runs.len() as f64;
    let of_class = |class: &LineClass| {
        let of_run = |run: &SeedRun| run.traffic.get(*class as usize).copied();
        let runs: Vec<ClassTraffic> = runs.iter().filter_map(of_run).collect();
        let sum = |value: fn(&ClassTraffic) -> u64| runs.iter().map(value).sum::<u64>() as f64 / n;
        LineRow {
            class: class.name(),
            requests: sum(|t| t.requests),
            writes: sum(|t| t.writes),
            waited_us: sum(|t| t.waited.0) / 1e6,
            lost: sum(|t| t.lost),
        }
    };
    let mut rows: Vec<LineRow> = LineClass::ALL.iter().map(of_class).collect();
    rows.retain(|row| row.requests + row.lost > 0.0);
    rows.sort_by(|a, b| b.waited_us.total_cmp(&a.waited_us));
    rows
}

/// Returns the report as CSV, one line a figure.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text =
        String::from("machine,workload,settings,figure,unit,mean,stddev,min,max,ratio\n");
    for row in &report.rows {
        let settings: Vec<String> =
            row.settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
        for figure in &row.figures {
            let stats = &figure.stats;
            let numbers = [stats.mean, stats.stddev, stats.min, stats.max, row.ratio];
            let words = [&report.machine, report.workload, &settings.join(" "), figure.name];
            let fields: Vec<String> = words
                .iter()
                .map(|word| (*word).to_owned())
                .chain([figure.unit.to_owned()])
                .chain(numbers.map(|number| number.to_string()))
                .collect();
            text.push_str(&crate::csv::line(&fields));
        }
    }
    text
}
