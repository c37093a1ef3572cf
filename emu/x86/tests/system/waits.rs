//! HLT, MONITOR and MWAIT and their kin: what they ask for, when they fall through, what they
//! refuse.

use emu_cpu::isa::{Flow, Isa};
use emu_cpu::wait::{MonitorState, Signal, WaitReason, WaitRequest, WakeCause};
use emu_sim::{PhysAddr, SimTime};
use emu_x86::defs::{Features, Vendor, cr4, rflags, vector};
use emu_x86::state::gpr;

use crate::world::{CODE, End, PAGE, World, config};

const MONITOR: [u8; 3] = [0x0f, 0x01, 0xc8];
const MWAIT: [u8; 3] = [0x0f, 0x01, 0xc9];
const MONITORX: [u8; 3] = [0x0f, 0x01, 0xfa];
const MWAITX: [u8; 3] = [0x0f, 0x01, 0xfb];

fn with_apic(code: &[u8]) -> World {
    let mut world = World::long(code);
    let _ = world.cpu.apic.mmio_write(0xf0, 4, 0x1ff, SimTime::ZERO);
    world.cpu.state.gpr[gpr::RAX] = PAGE + 8;
    world
}

fn code(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// xor eax,eax (the hint of MWAIT).
const HINT0: &[u8] = &[0x31, 0xc0];

#[test]
fn an_armed_monitor_waits_in_the_state_of_the_hint() {
    for (hint, state) in [(0u8, Some(2)), (0x10, Some(3)), (0x20, Some(3)), (0xf0, None)] {
        let mut world = with_apic(&code(&[&MONITOR, &[0xb0, hint], &MWAIT]));
        assert_eq!(world.run(), End::Sleep(WaitReason::Monitor));
        assert_eq!(world.port.monitor, MonitorState::Armed(PhysAddr(PAGE).line()));
        assert_eq!(world.cpu.state.rip, CODE + 8, "the wait ends behind it");
        let mut world = with_apic(&code(&[&MONITOR, &[0xb0, hint], &MWAIT]));
        world.step();
        world.step();
        let request = WaitRequest {
            reason: WaitReason::Monitor,
            state,
            wake_on_masked: false,
            deadline: None,
        };
        assert_eq!(world.step(), Flow::Sleep(request), "hint {hint:#x}");
    }
}

#[test]
fn it_falls_through_without_an_armed_monitor() {
    // Nothing armed; a store to the line in between; a store beside the line does not count.
    let store = |at: u64| {
        let mut bytes = vec![0xc6, 0x04, 0x25];
        bytes.extend((at as u32).to_le_bytes());
        bytes.push(1);
        bytes
    };
    let hlt: &[u8] = &[0xf4];
    for (parts, end) in [
        (code(&[HINT0, &MWAIT, hlt]), End::Halt(CODE + 5)),
        (code(&[&MONITOR, &store(PAGE + 63), HINT0, &MWAIT, hlt]), End::Halt(CODE + 16)),
        (code(&[&MONITOR, &store(PAGE + 64), HINT0, &MWAIT, hlt]), End::Sleep(WaitReason::Monitor)),
        (code(&[&MONITOR, &store(PAGE - 1), HINT0, &MWAIT, hlt]), End::Sleep(WaitReason::Monitor)),
    ] {
        assert_eq!(with_apic(&parts).run(), end);
    }
}

#[test]
fn it_falls_through_once_only() {
    let store: &[u8] = &[0xc6, 0x04, 0x25, 0, 0, 0x10, 0, 1];
    let mut world = with_apic(&code(&[&MONITOR, store, HINT0, &MWAIT, &MWAIT, &[0xf4]]));
    assert_eq!(world.run(), End::Halt(CODE + 19));
    assert_eq!(world.port.monitor, MonitorState::Unarmed);
}

#[test]
fn pending_interrupts_end_it_by_flag_and_extension() {
    // IF, ECX, waits.
    for (flag, ecx, waits) in
        [(true, 0, false), (true, 1, false), (false, 0, true), (false, 1, false)]
    {
        // monitor; xor eax,eax; mov ecx,n; sti or nop; mwait; hlt
        let gate = if flag { 0xfb } else { 0x90 };
        let mut world =
            with_apic(&code(&[&MONITOR, HINT0, &[0xb9, ecx, 0, 0, 0], &[gate], &MWAIT, &[0xf4]]));
        let signal = Signal::Interrupt { vector: 0x40, level: false, logical: None };
        world.cpu.receive(signal, SimTime::ZERO);
        let expected = match (waits, flag) {
            (true, _) => End::Sleep(WaitReason::Monitor),
            (false, true) => End::Handler(0x40),
            (false, false) => End::Halt(CODE + 14),
        };
        assert_eq!(world.run(), expected, "IF {flag} ECX {ecx}");
        if expected == End::Handler(0x40) {
            assert_eq!(world.frame::<1>()[0], CODE + 14, "behind MWAIT");
        }
    }
}

#[test]
fn extensions_that_are_not_there_fault() {
    // Code with ECX in CX, features taken away, exception.
    let gp = End::Handler(vector::GP);
    let ud = End::Handler(vector::UD);
    for (bytes, ecx, without, expected) in [
        (&MONITOR, 1, Features::empty(), gp),
        (&MWAIT, 2, Features::empty(), gp),
        (&MONITORX, 1, Features::empty(), gp),
        (&MWAITX, 4, Features::empty(), gp),
        (&MONITOR, 0, Features::MONITOR, ud),
        (&MWAIT, 0, Features::MONITOR, ud),
        (&MONITORX, 0, Features::MONITORX, ud),
        (&MWAITX, 0, Features::MONITORX, ud),
    ] {
        let mut config = config(Vendor::Amd);
        config.features -= without;
        let mut world = World::long_with(config, bytes);
        world.cpu.state.gpr[gpr::RCX] = ecx;
        world.cpu.state.gpr[gpr::RAX] = PAGE;
        assert_eq!(world.run(), expected, "{bytes:x?} ecx {ecx}");
    }
}

#[test]
fn monitor_faults_as_a_load_does() {
    let mut world = with_apic(&MONITOR);
    world.set_page(0);
    assert_eq!(world.run(), End::Handler(vector::PF));
    assert_eq!(world.cpu.state.cr2, PAGE + 8);
    let mut world = with_apic(&MONITOR);
    world.cpu.state.gpr[gpr::RAX] = 1 << 47;
    assert_eq!(world.run(), End::Handler(vector::GP));
}

#[test]
fn mwaitx_has_a_timer_and_serves_users() {
    // monitorx; xor eax,eax; mov ecx,2; mov ebx,1000; mwaitx
    let bytes = code(&[&MONITORX, HINT0, &[0xb9, 2, 0, 0, 0], &[0xbb, 0xe8, 3, 0, 0], &MWAITX]);
    let mut world = World::long(&[]).user(&bytes);
    world.cpu.state.gpr[gpr::RAX] = crate::world::USER_STACK - 64;
    for _ in 0..4 {
        assert_eq!(world.step(), Flow::Next);
    }
    let Flow::Sleep(request) = world.step() else { panic!("does not wait") };
    // 1000 cycles of 2 GHz after the time that it read.
    assert_eq!(request.deadline, Some(world.port.now + SimTime::from_ns(500)));
    assert!(!request.wake_on_masked);
}

#[test]
fn hlt_waits_unless_an_interrupt_is_due() {
    // sti; hlt with an interrupt pending: the handler returns behind HLT.
    let mut world = with_apic(&[0xfb, 0xf4]);
    let signal = Signal::Interrupt { vector: 0x40, level: false, logical: None };
    world.cpu.receive(signal, SimTime::ZERO);
    assert_eq!(world.run(), End::Handler(0x40));
    assert_eq!(world.frame::<1>()[0], CODE + 2);
    // Masked, it does not end the wait.
    let mut world = with_apic(&[0xf4]);
    world.cpu.receive(signal, SimTime::ZERO);
    let Flow::Sleep(request) = world.step() else { panic!("does not wait") };
    assert_eq!((request.reason, request.state), (WaitReason::Halt, Some(1)));
    assert_eq!(world.cpu.wake_cause(&request), None);
    world.cpu.receive(Signal::Nmi, SimTime::ZERO);
    assert_eq!(world.cpu.wake_cause(&request), Some(WakeCause::Nmi));
    world.cpu.receive(Signal::Init, SimTime::ZERO);
    assert_eq!(world.cpu.wake_cause(&request), Some(WakeCause::Reset));
}

#[test]
fn an_idle_port_sleeps_until_an_interrupt() {
    // mov dx, 0x414; in al, dx; hlt
    let mut world = with_apic(&[0x66, 0xba, 0x14, 0x04, 0xec, 0xf4]);
    world.step();
    let Flow::Sleep(request) = world.step() else { panic!("does not wait") };
    assert_eq!((request.reason, request.state), (WaitReason::Power, Some(4)));
    assert_eq!(world.cpu.wake_cause(&request), None);
    let signal = Signal::Interrupt { vector: 0x40, level: false, logical: None };
    world.cpu.receive(signal, SimTime::ZERO);
    assert_eq!(world.cpu.wake_cause(&request), Some(WakeCause::Interrupt), "masked too");
    assert_eq!(world.run(), End::Halt(CODE + 5));
}

#[test]
fn tpause_ends_at_its_deadline_or_the_systems() {
    // tpause ecx; hlt
    let bytes = [0x66, 0x0f, 0xae, 0xf1, 0xf4];
    // Control, EDX:EAX, IA32_UMWAIT_CONTROL, state, length in TSC cycles after the first read.
    for (control, until, os, state, length) in [
        (0u64, 5_000u64, 0u64, Some(6), Some(4_998)),
        (1, 5_000, 0, Some(5), Some(4_998)),
        (0, 5_000, 1, Some(5), Some(4_998)),
        (0, 5_000, 100, Some(6), Some(100)),
        (0, 1, 0, None, None),
    ] {
        let mut world = World::long(&bytes);
        let gpr = &mut world.cpu.state.gpr;
        (gpr[gpr::RCX], gpr[gpr::RAX], gpr[gpr::RDX]) = (control, until, 0);
        world.cpu.state.umwait_control = os;
        world.cpu.state.rflags |= rflags::CF | rflags::ZF;
        let flow = world.step();
        assert_eq!(world.cpu.state.rflags & (rflags::CF | rflags::ZF), 0);
        let Some(length) = length else {
            assert_eq!(flow, Flow::Next, "the time has passed");
            continue;
        };
        let Flow::Sleep(request) = flow else { panic!("does not wait") };
        assert_eq!((request.reason, request.state), (WaitReason::Pause, state));
        assert_eq!(request.deadline, Some(world.port.now + SimTime(length * 500)));
        assert!(request.wake_on_masked);
        // CF tells who ended it.
        world.port.now += SimTime(length * 500);
        assert_eq!(world.run(), End::Halt(CODE + 4));
        assert_eq!(world.cpu.state.rflags & rflags::CF != 0, os == 100);
    }
}

#[test]
fn a_deadline_beyond_time_is_none() {
    let mut world = World::long(&[0x66, 0x0f, 0xae, 0xf1]);
    let gpr = &mut world.cpu.state.gpr;
    (gpr[gpr::RAX], gpr[gpr::RDX]) = (0xffff_ffff, 0xffff_ffff);
    let Flow::Sleep(request) = world.step() else { panic!("does not wait") };
    assert_eq!(request.deadline, None);
}

#[test]
fn tpause_refuses_reserved_bits_and_users_without_time() {
    let bytes = [0x66, 0x0f, 0xae, 0xf1];
    let mut world = World::long(&bytes);
    world.cpu.state.gpr[gpr::RCX] = 2;
    assert_eq!(world.run(), End::Handler(vector::GP));
    let mut world = World::long(&[]).user(&bytes);
    world.cpu.state.cr4 |= cr4::TSD;
    assert_eq!(world.run(), End::Handler(vector::GP));
}

#[test]
fn umwait_needs_an_armed_monitor() {
    // umonitor rax; umwait ecx; hlt, with and without the first.
    let umwait: &[u8] = &[0xf2, 0x0f, 0xae, 0xf1, 0xf4];
    let umonitor: &[u8] = &[0xf3, 0x0f, 0xae, 0xf0];
    for (bytes, end) in [
        (code(&[umonitor, umwait]), End::Sleep(WaitReason::Monitor)),
        (code(&[umwait]), End::Halt(CODE + 4)),
    ] {
        let mut world = with_apic(&bytes);
        world.cpu.state.gpr[gpr::RDX] = 1;
        assert_eq!(world.run(), end);
    }
}
