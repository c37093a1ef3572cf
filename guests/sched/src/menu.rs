//! Which idle state a CPU enters: the decisions of Linux's menu governor.
//!
//! A sleep is predicted to last until the next timer, or as long as the last sleeps did, if those
//! were alike. Of the states that are worth a sleep of that length the deepest is taken. Not
//! modelled: the correction of the time until the next timer by its history, tasks that wait for
//! devices, the tick that is kept for short sleeps.

/// Sleeps that are remembered.
pub const INTERVALS: usize = 8;

/// Longest sleep that makes a difference, ns.
pub const LONG_NS: u64 = 1_000_000_000;

/// Sleeps that scatter by less than this are alike, whatever their mean, ns.
const SCATTER_NS: u64 = 20_000;

/// Sleeps that scatter by less than their mean over this are alike.
const SCATTER_DIVISOR: u64 = 6;

/// An idle state, as its governor sees it, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Shortest sleep for which the state is worth it.
    pub residency_ns: u64,
    /// From the wake event to the first instruction at the latest.
    pub exit_ns: u64,
}

/// The length of the sleeps that is typical, if they are alike once up to two of the longest are
/// set aside: those that something else than the usual ended.
pub fn typical_interval_ns(intervals: &[u64; INTERVALS]) -> Option<u64> {
    let mut sorted = *intervals;
    sorted.sort_unstable();
    (INTERVALS * 3 / 4..=INTERVALS).rev().find_map(|kept| {
        let count = kept as u64;
        let mean = sorted[..kept].iter().sum::<u64>() / count;
        let squares =
            sorted[..kept].iter().map(|&interval| u128::from(interval.abs_diff(mean)).pow(2));
        let variance = squares.sum::<u128>() / u128::from(count);
        let bound = SCATTER_NS.max(mean / SCATTER_DIVISOR);
        (variance <= u128::from(bound).pow(2)).then_some(mean)
    })
}

/// How long a sleep will last, as far as one can know.
pub fn predict_ns(intervals: &[u64; INTERVALS], next_timer_ns: u64) -> u64 {
    typical_interval_ns(intervals).map_or(next_timer_ns, |typical| typical.min(next_timer_ns))
}

/// The length to remember of a sleep that took that long, exit included.
pub fn interval_ns(slept_ns: u64, exit_ns: u64) -> u64 {
    // The exit is no part of the sleep; a short sleep has been mostly exit.
    slept_ns.saturating_sub(exit_ns).max(slept_ns / 2).min(LONG_NS)
}

/// The deepest of the states (the shallowest first) that a sleep is worth and that is left in
/// time; `None` when none is: the CPU polls.
pub fn select(
    states: impl Iterator<Item = State>,
    predicted_ns: u64,
    latency_limit_ns: u64,
) -> Option<usize> {
    let limit = latency_limit_ns.min(predicted_ns);
    let is_worth = |state: &State| state.residency_ns <= predicted_ns && state.exit_ns <= limit;
    states.enumerate().filter(|(_, state)| is_worth(state)).last().map(|(at, _)| at)
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn alike_sleeps_are_typical_and_two_long_ones_do_not_count() {
        let long = LONG_NS;
        let cases = [
            ([100, 100, 100, 100, 100, 100, 100, 100], Some(100)),
            ([10, 20, 30, 40, 10, 20, 30, 40], Some(25)),
            ([100, 110, 90, 100, 105, 95, 100, 100], Some(100)),
            ([100, 100, 100, 9000, 100, 100, 100, 100], Some(100)),
            ([100, 100, 100, 9000, 100, 100, 9000, 100], Some(100)),
            ([100, 100, 9000, 9000, 100, 100, 9000, 100], None),
            ([5000, 100, 9000, 700, 3000, 100, 9000, 100], None),
            ([long / US; 8], Some(long / US)),
        ];
        for (intervals, typical) in cases {
            let found = typical_interval_ns(&intervals.map(|us| us * US));
            assert_eq!(found, typical.map(|us: u64| us * US), "{intervals:?}");
        }
    }

    #[test]
    fn the_deepest_state_that_is_worth_it_is_taken() {
        let state =
            |residency: u64, exit: u64| State { residency_ns: residency * US, exit_ns: exit * US };
        // WFI, CPU off and cluster off of HiKey; C1, C6 of the generated machines.
        let hikey = [state(1, 1), state(1000, 950), state(2700, 1500)];
        let duo = [state(2, 1), state(300, 100)];
        let none = u64::MAX;
        let cases: [(&[State], u64, u64, Option<usize>); 9] = [
            (&hikey, 5444, none, Some(2)),
            (&hikey, 2699, none, Some(1)),
            (&hikey, 999, none, Some(0)),
            (&hikey, 0, none, None),
            (&hikey, 5444, 1000 * US, Some(1)),
            (&hikey, 5444, 0, None),
            (&duo, 1, none, None),
            (&duo, 299, none, Some(0)),
            (&duo, 300, none, Some(1)),
        ];
        for (states, predicted, limit, expected) in cases {
            let found = select(states.iter().copied(), predicted * US, limit);
            assert_eq!(found, expected, "{predicted} us, at most {limit} ns");
        }
    }

    #[test]
    fn the_timer_bounds_the_prediction_and_the_exit_is_no_sleep() {
        assert_eq!(predict_ns(&[100 * US; 8], 40 * US), 40 * US);
        assert_eq!(predict_ns(&[100 * US; 8], 400 * US), 100 * US);
        assert_eq!(predict_ns(&[1, 5000 * US, 1, 900 * US, 7, 3, 9000 * US, 100 * US], 77), 77);
        assert_eq!(interval_ns(1000, 100), 900);
        assert_eq!(interval_ns(1000, 900), 500);
        assert_eq!(interval_ns(u64::MAX, 0), LONG_NS);
    }
}
