//! Threads of a benchmark that work at the same time: a gate that all pass together, and a team
//! that makes a region of what they do.

use guests_abi::device::region;

use crate::arch::atomic::{AtomicU32, Ordering::Acquire, Ordering::SeqCst};
use crate::completion::Completion;
use crate::percpu::Line;
use crate::{arch, memory, testdev};

/// All arrive, the last one may act, then all go. For one use, on lines of its own.
#[repr(C, align(64))]
pub(crate) struct Gate {
    arrived: AtomicU32,
    /// A word on a line of its own, so that late arrivals do not disturb those who wait.
    open: Line<AtomicU32>,
}

impl Gate {
    /// A closed gate.
    pub(crate) const fn new() -> Gate {
        Gate { arrived: AtomicU32::new(0), open: Line(AtomicU32::new(0)) }
    }

    /// Waits for `count` threads; the last one runs `act` before all go.
    pub(crate) fn pass(&self, count: usize, act: impl FnOnce()) {
        if self.arrived.fetch_add(1, SeqCst) as usize + 1 == count {
            act();
            self.open.store(1, SeqCst);
        }
        arch::cond_load(&self.open, Acquire, |open| open != 0);
    }
}

/// Threads of a benchmark that begin its region together, and end it when all have finished.
pub(super) struct Team {
    size: usize,
    start: Gate,
    /// Threads that have finished.
    finished: Line<AtomicU32>,
    done: Completion,
}

impl Team {
    /// A team whose threads are still to be started.
    pub(super) fn new(size: usize) -> &'static Team {
        let finished = Line(AtomicU32::new(0));
        let team = Team { size, start: Gate::new(), finished, done: Completion::new() };
        memory::alloc_value(0, team)
    }

    /// Waits for all threads; the last one begins the region.
    pub(super) fn begin(&self) {
        self.start.pass(self.size, || testdev::region_begin(region::BENCH));
    }

    /// Counts this thread as finished; the last one ends the region.
    pub(super) fn end(&self) {
        if self.finished.fetch_add(1, SeqCst) as usize + 1 == self.size {
            testdev::region_end(region::BENCH);
        }
        self.done.complete();
    }

    /// Sleeps until all have finished.
    pub(super) fn wait(&self) {
        self.done.wait_for(self.size as u64);
    }
}
