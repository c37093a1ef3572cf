//! Local APIC: x2APIC when the machine handed over in that mode, else xAPIC.

use core::arch::asm;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};

use guests_abi::layout;

use super::trap::{
    VECTOR_CALL, VECTOR_CALL_SINGLE, VECTOR_ERROR, VECTOR_RESCHED, VECTOR_SPURIOUS, VECTOR_TIMER,
};
use super::{clock_ticks, cpuid, rdmsr, wrmsr};
use crate::arch::Ipi;
use crate::console::die;
use crate::cpumask::CpuMask;
use crate::machine;
use crate::percpu::Cpu;

const MSR_APIC_BASE: u32 = 0x1b;
const MSR_TSC_DEADLINE: u32 = 0x6e0;
const MSR_X2APIC: u32 = 0x800;
const BASE_X2APIC_ENABLED: u64 = 1 << 10;

/// Register numbers: the x2APIC MSR minus 0x800, or the xAPIC offset divided by 16.
const REG_EOI: u32 = 0x0b;
const REG_SVR: u32 = 0x0f;
const REG_ESR: u32 = 0x28;
const REG_ICR: u32 = 0x30;
const REG_ICR_HIGH: u32 = 0x31;
const REG_LVT_TIMER: u32 = 0x32;
const REG_LVT_ERROR: u32 = 0x37;
const REG_TIMER_INITIAL: u32 = 0x38;
const REG_TIMER_DIVIDE: u32 = 0x3e;

const SVR_ENABLE: u32 = 1 << 8;
const LVT_MASKED: u32 = 1 << 16;
const LVT_TSC_DEADLINE: u32 = 2 << 17;
const DIVIDE_BY_1: u32 = 0b1011;
const ICR_PENDING: u32 = 1 << 12;
const ICR_ASSERT: u32 = 1 << 14;
const ICR_ALL_BUT_SELF: u32 = 3 << 18;
const ICR_INIT: u32 = 5 << 8;
const ICR_STARTUP: u32 = 6 << 8;

/// What CPU 0 found out, read by all: a line of its own, read-mostly.
#[repr(C, align(64))]
struct Facts {
    is_x2apic: AtomicBool,
    /// The ICR write of x2APIC does not wait for older stores (Intel): fence before it.
    needs_fence: AtomicBool,
    has_deadline: AtomicBool,
    /// Frequencies of the TSC and of the timer's input; 0 until they are known.
    tsc_hz: AtomicU64,
    timer_hz: AtomicU64,
    /// Timer ticks per TSC tick, scaled by 2^32.
    timer_scale: AtomicU64,
    timer_count_max: AtomicU32,
}

static FACTS: Facts = Facts {
    is_x2apic: AtomicBool::new(false),
    needs_fence: AtomicBool::new(false),
    has_deadline: AtomicBool::new(false),
    tsc_hz: AtomicU64::new(0),
    timer_hz: AtomicU64::new(0),
    timer_scale: AtomicU64::new(0),
    timer_count_max: AtomicU32::new(u32::MAX),
};

/// Longest time one timer shot is armed for, in TSC ticks; who sleeps longer arms again.
const SHOT_TICKS_MAX: u64 = 1 << 31;

/// Finds out mode and features; CPU 0, before any other function here.
pub(super) fn init_facts() {
    FACTS.is_x2apic.store(rdmsr(MSR_APIC_BASE) & BASE_X2APIC_ENABLED != 0, Relaxed);
    let vendor = cpuid(0);
    let is_amd = (vendor.ebx, vendor.edx, vendor.ecx) == (0x6874_7541, 0x6974_6e65, 0x444d_4163);
    FACTS.needs_fence.store(!is_amd, Relaxed);
    FACTS.has_deadline.store(cpuid(1).ecx & 1 << 24 != 0, Relaxed);
}

/// Takes note of a frequency, if the property is one.
pub(super) fn find_frequency(name: &str, hz: u64) {
    match name {
        layout::fdt::TSC_HZ => FACTS.tsc_hz.store(hz, Relaxed),
        layout::fdt::APIC_TIMER_HZ => FACTS.timer_hz.store(hz, Relaxed),
        _ => {}
    }
}

/// Sets the timer's scale; returns the frequency of the clock.
pub(crate) fn init_timer() -> u64 {
    let (tsc_hz, timer_hz) = (FACTS.tsc_hz.load(Relaxed), FACTS.timer_hz.load(Relaxed));
    if tsc_hz == 0 || timer_hz == 0 {
        die!(BAD_MACHINE, "device tree lacks {} or its timer", layout::fdt::TSC_HZ);
    }
    FACTS.timer_scale.store(((u128::from(timer_hz) << 32) / u128::from(tsc_hz)) as u64, Relaxed);
    tsc_hz
}

/// Whether the APICs are in x2APIC mode.
pub(super) fn is_x2apic() -> bool {
    FACTS.is_x2apic.load(Relaxed)
}

/// Enables the local APIC of this CPU, timer off.
pub(super) fn init_cpu(_cpu: &Cpu) {
    write(REG_SVR, SVR_ENABLE | u32::from(VECTOR_SPURIOUS));
    write(REG_LVT_ERROR, u32::from(VECTOR_ERROR));
    if FACTS.has_deadline.load(Relaxed) {
        write(REG_LVT_TIMER, LVT_TSC_DEADLINE | u32::from(VECTOR_TIMER));
        // The mode has to be in force before the first deadline is written.
        super::smp_mb();
    } else {
        write(REG_TIMER_DIVIDE, DIVIDE_BY_1);
        write(REG_LVT_TIMER, u32::from(VECTOR_TIMER) & !LVT_MASKED);
    }
}

/// Ends the interrupt in service.
#[inline]
pub(super) fn eoi() {
    write(REG_EOI, 0);
}

/// Error bits of this CPU's APIC.
pub(super) fn error_status() -> u32 {
    write(REG_ESR, 0);
    read(REG_ESR)
}

/// Arms the timer of this CPU for TSC time `deadline`, or for some time before it.
pub(crate) fn timer_arm(deadline: u64) {
    if FACTS.has_deadline.load(Relaxed) {
        wrmsr(MSR_TSC_DEADLINE, deadline.max(1));
        return;
    }
    let ticks = deadline.saturating_sub(clock_ticks()).min(SHOT_TICKS_MAX);
    let count = (ticks * FACTS.timer_scale.load(Relaxed) >> 32) + 1;
    write(REG_TIMER_INITIAL, count.min(u64::from(u32::MAX)) as u32);
}

/// Stops the timer of this CPU.
pub(crate) fn timer_stop() {
    if FACTS.has_deadline.load(Relaxed) {
        wrmsr(MSR_TSC_DEADLINE, 0);
    } else {
        write(REG_TIMER_INITIAL, 0);
    }
}

/// Sends one IPI; what was stored before is visible to its handler.
#[inline]
pub(crate) fn send_ipi(target: usize, ipi: Ipi) {
    let vector = match ipi {
        Ipi::Resched => VECTOR_RESCHED,
        Ipi::Call => VECTOR_CALL,
        Ipi::CallSingle => VECTOR_CALL_SINGLE,
    };
    write_icr(machine::hw_id(target) as u32, u32::from(vector));
}

/// Sends one IPI to each of many CPUs: one command for each.
pub(crate) fn send_ipi_many(targets: &CpuMask, ipi: Ipi) {
    targets.for_each(|target| send_ipi(target, ipi));
}

/// Resets all other CPUs, which then wait for their start-up IPI.
pub(super) fn send_init_to_others() {
    write_icr(0, ICR_ALL_BUT_SELF | ICR_INIT | ICR_ASSERT);
}

/// Starts all other CPUs at the page, in real mode.
pub(super) fn send_startup_to_others(page: u8) {
    write_icr(0, ICR_ALL_BUT_SELF | ICR_STARTUP | ICR_ASSERT | u32::from(page));
}

#[inline]
fn write_icr(destination: u32, command: u32) {
    if is_x2apic() {
        if FACTS.needs_fence.load(Relaxed) {
            fence_before_msr();
        }
        wrmsr(MSR_X2APIC + REG_ICR, u64::from(destination) << 32 | u64::from(command));
    } else {
        while read(REG_ICR) & ICR_PENDING != 0 {
            super::cpu_relax();
        }
        write(REG_ICR_HIGH, destination << 24);
        write(REG_ICR, command);
    }
}

#[inline]
fn fence_before_msr() {
    // SAFETY: fences only.
    unsafe { asm!("mfence", "lfence", options(nostack, preserves_flags)) }
}

#[inline]
fn read(register: u32) -> u32 {
    if is_x2apic() {
        return rdmsr(MSR_X2APIC + register) as u32;
    }
    let address = layout::LAPIC_BASE + u64::from(register) * 16;
    // SAFETY: the page of the local APIC is mapped uncached; `register` is one of the above.
    unsafe { (address as *const u32).read_volatile() }
}

#[inline]
fn write(register: u32, value: u32) {
    if is_x2apic() {
        wrmsr(MSR_X2APIC + register, u64::from(value));
        return;
    }
    let address = layout::LAPIC_BASE + u64::from(register) * 16;
    // SAFETY: as in `read`.
    unsafe { (address as *mut u32).write_volatile(value) }
}
