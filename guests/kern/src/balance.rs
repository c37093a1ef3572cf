//! Load balance: what a CPU pulls when it runs out of work, at its ticks, and on behalf of others.
//!
//! The decisions are `guests_sched::balance`; here are the reads of remote run queues, the locks,
//! and the moves. Tasks are taken out under the lock of the CPU they leave and entered under that
//! of the one they come to, never with both locks held. Linux: `sched_balance_rq`,
//! `sched_balance_newidle`, `sched_balance_domains`. Not modelled: active balance (a running task
//! is never pushed away), moves to a third CPU when the one that balances is not allowed.

use core::ops::ControlFlow;

use guests_abi::counter::Counter;
use guests_sched::balance::{
    self, CpuFacts, DomainFacts, GroupStats, IdleKind, Imbalance, MIGRATION_COST_NS, NR_MIGRATE,
};
use guests_sched::domain::{Level, grown_interval_ms, interval_ns};
use guests_sched::preempt::Class;
use guests_sched::sis::{Sis, scan_budget};

use crate::arch::atomic::{AtomicU32, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use crate::arch::{irq_restore, irq_save};
use crate::counters::{add, bump};
use crate::cpumask::CpuMask;
use crate::domain::{self, Domain, Group};
use crate::percpu::{Cpu, Line};
use crate::placement::{idle_cpu, sched_idle_cpu};
use crate::softirq::{self, Softirq};
use crate::task::Task;
use crate::tick::sched_clock_ns;
use crate::{machine, nohz, rq};

/// 1 while some CPU balances between nodes, which one does at a time.
static IS_BALANCING_NODES: Line<AtomicU32> = Line(AtomicU32::new(0));

/// A balance that finds nothing to do for a domain's next one, ns: later than all.
const NEVER_NS: u64 = u64::MAX;

/// How a balance of a domain ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// Another CPU does it, or work has come meanwhile.
    Left,
    /// Nothing moved.
    Nothing,
    /// Tasks came.
    Pulled,
}

/// One balance of a domain.
struct Env {
    domain: &'static Domain,
    dst: &'static Cpu,
    idle: IdleKind,
    /// CPUs that count, less those whose tasks may not come.
    cpus: CpuMask,
}

/// What a balance reads of a CPU.
pub(crate) fn cpu_facts(number: usize) -> CpuFacts {
    let cpu = machine::cpu(number);
    let nr_running = cpu.rq_count().nr_running.load(Relaxed);
    CpuFacts {
        load: cpu.cfs.avg.load_avg.load(Relaxed),
        util: cpu.cfs.avg.util_avg.load(Relaxed),
        nr_running,
        is_idle: nr_running == 0 && idle_cpu(number),
    }
}

impl Cpu {
    /// Starts the averages of a CPU that has not been idle yet; in an area that is being filled.
    pub(crate) fn init_balance(&self) {
        self.rqk.avg_idle_ns.store(2 * MIGRATION_COST_NS, Relaxed);
        self.rqk.max_idle_balance_cost_ns.store(MIGRATION_COST_NS, Relaxed);
    }

    /// Takes note of how long the CPU was idle, when a task comes; the lock is held.
    #[inline]
    pub(crate) fn update_avg_idle(&self) {
        let since = self.rqk.idle_stamp_ns.load(Relaxed);
        if since != 0 {
            let idle = self.rqk.clock_ns.load(Relaxed).saturating_sub(since);
            let (avg, max) = (&self.rqk.avg_idle_ns, &self.rqk.max_idle_balance_cost_ns);
            avg.store(balance::avg_idle_ns(avg.load(Relaxed), idle, max.load(Relaxed)), Relaxed);
            self.rqk.idle_stamp_ns.store(0, Relaxed);
        }
    }

    /// Brings clock and averages up to now; the lock is not held.
    pub(crate) fn age(&self) {
        self.age_clock_and(Cpu::update_blocked_averages);
    }

    /// Brings the clock up to now, then does what needs that; the lock is not held.
    pub(crate) fn age_clock_and(&self, then: impl FnOnce(&Cpu)) {
        let was_on = irq_save!(irqoff_rq);
        self.rq_lock_any();
        self.update_rq_clock();
        then(self);
        self.rq_unlock();
        irq_restore(was_on);
    }

    fn interval_ns(&self, domain: &Domain, is_busy: bool) -> u64 {
        let ms = domain.balance_interval_ms.load(Relaxed);
        interval_ns(ms, is_busy, u64::from(self.policy.hz), machine::cpu_count() as u64)
    }

    /// Has the next balance be no later than that of an idle CPU in a domain is due.
    fn hasten_next_balance(&self, domain: &Domain) {
        let next = domain.last_balance_ns.load(Relaxed) + self.interval_ns(domain, false);
        if next < self.rqc.next_balance_ns.load(Relaxed) {
            self.rqc.next_balance_ns.store(next, Relaxed);
        }
    }
}

/// Looks for work elsewhere as this CPU runs out of it; returns whether there is some now. The
/// lock is held, and dropped meanwhile; interrupts stay off.
pub(crate) fn newidle_balance(cpu: &'static Cpu) -> bool {
    bump(Counter::NewidleTry);
    if cpu.rq_count().ttwu_pending.load(Relaxed) != 0 {
        return false;
    }
    let rqk = &cpu.rqk;
    rqk.idle_stamp_ns.store(rqk.clock_ns.load(Relaxed), Relaxed);
    let first = domain::domains(cpu.id()).next();
    let first_cost = first.map(Domain::max_newidle_lb_cost_ns);
    let avg_idle = rqk.avg_idle_ns.load(Relaxed);
    if !balance::newidle_begins(rq::is_overloaded(), avg_idle, first_cost) {
        if let Some(first) = first {
            cpu.hasten_next_balance(first);
        }
        return false;
    }
    bump(Counter::NewidleWalk);
    cpu.rq_unlock();
    let (is_pulled, cost) = newidle_walk(cpu, avg_idle);
    cpu.rq_lock();
    if is_pulled {
        bump(Counter::NewidlePull);
    }
    if cost > rqk.max_idle_balance_cost_ns.load(Relaxed) {
        rqk.max_idle_balance_cost_ns.store(cost, Relaxed);
    }
    let has_work = cpu.cfs.h_nr_running.load(Relaxed) != 0;
    if has_work {
        rqk.idle_stamp_ns.store(0, Relaxed);
    }
    has_work
}

/// Walks the domains from small to large while that costs less than the CPU will be idle; returns
/// whether a task came, and the cost in ns.
fn newidle_walk(cpu: &'static Cpu, avg_idle_ns: u64) -> (bool, u64) {
    let (mut spent, mut since) = (0, sched_clock_ns());
    cpu.age();
    for domain in domain::domains(cpu.id()) {
        cpu.hasten_next_balance(domain);
        if !balance::newidle_goes_on(avg_idle_ns, spent, domain.max_newidle_lb_cost_ns()) {
            break;
        }
        let outcome = load_balance(cpu, domain, IdleKind::NewlyIdle);
        let now = sched_clock_ns();
        let cost = now.saturating_sub(since);
        domain.update_newidle_cost(cost, now);
        (spent, since) = (spent + cost, now);
        if outcome != Outcome::Nothing {
            return (outcome == Outcome::Pulled, spent);
        }
    }
    (false, spent)
}

/// What the tick asks for: a balance when one is due, here or by an idle CPU.
pub(crate) fn trigger_load_balance(cpu: &'static Cpu) {
    if sched_clock_ns() >= cpu.rqc.next_balance_ns.load(Relaxed) {
        softirq::raise(Softirq::Sched);
    }
    nohz::balancer_kick(cpu);
}

/// The softirq of the scheduler: on behalf of idle CPUs if this one was kicked, else its own.
pub(crate) fn run_rebalance_domains(cpu: &'static Cpu) {
    if nohz::idle_balance(cpu) {
        return;
    }
    let idle = if idle_cpu(cpu.id()) { IdleKind::Idle } else { IdleKind::NotIdle };
    cpu.age();
    rebalance_domains(cpu, idle);
}

/// Balances the domains of a CPU that are due.
pub(crate) fn rebalance_domains(cpu: &'static Cpu, mut idle: IdleKind) {
    let now = sched_clock_ns();
    let is_busy = |idle| idle != IdleKind::Idle && !sched_idle_cpu(cpu.id());
    let (mut next, mut max_cost) = (NEVER_NS, 0);
    for domain in domain::domains(cpu.id()) {
        domain.update_newidle_cost(0, now);
        max_cost += domain.max_newidle_lb_cost_ns();
        let last = &domain.last_balance_ns;
        let is_due = now >= last.load(Relaxed) + cpu.interval_ns(domain, is_busy(idle));
        let mut outcome = Outcome::Nothing;
        if is_due && (domain.level != Level::Numa || try_begin_nodes()) {
            outcome = load_balance(cpu, domain, idle);
            if domain.level == Level::Numa {
                IS_BALANCING_NODES.store(0, Release);
            }
            if outcome == Outcome::Pulled {
                let is_idle = idle_cpu(cpu.id());
                idle = if is_idle { IdleKind::Idle } else { IdleKind::NotIdle };
            }
            last.store(now, Relaxed);
        }
        next = next.min(last.load(Relaxed) + cpu.interval_ns(domain, is_busy(idle)));
        if outcome == Outcome::Left {
            break;
        }
    }
    cpu.rqk.max_idle_balance_cost_ns.store(max_cost.max(MIGRATION_COST_NS), Relaxed);
    cpu.rqc.next_balance_ns.store(next, Relaxed);
}

fn try_begin_nodes() -> bool {
    IS_BALANCING_NODES.load(Relaxed) == 0
        && IS_BALANCING_NODES.compare_exchange(0, 1, Acquire, Relaxed).is_ok()
}

/// Balances a domain of a CPU by what it can pull.
fn load_balance(dst: &'static Cpu, domain: &'static Domain, idle: IdleKind) -> Outcome {
    let env = Env { domain, dst, idle, cpus: CpuMask::new() };
    env.cpus.insert_all(&domain.span.mask);
    if !env.is_for_dst() {
        return Outcome::Left;
    }
    loop {
        let Some((group, imbalance)) = env.find_busiest_group() else {
            return env.nothing_to_do(false);
        };
        let Some(busiest) = env.find_busiest_queue(group, imbalance) else {
            return env.nothing_to_do(false);
        };
        match env.move_tasks(machine::cpu(busiest), imbalance) {
            ControlFlow::Break(moved) => return env.ended(moved),
            // All that is there is pinned: as if the CPU were not.
            ControlFlow::Continue(()) => env.cpus.remove(busiest),
        }
        let local = domain.groups.get_some();
        let others = CpuMask::new();
        others.insert_all(&env.cpus);
        local.for_each_in(&env.cpus, |cpu| others.remove(cpu));
        if others.next(0).is_none() {
            return env.nothing_to_do(true);
        }
    }
}

impl Env {
    /// Whether this CPU is the one to balance (`should_we_balance`): the first idle one of its
    /// group, else the first one.
    fn is_for_dst(&self) -> bool {
        if self.idle == IdleKind::NewlyIdle {
            let count = self.dst.rq_count();
            return count.nr_running.load(Relaxed) == 0 && count.ttwu_pending.load(Relaxed) == 0;
        }
        let group = self.domain.groups.get_some();
        let idle = group.find_in(&self.cpus, idle_cpu);
        idle.or_else(|| group.find_in(&self.cpus, |_| true)) == Some(self.dst.id())
    }

    fn find_busiest_group(&self) -> Option<(&'static Group, Imbalance)> {
        let domain = self.domain;
        let pct = domain.level.imbalance_pct();
        let (mut local, mut all) = (GroupStats::default(), GroupStats::default());
        let mut busiest: Option<(&'static Group, GroupStats)> = None;
        for (at, group) in domain.groups().enumerate() {
            let mut stats = GroupStats::default();
            group.for_each_in(&self.cpus, |cpu| stats.add(cpu_facts(cpu)));
            all.merge(&stats);
            if at == 0 {
                local = stats;
            } else if balance::is_busier(&stats, busiest.as_ref().map(|(_, stats)| stats), pct) {
                busiest = Some((group, stats));
            }
        }
        if domain.parent.get().is_none() {
            rq::set_overloaded(all.has_overloaded_cpu);
        }
        self.update_idle_cpu_scan(all.util);
        let (group, stats) = busiest?;
        let facts = DomainFacts {
            level: domain.level,
            prefers_sibling: domain.child.is_some_and(|child| child.level.prefers_sibling()),
            imb_numa_nr: domain.imb_numa_nr,
        };
        Some((group, balance::imbalance(facts, self.idle, &local, &stats, &all)?))
    }

    /// The budget of wakes (`sis=util`), from the utilisation of the LLC.
    fn update_idle_cpu_scan(&self, sum_util: u64) {
        let llc = domain::llc(self.dst.id());
        let is_llc = self.domain.weight() == u64::from(llc.span.weight());
        if self.dst.policy.sis != Sis::Util || self.idle == IdleKind::NewlyIdle || !is_llc {
            return;
        }
        let pct = self.domain.level.imbalance_pct();
        let budget = scan_budget(llc.span.weight(), sum_util, pct);
        if budget != llc.shared.nr_idle_scan.load(Relaxed) {
            llc.shared.nr_idle_scan.store(budget, Relaxed);
        }
    }

    fn find_busiest_queue(&self, group: &Group, imbalance: Imbalance) -> Option<usize> {
        let mut busiest: Option<(usize, CpuFacts)> = None;
        group.for_each_in(&self.cpus, |cpu| {
            let facts = cpu_facts(cpu);
            if balance::is_busier_queue(imbalance, facts, busiest.map(|(_, facts)| facts)) {
                busiest = Some((cpu, facts));
            }
        });
        busiest.map(|(cpu, _)| cpu)
    }

    /// Moves tasks from a run queue until the imbalance is gone; breaks with their number, or
    /// continues when all that were looked at may not come.
    fn move_tasks(&self, src: &'static Cpu, imbalance: Imbalance) -> ControlFlow<usize> {
        if src.rq_count().nr_running.load(Relaxed) <= 1 {
            return ControlFlow::Break(0);
        }
        let mut detached = [None; NR_MIGRATE as usize];
        let was_on = irq_save!(irqoff_rq);
        src.rq_lock_any();
        src.update_rq_clock();
        let (count, are_all_pinned) = self.detach_tasks(src, imbalance, &mut detached);
        src.rq_unlock();
        if count != 0 {
            self.dst.rq_lock_any();
            self.dst.update_rq_clock();
            detached.iter().flatten().for_each(|&task| self.dst.attach_task(task));
            self.dst.rq_unlock();
            add(Counter::MigLb, count as u64);
        }
        irq_restore(was_on);
        if are_all_pinned { ControlFlow::Continue(()) } else { ControlFlow::Break(count) }
    }

    /// Takes tasks out of a run queue; returns how many, and whether all that were looked at may
    /// not run on the CPU that pulls.
    fn detach_tasks(
        &self,
        src: &Cpu,
        mut imbalance: Imbalance,
        detached: &mut [Option<&'static Task>],
    ) -> (usize, bool) {
        let (mut count, mut are_all_pinned) = (0, true);
        let most = NR_MIGRATE.min(src.rq_count().nr_running.load(Relaxed)) as usize;
        for task in src.cfs_tasks.from_tail().take(most) {
            // The last task of a CPU would only make it idle instead.
            if self.idle != IdleKind::NotIdle && src.rq_count().nr_running.load(Relaxed) <= 1 {
                break;
            }
            if !task.may_run_on(self.dst.id()) {
                continue;
            }
            are_all_pinned = false;
            let left = self.can_migrate(src, task).then(|| self.take(imbalance, task)).flatten();
            let Some(left) = left else {
                // Not looked at again before the others.
                src.cfs_tasks.remove(task);
                src.cfs_tasks.push(task);
                continue;
            };
            src.detach_task(task, self.dst.id());
            detached[count] = Some(task);
            count += 1;
            imbalance = left;
            if self.idle == IdleKind::NewlyIdle || left.amount == 0 {
                break;
            }
        }
        (count, are_all_pinned)
    }

    fn can_migrate(&self, src: &Cpu, task: &Task) -> bool {
        let ran_ago = match task.se.exec_start_ns.load(Relaxed) {
            // It has not run yet, however young the clock is.
            0 => u64::MAX,
            began => src.rqk.clock_task_ns.load(Relaxed).saturating_sub(began),
        };
        let failed = self.domain.nr_balance_failed.load(Relaxed);
        task.ts.on_cpu.load(Relaxed) == 0
            && balance::is_cold(self.domain.level, task.class() == Class::Idle, ran_ago, failed)
    }

    fn take(&self, imbalance: Imbalance, task: &Task) -> Option<Imbalance> {
        let avg = &task.se.avg;
        let (load, util) = (avg.load_avg.load(Relaxed), avg.util_avg.load(Relaxed));
        balance::take(imbalance, load, util, self.domain.nr_balance_failed.load(Relaxed))
    }

    /// Nothing is to be done here; next time later, unless the CPU has just run out of work.
    fn nothing_to_do(&self, is_pinned: bool) -> Outcome {
        let domain = self.domain;
        domain.nr_balance_failed.store(0, Relaxed);
        if self.idle != IdleKind::NewlyIdle {
            let interval = &domain.balance_interval_ms;
            let grown = grown_interval_ms(interval.load(Relaxed), domain.weight(), is_pinned);
            interval.store(grown, Relaxed);
        }
        Outcome::Nothing
    }

    /// Something was to be done, and as many tasks have moved.
    fn ended(&self, moved: usize) -> Outcome {
        let failed = &self.domain.nr_balance_failed;
        self.domain.balance_interval_ms.store(self.domain.weight(), Relaxed);
        if moved != 0 {
            failed.store(0, Relaxed);
            return Outcome::Pulled;
        }
        if self.idle != IdleKind::NewlyIdle {
            failed.store(failed.load(Relaxed) + 1, Relaxed);
        }
        Outcome::Nothing
    }
}
