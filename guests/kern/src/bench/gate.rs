//! Threads of a benchmark that work at the same time: a gate that all pass together, a team that
//! makes a region of what they do, and a crowd, which may be more than there are CPUs.

use guests_abi::class::LineClass;
use guests_abi::device::region;

use crate::arch::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::SeqCst};
use crate::completion::Completion;
use crate::percpu::Line;
use crate::wait::WaitQueue;
use crate::{arch, memory, testdev, timer};

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

    /// Counts this thread as finished; the last one ends the region, and wakes who waits.
    pub(super) fn end(&self) {
        if self.finished.fetch_add(1, SeqCst) as usize + 1 == self.size {
            testdev::region_end(region::BENCH);
            self.done.complete();
        }
    }

    /// Sleeps until all have finished.
    pub(super) fn wait(&self) {
        self.done.wait_for(1);
    }
}

/// Threads of a benchmark that sleep until all are ready.
pub(super) struct Crowd {
    size: usize,
    ready: Line<AtomicU32>,
    all_are_ready: Completion,
    gate: Line<WaitQueue>,
    phase: Line<AtomicU32>,
    left: Line<AtomicU32>,
    all_have_left: Completion,
}

/// Phases of a crowd.
mod phase {
    pub(super) const GATHER: u32 = 0;
    pub(super) const WORK: u32 = 1;
    pub(super) const OVER: u32 = 2;
}

/// Time that the last threads get to fall asleep before the region, us.
const SETTLE_US: u64 = 20;

impl Crowd {
    /// A crowd whose threads are still to be started.
    pub(super) fn new(size: usize) -> &'static Crowd {
        let new = Crowd {
            size,
            ready: Line(AtomicU32::new(0)),
            all_are_ready: Completion::new(),
            gate: Line(WaitQueue::new()),
            phase: Line(AtomicU32::new(phase::GATHER)),
            left: Line(AtomicU32::new(0)),
            all_have_left: Completion::new(),
        };
        let crowd = memory::alloc_value(0, new);
        testdev::declare(crowd, LineClass::Bench);
        testdev::declare(&crowd.gate, LineClass::Wq);
        crowd
    }

    /// A thread is ready, and sleeps until the region has begun.
    pub(super) fn enter(&self) {
        if self.ready.fetch_add(1, SeqCst) as usize + 1 == self.size {
            self.all_are_ready.complete();
        }
        self.gate.wait_event(|| self.phase.load(Acquire) != phase::GATHER);
    }

    /// Whether the time of [`Crowd::run_for`] is over.
    #[inline]
    pub(super) fn is_over(&self) -> bool {
        self.phase.load(Relaxed) == phase::OVER
    }

    /// A thread has finished.
    pub(super) fn leave(&self) {
        if self.left.fetch_add(1, SeqCst) as usize + 1 == self.size {
            self.all_have_left.complete();
        }
    }

    /// Makes a region of all that the threads do.
    pub(super) fn run(&self) {
        self.open();
        self.all_have_left.wait_for(1);
        testdev::region_end(region::BENCH);
    }

    /// Makes a region of what the threads do in a time, then waits until they have seen the end.
    pub(super) fn run_for(&self, us: u64) {
        self.open();
        timer::sleep_us(us);
        testdev::region_end(region::BENCH);
        self.phase.store(phase::OVER, SeqCst);
        self.all_have_left.wait_for(1);
    }

    fn open(&self) {
        self.all_are_ready.wait_for(1);
        timer::sleep_us(SETTLE_US);
        testdev::region_begin(region::BENCH);
        self.phase.store(phase::WORK, SeqCst);
        self.gate.wake_up_all();
    }
}
