//! What a core is told about itself and its surroundings. Plain data, computed by `machine`.

use emu_mem::cache::Geometry;
use emu_sim::mutant::Mutation;
use emu_sim::{Freq, SimTime};

use crate::port::Order;
use crate::timing::CoreTiming;

/// An idle state as the core pays for it (the *true* values).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IdleCost {
    /// Name, for reports.
    pub name: String,
    /// Time to enter.
    pub entry: SimTime,
    /// A wake during entry does not pay the rest of it.
    pub is_abortable: bool,
    /// Exit when a store to the monitored line is the cause.
    pub exit_store: SimTime,
    /// Exit for every other cause.
    pub exit_interrupt: SimTime,
    /// Private caches are lost, once every cpu of the core is in such a state.
    pub flushes: bool,
    /// The cpu's timer does not end it, but is looked at when it has been left.
    pub timer_stops: bool,
    /// Others have a say: the machine is told of entry and wake, and says what they cost beyond
    /// this (W5).
    pub is_told: bool,
    /// Added to the answer of a snoop while every cpu of the core waits.
    pub snoop: SimTime,
}

/// In which order stores become visible, and what atomics wait for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemoryOrder {
    /// x86: stores drain in order, atomics behind all of them.
    #[default]
    Total,
    /// arm64: stores drain as their lines come, but where the program orders them.
    Weak,
}

/// Where an atomic is performed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtomicPlace {
    /// In the core, which takes the line for writing.
    #[default]
    Near,
    /// At the line's home, where every copy ends.
    Far,
    /// In the core if it may write the line already, else at the home.
    Held,
}

/// Where atomics are performed, by form; the last that fits decides. Under the weak order only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Atomics {
    /// Those that return a value.
    pub load: AtomicPlace,
    /// Those that return none.
    pub store: AtomicPlace,
    /// Those with release order only.
    pub release: AtomicPlace,
    /// Those with acquire order.
    pub acquire: AtomicPlace,
}

impl Atomics {
    /// Where an atomic of this order that returns a value is performed.
    #[must_use]
    pub const fn load(self, order: Order) -> AtomicPlace {
        match (order.acquires(), order.releases()) {
            (true, _) => self.acquire,
            (false, true) => self.release,
            (false, false) => self.load,
        }
    }

    /// Where an atomic that returns none is performed.
    #[must_use]
    pub const fn store(self, is_release: bool) -> AtomicPlace {
        if is_release { self.release } else { self.store }
    }
}

/// One core's constants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreConfig {
    /// Clock.
    pub freq: Freq,
    /// Latencies and widths.
    pub timing: CoreTiming,
    /// L1 data.
    pub l1d: Geometry,
    /// L1 instruction.
    pub l1i: Geometry,
    /// Private L2.
    pub l2: Geometry,
    /// Leg to the LLC, ps.
    pub core_llc: u64,
    /// Leg to a device, ps.
    pub core_device: u64,
    /// Cycles between a hold's end on one sibling and the other's use of the line.
    pub smt_handover: u64,
    /// Cycles a core keeps a line after a demand grant.
    pub line_keep: u64,
    /// Cycles from an IPI's write to its arrival at the sender itself or its sibling.
    pub ipi_self: u64,
    /// Whether a cpu's own store triggers its monitor.
    pub own_store_triggers: bool,
    /// Memory order.
    pub order: MemoryOrder,
    /// Where atomics are performed.
    pub atomics: Atomics,
    /// Cycles that a load exclusive of a line which the core may write keeps it at most.
    pub exclusive_hold: u64,
    /// One in so many store exclusives fails although the reservation stands (seeded); 0 is none.
    pub exclusive_failure: u32,
    /// Requests a core may have under way.
    pub fill_buffers: usize,
    /// Cpus of the machine.
    pub cpus: u32,
    /// Idle states, by index.
    pub idle: Vec<IdleCost>,
    /// Shortest time from a message of a core to one that it causes at a core, ps (`W`).
    pub window_ps: u64,
    /// Skip iterations of spin loops.
    pub elide_spins: bool,
    /// What the core does wrong.
    pub mutation: Mutation,
}
