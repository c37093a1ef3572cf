//! Delivery of exceptions and interrupts: frames, stacks, error codes, double and triple faults.

use emu_cpu::isa::{Isa, Received};
use emu_cpu::port::{Note, Space};
use emu_cpu::wait::Signal;
use emu_sim::SimTime;
use emu_x86::defs::{rflags, rights, vector};
use emu_x86::state::{SegReg, gpr};

use crate::world::{
    CODE, End, GDT, HANDLERS, IDT, IST1, KERNEL_CS, KERNEL_DS, PAGE, PT, RSP0, STACK, USER_CODE,
    USER_CS, USER_DS, USER_STACK, World, descriptor, gate,
};

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

#[test]
fn a_trap_gate_keeps_the_interrupt_flag() {
    let mut world = World::long(&UD2);
    let at = HANDLERS + 16 * u64::from(vector::UD);
    world.set_gate(vector::UD, gate(KERNEL_CS, at, rights::TRAP_GATE, 0, 0));
    world.cpu.state.rflags |= rflags::IF;
    assert_eq!(world.run(), End::Handler(vector::UD));
    assert_ne!(world.cpu.state.rflags & rflags::IF, 0);
}

#[test]
fn an_inner_level_takes_its_stack_from_the_tss_and_a_null_ss() {
    let mut world = World::long(&[]).user(&UD2);
    assert_eq!(world.run(), End::Handler(vector::UD));
    let [rip, cs, _, rsp, ss] = world.frame();
    assert_eq!((rip, cs), (USER_CODE, u64::from(USER_CS)));
    assert_eq!((rsp, ss), (USER_STACK, u64::from(USER_DS)));
    assert_eq!(world.cpu.state.gpr[gpr::RSP], RSP0 - 40);
    assert_eq!(world.cpu.state.seg[SegReg::Ss as usize].selector, 0);
    assert_eq!(world.cpu.cpl, 0);
}

#[test]
fn an_ist_entry_wins_at_any_level() {
    for user in [false, true] {
        let mut world = World::long(&UD2);
        if user {
            world = world.user(&UD2);
        }
        let at = HANDLERS + 16 * u64::from(vector::UD);
        world.set_gate(vector::UD, gate(KERNEL_CS, at, rights::INTERRUPT_GATE, 0, 1));
        assert_eq!(world.run(), End::Handler(vector::UD));
        assert_eq!(world.cpu.state.gpr[gpr::RSP], IST1 - 40);
    }
}

#[test]
fn gates_that_cannot_be_used_fault_with_their_vector() {
    let handler = HANDLERS + 16 * u64::from(vector::UD);
    let unmapped_selector = 0xf8;
    let code = u32::from(vector::UD) << 3 | 2 | 1;
    // Gate, vector of the fault, error code.
    let interrupt = rights::INTERRUPT_GATE;
    let [low, high] = gate(KERNEL_CS, handler, interrupt, 0, 0);
    let table = [
        ([low & !(1 << 47), high], vector::NP, code),
        ([low ^ 1 << 40 ^ 1 << 41, high], vector::GP, code),
        (gate(0, handler, interrupt, 0, 0), vector::GP, 1),
        (gate(0x200, handler, interrupt, 0, 0), vector::GP, 0x201),
        (gate(unmapped_selector, handler, interrupt, 0, 0), vector::GP, 0xf9),
        (gate(KERNEL_DS, handler, interrupt, 0, 0), vector::GP, u32::from(KERNEL_DS) | 1),
        (gate(USER_CS & !3, handler, interrupt, 0, 0), vector::GP, u32::from(USER_CS & !3) | 1),
    ];
    for (gate, number, code) in table {
        let mut world = World::long(&UD2);
        world.set_gate(vector::UD, gate);
        assert_eq!(world.run(), End::Handler(number), "{gate:x?}");
        let [pushed, rip] = world.frame();
        assert_eq!((pushed, rip), (u64::from(code), CODE), "{gate:x?}");
    }
}

#[test]
fn a_handler_segment_that_is_absent_is_np() {
    let mut world = World::long(&UD2);
    let handler = HANDLERS + 16 * u64::from(vector::UD);
    world.set_descriptor(0x40, descriptor(0, 0xf_ffff, 0xa01b));
    world.set_gate(vector::UD, gate(0x40, handler, rights::INTERRUPT_GATE, 0, 0));
    assert_eq!(world.run(), End::Handler(vector::NP));
    assert_eq!(world.frame::<1>()[0], 0x41);
}

#[test]
fn software_interrupts_check_the_gate_and_return_behind_themselves() {
    // INT 0x80 from CPL 3, gate of DPL 0 and 3; INT3 likewise.
    for (code, number) in [(vec![0xcd, 0x80], 0x80u8), (vec![0xcc], vector::BP)] {
        let mut world = World::long(&[]).user(&code);
        assert_eq!(world.run(), End::Handler(vector::GP));
        let [pushed, rip] = world.frame();
        assert_eq!((pushed, rip), (u64::from(number) << 3 | 2, USER_CODE));

        let mut world = World::long(&[]).user(&code);
        let at = HANDLERS + 16 * u64::from(number);
        world.set_gate(number, gate(KERNEL_CS, at, rights::INTERRUPT_GATE, 3, 0));
        assert_eq!(world.run(), End::Handler(number));
        let [rip, _, flags] = world.frame();
        assert_eq!(rip, USER_CODE + code.len() as u64);
        assert_eq!(flags & rflags::RF, 0);
    }
}

#[test]
fn a_fault_on_the_handlers_stack_is_a_double_fault_on_its_own() {
    // #PF whose frame cannot be pushed.
    let mut world = World::long(&[0x8a, 0x04, 0x25, 0, 0, 0x10, 0]);
    world.set_page(0);
    world.cpu.state.gpr[gpr::RSP] = PAGE + 0x800;
    let at = HANDLERS + 16 * u64::from(vector::DF);
    world.set_gate(vector::DF, gate(KERNEL_CS, at, rights::INTERRUPT_GATE, 0, 1));
    assert_eq!(world.run(), End::Handler(vector::DF));
    let [code, rip, _, _, rsp] = world.frame();
    assert_eq!((code, rip, rsp), (0, CODE, PAGE + 0x800));
    assert_eq!(world.cpu.state.gpr[gpr::RSP], IST1 - 48);
}

#[test]
fn a_fault_of_a_double_fault_shuts_down() {
    let mut world = World::long(&UD2);
    world.cpu.state.idtr.limit = 0;
    assert_eq!(world.run(), End::Shutdown);

    let mut world = World::long(&UD2);
    world.put(PT + 8 * (IDT >> 12), 0);
    assert_eq!(world.run(), End::Shutdown);
    assert_eq!(world.cpu.state.cr2, IDT + 16 * u64::from(vector::DF));
}

#[test]
fn a_benign_exception_gives_way_to_one_in_its_delivery() {
    let mut world = World::long(&UD2);
    let present = world.get(PT + 8 * (STACK >> 12));
    world.put(PT + 8 * ((STACK - 1) >> 12), present & !1);
    let at = HANDLERS + 16 * u64::from(vector::PF);
    world.set_gate(vector::PF, gate(KERNEL_CS, at, rights::INTERRUPT_GATE, 0, 1));
    assert_eq!(world.run(), End::Handler(vector::PF));
    let [code, rip] = world.frame();
    assert_eq!((code, rip), (2, CODE));
    assert_eq!(world.cpu.state.cr2, STACK - 40);
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
    use emu_x86::flat::FlakyPort;
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
fn a_single_step_trap_follows_each_instruction() {
    // pushfq; or qword [rsp], 0x100; popfq; nop; nop
    let mut world = World::long(&[0x9c, 0x48, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d, 0x90, 0x90]);
    assert_eq!(world.run(), End::Handler(vector::DB));
    let [rip, _, flags] = world.frame();
    assert_eq!(rip, CODE + 11, "behind the instruction that follows POPF");
    assert_ne!(flags & rflags::TF, 0);
    assert_ne!(world.cpu.state.dr[6] & 1 << 14, 0);
    assert_eq!(world.cpu.state.rflags & rflags::TF, 0);
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
    let _ = GDT;
}
