//! Start-up of secondary cpus: from INIT and SIPI to a 64-bit address of choice.
//!
//! The trampoline goes from real mode straight to 64-bit mode, in its page in low memory. Cpus
//! are started one after another, so one set of parameters serves all.

use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

/// Page of the trampoline; the guest contract keeps it free.
pub const TRAMPOLINE: u64 = 0x8_0000;
/// Parameters in that page: GDT register, CR3, where to go, how many have come.
const GDTR: u64 = TRAMPOLINE + 0x100;
const CR3: u64 = TRAMPOLINE + 0x110;
const TARGET: u64 = TRAMPOLINE + 0x118;
const ARRIVED: u64 = TRAMPOLINE + 0x140;
/// Selector of the 64-bit code segment of the hand-over.
const CODE: u16 = 8;
const EFER: u32 = 0xc000_0080;

const XAPIC: u64 = 0xfee0_0000;
const X2APIC_ICR: u32 = 0x830;
const ICR_INIT: u32 = 0x4500;
const ICR_STARTUP: u32 = 0x4600;

/// Returns the bytes of the trampoline page up to its parameters.
///
/// Errors: what the assembler says; a bug here. So it is with the others.
pub fn trampoline() -> Result<Vec<u8>, IcedError> {
    // The last instruction of the first part is a far jump to the second; its length is fixed.
    let long_mode = |from: usize| (TRAMPOLINE as usize + from) as u32;
    let mut bytes = real_mode(0)?;
    bytes = real_mode(long_mode(bytes.len()))?;
    let mut a = CodeAssembler::new(64)?;
    a.mov(ebx, TRAMPOLINE as u32)?;
    a.mov(rax, qword_ptr(rbx + (TARGET - TRAMPOLINE) as i32))?;
    a.lock().inc(dword_ptr(rbx + (ARRIVED - TRAMPOLINE) as i32))?;
    a.jmp(rax)?;
    bytes.extend(a.assemble(TRAMPOLINE + bytes.len() as u64)?);
    assert!(bytes.len() as u64 <= GDTR - TRAMPOLINE, "the trampoline meets its parameters");
    Ok(bytes)
}

fn real_mode(long_mode: u32) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(16)?;
    let at = |address: u64| MemoryOperand::with_displ(address - TRAMPOLINE, 2);
    a.cli()?;
    a.mov(ax, cs)?;
    a.mov(ds, ax)?;
    a.mov(eax, cr4)?;
    a.or(eax, 0x620)?; // PAE, OSFXSR, OSXMMEXCPT
    a.mov(cr4, eax)?;
    a.add_instruction(Instruction::with2(Code::Mov_EAX_moffs32, Register::EAX, at(CR3))?)?;
    a.mov(cr3, eax)?;
    a.mov(ecx, EFER)?;
    a.rdmsr()?;
    a.or(eax, 0x100)?; // LME
    a.wrmsr()?;
    a.add_instruction(Instruction::with1(Code::Lgdt_m1632, at(GDTR))?)?;
    a.mov(eax, cr0)?;
    a.or(eax, 0x8000_0001_u32 as i32)?; // PG, PE
    a.and(eax, 0x9fff_ffff_u32 as i32)?; // CD and NW are set after INIT
    a.mov(cr0, eax)?;
    a.add_instruction(Instruction::with_far_branch(Code::Jmp_ptr1632, CODE, long_mode)?)?;
    a.assemble(0)
}

/// Emits what cpu 0 does before it starts others.
pub fn prepare(a: &mut CodeAssembler) -> Result<(), IcedError> {
    a.mov(ebx, TRAMPOLINE as u32)?;
    a.sgdt(ptr(rbx + (GDTR - TRAMPOLINE) as i32))?;
    a.mov(rax, cr3)?;
    a.mov(qword_ptr(rbx + (CR3 - TRAMPOLINE) as i32), rax)
}

/// Emits the start of one cpu at `target`; it waits until that cpu, the `nth` from 1, has come.
pub fn start(
    a: &mut CodeAssembler,
    apic_id: u32,
    is_x2apic: bool,
    target: CodeLabel,
    nth: u32,
) -> Result<(), IcedError> {
    a.mov(ebx, TRAMPOLINE as u32)?;
    a.lea(rax, qword_ptr(target))?;
    a.mov(qword_ptr(rbx + (TARGET - TRAMPOLINE) as i32), rax)?;
    a.mfence()?;
    for command in [ICR_INIT, ICR_STARTUP | (TRAMPOLINE >> 12) as u32] {
        if is_x2apic {
            a.mov(ecx, X2APIC_ICR)?;
            a.mov(edx, apic_id)?;
            a.mov(eax, command)?;
            a.wrmsr()?;
        } else {
            a.mov(rdi, XAPIC)?;
            a.mov(eax, apic_id << 24)?;
            a.mov(dword_ptr(rdi + 0x310), eax)?;
            a.mov(eax, command)?;
            a.mov(dword_ptr(rdi + 0x300), eax)?;
        }
    }
    let mut wait = a.create_label();
    a.set_label(&mut wait)?;
    a.pause()?;
    a.cmp(dword_ptr(rbx + (ARRIVED - TRAMPOLINE) as i32), nth as i32)?;
    a.jne(wait)
}
