//! `schbench`: percentiles of wake-up and request latencies, requests a second.

use guests_abi::block::SampleKind;

use super::{Better, Figure, Measured, Workload};

pub(super) const SCHBENCH: Workload = Workload { name: "schbench", figures };

/// The value that `percent` of sorted values do not pass; 0 of none.
fn percentile(sorted: &[f64], percent: f64) -> f64 {
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

fn figures(measured: &Measured<'_>) -> Vec<Figure> {
    let wakes = measured.times_us(SampleKind::WakeLatency);
    let requests = measured.times_us(SampleKind::RequestLatency);
    let seconds = measured.number("runtime_us") / 1e6;
    let rps = if seconds > 0.0 { measured.units() / seconds } else { 0.0 };
    let lower = |name, value| Figure { name, unit: "us", better: Some(Better::Lower), value };
    vec![
        lower("wakeup p50", percentile(&wakes, 50.0)),
        lower("wakeup p90", percentile(&wakes, 90.0)),
        lower("wakeup p99", percentile(&wakes, 99.0)),
        lower("wakeup p99.9", percentile(&wakes, 99.9)),
        lower("wakeup max", percentile(&wakes, 100.0)),
        lower("request p50", percentile(&requests, 50.0)),
        lower("request p90", percentile(&requests, 90.0)),
        lower("request p99", percentile(&requests, 99.0)),
        lower("request p99.9", percentile(&requests, 99.9)),
        lower("request max", percentile(&requests, 100.0)),
        Figure { name: "rps", unit: "1/s", better: Some(Better::Higher), value: rps },
    ]
}

#[cfg(test)]
mod tests {
    use super::percentile;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let sorted: Vec<f64> = (1..=10).map(f64::from).collect();
        let found = [50.0, 90.0, 99.0, 100.0, 0.0].map(|percent| percentile(&sorted, percent));
        assert_eq!(found, [5.0, 9.0, 10.0, 10.0, 1.0]);
        assert_eq!(percentile(&[], 50.0), 0.0);
    }
}
