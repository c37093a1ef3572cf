//! The classics of `x86/*.litmus`: what is allowed, and that nothing else is seen.

use std::fs;

use tests_litmus::corpus::{self, Agreement};
use tests_litmus::place::{self, Placement};
use tests_litmus::program::Test;
use tests_litmus::report::{Plan, Verdict};
use tests_litmus::tso::{self, Partial};

/// Iterations of each classic.
const ITERATIONS: usize = 2000;

fn classics() -> Vec<(std::path::PathBuf, Test)> {
    let tests = corpus::classics(&corpus::folder()).unwrap_or_else(|e| panic!("{e}"));
    assert!(tests.len() >= 50, "{} classics", tests.len());
    tests
}

/// `Observation=` is what the literature says; the list of states is complete and in the file.
#[test]
fn allowed_sets_are_those_of_the_files() {
    let is_bless = std::env::var_os("BLESS").is_some();
    let mut faults = Vec::new();
    for (path, test) in classics() {
        let allowed = tso::allowed(&test, Partial::Merge);
        let has_witness = allowed.iter().any(|o| test.holds(o));
        let said = test.fields.get("Observation").map(String::as_str);
        if said != Some(if has_witness { "Sometimes" } else { "Never" }) {
            faults.push(format!("{}: {said:?}, but found {has_witness}", test.name));
        }
        if path.file_stem().is_none_or(|s| s != test.name.as_str()) {
            faults.push(format!("{}: the file has another name", test.name));
        }
        let ours = corpus::texts(&test, &allowed);
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

/// A load that waits for a partly covering store gives up some freedom and gains none.
#[test]
fn draining_allows_a_part_of_what_merging_allows() {
    for (_, test) in classics() {
        let merge = tso::allowed(&test, Partial::Merge);
        let drain = tso::allowed(&test, Partial::Drain);
        assert!(drain.is_subset(&merge), "{}", test.name);
        assert!(test.name.starts_with("mixed-") || drain == merge, "{}", test.name);
    }
}

/// Rules X1 to X3 and L2, and [SDM-3] "Memory Ordering": no state but the allowed ones, in any
/// placement.
#[test]
fn no_classic_shows_a_forbidden_state() {
    let plan = Plan {
        machine: place::default_machine(),
        iterations: ITERATIONS,
        placements: Placement::ALL.to_vec(),
        seed: 1,
        is_shuffled: false,
    };
    for (_, test) in classics() {
        let verdict = Verdict::of(&test, &plan).unwrap();
        assert!(verdict.forbidden().is_empty(), "{}\n{}", verdict.line(), verdict.histogram());
    }
}

/// Store buffers exist: each of these is seen even in the short run. Host order and windows change
/// no outcome (rule D7).
#[test]
fn the_relaxations_of_tso_are_seen_and_host_order_is_not() {
    let shuffled = Plan {
        machine: place::default_machine(),
        iterations: ITERATIONS,
        placements: Placement::ALL.to_vec(),
        seed: 2,
        is_shuffled: true,
    };
    let plain = Plan { is_shuffled: false, ..shuffled.clone() };
    let names = ["SB", "SB+forwards", "SB+lfences", "R", "RWC", "INC", "mixed-forward"];
    for (_, test) in classics().iter().filter(|(_, t)| names.contains(&t.name.as_str())) {
        let verdict = Verdict::of(test, &shuffled).unwrap();
        assert!(verdict.witnesses() > 0, "{}\n{}", verdict.line(), verdict.histogram());
        let again = Verdict::of(test, &plain).unwrap();
        assert_eq!(again.seen, verdict.seen, "{}", test.name);
    }
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
    assert_eq!(Agreement::of(&cases[0].test, &cases[0].allowed), Agreement::Equal);
    let wrong = &corpus::corpus(&line(r#""1:rax=0; 1:rbx=0;""#)).unwrap()[0];
    assert!(matches!(Agreement::of(&wrong.test, &wrong.allowed), Agreement::Differs { .. }));
}
