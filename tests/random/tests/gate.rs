//! The short run: a few seeds of each machine, and what changes speed only changes nothing.

use std::ops::Range;

use tests_random::run::LINES_MAX;
use tests_random::{Case, Host, Report, shrink};

fn case(machine: &str, seed: u64, (ops, rounds): (usize, u64)) -> Case {
    let lines = 1 + seed % LINES_MAX;
    Case { machine: machine.to_owned(), seed, cpus: 512, ops, rounds, lines }
}

fn run(case: &Case, host: &Host) -> Report {
    shrink::judged(case, host).unwrap_or_else(|e| panic!("{e}\n{case}"))
}

/// Runs seeds of machines, each with operations and rounds, and finds that all of it happened.
fn check(runs: &[(&str, Range<u64>, (usize, u64))]) {
    let (mut operations, mut merged, mut store_wakes) = (0, 0, 0);
    for (machine, seeds, size) in runs {
        for seed in seeds.clone() {
            let report = run(&case(machine, seed, *size), &Host::default());
            operations += report.operations;
            merged += report.merged;
            store_wakes += report.store_wakes;
        }
    }
    assert!(operations > 50_000, "{operations}");
    assert!(merged > 0 && store_wakes > 0, "{merged} merged, {store_wakes} waits ended by stores");
}

/// Rules L1 to L10, V1 to V3, X1 to X3, W1 to W3, I1 and [SDM-3] "Memory Ordering".
#[test]
fn random_programs_see_what_coherence_and_tso_allow() {
    check(&[
        ("duo", 100..112, (50, 10)),
        ("quad", 200..212, (50, 10)),
        ("smp-7", 300..306, (50, 6)),
        ("smp-64", 400..402, (30, 3)),
        ("smp-384", 500..501, (8, 1)),
        ("epyc-9654-2s", 700..701, (8, 1)),
    ]);
}

/// Rules L1 to L10, V1 to V3, A1 to A4, W1 to W3, I1 and \[ArmARM\] "The Arm memory model".
#[test]
fn random_programs_see_what_coherence_and_the_arm_model_allow() {
    check(&[
        ("duo-arm", 100..112, (50, 10)),
        ("quad-arm", 200..212, (50, 10)),
        ("smp-arm-7", 300..306, (50, 6)),
        ("smp-arm-64", 400..402, (30, 3)),
        ("smp-arm-384", 500..501, (8, 1)),
        ("neoverse-n1-2s", 600..601, (12, 2)),
        ("graviton2", 700..701, (12, 2)),
    ]);
}

/// Rule D7, and S4: trace, counters, registers and memory are those of the plain run.
#[test]
fn host_order_windows_and_skipped_spins_change_nothing() {
    let mut elided = 0;
    for (machine, seed) in
        [("duo", 1), ("quad", 2), ("smp-12", 3), ("smp-12", 4), ("smp-arm-12", 5), ("quad-arm", 6)]
    {
        let case = case(machine, seed, (40, 4));
        let plain = run(&case, &Host::default());
        assert_eq!(run(&case, &Host::default()), plain, "again\n{case}");
        elided += plain.elided;
        for host in [
            Host { shuffle: Some(seed), ..Host::default() },
            Host { window_ps: Some(777), ..Host::default() },
            Host { steps_spins: true, ..Host::default() },
        ] {
            let other = run(&case, &host);
            assert_eq!(other.hash, plain.hash, "{host:?}\n{case}");
        }
    }
    assert!(elided > 0, "no spin was skipped");
}

/// What was broken, and the machine, seed, cpus, size and lines that showed it.
type Regression = (&'static str, &'static str, u64, usize, (usize, u64), u64);

/// Cases that failed once.
#[rustfmt::skip]
const REGRESSIONS: [Regression; 6] = [
    // A store whose line was granted for reading only asked again in the past.
    ("C3: no request is dated before now", "smp-12", 3, 12, (40, 4), 4),
    ("C3: no request is dated before now", "smp-32", 5, 32, (40, 4), 6),
    // Entry into a state that flushes the caches was dated by a retirement in the past.
    ("K3: no message is late", "smp-6", 8, 6, (40, 4), 2),
    // Three bytes of a store across lines became visible as two and one.
    ("L13: an access across two lines is two accesses", "smp-64", 53, 64, (40, 4), 3),
    // Caches were lost before the cpu slept: a store asked for its line again ahead of the Put.
    ("L8: messages about a line do not overtake", "smp-384", 2007, 61, (5, 2), 1),
    // An interrupt that came between the entry of a handler and its acknowledgement.
    ("I1: what is acknowledged no longer pends", "quad-arm", 37, 4, (50, 3), 6),
];

#[test]
fn what_failed_once_stays_right() {
    for (rule, machine, seed, cpus, size, lines) in REGRESSIONS {
        let case = Case { cpus, lines, ..case(machine, seed, size) };
        let plain = run(&case, &Host::default());
        let narrow = Host { window_ps: Some(777), ..Host::default() };
        assert_eq!(run(&case, &narrow).hash, plain.hash, "{rule}\n{case}");
    }
}

#[test]
fn seeds_differ() {
    let hash = |seed| run(&case("quad", seed, (20, 2)), &Host::default()).hash;
    assert_ne!(hash(1), hash(2));
}
