//! `bench c2c`: what handing a line from core to core costs, by distance.
//!
//! Two CPUs run the published loop on one flag: each compare-exchanges until it succeeds. The
//! figure is elapsed time over round trips over two. A class is represented by pairs that are
//! spread evenly over all pairs of the class, chosen without chance; its value is their median.
//! Arm machines with LSE run it twice, by CAS and by exclusives: the two have little in common.

use guests_abi::block::SampleKind;
use serde::Serialize;
use topology::{Distance, Isa, Level, Machine};

use crate::bench::{Setup, in_parallel};
use crate::counters::Series;
use crate::ending::LabError;
use crate::machines;
use crate::published::{self, PublishedTime};
use crate::rig::{Progress, Rig};
use crate::settings::Switches;
use crate::stats::Stats;

/// Most pairs that represent a class.
pub const PAIRS_MAX: usize = 12;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// Machine, switches, seed.
    pub setup: Setup,
    /// Pairs of each class.
    pub pairs: usize,
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
    /// Classes, near ones first.
    pub classes: Vec<Class>,
}

/// What a compare-exchange is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Atomics {
    /// LOCK CMPXCHG.
    Lock,
    /// CAS of FEAT_LSE.
    Lse,
    /// LDXR and STXR.
    Exclusives,
}

impl Atomics {
    /// Name in tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Atomics::Lock => "lock",
            Atomics::Lse => "lse",
            Atomics::Exclusives => "exclusives",
        }
    }

    /// Those that a machine has, less what the switch `lse` excludes if it is set.
    pub(crate) fn of(machine: &Machine, switches: &Switches) -> &'static [Atomics] {
        match (machine.isa, machine.features.has("lse"), switches.given("lse")) {
            (Isa::X86_64, ..) => &[Atomics::Lock],
            (Isa::Aarch64, true, None) => &[Atomics::Lse, Atomics::Exclusives],
            (Isa::Aarch64, true, Some("1")) => &[Atomics::Lse],
            (Isa::Aarch64, ..) => &[Atomics::Exclusives],
        }
    }

    /// Sets the switch with which the guest uses them.
    ///
    /// Errors: those of `set`.
    pub(crate) fn choose(self, switches: &mut Switches) -> Result<(), LabError> {
        match self {
            Atomics::Lock => Ok(()),
            Atomics::Lse => switches.set("lse", "1"),
            Atomics::Exclusives => switches.set("lse", "0"),
        }
    }
}

/// Pairs of one distance.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Name of the class.
    pub class: &'static str,
    /// What the loop was made of.
    pub atomics: Atomics,
    /// Node that owns the line.
    pub home: usize,
    /// Hand-overs of the pairs in ns.
    pub handover_ns: Stats,
    /// Published median.
    pub published: Option<PublishedTime>,
    /// Difference of the medians in percent of the published one.
    pub error_percent: Option<f64>,
    /// Pairs with their values.
    pub pairs: Vec<Pair>,
}

/// One pair.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// First cpu.
    pub a: usize,
    /// Second cpu.
    pub b: usize,
    /// One hand-over in ns, mean over the samples.
    pub ns: f64,
}

/// A class before it is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name.
    pub class: &'static str,
    /// What the loop is made of.
    pub atomics: Atomics,
    /// Node that owns the line.
    pub home: usize,
    /// Pairs.
    pub pairs: Vec<(usize, usize)>,
}

/// Chooses the representative pairs of every class that the machine has, once for each kind of
/// atomics.
///
/// Lines are homed on the first package's node, as in the published runs; where the machine has
/// a second package, pairs of the first one with a remote home are a class of their own.
#[must_use]
pub fn choose(machine: &Machine, pairs: usize, switches: &Switches) -> Vec<Choice> {
    let home = machine.cpus.first().map_or(0, |cpu| cpu.node);
    let remote = machine.cpus.iter().find(|cpu| cpu.package != 0).map(|cpu| cpu.node);
    let classes = [
        ("smt", "smt", Some(home)),
        ("cluster", "cluster", Some(home)),
        ("llc", "llc", Some(home)),
        ("package", "package", Some(home)),
        ("package, remote home", "package", remote),
        ("cross-package", "cross-package", Some(home)),
    ];
    let kinds = Atomics::of(machine, switches);
    let choices = classes.into_iter().filter_map(|(class, distance, home)| {
        let all = pairs_at(machine, distance);
        let pairs = spread_out(&all, pairs.clamp(1, PAIRS_MAX));
        let home = home.filter(|_| !pairs.is_empty())?;
        let choice = move |&atomics| Choice { class, atomics, home, pairs: pairs.clone() };
        Some(kinds.iter().map(choice))
    });
    choices.flatten().collect()
}

/// Returns all pairs of a class whose first cpu is in the first package.
fn pairs_at(machine: &Machine, class: &str) -> Vec<(usize, usize)> {
    let all = 0..machine.cpus.len();
    let first = all.clone().filter(|&cpu| machine.cpus[cpu].package == 0);
    first
        .flat_map(|a| all.clone().filter(move |&b| b > a).map(move |b| (a, b)))
        .filter(|&(a, b)| distance(machine, a, b) == class)
        .collect()
}

/// Name of the distance of two cpus.
fn distance(machine: &Machine, a: usize, b: usize) -> &'static str {
    let has_clusters = machine.level(Level::Cluster).count > machine.llcs.len();
    match machine.distance(a, b) {
        Distance::Same | Distance::Smt => "smt",
        Distance::Llc if has_clusters && machine.cpus[a].cluster == machine.cpus[b].cluster => {
            "cluster"
        }
        Distance::Llc => "llc",
        Distance::Package => "package",
        Distance::Remote => "cross-package",
    }
}

/// Takes `count` of the pairs, evenly spaced, the middle of each share.
fn spread_out(pairs: &[(usize, usize)], count: usize) -> Vec<(usize, usize)> {
    let count = count.min(pairs.len());
    (0..count).map(|n| pairs[(2 * n + 1) * pairs.len() / (2 * count)]).collect()
}

/// Checks that a request can be met, up to where a machine would boot.
///
/// Errors: `Input` for settings that do not work.
pub fn check(request: &Request) -> Result<(), LabError> {
    machines::load(&request.setup.machine, &request.setup.set)
        .map(|m| drop(choose(&m, request.pairs, &request.setup.switches)))
}

/// Runs the bench.
///
/// Errors: `Input` for settings that do not work, `Ended` and `Laws` from the runs.
pub fn run<R: Rig>(request: &Request, progress: &dyn Progress) -> Result<Report, LabError> {
    let machine = machines::load(&request.setup.machine, &request.setup.set)?;
    let choices = choose(&machine, request.pairs, &request.setup.switches);
    progress.begin("handing lines over", choices.len() as u64);
    let classes = in_parallel(request.setup.jobs, choices.len(), |n| {
        let class = measure::<R>(request, &machine, &choices[n], progress);
        class.map_err(|error| error.during(format!("c2c {}", choices[n].class)))
    });
    progress.end();
    Ok(Report {
        schema: "crosscall.c2c/1",
        version: env!("CARGO_PKG_VERSION"),
        machine: machine.id.clone(),
        overrides: request.setup.set.clone(),
        seed: request.setup.seed,
        classes: classes.into_iter().collect::<Result<_, _>>()?,
    })
}

/// The text of a list of cpus, as switches take it.
pub(crate) fn list(cpus: impl Iterator<Item = usize>) -> String {
    cpus.map(|cpu| cpu.to_string()).collect::<Vec<_>>().join(",")
}

/// Boots the guest with the pairs of one class and reads its samples.
fn measure<R: Rig>(
    request: &Request,
    machine: &Machine,
    choice: &Choice,
    progress: &dyn Progress,
) -> Result<Class, LabError> {
    let mut switches = request.setup.switches.clone();
    switches.set("bench", "c2c")?;
    switches.set("c2c_a", &list(choice.pairs.iter().map(|pair| pair.0)))?;
    switches.set("c2c_b", &list(choice.pairs.iter().map(|pair| pair.1)))?;
    switches.set("c2c_home", &choice.home.to_string())?;
    choice.atomics.choose(&mut switches)?;
    let series = request.setup.sample::<R>(machine, &switches, progress)?;
    let iters: u64 = switches.get("iters").and_then(|text| text.parse().ok()).unwrap_or(1);
    class_of(machine, choice, pairs_of(&series, machine.clocks.tsc_khz, iters))
}

fn pairs_of(series: &[Series], tsc_khz: u64, iters: u64) -> Vec<Pair> {
    let trips = series.iter().filter(|series| series.kind == SampleKind::RoundTrips);
    let pairs = trips.filter(|series| !series.values.is_empty()).map(|series| {
        let ticks = series.values.iter().sum::<u64>();
        let trips = series.values.len() as f64 * iters as f64;
        let ns = machines::ticks_to_ps(ticks, tsc_khz) as f64 / 1e3 / trips / 2.0;
        Pair { a: series.cpu, b: series.peer, ns }
    });
    pairs.collect()
}

fn class_of(machine: &Machine, choice: &Choice, pairs: Vec<Pair>) -> Result<Class, LabError> {
    let values: Vec<f64> = pairs.iter().map(|pair| pair.ns).collect();
    let handover_ns = Stats::of(&values)
        .filter(|_| pairs.len() == choice.pairs.len())
        .ok_or_else(|| LabError::input("the guest did not sample every pair"))?;
    let published = published::handover(&machine.id, choice.class, choice.atomics);
    let error_percent =
        published.map(|published| 100.0 * (handover_ns.median - published.ns) / published.ns);
    let (class, atomics, home) = (choice.class, choice.atomics, choice.home);
    Ok(Class { class, atomics, home, handover_ns, published, error_percent, pairs })
}

/// Returns the report as CSV, one line a pair.
#[must_use]
pub fn csv(report: &Report) -> String {
    let mut text = String::from("machine,class,atomics,home,a,b,handover_ns\n");
    for class in &report.classes {
        for pair in &class.pairs {
            text.push_str(&crate::csv::line(&[
                report.machine.clone(),
                class.class.to_owned(),
                class.atomics.name().to_owned(),
                class.home.to_string(),
                pair.a.to_string(),
                pair.b.to_string(),
                pair.ns.to_string(),
            ]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_evenly_spaced_and_of_their_class() {
        let machine = machines::load("epyc-7763-2s", &[]).expect("machine");
        let choices = choose(&machine, 8, &Switches::default());
        let names: Vec<&str> = choices.iter().map(|choice| choice.class).collect();
        assert_eq!(names, ["smt", "llc", "package", "package, remote home", "cross-package"]);
        for choice in &choices {
            assert_eq!(choice.pairs.len(), 8, "{}", choice.class);
        }
        assert!(choices[0].pairs.iter().all(|&(a, b)| b == a + 128));
        assert_eq!((choices[2].home, choices[3].home), (0, 1));
        assert_eq!(spread_out(&[(0, 1), (0, 2), (0, 3)], 1), [(0, 2)]);
    }

    #[test]
    fn arm_machines_run_the_loop_by_every_kind_of_atomics_that_they_have() {
        let classes = |name, lse: Option<&str>| {
            let machine = machines::load(name, &[]).expect("machine");
            let mut switches = Switches::default();
            if let Some(lse) = lse {
                switches.set("lse", lse).expect("a switch of the kernel");
            }
            let choices = choose(&machine, 1, &switches);
            choices.iter().map(|c| format!("{} {}", c.class, c.atomics.name())).collect::<Vec<_>>()
        };
        assert_eq!(classes("graviton2", None), ["llc lse", "llc exclusives"]);
        assert_eq!(classes("graviton2", Some("1")), ["llc lse"]);
        assert_eq!(classes("hikey-620", None), ["llc exclusives", "package exclusives"]);
        let classes = classes("neoverse-n1-2s", Some("0"));
        assert_eq!(classes, ["cluster exclusives", "llc exclusives", "cross-package exclusives"]);
    }
}
