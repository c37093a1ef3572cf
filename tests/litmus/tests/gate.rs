//! The classics of `x86/*.litmus` and `arm64/*.litmus`: what is allowed, and that nothing else is
//! seen.

use std::fs;

use emu_sim::mutant::Mutation;
use tests_litmus::arm64::random;
use tests_litmus::corpus;
use tests_litmus::judge::{Agreement, Allowed};
use tests_litmus::place::{self, Placement};
use tests_litmus::program::Test;
use tests_litmus::report::{Plan, Verdict};
use tests_litmus::syntax;
use topology::Isa;

/// Iterations of each classic: arm64 has twice as many classics, and each gets fewer.
const ITERATIONS: usize = 2000;
const ITERATIONS_ARM64: usize = 200;

fn classics(isa: Isa) -> Vec<(std::path::PathBuf, Test)> {
    let tests = corpus::classics(&corpus::folder(isa)).unwrap_or_else(|e| panic!("{e}"));
    assert!(tests.len() >= 50, "{} classics", tests.len());
    assert!(tests.iter().all(|(_, test)| test.program.isa() == isa));
    tests
}

fn plan(isa: Isa, seed: u64) -> Plan {
    Plan {
        machines: vec![place::default_machine(isa)],
        iterations: if isa == Isa::Aarch64 { ITERATIONS_ARM64 } else { ITERATIONS },
        placements: Placement::ALL.to_vec(),
        seed,
        is_shuffled: false,
        mutation: Mutation::default(),
    }
}

/// `Observation=` is what the literature says; the list of states is complete and in the file.
#[test]
fn allowed_sets_are_those_of_the_files() {
    let is_bless = std::env::var_os("BLESS").is_some();
    let mut faults = Vec::new();
    let all = [Isa::X86_64, Isa::Aarch64].into_iter().flat_map(classics);
    for (path, test) in all {
        let allowed = Allowed::of(&test).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let has_witness = allowed.states.iter().any(|o| test.holds(o));
        let said = test.fields.get("Observation").map(String::as_str);
        if said != Some(if has_witness { "Sometimes" } else { "Never" }) {
            faults.push(format!("{}: {said:?}, but found {has_witness}", test.name));
        }
        if path.file_stem().is_none_or(|s| s != test.name.as_str()) {
            faults.push(format!("{}: the file has another name", test.name));
        }
        let ours = allowed.texts(&test);
        if test.stated.as_ref() == Some(&ours) {
            continue;
        }
        if is_bless {
            let text = fs::read_to_string(&path).unwrap();
            let head = text.split("(* allowed").next().unwrap();
            fs::write(&path, format!("{head}(* allowed\n{}\n*)\n", ours.join("\n"))).unwrap();
        } else {
            faults.push(format!("{}: {:?}, found {ours:?}", test.name, test.stated));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// A load that waits for a partly covering store gives up some freedom; only mixed sizes show it.
#[test]
fn draining_allows_a_part_of_what_merging_allows() {
    for (_, test) in classics(Isa::X86_64) {
        let allowed = Allowed::of(&test).unwrap();
        assert!(allowed.ruled_out.is_subset(&allowed.states), "{}", test.name);
        assert!(allowed.ruled_out.len() < allowed.states.len(), "{}", test.name);
        assert!(test.name.starts_with("mixed-") || allowed.ruled_out.is_empty(), "{}", test.name);
    }
}

fn verdict(test: &Test, plan: &Plan) -> Verdict {
    Verdict::of(test, plan).unwrap_or_else(|e| panic!("{e}"))
}

fn no_classic_shows_a_forbidden_state(isa: Isa) {
    for (_, test) in classics(isa) {
        let found = verdict(&test, &plan(isa, 1));
        assert!(found.forbidden().is_empty(), "{}\n{}", found.line(), found.histogram());
    }
}

/// Rules X1 to X3 and L2, and \[SDM-3\] "Memory Ordering": no state but the allowed ones, in any
/// placement.
#[test]
fn no_classic_of_x86_shows_a_forbidden_state() {
    no_classic_shows_a_forbidden_state(Isa::X86_64);
}

/// Rules A1 to A4 and L2, and \[ArmARM\] "The Arm memory model".
#[test]
fn no_classic_of_arm64_shows_a_forbidden_state() {
    no_classic_shows_a_forbidden_state(Isa::Aarch64);
}

/// A cut of the classics on the machines as their files have them, in every placement these have:
/// neighbours (of a DSU pair, of a cluster), the other cluster, the other socket. None takes what
/// the in-order cores lack, LSE and LDAPR.
#[test]
fn classics_on_the_machines_of_arm64_show_no_forbidden_state() {
    let names = [
        "SB",
        "SB+dmb.sys",
        "SB+stlr-ldars",
        "SB+ldaxr-stlxrs",
        "MP",
        "MP+dmb.st+addr",
        "MP+stlr+ldar",
        "2+2W",
        "2+2W+dmb.sts",
        "R+dmb.sys",
        "LB",
        "IRIW+dmb.sys",
        "CoRR",
        "INC+ldxr-stxrs",
        "LOCK+ldaxr-stlr",
        "STXR+clrex",
        "ISA2+stlr+ldar-stlr+ldar",
    ];
    let tests: Vec<_> = classics(Isa::Aarch64)
        .into_iter()
        .filter(|(_, test)| names.contains(&test.name.as_str()))
        .collect();
    assert_eq!(tests.len(), names.len());
    for name in ["neoverse-n1-2s", "graviton2", "hikey-620"] {
        let machine = topology::Machine::load(name, &[]).unwrap_or_else(|e| panic!("{e}"));
        let plan = Plan { machines: vec![machine], iterations: 300, ..plan(Isa::Aarch64, 4) };
        let mut witnesses = 0;
        for (_, test) in &tests {
            let found = verdict(test, &plan);
            let text = format!("{name}: {}\n{}", found.line(), found.histogram());
            assert!(found.forbidden().is_empty(), "{text}");
            witnesses += found.witnesses();
        }
        assert!(witnesses > 0, "{name} shows no relaxation");
    }
}

fn relaxations_are_seen_and_host_order_is_not(isa: Isa, names: &[&str]) {
    let plain = Plan { iterations: ITERATIONS, ..plan(isa, 2) };
    let shuffled = Plan { is_shuffled: true, ..plain.clone() };
    let tests: Vec<_> =
        classics(isa).into_iter().filter(|(_, t)| names.contains(&t.name.as_str())).collect();
    assert_eq!(tests.len(), names.len());
    for (_, test) in tests {
        let seen = verdict(&test, &shuffled);
        assert!(seen.witnesses() > 0, "{}\n{}", seen.line(), seen.histogram());
        let again = verdict(&test, &plain);
        assert_eq!(again.seen, seen.seen, "{}", test.name);
    }
}

/// Store buffers exist: each of these is seen even in the short run. Host order and windows change
/// no outcome (rule D7).
#[test]
fn the_relaxations_of_tso_are_seen_and_host_order_is_not() {
    let names = ["SB", "SB+forwards", "SB+lfences", "R", "RWC", "INC", "mixed-forward"];
    relaxations_are_seen_and_host_order_is_not(Isa::X86_64, &names);
}

/// Stores drain out of order; loads do not perform so, and what needs that is not here.
#[test]
fn the_relaxations_of_arm64_are_seen_and_host_order_is_not() {
    let names = [
        "SB",
        "SB+stlr-ldaprs",
        "MP",
        "MP+po+addr",
        "MP+po+ldar",
        "2+2W",
        "R+po+dmb.sy",
        "S+po+data",
    ];
    relaxations_are_seen_and_host_order_is_not(Isa::Aarch64, &names);
}

/// Tests that nobody wrote, a few of each shape.
#[test]
fn no_random_test_of_arm64_shows_a_forbidden_state() {
    let plan = Plan { iterations: 100, ..plan(Isa::Aarch64, 3) };
    let mut states = 0;
    for seed in 0..40 {
        let text = random::text(seed);
        let test = syntax::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        if Allowed::of(&test).is_ok() {
            let found = verdict(&test, &plan);
            assert!(found.forbidden().is_empty(), "{text}\n{}", found.histogram());
            states += found.seen.len();
        }
    }
    assert!(states > 200, "{states}");
}

/// The shape of a corpus: one JSON object a line, states as herd writes them.
#[test]
fn a_corpus_is_read_and_compared() {
    let source = [
        "X86_64 MP000",
        r#"\"Rfe PodRR Fre PodWW\""#,
        "Cycle=Rfe PodRR Fre PodWW",
        "{",
        "}",
        " P0          | P1            ;",
        " movl $1,(x) | movl (y),%eax ;",
        " movl $1,(y) | movl (x),%ebx ;",
        r"exists (1:rax=1 /\\ 1:rbx=0)",
    ]
    .join(r"\n");
    let states = r#""1:rax=0; 1:rbx=0;", "1:rax=0; 1:rbx=1;", "1:rax=1; 1:rbx=1;""#;
    let line = |states: &str| {
        format!(r#"{{"name": "MP000.base", "source": "{source}", "allowed": [{states}]}}"#)
    };
    let cases = corpus::corpus(&format!("{}\n", line(states))).unwrap();
    assert_eq!(cases[0].test.name, "MP000.base");
    let agreement = |case: &corpus::Case| {
        Agreement::of(&case.test, &Allowed::of(&case.test).unwrap(), &case.allowed)
    };
    assert_eq!(agreement(&cases[0]), Agreement::Equal);
    let wrong = &corpus::corpus(&line(r#""1:rax=0; 1:rbx=0;""#)).unwrap()[0];
    assert!(matches!(agreement(wrong), Agreement::Differs { .. }));
}
