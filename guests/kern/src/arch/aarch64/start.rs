//! Entry of the image on CPU 0, and start of all other CPUs.
//!
//! Every CPU comes with translation off, at EL1, or at EL2, which it leaves at once. CPU 0 uses a
//! stack of the image, then PSCI starts all others at once: each finds its facts in the context
//! that CPU_ON hands it, and writes no line that another one reads until it counts itself as up.

use core::arch::{asm, global_asm};
use core::cell::UnsafeCell;
use core::mem::offset_of;

use super::atomic::{AtomicU64, Ordering::Relaxed};
use super::{barrier, mmu, trap};
use crate::console::die;
use crate::machine::{self, CpuFacts};
use crate::task::STACK_BYTES;

/// Stack of CPU 0, on which its idle task stays.
#[repr(C, align(16))]
struct BootStack(UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: only CPU 0 runs on it.
unsafe impl Sync for BootStack {}

static BOOT_STACK: BootStack = BootStack(UnsafeCell::new([0; STACK_BYTES]));

/// Room for the tree behind the address that CPU 0 was given, in bytes.
const TREE_BYTES_MAX: u64 = 2 << 20;

extern "C" fn boot(fdt: u64) -> ! {
    trap::init_cpu();
    mmu::map_ram(&(fdt..fdt + TREE_BYTES_MAX));
    crate::start::start_kernel(fdt)
}

/// What a CPU reads that starts.
#[repr(C, align(64))]
struct Parameters {
    /// Offset of the stack top in an area.
    stack_top: AtomicU64,
    /// Entered with the address of the CPU's facts.
    entry: AtomicU64,
}

static PARAMETERS: Parameters =
    Parameters { stack_top: AtomicU64::new(0), entry: AtomicU64::new(0) };

/// How firmware is called: 0 unknown, 1 by HVC, 2 by SMC.
static METHOD: AtomicU64 = AtomicU64::new(0);

/// Takes the method from the PSCI node.
pub(super) fn init_method(method: &str) {
    let method = match method {
        "hvc" => 1,
        "smc" => 2,
        _ => die!(BAD_MACHINE, "psci: method \"{method}\""),
    };
    METHOD.store(method, Relaxed);
}

/// Whether firmware is called by SMC.
pub(super) fn is_by_smc() -> bool {
    METHOD.load(Relaxed) == 2
}

/// PSCI CPU_ON with arguments of 64 bits.
const CPU_ON: u64 = 0xc400_0003;

/// Starts every other CPU; each calls `entry` on the stack whose top is `stack_top` bytes behind
/// the start of its area.
pub(crate) fn start_secondary_cpus(stack_top: usize, entry: extern "C" fn(&'static CpuFacts) -> !) {
    unsafe extern "C" {
        fn secondary_start();
    }
    PARAMETERS.stack_top.store(stack_top as u64, Relaxed);
    PARAMETERS.entry.store(entry as usize as u64, Relaxed);
    barrier!("dsb ish");
    let start = secondary_start as *const () as u64;
    for cpu in 1..machine::cpu_count() {
        let facts = core::ptr::from_ref(machine::facts(cpu)) as u64;
        let result = firmware_call([CPU_ON, machine::hw_id(cpu), start, facts]);
        if result != 0 {
            die!(BAD_MACHINE, "cpu {cpu}: CPU_ON of {:#x}: {result}", machine::hw_id(cpu));
        }
    }
}

fn firmware_call([mut x0, x1, x2, x3]: [u64; 4]) -> i64 {
    macro_rules! call {
        ($instruction:literal) => {
            // SAFETY: firmware keeps memory and, but for these, the registers.
            unsafe {
                asm!(
                    $instruction,
                    inout("x0") x0,
                    in("x1") x1,
                    in("x2") x2,
                    in("x3") x3,
                    clobber_abi("C"),
                    options(nostack)
                )
            }
        };
    }
    match METHOD.load(Relaxed) {
        1 => call!("hvc #0"),
        2 => call!("smc #0"),
        _ => die!(BAD_MACHINE, "device tree lacks psci"),
    }
    x0 as i64
}

// x0 is the address of the FDT for CPU 0, of the CPU's facts for the others.
global_asm!(
    ".section .text.entry, \"ax\"",
    ".global _start",
    "_start:",
    "msr daifset, #15",
    "mov x19, x0",
    "bl drop_to_el1",
    "mov x0, x19",
    "bl mmu_map_x0",
    "adr x0, _start",
    "bl mmu_map_x0",
    "bl mmu_enable",
    "adrp x1, {stack}",
    "add x1, x1, :lo12:{stack}",
    "mov x2, #{stack_bytes}",
    "add sp, x1, x2",
    "mov x0, x19",
    "mov x29, xzr",
    "bl {boot}",
    "brk #0",
    ".global secondary_start",
    "secondary_start:",
    "msr daifset, #15",
    "mov x19, x0",
    "bl drop_to_el1",
    "bl mmu_enable",
    "adrp x2, {parameters}",
    "add x2, x2, :lo12:{parameters}",
    "ldp x3, x4, [x2]",
    "ldr x1, [x19, #{area}]",
    "add sp, x1, x3",
    "mov x0, x19",
    "mov x29, xzr",
    "blr x4",
    "brk #0",
    // Returns at EL1, with EL2 as a kernel without a hypervisor leaves it.
    "drop_to_el1:",
    "mrs x1, CurrentEL",
    "cmp x1, #8",
    "b.ne 3f",
    "mov x1, #0x80000000",
    "msr hcr_el2, x1",
    "mov x1, #3",
    "msr cnthctl_el2, x1",
    "msr cntvoff_el2, xzr",
    "mov x1, #0x33ff",
    "msr cptr_el2, x1",
    "msr hstr_el2, xzr",
    "mrs x1, midr_el1",
    "msr vpidr_el2, x1",
    "mrs x1, mpidr_el1",
    "msr vmpidr_el2, x1",
    "mrs x1, id_aa64pfr0_el1",
    "ubfx x1, x1, #24, #4",
    "cbz x1, 2f",
    "mrs x1, icc_sre_el2",
    "orr x1, x1, #1",
    "orr x1, x1, #8",
    "msr icc_sre_el2, x1",
    "isb",
    "msr ich_hcr_el2, xzr",
    "2: mov x1, #0x3c5",
    "msr spsr_el2, x1",
    "msr elr_el2, x30",
    "eret",
    "3: ret",
    ".text",
    stack = sym BOOT_STACK,
    stack_bytes = const STACK_BYTES,
    boot = sym boot,
    parameters = sym PARAMETERS,
    area = const offset_of!(CpuFacts, area),
);
