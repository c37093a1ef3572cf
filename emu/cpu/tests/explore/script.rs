//! The smallest instruction set: one operation at a time, handed in from outside; then it halts.

use emu_cpu::isa::{Flow, Isa, Received};
use emu_cpu::port::{Port, Wait};
use emu_cpu::timing::{Class, OpTiming};
use emu_cpu::wait::{Signal, WaitReason, WaitRequest, WakeCause};
use emu_sim::{LINE_SIZE_LOG2, PhysAddr, SimTime};

/// An operation; lines are numbered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    Load(u8),
    /// Buffered; the line is asked for at once, also behind other stores (L6, X2).
    Store(u8),
    /// Atomic, under a hold (L4).
    Rmw(u8),
    Flush(u8),
    /// MONITOR.
    Arm(u8),
    /// MWAIT in a state that loses the caches: every line is evicted. Ends at once if the monitor
    /// is not armed.
    Sleep,
}

/// Architectural state: what to do next.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Script {
    pub op: Option<Op>,
}

pub const fn address(line: u8) -> PhysAddr {
    PhysAddr((line as u64) << LINE_SIZE_LOG2)
}

/// In shadow mode each atomic changes the line, so that a stale copy is another one; else values
/// are not looked at, and would be states for nothing.
fn changed(old: u128) -> u128 {
    if cfg!(feature = "shadow") { old ^ 1 } else { old }
}

fn wait(reason: WaitReason, state: Option<u8>) -> Flow {
    Flow::Sleep(WaitRequest { reason, state, wake_on_masked: false, deadline: None })
}

impl Isa for Script {
    type Unit = ();

    fn step<P: Port>(&mut self, (): &mut (), port: &mut P) -> Result<Flow, Wait> {
        let class = if matches!(self.op, Some(Op::Rmw(_))) { Class::Rmw } else { Class::Alu };
        port.dispatch(&OpTiming { class, ..OpTiming::default() });
        match self.op {
            None => return Ok(wait(WaitReason::Halt, None)),
            Some(Op::Load(l)) => drop(port.load(address(l), 8)?),
            Some(Op::Store(l)) => port.store(address(l), 8, 0)?,
            Some(Op::Rmw(l)) => drop(port.rmw(address(l), 8, &mut |old| Some(changed(old)))?),
            Some(Op::Flush(l)) => port.flush_line(address(l))?,
            Some(Op::Arm(l)) => port.arm_monitor(address(l))?,
            Some(Op::Sleep) => {
                self.op = None;
                return Ok(wait(WaitReason::Monitor, Some(0)));
            }
        }
        self.op = None;
        Ok(Flow::Next)
    }

    fn receive(&mut self, _: Signal, _: SimTime) -> Received {
        Received::Accepted
    }

    fn timer(&mut self, _: SimTime) -> Option<SimTime> {
        None
    }

    fn wake_cause(&self, _: &WaitRequest) -> Option<WakeCause> {
        self.op.map(|_| WakeCause::Interrupt)
    }

    fn interrupt_ready(&self) -> bool {
        self.op.is_some()
    }

    fn pc(&self) -> u64 {
        0
    }

    fn registers(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn same_state(&self, other: &Self) -> bool {
        self == other
    }
}
