//! Wake-up: queue the wakee on the target CPU, or lock the target's run queue.
//!
//! Linux: `ttwu_queue`, `ttwu_queue_cond`. All variants of the condition stand here; the kernel
//! offers those whose queued path it has.

/// Variant of the condition; boot switch `ttwu_queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TtwuQueue {
    /// Never queue.
    Off,
    /// Queue on every other CPU.
    Always,
    /// Queue across LLCs.
    CrossLlc,
    /// Also queue when the wakee is still being switched out.
    OnCpu,
    /// Also queue when the target has nothing runnable.
    Idle,
    /// As `Idle`, and queue whenever the CPUs do not share an L2.
    L2Skip,
    /// Queue when the remote lock is not free.
    Trylock,
}

/// What the waker knows when it decides.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The target is the waker's CPU.
    pub is_this_cpu: bool,
    /// Waker and target share an L2.
    pub is_same_l2: bool,
    /// Waker and target share the LLC.
    pub is_same_llc: bool,
    /// The wakee is still on its CPU.
    pub is_on_cpu: bool,
    /// Runnable tasks of the target.
    pub nr_running: u64,
    /// The target's run-queue lock was free at the first try.
    pub is_lock_free: bool,
}

/// How a wake reaches its run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The waker locks the run queue.
    Direct,
    /// The waker queues, the target activates.
    Queued,
}

/// Decides the path.
#[inline]
pub const fn path(variant: TtwuQueue, facts: Facts) -> Path {
    let cross_llc = !facts.is_same_llc;
    let is_queued = match variant {
        TtwuQueue::Off => false,
        TtwuQueue::Always => true,
        TtwuQueue::CrossLlc => cross_llc,
        TtwuQueue::OnCpu => cross_llc || (facts.is_on_cpu && facts.nr_running <= 1),
        TtwuQueue::Idle => cross_llc || facts.nr_running == 0,
        TtwuQueue::L2Skip => cross_llc || !facts.is_same_l2 || facts.nr_running == 0,
        TtwuQueue::Trylock => !facts.is_lock_free,
    };
    // Queueing to oneself would need a self-IPI.
    if is_queued && !facts.is_this_cpu { Path::Queued } else { Path::Direct }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns: same CPU; same L2, idle and busy; same LLC, idle and busy; other LLC.
    fn columns(variant: TtwuQueue, is_on_cpu: bool) -> [Path; 6] {
        let facts = |is_this_cpu, is_same_l2, is_same_llc, nr_running| Facts {
            is_this_cpu,
            is_same_l2,
            is_same_llc,
            is_on_cpu,
            nr_running,
            is_lock_free: true,
        };
        [
            facts(true, true, true, 1),
            facts(false, true, true, 0),
            facts(false, true, true, 1),
            facts(false, false, true, 0),
            facts(false, false, true, 1),
            facts(false, false, false, 1),
        ]
        .map(|facts| path(variant, facts))
    }

    #[test]
    fn the_path_follows_the_table() {
        use Path::{Direct as D, Queued as Q};
        let cases = [
            ("C10", TtwuQueue::Off, false, [D, D, D, D, D, D]),
            ("C11", TtwuQueue::Always, false, [D, Q, Q, Q, Q, Q]),
            ("C12", TtwuQueue::CrossLlc, false, [D, D, D, D, D, Q]),
            ("C13", TtwuQueue::OnCpu, false, [D, D, D, D, D, Q]),
            ("C14", TtwuQueue::OnCpu, true, [D, Q, Q, Q, Q, Q]),
            ("C15", TtwuQueue::Idle, false, [D, Q, D, Q, D, Q]),
            ("C16", TtwuQueue::L2Skip, false, [D, Q, D, Q, Q, Q]),
        ];
        for (id, variant, is_on_cpu, expected) in cases {
            assert_eq!(columns(variant, is_on_cpu), expected, "{id}");
        }
    }

    #[test]
    fn trylock_queues_only_behind_a_holder() {
        let facts = Facts {
            is_this_cpu: false,
            is_same_l2: true,
            is_same_llc: true,
            is_on_cpu: false,
            nr_running: 1,
            is_lock_free: false,
        };
        assert_eq!(path(TtwuQueue::Trylock, facts), Path::Queued);
        let facts = Facts { is_lock_free: true, ..facts };
        assert_eq!(path(TtwuQueue::Trylock, facts), Path::Direct);
    }
}
