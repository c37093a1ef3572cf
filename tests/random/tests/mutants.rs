//! Wrong variants of the engine that random programs meet: each is found (`engine.md` section 12).
//! `EarlyGrant` is seen by shadow mode, as flat memory hides it.
//!
//! `cargo test -p tests_random --features mutants,shadow --test mutants`

use emu_sim::mutant::{Mutant, Mutation};
use tests_random::{Case, Host, shrink};

/// Seeds that each mutant may take.
const SEEDS: u64 = 40;

fn case(seed: u64) -> Case {
    let machine = ["duo", "quad", "smp-12"][(seed % 3) as usize].to_owned();
    Case { machine, seed, cpus: 12, ops: 40, rounds: 4, lines: 1 + seed % 8 }
}

fn host(mutant: Mutant) -> Host {
    Host { mutation: Mutation::of(mutant), ..Host::default() }
}

/// Runs seeds until one is not as it should be, and returns what is wrong with it.
fn first_fault(right: &Host, wrong: &Host) -> Option<String> {
    (0..SEEDS).find_map(|seed| {
        let case = case(seed);
        let expected = shrink::judged(&case, right).map(|r| r.hash);
        let found = shrink::judged(&case, wrong).map(|r| r.hash);
        (found != expected).then(|| found.err().unwrap_or_else(|| "another hash".to_owned()))
    })
}

#[test]
fn a_window_that_is_too_wide_gives_late_messages() {
    let fault = first_fault(&Host::default(), &host(Mutant::WindowPlus(20_000)));
    assert!(fault.as_ref().is_some_and(|f| f.contains("late")), "{fault:?}");
}

#[test]
fn a_global_sequence_depends_on_the_host() {
    let plain = host(Mutant::GlobalSequence);
    let fault = first_fault(&plain, &Host { shuffle: Some(1), ..plain.clone() });
    assert!(fault.is_some());
}

#[test]
fn a_spin_made_good_too_far_is_another_run() {
    let plain = host(Mutant::ElisionOffByOne);
    let fault = first_fault(&Host { steps_spins: true, ..plain.clone() }, &plain);
    assert!(fault.is_some());
}

#[test]
fn protocol_mutants_break_a_rule() {
    for mutant in [Mutant::EarlyGrant, Mutant::SnoopBehindRequest] {
        let wrong = host(mutant);
        let fault = (0..SEEDS).find_map(|seed| shrink::judged(&case(seed), &wrong).err());
        assert!(fault.is_some(), "{mutant:?}");
    }
}
