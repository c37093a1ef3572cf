//! arm64: instructions that have no Rust spelling, per-CPU base, preemption count.
//!
//! TPIDR_EL1 holds the area of the CPU, SP_EL0 the running task. Everything runs at EL1.

#![expect(unsafe_code, reason = "instructions and registers that have no Rust spelling")]

pub(crate) mod atomic;

mod gic;

mod mmu;

mod start;

mod suspend;

mod switch;

mod timer;

mod trap;

use core::arch::asm;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};

use guests_abi::switch::Isa;

use crate::config::{Config, Policy};
use crate::machine::Node;
use crate::percpu::Cpu;
use crate::points::asm_at_point;
use crate::task::Task;

pub(crate) use gic::{enable_irq, route_irq, send_ipi, send_ipi_many, shared_interrupt};
pub(crate) use mmu::{map_device, map_ram};
pub(crate) use start::start_secondary_cpus;
pub(crate) use suspend::wait_power_state;
pub(crate) use switch::{initial_stack, switch_to};
pub(crate) use timer::{clock_ticks, clock_ticks_ordered, init_timer, timer_arm, timer_stop};

/// The ISA, for the table of switches.
pub(crate) const ISA: Isa = Isa::Arm;

/// Reads a system register.
macro_rules! sysreg_read {
    ($name:literal) => {{
        let value: u64;
        // SAFETY: callers name registers that can be read without side effects, or own them.
        unsafe {
            core::arch::asm!(concat!("mrs {}, ", $name), out(reg) value, options(nostack));
        }
        value
    }};
}
use sysreg_read;

/// Writes a system register.
macro_rules! sysreg_write {
    ($name:literal, $value:expr) => {{
        let value: u64 = $value;
        // SAFETY: callers own the register and its value.
        unsafe { core::arch::asm!(concat!("msr ", $name, ", {}"), in(reg) value, options(nostack)) }
    }};
}
use sysreg_write;

/// A barrier, spelled as its instruction.
macro_rules! barrier {
    ($instruction:literal) => {
        // SAFETY: barriers only order.
        unsafe { core::arch::asm!($instruction, options(nostack, preserves_flags)) }
    };
}
use barrier;

/// Masks interrupts; the point stands on the instruction itself.
macro_rules! irq_disable {
    ($name:ident) => {{
        #[expect(unsafe_code, reason = "DAIF has no Rust spelling")]
        // SAFETY: masking interrupts breaks no memory invariant.
        unsafe {
            crate::points::asm_at_point!($name, "msr daifset, #3";
                options(nostack, preserves_flags))
        }
    }};
}
pub(crate) use irq_disable;

/// Unmasks interrupts.
#[inline]
pub(crate) fn irq_enable() {
    // SAFETY: every handler is installed before the first call.
    unsafe { asm!("msr daifclr, #3", options(nostack, preserves_flags)) }
}

/// Whether interrupts are unmasked.
#[inline]
pub(crate) fn irq_is_on() -> bool {
    sysreg_read!("daif") & 1 << 7 == 0
}

/// Whether idle CPUs say that they watch their flags: Linux on arm64 does not.
#[inline]
pub(crate) fn has_polling(policy: &Policy) -> bool {
    policy.is_arm64_polling
}

/// Sets the CPUs up as the switches want them; CPU 0, before any other starts.
pub(crate) fn init_config(config: &Config) {
    if config.is_lse {
        atomic::use_lse();
    }
    timer::init_event_stream(config.is_evtstrm);
}

/// The root node says nothing to this ISA.
pub(crate) fn find_property(_name: &str, _value: &[u8]) {}

/// Takes note of a device; the walk of the tree ends with each of its nodes.
pub(crate) fn find_device(node: &Node) {
    if node.is("arm,psci-1.0") || node.is("arm,psci-0.2") {
        start::init_method(node.method);
    } else if node.is("arm,armv8-timer") {
        timer::find(node);
    } else {
        gic::find(node);
    }
}

/// Address of the test device: only the tree says it.
pub(crate) const TEST_DEVICE_AT_START: u64 = 0;

/// Devices raise lines of the interrupt controller, and send no messages.
pub(crate) fn interrupt_message(_cpu: usize) -> u64 {
    0
}

/// Reads a register of a device; what follows is done after it.
#[inline]
pub(crate) fn io_read(address: u64) -> u64 {
    // SAFETY: callers pass registers of devices, whose pages are mapped as device memory.
    let value = unsafe { (address as *const u64).read_volatile() };
    barrier!("dmb oshld");
    value
}

/// Writes a register of a device, behind everything stored before.
#[inline]
pub(crate) fn io_write(address: u64, value: u64) {
    barrier!("dmb oshst");
    // SAFETY: as in `io_read`; the registers written change no memory of the kernel.
    unsafe { (address as *mut u64).write_volatile(value) }
}

#[inline]
fn io_read32(address: u64) -> u32 {
    // SAFETY: as in `io_read`.
    unsafe { (address as *const u32).read_volatile() }
}

/// Writes a register of 32 bits, as [`io_write`] does.
#[inline]
pub(crate) fn io_write32(address: u64, value: u32) {
    // SAFETY: as in `io_write`.
    unsafe { (address as *mut u32).write_volatile(value) }
}

/// Puts what follows at the start of a line of code, so that a loop that is measured does not
/// depend on what the compiler has put before it.
#[inline(always)]
pub(crate) fn align_code() {
    // SAFETY: no-operations at most.
    unsafe { asm!(".p2align 6", options(nomem, nostack, preserves_flags)) }
}

/// Tells the core that it is in a waiting loop.
#[inline]
pub(crate) fn cpu_relax() {
    // SAFETY: a hint.
    unsafe { asm!("yield", options(nostack, preserves_flags)) }
}

/// Waits in WFE until a word may have changed from `seen`: arms the exclusive monitor on it, as
/// SEVL lets the first WFE through, and waits only if it is still the same.
macro_rules! wait_change {
    ($word:expr, $seen:expr, $width:literal) => {
        // SAFETY: reads a word that the caller has read; every event ends a WFE.
        unsafe {
            asm!(
                "sevl",
                "wfe",
                concat!("ldxr {value:", $width, "}, [{word}]"),
                concat!("eor {value:", $width, "}, {value:", $width, "}, {seen:", $width, "}"),
                concat!("cbnz {value:", $width, "}, 2f"),
                "wfe",
                "2:",
                value = out(reg) _,
                word = in(reg) $word.as_ptr(),
                seen = in(reg) $seen,
                options(nostack, preserves_flags)
            )
        }
    };
}

/// Waits until a word may have changed from `seen`.
#[inline]
pub(crate) fn wait_change(word: &atomic::AtomicU32, seen: u32) {
    wait_change!(word, seen, "w");
}

/// As [`wait_change`], for a pointer.
#[inline]
pub(crate) fn wait_change_pointer<T>(word: &atomic::AtomicPtr<T>, seen: *mut T) {
    wait_change!(word, seen, "x");
}

/// Full barrier behind an atomic read-modify-write.
#[inline]
pub(crate) fn smp_mb_after_atomic() {
    barrier!("dmb ish");
}

/// Waits for an interrupt, which is masked, then unmasks it; returns after it was handled.
#[inline]
pub(crate) fn wait_halt() {
    barrier!("dsb sy");
    // SAFETY: a masked interrupt ends the wait.
    unsafe { asm_at_point!(idle_wait, "wfi"; options(nostack, preserves_flags)) }
    irq_enable();
}

/// There is no MONITOR; the table of switches refuses `idle=mwait`.
pub(crate) fn monitor(_address: *const u32) {}

/// There is no MWAIT.
pub(crate) fn mwait(_hint: u32) {}

/// There is none.
pub(crate) fn has_mwait() -> bool {
    false
}

/// Spends about `cycles` cycles on dependent ALU instructions.
#[inline]
pub(crate) fn spin_cycles(cycles: u64) {
    if cycles != 0 {
        // SAFETY: counts a register down.
        unsafe {
            asm!("2: subs {0}, {0}, #1", "b.ne 2b", inout(reg) cycles => _, options(nomem, nostack))
        }
    }
}

/// What the architecture keeps per CPU: nothing.
#[repr(C)]
pub(crate) struct ArchCpu;

/// Makes `cpu` the area of this CPU and sets up its interrupts and its timer.
pub(crate) fn init_cpu(cpu: &'static Cpu) {
    trap::init_cpu();
    sysreg_write!("tpidr_el1", core::ptr::from_ref(cpu) as u64);
    set_current(cpu.idle());
    timer::init_cpu();
    gic::init_cpu(cpu.id());
}

/// The area of the CPU that executes this.
#[inline]
pub(crate) fn this_cpu() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: `init_cpu` made the register the address of the area.
    unsafe {
        asm!("mrs {}, tpidr_el1", out(reg) cpu, options(nomem, nostack, preserves_flags));
        &*cpu
    }
}

/// The running task.
#[inline]
pub(crate) fn current() -> &'static Task {
    let task: *const Task;
    // SAFETY: the register is the address of the running task, which lives for ever.
    unsafe {
        asm!("mrs {}, sp_el0", out(reg) task, options(nomem, nostack, preserves_flags));
        &*task
    }
}

#[inline]
fn set_current(task: &'static Task) {
    sysreg_write!("sp_el0", core::ptr::from_ref(task) as u64);
}

/// CPUs have no count of their own.
#[repr(C)]
pub(crate) struct CpuPreempt;

impl CpuPreempt {
    /// Nothing to start.
    pub(crate) fn start(&self) {}
}

/// Preemption count of a task: the count below, above it 1 while there is no need to reschedule.
///
/// So the word is 0 exactly when the CPU may and should call the scheduler.
#[repr(transparent)]
pub(crate) struct TaskPreempt(atomic::AtomicU64);

const NO_NEED: u64 = 1 << 32;

impl TaskPreempt {
    /// Disabled once, no need to reschedule.
    pub(crate) fn start(&self) {
        self.0.store(NO_NEED | 1, Relaxed);
    }

    /// That of the running task.
    #[inline]
    fn current() -> &'static TaskPreempt {
        &current().ti.preempt
    }

    /// A half of the word: 0 the count, 1 the flag.
    #[inline]
    fn half(&self, half: usize) -> &atomic::AtomicU32 {
        // SAFETY: a half of an aligned word, that lives as long.
        unsafe { &*self.0.as_ptr().cast::<atomic::AtomicU32>().add(half) }
    }
}

/// Disables preemption, nestable.
#[inline]
pub(crate) fn preempt_disable() {
    let count = TaskPreempt::current().half(0);
    count.store(count.load(Relaxed) + 1, Relaxed);
    core::sync::atomic::compiler_fence(SeqCst);
}

/// Undoes one [`preempt_disable`] without calling the scheduler.
#[inline]
pub(crate) fn preempt_enable_no_resched() {
    core::sync::atomic::compiler_fence(SeqCst);
    let count = TaskPreempt::current().half(0);
    count.store(count.load(Relaxed) - 1, Relaxed);
}

/// Undoes one [`preempt_disable`]; calls the scheduler when it was the last and there is need.
#[inline]
pub(crate) fn preempt_enable() {
    core::sync::atomic::compiler_fence(SeqCst);
    let preempt = TaskPreempt::current();
    let left = preempt.0.load(Relaxed) - 1;
    preempt.half(0).store(left as u32, Relaxed);
    // An interrupt in between may have found need.
    if left == 0 || preempt.0.load(Relaxed) == 0 {
        crate::sched::preempt_schedule();
    }
}

/// Whether this CPU may and should call the scheduler.
#[inline]
pub(crate) fn preempt_is_due() -> bool {
    TaskPreempt::current().0.load(Relaxed) == 0
}

/// Folds NEED_RESCHED into the preemption count.
#[inline]
pub(crate) fn preempt_set_need_resched() {
    TaskPreempt::current().half(1).store(0, Relaxed);
}

/// Takes NEED_RESCHED out of the preemption count.
#[inline]
pub(crate) fn preempt_clear_need_resched() {
    TaskPreempt::current().half(1).store(1, Relaxed);
}
