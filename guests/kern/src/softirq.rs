//! Softirqs: what an interrupt handler leaves to be done at its exit, with interrupts on.
//!
//! A CPU runs what was raised on it at the end of the interrupt, or behind the flush of the call
//! queue in the idle loop, on the stack of the task it interrupted and with preemption disabled.
//! Interrupts that come meanwhile raise more, and leave it to the one that is at work. There is no
//! thread that takes over when that goes on for long (`ksoftirqd`).

use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::{self, irq_disable};
use crate::balance;
use crate::percpu::Cpu;

/// Kind of the work; the value is its bit in the pending word. They run in this order.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Softirq {
    /// Load balance.
    Sched,
}

/// The function of each kind; interrupts are on, preemption is disabled.
const HANDLERS: [(Softirq, fn(&'static Cpu)); 1] =
    [(Softirq::Sched, balance::run_rebalance_domains)];

/// Marks work of a kind as to be done on this CPU; interrupts are off.
#[inline]
pub(crate) fn raise(softirq: Softirq) {
    let pending = &arch::this_cpu().pcpu.softirq_pending;
    pending.store(pending.load(Relaxed) | 1 << softirq as u32, Relaxed);
}

/// Does what was raised, at the exit of an interrupt or of a flush; interrupts are off, and are
/// again on return.
#[inline]
pub(crate) fn run_pending() {
    let cpu = arch::this_cpu();
    if cpu.pcpu.softirq_pending.load(Relaxed) != 0 {
        do_softirq(cpu);
    }
}

#[cold]
fn do_softirq(cpu: &'static Cpu) {
    let pcpu = &cpu.pcpu;
    if pcpu.is_in_softirq.load(Relaxed) != 0 {
        return;
    }
    pcpu.is_in_softirq.store(1, Relaxed);
    arch::preempt_disable();
    loop {
        let pending = pcpu.softirq_pending.load(Relaxed);
        if pending == 0 {
            break;
        }
        pcpu.softirq_pending.store(0, Relaxed);
        arch::irq_enable();
        for (softirq, handler) in HANDLERS {
            if pending & 1 << softirq as u32 != 0 {
                handler(cpu);
            }
        }
        irq_disable!(irqoff_softirq);
    }
    arch::preempt_enable_no_resched();
    pcpu.is_in_softirq.store(0, Relaxed);
}
