//! Weights of tasks, and time in proportion to them.
//!
//! Linux: `sched_prio_to_weight`; each step of nice is a factor of about 1.25, and nice 0 is 1024.
//! Weights are not scaled up as Linux does on 64 bits, so a group's part on a CPU is whole numbers
//! of them.

/// Weight of a nice-0 task.
pub const NICE_0: u64 = 1024;

/// Weight of a SCHED_IDLE task, whatever its nice value.
pub const IDLE: u64 = 3;

/// Weights of nice -20 to 19.
#[rustfmt::skip]
const BY_NICE: [u64; 40] = [
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
     9548,  7620,  6100,  4904,  3906,  3121,  2501,  1991,  1586,  1277,
     1024,   820,   655,   526,   423,   335,   272,   215,   172,   137,
      110,    87,    70,    56,    45,    36,    29,    23,    18,    15,
];

/// Weight of a task of that nice value, which is clamped to -20 to 19.
pub const fn of_nice(nice: i8) -> u64 {
    let nice = if nice < -20 { -20 } else { nice };
    BY_NICE[if nice > 19 { 39 } else { (nice + 20) as usize }]
}

/// Virtual time in which an entity of that weight runs for `ns`; `calc_delta_fair`.
#[inline]
pub const fn virtual_ns(ns: u64, weight: u64) -> u64 {
    if weight == NICE_0 { ns } else { ns * NICE_0 / weight }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_of_nice_is_a_factor_of_about_a_quarter() {
        assert_eq!([of_nice(-20), of_nice(0), of_nice(10), of_nice(19)], [88761, NICE_0, 110, 15]);
        assert_eq!([of_nice(-128), of_nice(127)], [of_nice(-20), of_nice(19)]);
        for pair in BY_NICE.windows(2) {
            let percent = pair[0] * 100 / pair[1];
            assert!((118..=131).contains(&percent), "{pair:?}");
        }
    }

    #[test]
    fn the_heavy_run_slowly_in_virtual_time() {
        let cases = [(1000, NICE_0, 1000), (1000, 2048, 500), (1000, of_nice(10), 9309)];
        for (ns, weight, expected) in cases {
            assert_eq!(virtual_ns(ns, weight), expected, "{weight}");
        }
    }
}
