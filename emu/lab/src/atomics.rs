//! `bench atomics`: what an increment of one counter costs while others increment it, too.
//!
//! CPUs that are near each other run the published loop: an atomic addition, or a load and
//! compare-exchanges until one succeeds, until the fastest has done its share. The figure is, as in
//! the published ones, the time of one increment of one CPU: their number over what all get done.
//! Machines with LSE run each loop by LSE and by exclusives.

use guests_abi::block::SampleKind;
use serde::Serialize;
use topology::Machine;

use crate::bench::{Setup, in_parallel};
use crate::c2c::{Atomics, list};
use crate::counters::Series;
use crate::ending::LabError;
use crate::machines;
use crate::published::{self, PublishedTime};
use crate::rig::{Progress, Rig};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Machine, switches, seed.
    pub setup: Setup,
    /// Numbers of CPUs that increment.
    pub cpus: Vec<usize>,
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
    /// Seed.
    pub seed: u64,
    /// Rows by loop, then atomics, then number of CPUs.
    pub rows: Vec<Row>,
}

/// One loop on so many CPUs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Loop: `atomic` or `cas`.
    pub counter: &'static str,
    /// What it was made of.
    pub atomics: Atomics,
    /// Number of CPUs.
    pub cpus: usize,
    /// One increment of a CPU in ns.
    pub ns: f64,
    /// Increments of all CPUs in millions a second.
    pub mops: f64,
    /// Increments of the CPU with the fewest, in percent of the mean.
    pub least_share_percent: f64,
    /// Published time of one increment of a CPU.
    pub published: Option<PublishedTime>,
    /// Difference in percent of the published one.
    pub error_percent: Option<f64>,
}

/// The loops, by their switch.
const COUNTERS: [&str; 2] = ["atomic", "cas"];

/// A row before it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Choice {
    counter: &'static str,
    atomics: Atomics,
    /// CPUs that increment.
    on: Vec<usize>,
}

/// The rows that a request asks for.
///
/// Errors: `Input` when the machine has not so many CPUs, or the counter is chosen by a switch.
fn choose(machine: &Machine, request: &Request) -> Result<Vec<Choice>, LabError> {
    let has = machine.cpus.len();
    if let Some(cpus) = request.cpus.iter().find(|&&cpus| cpus == 0 || cpus > has) {
        let text = format!("{cpus} cpus: {} has {has}; choose others with --counts", machine.id);
        return Err(LabError::input(text));
    }
    let mut choices = Vec::new();
    for counter in COUNTERS {
        if request.setup.switches.given("counter").is_some_and(|given| given != counter) {
            continue;
        }
        for &atomics in Atomics::of(machine, &request.setup.switches) {
            for &cpus in &request.cpus {
                choices.push(Choice { counter, atomics, on: nearest(machine, cpus) });
            }
        }
    }
    Ok(choices)
}

/// The first CPUs of the machine, one of each core before any sibling.
fn nearest(machine: &Machine, count: usize) -> Vec<usize> {
    let mut cpus: Vec<usize> = (0..machine.cpus.len()).collect();
    cpus.sort_by_key(|&cpu| (machine.cpus[cpu].smt, machine.cpus[cpu].core));
    cpus.truncate(count);
    cpus
}

/// Checks that a request can be met, up to where a machine would boot.
///
/// Errors: `Input` for settings that do not work.
pub fn check(request: &Request) -> Result<(), LabError> {
    let machine = machines::load(&request.setup.machine, &request.setup.set)?;
    choose(&machine, request).map(drop)
}

/// Runs the bench.
///
/// Errors: `Input` for settings that do not work, `Ended` and `Laws` from the runs.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    let machine = machines::load(&request.setup.machine, &request.setup.set)?;
    let choices = choose(&machine, request)?;
    progress.begin("counting", choices.len() as u64);
    let rows = in_parallel(request.setup.jobs, choices.len(), |n| {
        let Choice { counter, on, .. } = &choices[n];
        let row = measure::<R>(request, &machine, &choices[n], progress);
        row.map_err(|error| error.during(format!("atomics {counter} on {} cpus", on.len())))
    });
    progress.end();
    Ok(Report {
        schema: "crosscall.atomics/1",
        version: env!("CARGO_PKG_VERSION"),
        machine: machine.id.clone(),
        overrides: request.setup.set.clone(),
        seed: request.setup.seed,
        rows: rows.into_iter().collect::<Result<_, _>>()?,
    })
}

/// Boots the guest for one row and reads its samples.
fn measure<R: Rig>(
    request: &Request,
    machine: &Machine,
    choice: &Choice,
    progress: &dyn Progress,
) -> Result<Row, LabError> {
    let Choice { counter, atomics, ref on } = *choice;
    let mut switches = request.setup.switches.clone();
    switches.set("bench", "atomics")?;
    switches.set("counter", counter)?;
    switches.set("on", &list(on.iter().copied()))?;
    atomics.choose(&mut switches)?;
    let series = request.setup.sample::<R>(machine, &switches, progress)?;
    let is_it = |series: &&Series| series.kind == SampleKind::Increments;
    let counts: Vec<(f64, f64)> = series
        .iter()
        .filter(is_it)
        .filter_map(|series| match series.values[..] {
            [ticks, count] => {
                let ps = machines::ticks_to_ps(ticks, machine.clocks.tsc_khz);
                Some((count as f64, ps as f64 / 1e3))
            }
            _ => None,
        })
        .collect();
    if counts.len() != on.len() {
        return Err(LabError::input("the guest did not sample every cpu"));
    }
    let rate: f64 = counts.iter().map(|(count, ns)| count / ns).sum();
    let (cpus, all) = (on.len() as f64, counts.iter().map(|(count, _)| count).sum::<f64>());
    let least = counts.iter().map(|(count, _)| *count).fold(f64::INFINITY, f64::min);
    let (ns, published) =
        (cpus / rate, published::increment(&machine.id, counter, atomics, on.len()));
    Ok(Row {
        counter,
        atomics,
        cpus: on.len(),
        ns,
        mops: 1e3 * rate,
        least_share_percent: 100.0 * least * cpus / all,
        published,
        error_percent: published.map(|published| 100.0 * (ns / published.ns - 1.0)),
    })
}

/// Returns the report as CSV, one line a row.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text =
        String::from("machine,counter,atomics,cpus,ns,mops,least_share_percent,published_ns\n");
    for row in &report.rows {
        text.push_str(&crate::csv::line(&[
            report.machine.clone(),
            row.counter.to_owned(),
            row.atomics.name().to_owned(),
            row.cpus.to_string(),
            row.ns.to_string(),
            row.mops.to_string(),
            row.least_share_percent.to_string(),
            row.published.map_or_else(String::new, |published| published.ns.to_string()),
        ]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Switches;

    #[test]
    fn siblings_come_last_and_counts_are_bounded() {
        let machine = machines::load("epyc-7763-2s", &[]).expect("machine");
        assert_eq!(nearest(&machine, 129)[127..], [127, 128]);
        let request = |machine: &str, cpus| Request {
            setup: Setup {
                machine: machine.to_owned(),
                set: Vec::new(),
                switches: Switches::default(),
                seed: 1,
                limit: emu_sim::SimTime::from_us(1),
                jobs: 1,
            },
            cpus,
        };
        let error = check(&request("duo", vec![1, 3])).expect_err("too many").to_string();
        assert_eq!(error, "3 cpus: duo has 2; choose others with --counts");
        let machine = machines::load("graviton2", &[]).expect("machine");
        let choices = choose(&machine, &request("graviton2", vec![1, 2])).expect("choices");
        let names = choices.iter().map(|c| (c.counter, c.atomics.name(), c.on.len()));
        assert_eq!(names.clone().nth(3), Some(("atomic", "exclusives", 2)));
        assert_eq!(names.count(), 8);
    }
}
