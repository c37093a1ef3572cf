//! Per-entity load tracking: averages that halve every 32 periods of 1024 µs.
//!
//! Linux: `kernel/sched/pelt.c`. A *sum* is the decayed time in which a condition held, in units
//! of 1024 ns; an *average* is the sum times a weight, over the largest sum there can be.

/// Largest sum: all time, in steady state.
pub const SUM_MAX: u64 = 47_742;

/// Period, in units of 1024 ns.
const PERIOD: u64 = 1024;

/// y^n * 2^32, rounded down, where y^32 = 1/2.
const DECAY: [u64; 32] = [
    0x1_0000_0000,
    0xfa83_b2db,
    0xf525_7d15,
    0xefe4_b99b,
    0xeac0_c6e7,
    0xe5b9_06e7,
    0xe0cc_deec,
    0xdbfb_b797,
    0xd744_fcca,
    0xd2a8_1d91,
    0xce24_8c15,
    0xc9b9_bd86,
    0xc567_2a11,
    0xc12c_4cca,
    0xbd08_a39f,
    0xb8fb_af47,
    0xb504_f333,
    0xb123_f581,
    0xad58_3eea,
    0xa9a1_5ab4,
    0xa5fe_d6a9,
    0xa270_4303,
    0x9ef5_3260,
    0x9b8d_39b9,
    0x9837_f051,
    0x94f4_efa8,
    0x91c3_d373,
    0x8ea4_398b,
    0x8b95_c1e3,
    0x8898_0e80,
    0x85aa_c367,
    0x82cd_8698,
];

/// A sum after `periods` periods in which the condition did not hold.
pub const fn decay(sum: u64, periods: u64) -> u64 {
    if periods > 32 * 63 {
        return 0;
    }
    let halved = sum >> (periods / 32);
    let part = periods % 32;
    ((halved as u128 * DECAY[part as usize] as u128) >> 32) as u64
}

/// Decayed sums of an entity or a run queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Time of the last update, ns, a multiple of 1024 behind its beginning.
    pub updated_ns: u64,
    /// Part of the running period that has passed, in units of 1024 ns.
    pub in_period: u64,
    /// Time runnable, times a weight for run queues.
    pub load: u64,
    /// Time running, times 1024.
    pub util: u64,
}

impl Sums {
    /// Brings the sums up to `now_ns`; since the last update the load was `weight` (0: none) and
    /// the CPU was in use or not. Returns whether a period ended, after which averages are due.
    pub fn advance(&mut self, now_ns: u64, weight: u64, is_running: bool) -> bool {
        let delta = now_ns.wrapping_sub(self.updated_ns) as i64;
        if delta < 0 {
            // The clock of another CPU was a little ahead.
            self.updated_ns = now_ns;
            return false;
        }
        let units = delta as u64 >> 10;
        if units == 0 {
            return false;
        }
        self.updated_ns += units << 10;
        let with_rest = units + self.in_period;
        let periods = with_rest / PERIOD;
        let mut contribution = units;
        if periods > 0 {
            self.load = decay(self.load, periods);
            self.util = decay(self.util, periods);
            // The end of the first period, whole ones between, the beginning of the last.
            contribution = decay(PERIOD - self.in_period, periods) + SUM_MAX
                - decay(SUM_MAX, periods)
                - PERIOD
                + with_rest % PERIOD;
        }
        self.in_period = with_rest % PERIOD;
        self.load += weight * contribution;
        if is_running {
            self.util += contribution << 10;
        }
        periods > 0
    }

    /// What sums are divided by: the largest one at this point of the period.
    #[inline]
    pub const fn divider(&self) -> u64 {
        SUM_MAX - PERIOD + self.in_period
    }

    /// Average of the load, where `load` was summed up with weight 1.
    #[inline]
    pub const fn load_avg(&self, weight: u64) -> u64 {
        weight * self.load / self.divider()
    }

    /// Average of the utilisation, of 1024.
    #[inline]
    pub const fn util_avg(&self) -> u64 {
        self.util / self.divider()
    }
}

/// Time runnable of a group's entity on a CPU, after averages of the group's tasks came to or left
/// its queue there: `change` of their sums. What the entity is owed by running it keeps.
///
/// Sums of several tasks overlap in time as nobody recorded; coming ones are taken to lie apart,
/// and after leaving ones the queue's mean is as good as the entity's own. Linux:
/// `update_tg_cfs_load`.
pub fn propagated_load(entity: Sums, change: i64, queue: Sums, queue_weight: u64) -> u64 {
    let runnable = if change >= 0 {
        (entity.load + change as u64).min(queue.divider())
    } else {
        entity.load.min(queue.load.checked_div(queue_weight).unwrap_or(0))
    };
    runnable.max(entity.util >> 10)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    const PERIOD_NS: u64 = PERIOD << 10;

    #[test]
    fn the_table_is_the_thirty_second_root_of_a_half() {
        for (n, &factor) in DECAY.iter().enumerate() {
            let exact = 2f64.powf(32.0 - n as f64 / 32.0);
            assert_eq!(factor, exact as u64, "{n}");
        }
        assert_eq!(decay(1 << 20, 32), 1 << 19);
        assert_eq!(decay(u64::MAX, 4000), 0);
    }

    #[test]
    fn the_largest_sum_is_where_a_whole_period_adds_what_decay_takes() {
        let mut sum = 0;
        for _ in 0..2000 {
            sum = decay(sum, 1) + PERIOD;
        }
        assert_eq!(sum, SUM_MAX);
    }

    #[test]
    fn always_running_converges_to_full_and_sleep_halves_it_in_32_periods() {
        let mut sums = Sums::default();
        for period in 1..=400 {
            assert!(sums.advance(period * PERIOD_NS, 1, true));
        }
        assert_eq!((sums.load_avg(1024), sums.util_avg()), (1023, 1024));
        assert!(sums.advance(432 * PERIOD_NS, 0, false));
        assert_eq!((sums.load_avg(1024), sums.util_avg()), (511, 512));
    }

    #[test]
    fn many_steps_come_to_what_one_step_comes_to() {
        let far = 37 * PERIOD_NS + 777 * 1024;
        let mut once = Sums::default();
        once.advance(far, 3, true);
        let mut often = Sums::default();
        let steps: Vec<u64> = (0..far).step_by(250_000).chain([far]).collect();
        for now in steps {
            often.advance(now, 3, true);
        }
        assert_eq!(often.updated_ns, once.updated_ns);
        assert_eq!(often.in_period, once.in_period);
        assert!(often.load.abs_diff(once.load) < 3 * 64, "{} {}", often.load, once.load);
    }

    #[test]
    fn time_below_a_unit_is_kept_for_later() {
        let mut sums = Sums::default();
        assert!(!sums.advance(1023, 1, true));
        assert_eq!(sums, Sums::default());
        assert!(!sums.advance(2047, 1, true));
        assert_eq!((sums.updated_ns, sums.load), (1024, 1));
        // A clock that goes back is followed, and nothing is added.
        assert!(!sums.advance(0, 1, true));
        assert_eq!((sums.updated_ns, sums.load), (0, 1));
    }

    #[test]
    fn a_groups_entity_follows_what_comes_and_goes() {
        let sums = |load, util| Sums { load, util, ..Sums::default() };
        let max = Sums::default().divider();
        let cases = [
            ("a task comes", sums(100, 0), 400, sums(500 << 10, 0), 1024, 500),
            ("no more than all time", sums(max - 10, 0), 400, sums(0, 0), 1024, max),
            ("one of two leaves", sums(800, 0), -400, sums(300 << 10, 0), 1024, 300),
            ("the last one leaves", sums(800, 0), -800, sums(0, 0), 0, 0),
            ("it ran for so long itself", sums(800, 200 << 10), -800, sums(0, 0), 0, 200),
        ];
        for (what, entity, change, queue, queue_weight, expected) in cases {
            assert_eq!(propagated_load(entity, change, queue, queue_weight), expected, "{what}");
        }
    }
}
