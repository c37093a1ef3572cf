//! All interleavings of a line, or two, between few cores, with the transition code of the machine:
//! cores, LLCs, home. How it works and what is checked stands in `explore`.
//!
//! | by `cargo test` | by command |
//! |---|---|
//! | the small products below | all of them, and random walks through those too large to end |
//!
//! The command is `EXHAUSTIVE=1 cargo test --release -p emu_cpu --test exhaustive -- --nocapture`.
//! It prints the number of states of each product; a product that is only walked says so.
//!
//! The one-way machines have one way in the private caches and in the LLC, so that two lines fight
//! for it. A directory has no capacity and no core waits for a fill buffer in front of a demand
//! access, so these two of the small configurations do not exist (L10). Legs are free here; legs of
//! every length are in `emu/mem/tests/random.rs`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
#![allow(unreachable_pub, missing_docs, reason = "modules of one test")]

mod explore;

use emu_sim::mutant::Mutation;
use explore::script::Op;
use explore::{Case, Explorer, Found};

type Ops = &'static [fn(u8) -> Op];

const ALL: Ops = &[Op::Load, Op::Store, Op::Rmw, Op::Flush, Op::Arm];
const LOAD_STORE_RMW: Ops = &[Op::Load, Op::Store, Op::Rmw];
const STORE: Ops = &[Op::Store];
const STORE_RMW: Ops = &[Op::Store, Op::Rmw];
const RMW: Ops = &[Op::Rmw];

/// Two cores of one LLC, one line, nothing to do.
const TWO: Case = Case {
    llcs: 1,
    per: 2,
    lines: 1,
    llc_ways: 1,
    core_ways: 1,
    has_owned_state: true,
    keeps: false,
    stores: 1,
    ops: &[],
    sleeps: false,
    evicts: false,
};
/// The same, each with its own LLC.
const TWO_LLCS: Case = Case { llcs: 2, per: 1, ..TWO };
/// Three cores of one LLC, two lines. Two stores may wait, so that ownership of the second line is
/// asked for while the first is not there: cores that store in opposite order cross.
const THREE: Case = Case { per: 3, lines: 2, llc_ways: 2, core_ways: 2, stores: 2, ..TWO };
/// The same, each with its own LLC.
const THREE_LLCS: Case = Case { llcs: 3, per: 1, ..THREE };
const ONE_WAY: Case = Case { llc_ways: 1, core_ways: 1, ..THREE };
const ONE_WAY_LLCS: Case = Case { llc_ways: 1, core_ways: 1, ..THREE_LLCS };

/// Visits every state, and expects at least `least`, so that no change of the test can empty it.
fn all(name: &str, case: Case, least: usize) {
    let Found { states, transitions } = Explorer::new(case, Mutation::default()).explore();
    println!("{name}: {states} states, {transitions} transitions");
    assert!(states >= least, "{name}: only {states} states");
}

fn is_asked() -> bool {
    std::env::var_os("EXHAUSTIVE").is_some()
}

#[test]
fn two_cores_of_one_llc() {
    all("1 LLC of 2, 1 line, all but evictions", Case { ops: ALL, ..TWO }, 10_000);
    let sleeps = Case { ops: LOAD_STORE_RMW, sleeps: true, evicts: true, ..TWO };
    all("1 LLC of 2, 1 line, load store rmw evict", sleeps, 1_000);
}

#[test]
fn two_llcs() {
    all("2 LLCs of 1, 1 line, load store rmw", Case { ops: LOAD_STORE_RMW, ..TWO_LLCS }, 1_000);
}

#[test]
fn three_cores_whose_stores_cross() {
    all("1 LLC of 3, 2 lines, store", Case { ops: STORE, ..THREE }, 100_000);
}

#[test]
fn three_cores_with_atomics() {
    all("1 LLC of 3, 2 lines, rmw", Case { ops: RMW, ..THREE }, 4_000);
    all("3 LLCs of 1, 2 lines, rmw", Case { ops: RMW, ..THREE_LLCS }, 4_000);
}

/// Two lines fight for the one way of each core and of the LLC: fills evict on both levels.
#[test]
fn three_cores_with_one_way() {
    all("1 LLC of 3, 2 lines, 1 way, rmw", Case { ops: RMW, ..ONE_WAY }, 1_000);
}

/// What takes minutes; see the table of the module doc.
#[test]
fn every_product_by_command() {
    if !is_asked() {
        return;
    }
    let everything = Case { ops: ALL, sleeps: true, evicts: true, ..TWO };
    for (name, case, least) in [
        ("1 LLC of 2, 1 line, all", Case { stores: 2, ..everything }, 600_000),
        ("1 LLC of 2, 1 line, all, cores keep lines", Case { keeps: true, ..everything }, 600_000),
        ("2 LLCs of 1, 1 line, all", Case { llcs: 2, per: 1, ..everything }, 1_800_000),
        ("1 LLC of 3, 2 lines, store rmw", Case { ops: STORE_RMW, ..THREE }, 3_000_000),
        (
            "1 LLC of 2, 2 lines, load store rmw",
            Case { per: 2, ops: LOAD_STORE_RMW, ..THREE },
            3_000_000,
        ),
        ("3 LLCs of 1, 2 lines, store", Case { ops: STORE, ..THREE_LLCS }, 1_200_000),
        (
            "3 LLCs of 1, 1 line, load store rmw",
            Case { lines: 1, ops: LOAD_STORE_RMW, ..THREE_LLCS },
            300_000,
        ),
    ] {
        all(name, case, least);
    }
}

/// Three cores and two lines with all operations are too many states: a walk through them.
#[test]
fn a_walk_through_everything() {
    let steps = if is_asked() { 100_000_000 } else { 200_000 };
    for shape in [THREE, THREE_LLCS, ONE_WAY, ONE_WAY_LLCS] {
        let case = Case { ops: ALL, sleeps: true, evicts: true, ..shape };
        Explorer::new(case, Mutation::default()).walk(1, steps);
    }
}
