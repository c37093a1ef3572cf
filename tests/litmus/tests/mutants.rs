//! Rules of order broken (`engine.md` section 12): each shows a state that its test forbids.
//!
//! `cargo test -p tests_litmus --features mutants --test mutants`

use emu_sim::mutant::{Mutant, Mutation};
use tests_litmus::corpus;
use tests_litmus::place::{self, Placement};
use tests_litmus::report::{Plan, Verdict};
use topology::{AtomicPlace, Atomics, Isa};

/// Iterations in which the mutant must show.
const ITERATIONS: usize = 3000;

fn verdict(name: &str, mutation: Mutation) -> Result<Verdict, String> {
    let mut machine = place::default_machine(Isa::Aarch64);
    let far = AtomicPlace::Far;
    machine.arm.atomics = Atomics { load: far, store: far, acquire: far, release: far };
    let plan = Plan {
        machines: vec![machine],
        iterations: ITERATIONS,
        placements: Placement::ALL.to_vec(),
        seed: 5,
        is_shuffled: false,
        mutation,
    };
    let mut classics = corpus::classics(&corpus::folder(Isa::Aarch64)).unwrap();
    classics.retain(|(_, test)| test.name == name);
    Verdict::of(&classics[0].1, &plan)
}

/// The loop around a test counts with exclusives: with a reservation that stands it may hang.
#[test]
fn every_mutant_shows_a_forbidden_state() {
    for (mutant, name) in [
        (Mutant::EarlyRelease, "MP+stlr+ldar"),
        (Mutant::NoStoreBarrier, "MP+dmb.st+addr"),
        (Mutant::KeptReservation, "INC+ldxr-stxrs"),
        (Mutant::FarReadsEarly, "INC+ldadds"),
    ] {
        let right = verdict(name, Mutation::default()).unwrap();
        assert!(right.forbidden().is_empty(), "{name}\n{}", right.histogram());
        let is_seen = match verdict(name, Mutation::of(mutant)) {
            Ok(wrong) => !wrong.forbidden().is_empty(),
            Err(e) => e.contains("TimeLimit"),
        };
        assert!(is_seen, "{mutant:?}");
    }
}
