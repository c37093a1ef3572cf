//! Races as tables: `tests/wait/*.seq` for x86, `tests/wait/arm64/*.seq`, each with roles, a sweep,
//! and the outcomes it may have.
//!
//! ```text
//! ;! claim = what the file shows             with rules of the engine, and `manual` for a section
//! ;! at    = sibling same-llc                where role `b` is; everywhere, if left out (x86)
//! ;! machine = duo-arm hikey-620             on which machines (arm64)
//! ;! set   = arm.event_at_reset=true         a key of these machines
//! ;! on    = b 4                             the cpu of a role, if not 1, 2 …
//! ;! show  = exits                           how long the exit of each wait took, in us
//! ;! delay = a 1500                          role `a` (or a mark) starts so many cycles late
//! ;! sweep = b 0..2500                       role `b` (or a mark) at each of these cycles
//! a monitor                                  steps of the roles, of handlers `h`, and of NMIs `n`
//! a mwait
//! b store 5                                  at byte 5 of the watched line
//! ;= saw done                                an outcome that comes at every place, in this order
//! ;? done                                    one that may come
//! ; sibling 0..212 saw done                  what is found, `BLESS=1` rewrites it
//! ```
//!
//! An outcome is what became of role `a`: the causes that ended its waits; the vectors that were
//! taken, each with the mark to which it returns (`after`, or `after+` somewhere behind it); `saw`
//! if a `look` found the store; `left` for interrupts that are still pending; `again` if the role
//! was started anew; and `done` if it came to its end. The same of role `b` follows behind a slash,
//! unless that is `done` alone. A timing that changes moves ranges; the outcomes and their order
//! are the claim. On arm64 an outcome is what a role logged, in order.
//!
//! By default the cycles around every recorded change run, and some between. `EXHAUSTIVE=1` runs
//! every cycle of every window; `ONLY=name` takes some of the files.

use std::collections::BTreeMap;
use std::ops::Range;

/// Cycles, and what was found in them.
pub(crate) type Found = (Range<u64>, String);

/// A table as written.
pub(crate) struct Table {
    pub(crate) at: Vec<String>,
    pub(crate) set: Vec<String>,
    pub(crate) on: Vec<(String, u64)>,
    pub(crate) shows_exits: bool,
    pub(crate) delays: Vec<(String, u64)>,
    pub(crate) sweep: (String, Range<u64>),
    /// Role, step, arguments.
    pub(crate) steps: Vec<(char, String, Vec<String>)>,
    /// Legal outcomes in their order; whether each must come.
    pub(crate) may: Vec<(String, bool)>,
    /// By place: each range and what was found in it.
    pub(crate) found: BTreeMap<String, Vec<Found>>,
}

/// A decimal number.
pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no number"))
}

/// `0..212`, its end included in what is recorded.
fn range(text: &str) -> Result<Range<u64>, String> {
    let (from, to) = text.split_once("..").ok_or_else(|| format!("`{text}` is no range"))?;
    Ok(number(from)?..number(to)? + 1)
}

impl Table {
    /// Reads a file's text.
    ///
    /// Errors: the line that cannot be read.
    pub(crate) fn read(text: &str) -> Result<Table, String> {
        let mut t = Table {
            at: Vec::new(),
            set: Vec::new(),
            on: Vec::new(),
            shows_exits: false,
            delays: Vec::new(),
            sweep: (String::new(), 0..0),
            steps: Vec::new(),
            may: Vec::new(),
            found: BTreeMap::new(),
        };
        for line in text.lines().map(|l| l.split(" #").next().unwrap_or(l).trim()) {
            if let Some(head) = line.strip_prefix(";!") {
                t.head(head)?;
            } else if let Some(outcome) = line.strip_prefix(";?").or(line.strip_prefix(";=")) {
                t.may.push((outcome.trim().to_owned(), line.starts_with(";=")));
            } else if let Some(found) = line.strip_prefix("; ") {
                let mut parts = found.splitn(3, ' ');
                let (place, cycles) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
                let outcome = parts.next().unwrap_or("").trim().to_owned();
                t.found.entry(place.to_owned()).or_default().push((range(cycles)?, outcome));
            } else if !line.is_empty() && !line.starts_with('#') {
                let mut words = line.split_whitespace().map(str::to_owned);
                let role =
                    words.next().filter(|w| ["a", "b", "c", "d", "h", "n"].contains(&w.as_str()));
                let role = role.and_then(|w| w.chars().next());
                let (Some(role), Some(step)) = (role, words.next()) else {
                    return Err(format!("cannot read `{line}`"));
                };
                t.steps.push((role, step, words.collect()));
            }
        }
        if t.sweep.1.is_empty() || t.may.is_empty() {
            return Err("a table needs a sweep and its outcomes".to_owned());
        }
        Ok(t)
    }

    fn head(&mut self, line: &str) -> Result<(), String> {
        let (key, value) = line.split_once('=').ok_or_else(|| format!("cannot read `{line}`"))?;
        let mut words = value.split_whitespace();
        let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        match key.trim() {
            "claim" | "manual" => {}
            "at" | "machine" => self.at = value.split_whitespace().map(str::to_owned).collect(),
            "set" => self.set.push(value.trim().to_owned()),
            "on" => self.on.push((first.to_owned(), number(second)?)),
            "show" => self.shows_exits = first == "exits",
            "delay" => self.delays.push((first.to_owned(), number(second)?)),
            "sweep" => self.sweep = (first.to_owned(), range(second)?),
            other => return Err(format!("unknown header `{other}`")),
        }
        Ok(())
    }
}
