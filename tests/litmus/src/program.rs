//! A litmus test as data: few variables, the threads of one instruction set, and a final clause.
//!
//! What a thread is made of is the front end's: `x86` or `arm64`. [`Program`] is the one place
//! that tells them apart; all that is not matched here or in `syntax` and `guest` is shared.

use std::collections::BTreeMap;

use topology::Isa;

use crate::condition::{Condition, Quantifier};
use crate::{arm64, x86};

/// Most variables of a test.
pub const VARIABLES_MAX: usize = 4;
/// Bytes of every variable, whatever its type.
pub const VARIABLE_BYTES: usize = 8;
/// Most threads of a test.
pub const THREADS_MAX: usize = 4;
/// Most registers of one thread that a final clause observes.
pub const RECORDED_MAX: usize = 8;

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
    /// What the threads do.
    pub program: Program,
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
    /// Takes what the final clause observes out of a final state that `value` reads.
    #[must_use]
    pub fn outcome(&self, value: &dyn Fn(Observed) -> u64) -> Outcome {
        let masked = |observed: &Observed| match *observed {
            Observed::Register(..) => value(*observed),
            Observed::Variable(v) => value(*observed) & self.variables[v].size.mask(),
        };
        self.observed.iter().map(masked).collect()
    }

    /// The registers of a thread that its records keep: those that an outcome shows.
    pub fn recorded(&self, thread: usize) -> impl Iterator<Item = usize> + '_ {
        self.observed.iter().filter_map(move |o| match *o {
            Observed::Register(t, register) if t == thread => Some(register),
            _ => None,
        })
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
                format!("{thread}:{}={value};", self.program.register_name(register))
            }
            Observed::Variable(v) => format!("[{}]={value};", self.variables[v].name),
        };
        let cells: Vec<String> = self.observed.iter().zip(outcome).map(cell).collect();
        cells.join(" ")
    }
}

/// The threads of a test, by instruction set.
#[derive(Clone, Debug)]
pub enum Program {
    /// Of `X86_64`.
    X86(x86::Program),
    /// Of `AArch64`.
    Arm64(arm64::Program),
}

impl Program {
    /// The instruction set.
    #[must_use]
    pub fn isa(&self) -> Isa {
        match self {
            Self::X86(_) => Isa::X86_64,
            Self::Arm64(_) => Isa::Aarch64,
        }
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> usize {
        match self {
            Self::X86(p) => p.threads.len(),
            Self::Arm64(p) => p.threads.len(),
        }
    }

    /// Number of instructions.
    #[must_use]
    pub fn instructions(&self) -> usize {
        match self {
            Self::X86(p) => p.threads.iter().map(Vec::len).sum(),
            Self::Arm64(p) => p.threads.iter().map(Vec::len).sum(),
        }
    }

    /// Name of a register by index, as final clauses have it.
    #[must_use]
    pub fn register_name(&self, register: usize) -> String {
        match self {
            Self::X86(_) => x86::REGISTERS[register].to_owned(),
            Self::Arm64(_) => format!("X{register}"),
        }
    }

    /// How far from their natural alignment variables may lie without changing what the test
    /// means.
    #[must_use]
    pub fn freedom(&self, variables: &[Variable]) -> Freedom {
        match self {
            Self::X86(p) if p.is_bytewise(variables) && !p.has_lock() => Freedom::Anywhere,
            Self::X86(_) => Freedom::InsideLine,
            Self::Arm64(p) if p.is_bytewise(variables) && p.is_plain() => Freedom::Anywhere,
            Self::Arm64(_) => Freedom::Aligned,
        }
    }
}

/// Where variables may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Freedom {
    /// At multiples of their size.
    Aligned,
    /// Anywhere inside a line.
    InsideLine,
    /// Across lines too.
    Anywhere,
}
