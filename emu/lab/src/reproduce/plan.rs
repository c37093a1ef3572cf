//! What is measured: rows and runs of `rows.toml`, and the measurements that they need.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::ending::LabError;
use crate::settings::Switches;
use crate::workload::{self, Workload};

const ROWS: &str = include_str!("rows.toml");

/// How much a published figure is worth as a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Class {
    /// Primary target: a value with a band.
    A,
    /// Sign, and size within a factor of two.
    B,
    /// No change.
    C,
    /// Not usable, listed for completeness.
    X,
}

/// How large the runs are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scale {
    /// The smallest that shows anything.
    Quick,
    /// That of the report.
    Full,
    /// Twice the scaled quantity of a full one.
    Doubled,
}

/// A published row.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    /// Id.
    pub id: String,
    /// Class.
    pub class: Class,
    /// What is compared, in a few words.
    pub what: String,
    /// Published value, in the unit of what is compared.
    pub published: Option<f64>,
    /// Published spread of it, in percent.
    #[serde(default)]
    pub spread_percent: f64,
    /// Least value that counts, for rows that give a bound or a band.
    pub at_least: Option<f64>,
    /// Largest value that counts, likewise.
    pub at_most: Option<f64>,
    /// Id of the run; none for rows that nothing here can measure.
    pub run: Option<String>,
    /// Name of the variant.
    pub variant: Option<String>,
    /// Name of the variant it is divided by; the value itself counts without one.
    pub over: Option<String>,
    /// Figure or counter; the first figure of the workload when absent.
    pub figure: Option<String>,
    /// Divides the figure: a counter.
    pub per: Option<String>,
    /// The row is an input: it was used to choose a parameter.
    #[serde(default)]
    pub input: bool,
    /// What has to be known to read it.
    #[serde(default)]
    pub note: String,
}

/// A run with its variants.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Run {
    pub(super) id: String,
    pub(super) bench: String,
    pub(super) machine: String,
    #[serde(default)]
    pub(super) set: Vec<String>,
    pub(super) cpus: Option<u32>,
    /// Boot switches of every variant and scale.
    #[serde(default)]
    pub(super) switches: Vec<String>,
    /// Those of a quick run, in which a run without them has no part.
    pub(super) quick: Option<Vec<String>>,
    /// Those of a full run.
    #[serde(default)]
    pub(super) full: Vec<String>,
    /// The switch that the doubling check doubles, if the run is scaled down.
    pub(super) scaled: Option<String>,
    /// Sum traffic by class of line.
    #[serde(default)]
    pub(super) lines: bool,
    /// Switches of each variant by its name.
    pub(super) variants: BTreeMap<String, Vec<String>>,
}

impl Run {
    /// Switches of a variant at a scale.
    fn switches_of(&self, variant: &str, scale: Scale) -> Result<Switches, LabError> {
        let wrong = |error: LabError| error.during(format!("run {}", self.id));
        let mut switches = Switches::default();
        let own = self
            .variants
            .get(variant)
            .ok_or_else(|| LabError::input(format!("run {} has no variant {variant}", self.id)))?;
        let scaled = match (scale, &self.quick) {
            (Scale::Quick, Some(quick)) => quick,
            _ => &self.full,
        };
        for list in [&self.switches, scaled, own] {
            switches.set_all(list).map_err(wrong)?;
        }
        if let (Scale::Doubled, Some(key)) = (scale, &self.scaled) {
            let value: u64 = switches.get(key).and_then(|text| text.parse().ok()).unwrap_or(0);
            switches.set(key, &(2 * value).to_string()).map_err(wrong)?;
        }
        Ok(switches)
    }

    /// Machine, preset, switches and scale, for people.
    pub(super) fn describe(&self, variant: &str, scale: Scale) -> String {
        let switches = self.switches_of(variant, scale);
        let switches = switches.map_or_else(|_| String::new(), |switches| switches.bootargs());
        let cpus = self.cpus.map_or_else(String::new, |cpus| format!(" --cpus {cpus}"));
        let set: String = self.set.iter().map(|set| format!(" --set {set}")).collect();
        format!("{} {}{cpus}{set} {switches}", self.bench, self.machine)
    }
}

/// All rows and runs.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    #[serde(rename = "row")]
    rows: Vec<Row>,
    #[serde(rename = "run")]
    runs: Vec<Run>,
}

impl Rows {
    /// Reads the rows that come with this tool.
    ///
    /// Errors: `Input` for a list that does not fit together.
    pub fn published() -> Result<Rows, LabError> {
        let rows: Rows =
            toml::from_str(ROWS).map_err(|error| LabError::input(format!("rows.toml: {error}")))?;
        for row in &rows.rows {
            if let Some(run) = &row.run {
                let run = rows.run(run)?;
                for variant in [&row.variant, &row.over].into_iter().flatten() {
                    run.switches_of(variant, Scale::Full)?;
                }
            }
        }
        Ok(rows)
    }

    /// The rows whose id begins with one of the texts, in the order of the list.
    ///
    /// Errors: `Input` for a text that no id begins with.
    pub(super) fn chosen(&self, only: &[String]) -> Result<Vec<&Row>, LabError> {
        let unknown = only.iter().find(|text| !self.rows.iter().any(|r| r.id.starts_with(*text)));
        if let Some(text) = unknown {
            let id = |row: Option<&Row>| row.map_or_else(String::new, |row| row.id.clone());
            let (first, last) = (id(self.rows.first()), id(self.rows.last()));
            let text = format!("--only {text}: no row begins so; they go from {first} to {last}");
            return Err(LabError::input(text));
        }
        let is_chosen =
            |row: &&Row| only.is_empty() || only.iter().any(|text| row.id.starts_with(text));
        Ok(self.rows.iter().filter(is_chosen).collect())
    }

    /// The run with an id.
    pub(super) fn run(&self, id: &str) -> Result<&Run, LabError> {
        let run = self.runs.iter().find(|run| run.id == id);
        run.ok_or_else(|| LabError::input(format!("rows.toml has no run {id}")))
    }
}

/// One variant of one run at one scale.
#[derive(Clone, Debug)]
pub(super) struct Measurement {
    workload: Workload,
    run: Run,
    switches: Switches,
}

impl Measurement {
    /// The measurement of a variant.
    ///
    /// Errors: `Input` for a benchmark that does not exist and for switches that nobody knows.
    pub(super) fn new(run: &Run, variant: &str, scale: Scale) -> Result<Measurement, LabError> {
        let workload = Workload::find(&run.bench)
            .ok_or_else(|| LabError::input(format!("run {}: no bench {}", run.id, run.bench)))?;
        Ok(Measurement { workload, run: run.clone(), switches: run.switches_of(variant, scale)? })
    }

    /// Everything that the result depends on, as text.
    pub(super) fn key(&self, seeds: &[u64]) -> String {
        let seeds: Vec<String> = seeds.iter().map(u64::to_string).collect();
        let Run { bench, machine, set, cpus, lines, .. } = &self.run;
        let cpus = cpus.map_or_else(String::new, |cpus| cpus.to_string());
        format!(
            "{bench} {machine} [{}] cpus={cpus} lines={lines} {} seeds={} image={}",
            set.join(" "),
            self.switches.bootargs(),
            seeds.join(","),
            crate::image::hashes()
        )
    }

    /// As a request to the driver.
    pub(super) fn request(&self, asked: &super::Request, seeds: &[u64]) -> workload::Request {
        workload::Request {
            workload: self.workload,
            machine: self.run.machine.clone(),
            set: self.run.set.clone(),
            cpus: self.run.cpus,
            switches: self.switches.clone(),
            vary: Vec::new(),
            seeds: seeds.to_vec(),
            limit: asked.limit,
            jobs: 1,
            lines: self.run.lines,
        }
    }
}

/// All measurements that the rows need, each once, quick ones only at their scale.
pub(super) fn measurements(
    rows: &Rows,
    chosen: &[&Row],
    scale: Scale,
) -> Result<Vec<Measurement>, LabError> {
    let mut all: Vec<Measurement> = Vec::new();
    for row in chosen.iter().filter(|row| row.class != Class::X) {
        let Some(run) = &row.run else { continue };
        let run = rows.run(run)?;
        if scale == Scale::Quick && run.quick.is_none() {
            continue;
        }
        let mut scales = vec![scale];
        if scale == Scale::Full && run.scaled.is_some() {
            scales.push(Scale::Doubled);
        }
        for variant in [&row.variant, &row.over].into_iter().flatten() {
            for &scale in &scales {
                let measurement = Measurement::new(run, variant, scale)?;
                if !all.iter().any(|known| known.key(&[]) == measurement.key(&[])) {
                    all.push(measurement);
                }
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_fits_its_run_and_every_run_its_guest() {
        let rows = Rows::published().expect("a list that fits together");
        let all: Vec<&Row> = rows.rows.iter().collect();
        for scale in [Scale::Quick, Scale::Full] {
            let measurements = measurements(&rows, &all, scale).expect("benches that exist");
            for measurement in measurements {
                let asked = super::super::Request {
                    quick: false,
                    only: Vec::new(),
                    seeds: vec![1],
                    limit: emu_sim::SimTime::ZERO,
                    jobs: 1,
                    results: None,
                };
                let request = measurement.request(&asked, &[1]);
                workload::check(&request).unwrap_or_else(|e| panic!("{}: {e}", measurement.run.id));
            }
        }
        let mut ids: Vec<&str> = rows.rows.iter().map(|row| row.id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), rows.rows.len(), "an id stands twice");
    }

    #[test]
    fn the_doubling_check_doubles_the_scaled_switch() {
        let rows = Rows::published().expect("rows");
        let run = rows.run("s0-ipistorm").expect("a run");
        let calls = |scale| {
            let switches = run.switches_of("revert", scale).expect("switches");
            switches.get("numipi").map(str::to_owned)
        };
        assert_eq!(calls(Scale::Doubled).as_deref(), Some("4000"));
        assert_eq!(calls(Scale::Full).as_deref(), Some("2000"));
        let unknown = rows.chosen(&["R9".to_owned()]).expect_err("no such row").to_string();
        assert_eq!(unknown, "--only R9: no row begins so; they go from R0.1 to R4.4");
    }
}
