//! `sweep`: one workload over axes of a file, for a figure.
//!
//! A file names a workload, what all points have in common, and axes: each value of an axis fills
//! the `{}` of its settings, so that one axis can move several keys together. The report is a flat
//! list of points; drawing is the caller's.

use emu_sim::SimTime;
use serde::{Deserialize, Serialize};

use crate::bench::in_parallel;
use crate::ending::LabError;
use crate::rig::{Progress, Rig};
use crate::settings::Switches;
use crate::workload::{self, Workload};

/// Most points of a sweep; each is a machine that boots.
const POINTS_MAX: usize = 4096;

/// A sweep file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sweep {
    /// Title of the figure.
    pub title: String,
    bench: String,
    machine: String,
    #[serde(default)]
    set: Vec<String>,
    #[serde(default)]
    switches: Vec<String>,
    #[serde(default = "one")]
    seeds: u64,
    /// Figure or counter that is drawn.
    pub figure: String,
    /// Counter that it is divided by.
    per: Option<String>,
    /// Name of what is drawn, with its unit.
    pub label: String,
    /// Axes: along x, the lines of a panel, then the columns and the rows of panels.
    #[serde(rename = "axis")]
    pub axes: Vec<Axis>,
}

fn one() -> u64 {
    1
}

/// One axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// Name for people, with its unit.
    pub name: String,
    /// Values in their order.
    pub values: Vec<String>,
    /// Keys of the machine as `KEY=VALUE` with `{}` for the axis' value.
    #[serde(default)]
    machine: Vec<String>,
    /// Boot switches, likewise.
    #[serde(default)]
    guest: Vec<String>,
}

impl Axis {
    /// The axis of a figure that has no such axis: one place without a name.
    #[must_use]
    pub fn blank() -> Axis {
        let nothing = Vec::new;
        let values = vec![String::new()];
        Axis { name: String::new(), values, machine: nothing(), guest: nothing() }
    }
}

/// Result of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Version of the tool.
    pub version: &'static str,
    /// Title.
    pub title: String,
    /// Name of what was measured.
    pub label: String,
    /// Axes.
    pub axes: Vec<Axis>,
    /// Points; the last axis changes fastest.
    pub points: Vec<Point>,
}

/// One point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Index of the value on each axis.
    pub at: Vec<usize>,
    /// Mean over the seeds.
    pub mean: f64,
    /// Sample standard deviation over the seeds.
    pub stddev: f64,
}

impl Sweep {
    /// Reads a sweep file.
    ///
    /// Errors: `Input` with the place for what is not one.
    pub fn read(text: &str) -> Result<Sweep, LabError> {
        let sweep: Sweep =
            toml::from_str(text).map_err(|error| LabError::input(error.to_string()))?;
        let points =
            sweep.axes.iter().fold(1, |n: usize, axis| n.saturating_mul(axis.values.len()));
        if !(1..=POINTS_MAX).contains(&points) {
            let text = format!("the axes give {points} points; 1 to {POINTS_MAX} are possible");
            return Err(LabError::input(text));
        }
        if !(1..=4).contains(&sweep.axes.len()) {
            let text = format!("{} axes; give one to four", sweep.axes.len());
            return Err(LabError::input(text));
        }
        for at in sweep.points() {
            sweep.request(&at, SimTime::ZERO)?;
        }
        Ok(sweep)
    }

    /// All points; the last axis changes fastest.
    fn points(&self) -> Vec<Vec<usize>> {
        let mut points = vec![Vec::new()];
        for axis in &self.axes {
            let with = |point: &Vec<usize>, n| [point.clone(), vec![n]].concat();
            points = points
                .iter()
                .flat_map(|point| (0..axis.values.len()).map(move |n| with(point, n)))
                .collect();
        }
        points
    }

    fn request(&self, at: &[usize], limit: SimTime) -> Result<workload::Request, LabError> {
        let workload = Workload::find(&self.bench)
            .ok_or_else(|| LabError::input(format!("bench = {}: no such workload", self.bench)))?;
        let mut switches = Switches::default();
        switches.set_all(&self.switches)?;
        let mut set = self.set.clone();
        for (axis, &n) in self.axes.iter().zip(at) {
            let fill = |text: &String| text.replace("{}", &axis.values[n]);
            set.extend(axis.machine.iter().map(fill));
            let guest: Vec<String> = axis.guest.iter().map(fill).collect();
            switches.set_all(&guest).map_err(|error| error.during(axis.name.clone()))?;
        }
        Ok(workload::Request {
            workload,
            machine: self.machine.clone(),
            set,
            cpus: None,
            switches,
            vary: Vec::new(),
            seeds: (1..=self.seeds).collect(),
            limit,
            jobs: 1,
            lines: false,
        })
    }
}

/// Runs a sweep.
///
/// Errors: `Input` for settings that do not work or a figure that the workload has not; `Ended` and
/// `Laws` from the runs.
pub fn run<R: Rig>(
    sweep: &Sweep,
    limit: SimTime,
    jobs: usize,
    progress: &dyn Progress,
) -> Result<Report, LabError> {
    let all = sweep.points();
    progress.begin("sweeping", all.len() as u64);
    let points = in_parallel(jobs, all.len(), |n| {
        let point = measure::<R>(sweep, &all[n], limit);
        let executed = point.as_ref().map_or(0, |(_, executed)| *executed);
        progress.advance(1, executed);
        point.map(|(point, _)| point)
    });
    progress.end();
    Ok(Report {
        schema: "crosscall.sweep/1",
        version: env!("CARGO_PKG_VERSION"),
        title: sweep.title.clone(),
        label: sweep.label.clone(),
        axes: sweep.axes.clone(),
        points: points.into_iter().collect::<Result<_, _>>()?,
    })
}

/// Measures a point; returns it with the guest instructions of a run.
fn measure<R: Rig>(sweep: &Sweep, at: &[usize], limit: SimTime) -> Result<(Point, u64), LabError> {
    let report = workload::run::<R>(&sweep.request(at, limit)?, &())?;
    let row = report.rows.first().ok_or_else(|| LabError::input("no row"))?;
    let figure = row.figures.iter().find(|figure| figure.name == sweep.figure);
    let (mean, stddev) = match figure {
        Some(figure) => (figure.stats.mean, figure.stats.stddev),
        None if row.counters.contains_key(&sweep.figure) => (row.counter(&sweep.figure), 0.0),
        None => {
            let names: Vec<&str> = row.figures.iter().map(|figure| figure.name).collect();
            let text = format!(
                "figure = {}: {} has {} and the counters",
                sweep.figure,
                report.workload,
                names.join(", ")
            );
            return Err(LabError::input(text));
        }
    };
    let per = sweep.per.as_ref().map_or(1.0, |per| row.counter(per).max(1.0));
    let executed = row.counter("instructions") as u64;
    Ok((Point { at: at.to_vec(), mean: mean / per, stddev: stddev / per }, executed))
}

/// Returns the report as CSV, one line a point.
#[must_use]
pub fn csv(report: &Report) -> String {
    let names = report.axes.iter().map(|axis| axis.name.clone());
    let header: Vec<String> = names.chain([report.label.clone(), "stddev".to_owned()]).collect();
    let mut text = crate::csv::line(&header);
    for point in &report.points {
        let values = report.axes.iter().zip(&point.at).map(|(axis, &n)| axis.values[n].clone());
        let numbers = [point.mean.to_string(), point.stddev.to_string()];
        text.push_str(&crate::csv::line(&values.chain(numbers).collect::<Vec<_>>()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::FakeRig;

    const FILE: &str = r#"
        title = "busy"
        bench = "busy"
        machine = "quad"
        switches = ["on=0-1"]
        seeds = 2
        figure = "round"
        label = "ns a round"
        [[axis]]
        name = "rounds"
        values = ["10", "20"]
        guest = ["iters={}"]
        [[axis]]
        name = "wire ns"
        values = ["100", "200", "300"]
        machine = ["ipi.wire.llc={}ns", "ipi.wire.package={}ns"]
    "#;

    #[test]
    fn points_are_the_product_of_the_axes() {
        let sweep = Sweep::read(FILE).expect("a sweep");
        let report = run::<FakeRig>(&sweep, SimTime::from_us(10_000_000), 2, &()).expect("runs");
        let found: Vec<(Vec<usize>, f64)> =
            report.points.iter().map(|point| (point.at.clone(), point.mean)).collect();
        assert_eq!(found[0], (vec![0, 0], 1150.0), "us of all rounds and the mean seed, a round");
        assert_eq!((found[5].0.clone(), found.len()), (vec![1, 2], 6));
        assert_eq!(csv(&report).lines().count(), 7);
        let request = sweep.request(&[1, 2], SimTime::ZERO).expect("a request");
        assert_eq!(request.set, ["ipi.wire.llc=300ns", "ipi.wire.package=300ns"]);
        assert_eq!(request.switches.get("iters"), Some("20"));
    }

    #[test]
    fn the_sweeps_that_come_along_can_be_run() {
        let ttwu = Sweep::read(include_str!("../../../tests/sweeps/ttwu.toml")).expect("a sweep");
        for at in ttwu.points() {
            let request = ttwu.request(&at, SimTime::ZERO).expect("settings");
            workload::check(&request).expect("a machine that has them");
        }
    }

    #[test]
    fn a_file_with_a_fault_says_what_to_do() {
        let cases = [
            ("bench = \"busy\"", "bench = \"bus\"", "bench = bus: no such workload"),
            ("iters={}", "iter={}", "unknown switch iter; did you mean jitter or iters"),
            ("values = [\"10\", \"20\"]", "values = []", "0 points; 1 to 4096 are possible"),
        ];
        for (old, new, expected) in cases {
            let error = Sweep::read(&FILE.replace(old, new)).expect_err("a fault");
            let cause = std::error::Error::source(&error).map(ToString::to_string);
            let text = cause.unwrap_or_else(|| error.to_string());
            assert!(text.contains(expected), "{text}");
        }
    }
}
