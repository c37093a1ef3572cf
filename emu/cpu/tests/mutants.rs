//! The line protocol with a rule broken (`engine.md` section 12): the search of all states sees it,
//! in machines that it passes with the rules as written.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(dead_code, unreachable_pub, missing_docs, reason = "modules of one test")]

mod explore;

use std::panic::catch_unwind;

use emu_sim::mutant::{Mutant, Mutation};
use explore::script::Op;
use explore::{Case, Explorer};

/// Two cores of one LLC, one line.
const TWO: Case = Case {
    llcs: 1,
    per: 2,
    lines: 1,
    llc_ways: 1,
    core_ways: 1,
    has_owned_state: true,
    keeps: false,
    fill_buffers: 4,
    stores: 1,
    ops: &[],
    sleeps: false,
    evicts: false,
    is_fine: false,
    twins: 0,
};

/// Explores with and without the mutant; expects a fault of this text with it.
fn catches(mutant: Mutant, case: Case, text: &str) {
    assert!(
        Explorer::new(case, Mutation::default()).explore(usize::MAX).states > 100,
        "{mutant:?}"
    );
    let explore = || Explorer::new(case, Mutation::of(mutant)).explore(usize::MAX);
    let panic = catch_unwind(explore).expect_err("the mutant passed");
    let found = match panic.downcast::<String>() {
        Ok(found) => *found,
        Err(other) => (*other.downcast::<&str>().unwrap()).to_owned(),
    };
    assert!(found.contains(text), "{mutant:?}: {found}");
}

#[test]
fn a_write_granted_before_the_answers_is_caught() {
    let beside = "may write beside";
    // Where lines have bytes, those of the owner are not yet in the LLC: it grants nothing.
    let early = if cfg!(feature = "shadow") { "never got its data" } else { beside };
    for (llcs, per, text) in [(1, 2, early), (2, 1, beside)] {
        let case = Case { llcs, per, ops: &[Op::Load, Op::Store], ..TWO };
        catches(Mutant::EarlyGrant, case, text);
    }
}

#[test]
fn a_snoop_that_waits_for_an_own_request_is_caught() {
    for (llcs, per) in [(1, 2), (2, 1)] {
        let case = Case { llcs, per, ops: &[Op::Load, Op::Store], ..TWO };
        catches(Mutant::SnoopBehindRequest, case, "a circle without a new operation");
    }
}

/// Two cores that store to two lines in opposite order, each with the line of the other's first.
#[test]
fn a_line_kept_until_it_is_used_is_caught() {
    let case = Case { lines: 2, llc_ways: 2, core_ways: 2, stores: 2, ops: &[Op::Store], ..TWO };
    catches(Mutant::ConditionalHold, case, "a circle without a new operation");
}

#[test]
fn a_watch_that_is_forgotten_is_caught() {
    let case = Case { ops: &[Op::Store, Op::Arm], sleeps: true, ..TWO };
    catches(Mutant::ForgottenWatch, case, "watches");
}
