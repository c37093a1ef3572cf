//! The fitted machines hand lines over as published (N11: within a tenth, by class).

use emu_lab::{Setup, Switches, c2c};
use emu_machine::Machine;
use emu_sim::SimTime;

/// Errors in percent, by class: those of `unmet` are beyond bounds, and known to be.
fn check(machine: &str, classes: usize, unmet: &[&str]) {
    let mut switches = Switches::default();
    // The counter of the HiKey ticks every 0.8 us.
    switches.set("iters", "400").expect("a switch of the kernel");
    switches.set("c2c_samples", "3").expect("a switch of the kernel");
    let setup = Setup {
        machine: machine.to_owned(),
        set: Vec::new(),
        switches,
        seed: 1,
        limit: SimTime::from_us(1_000_000),
        jobs: 1,
    };
    let request = c2c::Request { setup, pairs: 1 };
    let report = c2c::run::<Machine>(&request, &()).unwrap_or_else(|e| panic!("{e}"));
    let error = |c: &c2c::Class| c.error_percent.map(|error| (c.class, error));
    let errors: Vec<(&str, f64)> = report.classes.iter().filter_map(error).collect();
    assert_eq!(errors.len(), classes, "{report:?}");
    for (class, error) in errors {
        assert_eq!(error.abs() > 10.0, unmet.contains(&class), "{machine} {class}: {error} %");
    }
}

#[test]
fn hand_overs_of_zen_3_are_as_published() {
    check("epyc-7763-2s", 4, &[]);
}

#[test]
fn hand_overs_of_zen_4_are_as_published() {
    check("epyc-9654-2s", 4, &[]);
}

#[test]
fn hand_overs_of_arm_machines_are_as_published() {
    check("graviton2", 1, &[]);
    check("neoverse-n1-2s", 2, &["cluster"]);
    check("hikey-620", 1, &[]);
}
