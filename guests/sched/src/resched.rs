//! `resched_curr`: asking a CPU to call its scheduler.

use crate::flags::{NEED_RESCHED, POLLING};

/// What `resched_curr` does once it has read the flags of the target's current task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resched {
    /// Already asked: nothing, not even a write.
    Dup,
    /// The target is this CPU: set the flag, it is seen at the next preemption point.
    Local,
    /// Set the flag atomically, then ask [`needs_ipi`] about the value it replaced.
    Remote,
}

/// Decides from the flags of the current task of the target.
#[inline]
pub const fn resched_curr(flags: u32, is_this_cpu: bool) -> Resched {
    if flags & NEED_RESCHED != 0 {
        Resched::Dup
    } else if is_this_cpu {
        Resched::Local
    } else {
        Resched::Remote
    }
}

/// Whether the flags that NEED_RESCHED was added to call for an IPI.
#[inline]
pub const fn needs_ipi(replaced: u32) -> bool {
    replaced & POLLING == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resched_curr_follows_the_table() {
        let cases = [
            (0, true, Resched::Local),
            (0, false, Resched::Remote),
            (POLLING, false, Resched::Remote),
            (NEED_RESCHED, false, Resched::Dup),
            (NEED_RESCHED, true, Resched::Dup),
            (NEED_RESCHED | POLLING, false, Resched::Dup),
        ];
        for (flags, is_this_cpu, expected) in cases {
            assert_eq!(resched_curr(flags, is_this_cpu), expected, "{flags:#x} {is_this_cpu}");
        }
        assert!(needs_ipi(0));
        assert!(!needs_ipi(POLLING));
    }
}
