//! Statistics of a few runs: mean, spread, extremes.

use serde::Serialize;

/// Statistics of a set of values, in the unit of the values.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Stats {
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation; 0 for one value.
    pub stddev: f64,
    /// The same in percent of the mean.
    pub spread_percent: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Median; the mean of the two middle values for an even number.
    pub median: f64,
    /// The values in the order in which they were made.
    pub values: Vec<f64>,
}

impl Stats {
    /// Computes the statistics; `None` for no values.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Stats> {
        let n = values.len();
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let mean = values.iter().sum::<f64>() / n as f64;
        let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        let stddev = if n > 1 { (squares / (n - 1) as f64).sqrt() } else { 0.0 };
        let median = f64::midpoint(sorted[(n - 1) / 2], sorted[n / 2]);
        let spread_percent = if mean == 0.0 { 0.0 } else { 100.0 * stddev / mean };
        Some(Stats { mean, stddev, spread_percent, min, max, median, values: values.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn the_spread_is_that_of_a_sample() {
        let stats = Stats::of(&[2.0, 4.0, 4.0, 6.0]).expect("values");
        assert_eq!((stats.mean, stats.median, stats.min, stats.max), (4.0, 4.0, 2.0, 6.0));
        assert!((stats.stddev - (8.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Stats::of(&[]), None);
        assert_eq!(Stats::of(&[5.0]).map(|one| one.stddev), Some(0.0));
    }
}
