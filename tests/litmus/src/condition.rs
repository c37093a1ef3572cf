//! Final clauses of litmus tests: `exists (0:rax=0 /\ [x]=1)`.

use crate::program::Observed;

/// What a clause claims of all allowed states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantifier {
    /// `exists`: some state satisfies it.
    Exists,
    /// `~exists`: none does.
    NotExists,
    /// `forall`: every one does.
    Forall,
}

/// A formula over one state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Always.
    True,
    /// Something has a value.
    Is(Observed, u64),
    /// `~`.
    Not(Box<Condition>),
    /// `/\`.
    And(Vec<Condition>),
    /// `\/`.
    Or(Vec<Condition>),
}

impl Condition {
    /// Whether it holds in the state that `value` reads.
    pub fn holds(&self, value: &dyn Fn(Observed) -> u64) -> bool {
        match self {
            Self::True => true,
            Self::Is(observed, expected) => value(*observed) == *expected,
            Self::Not(inner) => !inner.holds(value),
            Self::And(parts) => parts.iter().all(|p| p.holds(value)),
            Self::Or(parts) => parts.iter().any(|p| p.holds(value)),
        }
    }

    /// Appends what it names.
    pub fn collect(&self, into: &mut Vec<Observed>) {
        match self {
            Self::True => {}
            Self::Is(observed, _) => into.push(*observed),
            Self::Not(inner) => inner.collect(into),
            Self::And(parts) | Self::Or(parts) => parts.iter().for_each(|p| p.collect(into)),
        }
    }
}
