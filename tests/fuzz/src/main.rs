//! The libFuzzer driver of all targets: `FUZZ_TARGET` names one, arguments are libFuzzer's.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use tests_fuzz::{TARGETS, target};

static RUN: OnceLock<fn(&[u8])> = OnceLock::new();

/// Finds the target that the environment names.
fn named() -> fn(&[u8]) {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names = TARGETS.map(|target| target.name).join(", ");
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET={name}: is none of {names}")).run
}

fuzz_target!(|data: &[u8]| RUN.get_or_init(named)(data));
