//! How a remote function call reaches an idle CPU, and how that CPU leaves its idle loop.
//!
//! Linux: `call_function_single_prep_ipi`, `set_nr_if_polling`, `do_idle`.

use crate::flags::{NEED_RESCHED, NOTIFY_IPI, POLLING};

variants! {
    /// Variant of the policy; boot switch `call_idle`.
    CallIdle {
        /// Always an IPI; flags are not looked at, the idle loop does not flush.
        Revert = "revert",
        /// A polling CPU is signalled by NEED_RESCHED, and schedules in full afterwards.
        NeedResched = "need_resched",
        /// A polling CPU is signalled by a bit of its own, and schedules only when asked to.
        NotifyIpi = "notify_ipi",
        /// As `NeedResched`, with a shortcut in `schedule_idle` when nothing is runnable.
        SmIdle = "sm_idle",
    }
}

impl CallIdle {
    /// Bits that end the idle loop of a CPU under this variant.
    #[inline]
    pub const fn wake_bits(self) -> u32 {
        match self {
            CallIdle::NotifyIpi => NEED_RESCHED | NOTIFY_IPI,
            _ => NEED_RESCHED,
        }
    }
}

/// What a caller does that found the target's call queue empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// Send the IPI.
    Ipi,
    /// Nothing: the target polls and is signalled already.
    Saved,
    /// Replace the flags by this value if they are still what was read; else decide again.
    SetFlags(u32),
}

/// Decides the signal from the flags of the target's idle task.
///
/// `Revert` does not read flags at all: the kernel asks [`reads_flags`] first.
#[inline]
pub const fn signal(variant: CallIdle, flags: u32) -> Signal {
    let bit = match variant {
        CallIdle::Revert => return Signal::Ipi,
        CallIdle::NeedResched | CallIdle::SmIdle => NEED_RESCHED,
        CallIdle::NotifyIpi => NOTIFY_IPI,
    };
    if flags & POLLING == 0 {
        Signal::Ipi
    } else if flags & variant.wake_bits() != 0 {
        Signal::Saved
    } else {
        Signal::SetFlags(flags | bit)
    }
}

/// Whether the caller reads the target's flags.
#[inline]
pub const fn reads_flags(variant: CallIdle) -> bool {
    !matches!(variant, CallIdle::Revert)
}

/// Whether the idle loop flushes the call queue after it cleared POLLING.
#[inline]
pub const fn flushes(variant: CallIdle) -> bool {
    !matches!(variant, CallIdle::Revert)
}

/// Whether the signal is NOTIFY_IPI, which the idle loop then has to clear.
#[inline]
pub const fn wakes_by_notify(variant: CallIdle) -> bool {
    matches!(variant, CallIdle::NotifyIpi)
}

/// How an idle CPU schedules when it leaves its idle loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleSchedule {
    /// Not at all: back to the top of the idle loop.
    Skip,
    /// `schedule_idle` with task picking.
    Full,
    /// `schedule_idle` that keeps the idle task when `nr_running` is 0.
    ShortcutIfEmpty,
}

/// Decides on `schedule_idle` from the own flags, read after the flush.
#[inline]
pub const fn idle_schedule(variant: CallIdle, flags: u32) -> IdleSchedule {
    match variant {
        CallIdle::Revert | CallIdle::NeedResched => IdleSchedule::Full,
        CallIdle::NotifyIpi if flags & NEED_RESCHED == 0 => IdleSchedule::Skip,
        CallIdle::NotifyIpi => IdleSchedule::Full,
        CallIdle::SmIdle => IdleSchedule::ShortcutIfEmpty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use CallIdle::*;

    #[test]
    fn names_round_trip() {
        for &variant in CallIdle::ALL {
            assert_eq!(CallIdle::from_name(variant.name()), Some(variant));
        }
    }

    #[test]
    fn the_signal_follows_the_table() {
        const P: u32 = POLLING;
        const N: u32 = NEED_RESCHED;
        const I: u32 = NOTIFY_IPI;
        let cases = [
            (Revert, P, Signal::Ipi),
            (Revert, P | N, Signal::Ipi),
            (NeedResched, 0, Signal::Ipi),
            (NeedResched, N, Signal::Ipi),
            (NeedResched, P, Signal::SetFlags(P | N)),
            (NeedResched, P | N, Signal::Saved),
            (NotifyIpi, 0, Signal::Ipi),
            (NotifyIpi, I, Signal::Ipi),
            (NotifyIpi, P, Signal::SetFlags(P | I)),
            (NotifyIpi, P | I, Signal::Saved),
            (NotifyIpi, P | N, Signal::Saved),
            (SmIdle, 0, Signal::Ipi),
            (SmIdle, P, Signal::SetFlags(P | N)),
            (SmIdle, P | N, Signal::Saved),
        ];
        for (variant, flags, expected) in cases {
            assert_eq!(signal(variant, flags), expected, "{variant:?} {flags:#x}");
        }
    }

    #[test]
    fn a_bit_that_is_set_ends_the_idle_loop() {
        for &variant in CallIdle::ALL {
            if let Signal::SetFlags(flags) = signal(variant, POLLING) {
                assert_ne!(flags & variant.wake_bits(), 0, "{variant:?}");
                assert!(flushes(variant), "{variant:?} would never see the call");
            }
        }
    }

    #[test]
    fn leaving_the_idle_loop_follows_the_table() {
        let cases = [
            (Revert, NEED_RESCHED, IdleSchedule::Full),
            (NeedResched, NEED_RESCHED, IdleSchedule::Full),
            (NotifyIpi, 0, IdleSchedule::Skip),
            (NotifyIpi, NEED_RESCHED, IdleSchedule::Full),
            (SmIdle, NEED_RESCHED, IdleSchedule::ShortcutIfEmpty),
        ];
        for (variant, flags, expected) in cases {
            assert_eq!(idle_schedule(variant, flags), expected, "{variant:?} {flags:#x}");
        }
    }
}
