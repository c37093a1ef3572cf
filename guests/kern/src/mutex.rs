//! Mutexes: locks whose waiters sleep.
//!
//! As in Linux the word is the owner; who finds it taken spins for as long as the owner runs and
//! nobody wants the CPU, and sleeps else. Owner and wait queue are one line. Not modelled: the
//! queue of the spinners (all look at the owner), and the hand-over to a waiter that lost the race
//! for a free mutex, which goes to the end of the queue here.

use crate::arch;
use crate::arch::atomic::Ordering::Relaxed;
use crate::link::Link;
use crate::sched::need_resched;
use crate::task::Task;
use crate::wait::WaitQueue;

/// A mutex.
#[repr(C)]
pub(crate) struct Mutex {
    owner: Link<Task>,
    waiters: WaitQueue,
}

impl Mutex {
    /// A free mutex.
    pub(crate) const fn new() -> Mutex {
        Mutex { owner: Link::none(), waiters: WaitQueue::new() }
    }

    /// Takes the mutex; tasks only.
    #[inline]
    pub(crate) fn lock(&self) {
        if !self.try_lock() && !self.spin() {
            self.waiters.wait_event_exclusive(|| self.try_lock());
        }
    }

    #[inline]
    fn try_lock(&self) -> bool {
        self.owner.try_fill(arch::current())
    }

    /// Spins while the owner runs; returns whether that gave us the mutex.
    #[cold]
    fn spin(&self) -> bool {
        while !need_resched() {
            match self.owner.get() {
                None if self.try_lock() => return true,
                None => {}
                Some(owner) if owner.ts.on_cpu.load(Relaxed) == 0 => return false,
                Some(_) => arch::cpu_relax(),
            }
        }
        false
    }

    /// Frees the mutex, and wakes one of those who sleep for it.
    #[inline]
    pub(crate) fn unlock(&self) {
        self.owner.clear();
        if self.waiters.is_active() {
            self.waiters.wake_up();
        }
    }
}
