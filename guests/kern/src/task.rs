//! Tasks: a stack, a state, and the lines that wakers and schedulers touch.
//!
//! The idle task of a CPU lies in its area; all others are made when they are asked for, on the
//! node of their CPU, to which they are pinned unless they are given a set of CPUs. A task that has
//! ended is used again for the next one of its CPU. Only the control thread makes tasks, so that
//! needs no lock.

use core::mem::offset_of;

use guests_abi::class::LineClass;
use guests_sched::preempt::Class;
use guests_sched::weight;

use crate::arch::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::arch::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize};
use crate::arch::{self, TaskPreempt};
use crate::cfs::SchedEntity;
use crate::console::die;
use crate::cpumask::{self, CpuMask};
use crate::group::TaskGroup;
use crate::link::Link;
use crate::llist::Node;
use crate::lock::Lock;
use crate::percpu::Line;
use crate::testdev::declare;
use crate::timer::Timer;
use crate::{group, machine, memory, placement, sched, testdev, wake};

/// Bytes of a task's stack.
pub(crate) const STACK_BYTES: usize = 16 * 1024;

/// Stack of a task.
#[repr(C, align(4096))]
pub(crate) struct Stack([AtomicU64; STACK_BYTES / 8]);

/// States of a task, as bits so that a waker can name several.
pub(crate) mod state {
    /// Runs or may run.
    pub(crate) const RUNNING: u32 = 0;
    /// Sleeps until it is woken.
    pub(crate) const INTERRUPTIBLE: u32 = 1;
    /// A waker is at work.
    pub(crate) const WAKING: u32 = 1 << 8;
    /// Has ended; may be used again once `on_cpu` is 0.
    pub(crate) const DEAD: u32 = 1 << 9;
}

/// TI: `thread_info` and `__state`. Of an idle task: the line under MONITOR.
#[repr(C)]
pub(crate) struct ThreadInfo {
    /// Bits of `guests_sched::flags`.
    pub(crate) flags: AtomicU32,
    pub(crate) cpu: AtomicU32,
    /// See [`state`].
    pub(crate) state: AtomicU32,
    /// Depth of `preempt_disable`, where the ISA keeps it for each task.
    pub(crate) preempt: TaskPreempt,
}

/// TS: what wakers poll and write.
#[repr(C)]
pub(crate) struct TaskSched {
    /// 1 from before the task runs until its context is saved.
    pub(crate) on_cpu: AtomicU32,
    /// 1 while the task counts in a run queue.
    pub(crate) on_rq: AtomicU32,
    /// On the wake list or call queue of a CPU while a wake is queued there.
    pub(crate) wake_entry: Node,
    pub(crate) wake_cpu: AtomicU32,
    /// Where it ran before the CPU of its last wake.
    pub(crate) recent_used_cpu: AtomicU32,
    /// How often it woke another task than the time before; halved once a second.
    pub(crate) wakee_flips: AtomicU32,
    pub(crate) flips_since_ns: AtomicU64,
    pub(crate) last_wakee: Link<Task>,
    /// CPUs that it may use; nothing while it is pinned to the one it is on.
    pub(crate) allowed: Link<CpuMask>,
}

/// What only the context switch and the task's own start touch.
#[repr(C)]
pub(crate) struct ThreadContext {
    /// Stack pointer while the task does not run.
    pub(crate) sp: AtomicU64,
    /// Address behind the stack; 0 for idle tasks.
    stack_top: AtomicU64,
    /// Next task that was made for the same CPU.
    next: Link<Task>,
    /// Function of the task, as an address.
    func: AtomicUsize,
    /// What the function gets: a reference.
    arg: AtomicPtr<()>,
}

/// A task; each part on lines of its own.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) ti: Line<ThreadInfo>,
    pub(crate) ts: Line<TaskSched>,
    /// PI: serialises wakers of this task.
    pub(crate) pi: Line<Lock>,
    pub(crate) se: SchedEntity,
    pub(crate) timer: Line<Timer>,
    pub(crate) thread: Line<ThreadContext>,
}

impl Task {
    /// Makes zeroed memory the idle task that runs already on CPU `cpu`.
    pub(crate) fn become_idle_task(&self, cpu: usize) {
        self.init(cpu);
        self.set_class(Class::IdleTask);
        self.ti.state.store(state::RUNNING, Relaxed);
        self.ts.on_cpu.store(1, Relaxed);
        self.ti.preempt.start();
    }

    fn init(&self, cpu: usize) {
        self.ti.cpu.store(cpu as u32, Relaxed);
        self.ts.wake_cpu.store(cpu as u32, Relaxed);
    }

    /// Declares the classes of the task's lines.
    pub(crate) fn declare_lines(&self) {
        declare(&self.ti, LineClass::Ti);
        declare(&self.ts, LineClass::Ts);
        declare(&self.pi, LineClass::Pi);
        self.se.declare_lines();
        declare(&self.timer, LineClass::Pcpu);
        declare(&self.thread, LineClass::Pcpu);
    }

    /// Class of the task.
    #[inline]
    pub(crate) fn class(&self) -> Class {
        match self.se.class.load(Relaxed) {
            0 => Class::IdleTask,
            1 => Class::Idle,
            _ => Class::Normal,
        }
    }

    fn set_class(&self, class: Class) {
        let value = match class {
            Class::IdleTask => 0,
            Class::Idle => 1,
            Class::Normal => 2,
        };
        self.se.class.store(value, Relaxed);
    }

    /// Whether this is the idle task of a CPU.
    #[inline]
    pub(crate) fn is_idle_task(&self) -> bool {
        self.class() == Class::IdleTask
    }

    /// Whether it may use only the CPU it is on.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.ts.allowed.get().is_none()
    }

    /// Whether it may move to that CPU.
    pub(crate) fn may_run_on(&self, cpu: usize) -> bool {
        self.ts.allowed.get().is_some_and(|allowed| allowed.contains(cpu))
    }

    /// The task that a `wake_entry` is part of.
    #[expect(unsafe_code, reason = "makes a task of the address of one of its fields")]
    pub(crate) fn of_wake_entry(entry: &'static Node) -> &'static Task {
        let offset = offset_of!(Task, ts) + offset_of!(TaskSched, wake_entry);
        // SAFETY: only the `wake_entry` of tasks, which are never freed, are queued as such.
        unsafe { &*core::ptr::from_ref(entry).byte_sub(offset).cast::<Task>() }
    }

    /// CPU of the task.
    #[inline]
    pub(crate) fn cpu(&self) -> usize {
        self.ti.cpu.load(Relaxed) as usize
    }

    /// Bits of `guests_sched::flags`.
    #[inline]
    pub(crate) fn flags(&self) -> u32 {
        self.ti.flags.load(Relaxed)
    }
}

/// How a thread is scheduled.
#[derive(Clone, Copy)]
pub(crate) struct Attributes {
    pub(crate) class: Class,
    /// -20 to 19; without effect on SCHED_IDLE.
    pub(crate) nice: i8,
    /// CPUs that it may use; none while it is pinned to the one that it starts on.
    pub(crate) allowed: Option<&'static CpuMask>,
    /// None is the root group.
    pub(crate) group: Option<&'static TaskGroup>,
}

impl Default for Attributes {
    /// A pinned thread of a benchmark.
    fn default() -> Attributes {
        let group = group::innermost();
        Attributes { class: Class::Normal, nice: 0, allowed: None, group }
    }
}

/// Starts a thread of a benchmark on a CPU, which runs `func(arg)`. Only the control thread may.
pub(crate) fn kthread_run<T: Sync>(
    cpu: usize,
    class: Class,
    func: extern "C" fn(&'static T),
    arg: &'static T,
) -> &'static Task {
    kthread_run_with(cpu, Attributes { class, ..Attributes::default() }, func, arg)
}

/// As [`kthread_run`], for a thread that may use every CPU; it begins on that of [`idlest_cpu`].
pub(crate) fn kthread_run_unbound<T: Sync>(
    cpu: usize,
    class: Class,
    func: extern "C" fn(&'static T),
    arg: &'static T,
) -> &'static Task {
    let allowed = Some(cpumask::all());
    kthread_run_with(cpu, Attributes { class, allowed, ..Attributes::default() }, func, arg)
}

/// The CPU on which an unbound thread is to begin.
pub(crate) fn idlest_cpu() -> usize {
    placement::select_task_rq_fork(cpumask::all())
}

/// Starts a thread as [`kthread_run`] does, scheduled otherwise.
pub(crate) fn kthread_run_with<T: Sync>(
    cpu: usize,
    attributes: Attributes,
    func: extern "C" fn(&'static T),
    arg: &'static T,
) -> &'static Task {
    start(cpu, attributes, func as usize, core::ptr::from_ref(arg).cast_mut().cast())
}

fn start(cpu: usize, attributes: Attributes, func: usize, arg: *mut ()) -> &'static Task {
    let Attributes { class, nice, allowed, group } = attributes;
    let task = ended_task(cpu).unwrap_or_else(|| new_task(cpu));
    task.init(cpu);
    task.set_class(class);
    let weight = if class == Class::Idle { weight::IDLE } else { weight::of_nice(nice) };
    task.se.weight.store(weight, Relaxed);
    task.se.vruntime_ns.store(0, Relaxed);
    task.se.is_relative.store(1, Relaxed);
    task.se.lag_ns.store(0, Relaxed);
    task.se.sum_exec_ns.store(0, Relaxed);
    task.se.avg.start(weight);
    task.se.group.set(group);
    group::set_task_rq(task, cpu);
    task.ts.allowed.set(allowed);
    task.ts.wakee_flips.store(0, Relaxed);
    task.ts.last_wakee.set(None);
    task.ts.recent_used_cpu.store(cpu as u32, Relaxed);
    task.ti.flags.store(0, Relaxed);
    task.ti.preempt.start();
    task.thread.func.store(func, Relaxed);
    task.thread.arg.store(arg, Relaxed);
    let sp = arch::initial_stack(task.thread.stack_top.load(Relaxed), task_entry);
    task.thread.sp.store(sp, Relaxed);
    task.ti.state.store(state::RUNNING, Release);
    wake::wake_up_new_task(task);
    task
}

/// A task of a CPU that has ended, if there is one.
fn ended_task(cpu: usize) -> Option<&'static Task> {
    let mut left = machine::cpu(cpu).tasks.get();
    while let Some(task) = left {
        if task.ti.state.load(Relaxed) == state::DEAD && task.ts.on_cpu.load(Acquire) == 0 {
            return Some(task);
        }
        left = task.thread.next.get();
    }
    None
}

fn new_task(cpu: usize) -> &'static Task {
    let task: &Task = &memory::alloc_slice(machine::node(cpu), 1)[0];
    let stack = memory::alloc(machine::node(cpu), STACK_BYTES, align_of::<Stack>());
    task.thread.stack_top.store(stack + STACK_BYTES as u64, Relaxed);
    let tasks = &machine::cpu(cpu).tasks;
    task.thread.next.set(tasks.get());
    tasks.set(Some(task));
    task.declare_lines();
    testdev::declare_lines(stack, STACK_BYTES, LineClass::Stack);
    task
}

/// First code of every thread: ends the switch to it as `schedule` would, then runs its function.
#[expect(unsafe_code, reason = "makes a function of an address")]
extern "C" fn task_entry() -> ! {
    sched::schedule_tail();
    let task = arch::current();
    let func = task.thread.func.load(Relaxed);
    // SAFETY: `kthread_run` stored a function that takes a reference, as which it gets the `arg`
    // that was stored with it.
    let func = unsafe { core::mem::transmute::<usize, extern "C" fn(*const ())>(func) };
    func(task.thread.arg.load(Relaxed));
    task.ti.state.store(state::DEAD, Relaxed);
    sched::schedule();
    die!(PANIC, "a dead task ran")
}
