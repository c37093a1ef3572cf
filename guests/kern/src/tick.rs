//! Time: the scheduler's clock, the tick, and what the timer of a CPU is armed for.
//!
//! The tick is a one-shot timer that arms itself again. With `nohz=1` it stops when the CPU goes
//! idle and starts when a task is switched in, so that an idle CPU that is only called does not
//! touch its timer: Linux arrives there by keeping the tick for short sleeps.

use crate::arch;
use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::percpu::{Cpu, Line};
use crate::{balance, nohz, timer};

/// Scale of [`Clock::ns_scale`], as a power of two.
const NS_SHIFT: u32 = 22;

/// Conversions of the clock; read-mostly.
#[repr(C)]
struct Clock {
    /// Nanoseconds per clock tick, times 2^[`NS_SHIFT`].
    ns_scale: AtomicU64,
    /// Clock ticks a second.
    hz: AtomicU64,
    /// Clock ticks between two timer ticks.
    period: AtomicU64,
}

static CLOCK: Line<Clock> =
    Line(Clock { ns_scale: AtomicU64::new(0), hz: AtomicU64::new(0), period: AtomicU64::new(0) });

/// Sets the conversions.
pub(crate) fn init(clock_hz: u64, timer_hz: u32) {
    CLOCK.ns_scale.store((1_000_000_000 << NS_SHIFT) / clock_hz, Relaxed);
    CLOCK.hz.store(clock_hz, Relaxed);
    CLOCK.period.store(clock_hz / u64::from(timer_hz.max(1)), Relaxed);
}

/// Time since the clock began, in ns.
#[inline]
pub(crate) fn sched_clock_ns() -> u64 {
    // Wraps after 2^42 clock ticks, some twenty minutes.
    arch::clock_ticks() * CLOCK.ns_scale.load(Relaxed) >> NS_SHIFT
}

/// Time until a clock time, ns; 0 when it is past.
pub(crate) fn ns_until(at: u64) -> u64 {
    at.saturating_sub(arch::clock_ticks()) * CLOCK.ns_scale.load(Relaxed) >> NS_SHIFT
}

/// Clock ticks of a time in us.
pub(crate) fn ticks_from_us(us: u64) -> u64 {
    // A clock may have few ticks a microsecond, and no whole number of them.
    (us * CLOCK.hz.load(Relaxed)).div_ceil(1_000_000)
}

/// Clock time of what comes first, tick or timer; 0 for nothing.
pub(crate) fn next_event(cpu: &Cpu) -> u64 {
    match (cpu.pcpu.next_tick.load(Relaxed), cpu.timers.next()) {
        (0, timer) => timer,
        (tick, 0) => tick,
        (tick, timer) => tick.min(timer),
    }
}

/// Arms the timer of this CPU for what comes first, if anything; interrupts are off.
fn arm(cpu: &Cpu) {
    let next = next_event(cpu);
    if next != 0 {
        arch::timer_arm(next);
    }
}

/// Arms the timer of this CPU for what comes first, or stops it; interrupts are off.
pub(crate) fn rearm(cpu: &Cpu) {
    match next_event(cpu) {
        0 => arch::timer_stop(),
        next => arch::timer_arm(next),
    }
}

/// Starts the tick; interrupts are off.
#[inline]
pub(crate) fn start_if_stopped(cpu: &Cpu) {
    if cpu.pcpu.next_tick.load(Relaxed) == 0 {
        let next = arch::clock_ticks() + CLOCK.period.load(Relaxed);
        cpu.pcpu.next_tick.store(next, Relaxed);
        arm(cpu);
    }
}

/// Stops the tick, or with `nohz=0` makes sure that it runs.
#[inline]
pub(crate) fn enter_idle(cpu: &Cpu) {
    if !cpu.policy.is_nohz {
        start_if_stopped(cpu);
        return;
    }
    let had_tick = cpu.pcpu.next_tick.load(Relaxed) != 0;
    if had_tick || cpu.rql.nohz_tick_stopped.load(Relaxed) == 0 {
        nohz::balance_enter_idle(cpu);
    }
    if had_tick {
        cpu.pcpu.next_tick.store(0, Relaxed);
        rearm(cpu);
    }
}

/// The timer interrupt; interrupts are off.
pub(crate) fn timer_interrupt() {
    let cpu = arch::this_cpu();
    let now = arch::clock_ticks();
    timer::expire(cpu, now);
    let next_tick = cpu.pcpu.next_tick.load(Relaxed);
    if next_tick != 0 && now >= next_tick {
        cpu.pcpu.next_tick.store(now + CLOCK.period.load(Relaxed), Relaxed);
        scheduler_tick(cpu);
        balance::trigger_load_balance(cpu);
    }
    arm(cpu);
}

/// Charges the running task, and preempts it when its slice is over and others wait.
fn scheduler_tick(cpu: &Cpu) {
    cpu.rq_lock();
    cpu.update_rq_clock();
    if !cpu.current().is_idle_task() {
        cpu.task_tick(cpu.current());
    }
    cpu.rq_unlock();
}

/// Spins for a time.
pub(crate) fn busy_wait_us(us: u64) {
    if us == 0 {
        return;
    }
    let until = arch::clock_ticks() + ticks_from_us(us);
    while arch::clock_ticks() < until {
        arch::cpu_relax();
    }
}
