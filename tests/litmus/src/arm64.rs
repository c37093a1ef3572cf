//! The `AArch64` front end: what threads of a test are made of on arm64.
//!
//! Modelled: moves of constants, ADD, AND and EOR (for dependencies), CBZ and CBNZ forwards, loads
//! and stores with all their orders, exclusives, the atomics of LSE, barriers. Not modelled: pairs,
//! flags, loops, registers above X15.
//!
//! Reading order: `syntax` (from text), `model` (what is allowed), `encode` (instruction words),
//! `guest` (the code of the image), `random` (tests that nobody wrote).

pub mod encode;
pub mod guest;
pub mod model;
pub mod random;
pub(crate) mod syntax;

use crate::program::{Size, Variable};
use crate::syntax::Initial;

/// Number of a register.
pub type Reg = u8;
/// The register that reads as zero.
pub const ZR: Reg = 31;
/// Registers that tests may use; those above are the loop's.
pub const REGISTERS: usize = 16;

/// The threads of a test.
#[derive(Clone, Debug)]
pub struct Program {
    /// Registers at the start, by thread.
    pub registers: Vec<[Initial; REGISTERS]>,
    /// Instructions by thread.
    pub threads: Vec<Vec<Op>>,
}

impl Program {
    /// Whether no access asks for order or atomicity: others fault when they are not aligned.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.accesses().all(|what| {
            matches!(what, Access::Load(Acquire::No) | Access::Store { is_release: false })
        })
    }

    /// Whether only the lowest byte of any variable ever differs from zero: then an access may be
    /// torn without anybody seeing it. No instruction runs twice, so that small constants stay
    /// small however often they are added.
    #[must_use]
    pub fn is_bytewise(&self, variables: &[Variable]) -> bool {
        let is_address = |thread: usize, r: Reg| {
            let initial = self.registers[thread].get(usize::from(r));
            matches!(initial, Some(Initial::Address(_)))
        };
        let is_small = |thread: usize, op: &Op| match *op {
            Op::Move { value, .. } | Op::Alu { with: Operand::Constant(value), .. } => value <= 3,
            Op::Alu { what: Alu::Add, rn, .. } => is_address(thread, rn),
            Op::Alu { .. } | Op::Access { .. } | Op::Branch { .. } => true,
            Op::Barrier(_) | Op::ClearExclusive => true,
        };
        let mut initial = self.registers.iter().flatten();
        self.threads.iter().enumerate().all(|(t, ops)| ops.iter().all(|op| is_small(t, op)))
            && self.threads.iter().map(Vec::len).sum::<usize>() <= 64
            && initial.all(|i| !matches!(i, Initial::Number(4..)))
            && variables.iter().all(|v| v.initial <= 3)
    }

    fn accesses(&self) -> impl Iterator<Item = Access> + '_ {
        self.threads.iter().flatten().filter_map(|op| match *op {
            Op::Access { what, .. } => Some(what),
            _ => None,
        })
    }
}

/// One instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `MOV`: register = constant.
    Move {
        /// Of 64 bits, else of 32.
        is_wide: bool,
        /// Destination.
        rd: Reg,
        /// Constant.
        value: u16,
    },
    /// Arithmetic and logic.
    Alu {
        /// Which.
        what: Alu,
        /// Of 64 bits, else of 32.
        is_wide: bool,
        /// Destination.
        rd: Reg,
        /// First source.
        rn: Reg,
        /// Second source.
        with: Operand,
    },
    /// A load, a store, or both.
    Access {
        /// Which.
        what: Access,
        /// Bytes.
        size: Size,
        /// Register loaded or stored; what CAS stores.
        rt: Reg,
        /// Status of a store exclusive, operand of an atomic; of CAS what is expected, and its
        /// result.
        rs: Reg,
        /// Address.
        base: Reg,
        /// Register whose low 32 bits, sign-extended, are added to the address.
        index: Option<Reg>,
    },
    /// `CBZ`, `CBNZ`.
    Branch {
        /// Of 64 bits, else of 32.
        is_wide: bool,
        /// Taken when the register is not zero, else when it is.
        is_nonzero: bool,
        /// Register.
        rt: Reg,
        /// Index of the instruction that follows a taken branch; never an earlier one.
        to: usize,
    },
    /// A barrier.
    Barrier(Barrier),
    /// `CLREX`.
    ClearExclusive,
}

/// Operations of [`Op::Alu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alu {
    /// `ADD`.
    Add,
    /// `AND` of registers.
    And,
    /// `EOR` of registers.
    Eor,
}

/// Second source of [`Op::Alu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// A constant of 12 bits.
    Constant(u16),
    /// A register.
    Register(Reg),
    /// The low 32 bits of a register, sign-extended.
    Sxtw(Reg),
}

/// What an access of memory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// `LDR`, `LDAR`, `LDAPR`.
    Load(Acquire),
    /// `STR`, `STLR`.
    Store {
        /// `STLR`.
        is_release: bool,
    },
    /// `LDXR`, `LDAXR`.
    LoadExclusive {
        /// `LDAXR`.
        is_acquire: bool,
    },
    /// `STXR`, `STLXR`.
    StoreExclusive {
        /// `STLXR`.
        is_release: bool,
    },
    /// `CAS`, `SWP`, `LDADD` and kin.
    Atomic {
        /// What it stores.
        change: Change,
        /// Suffix `A`.
        is_acquire: bool,
        /// Suffix `L`.
        is_release: bool,
    },
}

/// Order of a load before younger accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Acquire {
    /// None.
    No,
    /// `LDAR`.
    Full,
    /// `LDAPR`: may overtake older store-releases.
    Pc,
}

/// What an atomic stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// `LDADD`.
    Add,
    /// `LDCLR`.
    Clear,
    /// `LDEOR`.
    Eor,
    /// `LDSET`.
    Set,
    /// `SWP`.
    Swap,
    /// `CAS`.
    Compare,
}

impl Change {
    /// Value that memory gets, or `None` when a comparison fails. `operand` is that of the
    /// instruction, for CAS what is expected.
    #[must_use]
    pub fn apply(self, old: u64, operand: u64, swapped: u64) -> Option<u64> {
        Some(match self {
            Self::Add => old.wrapping_add(operand),
            Self::Clear => old & !operand,
            Self::Eor => old ^ operand,
            Self::Set => old | operand,
            Self::Swap => operand,
            Self::Compare => return (old == operand).then_some(swapped),
        })
    }
}

/// A barrier; its domain is not kept, as all cpus of a machine are in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    /// `DMB`.
    Dmb(Types),
    /// `DSB`.
    Dsb(Types),
    /// `ISB`.
    Isb,
}

/// Which accesses a barrier orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// `LD`: older loads before all.
    Loads,
    /// `ST`: older stores before younger ones.
    Stores,
    /// `SY`.
    All,
}
