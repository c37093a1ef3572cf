//! Vector table, entry of interrupts, and what happens to exceptions.
//!
//! Interrupts run on the stack of the task they hit. The entry saves the registers that a call may
//! change, with the state to return to; then the acknowledge register says what it is. Each kind
//! of interrupt has its point where it is known. The scheduler runs from [`irq_exit`] when the
//! interrupted code may be preempted. Exceptions are all fatal.

use core::arch::global_asm;

use super::{gic, sysreg_read, sysreg_write, timer, timer_stop};
use crate::console::{die, kprintln};
use crate::points::point;
use crate::{broadcast, dma, sched, smp, softirq, testdev, tick};

/// Software-generated interrupts of the kernel.
pub(super) const SGI_RESCHED: u32 = 0;
pub(super) const SGI_CALL: u32 = 1;
pub(super) const SGI_CALL_SINGLE: u32 = 2;

/// Installs the vectors on this CPU.
pub(super) fn init_cpu() {
    unsafe extern "C" {
        static VECTORS: u8;
    }
    sysreg_write!("vbar_el1", &raw const VECTORS as u64);
    super::barrier!("isb");
}

#[unsafe(no_mangle)]
extern "C" fn irq() {
    let acknowledged = gic::acknowledge();
    match gic::intid(acknowledged) {
        SGI_RESCHED => {
            point!(irqoff_resched_entry);
            gic::end(acknowledged);
            sched::scheduler_ipi();
        }
        SGI_CALL => {
            point!(irqoff_call_entry);
            gic::end(acknowledged);
            smp::generic_smp_call_function_interrupt();
        }
        SGI_CALL_SINGLE => {
            point!(irqoff_call_single_entry);
            gic::end(acknowledged);
            smp::generic_smp_call_function_interrupt();
        }
        gic::SPURIOUS => {
            point!(irqoff_other);
        }
        intid if intid == timer::intid() => {
            point!(irqoff_timer_entry);
            // The timer is a level: it goes down before the interrupt ends.
            timer_stop();
            gic::end(acknowledged);
            tick::timer_interrupt();
        }
        intid if intid == broadcast::interrupt() => {
            point!(irqoff_device_entry);
            broadcast::interrupted();
            gic::end(acknowledged);
        }
        intid if intid == dma::interrupt() => {
            point!(irqoff_device_entry);
            dma::interrupted();
            gic::end(acknowledged);
        }
        intid => die!(EXCEPTION, "interrupt {intid}"),
    }
    irq_exit();
}

/// Runs softirqs, then the scheduler when the interrupted code may be preempted and there is
/// need.
#[inline]
fn irq_exit() {
    softirq::run_pending();
    if super::preempt_is_due() {
        sched::preempt_schedule_irq();
    }
}

#[unsafe(no_mangle)]
extern "C" fn exception(vector: u64) -> ! {
    let (esr, far) = (sysreg_read!("esr_el1"), sysreg_read!("far_el1"));
    let (elr, spsr) = (sysreg_read!("elr_el1"), sysreg_read!("spsr_el1"));
    kprintln!("kern: exception, vector {vector} esr {esr:#x} elr {elr:#x} far {far:#x}");
    kprintln!("kern: spsr {spsr:#x}");
    testdev::exit(guests_abi::exit::EXCEPTION);
}

// Vector 5 is an interrupt at this level; all others are exceptions. Frame: x0 to x18, x30, and
// where to return to.
global_asm!(
    ".balign 2048",
    ".global VECTORS",
    "VECTORS:",
    ".set vector, 0",
    ".rept 16",
    ".balign 128",
    ".if vector == 5",
    "b irq_entry",
    ".else",
    "mov x0, #vector",
    "b exception_entry",
    ".endif",
    ".set vector, vector + 1",
    ".endr",
    ".balign 128",
    "exception_entry:",
    "mov x29, xzr",
    "bl exception",
    "irq_entry:",
    "stp x0, x1, [sp, #-176]!",
    "stp x2, x3, [sp, #16]",
    "stp x4, x5, [sp, #32]",
    "stp x6, x7, [sp, #48]",
    "stp x8, x9, [sp, #64]",
    "stp x10, x11, [sp, #80]",
    "stp x12, x13, [sp, #96]",
    "stp x14, x15, [sp, #112]",
    "stp x16, x17, [sp, #128]",
    "mrs x0, elr_el1",
    "mrs x1, spsr_el1",
    "stp x18, x30, [sp, #144]",
    "stp x0, x1, [sp, #160]",
    "bl irq",
    "ldp x0, x1, [sp, #160]",
    "ldp x18, x30, [sp, #144]",
    "msr elr_el1, x0",
    "msr spsr_el1, x1",
    "ldp x16, x17, [sp, #128]",
    "ldp x14, x15, [sp, #112]",
    "ldp x12, x13, [sp, #96]",
    "ldp x10, x11, [sp, #80]",
    "ldp x8, x9, [sp, #64]",
    "ldp x6, x7, [sp, #48]",
    "ldp x4, x5, [sp, #32]",
    "ldp x2, x3, [sp, #16]",
    "ldp x0, x1, [sp], #176",
    "771: eret",
    ".pushsection .crosscall.points, \"\", @progbits",
    ".quad 771b",
    ".asciz \"handler_exit\"",
    ".balign 8",
    ".popsection",
);
