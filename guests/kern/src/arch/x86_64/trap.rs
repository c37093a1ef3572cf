//! Interrupt table, entry stubs, and what happens to exceptions.
//!
//! Interrupts run on the stack of the task they hit. A stub saves the registers that a call may
//! change, calls the handler, and returns; its point is on the first instruction. The scheduler
//! runs from [`irq_exit`] when the interrupted code may be preempted. Exceptions are all fatal.

use core::arch::global_asm;
use core::cell::UnsafeCell;

use super::{apic, descriptors};
use crate::console::kprintln;
use crate::{dma, sched, smp, softirq, testdev, tick};

/// Vectors of the kernel, as in Linux.
pub(super) const VECTOR_RESCHED: u8 = 0xfd;
pub(super) const VECTOR_CALL: u8 = 0xfc;
pub(super) const VECTOR_CALL_SINGLE: u8 = 0xfb;
pub(super) const VECTOR_TIMER: u8 = 0xec;
pub(super) const VECTOR_ERROR: u8 = 0xfe;
/// Vector of the DMA engine, among those of devices.
pub(super) const VECTOR_DMA: u8 = 0x31;
pub(super) const VECTOR_SPURIOUS: u8 = 0xff;

const EXCEPTIONS: usize = 32;
const VECTOR_DOUBLE_FAULT: usize = 8;

#[derive(Clone, Copy)]
#[repr(C)]
struct Gate([u64; 2]);

impl Gate {
    /// Interrupt gate (clears IF) to `handler`, on interrupt stack `ist` (0: the current one).
    fn interrupt(handler: u64, ist: u64) -> Gate {
        let low = (handler & 0xffff)
            | u64::from(descriptors::CODE) << 16
            | ist << 32
            | 0x8e << 40
            | (handler >> 16 & 0xffff) << 48;
        Gate([low, handler >> 32])
    }
}

#[repr(C, align(4096))]
struct Idt(UnsafeCell<[Gate; 256]>);

// SAFETY: written by CPU 0 before any other CPU starts, only read afterwards.
unsafe impl Sync for Idt {}

static IDT: Idt = Idt(UnsafeCell::new([Gate([0; 2]); 256]));

/// Base and limit of the interrupt table.
pub(super) fn table() -> (u64, u16) {
    (IDT.0.get() as u64, (size_of::<Idt>() - 1) as u16)
}

/// Fills the interrupt table; CPU 0, before anything else can use it.
pub(super) fn init_table() {
    // SAFETY: only CPU 0 runs, and its table register does not point here yet.
    let gates = unsafe { &mut *IDT.0.get() };
    // SAFETY: the symbol is a table of that many addresses, defined below.
    let stubs = unsafe { &EXCEPTION_STUBS };
    for (vector, gate) in gates.iter_mut().enumerate().take(EXCEPTIONS) {
        let ist = u64::from(vector == VECTOR_DOUBLE_FAULT);
        *gate = Gate::interrupt(stubs[vector], ist);
    }
    let handlers = [
        (VECTOR_RESCHED, irq_stub_resched as *const () as u64),
        (VECTOR_CALL, irq_stub_call as *const () as u64),
        (VECTOR_CALL_SINGLE, irq_stub_call_single as *const () as u64),
        (VECTOR_TIMER, irq_stub_timer as *const () as u64),
        (VECTOR_ERROR, irq_stub_error as *const () as u64),
        (VECTOR_DMA, irq_stub_dma as *const () as u64),
        (VECTOR_SPURIOUS, irq_stub_spurious as *const () as u64),
    ];
    for (vector, stub) in handlers {
        gates[usize::from(vector)] = Gate::interrupt(stub, 0);
    }
}

unsafe extern "C" {
    static EXCEPTION_STUBS: [u64; EXCEPTIONS];
    fn irq_stub_resched();
    fn irq_stub_call();
    fn irq_stub_call_single();
    fn irq_stub_timer();
    fn irq_stub_error();
    fn irq_stub_dma();
    fn irq_stub_spurious();
}

// The CPU aligned the stack to 16 and pushed five words, the stub pushes nine: the call is
// aligned as the ABI wants it.
macro_rules! irq_stub {
    ($stub:literal, $handler:literal, $point:ident) => {
        const _: &str = guests_abi::points::name::$point;
        global_asm!(
            concat!(".global ", $stub),
            concat!($stub, ":"),
            "771: push rax",
            "push rcx",
            "push rdx",
            "push rsi",
            "push rdi",
            "push r8",
            "push r9",
            "push r10",
            "push r11",
            "cld",
            concat!("call ", $handler),
            "pop r11",
            "pop r10",
            "pop r9",
            "pop r8",
            "pop rdi",
            "pop rsi",
            "pop rdx",
            "pop rcx",
            "pop rax",
            "772: iretq",
            ".pushsection .crosscall.points, \"\", @progbits",
            ".quad 771b",
            concat!(".asciz \"", stringify!($point), "\""),
            ".balign 8",
            ".quad 772b",
            ".asciz \"handler_exit\"",
            ".balign 8",
            ".popsection",
        );
    };
}

irq_stub!("irq_stub_resched", "irq_resched", irqoff_resched_entry);
irq_stub!("irq_stub_call", "irq_call", irqoff_call_entry);
irq_stub!("irq_stub_call_single", "irq_call_single", irqoff_call_single_entry);
irq_stub!("irq_stub_timer", "irq_timer", irqoff_timer_entry);
irq_stub!("irq_stub_error", "irq_error", irqoff_other);
irq_stub!("irq_stub_dma", "irq_dma", irqoff_device_entry);
irq_stub!("irq_stub_spurious", "irq_spurious", irqoff_other);

/// Reschedule: acknowledge and fold NEED_RESCHED, nothing else.
#[unsafe(no_mangle)]
extern "C" fn irq_resched() {
    apic::eoi();
    sched::scheduler_ipi();
    irq_exit();
}

#[unsafe(no_mangle)]
extern "C" fn irq_call() {
    apic::eoi();
    smp::generic_smp_call_function_interrupt();
    irq_exit();
}

#[unsafe(no_mangle)]
extern "C" fn irq_call_single() {
    apic::eoi();
    smp::generic_smp_call_function_interrupt();
    irq_exit();
}

#[unsafe(no_mangle)]
extern "C" fn irq_timer() {
    apic::eoi();
    tick::timer_interrupt();
    irq_exit();
}

#[unsafe(no_mangle)]
extern "C" fn irq_dma() {
    apic::eoi();
    dma::interrupted();
    irq_exit();
}

#[unsafe(no_mangle)]
extern "C" fn irq_error() {
    apic::eoi();
    kprintln!("kern: local apic error {:#x}", apic::error_status());
    testdev::exit(guests_abi::exit::EXCEPTION);
}

/// A spurious interrupt has no EOI.
#[unsafe(no_mangle)]
extern "C" fn irq_spurious() {}

/// Runs softirqs, then the scheduler when the interrupted code may be preempted and there is
/// need.
#[inline]
fn irq_exit() {
    softirq::run_pending();
    if super::preempt_is_due() {
        sched::preempt_schedule_irq();
    }
}

#[repr(C)]
struct ExceptionFrame {
    vector: u64,
    error: u64,
    rip: u64,
    cs: u64,
    rflags: u64,
    rsp: u64,
    ss: u64,
}

#[unsafe(no_mangle)]
extern "C" fn exception(frame: &ExceptionFrame) -> ! {
    let ExceptionFrame { vector, error, rip, cs, rflags, rsp, ss } = frame;
    kprintln!("kern: exception {vector} error {error:#x} rip {rip:#x} cr2 {:#x}", fault_address());
    kprintln!("kern: rsp {ss:#x}:{rsp:#x} cs {cs:#x} rflags {rflags:#x}");
    testdev::exit(guests_abi::exit::EXCEPTION);
}

fn fault_address() -> u64 {
    let address: u64;
    // SAFETY: reading CR2 changes nothing.
    unsafe { core::arch::asm!("mov {}, cr2", out(reg) address, options(nostack, nomem)) };
    address
}

// Vectors 8, 10-14, 17, 21, 29, 30 push an error code; the others get a zero in its place.
global_asm!(
    ".macro exception_stub vector",
    "exception_stub_\\vector:",
    ".if \\vector == 8 || (\\vector >= 10 && \\vector <= 14) || \\vector == 17 \
     || \\vector == 21 || \\vector == 29 || \\vector == 30",
    ".else",
    "push 0",
    ".endif",
    "push \\vector",
    "jmp exception_entry",
    ".endm",
    ".altmacro",
    ".set vector, 0",
    ".rept 32",
    "exception_stub %vector",
    ".set vector, vector + 1",
    ".endr",
    "exception_entry:",
    "cld",
    "mov rdi, rsp",
    "and rsp, -16",
    "call exception",
    "ud2",
    ".pushsection .rodata, \"a\"",
    ".balign 8",
    ".global EXCEPTION_STUBS",
    "EXCEPTION_STUBS:",
    ".macro exception_address vector",
    ".quad exception_stub_\\vector",
    ".endm",
    ".set vector, 0",
    ".rept 32",
    "exception_address %vector",
    ".set vector, vector + 1",
    ".endr",
    ".popsection",
    ".noaltmacro",
);
