//! The `X86_64` front end: what threads of a test are made of on x86.
//!
//! Modelled: moves, locked and plain read-modify-writes and fences of 1 to 8 bytes, on RAX, RBX,
//! RCX and RDX. Not modelled: branches, flags, addresses that are computed.
//!
//! Reading order: `syntax` (from text), `tso` (what is allowed), `boot` and `guest` (the code of
//! the image).

pub mod boot;
pub(crate) mod guest;
pub(crate) mod syntax;
pub mod tso;

use crate::program::{Size, Variable};

/// Registers that tests may use, by index.
pub const REGISTERS: [&str; 4] = ["rax", "rbx", "rcx", "rdx"];

/// What a register holds after `value` was written to its low bytes: writes of 4 bytes clear the
/// upper half, smaller ones keep the rest (\[SDM-1\] "General-Purpose Registers in 64-Bit Mode").
pub(crate) fn into_register(size: Size, old: u64, value: u64) -> u64 {
    match size.0 {
        1 | 2 => (old & !size.mask()) | (value & size.mask()),
        _ => value & size.mask(),
    }
}

/// The threads of a test.
#[derive(Clone, Debug)]
pub struct Program {
    /// Registers at the start, by thread.
    pub registers: Vec<[u64; 4]>,
    /// Instructions by thread.
    pub threads: Vec<Vec<Op>>,
}

impl Program {
    /// Whether some access is locked.
    #[must_use]
    pub fn has_lock(&self) -> bool {
        let is_locked = |op: &Op| matches!(op, Op::Rmw { is_locked: true, .. });
        self.threads.iter().flatten().any(is_locked)
    }

    /// Whether only the lowest byte of any variable ever differs from zero, and accesses begin
    /// there: then an access may be torn without anybody seeing it.
    #[must_use]
    pub fn is_bytewise(&self, variables: &[Variable]) -> bool {
        let small = |source: Source| !matches!(source, Source::Immediate(v) if v > 0x3f);
        let fits = |op: &Op| match *op {
            Op::Store(place, source) => place.offset == 0 && small(source),
            Op::Load(_, place) => place.offset == 0,
            Op::Move(_, _, source) => small(source),
            Op::Rmw { place, .. } => place.offset == 0,
            Op::Mfence | Op::Lfence | Op::Sfence => true,
        };
        self.threads.iter().flatten().all(fits) && variables.iter().all(|v| v.initial <= 0x3f)
    }
}

/// Bytes of memory that an operation touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Which variable.
    pub variable: usize,
    /// First byte in it.
    pub offset: u8,
    /// How many.
    pub size: Size,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A constant.
    Immediate(u64),
    /// The low bytes of a register.
    Register(usize),
}

/// What a read-modify-write does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `ADD`: memory += source.
    Add(Source),
    /// `OR`: memory |= source.
    Or(Source),
    /// `INC`: memory += 1.
    Inc,
    /// `XADD`: as ADD of a register, which gets the old value.
    Xadd(usize),
    /// `XCHG`: swaps memory and register.
    Xchg(usize),
    /// `CMPXCHG`: if memory = RAX then memory = register, else RAX = memory.
    Cmpxchg(usize),
}

impl Change {
    /// Returns what memory holds afterwards.
    #[must_use]
    pub fn apply(self, old: u64, size: Size, registers: &mut [u64; 4]) -> u64 {
        let read = |registers: &[u64; 4], source| match source {
            Source::Immediate(value) => value,
            Source::Register(r) => registers[r],
        };
        let new = match self {
            Self::Add(source) => old.wrapping_add(read(registers, source)),
            Self::Or(source) => old | read(registers, source),
            Self::Inc => old.wrapping_add(1),
            Self::Xadd(r) => {
                let sum = old.wrapping_add(registers[r]);
                registers[r] = into_register(size, registers[r], old);
                sum
            }
            Self::Xchg(r) => {
                let new = registers[r];
                registers[r] = into_register(size, registers[r], old);
                new
            }
            Self::Cmpxchg(r) if old == registers[0] & size.mask() => registers[r],
            Self::Cmpxchg(_) => {
                registers[0] = into_register(size, registers[0], old);
                old
            }
        };
        new & size.mask()
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Memory = source.
    Store(Place, Source),
    /// Register = memory.
    Load(usize, Place),
    /// Register = source.
    Move(usize, Size, Source),
    /// Read-modify-write; XCHG is locked whether it says so or not.
    Rmw {
        /// What it touches.
        place: Place,
        /// What it does.
        change: Change,
        /// In one piece for everybody.
        is_locked: bool,
    },
    /// `MFENCE`.
    Mfence,
    /// `LFENCE`: orders loads, which TSO does anyway.
    Lfence,
    /// `SFENCE`: orders stores, which TSO does anyway.
    Sfence,
}
