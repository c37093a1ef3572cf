//! Wake-up: queue the wakee on the target CPU, or lock the target's run queue.
//!
//! Linux: `ttwu_queue`, `ttwu_queue_cond`.

variants! {
    /// Variant of the condition; boot switch `ttwu_queue`.
    TtwuQueue {
        /// Never queue.
        Off = "off",
        /// Queue on every other CPU.
        Always = "always",
        /// Queue across LLCs.
        CrossLlc = "cross_llc",
        /// Also queue when the wakee is still being switched out.
        OnCpu = "on_cpu",
        /// Also queue when the target has nothing runnable.
        Idle = "idle",
        /// As `Idle`, and queue whenever the CPUs do not share an L2.
        L2Skip = "l2_skip",
        /// Queue when the remote lock is not free.
        Trylock = "trylock",
    }
}

variants! {
    /// What carries a queued wake, and so which interrupt; boot switch `ttwu_via`.
    TtwuVia {
        /// A list of its own and the reschedule interrupt.
        Resched = "resched",
        /// The call queue and the call-function interrupt.
        Csd = "csd",
    }
}

/// What the waker knows without a look at the target's run queue.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The target is the waker's CPU.
    pub is_this_cpu: bool,
    /// Waker and target share an L2.
    pub is_same_l2: bool,
    /// Waker and target share the LLC.
    pub is_same_llc: bool,
    /// The wakee is still on its CPU, which is the target.
    pub is_on_cpu: bool,
}

/// How a wake reaches its run queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// The waker locks the run queue.
    Direct,
    /// The waker queues, the target activates.
    Queued,
    /// Direct if the lock is free at the first try, else queued.
    DirectIfFree,
}

impl TtwuQueue {
    /// Whether a wakee that is still being switched out may be queued instead of waited for
    /// (5.8 on).
    #[inline]
    pub const fn queues_on_cpu(self) -> bool {
        matches!(self, TtwuQueue::OnCpu | TtwuQueue::Idle | TtwuQueue::L2Skip)
    }
}

/// Decides the path. `nr_running` reads the runnable tasks of the target: a remote line, which is
/// touched only where the answer hangs on it.
#[inline]
pub fn path(variant: TtwuQueue, facts: Facts, nr_running: impl FnOnce() -> u32) -> Path {
    // Queueing to oneself would need a self-IPI.
    if facts.is_this_cpu {
        return Path::Direct;
    }
    let is_queued = match variant {
        TtwuQueue::Off => false,
        TtwuQueue::Always => true,
        TtwuQueue::Trylock => return Path::DirectIfFree,
        _ if !facts.is_same_llc => true,
        TtwuQueue::CrossLlc => false,
        TtwuQueue::OnCpu => facts.is_on_cpu && nr_running() <= 1,
        TtwuQueue::Idle => nr_running() == 0,
        TtwuQueue::L2Skip => !facts.is_same_l2 || nr_running() == 0,
    };
    if is_queued { Path::Queued } else { Path::Direct }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns: same CPU; same L2, idle and busy; same LLC, idle and busy; other LLC.
    fn columns(variant: TtwuQueue, is_on_cpu: bool) -> [Path; 6] {
        [
            (true, true, true, 1),
            (false, true, true, 0),
            (false, true, true, 1),
            (false, false, true, 0),
            (false, false, true, 1),
            (false, false, false, 1),
        ]
        .map(|(is_this_cpu, is_same_l2, is_same_llc, nr_running)| {
            let facts = Facts { is_this_cpu, is_same_l2, is_same_llc, is_on_cpu };
            path(variant, facts, || nr_running)
        })
    }

    #[test]
    fn the_path_follows_the_table() {
        use Path::{Direct as D, DirectIfFree as F, Queued as Q};
        let cases = [
            ("C10", TtwuQueue::Off, false, [D, D, D, D, D, D]),
            ("C11", TtwuQueue::Always, false, [D, Q, Q, Q, Q, Q]),
            ("C12", TtwuQueue::CrossLlc, false, [D, D, D, D, D, Q]),
            ("C13", TtwuQueue::OnCpu, false, [D, D, D, D, D, Q]),
            ("C14", TtwuQueue::OnCpu, true, [D, Q, Q, Q, Q, Q]),
            ("C15", TtwuQueue::Idle, false, [D, Q, D, Q, D, Q]),
            ("C16", TtwuQueue::L2Skip, false, [D, Q, D, Q, Q, Q]),
            ("trylock", TtwuQueue::Trylock, false, [D, F, F, F, F, F]),
        ];
        for (id, variant, is_on_cpu, expected) in cases {
            assert_eq!(columns(variant, is_on_cpu), expected, "{id}");
        }
    }

    #[test]
    fn the_run_queue_is_read_only_where_the_answer_hangs_on_it() {
        let reads = |variant, is_same_llc| {
            let facts =
                Facts { is_this_cpu: false, is_same_l2: true, is_same_llc, is_on_cpu: true };
            let mut has_read = false;
            path(variant, facts, || {
                has_read = true;
                0
            });
            has_read
        };
        for &variant in TtwuQueue::ALL {
            assert!(!reads(variant, false), "{variant:?} across LLCs");
            assert_eq!(reads(variant, true), variant.queues_on_cpu(), "{variant:?} inside an LLC");
        }
    }

    #[test]
    fn names_round_trip() {
        for &variant in TtwuQueue::ALL {
            assert_eq!(TtwuQueue::from_name(variant.name()), Some(variant));
        }
    }
}
