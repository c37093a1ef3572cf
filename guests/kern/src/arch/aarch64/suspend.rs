//! Idle states that the firmware enters: PSCI CPU_SUSPEND, and the way back from power-down.
//!
//! A CPU that was powered down starts like a new one, with the address of what it saved: registers
//! that a call keeps, its area, its task. Vectors, event stream and CPU interface are set up anew.

use core::arch::{global_asm, naked_asm};

use super::{barrier, gic, start, timer, trap};
use crate::console::die;
use crate::cpuidle::Entry;

/// Bit of a power state in the original format: registers are lost.
const POWER_DOWN: u32 = 1 << 16;

/// Waits in a state of the firmware for an interrupt, which is masked and stays so.
pub(crate) fn wait_power_state(entry: Entry) {
    let Entry::Psci(power_state) = entry else { return };
    barrier!("dsb sy");
    // SAFETY: the code restores what the caller has, and the rest is set up below.
    let result = unsafe { cpu_suspend(u64::from(power_state), u64::from(start::is_by_smc())) };
    if result != 0 {
        die!(BAD_MACHINE, "CPU_SUSPEND of {power_state:#x}: {result}");
    }
    if power_state & POWER_DOWN != 0 {
        trap::init_cpu();
        timer::init_cpu();
        gic::resume();
    }
}

#[unsafe(naked)]
unsafe extern "C" fn cpu_suspend(power_state: u64, is_by_smc: u64) -> i64 {
    naked_asm!(
        "stp x29, x30, [sp, #-112]!",
        "stp x27, x28, [sp, #16]",
        "stp x25, x26, [sp, #32]",
        "stp x23, x24, [sp, #48]",
        "stp x21, x22, [sp, #64]",
        "stp x19, x20, [sp, #80]",
        "mrs x9, tpidr_el1",
        "mrs x10, sp_el0",
        "stp x9, x10, [sp, #96]",
        "mov x4, x1",
        "mov x1, x0",
        "mov x0, #0x1",
        "movk x0, #0xc400, lsl #16",
        "adrp x2, resume_start",
        "add x2, x2, :lo12:resume_start",
        "mov x3, sp",
        "cbnz x4, 2f",
        "hvc #0",
        "b 3f",
        "2: smc #0",
        "3: ldp x29, x30, [sp], #112",
        "ret",
    )
}

// x0 is the stack pointer of `cpu_suspend`.
global_asm!(
    ".global resume_start",
    "resume_start:",
    "msr daifset, #15",
    "mov x19, x0",
    "bl drop_to_el1",
    "bl mmu_enable",
    "mov sp, x19",
    "ldp x9, x10, [sp, #96]",
    "msr tpidr_el1, x9",
    "msr sp_el0, x10",
    "ldp x19, x20, [sp, #80]",
    "ldp x21, x22, [sp, #64]",
    "ldp x23, x24, [sp, #48]",
    "ldp x25, x26, [sp, #32]",
    "ldp x27, x28, [sp, #16]",
    "mov x0, #0",
    "ldp x29, x30, [sp], #112",
    "ret",
);
