//! The fitted machines hand lines over as published (N11: within a tenth, by class).

use emu_lab::{Switches, c2c};
use emu_machine::Machine;
use emu_sim::SimTime;

fn check(machine: &str) {
    let mut switches = Switches::default();
    switches.set("iters", "40").expect("a switch of the kernel");
    switches.set("c2c_samples", "3").expect("a switch of the kernel");
    let request = c2c::Request {
        machine: machine.to_owned(),
        set: Vec::new(),
        switches,
        pairs: 1,
        seed: 1,
        limit: SimTime::from_us(1_000_000),
        jobs: 1,
    };
    let report = c2c::run::<Machine>(&request, &()).unwrap_or_else(|e| panic!("{e}"));
    let errors: Vec<f64> = report.classes.iter().filter_map(|c| c.error_percent).collect();
    assert_eq!(errors.len(), 4, "{report:?}");
    assert!(errors.iter().all(|e| e.abs() <= 10.0), "{machine}: {errors:?}");
}

#[test]
fn hand_overs_of_zen_3_are_as_published() {
    check("epyc-7763-2s");
}

#[test]
fn hand_overs_of_zen_4_are_as_published() {
    check("epyc-9654-2s");
}
