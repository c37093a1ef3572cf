//! The CPU for a wakee: `select_task_rq_fair`, with wake_affine and select_idle_sibling.
//!
//! The decisions are `guests_sched::affine`, `sis` and `idlest`; here are the reads of remote run
//! queues that they ask for. New tasks take the slow path, wakees never. Not modelled: asymmetric
//! capacity, idle states of different depth in the slow path.

use guests_sched::affine::{self, Loads, Side};
use guests_sched::balance::{CAPACITY, GroupStats};
use guests_sched::idlest::{self, Look, Search};
use guests_sched::sis::{self, SchedIdleCpu};
use guests_sched::ttwu::TtwuVia;

use crate::arch;
use crate::arch::atomic::Ordering::Relaxed;
use crate::balance::cpu_facts;
use crate::cpumask::CpuMask;
use crate::domain::{Domain, Group};
use crate::percpu::Cpu;
use crate::task::Task;
use crate::{domain, machine};

/// Time after which half of a task's flips are forgotten, ns.
const FLIPS_HALVE_NS: u64 = 1_000_000_000;

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
pub(crate) fn sched_idle_cpu(cpu: usize) -> bool {
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
        && let Some(domain) = affine_domain(this.id(), prev)
        && wake_affine(this, wakee, prev, domain, is_sync) == Side::This
    {
        this.id()
    } else {
        prev
    };
    select_idle_sibling(this, waker, wakee, allowed, target, prev)
}

/// The smallest domain of the waker's CPU that holds prev, if wakes may go across it.
fn affine_domain(this: usize, prev: usize) -> Option<&'static Domain> {
    domain::domains(this)
        .take_while(|domain| domain.is_near)
        .find(|domain| domain.span.mask.contains(prev))
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
    affine::wake_wide(flips(waker), flips(wakee), domain::llc(this).span.weight())
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

fn wake_affine(this: &Cpu, wakee: &Task, prev: usize, domain: &Domain, is_sync: bool) -> Side {
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
        imbalance_pct: domain.level.imbalance_pct(),
    };
    affine::by_weight(loads, is_sync)
}

/// The CPUs around a target, as the search asks for them.
struct Around<'a> {
    allowed: &'a CpuMask,
    has_cluster: bool,
    /// What is left to scan of the LLC; made when the scan begins.
    scan: Option<CpuMask>,
}

impl Around<'_> {
    /// The next CPU of the scan behind `cpu` that is wanted, in order of number from behind
    /// `target`, wrapping; `target` is the last one.
    fn next_of_scan(
        &mut self,
        target: usize,
        cpu: Option<usize>,
        is_wanted: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let allowed = self.allowed;
        let llc = || CpuMask::both(&domain::llc(target).span.mask, allowed);
        let scan = self.scan.get_or_insert_with(llc);
        let next = |from| {
            let mut rest = core::iter::successors(scan.next(from), |&at| scan.next(at + 1));
            rest.find(|&at| is_wanted(at))
        };
        let behind = cpu.unwrap_or(target);
        // Up to the last CPU, then from the first up to the target.
        if behind > target || cpu.is_none() {
            return next(behind + 1).or_else(|| next(0).filter(|&next| next <= target));
        }
        next(behind + 1).filter(|&next| next <= target)
    }
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

    fn shares_cluster(&mut self, a: usize, b: usize) -> bool {
        machine::cluster_id(a) == machine::cluster_id(b)
    }

    fn next_of_llc(&mut self, target: usize, cpu: Option<usize>) -> Option<usize> {
        if !self.has_cluster {
            return self.next_of_scan(target, cpu, |_| true);
        }
        let cluster = domain::cluster(target);
        let mut behind = cpu;
        if cpu.is_none_or(|cpu| cluster.contains(cpu)) {
            let next = self.next_of_scan(target, cpu, |at| cluster.contains(at));
            if next.is_some() {
                return next;
            }
            behind = None;
        }
        self.next_of_scan(target, behind, |at| !cluster.contains(at))
    }

    fn leave_out_core(&mut self, cpu: usize) {
        if let Some(scan) = &self.scan {
            scan.remove_all(domain::core(cpu));
        }
    }

    fn next_of_core(&mut self, first: usize, cpu: Option<usize>) -> Option<usize> {
        domain::core(first).next(cpu.map_or(0, |cpu| cpu + 1))
    }

    fn scan_budget(&mut self, target: usize) -> Option<u32> {
        Some(domain::llc(target).shared.nr_idle_scan.load(Relaxed))
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
        has_cluster: this.policy.has_sis_cluster && domain::has_cluster(),
    };
    let mut around = Around { allowed, has_cluster: facts.has_cluster, scan: None };
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

/// Chooses the CPU on which a new task begins, of those it may use: from the largest domain down,
/// into the idlest group each time it is clearly idler than the own one.
pub(crate) fn select_task_rq_fork(allowed: &CpuMask) -> usize {
    let mut cpu = arch::this_cpu().id();
    let near = |cpu| domain::domains(cpu).take_while(|domain| domain.is_near);
    let mut next = near(cpu).last();
    while let Some(domain) = next {
        let group = find_idlest_group(domain, allowed);
        next = match group.and_then(|group| find_idlest_group_cpu(group, allowed)) {
            Some(idlest) if idlest != cpu => {
                cpu = idlest;
                near(cpu).take_while(|below| below.weight() < domain.weight()).last()
            }
            _ => domain.child,
        };
    }
    if allowed.contains(cpu) { cpu } else { allowed.next(0).unwrap_or(cpu) }
}

/// The idlest group of a domain, unless it is that of the domain's own CPU, or hardly idler.
fn find_idlest_group(domain: &Domain, allowed: &CpuMask) -> Option<&'static Group> {
    let (mut local, mut idlest): (_, Option<(&'static Group, GroupStats)>) = (None, None);
    for (at, group) in domain.groups().enumerate() {
        if group.find_in(allowed, |_| true).is_none() {
            continue;
        }
        let mut stats = GroupStats::default();
        group.for_each_in(&domain.span.mask, |cpu| stats.add(cpu_facts(cpu)));
        let pct = domain.level.imbalance_pct();
        if at == 0 {
            local = Some(stats);
        } else if idlest::is_idler(&stats, idlest.as_ref().map(|(_, stats)| stats), pct) {
            idlest = Some((group, stats));
        }
    }
    let (group, stats) = idlest?;
    let leaves =
        |local: GroupStats| idlest::leaves(domain.level, domain.imb_numa_nr, &local, &stats);
    local.is_none_or(leaves).then_some(group)
}

fn find_idlest_group_cpu(group: &Group, allowed: &CpuMask) -> Option<usize> {
    let variant = arch::this_cpu().policy.sched_idle_cpu;
    let mut search = Search::default();
    let hit = group.find_in(allowed, |cpu| {
        let look = if variant != SchedIdleCpu::Off && sched_idle_cpu(cpu) {
            Look::SchedIdle
        } else if idle_cpu(cpu) {
            let since_ns = machine::cpu(cpu).rqk.idle_stamp_ns.load(Relaxed);
            Look::Idle { exit_latency_us: 0, since_ns }
        } else {
            Look::Busy { load: machine::cpu(cpu).cfs.avg.load_avg.load(Relaxed) }
        };
        search.look(variant, cpu, look).is_some()
    });
    hit.or(search.found())
}
