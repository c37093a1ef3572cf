//! The port: all that instruction code may ask of the engine, for either ISA.
//!
//! An instruction is ordinary straight code over a `Port`. A request that cannot be served at once
//! returns `Wait`; the instruction then returns at once **without having changed architectural
//! state**, and the engine runs it again from its start when the time has come. Requests that were
//! already served are answered from the *step log* (`engine.md` L13): they are not repeated, so
//! the code must make the same requests in the same order each time. Hence the one rule for
//! instruction bodies: first all requests, then all changes of registers.
//!
//! Translations are steps too, see [`Port::translated`]: a page that was found once stays found
//! until the instruction ends.

use emu_sim::{PhysAddr, SimTime};

use crate::timing::OpTiming;
use crate::wait::{MonitorState, Signal};

/// The instruction is not complete; the engine runs it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait;

/// How a time read is ordered (`engine.md` I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeOrder {
    /// At max(issue, now): RDTSC.
    Early,
    /// After all older instructions: RDTSCP, RDTSC behind LFENCE.
    Retired,
}

/// What has to be finished before younger instructions start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fence {
    /// Older instructions complete, the store buffer may stay full: LFENCE.
    Load,
    /// The store buffer is empty too: MFENCE, serialising instructions, uncached accesses.
    Full,
    /// Older stores drain before younger ones; nothing waits: DMB ST.
    Stores,
    /// Younger accesses, and nothing else, wait for older loads, and with `stores` for an empty
    /// store buffer: DMB LD, DMB SY.
    Accesses {
        /// For stores too.
        stores: bool,
    },
    /// Every other cpu has carried out the invalidations that this one has sent: DSB.
    Answers,
}

/// How an access stands to its neighbours, beyond the order that the machine keeps anyway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// Not at all.
    #[default]
    Plain,
    /// Younger accesses come after it, and it after older store-releases: LDAR.
    Acquire,
    /// Younger accesses come after it: LDAPR.
    AcquirePc,
    /// It comes after older accesses: STLR.
    Release,
    /// Both.
    AcquireRelease,
}

impl Order {
    /// Whether younger accesses come after it.
    #[must_use]
    pub const fn acquires(self) -> bool {
        matches!(self, Order::Acquire | Order::AcquirePc | Order::AcquireRelease)
    }

    /// Whether it comes after older store-releases.
    #[must_use]
    pub const fn awaits_releases(self) -> bool {
        matches!(self, Order::Acquire | Order::AcquireRelease)
    }

    /// Whether it comes after older accesses.
    #[must_use]
    pub const fn releases(self) -> bool {
        matches!(self, Order::Release | Order::AcquireRelease)
    }
}

/// What an atomic does to 1 to 8 bytes, as data, so that it can be done elsewhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Update {
    /// Adds.
    Add(u64),
    /// Clears these bits.
    Clear(u64),
    /// Inverts these bits.
    Xor(u64),
    /// Sets these bits.
    Set(u64),
    /// Takes the greater one, signed.
    SMax(u64),
    /// Takes the lesser one, signed.
    SMin(u64),
    /// Takes the greater one, unsigned.
    UMax(u64),
    /// Takes the lesser one, unsigned.
    UMin(u64),
    /// Replaces.
    Swap(u64),
    /// Replaces what is equal.
    CompareSwap {
        /// To what.
        expected: u64,
        /// By what.
        new: u64,
    },
}

impl Update {
    /// The new value of `size` bytes, if they are written.
    #[must_use]
    pub fn apply(self, old: u64, size: u8) -> Option<u64> {
        let shift = 64 - 8 * u32::from(size);
        let low = |value: u64| value << shift >> shift;
        let signed = |value: u64| (value << shift) as i64 >> shift;
        let new = match self {
            Update::Add(n) => old.wrapping_add(n),
            Update::Clear(bits) => old & !bits,
            Update::Xor(bits) => old ^ bits,
            Update::Set(bits) => old | bits,
            Update::SMax(n) => signed(old).max(signed(n)) as u64,
            Update::SMin(n) => signed(old).min(signed(n)) as u64,
            Update::UMax(n) => low(old).max(low(n)),
            Update::UMin(n) => low(old).min(low(n)),
            Update::Swap(n) => n,
            Update::CompareSwap { expected, new } if low(expected) == low(old) => new,
            Update::CompareSwap { .. } => return None,
        };
        Some(low(new))
    }
}

/// Whom a signal addresses, in the words of the interrupt architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// One cpu by architectural id (x2APIC id, or Aff3.Aff2.Aff1.Aff0 of MPIDR in 32 bits).
    ArchId(u32),
    /// Every cpu.
    All,
    /// Every cpu but the sender.
    AllButSelf,
    /// Every cpu receives it and decides by its own registers whether it is meant.
    Match(u64),
}

/// One access to a device, memory mapped or by port, that leaves the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceAccess {
    /// Address space.
    pub space: Space,
    /// Physical address or port number.
    pub addr: u64,
    /// Bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// Value of a write; `None` reads.
    pub write: Option<u64>,
}

/// Address space of a device access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Space {
    /// Uncached physical memory.
    Memory,
    /// x86 I/O ports.
    Port,
    /// The firmware's mailbox at the machine: `addr` is the function << 40 | an affinity.
    Firmware,
    /// What a cpu interface tells the distributor: `addr` is the kind << 16 | an INTID.
    Gicd,
}

/// What instruction code reports when an instruction is complete but for its register changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Note {
    /// An interrupt of this vector is being taken.
    InterruptTaken(u8),
    /// An interrupt of this vector is acknowledged: where a handler asks which it is, one that has
    /// come since the entry may be the answer.
    Acknowledged(u8),
    /// A handler returned.
    InterruptReturned,
    /// Maskable interrupts are now enabled, or not.
    InterruptFlag(bool),
}

/// What instruction code may ask of the engine.
pub trait Port {
    /// Reports, once all requests of the instruction are served. Ports without time ignore it.
    fn note(&mut self, note: Note) {
        let _ = note;
    }

    /// Starts an instruction: computes its dispatch and issue times from operands and width.
    fn dispatch(&mut self, timing: &OpTiming);

    /// Adds `cycles` to the latency of the running instruction (microcoded forms).
    fn extra_latency(&mut self, cycles: u32);

    /// Younger instructions dispatch only after this one has retired.
    fn serialise(&mut self);

    /// Ends a branch: `mispredicted` costs the redirect.
    fn branch(&mut self, mispredicted: bool);

    /// Looks into the step log for a translation already found by this run of the instruction, in
    /// order of request. `None`: translate now, and report by [`Port::translated`].
    fn logged_translation(&mut self) -> Option<u64>;

    /// Records a finished translation as a step: `entry` is opaque to the engine. Loads and atomic
    /// updates made by the page walk since [`Port::begin_walk`] leave the log, as a translation
    /// that is logged is never walked again.
    fn translated(&mut self, entry: u64);

    /// Marks the start of a page walk in the step log.
    fn begin_walk(&mut self);

    /// Orders the accesses that the running instruction makes from here on. Ports without time, and
    /// machines whose order is stronger, ignore it.
    fn order(&mut self, order: Order) {
        let _ = order;
    }

    /// Reads `size` bytes (1, 2, 4, 8) that lie in one line of write-back memory.
    fn load(&mut self, pa: PhysAddr, size: u8) -> Result<u64, Wait>;

    /// Reads 16 bytes that lie in one line of write-back memory.
    fn load_wide(&mut self, pa: PhysAddr) -> Result<u128, Wait>;

    /// Buffers a store of `size` bytes (1 to 8) that lie in one line.
    fn store(&mut self, pa: PhysAddr, size: u8, value: u64) -> Result<(), Wait>;

    /// Buffers a store of 16 bytes that lie in one line.
    fn store_wide(&mut self, pa: PhysAddr, value: u128) -> Result<(), Wait>;

    /// Reads, and if `change` returns a value writes, `size` bytes (1 to 8, or 16) of one line with
    /// nothing in between. The store buffer is empty first, or under the weak order has no store to
    /// the line. Returns the old value. The line is taken for writing even if nothing is written,
    /// as x86 does. A re-run of the instruction calls `change` again with the old value, for what
    /// it keeps beside; memory changes once.
    fn rmw(
        &mut self,
        pa: PhysAddr,
        size: u8,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Result<u128, Wait>;

    /// As [`Port::rmw`], where the core may do it at the line's home (far), and if nobody wants the
    /// result, later: it is then a store that takes its value when it drains.
    fn update(
        &mut self,
        pa: PhysAddr,
        size: u8,
        update: Update,
        wants_result: bool,
    ) -> Result<u64, Wait> {
        let _ = wants_result;
        let mut change = |old: u128| update.apply(old as u64, size).map(u128::from);
        Ok(self.rmw(pa, size, &mut change)? as u64)
    }

    /// Makes the line of code at `pa` present for fetch; the bytes are then read by
    /// [`Port::code_bytes`].
    fn fetch(&mut self, pa: PhysAddr) -> Result<(), Wait>;

    /// Copies code bytes of one page into `out`; no timing, call `fetch` for the lines first.
    fn code_bytes(&mut self, pa: PhysAddr, out: &mut [u8]);

    /// Version of the page's code: grows with every store to a page that was decoded.
    fn code_version(&mut self, page: u64) -> u32;

    /// Notes that blocks of this page are decoded, so that stores to it count as code changes.
    fn note_code(&mut self, page: u64);

    /// Whether an own store to a decoded page was buffered since the last call: the block ends.
    fn take_code_store(&mut self) -> bool;

    /// Waits for older instructions, and stores as asked.
    fn fence(&mut self, fence: Fence) -> Result<(), Wait>;

    /// Removes the line from all caches of the machine, keeping its value.
    fn flush_line(&mut self, pa: PhysAddr) -> Result<(), Wait>;

    /// Performs a device access; the store buffer is empty first. Returns the value read, or 0;
    /// nothing where nobody answers.
    fn device(&mut self, access: DeviceAccess) -> Result<Option<u64>, Wait>;

    /// Writes to a device without waiting for it: leaves at the instruction's issue.
    fn tell(&mut self, access: DeviceAccess) -> Result<(), Wait>;

    /// Arms this cpu's monitor on the line of `pa`, which is read.
    fn arm_monitor(&mut self, pa: PhysAddr) -> Result<(), Wait>;

    /// Reads 1 to 8 or 16 bytes of one line and reserves it.
    fn load_exclusive(&mut self, pa: PhysAddr, size: u8) -> Result<u128, Wait>;

    /// Writes 1 to 8 or 16 bytes of one line if the reservation stands at that moment (`engine.md`
    /// A4), and ends it; returns whether it wrote.
    fn store_exclusive(&mut self, pa: PhysAddr, size: u8, value: u128) -> Result<bool, Wait>;

    /// State of this cpu's monitor.
    fn monitor(&self) -> MonitorState;

    /// Disarms this cpu's monitor, or gives its reservation up.
    fn disarm_monitor(&mut self);

    /// Sends a signal to other cpus (or this one): leaves at the instruction's issue; with
    /// `ordered`, after the store buffer is empty.
    fn signal(&mut self, target: Target, signal: Signal, ordered: bool) -> Result<(), Wait>;

    /// Sets or clears this cpu's one timer: at `at` the engine calls `Isa::timer`.
    fn set_timer(&mut self, at: Option<SimTime>);

    /// Simulated time as read by an instruction. Never falls on one cpu.
    fn time(&mut self, order: TimeOrder) -> SimTime;

    /// Writes a line of the report on unimplemented instructions, once per address.
    fn report_unimplemented(&mut self, rip: u64, bytes: &[u8]);
}
