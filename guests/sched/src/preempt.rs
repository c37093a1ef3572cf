//! Does a task that wakes up preempt the one that runs?
//!
//! Not modelled: `eevdf` (it needs deadlines and lag, which the run queue does not keep yet).

variants! {
    /// Variant of the test; boot switch `preempt`.
    Preempt {
        /// By vruntime and wake-up granularity.
        Cfs = "cfs",
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

/// Weight of a nice-0 task.
pub const WEIGHT_NICE_0: u64 = 1024;

/// Wake-up granularity in ns of a machine with `cpus` CPUs: 1 ms times (1 + log2 of at most 8).
pub const fn wakeup_granularity_ns(cpus: u64) -> u64 {
    let cpus = if cpus > 8 { 8 } else { cpus };
    1_000_000 * (1 + if cpus == 0 { 0 } else { cpus.ilog2() as u64 })
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
    /// See [`wakeup_granularity_ns`].
    pub granularity_ns: u64,
}

/// Whether the wakee preempts.
#[inline]
pub const fn preempts(variant: Preempt, facts: Facts) -> bool {
    match (facts.curr, facts.wakee) {
        (Class::IdleTask, _) => true,
        (_, Class::IdleTask) => false,
        (Class::Idle, Class::Normal) => true,
        (_, Class::Idle) => false,
        (Class::Normal, Class::Normal) => match variant {
            Preempt::Always => true,
            Preempt::Never => false,
            Preempt::Cfs => {
                // A heavier wakee has a smaller granularity in its own virtual time.
                let scaled = facts.granularity_ns * WEIGHT_NICE_0 / facts.wakee_weight;
                facts.vruntime_lead_ns > scaled as i64
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn preemption_follows_the_table() {
        use Class::*;
        let granularity_ns = wakeup_granularity_ns(256);
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
        ];
        for (variant, curr, wakee, vruntime_lead_ns, expected) in cases {
            let facts = Facts {
                curr,
                wakee,
                vruntime_lead_ns,
                wakee_weight: WEIGHT_NICE_0,
                granularity_ns,
            };
            assert_eq!(preempts(variant, facts), expected, "{variant:?} {facts:?}");
        }
    }

    #[test]
    fn granularity_grows_with_the_logarithm_up_to_eight_cpus() {
        let cases = [(1, 1), (2, 2), (4, 3), (8, 4), (256, 4)];
        for (cpus, ms) in cases {
            assert_eq!(wakeup_granularity_ns(cpus), ms * 1_000_000, "{cpus} cpus");
        }
    }
}
