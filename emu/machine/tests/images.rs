//! The freestanding guests build with the compilers of the host system and load.

#[path = "common/guest.rs"]
mod guest;

use std::path::Path;

use emu_machine::load::{Image, LoadError};
use emu_machine::{fdt, handover};
use topology::{Isa, Machine};

const GUESTS: [&str; 10] =
    ["smp", "hello", "nowhere", "triple", "halt", "print", "unmapped", "hole", "spin", "umwait"];

#[test]
fn every_guest_builds_loads_and_fits_beside_the_handover() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let machine = Machine::load("epyc-9654-2s", &[]).expect("a shipped machine");
    let tree = fdt::build(&machine, machine.cpus.len(), "").expect("a device tree");
    for toolchain in guest::toolchains() {
        for name in GUESTS {
            let what = format!("{name} by {}", toolchain.name());
            let elf = toolchain.build(name, &[], out);
            let image = Image::from_elf(&elf, Some(Isa::X86_64)).expect(&what);
            assert_eq!(image.symbols.describe(image.entry.0), "start", "{what}");
            assert!(image.symbols.find("run").is_some(), "{what}");
            let state = handover::x86(&machine, image.entry, tree.clone()).expect(&what);
            image.check_placement(&machine.ram(), &state.reserved).expect(&what);
        }
    }
}

#[test]
fn flags_reach_the_compiler() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for toolchain in guest::toolchains() {
        let codes = ["-DEXIT_CODE=0", "-DEXIT_CODE=7"];
        let [pass, fail] = codes.map(|code| toolchain.build("hello", &[code], out));
        assert_ne!(pass, fail);
    }
}

#[test]
fn a_32_bit_guest_is_refused() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for toolchain in guest::toolchains() {
        let elf = toolchain.build_32(out);
        let found = Image::from_elf(&elf, Some(Isa::X86_64)).map(|_| ());
        assert_eq!(found, Err(LoadError::Class { found: 1 }));
    }
}
