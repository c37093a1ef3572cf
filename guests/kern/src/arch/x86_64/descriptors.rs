//! Segment descriptors, task state and per-CPU base of a CPU.
//!
//! The selectors are those of the hand-over (code 0x08, data 0x10), so that no segment has to be
//! reloaded: only the task register and the interrupt table are new.

use core::arch::asm;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::{apic, trap};
use crate::percpu::Cpu;

/// Selector of the 64-bit code segment.
pub(super) const CODE: u16 = guests_abi::layout::BOOT_CS;
const DATA: u16 = guests_abi::layout::BOOT_DS;
const TASK_STATE: u16 = 0x20;

/// Descriptor of a flat 64-bit code segment, ring 0, accessed.
pub(super) const CODE_DESCRIPTOR: u64 = 0x00af_9b00_0000_ffff;
/// Descriptor of a flat data segment, ring 0, accessed.
pub(super) const DATA_DESCRIPTOR: u64 = 0x00cf_9300_0000_ffff;

const GDT_WORDS: usize = 6;
const TSS_BYTES: usize = 104;
/// Offset of IST1 in the task state segment.
const TSS_IST1: usize = 36;
const DOUBLE_FAULT_STACK_BYTES: usize = 4096;

/// What the architecture keeps per CPU.
#[repr(C, align(64))]
pub(crate) struct ArchCpu {
    gdt: [AtomicU64; 8],
    /// Halves of words, since IST1 is not 8-byte aligned in the segment.
    tss: [core::sync::atomic::AtomicU32; 32],
    double_fault_stack: [AtomicU64; DOUBLE_FAULT_STACK_BYTES / 8],
}

#[repr(C, packed)]
struct TablePointer {
    limit: u16,
    base: u64,
}

/// Makes `cpu` the area of this CPU and takes over its tables and its local APIC.
pub(crate) fn init_cpu(cpu: &'static Cpu) {
    let arch = &cpu.arch;
    let tss = arch.tss.as_ptr() as u64;
    arch.gdt[usize::from(CODE / 8)].store(CODE_DESCRIPTOR, Relaxed);
    arch.gdt[usize::from(DATA / 8)].store(DATA_DESCRIPTOR, Relaxed);
    let (low, high) = task_state_descriptor(tss);
    arch.gdt[usize::from(TASK_STATE / 8)].store(low, Relaxed);
    arch.gdt[usize::from(TASK_STATE / 8) + 1].store(high, Relaxed);
    let stack = &arch.double_fault_stack;
    let stack_top = stack.as_ptr_range().end as u64;
    arch.tss[TSS_IST1 / 4].store(stack_top as u32, Relaxed);
    arch.tss[TSS_IST1 / 4 + 1].store((stack_top >> 32) as u32, Relaxed);

    let gdt = TablePointer { limit: (GDT_WORDS * 8 - 1) as u16, base: arch.gdt.as_ptr() as u64 };
    let (idt_base, idt_limit) = trap::table();
    let idt = TablePointer { limit: idt_limit, base: idt_base };
    // SAFETY: the tables are filled, live for ever, and keep the selectors in use.
    unsafe {
        asm!("lgdt [{}]", in(reg) &raw const gdt, options(nostack, readonly));
        asm!("ltr {0:x}", in(reg) TASK_STATE, options(nostack));
        asm!("lidt [{}]", in(reg) &raw const idt, options(nostack, readonly));
    }
    const { assert!(offset_of!(Cpu, pcpu) == 0, "gs:[0] is the area's own address") };
    super::wrmsr(MSR_GS_BASE, core::ptr::from_ref(cpu) as u64);
    apic::init_cpu(cpu);
}

const MSR_GS_BASE: u32 = 0xc000_0101;

/// Descriptor of an available 64-bit task state segment, as its two words.
fn task_state_descriptor(base: u64) -> (u64, u64) {
    let low =
        (TSS_BYTES as u64 - 1) | (base & 0xff_ffff) << 16 | 0x89 << 40 | (base >> 24 & 0xff) << 56;
    (low, base >> 32)
}
