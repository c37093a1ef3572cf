//! Does a task that wakes up preempt the one that runs, and when has one run for long enough?
//!
//! Linux: `check_preempt_wakeup`, `check_preempt_tick`, `sched_slice`. Of tasks in different groups
//! the entities are compared that share a queue. Not modelled: buddies.

use crate::weight;

variants! {
    /// Variant of the test; boot switch `preempt`.
    Preempt {
        /// By vruntime and wake-up granularity (before 6.6).
        Cfs = "cfs",
        /// By virtual deadline, among those that are owed time (6.6 on).
        Eevdf = "eevdf",
        /// Among normal tasks always.
        Always = "always",
        /// Among normal tasks never.
        Never = "never",
    }
}

/// Scheduling class of a task, as far as the test looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// The idle task of a CPU.
    IdleTask,
    /// SCHED_IDLE.
    Idle,
    /// SCHED_NORMAL.
    Normal,
}

/// Times that a machine is scheduled by, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Times {
    /// How far a wakee must be behind, by `cfs`.
    pub granularity_ns: u64,
    /// Time in which every task runs once, by `cfs`, unless there are many.
    pub latency_ns: u64,
    /// Slice: that of `eevdf`, and the least one of `cfs`.
    pub slice_ns: u64,
}

impl Times {
    /// Those of a machine with `cpus` CPUs: 1 ms, 6 ms and 0.75 ms, times (1 + log2 of at most 8).
    pub const fn of_cpus(cpus: u64) -> Times {
        let cpus = if cpus > 8 { 8 } else { cpus };
        let factor = 1 + if cpus == 0 { 0 } else { cpus.ilog2() as u64 };
        Times {
            granularity_ns: 1_000_000 * factor,
            latency_ns: 6_000_000 * factor,
            slice_ns: 750_000 * factor,
        }
    }

    /// Time for which an entity runs among `count` in its queue, by `cfs`. `levels` are its weight
    /// and its queue's, then those of the groups above it.
    #[inline]
    pub fn cfs_slice_ns(self, count: u64, levels: impl Iterator<Item = (u64, u64)>) -> u64 {
        let period_ns = self.latency_ns.max(count * self.slice_ns);
        let part = |slice, (weight, queue_weight): (u64, u64)| slice * weight / queue_weight.max(1);
        levels.fold(period_ns, part).max(self.slice_ns)
    }
}

/// What the test knows of the current task and of the wakee.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Class of the current task.
    pub curr: Class,
    /// Class of the wakee.
    pub wakee: Class,
    /// vruntime of the current task minus that of the wakee, ns at nice 0.
    pub vruntime_lead_ns: i64,
    /// Weight of the wakee.
    pub wakee_weight: u64,
    /// See [`Times`].
    pub granularity_ns: u64,
}

/// Whether the wakee preempts. `is_picked` is asked under `Eevdf` only: whether the queue would
/// pick the wakee now.
#[inline]
pub fn preempts(variant: Preempt, facts: Facts, is_picked: impl FnOnce() -> bool) -> bool {
    match (facts.curr, facts.wakee) {
        (Class::IdleTask, _) => true,
        (_, Class::IdleTask) => false,
        (Class::Idle, Class::Normal) => true,
        (_, Class::Idle) => false,
        (Class::Normal, Class::Normal) => match variant {
            Preempt::Always => true,
            Preempt::Never => false,
            Preempt::Eevdf => is_picked(),
            Preempt::Cfs => {
                // A heavier wakee has a smaller granularity in its own virtual time.
                let scaled = weight::virtual_ns(facts.granularity_ns, facts.wakee_weight);
                facts.vruntime_lead_ns > scaled as i64
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weight::NICE_0;

    #[test]
    fn preemption_follows_the_table() {
        use Class::*;
        let granularity_ns = Times::of_cpus(256).granularity_ns;
        let lead = granularity_ns as i64;
        let cases = [
            (Preempt::Never, IdleTask, Normal, 0, true),
            (Preempt::Never, IdleTask, Idle, 0, true),
            (Preempt::Never, Idle, Normal, 0, true),
            (Preempt::Always, Normal, Idle, i64::MAX, false),
            (Preempt::Always, Idle, Idle, i64::MAX, false),
            (Preempt::Always, Normal, Normal, i64::MIN, true),
            (Preempt::Never, Normal, Normal, i64::MAX, false),
            (Preempt::Cfs, Normal, Normal, lead, false),
            (Preempt::Cfs, Normal, Normal, lead + 1, true),
            (Preempt::Cfs, Normal, Normal, -lead, false),
            (Preempt::Eevdf, IdleTask, Normal, 0, true),
            (Preempt::Eevdf, Normal, Idle, i64::MAX, false),
        ];
        for (variant, curr, wakee, vruntime_lead_ns, expected) in cases {
            let facts =
                Facts { curr, wakee, vruntime_lead_ns, wakee_weight: NICE_0, granularity_ns };
            let found = preempts(variant, facts, || panic!("asked without need"));
            assert_eq!(found, expected, "{variant:?} {facts:?}");
            if (curr, wakee) == (Normal, Normal) {
                assert!(preempts(Preempt::Eevdf, facts, || true));
                assert!(!preempts(Preempt::Eevdf, facts, || false));
            }
        }
    }

    #[test]
    fn weight_scales_the_granularity() {
        let facts = |wakee_weight| Facts {
            curr: Class::Normal,
            wakee: Class::Normal,
            vruntime_lead_ns: 2_000_000,
            wakee_weight,
            granularity_ns: 4_000_000,
        };
        for (nice, expected) in [(0, false), (-3, false), (-4, true), (10, false)] {
            let found = preempts(Preempt::Cfs, facts(weight::of_nice(nice)), || false);
            assert_eq!(found, expected, "nice {nice}");
        }
    }

    #[test]
    fn slices_share_the_period_by_weight() {
        let times = Times::of_cpus(16);
        let cases = [
            ("alone", 1, &[(1024, 1024)][..], 24_000_000),
            ("one of two", 2, &[(1024, 2048)], 12_000_000),
            ("a light one of two", 2, &[(110, 1134)], 3_000_000),
            ("one of twenty", 20, &[(1024, 20 * 1024)], 3_000_000),
            ("one of two in a group of two", 2, &[(1024, 2048), (1024, 2048)], 6_000_000),
            ("an empty queue", 0, &[(0, 0)], 3_000_000),
        ];
        for (what, count, levels, expected) in cases {
            let found = times.cfs_slice_ns(count, levels.iter().copied());
            assert_eq!(found, expected, "{what}");
        }
    }

    #[test]
    fn times_grow_with_the_logarithm_up_to_eight_cpus() {
        for (cpus, factor) in [(1, 1), (2, 2), (4, 3), (8, 4), (256, 4)] {
            let expected = Times {
                granularity_ns: factor * 1_000_000,
                latency_ns: factor * 6_000_000,
                slice_ns: factor * 750_000,
            };
            assert_eq!(Times::of_cpus(cpus), expected, "{cpus} cpus");
        }
    }
}
