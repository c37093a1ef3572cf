//! What the engine asks of an instruction set.

use emu_sim::SimTime;

use crate::port::{Port, Wait};
use crate::wait::{Signal, WaitRequest, WakeCause};

/// What an instruction did, beyond its registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on with the next instruction.
    Next,
    /// The cpu waits; `Isa::wake` ends it.
    Sleep(WaitRequest),
    /// No handler can be reached any more: triple fault. The cpu is in shutdown.
    Shutdown,
}

/// The architectural state of one cpu and the meaning of its instructions.
///
/// The engine owns time, caches, buffers and waits; an `Isa` owns registers, translation, and
/// interrupt controller state that is local to the cpu.
pub trait Isa: Clone + std::fmt::Debug {
    /// What the cpus of one unit share on the host: decoded blocks. No architectural state.
    type Unit: Clone + std::fmt::Debug + Default;

    /// Runs one instruction (one iteration of a repeated string instruction), or takes a pending
    /// interrupt, or delivers an exception.
    ///
    /// # Errors
    /// `Wait`: not complete; nothing architectural has changed.
    fn step<P: Port>(&mut self, unit: &mut Self::Unit, port: &mut P) -> Result<Flow, Wait>;

    /// Receives a signal at simulated time `now`. Returns whether the cpu has something new to act
    /// on (an interrupt, INIT, a start-up), masked or not.
    fn receive(&mut self, signal: Signal, now: SimTime) -> Received;

    /// The cpu's timer has expired. Returns the next expiry.
    fn timer(&mut self, now: SimTime) -> Option<SimTime>;

    /// The cause for which a cpu that waits as `request` says must leave now, if any: pending and
    /// unmasked interrupts, masked ones where the request says so, NMI, INIT, start-up.
    fn wake_cause(&self, request: &WaitRequest) -> Option<WakeCause>;

    /// Whether an interrupt is pending that this cpu would take before its next instruction.
    fn interrupt_ready(&self) -> bool;

    /// Address of the next instruction (virtual), for points, reports and traces.
    fn pc(&self) -> u64;

    /// General registers by name, for reports.
    fn registers(&self) -> Vec<(&'static str, u64)>;

    /// Whether two states are equal in all that decides what the cpu does next, time excepted.
    /// For spin elision (`engine.md` S2).
    fn same_state(&self, other: &Self) -> bool;
}

/// What became of a received signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Pending now.
    Accepted,
    /// The same vector was pending already.
    Merged,
    /// Not addressed to this cpu, or not accepted in its state.
    Ignored,
}
