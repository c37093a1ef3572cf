//! Exception entry and return, interrupts.

use emu_arm64::code::CodeCache;
use emu_arm64::ctx::{Call, Next};
use emu_arm64::defs::{Features, hcr, sctlr, spsr};
use emu_arm64::sysreg::Cell;
use emu_cpu::isa::{Flow, Isa};
use emu_cpu::wait::Signal;

use crate::world::*;

const PC: u64 = PAGE + 0x20;

fn step(world: &mut World) -> Flow {
    world.cpu.step(&mut CodeCache::default(), &mut world.port).expect("flat memory")
}

/// A world whose page can be executed at EL1 and EL0.
fn executable(entry_level: u8, el: u8) -> World {
    let mut world = World::with(Features::all(), entry_level);
    world.set_page(PAGE | PAGE_BITS & !(3 << 53) | if el == 0 { 1 << 6 } else { 0 });
    world.at_level(el);
    world.cpu.state.pc = PC;
    world.cpu.state.pstate.daif = 0;
    world
}

#[test]
fn entry_goes_to_the_vector_of_where_it_came_from() {
    // EL, SPSel, HCR; vector, syndrome: an undefined word.
    let cases = [
        (1, 1, true, 0, VECTORS + 0x200),
        (1, 1, false, 0, VECTORS),
        (1, 0, false, 0, VECTORS + 0x400),
        (2, 1, true, hcr::RW, VECTORS + 0x200),
        (2, 0, false, hcr::RW | hcr::TGE, VECTORS_EL2 + 0x400),
        (2, 0, false, hcr::RW, VECTORS + 0x400),
    ];
    for (entry_level, el, spsel, hcr, vector) in cases {
        let mut world = executable(entry_level, el);
        world.cpu.state.pstate.spsel = spsel;
        world.cpu.state.pstate.nzcv = 0xa000_0000;
        world.cpu.sys[Cell::HcrEl2] = hcr;
        let before = world.cpu.state.pstate.to_spsr();
        step(&mut world);
        assert_eq!(world.cpu.state.pc, PC, "noted");
        step(&mut world);
        assert_eq!(world.cpu.state.pc, vector, "EL{el} SPSel {spsel} HCR {hcr:#x}");
        let to = if vector >= VECTORS_EL2 { 2 } else { 1 };
        let state = &world.cpu.state;
        assert_eq!((state.elr[to], state.spsr[to]), (PC, before));
        assert_eq!(usize::from(state.pstate.el), to);
        assert_eq!((state.pstate.daif, state.pstate.spsel), (0x3c0, true));
        let esr = if to == 2 { Cell::EsrEl2 } else { Cell::EsrEl1 };
        assert_eq!(world.cpu.sys[esr], 1 << 25);
    }
}

#[test]
fn aborts_say_which_level_they_came_from() {
    for (el, class) in [(1, 0x21), (0, 0x20)] {
        let mut world = executable(1, el);
        world.cpu.state.pc = 0x40_0000;
        step(&mut world);
        step(&mut world);
        assert_eq!(world.cpu.sys[Cell::EsrEl1], class << 26 | 1 << 25 | 6, "EL{el}");
        assert_eq!(world.cpu.sys[Cell::FarEl1], 0x40_0000);
    }
    let mut world = executable(1, 1);
    world.cpu.state.pc = PC + 2;
    step(&mut world);
    step(&mut world);
    assert_eq!(world.cpu.sys[Cell::EsrEl1], 0x22 << 26 | 1 << 25);
}

#[test]
fn entry_sets_pan_unless_span_keeps_it() {
    for (span, pan_before, pan) in
        [(0, false, true), (0, true, true), (sctlr::SPAN, false, false), (sctlr::SPAN, true, true)]
    {
        let mut world = executable(1, 1);
        world.cpu.sys[Cell::SctlrEl1] = world.cpu.sys[Cell::SctlrEl1] & !sctlr::SPAN | span;
        world.cpu.state.pstate.pan = pan_before;
        step(&mut world);
        step(&mut world);
        assert_eq!(world.cpu.state.pstate.pan, pan, "SPAN {span:#x} before {pan_before}");
    }
}

#[test]
fn calls_make_their_exceptions() {
    // Call, EL, EL2 there; class, level, is after; None for undefined.
    let cases = [
        (Call::Svc(7), 0, 1, Some((0x15, 1, true))),
        (Call::Svc(7), 1, 1, Some((0x15, 1, true))),
        (Call::Brk(7), 1, 1, Some((0x3c, 1, false))),
        (Call::Hvc(7), 1, 2, Some((0x16, 2, true))),
        (Call::Hvc(7), 0, 2, None),
        (Call::Smc(7), 0, 1, None),
        (Call::Eret, 0, 1, None),
    ];
    for (call, el, entry_level, expected) in cases {
        let mut world = World::with(Features::all(), entry_level);
        world.at_level(el);
        let e = world.run(&Do { call }).unwrap_err();
        match expected {
            Some((class, level, is_after)) => {
                assert_eq!(
                    (e.class as u32, e.iss, e.level, e.is_after),
                    (class, 7, level, is_after)
                );
            }
            None => assert_eq!(e.class as u32, 0, "{call:?}"),
        }
    }
}

#[test]
fn return_restores_what_was_saved() {
    // Level before, SPSR; level after, legal.
    let cases = [
        (1, 0b0000, 0, true),
        (1, 0b0100, 1, true),
        (1, 0b0101, 1, true),
        (1, 0b1001, 1, false),
        (1, 0b0001, 1, false),
        (1, 0b0110, 1, false),
        (1, 0b1_0000, 1, false),
        (1, 0b1101, 1, false),
        (2, 0b1001, 2, true),
        (2, 0b0101, 1, true),
    ];
    for (el, mode, to, is_legal) in cases {
        let mut world = World::with(Features::all(), 2);
        world.at_level(el);
        world.cpu.sys[Cell::HcrEl2] = hcr::RW;
        world.cpu.state.pstate.daif = 0x3c0;
        let at = usize::from(el);
        world.cpu.state.spsr[at] = mode | spsr::N | spsr::I | spsr::PAN;
        world.cpu.state.elr[at] = PC;
        assert_eq!(world.run(&Do { call: Call::Eret }), Ok(Next::Jump(PC)));
        let pstate = world.cpu.state.pstate;
        assert_eq!(pstate.el, to, "{el} {mode:#b}");
        assert_eq!(pstate.il, !is_legal, "{el} {mode:#b}");
        assert_eq!((pstate.nzcv, pstate.daif), (1 << 31, 1 << 7), "flags and masks either way");
        assert_eq!(pstate.spsel, if is_legal { mode & 1 != 0 } else { true });
        assert_eq!(pstate.pan, is_legal);
    }
}

#[test]
fn an_illegal_state_faults_at_the_next_instruction() {
    let mut world = executable(1, 1);
    world.cpu.state.pstate.il = true;
    world.cpu.registers_changed();
    step(&mut world);
    step(&mut world);
    assert_eq!(world.cpu.sys[Cell::EsrEl1], 0x0e << 26 | 1 << 25);
    assert!(world.cpu.state.spsr[1] & spsr::IL != 0 && !world.cpu.state.pstate.il);
}

/// Opens the GIC and makes SGI 3 pending.
fn interrupt(world: &mut World, group: u64) {
    let redist = &mut world.cpu.gic.redistributor;
    redist.write(0x14, 4, 0);
    redist.write(0x1_0080, 4, if group == 1 { u64::MAX } else { 0 });
    redist.write(0x1_0100, 4, u64::MAX);
    world.cpu.gic.write(emu_arm64::gic::IccReg::Igrpen(group as u8), 1);
    world.cpu.gic.write(emu_arm64::gic::IccReg::Pmr, 0xf0);
    let signal = Signal::Interrupt { vector: 3, level: false, logical: None };
    world.cpu.receive(signal, emu_sim::SimTime::ZERO);
}

#[test]
fn interrupts_go_where_they_are_routed() {
    // EL2 there, EL, HCR, DAIF, group: vector, or none.
    let cases = [
        (1, 1, 0, 0, 1, Some(VECTORS + 0x280)),
        (1, 1, 0, spsr::I, 1, None),
        (1, 1, 0, spsr::F, 1, Some(VECTORS + 0x280)),
        (1, 1, 0, spsr::I, 0, Some(VECTORS + 0x300)),
        (1, 1, 0, spsr::F, 0, None),
        (1, 0, 0, 0, 1, Some(VECTORS + 0x480)),
        (2, 1, hcr::IMO, spsr::I, 1, Some(VECTORS_EL2 + 0x480)),
        (2, 2, 0, 0, 1, None),
        (2, 2, hcr::IMO, 0, 1, Some(VECTORS_EL2 + 0x280)),
        (2, 2, hcr::IMO, spsr::I, 1, None),
    ];
    for (entry_level, el, hcr, daif, group, vector) in cases {
        let mut world = executable(entry_level, el);
        world.cpu.sys[Cell::HcrEl2] = hcr | hcr::RW;
        world.cpu.state.pstate.daif = daif as u32;
        interrupt(&mut world, group);
        assert_eq!(world.cpu.interrupt_ready(), vector.is_some(), "{el} {hcr:#x} {daif:#x}");
        if let Some(vector) = vector {
            step(&mut world);
            assert_eq!(world.cpu.state.pc, vector, "{el} {hcr:#x} {daif:#x}");
            let to = usize::from(world.cpu.state.pstate.el);
            assert_eq!(world.cpu.state.elr[to], PC);
            assert!(!world.cpu.interrupt_ready(), "masked in its handler");
        }
    }
}

#[test]
fn an_exception_that_is_noted_comes_before_an_interrupt() {
    let mut world = executable(1, 1);
    step(&mut world);
    interrupt(&mut world, 1);
    step(&mut world);
    assert_eq!(world.cpu.state.pc, VECTORS + 0x200);
}
