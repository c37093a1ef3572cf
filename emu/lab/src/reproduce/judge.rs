//! Verdicts on published rows, by fixed rules.
//!
//! A: within the larger of a quarter of the published effect and the published spread. B: the right
//! sign, and within a factor of two of the effect. C: no change beyond the larger of 3 % and the
//! published spread. Inputs are printed and count for nothing.

use std::collections::BTreeMap;

use serde::Serialize;

use super::RowReport;
use super::plan::{Class, Measurement, Row, Rows, Scale};
use super::store::{Kept, Store};
use crate::stats::Stats;

/// What came of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// In band.
    Pass,
    /// Out of band, but on the published side of no change.
    MissRightSign,
    /// Out of band.
    Miss,
    /// Was used to choose a parameter, or is what others are related to.
    Input,
    /// A run failed; the note says how.
    Failed,
    /// Nothing here measures it; the note says why.
    NotMeasured,
}

/// What doubling the scaled quantity did.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Doubling {
    /// Change of the value in percent.
    pub change_percent: f64,
    /// Whether it is below 3 %.
    pub converged: bool,
}

/// The class of line whose waits changed most.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Attribution {
    /// Class.
    pub class: String,
    /// Change of the time waited for it, in us, summed over cpus, mean of a run.
    pub change_us: f64,
    /// The same over the change of all classes together, in percent.
    pub share_percent: f64,
}

/// Most that a value may move when the scale doubles, in percent.
const CONVERGED_PERCENT: f64 = 3.0;
/// Least change that counts as one, as a ratio.
const NOISE: f64 = 0.03;

/// Judges a row.
pub(super) fn judge(
    rows: &Rows,
    row: &Row,
    seeds: &[u64],
    scale: Scale,
    store: &Store,
) -> RowReport {
    let mut report = RowReport {
        id: row.id.clone(),
        class: row.class,
        what: row.what.clone(),
        setup: String::new(),
        published: row.published,
        emulated: None,
        spread: None,
        verdict: Verdict::NotMeasured,
        doubling: None,
        attribution: None,
        note: row.note.clone(),
    };
    let run = row.run.as_ref().and_then(|run| rows.run(run).ok());
    let (Some(run), Some(variant)) = (run, &row.variant) else { return report };
    if scale == Scale::Quick && run.quick.is_none() {
        report.note = format!("in full runs only {}", row.note).trim_end().to_owned();
        return report;
    }
    report.setup = run.describe(variant, scale);
    if let Some(over) = &row.over {
        report.setup = format!("{}, over {over}", report.setup);
    }
    let find = |variant: &str, scale| {
        let measurement = Measurement::new(run, variant, scale).ok()?;
        store.find(&measurement.key(seeds))
    };
    let sides = |scale| {
        let new = find(variant, scale)?;
        let old = match &row.over {
            Some(over) => Some(find(over, scale)?),
            None => None,
        };
        Some((new, old))
    };
    let Some((new, old)) = sides(scale) else { return report };
    if let Some(error) =
        [Some(&new), old.as_ref()].into_iter().flatten().find_map(|k| k.error.as_ref())
    {
        report.verdict = Verdict::Failed;
        report.note = format!("{error} {}", report.note).trim_end().to_owned();
        return report;
    }
    let Some(value) = value(row, &new, old.as_ref()) else { return report };
    report.emulated = Some(value.mean);
    report.spread = Some(value.stddev);
    report.verdict = verdict(row, value.mean);
    if scale == Scale::Full
        && run.scaled.is_some()
        && let Some((new, old)) = sides(Scale::Doubled)
        && let Some(doubled) = self::value(row, &new, old.as_ref())
    {
        let change_percent = (doubled.mean / value.mean - 1.0) * 100.0;
        report.doubling =
            Some(Doubling { change_percent, converged: change_percent.abs() < CONVERGED_PERCENT });
    }
    report.attribution = old.and_then(|old| attribute(&new.waited_us, &old.waited_us));
    report
}

/// The value of a row over the seeds.
fn value(row: &Row, new: &Kept, old: Option<&Kept>) -> Option<Stats> {
    let of = |kept: &Kept| {
        let values = kept.values(row.figure.as_deref())?;
        let Some(per) = &row.per else { return Some(values) };
        let per = kept.values(Some(per))?;
        let per = Stats::of(&per)?.mean;
        Some(values.iter().map(|value| value / per).collect())
    };
    let new = of(new)?;
    let Some(old) = old else { return Stats::of(&new) };
    let old = of(old)?;
    if old.len() == new.len() {
        let ratios: Vec<f64> = new.iter().zip(&old).map(|(new, old)| new / old).collect();
        let mut stats = Stats::of(&ratios)?;
        stats.mean = Stats::of(&new)?.mean / Stats::of(&old)?.mean;
        return Some(stats);
    }
    Stats::of(&[Stats::of(&new)?.mean / Stats::of(&old)?.mean])
}

fn verdict(row: &Row, value: f64) -> Verdict {
    if row.input {
        return Verdict::Input;
    }
    if row.at_least.is_some() || row.at_most.is_some() {
        let is_enough = row.at_least.is_none_or(|least| value >= least);
        let is_in_band = is_enough && row.at_most.is_none_or(|most| value <= most);
        return if is_in_band { Verdict::Pass } else { Verdict::Miss };
    }
    let (Some(published), true) = (row.published, value.is_finite()) else {
        return Verdict::NotMeasured;
    };
    let effect = published - 1.0;
    let has_sign = (value - 1.0) * effect > 0.0;
    let spread = row.spread_percent / 100.0;
    let is_in_band = match row.class {
        Class::A => (value - published).abs() <= (0.25 * effect.abs()).max(spread * published),
        Class::B => has_sign && (0.5..=2.0).contains(&((value - 1.0) / effect)),
        Class::C => (value - 1.0).abs() <= spread.max(NOISE),
        Class::X => return Verdict::NotMeasured,
    };
    match (is_in_band, has_sign && row.class != Class::C) {
        (true, _) => Verdict::Pass,
        (false, true) => Verdict::MissRightSign,
        (false, false) => Verdict::Miss,
    }
}

/// The class whose waits changed most, in the direction in which all together did.
fn attribute(new: &BTreeMap<String, f64>, old: &BTreeMap<String, f64>) -> Option<Attribution> {
    let change = |class: &String| {
        new.get(class).copied().unwrap_or(0.0) - old.get(class).copied().unwrap_or(0.0)
    };
    let mut classes: Vec<&String> = new.keys().chain(old.keys()).collect();
    classes.sort();
    classes.dedup();
    let total: f64 = classes.iter().map(|class| change(class)).sum();
    let largest = classes
        .into_iter()
        .max_by(|a, b| (change(a) * total.signum()).total_cmp(&(change(b) * total.signum())))?;
    let share_percent = if total == 0.0 { 0.0 } else { 100.0 * change(largest) / total };
    Some(Attribution { class: largest.clone(), change_us: change(largest), share_percent })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(text: &str) -> Row {
        toml::from_str(&format!("id = \"R\"\nwhat = \"\"\n{text}")).expect("a row")
    }

    #[test]
    fn bands_are_those_of_the_rules() {
        let cases = [
            // A: 0.65 +- a quarter of 0.35.
            ("class = \"A\"\npublished = 0.65", 0.57, Verdict::Pass),
            ("class = \"A\"\npublished = 0.65", 0.74, Verdict::MissRightSign),
            ("class = \"A\"\npublished = 0.65", 1.1, Verdict::Miss),
            // A: the published spread is larger than a quarter of 0.1.
            ("class = \"A\"\npublished = 1.1\nspread_percent = 5.0", 1.15, Verdict::Pass),
            // B: half to twice the effect of 0.2.
            ("class = \"B\"\npublished = 1.2", 1.1, Verdict::Pass),
            ("class = \"B\"\npublished = 1.2", 1.41, Verdict::MissRightSign),
            ("class = \"B\"\npublished = 0.8", 1.2, Verdict::Miss),
            ("class = \"C\"\npublished = 1.0", 1.02, Verdict::Pass),
            ("class = \"C\"\npublished = 1.0", 0.96, Verdict::Miss),
            ("class = \"C\"\npublished = 1.0\nspread_percent = 5.0", 0.96, Verdict::Pass),
            ("class = \"B\"\nat_least = 1e4", f64::INFINITY, Verdict::Pass),
            ("class = \"B\"\nat_least = 1e4", 9e3, Verdict::Miss),
            ("class = \"A\"\nat_least = 3.0\nat_most = 8.0", 8.1, Verdict::Miss),
            ("class = \"B\"\nat_most = 1e-4", 0.0, Verdict::Pass),
            ("class = \"A\"\npublished = 0.65\ninput = true", 3.0, Verdict::Input),
        ];
        for (text, value, expected) in cases {
            assert_eq!(verdict(&row(text), value), expected, "{text} {value}");
        }
    }

    #[test]
    fn the_class_that_carries_the_difference_is_named() {
        let waits = |pairs: &[(&str, f64)]| -> BTreeMap<String, f64> {
            pairs.iter().map(|&(class, us)| (class.to_owned(), us)).collect()
        };
        let old = waits(&[("TG", 100.0), ("RQL", 20.0)]);
        let new = waits(&[("TG", 30.0), ("RQL", 30.0), ("SE", 10.0)]);
        let found = attribute(&new, &old).expect("classes");
        assert_eq!((found.class.as_str(), found.change_us), ("TG", -70.0));
        assert!((found.share_percent - 140.0).abs() < 1e-9);
    }
}
