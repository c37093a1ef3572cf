//! The area of a CPU: one line per purpose, on the memory of the CPU's node.
//!
//! Rows of the line map are types wrapped in [`Line`]: fields of one row share a line, rows never
//! do. The area is page-aligned, zeroed and filled by its own CPU; zeros are a valid value of
//! every field.

use core::ops::Deref;

use guests_abi::class::LineClass;

use crate::arch::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::arch::{ArchCpu, CpuPreempt};
use crate::cfs::{CfsRq, CfsTasks};
use crate::config::Policy;
use crate::counters::Counters;
use crate::cpuidle::Governor;
use crate::link::Link;
use crate::llist::Head;
use crate::lock::{Lock, McsNode};
use crate::machine;
use crate::smp::Csd;
use crate::task::{Stack, Task};
use crate::testdev::declare;
use crate::timer::TimerBase;

/// A value on cache lines of its own.
#[repr(C, align(64))]
pub(crate) struct Line<T>(pub(crate) T);

impl<T> Deref for Line<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// PCPU: what only this CPU touches.
#[repr(C)]
pub(crate) struct Pcpu {
    /// Address of the area itself; the per-CPU base points here.
    pub(crate) this: AtomicPtr<Cpu>,
    /// Depth of `preempt_disable`, where the ISA keeps it for each CPU.
    pub(crate) preempt: CpuPreempt,
    /// The task that runs.
    pub(crate) current: Link<Task>,
    /// The task that the running one was switched to from.
    pub(crate) switched_from: Link<Task>,
    /// Clock time of the next tick; 0 while the tick is stopped.
    pub(crate) next_tick: AtomicU64,
    /// Softirqs that were raised here, one bit each.
    pub(crate) softirq_pending: AtomicU32,
    /// 1 while softirqs run here.
    pub(crate) is_in_softirq: AtomicU32,
    /// Bits of a kick that the next softirq is to follow.
    pub(crate) nohz_idle_balance: AtomicU32,
}

/// What idle scans read besides who runs.
#[repr(C)]
pub(crate) struct RqCount {
    pub(crate) nr_running: AtomicU32,
    /// 1 while wakes are queued here that are not drained yet (`ttwu_via=csd`).
    pub(crate) ttwu_pending: AtomicU32,
}

/// RQL: the lock.
#[repr(C)]
pub(crate) struct RqLock {
    pub(crate) lock: Lock,
    /// With `rq_layout=classic`; see `Cpu::rq_count`.
    pub(crate) count: RqCount,
    pub(crate) nr_switches: AtomicU64,
    /// Bits of a kick that is on its way (`guests_sched::nohz`).
    pub(crate) nohz_flags: AtomicU32,
    /// 1 from the stop of the tick to the next busy tick.
    pub(crate) nohz_tick_stopped: AtomicU32,
    /// 1 while the averages have not decayed to nothing since the CPU went idle.
    pub(crate) has_blocked_load: AtomicU32,
}

/// RQC: who runs, which idle scans read, too.
#[repr(C)]
pub(crate) struct RqCurr {
    /// With `rq_layout=split`; see `Cpu::rq_count`.
    pub(crate) count: RqCount,
    pub(crate) curr: Link<Task>,
    pub(crate) idle: Link<Task>,
    /// When the next balance is due.
    pub(crate) next_balance_ns: AtomicU64,
}

/// RQK: clocks, and what a wake-up updates with them, ns.
#[repr(C)]
pub(crate) struct RqClock {
    pub(crate) clock_ns: AtomicU64,
    pub(crate) clock_task_ns: AtomicU64,
    /// When it ran out of work; 0 when it has some, or has had since.
    pub(crate) idle_stamp_ns: AtomicU64,
    pub(crate) avg_idle_ns: AtomicU64,
    /// What newidle balance costs at most.
    pub(crate) max_idle_balance_cost_ns: AtomicU64,
}

/// The area of a CPU.
#[repr(C, align(4096))]
pub(crate) struct Cpu {
    pub(crate) pcpu: Line<Pcpu>,
    /// Number of this CPU; others read it, too.
    id: Line<AtomicU32>,
    pub(crate) policy: Line<Policy>,
    pub(crate) rql: Line<RqLock>,
    pub(crate) rqc: Line<RqCurr>,
    pub(crate) rqk: Line<RqClock>,
    /// The queue of the root group.
    pub(crate) cfs: CfsRq,
    pub(crate) cfs_tasks: Line<CfsTasks>,
    /// WL: wakes queued here with `ttwu_via=resched`.
    pub(crate) wake_list: Line<Head>,
    /// CSQ: the call queue.
    pub(crate) call_single_queue: Line<Head>,
    /// The descriptor of calls from here that do not wait.
    pub(crate) csd_data: Line<Csd>,
    /// The descriptor of a kick to this CPU.
    pub(crate) nohz_csd: Line<Csd>,
    pub(crate) timers: Line<TimerBase>,
    /// Clock time for which others wake this CPU while its timer stands.
    pub(crate) broadcast_at: Line<AtomicU64>,
    pub(crate) governor: Line<Governor>,
    /// Held by a worker of `bench=schbench` that computes here.
    pub(crate) bench_lock: Line<AtomicU32>,
    pub(crate) mcs: Line<McsNode>,
    pub(crate) counters: Line<Counters>,
    pub(crate) arch: ArchCpu,
    /// First of the tasks that were made for this CPU; only the control thread asks.
    pub(crate) tasks: Line<Link<Task>>,
    idle_task: Task,
    idle_stack: Stack,
}

impl Cpu {
    /// Number of this CPU.
    #[inline]
    pub(crate) fn id(&self) -> usize {
        self.id.load(Relaxed) as usize
    }

    /// The task that runs here; only this CPU may ask.
    #[inline]
    pub(crate) fn current(&self) -> &'static Task {
        self.pcpu.current.get_some()
    }

    /// The idle task.
    pub(crate) fn idle(&'static self) -> &'static Task {
        &self.idle_task
    }

    /// Offset in an area behind the stack of the idle task, on which its CPU starts.
    pub(crate) const fn idle_stack_top_offset() -> usize {
        core::mem::offset_of!(Cpu, idle_stack) + size_of::<Stack>()
    }

    /// Zeroes and fills an area; the CPU of that number, before it uses the area.
    #[expect(unsafe_code, reason = "fills raw memory")]
    pub(crate) fn init(address: u64, id: usize, policy: Policy) -> &'static Cpu {
        let area = address as *mut Cpu;
        // The stack lies behind everything else and needs no zeroes; this CPU runs on it.
        let bytes = core::mem::offset_of!(Cpu, idle_stack);
        // SAFETY: the memory is set aside for this CPU, nobody else knows it yet, zeros are valid
        // for every field, and the policy is written before the first reference is made.
        let cpu = unsafe {
            core::ptr::write_bytes(area.cast::<u8>(), 0, bytes);
            (&raw mut (*area).policy).write(Line(policy));
            &*area
        };
        cpu.pcpu.this.store(area, Relaxed);
        cpu.id.store(id as u32, Relaxed);
        cpu.pcpu.preempt.start();
        cpu.governor.start();
        let idle = cpu.idle();
        idle.become_idle_task(id);
        cpu.pcpu.current.set(Some(idle));
        cpu.rqc.curr.set(Some(idle));
        cpu.rqc.idle.set(Some(idle));
        cpu.init_balance();
        cpu
    }

    /// Declares the classes of the area's lines; the CPU itself.
    pub(crate) fn declare_lines(&'static self) {
        declare(&self.pcpu, LineClass::Pcpu);
        declare(&self.id, LineClass::Pcpu);
        declare(&self.policy, LineClass::Pcpu);
        declare(&self.rql, LineClass::Rql);
        declare(&self.rqc, LineClass::Rqc);
        declare(&self.rqk, LineClass::Rqk);
        self.cfs.declare_lines();
        declare(&self.cfs_tasks, LineClass::Cfs);
        declare(&self.wake_list, LineClass::Wl);
        declare(&self.call_single_queue, LineClass::Csq);
        declare(&self.csd_data, LineClass::Csd);
        declare(&self.nohz_csd, LineClass::Csd);
        declare(&self.timers, LineClass::Pcpu);
        declare(&self.broadcast_at, LineClass::Pcpu);
        declare(&self.governor, LineClass::Pcpu);
        declare(&self.bench_lock, LineClass::Bench);
        declare(&self.mcs, LineClass::Mcs);
        declare(&self.counters, LineClass::Counters);
        declare(&self.arch, LineClass::Pcpu);
        declare(&self.tasks, LineClass::Pcpu);
        self.idle_task.declare_lines();
        declare(&self.idle_stack, LineClass::Stack);
    }
}

/// Address of the counters in the area of a CPU.
pub(crate) fn counters_address(cpu: usize) -> u64 {
    machine::area_address(cpu) + core::mem::offset_of!(Cpu, counters) as u64
}
