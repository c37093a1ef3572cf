//! Load balance: which group and queue tasks are taken from, how many, and when a CPU that runs out
//! of work looks around.
//!
//! Linux (5.5 on): `update_sd_lb_stats`, `sched_balance_find_src_group`, `calculate_imbalance`,
//! `sched_balance_find_src_rq`, `detach_tasks`, `sched_balance_newidle`. All CPUs have the same
//! capacity. Not modelled: groups that affinity has skewed, misfit tasks, asymmetric packing,
//! runnable averages beside utilisation.

use crate::domain::Level;

/// Capacity of a CPU.
pub const CAPACITY: u64 = 1024;

/// What moving a task costs, ns (`sysctl_sched_migration_cost`): a task that ran within this time
/// has a warm cache.
pub const MIGRATION_COST_NS: u64 = 500_000;

/// Tasks that one balance looks at (`sysctl_sched_nr_migrate`).
pub const NR_MIGRATE: u32 = 32;

/// How busy the CPU is for which a balance is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleKind {
    /// It runs a task.
    NotIdle,
    /// It has been idle.
    Idle,
    /// It is about to go idle.
    NewlyIdle,
}

/// What a balance reads of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct CpuFacts {
    /// Load average of its run queue.
    pub load: u64,
    /// Utilisation, of 1024.
    pub util: u64,
    /// Tasks that run or wait.
    pub nr_running: u32,
    /// Nothing runs and nothing is on its way.
    pub is_idle: bool,
}

/// Sums over the CPUs of a group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupStats {
    /// CPUs.
    pub weight: u64,
    /// Load averages.
    pub load: u64,
    /// Utilisations.
    pub util: u64,
    /// Tasks that run or wait.
    pub nr_running: u64,
    /// Idle CPUs.
    pub idle_cpus: u64,
    /// Some CPU has more than one task.
    pub has_overloaded_cpu: bool,
}

/// State of a group, the least busy one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum GroupType {
    /// More can run.
    HasSpare,
    /// Used up, without tasks that have to wait for long.
    FullyBusy,
    /// More tasks than it can run.
    Overloaded,
}

impl GroupStats {
    /// Adds a CPU.
    #[inline]
    pub fn add(&mut self, cpu: CpuFacts) {
        self.weight += 1;
        self.load += cpu.load;
        self.util += cpu.util;
        self.nr_running += u64::from(cpu.nr_running);
        self.idle_cpus += u64::from(cpu.is_idle);
        self.has_overloaded_cpu |= cpu.nr_running > 1;
    }

    /// Adds the CPUs of another group.
    pub fn merge(&mut self, other: &GroupStats) {
        self.weight += other.weight;
        self.load += other.load;
        self.util += other.util;
        self.nr_running += other.nr_running;
        self.idle_cpus += other.idle_cpus;
        self.has_overloaded_cpu |= other.has_overloaded_cpu;
    }

    /// Sum of the capacities.
    #[inline]
    pub const fn capacity(&self) -> u64 {
        self.weight * CAPACITY
    }

    /// State of the group, in a domain of that imbalance percentage (`group_classify`).
    pub const fn kind(&self, imbalance_pct: u64) -> GroupType {
        if self.nr_running < self.weight {
            return GroupType::HasSpare;
        }
        let (capacity, used) = (self.capacity() * 100, self.util * imbalance_pct);
        if self.nr_running > self.weight && capacity < used {
            GroupType::Overloaded
        } else if capacity > used {
            GroupType::HasSpare
        } else {
            GroupType::FullyBusy
        }
    }

    /// Load for a capacity of 1024.
    pub const fn avg_load(&self) -> u64 {
        self.load * CAPACITY / self.capacity()
    }
}

/// Whether a group is busier than the busiest one so far (`update_sd_pick_busiest`).
pub fn is_busier(candidate: &GroupStats, busiest: Option<&GroupStats>, pct: u64) -> bool {
    if candidate.nr_running == 0 {
        return false;
    }
    let Some(busiest) = busiest else { return true };
    let kind = candidate.kind(pct);
    if kind != busiest.kind(pct) {
        return kind > busiest.kind(pct);
    }
    match kind {
        GroupType::HasSpare => {
            let (idle, busiest_idle) = (candidate.idle_cpus, busiest.idle_cpus);
            idle < busiest_idle || idle == busiest_idle && candidate.nr_running > busiest.nr_running
        }
        GroupType::FullyBusy | GroupType::Overloaded => candidate.avg_load() > busiest.avg_load(),
    }
}

/// What is counted when tasks move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Migration {
    /// Their load.
    Load,
    /// Their utilisation.
    Util,
    /// Their number.
    Task,
}

/// How much is to move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imbalance {
    /// What is counted.
    pub by: Migration,
    /// How much of it.
    pub amount: u64,
}

/// The domain of a balance.
#[derive(Clone, Copy, Debug)]
pub struct DomainFacts {
    /// Its level.
    pub level: Level,
    /// The domain below prefers siblings.
    pub prefers_sibling: bool,
    /// Tasks that a node may run before differences count.
    pub imb_numa_nr: u64,
}

/// What is to move from the busiest group to the local one, if anything
/// (`sched_balance_find_src_group`); `all` is the sum of all groups.
pub fn imbalance(
    domain: DomainFacts,
    idle: IdleKind,
    local: &GroupStats,
    busiest: &GroupStats,
    all: &GroupStats,
) -> Option<Imbalance> {
    let pct = domain.level.imbalance_pct();
    let (local_kind, busiest_kind) = (local.kind(pct), busiest.kind(pct));
    if local_kind > busiest_kind {
        return None;
    }
    if local_kind == GroupType::Overloaded {
        let (here, there) = (local.avg_load(), busiest.avg_load());
        if here >= there || here >= all.avg_load() || 100 * there <= pct * here {
            return None;
        }
    }
    let should_spread = domain.prefers_sibling
        && local_kind == GroupType::HasSpare
        && busiest.nr_running > local.nr_running + 1;
    let is_even = idle == IdleKind::NotIdle
        || busiest.weight > 1 && local.idle_cpus <= busiest.idle_cpus + 1
        || busiest.nr_running == 1;
    if !should_spread && busiest_kind != GroupType::Overloaded && is_even {
        return None;
    }
    let imbalance = amount(domain, idle, local, busiest, all);
    (imbalance.amount != 0).then_some(imbalance)
}

/// How much restores balance (`calculate_imbalance`).
fn amount(
    domain: DomainFacts,
    idle: IdleKind,
    local: &GroupStats,
    busiest: &GroupStats,
    all: &GroupStats,
) -> Imbalance {
    let pct = domain.level.imbalance_pct();
    if local.kind(pct) == GroupType::HasSpare {
        if busiest.kind(pct) > GroupType::FullyBusy && !domain.level.shares_llc() {
            let spare = local.capacity().saturating_sub(local.util);
            if idle != IdleKind::NotIdle && spare == 0 {
                return Imbalance { by: Migration::Task, amount: 1 };
            }
            return Imbalance { by: Migration::Util, amount: spare };
        }
        let mut tasks = if busiest.weight == 1 || domain.prefers_sibling {
            busiest.nr_running.saturating_sub(local.nr_running)
        } else {
            local.idle_cpus.saturating_sub(busiest.idle_cpus)
        };
        if domain.level == Level::Numa {
            tasks = adjust_numa_imbalance(tasks, local.nr_running + 1, domain.imb_numa_nr);
        }
        return Imbalance { by: Migration::Task, amount: tasks / 2 };
    }
    let (here, there, average) = (local.avg_load(), busiest.avg_load(), all.avg_load());
    if here >= there || here >= average {
        return Imbalance { by: Migration::Load, amount: 0 };
    }
    let surplus = there.saturating_sub(average) * busiest.capacity();
    let want = (average - here) * local.capacity();
    Imbalance { by: Migration::Load, amount: surplus.min(want) / CAPACITY }
}

/// Pairs of tasks that talk to each other may stay on a node, as long as few run there.
pub const fn adjust_numa_imbalance(imbalance: u64, nr_running: u64, imb_numa_nr: u64) -> u64 {
    if nr_running <= imb_numa_nr && imbalance <= 2 { 0 } else { imbalance }
}

/// Whether a run queue is the one to take from, rather than the best so far
/// (`sched_balance_find_src_rq`).
pub fn is_busier_queue(
    imbalance: Imbalance,
    candidate: CpuFacts,
    busiest: Option<CpuFacts>,
) -> bool {
    let CpuFacts { load, util, nr_running, .. } = candidate;
    match imbalance.by {
        _ if nr_running == 0 => false,
        // A task that runs alone does not move, and there is more than enough.
        Migration::Load if nr_running == 1 && load > imbalance.amount => false,
        Migration::Load => load > busiest.map_or(0, |busiest| busiest.load),
        Migration::Util => nr_running > 1 && util > busiest.map_or(0, |busiest| busiest.util),
        Migration::Task => nr_running > busiest.map_or(0, |busiest| busiest.nr_running),
    }
}

/// What is left of an imbalance when a task of that load and utilisation moves; `None`: it is too
/// large, unless enough balances have failed (`detach_tasks`).
pub fn take(imbalance: Imbalance, load: u64, util: u64, failed: u32) -> Option<Imbalance> {
    let size = match imbalance.by {
        Migration::Load => load.max(1),
        Migration::Util => util,
        Migration::Task => 1,
    };
    let is_too_large = imbalance.by != Migration::Task && size >> failed.min(63) > imbalance.amount;
    let amount = imbalance.amount.saturating_sub(size);
    (!is_too_large).then_some(Imbalance { amount, ..imbalance })
}

/// Whether a task may leave its CPU, whose cache it may have warmed: `ran_ago_ns` since it last
/// began to run (`can_migrate_task`, `task_hot`).
pub fn is_cold(level: Level, is_sched_idle: bool, ran_ago_ns: u64, failed: u32) -> bool {
    level.shares_capacity()
        || is_sched_idle
        || ran_ago_ns >= MIGRATION_COST_NS
        || failed > level.cache_nice_tries()
}

/// Whether newidle balance looks around at all; `first_cost_ns`: what its smallest domain has cost.
pub const fn newidle_begins(
    is_overloaded: bool,
    avg_idle_ns: u64,
    first_cost_ns: Option<u64>,
) -> bool {
    match first_cost_ns {
        Some(cost) => is_overloaded && avg_idle_ns >= cost,
        None => false,
    }
}

/// Whether newidle balance goes on to a domain that has cost so much, after it has spent a time.
pub const fn newidle_goes_on(avg_idle_ns: u64, spent_ns: u64, cost_ns: u64) -> bool {
    avg_idle_ns >= spent_ns + cost_ns
}

/// What newidle balance of a domain costs at most (`max_newidle_lb_cost`), and when that was last
/// lowered, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewidleCost {
    /// The largest cost.
    pub max_ns: u64,
    /// Time of the last change.
    pub changed_ns: u64,
}

impl NewidleCost {
    /// Takes note of a cost; it is forgotten at 1 % a second.
    pub fn update(&mut self, cost_ns: u64, now_ns: u64) {
        if cost_ns > self.max_ns {
            *self = NewidleCost { max_ns: cost_ns, changed_ns: now_ns };
        } else if now_ns > self.changed_ns + 1_000_000_000 {
            *self = NewidleCost { max_ns: self.max_ns * 253 / 256, changed_ns: now_ns };
        }
    }
}

/// The average idle time with one more: an eighth of the difference, at most twice of what a
/// balance costs (`update_avg`), ns.
pub const fn avg_idle_ns(avg_ns: u64, idle_ns: u64, max_cost_ns: u64) -> u64 {
    let avg = (avg_ns as i64 + (idle_ns as i64 - avg_ns as i64) / 8) as u64;
    if avg > 2 * max_cost_ns { 2 * max_cost_ns } else { avg }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(weight: u64, nr_running: u64, idle_cpus: u64, util: u64) -> GroupStats {
        let load = nr_running * 1024;
        let has_overloaded_cpu = nr_running > weight - idle_cpus;
        GroupStats { weight, load, util, nr_running, idle_cpus, has_overloaded_cpu }
    }

    #[test]
    fn a_group_is_what_its_tasks_and_its_utilisation_say() {
        let cases = [
            (group(4, 3, 1, 4096), GroupType::HasSpare),
            (group(4, 4, 0, 2000), GroupType::HasSpare),
            (group(4, 4, 0, 4000), GroupType::FullyBusy),
            (group(4, 5, 0, 2000), GroupType::HasSpare),
            (group(4, 5, 0, 4000), GroupType::Overloaded),
        ];
        for (stats, expected) in cases {
            assert_eq!(stats.kind(117), expected, "{stats:?}");
        }
        let mut stats = GroupStats::default();
        stats.add(CpuFacts { load: 2048, util: 1024, nr_running: 2, is_idle: false });
        stats.add(CpuFacts { load: 0, util: 10, nr_running: 0, is_idle: true });
        assert_eq!(stats, GroupStats { load: 2048, ..group(2, 2, 1, 1034) });
        assert_eq!(stats.avg_load(), 1024);
    }

    #[test]
    fn the_busiest_group_is_found_by_state_then_by_load_or_idle_cpus() {
        let overloaded = group(4, 6, 0, 4096);
        let busy = group(4, 4, 0, 4096);
        let spare = group(4, 2, 2, 2048);
        let cases = [
            (&overloaded, Some(&busy), true),
            (&busy, Some(&overloaded), false),
            (&spare, None, true),
            (&group(4, 0, 4, 0), None, false),
            (&group(4, 7, 0, 4096), Some(&overloaded), true),
            (&group(4, 3, 1, 2048), Some(&spare), true),
            (&group(4, 3, 2, 2048), Some(&spare), true),
            (&group(4, 2, 3, 2048), Some(&spare), false),
        ];
        for (candidate, busiest, expected) in cases {
            assert_eq!(is_busier(candidate, busiest, 117), expected, "{candidate:?}");
        }
    }

    #[test]
    fn tasks_load_or_utilisation_moves() {
        let llc = DomainFacts { level: Level::Llc, prefers_sibling: false, imb_numa_nr: 0 };
        let cores = DomainFacts { prefers_sibling: true, ..llc };
        let package = DomainFacts { level: Level::Package, ..cores };
        let numa = DomainFacts { level: Level::Numa, prefers_sibling: true, imb_numa_nr: 4 };
        let (newly, idle, busy) = (IdleKind::NewlyIdle, IdleKind::Idle, IdleKind::NotIdle);
        let some = |by, amount| Some(Imbalance { by, amount });
        let cases = [
            // One CPU each: two tasks against none.
            (llc, newly, group(1, 0, 1, 0), group(1, 2, 0, 1024), some(Migration::Task, 1)),
            (llc, newly, group(1, 0, 1, 0), group(1, 1, 0, 1024), None),
            (llc, busy, group(1, 1, 0, 500), group(1, 2, 0, 500), None),
            // Cores: two tasks on one, none on the other.
            (cores, idle, group(2, 0, 2, 0), group(2, 2, 0, 2048), some(Migration::Task, 1)),
            (cores, idle, group(2, 1, 1, 1024), group(2, 2, 0, 2048), None),
            // Beyond the LLC an overloaded group gives what the local one can take.
            (
                package,
                idle,
                group(4, 2, 2, 2048),
                group(4, 6, 0, 4096),
                some(Migration::Util, 2048),
            ),
            (package, idle, group(4, 0, 4, 0), group(4, 4, 0, 4096), some(Migration::Task, 2)),
            // Overloaded on both sides: load, and only beyond the percentage.
            (
                package,
                busy,
                group(4, 5, 0, 4096),
                group(4, 9, 0, 4096),
                some(Migration::Load, 2048),
            ),
            (package, busy, group(4, 8, 0, 4096), group(4, 9, 0, 4096), None),
            (package, busy, group(4, 9, 0, 4096), group(4, 8, 0, 4096), None),
            // A pair of tasks stays on its node.
            (numa, idle, group(8, 0, 8, 0), group(8, 2, 6, 2048), None),
            (numa, idle, group(8, 1, 7, 0), group(8, 5, 3, 2048), some(Migration::Task, 2)),
        ];
        for (domain, kind, local, busiest, expected) in cases {
            let mut all = local;
            all.merge(&busiest);
            let found = imbalance(domain, kind, &local, &busiest, &all);
            assert_eq!(found, expected, "{domain:?} {kind:?} {local:?} {busiest:?}");
        }
    }

    #[test]
    fn a_queue_is_chosen_by_what_moves() {
        let queue = |nr_running, load, util| CpuFacts { load, util, nr_running, is_idle: false };
        let want = |by, amount| Imbalance { by, amount };
        let cases = [
            (want(Migration::Task, 1), queue(2, 10, 10), Some(queue(1, 900, 900)), true),
            (want(Migration::Task, 1), queue(0, 10, 10), None, false),
            (want(Migration::Load, 100), queue(1, 900, 900), None, false),
            (want(Migration::Load, 100), queue(1, 90, 900), None, true),
            (want(Migration::Load, 100), queue(2, 900, 900), Some(queue(3, 800, 1000)), true),
            (want(Migration::Util, 100), queue(1, 900, 900), None, false),
            (want(Migration::Util, 100), queue(2, 900, 900), Some(queue(2, 900, 800)), true),
        ];
        for (imbalance, candidate, busiest, expected) in cases {
            let found = is_busier_queue(imbalance, candidate, busiest);
            assert_eq!(found, expected, "{imbalance:?} {candidate:?}");
        }
    }

    #[test]
    fn tasks_are_taken_until_the_imbalance_is_gone() {
        let load = Imbalance { by: Migration::Load, amount: 1000 };
        assert_eq!(take(load, 600, 1, 0), Some(Imbalance { amount: 400, ..load }));
        assert_eq!(take(load, 1100, 1, 0), None);
        assert_eq!(take(load, 1100, 1, 1), Some(Imbalance { amount: 0, ..load }));
        let util = Imbalance { by: Migration::Util, amount: 300 };
        assert_eq!(take(util, 1, 301, 0), None);
        let task = Imbalance { by: Migration::Task, amount: 2 };
        assert_eq!(take(task, 9999, 1024, 0), Some(Imbalance { amount: 1, ..task }));
    }

    #[test]
    fn warm_tasks_stay_unless_the_threads_of_a_core_share_the_cache_or_nothing_else_moves() {
        let cases = [
            (Level::Llc, false, 100_000, 0, false),
            (Level::Llc, false, 500_000, 0, true),
            (Level::Llc, true, 100_000, 0, true),
            (Level::Smt, false, 100_000, 0, true),
            (Level::Llc, false, 100_000, 1, false),
            (Level::Llc, false, 100_000, 2, true),
            (Level::Numa, false, 100_000, 2, false),
        ];
        for (level, is_sched_idle, ago, failed, expected) in cases {
            assert_eq!(is_cold(level, is_sched_idle, ago, failed), expected, "{level:?} {ago}");
        }
    }

    #[test]
    fn newidle_stops_where_it_would_cost_more_than_the_idle_time() {
        assert!(newidle_begins(true, 1000, Some(1000)));
        assert!(!newidle_begins(false, 1000, Some(0)));
        assert!(!newidle_begins(true, 999, Some(1000)));
        assert!(!newidle_begins(true, 1000, None));
        assert!(newidle_goes_on(1000, 400, 600));
        assert!(!newidle_goes_on(1000, 401, 600));
        let mut cost = NewidleCost { max_ns: 0, changed_ns: 0 };
        cost.update(2560, 10);
        assert_eq!(cost, NewidleCost { max_ns: 2560, changed_ns: 10 });
        cost.update(100, 1_000_000_010);
        assert_eq!(cost, NewidleCost { max_ns: 2560, changed_ns: 10 });
        cost.update(100, 1_000_000_011);
        assert_eq!(cost, NewidleCost { max_ns: 2530, changed_ns: 1_000_000_011 });
    }

    #[test]
    fn idle_times_are_averaged_and_bounded() {
        assert_eq!(avg_idle_ns(1_000_000, 200_000, 500_000), 900_000);
        assert_eq!(avg_idle_ns(900_000, 90_000_000, 500_000), 1_000_000);
        assert_eq!(avg_idle_ns(100, 180, 500_000), 110);
    }
}
