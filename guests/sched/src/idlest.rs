//! The idlest CPU for a task that has no cache to go back to: a new one.
//!
//! Linux: `sched_balance_find_dst_group`, `sched_balance_find_dst_group_cpu`.

use crate::balance::{GroupStats, GroupType, adjust_numa_imbalance};
use crate::domain::Level;
use crate::sis::SchedIdleCpu;

/// Load of a task of nice 0, by which groups may differ.
const NICE_0_LOAD: u64 = 1024;

/// Whether a group is idler than the idlest one so far.
pub fn is_idler(candidate: &GroupStats, idlest: Option<&GroupStats>, pct: u64) -> bool {
    let Some(idlest) = idlest else { return true };
    let kind = candidate.kind(pct);
    if kind != idlest.kind(pct) {
        return kind < idlest.kind(pct);
    }
    match kind {
        GroupType::HasSpare => {
            candidate.idle_cpus > idlest.idle_cpus
                || candidate.idle_cpus == idlest.idle_cpus && candidate.util < idlest.util
        }
        GroupType::FullyBusy | GroupType::Overloaded => candidate.avg_load() < idlest.avg_load(),
    }
}

/// Whether a new task leaves the local group for the idlest other one.
pub fn leaves(level: Level, imb_numa_nr: u64, local: &GroupStats, idlest: &GroupStats) -> bool {
    let pct = level.imbalance_pct();
    let kind = local.kind(pct);
    if kind != idlest.kind(pct) {
        return kind > idlest.kind(pct);
    }
    if kind == GroupType::HasSpare {
        let difference = local.idle_cpus.abs_diff(idlest.idle_cpus);
        let may_stay = level == Level::Numa
            && adjust_numa_imbalance(difference, local.nr_running + 1, imb_numa_nr) == 0;
        return !may_stay && local.idle_cpus < idlest.idle_cpus;
    }
    let imbalance = NICE_0_LOAD * (pct - 100) / 100;
    let (here, there) = (local.avg_load(), idlest.avg_load());
    there < here + imbalance && 100 * here > pct * there
}

/// What a CPU is found as.
#[derive(Clone, Copy, Debug)]
pub enum Look {
    /// Idle, in a state with that exit latency in us, since a time in ns.
    Idle {
        /// Time to leave the idle state.
        exit_latency_us: u32,
        /// When it went idle.
        since_ns: u64,
    },
    /// It runs nothing but SCHED_IDLE tasks, and the variant is not `off`.
    SchedIdle,
    /// Busy, with that load.
    Busy {
        /// Load average of its run queue.
        load: u64,
    },
}

/// Search for the idlest CPU of a group: the idle one that is back soonest, of these the one that
/// went idle last; without any the least loaded. SCHED_IDLE CPUs count as the variant says.
#[derive(Clone, Copy, Debug, Default)]
pub struct Search {
    idle: Option<(usize, u32, u64)>,
    sched_idle: Option<usize>,
    least_loaded: Option<(usize, u64)>,
}

impl Search {
    /// Looks at a CPU; returns it when the search ends with it.
    pub fn look(&mut self, variant: SchedIdleCpu, cpu: usize, look: Look) -> Option<usize> {
        match look {
            Look::SchedIdle if variant == SchedIdleCpu::Always => return Some(cpu),
            Look::SchedIdle => self.sched_idle = self.sched_idle.or(Some(cpu)),
            Look::Idle { exit_latency_us, since_ns } => {
                let is_better = self.idle.is_none_or(|(_, latency, since)| {
                    exit_latency_us < latency || exit_latency_us == latency && since_ns > since
                });
                if is_better {
                    self.idle = Some((cpu, exit_latency_us, since_ns));
                }
            }
            Look::Busy { load } => {
                if self.least_loaded.is_none_or(|(_, least)| load < least) {
                    self.least_loaded = Some((cpu, load));
                }
            }
        }
        None
    }

    /// The CPU when all have been looked at.
    pub fn found(&self) -> Option<usize> {
        let idle = self.idle.map(|(cpu, ..)| cpu);
        idle.or(self.sched_idle).or(self.least_loaded.map(|(cpu, _)| cpu))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group(nr_running: u64, idle_cpus: u64, util: u64) -> GroupStats {
        let load = nr_running * 1024;
        GroupStats { weight: 4, load, util, nr_running, idle_cpus, has_overloaded_cpu: false }
    }

    #[test]
    fn a_new_task_leaves_for_a_group_that_is_clearly_idler() {
        let cases = [
            (Level::Package, group(1, 3, 1024), group(0, 4, 0), true),
            (Level::Package, group(1, 3, 1024), group(1, 3, 0), false),
            (Level::Package, group(4, 0, 4096), group(3, 1, 3072), true),
            (Level::Package, group(3, 1, 3072), group(4, 0, 4096), false),
            (Level::Package, group(8, 0, 4096), group(6, 0, 4096), true),
            (Level::Package, group(8, 0, 4096), group(7, 0, 4096), false),
            // Two more on the node, while it runs few.
            (Level::Numa, group(1, 2, 1024), group(0, 4, 0), false),
            (Level::Numa, group(2, 2, 2048), group(0, 4, 0), true),
        ];
        for (level, local, idlest, expected) in cases {
            assert_eq!(leaves(level, 2, &local, &idlest), expected, "{level:?} {local:?}");
        }
        assert!(is_idler(&group(0, 4, 0), Some(&group(0, 4, 10)), 117));
        assert!(is_idler(&group(2, 2, 2048), Some(&group(5, 0, 4096)), 117));
        assert!(!is_idler(&group(6, 0, 4096), Some(&group(5, 0, 4096)), 117));
    }

    #[test]
    fn the_idle_cpu_that_is_back_soonest_is_taken() {
        let idle = |exit_latency_us, since_ns| Look::Idle { exit_latency_us, since_ns };
        let busy = |load| Look::Busy { load };
        let cases: [(&[Look], _, _); 5] = [
            (&[busy(3), busy(1), busy(2)], 1, 1),
            (&[busy(3), idle(10, 5), idle(2, 1), idle(2, 3)], 3, 3),
            (&[busy(3), Look::SchedIdle, busy(1)], 1, 1),
            (&[Look::SchedIdle, idle(10, 5)], 1, 0),
            (&[idle(10, 5), Look::SchedIdle, idle(2, 5)], 2, 1),
        ];
        for (looks, fallback, always) in cases {
            for (variant, expected) in
                [(SchedIdleCpu::Fallback, fallback), (SchedIdleCpu::Always, always)]
            {
                let mut search = Search::default();
                let mut looks = looks.iter().enumerate();
                let hit = looks.find_map(|(cpu, &look)| search.look(variant, cpu, look));
                assert_eq!(hit.or(search.found()), Some(expected), "{variant:?}");
            }
        }
    }
}
