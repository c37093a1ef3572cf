//! Decoding: instruction words to `Op`.
//!
//! The tables are the project's own. A64 words have one width, and their fields are the
//! architecture's: the index tables of \[ArmARM\] "A64 Instruction Set Encoding" are nested matches
//! here, a file for each top-level group, in the manual's order. Decoder crates (disarm64,
//! yaxpeax-arm) were weighed: they give operands for text, so that a second table from their
//! mnemonics to semantics would be as long as this one, and hide which encodings are unallocated.
//!
//! Decoding is total: an unallocated word, or one of an extension that is not modelled, is
//! `Kind::Undefined`. What depends on the features of a cpu is decided at execution.
//!
//! Register 31 is resolved here: `ZR` or `SP` by what the encoding says.
//!
//! Reading order: `kind` (what there is to execute), `immediate`, `branch`, `memory`, `register`,
//! `vector`, `float`, then `timing`.

mod branch;
mod float;
mod immediate;
mod kind;
mod memory;
mod register;
mod timing;
mod vector;

use emu_cpu::timing::OpTiming;

pub(crate) use kind::{
    Addressing, Alu, AtomicOp, Bitfield, Divide, Extend, FpBinary, FpFused, FpUnary, FpVec2,
    FpVec3, Kind, Select, Shift, Source, Unary, V2, V3, VecAcross, VecNarrow, VecShift, Wide,
};

/// Number of the register that reads as zero.
pub(crate) const ZR: u8 = 31;
/// Number of the stack pointer in use.
pub(crate) const SP: u8 = 32;

/// One instruction, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Immediate, offset, or mask.
    pub(crate) imm: u64,
    /// Second mask of bitfield moves.
    pub(crate) imm2: u64,
    /// What the scoreboard must know.
    pub timing: OpTiming,
    /// What it does.
    pub(crate) kind: Kind,
    /// Destination, or the register transferred.
    pub(crate) rd: u8,
    /// First source, or base.
    pub(crate) rn: u8,
    /// Second source, index, or status of a store exclusive.
    pub(crate) rm: u8,
    /// Third source, or second register of a pair.
    pub(crate) ra: u8,
    /// Bytes of an access or of an element.
    pub(crate) size: u8,
    /// Bytes of a vector operation; registers of a structure.
    pub(crate) bytes: u8,
    /// Shift amount, condition, or lane.
    pub(crate) amount: u8,
    /// Whether operands have 64 bits.
    pub(crate) wide: bool,
    /// Whether flags are set.
    pub(crate) flags: bool,
}

impl Default for Op {
    fn default() -> Self {
        Op {
            imm: 0,
            imm2: 0,
            timing: OpTiming::default(),
            kind: Kind::Undefined,
            rd: ZR,
            rn: ZR,
            rm: ZR,
            ra: ZR,
            size: 0,
            bytes: 0,
            amount: 0,
            wide: true,
            flags: false,
        }
    }
}

impl Op {
    /// Name of what it does, for reports.
    #[must_use]
    pub fn form(&self) -> String {
        format!("{:?}", self.kind)
    }

    /// Whether no cpu of the model executes the word.
    #[must_use]
    pub fn is_undefined(&self) -> bool {
        self.kind == Kind::Undefined
    }
}

/// Decodes one word.
#[must_use]
pub fn decode(word: u32) -> Op {
    let op = match bits(word, 25, 4) {
        0b1000 | 0b1001 => immediate::decode(word),
        0b1010 | 0b1011 => branch::decode(word),
        group if group & 0b0101 == 0b0100 => memory::decode(word),
        0b0101 | 0b1101 => register::decode(word),
        0b0111 | 0b1111 => vector::decode(word),
        _ => None,
    };
    let mut op = op.unwrap_or_default();
    op.timing = timing::of(&op);
    op
}

/// `len` bits of a word from bit `low`.
fn bits(word: u32, low: u32, len: u32) -> u32 {
    word >> low & ((1 << len) - 1)
}

/// One bit of a word.
fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 != 0
}

/// A register field, 31 being zero.
fn reg(word: u32, low: u32) -> u8 {
    bits(word, low, 5) as u8
}

/// A register field, 31 being the stack pointer.
fn reg_sp(word: u32, low: u32) -> u8 {
    match reg(word, low) {
        31 => SP,
        n => n,
    }
}

/// A signed field.
fn signed(word: u32, low: u32, len: u32) -> i64 {
    let value = i64::from(bits(word, low, len));
    value << (64 - len) >> (64 - len)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A prime, so that every field takes all its values.
    const STRIDE: usize = 1009;

    #[test]
    fn decoding_is_total() {
        let (mut known, mut undefined) = (0u32, 0u32);
        for word in (0..=u32::MAX).step_by(STRIDE) {
            let op = decode(word);
            assert!(op.timing.reads.iter().chain(&op.timing.writes).all(|reg| *reg <= 64));
            if op.is_undefined() {
                undefined += 1;
            } else {
                known += 1;
            }
        }
        assert!(known > 1_000_000 && undefined > 1_000_000, "{known} known, {undefined} not");
    }
}
