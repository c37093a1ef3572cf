//! arm64 machines at hand-over: what the boot cpu finds, and what runs on a foreign machine.

#[path = "common/words.rs"]
mod words;

use emu_machine::{BuildError, Machine, Options, Stop, Until, handover};
use emu_sim::{CpuId, PhysAddr, SimTime};
use words::image;

/// Reads what it was handed, writes to the console and exits.
#[rustfmt::skip]
const PROBE: [u32; 13] = [
    0xd538_4241,    // mrs x1, CurrentEL
    0xd538_00a2,    // mrs x2, MPIDR_EL1
    0xd53b_4223,    // mrs x3, DAIF
    0xd538_0604,    // mrs x4, ID_AA64ISAR0_EL1
    0xb940_0005,    // ldr w5, [x0]
    0x9100_03e6,    // mov x6, sp
    0xb940_0107,    // ldr w7, [x8]
    0xd2a1_2009,    // mov x9, #0x09000000
    0x5280_082a,    // mov w10, #'A'
    0xf900_092a,    // str x10, [x9, #0x10]
    0xf900_0d3f,    // str xzr, [x9, #0x18]
    0xd503_207f,    // wfi
    0x17ff_ffff,    // b .-4
];

fn machine(name: &str, options: Options) -> Machine {
    let topology = topology::Machine::load(name, &[]).expect("a machine");
    Machine::new(&topology, options).expect("it is built")
}

#[test]
fn the_boot_cpu_finds_what_the_contract_says() {
    for level in [1, 2] {
        let mut m = machine(
            "smp-arm-9",
            Options { cpus: Some(3), entry_level: level, ..Options::default() },
        );
        m.load(&image(&PROBE), "").expect("it fits");
        let until = Until { time: SimTime::from_us(100), regions: false };
        assert_eq!(m.run(&until, &mut ()), Stop::Exit { code: 0 }, "level {level}");
        assert_eq!((m.console(), m.check_laws()), (&b"A"[..], Ok(())));
        let x = m.arm64(CpuId(0)).state.x;
        assert_eq!(x[1], u64::from(level) << 2);
        assert_eq!(x[2], 1 << 31);
        assert_eq!(x[3], 0x3c0);
        assert_eq!(x[4] >> 20 & 15, 2, "LSE");
        assert_eq!(x[5], 0xedfe_0dd0, "magic of the FDT, little-endian");
        assert_eq!(x[6], x[0], "the stack ends where the FDT begins");
        assert_eq!(x[7], 0xffff_ffff, "nobody answers at 0");
        assert!(x[0] > 0xbff0_0000 && x[0].is_multiple_of(16), "{:#x}", x[0]);
    }
}

#[test]
fn an_image_of_another_instruction_set_is_refused() {
    let error = machine("duo", Options::default()).load(&image(&PROBE), "").expect_err("foreign");
    let BuildError::Load(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("the machine executes x86-64"), "{error}");
    let topology = topology::Machine::load("duo", &[]).expect("a machine");
    let found = handover::arm64(&topology, PhysAddr(0), Vec::new());
    assert_eq!(found, Err(handover::HandoverError::Isa));
}
