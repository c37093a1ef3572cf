//! Waiting as a value: run states, reasons, causes, and the monitor.

use emu_sim::{LineAddr, SimTime};

pub use emu_observe::WakeCause;

use crate::port::DeviceAccess;

/// MONITOR hardware of one cpu, in the manual's words; on arm64 its exclusive monitor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MonitorState {
    /// No address is watched.
    #[default]
    Unarmed,
    /// The line is watched.
    Armed(LineAddr),
    /// The line is reserved by a load exclusive (arm64): a store exclusive succeeds.
    Reserved(LineAddr),
    /// A store came, or the reservation fell; a wait on the monitor falls through.
    Triggered,
}

/// What reaches a cpu from outside, on either ISA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// A maskable interrupt of this vector (x86), or a software-generated one of this INTID.
    Interrupt {
        /// Vector or INTID.
        vector: u8,
        /// Level triggered.
        level: bool,
        /// Logical destination still to be matched by the receiver, or `None`.
        logical: Option<u64>,
    },
    /// A non-maskable interrupt.
    Nmi,
    /// INIT.
    Init,
    /// Start-up IPI with its page.
    Startup(u8),
    /// SEV of another cpu.
    Event,
    /// The highest shared interrupt that the distributor has pending for this cpu.
    Forward {
        /// Number.
        intid: u16,
        /// Priority.
        priority: u8,
        /// Group.
        group: u8,
    },
    /// The distributor takes a forwarded interrupt back.
    Retract {
        /// Number.
        intid: u16,
        /// What it hears when the cpu no longer has it.
        answer: Option<DeviceAccess>,
    },
    /// Firmware starts the cpu.
    PowerOn {
        /// Address of its first instruction.
        entry: u64,
        /// Its first argument.
        context: u64,
    },
    /// Forget translations or code. The engine answers the sender once the receiver's instruction
    /// has ended and its stores have drained; see `Fence::Answers`.
    Invalidate {
        /// What, in the words of the instruction set.
        what: [u64; 2],
    },
}

/// What a cpu tells its power domains (W5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerVote {
    /// It begins to wait in an idle state; the number counts its waits.
    Down(u8, u64),
    /// It waits to be started.
    Off,
    /// It wakes.
    Up,
}

/// What a cpu waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitReason {
    /// HLT or WFI: an interrupt.
    Halt,
    /// MWAIT and kin: a store to the monitored line, or an interrupt.
    Monitor,
    /// TPAUSE: time or interrupt.
    Pause,
    /// A power state by port or firmware: an interrupt.
    Power,
    /// INIT was received; a start-up IPI is awaited.
    Startup,
    /// Shutdown after a triple fault.
    Shutdown,
}

/// A request to wait, made by the instruction that enters it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitRequest {
    /// What for.
    pub reason: WaitReason,
    /// Index of the idle state in the machine's table, or `None` for a wait without state.
    pub state: Option<u8>,
    /// Wake also for interrupts that are masked (MWAIT ECX\[0\]).
    pub wake_on_masked: bool,
    /// Latest end.
    pub deadline: Option<SimTime>,
}
