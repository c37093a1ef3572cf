//! Context switch.
//!
//! A task that does not run has its callee-saved registers and its return address on its stack,
//! and the stack pointer in its `thread` line.

use core::arch::naked_asm;

use super::atomic::{AtomicU64, Ordering::Relaxed};
use crate::task::Task;

/// Callee-saved registers on the stack of a task that does not run: x19 to x30.
const SAVED_WORDS: u64 = 12;

/// Leaves `prev` and goes on in `next`; returns when something switches back to `prev`.
#[inline]
pub(crate) fn switch_to(prev: &Task, next: &'static Task) {
    // SAFETY: `next` does not run anywhere and its saved stack pointer is that of its last switch
    // (or of `initial_stack`); the caller holds the run-queue lock with interrupts off.
    unsafe { switch_stacks(&prev.thread.sp, next.thread.sp.load(Relaxed), next) }
}

#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(prev_sp: &AtomicU64, next_sp: u64, next: &'static Task) {
    naked_asm!(
        "stp x29, x30, [sp, #-96]!",
        "stp x27, x28, [sp, #16]",
        "stp x25, x26, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x21, x22, [sp, #64]",
        "stp x19, x20, [sp, #80]",
        "mov x3, sp",
        "str x3, [x0]",
        "mov sp, x1",
        "msr sp_el0, x2",
        "ldp x19, x20, [sp, #80]",
        "ldp x21, x22, [sp, #64]",
        "ldp x23, x24, [sp, #48]",
        "ldp x25, x26, [sp, #32]",
        "ldp x27, x28, [sp, #16]",
        "ldp x29, x30, [sp], #96",
        "ret",
    )
}

/// Prepares a stack whose first switch enters `entry`; returns its stack pointer.
pub(crate) fn initial_stack(stack_top: u64, entry: extern "C" fn() -> !) -> u64 {
    let sp = stack_top - SAVED_WORDS * 8;
    // SAFETY: the stack belongs to a task slot that is not in use.
    unsafe {
        for word in 0..SAVED_WORDS {
            ((sp + word * 8) as *mut u64).write(0);
        }
        // x30, behind x29.
        ((sp + 8) as *mut u64).write(entry as usize as u64);
    }
    sp
}
