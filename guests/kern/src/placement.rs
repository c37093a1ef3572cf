//! The CPU for a wakee: `select_task_rq_fair`, with wake_affine and select_idle_sibling.
//!
//! The decisions are `guests_sched::affine` and `guests_sched::sis`; here are the reads of remote
//! run queues that they ask for. One domain holds all CPUs, as every domain allows affine wakes.
//! Not modelled: asymmetric capacity, the slow path of fork and exec.

use guests_sched::affine::{self, Loads, Side};
use guests_sched::sis;
use guests_sched::ttwu::TtwuVia;

use crate::arch;
use crate::arch::atomic::Ordering::Relaxed;
use crate::cpumask::CpuMask;
use crate::percpu::Cpu;
use crate::task::Task;
use crate::{domain, machine};

/// Time after which half of a task's flips are forgotten, ns.
const FLIPS_HALVE_NS: u64 = 1_000_000_000;

/// Capacity of a CPU; all have the same.
const CAPACITY: u64 = 1024;

/// Imbalance percentage of every domain above the threads of a core.
const IMBALANCE_PCT: u64 = 117;

/// Whether a CPU idles and nothing is on its way to it. Reads two lines of it, or one by
/// `rq_layout=split`; before wakes came by the call queue also the head of its wake list.
pub(crate) fn idle_cpu(cpu: usize) -> bool {
    let cpu = machine::cpu(cpu);
    let count = cpu.rq_count();
    core::ptr::eq(cpu.rqc.curr.get_some(), cpu.rqc.idle.get_some())
        && count.nr_running.load(Relaxed) == 0
        && count.ttwu_pending.load(Relaxed) == 0
        && (arch::this_cpu().policy.ttwu_via == TtwuVia::Csd || cpu.wake_list.looks_empty())
}

/// Whether a CPU has tasks, and all are SCHED_IDLE.
fn sched_idle_cpu(cpu: usize) -> bool {
    let cpu = machine::cpu(cpu);
    let running = cpu.rq_count().nr_running.load(Relaxed);
    running != 0 && cpu.cfs.idle_h_nr_running.load(Relaxed) == running
}

/// Chooses the CPU on which a wakee goes on; it last ran on `prev`.
pub(crate) fn select_task_rq_fair(wakee: &'static Task, prev: usize, is_sync: bool) -> usize {
    let this = arch::this_cpu();
    let waker = this.current();
    let allowed = wakee.ts.allowed.get_some();
    record_wakee(this, waker, wakee);
    let target = if this.id() != prev
        && allowed.contains(this.id())
        && !is_wide(this.id(), waker, wakee)
        && wake_affine(this, wakee, prev, is_sync) == Side::This
    {
        this.id()
    } else {
        prev
    };
    select_idle_sibling(this, waker, wakee, allowed, target, prev)
}

/// Counts the partners of the waker.
fn record_wakee(this: &Cpu, waker: &Task, wakee: &'static Task) {
    let now = this.rqk.clock_ns.load(Relaxed);
    let flips = &waker.ts.wakee_flips;
    if now > waker.ts.flips_since_ns.load(Relaxed) + FLIPS_HALVE_NS {
        flips.store(flips.load(Relaxed) / 2, Relaxed);
        waker.ts.flips_since_ns.store(now, Relaxed);
    }
    if !waker.ts.last_wakee.get().is_some_and(|last| core::ptr::eq(last, wakee)) {
        waker.ts.last_wakee.set(Some(wakee));
        flips.store(flips.load(Relaxed) + 1, Relaxed);
    }
}

fn is_wide(this: usize, waker: &Task, wakee: &Task) -> bool {
    let flips = |task: &Task| task.ts.wakee_flips.load(Relaxed);
    affine::wake_wide(flips(waker), flips(wakee), domain::llc(this).weight.load(Relaxed))
}

/// The run queues of the two CPUs of wake_affine.
struct Sides {
    this: usize,
    prev: usize,
}

impl affine::View for Sides {
    fn is_idle(&mut self, side: Side) -> bool {
        idle_cpu(match side {
            Side::This => self.this,
            Side::Prev => self.prev,
        })
    }

    fn nr_running_here(&mut self) -> u32 {
        machine::cpu(self.this).rq_count().nr_running.load(Relaxed)
    }
}

fn wake_affine(this: &Cpu, wakee: &Task, prev: usize, is_sync: bool) -> Side {
    let policy = &this.policy;
    let facts = affine::Facts {
        is_same_llc: machine::share_llc(this.id(), prev),
        is_sync,
        has_prev_idle: policy.has_wa_prev_idle,
    };
    let mut sides = Sides { this: this.id(), prev };
    if let Some(side) = affine::by_idle(policy.wa_idle, facts, &mut sides) {
        return side;
    }
    if !policy.has_wa_weight {
        return Side::Prev;
    }
    let loads = Loads {
        this: this.cfs.avg.load_avg.load(Relaxed),
        current: this.current().se.avg.load_avg.load(Relaxed),
        prev: machine::cpu(prev).cfs.avg.load_avg.load(Relaxed),
        task: wakee.se.avg.load_avg.load(Relaxed),
        capacity_this: CAPACITY,
        capacity_prev: CAPACITY,
        imbalance_pct: IMBALANCE_PCT,
    };
    affine::by_weight(loads, is_sync)
}

/// The CPUs around a target, as the search asks for them.
struct Around<'a> {
    allowed: &'a CpuMask,
    /// What is left to scan of the LLC; made when the scan begins.
    scan: Option<CpuMask>,
}

impl sis::View for Around<'_> {
    fn is_idle(&mut self, cpu: usize) -> bool {
        idle_cpu(cpu)
    }

    fn is_sched_idle(&mut self, cpu: usize) -> bool {
        sched_idle_cpu(cpu)
    }

    fn shares_cache(&mut self, a: usize, b: usize) -> bool {
        machine::share_llc(a, b)
    }

    fn is_allowed(&mut self, cpu: usize) -> bool {
        self.allowed.contains(cpu)
    }

    fn has_idle_cores(&mut self, cpu: usize) -> bool {
        domain::llc(cpu).shared.has_idle_cores.load(Relaxed) != 0
    }

    fn clear_idle_cores(&mut self, cpu: usize) {
        domain::llc(cpu).shared.has_idle_cores.store(0, Relaxed);
    }

    fn next_of_llc(&mut self, target: usize, cpu: Option<usize>) -> Option<usize> {
        let allowed = self.allowed;
        let scan =
            self.scan.get_or_insert_with(|| CpuMask::both(&domain::llc(target).span, allowed));
        let behind = cpu.unwrap_or(target);
        // Up to the last CPU, then from the first up to the target.
        if behind > target || cpu.is_none() {
            if let Some(next) = scan.next(behind + 1) {
                return Some(next);
            }
            return scan.next(0).filter(|&next| next <= target);
        }
        scan.next(behind + 1).filter(|&next| next <= target)
    }

    fn leave_out_core(&mut self, cpu: usize) {
        if let Some(scan) = &self.scan {
            scan.remove_all(domain::core(cpu));
        }
    }

    fn next_of_core(&mut self, first: usize, cpu: Option<usize>) -> Option<usize> {
        domain::core(first).next(cpu.map_or(0, |cpu| cpu + 1))
    }

    fn scan_budget(&mut self, _target: usize) -> Option<u32> {
        None
    }
}

fn select_idle_sibling(
    this: &Cpu,
    waker: &Task,
    wakee: &Task,
    allowed: &CpuMask,
    target: usize,
    prev: usize,
) -> usize {
    let recent = wakee.ts.recent_used_cpu.load(Relaxed) as usize;
    wakee.ts.recent_used_cpu.store(prev as u32, Relaxed);
    let facts = sis::Facts {
        target,
        prev,
        recent,
        is_prev_of_lone_kthread: prev == this.id()
            && waker.is_pinned()
            && !waker.is_idle_task()
            && this.rq_count().nr_running.load(Relaxed) <= 1,
        has_smt: domain::has_smt(),
    };
    let mut around = Around { allowed, scan: None };
    sis::select(this.policy.sis, this.policy.sched_idle_cpu, facts, &mut around)
}

/// Notes that this CPU goes idle: with all its core idle the LLC has an idle core.
pub(crate) fn update_idle_core(this: &Cpu) {
    if !domain::has_smt() {
        return;
    }
    let hint = &domain::llc(this.id()).shared.has_idle_cores;
    if hint.load(Relaxed) != 0 {
        return;
    }
    let core = domain::core(this.id());
    let mut thread = core.next(0);
    while let Some(cpu) = thread {
        if cpu != this.id() && !idle_cpu(cpu) {
            return;
        }
        thread = core.next(cpu + 1);
    }
    hint.store(1, Relaxed);
}
