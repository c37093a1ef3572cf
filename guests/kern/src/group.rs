//! Task groups: an entity and a queue for each CPU, and the load of the group over all CPUs.
//!
//! The root group has no entities; its queues are in the areas of the CPUs. Groups are made at
//! boot: `cgroup_depth` of them, one inside the other, and the threads of a benchmark are in the
//! innermost. Linux: `struct task_group`, `set_task_rq`, `update_tg_load_avg`,
//! `update_cfs_group`. Not modelled: changing of shares, bandwidth control, moves between groups.

use guests_abi::class::LineClass;
use guests_abi::counter::Counter;
use guests_sched::tg_load::{self, TgLoad, Update};
use guests_sched::weight::NICE_0;

use crate::arch::atomic::{self, AtomicU64, Ordering::Relaxed};
use crate::arch::{self, irq_restore, irq_save};
use crate::cfs::{CfsRq, SchedEntity};
use crate::console::die;
use crate::counters::bump;
use crate::link::Link;
use crate::percpu::{Cpu, Line};
use crate::task::Task;
use crate::testdev::{self, declare};
use crate::tick::sched_clock_ns;
use crate::wake::lock_target;
use crate::{machine, memory};

/// A group of tasks, or of groups.
#[repr(C)]
pub(crate) struct TaskGroup {
    tg: Line<Tg>,
    tgr: Line<Tgr>,
}

/// TG: what all CPUs that run the group write.
#[repr(C)]
struct Tg {
    load_avg: AtomicU64,
    /// Stands behind the load as in Linux with real-time groups: read when a task migrates
    /// (`tg_layout=shared`).
    rt_rq: AtomicU64,
}

/// TGR: what they read.
#[repr(C)]
struct Tgr {
    shares: AtomicU64,
    parent: Option<&'static TaskGroup>,
    /// What the group is on each CPU.
    on_cpu: &'static [Link<OnCpu>],
    /// With `tg_layout=alone`.
    rt_rq: AtomicU64,
}

/// A group on a CPU.
#[repr(C)]
struct OnCpu {
    se: SchedEntity,
    queue: CfsRq,
}

#[expect(unsafe_code, reason = "a group on a cpu is atomics")]
// SAFETY: zero is a value of every field: integers, links, an open lock.
unsafe impl memory::Zeroed for OnCpu {}

/// The innermost group; none while there is but the root.
static INNERMOST: Link<TaskGroup> = Link::none();

/// Makes groups, each inside the one before; all CPUs are up.
pub(crate) fn init(depth: u64) {
    for _ in 0..depth {
        INNERMOST.set(Some(new(INNERMOST.get())));
    }
}

/// The group that the threads of a benchmark belong to; none is the root.
pub(crate) fn innermost() -> Option<&'static TaskGroup> {
    INNERMOST.get()
}

fn new(parent: Option<&'static TaskGroup>) -> &'static TaskGroup {
    let on_cpu = memory::alloc_slice::<Link<OnCpu>>(0, machine::cpu_count());
    for (cpu, slot) in on_cpu.iter_mut().enumerate() {
        slot.set(Some(&memory::alloc_slice::<OnCpu>(machine::node(cpu), 1)[0]));
    }
    testdev::declare_lines(on_cpu.as_ptr() as u64, size_of_val(on_cpu), LineClass::Tgr);
    let tg = Line(Tg { load_avg: AtomicU64::new(0), rt_rq: AtomicU64::new(0) });
    let shares = AtomicU64::new(NICE_0);
    let tgr = Line(Tgr { shares, parent, on_cpu, rt_rq: AtomicU64::new(0) });
    let group: &TaskGroup = memory::alloc_value(0, TaskGroup { tg, tgr });
    declare(&group.tg, LineClass::Tg);
    declare(&group.tgr, LineClass::Tgr);
    for cpu in 0..machine::cpu_count() {
        let OnCpu { se, queue } = group.on_cpu(cpu);
        se.declare_lines();
        queue.declare_lines();
        se.weight.store(NICE_0, Relaxed);
        se.avg.start_empty();
        se.stand_for(queue);
        // Long before the clock began.
        queue.part.last_update_ns.store(u64::MAX << 40, Relaxed);
        queue.owner.group.set(Some(group));
        queue.owner.se.set(Some(se));
        place(se, parent, cpu);
    }
    group
}

/// Puts an entity into the queue of a group on a CPU.
fn place(se: &SchedEntity, group: Option<&'static TaskGroup>, cpu: usize) {
    match group {
        Some(group) => {
            let on_cpu = group.on_cpu(cpu);
            se.place(&on_cpu.queue, Some(&on_cpu.se));
        }
        None => se.place(&machine::cpu(cpu).cfs, None),
    }
}

/// Has a task, which is in no queue, go to the queue of its group on a CPU.
pub(crate) fn set_task_rq(task: &Task, cpu: usize) {
    let group = task.se.group.get();
    place(&task.se, group, cpu);
    if let Some(group) = group {
        // Read for its cost: there are no real-time tasks.
        let is_shared = arch::this_cpu().policy.is_tg_shared;
        let _ = if is_shared { &group.tg.rt_rq } else { &group.tgr.rt_rq }.load(Relaxed);
    }
}

impl TaskGroup {
    fn on_cpu(&self, cpu: usize) -> &'static OnCpu {
        self.tgr.on_cpu[cpu].get_some()
    }

    /// Its queue on a CPU.
    pub(crate) fn queue(&self, cpu: usize) -> &'static CfsRq {
        &self.on_cpu(cpu).queue
    }

    /// The group that it is in; none is the root.
    pub(crate) fn parent(&self) -> Option<&'static TaskGroup> {
        self.tgr.parent
    }
}

/// Tells the group of a queue how much load it has here, if the policy finds it worth telling.
pub(crate) fn update_tg_load_avg(cfs_rq: &CfsRq) {
    let Some(group) = cfs_rq.owner.group.get() else {
        return;
    };
    let policy = &arch::this_cpu().policy;
    let part = &cfs_rq.part;
    let (average, contribution) = (&cfs_rq.avg.load_avg, &part.tg_load_avg_contrib);
    let mut now = 0;
    let update = tg_load::update(
        policy.tg_load,
        average.load(Relaxed),
        contribution.load(Relaxed),
        policy.tg_ratelimit_ns,
        || {
            now = sched_clock_ns();
            now.wrapping_sub(part.last_update_ns.load(Relaxed))
        },
    );
    match update {
        Update::Off => {}
        Update::SkipRate => bump(Counter::TgSkipRate),
        Update::SkipThreshold => bump(Counter::TgSkipThresh),
        Update::Add(delta) => {
            atomic::add(&group.tg.load_avg, delta as u64);
            contribution.store(average.load(Relaxed), Relaxed);
            part.last_update_ns.store(now, Relaxed);
            bump(Counter::TgUpdate);
        }
    }
}

/// The weight that a group's entity on a CPU should have.
pub(crate) fn calc_group_shares(queue: &CfsRq, group: &TaskGroup) -> u64 {
    bump(Counter::TgRead);
    let load = queue.load.load(Relaxed).max(queue.avg.load_avg.load(Relaxed));
    tg_load::group_shares(
        group.tgr.shares.load(Relaxed),
        group.tg.load_avg.load(Relaxed),
        queue.part.tg_load_avg_contrib.load(Relaxed),
        load,
    )
}

/// Readings of a group after which its load is given up as never at rest.
const CHECKS_MAX: usize = 1000;

/// Ends the run unless the load of every group is the sum of what CPUs have told it, and by
/// `tg_load=threshold` each CPU, once it has been asked to, has told it within a 64th. Averages of
/// busy CPUs move on, so a reading that an update fell into is taken again.
pub(crate) fn check_load() {
    let mut next = innermost();
    while let Some(group) = next {
        (0..machine::cpu_count()).for_each(|cpu| check_part(group, cpu));
        let is_sum = |_| {
            let cpus = 0..machine::cpu_count();
            let told = cpus.map(|cpu| group.queue(cpu).part.tg_load_avg_contrib.load(Relaxed));
            let before = group.tg.load_avg.load(Relaxed);
            told.sum::<u64>() == before && group.tg.load_avg.load(Relaxed) == before
        };
        if !(0..CHECKS_MAX).any(is_sum) {
            die!(FAIL, "tg->load_avg is not the sum of what the cpus contributed");
        }
        next = group.parent();
    }
}

fn check_part(group: &TaskGroup, cpu: usize) {
    let queue = group.queue(cpu);
    arch::preempt_disable();
    let was_on = irq_save!(irqoff_rq);
    let rq = lock_target(cpu);
    update_tg_load_avg(queue);
    let average = queue.avg.load_avg.load(Relaxed);
    let told = queue.part.tg_load_avg_contrib.load(Relaxed);
    rq.rq_unlock();
    irq_restore(was_on);
    arch::preempt_enable();
    let is_threshold = arch::this_cpu().policy.tg_load == TgLoad::Threshold;
    if is_threshold && average.abs_diff(told) > told / 64 {
        die!(FAIL, "cpu {cpu}: has a load of {average}, told its group {told}");
    }
}

impl Cpu {
    /// Gives a group's entity the weight of its part; a task's keeps its own.
    pub(crate) fn update_cfs_group(&self, se: &'static SchedEntity) {
        let Some(queue) = se.my_q() else {
            return;
        };
        let shares = calc_group_shares(queue, queue.owner.group.get_some());
        if shares != se.weight.load(Relaxed) {
            self.reweight_entity(se, shares);
        }
    }
}
