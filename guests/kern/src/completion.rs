//! A count that one task waits for, asleep.

use crate::arch;
use crate::arch::atomic::{AtomicU64, Ordering::SeqCst};
use crate::link::Link;
use crate::sched::schedule;
use crate::task::{Task, state};
use crate::timer::schedule_until;
use crate::wake::{set_current_state, try_to_wake_up};

/// Number of events so far, and who waits for them. One waiter at a time.
#[repr(C, align(64))]
pub(crate) struct Completion {
    done: AtomicU64,
    waiter: Link<Task>,
}

impl Completion {
    /// Nothing is done, nobody waits.
    pub(crate) const fn new() -> Completion {
        Completion { done: AtomicU64::new(0), waiter: Link::none() }
    }

    /// Counts one event and wakes the waiter.
    pub(crate) fn complete(&self) {
        self.done.fetch_add(1, SeqCst);
        if let Some(waiter) = self.waiter.get() {
            try_to_wake_up(waiter);
        }
    }

    /// Takes `count` events off, if there were so many; only who waits may.
    pub(crate) fn take(&self, count: u64) -> bool {
        let is_done = self.done.load(SeqCst) >= count;
        if is_done {
            self.done.fetch_sub(count, SeqCst);
        }
        is_done
    }

    /// As [`wait_for`](Completion::wait_for), but no longer than to a clock time; returns whether
    /// there were so many.
    pub(crate) fn wait_until(&self, count: u64, until: u64) -> bool {
        self.waiter.set(Some(arch::this_cpu().current()));
        loop {
            set_current_state(state::INTERRUPTIBLE);
            if self.done.load(SeqCst) >= count || arch::clock_ticks() >= until {
                break;
            }
            schedule_until(until);
        }
        set_current_state(state::RUNNING);
        self.waiter.set(None);
        self.take(count)
    }

    /// Sleeps until there were `count` events, then takes them off.
    pub(crate) fn wait_for(&self, count: u64) {
        self.waiter.set(Some(arch::current()));
        loop {
            set_current_state(state::INTERRUPTIBLE);
            if self.done.load(SeqCst) >= count {
                break;
            }
            schedule();
        }
        set_current_state(state::RUNNING);
        self.waiter.set(None);
        self.done.fetch_sub(count, SeqCst);
    }
}
