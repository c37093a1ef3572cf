//! The judge: every final state that its architecture allows a test, and whether somebody else who
//! enumerated the same test agrees.

use std::collections::BTreeSet;

use crate::arm64::model;
use crate::program::{Outcome, Program, Test};
use crate::x86::tso::{self, Partial};

/// What a test may show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allowed {
    /// Every state that the architecture allows.
    pub states: BTreeSet<Outcome>,
    /// Those of them that this emulator rules out: on x86 a load never takes bytes from buffer and
    /// memory at once (rule X1).
    pub ruled_out: BTreeSet<Outcome>,
}

impl Allowed {
    /// Enumerates.
    ///
    /// Errors: an access of no variable, or a test that is too large.
    pub fn of(test: &Test) -> Result<Allowed, String> {
        match &test.program {
            Program::X86(program) => {
                let states = tso::allowed(test, program, Partial::Merge);
                let drained = tso::allowed(test, program, Partial::Drain);
                let ruled_out = states.difference(&drained).cloned().collect();
                Ok(Allowed { states, ruled_out })
            }
            Program::Arm64(program) => {
                let states = model::allowed(test, program)?;
                Ok(Allowed { states, ruled_out: BTreeSet::new() })
            }
        }
    }

    /// The states as text, sorted.
    #[must_use]
    pub fn texts(&self, test: &Test) -> Vec<String> {
        let mut texts: Vec<String> = self.states.iter().map(|o| test.text(o)).collect();
        texts.sort();
        texts
    }
}

/// How the enumerated set of a test compares with the one that somebody states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// They are the same.
    Equal,
    /// Ours is a part of theirs, and the test has a locked operation of x86. herd does not put the
    /// read before the write of one XCHG in program order per location, so that its sets hold
    /// states in which an XCHG reads a store that overwrites the XCHG's own: no memory can do
    /// that.
    Narrower,
    /// Anything else.
    Differs {
        /// Our set.
        ours: Vec<String>,
    },
}

impl Agreement {
    /// Compares.
    #[must_use]
    pub fn of(test: &Test, allowed: &Allowed, stated: &[String]) -> Agreement {
        let ours = allowed.texts(test);
        let has_lock = matches!(&test.program, Program::X86(p) if p.has_lock());
        if ours == stated {
            Agreement::Equal
        } else if has_lock && ours.iter().all(|o| stated.contains(o)) {
            Agreement::Narrower
        } else {
            Agreement::Differs { ours }
        }
    }
}
