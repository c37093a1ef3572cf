//! Run queue of a CPU: lock, clock, and how tasks come, run, wait and leave in the fair class.
//!
//! All functions but `lock` want the run-queue lock held and interrupts off, and the clock up to
//! date. A task is handled level by level: its entity in the queue of its group, then that of the
//! group in the queue above. Linux: `enqueue_task_fair`, `dequeue_task_fair`, `put_prev_entity`,
//! `set_next_entity`, `pick_eevdf`, `place_entity`, `task_tick_fair`. Not modelled: skipping the
//! levels that the outgoing and the incoming task share, buddies, throttling.

use guests_abi::class::LineClass;
use guests_abi::counter::Counter;
use guests_sched::preempt::{self, Class, Preempt};
use guests_sched::tree::{is_earlier, later};
use guests_sched::{eevdf, weight};

use crate::arch;
use crate::arch::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed, Ordering::Release};
use crate::cfs::{CfsRq, SchedEntity};
use crate::config::Policy;
use crate::counters::bump;
use crate::group::set_task_rq;
use crate::pelt::{Update, remove_entity_load_avg};
use crate::percpu::{Cpu, Line, RqCount};
use crate::sched::resched_curr;
use crate::task::Task;
use crate::testdev;
use crate::tick::sched_clock_ns;

/// RD: the root domain, machine-global on node 0.
struct RootDomain {
    /// 1 when some CPU has had two runnable tasks since a balance of all CPUs found none that has.
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

/// Says so, where it was said otherwise.
pub(crate) fn set_overloaded(is_overloaded: bool) {
    if self::is_overloaded() != is_overloaded {
        ROOT_DOMAIN.overloaded.store(u32::from(is_overloaded), Relaxed);
    }
}

/// Why a task comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Enqueue {
    /// It is new.
    New,
    /// It slept.
    Wakeup,
    /// It waited on another CPU.
    Migrated,
}

/// Why a task leaves.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Dequeue {
    Sleep,
    Migrate,
}

/// The policies that the executing CPU follows, on whatever run queue.
#[inline]
fn policy() -> &'static Policy {
    &arch::this_cpu().policy
}

#[inline]
fn is_eevdf() -> bool {
    policy().preempt == Preempt::Eevdf
}

fn add(to: &AtomicU64, value: u64) {
    to.store(to.load(Relaxed).wrapping_add(value), Relaxed);
}

fn count(to: &AtomicU32, change: i32) {
    to.store(to.load(Relaxed).wrapping_add_signed(change), Relaxed);
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

    /// Takes the run-queue lock of this CPU or of another one; interrupts are off.
    pub(crate) fn rq_lock_any(&self) {
        if core::ptr::eq(self, arch::this_cpu()) {
            self.rq_lock();
        } else {
            self.rq_lock_remote();
        }
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

    /// What idle scans read besides who runs; on the line that `rq_layout` says.
    #[inline]
    pub(crate) fn rq_count(&self) -> &RqCount {
        if policy().is_rq_split { &self.rqc.count } else { &self.rql.count }
    }

    /// Brings the clock up to now.
    #[inline]
    pub(crate) fn update_rq_clock(&self) {
        let now = sched_clock_ns();
        self.rqk.clock_ns.store(now, Relaxed);
        self.rqk.clock_task_ns.store(now, Relaxed);
    }

    /// Charges the entity that runs in a queue for its time.
    pub(crate) fn update_curr(&self, cfs_rq: &CfsRq) {
        let Some(curr) = cfs_rq.curr.get() else {
            return;
        };
        let now = self.rqk.clock_task_ns.load(Relaxed);
        let ran = now.saturating_sub(curr.exec_start_ns.load(Relaxed));
        if ran == 0 {
            return;
        }
        curr.exec_start_ns.store(now, Relaxed);
        add(&curr.sum_exec_ns, ran);
        add(&curr.vruntime_ns, weight::virtual_ns(ran, curr.weight.load(Relaxed)));
        if is_eevdf() && has_used_slice(curr) {
            set_deadline(curr, policy().times.slice_ns);
            if cfs_rq.nr_running.load(Relaxed) > 1 {
                resched_curr(self.id());
            }
        }
        cfs_rq.update_min_vruntime();
    }

    /// Enters a task that is new or slept.
    pub(crate) fn activate_task(&self, task: &'static Task, enqueue: Enqueue) {
        for se in task.se.levels() {
            let is_task = core::ptr::eq(se, &task.se);
            if se.on_rq.load(Relaxed) == 0 {
                let how = if is_task { enqueue } else { Enqueue::Wakeup };
                self.enqueue_entity(se, how);
            } else {
                self.update_load_avg(se, Update::Group);
                self.update_cfs_group(se);
            }
            count_task(se.cfs_rq(), task, 1);
        }
        self.cfs_tasks.push(task);
        let running = self.rq_count().nr_running.load(Relaxed) + 1;
        self.rq_count().nr_running.store(running, Relaxed);
        if running == 2 {
            set_overloaded(true);
        }
        task.ts.on_rq.store(1, Relaxed);
    }

    fn enqueue_entity(&self, se: &'static SchedEntity, enqueue: Enqueue) {
        let cfs_rq = se.cfs_rq();
        self.update_curr(cfs_rq);
        self.update_load_avg(se, Update::Group);
        self.update_cfs_group(se);
        place_entity(cfs_rq, se, enqueue);
        add(&cfs_rq.load, se.weight.load(Relaxed));
        count(&cfs_rq.nr_running, 1);
        cfs_rq.insert(se);
        se.on_rq.store(1, Relaxed);
    }

    /// Takes the running task out, which goes to sleep.
    pub(crate) fn deactivate_curr(&self, task: &'static Task) {
        self.dequeue_task(task, Dequeue::Sleep);
        // A waker that sees this sees the CPU that the task is on.
        task.ts.on_rq.store(0, Release);
    }

    /// Takes out a task that waits, to be attached to the run queue of CPU `to`; until then it is
    /// on none, although its `on_rq` says so.
    pub(crate) fn detach_task(&self, task: &'static Task, to: usize) {
        self.dequeue_task(task, Dequeue::Migrate);
        set_task_rq(task, to);
        task.ti.cpu.store(to as u32, Relaxed);
        task.ts.wake_cpu.store(to as u32, Relaxed);
    }

    /// Enters a task that was detached elsewhere, and tests for preemption.
    pub(crate) fn attach_task(&self, task: &'static Task) {
        self.activate_task(task, Enqueue::Migrated);
        self.check_preempt_curr(task);
    }

    fn dequeue_task(&self, task: &'static Task, dequeue: Dequeue) {
        let mut is_leaving = true;
        for se in task.se.levels() {
            let cfs_rq = se.cfs_rq();
            if is_leaving {
                let is_task = core::ptr::eq(se, &task.se);
                let how = if is_task { dequeue } else { Dequeue::Sleep };
                self.dequeue_entity(se, how);
                // A group leaves with its last entity.
                is_leaving = cfs_rq.nr_running.load(Relaxed) == 0;
            } else {
                self.update_load_avg(se, Update::Group);
                self.update_cfs_group(se);
            }
            count_task(cfs_rq, task, -1);
        }
        self.cfs_tasks.remove(task);
        self.rq_count().nr_running.store(self.rq_count().nr_running.load(Relaxed) - 1, Relaxed);
    }

    fn dequeue_entity(&self, se: &'static SchedEntity, dequeue: Dequeue) {
        let cfs_rq = se.cfs_rq();
        self.update_curr(cfs_rq);
        let is_migrating = dequeue == Dequeue::Migrate;
        self.update_load_avg(se, if is_migrating { Update::Detach } else { Update::Group });
        keep_lag(cfs_rq, se);
        if !cfs_rq.is_curr(se) {
            cfs_rq.remove(se);
        }
        se.on_rq.store(0, Relaxed);
        add(&cfs_rq.load, se.weight.load(Relaxed).wrapping_neg());
        count(&cfs_rq.nr_running, -1);
        if is_migrating {
            make_relative(cfs_rq, se);
        }
        self.update_cfs_group(se);
        cfs_rq.update_min_vruntime();
    }

    /// Puts the entities of the task that ran back into their queues, as far as they may run on.
    pub(crate) fn put_prev(&self, task: &'static Task) {
        for se in task.se.levels() {
            let cfs_rq = se.cfs_rq();
            if se.on_rq.load(Relaxed) != 0 {
                self.update_curr(cfs_rq);
                cfs_rq.insert(se);
                self.update_load_avg(se, Update::Averages);
            }
            cfs_rq.curr.set(None);
        }
    }

    /// Takes the next task out of the queues, to run it; the one that ran was put back.
    pub(crate) fn pick_next(&'static self) -> Option<&'static Task> {
        let mut cfs_rq = &self.cfs;
        loop {
            let se = pick_entity(cfs_rq)?;
            self.set_next_entity(cfs_rq, se);
            match se.my_q() {
                Some(queue) => cfs_rq = queue,
                None => {
                    // The balancer takes last what has run last.
                    self.cfs_tasks.remove(se.task());
                    self.cfs_tasks.push(se.task());
                    return Some(se.task());
                }
            }
        }
    }

    fn set_next_entity(&self, cfs_rq: &CfsRq, se: &'static SchedEntity) {
        cfs_rq.remove(se);
        self.update_load_avg(se, Update::Group);
        cfs_rq.curr.set(Some(se));
        se.exec_start_ns.store(self.rqk.clock_task_ns.load(Relaxed), Relaxed);
        se.prev_sum_exec_ns.store(se.sum_exec_ns.load(Relaxed), Relaxed);
        se.picked_deadline_ns.store(se.deadline_ns.load(Relaxed), Relaxed);
    }

    /// The tick of the running task: charges it, and preempts it when others are due.
    pub(crate) fn task_tick(&self, curr: &'static Task) {
        for se in curr.se.levels() {
            let cfs_rq = se.cfs_rq();
            self.update_curr(cfs_rq);
            self.update_load_avg(se, Update::Group);
            self.update_cfs_group(se);
            // By `eevdf` charging has seen to it.
            if cfs_rq.nr_running.load(Relaxed) > 1 && !is_eevdf() && is_slice_over(cfs_rq, se) {
                resched_curr(self.id());
            }
        }
    }

    /// Has the running task preempted if the wakee, which is queued here, is to run at once.
    pub(crate) fn check_preempt_curr(&self, wakee: &'static Task) {
        let curr = self.rqc.curr.get_some();
        if self.wakeup_preempts(curr, wakee) {
            resched_curr(self.id());
        }
    }

    fn wakeup_preempts(&self, curr: &'static Task, wakee: &'static Task) -> bool {
        let mut facts = preempt::Facts {
            curr: curr.class(),
            wakee: wakee.class(),
            vruntime_lead_ns: 0,
            wakee_weight: weight::NICE_0,
            granularity_ns: policy().times.granularity_ns,
        };
        if facts.curr == Class::IdleTask {
            return true;
        }
        let (se, pse) = matching(&curr.se, &wakee.se);
        let cfs_rq = se.cfs_rq();
        self.update_curr(cfs_rq);
        let vruntime = |se: &SchedEntity| se.vruntime_ns.load(Relaxed);
        facts.vruntime_lead_ns = vruntime(se).wrapping_sub(vruntime(pse)) as i64;
        facts.wakee_weight = pse.weight.load(Relaxed);
        preempt::preempts(policy().preempt, facts, || {
            pick_entity(cfs_rq).is_some_and(|picked| core::ptr::eq(picked, pse))
        })
    }
}

/// Counts a task of a queue, or of one below it, in or out.
fn count_task(cfs_rq: &CfsRq, task: &Task, change: i32) {
    count(&cfs_rq.h_nr_running, change);
    if task.class() == Class::Idle {
        count(&cfs_rq.idle_h_nr_running, change);
    }
}

/// The entities of two tasks, or of groups that they are in, that share a queue.
fn matching(
    mut a: &'static SchedEntity,
    mut b: &'static SchedEntity,
) -> (&'static SchedEntity, &'static SchedEntity) {
    let depth = |se: &SchedEntity| se.depth.load(Relaxed);
    while !core::ptr::eq(a.cfs_rq(), b.cfs_rq()) {
        let (depth_a, depth_b) = (depth(a), depth(b));
        if depth_a >= depth_b {
            a = a.parent().unwrap_or(a);
        }
        if depth_b >= depth_a {
            b = b.parent().unwrap_or(b);
        }
    }
    (a, b)
}

/// The entity that is to run of those that are queued, the running one too.
fn pick_entity(cfs_rq: &CfsRq) -> Option<&'static SchedEntity> {
    if !is_eevdf() {
        return cfs_rq.first();
    }
    let load = cfs_rq.whole_load();
    let deadline = |se: &SchedEntity| se.deadline_ns.load(Relaxed);
    let curr = cfs_rq
        .curr
        .get()
        .filter(|curr| curr.on_rq.load(Relaxed) != 0 && load.is_eligible(cfs_rq.key_ns(curr)));
    let is_protected =
        |curr: &&SchedEntity| deadline(curr) == curr.picked_deadline_ns.load(Relaxed);
    if let Some(curr) = curr.filter(is_protected) {
        return Some(curr);
    }
    let best = cfs_rq.earliest_deadline(load);
    match (curr, best) {
        (Some(curr), Some(best)) if is_earlier(deadline(best), deadline(curr)) => Some(best),
        // By rounding nobody may be eligible.
        (curr, best) => curr.or(best).or(cfs_rq.first()),
    }
}

/// Whether the running entity has had its slice, by `cfs`.
fn is_slice_over(cfs_rq: &CfsRq, curr: &'static SchedEntity) -> bool {
    let times = policy().times;
    let weights = |se: &SchedEntity| (se.weight.load(Relaxed), se.cfs_rq().load.load(Relaxed));
    let nr_running = u64::from(cfs_rq.nr_running.load(Relaxed));
    let slice = times.cfs_slice_ns(nr_running, curr.levels().map(weights));
    let ran = curr.sum_exec_ns.load(Relaxed) - curr.prev_sum_exec_ns.load(Relaxed);
    // Who is so far ahead of the first one is preempted before.
    let is_ahead = |first: &SchedEntity| {
        let vruntimes = [curr, first].map(|se| se.vruntime_ns.load(Relaxed));
        vruntimes[0].wrapping_sub(vruntimes[1]) as i64 > slice as i64
    };
    ran > slice || ran >= times.slice_ns && cfs_rq.first().is_some_and(is_ahead)
}

fn has_used_slice(se: &SchedEntity) -> bool {
    !is_earlier(se.vruntime_ns.load(Relaxed), se.deadline_ns.load(Relaxed))
}

fn set_deadline(se: &SchedEntity, slice_ns: u64) {
    let virtual_slice = weight::virtual_ns(slice_ns, se.weight.load(Relaxed));
    let deadline = se.vruntime_ns.load(Relaxed).wrapping_add(virtual_slice);
    se.deadline_ns.store(deadline, Relaxed);
}

/// Gives an entity that comes its virtual time and deadline.
fn place_entity(cfs_rq: &CfsRq, se: &SchedEntity, enqueue: Enqueue) {
    let times = policy().times;
    let floor = cfs_rq.min_vruntime_ns.load(Relaxed);
    let weight = se.weight.load(Relaxed);
    if is_eevdf() {
        let load = cfs_rq.whole_load();
        let lag = se.lag_ns.load(Relaxed) as i64;
        let behind = load.mean_ns() - eevdf::placed_behind_ns(lag, weight, load.weight);
        se.vruntime_ns.store(floor.wrapping_add(behind as u64), Relaxed);
        // Who is new has half a slice to begin with.
        set_deadline(se, times.slice_ns / if enqueue == Enqueue::New { 2 } else { 1 });
        return;
    }
    let base = if se.is_relative.load(Relaxed) != 0 { floor } else { 0 };
    se.is_relative.store(0, Relaxed);
    let vruntime = se.vruntime_ns.load(Relaxed).wrapping_add(base);
    let placed = match enqueue {
        Enqueue::Migrated => vruntime,
        // Sleepers come before the others by half a period at most.
        Enqueue::Wakeup => later(vruntime, floor.wrapping_sub(times.latency_ns / 2)),
        // Who is new waits for a slice.
        Enqueue::New => {
            let levels = [(weight, cfs_rq.load.load(Relaxed) + weight)].into_iter();
            let nr_running = u64::from(cfs_rq.nr_running.load(Relaxed)) + 1;
            let slice = times.cfs_slice_ns(nr_running, levels);
            later(vruntime, floor.wrapping_add(weight::virtual_ns(slice, weight)))
        }
    };
    se.vruntime_ns.store(placed, Relaxed);
}

/// Notes how far behind the others an entity leaves, by `eevdf`.
fn keep_lag(cfs_rq: &CfsRq, se: &SchedEntity) {
    if !is_eevdf() {
        return;
    }
    let weight = se.weight.load(Relaxed);
    let tick_ns = 1_000_000_000 / u64::from(policy().hz);
    let [slice, tick] = [policy().times.slice_ns, tick_ns].map(|ns| weight::virtual_ns(ns, weight));
    let behind = cfs_rq.whole_load().mean_ns() - cfs_rq.key_ns(se);
    se.lag_ns.store(eevdf::lag_ns(behind, slice, tick) as u64, Relaxed);
}

/// Has an entity's virtual time count from the least one of its queue, as it goes to another.
fn make_relative(cfs_rq: &CfsRq, se: &SchedEntity) {
    if se.is_relative.load(Relaxed) == 0 {
        let floor = cfs_rq.min_vruntime_ns.load(Relaxed);
        add(&se.vruntime_ns, floor.wrapping_neg());
        se.is_relative.store(1, Relaxed);
    }
}

/// Moves a sleeping task, without the lock of the run queue that it leaves.
pub(crate) fn set_task_cpu(task: &Task, to: usize) {
    make_relative(task.se.cfs_rq(), &task.se);
    remove_entity_load_avg(task);
    set_task_rq(task, to);
    task.ti.cpu.store(to as u32, Relaxed);
    task.ts.wake_cpu.store(to as u32, Relaxed);
}
