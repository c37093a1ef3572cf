//! The scheduler: `schedule`, `schedule_idle`, `resched_curr`, preemption.
//!
//! A CPU switches with preemption disabled exactly once and interrupts off, holding its own
//! run-queue lock, which the incoming task drops. Everything from interrupts off to the last
//! unlock is one IRQ-off section.

use guests_abi::counter::Counter;
use guests_sched::flags::NEED_RESCHED;
use guests_sched::preempt::Class;
use guests_sched::resched::{self, Resched};
use guests_sched::ttwu::TtwuVia;

use crate::arch::atomic::Ordering::{Relaxed, Release, SeqCst};
use crate::arch::{self, Ipi, atomic, irq_disable};
use crate::config::Newidle;
use crate::counters::bump;
use crate::percpu::Cpu;
use crate::points::point;
use crate::task::{Task, state};
use crate::{balance, machine, placement, tick, wake};

/// Why the scheduler runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// The task gives up the CPU, for good if its state says so.
    Voluntary,
    /// The task is preempted: it stays runnable whatever its state says.
    Preempt,
    /// The idle task asks; `has_shortcut`: it stays when nothing is runnable, without picking.
    Idle { has_shortcut: bool },
}

/// Whether the running task was asked to call the scheduler.
#[inline]
pub(crate) fn need_resched() -> bool {
    arch::current().flags() & NEED_RESCHED != 0
}

/// Gives up the CPU: sleeps when the task's state is not RUNNING.
pub(crate) fn schedule() {
    loop {
        arch::preempt_disable();
        irq_disable!(irqoff_schedule);
        __schedule(Mode::Voluntary);
        arch::irq_enable();
        arch::preempt_enable_no_resched();
        if !need_resched() {
            return;
        }
    }
}

/// Calls the scheduler from the idle loop, which runs with preemption disabled.
pub(crate) fn schedule_idle(has_shortcut: bool) {
    loop {
        irq_disable!(irqoff_schedule_idle);
        __schedule(Mode::Idle { has_shortcut });
        arch::irq_enable();
        point!(schedule_idle_end);
        if !need_resched() {
            return;
        }
    }
}

/// The last `preempt_enable` found need: gives up the CPU unless interrupts are off.
#[cold]
pub(crate) fn preempt_schedule() {
    if !arch::irq_is_on() {
        return;
    }
    loop {
        arch::preempt_disable();
        irq_disable!(irqoff_schedule);
        __schedule(Mode::Preempt);
        arch::irq_enable();
        arch::preempt_enable_no_resched();
        if !need_resched() {
            return;
        }
    }
}

/// An interrupt returns to preemptible code that was asked to give up the CPU.
pub(crate) fn preempt_schedule_irq() {
    loop {
        arch::preempt_disable();
        arch::irq_enable();
        irq_disable!(irqoff_schedule);
        __schedule(Mode::Preempt);
        arch::preempt_enable_no_resched();
        if !need_resched() {
            return;
        }
    }
}

/// The reschedule interrupt: enters queued wakes where it stands for them, and folds
/// NEED_RESCHED, so that the interrupt's exit sees it.
#[inline]
pub(crate) fn scheduler_ipi() {
    let cpu = arch::this_cpu();
    if cpu.policy.ttwu_via == TtwuVia::Resched {
        wake::drain_wake_list(cpu);
    }
    if need_resched() {
        arch::preempt_set_need_resched();
    }
}

fn __schedule(mode: Mode) {
    let cpu = arch::this_cpu();
    let prev = cpu.current();
    cpu.rq_lock();
    arch::smp_mb_after_atomic();
    cpu.update_rq_clock();
    let next = match mode {
        Mode::Idle { has_shortcut } => pick_from_idle(cpu, prev, has_shortcut),
        Mode::Voluntary | Mode::Preempt => {
            if mode == Mode::Voluntary && prev.ti.state.load(Relaxed) != state::RUNNING {
                cpu.deactivate_curr(prev);
            }
            cpu.put_prev(prev);
            pick_next(cpu, false)
        }
    };
    atomic::clear_bits(&prev.ti.flags, NEED_RESCHED);
    arch::preempt_clear_need_resched();
    if core::ptr::eq(prev, next) {
        cpu.rq_unlock();
    } else {
        context_switch(cpu, prev, next);
    }
}

fn pick_from_idle(cpu: &'static Cpu, idle: &'static Task, has_shortcut: bool) -> &'static Task {
    if has_shortcut && cpu.rq_count().nr_running.load(Relaxed) == 0 {
        bump(Counter::SchedIdleFast);
        return idle;
    }
    bump(Counter::SchedIdleFull);
    let next = pick_next(cpu, true);
    arch::spin_cycles(cpu.policy.schedule_idle_cost);
    next
}

/// The next task to run: a fair one, else what newidle pulls, else the idle task.
fn pick_next(cpu: &'static Cpu, is_from_idle: bool) -> &'static Task {
    if let Some(task) = cpu.pick_next() {
        return task;
    }
    let should_balance = match cpu.policy.newidle {
        Newidle::On => true,
        Newidle::Off => false,
        Newidle::SkipFromIdle => !is_from_idle,
    };
    if should_balance
        && balance::newidle_balance(cpu)
        && let Some(task) = cpu.pick_next()
    {
        return task;
    }
    placement::update_idle_core(cpu);
    cpu.rqc.idle.get_some()
}

/// Switches to `next`; returns when `prev` runs again, with the lock dropped.
fn context_switch(cpu: &'static Cpu, prev: &'static Task, next: &'static Task) {
    cpu.rql.nr_switches.store(cpu.rql.nr_switches.load(Relaxed) + 1, Relaxed);
    cpu.rqc.curr.set(Some(next));
    next.ts.on_cpu.store(1, Relaxed);
    cpu.pcpu.current.set(Some(next));
    cpu.pcpu.switched_from.set(Some(prev));
    if next.class() != Class::IdleTask {
        tick::start_if_stopped(cpu);
    }
    arch::switch_to(prev, next);
    finish_task_switch();
}

/// Ends a switch in the incoming task: the outgoing one may be woken elsewhere from here on.
fn finish_task_switch() {
    let cpu = arch::this_cpu();
    let prev = cpu.pcpu.switched_from.get_some();
    point!(switch_finish);
    prev.ts.on_cpu.store(0, Release);
    cpu.rq_unlock();
}

/// What a new task does instead of returning from `__schedule`.
pub(crate) fn schedule_tail() {
    finish_task_switch();
    arch::irq_enable();
    arch::preempt_enable();
}

/// Asks CPU `target` to call its scheduler; its run-queue lock is held, interrupts are off.
pub(crate) fn resched_curr(target: usize) {
    let this = arch::this_cpu();
    let is_this_cpu = this.id() == target;
    if !is_this_cpu {
        bump(Counter::ReschedRemote);
        point!(resched_read_flags);
    }
    let curr = machine::cpu(target).rqc.curr.get_some();
    match resched::resched_curr(curr.flags(), is_this_cpu) {
        Resched::Dup => {
            if !is_this_cpu {
                bump(Counter::ReschedDup);
            }
        }
        Resched::Local => {
            atomic::set_bits(&curr.ti.flags, NEED_RESCHED);
            arch::preempt_set_need_resched();
        }
        Resched::Remote if !arch::has_polling(&arch::this_cpu().policy) => {
            atomic::set_bits(&curr.ti.flags, NEED_RESCHED);
            bump(Counter::FlagsRmw);
            send_reschedule(target);
        }
        Resched::Remote => {
            // The replaced value decides, so this is one read-modify-write with a result.
            let replaced = curr.ti.flags.fetch_or(NEED_RESCHED, SeqCst);
            bump(Counter::FlagsRmw);
            if resched::needs_ipi(replaced) {
                send_reschedule(target);
            } else {
                bump(Counter::ReschedSaved);
            }
        }
    }
    point!(resched_signalled);
}

/// Interrupts a CPU for its scheduler.
pub(crate) fn send_reschedule(target: usize) {
    bump(Counter::ReschedIpi);
    arch::send_ipi(target, Ipi::Resched);
}
