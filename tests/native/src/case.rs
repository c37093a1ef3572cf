//! One instruction with the state before it, and the state after it.

use emu_x86::flat_user::{CODE, FS_BASE, GS_BASE, STACK};
use emu_x86::state::gpr;

/// Flags that a case may set beforehand: CF, PF, AF, ZF, SF, DF, OF.
pub const SETTABLE_FLAGS: u64 = 0xcd5;
/// RFLAGS of a case whose flags are all clear: IF, and the bit that is always set.
pub const CLEAR_FLAGS: u64 = 0x202;
/// MXCSR by default: all exceptions masked, rounding to nearest.
pub const MXCSR: u32 = 0x1f80;
/// x87 control word by default.
pub const FCW: u16 = 0x37f;

/// An instruction and the state before it. Memory is zero beyond what is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The bytes of the instruction.
    pub code: Vec<u8>,
    /// General registers.
    pub gpr: [u64; 16],
    /// Flags, of `SETTABLE_FLAGS`.
    pub flags: u64,
    /// XMM registers.
    pub xmm: [u128; 16],
    /// MXCSR.
    pub mxcsr: u32,
    /// x87 control word.
    pub fcw: u16,
    /// x87 status word.
    pub fsw: u16,
    /// x87 tags, abridged.
    pub ftw: u8,
    /// Whether segment registers or their bases may change.
    pub moves_segments: bool,
    /// Contents of memory: address and bytes.
    pub memory: Vec<(u64, Vec<u8>)>,
}

impl Case {
    /// An instruction with all state zero or at its default.
    #[must_use]
    pub fn new(code: Vec<u8>) -> Self {
        let mut gpr = [0; 16];
        gpr[gpr::RSP] = STACK;
        Case {
            code,
            gpr,
            flags: 0,
            xmm: [0; 16],
            mxcsr: MXCSR,
            fcw: FCW,
            fsw: 0,
            ftw: 0,
            moves_segments: false,
            memory: Vec::new(),
        }
    }

    /// Address of the next instruction.
    #[must_use]
    pub fn next(&self) -> u64 {
        CODE + self.code.len() as u64
    }
}

/// How a case ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The instruction completed, and the next one is at this address.
    At(u64),
    /// It raised an exception: vector, error code (0 for those without), CR2 of a page fault.
    Fault(u8, u32, u64),
    /// It did not end within the time, or the iterations, that a case has.
    #[default]
    Stuck,
    /// The process that ran it ended.
    Lost,
}

/// State after a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub end: End,
    /// General registers.
    pub gpr: [u64; 16],
    /// RFLAGS, all of it.
    pub rflags: u64,
    /// XMM registers.
    pub xmm: [u128; 16],
    /// MXCSR.
    pub mxcsr: u32,
    /// x87 control word.
    pub fcw: u16,
    /// x87 status word.
    pub fsw: u16,
    /// x87 tags, abridged.
    pub ftw: u8,
    /// Mantissa, sign and exponent of ST0 to ST7.
    pub st: [u128; 8],
    /// Bases of FS and GS.
    pub bases: [u64; 2],
    /// Selectors of DS, ES, FS and GS.
    pub selectors: [u16; 4],
    /// Bytes of memory that changed, with their new values, by address.
    pub memory: Vec<(u64, u8)>,
}

impl Outcome {
    /// What is known of a case whose process ended.
    #[must_use]
    pub fn lost(case: &Case) -> Self {
        Outcome {
            end: End::Lost,
            gpr: case.gpr,
            rflags: CLEAR_FLAGS | case.flags,
            xmm: case.xmm,
            mxcsr: case.mxcsr,
            fcw: case.fcw,
            fsw: case.fsw,
            ftw: case.ftw,
            st: [0; 8],
            bases: [FS_BASE, GS_BASE],
            selectors: [0; 4],
            memory: Vec::new(),
        }
    }
}
