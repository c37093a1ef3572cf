//! A timer that runs on while those of CPUs in deep idle states stand.
//!
//! One channel of an SP804 serves all: it is armed for the earliest event of the CPUs that sleep so
//! deep, and its interrupt goes to the CPU of that event, as Linux routes that of a broadcast
//! device. The interrupt only wakes; the CPU's own timer, armed again on the way out, then says
//! that its time has come. Where Linux's handler would send an interrupt to others whose time has
//! come as well, the device is armed for them one after the other.

use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::console::die;
use crate::cpumask::CpuMask;
use crate::lock::Lock;
use crate::percpu::{Cpu, Line};
use crate::tick;
use crate::{arch, machine};

/// What all CPUs share.
#[repr(C)]
struct Broadcast {
    lock: Lock,
    /// CPU that the device is armed for, plus 1; 0: it is not armed.
    target: AtomicU32,
    base: AtomicU64,
    /// Ticks of the device a second.
    hz: AtomicU64,
    interrupt: AtomicU32,
}

static BROADCAST: Line<Broadcast> = Line(Broadcast {
    lock: Lock::new(),
    target: AtomicU32::new(0),
    base: AtomicU64::new(0),
    hz: AtomicU64::new(0),
    interrupt: AtomicU32::new(0),
});

/// CPUs whose timers stand.
static ASLEEP: Line<CpuMask> = Line(CpuMask::new());

/// Registers of the first channel.
const LOAD: u64 = 0x0;
const CONTROL: u64 = 0x8;
const INTERRUPT_CLEAR: u64 = 0xc;
/// Enabled, with interrupt, 32 bits, once.
const CONTROL_ONCE: u32 = 1 << 7 | 1 << 5 | 1 << 1 | 1;

/// Takes the device from its node.
pub(crate) fn find(node: &machine::Node) {
    let Some(range) = node.ranges().next() else {
        die!(BAD_MACHINE, "timer sp804 without registers");
    };
    arch::map_device(&range);
    BROADCAST.hz.store(u64::from(node.clock_hz).max(1), Relaxed);
    BROADCAST.interrupt.store(arch::shared_interrupt(node), Relaxed);
    BROADCAST.base.store(range.start, Relaxed);
}

/// Whether there is such a device.
#[inline]
pub(crate) fn is_there() -> bool {
    BROADCAST.base.load(Relaxed) != 0
}

/// Number of its interrupt; 0 for none.
#[inline]
pub(crate) fn interrupt() -> u32 {
    BROADCAST.interrupt.load(Relaxed)
}

/// Opens the interrupt of the device; CPU 0, at boot.
pub(crate) fn init() {
    if is_there() {
        write(CONTROL, 0);
        arch::enable_irq(interrupt());
    }
}

fn write(register: u64, value: u32) {
    arch::io_write32(BROADCAST.base.load(Relaxed) + register, value);
}

/// The timer of this CPU is about to stop; its next event is at clock time `next`. Returns whether
/// [`exit`] has to follow. Interrupts are off.
pub(crate) fn enter(cpu: &Cpu, next: u64) -> bool {
    if next == 0 {
        return false;
    }
    BROADCAST.lock.lock();
    cpu.broadcast_at.store(next, Relaxed);
    ASLEEP.insert(cpu.id());
    if armed_for().is_none_or(|(_, at)| next < at) {
        arm(cpu.id(), next);
    }
    BROADCAST.lock.unlock();
    true
}

/// The timer of this CPU runs again; interrupts are off.
pub(crate) fn exit(cpu: &Cpu) {
    BROADCAST.lock.lock();
    ASLEEP.remove(cpu.id());
    if armed_for().is_some_and(|(target, _)| target == cpu.id()) {
        arm_for_first();
    }
    BROADCAST.lock.unlock();
}

/// The CPU and the time that the device is armed for.
fn armed_for() -> Option<(usize, u64)> {
    let target = (BROADCAST.target.load(Relaxed) as usize).checked_sub(1)?;
    Some((target, machine::cpu(target).broadcast_at.load(Relaxed)))
}

fn arm(target: usize, at: u64) {
    BROADCAST.target.store(target as u32 + 1, Relaxed);
    write(CONTROL, 0);
    write(INTERRUPT_CLEAR, 0);
    arch::route_irq(interrupt(), target);
    let ticks = u128::from(tick::ns_until(at)) * u128::from(BROADCAST.hz.load(Relaxed));
    let count = (ticks / 1_000_000_000).clamp(1, u128::from(u32::MAX));
    write(LOAD, count as u32);
    write(CONTROL, CONTROL_ONCE);
}

fn arm_for_first() {
    let mut first: Option<(usize, u64)> = None;
    ASLEEP.for_each(|cpu| {
        let at = machine::cpu(cpu).broadcast_at.load(Relaxed);
        if first.is_none_or(|(_, earliest)| at < earliest) {
            first = Some((cpu, at));
        }
    });
    match first {
        Some((cpu, at)) => arm(cpu, at),
        None => {
            BROADCAST.target.store(0, Relaxed);
            write(CONTROL, 0);
            write(INTERRUPT_CLEAR, 0);
        }
    }
}

/// The interrupt of the device. On its way out of the idle state the CPU has armed it for the next
/// one; one that finds the CPU awake has nobody left to wake.
#[cfg_attr(
    not(target_arch = "aarch64"),
    expect(dead_code, reason = "machines of other ISAs have no such device")
)]
pub(crate) fn interrupted() {
    BROADCAST.lock.lock();
    arm_for_first();
    BROADCAST.lock.unlock();
}
