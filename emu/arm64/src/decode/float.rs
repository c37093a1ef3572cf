//! Scalar floating point.

use super::kind::{FpBinary, FpFused, FpUnary, Kind};
use super::{Op, bit, bits, reg};

/// `VFPExpandImm`, 32 bits.
pub(super) fn imm32(imm8: u32) -> u32 {
    let exponent = if imm8 & 0x40 != 0 { 0x1f << 25 } else { 1 << 30 };
    (imm8 & 0x80) << 24 | exponent | (imm8 & 0x3f) << 19
}

/// `VFPExpandImm`, 64 bits.
pub(super) fn imm64(imm8: u32) -> u64 {
    let imm = u64::from(imm8);
    let exponent = if imm8 & 0x40 != 0 { 0xff << 54 } else { 1 << 62 };
    (imm & 0x80) << 56 | exponent | (imm & 0x3f) << 48
}

pub(super) fn decode(word: u32) -> Option<Op> {
    if bit(word, 29) {
        return None;
    }
    let op = Op {
        rd: reg(word, 0),
        rn: reg(word, 5),
        rm: reg(word, 16),
        ra: reg(word, 10),
        wide: bit(word, 31),
        ..Op::default()
    };
    if bit(word, 24) {
        let fused = match (bit(word, 21), bit(word, 15)) {
            (false, false) => FpFused::Madd,
            (false, true) => FpFused::Msub,
            (true, false) => FpFused::Nmadd,
            (true, true) => FpFused::Nmsub,
        };
        let op = sized(word, op)?;
        return (!op.wide).then_some(Op { kind: Kind::FpFused(fused), ..op });
    }
    if !bit(word, 21) {
        return fixed(word, op);
    }
    if bits(word, 10, 6) == 0 {
        return integer(word, op);
    }
    if op.wide {
        return None;
    }
    match bits(word, 10, 2) {
        1 => {
            let (amount, imm2) = (bits(word, 12, 4) as u8, u64::from(bits(word, 0, 4)));
            Some(Op { kind: Kind::FpCondCompare, amount, imm2, ..sized(word, op)? })
        }
        2 => two_sources(word, sized(word, op)?),
        3 => {
            let amount = bits(word, 12, 4) as u8;
            Some(Op { kind: Kind::FpSelect, amount, ..sized(word, op)? })
        }
        _ if bit(word, 12) => {
            let op = sized(word, op)?;
            let imm8 = bits(word, 13, 8);
            let imm = if op.size == 8 { imm64(imm8) } else { u64::from(imm32(imm8)) };
            (bits(word, 5, 5) == 0).then_some(Op { kind: Kind::FpImm, imm, ..op })
        }
        _ if bit(word, 13) => {
            let zero = bit(word, 3);
            let is_allocated = bits(word, 14, 2) == 0 && bits(word, 0, 3) == 0;
            let op = sized(word, op)?;
            is_allocated.then_some(Op { kind: Kind::FpCompare { zero }, ..op })
        }
        _ if bit(word, 14) => one_source(word, op),
        _ => None,
    }
}

/// Element size by `ptype`: single or double.
fn sized(word: u32, op: Op) -> Option<Op> {
    match bits(word, 22, 2) {
        0 => Some(Op { size: 4, bytes: 4, ..op }),
        1 => Some(Op { size: 8, bytes: 8, ..op }),
        _ => None,
    }
}

fn two_sources(word: u32, op: Op) -> Option<Op> {
    use FpBinary::{Add, Div, Max, MaxNm, Min, MinNm, Mul, Nmul, Sub};
    let all = [Mul, Div, Add, Sub, Max, Min, MaxNm, MinNm, Nmul];
    let binary = all.get(bits(word, 12, 4) as usize)?;
    Some(Op { kind: Kind::Fp2(*binary), ..op })
}

fn one_source(word: u32, op: Op) -> Option<Op> {
    let unary = match bits(word, 15, 6) {
        0 => FpUnary::Mov,
        1 => FpUnary::Abs,
        2 => FpUnary::Neg,
        3 => FpUnary::Sqrt,
        to @ 4..=7 => {
            // FCVT: `size` is that of the source, `bytes` that of the result.
            let size = |field| match field {
                0 => Some(4),
                1 => Some(8),
                3 => Some(2),
                _ => None,
            };
            let (from, to) = (size(bits(word, 22, 2))?, size(to & 3)?);
            let op = Op { kind: Kind::FpConvert, size: from, bytes: to, ..op };
            return (from != to).then_some(op);
        }
        rounding @ 8..=11 => FpUnary::Rint(rounding as u8 & 3),
        12 => FpUnary::Rint(4),
        14 | 15 => FpUnary::RintCurrent,
        _ => return None,
    };
    Some(Op { kind: Kind::Fp1(unary), ..sized(word, op)? })
}

/// Conversions to and from general registers.
fn integer(word: u32, op: Op) -> Option<Op> {
    let (rmode, opcode, wide) = (bits(word, 19, 2), bits(word, 16, 3), op.wide);
    if bits(word, 22, 2) == 2 {
        let kind = match (rmode, opcode) {
            (1, 6) => Kind::FpToGeneralHigh,
            (1, 7) => Kind::FpFromGeneralHigh,
            _ => return None,
        };
        return wide.then_some(Op { kind, size: 8, bytes: 8, ..op });
    }
    let op = sized(word, op)?;
    let signed = opcode & 1 == 0;
    let kind = match (rmode, opcode) {
        (rmode, 0 | 1) => Kind::FpToInt { rounding: rmode as u8, signed },
        (0, 2 | 3) => Kind::FpFromInt { signed },
        (0, 4 | 5) => Kind::FpToInt { rounding: 4, signed },
        (0, 6) if wide == (op.size == 8) => Kind::FpToGeneral,
        (0, 7) if wide == (op.size == 8) => Kind::FpFromGeneral,
        _ => return None,
    };
    Some(Op { kind, ..op })
}

/// Conversions to and from fixed point in general registers.
fn fixed(word: u32, op: Op) -> Option<Op> {
    let scale = bits(word, 10, 6);
    if !op.wide && scale < 32 {
        return None;
    }
    let signed = !bit(word, 16);
    let to_int = match (bits(word, 19, 2), bits(word, 17, 2)) {
        (0, 1) => false,
        (3, 0) => true,
        _ => return None,
    };
    let kind = Kind::FpFixed { to_int, signed };
    Some(Op { kind, amount: (64 - scale) as u8, ..sized(word, op)? })
}
