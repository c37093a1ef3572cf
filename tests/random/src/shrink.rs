//! A failing case made small: halves of its parts are left out as long as it still fails.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::run::{self, Case, Host, Report};

/// Runs a case; an assertion of the model is a failure like any other.
///
/// # Errors
/// What was wrong.
pub fn judged(case: &Case, host: &Host) -> Result<Report, String> {
    catch_unwind(AssertUnwindSafe(|| run::run(case, host))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Makes a failing case smaller, by fewer cpus, operations, rounds and lines in turn.
pub fn shrink(case: &Case, mut fails: impl FnMut(&Case) -> bool) -> Case {
    let mut least = case.clone();
    loop {
        let smaller = candidates(&least).into_iter().find(|c| fails(c));
        match smaller {
            Some(case) => least = case,
            None => return least,
        }
    }
}

/// Halves first, then one less.
fn candidates(c: &Case) -> Vec<Case> {
    let mut all = Vec::new();
    for part in [2, 1] {
        let less = |n: u64| if part == 2 { n / 2 } else { n - 1 };
        all.push(Case { cpus: less(c.cpus as u64) as usize, ..c.clone() });
        all.push(Case { ops: less(c.ops as u64) as usize, ..c.clone() });
        all.push(Case { rounds: less(c.rounds), ..c.clone() });
        all.push(Case { lines: less(c.lines), ..c.clone() });
    }
    all.retain(|c| c.cpus > 0 && c.ops > 0 && c.rounds > 0 && c.lines > 0);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_failing_case_is_found() {
        let case =
            Case { machine: "quad".to_owned(), seed: 1, cpus: 64, ops: 100, rounds: 20, lines: 8 };
        let mut tries = 0;
        let least = shrink(&case, |c| {
            tries += 1;
            c.cpus >= 3 && c.ops >= 17 && c.lines >= 2
        });
        assert_eq!((least.cpus, least.ops, least.rounds, least.lines), (3, 17, 1, 2));
        assert!(tries < 100, "{tries}");
    }
}
