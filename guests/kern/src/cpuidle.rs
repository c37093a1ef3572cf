//! Idle states of the machine, and the governors that choose among them: `idle=menu|haltpoll`.
//!
//! The states are those of the device tree, with what it says of their latencies; a halt is one of
//! them in any case. The governors decide in `guests/sched`; here are what they read, and the way
//! into a state and out of it. While a CPU is in a state that stops its timer, the timer of
//! [`broadcast`] keeps the time for it. Not modelled: states that differ from CPU to CPU.

use core::sync::atomic::AtomicBool;

use guests_sched::menu::{self, INTERVALS, LONG_NS};
use guests_sched::{haltpoll, menu::State};

use crate::arch::atomic::Ordering::Relaxed;
use crate::arch::atomic::{AtomicU32, AtomicU64, AtomicUsize};
use crate::config::{Idle, Policy};
use crate::fdt;
use crate::idle::{halt_idle, mwait_idle, poll_idle};
use crate::percpu::{Cpu, Line};
use crate::task::Task;
use crate::{arch, broadcast, tick};

/// How a CPU enters an idle state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Entry {
    /// HLT, or WFI.
    Halt,
    /// MWAIT with this hint.
    Mwait(u32),
    /// A read of this I/O port.
    Port(u32),
    /// PSCI CPU_SUSPEND with this power state.
    Psci(u32),
}

/// What the node of an idle state says, while the tree is walked.
#[derive(Clone, Copy, Default)]
pub(crate) struct Properties {
    entry: Option<&'static str>,
    value: u32,
    entry_us: u32,
    exit_us: u32,
    wakeup_us: Option<u32>,
    residency_us: u32,
    stops_timer: bool,
}

impl Properties {
    /// Takes note of a property.
    pub(crate) fn take(&mut self, name: &str, value: &'static [u8]) {
        let cell = fdt::number(value).unwrap_or(0) as u32;
        match name {
            "crosscall,entry" => self.entry = fdt::text(value),
            "crosscall,mwait-hint" | "crosscall,io-port" => self.value = cell,
            "arm,psci-suspend-param" => (self.entry, self.value) = (Some("psci"), cell),
            "entry-latency-us" => self.entry_us = cell,
            "exit-latency-us" => self.exit_us = cell,
            "wakeup-latency-us" => self.wakeup_us = Some(cell),
            "min-residency-us" => self.residency_us = cell,
            "local-timer-stop" => self.stops_timer = true,
            _ => {}
        }
    }
}

/// An idle state; read-mostly.
struct IdleState {
    /// Kind of the entry, and what it takes.
    kind: AtomicU32,
    value: AtomicU32,
    residency_ns: AtomicU64,
    exit_ns: AtomicU64,
    stops_timer: AtomicBool,
}

const STATES_MAX: usize = 10;

/// The states, the shallowest first.
static STATES: Line<[IdleState; STATES_MAX]> = Line(
    [const {
        IdleState {
            kind: AtomicU32::new(0),
            value: AtomicU32::new(0),
            residency_ns: AtomicU64::new(0),
            exit_ns: AtomicU64::new(0),
            stops_timer: AtomicBool::new(false),
        }
    }; STATES_MAX],
);

static COUNT: Line<AtomicUsize> = Line(AtomicUsize::new(0));

impl IdleState {
    fn entry(&self) -> Entry {
        let value = self.value.load(Relaxed);
        match self.kind.load(Relaxed) {
            0 => Entry::Halt,
            1 => Entry::Mwait(value),
            2 => Entry::Port(value),
            _ => Entry::Psci(value),
        }
    }

    fn set(&self, entry: Entry, state: State, stops_timer: bool) {
        let (kind, value) = match entry {
            Entry::Halt => (0, 0),
            Entry::Mwait(hint) => (1, hint),
            Entry::Port(port) => (2, port),
            Entry::Psci(power_state) => (3, power_state),
        };
        self.kind.store(kind, Relaxed);
        self.value.store(value, Relaxed);
        self.residency_ns.store(state.residency_ns, Relaxed);
        self.exit_ns.store(state.exit_ns, Relaxed);
        self.stops_timer.store(stops_timer, Relaxed);
    }

    fn state(&self) -> State {
        let (residency_ns, exit_ns) = (self.residency_ns.load(Relaxed), self.exit_ns.load(Relaxed));
        State { residency_ns, exit_ns }
    }
}

fn states() -> &'static [IdleState] {
    &STATES[..COUNT.load(Relaxed)]
}

/// Enters a state at its place by residency; more states than there is room for are dropped.
fn insert(entry: Entry, state: State, stops_timer: bool) {
    let count = COUNT.load(Relaxed);
    if count == STATES_MAX {
        return;
    }
    let is_shallower = |other: &&IdleState| other.state().residency_ns <= state.residency_ns;
    let at = states().iter().take_while(is_shallower).count();
    for from in (at..count).rev() {
        let moved = &STATES[from];
        let stops = moved.stops_timer.load(Relaxed);
        STATES[from + 1].set(moved.entry(), moved.state(), stops);
    }
    STATES[at].set(entry, state, stops_timer);
    COUNT.store(count + 1, Relaxed);
}

/// Takes a state from its node. A state whose timer stops is of use only where something else
/// keeps the time, which the entries that power down can be told.
pub(crate) fn find(node: &Properties) {
    let entry = match node.entry {
        Some("mwait") if arch::has_mwait() => Entry::Mwait(node.value),
        Some("port") => Entry::Port(node.value),
        Some("psci") => Entry::Psci(node.value),
        Some("hlt") => Entry::Halt,
        _ => return,
    };
    let is_told = matches!(entry, Entry::Port(_) | Entry::Psci(_));
    if node.stops_timer && !is_told {
        return;
    }
    let ns = |us: u32| u64::from(us) * 1000;
    let exit = node.wakeup_us.map_or(ns(node.entry_us) + ns(node.exit_us), ns);
    let state = State { residency_ns: ns(node.residency_us), exit_ns: exit };
    insert(entry, state, node.stops_timer);
}

/// A halt that no node tells of, as Linux has WFI.
const HALT: State = State { residency_ns: 1000, exit_ns: 1000 };

/// Completes the table; the tree has been read.
pub(crate) fn init() {
    let is = |test: fn(Entry) -> bool| states().iter().any(|state| test(state.entry()));
    if is(|entry| matches!(entry, Entry::Mwait(_))) {
        // The monitored wait is never worse than the halt.
        let halt = states().iter().position(|state| state.entry() == Entry::Halt);
        if let Some(halt) = halt {
            for (to, from) in STATES[halt..].iter().zip(&STATES[halt + 1..]) {
                to.set(from.entry(), from.state(), from.stops_timer.load(Relaxed));
            }
            COUNT.store(COUNT.load(Relaxed) - 1, Relaxed);
        }
    } else if !is(|entry| entry == Entry::Halt) {
        insert(Entry::Halt, HALT, false);
    }
}

/// What the governors keep for a CPU.
#[repr(C)]
pub(crate) struct Governor {
    /// Lengths of the last sleeps, ns.
    intervals: [AtomicU64; INTERVALS],
    next_interval: AtomicUsize,
    poll_limit_ns: AtomicU64,
    has_poll_timed_out: AtomicBool,
}

impl Governor {
    /// Nothing is known of sleeps yet: they are long.
    pub(crate) fn start(&self) {
        self.intervals.iter().for_each(|interval| interval.store(LONG_NS, Relaxed));
    }

    fn remember(&self, interval_ns: u64) {
        let at = self.next_interval.load(Relaxed);
        self.intervals[at].store(interval_ns, Relaxed);
        self.next_interval.store((at + 1) % INTERVALS, Relaxed);
    }
}

/// One sleep in a state that the governor chooses: `cpuidle_idle_call`.
pub(crate) fn idle_call(cpu: &'static Cpu, idle: &Task, policy: &Policy) {
    if policy.idle == Idle::Menu {
        menu_idle(cpu, idle, policy)
    } else {
        haltpoll_idle(cpu, idle, policy)
    }
}

fn haltpoll_idle(cpu: &'static Cpu, idle: &Task, policy: &Policy) {
    let governor = &cpu.governor;
    let limit = governor.poll_limit_ns.load(Relaxed);
    if haltpoll::should_poll(limit, governor.has_poll_timed_out.load(Relaxed)) {
        let has_timed_out = poll_idle(idle, policy, limit);
        governor.has_poll_timed_out.store(has_timed_out, Relaxed);
        return;
    }
    let begin = tick::sched_clock_ns();
    halt_idle(idle, policy, arch::wait_halt);
    let halted = tick::sched_clock_ns() - begin;
    governor.poll_limit_ns.store(haltpoll::adjusted_ns(limit, halted), Relaxed);
    governor.has_poll_timed_out.store(false, Relaxed);
}

fn menu_idle(cpu: &'static Cpu, idle: &Task, policy: &Policy) {
    let governor = &cpu.governor;
    let begin = tick::sched_clock_ns();
    let next_timer = match tick::next_event(cpu) {
        0 => u64::MAX,
        at => tick::ns_until(at),
    };
    let intervals = core::array::from_fn(|at| governor.intervals[at].load(Relaxed));
    let predicted = menu::predict_ns(&intervals, next_timer);
    let usable = states().len() - states().iter().rev().take_while(|s| !is_usable(s)).count();
    let choice = menu::select(
        states()[..usable].iter().map(IdleState::state),
        predicted,
        policy.latency_limit_ns,
    );
    let Some(choice) = choice.map(|at| &states()[at]) else {
        let limit = states()[0].state().residency_ns;
        let has_timed_out = poll_idle(idle, policy, limit);
        let polled = tick::sched_clock_ns() - begin;
        return governor.remember(if has_timed_out { LONG_NS } else { polled });
    };
    match choice.entry() {
        Entry::Halt => halt_idle(idle, policy, arch::wait_halt),
        Entry::Mwait(hint) => mwait_idle(idle, policy, hint),
        entry => {
            let stops_timer = choice.stops_timer.load(Relaxed);
            halt_idle(idle, policy, || enter_power_state(cpu, entry, stops_timer));
        }
    }
    let slept = tick::sched_clock_ns() - begin;
    governor.remember(menu::interval_ns(slept, choice.exit_ns.load(Relaxed)));
}

/// States whose timer stops are the deepest ones.
fn is_usable(state: &IdleState) -> bool {
    !state.stops_timer.load(Relaxed) || broadcast::is_there()
}

/// Waits for an interrupt, which is masked, then unmasks it.
fn enter_power_state(cpu: &'static Cpu, entry: Entry, stops_timer: bool) {
    let is_told = stops_timer && broadcast::enter(cpu, tick::next_event(cpu));
    arch::wait_power_state(entry);
    if is_told {
        broadcast::exit(cpu);
    }
    // What the power-down has taken from the timer.
    tick::rearm(cpu);
    arch::irq_enable();
}
