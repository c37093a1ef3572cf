//! Start gate of benchmark threads: all arrive, the last one may act, then all go.

use crate::arch;
use crate::arch::atomic::{AtomicU32, Ordering::Acquire, Ordering::SeqCst};

/// A gate for one use, on lines of its own.
#[repr(C, align(64))]
pub(crate) struct Gate {
    arrived: AtomicU32,
    /// A word on a line of its own, so that late arrivals do not disturb those who wait.
    open: crate::percpu::Line<AtomicU32>,
}

impl Gate {
    /// A closed gate.
    pub(crate) const fn new() -> Gate {
        Gate { arrived: AtomicU32::new(0), open: crate::percpu::Line(AtomicU32::new(0)) }
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

/// A count of threads that have finished, on a line of its own.
#[repr(C, align(64))]
pub(crate) struct Finish(AtomicU32);

impl Finish {
    /// Nobody has finished.
    pub(crate) const fn new() -> Finish {
        Finish(AtomicU32::new(0))
    }

    /// Counts this thread; returns whether it is the last of `count`.
    pub(crate) fn arrive(&self, count: usize) -> bool {
        self.0.fetch_add(1, SeqCst) as usize + 1 == count
    }
}
