//! Load of a task group: when a CPU tells the group of its part, and what share it takes of the
//! group's weight.
//!
//! Linux: `update_tg_load_avg`, `calc_group_shares`. Weights are those of `weight`.

variants! {
    /// When a CPU adds to `tg->load_avg`; boot switch `tg_load`.
    TgLoad {
        /// When its part has changed by more than a 64th.
        Threshold = "threshold",
        /// Also not more often than the limit allows (1528c661c24b, 6.7).
        Ratelimit = "ratelimit",
        /// Never: each CPU takes itself for the only one that runs the group.
        Off = "off",
    }
}

/// What a CPU does about `tg->load_avg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Nothing, as the variant never does.
    Off,
    /// Nothing: the last add was too short a time ago.
    SkipRate,
    /// Nothing: the change is too small.
    SkipThreshold,
    /// Adds this, and takes the average as its contribution from now on.
    Add(i64),
}

/// Decides from the CPU's average of the group and what it has contributed so far.
///
/// `since_add_ns` reads the clock: the time since the last add, asked for under `Ratelimit` only.
#[inline]
pub fn update(
    variant: TgLoad,
    load_avg: u64,
    contribution: u64,
    limit_ns: u64,
    since_add_ns: impl FnOnce() -> u64,
) -> Update {
    match variant {
        TgLoad::Off => return Update::Off,
        TgLoad::Ratelimit if since_add_ns() < limit_ns => return Update::SkipRate,
        TgLoad::Ratelimit | TgLoad::Threshold => {}
    }
    let delta = load_avg as i64 - contribution as i64;
    if delta.unsigned_abs() > contribution / 64 {
        Update::Add(delta)
    } else {
        Update::SkipThreshold
    }
}

/// Least weight of a group on a CPU.
pub const SHARES_MIN: u64 = 2;

/// Weight of a group's entity on a CPU: the group's shares in the proportion of this CPU's load to
/// the group's. `load` is the larger of the CPU's queued weight and its average.
#[inline]
pub fn group_shares(shares: u64, tg_load_avg: u64, contribution: u64, load: u64) -> u64 {
    // The CPU's part is taken at its present value, not at the one the group was told.
    let group = tg_load_avg.saturating_sub(contribution) + load;
    let part = (shares * load).checked_div(group).unwrap_or(0);
    part.min(shares).max(SHARES_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn updates_follow_the_rule() {
        use Update::*;
        let cases = [
            (TgLoad::Threshold, 1024, 0, 0, Add(1024)),
            (TgLoad::Threshold, 1024, 1024, 0, SkipThreshold),
            (TgLoad::Threshold, 1040, 1024, 0, SkipThreshold),
            (TgLoad::Threshold, 1041, 1024, 0, Add(17)),
            (TgLoad::Threshold, 1007, 1024, 0, Add(-17)),
            (TgLoad::Threshold, 63, 63, 0, SkipThreshold),
            (TgLoad::Threshold, 62, 63, 0, Add(-1)),
            (TgLoad::Threshold, 0, 1024, 0, Add(-1024)),
            (TgLoad::Ratelimit, 1024, 0, 999_999, SkipRate),
            (TgLoad::Ratelimit, 1024, 0, 1_000_000, Add(1024)),
            (TgLoad::Ratelimit, 1024, 1024, 1_000_000, SkipThreshold),
            (TgLoad::Off, 1024, 0, u64::MAX, Off),
        ];
        for (variant, load_avg, contribution, since, expected) in cases {
            let found = update(variant, load_avg, contribution, 1_000_000, || since);
            assert_eq!(found, expected, "{variant:?} {load_avg} {contribution} {since}");
        }
    }

    #[test]
    fn shares_are_the_part_of_the_load() {
        let cases = [
            ("alone", 1024, 512, 512, 512, 1024),
            ("one of two", 1024, 2048, 1024, 1024, 512),
            ("told too little so far", 1024, 1024, 0, 1024, 512),
            ("nothing here", 1024, 4096, 0, 0, SHARES_MIN),
            ("nothing anywhere", 1024, 0, 0, 0, SHARES_MIN),
            ("told more than there is", 1024, 100, 400, 1024, 1024),
        ];
        for (what, shares, tg_load_avg, contribution, load, expected) in cases {
            let found = group_shares(shares, tg_load_avg, contribution, load);
            assert_eq!(found, expected, "{what}");
        }
    }
}
