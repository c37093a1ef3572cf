//! Load averages of tasks and run queues: when they are brought up to date, and how a task's share
//! moves with it.
//!
//! All functions but [`remove_entity_load_avg`] want the lock of the run queue held. A waker that
//! moves a task away does not hold the lock of the CPU it leaves: it puts the task's share on a
//! line of its own there (CFSR), which that CPU takes off at its next update.

use guests_sched::pelt::Sums;

use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::lock::Lock;
use crate::machine;
use crate::percpu::Cpu;
use crate::task::Task;

/// The average of a task, or CFSA: that of a run queue.
#[repr(C)]
pub(crate) struct Avg {
    /// 0: the task belongs to no run queue's average.
    updated_ns: AtomicU64,
    in_period: AtomicU64,
    load_sum: AtomicU64,
    util_sum: AtomicU64,
    pub(crate) load_avg: AtomicU64,
    pub(crate) util_avg: AtomicU64,
}

/// CFSR: what has left with tasks that were woken elsewhere.
#[repr(C)]
pub(crate) struct Removed {
    lock: Lock,
    nr: AtomicU64,
    load: AtomicU64,
    util: AtomicU64,
}

/// Utilisation that a new task is taken to have, of 1024.
const NEW_TASK_UTIL: u64 = 512;

impl Avg {
    fn sums(&self) -> Sums {
        Sums {
            updated_ns: self.updated_ns.load(Relaxed),
            in_period: self.in_period.load(Relaxed),
            load: self.load_sum.load(Relaxed),
            util: self.util_sum.load(Relaxed),
        }
    }

    fn set_sums(&self, sums: Sums) {
        self.updated_ns.store(sums.updated_ns, Relaxed);
        self.in_period.store(sums.in_period, Relaxed);
        self.load_sum.store(sums.load, Relaxed);
        self.util_sum.store(sums.util, Relaxed);
    }

    /// Brings the average of a task of that weight up to now.
    fn advance_task(&self, now_ns: u64, weight: u64, is_on_rq: bool, is_running: bool) {
        let mut sums = self.sums();
        let is_due = sums.advance(now_ns, u64::from(is_on_rq), is_running);
        self.set_sums(sums);
        if is_due {
            self.load_avg.store(sums.load_avg(weight), Relaxed);
            self.util_avg.store(sums.util_avg(), Relaxed);
        }
    }

    /// Makes it the average of a new task: busy until it shows otherwise.
    pub(crate) fn start(&self, weight: u64) {
        self.updated_ns.store(0, Relaxed);
        self.load_avg.store(weight, Relaxed);
        self.util_avg.store(NEW_TASK_UTIL, Relaxed);
    }
}

fn add(to: &AtomicU64, value: u64) {
    to.store(to.load(Relaxed) + value, Relaxed);
}

/// Averages of several entities are rounded apart, so a sum may fall short of its parts.
fn take_off(from: &AtomicU64, value: u64) {
    from.store(from.load(Relaxed).saturating_sub(value), Relaxed);
}

impl Cpu {
    /// Brings the averages of the run queue and of one of its tasks up to the clock. A task that
    /// comes from elsewhere is added to the run queue's.
    pub(crate) fn update_load_avg(&self, task: &Task) {
        let now = self.rqk.clock_task_ns.load(Relaxed);
        let is_attached = task.avg.updated_ns.load(Relaxed) != 0;
        if is_attached {
            let is_running = core::ptr::eq(self.rqc.curr.get_some(), task);
            let is_on_rq = task.ts.on_rq.load(Relaxed) != 0;
            task.avg.advance_task(now, task.se.weight.load(Relaxed), is_on_rq, is_running);
        }
        self.update_cfs_rq_load_avg(now);
        if !is_attached {
            self.attach_entity_load_avg(task);
        }
    }

    fn update_cfs_rq_load_avg(&self, now_ns: u64) {
        let avg = &self.cfsa;
        if self.cfsr.nr.load(Relaxed) != 0 {
            self.take_removed_off();
        }
        let mut sums = avg.sums();
        let is_running = !self.rqc.curr.get_some().is_idle_task();
        let is_due = sums.advance(now_ns, self.cfs.load.load(Relaxed), is_running);
        avg.set_sums(sums);
        if is_due {
            avg.load_avg.store(sums.load_avg(1), Relaxed);
            avg.util_avg.store(sums.util_avg(), Relaxed);
        }
    }

    /// Takes off what has left with tasks that were woken elsewhere.
    fn take_removed_off(&self) {
        self.cfsr.lock.lock();
        let [_, load, util] = [&self.cfsr.nr, &self.cfsr.load, &self.cfsr.util].map(|from| {
            let value = from.load(Relaxed);
            from.store(0, Relaxed);
            value
        });
        self.cfsr.lock.unlock();
        let divider = self.cfsa.sums().divider();
        take_off(&self.cfsa.load_avg, load);
        take_off(&self.cfsa.load_sum, load * divider);
        take_off(&self.cfsa.util_avg, util);
        take_off(&self.cfsa.util_sum, util * divider);
    }

    /// Adds a task's average to that of the run queue; from now on both age together.
    fn attach_entity_load_avg(&self, task: &Task) {
        let (to, avg) = (&self.cfsa, &task.avg);
        let sums = to.sums();
        let divider = sums.divider();
        let (load, util) = (avg.load_avg.load(Relaxed), avg.util_avg.load(Relaxed));
        avg.set_sums(Sums {
            load: load * divider / task.se.weight.load(Relaxed),
            util: util * divider,
            ..sums
        });
        add(&to.load_avg, load);
        add(&to.load_sum, load * divider);
        add(&to.util_avg, util);
        add(&to.util_sum, util * divider);
    }
}

/// Takes a sleeping task's average off the run queue of a CPU whose lock is not held.
pub(crate) fn remove_entity_load_avg(task: &Task, cpu: usize) {
    let from = machine::cpu(cpu);
    if task.avg.updated_ns.load(Relaxed) == 0 {
        return;
    }
    let weight = task.se.weight.load(Relaxed);
    task.avg.advance_task(from.cfsa.updated_ns.load(Relaxed), weight, false, false);
    from.cfsr.lock.lock();
    add(&from.cfsr.nr, 1);
    add(&from.cfsr.load, task.avg.load_avg.load(Relaxed));
    add(&from.cfsr.util, task.avg.util_avg.load(Relaxed));
    from.cfsr.lock.unlock();
    task.avg.updated_ns.store(0, Relaxed);
}
