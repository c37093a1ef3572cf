//! Benchmarks of timers, idle states and devices, on the small machines: counts are exact, the laws
//! hold, a seed gives one result.

use emu_lab::{Counters, Ending, Program, Rig, Series, Switches, check_guest, check_machine};
use emu_lab::{kernel, load_machine, read_samples, rtapp};
use emu_machine::{Machine, Options, Stop, Until};
use emu_sim::SimTime;
use guests_abi::block::SampleKind;

const MACHINES: [&str; 3] = ["duo", "quad", "duo-arm"];

/// What a run to the exit left.
struct Ran {
    stop: Stop,
    time: SimTime,
    samples: Vec<Series>,
    ending: String,
    tsc_khz: u64,
}

impl Ran {
    /// Values of a kind of one thread.
    fn of(&self, kind: SampleKind, thread: usize) -> &[u64] {
        let is_it = |series: &&Series| series.kind == kind && series.peer == thread;
        &self.samples.iter().find(is_it).expect("a series").values
    }

    fn us(&self, ticks: u64) -> f64 {
        1e3 * ticks as f64 / self.tsc_khz as f64
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
    let until = Until { time: SimTime::from_us(1_000_000), regions: false };
    let stop = rig.run(&until, &mut ());
    let counters = Counters::read(&rig).expect("counters");
    assert_eq!(check_machine(&rig), [], "{name} {bootargs}");
    assert_eq!(check_guest(&counters), [], "{name} {bootargs}");
    let samples = read_samples(&rig).expect("samples");
    let ending = Ending::of(&rig, stop.clone());
    let ending = format!("{ending}\n{}", ending.console_tail);
    Ran { stop, time: rig.now(), samples, ending, tsc_khz: machine.clocks.tsc_khz }
}

fn passed(name: &str, bench: &str, guest: &[(&str, &str)]) -> Ran {
    let ran = run(name, bench, guest);
    assert_eq!(ran.stop, Stop::Exit { code: 0 }, "{name} {guest:?}: {}", ran.ending);
    ran
}

/// Threads with timers of their own share CPUs: each wakes as often as its file says, and never
/// early; whatever the idle loop does, with the tick or without it.
#[test]
fn every_timer_of_a_cpu_wakes_its_thread_in_time() {
    let threads = "5xn0@0*9:1/r5,t100;4xn0@1*7:1/t130|1/s40;1xi0@all*0:0/r100";
    for name in MACHINES {
        let governors: &[&str] = match name {
            "duo-arm" => &["wfi", "menu", "haltpoll", "poll"],
            _ => &["mwait", "menu", "haltpoll", "halt"],
        };
        for idle in governors {
            for nohz in ["0", "1"] {
                let guest = [("rtapp", threads), ("idle", *idle), ("nohz", nohz)];
                let ran = passed(name, "rtapp", &guest);
                for thread in 0..9 {
                    let turns = if thread < 5 { 9 } else { 14 };
                    for kind in [SampleKind::Run, SampleKind::WakeLatency] {
                        assert_eq!(ran.of(kind, thread).len(), turns, "{name} {idle} {thread}");
                    }
                    let late = ran.of(SampleKind::WakeLatency, thread).iter();
                    // A slice of others, and an exit.
                    assert!(late.map(|&t| ran.us(t)).all(|us| us < 200.0), "{name} {idle}");
                    if thread < 5 {
                        let runs = ran.of(SampleKind::Run, thread).iter();
                        assert!(runs.map(|&t| ran.us(t)).all(|us| us > 4.5), "{name} {idle}");
                    }
                }
            }
        }
    }
}

/// A timer stops in the deepest states of the HiKey, whose cluster goes down; the thread wakes all
/// the same, and later than from a halt.
#[test]
fn a_thread_wakes_from_the_states_that_stop_its_timer() {
    let wakes = ["wfi", "menu"].map(|idle| {
        let guest = [("rtapp", "1xn0@5*4:1/r300,t7777"), ("idle", idle)];
        let ran = passed("hikey-620", "rtapp", &guest);
        let late = ran.of(SampleKind::WakeLatency, 0);
        assert_eq!(late.len(), 4);
        ran.us(late.iter().sum::<u64>()) / 4.0
    });
    // The exits of core and cluster are 14 and 20 us.
    assert!(wakes[1] - wakes[0] > 20.0, "{wakes:?}");
}

#[test]
fn dmatest_copies_what_it_was_given_and_goes_on_where_the_rule_says() {
    for name in MACHINES {
        for (wa_idle, polled) in [("this_idle", "0"), ("cache_prev", "0"), ("off", "1")] {
            let guest = [
                ("iterations", "6"),
                ("threads_per_chan", "2"),
                ("test_buf_size", "4096"),
                ("dma_irq_cpu", "1"),
                ("wa_idle", wa_idle),
                ("polled", polled),
            ];
            let [one, two] = [(); 2].map(|()| passed(name, "dmatest", &guest));
            assert_eq!((one.time, &one.samples), (two.time, &two.samples), "{name} {wa_idle}");
            for thread in 0..2 {
                let times = one.of(SampleKind::RequestLatency, thread);
                assert_eq!(times.len(), 6, "{name} {wa_idle}");
                // A sixteenth of 10 us at least.
                assert!(times.iter().all(|&t| one.us(t) > 0.62), "{name} {wa_idle}");
                assert_eq!(one.of(SampleKind::Place, thread).len(), 6);
            }
        }
    }
}

#[test]
fn schbench_answers_every_request() {
    for name in MACHINES {
        let guest = [
            ("message_threads", "2"),
            ("worker_threads", "3"),
            ("operations", "1"),
            ("cache_footprint", "2"),
            ("sleeps", "1"),
            ("runtime_us", "3000"),
        ];
        let [one, two] = [(); 2].map(|()| passed(name, "schbench", &guest));
        assert_eq!((one.time, &one.samples), (two.time, &two.samples), "{name}");
        for worker in 0..6 {
            let [requests] = one.of(SampleKind::Units, worker)[..] else { panic!("{name}") };
            let times = one.of(SampleKind::RequestLatency, worker);
            assert_eq!(times.len() as u64, requests, "{name}");
            assert_eq!(one.of(SampleKind::WakeLatency, worker).len() as u64, requests, "{name}");
            assert!(requests > 3 && times.iter().all(|&t| one.us(t) >= 100.0), "{name}");
        }
    }
}

/// The set-ups of the published run, as they are shipped.
#[test]
fn shipped_files_of_rt_app_are_what_they_stand_for() {
    let normal = "1xn0@5*1:0/r2333,t7777";
    let table = [
        ("one-normal", normal.to_owned()),
        ("idle-beside", format!("{normal};1xi0@6*1:0/r1000")),
        ("idle-everywhere", format!("{normal};8xi0@all*1:0/r1000")),
    ];
    for (name, word) in table {
        let path = format!("{}/../../tests/rt-app/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("a file");
        let file = rtapp::read(name, &text).expect("a file of rt-app");
        assert_eq!((file.word(), file.duration_us), (word, Some(5_000_000)));
    }
}
