//! `bench rt-app`: threads as a file of rt-app describes them, and what they met.
//!
//! Of every activation a thread says how long it ran, how long its turn took, what slack it had
//! before its timer, and how long after the timer it went on (`wu_lat`). The statistics are those
//! that the tool `st` prints, over all activations of all seeds.

mod file;

use emu_machine::Options;
use emu_sim::SimTime;
use guests_abi::block::SampleKind;
use serde::Serialize;

use crate::bench::{Frame, SeedRun, Variant, run_variants};
use crate::ending::LabError;
use crate::rig::{Progress, Rig};
use crate::settings::{Cell, Dimension, Setting, Switches, cells};

pub use file::{File, Task, read};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The file.
    pub file: File,
    /// Machine: name or path.
    pub machine: String,
    /// Overrides as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Number of cpus, all when `None`.
    pub cpus: Option<u32>,
    /// Time to run, us, in place of the file's.
    pub duration_us: Option<u64>,
    /// Boot switches.
    pub switches: Switches,
    /// What varies.
    pub vary: Vec<Dimension>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Simulated time after which a run is given up.
    pub limit: SimTime,
    /// Host threads.
    pub jobs: usize,
}

/// Result of the bench.
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
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Boot switches of all variants.
    pub bootargs: String,
    /// One group a variant.
    pub groups: Vec<Group>,
}

/// One variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// What was set.
    pub settings: Vec<Setting>,
    /// Threads in the order of the file; those that only run, for ever, say nothing.
    pub threads: Vec<Thread>,
}

/// What a thread met.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Thread {
    /// Name of the task, with the number of the instance where there are several.
    pub name: String,
    /// Time of its runs.
    pub run_us: Option<St>,
    /// Length of its turns.
    pub period_us: Option<St>,
    /// Time that was left before its timer.
    pub slack_us: Option<St>,
    /// Time from its timer to its first instruction.
    pub wu_lat_us: Option<St>,
}

/// Statistics as `st` prints them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct St {
    /// Number of values.
    pub n: usize,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Sum.
    pub sum: f64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation.
    pub stddev: f64,
}

impl St {
    /// Computes the statistics; `None` for no values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<St> {
        let stats = crate::stats::Stats::of(values)?;
        let sum = values.iter().sum();
        let (min, max, mean, stddev) = (stats.min, stats.max, stats.mean, stats.stddev);
        Some(St { n: values.len(), min, max, sum, mean, stddev })
    }
}

/// One boot and its place in the report.
struct Plan {
    cell: Cell,
    tsc_khz: u64,
    variant: Variant,
}

fn plan(request: &Request) -> Result<Vec<Plan>, LabError> {
    let duration = request.duration_us.or(request.file.duration_us);
    let is_endless = |task: &Task| task.loops == 0 || task.phases.iter().any(|(n, _)| *n == 0);
    if duration.is_none() && request.file.tasks.iter().any(is_endless) {
        let text = "a task goes on for ever; limit it by global.duration or --duration";
        return Err(LabError::input(text));
    }
    let plan = |cell: Cell| {
        let overrides: Vec<String> = request.set.iter().cloned().chain(cell.machine()).collect();
        let machine = crate::machines::load(&request.machine, &overrides)?;
        let cpus = crate::machines::cpu_count(&machine, request.cpus)?;
        for task in &request.file.tasks {
            if let Some(cpu) = task.cpus.iter().find(|&&cpu| cpu as usize >= cpus) {
                let (id, last) = (&machine.id, cpus - 1);
                let text = format!("task {}: cpu {cpu}: {id} has cpus 0-{last}", task.name);
                return Err(LabError::input(text));
            }
        }
        let mut switches = request.switches.clone();
        switches.set("bench", "rtapp")?;
        switches.set("rtapp", &request.file.word())?;
        switches.set("duration_us", &duration.unwrap_or(60_000_000).to_string())?;
        for (key, value) in cell.guest() {
            switches.set(key, value)?;
        }
        let label = format!("rt-app {}", cell.label()).trim_end().to_owned();
        let (bootargs, tsc_khz) = (switches.bootargs_on(machine.isa)?, machine.clocks.tsc_khz);
        Ok(Plan { cell, tsc_khz, variant: Variant { label, machine, bootargs } })
    };
    cells(&request.vary)?.into_iter().map(plan).collect()
}

/// Checks that a request can be met, up to where a machine would boot.
///
/// Errors: `Input` for settings that do not work.
pub fn check(request: &Request) -> Result<(), LabError> {
    plan(request).map(drop)
}

/// Runs the bench.
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
        lines: false,
    };
    let variants: Vec<Variant> = plans.iter().map(|plan| plan.variant.clone()).collect();
    let results = run_variants::<R>(&frame, &variants, progress)?;
    let group = |(plan, runs): (&Plan, Vec<SeedRun>)| Group {
        settings: plan.cell.settings.clone(),
        threads: threads(&request.file, &runs, plan.tsc_khz),
    };
    Ok(Report {
        schema: "crosscall.rt-app/1",
        version: env!("CARGO_PKG_VERSION"),
        machine: variants.first().map_or_else(String::new, |variant| variant.machine.id.clone()),
        overrides: request.set.clone(),
        seeds: request.seeds.clone(),
        bootargs: request.switches.bootargs(),
        groups: plans.iter().zip(results).map(group).collect(),
    })
}

/// The threads that record, with what all seeds recorded of them.
fn threads(file: &File, runs: &[SeedRun], tsc_khz: u64) -> Vec<Thread> {
    let recording = file.tasks.iter().filter(|task| !task.is_endless_loop());
    let names = recording.flat_map(|task| {
        (0..task.instances).map(|n| match task.instances {
            1 => task.name.clone(),
            _ => format!("{}-{n}", task.name),
        })
    });
    let thread = |(number, name)| {
        let us = |ticks: u64| crate::machines::ticks_to_ps(ticks, tsc_khz) as f64 / 1e6;
        let st = |kind| {
            let series = runs.iter().flat_map(|run| &run.samples);
            let of = series.filter(|series| series.kind == kind && series.peer == number);
            let values: Vec<f64> = of.flat_map(|of| of.values.iter().map(|&t| us(t))).collect();
            St::of(&values)
        };
        Thread {
            name,
            run_us: st(SampleKind::Run),
            period_us: st(SampleKind::Period),
            slack_us: st(SampleKind::Slack),
            wu_lat_us: st(SampleKind::WakeLatency),
        }
    };
    names.enumerate().map(thread).collect()
}

impl Thread {
    /// What it met, by the names of rt-app's log.
    #[must_use]
    pub fn columns(&self) -> [(&'static str, Option<St>); 4] {
        [
            ("run", self.run_us),
            ("period", self.period_us),
            ("slack", self.slack_us),
            ("wu_lat", self.wu_lat_us),
        ]
    }
}

/// Returns the report as CSV, one line a thread and column of the log.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from("machine,settings,thread,column,n,min,max,sum,mean,stddev\n");
    for group in &report.groups {
        let settings: Vec<String> =
            group.settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
        for thread in &group.threads {
            for (column, st) in thread.columns() {
                let Some(st) = st else { continue };
                let words = [&report.machine, &settings.join(" "), &thread.name, column];
                let numbers = [st.min, st.max, st.sum, st.mean, st.stddev];
                let fields: Vec<String> = words
                    .iter()
                    .map(|word| (*word).to_owned())
                    .chain([st.n.to_string()])
                    .chain(numbers.map(|number| number.to_string()))
                    .collect();
                text.push_str(&crate::csv::line(&fields));
            }
        }
    }
    text
}
