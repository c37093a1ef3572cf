//! Delivery of exceptions and interrupts beyond the rows of `delivery.ins`: what is told, events
//! that arrive between instructions, the register page.

use emu_cpu::isa::{Isa, Received};
use emu_cpu::port::{Note, Space};
use emu_cpu::wait::Signal;
use emu_sim::SimTime;
use emu_x86::defs::{rflags, vector};
use emu_x86::state::gpr;

use crate::world::{CODE, End, HANDLERS, KERNEL_CS, KERNEL_DS, STACK, World};

const UD2: [u8; 2] = [0x0f, 0x0b];

#[test]
fn a_fault_pushes_five_words_and_the_aligned_old_stack() {
    let mut world = World::long(&UD2);
    world.cpu.state.gpr[gpr::RSP] = STACK - 3;
    world.cpu.state.rflags = rflags::FIXED | rflags::IF | rflags::CF;
    assert_eq!(world.run(), End::Handler(vector::UD));
    let [rip, cs, flags, rsp, ss] = world.frame();
    assert_eq!((rip, cs), (CODE, u64::from(KERNEL_CS)));
    assert_eq!(flags, rflags::FIXED | rflags::IF | rflags::CF | rflags::RF);
    assert_eq!((rsp, ss), (STACK - 3, u64::from(KERNEL_DS)));
    assert_eq!(world.cpu.state.gpr[gpr::RSP], (STACK - 16) - 40);
    assert_eq!(world.cpu.state.rflags, rflags::FIXED | rflags::CF);
    assert_eq!(world.port.notes, [Note::InterruptFlag(false)]);
}

/// A world whose APIC is enabled.
fn with_apic(code: &[u8]) -> World {
    let mut world = World::long(code);
    let _ = world.cpu.apic.mmio_write(0xf0, 4, 0x1ff, SimTime::ZERO);
    world
}

fn interrupt(world: &mut World, vector: u8) -> Received {
    let signal = Signal::Interrupt { vector, level: false, logical: None };
    world.cpu.receive(signal, SimTime::ZERO)
}

#[test]
fn interrupts_wait_for_the_flag_and_come_by_priority() {
    // nop; sti; nop; nop; hlt
    let code = [0x90, 0xfb, 0x90, 0x90, 0xf4];
    let mut world = with_apic(&code);
    assert_eq!(interrupt(&mut world, 0x41), Received::Accepted);
    assert_eq!(interrupt(&mut world, 0x41), Received::Merged);
    assert_eq!(interrupt(&mut world, 0x82), Received::Accepted);
    assert!(!world.cpu.interrupt_ready());
    assert_eq!(world.run(), End::Handler(0x82));
    let [rip, _, flags] = world.frame();
    assert_eq!(rip, CODE + 3, "STI lets one more instruction run");
    assert_ne!(flags & rflags::IF, 0);
    assert_eq!(
        world.port.notes,
        [Note::InterruptFlag(true), Note::InterruptFlag(false), Note::InterruptTaken(0x82)]
    );
    assert!(world.cpu.apic.isr().contains(0x82) && world.cpu.apic.irr().contains(0x41));
}

#[test]
fn an_interrupt_that_arrives_while_an_instruction_waits_comes_after_it() {
    use emu_cpu::flat::FlakyPort;
    for seed in 0..20 {
        // sti; nop; mov [PAGE],al; hlt
        let code = [0xfb, 0x90, 0x88, 0x04, 0x25, 0, 0, 0x10, 0, 0xf4];
        let mut world = with_apic(&code);
        world.step();
        world.step();
        let mut flaky = FlakyPort::new(world.port.clone(), seed);
        let mut cpu = world.cpu.clone();
        let mut attempts = 0;
        flaky.run(|port| {
            let result = cpu.step(&mut world.unit, port);
            if attempts == 0 && result.is_err() {
                let signal = Signal::Interrupt { vector: 0x55, level: false, logical: None };
                cpu.receive(signal, SimTime::ZERO);
            }
            attempts += 1;
            result
        });
        assert_eq!(cpu.state.rip, CODE + 9, "seed {seed}");
        if attempts > 1 {
            flaky.run(|port| cpu.step(&mut world.unit, port));
            assert_eq!(cpu.state.rip, HANDLERS + 0x550);
        }
    }
}

#[test]
fn an_nmi_is_blocked_until_iret() {
    // The handler of NMI: iretq. Code: nop; nop; hlt.
    let mut world = World::long(&[0x90, 0x90, 0xf4]);
    world.port.put(HANDLERS + 32, &[0x90, 0x48, 0xcf]);
    assert_eq!(world.cpu.receive(Signal::Nmi, SimTime::ZERO), Received::Accepted);
    world.step();
    assert_eq!(world.cpu.state.rip, HANDLERS + 32);
    assert_eq!(world.cpu.receive(Signal::Nmi, SimTime::ZERO), Received::Accepted);
    assert_eq!(world.cpu.receive(Signal::Nmi, SimTime::ZERO), Received::Merged);
    world.step();
    assert_eq!(world.cpu.state.rip, HANDLERS + 33, "blocked in its handler");
    world.step();
    assert_eq!(world.cpu.state.rip, CODE);
    world.step();
    assert_eq!(world.cpu.state.rip, HANDLERS + 32, "the second one");
    assert_eq!(world.run(), End::Halt(CODE + 2));
}

#[test]
fn the_register_page_sends_and_ends_interrupts() {
    // mov dword [ICR high], 0x03000000; mov dword [ICR low], 0x4055; mov eax,[ID]; hlt
    let mut code = Vec::new();
    for (offset, value) in [(0x310u32, 0x0300_0000u32), (0x300, 0x4055)] {
        code.extend([0x67, 0xc7, 0x04, 0x25]);
        code.extend((0xfee0_0000u32 + offset).to_le_bytes());
        code.extend(value.to_le_bytes());
    }
    code.extend([0x67, 0x8b, 0x04, 0x25]);
    code.extend(0xfee0_0020u32.to_le_bytes());
    code.push(0xf4);
    let mut world = with_apic(&code);
    world.put(0x2000 + 24, 0xc000_0083);
    assert!(matches!(world.run(), End::Halt(_)));
    let signal = Signal::Interrupt { vector: 0x55, level: false, logical: None };
    assert_eq!(world.port.signals, [(emu_cpu::port::Target::ArchId(3), signal, true)]);
    assert_eq!(world.cpu.state.gpr[0], 0x0700_0000);
    assert!(world.port.device_log.is_empty(), "the page is no device");
}

#[test]
fn what_is_no_memory_is_a_device() {
    // mov eax,[0xfed80018]
    let mut world = World::long(&[0x67, 0x8b, 0x04, 0x25, 0x18, 0, 0xd8, 0xfe, 0xf4]);
    world.put(0x2000 + 24, 0xc000_0083);
    world.port.device_value = 0x1_2345_6789;
    assert!(matches!(world.run(), End::Halt(_)));
    assert_eq!(world.cpu.state.gpr[0], 0x2345_6789);
    let access = world.port.device_log[0];
    assert_eq!((access.space, access.addr, access.size), (Space::Memory, 0xfed8_0018, 4));
}

#[test]
fn mov_ss_holds_interrupts_back_for_one_instruction() {
    // mov ss, ax; nop; nop
    let mut world = World::long(&[0x8e, 0xd0, 0x90, 0x90, 0xf4]);
    world.cpu.state.gpr[0] = u64::from(KERNEL_DS);
    world.step();
    world.cpu.receive(Signal::Nmi, SimTime::ZERO);
    assert_eq!(world.run(), End::Handler(vector::NMI));
    assert_eq!(world.frame::<1>()[0], CODE + 3);
}
