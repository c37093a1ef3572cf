//! Walks, rights, access flag and dirty state, alignment: each fault by table.

use emu_arm64::code::CodeCache;
use emu_arm64::ctx::Acc;
use emu_arm64::defs::{Ec, Features, SysReg, descriptor, fsc, tcr};
use emu_arm64::sysreg::Cell;
use emu_cpu::flat::FlakyPort;
use emu_cpu::isa::Isa;
use emu_cpu::port::Target;
use emu_sim::SimTime;

use crate::world::*;

const WNR: u32 = 1 << 6;
const CM: u32 = 1 << 8;

/// ISS of a fault of a body, or 0.
fn iss<T: PartialEq + std::fmt::Debug>(world: &mut World, body: &impl Body<T>) -> u32 {
    match world.run(body) {
        Ok(_) => 0,
        Err(e) => {
            assert!(matches!(e.class, Ec::DataAbortLower | Ec::InstructionAbortLower), "{e:?}");
            e.iss | 1 << 31
        }
    }
}

const FAULT: u32 = 1 << 31;

#[test]
fn each_level_faults_with_its_number() {
    let table = PAGE_BITS;
    // Table, entry, status of a read at PAGE.
    let cases = [
        (L0, 0, fsc::TRANSLATION),
        (L0, 1, fsc::TRANSLATION),
        (L1, 0, fsc::TRANSLATION | 1),
        (L2, 0, fsc::TRANSLATION | 2),
        (L3 + 0x80, 0, fsc::TRANSLATION | 3),
        (L3 + 0x80, table & !2, fsc::TRANSLATION | 3),
        (L0, 1 << 40 | 3, fsc::ADDRESS_SIZE),
        (L1, 1 << 41 | 3, fsc::ADDRESS_SIZE | 1),
        (L2, 1 << 47 | 3, fsc::ADDRESS_SIZE | 2),
        (L3 + 0x80, 1 << 40 | table, fsc::ADDRESS_SIZE | 3),
        (L1, table & !2 & !descriptor::AF, fsc::ACCESS_FLAG | 1),
        (L2, table & !2 & !descriptor::AF, fsc::ACCESS_FLAG | 2),
        (L3 + 0x80, table & !descriptor::AF, fsc::ACCESS_FLAG | 3),
    ];
    for (at, entry, status) in cases {
        let mut world = World::new();
        world.put(at, entry);
        assert_eq!(iss(&mut world, &read(PAGE, 8)), FAULT | status, "{at:#x} {entry:#x}");
        assert_eq!(iss(&mut world, &write(PAGE, 8, 0)), FAULT | WNR | status, "{at:#x} write");
        assert_eq!(iss(&mut world, &Fetch { va: PAGE }), FAULT | status, "{at:#x} fetch");
    }
}

#[test]
fn addresses_outside_both_ranges_fault_at_level_0() {
    for (va, change) in [
        (1 << 48, 0),
        (0x8000_0000_0000_0000, 0),
        (HIGH - 1, 0),
        (PAGE, tcr::EPD0),
        (HIGH | PAGE, tcr::EPD1),
    ] {
        let mut world = World::new();
        world.cpu.sys[Cell::TcrEl1] |= change;
        assert_eq!(iss(&mut world, &read(va, 1)), FAULT | fsc::TRANSLATION, "{va:#x}");
        assert_eq!(world.run(&read(va, 1)).unwrap_err().far, Some(va));
    }
}

#[test]
fn both_ranges_blocks_and_short_tables_translate() {
    let mut world = World::new();
    world.put(PAGE + 0x18, 77);
    assert_eq!(world.run(&read(PAGE + 0x18, 8)), Ok(77));
    assert_eq!(world.run(&read(HIGH + PAGE + 0x18, 8)), Ok(77));
    // A block of 2 MiB, then one of 1 GiB.
    world.put(L2, PAGE_BITS & !2);
    world.cpu.registers_changed();
    assert_eq!(world.run(&read(PAGE + 0x18, 8)), Ok(77));
    world.put(L1, PAGE_BITS & !2);
    world.cpu.registers_changed();
    assert_eq!(world.run(&read(PAGE + 0x18, 8)), Ok(77));
    // 39 bits start at level 1, 25 bits at level 3... of 2 entries: 30 bits at level 2.
    let mut world = World::new();
    world.put(PAGE + 0x18, 77);
    for (tsz, root) in [(25, L1), (34, L2)] {
        world.cpu.sys[Cell::TcrEl1] = tsz | 16 << 16 | 2 << 32;
        world.cpu.sys[Cell::Ttbr0El1] = root;
        world.cpu.registers_changed();
        assert_eq!(world.run(&read(PAGE + 0x18, 8)), Ok(77), "{tsz}");
        assert_eq!(iss(&mut world, &read(1 << (64 - tsz), 8)), FAULT | fsc::TRANSLATION);
    }
}

#[test]
fn a_tag_is_ignored_where_the_control_says_so() {
    let tagged = 0x5a << 56 | PAGE;
    let tagged_high = 0x5a << 56 | (HIGH << 8 >> 8) | PAGE;
    for (va, bit) in [(tagged, tcr::TBI0), (tagged_high, tcr::TBI1)] {
        let mut world = World::new();
        assert_eq!(iss(&mut world, &read(va, 8)), FAULT | fsc::TRANSLATION, "{va:#x}");
        world.cpu.sys[Cell::TcrEl1] |= bit;
        assert_eq!(world.run(&read(va, 8)), Ok(0), "{va:#x}");
        world.set_page(0);
        assert_eq!(world.run(&read(va, 8)).unwrap_err().far, Some(va), "FAR keeps the tag");
    }
}

#[test]
fn rights_by_level_and_control() {
    let user = descriptor::USER;
    let read_only = descriptor::READ_ONLY;
    let exec = !(descriptor::UXN | descriptor::PXN);
    let page = PAGE | PAGE_BITS;
    // EL, descriptor, PAN; read, write, fetch are allowed.
    let cases = [
        (1, page, false, [true, true, false]),
        (1, page | read_only, false, [true, false, false]),
        (1, page & exec, false, [true, true, true]),
        (1, page & exec | user, false, [true, true, false]),
        (1, page & exec | user | read_only, false, [true, false, true]),
        (1, page | user, true, [false, false, false]),
        (1, page, true, [true, true, false]),
        (0, page & exec, false, [false, false, true]),
        (0, page & exec | user, false, [true, true, true]),
        (0, page | user | read_only, false, [true, false, false]),
    ];
    for (el, descriptor, pan, allowed) in cases {
        let mut world = World::new();
        world.set_page(descriptor);
        world.at_level(el);
        world.cpu.state.pstate.pan = pan;
        let denied = FAULT | fsc::PERMISSION | 3;
        let expected = |n: usize, wnr| if allowed[n] { 0 } else { denied | wnr };
        assert_eq!(iss(&mut world, &read(PAGE, 4)), expected(0, 0), "{el} {descriptor:#x} r");
        assert_eq!(iss(&mut world, &write(PAGE, 4, 1)), expected(1, WNR), "{el} {descriptor:#x} w");
        assert_eq!(iss(&mut world, &Fetch { va: PAGE }), expected(2, 0), "{el} {descriptor:#x} x");
    }
}

#[test]
fn tables_take_rights_away_unless_switched_off() {
    let user = PAGE | PAGE_BITS & !(descriptor::UXN | descriptor::PXN) | descriptor::USER;
    let cases = [
        (0, descriptor::TABLE_READ_ONLY, [true, false, true]),
        (0, descriptor::TABLE_NO_USER, [false, false, true]),
        (0, descriptor::TABLE_UXN, [true, true, false]),
        (1, descriptor::TABLE_PXN, [true, true, false]),
    ];
    for (el, bits, allowed) in cases {
        for flat in [false, true] {
            let mut world = World::new();
            world.set_page(if el == 1 { user & !descriptor::USER } else { user });
            world.put(L1, L2 | 3 | bits);
            world.at_level(el);
            if flat {
                world.cpu.sys[Cell::TcrEl1] |= tcr::HPD0;
            }
            let got = [
                iss(&mut world, &read(PAGE, 4)) == 0,
                iss(&mut world, &write(PAGE, 4, 1)) == 0,
                iss(&mut world, &Fetch { va: PAGE }) == 0,
            ];
            assert_eq!(got, if flat { [true; 3] } else { allowed }, "{bits:#x} {flat}");
        }
    }
}

#[test]
fn unprivileged_accesses_have_the_rights_of_el0_unless_overridden() {
    let body = Read { va: PAGE, size: 8, acc: Acc::Unprivileged };
    let mut world = World::new();
    assert_eq!(iss(&mut world, &body), FAULT | fsc::PERMISSION | 3);
    world.set_page(PAGE | PAGE_BITS | descriptor::USER);
    world.cpu.state.pstate.pan = true;
    assert_eq!(iss(&mut world, &body), 0, "PAN does not concern it");
    world.cpu.state.pstate.uao = true;
    assert_eq!(iss(&mut world, &body), FAULT | fsc::PERMISSION | 3, "privileged, so PAN does");
}

#[test]
fn hardware_sets_access_flag_and_dirty_state() {
    let clean = PAGE | PAGE_BITS & !descriptor::AF | descriptor::READ_ONLY | descriptor::DBM;
    let mut world = World::new();
    world.set_page(clean);
    world.cpu.sys[Cell::TcrEl1] |= tcr::HA | tcr::HD;
    assert_eq!(world.run(&read(PAGE, 8)), Ok(0));
    assert_eq!(world.page(), clean | descriptor::AF);
    assert_eq!(world.run(&write(PAGE, 8, 5)), Ok(()));
    assert_eq!(world.page(), (clean | descriptor::AF) & !descriptor::READ_ONLY);
    // Without the feature the control bits mean nothing.
    let mut world = World::with(Features::all() - Features::HAFDBS, 1);
    world.set_page(clean);
    world.cpu.sys[Cell::TcrEl1] |= tcr::HA | tcr::HD;
    assert_eq!(iss(&mut world, &read(PAGE, 8)), FAULT | fsc::ACCESS_FLAG | 3);
    assert_eq!(world.page(), clean);
}

#[test]
fn alignment_by_memory_type_and_control() {
    let device = PAGE | PAGE_BITS | 1 << 2;
    let fault = FAULT | fsc::ALIGNMENT;
    let mut world = World::new();
    assert_eq!(iss(&mut world, &read(PAGE + 1, 8)), 0);
    assert_eq!(iss(&mut world, &read(PAGE + 61, 8)), 0, "over a line");
    assert_eq!(iss(&mut world, &read(PAGE + 0xffd, 8)), 0, "over a page");
    let acquire = |at| Read { va: PAGE + at, size: 8, acc: Acc::Acquire };
    assert_eq!(iss(&mut world, &acquire(1)), 0, "LSE2, inside 16 bytes");
    assert_eq!(iss(&mut world, &acquire(9)), fault, "LSE2, beyond");
    world.cpu.sys[Cell::SctlrEl1] |= 2;
    assert_eq!(iss(&mut world, &read(PAGE + 1, 8)), fault);
    assert_eq!(iss(&mut world, &write(PAGE + 1, 2, 0)), fault | WNR);
    let mut world = World::with(Features::all() - Features::LSE2, 1);
    assert_eq!(iss(&mut world, &acquire(1)), fault);
    world.set_page(device);
    assert_eq!(iss(&mut world, &read(PAGE + 1, 8)), fault);
    assert_eq!(iss(&mut world, &read(PAGE + 8, 8)), 0);
    assert_eq!(iss(&mut world, &Sys { op: SysReg::new(1, 3, 7, 4, 1), x: PAGE }), fault | WNR);
}

#[test]
fn a_store_over_a_page_that_faults_stores_nothing() {
    let mut world = World::new();
    world.put(L3 + 0x88, 0);
    let fault = world.run(&write(PAGE + 0xffc, 8, u64::MAX)).unwrap_err();
    assert_eq!(fault.iss, WNR | fsc::TRANSLATION | 3);
    assert_eq!(fault.far, Some(PAGE + 0x1000));
    assert_eq!(world.port.get(PAGE + 0xffc, 4), 0);
}

#[test]
fn accesses_over_lines_and_wide_ones_keep_their_bytes() {
    let mut world = World::new();
    let value = 0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10;
    for at in [0, 8, 49, 60, 0xff1, 0xfff] {
        world.run(&WriteWide { va: PAGE + at, value }).unwrap();
        assert_eq!(world.port.get(PAGE + at, 16), value, "{at:#x}");
        assert_eq!(world.run(&ReadWide { va: PAGE + at }), Ok(value), "{at:#x}");
        world.run(&write(PAGE + at, 8, 0x1122_3344_5566_7788)).unwrap();
        assert_eq!(world.run(&read(PAGE + at, 8)), Ok(0x1122_3344_5566_7788), "{at:#x}");
    }
}

#[test]
fn devices_get_accesses_and_atomics_fault() {
    let mut world = World::new();
    let va = 0x20_0000 + 0x40;
    world.port.device_value = 0x55aa;
    assert_eq!(world.run(&read(va, 4)), Ok(0x55aa));
    world.run(&write(va, 4, 7)).unwrap();
    let log: Vec<_> = world.port.device_log.iter().map(|a| (a.addr, a.size, a.write)).collect();
    assert_eq!(log, [(DEVICE + 0x40, 4, None), (DEVICE + 0x40, 4, Some(7))]);
    assert_eq!(iss(&mut world, &Add { va, size: 4 }), FAULT | WNR | fsc::EXCLUSIVE);
    assert_eq!(iss(&mut world, &Fetch { va }), FAULT | fsc::PERMISSION | 2);
}

#[test]
fn without_translation_memory_is_flat_and_strict() {
    let mut world = World::new();
    world.cpu.sys[Cell::SctlrEl1] &= !1;
    world.cpu.registers_changed();
    world.put(0x1_8000, 9);
    assert_eq!(world.run(&read(0x1_8000, 8)), Ok(9));
    assert_eq!(iss(&mut world, &read(0x1_8001, 8)), FAULT | fsc::ALIGNMENT);
    assert_eq!(iss(&mut world, &read(1 << 40, 8)), FAULT | fsc::ADDRESS_SIZE);
}

#[test]
fn a_translation_stays_until_it_is_invalidated() {
    let tlbi = |crm, op2| SysReg::new(1, 0, 8, crm, op2);
    // Operation, its operand, whether it drops the page of ASID 1.
    let cases = [
        (tlbi(7, 0), 0, true),
        (tlbi(3, 0), 0, true),
        (tlbi(7, 1), 1 << 48 | PAGE >> 12, true),
        (tlbi(7, 1), 2 << 48 | PAGE >> 12, false),
        (tlbi(7, 3), PAGE >> 12, true),
        (tlbi(7, 3), (PAGE >> 12) + 1, false),
        (tlbi(7, 2), 1 << 48, true),
        (tlbi(7, 2), 2 << 48, false),
        // A range of 2 pages from PAGE - 1.
        (tlbi(6, 3), (PAGE >> 12) - 1, true),
    ];
    for (op, x, drops) in cases {
        let mut world = World::new();
        world.set_page(PAGE | PAGE_BITS | descriptor::NG);
        assert_eq!(iss(&mut world, &read(PAGE, 8)), 0);
        world.put(L3 + (PAGE >> 12) * 8, 0);
        assert_eq!(iss(&mut world, &read(PAGE, 8)), 0, "kept");
        world.run(&Sys { op, x }).unwrap();
        let status = if drops { FAULT | fsc::TRANSLATION | 3 } else { 0 };
        assert_eq!(iss(&mut world, &read(PAGE, 8)), status, "{op:?} {x:#x}");
    }
}

#[test]
fn other_cpus_forget_what_a_shareable_tlbi_names() {
    let tlbi = |crm| Sys { op: SysReg::new(1, 0, 8, crm, 1), x: 1 << 48 | PAGE >> 12 };
    let mut sender = World::new();
    sender.run(&tlbi(7)).unwrap();
    assert_eq!(sender.port.signals, [], "local");
    sender.run(&tlbi(3)).unwrap();
    let [(target, signal, _)] = sender.port.signals[..] else { panic!("one signal") };
    assert_eq!(target, Target::AllButSelf);
    let mut world = World::new();
    world.set_page(PAGE | PAGE_BITS | descriptor::NG);
    world.run(&read(PAGE, 8)).unwrap();
    world.put(L3 + (PAGE >> 12) * 8, 0);
    // A load that has translated and waits goes on with what it has found.
    let load = 0xf940_0001u32; // ldr x1, [x0]
    world.put(0x2_0000, load.into());
    world.put(L3 + 0x20 * 8, 0x2_0000 | PAGE_BITS & !(3 << 53));
    (world.cpu.state.pc, world.cpu.state.x[0]) = (0x2_0000, PAGE);
    let mut flaky = FlakyPort::new(world.port, 1);
    let mut has_waited = false;
    let (cpu, waited) = (&mut world.cpu, &mut has_waited);
    flaky.run(|port| {
        let step = cpu.step(&mut CodeCache::default(), port);
        if step.is_err() && !std::mem::replace(waited, true) {
            cpu.receive(signal, SimTime::ZERO);
        }
        step
    });
    assert!(has_waited, "the schedule makes it wait");
    assert_eq!(world.cpu.state.pc, 0x2_0004, "no fault");
    world.port = flaky.inner;
    assert_eq!(iss(&mut world, &read(PAGE, 8)), FAULT | fsc::TRANSLATION | 3);
}

#[test]
fn address_spaces_do_not_see_each_other() {
    let mut world = World::new();
    world.set_page(PAGE | PAGE_BITS | descriptor::NG);
    let ttbr0 = SysReg::new(3, 0, 2, 0, 0);
    world.run(&read(PAGE, 8)).unwrap();
    world.put(L3 + (PAGE >> 12) * 8, 0);
    world.run(&Msr { reg: ttbr0, value: L0 | 2 << 48 }).unwrap();
    assert_eq!(iss(&mut world, &read(PAGE, 8)), FAULT | fsc::TRANSLATION | 3);
    world.run(&Msr { reg: ttbr0, value: L0 | 1 << 48 }).unwrap();
    assert_eq!(iss(&mut world, &read(PAGE, 8)), 0, "that of ASID 1 is still there");
}

#[test]
fn translation_instructions_fill_par() {
    let at = |op2| SysReg::new(1, 0, 7, 8, op2);
    let cases = [
        (0, PAGE + 0x123, 0xff << 56 | PAGE | 1 << 11 | 3 << 7),
        (2, PAGE, 1 | u64::from(fsc::PERMISSION | 3) << 1 | 1 << 11),
        (0, 1 << 48, 1 | u64::from(fsc::TRANSLATION) << 1 | 1 << 11),
    ];
    for (op2, x, par) in cases {
        let mut world = World::new();
        world.run(&Sys { op: at(op2), x }).unwrap();
        assert_eq!(world.cpu.sys[Cell::ParEl1], par, "{op2} {x:#x}");
    }
}

#[test]
fn cache_maintenance_faults_as_a_write_and_zeroes() {
    let dc = |op1, crm| SysReg::new(1, op1, 7, crm, 1);
    let mut world = World::new();
    world.port.put(PAGE + 0x40, &[0xff; 192]);
    world.run(&Sys { op: dc(3, 4), x: PAGE + 0x85 }).unwrap();
    assert_eq!(world.get(PAGE + 0x78), u64::MAX);
    assert_eq!((world.get(PAGE + 0x80), world.get(PAGE + 0xb8)), (0, 0));
    assert_eq!(world.get(PAGE + 0xc0), u64::MAX);
    world.set_page(0);
    for (op1, crm) in [(3, 5), (3, 10), (3, 11), (3, 12), (3, 14), (0, 6)] {
        let fault = iss(&mut world, &Sys { op: dc(op1, crm), x: PAGE });
        assert_eq!(fault, FAULT | CM | WNR | fsc::TRANSLATION | 3, "{op1} {crm}");
    }
}
