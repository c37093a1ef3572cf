//! All interleavings of a line, or two, between few cores, with the transition code of the machine:
//! cores, LLCs, home. How it works and what is checked stands in `explore`.
//!
//! | by `cargo test` | by command |
//! |---|---|
//! | the small products below | all of them, and random walks through those too large to end |
//!
//! The command is `EXHAUSTIVE=1 cargo test --release -p emu_cpu --test exhaustive -- --nocapture`.
//! It prints the number of states of each product; a product that is only walked says so.
//! With `--features shadow` lines have values (`explore`): the same tests, and more states.
//!
//! Where the search has come, on a busy machine; "3x1" is 3 LLCs of 1 core, and "at 1 million" says
//! that `MOST` was that:
//!
//! | products | ended | stopped, with more to see |
//! |---|---|---|
//! | all of 1 line | 93 002 to 932 310 states, seconds each | none |
//! | 1x2, 2x1; 2 lines; load store rmw | 3 837 444; 1 147 132 | none |
//! | 1x3, 2 lines; store rmw | 3 601 195, minutes | none |
//! | 1x3, 2 lines; store flush | 4 881 108, minutes | none |
//! | 1x3, 2 lines; load rmw | 2 430 668, minutes | none |
//! | 1x3, 2 lines; load store; rmw monitor | 8 348 272; 22 527 239 | none |
//! | 1x3, 2 lines; store monitor | none | at 1 million |
//! | 1x3, 2 lines; the four others | 24 385 to 943 589 | none |
//! | 1x3, 2 lines, 1 way; store; load | 408 358; 103 818 | none |
//! | 3x1, 2 lines, 1 way; rmw | 168 596 | none |
//! | 3x1, 2 lines; the five others | none | at 1 million each |
//! | shadow, 1 line; 1x2 no room, 1x3, 3x1 | 158 062 to 751 633 | none |
//! | shadow, 1 line; the seven others | none | at 1 million each |
//!
//! So two lines in three LLCs are exhausted with atomics only, and three operations at once in
//! three cores not at all with two lines: of these there are walks.
//!
//! Of the small configurations, one way (in the private caches and in the LLC, so that two lines
//! fight for it) and one fill buffer are here. One directory entry does not exist: directories have
//! no capacity (L10). Upgrade against upgrade, and a silent drop before a request, happen in every
//! product with loads and stores. Legs are free here; legs of every length are in
//! `emu/mem/tests/random.rs`.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]
#![allow(unreachable_pub, missing_docs, reason = "modules of one test")]

mod explore;

use emu_sim::mutant::Mutation;
use explore::script::Op;
use explore::search::Found;
use explore::{Case, Explorer};

/// Most states of one product.
const MOST: usize = 40_000_000;

type Ops = &'static [fn(u8) -> Op];

const ALL: Ops = &[Op::Load, Op::Store, Op::Rmw, Op::Flush, Op::Arm];
const ACCESSES: Ops = &[Op::Load, Op::Store, Op::Rmw];
const LOAD_STORE: Ops = &[Op::Load, Op::Store];
const STORE: Ops = &[Op::Store];
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
    fill_buffers: 4,
    stores: 1,
    ops: &[],
    sleeps: false,
    evicts: false,
    is_fine: false,
    twins: 0,
};
/// The same, each with its own LLC.
const TWO_LLCS: Case = Case { llcs: 2, per: 1, ..TWO };
/// The same two, in which everything that can be evicted is.
const EVICT: Case = Case { sleeps: true, evicts: true, ..TWO };
const EVICT_LLCS: Case = Case { sleeps: true, evicts: true, ..TWO_LLCS };
/// Three cores of one LLC, two lines. Two stores may wait, so that ownership of the second line is
/// asked for while the first is not there: cores that store in opposite order cross.
const THREE: Case = Case { per: 3, lines: 2, llc_ways: 2, core_ways: 2, stores: 2, ..TWO };
/// The same, each with its own LLC.
const THREE_LLCS: Case = Case { llcs: 3, per: 1, ..THREE };
/// One store waits at a time.
const SINGLE_LLCS: Case = Case { stores: 1, ..THREE_LLCS };
const ONE_WAY: Case = Case { llc_ways: 1, core_ways: 1, ..THREE };
const ONE_WAY_LLCS: Case = Case { llc_ways: 1, core_ways: 1, ..THREE_LLCS };

/// Visits every state, and expects at least `least`, so that no change of the test can empty it.
/// More than `MOST` it does not keep, and says so.
fn all(name: &str, case: Case, least: usize) {
    let mut explorer = Explorer::new(case, Mutation::default());
    let Found { states, transitions, is_all } = explorer.explore(MOST);
    let note = if is_all { "" } else { ", and there are more" };
    println!("{name}: {states} states, {transitions} transitions{note}");
    assert!(states >= least, "{name}: only {states} states");
}

#[test]
fn two_cores_of_one_llc() {
    let case = Case { ops: ALL, sleeps: true, evicts: true, ..TWO };
    all("1 LLC of 2, 1 line, all", case, 140_000);
}

#[test]
fn two_llcs() {
    let case = Case { ops: ALL, ..TWO_LLCS };
    all("2 LLCs of 1, 1 line, all but evictions", case, 10_000);
    let case = Case { ops: ACCESSES, evicts: true, ..TWO_LLCS };
    all("2 LLCs of 1, 1 line, load store rmw, LLCs evict", case, 3_000);
}

#[test]
fn names_of_nodes_say_all() {
    for (case, is_fine) in [(TWO, false), (TWO_LLCS, false), (TWO, true)] {
        let case = Case { ops: ALL, sleeps: !is_fine, evicts: true, is_fine, twins: 2_000, ..case };
        let mut explorer = Explorer::new(case, Mutation::default());
        explorer.explore(100_000);
        let compared = explorer.compare_twins();
        assert!(compared > 4_000, "{case:?}: only {compared}");
    }
}

/// A store on the edge of a snoop, a grant before the store has retired, and their kin.
#[test]
fn messages_between_any_two_cycles() {
    let fine = |case| Case { is_fine: true, ..case };
    let case = Case { ops: ACCESSES, stores: 2, ..TWO };
    all("fine 1 LLC of 2, 1 line, load store rmw", fine(case), 1_000);
    let case = Case { ops: ACCESSES, ..TWO_LLCS };
    all("fine 2 LLCs of 1, 1 line, load store rmw", fine(case), 1_000);
    let case = Case { ops: STORE, per: 2, ..THREE };
    all("fine 1 LLC of 2, 2 lines, store", fine(case), 1_000);
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
fn cores_with_one_way_and_one_fill_buffer() {
    let case = Case { fill_buffers: 1, per: 2, ops: STORE, ..ONE_WAY };
    all("1 LLC of 2, 2 lines, 1 way, 1 fill buffer, store", case, 1_000);
    all("1 LLC of 3, 2 lines, 1 way, rmw", Case { ops: RMW, ..ONE_WAY }, 1_000);
}

/// Products that take minutes: name, machine, operations.
// tidy: table
#[rustfmt::skip]
const BY_COMMAND: &[(&str, Case, Ops)] = &[
    ("1 LLC of 2, 1 line: all", Case { stores: 2, ..EVICT }, ALL),
    ("1 LLC of 2, 1 line, cores keep: all", Case { keeps: true, ..EVICT }, ALL),
    ("1 LLC of 2, 1 line, no room: all", Case { llc_ways: 0, sleeps: true, ..TWO }, ALL),
    ("1 LLC of 2, 1 line, any cycle: all", Case { is_fine: true, ..EVICT }, ALL),
    ("2 LLCs of 1, 1 line: all", EVICT_LLCS, ALL),
    ("2 LLCs of 1, 1 line, no O: all", Case { has_owned_state: false, ..EVICT_LLCS }, ALL),
    ("2 LLCs of 1, 1 line, no room: all", Case { llc_ways: 0, sleeps: true, ..TWO_LLCS }, ALL),
    ("2 LLCs of 2, 1 line: load store rmw", Case { per: 2, ..TWO_LLCS }, ACCESSES),
    ("1 LLC of 3, 1 line: load store rmw", Case { per: 3, stores: 2, ..TWO }, ACCESSES),
    ("3 LLCs of 1, 1 line: load store rmw", Case { llcs: 3, stores: 2, ..TWO_LLCS }, ACCESSES),
    ("1 LLC of 2, 2 lines: load store rmw", Case { per: 2, ..THREE }, ACCESSES),
    ("2 LLCs of 1, 2 lines: load store rmw", Case { llcs: 2, ..SINGLE_LLCS }, ACCESSES),
    ("1 LLC of 3, 2 lines: store rmw", THREE, &[Op::Store, Op::Rmw]),
    ("1 LLC of 3, 2 lines: store flush", THREE, &[Op::Store, Op::Flush]),
    ("1 LLC of 3, 2 lines: rmw flush", THREE, &[Op::Rmw, Op::Flush]),
    ("1 LLC of 3, 2 lines: load rmw", THREE, &[Op::Load, Op::Rmw]),
    ("1 LLC of 3, 2 lines: load flush", THREE, &[Op::Load, Op::Flush]),
    ("1 LLC of 3, 2 lines: rmw monitor", THREE, &[Op::Rmw, Op::Arm]),
    ("1 LLC of 3, 2 lines: store sleep", Case { sleeps: true, ..THREE }, STORE),
    ("1 LLC of 3, 2 lines: rmw sleep", Case { sleeps: true, ..THREE }, RMW),
    ("1 LLC of 3, 2 lines: load store", Case { stores: 1, ..THREE }, LOAD_STORE),
    ("1 LLC of 3, 2 lines: store monitor", Case { stores: 1, ..THREE }, &[Op::Store, Op::Arm]),
    ("1 LLC of 3, 2 lines, 1 way: store", ONE_WAY, STORE),
    ("1 LLC of 3, 2 lines, 1 way: load", Case { evicts: true, ..ONE_WAY }, &[Op::Load]),
    ("3 LLCs of 1, 2 lines: store", THREE_LLCS, STORE),
    ("3 LLCs of 1, 2 lines: store rmw", SINGLE_LLCS, &[Op::Store, Op::Rmw]),
    ("3 LLCs of 1, 2 lines: store flush", SINGLE_LLCS, &[Op::Store, Op::Flush]),
    ("3 LLCs of 1, 2 lines: load rmw", THREE_LLCS, &[Op::Load, Op::Rmw]),
    ("3 LLCs of 1, 2 lines: load store", SINGLE_LLCS, LOAD_STORE),
    ("3 LLCs of 1, 2 lines, 1 way: rmw", ONE_WAY_LLCS, RMW),
];

/// `EXHAUSTIVE=1` visits all; another value those whose name contains it.
#[test]
fn every_product_by_command() {
    let Some(asked) = std::env::var("EXHAUSTIVE").ok() else { return };
    for (name, case, ops) in BY_COMMAND.iter().filter(|(n, ..)| asked == "1" || n.contains(&asked))
    {
        all(name, Case { ops, ..*case }, 0);
    }
}

/// Three cores and two lines with all operations are too many states: walks through them.
#[test]
fn walks_through_everything() {
    let is_asked = std::env::var("EXHAUSTIVE").is_ok_and(|asked| asked == "1");
    let (walks, steps) = if is_asked { (50, 1_000_000) } else { (1, 100_000) };
    for shape in [THREE, THREE_LLCS, ONE_WAY, ONE_WAY_LLCS] {
        let case = Case { ops: ALL, sleeps: true, evicts: true, ..shape };
        for seed in 0..walks {
            Explorer::new(case, Mutation::default()).walk(seed << 32, steps);
        }
    }
}
