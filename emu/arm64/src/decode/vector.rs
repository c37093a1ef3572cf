//! SIMD, vector and scalar. Scalar forms are vector forms of one lane.

use super::kind::{
    FpBinary, FpUnary, FpVec2, FpVec3, Kind, V2, V3, VecAcross, VecNarrow, VecShift,
};
use super::{Op, bit, bits, float, reg};

pub(super) fn decode(word: u32) -> Option<Op> {
    let scalar = bit(word, 28);
    if scalar && !bit(word, 30) {
        return float::decode(word);
    }
    if bit(word, 31) {
        return None;
    }
    let quad = bit(word, 30);
    let form = Form { scalar, quad, unsigned: bit(word, 29), size: bits(word, 22, 2) };
    let op = Op {
        rd: reg(word, 0),
        rn: reg(word, 5),
        rm: reg(word, 16),
        ra: reg(word, 0),
        bytes: if quad { 16 } else { 8 },
        wide: quad,
        ..Op::default()
    };
    match (bit(word, 24), bit(word, 21), bit(word, 10), bit(word, 11)) {
        (true, _, false, _) => indexed(word, form, op),
        (true, _, true, _) if bit(word, 23) => None,
        (true, _, true, _) if bits(word, 19, 4) != 0 => shift(word, form, op),
        (true, _, true, _) if !scalar => immediate(word, op),
        (false, true, true, _) => three_same(word, form, op),
        (false, true, false, false) => three_different(word, form, op),
        (false, true, false, true) => match bits(word, 17, 4) {
            0 => two(word, form, op),
            8 if scalar => pairwise(word, form, op),
            8 => across(word, form, op),
            _ => None,
        },
        (false, false, true, _) if bits(word, 22, 2) == 0 && !bit(word, 15) => copy(word, form, op),
        (false, false, false, _) if !bit(word, 15) && !scalar => permute(word, form, op),
        _ => None,
    }
}

/// The fields that all groups have.
#[derive(Clone, Copy)]
struct Form {
    scalar: bool,
    quad: bool,
    unsigned: bool,
    size: u32,
}

impl Form {
    /// The op with elements of `1 << log2` bytes; one of 8 bytes alone is no vector.
    fn elements(self, op: Op, log2: u32) -> Option<Op> {
        let size = 1 << log2;
        if self.scalar {
            return Some(Op { size, bytes: size, ..op });
        }
        (self.quad || log2 < 3).then_some(Op { size, ..op })
    }

    /// As [`Form::elements`], for floating point: `sz` is the low bit of the size.
    fn float(self, op: Op) -> Option<Op> {
        self.elements(op, 2 + (self.size & 1))
    }
}

fn three_same(word: u32, form: Form, op: Op) -> Option<Op> {
    let (opcode, size) = (bits(word, 11, 5), form.size);
    if opcode >= 0x18 {
        return three_same_float(opcode, form, op);
    }
    // What sizes a vector has, and what sizes a scalar: bit masks.
    let (v3, vector, scalar) = match (opcode, form.unsigned) {
        (0x00, _) => (V3::Hadd, 7, 0),
        (0x01, _) => (V3::Qadd, 15, 15),
        (0x02, _) => (V3::Rhadd, 7, 0),
        (0x03, unsigned) => {
            const LOGIC: [V3; 8] =
                [V3::And, V3::Bic, V3::Orr, V3::Orn, V3::Eor, V3::Bsl, V3::Bit, V3::Bif];
            let v3 = LOGIC[size as usize + if unsigned { 4 } else { 0 }];
            let kind = Kind::V3 { op: v3, signed: false };
            return (!form.scalar).then_some(Op { kind, size: 8, ..op });
        }
        (0x04, _) => (V3::Hsub, 7, 0),
        (0x05, _) => (V3::Qsub, 15, 15),
        (0x06, _) => (V3::CmGt, 15, 8),
        (0x07, _) => (V3::CmGe, 15, 8),
        (0x08, _) => (V3::Shl, 15, 8),
        (0x09, _) => (V3::Qshl, 15, 15),
        (0x0a, _) => (V3::Rshl, 15, 8),
        (0x0b, _) => (V3::Qrshl, 15, 15),
        (0x0c, _) => (V3::Max, 7, 0),
        (0x0d, _) => (V3::Min, 7, 0),
        (0x0e, _) => (V3::Abd, 7, 0),
        (0x0f, _) => (V3::Aba, 7, 0),
        (0x10, false) => (V3::Add, 15, 8),
        (0x10, true) => (V3::Sub, 15, 8),
        (0x11, false) => (V3::CmTst, 15, 8),
        (0x11, true) => (V3::CmEq, 15, 8),
        (0x12, false) => (V3::Mla, 7, 0),
        (0x12, true) => (V3::Mls, 7, 0),
        (0x13, false) => (V3::Mul, 7, 0),
        (0x13, true) => (V3::Pmul, 1, 0),
        (0x14, _) => (V3::MaxP, 7, 0),
        (0x15, _) => (V3::MinP, 7, 0),
        (0x16, false) => (V3::Qdmulh, 6, 6),
        (0x16, true) => (V3::Qrdmulh, 6, 6),
        (0x17, false) => (V3::AddP, 15, 0),
        _ => return None,
    };
    let allowed = if form.scalar { scalar } else { vector };
    let kind = Kind::V3 { op: v3, signed: !form.unsigned };
    let op = form.elements(op, size)?;
    (allowed >> size & 1 != 0).then_some(Op { kind, ..op })
}

fn three_same_float(opcode: u32, form: Form, op: Op) -> Option<Op> {
    use FpBinary::{Add, Div, Max, MaxNm, Min, MinNm, Mul, Sub};
    let (v3, has_scalar) = match (form.unsigned, form.size >> 1, opcode) {
        (false, 0, 0x18) => (FpVec3::Binary(MaxNm), false),
        (false, 0, 0x19) => (FpVec3::Mla, false),
        (false, 0, 0x1a) => (FpVec3::Binary(Add), false),
        (false, 0, 0x1b) => (FpVec3::Mulx, true),
        (false, 0, 0x1c) => (FpVec3::CmEq, true),
        (false, 0, 0x1e) => (FpVec3::Binary(Max), false),
        (false, _, 0x18) => (FpVec3::Binary(MinNm), false),
        (false, 1, 0x19) => (FpVec3::Mls, false),
        (false, 1, 0x1a) => (FpVec3::Binary(Sub), false),
        (false, 1, 0x1e) => (FpVec3::Binary(Min), false),
        (true, 0, 0x18) => (FpVec3::Pair(MaxNm), false),
        (true, 0, 0x1a) => (FpVec3::Pair(Add), false),
        (true, 0, 0x1b) => (FpVec3::Binary(Mul), false),
        (true, 0, 0x1c) => (FpVec3::CmGe, true),
        (true, 0, 0x1d) => (FpVec3::AcGe, true),
        (true, 0, 0x1e) => (FpVec3::Pair(Max), false),
        (true, 0, 0x1f) => (FpVec3::Binary(Div), false),
        (true, 1, 0x18) => (FpVec3::Pair(MinNm), false),
        (true, 1, 0x1a) => (FpVec3::Abd, true),
        (true, 1, 0x1c) => (FpVec3::CmGt, true),
        (true, 1, 0x1d) => (FpVec3::AcGt, true),
        (true, 1, 0x1e) => (FpVec3::Pair(Min), false),
        _ => return None,
    };
    let op = form.float(op)?;
    (!form.scalar || has_scalar).then_some(Op { kind: Kind::FpV3(v3), ..op })
}

fn three_different(word: u32, form: Form, op: Op) -> Option<Op> {
    let opcode = bits(word, 12, 4);
    let (signed, u) = (!form.unsigned, form.unsigned);
    let (size, op) = (form.size, Op { size: 1 << form.size, ..op });
    let kind = match opcode {
        9 | 11 | 13 if u || size == 0 || size == 3 => return None,
        9 => Kind::DoublingLong { op: V3::Mla },
        11 => Kind::DoublingLong { op: V3::Mls },
        13 => Kind::DoublingLong { op: V3::Mul },
        _ if form.scalar || size == 3 => return None,
        0 => Kind::Long { op: V3::Add, signed },
        1 => Kind::AddWide { subtract: false, signed },
        2 => Kind::Long { op: V3::Sub, signed },
        3 => Kind::AddWide { subtract: true, signed },
        4 => Kind::AddHighNarrow { subtract: false, round: u },
        5 => Kind::Long { op: V3::Aba, signed },
        6 => Kind::AddHighNarrow { subtract: true, round: u },
        7 => Kind::Long { op: V3::Abd, signed },
        8 => Kind::Long { op: V3::Mla, signed },
        10 => Kind::Long { op: V3::Mls, signed },
        12 => Kind::Long { op: V3::Mul, signed },
        14 if !u && size == 0 => Kind::PolyLong,
        _ => return None,
    };
    let bytes = if form.scalar { op.size } else { 8 };
    Some(Op { kind, bytes, wide: form.quad && !form.scalar, ..op })
}

fn two(word: u32, form: Form, op: Op) -> Option<Op> {
    let (opcode, size, u) = (bits(word, 12, 5), form.size, form.unsigned);
    if (0x0c..=0x0f).contains(&opcode) || opcode >= 0x16 {
        return two_float(opcode, form, op);
    }
    let (v2, vector, scalar) = match (opcode, u) {
        (0x00, false) => (V2::Rev64, 7, 0),
        (0x00, true) => (V2::Rev32, 3, 0),
        (0x01, false) => (V2::Rev16, 1, 0),
        (0x02, _) => (V2::AddLp, 7, 0),
        (0x03, _) => (V2::QaddMixed, 15, 15),
        (0x04, false) => (V2::Cls, 7, 0),
        (0x04, true) => (V2::Clz, 7, 0),
        (0x05, false) => (V2::Cnt, 1, 0),
        (0x05, true) if size == 1 && !form.scalar => {
            return Some(Op { kind: Kind::V2 { op: V2::Rbit, signed: false }, size: 1, ..op });
        }
        (0x05, true) => (V2::Not, 1, 0),
        (0x06, _) => (V2::AdaLp, 7, 0),
        (0x07, false) => (V2::Qabs, 15, 15),
        (0x07, true) => (V2::Qneg, 15, 15),
        (0x08, false) => (V2::CmGt0, 15, 8),
        (0x08, true) => (V2::CmGe0, 15, 8),
        (0x09, false) => (V2::CmEq0, 15, 8),
        (0x09, true) => (V2::CmLe0, 15, 8),
        (0x0a, false) => (V2::CmLt0, 15, 8),
        (0x0b, false) => (V2::Abs, 15, 8),
        (0x0b, true) => (V2::Neg, 15, 8),
        (0x12 | 0x14, _) => {
            let to = match (opcode, u) {
                (0x12, false) if form.scalar => return None,
                (0x12, false) => VecNarrow::Plain,
                (0x12, true) => VecNarrow::SignedToUnsigned,
                (_, false) => VecNarrow::Signed,
                (_, true) => VecNarrow::Unsigned,
            };
            return narrow(form, size, op, Kind::Narrow(to));
        }
        (0x13, true) if !form.scalar && size < 3 => {
            return Some(Op { kind: Kind::ShiftLeftLong, size: 1 << size, bytes: 8, ..op });
        }
        _ => return None,
    };
    let allowed = if form.scalar { scalar } else { vector };
    let op = form.elements(op, size)?;
    let kind = Kind::V2 { op: v2, signed: !u };
    (allowed >> size & 1 != 0).then_some(Op { kind, ..op })
}

/// An op whose results have half the size of its sources: `size` is that of a result.
fn narrow(form: Form, size: u32, op: Op, kind: Kind) -> Option<Op> {
    let bytes = if form.scalar { 1 << size } else { 8 };
    let wide = form.quad && !form.scalar;
    (size < 3).then_some(Op { kind, size: 1 << size, bytes, wide, ..op })
}

fn two_float(opcode: u32, form: Form, op: Op) -> Option<Op> {
    let (high, u) = (form.size >> 1, form.unsigned);
    let (v2, has_scalar) = match (high, opcode, u) {
        (0, 0x16, false) if !form.scalar => return Some(half_float(form, op, Kind::FpNarrow)),
        (0, 0x17, false) if !form.scalar => return Some(half_float(form, op, Kind::FpLengthen)),
        (1, 0x0c, false) => (FpVec2::CmGt0, true),
        (1, 0x0c, true) => (FpVec2::CmGe0, true),
        (1, 0x0d, false) => (FpVec2::CmEq0, true),
        (1, 0x0d, true) => (FpVec2::CmLe0, true),
        (1, 0x0e, false) => (FpVec2::CmLt0, true),
        (1, 0x0f, false) => (FpVec2::Unary(FpUnary::Abs), false),
        (1, 0x0f, true) => (FpVec2::Unary(FpUnary::Neg), false),
        (0, 0x18, false) => (FpVec2::Unary(FpUnary::Rint(0)), false),
        (0, 0x18, true) => (FpVec2::Unary(FpUnary::Rint(4)), false),
        (0, 0x19, false) => (FpVec2::Unary(FpUnary::Rint(2)), false),
        (1, 0x18, false) => (FpVec2::Unary(FpUnary::Rint(1)), false),
        (1, 0x19, false) => (FpVec2::Unary(FpUnary::Rint(3)), false),
        (_, 0x19, true) => (FpVec2::Unary(FpUnary::RintCurrent), false),
        (0, 0x1a, u) => (FpVec2::ToInt(0, !u), true),
        (0, 0x1b, u) => (FpVec2::ToInt(2, !u), true),
        (0, 0x1c, u) => (FpVec2::ToInt(4, !u), true),
        (1, 0x1a, u) => (FpVec2::ToInt(1, !u), true),
        (1, 0x1b, u) => (FpVec2::ToInt(3, !u), true),
        (0, 0x1d, u) => (FpVec2::FromInt(!u), true),
        (1, 0x1f, true) => (FpVec2::Unary(FpUnary::Sqrt), false),
        _ => return None,
    };
    let op = form.float(op)?;
    (!form.scalar || has_scalar).then_some(Op { kind: Kind::FpV2(v2), ..op })
}

/// FCVTN, FCVTL: `size` is that of the narrow elements.
fn half_float(form: Form, op: Op, kind: Kind) -> Op {
    Op { kind, size: 2 << (form.size & 1), bytes: 8, ..op }
}

fn across(word: u32, form: Form, op: Op) -> Option<Op> {
    let (opcode, size) = (bits(word, 12, 5), form.size);
    if matches!(opcode, 0x0c | 0x0f) && form.unsigned {
        let binary = match (opcode, size >> 1) {
            (0x0c, 0) => FpBinary::MaxNm,
            (0x0c, _) => FpBinary::MinNm,
            (_, 0) => FpBinary::Max,
            _ => FpBinary::Min,
        };
        let is_allocated = form.quad && size & 1 == 0;
        return is_allocated.then_some(Op { kind: Kind::FpAcross(binary), size: 4, ..op });
    }
    let across = match (opcode, form.unsigned) {
        (0x03, _) => VecAcross::AddLong,
        (0x0a, _) => VecAcross::Max,
        (0x1a, _) => VecAcross::Min,
        (0x1b, false) => VecAcross::Add,
        _ => return None,
    };
    let kind = Kind::Across { op: across, signed: !form.unsigned };
    let is_allocated = size < 2 || size == 2 && form.quad;
    is_allocated.then_some(Op { kind, size: 1 << size, ..op })
}

fn pairwise(word: u32, form: Form, op: Op) -> Option<Op> {
    let opcode = bits(word, 12, 5);
    if !form.unsigned {
        let is_allocated = opcode == 0x1b && form.size == 3;
        return is_allocated.then_some(Op { kind: Kind::AddPairScalar, size: 8, bytes: 8, ..op });
    }
    let binary = match (opcode, form.size >> 1) {
        (0x0c, 0) => FpBinary::MaxNm,
        (0x0c, _) => FpBinary::MinNm,
        (0x0d, 0) => FpBinary::Add,
        (0x0f, 0) => FpBinary::Max,
        (0x0f, _) => FpBinary::Min,
        _ => return None,
    };
    Some(Op { kind: Kind::FpPairScalar(binary), ..form.float(op)? })
}

fn copy(word: u32, form: Form, op: Op) -> Option<Op> {
    let (imm5, imm4) = (bits(word, 16, 5), bits(word, 11, 4));
    let log2 = imm5.trailing_zeros();
    if log2 > 3 {
        return None;
    }
    let amount = (imm5 >> (log2 + 1)) as u8;
    let op = Op { amount, size: 1 << log2, ..op };
    if form.scalar {
        let is_allocated = !form.unsigned && imm4 == 0;
        return is_allocated.then_some(Op { kind: Kind::DupElement, bytes: 1 << log2, ..op });
    }
    let quad = form.quad;
    let (kind, is_allocated) = match (form.unsigned, imm4) {
        (true, _) => {
            let imm = u64::from(imm4 >> log2);
            return quad.then_some(Op { kind: Kind::InsertElement, imm, ..op });
        }
        (_, 0) => (Kind::DupElement, quad || log2 < 3),
        (_, 1) => (Kind::DupGeneral, quad || log2 < 3),
        (_, 3) => (Kind::InsertGeneral, quad),
        (_, 5) => (Kind::MoveToGeneral { signed: true }, log2 < 2 || quad && log2 == 2),
        (_, 7) => (Kind::MoveToGeneral { signed: false }, quad == (log2 == 3)),
        _ => return None,
    };
    is_allocated.then_some(Op { kind, ..op })
}

/// TBL, TBX; ZIP, UZP, TRN; EXT.
fn permute(word: u32, form: Form, op: Op) -> Option<Op> {
    if form.unsigned {
        let amount = bits(word, 11, 4) as u8;
        let is_allocated = form.size == 0 && (form.quad || amount < 8);
        return is_allocated.then_some(Op { kind: Kind::ExtractVec, amount, size: 1, ..op });
    }
    if !bit(word, 11) {
        let kind = Kind::Table { insert: bit(word, 12) };
        let amount = bits(word, 13, 2) as u8 + 1;
        return (form.size == 0).then_some(Op { kind, amount, size: 1, ..op });
    }
    let kind = match bits(word, 12, 2) {
        1 => Kind::Uzp,
        2 => Kind::Trn,
        3 => Kind::Zip,
        _ => return None,
    };
    let op = form.elements(op, form.size)?;
    Some(Op { kind, amount: bits(word, 14, 1) as u8, ..op })
}

/// MOVI, MVNI, ORR, BIC, FMOV: `AdvSIMDExpandImm`.
fn immediate(word: u32, op: Op) -> Option<Op> {
    let imm8 = u64::from(bits(word, 16, 3) << 5 | bits(word, 5, 5));
    let (cmode, invert, quad) = (bits(word, 12, 4), bit(word, 29), bit(word, 30));
    if bit(word, 11) {
        return None;
    }
    let half = |value: u64| value * 0x1_0000_0001;
    let imm = match cmode {
        0..=7 => half(imm8 << (8 * (cmode >> 1))),
        8..=11 => (imm8 << (8 * (cmode >> 1 & 1))) * 0x0001_0001_0001_0001,
        12 => half(imm8 << 8 | 0xff),
        13 => half(imm8 << 16 | 0xffff),
        14 if !invert => imm8 * 0x0101_0101_0101_0101,
        14 => (0..8).fold(0, |all, i| all | ((imm8 >> i & 1) * 0xff) << (8 * i)),
        _ if !invert => half(u64::from(float::imm32(imm8 as u32))),
        _ if quad => float::imm64(imm8 as u32),
        _ => return None,
    };
    let is_or = cmode < 12 && cmode & 1 != 0;
    let kind = match (is_or, invert) {
        (true, false) => Kind::VecImmOr,
        (true, true) => Kind::VecImmBic,
        _ => Kind::VecImm,
    };
    let imm = if !is_or && invert && cmode < 14 { !imm } else { imm };
    Some(Op { kind, imm, ..op })
}

fn shift(word: u32, form: Form, op: Op) -> Option<Op> {
    let (opcode, u, signed) = (bits(word, 11, 5), form.unsigned, !form.unsigned);
    let immhb = bits(word, 16, 7);
    let log2 = 31 - (immhb >> 3).leading_zeros();
    let esize = 8 << log2;
    let (right, left) = ((2 * esize - immhb) as u8, (immhb - esize) as u8);
    let (shift, amount, has_small_scalar) = match (opcode, u) {
        (0x00, _) => (VecShift::Shr, right, false),
        (0x02, _) => (VecShift::Sra, right, false),
        (0x04, _) => (VecShift::Rshr, right, false),
        (0x06, _) => (VecShift::Rsra, right, false),
        (0x08, true) => (VecShift::Sri, right, false),
        (0x0a, false) => (VecShift::Shl, left, false),
        (0x0a, true) => (VecShift::Sli, left, false),
        (0x0c, true) => (VecShift::Qshlu, left, true),
        (0x0e, _) => (VecShift::Qshl, left, true),
        (0x10..=0x13, _) => {
            let to = match (opcode, u) {
                (0x10 | 0x11, false) if form.scalar => return None,
                (0x10 | 0x11, false) => VecNarrow::Plain,
                (0x10 | 0x11, true) => VecNarrow::SignedToUnsigned,
                (_, false) => VecNarrow::Signed,
                (_, true) => VecNarrow::Unsigned,
            };
            let kind = Kind::ShiftNarrow { to, round: opcode & 1 != 0 };
            return narrow(form, log2, Op { amount: right, ..op }, kind);
        }
        (0x14, _) => {
            let kind = Kind::ShiftLong { signed };
            let is_allocated = !form.scalar && log2 < 3;
            let op = Op { kind, amount: left, size: 1 << log2, bytes: 8, ..op };
            return is_allocated.then_some(op);
        }
        (0x1c | 0x1f, _) if log2 >= 2 => {
            let kind = Kind::FpFixedVec { to_int: opcode == 0x1f, signed };
            return Some(Op { kind, amount: right, ..form.elements(op, log2)? });
        }
        _ => return None,
    };
    let is_allocated = !form.scalar || has_small_scalar || log2 == 3;
    let op = form.elements(op, log2)?;
    is_allocated.then_some(Op { kind: Kind::Shift { op: shift, signed }, amount, ..op })
}

fn indexed(word: u32, form: Form, op: Op) -> Option<Op> {
    let (opcode, u, signed) = (bits(word, 12, 4), form.unsigned, !form.unsigned);
    let (h, l, m) = (bits(word, 11, 1), bits(word, 21, 1), bits(word, 20, 1));
    if matches!((opcode, u), (1 | 5 | 9, false) | (9, true)) {
        let v3 = match (opcode, u) {
            (1, _) => FpVec3::Mla,
            (5, _) => FpVec3::Mls,
            (_, true) => FpVec3::Mulx,
            _ => FpVec3::Binary(FpBinary::Mul),
        };
        let amount = match form.size {
            2 => h << 1 | l,
            3 if l == 0 => h,
            _ => return None,
        } as u8;
        return Some(Op { kind: Kind::FpIndexed(v3), amount, ..form.float(op)? });
    }
    let (amount, rm) = match form.size {
        1 => (h << 2 | l << 1 | m, op.rm & 15),
        2 => (h << 1 | l, op.rm),
        _ => return None,
    };
    let same = |v3| (Kind::Indexed { op: v3 }, op.bytes, op.wide);
    let (kind, bytes, wide) = match (opcode, u) {
        (3 | 7 | 11, false) => {
            let v3 = [V3::Mla, V3::Mls, V3::Mul][(opcode >> 2) as usize];
            let bytes = if form.scalar { 1 << form.size } else { 8 };
            (Kind::DoublingLongIndexed { op: v3 }, bytes, form.quad && !form.scalar)
        }
        (12, false) if form.scalar => (Kind::Indexed { op: V3::Qdmulh }, 1 << form.size, false),
        (13, false) if form.scalar => (Kind::Indexed { op: V3::Qrdmulh }, 1 << form.size, false),
        _ if form.scalar => return None,
        (12, false) => same(V3::Qdmulh),
        (13, false) => same(V3::Qrdmulh),
        (8, false) => same(V3::Mul),
        (0, true) => same(V3::Mla),
        (4, true) => same(V3::Mls),
        (2, _) => (Kind::LongIndexed { op: V3::Mla, signed }, 8, form.quad),
        (6, _) => (Kind::LongIndexed { op: V3::Mls, signed }, 8, form.quad),
        (10, _) => (Kind::LongIndexed { op: V3::Mul, signed }, 8, form.quad),
        _ => return None,
    };
    Some(Op { kind, bytes, wide, rm, amount: amount as u8, size: 1 << form.size, ..op })
}
