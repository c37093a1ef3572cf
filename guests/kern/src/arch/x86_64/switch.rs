//! Context switch.
//!
//! A task that does not run has its callee-saved registers and its return address on its stack,
//! and the stack pointer in its `thread` line.

use core::arch::naked_asm;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::task::Task;

/// Callee-saved registers on the stack of a task that does not run.
const SAVED_WORDS: u64 = 6;

/// Leaves `prev` and goes on in `next`; returns when something switches back to `prev`.
#[inline]
pub(crate) fn switch_to(prev: &Task, next: &Task) {
    // SAFETY: `next` does not run anywhere and its saved stack pointer is that of its last switch
    // (or of `initial_stack`); the caller holds the run-queue lock with interrupts off.
    unsafe { switch_stacks(&prev.thread.sp, next.thread.sp.load(Relaxed)) }
}

#[unsafe(naked)]
unsafe extern "C" fn switch_stacks(prev_sp: &AtomicU64, next_sp: u64) {
    naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "mov [rdi], rsp",
        "mov rsp, rsi",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Prepares a stack whose first switch enters `entry`; returns its stack pointer.
pub(crate) fn initial_stack(stack_top: u64, entry: extern "C" fn() -> !) -> u64 {
    // The return address lies 16 below the top: a function is entered with rsp = 8 mod 16.
    let return_at = stack_top - 16;
    let sp = return_at - SAVED_WORDS * 8;
    // SAFETY: the stack belongs to a task slot that is not in use.
    unsafe {
        (return_at as *mut u64).write(entry as usize as u64);
        for word in 0..SAVED_WORDS {
            ((sp + word * 8) as *mut u64).write(0);
        }
    }
    sp
}
