//! Start-up: INIT and start-up IPI, real mode, protected mode, long mode.

use emu_cpu::isa::{Flow, Isa, Received};
use emu_cpu::wait::{Signal, WaitReason};
use emu_sim::{ApicId, SimTime};
use emu_x86::defs::{Vendor, cr0, cr4, efer, msr, rflags};
use emu_x86::state::{SegReg, gpr};
use emu_x86::{CpuIdentity, X86Cpu};
use iced_x86::IcedError;
use iced_x86::code_asm::{self as asm, CodeAssembler};

use crate::world::{End, KERNEL_CS, KERNEL_DS, PML4, World, config, descriptor};

const TRAMPOLINE: u64 = 0x8000;
const PROTECTED: u64 = 0x8100;
const LONG: u64 = 0x8200;
const TABLES: u64 = 0x8800;
/// Selector of 32-bit code.
const CS32: u16 = 0x40;

/// A cpu that waits for a start-up IPI, in the memory of `World::long`.
fn waiting() -> World {
    let mut world = World::long(&[]);
    let identity = CpuIdentity { apic_id: ApicId(3), is_bsp: false, cpuid: [].into() };
    world.cpu = X86Cpu::new(config(Vendor::Intel).into(), identity);
    world
}

/// 16-bit part: loads the GDT, enters protected mode, jumps to the 32-bit part.
fn real_part() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(16)?;
    a.cli()?;
    a.mov(asm::ax, asm::cs)?;
    a.mov(asm::ds, asm::ax)?;
    // The table register image lies in this segment.
    a.lgdt(asm::ptr((TABLES - TRAMPOLINE) as u32))?;
    a.mov(asm::eax, asm::cr0)?;
    a.or(asm::eax, 1)?;
    a.mov(asm::cr0, asm::eax)?;
    let mut bytes = a.assemble(0)?;
    // jmp far 32: 66 EA offset selector
    bytes.extend([0x66, 0xea]);
    bytes.extend((PROTECTED as u32).to_le_bytes());
    bytes.extend(CS32.to_le_bytes());
    Ok(bytes)
}

/// 32-bit part: PAE, CR3, LME, paging; jumps to the 64-bit part.
fn protected_part() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(32)?;
    a.mov(asm::eax, u32::from(KERNEL_DS))?;
    a.mov(asm::ds, asm::eax)?;
    a.mov(asm::ss, asm::eax)?;
    a.mov(asm::esp, 0x20800)?;
    a.mov(asm::eax, (cr4::PAE | cr4::PGE) as u32)?;
    a.mov(asm::cr4, asm::eax)?;
    a.mov(asm::eax, PML4 as u32)?;
    a.mov(asm::cr3, asm::eax)?;
    a.mov(asm::ecx, msr::EFER)?;
    a.rdmsr()?;
    a.or(asm::eax, (efer::LME | efer::NXE) as i32)?;
    a.wrmsr()?;
    a.mov(asm::eax, (cr0::PE | cr0::PG | cr0::WP) as u32)?;
    a.mov(asm::cr0, asm::eax)?;
    let mut bytes = a.assemble(PROTECTED)?;
    bytes.push(0xea);
    bytes.extend((LONG as u32).to_le_bytes());
    bytes.extend(KERNEL_CS.to_le_bytes());
    Ok(bytes)
}

fn long_part() -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    a.mov(asm::rax, 0x1122_3344_5566_7788u64)?;
    a.push(asm::rax)?;
    a.pop(asm::r15)?;
    a.mov(asm::ecx, msr::EFER)?;
    a.rdmsr()?;
    a.hlt()?;
    a.assemble(LONG)
}

#[test]
fn a_start_up_ipi_leads_through_real_and_protected_mode_to_long_mode() {
    let mut world = waiting();
    world.set_descriptor(CS32, descriptor(0, 0xf_ffff, 0xc09b));
    world.port.put(TRAMPOLINE, &real_part().expect("assembles"));
    world.port.put(PROTECTED, &protected_part().expect("assembles"));
    world.port.put(LONG, &long_part().expect("assembles"));
    world.port.put(TABLES, &0xffu16.to_le_bytes());
    world.port.put(TABLES + 2, &(crate::world::GDT as u32).to_le_bytes());
    assert_eq!(world.cpu.receive(Signal::Startup(8), SimTime::ZERO), Received::Accepted);
    let end = world.run();
    assert!(matches!(end, End::Halt(at) if (LONG..LONG + 64).contains(&at)), "{end:?}");
    let state = &world.cpu.state;
    assert_eq!(state.gpr[15], 0x1122_3344_5566_7788);
    assert_eq!(state.gpr[gpr::RAX], efer::LME | efer::LMA | efer::NXE);
    assert_eq!(state.gpr[gpr::RSP], 0x20800);
    assert_eq!(world.cpu.bits(), 64);
    assert_eq!(state.seg[SegReg::Cs as usize].selector, KERNEL_CS);
}

#[test]
fn a_waiting_cpu_takes_nothing_but_start_up() {
    let mut world = waiting();
    assert_eq!(world.run(), End::Sleep(WaitReason::Startup));
    let Flow::Sleep(request) = world.step() else { panic!("does not wait") };
    assert_eq!(world.cpu.wake_cause(&request), None);
    world.cpu.receive(Signal::Nmi, SimTime::ZERO);
    assert_eq!(world.cpu.wake_cause(&request), None);
    assert_eq!(world.cpu.receive(Signal::Startup(0x9a), SimTime::ZERO), Received::Accepted);
    assert!(world.cpu.wake_cause(&request).is_some());
    assert_eq!(world.step(), Flow::Next);
    let cs = world.cpu.state.seg[SegReg::Cs as usize];
    assert_eq!((cs.selector, cs.base, world.cpu.state.rip), (0x9a00, 0x9a000, 0));
    assert_eq!(world.cpu.bits(), 16);
}

#[test]
fn a_second_start_up_ipi_is_ignored() {
    let mut world = waiting();
    world.cpu.receive(Signal::Startup(8), SimTime::ZERO);
    assert_eq!(world.cpu.receive(Signal::Startup(9), SimTime::ZERO), Received::Merged);
    world.step();
    assert_eq!(world.cpu.receive(Signal::Startup(10), SimTime::ZERO), Received::Ignored);
}

#[test]
fn init_resets_an_application_processor_and_keeps_its_vector_registers() {
    let mut world = World::long(&[0x90, 0x90]);
    let identity = CpuIdentity { apic_id: ApicId(3), is_bsp: false, cpuid: [].into() };
    let mut cpu = X86Cpu::new(config(Vendor::Intel).into(), identity);
    cpu.receive(Signal::Startup(8), SimTime::ZERO);
    cpu.step(&mut world.unit, &mut world.port).expect("flat memory");
    cpu.state = world.cpu.state.clone();
    cpu.state.fp.xmm[3] = 77;
    cpu.registers_changed();
    cpu.receive(Signal::Init, SimTime::ZERO);
    let flow = cpu.step(&mut world.unit, &mut world.port).expect("flat memory");
    assert!(matches!(flow, Flow::Sleep(request) if request.reason == WaitReason::Startup));
    assert_eq!(cpu.state.rflags, rflags::FIXED);
    assert_eq!(cpu.state.efer, 0);
    assert_eq!(cpu.state.rip, 0xfff0);
    assert_eq!(cpu.state.fp.xmm[3], 77);
    assert_eq!(cpu.cpl, 0);
}

#[test]
fn real_mode_interrupts_use_the_vector_table() {
    // int 0x21; hlt at 0x8000; handler at 0900:0010: iret.
    let mut world = waiting();
    world.port.put(TRAMPOLINE, &[0xcd, 0x21, 0xf4]);
    world.port.put(0x21 * 4, &[0x10, 0x00, 0x00, 0x09]);
    world.port.put(0x9010, &[0x9c, 0x58, 0xcf]);
    world.cpu.receive(Signal::Startup(8), SimTime::ZERO);
    world.step();
    world.cpu.state.gpr[gpr::RSP] = 0x7000;
    world.cpu.state.rflags |= rflags::IF;
    assert_eq!(world.run(), End::Halt(TRAMPOLINE + 2));
    assert_eq!(world.cpu.state.gpr[gpr::RAX] & rflags::IF, 0, "the handler ran masked");
    assert_ne!(world.cpu.state.rflags & rflags::IF, 0);
    assert_eq!(world.cpu.state.gpr[gpr::RSP], 0x7000);
}
