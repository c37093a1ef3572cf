//! What firmware would leave behind: memory, reserved ranges, and the registers of CPU 0.
//!
//! One file an instruction set; here is what they have in common. Not modelled: firmware itself,
//! ACPI tables.

mod arm64;
mod x86;

use std::error::Error;
use std::fmt;

use emu_sim::PhysAddr;

use crate::load::Reserved;

pub use arm64::{Arm64Entry, STACK_BYTES, arm64};
pub use x86::{X86Entry, x86};

/// The state of a machine at hand-over, without the image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover<E> {
    /// What to write where; the pieces do not overlap.
    pub memory: Vec<(PhysAddr, Vec<u8>)>,
    /// Registers of CPU 0.
    pub entry: E,
    /// What an image must not load into.
    pub reserved: Vec<Reserved>,
}

/// Why a machine cannot be handed over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HandoverError {
    /// The machine is of another instruction set.
    Isa,
    /// The range that is to hold the FDT is missing or too small.
    NoRoom {
        /// Bytes of the FDT, and of the stack where it lies beside.
        need: u64,
        /// Bytes of the range.
        have: u64,
    },
    /// The page tables do not fit below 0x80000 (x86).
    Tables {
        /// Bytes of the tables.
        need: u64,
        /// Bytes there are.
        have: u64,
    },
}

impl fmt::Display for HandoverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Isa => f.write_str("the machine is of another instruction set"),
            Self::NoRoom { need, have } => write!(
                f,
                "the FDT takes {need:#x} bytes, node 0 has {have:#x}; raise memory.per_node"
            ),
            Self::Tables { need, have } => write!(
                f,
                "page tables for all RAM need {need:#x} bytes below 0x80000, there are \
                 {have:#x}; make memory.per_node a multiple of 1 GiB, or smaller"
            ),
        }
    }
}

impl Error for HandoverError {}
