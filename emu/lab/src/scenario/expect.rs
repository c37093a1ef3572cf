//! Sums of counters and variables, and what they are compared with.

use crate::LabError;

/// Where the names of an expression get their values.
pub trait Names {
    /// Value of a name; `None` when there is no such name.
    fn value(&self, name: &str) -> Option<u64>;
}

impl<F: Fn(&str) -> Option<u64>> Names for F {
    fn value(&self, name: &str) -> Option<u64> {
        self(name)
    }
}

/// A sum of terms: names and integers joined by `+` and `-`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    text: String,
    /// Whether the term is subtracted, and the term.
    terms: Vec<(bool, String)>,
}

impl Expression {
    /// Reads a sum such as `call_ipi + call_saved` or `k - 1`. Terms and signs need no spaces,
    /// but a name may not hold a sign.
    ///
    /// Errors: `Input` for an empty term.
    pub fn parse(text: &str) -> Result<Expression, LabError> {
        let mut terms = Vec::new();
        let (mut is_minus, mut term) = (false, String::new());
        for letter in text.chars().chain(['+']) {
            if letter == '+' || letter == '-' {
                let name = term.trim();
                if name.is_empty() {
                    return Err(LabError::input(format!("{text}: a term is missing")));
                }
                terms.push((is_minus, name.to_owned()));
                term.clear();
                is_minus = letter == '-';
            } else {
                term.push(letter);
            }
        }
        Ok(Expression { text: text.trim().to_owned(), terms })
    }

    /// Returns the value.
    ///
    /// Errors: `Input` for a name that nothing has.
    pub fn value(&self, names: &dyn Names) -> Result<i128, LabError> {
        self.terms.iter().try_fold(0, |sum, (is_minus, term)| {
            let value = term.parse().ok().or_else(|| names.value(term));
            let value = i128::from(value.ok_or_else(|| {
                LabError::input(format!("{}: nothing is called {term}", self.text))
            })?);
            Ok(if *is_minus { sum - value } else { sum + value })
        })
    }

    /// Returns the text as written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

/// How the left side relates to the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    Equal,
    AtLeast,
    AtMost,
}

/// The right side of an expectation: a number, or `k - 1`, `>= 1`, `<= n`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) relation: Relation,
    pub(super) value: Expression,
}

impl Bound {
    pub(super) fn parse(text: &str) -> Result<Bound, LabError> {
        let (relation, rest) = match text.trim() {
            text if text.starts_with(">=") => (Relation::AtLeast, &text[2..]),
            text if text.starts_with("<=") => (Relation::AtMost, &text[2..]),
            text => (Relation::Equal, text),
        };
        Ok(Bound { relation, value: Expression::parse(rest)? })
    }

    pub(super) fn allows(&self, found: i128, wanted: i128) -> bool {
        match self.relation {
            Relation::Equal => found == wanted,
            Relation::AtLeast => found >= wanted,
            Relation::AtMost => found <= wanted,
        }
    }

    pub(super) const fn word(&self) -> &'static str {
        match self.relation {
            Relation::Equal => "",
            Relation::AtLeast => "at least ",
            Relation::AtMost => "at most ",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_names_and_numbers() {
        let names = |name: &str| match name {
            "k" => Some(4),
            "call_ipi" => Some(3),
            "point.csq_take" => Some(1),
            _ => None,
        };
        let value = |text: &str| Expression::parse(text).and_then(|e| e.value(&names));
        assert_eq!(value("k - 1"), Ok(3));
        assert_eq!(value("call_ipi-point.csq_take+10"), Ok(12));
        assert_eq!(value("call_ipi - k"), Ok(-1));
        assert!(value("call_ipi + nothing").is_err());
        assert!(Expression::parse("a + + b").is_err());
        let bound = Bound::parse(">= k").expect("bound");
        assert!(bound.allows(4, 4) && !bound.allows(3, 4));
    }
}
