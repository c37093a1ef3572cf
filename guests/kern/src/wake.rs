//! Wake-up of sleeping tasks: `try_to_wake_up`, the direct path (`ttwu_queue=off`).
//!
//! The waker holds the wakee's `pi_lock` with interrupts off from the state test to the end.
//! Tasks are pinned, so there is no choice of a CPU. The state of a task that is about to sleep
//! is set by itself, before it tests its condition for the last time; the waker makes the
//! condition true before it tests the state. One of the two sees the other.

use guests_abi::counter::Counter;

use crate::arch::atomic::Ordering::{Acquire, Relaxed, SeqCst};
use crate::arch::{self, irq_restore, irq_save};
use crate::counters::bump;
use crate::machine;
use crate::percpu::Cpu;
use crate::points::point;
use crate::sched::resched_curr;
use crate::task::{Task, state};

/// Sets the state of the running task, ordered before what it reads next.
pub(crate) fn set_current_state(state: u32) {
    arch::this_cpu().current().ti.state.swap(state, SeqCst);
}

/// Wakes a task that sleeps; returns whether it did.
pub(crate) fn try_to_wake_up(wakee: &'static Task) -> bool {
    arch::preempt_disable();
    let was_on = irq_save!(irqoff_wake);
    wakee.pi.lock();
    arch::smp_mb_after_atomic();
    let is_woken = ttwu_locked(wakee);
    wakee.pi.unlock();
    irq_restore(was_on);
    point!(wake_done);
    arch::preempt_enable();
    is_woken
}

fn ttwu_locked(wakee: &'static Task) -> bool {
    if wakee.ti.state.load(Acquire) & state::INTERRUPTIBLE == 0 {
        return false;
    }
    let target = wakee.cpu();
    if wakee.ts.on_rq.load(Relaxed) != 0 && ttwu_runnable(wakee) {
        count_wake(target);
        return true;
    }
    wakee.ti.state.store(state::WAKING, Relaxed);
    if wakee.ts.on_cpu.load(Acquire) != 0 {
        bump(Counter::WakeSpinOncpu);
        arch::cond_load(&wakee.ts.on_cpu, Acquire, |on_cpu| on_cpu == 0);
    }
    ttwu_queue(wakee, target);
    count_wake(target);
    true
}

fn count_wake(target: usize) {
    let is_local = arch::this_cpu().id() == target;
    bump(Counter::WakeDone);
    bump(if is_local { Counter::WakeLocal } else { Counter::WakeDirect });
}

/// The wakee has not left its run queue yet: it only has to be told to stay.
fn ttwu_runnable(wakee: &'static Task) -> bool {
    let target = wakee.cpu();
    let cpu = lock_target(target);
    let is_queued = wakee.ts.on_rq.load(Relaxed) != 0;
    if is_queued {
        // A task that runs is not preempted by itself.
        if wakee.ts.on_cpu.load(Relaxed) == 0 {
            cpu.update_rq_clock();
            check_preempt_curr(cpu, wakee, target);
        }
        wakee.ti.state.store(state::RUNNING, Relaxed);
    }
    cpu.rq_unlock();
    is_queued
}

/// Direct path: locks the target's run queue and enters the wakee.
fn ttwu_queue(wakee: &'static Task, target: usize) {
    let cpu = lock_target(target);
    cpu.update_rq_clock();
    cpu.activate_task(wakee);
    check_preempt_curr(cpu, wakee, target);
    wakee.ti.state.store(state::RUNNING, Relaxed);
    cpu.rq_unlock();
}

fn lock_target(target: usize) -> &'static Cpu {
    let cpu = machine::cpu(target);
    if arch::this_cpu().id() == target {
        cpu.rq_lock();
    } else {
        cpu.rq_lock_remote();
    }
    cpu
}

fn check_preempt_curr(cpu: &Cpu, wakee: &Task, target: usize) {
    if cpu.wakeup_preempts(cpu.rqc.curr.get_some(), wakee) {
        resched_curr(target);
    }
}

/// Enters a new task, whose state is RUNNING. Not a wake-up, and not counted as one.
pub(crate) fn wake_up_new_task(task: &'static Task) {
    arch::preempt_disable();
    let was_on = irq_save!(irqoff_rq);
    ttwu_queue(task, task.cpu());
    irq_restore(was_on);
    arch::preempt_enable();
}
