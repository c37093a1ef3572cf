//! How long a CPU polls before it halts: the decisions of Linux's haltpoll governor.
//!
//! A CPU polls up to a limit of its own, then halts. A halt that a little longer poll would have
//! spared lets the limit grow, one that no poll would have spared lets it shrink.

/// Longest poll, ns: `guest_halt_poll_ns`.
pub const POLL_MAX_NS: u64 = 200_000;

/// First limit that is not 0, ns: `guest_halt_poll_grow_start`.
pub const GROW_START_NS: u64 = 50_000;

/// Factor by which the limit grows and shrinks.
const FACTOR: u64 = 2;

/// Whether to poll next: not with a limit of 0, and not when the last poll ended for want of an
/// event.
pub const fn should_poll(limit_ns: u64, has_poll_timed_out: bool) -> bool {
    limit_ns != 0 && !has_poll_timed_out
}

/// The limit after a halt of that length.
pub fn adjusted_ns(limit_ns: u64, halted_ns: u64) -> u64 {
    if halted_ns > POLL_MAX_NS {
        limit_ns / FACTOR
    } else if halted_ns > limit_ns {
        (limit_ns * FACTOR).clamp(GROW_START_NS, POLL_MAX_NS)
    } else {
        limit_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_follows_the_length_of_halts() {
        // (limit, halted, limit afterwards), us.
        let cases = [
            (0, 10, 50),
            (0, 201, 0),
            (50, 60, 100),
            (100, 150, 200),
            (150, 200, 200),
            (200, 150, 200),
            (50, 40, 50),
            (200, 1000, 100),
            (50, 1000, 25),
            (25, 100, 50),
        ];
        for (limit, halted, expected) in cases {
            let found = adjusted_ns(limit * 1000, halted * 1000);
            assert_eq!(found, expected * 1000, "{limit} us after a halt of {halted} us");
        }
        assert!(!should_poll(0, false) && !should_poll(50_000, true) && should_poll(50_000, false));
    }
}
