//! Idle CPUs without a tick: the machine-wide lines that know them, and the balance that one of
//! them does for all when a busy CPU kicks it.
//!
//! A CPU enters itself when its tick stops, and takes itself out at its next busy tick, not when it
//! leaves idle. Linux: `nohz_balance_enter_idle`, `nohz_balance_exit_idle`, `nohz_balancer_kick`,
//! `nohz_csd_func`, `_nohz_idle_balance`. Not modelled: averages of idle CPUs that are updated by
//! one that has found no work (`NOHZ_NEWILB_KICK`), housekeeping sets.

use guests_abi::class::LineClass;
use guests_abi::counter::Counter;
use guests_abi::layout::CPUS_MAX;
use guests_sched::balance::IdleKind;
use guests_sched::nohz::{self, BLOCKED_NS, Facts, Ilb, kick};

use crate::arch::atomic::Ordering::{Relaxed, SeqCst};
use crate::arch::atomic::{AtomicU32, AtomicU64};
use crate::arch::{self, atomic};
use crate::counters::bump;
use crate::percpu::{Cpu, Line};
use crate::placement::idle_cpu;
use crate::sched::need_resched;
use crate::softirq::{self, Softirq};
use crate::tick::sched_clock_ns;
use crate::{balance, domain, machine, testdev};

/// NOHZ: counters of tickless CPUs.
struct Nohz {
    /// Kept with `nohz_nr_cpus=1` only.
    nr_cpus: AtomicU32,
    /// 1 when averages of idle CPUs may be out of date.
    has_blocked: AtomicU32,
    next_balance_ns: AtomicU64,
    next_blocked_ns: AtomicU64,
}

static NOHZ: Line<Nohz> = Line(Nohz {
    nr_cpus: AtomicU32::new(0),
    has_blocked: AtomicU32::new(0),
    next_balance_ns: AtomicU64::new(0),
    next_blocked_ns: AtomicU64::new(0),
});

/// NOHZM: the tickless CPUs, one bit each.
static IDLE_CPUS_MASK: Line<[AtomicU32; CPUS_MAX / 32]> =
    Line([const { AtomicU32::new(0) }; CPUS_MAX / 32]);

/// Declares the classes of the machine-global lines.
pub(crate) fn declare_lines() {
    testdev::declare(&NOHZ, LineClass::Nohz);
    testdev::declare(&IDLE_CPUS_MASK, LineClass::Nohzm);
}

/// The first tickless CPU from `from` on.
fn next_idle(from: usize) -> Option<usize> {
    let mut at = from / 32;
    let mut word = IDLE_CPUS_MASK.get(at)?.load(Relaxed) & !0 << (from % 32);
    while word == 0 {
        at += 1;
        word = IDLE_CPUS_MASK.get(at)?.load(Relaxed);
    }
    Some(at * 32 + word.trailing_zeros() as usize)
}

/// Counts a CPU as tickless, whose tick has just stopped.
pub(crate) fn balance_enter_idle(cpu: &Cpu) {
    cpu.rql.has_blocked_load.store(1, Relaxed);
    if cpu.rql.nohz_tick_stopped.load(Relaxed) == 0 {
        cpu.rql.nohz_tick_stopped.store(1, Relaxed);
        let id = cpu.id();
        atomic::set_bits(&IDLE_CPUS_MASK[id / 32], 1 << (id % 32));
        if cpu.policy.has_nohz_nr_cpus {
            NOHZ.nr_cpus.fetch_add(1, Relaxed);
        }
        arch::smp_mb_after_atomic();
        domain::llc(id).shared.nr_busy_cpus.fetch_add(MINUS_ONE, Relaxed);
    }
    NOHZ.has_blocked.store(1, Relaxed);
}

/// Added to a counter, takes one off.
const MINUS_ONE: u32 = u32::MAX;

/// Takes a CPU out of the tickless ones, at a busy tick.
fn balance_exit_idle(cpu: &Cpu) {
    if cpu.rql.nohz_tick_stopped.load(Relaxed) == 0 {
        return;
    }
    cpu.rql.nohz_tick_stopped.store(0, Relaxed);
    let id = cpu.id();
    atomic::clear_bits(&IDLE_CPUS_MASK[id / 32], 1 << (id % 32));
    if cpu.policy.has_nohz_nr_cpus {
        NOHZ.nr_cpus.fetch_add(MINUS_ONE, Relaxed);
    }
    domain::llc(id).shared.nr_busy_cpus.fetch_add(1, Relaxed);
}

fn has_tickless_cpus(cpu: &Cpu) -> bool {
    if cpu.policy.has_nohz_nr_cpus {
        NOHZ.nr_cpus.load(Relaxed) != 0
    } else {
        next_idle(0).is_some()
    }
}

/// What a busy tick does for idle CPUs; interrupts are off.
pub(crate) fn balancer_kick(cpu: &'static Cpu) {
    if idle_cpu(cpu.id()) {
        return;
    }
    balance_exit_idle(cpu);
    if cpu.policy.ilb == Ilb::Off || !has_tickless_cpus(cpu) {
        return;
    }
    let now = sched_clock_ns();
    let facts = Facts {
        is_blocked_due: NOHZ.has_blocked.load(Relaxed) != 0
            && now > NOHZ.next_blocked_ns.load(Relaxed),
        is_balance_due: now >= NOHZ.next_balance_ns.load(Relaxed),
        nr_running: cpu.rq_count().nr_running.load(Relaxed),
    };
    let nr_busy = || domain::llc(cpu.id()).shared.nr_busy_cpus.load(Relaxed);
    let flags = nohz::kick_flags(facts, nr_busy);
    if flags != 0 {
        kick_ilb(cpu, flags, now);
    }
}

/// Kicks the first idle CPU, unless its last kick is still on its way.
fn kick_ilb(cpu: &Cpu, flags: u32, now_ns: u64) {
    if flags & kick::BALANCE != 0 {
        let tick_ns = 1_000_000_000 / u64::from(cpu.policy.hz);
        NOHZ.next_balance_ns.store(now_ns + tick_ns, Relaxed);
    }
    let mut at = next_idle(0);
    while let Some(target) = at {
        if target != cpu.id() && idle_cpu(target) {
            let target_cpu = machine::cpu(target);
            if target_cpu.rql.nohz_flags.fetch_or(flags, SeqCst) == 0 {
                bump(Counter::IlbKick);
                target_cpu.nohz_csd.call_async(target, nohz_csd_func, 0);
            }
            return;
        }
        at = next_idle(target + 1);
    }
}

/// A kick has arrived; interrupts are off.
extern "C" fn nohz_csd_func(_: usize) {
    let cpu = arch::this_cpu();
    let flags = cpu.rql.nohz_flags.swap(0, SeqCst);
    if nohz::is_accepted(cpu.policy.ilb, idle_cpu(cpu.id()), need_resched()) {
        cpu.pcpu.nohz_idle_balance.store(flags, Relaxed);
        softirq::raise(Softirq::Sched);
    }
}

/// Balances on behalf of all tickless CPUs if this one was kicked and is idle; returns whether.
pub(crate) fn idle_balance(cpu: &'static Cpu) -> bool {
    let flags = cpu.pcpu.nohz_idle_balance.load(Relaxed);
    cpu.pcpu.nohz_idle_balance.store(0, Relaxed);
    if flags == 0 || !idle_cpu(cpu.id()) {
        return false;
    }
    bump(Counter::IlbRun);
    if flags & kick::STATS != 0 {
        // A CPU that goes idle from here on says so again: a full barrier.
        NOHZ.has_blocked.swap(0, SeqCst);
    }
    let mut next_balance = u64::MAX;
    let mut has_blocked = false;
    let is_through = for_each_idle_behind(cpu.id(), |target| {
        if nohz::is_aborted(cpu.policy.ilb, idle_cpu(cpu.id()), need_resched()) {
            has_blocked |= flags & kick::STATS != 0;
            return false;
        }
        let target = machine::cpu(target);
        if flags & kick::STATS != 0 {
            has_blocked |= update_nohz_stats(target);
        }
        if sched_clock_ns() >= target.rqc.next_balance_ns.load(Relaxed) {
            target.age_clock_and(|_| ());
            if flags & kick::BALANCE != 0 {
                balance::rebalance_domains(target, IdleKind::Idle);
            }
        }
        next_balance = next_balance.min(target.rqc.next_balance_ns.load(Relaxed));
        true
    });
    if is_through {
        if next_balance != u64::MAX {
            NOHZ.next_balance_ns.store(next_balance, Relaxed);
        }
        if flags & kick::STATS != 0 {
            NOHZ.next_blocked_ns.store(sched_clock_ns() + BLOCKED_NS, Relaxed);
        }
    }
    if has_blocked {
        NOHZ.has_blocked.store(1, Relaxed);
    }
    true
}

/// Calls `each` for all tickless CPUs that are idle, from that behind a CPU on, until it says
/// `false`; returns whether it never did. The CPU itself comes last.
fn for_each_idle_behind(cpu: usize, mut each: impl FnMut(usize) -> bool) -> bool {
    let behind = core::iter::successors(next_idle(cpu + 1), |&at| next_idle(at + 1));
    let before = core::iter::successors(next_idle(0), |&at| next_idle(at + 1));
    let wrapped = behind.chain(before.take_while(|&at| at <= cpu));
    wrapped.filter(|&at| idle_cpu(at)).all(|at| each(at))
}

/// Brings the averages of an idle CPU up to date; returns whether there is something left of them.
fn update_nohz_stats(cpu: &Cpu) -> bool {
    if cpu.rql.has_blocked_load.load(Relaxed) == 0 {
        return false;
    }
    cpu.age();
    let avg = &cpu.cfs.avg;
    let is_left = avg.load_avg.load(Relaxed) | avg.util_avg.load(Relaxed) != 0;
    if !is_left {
        cpu.rql.has_blocked_load.store(0, Relaxed);
    }
    is_left
}
