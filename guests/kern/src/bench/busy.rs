//! `bench=busy`: CPUs of `on` work on memory, each at its own pace, as those of a busy kernel do.
//!
//! `iters` rounds of a hundred accesses: 94 to lines that stay in the L1, five along a buffer that
//! only fits the L2, one atomic addition to a counter that four neighbours of the list share.

use guests_sched::preempt::Class;

use super::gate::Team;
use super::nth_cpu;
use crate::arch::atomic::AtomicU64;
use crate::arch::atomic::Ordering::Relaxed;
use crate::percpu::Line;
use crate::start::config;
use crate::{machine, memory, task};

/// Words of the buffer: 128 KiB, more than an L1.
const SWEEP_WORDS: usize = 16 * 1024;
/// Words that stay in the L1: 4 KiB.
const NEAR_WORDS: usize = 512;
/// Accesses to each of the two in a round.
const SWEEPS: usize = 5;
const NEAR_ACCESSES: usize = 94;
/// CPUs to a counter.
const SHARED_BY: usize = 4;

/// What one CPU works on.
struct Work {
    team: &'static Team,
    shared: &'static Line<AtomicU64>,
    near: &'static [AtomicU64],
    sweep: &'static [AtomicU64],
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let mut shared_at = nth_cpu(config.on, 0, "on");
    let mut shared = memory::alloc_value(machine::node(shared_at), Line(AtomicU64::new(0)));
    let team = Team::new(config.on.count(cpu_count));
    let mut at = 0;
    config.on.for_each(cpu_count, |cpu| {
        if at % SHARED_BY == 0 && cpu != shared_at {
            shared_at = cpu;
            shared = memory::alloc_value(machine::node(cpu), Line(AtomicU64::new(0)));
        }
        let node = machine::node(cpu);
        let near = memory::alloc_slice(node, NEAR_WORDS);
        let sweep = memory::alloc_slice(node, SWEEP_WORDS);
        let work = memory::alloc_value(node, Work { team, shared, near, sweep });
        task::kthread_run(cpu, Class::Normal, work_loop, work);
        at += 1;
    });
    team.wait();
    guests_abi::exit::PASS
}

extern "C" fn work_loop(work: &'static Work) {
    for word in work.near.iter().chain(work.sweep).step_by(8) {
        word.store(1, Relaxed);
    }
    work.team.begin();
    let mut at = 0;
    let mut sum = 0;
    for round in 0..config().iters as usize {
        for n in 0..NEAR_ACCESSES {
            let word = &work.near[(round + 7 * n) % NEAR_WORDS];
            if n % 4 == 0 {
                word.store(sum, Relaxed);
            } else {
                sum += word.load(Relaxed);
            }
        }
        for _ in 0..SWEEPS {
            sum += work.sweep[at].load(Relaxed);
            at = (at + 8) % SWEEP_WORDS;
        }
        work.shared.fetch_add(sum, Relaxed);
    }
    work.team.end();
}
