//! Wrong variants of the engine (`engine.md` section 12): each is caught by the test that guards
//! the rule it breaks, and the rules as written pass the same test.

#[path = "common/trace.rs"]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::{STORM, difference, topology};
use emu_machine::{Dma, DmaOp, Options};
use emu_sim::mutant::{Mutant, Mutation};
use emu_sim::{PhysAddr, SimTime};

fn options(mutation: Mutation) -> Options {
    Options { mutation, ..Options::default() }
}

/// The text of the panic in which `run` ends.
fn panic_of(run: impl FnOnce() -> Vec<String>) -> String {
    let panic = match catch_unwind(AssertUnwindSafe(run)) {
        Ok(_) => panic!("the mutant passed"),
        Err(panic) => panic,
    };
    *panic.downcast::<String>().expect("a formatted message")
}

/// On a machine whose LLC answers at once the legs alone bound the window: `late_message` shows
/// that W itself passes. One picosecond shows where a message comes just at the edge, which not
/// every run has.
#[test]
fn a_window_one_picosecond_wider_is_caught() {
    let mut quad = topology("quad");
    quad.latency.llc_service = 0;
    for beyond in [1, 1_000, 20_000] {
        let mutation = Mutation::of(Mutant::WindowPlus(beyond));
        let text = panic_of(|| {
            let storms = ["", " jitter=0", " jitter=7"].map(|jitter| format!("{STORM}{jitter}"));
            storms.iter().flat_map(|args| common::trace(&quad, args, options(mutation))).collect()
        });
        assert!(text.contains("late message"), "{beyond}: {text}");
    }
}

#[test]
fn a_spin_made_good_once_too_often_is_caught() {
    let args = format!("{STORM} idle=poll");
    let caught = |mutation: Mutation| {
        let run = |elide_spins| Options { elide_spins, ..options(mutation) };
        let [skipped, stepped] =
            [true, false].map(|on| common::trace(&topology("quad"), &args, run(on)));
        difference(&skipped, &stepped)
    };
    assert_eq!(caught(Mutation::default()), None);
    assert!(caught(Mutation::of(Mutant::ElisionOffByOne)).is_some());
}

#[test]
fn one_sequence_for_the_whole_machine_is_caught() {
    let topology = topology("smp-16");
    let args = format!("{STORM} cpulist=0,2,4");
    let caught = |mutation: Mutation| {
        let run = |shuffle_host| {
            common::trace(&topology, &args, Options { shuffle_host, ..options(mutation) })
        };
        let reference = run(None);
        (0..3).find_map(|seed| difference(&reference, &run(Some(seed))))
    };
    assert_eq!(caught(Mutation::default()), None);
    assert!(caught(Mutation::of(Mutant::GlobalSequence)).is_some());
}

/// Reads and additions reach one home in the order of their numbers: a read gives the additions
/// before it, and none that the home made while the answer was under way.
#[test]
fn a_value_read_on_arrival_is_caught() {
    let wrong = |mutation: Mutation| {
        let address = PhysAddr(0x9_0000);
        let (machine, _) = common::run_beside(&topology("duo"), STORM, options(mutation), |m| {
            for n in 0..500 {
                let op = if n % 2 == 0 { DmaOp::Read } else { DmaOp::Add(1) };
                m.dma(SimTime(20_000 * n), Dma { address, size: 8, op });
            }
        });
        let done = machine.dma_done();
        assert_eq!(done.len(), 500);
        done.iter().filter(|d| d.value != d.index as u64 / 2).count()
    };
    assert_eq!(wrong(Mutation::default()), 0);
    assert!(wrong(Mutation::of(Mutant::ValueNotCopied)) > 100);
}
