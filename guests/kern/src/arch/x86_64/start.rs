//! Entry of the image on CPU 0, and start of all other CPUs.
//!
//! CPU 0 copies the trampoline to the start-up page with what it needs (control registers, table
//! of areas by APIC ID), then INIT and start-up IPI go to all other CPUs at once. A CPU takes
//! the shortest way from real mode to long mode: paging and protection are turned on by one
//! write of CR0, with CPU 0's page tables. It finds its area by its APIC ID and writes no line
//! that another one reads until it counts itself as up.

use core::arch::{asm, global_asm};
use core::mem::offset_of;

use super::descriptors::{CODE_DESCRIPTOR, DATA_DESCRIPTOR};
use super::{apic, trap};
use crate::console::die;
use crate::machine::{self, CpuFacts};
use crate::memory;

// `rdi` is the address of the FDT, the stack is the machine's.
global_asm!(
    ".section .text.entry, \"ax\"",
    ".global _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {boot}",
    "ud2",
    ".text",
    boot = sym boot,
);

extern "C" fn boot(fdt: u64) -> ! {
    trap::init_table();
    apic::init_facts();
    crate::start::start_kernel(fdt)
}

/// What the trampoline reads; at the end of its code, aligned to 8.
#[repr(C)]
struct Parameters {
    cr0: u64,
    cr3: u64,
    cr4: u64,
    efer: u64,
    is_x2apic: u64,
    apic_id_max: u64,
    /// Table of the addresses of `CpuFacts` by APIC ID; 0 where there is no CPU.
    facts: u64,
    /// Offset of the stack top in an area.
    stack_top: u64,
    /// Entered with the address of the CPU's facts in `rdi`.
    entry: u64,
}

const EFER_LMA: u64 = 1 << 10;
const MSR_EFER: u32 = 0xc000_0080;

unsafe extern "C" {
    static TRAMPOLINE: u8;
    static TRAMPOLINE_PARAMETERS: u8;
    static TRAMPOLINE_END: u8;
}

/// Highest APIC ID for which a table is made.
const APIC_ID_MAX: u64 = 0xffff;

/// Addresses of the facts by APIC ID; 0 where there is no CPU.
fn facts_by_apic_id() -> &'static [u64] {
    let cpus = 0..machine::cpu_count();
    let apic_id_max = cpus.clone().map(machine::hw_id).max().unwrap_or(0);
    if apic_id_max > APIC_ID_MAX {
        die!(BAD_MACHINE, "apic id {apic_id_max:#x}: at most {APIC_ID_MAX:#x}");
    }
    let table = memory::alloc_slice(0, apic_id_max as usize + 1);
    for cpu in cpus {
        table[machine::hw_id(cpu) as usize] = core::ptr::from_ref(machine::facts(cpu)) as u64;
    }
    table
}

/// Starts every other CPU; each calls `entry` on the stack whose top is `stack_top` bytes behind
/// the start of its area.
pub(crate) fn start_secondary_cpus(stack_top: usize, entry: extern "C" fn(&'static CpuFacts) -> !) {
    let (cr0, cr3, cr4): (u64, u64, u64);
    // SAFETY: reading control registers changes nothing.
    unsafe {
        asm!("mov {}, cr0", out(reg) cr0, options(nostack, nomem));
        asm!("mov {}, cr3", out(reg) cr3, options(nostack, nomem));
        asm!("mov {}, cr4", out(reg) cr4, options(nostack, nomem));
    }
    let facts = facts_by_apic_id();
    let parameters = Parameters {
        cr0,
        cr3,
        cr4,
        efer: super::rdmsr(MSR_EFER) & !EFER_LMA,
        is_x2apic: u64::from(apic::is_x2apic()),
        apic_id_max: facts.len() as u64 - 1,
        facts: facts.as_ptr() as u64,
        stack_top: stack_top as u64,
        entry: entry as usize as u64,
    };
    let page = guests_abi::layout::STARTUP_BASE;
    // SAFETY: the symbols delimit the trampoline; the start-up pages are free by contract.
    unsafe {
        let code = &raw const TRAMPOLINE;
        let bytes = (&raw const TRAMPOLINE_END).offset_from(code) as usize;
        let parameters_at = (&raw const TRAMPOLINE_PARAMETERS).offset_from(code) as usize;
        core::ptr::copy_nonoverlapping(code, page as *mut u8, bytes);
        ((page + parameters_at as u64) as *mut Parameters).write(parameters);
    }
    apic::send_init_to_others();
    apic::send_startup_to_others((page >> 12) as u8);
}

// Runs at the start-up page. In 16-bit code DS is the page, so operands are offsets in it.
global_asm!(
    ".pushsection .rodata.trampoline, \"a\"",
    ".balign 64",
    ".global TRAMPOLINE",
    "TRAMPOLINE:",
    ".code16",
    "cli",
    "cld",
    "movw %cs, %ax",
    "movw %ax, %ds",
    "lgdt trampoline_gdt_pointer - TRAMPOLINE",
    "movl TRAMPOLINE_PARAMETERS - TRAMPOLINE + {cr4}, %eax",
    "movl %eax, %cr4",
    "movl TRAMPOLINE_PARAMETERS - TRAMPOLINE + {cr3}, %eax",
    "movl %eax, %cr3",
    "movl ${msr_efer}, %ecx",
    "movl TRAMPOLINE_PARAMETERS - TRAMPOLINE + {efer}, %eax",
    "xorl %edx, %edx",
    "wrmsr",
    "movl TRAMPOLINE_PARAMETERS - TRAMPOLINE + {cr0}, %eax",
    "movl %eax, %cr0",
    // Far jump with a 32-bit offset, to the 64-bit code segment.
    ".byte 0x66, 0xea",
    ".long {page} + trampoline_64 - TRAMPOLINE",
    ".word {code}",
    ".code64",
    "trampoline_64:",
    "movw ${data}, %ax",
    "movw %ax, %ds",
    "movw %ax, %es",
    "movw %ax, %ss",
    "xorl %eax, %eax",
    "movw %ax, %fs",
    "movw %ax, %gs",
    "movl ${page} + TRAMPOLINE_PARAMETERS - TRAMPOLINE, %ebx",
    "cmpl $0, {is_x2apic}(%rbx)",
    "je 2f",
    "movl $0x802, %ecx",
    "rdmsr",
    "jmp 3f",
    "2: movl $0xfee00020, %eax",
    "movl (%rax), %eax",
    "shrl $24, %eax",
    "3: cmpl {apic_id_max}(%rbx), %eax",
    "ja 4f",
    "movq {facts}(%rbx), %rdx",
    "movq (%rdx,%rax,8), %rdi",
    "testq %rdi, %rdi",
    "jz 4f",
    "movq {area}(%rdi), %rsp",
    "addq {stack_top}(%rbx), %rsp",
    "xorl %ebp, %ebp",
    "callq *{entry}(%rbx)",
    // No CPU of that ID in the machine's description.
    "4: cli",
    "hlt",
    "jmp 4b",
    ".balign 8",
    "trampoline_gdt:",
    ".quad 0",
    ".quad {code_descriptor}",
    ".quad {data_descriptor}",
    "trampoline_gdt_pointer:",
    ".word trampoline_gdt_pointer - trampoline_gdt - 1",
    ".long {page} + trampoline_gdt - TRAMPOLINE",
    ".balign 8",
    ".global TRAMPOLINE_PARAMETERS",
    "TRAMPOLINE_PARAMETERS:",
    ".fill {parameters_bytes}, 1, 0",
    ".global TRAMPOLINE_END",
    "TRAMPOLINE_END:",
    ".popsection",
    cr0 = const offset_of!(Parameters, cr0),
    cr3 = const offset_of!(Parameters, cr3),
    cr4 = const offset_of!(Parameters, cr4),
    efer = const offset_of!(Parameters, efer),
    is_x2apic = const offset_of!(Parameters, is_x2apic),
    apic_id_max = const offset_of!(Parameters, apic_id_max),
    facts = const offset_of!(Parameters, facts),
    area = const offset_of!(CpuFacts, area),
    stack_top = const offset_of!(Parameters, stack_top),
    entry = const offset_of!(Parameters, entry),
    parameters_bytes = const size_of::<Parameters>(),
    page = const guests_abi::layout::STARTUP_BASE,
    code = const guests_abi::layout::BOOT_CS,
    data = const guests_abi::layout::BOOT_DS,
    code_descriptor = const CODE_DESCRIPTOR,
    data_descriptor = const DATA_DESCRIPTOR,
    msr_efer = const MSR_EFER,
    options(att_syntax)
);
