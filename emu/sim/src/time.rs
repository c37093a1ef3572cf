//! Simulated time in picoseconds, clock cycles, and the exact conversion between them.
//!
//! A clock edge is computed from its cycle number and the frequency, never by adding a rounded
//! period: edge `n` lies at the first whole picosecond at or after `n / f`.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

const PS_PER_MS: u128 = 1_000_000_000;

/// A point in simulated time or a length of it, in picoseconds since reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SimTime(pub u64);

impl SimTime {
    /// Later than any event of a run.
    pub const NEVER: SimTime = SimTime(u64::MAX);
    /// Reset.
    pub const ZERO: SimTime = SimTime(0);

    /// A length in whole nanoseconds.
    #[must_use]
    pub const fn from_ns(ns: u64) -> Self {
        SimTime(ns * 1_000)
    }

    /// A length in whole microseconds.
    #[must_use]
    pub const fn from_us(us: u64) -> Self {
        SimTime(us * 1_000_000)
    }

    /// Picoseconds.
    #[must_use]
    pub const fn ps(self) -> u64 {
        self.0
    }

    /// Nanoseconds, for people: results keep picoseconds.
    #[must_use]
    pub fn as_ns_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Sum that stays at `NEVER` instead of wrapping.
    #[must_use]
    pub const fn saturating_add(self, other: SimTime) -> SimTime {
        SimTime(self.0.saturating_add(other.0))
    }

    /// Difference, zero when `other` is later.
    #[must_use]
    pub const fn saturating_sub(self, other: SimTime) -> SimTime {
        SimTime(self.0.saturating_sub(other.0))
    }
}

impl Add for SimTime {
    type Output = SimTime;
    fn add(self, other: SimTime) -> SimTime {
        SimTime(self.0 + other.0)
    }
}

impl AddAssign for SimTime {
    fn add_assign(&mut self, other: SimTime) {
        self.0 += other.0;
    }
}

impl Sub for SimTime {
    type Output = SimTime;
    fn sub(self, other: SimTime) -> SimTime {
        SimTime(self.0 - other.0)
    }
}

impl fmt::Display for SimTime {
    /// Prints with the largest unit that keeps the number above one.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ps = self.0;
        match ps {
            0..1_000 => write!(f, "{ps} ps"),
            1_000..1_000_000 => write!(f, "{:.3} ns", ps as f64 / 1e3),
            1_000_000..1_000_000_000 => write!(f, "{:.3} us", ps as f64 / 1e6),
            1_000_000_000..1_000_000_000_000 => write!(f, "{:.3} ms", ps as f64 / 1e9),
            _ => write!(f, "{:.3} s", ps as f64 / 1e12),
        }
    }
}

/// A number of clock cycles, or the number of a clock edge since reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cycles(pub u64);

/// A clock frequency in whole kilohertz.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Freq {
    khz: u64,
}

impl Freq {
    /// A frequency in kHz; zero is raised to 1 so that every clock ticks.
    #[must_use]
    pub const fn from_khz(khz: u64) -> Self {
        Freq { khz: if khz == 0 { 1 } else { khz } }
    }

    /// Kilohertz.
    #[must_use]
    pub const fn khz(self) -> u64 {
        self.khz
    }

    /// Time of clock edge `n`: the first picosecond at or after `n / f`.
    #[must_use]
    #[inline]
    pub fn edge(self, n: u64) -> SimTime {
        // The short way holds for the first seconds of a run, and gives the same value.
        if let Some(scaled) = n.checked_mul(PS_PER_MS as u64) {
            return SimTime(scaled.div_ceil(self.khz));
        }
        SimTime((u128::from(n) * PS_PER_MS).div_ceil(u128::from(self.khz)) as u64)
    }

    /// Number of the first edge at or after `t`.
    #[must_use]
    pub fn edge_at_or_after(self, t: SimTime) -> u64 {
        if t == SimTime::NEVER {
            return u64::MAX;
        }
        // edge(n) >= t  <=>  ceil(n * P / f) >= t  <=>  n * P > (t - 1) * f
        if t.0 == 0 {
            return 0;
        }
        if let Some(scaled) = (t.0 - 1).checked_mul(self.khz) {
            return scaled / PS_PER_MS as u64 + 1;
        }
        (u128::from(t.0 - 1) * u128::from(self.khz) / PS_PER_MS) as u64 + 1
    }

    /// Number of the last edge at or before `t`: the value of a counter that started at zero.
    #[must_use]
    pub fn count_at(self, t: SimTime) -> u64 {
        let n = self.edge_at_or_after(t);
        if self.edge(n) > t { n - 1 } else { n }
    }

    /// Least number of whole cycles that last at least `t`.
    #[must_use]
    pub fn cycles_in(self, t: SimTime) -> u64 {
        (u128::from(t.0) * u128::from(self.khz)).div_ceil(PS_PER_MS) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edge_never_comes_before_its_exact_time() {
        for khz in [1_000, 24_000, 2_450_000, 3_500_000, 3_333_333] {
            let f = Freq::from_khz(khz);
            for n in [0, 1, 2, 3, 7, 1_000_003, 35_000_000_001] {
                let t = f.edge(n);
                assert!(u128::from(t.0) * u128::from(khz) >= u128::from(n) * PS_PER_MS);
                assert_eq!(f.edge_at_or_after(t), n, "{khz} kHz edge {n}");
                assert_eq!(f.edge_at_or_after(SimTime(t.0 + 1)), n + 1);
                assert_eq!(f.count_at(t), n);
            }
        }
    }

    #[test]
    fn three_gigahertz_does_not_drift() {
        assert_eq!(Freq::from_khz(3_000_000).edge(3_000_000_000), SimTime(1_000_000_000_000));
    }
}
