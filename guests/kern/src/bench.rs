//! Workloads: the control thread on CPU 0 runs the one that `bench=` names, and ends the run.

mod busy;

mod c2c;

mod clients;

mod counter;

mod ctxsw;

mod dmatest;

mod gate;

mod hackbench;

mod ipistorm;

mod lostcall;

mod netperf;

mod rtapp;

mod scenario;

mod stream;

mod sysbench;

mod tbench;

mod schbench;

use guests_abi::device::region;

use crate::arch::{self, irq_restore, irq_save};
use crate::config::{Bench, CpuList};
use crate::console::{die, kprintln};
use crate::sched::resched_curr;
use crate::start::config;
use crate::task::Attributes;
use crate::{group, machine, task, testdev, timer};

/// Starts the control thread.
pub(crate) fn start() {
    task::kthread_run_with(0, Attributes { group: None, ..Attributes::default() }, control, &());
}

extern "C" fn control(_: &'static ()) {
    let code = match config().bench {
        Bench::None => guests_abi::exit::PASS,
        Bench::Idle => idle(),
        Bench::Ipistorm => ipistorm::run(),
        Bench::C2c => c2c::run(),
        Bench::Atomics => counter::run(),
        Bench::Busy => busy::run(),
        Bench::Scenario => scenario::run(),
        Bench::LostCall => lostcall::run(),
        Bench::Hackbench => hackbench::run(),
        Bench::Ctxsw => ctxsw::run(),
        Bench::Stream => stream::run(),
        Bench::Netperf => netperf::run(),
        Bench::Tbench => tbench::run(),
        Bench::Sysbench => sysbench::run(),
        Bench::RtApp => rtapp::run(),
        Bench::DmaTest => dmatest::run(),
        Bench::SchBench => schbench::run(),
    };
    group::check_load();
    kprintln!("kern: {}", guests_abi::exit::meaning(code));
    testdev::exit(code)
}

/// `bench=idle`: everybody idles for a time.
fn idle() -> u64 {
    testdev::region_begin(region::BENCH);
    timer::sleep_us(config().duration_us);
    testdev::region_end(region::BENCH);
    guests_abi::exit::PASS
}

/// The function that benchmarks call on other CPUs.
extern "C" fn empty(_: usize) {}

/// Asks a CPU to reschedule, as wakers and balancers do.
fn resched(target: usize) {
    let cpu = machine::cpu(target);
    arch::preempt_disable();
    let was_on = irq_save!(irqoff_rq);
    cpu.rq_lock_any();
    resched_curr(target);
    cpu.rq_unlock();
    irq_restore(was_on);
    arch::preempt_enable();
}

/// The CPU at a position of a list; ends the run when there is none.
fn nth_cpu(list: CpuList, at: usize, switch: &str) -> usize {
    match list.get(machine::cpu_count(), at) {
        Some(cpu) => cpu,
        None => die!(BAD_SWITCH, "{switch}: names no cpu of this machine at position {at}"),
    }
}
