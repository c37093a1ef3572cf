//! A litmus test as data: threads of operations on few variables, and its final clause.
//!
//! Modelled: moves, locked and plain read-modify-writes and fences of 1 to 8 bytes, on RAX, RBX,
//! RCX and RDX. Not modelled: branches, flags, addresses that are computed.

use std::collections::BTreeMap;

use crate::condition::{Condition, Quantifier};

/// Most variables of a test.
pub const VARIABLES_MAX: usize = 4;
/// Bytes of every variable, whatever its type.
pub const VARIABLE_BYTES: usize = 8;
/// Registers that tests may use, by index.
pub const REGISTERS: [&str; 4] = ["rax", "rbx", "rcx", "rdx"];
/// Most threads of a test.
pub const THREADS_MAX: usize = 4;

/// Bytes of one access: 1, 2, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u8);

impl Size {
    /// Ones in the bytes of an access.
    #[must_use]
    pub fn mask(self) -> u64 {
        u64::MAX >> (64 - 8 * u32::from(self.0))
    }

    /// 0 to 3, by size.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.trailing_zeros() as usize
    }

    /// What a register holds after `value` was written to its low bytes: writes of 4 bytes clear
    /// the upper half, smaller ones keep the rest ([SDM-1] "General-Purpose Registers in 64-Bit
    /// Mode").
    #[must_use]
    pub fn into_register(self, old: u64, value: u64) -> u64 {
        match self.0 {
            1 | 2 => (old & !self.mask()) | (value & self.mask()),
            _ => value & self.mask(),
        }
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
                registers[r] = size.into_register(registers[r], old);
                sum
            }
            Self::Xchg(r) => {
                let new = registers[r];
                registers[r] = size.into_register(registers[r], old);
                new
            }
            Self::Cmpxchg(r) if old == registers[0] & size.mask() => registers[r],
            Self::Cmpxchg(_) => {
                registers[0] = size.into_register(registers[0], old);
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

/// What a final clause can name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Observed {
    /// A register of a thread.
    Register(usize, usize),
    /// A variable, by its declared size.
    Variable(usize),
}

/// One final state: the observed values in the order of [`Test::observed`].
pub type Outcome = Vec<u64>;

/// A litmus test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Name.
    pub name: String,
    /// `Key=value` lines above the program.
    pub fields: BTreeMap<String, String>,
    /// Names of the variables, in order of appearance.
    pub variables: Vec<Variable>,
    /// Registers at the start, by thread.
    pub registers: Vec<[u64; 4]>,
    /// Instructions by thread.
    pub threads: Vec<Vec<Op>>,
    /// Quantifier of the final clause.
    pub quantifier: Quantifier,
    /// The clause.
    pub condition: Condition,
    /// What an outcome shows: what the clause and `locations` name, registers first.
    pub observed: Vec<Observed>,
    /// States in the comment `allowed`, if there is one.
    pub stated: Option<Vec<String>>,
}

/// A variable of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name.
    pub name: String,
    /// Bytes that the final clause sees.
    pub size: Size,
    /// Value at the start.
    pub initial: u64,
}

impl Test {
    /// Takes what the final clause observes out of a final state.
    #[must_use]
    pub fn outcome(&self, registers: &[[u64; 4]], memory: &[u64]) -> Outcome {
        let value = |observed: &Observed| match *observed {
            Observed::Register(thread, register) => registers[thread][register],
            Observed::Variable(v) => memory[v] & self.variables[v].size.mask(),
        };
        self.observed.iter().map(value).collect()
    }

    /// Whether the clause (without its quantifier) holds in a state.
    #[must_use]
    pub fn holds(&self, outcome: &Outcome) -> bool {
        self.condition.holds(&|observed| {
            self.observed.iter().position(|o| *o == observed).map_or(0, |at| outcome[at])
        })
    }

    /// The state as herd writes it: `0:rax=1; [x]=2;`.
    #[must_use]
    pub fn text(&self, outcome: &Outcome) -> String {
        let cell = |(observed, value): (&Observed, &u64)| match *observed {
            Observed::Register(thread, register) => {
                format!("{thread}:{}={value};", REGISTERS[register])
            }
            Observed::Variable(v) => format!("[{}]={value};", self.variables[v].name),
        };
        let cells: Vec<String> = self.observed.iter().zip(outcome).map(cell).collect();
        cells.join(" ")
    }

    /// Whether some access is locked.
    #[must_use]
    pub fn has_lock(&self) -> bool {
        let is_locked = |op: &Op| matches!(op, Op::Rmw { is_locked: true, .. });
        self.threads.iter().flatten().any(is_locked)
    }

    /// Whether only the lowest byte of any variable ever differs from zero, and accesses begin
    /// there: then an access may be torn without anybody seeing it.
    #[must_use]
    pub fn is_bytewise(&self) -> bool {
        let small = |source: Source| !matches!(source, Source::Immediate(v) if v > 0x3f);
        let fits = |op: &Op| match *op {
            Op::Store(place, source) => place.offset == 0 && small(source),
            Op::Load(_, place) => place.offset == 0,
            Op::Move(_, _, source) => small(source),
            Op::Rmw { place, .. } => place.offset == 0,
            Op::Mfence | Op::Lfence | Op::Sfence => true,
        };
        self.threads.iter().flatten().all(fits) && self.variables.iter().all(|v| v.initial <= 0x3f)
    }
}
