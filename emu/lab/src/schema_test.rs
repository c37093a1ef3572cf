//! One golden document per kind of result, in `docs/schema`; `BLESS=1` rewrites them.

use serde::Serialize;

use crate::bench::Setup;
use crate::fake::FakeRig;
use crate::settings::{Dimension, Switches};
use crate::workload::{self, Workload};
use crate::{atomics, c2c, ipistorm, reproduce, run, scenario, speed, sweep};
use emu_machine::Options;
use emu_sim::SimTime;

const LIMIT: SimTime = SimTime::from_us(10_000_000);

/// Compares a result with the golden document of its kind.
fn check(kind: &str, result: &impl Serialize) {
    let found = serde_json::to_string_pretty(result).expect("serialisable") + "\n";
    assert!(found.contains(&format!("\"schema\": \"crosscall.{kind}/")), "{found}");
    let path = format!("{}/../../docs/schema/{kind}.json", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, &found).expect("golden file written");
    }
    let golden = std::fs::read_to_string(&path).expect("golden file; BLESS=1 makes it");
    assert_eq!(golden, found, "docs/schema/{kind}.json; BLESS=1 rewrites it");
}

fn switches(texts: &[&str]) -> Switches {
    let mut switches = Switches::default();
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    switches.set_all(&texts).expect("switches");
    switches
}

#[test]
fn ipistorm_document() {
    let request = ipistorm::Request {
        machine: "epyc-7763-2s".to_owned(),
        set: Vec::new(),
        cpus: Some(24),
        switches: switches(&["numipi=100"]),
        vary: vec![
            Dimension::parse("path_cost.schedule_idle=0,1000").expect("dimension"),
            Dimension::parse("call_idle=need_resched,notify_ipi").expect("dimension"),
        ],
        seeds: vec![1, 2],
        limit: LIMIT,
        jobs: 2,
        ledger: true,
    };
    let report = ipistorm::run::<FakeRig>(&request, &()).expect("report");
    assert_eq!(report.groups.len(), 2);
    let row = &report.groups[1].rows[1];
    assert!((row.normalised - 0.25).abs() < 1e-3, "{}", row.normalised);
    assert_eq!((row.ipis_sent, row.ipis_saved), (50.0, 50.0));
    assert_eq!(row.published.map(|published| published.id), Some("R0.3"));
    let irqoff = row.schedule_idle_irqoff_ns.map(|irqoff| (irqoff.n, irqoff.mean));
    assert_eq!(irqoff, Some((2, 300.0)));
    assert_eq!(report.groups[0].irqoff_over_ipi, Some(3.0));
    assert_eq!(ipistorm::csv(&report).lines().count(), 5);
    check("ipistorm", &report);
}

fn setup(machine: &str, switches: Switches) -> Setup {
    let machine = machine.to_owned();
    Setup { machine, set: Vec::new(), switches, seed: 1, limit: LIMIT, jobs: 1 }
}

#[test]
fn c2c_document() {
    let request = c2c::Request { setup: setup("epyc-7763-2s", Switches::default()), pairs: 2 };
    let report = c2c::run::<FakeRig>(&request, &()).expect("report");
    let smt = &report.classes[0];
    assert!((smt.handover_ns.median - 5.0 * 128.0 / 2.45).abs() < 0.01);
    check("c2c", &report);
}

#[test]
fn atomics_document() {
    let request = atomics::Request {
        setup: setup("graviton2", switches(&["counter=cas", "lse=1"])),
        cpus: vec![1, 2],
    };
    let report = atomics::run::<FakeRig>(&request, &()).expect("report");
    let row = &report.rows[1];
    assert!((row.ns - 20.0 / 0.121_875).abs() < 0.01, "{}", row.ns);
    assert!((row.mops - 2.0 * 1e3 / row.ns).abs() < 1e-9);
    assert_eq!(row.least_share_percent, 100.0);
    assert_eq!(row.published.map(|published| published.ns), Some(52.2));
    check("atomics", &report);
}

#[test]
fn test_document() {
    let text = r#"
schema = "crosscall.scenario/1"
[sets.pair]
duo = { guest = { from = "0", to = "1" } }
[[scenario]]
id = "A2"
claim = "one_store_no_ipi"
on = "pair"
guest = { op = "call_single" }
vary = { call_idle = ["need_resched", "revert"] }
[[scenario.expect]]
sum = { call_ipi = 0, call_saved = "n" }
"#;
    let cases = scenario::load_file("a.toml", text, &[]).expect("cases");
    let request = scenario::Request { cases, limit: LIMIT, jobs: 1 };
    let report = scenario::run::<FakeRig>(&request, &()).expect("report");
    assert_eq!((report.passed, report.failed), (1, 1));
    assert_eq!(report.cells[1].failures[0], "sum.call_ipi is 1, expected 0");
    check("test", &report);
}

#[test]
fn speed_document() {
    let seconds = std::cell::Cell::new(0.0);
    let clock = || seconds.replace(seconds.get() + 0.5);
    let request = speed::Request { repeats: 2, divide: 1000, clock: &clock };
    let report = speed::run::<FakeRig>(&request, &()).expect("report");
    assert_eq!(report.figures[5].values.median, 0.5);
    assert!(report.figures[5].is_reached() && !report.figures[0].is_reached());
    check("speed", &report);
}

#[test]
fn run_document() {
    let request = run::Request {
        machine: crate::machines::load("duo", &[]).expect("machine"),
        overrides: Vec::new(),
        options: Options::default(),
        bootargs: String::new(),
        rules: Vec::new(),
        limit: LIMIT,
        image: &[],
        load_at: None,
        initrd: None,
        symbols: None,
    };
    let mut rig: FakeRig = run::build(&request).expect("rig");
    let ending = run::run(&mut rig, LIMIT, &mut (), &(), &mut |_: &[u8]| {});
    let report = run::report(&rig, &request, &ending, Vec::new()).expect("report");
    check("run", &report);
}

#[test]
fn workload_document() {
    let request = workload::Request {
        workload: Workload::find("busy").expect("a workload"),
        machine: "quad".to_owned(),
        set: Vec::new(),
        cpus: None,
        switches: switches(&["on=0-1"]),
        vary: vec![Dimension::parse("iters=10,20").expect("dimension")],
        seeds: vec![1, 3],
        limit: LIMIT,
        jobs: 2,
        lines: true,
    };
    let report = workload::run::<FakeRig>(&request, &()).expect("report");
    let times: Vec<Option<f64>> = report.rows.iter().map(|row| row.mean("round")).collect();
    assert_eq!(times, [Some(1200.0), Some(1100.0)], "us of all rounds and the mean seed, a round");
    assert!((report.rows[1].ratio - 1100.0 / 1200.0).abs() < 1e-9);
    assert_eq!(workload::csv(&report).lines().count(), 3);
    check("workload", &report);
}

#[test]
fn reproduce_document() {
    let request = reproduce::Request {
        quick: true,
        only: vec!["R0.2".to_owned(), "R0.4".to_owned()],
        seeds: vec![1, 2],
        limit: LIMIT,
        jobs: 2,
        results: None,
    };
    let report = reproduce::run::<FakeRig>(&request, &()).expect("report");
    let verdicts: Vec<reproduce::Verdict> = report.rows.iter().map(|row| row.verdict).collect();
    assert_eq!(verdicts, [reproduce::Verdict::Pass, reproduce::Verdict::NotMeasured]);
    assert!((report.rows[0].emulated.expect("a ratio") - 0.8).abs() < 1e-3);
    assert_eq!(report.seeds, [1], "a quick run has one seed");
    assert_eq!(reproduce::csv(&report).lines().count(), 3);
    check("reproduce", &report);
}

#[test]
fn sweep_document() {
    let text = r#"
        title = "rounds"
        bench = "busy"
        machine = "quad"
        switches = ["on=0-1"]
        figure = "round"
        label = "ns a round"
        [[axis]]
        name = "rounds"
        values = ["10", "20"]
        guest = ["iters={}"]
    "#;
    let sweep = sweep::Sweep::read(text).expect("a sweep");
    let report = sweep::run::<FakeRig>(&sweep, LIMIT, 2, &()).expect("report");
    assert_eq!(report.points.len(), 2);
    check("sweep", &report);
}
