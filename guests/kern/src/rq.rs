//! Run queue of a CPU: lock, clock, and the fair tasks in order of vruntime.
//!
//! All functions but `lock` want the run-queue lock held and interrupts off. The running task is
//! not in the list, but counts. The list is short (a few tasks a CPU), so it is a sorted list and
//! not a tree.

use guests_abi::class::LineClass;
use guests_abi::counter::Counter;
use guests_sched::preempt::{self, WEIGHT_NICE_0};

use crate::arch;
use crate::arch::atomic::{AtomicU32, Ordering::Relaxed};
use crate::counters::bump;
use crate::percpu::{Cpu, Line};
use crate::task::Task;
use crate::testdev;
use crate::tick::sched_clock_ns;

/// RD: the root domain, machine-global on node 0.
struct RootDomain {
    /// 1 when some CPU has had two runnable tasks; no balance clears it yet.
    overloaded: AtomicU32,
}

static ROOT_DOMAIN: Line<RootDomain> = Line(RootDomain { overloaded: AtomicU32::new(0) });

/// Declares the class of the machine-global lines.
pub(crate) fn declare_lines() {
    let address = &raw const ROOT_DOMAIN as u64;
    testdev::declare_lines(address, size_of_val(&ROOT_DOMAIN), LineClass::Rd);
}

/// Whether some CPU has more to run than it can.
pub(crate) fn is_overloaded() -> bool {
    ROOT_DOMAIN.overloaded.load(Relaxed) != 0
}

/// Sleepers that wake are placed this far before the others at most, ns: half a period.
const SLEEPER_BONUS_NS: u64 = 3_000_000;

/// Time a task may run before the tick looks for another one, ns.
const SLICE_NS: u64 = 3_000_000;

/// The later of two virtual times, which wrap.
const fn later(a: u64, b: u64) -> u64 {
    if a.wrapping_sub(b) as i64 > 0 { a } else { b }
}

/// The earlier of two virtual times, which wrap.
const fn earlier(a: u64, b: u64) -> u64 {
    if a.wrapping_sub(b) as i64 > 0 { b } else { a }
}

impl Cpu {
    /// Takes the run-queue lock of this area, from whatever CPU; interrupts are off.
    #[inline]
    pub(crate) fn rq_lock(&self) {
        if !self.rql.lock.lock() {
            bump(Counter::RqLockContended);
        }
    }

    /// Takes the run-queue lock of another CPU; interrupts are off.
    #[inline]
    pub(crate) fn rq_lock_remote(&self) {
        bump(Counter::RqLockRemote);
        self.rq_lock();
    }

    /// Takes the run-queue lock of another CPU if it is free; returns whether it was.
    #[inline]
    pub(crate) fn rq_trylock_remote(&self) -> bool {
        let is_free = self.rql.lock.try_lock();
        bump(if is_free { Counter::RqLockRemote } else { Counter::RqLockContended });
        is_free
    }

    /// Drops the run-queue lock.
    #[inline]
    pub(crate) fn rq_unlock(&self) {
        self.rql.lock.unlock();
    }

    /// Brings the clock up to now.
    #[inline]
    pub(crate) fn update_rq_clock(&self) {
        let now = sched_clock_ns();
        self.rqk.clock_ns.store(now, Relaxed);
        self.rqk.clock_task_ns.store(now, Relaxed);
    }

    /// Charges the running fair task for its time.
    pub(crate) fn update_curr(&self) {
        let curr = self.rqc.curr.get_some();
        if curr.class() == preempt::Class::IdleTask {
            return;
        }
        let now = self.rqk.clock_task_ns.load(Relaxed);
        let ran = now.saturating_sub(curr.se.exec_start_ns.load(Relaxed));
        curr.se.exec_start_ns.store(now, Relaxed);
        curr.se.sum_exec_ns.store(curr.se.sum_exec_ns.load(Relaxed) + ran, Relaxed);
        let weight = curr.se.weight.load(Relaxed);
        let virtual_ns = if weight == WEIGHT_NICE_0 { ran } else { ran * WEIGHT_NICE_0 / weight };
        let vruntime = curr.se.vruntime_ns.load(Relaxed) + virtual_ns;
        curr.se.vruntime_ns.store(vruntime, Relaxed);
        let first = self.cfs.first.get().map(|task| task.se.vruntime_ns.load(Relaxed));
        let leftmost = first.map_or(vruntime, |first| earlier(first, vruntime));
        let floor = self.cfs.min_vruntime_ns.load(Relaxed);
        self.cfs.min_vruntime_ns.store(later(leftmost, floor), Relaxed);
    }

    /// Counts a task in and enters it into the list.
    pub(crate) fn activate_task(&self, task: &'static Task) {
        self.update_curr();
        let min_vruntime = self.cfs.min_vruntime_ns.load(Relaxed);
        let mut vruntime = task.se.vruntime_ns.load(Relaxed);
        if task.se.is_relative.load(Relaxed) != 0 {
            task.se.is_relative.store(0, Relaxed);
            vruntime = vruntime.wrapping_add(min_vruntime);
        }
        vruntime = later(vruntime, min_vruntime.wrapping_sub(SLEEPER_BONUS_NS));
        task.se.vruntime_ns.store(vruntime, Relaxed);
        self.update_load_avg(task);
        self.enqueue(task);
        if task.class() == preempt::Class::Idle {
            let idle = &self.cfs.idle_h_nr_running;
            idle.store(idle.load(Relaxed) + 1, Relaxed);
        }
        let weight = task.se.weight.load(Relaxed);
        self.cfs.load.store(self.cfs.load.load(Relaxed) + weight, Relaxed);
        self.cfs.h_nr_running.store(self.cfs.h_nr_running.load(Relaxed) + 1, Relaxed);
        let running = self.rql.nr_running.load(Relaxed) + 1;
        self.rql.nr_running.store(running, Relaxed);
        if running == 2 && !is_overloaded() {
            ROOT_DOMAIN.overloaded.store(1, Relaxed);
        }
        task.ts.on_rq.store(1, Relaxed);
    }

    /// Counts the running task out; it is not in the list.
    pub(crate) fn deactivate_curr(&self, task: &Task) {
        self.update_curr();
        self.update_load_avg(task);
        if task.class() == preempt::Class::Idle {
            let idle = &self.cfs.idle_h_nr_running;
            idle.store(idle.load(Relaxed) - 1, Relaxed);
        }
        let weight = task.se.weight.load(Relaxed);
        self.cfs.load.store(self.cfs.load.load(Relaxed) - weight, Relaxed);
        self.cfs.h_nr_running.store(self.cfs.h_nr_running.load(Relaxed) - 1, Relaxed);
        self.rql.nr_running.store(self.rql.nr_running.load(Relaxed) - 1, Relaxed);
        task.ts.on_rq.store(0, Relaxed);
    }

    /// Puts the running task back into the list, as it may run on.
    pub(crate) fn put_prev(&self, task: &'static Task) {
        self.update_curr();
        self.update_load_avg(task);
        self.enqueue(task);
    }

    /// Takes the leftmost task out of the list, to run it.
    pub(crate) fn pick_first(&self) -> Option<&'static Task> {
        let task = self.cfs.first.get()?;
        self.cfs.first.set(task.se.next.get());
        self.update_load_avg(task);
        task.se.exec_start_ns.store(self.rqk.clock_task_ns.load(Relaxed), Relaxed);
        task.se.prev_sum_exec_ns.store(task.se.sum_exec_ns.load(Relaxed), Relaxed);
        Some(task)
    }

    /// Whether the running task has used its slice while others wait.
    pub(crate) fn is_slice_over(&self, curr: &Task) -> bool {
        let ran = curr.se.sum_exec_ns.load(Relaxed) - curr.se.prev_sum_exec_ns.load(Relaxed);
        self.cfs.first.get().is_some() && ran >= SLICE_NS
    }

    /// Whether a task that wakes here preempts the running one.
    pub(crate) fn wakeup_preempts(&self, curr: &Task, wakee: &Task) -> bool {
        let vruntime = |task: &Task| task.se.vruntime_ns.load(Relaxed);
        let lead = vruntime(curr).wrapping_sub(vruntime(wakee)) as i64;
        let policy = &arch::this_cpu().policy;
        preempt::preempts(
            policy.preempt,
            preempt::Facts {
                curr: curr.class(),
                wakee: wakee.class(),
                vruntime_lead_ns: lead,
                wakee_weight: wakee.se.weight.load(Relaxed),
                granularity_ns: policy.granularity_ns,
            },
        )
    }

    fn enqueue(&self, task: &'static Task) {
        let vruntime = task.se.vruntime_ns.load(Relaxed);
        let mut link = &self.cfs.first;
        while let Some(other) = link.get() {
            let other_vruntime = other.se.vruntime_ns.load(Relaxed);
            if other_vruntime != vruntime && later(other_vruntime, vruntime) == other_vruntime {
                break;
            }
            link = &other.se.next;
        }
        task.se.next.set(link.get());
        link.set(Some(task));
    }
}
