//! GICv2 in a machine: an SGI from one cpu to another, and a shared interrupt of the PL011.
//!
//! The guest is assembled words. Cpu 0 turns on cpu 1; cpu 1 sends SGI 5 by GICD_SGIR; cpu 0 takes
//! it, reads GICC_IAR, ends it, lets the transmitter interrupt it, and exits.

#[path = "common/words.rs"]
mod words;

use emu_machine::{Machine, Options, Stop, Until};
use emu_sim::{CpuId, SimTime};

/// Where the vector of an IRQ from the current level lies.
const IRQ: usize = 0x800 + 0x280;

#[rustfmt::skip]
const MAIN: [u32; 43] = [
    0xd2a1_0014,    // mov x20, #0x8000000
    0x9140_4295,    // add x21, x20, #0x10, lsl #12
    0xd2a1_2036,    // mov x22, #0x9010000
    0x1000_3fa1,    // adr x1, .+2036
    0xd518_c001,    // msr vbar_el1, x1
    0x5280_0021,    // mov w1, #0x1
    0xb900_0281,    // str w1, [x20]
    0x5280_1e01,    // mov w1, #0xf0
    0xb900_06a1,    // str w1, [x21, #4]
    0x5280_0021,    // mov w1, #0x1
    0xb900_02a1,    // str w1, [x21]
    0xd538_00a0,    // mrs x0, mpidr_el1
    0xf240_1c00,    // ands x0, x0, #0xff
    0x5400_0301,    // b.ne .+96
    0xd280_0060,    // mov x0, #0x3
    0xf2b8_8000,    // movk x0, #0xc400, lsl #16
    0xd280_0021,    // mov x1, #0x1
    0x10ff_fde2,    // adr x2, .-68
    0xd400_0003,    // smc #0x0
    0xaa00_03ea,    // mov x10, x0
    0xd503_42ff,    // msr daifclr, #0x2
    0xd503_207f,    // wfi
    0xb4ff_ffeb,    // cbz x11, .-4
    0x5280_0021,    // mov w1, #0x1
    0x3920_8681,    // strb w1, [x20, #2081]
    0x5280_0041,    // mov w1, #0x2
    0xb901_0681,    // str w1, [x20, #260]
    0x5280_0401,    // mov w1, #0x20
    0xb900_3ac1,    // str w1, [x22, #56]
    0x5280_0841,    // mov w1, #0x42
    0xb900_02c1,    // str w1, [x22]
    0xd503_207f,    // wfi
    0xb4ff_ffec,    // cbz x12, .-4
    0xd2a1_2009,    // mov x9, #0x9000000
    0xf900_0d3f,    // str xzr, [x9, #24]
    0xd503_207f,    // wfi
    0x17ff_ffff,    // b .-4
    0x52a0_0021,    // mov w1, #0x10000
    0x1100_1421,    // add w1, w1, #0x5
    0x5290_0002,    // mov w2, #0x8000
    0xb90f_0281,    // str w1, [x20, #3840]
    0xd503_207f,    // wfi
    0x17ff_ffff,    // b .-4
];

#[rustfmt::skip]
const HANDLER: [u32; 11] = [
    0xb940_0ea5,    // ldr w5, [x21, #12]
    0xb500_008b,    // cbnz x11, .+16
    0xaa05_03eb,    // mov x11, x5
    0xb900_12a5,    // str w5, [x21, #16]
    0xd69f_03e0,    // eret
    0xaa05_03ec,    // mov x12, x5
    0xb940_42cd,    // ldr w13, [x22, #64]
    0xb900_46cd,    // str w13, [x22, #68]
    0xb900_12a5,    // str w5, [x21, #16]
    0xb940_0eae,    // ldr w14, [x21, #12]
    0xd69f_03e0,    // eret
];

#[test]
fn an_sgi_says_its_sender_and_a_shared_interrupt_comes_and_ends() {
    for (name, set) in [("quad-arm", &["gic.version=2"][..]), ("hikey-620", &[])] {
        let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
        let topology = topology::Machine::load(name, &set).expect("a machine");
        let mut m = Machine::new(&topology, Options::default()).expect("it is built");
        let mut words = MAIN.to_vec();
        words.resize(IRQ / 4, 0);
        words.extend(HANDLER);
        m.load(&words::image(&words), "").expect("it fits");
        let until = Until { time: SimTime::from_us(200), regions: false };
        assert_eq!(m.run(&until, &mut ()), Stop::Exit { code: 0 }, "{name}");
        assert_eq!((m.console(), m.check_laws()), (&b"B"[..], Ok(())));
        let x = m.arm64(CpuId(0)).state.x;
        assert_eq!(x[10], 0, "CPU_ON");
        assert_eq!(x[11], 1 << 10 | 5, "SGI 5 from cpu 1");
        assert_eq!((x[12], x[13], x[14]), (33, 0x20, 1023), "the transmitter, and then nothing");
    }
}
