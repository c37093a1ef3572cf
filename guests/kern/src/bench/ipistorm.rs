//! `bench=ipistorm`: CPUs of `cpulist` each make `numipi` function calls.
//!
//! With `single=1` the target is own number + `offset`, modulo all CPUs; else every other CPU.
//! After `warmup` calls the last thread to arrive begins the region; from there on each thread
//! has the seed of the run. Before each call it spins 0..=`jitter` cycles, which the sample of
//! the call does not contain.

use guests_abi::block::SampleKind;
use guests_sched::preempt::Class;

use super::gate::Team;
use super::{empty, nth_cpu};
use crate::config::Config;
use crate::points::point;
use crate::rng::Rng;
use crate::samples::{Series, SeriesTable};
use crate::smp::{CallMany, smp_call_function_many, smp_call_function_single};
use crate::start::config;
use crate::{arch, machine, memory, task, testdev};

/// What one caller has for itself.
struct Caller {
    team: &'static Team,
    target: usize,
    /// Present when every other CPU is called.
    many: Option<CallMany>,
    series: Series,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let callers = config.cpulist.count(cpu_count);
    nth_cpu(config.cpulist, 0, "cpulist");
    let team = Team::new(callers);
    let table = SeriesTable::publish(callers);
    let mut at = 0;
    config.cpulist.for_each(cpu_count, |cpu| {
        let target = (cpu + config.offset) % cpu_count;
        let peer = if config.is_single { target } else { cpu };
        let series = table.define(at, SampleKind::Call, cpu, peer, config.numipi as usize);
        let many = (!config.is_single).then(|| CallMany::new(cpu));
        let caller = memory::alloc_value(machine::node(cpu), Caller { team, target, many, series });
        task::kthread_run(cpu, Class::Normal, call_loop, caller);
        at += 1;
    });
    team.wait();
    guests_abi::exit::PASS
}

extern "C" fn call_loop(caller: &'static Caller) {
    let config = config();
    for _ in 0..config.warmup {
        call(config, caller);
    }
    caller.series.touch();
    caller.team.begin();
    let mut rng = Rng::new(testdev::seed(), arch::this_cpu().id());
    for at in 0..config.numipi as usize {
        if config.policy.jitter != 0 {
            arch::spin_cycles(rng.up_to(config.policy.jitter));
        }
        let begin = arch::clock_ticks_ordered();
        point!(op_begin);
        call(config, caller);
        point!(op_end);
        caller.series.record(at, arch::clock_ticks_ordered() - begin);
    }
    caller.series.finish(config.numipi as usize);
    caller.team.end();
}

#[inline]
fn call(config: &Config, caller: &Caller) {
    match &caller.many {
        None => smp_call_function_single(caller.target, empty, 0, config.is_wait),
        Some(many) => {
            let all = |each: &mut dyn FnMut(usize)| (0..machine::cpu_count()).for_each(each);
            smp_call_function_many(many, all, empty, 0, config.is_wait);
        }
    }
}
