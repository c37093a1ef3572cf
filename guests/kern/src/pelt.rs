//! Load averages of entities and queues: when they are brought up to date, and how shares move.
//!
//! All functions but [`remove_entity_load_avg`] want the lock of the run queue held. A waker that
//! moves a task away does not hold the lock of the CPU it leaves: it puts the task's share on a
//! line of its own there (CFSR), which that CPU takes off at its next update. What comes to a
//! group's queue or leaves it moves its entity's average one level up, at the entity's next update.

use guests_sched::pelt::{self, Sums};

use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::cfs::{CfsRq, SchedEntity};
use crate::group::{self, update_tg_load_avg};
use crate::lock::Lock;
use crate::percpu::Cpu;
use crate::task::Task;

/// The average of an entity, or CFSA: that of a queue.
#[repr(C)]
pub(crate) struct Avg {
    /// 0: the entity belongs to no queue's average.
    updated_ns: AtomicU64,
    in_period: AtomicU64,
    load_sum: AtomicU64,
    util_sum: AtomicU64,
    pub(crate) load_avg: AtomicU64,
    pub(crate) util_avg: AtomicU64,
}

/// CFSA, second line: what a queue's group knows of it, and what its entity does not know yet.
#[repr(C)]
pub(crate) struct GroupPart {
    /// Load that the group was told.
    pub(crate) tg_load_avg_contrib: AtomicU64,
    /// When it was told last.
    pub(crate) last_update_ns: AtomicU64,
    /// 1 when averages have come or gone since the entity's last update.
    has_changed: AtomicU64,
    /// Their sums of runnable time, signed.
    change: AtomicU64,
}

/// CFSR: what has left with tasks that were woken elsewhere.
#[repr(C)]
pub(crate) struct Removed {
    lock: Lock,
    nr: AtomicU64,
    load: AtomicU64,
    util: AtomicU64,
    /// Part of the time in which they were runnable, of 1024.
    runnable: AtomicU64,
}

/// What else an update of averages does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Update {
    /// Nothing.
    Averages,
    /// The queue's group is told.
    Group,
    /// The entity's average leaves the queue's, and the group is told.
    Detach,
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

    /// Brings the average up to now; returns whether a period ended. The load was `queued`, and
    /// what it is summed up with is worth `weight`.
    fn advance(&self, now_ns: u64, weight: u64, queued: u64, is_running: bool) -> bool {
        let mut sums = self.sums();
        let is_due = sums.advance(now_ns, queued, is_running);
        self.set_sums(sums);
        if is_due {
            self.load_avg.store(sums.load_avg(weight), Relaxed);
            self.util_avg.store(sums.util_avg(), Relaxed);
        }
        is_due
    }

    /// Makes it the average of a new task: busy until it shows otherwise.
    pub(crate) fn start(&self, weight: u64) {
        self.updated_ns.store(0, Relaxed);
        self.load_avg.store(weight, Relaxed);
        self.util_avg.store(NEW_TASK_UTIL, Relaxed);
    }

    /// Makes zeroed memory the average of a new group's entity: it belongs to its queue from the
    /// beginning of time, and never ran.
    pub(crate) fn start_empty(&self) {
        let mut sums = Sums::default();
        sums.advance(1024, 0, false);
        self.set_sums(sums);
    }

    /// Adds another average of that weight; from now on both age together.
    fn attach(&self, other: &Avg, weight: u64) {
        let sums = other.sums();
        add(&self.load_avg, other.load_avg.load(Relaxed));
        add(&self.load_sum, sums.load * weight);
        add(&self.util_avg, other.util_avg.load(Relaxed));
        add(&self.util_sum, sums.util);
    }

    /// Takes it off again.
    fn detach(&self, other: &Avg, weight: u64) {
        let sums = other.sums();
        take_off(&self.load_avg, other.load_avg.load(Relaxed));
        take_off(&self.load_sum, sums.load * weight);
        take_off(&self.util_avg, other.util_avg.load(Relaxed));
        take_off(&self.util_sum, sums.util);
    }
}

fn add(to: &AtomicU64, value: u64) {
    to.store(to.load(Relaxed) + value, Relaxed);
}

/// Averages of several entities are rounded apart, so a sum may fall short of its parts.
fn take_off(from: &AtomicU64, value: u64) {
    from.store(from.load(Relaxed).saturating_sub(value), Relaxed);
}

/// Replaces a part of a sum.
fn replace(sum: &AtomicU64, old: u64, new: u64) {
    sum.store((sum.load(Relaxed) + new).saturating_sub(old), Relaxed);
}

impl GroupPart {
    /// Notes that averages with that sum of runnable time came, or left if it is negative.
    fn note(&self, change: i64) {
        self.has_changed.store(1, Relaxed);
        self.change.store(self.change.load(Relaxed).wrapping_add(change as u64), Relaxed);
    }
}

impl Cpu {
    /// Brings the averages of an entity and of its queue up to the clock. One that comes from
    /// elsewhere is added to the queue's.
    pub(crate) fn update_load_avg(&self, se: &SchedEntity, update: Update) {
        let cfs_rq = se.cfs_rq();
        let now = self.rqk.clock_task_ns.load(Relaxed);
        let is_attached = se.avg.updated_ns.load(Relaxed) != 0;
        if is_attached {
            let queued = u64::from(se.on_rq.load(Relaxed));
            se.avg.advance(now, se.weight.load(Relaxed), queued, cfs_rq.is_curr(se));
        }
        let is_due = update_cfs_rq_load_avg(cfs_rq, now) | propagate_entity_load_avg(cfs_rq, se);
        if !is_attached {
            attach_entity_load_avg(cfs_rq, se);
            update_tg_load_avg(cfs_rq);
        } else if update == Update::Detach {
            detach_entity_load_avg(cfs_rq, se);
            update_tg_load_avg(cfs_rq);
        } else if update == Update::Group && is_due {
            update_tg_load_avg(cfs_rq);
        }
    }

    /// Brings the averages of all queues of the CPU up to the clock, which the caller has updated:
    /// those of CPUs that do not run age, too.
    pub(crate) fn update_blocked_averages(&self) {
        let now = self.rqk.clock_task_ns.load(Relaxed);
        let mut next = group::innermost();
        while let Some(group) = next {
            let queue = group.queue(self.id());
            if update_cfs_rq_load_avg(queue, now) {
                update_tg_load_avg(queue);
            }
            self.update_load_avg(queue.owner.se.get_some(), Update::Group);
            next = group.parent();
        }
        update_cfs_rq_load_avg(&self.cfs, now);
    }

    /// Gives an entity another weight.
    pub(crate) fn reweight_entity(&self, se: &'static SchedEntity, weight: u64) {
        let cfs_rq = se.cfs_rq();
        let old = se.weight.load(Relaxed);
        let is_queued = se.on_rq.load(Relaxed) != 0;
        let is_waiting = is_queued && !cfs_rq.is_curr(se);
        if is_waiting {
            cfs_rq.remove(se);
        } else if is_queued {
            self.update_curr(cfs_rq);
        }
        cfs_rq.avg.detach(&se.avg, old);
        se.weight.store(weight, Relaxed);
        se.avg.load_avg.store(se.avg.sums().load_avg(weight), Relaxed);
        cfs_rq.avg.attach(&se.avg, weight);
        let scale = |ns: i64| ns * old as i64 / weight as i64;
        if is_queued {
            replace(&cfs_rq.load, old, weight);
            let vruntime = se.vruntime_ns.load(Relaxed);
            let left = se.deadline_ns.load(Relaxed).wrapping_sub(vruntime) as i64;
            se.deadline_ns.store(vruntime.wrapping_add(scale(left) as u64), Relaxed);
        } else {
            se.lag_ns.store(scale(se.lag_ns.load(Relaxed) as i64) as u64, Relaxed);
        }
        if is_waiting {
            cfs_rq.insert(se);
        }
    }
}

/// Returns whether the average is another one now.
fn update_cfs_rq_load_avg(cfs_rq: &CfsRq, now_ns: u64) -> bool {
    let has_removed = cfs_rq.removed.nr.load(Relaxed) != 0;
    if has_removed {
        take_removed_off(cfs_rq);
    }
    let is_running = cfs_rq.curr.get().is_some();
    cfs_rq.avg.advance(now_ns, 1, cfs_rq.load.load(Relaxed), is_running) || has_removed
}

/// Takes off what has left with tasks that were woken elsewhere.
fn take_removed_off(cfs_rq: &CfsRq) {
    let Removed { lock, nr, load, util, runnable } = &*cfs_rq.removed;
    lock.lock();
    let [_, load, util, runnable] = [nr, load, util, runnable].map(|from| {
        let value = from.load(Relaxed);
        from.store(0, Relaxed);
        value
    });
    lock.unlock();
    let avg = &*cfs_rq.avg;
    let divider = avg.sums().divider();
    take_off(&avg.load_avg, load);
    take_off(&avg.load_sum, load * divider);
    take_off(&avg.util_avg, util);
    take_off(&avg.util_sum, util * divider);
    cfs_rq.part.note(-((runnable * divider >> 10) as i64));
}

/// Has a group's entity follow what came to its queue and what left it; returns whether anything
/// did.
fn propagate_entity_load_avg(cfs_rq: &CfsRq, se: &SchedEntity) -> bool {
    let Some(queue) = se.my_q().filter(|queue| queue.part.has_changed.load(Relaxed) != 0) else {
        return false;
    };
    let change = queue.part.change.load(Relaxed) as i64;
    queue.part.has_changed.store(0, Relaxed);
    queue.part.change.store(0, Relaxed);
    cfs_rq.part.note(change);
    let weight = se.weight.load(Relaxed);
    let (old, queue_sums) = (se.avg.sums(), queue.avg.sums());
    let divider = cfs_rq.avg.sums().divider();
    let (old_load, old_util) = (se.avg.load_avg.load(Relaxed), se.avg.util_avg.load(Relaxed));
    let util_avg = queue.avg.util_avg.load(Relaxed);
    let util = util_avg * divider;
    let queue_weight = queue.load.load(Relaxed);
    let load = pelt::propagated_load(Sums { util, ..old }, change, queue_sums, queue_weight);
    let load_avg = weight * load / divider;
    se.avg.set_sums(Sums { load, util, ..old });
    se.avg.load_avg.store(load_avg, Relaxed);
    se.avg.util_avg.store(util_avg, Relaxed);
    let avg = &cfs_rq.avg;
    replace(&avg.load_avg, old_load, load_avg);
    replace(&avg.load_sum, old.load * weight, load * weight);
    replace(&avg.util_avg, old_util, util_avg);
    replace(&avg.util_sum, old.util, util);
    true
}

/// Adds an entity's average to that of its queue.
fn attach_entity_load_avg(cfs_rq: &CfsRq, se: &SchedEntity) {
    let sums = cfs_rq.avg.sums();
    let divider = sums.divider();
    let weight = se.weight.load(Relaxed);
    let load = se.avg.load_avg.load(Relaxed) * divider / weight;
    let util = se.avg.util_avg.load(Relaxed) * divider;
    se.avg.set_sums(Sums { load, util, ..sums });
    cfs_rq.avg.attach(&se.avg, weight);
    cfs_rq.part.note(load as i64);
}

/// Takes an entity's average off that of its queue, whose lock is held.
fn detach_entity_load_avg(cfs_rq: &CfsRq, se: &SchedEntity) {
    cfs_rq.avg.detach(&se.avg, se.weight.load(Relaxed));
    cfs_rq.part.note(-(se.avg.load_sum.load(Relaxed) as i64));
    se.avg.updated_ns.store(0, Relaxed);
}

/// Takes a sleeping task's average off its queue on a CPU whose lock is not held.
pub(crate) fn remove_entity_load_avg(task: &Task) {
    let se = &task.se;
    if se.avg.updated_ns.load(Relaxed) == 0 {
        return;
    }
    let from = se.cfs_rq();
    let now = from.avg.updated_ns.load(Relaxed);
    se.avg.advance(now, se.weight.load(Relaxed), 0, false);
    let sums = se.avg.sums();
    let Removed { lock, nr, load, util, runnable } = &*from.removed;
    lock.lock();
    add(nr, 1);
    add(load, se.avg.load_avg.load(Relaxed));
    add(util, se.avg.util_avg.load(Relaxed));
    add(runnable, (sums.load << 10) / sums.divider());
    lock.unlock();
    se.avg.updated_ns.store(0, Relaxed);
}
