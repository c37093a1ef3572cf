//! `bench=c2c`: compare-exchange ping-pong between two CPUs on one line.
//!
//! The loop of the published core-to-core figures: each side tries, without a pause, to exchange
//! the other's mark for its own; a failed try takes the line as well. A sample is the time of
//! `iters` round trips, each two hand-overs. Pairs run one after the other.

use guests_abi::block::SampleKind;
use guests_abi::class::LineClass;
use guests_abi::device::region;
use guests_sched::preempt::Class;

use super::gate::Gate;
use super::nth_cpu;
use crate::arch::atomic::{AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use crate::completion::Completion;
use crate::console::die;
use crate::points::point;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{arch, machine, memory, task, testdev};

/// What the two threads of a pair share, on lines that the loop does not touch.
struct Pair {
    /// The line that goes to and fro.
    word: &'static AtomicU64,
    gate: Gate,
    done: Completion,
    series: Series,
}

const PING: u64 = 1;
const PONG: u64 = 2;

/// Runs all pairs; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let pairs = config.c2c_a.count(cpu_count);
    if pairs == 0 || pairs != config.c2c_b.count(cpu_count) {
        die!(BAD_SWITCH, "c2c_a and c2c_b name {pairs} and another number of cpus");
    }
    if !memory::has_node(config.c2c_home) {
        die!(BAD_SWITCH, "c2c_home={}: no such node, or it has no memory", config.c2c_home);
    }
    let word = &memory::alloc_slice::<AtomicU64>(config.c2c_home, 8)[0];
    let address = core::ptr::from_ref(word) as u64;
    testdev::declare_lines(address, guests_abi::layout::LINE_BYTES, LineClass::Bench);
    let table = SeriesTable::publish(pairs);
    testdev::region_begin(region::BENCH);
    for at in 0..pairs {
        let (a, b) = (nth_cpu(config.c2c_a, at, "c2c_a"), nth_cpu(config.c2c_b, at, "c2c_b"));
        if a == b {
            die!(BAD_SWITCH, "c2c: cpu {a} cannot be both sides of a pair");
        }
        let samples = config.c2c_samples as usize;
        let series = table.define(at, SampleKind::RoundTrips, a, b, samples);
        word.store(PONG, SeqCst);
        let pair = memory::alloc_value(
            machine::node(a),
            Pair { word, gate: Gate::new(), done: Completion::new(), series },
        );
        task::kthread_run(a, Class::Normal, ping, pair);
        task::kthread_run(b, Class::Normal, pong, pair);
        pair.done.wait_for(2);
    }
    testdev::region_end(region::BENCH);
    guests_abi::exit::PASS
}

extern "C" fn ping(pair: &'static Pair) {
    let config = config();
    pair.series.touch();
    pair.gate.pass(2, || ());
    exchange(pair.word, PONG, PING, config.iters);
    for sample in 0..config.c2c_samples as usize {
        point!(op_begin);
        let begin = arch::clock_ticks_ordered();
        exchange(pair.word, PONG, PING, config.iters);
        let end = arch::clock_ticks_ordered();
        point!(op_end);
        pair.series.record(sample, end - begin);
    }
    pair.series.finish(config.c2c_samples as usize);
    pair.done.complete();
}

extern "C" fn pong(pair: &'static Pair) {
    let config = config();
    pair.gate.pass(2, || ());
    // One run of `iters` before the first sample warms both sides up.
    exchange(pair.word, PING, PONG, config.iters * (config.c2c_samples + 1));
    pair.done.complete();
}

/// Exchanges `from` for `to`, `count` times, trying until each succeeds.
#[inline(never)]
fn exchange(word: &AtomicU64, from: u64, to: u64, count: u64) {
    arch::align_code();
    for _ in 0..count {
        while word.compare_exchange(from, to, Relaxed, Relaxed).is_err() {}
    }
}
