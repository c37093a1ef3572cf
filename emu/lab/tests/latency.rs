//! Orders of latency that policies.md 6.1 asks for, beside the exact counts of the scenarios: a
//! single waiting call to a settled target, the same pair of cpus, on `quad` and on the EPYC.
//!
//! Two times of a call: its *latency*, at the caller, from before the push to after the csd was
//! seen unlocked; and the *occupancy* of the target, from the end of the function to the next
//! turn of its idle wait. Each is a mean over starts of the caller, which move it against a polling
//! loop; the target is not delayed, as the start offsets of a seed would.
//! The guest runs with `path_cost.schedule_idle` at 0 and at 3000: the higher cost makes the
//! difference in occupancy large, and no caller may see it.

use emu_lab::{Program, Rig, load_machine};
use emu_machine::{Machine, Options, PointAction, PointRule, Stop, Until};
use emu_observe::{Event, Observer, Record, Wanted};
use emu_sim::{CpuId, Freq, SimTime};

/// Starts of the caller, and the time between them.
const STARTS: u64 = 8;
const START_STEP: SimTime = SimTime(7_300);
/// Cpus that exist; the EPYC has more, which would only idle.
const CPUS: u32 = 32;
/// Latencies of A2 to A4 differ by less.
const SAME_CYCLES: f64 = 40.0;
/// And by less than this share of what their occupancies differ by.
const SAME_SHARE: f64 = 0.1;
/// Added cycles at which differences in occupancy are large against all else.
const VISIBLE: u64 = 3000;

/// (machine, caller, target), as in the scenarios.
const PAIRS: [(&str, u32, u32); 2] = [("quad", 0, 2), ("epyc-7763-2s", 8, 16)];
const VARIANTS: [&str; 3] = ["need_resched", "notify_ipi", "sm_idle"];

/// Keeps what one call is made of.
struct Watch {
    caller: CpuId,
    target: CpuId,
    names: Vec<String>,
    /// Polling targets turn a loop and never enter a wait.
    polls: bool,
    push: Option<SimTime>,
    done: Option<SimTime>,
    served: Option<SimTime>,
    idle: Option<SimTime>,
}

impl Observer for Watch {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, ..Wanted::default() }
    }

    fn record(&mut self, r: &Record) {
        let point = match r.event {
            Event::Point { index } => self.names[index as usize].as_str(),
            _ => "",
        };
        let is_idle = match r.event {
            Event::IdleEnter { .. } => !self.polls,
            _ => self.polls && point == "poll_loop",
        };
        if r.cpu == self.caller {
            match point {
                "call_push" => self.push = self.push.or(Some(r.time)),
                "call_done" => self.done = self.done.or(Some(r.time)),
                _ => {}
            }
        }
        if r.cpu == self.target && point == "call_func_done" {
            self.served = self.served.or(Some(r.time));
        }
        if r.cpu == self.target && self.served.is_some() && is_idle {
            self.idle = self.idle.or(Some(r.time));
        }
    }
}

/// Means in cycles of the pair's cores.
#[derive(Clone, Copy, Debug)]
struct Call {
    latency: f64,
    occupancy: f64,
}

fn call((name, from, to): (&str, u32, u32), idle: &str, call_idle: &str, cost: u64) -> Call {
    let topology = load_machine(name, &[]).expect("a machine");
    let bootargs = format!(
        "bench=scenario op=call_single from={from} to={to} idle={idle} call_idle={call_idle} \
         path_cost.schedule_idle={cost}"
    );
    let cpus = Some(CPUS.min(topology.cpus.len() as u32));
    let options = Options { cpus, ..Options::default() };
    let mut rig = <Machine as Rig>::build(
        &topology,
        options,
        &Program::new(emu_lab::kernel(topology.isa), &bootargs),
    )
    .expect("the kernel fits");
    let until = Until { time: SimTime::from_us(1_000_000), regions: true };
    let stop = Rig::run(&mut rig, &until, &mut ());
    assert!(matches!(stop, Stop::Region { begin: true, .. }), "{bootargs}: {stop:?}");
    let clock = Freq::from_khz(topology.cores[topology.cpus[to as usize].core].core_khz);
    let (mut latency, mut occupancy) = (0, 0);
    for start in 0..STARTS {
        let mut fork = rig.clone();
        let action = PointAction::Delay(SimTime(start * START_STEP.ps()));
        let rule = PointRule { cpu: Some(CpuId(from)), point: "op_begin".to_owned(), action };
        Rig::set_rules(&mut fork, &[rule]).expect("the kernel has the point");
        let mut watch = Watch {
            caller: CpuId(from),
            target: CpuId(to),
            names: fork.points().names().to_vec(),
            polls: idle == "poll",
            push: None,
            done: None,
            served: None,
            idle: None,
        };
        let stop = Rig::run(&mut fork, &until, &mut watch);
        assert!(matches!(stop, Stop::Region { begin: false, .. }), "{bootargs}: {stop:?}");
        let span = |from: Option<SimTime>, to: Option<SimTime>| {
            let (from, to) = (from.expect("it began"), to.expect("it ended"));
            clock.cycles_in(to.saturating_sub(from))
        };
        latency += span(watch.push, watch.done);
        occupancy += span(watch.served, watch.idle);
    }
    let mean = |sum: u64| sum as f64 / STARTS as f64;
    Call { latency: mean(latency), occupancy: mean(occupancy) }
}

fn spread(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().fold(f64::MIN, f64::max) - values.fold(f64::MAX, f64::min)
}

#[test]
fn a_polling_target_answers_no_later_than_a_halted_one() {
    for pair in PAIRS {
        for variant in ["revert", "need_resched", "notify_ipi", "sm_idle"] {
            let halt = call(pair, "halt", variant, 0);
            for idle in ["mwait", "poll"] {
                let polls = call(pair, idle, variant, 0);
                let case = format!("{pair:?} {variant} {idle}: {polls:?}, halt: {halt:?}");
                assert!(polls.latency <= halt.latency, "{case}");
            }
        }
    }
}

#[test]
fn variants_differ_for_the_target_and_not_for_the_caller() {
    for pair in PAIRS {
        for idle in ["mwait", "poll"] {
            for cost in [0, VISIBLE] {
                let calls = VARIANTS.map(|variant| call(pair, idle, variant, cost));
                let [full, skip, fast] = calls;
                let case = format!("{pair:?} {idle} cost {cost}: {calls:?}");
                let latency = spread(calls.iter().map(|call| call.latency));
                let occupancy = spread(calls.iter().map(|call| call.occupancy));
                assert!(skip.occupancy <= fast.occupancy, "{case}");
                assert!(fast.occupancy <= full.occupancy, "{case}");
                assert!(latency <= SAME_CYCLES, "{case}");
                if cost == VISIBLE {
                    assert!(full.occupancy - fast.occupancy > 0.9 * cost as f64, "{case}");
                }
                assert!(latency <= SAME_SHARE * occupancy, "{case}");
            }
        }
    }
}
