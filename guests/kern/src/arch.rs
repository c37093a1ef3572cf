//! The arch seam: what a port has to provide.
//!
//! A port is a module `arch/<isa>.rs` with these names, the same for every ISA:
//! - the macro `irq_disable!(point)`;
//! - interrupts: `irq_enable`, `irq_is_on`;
//! - `atomic`: the types of `core::sync::atomic`, with read-modify-writes as the ISA has them:
//!   `SeqCst` ones order everything before and after, as Linux's that return a value do; and
//!   `set_bits`, `clear_bits`, `add`, which return nothing and order nothing;
//! - order and waiting: `cpu_relax`, `wait_change`, `wait_change_pointer`,
//!   `smp_mb_after_atomic`, `wait_halt`, `wait_power_state`, `monitor`, `mwait`, `has_mwait`,
//!   `has_polling`;
//! - devices: `io_read`, `io_write`, `io_write32`, `map_ram`, `map_device`, `TEST_DEVICE_AT_START`,
//!   `shared_interrupt`, `enable_irq`, `route_irq`, `interrupt_message`;
//! - per-CPU base and preemption count: `this_cpu`, `current`, `preempt_*`, `CpuPreempt`,
//!   `TaskPreempt`;
//! - code: `align_code`;
//! - time: `clock_ticks`, `clock_ticks_ordered`, `spin_cycles`, `timer_arm`, `timer_stop`;
//! - tasks: `switch_to`, `initial_stack`;
//! - IPIs: `send_ipi`, `send_ipi_many`, [`Ipi`];
//! - start: `ISA`, `find_property`, `find_device`, `init_config`, `init_timer`, `ArchCpu`,
//!   `init_cpu`, `start_secondary_cpus`.

use atomic::{AtomicU32, Ordering};

/// Kind of an interrupt that one CPU sends to another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ipi {
    /// Call the scheduler.
    Resched,
    /// Drain the call queue; sent for a multicast.
    Call,
    /// Drain the call queue; sent for one target.
    CallSingle,
}

/// Masks interrupts and returns whether they were on, for [`irq_restore`].
macro_rules! irq_save {
    ($name:ident) => {{
        let was_on = $crate::arch::irq_is_on();
        $crate::arch::irq_disable!($name);
        was_on
    }};
}
pub(crate) use irq_save;

/// Unmasks interrupts if `was_on`.
#[inline]
pub(crate) fn irq_restore(was_on: bool) {
    if was_on {
        irq_enable();
    }
}

/// Loads a word until `is_met` holds of it, waiting for changes as the ISA can; `smp_cond_load`.
#[inline]
pub(crate) fn cond_load(word: &AtomicU32, order: Ordering, is_met: impl Fn(u32) -> bool) -> u32 {
    loop {
        let value = word.load(order);
        if is_met(value) {
            return value;
        }
        wait_change(word, value);
    }
}

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
