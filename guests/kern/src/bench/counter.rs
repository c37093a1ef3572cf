//! `bench=atomics`: CPUs of `on` increment one counter at the same time.
//!
//! The loop of the published contended-counter figures, by one atomic instruction or by a load and
//! compare-exchanges until one succeeds. The first CPU with `iters` increments ends it for all; a
//! sample is how many increments a CPU has made, and in which time.

use guests_abi::block::SampleKind;
use guests_abi::device::region;
use guests_sched::preempt::Class;

use super::gate::Gate;
use super::nth_cpu;
use crate::arch::atomic::Ordering::{Relaxed, SeqCst};
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::completion::Completion;
use crate::config::Counter;
use crate::link::Link;
use crate::percpu::Line;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{arch, machine, memory, task, testdev};

/// What all share.
struct Race {
    cpus: usize,
    gate: Gate,
    is_over: Line<AtomicU32>,
    word: Line<AtomicU64>,
    done: Completion,
}

static RACE: Link<Race> = Link::none();

/// Increments between two looks at `is_over`.
const CHUNK: u64 = 16;

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let cpus = config.on.count(cpu_count);
    nth_cpu(config.on, 0, "on");
    let race = memory::alloc_value(
        0,
        Race {
            cpus,
            gate: Gate::new(),
            is_over: Line(AtomicU32::new(0)),
            word: Line(AtomicU64::new(0)),
            done: Completion::new(),
        },
    );
    RACE.set(Some(race));
    let table = SeriesTable::publish(cpus);
    let mut at = 0;
    config.on.for_each(cpu_count, |cpu| {
        let series = table.define(at, SampleKind::Increments, cpu, cpu, 2);
        let series = memory::alloc_value(machine::node(cpu), series);
        task::kthread_run(cpu, Class::Normal, count, core::ptr::from_ref(series) as usize);
        at += 1;
    });
    race.done.wait_for(cpus as u64);
    guests_abi::exit::PASS
}

#[expect(unsafe_code, reason = "makes a reference of a thread's argument")]
extern "C" fn count(series: usize) {
    // SAFETY: `run` passed the address of a value that is never freed.
    let series = unsafe { &*(series as *const Series) };
    let race = RACE.get_some();
    series.touch();
    race.gate.pass(race.cpus, || testdev::region_begin(region::BENCH));
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
    race.done.complete();
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
