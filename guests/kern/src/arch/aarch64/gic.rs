//! Interrupt controller: GICv3 by system registers, or GICv2 by its two blocks of registers.
//!
//! All interrupts are of group 1. Used: three software-generated interrupts, the timer, and shared
//! interrupts of devices, each routed to one CPU.

use super::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering::Relaxed};
use super::trap::{SGI_CALL, SGI_CALL_SINGLE, SGI_RESCHED};
use super::{barrier, io_read32, io_write32, mmu, sysreg_read, sysreg_write, timer};
use crate::arch::Ipi;
use crate::console::die;
use crate::cpumask::CpuMask;
use crate::fdt;
use crate::machine::{self, Node};

/// INTID of an acknowledge that found nothing.
pub(super) const SPURIOUS: u32 = 1023;

/// First shared interrupt.
const SPI: u32 = 32;

/// CPUs that a GICv2 can have.
const V2_CPUS_MAX: usize = 8;

/// What CPU 0 found out, read by all: a line of its own, read-mostly.
#[repr(C, align(64))]
struct Facts {
    /// 2 or 3; 0 before it is known.
    version: AtomicU32,
    distributor: AtomicU64,
    /// First redistributor, or the CPU interface of version 2.
    second: AtomicU64,
    second_end: AtomicU64,
    /// Bit of each CPU in the distributor of version 2.
    v2_targets: [AtomicU8; V2_CPUS_MAX],
}

static FACTS: Facts = Facts {
    version: AtomicU32::new(0),
    distributor: AtomicU64::new(0),
    second: AtomicU64::new(0),
    second_end: AtomicU64::new(0),
    v2_targets: [const { AtomicU8::new(0) }; V2_CPUS_MAX],
};

#[inline]
fn is_v3() -> bool {
    FACTS.version.load(Relaxed) == 3
}

/// Takes note of the controller if the node is one.
pub(super) fn find(node: &Node) {
    let version = if node.is("arm,gic-v3") {
        3
    } else if node.is("arm,gic-400") || node.is("arm,cortex-a15-gic") {
        2
    } else {
        return;
    };
    let mut ranges = node.ranges();
    let (Some(distributor), Some(second)) = (ranges.next(), ranges.next()) else {
        die!(BAD_MACHINE, "interrupt controller: two ranges of registers expected");
    };
    mmu::map_device(&distributor);
    mmu::map_device(&second);
    FACTS.version.store(version, Relaxed);
    FACTS.distributor.store(distributor.start, Relaxed);
    FACTS.second.store(second.start, Relaxed);
    FACTS.second_end.store(second.end, Relaxed);
}

/// Registers of the distributor, and of a redistributor's second frame, which has the same for
/// the first 32 interrupts.
const GICD_CTLR: u64 = 0;
const GICD_IGROUPR: u64 = 0x80;
const GICD_ISENABLER: u64 = 0x100;
const GICD_IPRIORITYR: u64 = 0x400;
const GICD_ITARGETSR: u64 = 0x800;
const GICD_SGIR: u64 = 0xf00;
const GICD_IROUTER: u64 = 0x6000;
/// Write is pending.
const GICD_CTLR_RWP: u32 = 1 << 31;
/// Group 1 enabled, affinity routing: the bits are the same in either view.
const GICD_CTLR_V3: u32 = 1 << 4 | 1 << 1;
/// Both groups enabled; without security states there is but the first bit.
const GICD_CTLR_V2: u32 = 3;

const GICR_TYPER: u64 = 0x8;
const GICR_WAKER: u64 = 0x14;
const GICR_SGI_FRAME: u64 = 0x1_0000;
const GICR_BYTES: u64 = 0x2_0000;
const TYPER_VLPIS: u64 = 1 << 1;
const TYPER_LAST: u64 = 1 << 4;
const WAKER_SLEEP: u32 = 1 << 1;
const WAKER_CHILDREN_ASLEEP: u32 = 1 << 2;

const GICC_CTLR: u64 = 0;
const GICC_PMR: u64 = 0x4;
const GICC_IAR: u64 = 0xc;
const GICC_EOIR: u64 = 0x10;

/// Priority of all interrupts, four in a word, and the mask that lets them through.
const PRIORITY: u32 = 0xa0a0_a0a0;
const PRIORITY_MASK: u64 = 0xf0;

/// Sets the interrupt controller up for a CPU, on it; CPU 0 comes first.
pub(super) fn init_cpu(cpu: usize) {
    match FACTS.version.load(Relaxed) {
        3 => init_cpu_v3(cpu),
        2 => init_cpu_v2(cpu),
        _ => die!(BAD_MACHINE, "device tree lacks the interrupt controller"),
    }
}

fn init_cpu_v3(cpu: usize) {
    if cpu == 0 {
        let control = FACTS.distributor.load(Relaxed) + GICD_CTLR;
        io_write32(control, GICD_CTLR_V3);
        while io_read32(control) & GICD_CTLR_RWP != 0 {}
    }
    let base = redistributor(cpu);
    let waker = base + GICR_WAKER;
    io_write32(waker, io_read32(waker) & !WAKER_SLEEP);
    while io_read32(waker) & WAKER_CHILDREN_ASLEEP != 0 {}
    init_private(base + GICR_SGI_FRAME);
    resume();
}

/// Opens the interface of this CPU, which a power-down has closed.
pub(super) fn resume() {
    if !is_v3() {
        let interface = FACTS.second.load(Relaxed);
        io_write32(interface + GICC_PMR, PRIORITY_MASK as u32);
        io_write32(interface + GICC_CTLR, 1);
        return;
    }
    sysreg_write!("icc_sre_el1", sysreg_read!("icc_sre_el1") | 1);
    barrier!("isb");
    sysreg_write!("icc_pmr_el1", PRIORITY_MASK);
    sysreg_write!("icc_bpr1_el1", 0);
    sysreg_write!("icc_ctlr_el1", 0);
    sysreg_write!("icc_igrpen1_el1", 1);
    barrier!("isb");
}

fn init_cpu_v2(cpu: usize) {
    let distributor = FACTS.distributor.load(Relaxed);
    if cpu == 0 {
        io_write32(distributor + GICD_CTLR, GICD_CTLR_V2);
    }
    let Some(target) = FACTS.v2_targets.get(cpu) else {
        die!(BAD_MACHINE, "cpu {cpu}: GICv2 has at most {V2_CPUS_MAX}");
    };
    // The targets of a private interrupt are the CPU that reads them.
    target.store(io_read32(distributor + GICD_ITARGETSR) as u8, Relaxed);
    init_private(distributor);
    resume();
}

/// INTID of the first interrupt of a device: a shared one.
pub(crate) fn shared_interrupt(node: &Node) -> u32 {
    SPI + fdt::be32(node.interrupts, 4).unwrap_or(0)
}

/// Opens a shared interrupt; CPU 0, at boot.
pub(crate) fn enable_irq(intid: u32) {
    let distributor = FACTS.distributor.load(Relaxed);
    let (word, bit) = (u64::from(intid / 32) * 4, 1 << (intid % 32));
    if is_v3() {
        let group = distributor + GICD_IGROUPR + word;
        io_write32(group, io_read32(group) | bit);
    }
    let priority = distributor + GICD_IPRIORITYR + u64::from(intid / 4) * 4;
    let shift = intid % 4 * 8;
    io_write32(priority, io_read32(priority) & !(0xff << shift) | (PRIORITY & 0xff) << shift);
    io_write32(distributor + GICD_ISENABLER + word, bit);
}

/// Routes a shared interrupt to a CPU.
pub(crate) fn route_irq(intid: u32, cpu: usize) {
    let distributor = FACTS.distributor.load(Relaxed);
    if is_v3() {
        let affinity = machine::hw_id(cpu) & 0xff_00ff_ffff;
        super::io_write(distributor + GICD_IROUTER + u64::from(intid) * 8, affinity);
    } else {
        let targets = distributor + GICD_ITARGETSR + u64::from(intid / 4) * 4;
        let (shift, target) = (intid % 4 * 8, u32::from(FACTS.v2_targets[cpu].load(Relaxed)));
        io_write32(targets, io_read32(targets) & !(0xff << shift) | target << shift);
    }
}

/// Group, priority and enables of the interrupts that are the CPU's own.
fn init_private(base: u64) {
    if is_v3() {
        io_write32(base + GICD_IGROUPR, u32::MAX);
    }
    for word in 0..8 {
        io_write32(base + GICD_IPRIORITYR + word * 4, PRIORITY);
    }
    let used = 1 << SGI_RESCHED | 1 << SGI_CALL | 1 << SGI_CALL_SINGLE | 1 << timer::intid();
    io_write32(base + GICD_ISENABLER, used);
}

/// Address of the redistributor of a CPU, on it: most likely the one of its number, else found by
/// walking over all of them.
fn redistributor(cpu: usize) -> u64 {
    let mpidr = sysreg_read!("mpidr_el1");
    let affinity = mpidr & 0xff_ffff | (mpidr >> 32 & 0xff) << 24;
    let (first, end) = (FACTS.second.load(Relaxed), FACTS.second_end.load(Relaxed));
    let own = first + cpu as u64 * GICR_BYTES;
    if own < end && typer(own) >> 32 == affinity {
        return own;
    }
    let mut base = first;
    while base < end {
        let typer = typer(base);
        if typer >> 32 == affinity {
            return base;
        }
        if typer & TYPER_LAST != 0 {
            break;
        }
        base += if typer & TYPER_VLPIS != 0 { 2 * GICR_BYTES } else { GICR_BYTES };
    }
    die!(BAD_MACHINE, "cpu {cpu}: no redistributor of {mpidr:#x}")
}

fn typer(base: u64) -> u64 {
    super::io_read(base + GICR_TYPER)
}

/// Acknowledges the interrupt of highest priority.
#[inline]
pub(super) fn acknowledge() -> u32 {
    let acknowledged = if is_v3() {
        sysreg_read!("icc_iar1_el1") as u32
    } else {
        io_read32(FACTS.second.load(Relaxed) + GICC_IAR)
    };
    barrier!("dsb sy");
    acknowledged
}

/// INTID of what was acknowledged; version 2 has the sender above it.
#[inline]
pub(super) fn intid(acknowledged: u32) -> u32 {
    if is_v3() { acknowledged } else { acknowledged & 0x3ff }
}

/// Ends an interrupt.
#[inline]
pub(super) fn end(acknowledged: u32) {
    if is_v3() {
        sysreg_write!("icc_eoir1_el1", u64::from(acknowledged));
        barrier!("isb");
    } else {
        io_write32(FACTS.second.load(Relaxed) + GICC_EOIR, acknowledged);
    }
}

const fn sgi(ipi: Ipi) -> u32 {
    match ipi {
        Ipi::Resched => SGI_RESCHED,
        Ipi::Call => SGI_CALL,
        Ipi::CallSingle => SGI_CALL_SINGLE,
    }
}

/// Sends one IPI; what was stored before is visible to its handler.
#[inline]
pub(crate) fn send_ipi(target: usize, ipi: Ipi) {
    if is_v3() {
        barrier!("dsb ishst");
        let (cluster, bit) = v3_target(target);
        v3_send(cluster, bit, ipi);
        barrier!("isb");
    } else {
        barrier!("dmb ishst");
        v2_send(FACTS.v2_targets[target].load(Relaxed), ipi);
    }
}

/// Sends one IPI to each of many CPUs: one command for those that share all but the last four
/// bits of their affinity, and for all with version 2.
pub(crate) fn send_ipi_many(targets: &CpuMask, ipi: Ipi) {
    if !is_v3() {
        let mut bits = 0;
        targets.for_each(|target| bits |= FACTS.v2_targets[target].load(Relaxed));
        barrier!("dmb ishst");
        v2_send(bits, ipi);
        return;
    }
    barrier!("dsb ishst");
    let (mut cluster, mut bits) = (0, 0);
    targets.for_each(|target| {
        let (next, bit) = v3_target(target);
        if next != cluster && bits != 0 {
            v3_send(cluster, bits, ipi);
            bits = 0;
        }
        cluster = next;
        bits |= bit;
    });
    v3_send(cluster, bits, ipi);
    barrier!("isb");
}

/// Fields of ICC_SGI1R_EL1 for a CPU: affinity and range, and its bit in the list of targets.
#[inline]
fn v3_target(cpu: usize) -> (u64, u64) {
    let mpidr = machine::hw_id(cpu);
    let affinity =
        (mpidr >> 32 & 0xff) << 48 | (mpidr >> 16 & 0xff) << 32 | (mpidr >> 8 & 0xff) << 16;
    (affinity | (mpidr >> 4 & 0xf) << 44, 1 << (mpidr & 0xf))
}

#[inline]
fn v3_send(cluster: u64, bits: u64, ipi: Ipi) {
    sysreg_write!("icc_sgi1r_el1", cluster | u64::from(sgi(ipi)) << 24 | bits);
}

#[inline]
fn v2_send(bits: u8, ipi: Ipi) {
    io_write32(FACTS.distributor.load(Relaxed) + GICD_SGIR, u32::from(bits) << 16 | sgi(ipi));
}
