//! Loads of segment registers: descriptors against registers and privileges.

use emu_x86::defs::vector;
use emu_x86::state::SegReg;

use crate::world::{CODE, End, FREE, KERNEL_CS, KERNEL_DS, TSS_SELECTOR, World, descriptor};

/// mov Sreg, ax; hlt
fn load(seg: SegReg, selector: u16, rights: u16, user: bool) -> (World, End) {
    let code = [0x8e, 0xc0 | (seg as u8) << 3, 0xf4];
    let mut world = World::long(&code);
    if user {
        world = world.user(&code);
    }
    world.set_descriptor(FREE, descriptor(0x1234_5000, 0xf_ffff, rights));
    world.cpu.state.gpr[0] = u64::from(selector);
    let end = world.run();
    (world, end)
}

const DATA: u16 = 0xc093;
const READ_ONLY: u16 = 0xc091;
const CODE_READABLE: u16 = 0xc09b;
const CODE_ONLY: u16 = 0xc099;
const CONFORMING: u16 = 0xc09f;
const ABSENT: u16 = 0xc013;
const DPL3: u16 = 0x60;

#[test]
fn descriptor_loads_follow_the_table() {
    let fine = None;
    let gp = Some((vector::GP, FREE));
    let np = Some((vector::NP, FREE));
    let ss = Some((vector::SS, FREE));
    // Register, selector, rights, from CPL 3, fault.
    let table = [
        (SegReg::Ds, FREE, DATA, false, fine),
        (SegReg::Ds, FREE, READ_ONLY, false, fine),
        (SegReg::Ds, FREE, CODE_READABLE, false, fine),
        (SegReg::Ds, FREE, CODE_ONLY, false, gp),
        (SegReg::Ds, FREE, 0x0089, false, gp),
        (SegReg::Ds, FREE, ABSENT, false, np),
        (SegReg::Ds, FREE | 3, DATA, false, gp),
        (SegReg::Ds, FREE | 3, DATA | DPL3, true, fine),
        (SegReg::Ds, FREE | 3, DATA, true, gp),
        (SegReg::Ds, FREE | 3, CONFORMING, true, fine),
        (SegReg::Es, FREE | 3, CODE_READABLE, true, gp),
        (SegReg::Fs, FREE | 4, DATA, false, Some((vector::GP, FREE | 4))),
        (SegReg::Gs, 0xf00, DATA, false, Some((vector::GP, 0xf00))),
        (SegReg::Ds, 0, DATA, false, fine),
        (SegReg::Ds, 3, DATA, true, fine),
        (SegReg::Ss, FREE, DATA, false, fine),
        (SegReg::Ss, FREE, READ_ONLY, false, gp),
        (SegReg::Ss, FREE, CODE_READABLE, false, gp),
        (SegReg::Ss, FREE, ABSENT, false, ss),
        (SegReg::Ss, FREE | 3, DATA, false, gp),
        (SegReg::Ss, FREE, DATA | DPL3, false, gp),
        (SegReg::Ss, FREE | 3, DATA | DPL3, true, fine),
        (SegReg::Ss, 0, DATA, false, fine),
        (SegReg::Ss, 3, DATA, false, Some((vector::GP, 0))),
        (SegReg::Ss, 3, DATA, true, Some((vector::GP, 0))),
    ];
    for (seg, selector, rights, user, fault) in table {
        let (world, end) = load(seg, selector, rights, user);
        let what = format!("{seg:?} {selector:#x} {rights:#x} user {user}");
        match fault {
            // HLT faults for users, behind the load.
            None if user => {
                assert_eq!(end, End::Handler(vector::GP), "{what}");
                assert_eq!(world.frame::<2>()[1] & 0xfff, 2, "{what}");
            }
            None => assert_eq!(end, End::Halt(CODE + 2), "{what}"),
            Some((number, code)) => {
                assert_eq!(end, End::Handler(number), "{what}");
                let [pushed, rip] = world.frame();
                assert_eq!((pushed, rip & 0xfff), (u64::from(code), 0), "{what}");
            }
        }
    }
}

#[test]
fn a_load_keeps_base_limit_and_marks_the_descriptor() {
    let (world, _) = load(SegReg::Fs, FREE, 0xc092, false);
    let fs = world.cpu.state.seg[SegReg::Fs as usize];
    assert_eq!((fs.selector, fs.base, fs.limit), (FREE, 0x1234_5000, u32::MAX));
    assert_eq!(fs.rights & 0xff, 0x93);
    assert_eq!(world.get(crate::world::GDT + u64::from(FREE)) >> 40 & 0xff, 0x93);
}

#[test]
fn loads_to_cs_are_no_instruction() {
    let (_, end) = load(SegReg::Cs, KERNEL_CS, DATA, false);
    assert_eq!(end, End::Handler(vector::UD));
}

#[test]
fn the_task_register_marks_its_segment_busy() {
    // ltr ax; hlt, twice.
    let mut world = World::long(&[0x0f, 0x00, 0xd8, 0x0f, 0x00, 0xd8, 0xf4]);
    world.cpu.state.gpr[0] = u64::from(TSS_SELECTOR);
    assert_eq!(world.run(), End::Handler(vector::GP), "busy the second time");
    let [code, rip] = world.frame();
    assert_eq!((code, rip), (u64::from(TSS_SELECTOR), CODE + 3));
    assert_eq!(world.cpu.state.tr.rights & 0xf, 11);
}

#[test]
fn mov_ss_holds_interrupts_back_for_one_instruction() {
    use emu_cpu::isa::Isa;
    use emu_cpu::wait::Signal;
    use emu_sim::SimTime;
    // mov ss, ax; nop; nop
    let mut world = World::long(&[0x8e, 0xd0, 0x90, 0x90, 0xf4]);
    world.cpu.state.gpr[0] = u64::from(KERNEL_DS);
    world.step();
    world.cpu.receive(Signal::Nmi, SimTime::ZERO);
    assert_eq!(world.run(), End::Handler(vector::NMI));
    assert_eq!(world.frame::<1>()[0], CODE + 3);
}

#[test]
fn lar_lsl_verr_verw_answer_by_zf() {
    // Bytes, rights, ZF.
    let lar: &[u8] = &[0x0f, 0x02, 0xd8, 0xf4];
    let lsl: &[u8] = &[0x0f, 0x03, 0xd8, 0xf4];
    let verr: &[u8] = &[0x0f, 0x00, 0xe0, 0xf4];
    let verw: &[u8] = &[0x0f, 0x00, 0xe8, 0xf4];
    let table = [
        (lar, DATA, Some(0x00c0_9300)),
        (lsl, DATA, Some(0xffff_ffff)),
        (lar, 0x008e, None),
        (lar, 0x0089, Some(0x0000_8900)),
        (verr, READ_ONLY, Some(0)),
        (verr, CODE_ONLY, None),
        (verw, READ_ONLY, None),
        (verw, DATA, Some(0)),
    ];
    for (code, rights, expected) in table {
        let mut world = World::long(code);
        let limit = if rights & 0x8000 != 0 { 0xf_ffff } else { 0 };
        world.set_descriptor(FREE, descriptor(0, limit, rights));
        world.cpu.state.gpr[0] = u64::from(FREE);
        assert_eq!(world.run(), End::Halt(CODE + 3));
        let zf = world.cpu.state.rflags >> 6 & 1 != 0;
        assert_eq!(zf, expected.is_some(), "{code:x?} {rights:#x}");
        if let Some(value) = expected {
            // LAR shows the limit's bits 19:16 too.
            let mask = if code[1] == 2 { 0xf0ff00 } else { u64::MAX };
            assert_eq!(world.cpu.state.gpr[3] & mask, value, "{code:x?} {rights:#x}");
        }
    }
}
