//! Sleeping timers: any number for each CPU, and the timer interrupt wakes whose time has come.
//!
//! A timer belongs to a task and is queued on the CPU that starts it, in a skew heap in order of
//! expiry under a lock of its own; the CPU's timer device stands on the first one or on the tick.
//! A task that is woken by somebody else takes its timer back, from wherever it runs by then.
//! Named and built after Linux's high-resolution timers. Not modelled: slack, functions other than
//! the wake of a task, timers that move away from idle CPUs.
//!
//! A wake by a timer may come late: a task that was woken and has gone on can be woken once more
//! by a timer that expired meanwhile. So whoever sleeps tests what it waits for, in a loop.

use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::arch::{self, irq_restore, irq_save};
use crate::link::Link;
use crate::lock::Lock;
use crate::machine;
use crate::percpu::Cpu;
use crate::sched::schedule;
use crate::task::{Task, state};
use crate::tick::{self, ticks_from_us};
use crate::wake::{set_current_state, try_to_wake_up};

/// The timer of a task.
#[repr(C)]
pub(crate) struct Timer {
    /// Clock time, in ticks.
    expires: AtomicU64,
    /// Number of the CPU that it is queued on, plus 1; 0: it is not.
    base: AtomicU32,
    task: Link<Task>,
    parent: Link<Timer>,
    children: [Link<Timer>; 2],
}

/// The timers of a CPU.
#[repr(C)]
pub(crate) struct TimerBase {
    lock: Lock,
    /// Clock time of the first one; 0 for none. The CPU itself reads it without the lock.
    next: AtomicU64,
    first: Link<Timer>,
}

impl TimerBase {
    /// Clock time at which the first timer expires; 0 for none.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next.load(Relaxed)
    }

    fn insert(&self, timer: &'static Timer) {
        timer.children.iter().for_each(|child| child.set(None));
        merge(&self.first, None, self.first.get(), Some(timer));
        self.note_first();
    }

    fn remove(&self, timer: &'static Timer) {
        let parent = timer.parent.get();
        let place = match parent {
            None => &self.first,
            Some(parent) => {
                let is_second = !is_same(parent.children[0].get(), timer);
                &parent.children[usize::from(is_second)]
            }
        };
        merge(place, parent, timer.children[0].get(), timer.children[1].get());
        timer.base.store(0, Relaxed);
        self.note_first();
    }

    fn note_first(&self) {
        let first = self.first.get().map(|timer| timer.expires.load(Relaxed));
        self.next.store(first.unwrap_or(0), Relaxed);
    }

    /// Takes the first timer off, if its time has come.
    fn pop_due(&self, now: u64) -> Option<&'static Timer> {
        self.lock.lock();
        let due = self.first.get().filter(|timer| timer.expires.load(Relaxed) <= now);
        if let Some(timer) = due {
            self.remove(timer);
        }
        self.lock.unlock();
        due
    }
}

fn is_same(a: Option<&Timer>, b: &Timer) -> bool {
    a.is_some_and(|a| core::ptr::eq(a, b))
}

/// Makes one heap of two, below `parent` at `place`: down the right sides, which change places with
/// the left ones on the way.
fn merge(
    mut place: &Link<Timer>,
    mut parent: Option<&'static Timer>,
    mut a: Option<&'static Timer>,
    mut b: Option<&'static Timer>,
) {
    while let (Some(x), Some(y)) = (a, b) {
        let is_x = x.expires.load(Relaxed) <= y.expires.load(Relaxed);
        let (first, other) = if is_x { (x, y) } else { (y, x) };
        place.set(Some(first));
        first.parent.set(parent);
        let [left, right] = &first.children;
        (a, b) = (right.get(), Some(other));
        right.set(left.get());
        (place, parent) = (left, Some(first));
    }
    let rest = a.or(b);
    place.set(rest);
    if let Some(rest) = rest {
        rest.parent.set(parent);
    }
}

impl Timer {
    /// Queues the timer of the running task.
    fn start(&'static self, task: &'static Task, expires: u64) {
        let was_on = irq_save!(irqoff_timer);
        let cpu = arch::this_cpu();
        self.expires.store(expires, Relaxed);
        self.task.set(Some(task));
        self.base.store(cpu.id() as u32 + 1, Relaxed);
        cpu.timers.lock.lock();
        cpu.timers.insert(self);
        let is_first = is_same(cpu.timers.first.get(), self);
        cpu.timers.lock.unlock();
        if is_first {
            tick::rearm(cpu);
        }
        irq_restore(was_on);
    }

    /// Takes the timer of the running task back; returns whether it had not expired.
    fn cancel(&'static self) -> bool {
        let base = self.base.load(Relaxed);
        if base == 0 {
            return false;
        }
        let was_on = irq_save!(irqoff_timer);
        let cpu = machine::cpu(base as usize - 1);
        cpu.timers.lock.lock();
        let is_queued = self.base.load(Relaxed) != 0;
        let is_first = is_same(cpu.timers.first.get(), self);
        if is_queued {
            cpu.timers.remove(self);
        }
        cpu.timers.lock.unlock();
        // Another CPU's device is left to ring in vain.
        if is_first && core::ptr::eq(cpu, arch::this_cpu()) {
            tick::rearm(cpu);
        }
        irq_restore(was_on);
        is_queued
    }
}

/// Wakes whose time has come on this CPU; interrupts are off.
#[inline]
pub(crate) fn expire(cpu: &Cpu, now: u64) {
    while cpu.timers.next() != 0
        && cpu.timers.next() <= now
        && let Some(timer) = cpu.timers.pop_due(now)
    {
        try_to_wake_up(timer.task.get_some());
    }
}

/// Sleeps in the state that the caller has set until it is woken, at clock time `until` at the
/// latest; returns whether that has come. `schedule_hrtimeout`.
pub(crate) fn schedule_until(until: u64) -> bool {
    let task = arch::this_cpu().current();
    let timer = &task.timer.0;
    timer.start(task, until);
    schedule();
    !timer.cancel()
}

/// Puts the running task to sleep until a clock time.
pub(crate) fn sleep_until(until: u64) {
    loop {
        set_current_state(state::INTERRUPTIBLE);
        if arch::clock_ticks() >= until {
            break;
        }
        schedule_until(until);
    }
    set_current_state(state::RUNNING);
}

/// Puts the running task to sleep for a time.
pub(crate) fn sleep_us(us: u64) {
    sleep_until(arch::clock_ticks() + ticks_from_us(us));
}
