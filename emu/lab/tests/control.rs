//! The negative control: where no idle CPU says that it polls, the policy of the remote call
//! changes nothing; where one does, it changes what is sent.

use emu_lab::{Switches, ipistorm};
use emu_machine::Machine;
use emu_sim::SimTime;

const CALLS: u64 = 100;

/// The four variants on the first `cpus` cpus of a machine.
fn rows(machine: &str, cpus: u32, guest: &[&str]) -> Vec<ipistorm::Row> {
    let (caller, offset) = ipistorm::default_pair(machine, &[], Some(cpus)).expect("a machine");
    let mut switches = Switches::default();
    let numbers =
        [("numipi", CALLS), ("warmup", 10), ("cpulist", caller.into()), ("offset", offset.into())];
    for (key, value) in numbers {
        switches.set(key, &value.to_string()).expect("a number");
    }
    switches
        .set_all(&guest.iter().map(|&text| text.to_owned()).collect::<Vec<_>>())
        .expect("known");
    let request = ipistorm::Request {
        machine: machine.to_owned(),
        set: Vec::new(),
        cpus: Some(cpus),
        switches,
        vary: Vec::new(),
        seeds: vec![1, 2],
        limit: SimTime::from_us(100_000),
        jobs: 1,
        ledger: false,
    };
    let report = ipistorm::run::<Machine>(&request, &()).expect("the bench runs");
    assert_eq!(report.groups.len(), 1);
    let rows = report.groups[0].rows.clone();
    assert_eq!(rows.len(), ipistorm::VARIANTS.len());
    rows
}

#[test]
fn on_arm64_in_wfi_all_variants_are_one() {
    for (machine, cpus) in [("quad-arm", 4), ("hikey-620", 8), ("neoverse-n1-2s", 20)] {
        for row in rows(machine, cpus, &[]) {
            assert_eq!((row.ipis_sent, row.ipis_saved), (CALLS as f64, 0.0), "{machine} {row:?}");
            assert!((row.normalised - 1.0).abs() < 0.01, "{machine} {row:?}");
        }
    }
}

#[test]
fn on_arm64_that_polls_a_store_is_enough() {
    for row in rows("neoverse-n1-2s", 20, &["idle=poll", "arm64_polling=1"]) {
        let sends = row.variant == "revert";
        assert_eq!(row.ipis_saved > 0.0, !sends, "{row:?}");
        assert_eq!(row.ipis_sent + row.ipis_saved, CALLS as f64, "{row:?}");
        assert_eq!(row.normalised > 1.2, sends, "{row:?}");
    }
}

#[test]
fn the_pair_that_nobody_names_is_two_cpus_of_the_machine() {
    let table = [
        ("duo", None, (0, 1)),
        ("quad-arm", None, (0, 2)),
        ("hikey-620", None, (0, 4)),
        ("smp-16", None, (0, 8)),
        ("smp-17", None, (8, 8)),
        ("smp-arm-384", Some(3), (0, 1)),
        ("epyc-7763-2s", None, (8, 8)),
    ];
    for (machine, cpus, pair) in table {
        let found = ipistorm::default_pair(machine, &[], cpus).expect("a machine");
        assert_eq!(found, pair, "{machine} {cpus:?}");
    }
    assert!(ipistorm::default_pair("duo", &[], Some(3)).is_err());
}
