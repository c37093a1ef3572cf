//! Benchmarks that pass messages, on the small machines: every message arrives, the laws hold, a
//! seed gives one result, and a run that is stuck says so.

use emu_lab::{Counters, Ending, Program, Rig, Series, Switches, check_guest, check_machine};
use emu_lab::{kernel, load_machine, read_samples};
use emu_machine::{Machine, Options, Stop, Until};
use emu_sim::SimTime;
use guests_abi::block::SampleKind;

const MACHINES: [&str; 4] = ["duo", "quad", "duo-arm", "quad-arm"];

/// Boot switches.
type Guest = &'static [(&'static str, &'static str)];

/// What a run to the exit left.
struct Ran {
    stop: Stop,
    time: SimTime,
    region: SimTime,
    samples: Vec<Series>,
    counters: Counters,
    ending: String,
}

impl Ran {
    fn units(&self) -> Vec<u64> {
        let units = self.samples.iter().filter(|series| series.kind == SampleKind::Units);
        units.flat_map(|series| series.values.clone()).collect()
    }
}

/// Runs a bench of the guest kernel to its end; the laws hold there.
fn run(name: &str, bench: &str, guest: &[(&str, &str)]) -> Ran {
    let machine = load_machine(name, &[]).expect("a machine");
    let mut switches = Switches::default();
    for (key, value) in [("bench", bench)].iter().chain(guest) {
        switches.set(key, value).expect("a switch");
    }
    let bootargs = switches.bootargs_on(machine.isa).expect("switches of the kernel");
    let program = Program::new(kernel(machine.isa), &bootargs);
    let mut rig = Machine::build(&machine, Options::default(), &program).expect("a machine");
    let until = Until { time: SimTime::from_us(1_000_000), regions: true };
    let (mut begun, mut region) = (SimTime::default(), SimTime::default());
    let stop = loop {
        match rig.run(&until, &mut ()) {
            Stop::Region { begin: true, .. } => begun = rig.now(),
            Stop::Region { .. } => region = rig.now().saturating_sub(begun),
            stop => break stop,
        }
    };
    let counters = Counters::read(&rig).expect("counters");
    assert_eq!(check_machine(&rig), [], "{name} {bootargs}");
    assert_eq!(check_guest(&counters), [], "{name} {bootargs}");
    let samples = read_samples(&rig).expect("samples");
    let ending = Ending::of(&rig, stop.clone());
    let ending = format!("{ending}\n{}", ending.console_tail);
    Ran { stop, time: rig.now(), region, samples, counters, ending }
}

fn passed(name: &str, bench: &str, guest: &[(&str, &str)]) -> Ran {
    let ran = run(name, bench, guest);
    assert_eq!(ran.stop, Stop::Exit { code: 0 }, "{name} {guest:?}: {}", ran.ending);
    ran
}

#[test]
fn hackbench_delivers_every_message() {
    let table: [(&str, &str, &str, &str); 4] = [
        ("2", "3", "20", "100"),
        // More than a pipe holds: writers wait.
        ("1", "2", "400", "100"),
        // Pages of their own, and messages of several pages.
        ("1", "2", "12", "4096"),
        ("1", "2", "5", "20000"),
    ];
    for name in MACHINES {
        for (groups, fds, loops, datasize) in table {
            let guest =
                [("groups", groups), ("fds", fds), ("loops", loops), ("datasize", datasize)];
            let ran = passed(name, "hackbench", &guest);
            let number = |text: &str| text.parse::<u64>().expect("a number");
            let receivers = number(groups) * number(fds);
            let each = number(fds) * number(loops);
            assert_eq!(ran.units(), vec![each; receivers as usize], "{name} {guest:?}");
        }
    }
}

#[test]
fn hackbench_ends_under_every_policy_of_waking_writers_and_is_the_same_twice() {
    let mut times = Vec::new();
    for pipe_wake in ["was_full", "room"] {
        let guest = [("groups", "1"), ("fds", "2"), ("loops", "600"), ("pipe_wake", pipe_wake)];
        let [one, two] = [(); 2].map(|()| passed("quad", "hackbench", &guest));
        assert_eq!((one.time, &one.samples), (two.time, &two.samples), "{pipe_wake}");
        times.push((one.time, one.counters.sum("wake_done")));
    }
    assert_ne!(times[0], times[1]);
}

#[test]
fn pipes_that_wake_nobody_are_a_stall_with_a_report() {
    for name in ["duo", "duo-arm"] {
        let guest = [("groups", "1"), ("fds", "2"), ("broken", "deaf_pipe")];
        let ran = run(name, "hackbench", &guest);
        assert_eq!(ran.stop, Stop::Stalled, "{}", ran.ending);
        assert!(ran.ending.contains("no cpu can ever run again"), "{}", ran.ending);
    }
}

#[test]
fn tokens_go_to_and_fro() {
    let table = [
        ("duo", "same_llc", 1),
        ("duo-arm", "same_llc", 1),
        ("quad", "cross_llc", 2),
        ("quad-arm", "same_llc", 2),
        ("epyc-7763-2s", "cross_socket", 16),
    ];
    for (name, partner, pairs) in table {
        let ran = passed(name, "ctxsw", &[("partner", partner), ("duration_us", "400")]);
        let units = ran.units();
        assert!(units.len() == 2 * pairs, "{name}: {units:?}");
        for pair in units.chunks_exact(2) {
            assert!(pair[0] > 5 && pair[0].abs_diff(pair[1]) <= 1, "{name}: {units:?}");
        }
    }
}

#[test]
fn partners_that_are_not_there_are_refused() {
    for (name, partner, pairs, why) in [
        ("duo", "cross_llc", "1", "no cpus that far apart"),
        ("quad", "cross_socket", "1", "no cpus that far apart"),
        ("quad", "same_llc", "2", "llc 0 has 2 cpus, two to a pair"),
    ] {
        let ran = run(name, "ctxsw", &[("partner", partner), ("pairs", pairs)]);
        let code = guests_abi::exit::BAD_SWITCH;
        assert_eq!(ran.stop, Stop::Exit { code }, "{name} {partner}: {}", ran.ending);
        assert!(ran.ending.contains(why), "{name} {partner}: {}", ran.ending);
    }
}

#[test]
fn stream_moves_every_byte_and_knows_no_policy() {
    for (name, variants) in [("quad", ["revert", "notify_ipi"]), ("duo-arm", ["revert", "sm_idle"])]
    {
        let times = variants.map(|call_idle| {
            let guest = [("words", "512"), ("iters", "3"), ("call_idle", call_idle)];
            let ran = passed(name, "stream", &guest);
            assert_eq!(ran.units(), [3 * 512 * 80; 2], "{name}");
            ran.region
        });
        let [a, b] = times.map(SimTime::as_ns_f64);
        assert!((a / b - 1.0).abs() < 0.01, "{name}: {a} {b}");
    }
}

#[test]
fn every_request_is_served() {
    let benches: [(&str, Guest, u64); 6] = [
        ("netperf", &[("netperf_test", "udp_rr")], 10),
        ("netperf", &[("netperf_test", "tcp_rr")], 10),
        ("netperf", &[("netperf_test", "tcp_stream")], 16_384),
        ("netperf", &[("netperf_test", "tcp_stream"), ("sock_window", "70001")], 16_384),
        ("tbench", &[], 2000),
        ("sysbench", &[("think_ns", "2000")], 2),
    ];
    for name in ["duo", "quad", "duo-arm"] {
        for (bench, more, least) in benches {
            let guest = [&[("clients", "3"), ("duration_us", "500")], more].concat();
            let ran = passed(name, bench, &guest);
            // The guest has compared requests and served ones.
            let units = ran.units();
            // Scheduling may starve a client for so short a time.
            let is_enough = units.len() == 3 && units.iter().sum::<u64>() >= least;
            assert!(is_enough, "{name} {bench} {more:?}: {units:?}");
        }
    }
    let [one, two] = [(); 2].map(|()| passed("quad", "sysbench", &[("duration_us", "500")]));
    assert_eq!((one.time, one.samples), (two.time, two.samples));
}

#[test]
fn clients_are_a_share_of_the_cpus() {
    for (name, load, clients) in [("quad", "50", 2), ("duo", "25", 1), ("duo-arm", "200", 4)] {
        let ran = passed(name, "netperf", &[("load_percent", load), ("duration_us", "200")]);
        assert_eq!(ran.units().len(), clients, "{name}");
    }
}

#[test]
fn the_protocols_work_is_part_of_a_transaction() {
    let [none, some] = ["0", "5000"].map(|ns| {
        let guest = [("clients", "1"), ("duration_us", "2000"), ("sock_work_ns", ns)];
        2e6 / passed("quad", "netperf", &guest).units()[0] as f64
    });
    // A transaction is two messages.
    assert!((some - none - 10_000.0).abs() < 1500.0, "{none} {some}");
}

#[test]
fn the_driver_makes_figures_of_every_bench() {
    use emu_lab::workload::{self, Request, Workload};
    let benches: [(&str, Guest, &str); 7] = [
        ("hackbench", &[("groups", "1"), ("fds", "2"), ("loops", "5")], "Time"),
        ("ctxsw", &[], "switches"),
        ("stream", &[("words", "64"), ("iters", "2")], "rate"),
        ("netperf", &[("netperf_test", "tcp_rr")], "transactions"),
        ("netperf", &[("netperf_test", "tcp_stream")], "throughput"),
        ("tbench", &[], "throughput"),
        ("sysbench", &[("think_ns", "100")], "transactions"),
    ];
    for machine in ["duo", "duo-arm"] {
        for (bench, guest, figure) in benches {
            let mut switches = Switches::default();
            for (key, value) in guest.iter().chain(&[("duration_us", "300"), ("clients", "1")]) {
                switches.set(key, value).expect("a switch");
            }
            let request = Request {
                workload: Workload::find(bench).expect("a workload"),
                machine: machine.to_owned(),
                set: Vec::new(),
                cpus: None,
                switches,
                vary: Vec::new(),
                seeds: vec![1, 2],
                limit: SimTime::from_us(100_000),
                jobs: 1,
                lines: true,
            };
            let report = workload::run::<Machine>(&request, &()).unwrap_or_else(|e| panic!("{e}"));
            let [row] = &report.rows[..] else { panic!("{machine} {bench}: {report:?}") };
            assert_eq!(row.figures[0].name, figure, "{machine} {bench}");
            assert!(row.figures[0].stats.min > 0.0, "{machine} {bench}: {:?}", row.figures);
        }
    }
}
