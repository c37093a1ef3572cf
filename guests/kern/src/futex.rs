//! Waiting for a word, as futexes do: waiters lie in buckets that the word's address chooses.
//!
//! A waker that finds a bucket without waiters takes no lock; it wakes after it has dropped the
//! lock. Modelled: wait and wake by private words of the kernel. Not modelled: user space, time
//! limits, requeueing, priority inheritance; there are 64 buckets a CPU, not 256.

use guests_abi::class::LineClass;

use crate::arch::atomic::Ordering::{Relaxed, SeqCst};
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::arch::{self, irq_restore, irq_save};
use crate::link::Link;
use crate::lock::Lock;
use crate::percpu::Line;
use crate::sched::schedule;
use crate::task::{Task, state};
use crate::testdev;
use crate::wait::{Sleeper, Sleepers};
use crate::wake::{set_current_state, try_to_wake_up};
use crate::{machine, memory};

/// Buckets for each CPU.
const BUCKETS_PER_CPU: usize = 64;

/// A bucket, one line; zeros are an empty one.
#[repr(C)]
pub(crate) struct Bucket {
    /// Those in the list and those who are about to be.
    waiters: AtomicU64,
    lock: Lock,
    sleepers: Sleepers,
}

/// The table; read-mostly.
struct Table(&'static [Line<Bucket>]);

static TABLE: Link<Table> = Link::none();

/// Makes the table; the control thread, before anybody waits.
pub(crate) fn init() {
    let buckets = (BUCKETS_PER_CPU * machine::cpu_count()).next_power_of_two();
    let buckets: &[Line<Bucket>] = memory::alloc_slice(0, buckets);
    testdev::declare_lines(buckets.as_ptr() as u64, size_of_val(buckets), LineClass::Futex);
    TABLE.set(Some(memory::alloc_value(0, Table(buckets))));
}

impl Bucket {
    /// The bucket of a word.
    fn of(word: &AtomicU32) -> &'static Bucket {
        let buckets = TABLE.get_some().0;
        let hash = (word.as_ptr() as u64 >> 2).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        &buckets[(hash >> 32) as usize & (buckets.len() - 1)]
    }

    fn lock(&self) -> bool {
        arch::preempt_disable();
        let was_on = irq_save!(irqoff_wait_queue);
        self.lock.lock();
        was_on
    }

    fn unlock(&self, was_on: bool) {
        self.lock.unlock();
        irq_restore(was_on);
        arch::preempt_enable();
    }

    /// Takes one who waits for the word off the list.
    fn take(&self, word: &AtomicU32) -> Option<&'static Task> {
        let was_on = self.lock();
        let found = self.sleepers.iter().find(|sleeper| sleeper.key == word.as_ptr() as u64);
        let task = found.map(|sleeper| {
            let task = sleeper.task();
            self.sleepers.leave(sleeper);
            self.waiters.fetch_sub(1, SeqCst);
            task
        });
        self.unlock(was_on);
        task
    }
}

/// Sleeps until the word is woken, if it has this value; returns whether it slept.
#[expect(unsafe_code, reason = "the sleeper lies on the stack")]
pub(crate) fn wait(word: &AtomicU32, value: u32) -> bool {
    let bucket = Bucket::of(word);
    let sleeper = Sleeper::new(word.as_ptr() as u64);
    // SAFETY: the loop below ends when it is off the list.
    let sleeper = unsafe { sleeper.on_stack() };
    bucket.waiters.fetch_add(1, SeqCst);
    let was_on = bucket.lock();
    let is_same = word.load(Relaxed) == value;
    if is_same {
        set_current_state(state::INTERRUPTIBLE);
        bucket.sleepers.enter_last(sleeper);
    } else {
        bucket.waiters.fetch_sub(1, SeqCst);
    }
    bucket.unlock(was_on);
    while sleeper.is_queued() {
        schedule();
        set_current_state(state::INTERRUPTIBLE);
    }
    set_current_state(state::RUNNING);
    is_same
}

/// Wakes up to `count` of those who wait for the word, which the caller has changed by an atomic
/// of full order; returns how many.
pub(crate) fn wake(word: &AtomicU32, count: usize) -> usize {
    let bucket = Bucket::of(word);
    let mut woken = 0;
    while woken < count && bucket.waiters.load(Relaxed) != 0 {
        let Some(task) = bucket.take(word) else { break };
        try_to_wake_up(task);
        woken += 1;
    }
    woken
}
