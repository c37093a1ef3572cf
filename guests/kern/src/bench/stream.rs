//! `bench=stream`: the four array kernels of STREAM, on CPUs of `on`, one thread each.
//!
//! copy, scale, add, triad over three arrays of `words` words on the CPU's node, `iters` rounds.
//! Nobody sleeps, wakes or calls in the region: no policy of the scheduler may change it. A unit
//! is a byte that a kernel reads or writes. Not modelled: floating point (words are integers), the
//! barrier between kernels.

use guests_abi::block::SampleKind;
use guests_abi::class::LineClass;
use guests_sched::preempt::Class;

use super::gate::Team;
use super::nth_cpu;
use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{machine, memory, task, testdev};

/// Bytes that the four kernels move for each word of an array.
const BYTES_PER_WORD: u64 = (2 + 2 + 3 + 3) * 8;

const SCALE: u64 = 3;

/// What one CPU works on.
struct Work {
    team: &'static Team,
    arrays: [&'static [AtomicU64]; 3],
    series: Series,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    nth_cpu(config.on, 0, "on");
    let threads = config.on.count(cpu_count);
    let team = Team::new(threads);
    let table = SeriesTable::publish(threads);
    let mut at = 0;
    config.on.for_each(cpu_count, |cpu| {
        let node = machine::node(cpu);
        let series = table.define(at, SampleKind::Units, cpu, cpu, 1);
        let work = Work { team, arrays: core::array::from_fn(|_| new_array(node)), series };
        task::kthread_run(cpu, Class::Normal, work_loop, memory::alloc_value(node, work));
        at += 1;
    });
    team.wait();
    guests_abi::exit::PASS
}

fn new_array(node: usize) -> &'static [AtomicU64] {
    let words = memory::alloc_untouched(node, config().messages.words);
    testdev::declare_lines(words.as_ptr() as u64, size_of_val(words), LineClass::Bench);
    words
}

extern "C" fn work_loop(work: &'static Work) {
    let Work { team, arrays: [a, b, c], series } = work;
    series.touch();
    series.finish(1);
    [a, b, c].iter().for_each(|array| array.iter().for_each(|word| word.store(1, Relaxed)));
    team.begin();
    let words = config().messages.words as u64;
    for round in 1..=config().iters {
        each(c, a, |a| a);
        each(b, c, |c| SCALE.wrapping_mul(c));
        each2(c, a, b, |a, b| a.wrapping_add(b));
        each2(a, b, c, |b, c| b.wrapping_add(SCALE.wrapping_mul(c)));
        series.record(0, round * words * BYTES_PER_WORD);
    }
    team.end();
}

#[inline(always)]
fn each(to: &[AtomicU64], from: &[AtomicU64], kernel: impl Fn(u64) -> u64) {
    for (to, from) in to.iter().zip(from) {
        to.store(kernel(from.load(Relaxed)), Relaxed);
    }
}

#[inline(always)]
fn each2(
    to: &[AtomicU64],
    from: &[AtomicU64],
    other: &[AtomicU64],
    kernel: impl Fn(u64, u64) -> u64,
) {
    for ((to, from), other) in to.iter().zip(from).zip(other) {
        to.store(kernel(from.load(Relaxed), other.load(Relaxed)), Relaxed);
    }
}
