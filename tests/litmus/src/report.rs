//! What was seen, against what is allowed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use crate::condition::Quantifier;
use crate::place::Placement;
use crate::program::{Outcome, Test};
use crate::run::{self, Histogram, Way};
use crate::tso::{self, Partial};

/// How tests are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The machine.
    pub machine: topology::Machine,
    /// Iterations of each test, shared evenly by the placements.
    pub iterations: usize,
    /// Placements.
    pub placements: Vec<Placement>,
    /// Seed.
    pub seed: u64,
    /// Draws windows and host order too.
    pub is_shuffled: bool,
}

/// One test with all that was seen.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The test.
    pub test: Test,
    /// Every state that x86-TSO allows.
    pub allowed: BTreeSet<Outcome>,
    /// Those that need a load to take bytes from buffer and memory at once, which rule X1 rules
    /// out.
    pub merged: BTreeSet<Outcome>,
    /// What was seen.
    pub seen: Histogram,
}

impl Verdict {
    /// Runs a test in every placement of the plan.
    ///
    /// Errors: a run that did not end by itself.
    pub fn of(test: &Test, plan: &Plan) -> Result<Verdict, String> {
        let allowed = tso::allowed(test, Partial::Merge);
        let drained = tso::allowed(test, Partial::Drain);
        let mut seen = Histogram::new();
        let iterations = plan.iterations.div_ceil(plan.placements.len().max(1));
        for (n, placement) in plan.placements.iter().enumerate() {
            let way = Way {
                machine: &plan.machine,
                placement: *placement,
                seed: plan.seed.wrapping_mul(16).wrapping_add(n as u64),
                is_shuffled: plan.is_shuffled,
            };
            run::run(test, &way, iterations, &mut seen)?;
        }
        let merged = allowed.difference(&drained).cloned().collect();
        Ok(Verdict { test: test.clone(), allowed, merged, seen })
    }

    /// States that were seen and are forbidden, by the architecture or by rule X1.
    #[must_use]
    pub fn forbidden(&self) -> Vec<&Outcome> {
        let is_bad = |o: &&Outcome| !self.allowed.contains(*o) || self.merged.contains(*o);
        self.seen.keys().filter(is_bad).collect()
    }

    /// Whether a state is what the test asks about: one of `exists`, or against `forall`.
    fn is_witness(&self, outcome: &Outcome) -> bool {
        self.test.holds(outcome) != (self.test.quantifier == Quantifier::Forall)
    }

    /// Whether the architecture allows a witness.
    #[must_use]
    pub fn is_sometimes(&self) -> bool {
        self.allowed.iter().any(|o| self.is_witness(o))
    }

    /// How often a witness was seen.
    #[must_use]
    pub fn witnesses(&self) -> u64 {
        self.seen.iter().filter(|(o, _)| self.is_witness(o)).map(|(_, n)| n).sum()
    }

    /// One line: name, states seen of those allowed, witnesses.
    #[must_use]
    pub fn line(&self) -> String {
        let seen = self.seen.keys().filter(|o| self.allowed.contains(*o)).count();
        let witness = match (self.is_sometimes(), self.witnesses()) {
            (true, 0) => "allowed, never seen".to_owned(),
            (true, n) => format!("allowed, seen {n} times"),
            (false, 0) => "forbidden, not seen".to_owned(),
            (false, n) => format!("FORBIDDEN, SEEN {n} TIMES"),
        };
        let states = format!("{seen}/{}", self.allowed.len());
        let bad = self.forbidden().len();
        let bad = if bad == 0 { String::new() } else { format!("  {bad} FORBIDDEN STATES") };
        format!("{:<24} states {states:<7} witness {witness}{bad}", self.test.name)
    }

    /// All states with their counts: `*` marks witnesses, `!` forbidden ones, `~` those that rule
    /// X1 rules out.
    #[must_use]
    pub fn histogram(&self) -> String {
        let mut text = String::new();
        let all: BTreeSet<&Outcome> = self.allowed.iter().chain(self.seen.keys()).collect();
        for outcome in all {
            let count = self.seen.get(outcome).copied().unwrap_or(0);
            let mark = match () {
                () if !self.allowed.contains(outcome) => '!',
                () if self.merged.contains(outcome) => '~',
                () if self.is_witness(outcome) => '*',
                () => ' ',
            };
            // Writing to a string cannot fail.
            let _ = writeln!(text, "  {count:>9} {mark} {}", self.test.text(outcome));
        }
        text
    }
}

/// Sums over tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Tests.
    pub tests: usize,
    /// Tests with a forbidden state seen.
    pub failed: usize,
    /// Tests whose witness is allowed.
    pub sometimes: usize,
    /// Of these, seen.
    pub witnessed: usize,
    /// Allowed states.
    pub states: usize,
    /// Of these, seen.
    pub states_seen: usize,
}

impl Summary {
    /// Adds a test.
    pub fn add(&mut self, v: &Verdict) {
        self.tests += 1;
        self.failed += usize::from(!v.forbidden().is_empty());
        self.sometimes += usize::from(v.is_sometimes());
        self.witnessed += usize::from(v.is_sometimes() && v.witnesses() > 0);
        self.states += v.allowed.len();
        self.states_seen += v.seen.keys().filter(|o| v.allowed.contains(*o)).count();
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} tests, {} with a forbidden state; witnesses seen in {} of {} that allow one; \
             {} of {} allowed states seen",
            self.tests, self.failed, self.witnessed, self.sometimes, self.states_seen, self.states
        )
    }
}
