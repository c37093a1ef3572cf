//! Generic timer: the virtual count is the clock, the virtual timer the tick.

use super::atomic::{AtomicU64, Ordering::Relaxed};
use super::{barrier, sysreg_read, sysreg_write};
use crate::console::die;
use crate::fdt;
use crate::machine::Node;

/// What CPU 0 found out, read by all: a line of its own, read-mostly.
#[repr(C, align(64))]
struct Facts {
    /// INTID of the virtual timer; 0 before it is known.
    intid: AtomicU64,
    /// CNTKCTL_EL1 of every CPU.
    control: AtomicU64,
}

static FACTS: Facts = Facts { intid: AtomicU64::new(0), control: AtomicU64::new(0) };

/// Bytes of an interrupt in the timer's node, and which of them is the virtual timer's.
const CELL_BYTES: usize = 12;
const VIRTUAL: usize = 2;
/// First INTID of private peripherals.
const PPI: u64 = 16;

/// Takes the virtual timer's interrupt from the timer's node.
pub(super) fn find(node: &Node) {
    let number = fdt::be32(node.interrupts, VIRTUAL * CELL_BYTES + 4);
    FACTS.intid.store(number.map_or(0, |number| u64::from(number) + PPI), Relaxed);
}

/// INTID of the virtual timer.
#[inline]
pub(super) fn intid() -> u32 {
    FACTS.intid.load(Relaxed) as u32
}

/// Returns the frequency of the clock.
pub(crate) fn init_timer() -> u64 {
    if intid() == 0 {
        die!(BAD_MACHINE, "device tree lacks the timer");
    }
    match sysreg_read!("cntfrq_el0") {
        0 => die!(BAD_MACHINE, "CNTFRQ_EL0 is 0"),
        hz => hz,
    }
}

/// Events per second that the stream has about.
const STREAM_HZ: u64 = 10_000;

/// Decides on the event stream; CPU 0, before [`init_cpu`].
pub(super) fn init_event_stream(is_on: bool) {
    if is_on {
        // An event for each rise of a bit of the count: the bit whose period is nearest.
        let counts = (sysreg_read!("cntfrq_el0") / STREAM_HZ).max(2);
        let (low, is_nearer_above) = (counts.ilog2(), counts >> (counts.ilog2() - 1) & 1);
        let bit = (u64::from(low) + is_nearer_above - 1).min(15);
        FACTS.control.store(bit << 4 | 1 << 2, Relaxed);
    }
}

/// Timer off, event stream as decided.
pub(super) fn init_cpu() {
    sysreg_write!("cntkctl_el1", FACTS.control.load(Relaxed));
    timer_stop();
}

/// Ticks of the virtual count.
#[inline]
pub(crate) fn clock_ticks() -> u64 {
    sysreg_read!("cntvct_el0")
}

/// Ticks of the virtual count, read after everything before it is done.
#[inline]
pub(crate) fn clock_ticks_ordered() -> u64 {
    barrier!("isb");
    clock_ticks()
}

/// Arms the timer of this CPU for time `deadline`.
pub(crate) fn timer_arm(deadline: u64) {
    sysreg_write!("cntv_cval_el0", deadline);
    sysreg_write!("cntv_ctl_el0", 1);
    barrier!("isb");
}

/// Stops the timer of this CPU.
pub(crate) fn timer_stop() {
    sysreg_write!("cntv_ctl_el0", 0);
    barrier!("isb");
}
