//! Random words of every encoding group, on the model and on qemu's user mode.

use std::fmt::Write;
use std::path::Path;

use tests_native_arm64::group::GROUPS;
use tests_native_arm64::{oracle, run};

/// Records of each group; `CROSSCALL_RECORDS` asks for more.
const RECORDS: usize = 1500;

#[test]
fn every_group_agrees_with_qemu() {
    let Some(program) = oracle::build(Path::new(env!("CARGO_TARGET_TMPDIR"))) else {
        println!("skipped: needs qemu-aarch64");
        return;
    };
    let records = std::env::var("CROSSCALL_RECORDS").map_or(RECORDS, |n| n.parse().unwrap());
    let only = std::env::var("CROSSCALL_GROUP").unwrap_or_default();
    let seed = std::env::var("CROSSCALL_SEED").map_or(1, |n| n.parse::<u64>().unwrap());
    let (mut text, mut failures, mut agreed, mut forms) = (String::new(), 0, 0, 0);
    for (n, group) in GROUPS.iter().enumerate().filter(|(_, group)| group.0.contains(&only)) {
        let seed = seed * 1000 + n as u64;
        let tally = run::run(&program, group, records, seed).expect(group.0);
        let _ = writeln!(
            text,
            "{:24} agreed {:6} undefined {:6} faults {:4} forms {:3} left out {:4} failed {}",
            group.0,
            tally.agreed,
            tally.undefined,
            tally.faults,
            tally.forms.len(),
            tally.left_out.values().sum::<u64>(),
            tally.failures,
        );
        for line in &tally.texts {
            let _ = writeln!(text, "    {line}");
        }
        for (reason, count) in &tally.left_out {
            let _ = writeln!(text, "    left out: {reason} ({count})");
        }
        failures += tally.failures;
        agreed += tally.agreed;
        forms += tally.forms.len();
    }
    let _ = writeln!(text, "agreed {agreed}, forms {forms}, failed {failures}");
    println!("{text}");
    assert_eq!(failures, 0, "{text}");
}
