//! Idle CPUs without a tick: who asks one of them to balance for all, and whether it does.
//!
//! Linux: `nohz_balancer_kick`, `kick_ilb`, `nohz_csd_func`, `_nohz_idle_balance`. Not modelled:
//! kicks for capacity and asymmetry.

variants! {
    /// Whether busy CPUs kick idle ones; boot switch `ilb`.
    Ilb {
        /// Never.
        Off = "off",
        /// A kick that was signalled through NEED_RESCHED is lost (up to 6.12).
        On = "on",
        /// It is not (e932c4ab38f0, ff47a0acfcce, 6.13).
        OnFixed = "on_fixed",
    }
}

/// Bits of a kick.
pub mod kick {
    /// Balance on behalf of all idle CPUs.
    pub const BALANCE: u32 = 1;
    /// Bring the averages of idle CPUs up to date.
    pub const STATS: u32 = 2;
}

/// Time between two updates of the averages of idle CPUs, ns.
pub const BLOCKED_NS: u64 = 32_000_000;

/// What a busy tick reads.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Averages of idle CPUs are out of date, and were not looked at for [`BLOCKED_NS`].
    pub is_blocked_due: bool,
    /// A balance on behalf of idle CPUs is due.
    pub is_balance_due: bool,
    /// Tasks of this CPU.
    pub nr_running: u32,
}

/// The bits of the kick that a busy tick sends; 0 for none. Asks for the busy CPUs of the LLC only
/// where that decides.
pub fn kick_flags(facts: Facts, nr_busy_cpus: impl FnOnce() -> u32) -> u32 {
    if facts.is_balance_due && (facts.nr_running >= 2 || nr_busy_cpus() > 1) {
        kick::STATS | kick::BALANCE
    } else if facts.is_blocked_due {
        kick::STATS
    } else {
        0
    }
}

/// Whether a kick that has arrived leads to a balance.
pub const fn is_accepted(ilb: Ilb, is_idle: bool, need_resched: bool) -> bool {
    match ilb {
        Ilb::Off => false,
        Ilb::On => is_idle && !need_resched,
        Ilb::OnFixed => is_idle,
    }
}

/// Whether a balance on behalf of others stops before the next CPU.
pub const fn is_aborted(ilb: Ilb, is_idle: bool, need_resched: bool) -> bool {
    match ilb {
        Ilb::Off | Ilb::On => need_resched,
        Ilb::OnFixed => !is_idle && need_resched,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_tick_kicks_for_waiting_tasks_and_for_a_shared_cache() {
        // blocked due, balance due, tasks, busy CPUs of the LLC
        let cases = [
            (false, true, 1, 1, 0),
            (false, true, 2, 1, 3),
            (false, true, 1, 2, 3),
            (false, false, 2, 2, 0),
            (true, false, 2, 2, kick::STATS),
            (true, true, 1, 1, kick::STATS),
        ];
        for (is_blocked_due, is_balance_due, nr_running, busy, expected) in cases {
            let facts = Facts { is_blocked_due, is_balance_due, nr_running };
            assert_eq!(kick_flags(facts, || busy), expected, "{facts:?}");
        }
    }

    #[test]
    fn the_signal_of_a_kick_makes_it_void_before_the_fix() {
        // F2, F3.
        let cases = [
            (Ilb::On, true, true, false, true),
            (Ilb::On, true, false, true, false),
            (Ilb::OnFixed, true, true, true, false),
            (Ilb::OnFixed, false, true, false, true),
            (Ilb::Off, true, false, false, false),
        ];
        for (ilb, is_idle, need_resched, accepted, aborted) in cases {
            assert_eq!(is_accepted(ilb, is_idle, need_resched), accepted, "{ilb:?}");
            assert_eq!(is_aborted(ilb, is_idle, need_resched), aborted, "{ilb:?}");
        }
    }
}
