//! x86-64: instructions that have no Rust spelling, per-CPU base, preemption count.

#![expect(unsafe_code, reason = "instructions and registers that have no Rust spelling")]

mod apic;

mod descriptors;

mod start;

mod switch;

mod trap;

use core::arch::asm;
use core::mem::offset_of;
use core::ops::Range;

use guests_abi::switch::Isa;

use crate::config::{Config, Idle, Policy};
use crate::console::die;
use crate::cpuidle::Entry;
use crate::fdt;
use crate::machine::{self, Node};
use crate::percpu::{Cpu, Pcpu};
use crate::points::asm_at_point;
use crate::task::Task;

pub(crate) use apic::{init_timer, send_ipi, send_ipi_many, timer_arm, timer_stop};
pub(crate) use descriptors::{ArchCpu, init_cpu};
pub(crate) use start::start_secondary_cpus;
pub(crate) use switch::{initial_stack, switch_to};

/// The ISA, for the table of switches.
pub(crate) const ISA: Isa = Isa::X86;

/// Atomics: every read-modify-write with a LOCK prefix orders everything.
pub(crate) mod atomic {
    pub(crate) use core::sync::atomic::*;

    /// Sets bits.
    #[inline]
    pub(crate) fn set_bits(word: &AtomicU32, bits: u32) {
        word.fetch_or(bits, Ordering::Relaxed);
    }

    /// Adds.
    #[inline]
    pub(crate) fn add(word: &AtomicU64, value: u64) {
        word.fetch_add(value, Ordering::Relaxed);
    }

    /// Clears bits.
    #[inline]
    pub(crate) fn clear_bits(word: &AtomicU32, bits: u32) {
        word.fetch_and(!bits, Ordering::Relaxed);
    }
}

/// Whether idle CPUs can watch their flags, so that a store wakes them.
#[inline]
pub(crate) fn has_polling(_policy: &Policy) -> bool {
    true
}

/// Refuses switches that this machine cannot follow.
pub(crate) fn init_config(config: &Config) {
    if config.policy.idle == Idle::Mwait
        && let Some(error) = mwait_error()
    {
        die!(BAD_MACHINE, "{error}");
    }
}

/// The machine maps all memory.
pub(crate) fn map_ram(_range: &Range<u64>) {}

/// The machine maps all devices.
pub(crate) fn map_device(_range: &Range<u64>) {}

/// Takes note of a property of the root node.
pub(crate) fn find_property(name: &str, value: &[u8]) {
    apic::find_frequency(name, fdt::number(value).unwrap_or(0));
}

/// All devices are where the contract has them.
pub(crate) fn find_device(_node: &Node) {}

/// Address of the test device: the contract says it, before the tree does.
pub(crate) const TEST_DEVICE_AT_START: u64 = guests_abi::layout::TEST_DEVICE_BASE;

/// Masks interrupts; the point stands on the CLI itself.
macro_rules! irq_disable {
    ($name:ident) => {{
        #[expect(unsafe_code, reason = "CLI has no Rust spelling")]
        // SAFETY: masking interrupts breaks no memory invariant.
        unsafe {
            crate::points::asm_at_point!($name, "cli"; options(nostack))
        }
    }};
}
pub(crate) use irq_disable;

/// Unmasks interrupts.
#[inline]
pub(crate) fn irq_enable() {
    // SAFETY: every handler is installed before the first call.
    unsafe { asm!("sti", options(nostack)) }
}

/// Whether interrupts are unmasked.
#[inline]
pub(crate) fn irq_is_on() -> bool {
    let flags: u64;
    // SAFETY: reads RFLAGS through the stack.
    unsafe { asm!("pushfq", "pop {}", out(reg) flags) };
    flags & 1 << 9 != 0
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
    core::hint::spin_loop();
}

/// Waits a moment in a loop that waits for a word to change.
#[inline]
pub(crate) fn wait_change(_word: &atomic::AtomicU32, _seen: u32) {
    cpu_relax();
}

/// As [`wait_change`], for a pointer.
#[inline]
pub(crate) fn wait_change_pointer<T>(_word: &atomic::AtomicPtr<T>, _seen: *mut T) {
    cpu_relax();
}

/// Reads a register of a device.
#[inline]
pub(crate) fn io_read(address: u64) -> u64 {
    // SAFETY: callers pass registers of devices, whose pages are mapped uncached.
    unsafe { (address as *const u64).read_volatile() }
}

/// Writes a register of a device, behind everything stored before.
#[inline]
pub(crate) fn io_write(address: u64, value: u64) {
    // SAFETY: as in `io_read`; the registers written change no memory of the kernel.
    unsafe { (address as *mut u64).write_volatile(value) }
}

/// Full barrier.
#[inline]
pub(crate) fn smp_mb() {
    // SAFETY: adds 0 to a stack word below the stack pointer; the value does not change.
    unsafe { asm!("lock add dword ptr [rsp - 4], 0") }
}

/// Full barrier behind an atomic read-modify-write, which on x86 is one already.
#[inline]
pub(crate) fn smp_mb_after_atomic() {
    core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::SeqCst);
}

/// Unmasks interrupts and halts as one step; returns after an interrupt was handled.
#[inline]
pub(crate) fn wait_halt() {
    // SAFETY: interrupts may come from STI's shadow on; all handlers are installed.
    unsafe { asm_at_point!(idle_wait, "sti", "hlt"; options(nostack)) }
}

/// Arms the monitor on the line of `address`.
#[inline]
pub(crate) fn monitor(address: *const u32) {
    // SAFETY: MONITOR only reads.
    unsafe { asm!("monitor", in("rax") address, in("ecx") 0, in("edx") 0, options(nostack)) }
}

/// Waits in the state of the hint (0: C1) for a store to the monitored line or an interrupt, which
/// may be masked.
#[inline]
pub(crate) fn mwait(hint: u32) {
    // SAFETY: ECX bit 0 lets a masked interrupt end the wait, so it cannot last for ever.
    unsafe { asm_at_point!(idle_wait, "mwait"; in("eax") hint, in("ecx") 1, options(nostack)) }
}

/// Whether this machine has MWAIT as the idle loop needs it.
pub(crate) fn has_mwait() -> bool {
    mwait_error().is_none()
}

/// Waits in the state that a port enters for an interrupt, which is masked and stays so.
pub(crate) fn wait_power_state(entry: Entry) {
    let Entry::Port(port) = entry else { return };
    // SAFETY: a read of a port of the machine's table of idle states, which only waits.
    unsafe {
        asm_at_point!(idle_wait, "in al, dx"; in("dx") port as u16, out("al") _, options(nostack));
    }
}

/// Writes a register of 32 bits, as [`io_write`] does.
#[inline]
pub(crate) fn io_write32(address: u64, value: u32) {
    // SAFETY: as in `io_write`.
    unsafe { (address as *mut u32).write_volatile(value) }
}

/// Devices of this ISA are told whom to interrupt themselves.
pub(crate) fn shared_interrupt(_node: &Node) -> u32 {
    0
}

/// Nothing is to be opened.
pub(crate) fn enable_irq(_interrupt: u32) {}

/// As [`shared_interrupt`].
pub(crate) fn route_irq(_interrupt: u32, _cpu: usize) {}

/// What a device is told to interrupt a CPU: APIC ID, and vector above it.
pub(crate) fn interrupt_message(cpu: usize) -> u64 {
    u64::from(trap::VECTOR_DMA) << 32 | machine::hw_id(cpu) & 0xffff_ffff
}

/// What the machine lacks for `idle=mwait`, if anything.
fn mwait_error() -> Option<&'static str> {
    let has_monitor = cpuid(1).ecx & 1 << 3 != 0;
    if !has_monitor || cpuid(0).eax < 5 {
        return Some("idle=mwait: no MONITOR/MWAIT on this machine");
    }
    (cpuid(5).ecx & 2 == 0).then_some("idle=mwait: MWAIT does not break on masked interrupts")
}

fn cpuid(leaf: u32) -> core::arch::x86_64::CpuidResult {
    core::arch::x86_64::__cpuid(leaf)
}

/// Ticks of the TSC.
#[inline]
pub(crate) fn clock_ticks() -> u64 {
    // SAFETY: RDTSC is available at CPL 0.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Ticks of the TSC, read after everything before it is done.
#[inline]
pub(crate) fn clock_ticks_ordered() -> u64 {
    // SAFETY: LFENCE has no effect on memory.
    unsafe { asm!("lfence", options(nostack, preserves_flags)) };
    clock_ticks()
}

/// Spends about `cycles` cycles on dependent ALU instructions.
#[inline]
pub(crate) fn spin_cycles(cycles: u64) {
    if cycles != 0 {
        // SAFETY: counts a register down.
        unsafe { asm!("2: dec {0}", "jnz 2b", inout(reg) cycles => _, options(nomem, nostack)) }
    }
}

fn rdmsr(msr: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: called with architectural MSRs only; reading them changes nothing.
    unsafe { asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

#[inline]
fn wrmsr(msr: u32, value: u64) {
    let (low, high) = (value as u32, (value >> 32) as u32);
    // SAFETY: callers write MSRs of the APIC and the GS base, whose values they own.
    unsafe { asm!("wrmsr", in("ecx") msr, in("eax") low, in("edx") high, options(nostack)) }
}

/// The area of the CPU that executes this.
#[inline]
pub(crate) fn this_cpu() -> &'static Cpu {
    let cpu: *const Cpu;
    // SAFETY: `init_cpu` set GS to an area whose first word is its own address.
    unsafe {
        asm!("mov {}, gs:[0]", out(reg) cpu, options(nostack, preserves_flags, readonly));
        &*cpu
    }
}

/// The running task; right whatever CPU it is on by now.
#[inline]
pub(crate) fn current() -> &'static Task {
    let task: *const Task;
    // SAFETY: one load of a word that `Cpu::init` set and every switch sets to a task.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) task, const CURRENT_AT,
            options(nostack, preserves_flags, readonly));
        &*task
    }
}

const CURRENT_AT: usize = offset_of!(Cpu, pcpu) + offset_of!(Pcpu, current);

/// Inverted NEED_RESCHED in the preemption count: set means "no need".
///
/// So the count is 0 exactly when the CPU may and should call the scheduler.
const PREEMPT_NO_NEED: u32 = 1 << 31;

/// Preemption count of a CPU.
#[repr(transparent)]
pub(crate) struct CpuPreempt(atomic::AtomicU32);

impl CpuPreempt {
    /// Disabled once, no need to reschedule.
    pub(crate) fn start(&self) {
        self.0.store(PREEMPT_NO_NEED | 1, atomic::Ordering::Relaxed);
    }
}

/// Tasks have no count of their own.
#[repr(C)]
pub(crate) struct TaskPreempt;

impl TaskPreempt {
    /// Nothing to start.
    pub(crate) fn start(&self) {}
}

const PREEMPT_AT: usize = offset_of!(Cpu, pcpu) + offset_of!(Pcpu, preempt);

/// Disables preemption, nestable.
#[inline]
pub(crate) fn preempt_disable() {
    // SAFETY: a word of this CPU's own area.
    unsafe { asm!("inc dword ptr gs:[{}]", const PREEMPT_AT, options(nostack)) }
}

/// Undoes one [`preempt_disable`] without calling the scheduler.
#[inline]
pub(crate) fn preempt_enable_no_resched() {
    // SAFETY: a word of this CPU's own area.
    unsafe { asm!("dec dword ptr gs:[{}]", const PREEMPT_AT, options(nostack)) }
}

/// Undoes one [`preempt_disable`]; calls the scheduler when it was the last and there is need.
#[inline]
pub(crate) fn preempt_enable() {
    let should_schedule: u8;
    // SAFETY: a word of this CPU's own area.
    unsafe {
        asm!(
            "dec dword ptr gs:[{}]",
            "setz {}",
            const PREEMPT_AT,
            out(reg_byte) should_schedule,
            options(nostack)
        )
    }
    if should_schedule != 0 {
        crate::sched::preempt_schedule();
    }
}

/// Whether this CPU may and should call the scheduler.
#[inline]
pub(crate) fn preempt_is_due() -> bool {
    this_cpu().pcpu.preempt.0.load(atomic::Ordering::Relaxed) == 0
}

/// Folds NEED_RESCHED into the preemption count.
#[inline]
pub(crate) fn preempt_set_need_resched() {
    // SAFETY: a word of this CPU's own area.
    unsafe {
        asm!(
            "and dword ptr gs:[{}], {}",
            const PREEMPT_AT,
            const !PREEMPT_NO_NEED as i32,
            options(nostack)
        )
    }
}

/// Takes NEED_RESCHED out of the preemption count.
#[inline]
pub(crate) fn preempt_clear_need_resched() {
    // SAFETY: a word of this CPU's own area.
    unsafe {
        asm!(
            "or dword ptr gs:[{}], {}",
            const PREEMPT_AT,
            const PREEMPT_NO_NEED as i32,
            options(nostack)
        )
    }
}
