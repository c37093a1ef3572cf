//! The idle loop: `do_idle`, by `idle=poll|mwait|halt|wfi` or as the governors of `cpuidle` choose,
//! with the exit that `call_idle` asks for.
//!
//! The order at the exit is what keeps calls from getting lost: clear POLLING, full barrier,
//! flush. A caller that saw POLLING is served by the flush; one that comes later sees it clear
//! and sends an interrupt.
//!
//! Deliberately broken (`broken=`), for the test that looks for lost calls:
//! - `no_barrier`: POLLING is cleared by a plain load and store, and the queue is peeked at by a
//!   plain load before it is taken. The load overtakes the store in the store buffer (and the
//!   store may wipe out a signal set in between), so a caller can see POLLING while the target
//!   has already seen its queue empty. For the store to stay in the buffer that long, an older
//!   one has to be slow: the variant first logs the exit to a line that no cache holds. And the
//!   target has to wake for another reason than a call, whose queue would not be empty: `race=1`.
//! - `flush_first`: the flush comes before POLLING is cleared. A call between the two is
//!   neither flushed nor interrupted for.

use guests_sched::call_idle::{self, IdleSchedule};
use guests_sched::flags::{NEED_RESCHED, NOTIFY_IPI, POLLING};
use guests_sched::ttwu::TtwuVia;

use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::atomic::{AtomicU64, AtomicUsize};
use crate::arch::{self, atomic, irq_disable};
use crate::config::{Broken, Idle, Policy};
use crate::link::Link;
use crate::percpu::Cpu;
use crate::points::point;
use crate::task::Task;
use crate::{cpuidle, memory, sched, smp, tick, wake};

/// Log of idle exits, for `broken=no_barrier`: each record goes to a fresh line.
struct ExitLog {
    words: &'static [AtomicU64],
    next: AtomicUsize,
}

static EXIT_LOG: Link<ExitLog> = Link::none();

/// Words of the log, eight to a line; it starts over when it is full.
const EXIT_LOG_WORDS: usize = 4 << 20;

/// Prepares `broken=no_barrier`; before other CPUs run.
pub(crate) fn init(policy: &Policy) {
    if policy.broken == Broken::NoBarrier {
        let words = memory::alloc_untouched(0, EXIT_LOG_WORDS);
        EXIT_LOG.set(Some(memory::alloc_value(0, ExitLog { words, next: AtomicUsize::new(0) })));
    }
}

impl ExitLog {
    fn record(&self) {
        let at = self.next.load(Relaxed);
        self.next.store((at + 8) % EXIT_LOG_WORDS, Relaxed);
        self.words[at].store(1, Relaxed);
    }
}

/// What a CPU does when boot is over: idles, for ever. Preemption is disabled, interrupts are on.
pub(crate) fn cpu_startup_entry() -> ! {
    let cpu = arch::this_cpu();
    let idle = cpu.idle();
    loop {
        do_idle(cpu, idle, &cpu.policy);
    }
}

fn do_idle(cpu: &'static Cpu, idle: &'static Task, policy: &Policy) {
    point!(idle_begin);
    set_polling(idle, policy);
    tick::enter_idle(cpu);
    while {
        point!(idle_test);
        !is_woken(idle, policy)
    } {
        match policy.idle {
            Idle::Poll => cpu_idle_poll(idle, policy),
            Idle::Mwait => mwait_idle(idle, policy, 0),
            Idle::Halt => halt_idle(idle, policy, arch::wait_halt),
            Idle::Menu | Idle::Haltpoll => cpuidle::idle_call(cpu, idle, policy),
        }
    }
    if idle.flags() & NEED_RESCHED != 0 {
        arch::preempt_set_need_resched();
    }
    leave_polling(idle, policy);
    point!(idle_flushed);
    match call_idle::idle_schedule(policy.call_idle, idle.flags()) {
        IdleSchedule::Skip => {}
        IdleSchedule::Full => sched::schedule_idle(false),
        IdleSchedule::ShortcutIfEmpty => sched::schedule_idle(true),
    }
}

#[inline]
fn is_woken(idle: &Task, policy: &Policy) -> bool {
    idle.flags() & policy.call_idle.wake_bits() != 0
}

/// Sets POLLING, ordered before what is read next.
#[inline]
fn set_polling(idle: &Task, policy: &Policy) {
    if arch::has_polling(policy) {
        atomic::set_bits(&idle.ti.flags, POLLING);
        arch::smp_mb_after_atomic();
    }
}

/// Clears POLLING, ordered before what is read next.
#[inline]
fn clear_polling(idle: &Task, policy: &Policy) {
    if arch::has_polling(policy) {
        atomic::clear_bits(&idle.ti.flags, POLLING);
        arch::smp_mb_after_atomic();
    }
}

/// Ends polling and serves the callers that relied on it.
#[inline]
fn leave_polling(idle: &Task, policy: &Policy) {
    if policy.broken != Broken::None {
        return leave_polling_broken(idle, policy);
    }
    point!(idle_clear_polling);
    clear_polling(idle, policy);
    if call_idle::wakes_by_notify(policy.call_idle) {
        atomic::clear_bits(&idle.ti.flags, NOTIFY_IPI);
    }
    point!(idle_polling_cleared);
    if call_idle::flushes(policy.call_idle) {
        smp::flush_smp_call_function_queue();
    }
    if policy.ttwu_via == TtwuVia::Resched && policy.is_ttwu_poll {
        drain_wakes_of_pollers();
    }
}

/// Enters the wakes of those who saw POLLING and sent no interrupt (3.16 to 5.7).
fn drain_wakes_of_pollers() {
    irq_disable!(irqoff_flush);
    wake::drain_wake_list(arch::this_cpu());
    arch::irq_enable();
}

#[cold]
fn leave_polling_broken(idle: &Task, policy: &Policy) {
    let flags = &idle.ti.flags;
    let should_flush = call_idle::flushes(policy.call_idle);
    if policy.broken == Broken::FlushFirst && should_flush {
        smp::flush_smp_call_function_queue();
    }
    if let Some(log) = EXIT_LOG.get() {
        log.record();
    }
    point!(idle_clear_polling);
    flags.store(flags.load(Relaxed) & !(POLLING | NOTIFY_IPI), Relaxed);
    point!(idle_polling_cleared);
    if policy.broken == Broken::NoBarrier && should_flush && !smp::queue_looks_empty() {
        smp::flush_smp_call_function_queue();
    }
}

/// `idle=poll`: spins on the flags with POLLING set all the time, or where there is no POLLING
/// until an interrupt changes them.
fn cpu_idle_poll(idle: &Task, policy: &Policy) {
    loop {
        point!(poll_loop);
        let flags = idle.flags();
        if flags & policy.call_idle.wake_bits() != 0 {
            break;
        }
        if arch::has_polling(policy) {
            arch::wait_change(&idle.ti.flags, flags);
        } else {
            arch::cpu_relax();
        }
    }
    point!(idle_woken);
}

/// Turns of [`poll_idle`] between two looks at the clock.
const POLL_TURNS: u32 = 200;

/// Polls the flags for `limit_ns`, with POLLING set; returns whether the time is over.
pub(crate) fn poll_idle(idle: &Task, policy: &Policy, limit_ns: u64) -> bool {
    let begin = tick::sched_clock_ns();
    loop {
        for _ in 0..POLL_TURNS {
            point!(poll_loop);
            if is_woken(idle, policy) {
                point!(idle_woken);
                return false;
            }
            arch::cpu_relax();
        }
        if tick::sched_clock_ns() - begin >= limit_ns {
            return true;
        }
    }
}

/// `idle=mwait`: the generic code clears POLLING, the mwait routine sets it again around the
/// wait. With `polling_once=1` it stays set.
pub(crate) fn mwait_idle(idle: &Task, policy: &Policy, hint: u32) {
    let is_toggling = !policy.is_polling_once;
    irq_disable!(irqoff_idle_entry);
    if is_toggling {
        clear_polling(idle, policy);
        if is_woken(idle, policy) {
            arch::irq_enable();
            set_polling(idle, policy);
            return;
        }
        point!(mwait_set_polling);
        set_polling(idle, policy);
    }
    if !is_woken(idle, policy) {
        point!(mwait_monitor);
        arch::monitor(idle.ti.flags.as_ptr());
        point!(idle_last_test);
        if !is_woken(idle, policy) {
            arch::mwait(hint);
        }
    }
    point!(idle_woken);
    if is_toggling {
        clear_polling(idle, policy);
    }
    arch::irq_enable();
    if is_toggling {
        set_polling(idle, policy);
    }
}

/// `idle=halt` and `idle=wfi`: a halted CPU sees no store, so POLLING is clear while it waits.
/// `wait` waits with interrupts masked and unmasks them.
pub(crate) fn halt_idle(idle: &Task, policy: &Policy, wait: impl FnOnce()) {
    irq_disable!(irqoff_idle_entry);
    point!(halt_clear_polling);
    clear_polling(idle, policy);
    point!(idle_last_test);
    if is_woken(idle, policy) {
        arch::irq_enable();
    } else {
        wait();
    }
    point!(idle_woken);
    set_polling(idle, policy);
}
