//! The arch seam: what a port has to provide.
//!
//! A port is a module `arch/<isa>.rs` with these names, the same for every ISA:
//! - macros `point_here!`, `irq_disable!(point)`, `irq_save!(point)`;
//! - interrupts: `irq_enable`, `irq_restore`, `irq_is_on`;
//! - order and waiting: `cpu_relax`, `smp_mb`, `smp_mb_after_atomic`, `wait_halt`, `wait_mwait`,
//!   `wait_error`, `HAS_POLLING`;
//! - per-CPU base and preemption count: `this_cpu`, `preempt_*`;
//! - time: `clock_ticks`, `clock_ticks_ordered`, `spin_cycles`, `timer_arm`, `timer_stop`;
//! - tasks: `switch_to`, `initial_stack`;
//! - IPIs: `send_ipi`, [`Ipi`];
//! - start: `ArchCpu`, `init_cpu`, `init_timer`, `start_secondary_cpus`, `testdev_base`.

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

#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;
