//! `bench=lostcall`: many calls to an idle CPU, each of which must be served within `bound_us`.
//!
//! The tick of the target is stopped and it has no timer, so nothing repairs a lost wake-up by
//! accident. The caller spins 0..=`spread` cycles before each call, which walks the call over
//! the target's way back to idle; the machine may add seeded delays at the points of both. A
//! call that is late is counted, and repaired by an extra IPI.
//!
//! With `race=1` half of the calls follow close on a `resched_curr` of the target: that makes it
//! leave its idle loop with an empty queue, just when the call is pushed. A call alone never
//! meets that, since its own push comes before its signal.

use guests_abi::block::SampleKind;
use guests_abi::device::region;
use guests_sched::preempt::Class;

use super::{empty, nth_cpu, resched};
use crate::completion::Completion;
use crate::console::{die, kprintln};
use crate::points::point;
use crate::rng::Rng;
use crate::samples::{Series, SeriesTable};
use crate::smp::call_single_bounded;
use crate::start::config;
use crate::{arch, machine, memory, task, testdev, tick};

/// Largest spin between a reschedule and the call behind it, cycles: some line transfers.
const RACE_SPREAD: u64 = 512;

/// What control thread and caller share.
struct Trial {
    target: usize,
    series: Series,
    lost: crate::arch::atomic::AtomicU64,
    done: Completion,
}

/// Runs all tries; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let (from, target) = (nth_cpu(config.from, 0, "from"), nth_cpu(config.to, 0, "to"));
    if from == target || !config.policy.is_nohz {
        die!(BAD_SWITCH, "lostcall: needs two cpus and nohz=1");
    }
    let series = SeriesTable::publish(1).define(0, SampleKind::LostCalls, from, target, 1);
    let lost = crate::arch::atomic::AtomicU64::new(0);
    let trial = memory::alloc_value(
        machine::node(from),
        Trial { target, series, lost, done: Completion::new() },
    );
    task::kthread_run(from, Class::Normal, try_loop, trial);
    trial.done.wait_for(1);
    let lost = trial.lost.load(crate::arch::atomic::Ordering::Relaxed);
    if lost == 0 {
        return guests_abi::exit::PASS;
    }
    kprintln!("kern: {lost} of {} calls were lost", config.tries);
    guests_abi::exit::LOST_CALL
}

extern "C" fn try_loop(trial: &'static Trial) {
    let config = config();
    let bound_ticks = tick::ticks_from_us(config.bound_us);
    testdev::region_begin(region::BENCH);
    let mut rng = Rng::new(testdev::seed(), arch::this_cpu().id());
    let mut lost = 0;
    for _ in 0..config.tries {
        arch::spin_cycles(rng.up_to(config.spread));
        if config.is_race && rng.up_to(1) == 1 {
            resched(trial.target);
            arch::spin_cycles(rng.up_to(RACE_SPREAD));
        }
        point!(op_begin);
        if !call_single_bounded(trial.target, empty, 0, bound_ticks) {
            lost += 1;
        }
        point!(op_end);
    }
    trial.series.record(0, lost);
    trial.series.finish(1);
    testdev::region_end(region::BENCH);
    trial.lost.store(lost, crate::arch::atomic::Ordering::Relaxed);
    trial.done.complete();
}
