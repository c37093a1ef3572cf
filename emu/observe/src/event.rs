//! Typed events: what a run says about itself, each with its time and cpu.
//!
//! Nodes collect records in buffers of their own while they run ahead of each other; the machine
//! hands them to its observer merged in time order, so a trace does not depend on the host (D5).

use emu_sim::{CpuId, LineAddr, SimTime};

/// Why an idle wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeCause {
    /// A store to the monitored line.
    MonitorStore,
    /// An interrupt.
    Interrupt,
    /// A non-maskable interrupt.
    Nmi,
    /// INIT or start-up.
    Reset,
    /// An event: SEV of another cpu, or what the manual counts as one (arm64).
    Event,
    /// The deadline of the wait.
    Timeout,
    /// None: seeded, or allowed by the manual.
    Spurious,
}

/// Identity of one interrupt message: sending cpu and its count, the same at every place that
/// reports on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpiId {
    /// Sender.
    pub from: CpuId,
    /// Count of the sender's messages.
    pub n: u64,
}

impl IpiId {
    /// In place of the sender where a device sends.
    pub const DEVICE: CpuId = CpuId(u32::MAX);
}

/// One thing that happened on a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The write that sends an IPI began (issue of the ICR write) at `began`; it left now. One
    /// record for each cpu addressed.
    IpiSent {
        /// Message.
        id: IpiId,
        /// Receiver.
        to: CpuId,
        /// Vector.
        vector: u8,
        /// Issue of the write.
        began: SimTime,
    },
    /// The message reached this cpu and is pending.
    IpiAccepted {
        /// Message.
        id: IpiId,
        /// Vector.
        vector: u8,
    },
    /// The message reached this cpu, where the vector was pending already.
    IpiMerged {
        /// Message.
        id: IpiId,
        /// Vector.
        vector: u8,
    },
    /// Interrupt entry begins: the end of the pending time.
    InterruptTaken {
        /// Vector.
        vector: u8,
        /// Instructions were held up by a masked flag or shadow for this part of the pending time.
        masked: SimTime,
    },
    /// The first instruction of the handler dispatches: the end of entry.
    HandlerBegin {
        /// Vector.
        vector: u8,
    },
    /// The handler returned to what it had interrupted.
    HandlerEnd,
    /// A wait begins. `state` is the index in the machine's idle-state table, if it has one.
    IdleEnter {
        /// Idle state.
        state: Option<u8>,
    },
    /// The event that ends the wait reached the cpu now, or before the wait had begun;
    /// instructions dispatch from `resumes` on.
    IdleExit {
        /// Cause.
        cause: WakeCause,
        /// Idle state left.
        state: Option<u8>,
        /// Since when the cpu waited.
        since: SimTime,
        /// First dispatch.
        resumes: SimTime,
    },
    /// IF went from set to clear at `pc`, or from clear to set.
    InterruptFlag {
        /// New value.
        enabled: bool,
        /// Instruction address; at an interrupt's entry, that of the interrupted instruction.
        pc: u64,
    },
    /// The cpu passed a point of the image.
    Point {
        /// Index in the image's point table.
        index: u32,
    },
    /// A region of interest begins.
    RegionBegin {
        /// Region id.
        id: u64,
    },
    /// A region of interest ends.
    RegionEnd {
        /// Region id.
        id: u64,
    },
    /// A sample written to the test device.
    Sample {
        /// Sample id.
        id: u64,
        /// Value.
        value: u64,
    },
    /// A miss, upgrade or flush left the core for this line.
    LineRequest {
        /// Line.
        line: LineAddr,
        /// Asks to write.
        write: bool,
    },
    /// Permission arrived.
    LineGrant {
        /// Line.
        line: LineAddr,
        /// May write.
        write: bool,
    },
    /// A snoop ended or reduced this core's permission.
    LineLost {
        /// Line.
        line: LineAddr,
        /// A readable copy is left.
        kept: bool,
    },
    /// One instruction, or one iteration of a repeated one, retired (instruction traces only).
    Step {
        /// Address.
        pc: u64,
    },
    /// An instruction that is not implemented, reported once per address.
    Unimplemented {
        /// Address.
        pc: u64,
        /// First bytes.
        bytes: [u8; 15],
        /// How many of them.
        len: u8,
    },
    /// A device register was accessed that does not exist, reported once per register.
    UnknownRegister {
        /// Physical address or port.
        addr: u64,
        /// Whether it was a write.
        write: bool,
    },
    /// The cpu shut down: an exception could not be delivered.
    Shutdown {
        /// Instruction address.
        pc: u64,
    },
}

/// An event with its place and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// When.
    pub time: SimTime,
    /// Where.
    pub cpu: CpuId,
    /// What.
    pub event: Event,
}

/// Which events are wanted: unwanted ones are not even recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Wanted {
    /// IPIs, interrupts, idle, regions, samples, points: the events of the ledger.
    pub wakes: bool,
    /// Line requests, grants and losses.
    pub lines: bool,
    /// Every instruction.
    pub steps: bool,
}

/// Receives records in time order.
pub trait Observer {
    /// Which events it wants.
    fn wanted(&self) -> Wanted;
    /// One record.
    fn record(&mut self, record: &Record);
}

/// No observer.
impl Observer for () {
    fn wanted(&self) -> Wanted {
        Wanted::default()
    }
    fn record(&mut self, _: &Record) {}
}
