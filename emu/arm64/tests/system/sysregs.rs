//! Who may name which register: by level and by control.

use emu_arm64::ctx::Exception;
use emu_arm64::defs::{Ec, Features, SysReg, sctlr};
use emu_arm64::sysreg::Cell;

use crate::world::*;

/// op0, op1, CRn, CRm, op2.
type Fields = (u16, u16, u16, u16, u16);

/// Fields of a register, reads and writes by EL0, EL1, EL2: `-` undefined, `t` trapped, `+` done.
const MATRIX: [(Fields, &str, &str); 26] = [
    ((3, 3, 4, 2, 0), "+++", "+++"),   // NZCV
    ((3, 3, 4, 2, 1), "t++", "t++"),   // DAIF
    ((3, 0, 4, 2, 2), "-++", "---"),   // CurrentEL
    ((3, 0, 1, 0, 0), "-++", "-++"),   // SCTLR_EL1
    ((3, 4, 1, 0, 0), "--+", "--+"),   // SCTLR_EL2
    ((3, 0, 0, 0, 0), "-++", "---"),   // MIDR_EL1
    ((3, 0, 0, 7, 0), "-++", "---"),   // ID_AA64MMFR0_EL1
    ((3, 0, 0, 7, 7), "-++", "---"),   // identification space, zero
    ((3, 3, 0, 0, 1), "t++", "---"),   // CTR_EL0
    ((3, 3, 0, 0, 7), "+++", "---"),   // DCZID_EL0
    ((3, 3, 13, 0, 2), "+++", "+++"),  // TPIDR_EL0
    ((3, 3, 13, 0, 3), "+++", "-++"),  // TPIDRRO_EL0
    ((3, 0, 13, 0, 4), "-++", "-++"),  // TPIDR_EL1
    ((3, 3, 14, 0, 0), "t++", "--+"),  // CNTFRQ_EL0
    ((3, 3, 14, 0, 2), "t++", "---"),  // CNTVCT_EL0
    ((3, 3, 14, 3, 1), "t++", "t++"),  // CNTV_CTL_EL0
    ((3, 3, 14, 0, 1), "ttt", "---"),  // CNTPCT_EL0; EL2 has not opened it, see below
    ((3, 4, 14, 0, 3), "--+", "--+"),  // CNTVOFF_EL2
    ((3, 3, 9, 13, 0), "t++", "t++"),  // PMCCNTR_EL0
    ((3, 3, 9, 14, 0), "+++", "-++"),  // PMUSERENR_EL0
    ((3, 0, 12, 12, 0), "-++", "---"), // ICC_IAR1_EL1
    ((3, 0, 12, 11, 5), "---", "-++"), // ICC_SGI1R_EL1
    ((2, 0, 1, 0, 4), "---", "-++"),   // OSLAR_EL1
    ((2, 0, 0, 15, 7), "-++", "-++"),  // DBGWCR15_EL1
    ((3, 4, 1, 1, 0), "--+", "--+"),   // HCR_EL2
    ((3, 7, 15, 15, 7), "---", "---"), // no register
];

#[test]
fn access_follows_the_matrix() {
    for ((op0, op1, crn, crm, op2), reads, writes) in MATRIX {
        let reg = SysReg::new(op0, op1, crn, crm, op2);
        for el in 0..3u8 {
            let mut world = World::with(Features::all(), 2);
            world.at_level(el);
            let verdict = |outcome: Result<(), Exception>| match outcome {
                Ok(()) => '+',
                Err(e) if e.class == Ec::SysReg => 't',
                Err(e) if e.class == Ec::Unknown => '-',
                Err(e) => panic!("{e:?}"),
            };
            let at = |text: &str| text.chars().nth(usize::from(el)).unwrap();
            // The physical count at EL2 is not trapped.
            let expected =
                |text: &str| if reg == PCT && el == 2 && text != "---" { '+' } else { at(text) };
            let read = world.run(&Mrs { reg }).map(|_| ());
            assert_eq!(verdict(read), expected(reads), "MRS {reg:?} at EL{el}");
            let mut world = World::with(Features::all(), 2);
            world.at_level(el);
            let written = world.run(&Msr { reg, value: 0 });
            assert_eq!(verdict(written), expected(writes), "MSR {reg:?} at EL{el}");
        }
    }
}

const PCT: SysReg = SysReg::new(3, 3, 14, 0, 1);

#[test]
fn controls_open_registers_to_el0() {
    let cases: [(SysReg, Cell, u64); 7] = [
        (SysReg::new(3, 3, 4, 2, 1), Cell::SctlrEl1, sctlr::UMA),
        (SysReg::new(3, 3, 0, 0, 1), Cell::SctlrEl1, sctlr::UCT),
        (PCT, Cell::CntkctlEl1, 1),
        (SysReg::new(3, 3, 14, 0, 2), Cell::CntkctlEl1, 2),
        (SysReg::new(3, 3, 14, 3, 2), Cell::CntkctlEl1, 1 << 8),
        (SysReg::new(3, 3, 14, 2, 2), Cell::CntkctlEl1, 1 << 9),
        (SysReg::new(3, 3, 9, 13, 0), Cell::PmuserenrEl0, 1 << 2),
    ];
    for (reg, cell, bit) in cases {
        let mut world = World::new();
        world.at_level(0);
        let trap = world.run(&Mrs { reg }).unwrap_err();
        let (op0, op1, crn, crm, op2) = reg.fields();
        let iss = u32::from(op0) << 20
            | u32::from(op2) << 17
            | u32::from(op1) << 14
            | u32::from(crn) << 10
            | u32::from(crm) << 1
            | 1;
        assert_eq!((trap.class, trap.iss, trap.level), (Ec::SysReg, iss, 1), "{reg:?}");
        world.cpu.sys[cell] |= bit;
        assert!(world.run(&Mrs { reg }).is_ok(), "{reg:?}");
    }
}

#[test]
fn floating_point_traps_by_cpacr() {
    // FPEN, EL: allowed.
    let fpcr = SysReg::new(3, 3, 4, 4, 0);
    for (fpen, el0, el1) in
        [(0, false, false), (1, false, true), (2, false, false), (3, true, true)]
    {
        for (el, allowed) in [(0, el0), (1, el1)] {
            let mut world = World::new();
            world.at_level(el);
            world.cpu.sys[Cell::CpacrEl1] = fpen << 20;
            let outcome = world.run(&Mrs { reg: fpcr });
            assert_eq!(outcome.is_ok(), allowed, "FPEN {fpen} EL{el}");
            if let Err(e) = outcome {
                assert_eq!((e.class, e.iss), (Ec::Fp, 0x1e0_0000));
            }
        }
    }
}

#[test]
fn registers_keep_the_bits_that_can_be_written() {
    let cases = [
        (SysReg::new(3, 0, 12, 0, 0), 0xffff_0000_1234_5fff, 0xffff_0000_1234_5800),
        (SysReg::new(3, 0, 1, 0, 2), u64::MAX, 3 << 20),
        (SysReg::new(3, 0, 5, 2, 0), u64::MAX, 0xffff_ffff),
        (SysReg::new(3, 2, 0, 0, 0), u64::MAX, 0xf),
        (SysReg::new(3, 3, 4, 2, 0), u64::MAX, 0xf000_0000),
        (SysReg::new(3, 3, 4, 2, 1), u64::MAX, 0x3c0),
        (SysReg::new(2, 0, 0, 3, 5), 0x1e5, 0x1e5),
        (SysReg::new(3, 3, 14, 3, 1), 7, 3 | 4),
    ];
    for (reg, written, read) in cases {
        let mut world = World::new();
        world.port.now = emu_sim::SimTime::from_us(9);
        world.run(&Msr { reg, value: written }).unwrap();
        assert_eq!(world.run(&Mrs { reg }), Ok(read), "{reg:?}");
    }
}

#[test]
fn identification_is_that_of_the_machine() {
    let mut world = World::new();
    let mut mrs =
        |f: Fields| world.run(&Mrs { reg: SysReg::new(f.0, f.1, f.2, f.3, f.4) }).unwrap();
    assert_eq!(mrs((3, 0, 0, 0, 0)), 0x413f_d0c1);
    assert_eq!(mrs((3, 0, 0, 0, 5)), 0x8000_0102);
    assert_eq!(mrs((3, 0, 0, 7, 0)), 0x1122);
    assert_eq!(mrs((3, 1, 0, 0, 1)), 0x9);
    assert_eq!(mrs((3, 1, 0, 0, 0)), 0x700f);
    assert_eq!(mrs((3, 0, 0, 4, 5)), 0);
}

#[test]
fn sgis_leave_as_signals_by_affinity() {
    use emu_cpu::isa::{Isa, Received};
    use emu_cpu::port::Target;
    use emu_cpu::wait::Signal;
    let sgi = SysReg::new(3, 0, 12, 11, 5);
    let mut world = World::new();
    let several = 1 << 16 | 5 << 24 | 0b101;
    let ranged = 1 << 16 | 5 << 24 | 1 << 44 | 0b110;
    for value in [several, 1 << 16 | 5 << 24 | 0b10, 1 << 40 | 6 << 24, 5 << 24] {
        world.run(&Msr { reg: sgi, value }).unwrap();
    }
    let signal = |vector, logical| Signal::Interrupt { vector, level: false, logical };
    let expected = [
        (Target::Match(several), signal(5, Some(several)), false),
        (Target::ArchId(0x101), signal(5, None), false),
        (Target::AllButSelf, signal(6, None), false),
    ];
    assert_eq!(world.port.signals, expected);
    // This cpu is 0.0.1.2.
    let now = emu_sim::SimTime::ZERO;
    assert_eq!(world.cpu.receive(signal(5, Some(ranged)), now), Received::Ignored);
    assert_eq!(world.cpu.receive(signal(5, Some(several)), now), Received::Accepted);
    assert_eq!(world.cpu.receive(signal(5, None), now), Received::Merged);
}

#[test]
fn the_own_redistributor_answers_in_memory() {
    let mut world = World::new();
    world.cpu.sys[Cell::SctlrEl1] &= !1;
    world.cpu.registers_changed();
    assert_eq!(world.run(&read(GIC_FRAME + 8, 8)), Ok(0x102 << 32 | 2 << 8 | 1 << 4));
    world.run(&write(GIC_FRAME + 0x1_0100, 4, 0xf0)).unwrap();
    assert_eq!(world.run(&read(GIC_FRAME + 0x1_0180, 4)), Ok(0xf0));
    assert!(world.port.device_log.is_empty());
    world.run(&read(GIC_FRAME + 0x2_0000, 4)).unwrap();
    assert_eq!(world.port.device_log.len(), 1, "that of another cpu is the machine's");
}

#[test]
fn the_cycle_counter_runs_while_enabled() {
    let pmu = |crm, op2| SysReg::new(3, 3, 9, crm, op2);
    let mut world = World::new();
    let at = emu_sim::SimTime::from_us;
    world.run(&Msr { reg: pmu(12, 0), value: 1 }).unwrap();
    world.port.now = at(1);
    assert_eq!(world.run(&Mrs { reg: pmu(13, 0) }), Ok(0));
    world.port.time_step = emu_sim::SimTime(0);
    world.run(&Msr { reg: pmu(12, 1), value: 1 << 31 }).unwrap();
    world.port.now = at(3);
    assert_eq!(world.run(&Mrs { reg: pmu(13, 0) }), Ok(4_000 - 2));
}
