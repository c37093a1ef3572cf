//! Runs cases and compares what was counted with what was expected.

use emu_machine::{Options, PointAction, PointRule, Stop, Until};
use emu_sim::{CpuId, SimTime};
use guests_abi::device::region;
use guests_abi::switch::parse_cpu_list;
use serde::Serialize;

use super::file::{Act, Case, Expectation, Rule, RulesAt, Scope, Who};
use super::lines::LineRequests;
use crate::bench::in_parallel;
use crate::counters::Counters;
use crate::ending::{Ending, LabError};
use crate::image::kernel;
use crate::rig::{Program, Progress, Rig};
use crate::{laws, machines};

/// What is asked for.
pub struct Request {
    /// Cases, as loaded.
    pub cases: Vec<Case>,
    /// Simulated time after which a case is given up.
    pub limit: SimTime,
    /// Host threads.
    pub jobs: usize,
}

/// Results of all cases.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    /// Kind and version of this document.
    pub schema: &'static str,
    /// Version of the tool.
    pub version: &'static str,
    /// Number of cases that passed.
    pub passed: usize,
    /// Number of cases that failed.
    pub failed: usize,
    /// Cases in order of file and place.
    pub cells: Vec<CellResult>,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CellResult {
    /// File it comes from.
    pub file: String,
    /// Id of the scenario.
    pub id: String,
    /// What it claims.
    pub claim: String,
    /// Machine.
    pub machine: String,
    /// Command line of the guest.
    pub bootargs: String,
    /// What did not hold; empty when the case passed.
    pub failures: Vec<String>,
}

/// Runs every case.
///
/// Errors: `Input` when a machine or image cannot be used at all; a case that ends wrongly fails.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    progress.begin("scenarios", request.cases.len() as u64);
    let cells = in_parallel(request.jobs, request.cases.len(), |n| {
        let cell = run_case::<R>(request, &request.cases[n]);
        progress.advance(1, 0);
        cell
    });
    progress.end();
    let cells: Vec<CellResult> = cells.into_iter().collect::<Result<_, _>>()?;
    let failed = cells.iter().filter(|cell| !cell.failures.is_empty()).count();
    let passed = cells.len() - failed;
    let (schema, version) = ("crosscall.test/1", env!("CARGO_PKG_VERSION"));
    Ok(Report { schema, version, passed, failed, cells })
}

fn run_case<R: Rig>(request: &Request, case: &Case) -> Result<CellResult, LabError> {
    let failures = match check_case::<R>(request, case) {
        Ok(failures) => failures,
        Err(error @ LabError::Input(_)) => return Err(error.during(case.label())),
        Err(error) => vec![error.to_string()],
    };
    Ok(CellResult {
        file: case.file.clone(),
        id: case.id.clone(),
        claim: case.claim.clone(),
        machine: case.machine.clone(),
        bootargs: case.switches.bootargs(),
        failures,
    })
}

/// The cpus of a case.
struct Cast {
    callers: Vec<usize>,
    targets: Vec<usize>,
}

/// Runs one case and returns what did not hold.
fn check_case<R: Rig>(request: &Request, case: &Case) -> Result<Vec<String>, LabError> {
    let machine = machines::load(&case.machine, &[])?;
    let cpus = machines::cpu_count(&machine, case.cpus)?;
    let cast = Cast {
        callers: case.switches.cpu_list("from", cpus),
        targets: case.switches.cpu_list("to", cpus),
    };
    let options = Options { cpus: case.cpus, seed: case.seed, ..Options::default() };
    let bootargs = case.switches.bootargs_on(machine.isa)?;
    let mut rig = R::build(&machine, options, &Program::new(kernel(machine.isa), &bootargs))?;
    if case.rules_at == RulesAt::Boot {
        rig.set_rules(&rules(case, &cast)?)?;
    }
    let until = Until { time: request.limit, regions: true };
    let mut failures = Vec::new();
    let names_lines = case.expect.iter().any(|e| LineRequests::are_named(e.left.text()));
    let mut lines: Option<LineRequests> = None;
    let mut at_begin: Option<Counters> = None;
    let mut measured: Option<Counters> = None;
    let stop = loop {
        match rig.run(&until, &mut lines) {
            Stop::Region { begin: true, id, .. } => {
                if id == region::SCENARIO {
                    failures.extend(unsettled(&rig, case, &cast)?);
                }
                rig.reseed(case.seed);
                if case.rules_at == RulesAt::Region {
                    // Also without rules: only watched points are counted.
                    rig.set_rules(&rules(case, &cast)?)?;
                }
                lines = names_lines.then(|| LineRequests::new(&rig));
                at_begin = Some(read(&rig, lines.as_ref())?);
            }
            Stop::Region { .. } => {
                let now = read(&rig, lines.as_ref())?;
                measured = at_begin.as_ref().map(|before| now.since(before));
            }
            stop => break stop,
        }
    };
    let ending = Ending::of(&rig, stop);
    if ending.guest_code() != Some(case.exit) {
        return Err(LabError::Ended(Box::new(ending)));
    }
    let total = read(&rig, lines.as_ref())?;
    let since_begin = at_begin.as_ref().map(|before| total.since(before));
    let breaches = laws::check_machine(&rig).into_iter();
    let guest_side = since_begin.as_ref().map(laws::check_guest).unwrap_or_default();
    failures.extend(breaches.chain(guest_side).map(|breach| format!("law {breach}")));
    let counted = measured.or(since_begin).unwrap_or(total);
    for expectation in &case.expect {
        failures.extend(compare(expectation, &counted, case, &cast)?);
    }
    Ok(failures)
}

/// Reads all counters, passes of points and requests for lines included.
fn read<R: Rig>(rig: &R, lines: Option<&LineRequests>) -> Result<Counters, LabError> {
    let mut counters = Counters::read(rig)?;
    let points = rig.points();
    for name in points.names() {
        let cpus = (0..rig.cpus()).map(|n| CpuId(u32::try_from(n).unwrap_or(u32::MAX)));
        counters.push(&format!("point.{name}"), cpus.map(|cpu| rig.passed(cpu, name)).collect());
    }
    if let Some(lines) = lines {
        lines.push_to(&mut counters);
    }
    Ok(counters)
}

/// How long a fork is watched to see that a cpu only polls: some turns of the polling loop, and
/// less than the caller needs to begin its operation.
const POLL_WATCH: SimTime = SimTime::from_ns(100);
/// Point that each turn of the polling loop passes.
const POLL_POINT: &str = "poll_loop";

/// Says which idle targets are not inside their idle wait when the operation begins.
fn unsettled<R: Rig>(rig: &R, case: &Case, cast: &Cast) -> Result<Vec<String>, LabError> {
    let is_idle = case.switches.get("state") == Some("idle");
    if !is_idle || case.switches.get("pre") != Some("none") {
        return Ok(Vec::new());
    }
    let polls = case.switches.get("idle") == Some("poll");
    let mut watched = rig.clone();
    if polls {
        watched.set_rules(&[])?;
        let time = rig.now().saturating_add(POLL_WATCH);
        watched.run(&Until { time, regions: false }, &mut ());
    }
    let is_settled =
        |cpu: CpuId| if polls { only_polls(&watched, cpu) } else { rig.is_settled(cpu) };
    let busy = ["busy", "busy_sched_idle"].map(|key| case.switches.cpu_list(key, usize::MAX));
    let is_busy = |cpu: &usize| cast.callers.contains(cpu) || busy.concat().contains(cpu);
    let idle = cast.targets.iter().filter(|cpu| !is_busy(cpu));
    let cpus = idle.map(|&cpu| CpuId(u32::try_from(cpu).unwrap_or(u32::MAX)));
    Ok(cpus.filter(|&cpu| !is_settled(cpu)).map(|cpu| format!("{cpu} is not settled")).collect())
}

/// Whether a cpu has passed the point of the polling loop twice, or waits in it for a store, and
/// has passed no other point.
fn only_polls<R: Rig>(rig: &R, cpu: CpuId) -> bool {
    let points = rig.points();
    let mut others = points.names().iter().filter(|name| *name != POLL_POINT);
    let polls = rig.passed(cpu, POLL_POINT) >= 2 || rig.is_settled(cpu);
    polls && others.all(|name| rig.passed(cpu, name) == 0)
}

/// Makes the rules of a case for its cpus.
fn rules(case: &Case, cast: &Cast) -> Result<Vec<PointRule>, LabError> {
    let first = |cpus: &[usize]| {
        let cpu = cpus.first().and_then(|&cpu| u32::try_from(cpu).ok()).map(CpuId);
        cpu.map(Some).ok_or_else(|| LabError::input("a rule names a cpu of an empty list"))
    };
    let cpu_of = |who: &Who| match who {
        Who::Any => Ok(None),
        Who::Cpu(cpu) => Ok(Some(CpuId(*cpu))),
        Who::FirstCaller => first(&cast.callers),
        Who::FirstTarget => first(&cast.targets),
    };
    let rule = |rule: &Rule| {
        let action = match &rule.act {
            Act::Delay(time) => PointAction::Delay(*time),
            Act::DelayUpTo(time) => PointAction::DelayUpTo(*time),
            Act::Hold { who, point, times } => PointAction::HoldUntil {
                cpu: cpu_of(who)?,
                point: point.clone(),
                times: u64::try_from(times.value(&variables(case, cast))?).unwrap_or(0),
            },
        };
        Ok(PointRule { cpu: cpu_of(&rule.who)?, point: rule.point.clone(), action })
    };
    case.rules.iter().map(rule).collect()
}

/// Numbers that expectations may name: callers `k`, targets `n`, and numeric switches.
fn variables<'a>(case: &'a Case, cast: &'a Cast) -> impl Fn(&str) -> Option<u64> + 'a {
    move |name| match name {
        "k" => Some(cast.callers.len() as u64),
        "n" => Some(cast.targets.len() as u64),
        other => case.switches.get(other)?.parse().ok(),
    }
}

/// Returns the failure of one comparison, if it fails.
fn compare(
    expectation: &Expectation,
    counted: &Counters,
    case: &Case,
    cast: &Cast,
) -> Result<Option<String>, LabError> {
    let in_scope = |name: &str| match &expectation.scope {
        Scope::All => counted.sum(name),
        Scope::Cpus { list, .. } => {
            counted.sum(name)?;
            let mut sum = 0;
            parse_cpu_list(list, |cpus| {
                sum += cpus.filter_map(|cpu| counted.get(name, cpu)).sum::<u64>();
            });
            Some(sum)
        }
    };
    let found = expectation.left.value(&in_scope)?;
    let bound = &expectation.bound;
    let wanted = bound.value.value(&variables(case, cast))?;
    let scope = expectation.scope.name();
    let text = || {
        let left = expectation.left.text();
        format!("{scope}.{left} is {found}, expected {}{wanted}", bound.word())
    };
    Ok((!bound.allows(found, wanted)).then(text))
}

/// Returns the report as CSV, one line a case.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from("file,id,claim,machine,bootargs,passed,failures\n");
    for cell in &report.cells {
        text.push_str(&crate::csv::line(&[
            cell.file.clone(),
            cell.id.clone(),
            cell.claim.clone(),
            cell.machine.clone(),
            cell.bootargs.clone(),
            cell.failures.is_empty().to_string(),
            cell.failures.join("; "),
        ]));
    }
    text
}
