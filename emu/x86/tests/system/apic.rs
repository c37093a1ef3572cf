//! The local APIC as software reaches it: MSRs, timer, order of messages.

use emu_cpu::isa::Isa;
use emu_cpu::port::{Fence, Target};
use emu_cpu::wait::Signal;
use emu_sim::SimTime;
use emu_x86::defs::{Vendor, vector};
use emu_x86::state::gpr;

use crate::world::{CODE, End, World, config};

/// A cpu in x2APIC mode whose APIC is enabled.
fn x2apic(ordered: bool, code: &[u8]) -> World {
    let mut config = config(Vendor::Intel);
    config.starts_in_x2apic = true;
    config.icr_ordered = ordered;
    let mut world = World::long_with(config, code);
    let _ = world.cpu.apic.msr_write(0x80f, 0x1ff, SimTime::ZERO);
    world
}

fn wrmsr(world: &mut World, number: u32, value: u64) -> End {
    let gpr = &mut world.cpu.state.gpr;
    gpr[gpr::RCX] = u64::from(number);
    gpr[gpr::RAX] = value & 0xffff_ffff;
    gpr[gpr::RDX] = value >> 32;
    world.run()
}

#[test]
fn the_icr_sends_ordered_by_machine() {
    let mut fences = Vec::new();
    for ordered in [false, true] {
        let mut world = x2apic(ordered, &[0x0f, 0x30, 0xf4]);
        assert_eq!(wrmsr(&mut world, 0x830, 0x1ff << 32 | 0x61), End::Halt(CODE + 2));
        let signal = Signal::Interrupt { vector: 0x61, level: false, logical: None };
        assert_eq!(world.port.signals, [(Target::ArchId(0x1ff), signal, ordered)]);
        fences.push(world.port.fences.iter().filter(|fence| **fence == Fence::Full).count());
    }
    assert_eq!(fences[1], fences[0] + 1, "the walk of the code page drains too");
}

#[test]
fn shorthands_and_clusters_become_targets() {
    let interrupt = |vector| Signal::Interrupt { vector, level: false, logical: None };
    // ICR, target, signal.
    let members = 1 << 32 | 2 << 16 | 5;
    let cluster = Signal::Interrupt { vector: 0x61, level: false, logical: Some(members) };
    let table: [(u64, Target, Signal); 7] = [
        (0xc_0000 | 0x61, Target::AllButSelf, interrupt(0x61)),
        (0x8_0000 | 0x61, Target::All, interrupt(0x61)),
        (0x4_0000 | 0x61, Target::ArchId(7), interrupt(0x61)),
        (0x0002_0004 << 32 | 0x861, Target::ArchId(0x22), interrupt(0x61)),
        (0x0002_0005 << 32 | 0x861, Target::Match(members), cluster),
        (0xc_4500, Target::AllButSelf, Signal::Init),
        (0xc_4608, Target::AllButSelf, Signal::Startup(8)),
    ];
    for (icr, target, signal) in table {
        let mut world = x2apic(true, &[0x0f, 0x30, 0xf4]);
        assert_eq!(wrmsr(&mut world, 0x830, icr), End::Halt(CODE + 2), "{icr:#x}");
        assert_eq!(world.port.signals, [(target, signal, true)], "{icr:#x}");
    }
}

#[test]
fn receivers_decide_whether_a_cluster_means_them() {
    use emu_cpu::isa::Received;
    // APIC id 7: cluster 0, member 7.
    for (number, received) in [
        (1 << 32 | 1 << 7 | 1, Received::Accepted),
        (1 << 32 | 1 << 6, Received::Ignored),
        (1 << 32 | 1 << 16 | 1 << 7, Received::Ignored),
    ] {
        let mut world = x2apic(true, &[]);
        let signal = Signal::Interrupt { vector: 0x61, level: false, logical: Some(number) };
        assert_eq!(world.cpu.receive(signal, SimTime::ZERO), received, "{number:#x}");
    }
}

#[test]
fn reserved_registers_and_the_wrong_mode_fault() {
    for (number, value) in [(0x830, 1 << 20), (0x802, 0), (0x80b, 1), (0x8ff, 0)] {
        let mut world = x2apic(true, &[0x0f, 0x30, 0xf4]);
        assert_eq!(wrmsr(&mut world, number, value), End::Handler(vector::GP), "{number:#x}");
    }
    let mut world = World::long(&[0x0f, 0x30, 0xf4]);
    assert_eq!(wrmsr(&mut world, 0x830, 0), End::Handler(vector::GP), "xAPIC mode");
}

#[test]
fn the_timer_runs_and_its_interrupt_comes() {
    // One-shot, vector 0x50, divide by 1: 1000 cycles of 100 MHz.
    let mut world = x2apic(true, &[0x0f, 0x30, 0xfb, 0x90, 0x90, 0xf4]);
    let _ = world.cpu.apic.msr_write(0x83e, 0xb, SimTime::ZERO);
    let _ = world.cpu.apic.msr_write(0x832, 0x50, SimTime::ZERO);
    let gpr = &mut world.cpu.state.gpr;
    (gpr[gpr::RCX], gpr[gpr::RAX]) = (0x838, 1000);
    world.step();
    let end = world.port.timer.expect("the timer is set");
    assert!(end >= SimTime::from_us(10) && end < SimTime::from_us(11), "{end}");
    assert!(!world.cpu.interrupt_ready());
    assert_eq!(world.cpu.timer(end), None, "one-shot");
    assert_eq!(world.run(), End::Handler(0x50));
}

#[test]
fn the_deadline_mode_counts_with_the_tsc() {
    let mut world = x2apic(true, &[0x0f, 0x30, 0xf4]);
    let _ = world.cpu.apic.msr_write(0x832, 0x4_0050, SimTime::ZERO);
    assert_eq!(wrmsr(&mut world, 0x6e0, 100_000), End::Halt(CODE + 2));
    assert_eq!(world.port.timer, Some(SimTime::from_us(50)), "100,000 cycles of 2 GHz");
}

#[test]
fn cpuid_shows_id_and_what_registers_say() {
    // cpuid; hlt
    let mut world = World::long(&[0x0f, 0xa2, 0xf4]);
    world.cpu.state.gpr[gpr::RAX] = 1;
    assert_eq!(world.run(), End::Halt(CODE + 2));
    let gpr = &world.cpu.state.gpr;
    assert_eq!(gpr[gpr::RAX], 0x00a0_0f11);
    assert_eq!(gpr[gpr::RBX], 0x07ff_0800);
    assert_eq!(gpr[gpr::RCX] >> 27 & 1, 0, "OSXSAVE follows CR4");
    // A leaf above the highest answers as the highest, on Intel.
    for (vendor, eax) in [(Vendor::Intel, 64), (Vendor::Amd, 0)] {
        let mut world = World::long_with(config(vendor), &[0x0f, 0xa2, 0xf4]);
        world.cpu.state.gpr[gpr::RAX] = 0x77;
        world.run();
        assert_eq!(world.cpu.state.gpr[gpr::RAX], eax, "{vendor:?}");
    }
}
