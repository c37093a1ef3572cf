//! Earliest eligible virtual deadline first: who may run, and where a task is placed that wakes.
//!
//! Linux: `avg_vruntime`, `entity_eligible`, `update_entity_lag`, `place_entity` of 6.6 on. A
//! queue's virtual time V is the weighted mean of its entities' virtual times; whoever is not
//! ahead of it is eligible, and of those the one with the earliest deadline runs. How far an entity
//! was behind V when it went to sleep, its lag, is what it is placed behind V again.
//!
//! Not modelled: delayed dequeue (6.12), slices other than the base slice.

/// Sums over a queue, kept relative to its least virtual time so that products fit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Weights times the virtual times behind the least one, ns.
    pub weighted_ns: i64,
    /// Weights.
    pub weight: u64,
}

impl Load {
    /// The sums with an entity that is `key_ns` behind the least virtual time.
    #[inline]
    #[must_use]
    pub const fn with(self, key_ns: i64, weight: u64) -> Load {
        Load {
            weighted_ns: self.weighted_ns.wrapping_add(key_ns.wrapping_mul(weight as i64)),
            weight: self.weight + weight,
        }
    }

    /// The sums without it.
    #[inline]
    #[must_use]
    pub const fn without(self, key_ns: i64, weight: u64) -> Load {
        Load {
            weighted_ns: self.weighted_ns.wrapping_sub(key_ns.wrapping_mul(weight as i64)),
            weight: self.weight - weight,
        }
    }

    /// The sums after the least virtual time has moved on by `delta_ns`.
    #[inline]
    #[must_use]
    pub const fn moved(self, delta_ns: i64) -> Load {
        let moved = delta_ns.wrapping_mul(self.weight as i64);
        Load { weighted_ns: self.weighted_ns.wrapping_sub(moved), weight: self.weight }
    }

    /// V behind the least virtual time, ns, rounded down.
    #[inline]
    pub const fn mean_ns(self) -> i64 {
        if self.weight == 0 { 0 } else { self.weighted_ns.div_euclid(self.weight as i64) }
    }

    /// Whether an entity that is `key_ns` behind the least virtual time may run. Asked without a
    /// division, so that rounding makes nobody ineligible.
    #[inline]
    pub const fn is_eligible(self, key_ns: i64) -> bool {
        self.weighted_ns >= key_ns.wrapping_mul(self.weight as i64)
    }
}

/// Lag that an entity keeps when it leaves, ns: at most two slices, or a tick.
#[inline]
pub const fn lag_ns(behind_ns: i64, virtual_slice_ns: u64, virtual_tick_ns: u64) -> i64 {
    let twice = 2 * virtual_slice_ns;
    let limit = (if twice > virtual_tick_ns { twice } else { virtual_tick_ns }) as i64;
    if behind_ns > limit {
        limit
    } else if behind_ns < -limit {
        -limit
    } else {
        behind_ns
    }
}

/// How far behind V an entity of that weight is placed so that it has its lag once it has joined:
/// joining moves V. `queue_weight` is that of all others, the running one too.
#[inline]
pub const fn placed_behind_ns(lag_ns: i64, weight: u64, queue_weight: u64) -> i64 {
    if queue_weight == 0 {
        return 0;
    }
    lag_ns * (queue_weight + weight) as i64 / queue_weight as i64
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use crate::weight;

    fn load(entities: &[(i64, u64)]) -> Load {
        entities.iter().fold(Load::default(), |sum, &(key, weight)| sum.with(key, weight))
    }

    #[test]
    fn who_is_not_ahead_of_the_mean_is_eligible() {
        let cases = [
            (&[][..], 0, true),
            (&[(0, 1024), (100, 1024)], 50, true),
            (&[(0, 1024), (100, 1024)], 51, false),
            // The heavier pulls the mean to itself.
            (&[(0, 3072), (100, 1024)], 25, true),
            (&[(0, 3072), (100, 1024)], 26, false),
            // One third is not rounded away.
            (&[(0, 1024), (0, 1024), (1, 1024)], 0, true),
            (&[(-10, 1024)], -10, true),
        ];
        for (entities, key, expected) in cases {
            assert_eq!(load(entities).is_eligible(key), expected, "{entities:?} {key}");
        }
    }

    #[test]
    fn sums_follow_what_comes_goes_and_passes() {
        let all = load(&[(0, 1024), (300, 512), (-6, 2048)]);
        assert_eq!(all.without(300, 512), load(&[(0, 1024), (-6, 2048)]));
        assert_eq!(all.moved(50), load(&[(-50, 1024), (250, 512), (-56, 2048)]));
        assert_eq!(load(&[(-1, 1024), (0, 1024)]).mean_ns(), -1);
        assert_eq!(Load::default().mean_ns(), 0);
    }

    #[test]
    fn lag_is_kept_within_two_slices() {
        let cases = [(5, 5), (9_000_000, 6_000_000), (-9_000_000, -6_000_000), (0, 0)];
        for (behind, expected) in cases {
            assert_eq!(lag_ns(behind, 3_000_000, 1_000_000), expected, "{behind}");
        }
        assert_eq!(lag_ns(9_000_000, 1_000, 4_000_000), 4_000_000, "a tick at least");
    }

    #[test]
    fn who_is_placed_has_its_lag_once_it_has_joined() {
        for (lag, weight, others) in [(1000, 1024, 1024), (-700, 512, 3072), (0, 1024, 2048)] {
            let behind = placed_behind_ns(lag, weight, others);
            // V is at 0 before; the entity's own weight then pulls it towards the entity.
            let joined = Load { weighted_ns: 0, weight: others }.with(-behind, weight);
            assert!((joined.mean_ns() + behind - lag).abs() <= 1, "{lag} {weight} {others}");
        }
        assert_eq!(placed_behind_ns(1000, 1024, 0), 0, "an empty queue knows no lag");
    }

    /// Runs entities of these weights on one CPU, tick by tick; returns the time that each had, ns.
    fn simulate(weights: &[u64], ticks: u64) -> std::vec::Vec<u64> {
        const TICK_NS: u64 = 1_000_000;
        const SLICE_NS: u64 = 3_000_000;
        struct Entity {
            weight: u64,
            vruntime: i64,
            deadline: i64,
            had: u64,
        }
        let slice = |weight| weight::virtual_ns(SLICE_NS, weight) as i64;
        let mut all: std::vec::Vec<Entity> = (weights.iter())
            .map(|&weight| Entity { weight, vruntime: 0, deadline: slice(weight), had: 0 })
            .collect();
        for _ in 0..ticks {
            let load = all.iter().fold(Load::default(), |load, e| load.with(e.vruntime, e.weight));
            for entity in &all {
                let lag = load.mean_ns() - entity.vruntime;
                assert!(lag.abs() <= 2 * slice(entity.weight), "lag {lag} of {}", entity.weight);
            }
            let eligible = all.iter_mut().filter(|entity| load.is_eligible(entity.vruntime));
            let next =
                eligible.min_by_key(|entity| entity.deadline).expect("the least is eligible");
            next.had += TICK_NS;
            next.vruntime += weight::virtual_ns(TICK_NS, next.weight) as i64;
            if next.vruntime >= next.deadline {
                next.deadline = next.vruntime + slice(next.weight);
            }
        }
        all.iter().map(|entity| entity.had).collect()
    }

    #[test]
    fn time_is_shared_by_weight_and_nobody_gets_far_behind() {
        for nices in [&[0, 0][..], &[0, 10], &[-5, 0, 0, 5], &[0; 40]] {
            let weights: std::vec::Vec<u64> =
                nices.iter().map(|&nice| weight::of_nice(nice)).collect();
            let total: u64 = weights.iter().sum();
            let ticks = 4000;
            for (had, weight) in simulate(&weights, ticks).iter().zip(&weights) {
                let fair = ticks * 1_000_000 * weight / total;
                assert!(had.abs_diff(fair) <= 6_000_000, "{nices:?}: {had} of {fair}");
            }
        }
    }
}
