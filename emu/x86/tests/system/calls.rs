//! SYSCALL, SYSRET, IRET, SWAPGS, far calls.

use emu_x86::defs::{Vendor, efer, rflags, vector};
use emu_x86::state::{SegReg, gpr};

use crate::world::{
    CODE, End, KERNEL_CS, KERNEL_DS, STACK, USER_CODE, USER_CS, USER_CS32, USER_DS, USER_STACK,
    World, config,
};

const KERNEL_ENTRY: u64 = CODE + 0x100;
const SYSCALL: [u8; 2] = [0x0f, 0x05];

fn world(vendor: Vendor, user_code: &[u8]) -> World {
    let mut world = World::long_with(config(vendor), &[]).user(user_code);
    let state = &mut world.cpu.state;
    // SYSRET: CS 0x28 (64-bit), SS 0x20; 32-bit CS 0x18.
    state.star = u64::from(KERNEL_CS) << 32 | u64::from(USER_CS32 & !3) << 48;
    state.lstar = KERNEL_ENTRY;
    state.fmask = rflags::IF | rflags::DF;
    state.rflags |= rflags::IF | rflags::DF | rflags::CF;
    world
}

#[test]
fn syscall_saves_rip_and_flags_and_goes_to_lstar() {
    let mut world = world(Vendor::Intel, &SYSCALL);
    world.port.put(KERNEL_ENTRY, &[0xf4]);
    assert_eq!(world.run(), End::Halt(KERNEL_ENTRY));
    let state = &world.cpu.state;
    assert_eq!(state.gpr[gpr::RCX], USER_CODE + 2);
    assert_eq!(state.gpr[11], rflags::FIXED | rflags::IF | rflags::DF | rflags::CF);
    assert_eq!(state.rflags, rflags::FIXED | rflags::CF);
    assert_eq!(state.gpr[gpr::RSP], USER_STACK, "RSP is left to software");
    let selector = |seg: SegReg| state.seg[seg as usize].selector;
    assert_eq!((selector(SegReg::Cs), selector(SegReg::Ss)), (KERNEL_CS, KERNEL_DS));
    assert_eq!(world.cpu.cpl, 0);
}

#[test]
fn sysret_goes_back_to_where_syscall_was() {
    // Kernel: sysretq. User: syscall; ud2.
    let mut world = world(Vendor::Intel, &[0x0f, 0x05, 0x0f, 0x0b]);
    world.port.put(KERNEL_ENTRY, &[0x48, 0x0f, 0x07]);
    assert_eq!(world.run(), End::Handler(vector::UD));
    let [rip, cs, flags, rsp, ss] = world.frame();
    assert_eq!((rip, cs, ss), (USER_CODE + 2, u64::from(USER_CS), u64::from(USER_DS)));
    assert_eq!(
        flags & (rflags::IF | rflags::DF | rflags::CF),
        rflags::IF | rflags::DF | rflags::CF
    );
    assert_eq!(rsp, USER_STACK);
}

#[test]
fn without_sce_and_above_cpl_0_they_fault() {
    let mut plain = world(Vendor::Intel, &SYSCALL);
    plain.cpu.state.efer &= !efer::SCE;
    assert_eq!(plain.run(), End::Handler(vector::UD));
    let mut from_user = world(Vendor::Intel, &[0x48, 0x0f, 0x07]);
    assert_eq!(from_user.run(), End::Handler(vector::GP));
}

#[test]
fn a_bad_return_address_faults_here_on_intel_and_there_on_amd() {
    for (vendor, cpl) in [(Vendor::Intel, 0), (Vendor::Amd, 3)] {
        let mut world = world(vendor, &SYSCALL);
        // mov rcx, 1 << 47 by bts; sysretq
        world.port.put(KERNEL_ENTRY, &[0x48, 0x0f, 0xba, 0xe9, 47, 0x48, 0x0f, 0x07]);
        world.cpu.state.gpr[gpr::RSP] = USER_STACK;
        assert_eq!(world.run(), End::Handler(vector::GP), "{vendor:?}");
        let [_, _, cs] = world.frame();
        assert_eq!(cs & 3, cpl, "{vendor:?}");
    }
}

#[test]
fn swapgs_exchanges_bases_at_cpl_0_only() {
    let mut world = World::long(&[0x0f, 0x01, 0xf8, 0xf4]);
    world.cpu.state.kernel_gs_base = 0x1234_0000;
    world.cpu.state.seg[SegReg::Gs as usize].base = 0x5678_0000;
    assert_eq!(world.run(), End::Halt(CODE + 3));
    assert_eq!(world.cpu.state.seg[SegReg::Gs as usize].base, 0x1234_0000);
    assert_eq!(world.cpu.state.kernel_gs_base, 0x5678_0000);
    let mut world = World::long(&[]).user(&[0x0f, 0x01, 0xf8]);
    assert_eq!(world.run(), End::Handler(vector::GP));
}

/// Runs IRETQ at CPL 0 with a frame.
fn iret(frame: [u64; 5]) -> (World, End) {
    let mut world = World::long(&[0x48, 0xcf]).user(&[0x0f, 0x0b]);
    let user = world.clone();
    world = World::long(&[0x48, 0xcf]);
    world.port.memory = user.port.memory;
    world.cpu.state.gpr[gpr::RSP] = STACK - 40;
    for (i, word) in frame.into_iter().enumerate() {
        world.put(STACK - 40 + 8 * i as u64, word);
    }
    let end = world.run();
    (world, end)
}

#[test]
fn iret_goes_to_an_outer_level_with_its_stack() {
    let flags = rflags::FIXED | rflags::IF | 3 << 12;
    let (world, end) =
        iret([USER_CODE, u64::from(USER_CS), flags, USER_STACK - 8, u64::from(USER_DS)]);
    assert_eq!(end, End::Handler(vector::UD));
    let [rip, cs, pushed, rsp, ss] = world.frame();
    assert_eq!((rip, cs, ss), (USER_CODE, u64::from(USER_CS), u64::from(USER_DS)));
    assert_eq!(pushed & !rflags::RF, flags);
    assert_eq!(rsp, USER_STACK - 8);
    assert_eq!(world.cpu.state.seg[SegReg::Ds as usize].rights, 0, "DPL 0 data became null");
}

#[test]
fn iret_checks_what_it_loads() {
    let good = [USER_CODE, u64::from(USER_CS), 2, USER_STACK, u64::from(USER_DS)];
    let with = |i: usize, value: u64| {
        let mut frame = good;
        frame[i] = value;
        frame
    };
    // Frame, vector, error code.
    let table = [
        (with(1, 0), vector::GP, 0),
        (with(1, u64::from(KERNEL_DS)), vector::GP, u64::from(KERNEL_DS)),
        (with(1, u64::from(USER_CS & !3)), vector::GP, u64::from(USER_CS & !3)),
        (with(1, 0xf8 | 3), vector::GP, 0xf8),
        (with(4, 3), vector::GP, 0),
        (with(4, u64::from(KERNEL_DS)), vector::GP, u64::from(KERNEL_DS)),
        (with(4, u64::from(USER_CS)), vector::GP, u64::from(USER_CS & !3)),
        (with(0, 1 << 47), vector::GP, 0),
    ];
    for (frame, number, code) in table {
        let (world, end) = iret(frame);
        assert_eq!(end, End::Handler(number), "{frame:x?}");
        let [pushed, rip] = world.frame();
        assert_eq!((pushed, rip), (code, CODE), "{frame:x?}");
    }
}

#[test]
fn iret_to_the_same_level_may_load_a_null_ss() {
    let (world, end) = iret([CODE + 0x40, u64::from(KERNEL_CS), 2, STACK - 0x100, 0]);
    assert_eq!(end, End::Running, "runs zeroes: add [rax],al");
    assert_eq!(world.cpu.state.seg[SegReg::Ss as usize].selector, 0);
    assert_eq!(world.cpu.state.gpr[gpr::RSP], STACK - 0x100);
}

#[test]
fn far_calls_come_back() {
    // call far [CODE + 0x80] (m16:64); hlt. At CODE + 0x100: retfq.
    let mut code = vec![0x48, 0xff, 0x1c, 0x25];
    code.extend((CODE as u32 + 0x80).to_le_bytes());
    code.push(0xf4);
    let mut world = World::long(&code);
    world.put(CODE + 0x80, CODE + 0x100);
    world.put(CODE + 0x88, u64::from(KERNEL_CS));
    world.port.put(CODE + 0x100, &[0x48, 0xcb]);
    assert_eq!(world.run(), End::Halt(CODE + 8));
    assert_eq!(world.cpu.state.gpr[gpr::RSP], STACK);
    assert_eq!(world.get(STACK - 8), u64::from(KERNEL_CS));
    assert_eq!(world.get(STACK - 16), CODE + 8);
}

#[test]
fn compatibility_mode_is_reached_by_iret_and_left_by_a_fault() {
    let (world, end) =
        iret([USER_CODE, u64::from(USER_CS32), 2, USER_STACK - 8, u64::from(USER_DS)]);
    assert_eq!(end, End::Handler(vector::UD));
    let [rip, cs] = world.frame();
    assert_eq!((rip, cs), (USER_CODE, u64::from(USER_CS32)));
    assert_eq!(world.cpu.bits(), 64);
}
