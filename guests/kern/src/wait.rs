//! Wait queues: tasks that sleep until something is so, and those who wake them.
//!
//! As in Linux: a line with a lock and a list of sleepers, each on its own stack.
//! Those who wait exclusively stand behind the others, and a wake-up ends with the first of them
//! that it wakes. The waker takes a sleeper off the list when it has woken it. Not modelled: wake
//! functions of a sleeper's own, and the pause that a long walk made up to 6.5.

use crate::arch::atomic::AtomicU8;
use crate::arch::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::arch::{self, irq_restore, irq_save};
use crate::link::Link;
use crate::lock::Lock;
use crate::sched::schedule;
use crate::task::{Task, state};
use crate::wake::{set_current_state, try_to_wake_up_as};

/// A task that sleeps; lies on its stack.
#[repr(C)]
pub(crate) struct Sleeper {
    next: Link<Sleeper>,
    prev: Link<Sleeper>,
    task: Link<Task>,
    /// What it waits for; the list's owner says what that means.
    pub(crate) key: u64,
    /// 1 while it is on the list; the last word that who takes it off writes.
    is_queued: AtomicU8,
}

impl Sleeper {
    /// The running task, on no list.
    pub(crate) fn new(key: u64) -> Sleeper {
        let task = Link::to(arch::current());
        Sleeper { next: Link::none(), prev: Link::none(), task, key, is_queued: AtomicU8::new(0) }
    }

    /// A reference that a list can keep.
    ///
    /// # Safety
    ///
    /// The sleeper stays where it is until it is off the list.
    #[expect(unsafe_code, reason = "a sleeper lies on its stack, for as long as it sleeps")]
    pub(crate) unsafe fn on_stack(&self) -> &'static Sleeper {
        // SAFETY: the caller's promise; panics do not unwind, and stacks are never freed.
        unsafe { &*core::ptr::from_ref(self) }
    }

    /// Whether it is on a list; if not, whoever took it off is done with it.
    #[inline]
    pub(crate) fn is_queued(&self) -> bool {
        self.is_queued.load(Acquire) != 0
    }

    /// The task that sleeps.
    pub(crate) fn task(&self) -> &'static Task {
        self.task.get_some()
    }
}

/// Sleepers in order; whoever uses it holds a lock.
#[repr(C)]
pub(crate) struct Sleepers {
    first: Link<Sleeper>,
    last: Link<Sleeper>,
}

impl Sleepers {
    /// Nobody.
    pub(crate) const fn new() -> Sleepers {
        Sleepers { first: Link::none(), last: Link::none() }
    }

    /// Puts a sleeper before all others.
    fn enter_first(&self, sleeper: &'static Sleeper) {
        self.enter(sleeper, None, self.first.get());
    }

    /// Puts a sleeper behind all others.
    pub(crate) fn enter_last(&self, sleeper: &'static Sleeper) {
        self.enter(sleeper, self.last.get(), None);
    }

    fn enter(
        &self,
        sleeper: &'static Sleeper,
        prev: Option<&'static Sleeper>,
        next: Option<&'static Sleeper>,
    ) {
        sleeper.prev.set(prev);
        sleeper.next.set(next);
        prev.map_or(&self.first, |prev| &prev.next).set(Some(sleeper));
        next.map_or(&self.last, |next| &next.prev).set(Some(sleeper));
        sleeper.is_queued.store(1, Relaxed);
    }

    /// Takes a sleeper off; it may be gone when this returns.
    pub(crate) fn leave(&self, sleeper: &'static Sleeper) {
        let (prev, next) = (sleeper.prev.get(), sleeper.next.get());
        prev.map_or(&self.first, |prev| &prev.next).set(next);
        next.map_or(&self.last, |next| &next.prev).set(prev);
        sleeper.is_queued.store(0, Release);
    }

    /// Whether nobody is here, to a look without the lock.
    #[inline]
    fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// All in order; the one that was handed out last may leave.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &'static Sleeper> {
        let mut next = self.first.get();
        core::iter::from_fn(move || {
            let sleeper = next?;
            next = sleeper.next.get();
            Some(sleeper)
        })
    }
}

/// A wait queue; the key of a sleeper is [`EXCLUSIVE`] or 0.
#[repr(C)]
pub(crate) struct WaitQueue {
    lock: Lock,
    sleepers: Sleepers,
}

/// Key of those of whom a wake-up wakes one.
const EXCLUSIVE: u64 = 1;

impl WaitQueue {
    /// A queue without waiters.
    pub(crate) const fn new() -> WaitQueue {
        WaitQueue { lock: Lock::new(), sleepers: Sleepers::new() }
    }

    /// Sleeps until the condition holds; every wake-up reaches this task.
    pub(crate) fn wait_event(&self, is_met: impl FnMut() -> bool) {
        self.wait(0, is_met);
    }

    /// Sleeps until the condition holds; a wake-up reaches one of those who wait like this.
    pub(crate) fn wait_event_exclusive(&self, is_met: impl FnMut() -> bool) {
        self.wait(EXCLUSIVE, is_met);
    }

    #[expect(unsafe_code, reason = "the sleeper lies on the stack")]
    fn wait(&self, key: u64, mut is_met: impl FnMut() -> bool) {
        if is_met() {
            return;
        }
        let sleeper = Sleeper::new(key);
        // SAFETY: it is off the list when `finish_wait` returns.
        let sleeper = unsafe { sleeper.on_stack() };
        loop {
            self.prepare_to_wait(sleeper);
            if is_met() {
                break;
            }
            schedule();
        }
        self.finish_wait(sleeper);
    }

    /// Enters the list, if a wake-up took the sleeper off it, and sets its state.
    fn prepare_to_wait(&self, sleeper: &'static Sleeper) {
        let was_on = self.lock();
        if !sleeper.is_queued() {
            if sleeper.key == EXCLUSIVE {
                self.sleepers.enter_last(sleeper);
            } else {
                self.sleepers.enter_first(sleeper);
            }
        }
        set_current_state(state::INTERRUPTIBLE);
        self.unlock(was_on);
    }

    /// Leaves the list, unless a waker has seen to that.
    fn finish_wait(&self, sleeper: &'static Sleeper) {
        set_current_state(state::RUNNING);
        if sleeper.is_queued() {
            let was_on = self.lock();
            if sleeper.is_queued() {
                self.sleepers.leave(sleeper);
            }
            self.unlock(was_on);
        }
    }

    /// Wakes all who do not wait exclusively, and one who does.
    pub(crate) fn wake_up(&self) {
        self.wake(1, false);
    }

    /// As [`WaitQueue::wake_up`], with the hint that the waker is about to sleep.
    pub(crate) fn wake_up_sync(&self) {
        self.wake(1, true);
    }

    /// Wakes all.
    pub(crate) fn wake_up_all(&self) {
        self.wake(u32::MAX, false);
    }

    /// Whether somebody waits, to a look without the lock. What the waiters wait for must be made
    /// so before, and a full barrier stand between.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.sleepers.is_empty()
    }

    fn wake(&self, mut exclusive: u32, is_sync: bool) {
        let was_on = self.lock();
        for sleeper in self.sleepers.iter() {
            let is_exclusive = sleeper.key == EXCLUSIVE;
            if try_to_wake_up_as(sleeper.task(), is_sync) {
                self.sleepers.leave(sleeper);
                exclusive -= u32::from(is_exclusive);
            }
            if exclusive == 0 {
                break;
            }
        }
        self.unlock(was_on);
    }

    /// Takes the lock, with interrupts off; returns whether they were on.
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
}
