//! `bench=schbench`: message threads that wake workers, which think, compute and ask again, as the
//! tool of that name does.
//!
//! `message_threads` threads have `worker_threads` workers each. A worker puts itself on its
//! message thread's list, wakes that, and sleeps; the message thread wakes all of its list. The
//! time from there to the worker's first instruction is its wake-up latency. It then thinks
//! (`sleeps` naps of 100 us) and multiplies `operations` pairs of matrices of its own, holding the
//! lock of its CPU unless `no_locking=1`: from the wake to the end is the request's latency. It
//! goes on until `runtime_us` is over. Not modelled: the pipe mode, the automatic rate, warm-up and
//! zero time.

use guests_abi::block::SampleKind;
use guests_sched::preempt::Class;

use super::gate::Crowd;
use crate::arch;
use crate::arch::atomic::Ordering::{Relaxed, Release, SeqCst};
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::completion::Completion;
use crate::config::SchBench;
use crate::link::Link;
use crate::percpu::Line;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{cpumask, machine, memory, sched, task, timer};

/// Length of a nap, us.
const NAP_US: u64 = 100;

/// Shortest request without naps that is reckoned with, us.
const NO_NAP_US: u64 = 2;

/// Records of a worker at most.
const RECORDS_MAX: u64 = 1 << 14;

/// A message thread: workers that wait for it, and what wakes it.
struct Messenger {
    crowd: &'static Crowd,
    waiting: Line<Link<Worker>>,
    posts: Completion,
    /// Workers that have ended.
    ended: Line<AtomicU32>,
}

/// A worker.
struct Worker {
    messenger: &'static Messenger,
    /// Next on the list of the message thread.
    next: Line<Link<Worker>>,
    go: Completion,
    /// Clock time of its wake.
    woken_at: Line<AtomicU64>,
    matrices: &'static [AtomicU64],
    wakes: Series,
    requests: Series,
    units: Series,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let params = &config().schbench;
    let cpu_count = machine::cpu_count();
    let (messengers, workers) = (params.message_threads, params.worker_threads);
    let crowd = Crowd::new(messengers * (1 + workers));
    let table = SeriesTable::publish(3 * messengers * workers);
    let shortest = NAP_US * params.sleeps + NO_NAP_US;
    let records = (params.runtime_us / shortest + 2).min(RECORDS_MAX);
    let mut number = 0;
    for _ in 0..messengers {
        let cpu = number % cpu_count;
        let new = Messenger {
            crowd,
            waiting: Line(Link::none()),
            posts: Completion::new(),
            ended: Line(AtomicU32::new(0)),
        };
        let messenger = memory::alloc_value(machine::node(cpu), new);
        task::kthread_run(cpu, Class::Normal, message, messenger);
        for _ in 0..workers {
            let cpu = (number + 1) % cpu_count;
            let series =
                |at, kind, records| table.define(3 * number + at, kind, cpu, number, records);
            let side = side(params.cache_footprint_kib);
            let worker = Worker {
                messenger,
                next: Line(Link::none()),
                go: Completion::new(),
                woken_at: Line(AtomicU64::new(0)),
                matrices: memory::alloc_slice(machine::node(cpu), 3 * side * side),
                wakes: series(0, SampleKind::WakeLatency, records as usize),
                requests: series(1, SampleKind::RequestLatency, records as usize),
                units: series(2, SampleKind::Units, 1),
            };
            worker.units.finish(1);
            let worker = memory::alloc_value(machine::node(cpu), worker);
            task::kthread_run(cpu, Class::Normal, work, worker);
            number += 1;
        }
    }
    crowd.run_for(params.runtime_us);
    guests_abi::exit::PASS
}

/// Rows of a matrix, so that three fill that many KiB.
fn side(kib: u64) -> usize {
    (kib as usize * 1024 / 24).isqrt().max(1)
}

extern "C" fn message(messenger: &'static Messenger) {
    arch::this_cpu().current().ts.allowed.set(Some(cpumask::all()));
    messenger.crowd.enter();
    while (messenger.ended.load(SeqCst) as usize) < config().schbench.worker_threads {
        messenger.posts.wait_for(1);
        let mut waiting = take(&messenger.waiting);
        while let Some(worker) = waiting {
            waiting = worker.next.get();
            worker.woken_at.store(arch::clock_ticks(), Relaxed);
            worker.go.complete();
        }
    }
    messenger.crowd.leave();
}

/// Takes a list whole.
fn take(list: &Link<Worker>) -> Option<&'static Worker> {
    let mut first = list.get();
    while let Err(seen) = list.compare_exchange(first, None) {
        first = seen;
    }
    first
}

/// Puts a worker on the list of its message thread.
fn push(list: &Link<Worker>, worker: &'static Worker) {
    let mut first = list.get();
    loop {
        worker.next.set(first);
        match list.compare_exchange(first, Some(worker)) {
            Ok(()) => return,
            Err(seen) => first = seen,
        }
    }
}

extern "C" fn work(worker: &'static Worker) {
    let params = &config().schbench;
    let messenger = worker.messenger;
    worker.wakes.touch();
    worker.requests.touch();
    arch::this_cpu().current().ts.allowed.set(Some(cpumask::all()));
    messenger.crowd.enter();
    let mut requests = 0;
    while !messenger.crowd.is_over() {
        push(&messenger.waiting, worker);
        messenger.posts.complete();
        worker.go.wait_for(1);
        let woken = arch::clock_ticks();
        (0..params.sleeps).for_each(|_| timer::sleep_us(NAP_US));
        compute(params, worker.matrices);
        worker.wakes.record(requests, woken - worker.woken_at.load(Relaxed));
        worker.requests.record(requests, arch::clock_ticks() - woken);
        if worker.wakes.has_room(requests) {
            requests += 1;
        }
        // What the machine reads when the region ends.
        worker.wakes.finish(requests);
        worker.requests.finish(requests);
        worker.units.record(0, requests as u64);
    }
    messenger.ended.fetch_add(1, SeqCst);
    messenger.posts.complete();
    messenger.crowd.leave();
}

/// The arithmetic of a request, under the lock of the CPU that it begins on.
fn compute(params: &SchBench, matrices: &[AtomicU64]) {
    if params.operations == 0 {
        return;
    }
    let lock = (!params.is_no_locking).then(|| &arch::this_cpu().bench_lock);
    if let Some(lock) = lock {
        while lock.swap(1, SeqCst) != 0 {
            // Whoever holds it may have been preempted here.
            arch::cpu_relax();
            sched::schedule();
        }
    }
    (0..params.operations).for_each(|_| multiply(matrices));
    if let Some(lock) = lock {
        lock.store(0, Release);
    }
}

/// Multiplies the first of three matrices by the second into the third.
fn multiply(matrices: &[AtomicU64]) {
    let words = matrices.len() / 3;
    let side = words.isqrt();
    let (a, rest) = matrices.split_at(words);
    let (b, c) = rest.split_at(words);
    for row in 0..side {
        for column in 0..side {
            let product = |at| {
                let (x, y): (&AtomicU64, &AtomicU64) =
                    (&a[row * side + at], &b[at * side + column]);
                x.load(Relaxed).wrapping_mul(y.load(Relaxed))
            };
            let sum = (0..side).map(product).fold(0, u64::wrapping_add);
            c[row * side + column].store(sum, Relaxed);
        }
    }
}
