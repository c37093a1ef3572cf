//! Tasks: a stack, a state, and the lines that wakers and schedulers touch.
//!
//! Every CPU has a few task slots in its area; slot 0 is its idle task. A task is pinned to the
//! CPU of its slot. Only the control thread creates tasks, so a free slot needs no lock.

use guests_sched::preempt::{Class, WEIGHT_NICE_0};

use crate::arch::atomic::Ordering::{Acquire, Relaxed, Release};
use crate::arch::atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize};
use crate::arch::{self, TaskPreempt};
use crate::console::die;
use crate::link::Link;
use crate::lock::Lock;
use crate::percpu::{Cpu, Line};
use crate::{machine, sched, wake};

/// Bytes of a task's stack.
pub(crate) const STACK_BYTES: usize = 16 * 1024;

/// Task slots of a CPU, the idle task included.
pub(crate) const TASKS_PER_CPU: usize = 4;

/// States of a task, as bits so that a waker can name several.
pub(crate) mod state {
    /// Runs or may run.
    pub(crate) const RUNNING: u32 = 0;
    /// Sleeps until it is woken.
    pub(crate) const INTERRUPTIBLE: u32 = 1;
    /// A waker is at work.
    pub(crate) const WAKING: u32 = 1 << 8;
    /// Has ended; the slot is free once `on_cpu` is 0.
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
    pub(crate) wake_cpu: AtomicU32,
}

/// SE: the scheduling entity.
#[repr(C)]
pub(crate) struct SchedEntity {
    pub(crate) vruntime_ns: AtomicU64,
    pub(crate) exec_start_ns: AtomicU64,
    pub(crate) sum_exec_ns: AtomicU64,
    /// Sum at which the task was picked.
    pub(crate) prev_sum_exec_ns: AtomicU64,
    pub(crate) weight: AtomicU64,
    class: AtomicU8,
    /// Next in order of vruntime.
    pub(crate) next: Link<Task>,
}

/// What only the context switch and the task's own start touch.
#[repr(C)]
pub(crate) struct ThreadContext {
    /// Stack pointer while the task does not run.
    pub(crate) sp: AtomicU64,
    /// Function of the task, as an address.
    func: AtomicUsize,
    arg: AtomicUsize,
}

/// A task; each part on lines of its own.
#[repr(C)]
pub(crate) struct Task {
    pub(crate) ti: Line<ThreadInfo>,
    pub(crate) ts: Line<TaskSched>,
    /// PI: serialises wakers of this task.
    pub(crate) pi: Line<Lock>,
    pub(crate) se: Line<SchedEntity>,
    pub(crate) thread: Line<ThreadContext>,
}

impl Task {
    /// Makes a zeroed slot a free one of CPU `cpu`.
    pub(crate) fn init(&self, cpu: usize) {
        self.ti.cpu.store(cpu as u32, Relaxed);
        self.ti.state.store(state::DEAD, Relaxed);
        self.ts.wake_cpu.store(cpu as u32, Relaxed);
    }

    /// Makes a slot the idle task that runs already.
    pub(crate) fn become_idle_task(&self) {
        self.set_class(Class::IdleTask);
        self.ti.state.store(state::RUNNING, Relaxed);
        self.ts.on_cpu.store(1, Relaxed);
        self.ti.preempt.start();
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

/// Starts a thread on a CPU. Only the control thread may.
pub(crate) fn kthread_run(
    cpu: usize,
    class: Class,
    func: extern "C" fn(usize),
    arg: usize,
) -> &'static Task {
    let area = machine::cpu(cpu);
    let Some((slot, task)) = area.tasks.iter().enumerate().skip(1).find(|(_, task)| {
        task.ti.state.load(Relaxed) == state::DEAD && task.ts.on_cpu.load(Acquire) == 0
    }) else {
        die!(FAIL, "cpu {cpu}: no free task slot");
    };
    prepare(area, slot, task, class, func, arg);
    wake::wake_up_new_task(task);
    task
}

fn prepare(
    area: &'static Cpu,
    slot: usize,
    task: &'static Task,
    class: Class,
    func: extern "C" fn(usize),
    arg: usize,
) {
    task.set_class(class);
    task.se.weight.store(if class == Class::Idle { 3 } else { WEIGHT_NICE_0 }, Relaxed);
    task.se.vruntime_ns.store(0, Relaxed);
    task.se.sum_exec_ns.store(0, Relaxed);
    task.ti.flags.store(0, Relaxed);
    task.ti.preempt.start();
    task.thread.func.store(func as usize, Relaxed);
    task.thread.arg.store(arg, Relaxed);
    let sp = arch::initial_stack(area.stack_top(slot), task_entry);
    task.thread.sp.store(sp, Relaxed);
    task.ti.state.store(state::RUNNING, Release);
}

/// First code of every thread: ends the switch to it as `schedule` would, then runs its function.
#[expect(unsafe_code, reason = "makes a function of an address")]
extern "C" fn task_entry() -> ! {
    sched::schedule_tail();
    let task = arch::this_cpu().current();
    let func = task.thread.func.load(Relaxed);
    // SAFETY: `prepare` stored a function of this type.
    let func = unsafe { core::mem::transmute::<usize, extern "C" fn(usize)>(func) };
    func(task.thread.arg.load(Relaxed));
    task.ti.state.store(state::DEAD, Relaxed);
    sched::schedule();
    die!(PANIC, "a dead task ran")
}
