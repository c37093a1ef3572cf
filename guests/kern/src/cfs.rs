//! Queues of the fair class and what stands in them: an entity is a task, or a group on a CPU that
//! stands for a queue of its own.
//!
//! A queue holds its entities in a tree (`guests_sched::tree`); the running one counts, but is not
//! in the tree. All of it is guarded by the run-queue lock of the CPU.

use core::mem::offset_of;
use core::ptr::from_ref;

use guests_abi::class::LineClass;
use guests_sched::eevdf::Load;
use guests_sched::tree::{self, Node};

use crate::arch::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::group::TaskGroup;
use crate::link::Link;
use crate::pelt::{Avg, GroupPart, Removed};
use crate::percpu::Line;
use crate::task::Task;
use crate::testdev::declare;

/// SE: a scheduling entity.
#[repr(C, align(64))]
pub(crate) struct SchedEntity {
    pub(crate) weight: AtomicU64,
    pub(crate) vruntime_ns: AtomicU64,
    pub(crate) deadline_ns: AtomicU64,
    min_deadline_ns: AtomicU64,
    left: Link<SchedEntity>,
    right: Link<SchedEntity>,
    ticket: AtomicU32,
    /// 1 while it counts in its queue.
    pub(crate) on_rq: AtomicU8,
    /// 1 while `vruntime_ns` counts from the least one of the queue that the entity goes to.
    pub(crate) is_relative: AtomicU8,
    /// `guests_sched::preempt::Class` of a task.
    pub(crate) class: AtomicU8,
    /// Groups above it.
    pub(crate) depth: AtomicU8,
    pub(crate) exec_start_ns: AtomicU64,
    pub(crate) sum_exec_ns: AtomicU64,
    /// Sum at which the entity was picked.
    pub(crate) prev_sum_exec_ns: AtomicU64,
    /// Lag with which it left its queue, signed, ns.
    pub(crate) lag_ns: AtomicU64,
    /// Deadline with which it was picked: until it has another one it is not preempted.
    pub(crate) picked_deadline_ns: AtomicU64,
    /// The queue that it is in, or will be in.
    cfs_rq: Link<CfsRq>,
    /// The entity of the group that it is in.
    parent: Link<SchedEntity>,
    /// The queue that it stands for; none for a task.
    my_q: Link<CfsRq>,
    /// Group of a task; none is the root group.
    pub(crate) group: Link<TaskGroup>,
    /// Neighbours in the list of the CPU's tasks.
    towards_head: Link<Task>,
    towards_tail: Link<Task>,
    pub(crate) avg: Line<Avg>,
}

impl SchedEntity {
    /// The queue that it is in, or will be in.
    #[inline]
    pub(crate) fn cfs_rq(&self) -> &'static CfsRq {
        self.cfs_rq.get_some()
    }

    /// The queue that it stands for; none for a task.
    #[inline]
    pub(crate) fn my_q(&self) -> Option<&'static CfsRq> {
        self.my_q.get()
    }

    /// Puts it below `parent`, or at the root: it is to be in that queue.
    pub(crate) fn place(&self, cfs_rq: &'static CfsRq, parent: Option<&'static SchedEntity>) {
        self.cfs_rq.set(Some(cfs_rq));
        self.parent.set(parent);
        self.depth.store(parent.map_or(0, |parent| parent.depth.load(Relaxed) + 1), Relaxed);
    }

    /// Makes it stand for a queue.
    pub(crate) fn stand_for(&self, queue: &'static CfsRq) {
        self.my_q.set(Some(queue));
    }

    /// The entity of the group that it is in.
    #[inline]
    pub(crate) fn parent(&self) -> Option<&'static SchedEntity> {
        self.parent.get()
    }

    /// The entity, then those of the groups above it.
    #[inline]
    pub(crate) fn levels(&'static self) -> impl Iterator<Item = &'static SchedEntity> {
        core::iter::successors(Some(self), |se| se.parent())
    }

    /// The task that this entity, which stands for no queue, is part of.
    #[expect(unsafe_code, reason = "makes a task of the address of its entity")]
    pub(crate) fn task(&'static self) -> &'static Task {
        // SAFETY: an entity that stands for no queue is the `se` of a task, and tasks are never
        // freed.
        unsafe { &*from_ref(self).byte_sub(offset_of!(Task, se)).cast::<Task>() }
    }

    /// Declares the classes of its lines.
    pub(crate) fn declare_lines(&self) {
        declare(self, LineClass::Se);
    }
}

/// An entity as a node of its queue's tree.
#[derive(Clone, Copy)]
struct At(&'static SchedEntity);

impl Node for At {
    fn is(self, other: At) -> bool {
        core::ptr::eq(self.0, other.0)
    }

    fn vruntime_ns(self) -> u64 {
        self.0.vruntime_ns.load(Relaxed)
    }

    fn ticket(self) -> u32 {
        self.0.ticket.load(Relaxed)
    }

    fn deadline_ns(self) -> u64 {
        self.0.deadline_ns.load(Relaxed)
    }

    fn min_deadline_ns(self) -> u64 {
        self.0.min_deadline_ns.load(Relaxed)
    }

    fn set_min_deadline_ns(self, deadline_ns: u64) {
        self.0.min_deadline_ns.store(deadline_ns, Relaxed);
    }

    fn left(self) -> Option<At> {
        self.0.left.get().map(At)
    }

    fn set_left(self, node: Option<At>) {
        self.0.left.set(node.map(|node| node.0));
    }

    fn right(self) -> Option<At> {
        self.0.right.get().map(At)
    }

    fn set_right(self, node: Option<At>) {
        self.0.right.set(node.map(|node| node.0));
    }
}

/// CFS: a queue of the fair class on a CPU, that of a group or the root's; then CFSA and CFSR.
#[repr(C, align(64))]
pub(crate) struct CfsRq {
    /// Weight of its entities.
    pub(crate) load: AtomicU64,
    /// Its entities.
    pub(crate) nr_running: AtomicU32,
    /// Tasks in it and in the queues below it.
    pub(crate) h_nr_running: AtomicU32,
    /// Those of them that are SCHED_IDLE.
    pub(crate) idle_h_nr_running: AtomicU32,
    next_ticket: AtomicU32,
    pub(crate) min_vruntime_ns: AtomicU64,
    /// The entity that runs.
    pub(crate) curr: Link<SchedEntity>,
    root: Link<SchedEntity>,
    first: Link<SchedEntity>,
    /// Sums of the tree for `guests_sched::eevdf`.
    weighted_ns: AtomicU64,
    tree_weight: AtomicU64,
    /// CFSA.
    pub(crate) avg: Line<Avg>,
    pub(crate) part: Line<GroupPart>,
    /// CFSR.
    pub(crate) removed: Line<Removed>,
    /// The group, and its entity here; none for the root.
    pub(crate) owner: Line<Owner>,
}

/// Whose queue it is; read-mostly.
#[repr(C)]
pub(crate) struct Owner {
    pub(crate) group: Link<TaskGroup>,
    pub(crate) se: Link<SchedEntity>,
}

impl CfsRq {
    /// Declares the classes of its lines.
    pub(crate) fn declare_lines(&self) {
        declare(self, LineClass::Cfs);
        declare(&self.avg, LineClass::Cfsa);
        declare(&self.part, LineClass::Cfsa);
        declare(&self.removed, LineClass::Cfsr);
        declare(&self.owner, LineClass::Tgr);
    }

    /// Whether this entity runs.
    #[inline]
    pub(crate) fn is_curr(&self, se: &SchedEntity) -> bool {
        self.curr.get().is_some_and(|curr| core::ptr::eq(curr, se))
    }

    /// The first of the entities that wait.
    #[inline]
    pub(crate) fn first(&self) -> Option<&'static SchedEntity> {
        self.first.get()
    }

    /// Virtual time of an entity behind the least one, ns.
    #[inline]
    pub(crate) fn key_ns(&self, se: &SchedEntity) -> i64 {
        let least = self.min_vruntime_ns.load(Relaxed);
        se.vruntime_ns.load(Relaxed).wrapping_sub(least) as i64
    }

    /// Enters an entity into the tree.
    pub(crate) fn insert(&self, se: &'static SchedEntity) {
        let ticket = self.next_ticket.load(Relaxed);
        self.next_ticket.store(ticket.wrapping_add(1), Relaxed);
        se.ticket.store(ticket, Relaxed);
        self.set_tree_load(self.tree_load().with(self.key_ns(se), se.weight.load(Relaxed)));
        if self.first.get().is_none_or(|first| tree::is_before(At(se), At(first))) {
            self.first.set(Some(se));
        }
        self.root.set(Some(tree::insert(self.root.get().map(At), At(se)).0));
    }

    /// Takes an entity out of the tree.
    pub(crate) fn remove(&self, se: &'static SchedEntity) {
        self.set_tree_load(self.tree_load().without(self.key_ns(se), se.weight.load(Relaxed)));
        let root = tree::remove(self.root.get().map(At), At(se));
        self.root.set(root.map(|root| root.0));
        if self.first.get().is_some_and(|first| core::ptr::eq(first, se)) {
            self.first.set(tree::first(root).map(|first| first.0));
        }
    }

    /// The entity of the earliest deadline among those that wait and are eligible.
    pub(crate) fn earliest_deadline(&self, load: Load) -> Option<&'static SchedEntity> {
        let is_eligible = |at: At| load.is_eligible(self.key_ns(at.0));
        tree::earliest_deadline(self.root.get().map(At), is_eligible).map(|at| at.0)
    }

    fn tree_load(&self) -> Load {
        Load {
            weighted_ns: self.weighted_ns.load(Relaxed) as i64,
            weight: self.tree_weight.load(Relaxed),
        }
    }

    fn set_tree_load(&self, load: Load) {
        self.weighted_ns.store(load.weighted_ns as u64, Relaxed);
        self.tree_weight.store(load.weight, Relaxed);
    }

    /// Sums of all entities, the running one too.
    pub(crate) fn whole_load(&self) -> Load {
        match self.curr.get().filter(|curr| curr.on_rq.load(Relaxed) != 0) {
            Some(curr) => self.tree_load().with(self.key_ns(curr), curr.weight.load(Relaxed)),
            None => self.tree_load(),
        }
    }

    /// Moves the least virtual time on to that of the entities here; it never goes back.
    pub(crate) fn update_min_vruntime(&self) {
        let curr = self.curr.get().filter(|curr| curr.on_rq.load(Relaxed) != 0);
        let vruntimes = [curr, self.first.get()].map(|se| Some(se?.vruntime_ns.load(Relaxed)));
        let Some(least) = vruntimes.into_iter().flatten().reduce(tree::earlier) else {
            return;
        };
        let floor = self.min_vruntime_ns.load(Relaxed);
        let delta = least.wrapping_sub(floor) as i64;
        if delta > 0 {
            self.set_tree_load(self.tree_load().moved(delta));
            self.min_vruntime_ns.store(least, Relaxed);
        }
    }
}

/// The fair tasks of a CPU in all its queues, without order of time: the balancer goes through
/// them from the tail, where those are that have not run for longest.
#[repr(C)]
pub(crate) struct CfsTasks {
    head: Link<Task>,
    tail: Link<Task>,
}

impl CfsTasks {
    /// Enters a task at the head.
    pub(crate) fn push(&self, task: &'static Task) {
        let head = self.head.get();
        task.se.towards_head.set(None);
        task.se.towards_tail.set(head);
        match head {
            Some(head) => head.se.towards_head.set(Some(task)),
            None => self.tail.set(Some(task)),
        }
        self.head.set(Some(task));
    }

    /// Takes a task out.
    pub(crate) fn remove(&self, task: &Task) {
        let (before, behind) = (task.se.towards_head.get(), task.se.towards_tail.get());
        match before {
            Some(before) => before.se.towards_tail.set(behind),
            None => self.head.set(behind),
        }
        match behind {
            Some(behind) => behind.se.towards_head.set(before),
            None => self.tail.set(before),
        }
    }

    /// The tasks from the tail on, the running one too. The one that was given out last may be
    /// taken out meanwhile.
    pub(crate) fn from_tail(&self) -> impl Iterator<Item = &'static Task> {
        let mut next = self.tail.get();
        core::iter::from_fn(move || {
            let task = next?;
            next = task.se.towards_head.get();
            Some(task)
        })
    }
}
