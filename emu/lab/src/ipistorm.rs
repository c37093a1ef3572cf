//! `bench ipistorm`: what a cross-CPU function call costs under each policy, and what of.
//!
//! One CPU makes `numipi` synchronous calls to one other CPU (or to all), back to back. The
//! figure is the length of the region divided by the calls of one CPU; the guest's own samples
//! give the distribution of single calls.

use emu_machine::Options;
use emu_observe::{IrqOff, Ledger, LedgerRow, Spread, Stage};
use emu_sim::SimTime;
use guests_abi::block::SampleKind;
use serde::Serialize;
use topology::Machine;

use crate::bench::{Frame, SeedRun, Variant, run_variants};
use crate::ending::LabError;
use crate::published::{self, PublishedRatio};
use crate::rig::{Progress, Rig};
use crate::settings::{Cell, Dimension, Setting, Side, Switches, cells};
use crate::stats::Stats;

/// Variants of the policy `call_idle`, baseline first.
pub const VARIANTS: [&str; 4] = ["need_resched", "revert", "notify_ipi", "sm_idle"];

/// Point whose IRQ-off section the policy lengthens.
const SCHEDULE_IDLE: &str = "irqoff_schedule_idle";

/// Variant whose IPIs all go to an idle CPU.
const IPI_TO_IDLE: &str = "revert";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Machine: name or path.
    pub machine: String,
    /// Overrides as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Number of cpus, all when `None`.
    pub cpus: Option<u32>,
    /// Boot switches, those of the benchmark's flags included.
    pub switches: Switches,
    /// What varies; the policy's four variants when it does not vary `call_idle`.
    pub vary: Vec<Dimension>,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Simulated time after which a run is given up.
    pub limit: SimTime,
    /// Host threads.
    pub jobs: usize,
    /// Keep the wake ledger.
    pub ledger: bool,
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
    /// Number of cpus.
    pub cpus: usize,
    /// Seeds.
    pub seeds: Vec<u64>,
    /// Boot switches of all variants.
    pub bootargs: String,
    /// Largest seeded spin before a call, in cycles.
    pub jitter_cycles: u64,
    /// Variants that are compared with each other, by what else varies.
    pub groups: Vec<Group>,
}

/// Variants with equal settings but for the policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    /// The other settings.
    pub settings: Vec<Setting>,
    /// One row a variant.
    pub rows: Vec<Row>,
    /// Measured IRQ-off length of the baseline's `schedule_idle` over the measured latency of an
    /// IPI to an idle CPU: that of `revert`, or of the baseline in a group without it.
    pub irqoff_over_ipi: Option<f64>,
}

/// One variant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Variant of the policy.
    pub variant: String,
    /// Length of the region over calls of one CPU, in ns, over the seeds.
    pub ns_per_call: Stats,
    /// Single calls as the guest timed them, in ns.
    pub call_ns: Option<Distribution>,
    /// Runtime over that of the group's baseline.
    pub normalised: f64,
    /// Published value of `normalised`.
    pub published: Option<PublishedRatio>,
    /// Call IPIs sent, a run.
    pub ipis_sent: f64,
    /// Call IPIs not sent because the target polls, a run.
    pub ipis_saved: f64,
    /// Time IPIs were pending under a mask, ns a run.
    pub pending_masked_ns: f64,
    /// IRQ-off section of `schedule_idle`, in ns.
    pub schedule_idle_irqoff_ns: Option<Distribution>,
    /// From the sender's register write to the handler, less time under a mask, in ns.
    pub ipi_latency_ns: Option<Distribution>,
    /// The wake ledger, if it was asked for.
    pub ledger: Vec<LedgerLine>,
}

/// Order statistics in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// Number of values.
    pub n: u64,
    /// Smallest.
    pub min: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
    /// Arithmetic mean.
    pub mean: f64,
}

impl From<Spread> for Distribution {
    fn from(ps: Spread) -> Self {
        let ns = |value: u64| value as f64 / 1e3;
        Distribution {
            n: ps.n,
            min: ns(ps.min),
            p50: ns(ps.p50),
            p90: ns(ps.p90),
            p99: ns(ps.p99),
            max: ns(ps.max),
            mean: ps.mean / 1e3,
        }
    }
}

/// One line of the ledger's summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerLine {
    /// Kind of wake.
    pub kind: &'static str,
    /// Stage, or `write_to_handler`.
    pub stage: &'static str,
    /// Statistics in ns.
    pub ns: Distribution,
}

/// Flattens a summary of the ledger into lines.
#[must_use]
pub fn ledger_lines(summary: &[LedgerRow]) -> Vec<LedgerLine> {
    let mut lines = Vec::new();
    for row in summary {
        let stages = Stage::ALL.iter().map(|&stage| (stage.name(), row.stages[stage as usize]));
        let all = stages.chain([("write_to_handler", row.write_to_handler)]);
        lines.extend(all.filter_map(|(stage, spread)| {
            Some(LedgerLine { kind: row.kind.name(), stage, ns: spread?.into() })
        }));
    }
    lines
}

/// Most cpus of a machine on which cpu 0 calls the one half the machine away, in another LLC where
/// there is one. On larger ones cpu 8 calls cpu 16, as in the published runs.
const SMALL: usize = 16;

/// The caller, and how much higher the number of the cpu it calls is, where nothing is said.
///
/// Errors: `Input` for a machine that cannot be loaded or has not so many cpus.
pub fn default_pair(
    machine: &str,
    set: &[String],
    cpus: Option<u32>,
) -> Result<(u32, u32), LabError> {
    let machine = crate::machines::load(machine, set)?;
    let cpus = crate::machines::cpu_count(&machine, cpus)?;
    Ok(if cpus > SMALL { (8, 8) } else { (0, cpus as u32 / 2) })
}

/// One boot and its place in the report.
struct Plan {
    cell: Cell,
    name: String,
    tsc_khz: u64,
    variant: Variant,
}

/// Runs the bench.
///
/// Errors: `Input` for settings that do not work, `Ended` and `Laws` from the runs.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    let plans = plan(request)?;
    let options = Options { cpus: request.cpus, ..Options::default() };
    let frame = Frame {
        options,
        seeds: request.seeds.clone(),
        limit: request.limit,
        jobs: request.jobs,
        ledger: true,
        lines: false,
    };
    let variants: Vec<Variant> = plans.iter().map(|plan| plan.variant.clone()).collect();
    let results = run_variants::<R>(&frame, &variants, progress)?;
    let rows =
        plans.iter().zip(results).map(|(plan, runs)| (plan.cell.clone(), row(request, plan, runs)));
    let mut groups: Vec<Group> = Vec::new();
    for (cell, row) in rows {
        let row = row?;
        let settings: Vec<Setting> =
            cell.settings.into_iter().filter(|setting| setting.key != "call_idle").collect();
        match groups.iter_mut().find(|group| group.settings == settings) {
            Some(group) => group.rows.push(row),
            None => groups.push(Group { settings, rows: vec![row], irqoff_over_ipi: None }),
        }
    }
    groups.iter_mut().for_each(normalise);
    let machine = variants.first().map(|variant| &variant.machine);
    let all = machine.map_or(0, |machine| machine.cpus.len());
    Ok(Report {
        schema: "crosscall.ipistorm/1",
        version: env!("CARGO_PKG_VERSION"),
        machine: machine.map_or_else(String::new, |machine| machine.id.clone()),
        overrides: request.set.clone(),
        cpus: request.cpus.map_or(all, |cpus| cpus as usize),
        seeds: request.seeds.clone(),
        bootargs: request.switches.bootargs(),
        jitter_cycles: number(&request.switches, "jitter"),
        groups,
    })
}

fn number(switches: &Switches, key: &str) -> u64 {
    switches.get(key).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Checks that a request can be met, up to where a machine would boot.
///
/// Errors: `Input` for settings that do not work.
pub fn check(request: &Request) -> Result<(), LabError> {
    plan(request).map(drop)
}

/// Loads the machine and fixes the command line of every variant.
fn plan(request: &Request) -> Result<Vec<Plan>, LabError> {
    let mut dimensions = request.vary.clone();
    let varies = dimensions.iter().any(|dimension| dimension.key == "call_idle");
    if !varies {
        let all = VARIANTS.map(str::to_owned).to_vec();
        dimensions.push(Dimension { side: Side::Guest, key: "call_idle".into(), values: all });
    }
    let plan = |cell: Cell| {
        let overrides: Vec<String> = request.set.iter().cloned().chain(cell.machine()).collect();
        let machine = crate::machines::load(&request.machine, &overrides)?;
        let mut switches = request.switches.clone();
        switches.set("bench", "ipistorm")?;
        for (key, value) in cell.guest() {
            switches.set(key, value)?;
        }
        check_cpus(request, &machine, &switches)?;
        let name = switches.get("call_idle").unwrap_or_default().to_owned();
        let label = format!("ipistorm {}", cell.label());
        let tsc_khz = machine.clocks.tsc_khz;
        let bootargs = switches.bootargs_on(machine.isa)?;
        let variant = Variant { label, machine, bootargs };
        Ok(Plan { cell, name, tsc_khz, variant })
    };
    cells(&dimensions)?.into_iter().map(plan).collect()
}

fn check_cpus(request: &Request, machine: &Machine, switches: &Switches) -> Result<(), LabError> {
    let cpus = crate::machines::cpu_count(machine, request.cpus)?;
    let callers = switches.cpu_list("cpulist", usize::MAX);
    let is_all = switches.get("cpulist") == Some("all");
    match callers.iter().find(|&&cpu| cpu >= cpus && !is_all) {
        Some(cpu) => Err(LabError::input(format!(
            "--cpulist names cpu {cpu}, but {} has cpus 0-{}; choose others with --cpulist",
            machine.id,
            cpus - 1
        ))),
        None => Ok(()),
    }
}

/// Makes the row of a variant; `normalised` is not known yet.
fn row(request: &Request, plan: &Plan, runs: Vec<SeedRun>) -> Result<Row, LabError> {
    let calls = number(&request.switches, "numipi").max(1) as f64;
    let per_call: Vec<f64> = runs.iter().map(|run| run.region.as_ns_f64() / calls).collect();
    let ns_per_call = Stats::of(&per_call).ok_or_else(|| LabError::input("no seeds"))?;
    let n = runs.len() as f64;
    let mean =
        |name: &str| runs.iter().filter_map(|run| run.counters.sum(name)).sum::<u64>() as f64 / n;
    let (sent, saved) = (mean("call_ipi"), mean("call_saved"));
    let pending_masked_ns = mean("ipi_pend_masked_ps") / 1e3;
    let ticks = runs.iter().flat_map(|run| &run.samples);
    let calls = ticks.filter(|series| series.kind == SampleKind::Call);
    let mut calls: Vec<u64> = calls
        .flat_map(|series| &series.values)
        .map(|&ticks| crate::machines::ticks_to_ps(ticks, plan.tsc_khz))
        .collect();
    let (mut irqoff, mut ledger) = (IrqOff::default(), Ledger::new());
    for run in runs {
        if irqoff.summary().is_empty() {
            irqoff = run.irqoff;
        } else {
            irqoff.absorb(run.irqoff);
        }
        ledger.absorb(run.ledger);
    }
    Ok(Row {
        variant: plan.name.clone(),
        ns_per_call,
        call_ns: Spread::of(&mut calls).map(Distribution::from),
        normalised: 1.0,
        published: published::ipistorm(&plan.variant.machine.id, &plan.name),
        ipis_sent: sent,
        ipis_saved: saved,
        pending_masked_ns,
        schedule_idle_irqoff_ns: irqoff.of(SCHEDULE_IDLE).map(Distribution::from),
        ipi_latency_ns: ledger.delivery().map(Distribution::from),
        ledger: if request.ledger { ledger_lines(&ledger.summary()) } else { Vec::new() },
    })
}

/// Relates the rows of a group to its baseline, or to its first row where it has none.
fn normalise(group: &mut Group) {
    let baseline = group.rows.iter().find(|row| row.variant == published::IPISTORM_BASELINE);
    let Some(baseline) = baseline.or(group.rows.first()) else { return };
    let base_ns = baseline.ns_per_call.mean;
    let irqoff = baseline.schedule_idle_irqoff_ns.map(|irqoff| irqoff.mean);
    let idle_target = group.rows.iter().find(|row| row.variant == IPI_TO_IDLE).unwrap_or(baseline);
    let latency = idle_target.ipi_latency_ns.map(|latency| latency.mean);
    group.irqoff_over_ipi = irqoff.zip(latency).map(|(irqoff, latency)| irqoff / latency);
    for row in &mut group.rows {
        row.normalised = row.ns_per_call.mean / base_ns;
    }
}

/// Returns the report as CSV, one line a row.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from(
        "machine,settings,variant,ns_per_call_mean,stddev,min,max,normalised,published,\
         published_id,ipis_sent,ipis_saved,pending_masked_ns,schedule_idle_irqoff_ns_mean,\
         ipi_latency_ns_mean\n",
    );
    for group in &report.groups {
        let settings: Vec<String> =
            group.settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
        for row in &group.rows {
            let ns = &row.ns_per_call;
            let of = |d: Option<Distribution>| d.map_or(String::new(), |d| d.mean.to_string());
            let published = row.published;
            let fields = [
                report.machine.clone(),
                settings.join(" "),
                row.variant.clone(),
                ns.mean.to_string(),
                ns.stddev.to_string(),
                ns.min.to_string(),
                ns.max.to_string(),
                row.normalised.to_string(),
                published.map_or(String::new(), |p| p.ratio.to_string()),
                published.map_or(String::new(), |p| p.id.to_owned()),
                row.ipis_sent.to_string(),
                row.ipis_saved.to_string(),
                row.pending_masked_ns.to_string(),
                of(row.schedule_idle_irqoff_ns),
                of(row.ipi_latency_ns),
            ];
            text.push_str(&crate::csv::line(&fields));
        }
    }
    text
}
