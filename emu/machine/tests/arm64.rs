//! arm64 machines at hand-over: what the boot cpu finds, and what runs on a foreign machine.

#[path = "common/words.rs"]
mod words;

use emu_machine::{BuildError, Machine, Options, Stop, Until, handover};
use emu_observe::{Event, Observer, Record, Wanted};
use emu_sim::{CpuId, PhysAddr, SimTime};
use words::image;

/// Reads what it was handed, writes to the console and exits.
#[rustfmt::skip]
const PROBE: [u32; 12] = [
    0xd538_4241,    // mrs x1, CurrentEL
    0xd538_00a2,    // mrs x2, MPIDR_EL1
    0xd53b_4223,    // mrs x3, DAIF
    0xd538_0604,    // mrs x4, ID_AA64ISAR0_EL1
    0xb940_0005,    // ldr w5, [x0]
    0x9100_03e6,    // mov x6, sp
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

/// Reads and writes where no device is, and runs there; each exception leaves ESR and FAR.
#[rustfmt::skip]
const STRAY: [u32; 13] = [
    0x1000_4001, // adr x1, .+2048
    0xd518_c001, // msr vbar_el1, x1
    0xd280_0008, // mov x8, #0x0
    0xd2b0_0014, // mov x20, #0x80000000
    0xb940_0907, // ldr w7, [x8, #8]
    0xb900_1107, // str w7, [x8, #16]
    0xb900_1107, // str w7, [x8, #16]
    0x385f_f287, // ldurb w7, [x20, #-1]
    0xd63f_0100, // blr x8
    0xd2a1_2009, // mov x9, #0x9000000
    0xf900_0d3f, // str xzr, [x9, #24]
    0xd503_207f, // wfi
    0x17ff_ffff, // b .-4
];

#[rustfmt::skip]
const ABORT: [u32; 12] = [
    0xd538_5202, // mrs x2, esr_el1
    0xd538_6003, // mrs x3, far_el1
    0xd2b0_020b, // mov x11, #0x80100000
    0x8b0a_116b, // add x11, x11, x10, lsl #4
    0xa900_0d62, // stp x2, x3, [x11]
    0x9100_054a, // add x10, x10, #0x1
    0xd538_4024, // mrs x4, elr_el1
    0x9100_1084, // add x4, x4, #0x4
    0xf100_109f, // cmp x4, #0x4
    0x9a84_03c4, // csel x4, x30, x4, eq
    0xd518_4024, // msr elr_el1, x4
    0xd69f_03e0, // eret
];

#[derive(Default)]
struct Strays(Vec<(u64, bool)>);

impl Observer for Strays {
    fn wanted(&self) -> Wanted {
        Wanted::default()
    }

    fn record(&mut self, r: &Record) {
        if let Event::UnknownRegister { addr, write } = r.event {
            self.0.push((addr, write));
        }
    }
}

/// Source: \[ArmARM\] ESR_EL1, "Data Abort", "Instruction Abort": status 0x10.
#[test]
fn accesses_that_nobody_answers_abort_and_are_reported_once() {
    let mut words = STRAY.to_vec();
    words.resize((0x800 + 0x200) / 4, 0);
    words.extend(ABORT);
    let mut m = machine("duo-arm", Options::default());
    m.load(&image(&words), "").expect("it fits");
    let until = Until { time: SimTime::from_us(100), regions: false };
    let mut strays = Strays::default();
    assert_eq!(m.run(&until, &mut strays), Stop::Exit { code: 0 });
    let (read, write, fetch) = (0x9600_0010, 0x9600_0050, 0x8600_0010);
    let wanted = [(read, 8), (write, 16), (write, 16), (read, 0x7fff_ffff), (fetch, 0)];
    let found = (0..5).map(|n| 0x8010_0000 + 16 * n);
    let found = found.map(|at| (m.read_guest_u64(at), m.read_guest_u64(at + 8)));
    assert_eq!(found.collect::<Vec<_>>(), wanted);
    assert_eq!(m.arm64(CpuId(0)).state.x[10], 5);
    assert_eq!(strays.0, [(8, false), (16, true), (0x7fff_ffff, false)]);
}
