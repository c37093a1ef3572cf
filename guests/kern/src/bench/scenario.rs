//! `bench=scenario`: one operation, from settled, between region begin and end.
//!
//! The callers (`from`) are threads. The first one waits until the targets (`to`) have settled,
//! passes `scenario_ready`, performs `pre` if there is one, begins the region and lets all
//! callers go; each performs `op` `times` times. When all have, and the targets have settled
//! again, the region ends. The harness holds and delays CPUs at points meanwhile.
//!
//! `state=running` keeps the targets busy with a thread that spins with interrupts on.
//! `op=wake` wakes a thread that sleeps on each target, one of the caller's own; with `wakee=free`
//! it may go on elsewhere. `op=wake_from_irq` has the CPUs of `irq_cpu` wake it in turn, in the
//! handler of a call. With `blocked=1` a caller brings the load averages of all CPUs up to date
//! behind each operation, as balancers do: those of a CPU that idles stay as they are otherwise.
//! `busy` and `busy_sched_idle` name more CPUs with an endless task; from `op=release` on those of
//! `busy` may go everywhere, as `spinners` more may from the start. `op=pingpong` passes a token
//! to a thread of each target, which passes it back `gap_us` later; who has passed it on sleeps.

use guests_abi::device::region;
use guests_sched::preempt::Class;

use super::gate::Gate;
use super::{empty, nth_cpu, resched};
use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::{self, irq_restore, irq_save};
use crate::completion::Completion;
use crate::config::{Config, CpuList, Idle, Op};
use crate::console::die;
use crate::cpumask;
use crate::link::Link;
use crate::points::point;
use crate::sched::schedule;
use crate::smp::{CallMany, smp_call_function_many, smp_call_function_single};
use crate::start::config;
use crate::task::{Task, idlest_cpu, kthread_run, kthread_run_unbound, state};
use crate::wake::{lock_target, set_current_state, try_to_wake_up};
use crate::{machine, memory, rq, testdev, tick, timer};

/// What the callers share.
struct Scene {
    callers: usize,
    start: Gate,
    finish: Gate,
    done: Completion,
    /// The tasks of `busy`.
    busy: &'static [Link<Task>],
}

static SCENE: Link<Scene> = Link::none();

/// Rounds of settling after which a target is given up.
const SETTLE_ROUNDS_MAX: usize = 1000;

/// Runs the scenario; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let cpu_count = machine::cpu_count();
    let callers = config.from.count(cpu_count);
    nth_cpu(config.from, 0, "from");
    nth_cpu(config.to, 0, "to");
    let new_caller = |at| {
        let cpu = nth_cpu(config.from, at, "from");
        let does = |op| config.op == op || config.pre == op;
        let caller = Caller {
            cpu,
            is_first: at == 0,
            many: does(Op::CallMany).then(|| CallMany::new(cpu)),
            sleepers: if does(Op::Wake) || does(Op::WakeFromIrq) {
                start_sleepers(config, cpu)
            } else {
                &[]
            },
            tables: if does(Op::Pingpong) { start_partners(config, cpu) } else { &[] },
        };
        memory::alloc_value(machine::node(cpu), caller)
    };
    let caller_list = memory::alloc_slice::<Link<Caller>>(0, callers);
    for (at, slot) in caller_list.iter().enumerate() {
        slot.set(Some(new_caller(at)));
    }
    config.to.for_each(cpu_count, |cpu| {
        if config.is_target_running && !is_in(config.from, cpu) {
            kthread_run(cpu, Class::Normal, keep_busy, &());
        }
    });
    let busy = memory::alloc_slice::<Link<Task>>(0, config.busy.count(cpu_count));
    let mut slots = busy.iter();
    config.busy.for_each(cpu_count, |cpu| {
        let task = kthread_run(cpu, Class::Normal, keep_busy, &());
        slots.next().into_iter().for_each(|slot| slot.set(Some(task)));
    });
    config.busy_sched_idle.for_each(cpu_count, |cpu| {
        kthread_run(cpu, Class::Idle, keep_busy, &());
    });
    let scene = memory::alloc_value(
        0,
        Scene { callers, start: Gate::new(), finish: Gate::new(), done: Completion::new(), busy },
    );
    for _ in 0..config.spinners {
        kthread_run_unbound(idlest_cpu(), Class::Normal, keep_busy, &());
    }
    SCENE.set(Some(scene));
    for caller in caller_list.iter().rev().filter_map(Link::get) {
        kthread_run(caller.cpu, Class::Normal, call_thread, caller);
    }
    scene.done.wait_for(callers as u64);
    guests_abi::exit::PASS
}

/// What one caller has for itself.
struct Caller {
    cpu: usize,
    is_first: bool,
    many: Option<CallMany>,
    /// Its sleeping thread on each target, by CPU.
    sleepers: &'static [Link<Task>],
    /// Its table on each target, by CPU.
    tables: &'static [Link<Table>],
}

/// Where a token goes to and fro between two threads.
struct Table {
    ping: Completion,
    pong: Completion,
}

/// Starts a partner on each target.
fn start_partners(config: &Config, caller: usize) -> &'static [Link<Table>] {
    let cpu_count = machine::cpu_count();
    let tables = memory::alloc_slice::<Link<Table>>(machine::node(caller), cpu_count);
    config.to.for_each(cpu_count, |cpu| {
        let new = Table { ping: Completion::new(), pong: Completion::new() };
        let table = memory::alloc_value(machine::node(cpu), new);
        tables[cpu].set(Some(table));
        kthread_run(cpu, Class::Normal, partner, table);
    });
    tables
}

extern "C" fn partner(table: &'static Table) {
    loop {
        table.ping.wait_for(1);
        tick::busy_wait_us(config().gap_us);
        table.pong.complete();
    }
}

/// Starts them, and waits until they sleep.
fn start_sleepers(config: &Config, caller: usize) -> &'static [Link<Task>] {
    let cpu_count = machine::cpu_count();
    let sleepers = memory::alloc_slice::<Link<Task>>(machine::node(caller), cpu_count);
    config.to.for_each(cpu_count, |cpu| {
        let task = kthread_run(cpu, Class::Normal, sleeper, &());
        while task.ts.on_rq.load(Relaxed) != 0 {
            timer::sleep_us(1);
        }
        if config.is_wakee_free {
            task.ts.allowed.set(Some(cpumask::all()));
        }
        sleepers[cpu].set(Some(task));
    });
    sleepers
}

extern "C" fn call_thread(caller: &'static Caller) {
    let config = config();
    let scene = SCENE.get_some();
    if caller.is_first {
        // The others wait at the gate, and disturb nobody there.
        settle(config);
        point!(scenario_ready);
        operate(config, caller, config.pre, 0);
        testdev::region_begin(region::SCENARIO);
    }
    scene.start.pass(scene.callers, || ());
    for round in 0..config.times {
        point!(op_begin);
        operate(config, caller, config.op, round as usize);
        point!(op_end);
        tick::busy_wait_us(config.gap_us);
        if config.is_updating_blocked {
            update_blocked_averages();
        }
    }
    // Ending a thread wakes the control thread, so nobody ends before the region does.
    scene.finish.pass(scene.callers, || {
        settle(config);
        testdev::region_end(region::SCENARIO);
    });
    scene.done.complete();
}

/// Does it once; `round` counts how often it was done before.
fn operate(config: &Config, caller: &Caller, op: Op, round: usize) {
    let cpu_count = machine::cpu_count();
    match op {
        Op::None => {}
        Op::Release => {
            let busy = SCENE.get_some().busy.iter().filter_map(Link::get);
            busy.for_each(|task| task.ts.allowed.set(Some(cpumask::all())));
            // Now it matters; while they were pinned, a balance may have withdrawn it.
            rq::set_overloaded(true);
        }
        Op::CallSingle => config.to.for_each(cpu_count, |target| {
            smp_call_function_single(target, empty, 0, config.is_wait);
        }),
        Op::CallMany => {
            if let Some(many) = &caller.many {
                let targets = |each: &mut dyn FnMut(usize)| config.to.for_each(cpu_count, each);
                smp_call_function_many(many, targets, empty, 0, config.is_wait);
            }
        }
        Op::Resched => config.to.for_each(cpu_count, resched),
        Op::Wake => config.to.for_each(cpu_count, |target| {
            if let Some(sleeper) = caller.sleepers[target].get() {
                try_to_wake_up(sleeper);
            }
        }),
        Op::Pingpong => config.to.for_each(cpu_count, |target| {
            if let Some(table) = caller.tables[target].get() {
                table.ping.complete();
                table.pong.wait_for(1);
            }
        }),
        Op::WakeFromIrq => config.to.for_each(cpu_count, |target| {
            if let Some(sleeper) = caller.sleepers[target].get() {
                let arg = core::ptr::from_ref(sleeper) as usize;
                let irq_cpus = config.irq_cpu.count(cpu_count).max(1);
                let irq_cpu = nth_cpu(config.irq_cpu, round % irq_cpus, "irq_cpu");
                smp_call_function_single(irq_cpu, wake_in_handler, arg, config.is_wait);
            }
        }),
    }
}

fn update_blocked_averages() {
    for cpu in 0..machine::cpu_count() {
        arch::preempt_disable();
        let was_on = irq_save!(irqoff_rq);
        let rq = lock_target(cpu);
        rq.update_rq_clock();
        rq.update_blocked_averages();
        rq.rq_unlock();
        irq_restore(was_on);
        arch::preempt_enable();
    }
}

fn is_in(list: CpuList, cpu: usize) -> bool {
    let mut is_in = false;
    list.for_each(machine::cpu_count(), |other| is_in |= other == cpu);
    is_in
}

/// Waits `settle_us`, and on until every idle target is in its wait. A polling target cannot be
/// told from a running one by its run state, and released tasks may be anywhere: the time has to
/// do.
fn settle(config: &Config) {
    let are_released = [config.op, config.pre].contains(&Op::Release);
    for _ in 0..SETTLE_ROUNDS_MAX {
        tick::busy_wait_us(config.settle_us);
        if config.is_target_running || config.policy.idle == Idle::Poll || are_released {
            return;
        }
        let mut are_waiting = true;
        config.to.for_each(machine::cpu_count(), |cpu| {
            let is_waiting = testdev::run_state(cpu).is_some_and(|state| state.is_wait());
            let lists = [config.from, config.busy, config.busy_sched_idle];
            are_waiting &= is_waiting || lists.iter().any(|&list| is_in(list, cpu));
        });
        if are_waiting {
            return;
        }
    }
    die!(TIMEOUT, "a target does not settle");
}

#[expect(unsafe_code, reason = "makes a reference of a call's argument")]
extern "C" fn wake_in_handler(sleeper: usize) {
    // SAFETY: the caller passed the address of a task, and tasks are never freed.
    try_to_wake_up(unsafe { &*(sleeper as *const Task) });
}

extern "C" fn keep_busy(_: &'static ()) {
    loop {
        point!(busy_loop);
        arch::cpu_relax();
    }
}

extern "C" fn sleeper(_: &'static ()) {
    loop {
        set_current_state(state::INTERRUPTIBLE);
        schedule();
        point!(wakee_runs);
    }
}
