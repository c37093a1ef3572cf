//! `bench=dmatest`: threads copy memory by the DMA engine, as Linux's module of that name does.
//!
//! Each of `threads_per_chan` threads makes `iterations` transfers of `test_buf_size` bytes: it
//! fills source and destination, submits, sleeps until the completion wakes it (or spins,
//! `polled=1`), and compares the destination unless `noverify=1`. Filling and comparing are no part
//! of an operation's time. The interrupt goes to `dma_irq_cpu`, and the wake comes out of its
//! handler. Threads have nice 10 and may run anywhere; each says where it went on. Not modelled:
//! random offsets and lengths, other operations than copies, several channels.

use guests_abi::block::SampleKind;
use guests_sched::preempt::Class;

use super::gate::Crowd;
use super::nth_cpu;
use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::arch::{self, irq_restore, irq_save};
use crate::config::DmaTest;
use crate::console::die;
use crate::dma::{self, Transfer};
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::task::Attributes;
use crate::{cpumask, group, machine, memory, task, tick};

/// Nice level of the threads, as in the module.
const NICE: i8 = 10;

/// What one thread has.
struct Tester {
    crowd: &'static Crowd,
    number: usize,
    from: &'static [AtomicU64],
    to: &'static [AtomicU64],
    transfer: Transfer,
    times: Series,
    places: Series,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let irq_cpu = nth_cpu(config.dma_irq_cpu, 0, "dma_irq_cpu");
    dma::open(irq_cpu);
    let params = &config.dmatest;
    let threads = params.threads;
    let crowd = Crowd::new(threads);
    let table = SeriesTable::publish(2 * threads);
    for number in 0..threads {
        // Not first where the interrupt is taken: who comes there is the question.
        let cpu = (irq_cpu + 1 + number) % cpu_count;
        let node = machine::node(cpu);
        let words = params.bytes as usize / 8;
        let from: &[AtomicU64] = memory::alloc_slice(node, words);
        let to: &[AtomicU64] = memory::alloc_slice(node, words);
        let address = |buffer: &[AtomicU64]| buffer.as_ptr() as u64;
        let transfer = Transfer::new(address(from), address(to), params.bytes);
        let series =
            |at, kind| table.define(2 * number + at, kind, cpu, number, params.iterations as usize);
        let times = series(0, SampleKind::RequestLatency);
        let places = series(1, SampleKind::Place);
        let tester = Tester { crowd, number, from, to, transfer, times, places };
        let (class, allowed) = (Class::Normal, Some(cpumask::all()));
        let attributes = Attributes { class, nice: NICE, allowed, group: group::innermost() };
        task::kthread_run_with(cpu, attributes, test, memory::alloc_value(node, tester));
    }
    crowd.run();
    guests_abi::exit::PASS
}

extern "C" fn test(tester: &'static Tester) {
    let params = &config().dmatest;
    tester.times.touch();
    tester.places.touch();
    tester.crowd.enter();
    for at in 0..params.iterations as usize {
        let salt = (tester.number as u64) << 48 | (at as u64) << 24;
        fill(tester.from, salt);
        fill(tester.to, !salt);
        let begin = arch::clock_ticks_ordered();
        dma::submit(&tester.transfer);
        wait(params, tester);
        tester.times.record(at, arch::clock_ticks_ordered() - begin);
        tester.places.record(at, arch::this_cpu().id() as u64);
        if !params.is_noverify && !is_filled(tester.to, salt) {
            die!(FAIL, "dmatest: thread {}, transfer {at}: not what was copied", tester.number);
        }
    }
    tester.times.finish(params.iterations as usize);
    tester.places.finish(params.iterations as usize);
    tester.crowd.leave();
}

/// Waits until the transfer is done.
fn wait(params: &DmaTest, tester: &Tester) {
    let until = arch::clock_ticks() + tick::ticks_from_us(1000 * params.timeout_ms);
    let done = &tester.transfer.done;
    let is_done = if params.is_polled {
        loop {
            let was_on = irq_save!(irqoff_dma);
            dma::interrupted();
            irq_restore(was_on);
            if done.take(1) {
                break true;
            }
            if arch::clock_ticks() >= until {
                break false;
            }
        }
    } else {
        done.wait_until(1, until)
    };
    if !is_done || dma::error() != 0 {
        die!(FAIL, "dmatest: thread {}: timed out, error {}", tester.number, dma::error());
    }
}

/// Fills a buffer with words that tell each other apart.
fn fill(words: &[AtomicU64], salt: u64) {
    for (at, word) in words.iter().enumerate() {
        word.store(salt ^ at as u64, Relaxed);
    }
}

/// Whether a buffer holds what [`fill`] stores.
fn is_filled(words: &[AtomicU64], salt: u64) -> bool {
    words.iter().enumerate().all(|(at, word)| word.load(Relaxed) == salt ^ at as u64)
}
