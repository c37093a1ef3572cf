//! What was seen, against what is allowed.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use emu_sim::mutant::Mutation;

use crate::condition::Quantifier;
use crate::judge::Allowed;
use crate::place::Placement;
use crate::program::{Outcome, Test};
use crate::run::{self, Histogram, Way};

/// How tests are run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// A machine of each instruction set that tests are of.
    pub machines: Vec<topology::Machine>,
    /// Iterations of each test, shared evenly by the placements.
    pub iterations: usize,
    /// Placements; those are left out that the machine does not have.
    pub placements: Vec<Placement>,
    /// Seed.
    pub seed: u64,
    /// Draws windows and host order too.
    pub is_shuffled: bool,
    /// What the machines do wrong, under the feature `mutants`.
    pub mutation: Mutation,
}

/// One test with all that was seen.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// The test.
    pub test: Test,
    /// What it may show.
    pub allowed: Allowed,
    /// What was seen.
    pub seen: Histogram,
}

impl Verdict {
    /// Runs a test in every placement of the plan.
    ///
    /// Errors: a test that the judge cannot enumerate, or a run that did not end by itself.
    pub fn of(test: &Test, plan: &Plan) -> Result<Verdict, String> {
        let allowed = Allowed::of(test).map_err(|e| format!("{}: {e}", test.name))?;
        let mut seen = Histogram::new();
        let isa = test.program.isa();
        let machine = plan.machines.iter().find(|m| m.isa == isa);
        let machine = machine.ok_or_else(|| format!("{}: no machine runs {isa:?}", test.name))?;
        let exists = |p: &&Placement| p.cpus(machine, test.program.threads()).is_some();
        let placements: Vec<_> = plan.placements.iter().filter(exists).collect();
        if placements.is_empty() {
            return Err(format!("{}: {} has none of the placements", test.name, machine.id));
        }
        let iterations = plan.iterations.div_ceil(placements.len());
        for (n, placement) in placements.into_iter().enumerate() {
            let way = Way {
                machine,
                placement: *placement,
                seed: plan.seed.wrapping_mul(16).wrapping_add(n as u64),
                is_shuffled: plan.is_shuffled,
                mutation: plan.mutation,
            };
            run::run(test, &way, iterations, &mut seen)?;
        }
        Ok(Verdict { test: test.clone(), allowed, seen })
    }

    /// States that were seen and are forbidden, by the architecture or by the emulator's own rules.
    #[must_use]
    pub fn forbidden(&self) -> Vec<&Outcome> {
        let Allowed { states, ruled_out } = &self.allowed;
        let is_bad = |o: &&Outcome| !states.contains(*o) || ruled_out.contains(*o);
        self.seen.keys().filter(is_bad).collect()
    }

    /// Whether a state is what the test asks about: one of `exists`, or against `forall`.
    fn is_witness(&self, outcome: &Outcome) -> bool {
        self.test.holds(outcome) != (self.test.quantifier == Quantifier::Forall)
    }

    /// Whether the architecture allows a witness.
    #[must_use]
    pub fn is_sometimes(&self) -> bool {
        self.allowed.states.iter().any(|o| self.is_witness(o))
    }

    /// How many allowed states were seen.
    #[must_use]
    pub fn states_seen(&self) -> usize {
        self.seen.keys().filter(|o| self.allowed.states.contains(*o)).count()
    }

    /// How often a witness was seen.
    #[must_use]
    pub fn witnesses(&self) -> u64 {
        self.seen.iter().filter(|(o, _)| self.is_witness(o)).map(|(_, n)| n).sum()
    }

    /// One line: name, states seen of those allowed, witnesses.
    #[must_use]
    pub fn line(&self) -> String {
        let witness = match (self.is_sometimes(), self.witnesses()) {
            (true, 0) => "allowed, never seen".to_owned(),
            (true, n) => format!("allowed, seen {n} times"),
            (false, 0) => "forbidden, not seen".to_owned(),
            (false, n) => format!("FORBIDDEN, SEEN {n} TIMES"),
        };
        let states = format!("{}/{}", self.states_seen(), self.allowed.states.len());
        let bad = self.forbidden().len();
        let bad = if bad == 0 { String::new() } else { format!("  {bad} FORBIDDEN STATES") };
        format!("{:<24} states {states:<7} witness {witness}{bad}", self.test.name)
    }

    /// All states with their counts: `*` marks witnesses, `!` forbidden ones, `~` those that the
    /// emulator's own rules exclude.
    #[must_use]
    pub fn histogram(&self) -> String {
        let mut text = String::new();
        let all: BTreeSet<&Outcome> = self.allowed.states.iter().chain(self.seen.keys()).collect();
        for outcome in all {
            let count = self.seen.get(outcome).copied().unwrap_or(0);
            let mark = match () {
                () if !self.allowed.states.contains(outcome) => '!',
                () if self.allowed.ruled_out.contains(outcome) => '~',
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
        self.states += v.allowed.states.len();
        self.states_seen += v.states_seen();
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
