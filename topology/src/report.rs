//! Faults of a machine file, and their form for people.
//!
//! One `Report` carries every fault that was found. Each has a place, what is wrong, and a way
//! out. The text form is `file:line:column: message; help`, then the line with a mark below.

use std::fmt;

/// One fault of a machine file or of an override.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// File as the user named it; `--set` for an override.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// Length of the marked text in characters, at least 1.
    pub width: usize,
    /// The line itself.
    pub text: String,
    /// What is wrong: lower case, found against allowed.
    pub message: String,
    /// The way out; empty where the message says it.
    pub help: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file == OVERRIDE {
            write!(f, "{OVERRIDE} {}: {}", self.text, self.message)?;
        } else {
            write!(f, "{}:{}:{}: {}", self.file, self.line, self.column, self.message)?;
        }
        if !self.help.is_empty() {
            write!(f, "; {}", self.help)?;
        }
        if self.file == OVERRIDE || self.text.trim().is_empty() {
            return Ok(());
        }
        let number = self.line.to_string();
        let left = " ".repeat(number.len());
        let text: String = self.text.chars().map(|c| if c == '\t' { ' ' } else { c }).collect();
        write!(f, "\n  {number} | {text}\n  {left} | {}", " ".repeat(self.column - 1))?;
        f.write_str(&"^".repeat(self.width))
    }
}

/// The file name that faults of an override carry.
pub(crate) const OVERRIDE: &str = "--set";

/// All faults of one load, in the order of their places.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The faults; never empty in an `Err`.
    pub faults: Vec<Fault>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, fault) in self.faults.iter().enumerate() {
            if n > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{fault}")?;
        }
        if self.faults.len() > 1 {
            write!(f, "\n{} faults", self.faults.len())?;
        }
        Ok(())
    }
}

impl std::error::Error for Report {}

/// Returns the candidate nearest to `name`, if one is near enough to be meant.
pub fn near<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let limit = (name.chars().count() / 3).max(1) + 1;
    candidates
        .into_iter()
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|&(d, candidate)| d <= limit && d < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Edit distance with insertion, deletion and replacement, each 1.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let replace = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = replace.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::near;

    #[test]
    fn near_finds_a_slip_of_the_key_and_no_stranger() {
        let keys = ["latency", "levels", "idle", "exit"];
        assert_eq!(near("latncy", keys), Some("latency"));
        assert_eq!(near("level", keys), Some("levels"));
        assert_eq!(near("colour", keys), None);
    }
}
