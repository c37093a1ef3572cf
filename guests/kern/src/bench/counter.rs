//! `bench=atomics`: CPUs of `on` increment one counter at the same time.
//!
//! The loop of the published contended-counter figures, by one atomic instruction or by a load and
//! compare-exchanges until one succeeds. The first CPU with `iters` increments ends it for all; a
//! sample is how many increments a CPU has made, and in which time.

use guests_abi::block::SampleKind;
use guests_sched::preempt::Class;

use super::gate::Team;
use super::nth_cpu;
use crate::arch::atomic::Ordering::{Relaxed, SeqCst};
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::config::Counter;
use crate::percpu::Line;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{arch, machine, memory, task};

/// What all share.
struct Race {
    is_over: Line<AtomicU32>,
    word: Line<AtomicU64>,
}

/// What one CPU has.
struct Runner {
    team: &'static Team,
    race: &'static Race,
    series: Series,
}

/// Increments between two looks at `is_over`.
const CHUNK: u64 = 16;

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let cpus = config.on.count(cpu_count);
    nth_cpu(config.on, 0, "on");
    let team = Team::new(cpus);
    let new = Race { is_over: Line(AtomicU32::new(0)), word: Line(AtomicU64::new(0)) };
    let race = memory::alloc_value(0, new);
    let table = SeriesTable::publish(cpus);
    let mut at = 0;
    config.on.for_each(cpu_count, |cpu| {
        let series = table.define(at, SampleKind::Increments, cpu, cpu, 2);
        let runner = memory::alloc_value(machine::node(cpu), Runner { team, race, series });
        task::kthread_run(cpu, Class::Normal, count, runner);
        at += 1;
    });
    team.wait();
    guests_abi::exit::PASS
}

extern "C" fn count(runner: &'static Runner) {
    let Runner { team, race, series } = runner;
    series.touch();
    team.begin();
    match config().counter {
        Counter::Atomic => measure(race, series, |word| {
            word.fetch_add(1, SeqCst);
        }),
        Counter::Cas => measure(race, series, |word| {
            let mut seen = word.load(Relaxed);
            while let Err(other) = word.compare_exchange(seen, seen + 1, SeqCst, Relaxed) {
                seen = other;
            }
        }),
    }
    team.end();
}

/// Increments until somebody has made enough, and says how often and how long.
#[inline(always)]
fn measure(race: &Race, series: &Series, increment: impl Fn(&AtomicU64)) {
    let begin = arch::clock_ticks_ordered();
    let mut count = 0;
    while race.is_over.load(Relaxed) == 0 {
        (0..CHUNK).for_each(|_| increment(&race.word));
        count += CHUNK;
        if count >= config().iters {
            race.is_over.store(1, SeqCst);
        }
    }
    series.record(0, arch::clock_ticks_ordered() - begin);
    series.record(1, count);
    series.finish(2);
}
