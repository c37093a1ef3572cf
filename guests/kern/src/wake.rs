//! Wake-up of sleeping tasks: `try_to_wake_up`, by either path of `ttwu_queue`.
//!
//! Direct: the waker locks the target's run queue and enters the wakee. Queued: the wakee goes on
//! a list of the target, which enters it when it is interrupted or leaves its idle loop.
//!
//! The waker holds the wakee's `pi_lock` with interrupts off from the state test to the end. A
//! wakee that is not pinned gets its CPU by `placement`. The state of a task that is about to sleep
//! is set by itself, before it tests its condition for the last time; the waker makes the
//! condition true before it tests the state. One of the two sees the other.

use guests_abi::counter::Counter;
use guests_sched::call_idle::CallIdle;
use guests_sched::ttwu::{self, Path, TtwuVia};

use crate::arch::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::arch::{self, irq_restore, irq_save};
use crate::counters::bump;
use crate::llist::List;
use crate::percpu::Cpu;
use crate::points::point;
use crate::rq::{Enqueue, set_task_cpu};
use crate::sched::send_reschedule;
use crate::task::{Task, state};
use crate::{machine, placement, smp};

/// Sets the state of the running task, ordered before what it reads next.
pub(crate) fn set_current_state(state: u32) {
    arch::current().ti.state.swap(state, SeqCst);
}

/// Wakes a task that sleeps; returns whether it did.
pub(crate) fn try_to_wake_up(wakee: &'static Task) -> bool {
    try_to_wake_up_as(wakee, false)
}

/// As [`try_to_wake_up`]; `is_sync` is the hint that the waker is about to sleep (`WF_SYNC`).
pub(crate) fn try_to_wake_up_as(wakee: &'static Task, is_sync: bool) -> bool {
    arch::preempt_disable();
    let was_on = irq_save!(irqoff_wake);
    wakee.pi.lock();
    arch::smp_mb_after_atomic();
    let is_woken = ttwu_locked(wakee, is_sync);
    wakee.pi.unlock();
    irq_restore(was_on);
    point!(wake_done);
    arch::preempt_enable();
    is_woken
}

fn ttwu_locked(wakee: &'static Task, is_sync: bool) -> bool {
    if wakee.ti.state.load(Acquire) & state::INTERRUPTIBLE == 0 {
        return false;
    }
    if wakee.ts.on_rq.load(Acquire) != 0
        && let Some(target) = ttwu_runnable(wakee)
    {
        count_wake(target);
        return true;
    }
    wakee.ti.state.store(state::WAKING, Relaxed);
    // On no run queue, it stays with the CPU it has left.
    let target = wakee.cpu();
    if wakee.ts.on_cpu.load(Acquire) != 0 {
        let variant = arch::this_cpu().policy.ttwu_queue;
        if variant.queues_on_cpu() && ttwu_path(target, true) == Path::Queued {
            ttwu_queue_wakelist(wakee, target);
            return true;
        }
        bump(Counter::WakeSpinOncpu);
        arch::cond_load(&wakee.ts.on_cpu, Acquire, |on_cpu| on_cpu == 0);
    }
    let target = select_task_rq(wakee, target, is_sync);
    ttwu_queue(wakee, target);
    true
}

/// Chooses the CPU for a wakee that is off its CPU, and moves it there.
fn select_task_rq(wakee: &'static Task, prev: usize, is_sync: bool) -> usize {
    if wakee.is_pinned() {
        return prev;
    }
    let cpu = placement::select_task_rq_fair(wakee, prev, is_sync);
    if cpu != prev {
        bump(Counter::MigWake);
        set_task_cpu(wakee, cpu);
    }
    cpu
}

fn count_wake(target: usize) {
    let is_local = arch::this_cpu().id() == target;
    bump(Counter::WakeDone);
    bump(if is_local { Counter::WakeLocal } else { Counter::WakeDirect });
}

/// The wakee has not left its run queue yet: it only has to be told to stay. Returns its CPU.
fn ttwu_runnable(wakee: &'static Task) -> Option<usize> {
    let mut target = wakee.cpu();
    let mut cpu = lock_target(target);
    // A balance may have moved it before the lock was there.
    while wakee.cpu() != target {
        cpu.rq_unlock();
        target = wakee.cpu();
        cpu = lock_target(target);
    }
    let is_queued = wakee.ts.on_rq.load(Relaxed) != 0;
    if is_queued {
        // A task that runs is not preempted by itself.
        if wakee.ts.on_cpu.load(Relaxed) == 0 {
            cpu.update_rq_clock();
            cpu.check_preempt_curr(wakee);
        }
        wakee.ti.state.store(state::RUNNING, Relaxed);
    }
    cpu.rq_unlock();
    is_queued.then_some(target)
}

/// Enters the wakee on the target's run queue, or has the target do it.
fn ttwu_queue(wakee: &'static Task, target: usize) {
    let cpu = match ttwu_path(target, false) {
        Path::Direct => lock_target(target),
        Path::DirectIfFree if machine::cpu(target).rq_trylock_remote() => machine::cpu(target),
        Path::DirectIfFree | Path::Queued => return ttwu_queue_wakelist(wakee, target),
    };
    cpu.update_rq_clock();
    activate(cpu, wakee, Enqueue::Wakeup);
    cpu.rq_unlock();
    count_wake(target);
}

/// Which path the policy asks for.
fn ttwu_path(target: usize, is_on_cpu: bool) -> Path {
    let this = arch::this_cpu();
    let facts = ttwu::Facts {
        is_this_cpu: this.id() == target,
        is_same_l2: machine::share_l2(this.id(), target),
        is_same_llc: machine::share_llc(this.id(), target),
        is_on_cpu,
    };
    ttwu::path(this.policy.ttwu_queue, facts, || {
        machine::cpu(target).rq_count().nr_running.load(Relaxed)
    })
}

/// Queued path: the wakee goes on a list of the target, which is signalled if the list was empty.
fn ttwu_queue_wakelist(wakee: &'static Task, target: usize) {
    let cpu = machine::cpu(target);
    let policy = &arch::this_cpu().policy;
    bump(Counter::WakeDone);
    bump(Counter::WakeQueued);
    wakee.ts.wake_entry.flags.store(smp::TTWU, Relaxed);
    match policy.ttwu_via {
        TtwuVia::Csd => {
            cpu.rq_count().ttwu_pending.store(1, Relaxed);
            smp::__smp_call_single_queue(target, &wakee.ts.wake_entry);
        }
        TtwuVia::Resched if !cpu.wake_list.push(&wakee.ts.wake_entry) => {
            bump(Counter::CallRemote);
            bump(Counter::CallFolded);
        }
        TtwuVia::Resched => {
            bump(Counter::ReschedRemote);
            if policy.is_ttwu_poll && smp::signal_polling(target, CallIdle::NeedResched) {
                bump(Counter::ReschedSaved);
            } else {
                send_reschedule(target);
            }
        }
    }
}

/// Enters what others queued here with `ttwu_via=resched`; interrupts are off.
#[inline]
pub(crate) fn drain_wake_list(cpu: &'static Cpu) {
    if !cpu.wake_list.looks_empty() {
        sched_ttwu_pending(cpu, cpu.wake_list.take());
    }
}

/// Enters queued wakees, oldest first, under one hold of the own run-queue lock; interrupts are
/// off.
pub(crate) fn sched_ttwu_pending(cpu: &'static Cpu, mut wakes: List) {
    cpu.rq_lock();
    cpu.update_rq_clock();
    while let Some(entry) = wakes.pop() {
        let wakee = Task::of_wake_entry(entry);
        // A wakee that was queued while it was switched out here is off its CPU by now.
        arch::cond_load(&wakee.ts.on_cpu, Acquire, |on_cpu| on_cpu == 0);
        activate(cpu, wakee, Enqueue::Wakeup);
    }
    // Not earlier: until the wakees count as running, this says that the CPU is not idle.
    cpu.rq_count().ttwu_pending.store(0, Relaxed);
    cpu.rq_unlock();
}

/// Enters the wakee and tests for preemption; the lock is held and the clock up to date.
fn activate(cpu: &Cpu, wakee: &'static Task, enqueue: Enqueue) {
    cpu.update_avg_idle();
    cpu.activate_task(wakee, enqueue);
    cpu.check_preempt_curr(wakee);
    wakee.ti.state.store(state::RUNNING, Relaxed);
}

/// Takes the run-queue lock of a CPU, this one or another; interrupts are off.
pub(crate) fn lock_target(target: usize) -> &'static Cpu {
    let cpu = machine::cpu(target);
    cpu.rq_lock_any();
    cpu
}

/// Enters a new task, whose state is RUNNING. Not a wake-up, and not counted as one.
pub(crate) fn wake_up_new_task(task: &'static Task) {
    arch::preempt_disable();
    let was_on = irq_save!(irqoff_rq);
    let cpu = lock_target(task.cpu());
    cpu.update_rq_clock();
    activate(cpu, task, Enqueue::New);
    cpu.rq_unlock();
    irq_restore(was_on);
    arch::preempt_enable();
}
