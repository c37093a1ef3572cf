//! Exact order statistics of lengths of simulated time.

/// Order statistics of a set of values, all in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    /// How many values.
    pub n: u64,
    /// Smallest value in ps.
    pub min: u64,
    /// Median in ps.
    pub p50: u64,
    /// 90th percentile in ps.
    pub p90: u64,
    /// 99th percentile in ps.
    pub p99: u64,
    /// Largest value in ps.
    pub max: u64,
    /// Arithmetic mean in ps.
    pub mean: f64,
}

impl Spread {
    /// Computes the statistics; sorts the values. `None` for no values.
    ///
    /// A percentile is the smallest value with at least that share of the values at or below it.
    #[must_use]
    pub fn of(values: &mut [u64]) -> Option<Spread> {
        values.sort_unstable();
        let (&min, &max) = (values.first()?, values.last()?);
        let n = values.len();
        let rank = |percent: usize| values[(n * percent).div_ceil(100).max(1) - 1];
        let sum: u128 = values.iter().map(|&value| u128::from(value)).sum();
        Some(Spread {
            n: n as u64,
            min,
            p50: rank(50),
            p90: rank(90),
            p99: rank(99),
            max,
            mean: sum as f64 / n as f64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Spread;

    #[test]
    fn percentiles_are_values_of_the_set() {
        let mut values: Vec<u64> = (1..=200).rev().collect();
        let spread = Spread::of(&mut values).expect("values");
        assert_eq!((spread.min, spread.p50, spread.p90, spread.p99), (1, 100, 180, 198));
        assert_eq!((spread.max, spread.n), (200, 200));
        assert!((spread.mean - 100.5).abs() < 1e-9);
        assert_eq!(Spread::of(&mut []), None);
        assert_eq!(Spread::of(&mut [7]).map(|one| (one.p50, one.p99)), Some((7, 7)));
    }
}
