//! Conservation laws: what is sent arrives, what is asked for is counted once.
//!
//! The machine's laws hold in every run of anything, the guest's laws in every run of the guest
//! kernel. Both are checked at the end of a run; the guest's hold for a difference of counters
//! too, if nothing was under way at its begin.

use std::fmt;

use emu_machine::BrokenLaw;
use guests_abi::counter::LAWS;

use crate::counters::Counters;
use crate::rig::Rig;

/// A law that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Breach {
    /// Name of the law.
    pub law: &'static str,
    /// Its terms and their values.
    pub terms: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.terms)
    }
}

fn term(counters: &Counters, name: &str) -> u64 {
    counters.sum(name).unwrap_or(0)
}

fn side(counters: &Counters, names: &[&str]) -> (u64, String) {
    let values = names.iter().map(|name| term(counters, name));
    let texts: Vec<String> =
        names.iter().map(|name| format!("{name} {}", term(counters, name))).collect();
    (values.fold(0, u64::saturating_add), texts.join(" + "))
}

fn equal(counters: &Counters, law: &'static str, left: &[&str], right: &[&str]) -> Option<Breach> {
    let ((left, left_text), (right, right_text)) = (side(counters, left), side(counters, right));
    let terms = format!("{left_text} is not {right_text}");
    (left != right).then_some(Breach { law, terms })
}

/// Checks the laws of the model: one that does not hold is its bug, not the guest's.
#[must_use]
pub fn check_machine<R: Rig>(rig: &R) -> Vec<Breach> {
    let breach = |broken: BrokenLaw| Breach { law: broken.law, terms: broken.found };
    rig.check_laws().map_err(breach).err().into_iter().collect()
}

/// Checks the laws of the guest kernel, and that both sides count the same IPIs.
#[must_use]
pub fn check_guest(counters: &Counters) -> Vec<Breach> {
    let law = |law: &guests_abi::counter::Law| {
        let parts: Vec<&str> = law.parts.iter().map(|part| part.name()).collect();
        equal(counters, law.name, &parts, &[law.total.name()])
    };
    let sent = equal(counters, "ipis sent", &["call_ipi", "resched_ipi"], &["ipi_sent"]);
    LAWS.iter().filter_map(law).chain(sent).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::counters_of;

    #[test]
    fn an_uncounted_call_is_a_breach() {
        let guest = counters_of(&[("call_ipi", 2), ("call_remote", 3), ("ipi_sent", 2)]);
        let text: Vec<String> = check_guest(&guest).iter().map(ToString::to_string).collect();
        assert_eq!(text, ["calls: call_ipi 2 + call_saved 0 + call_folded 0 is not call_remote 3"]);
    }
}
