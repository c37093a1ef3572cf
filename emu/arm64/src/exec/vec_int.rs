//! Integer arithmetic of vectors: lanes, and operations on two and three registers.

use emu_cpu::port::Port;

use super::operand::sign_extend;
use super::{convert, float, undefined, vec_float, vec_long, vec_move, vec_shift};
use crate::ctx::{Ctx, Exec};
use crate::decode::{Kind, Op, V2, V3, VecAcross};

/// `FPSR.QC`: something was saturated.
const QC: u32 = 1 << 27;

/// Ones in the low `bits`.
#[inline(always)]
pub(super) fn ones(bits: u32) -> u64 {
    u64::MAX >> (64 - bits)
}

/// Element `i` of `size` bytes.
#[inline(always)]
pub(super) fn lane(v: u128, i: u32, size: u8) -> u64 {
    let bits = 8 * u32::from(size);
    (v >> (i * bits)) as u64 & ones(bits)
}

/// Element `i` as a number, by its signedness.
#[inline(always)]
pub(super) fn number(v: u128, i: u32, size: u8, signed: bool) -> i128 {
    let value = lane(v, i, size);
    if signed { i128::from(sign_extend(value, size) as i64) } else { i128::from(value) }
}

/// A vector of `bytes` whose elements `f` makes.
#[inline(always)]
pub(super) fn lanes(bytes: u8, size: u8, mut f: impl FnMut(u32) -> u64) -> u128 {
    let bits = 8 * u32::from(size);
    (0..u32::from(bytes / size)).fold(0, |all, i| all | u128::from(f(i) & ones(bits)) << (i * bits))
}

/// The value in range that is nearest, by size and signedness; notes if another.
#[inline(always)]
pub(super) fn saturate(value: i128, size: u8, signed: bool, saturated: &mut bool) -> u64 {
    let bits = 8 * u32::from(size);
    let (low, high) = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    let clamped = value.clamp(low, high);
    *saturated |= clamped != value;
    clamped as u64
}

/// Sets the destination, and QC if something was saturated.
pub(super) fn finish<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, value: u128, saturated: bool) {
    let state = &mut ctx.cpu.state;
    state.v[usize::from(op.rd)] = value;
    if saturated {
        state.fpsr |= QC;
    }
}

/// The vector registers that an op names.
pub(super) struct Sources {
    pub(super) d: u128,
    pub(super) n: u128,
    pub(super) m: u128,
    pub(super) a: u128,
}

/// Executes what changes only vector registers, flags and general registers.
// tidy: table
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let v = &ctx.cpu.state.v;
    let of = |n: u8| v[usize::from(n & 31)];
    let s = Sources { d: of(op.rd), n: of(op.rn), m: of(op.rm), a: of(op.ra) };
    let mut saturated = false;
    let value = match op.kind {
        Kind::V3 { op: v3, signed } => three(op, v3, signed, &s, &mut saturated),
        Kind::V2 { op: v2, signed } => two(op, v2, signed, &s, &mut saturated),
        Kind::Across { op: kind, signed } => across(op, kind, signed, s.n),
        Kind::AddPairScalar => u128::from((s.n as u64).wrapping_add((s.n >> 64) as u64)),
        Kind::Indexed { op: v3 } => {
            let m = lane(s.m, u32::from(op.amount), op.size);
            let m = lanes(16, op.size, |_| m);
            three(op, v3, true, &Sources { m, ..s }, &mut saturated)
        }
        Kind::Long { .. }
        | Kind::LongIndexed { .. }
        | Kind::AddWide { .. }
        | Kind::AddHighNarrow { .. }
        | Kind::DoublingLong { .. }
        | Kind::DoublingLongIndexed { .. }
        | Kind::PolyLong => vec_long::execute(op, &s, &mut saturated),
        Kind::Shift { op: shift, signed } => {
            vec_shift::same_size(op, shift, signed, &s, &mut saturated)
        }
        Kind::ShiftNarrow { to, round } => {
            vec_shift::narrow(op, to, round, op.amount, &s, &mut saturated)
        }
        Kind::Narrow(to) => vec_shift::narrow(op, to, false, 0, &s, &mut saturated),
        Kind::ShiftLong { signed } => vec_shift::long(op, signed, u32::from(op.amount), s.n),
        Kind::ShiftLeftLong => vec_shift::long(op, false, 8 * u32::from(op.size), s.n),
        Kind::DupElement
        | Kind::DupGeneral
        | Kind::InsertGeneral
        | Kind::InsertElement
        | Kind::MoveToGeneral { .. }
        | Kind::Table { .. }
        | Kind::Zip
        | Kind::Uzp
        | Kind::Trn
        | Kind::ExtractVec
        | Kind::VecImm
        | Kind::VecImmOr
        | Kind::VecImmBic => return vec_move::execute(ctx, op, &s),
        Kind::FpV3(_)
        | Kind::FpV2(_)
        | Kind::FpIndexed(_)
        | Kind::FpLengthen
        | Kind::FpNarrow
        | Kind::FpPairScalar(_)
        | Kind::FpAcross(_)
        | Kind::FpFixedVec { .. } => vec_float::execute(ctx, op, &s),
        Kind::Fp1(_)
        | Kind::Fp2(_)
        | Kind::FpFused(_)
        | Kind::FpCompare { .. }
        | Kind::FpCondCompare
        | Kind::FpSelect
        | Kind::FpImm => return float::execute(ctx, op, &s),
        Kind::FpConvert
        | Kind::FpToInt { .. }
        | Kind::FpFromInt { .. }
        | Kind::FpFixed { .. }
        | Kind::FpToGeneral
        | Kind::FpFromGeneral
        | Kind::FpToGeneralHigh
        | Kind::FpFromGeneralHigh => return convert::execute(ctx, op, &s),
        _ => return undefined(),
    };
    finish(ctx, op, value, saturated);
    Ok(())
}

/// All ones or none.
pub(super) fn truth(is: bool) -> u64 {
    if is { u64::MAX } else { 0 }
}

/// Carry-less product.
pub(super) fn polynomial(a: u64, b: u64) -> u64 {
    (0..8).fold(0, |all, i| if b >> i & 1 != 0 { all ^ a << i } else { all })
}

/// Operations of three registers of one shape.
fn three(op: &Op, v3: V3, signed: bool, s: &Sources, saturated: &mut bool) -> u128 {
    let (bytes, size) = (op.bytes, op.size);
    let bits = 8 * u32::from(size);
    let whole = u128::MAX >> (128 - 8 * u32::from(bytes));
    match v3 {
        V3::And => return s.n & s.m & whole,
        V3::Bic => return s.n & !s.m & whole,
        V3::Orr => return (s.n | s.m) & whole,
        V3::Orn => return (s.n | !s.m) & whole,
        V3::Eor => return (s.n ^ s.m) & whole,
        V3::Bsl => return (s.d & s.n | !s.d & s.m) & whole,
        V3::Bit => return (s.d & !s.m | s.n & s.m) & whole,
        V3::Bif => return (s.d & s.m | s.n & !s.m) & whole,
        V3::AddP | V3::MaxP | V3::MinP => {
            let half = u32::from(bytes / size) / 2;
            return lanes(bytes, size, |i| {
                let (v, at) = if i < half { (s.n, 2 * i) } else { (s.m, 2 * (i - half)) };
                let (a, b) = (number(v, at, size, signed), number(v, at + 1, size, signed));
                (match v3 {
                    V3::AddP => a + b,
                    V3::MaxP => a.max(b),
                    _ => a.min(b),
                }) as u64
            });
        }
        _ => {}
    }
    lanes(bytes, size, |i| {
        let (a, b) = (number(s.n, i, size, signed), number(s.m, i, size, signed));
        let d = lane(s.d, i, size);
        let add = |value: i128| d.wrapping_add(value as u64);
        match v3 {
            V3::Hadd => ((a + b) >> 1) as u64,
            V3::Rhadd => ((a + b + 1) >> 1) as u64,
            V3::Hsub => ((a - b) >> 1) as u64,
            V3::Qadd => saturate(a + b, size, signed, saturated),
            V3::Qsub => saturate(a - b, size, signed, saturated),
            V3::CmGt => truth(a > b),
            V3::CmGe => truth(a >= b),
            V3::CmEq => truth(a == b),
            V3::CmTst => truth(a & b != 0),
            V3::Shl | V3::Rshl | V3::Qshl | V3::Qrshl => {
                let is_rounding = matches!(v3, V3::Rshl | V3::Qrshl);
                let by = i32::from(lane(s.m, i, size) as i8);
                let value = vec_shift::by(a, by, is_rounding);
                match v3 {
                    V3::Qshl | V3::Qrshl => saturate(value, size, signed, saturated),
                    _ if by >= 64 => 0,
                    _ => value as u64,
                }
            }
            V3::Max => a.max(b) as u64,
            V3::Min => a.min(b) as u64,
            V3::Abd => (a - b).unsigned_abs() as u64,
            V3::Aba => add((a - b).abs()),
            V3::Add => (a + b) as u64,
            V3::Sub => (a - b) as u64,
            V3::Mul => a.wrapping_mul(b) as u64,
            V3::Mla => add(a.wrapping_mul(b)),
            V3::Mls => add(-a.wrapping_mul(b)),
            V3::Pmul => polynomial(a as u64, b as u64),
            V3::Qdmulh => saturate((2 * a * b) >> bits, size, true, saturated),
            _ => {
                let product = 2 * signed_product(a, b, size) + (1 << (bits - 1));
                saturate(product >> bits, size, true, saturated)
            }
        }
    })
}

/// Product of two elements taken as signed: SQRDMULH has the opcode bit of unsigned ones.
fn signed_product(a: i128, b: i128, size: u8) -> i128 {
    let signed = |value: i128| i128::from(sign_extend(value as u64, size) as i64);
    signed(a) * signed(b)
}

/// Operations of one source.
fn two(op: &Op, v2: V2, signed: bool, s: &Sources, saturated: &mut bool) -> u128 {
    let (bytes, size) = (op.bytes, op.size);
    let bits = 8 * u32::from(size);
    let reversed = |container: u8| {
        let count = u32::from(container / size);
        lanes(bytes, size, |i| lane(s.n, i ^ (count - 1), size))
    };
    match v2 {
        V2::Rev64 => return reversed(8),
        V2::Rev32 => return reversed(4),
        V2::Rev16 => return reversed(2),
        V2::AddLp | V2::AdaLp => {
            return lanes(bytes, 2 * size, |i| {
                let (a, b) =
                    (number(s.n, 2 * i, size, signed), number(s.n, 2 * i + 1, size, signed));
                let sum = (a + b) as u64;
                if v2 == V2::AdaLp { sum.wrapping_add(lane(s.d, i, 2 * size)) } else { sum }
            });
        }
        _ => {}
    }
    lanes(bytes, size, |i| {
        let value = lane(s.n, i, size);
        let a = number(s.n, i, size, true);
        match v2 {
            V2::Clz => u64::from((value << (64 - bits)).leading_zeros().min(bits)),
            V2::Cls => {
                let changes = (value ^ value << 1) << (64 - bits);
                u64::from(changes.leading_zeros().min(bits - 1))
            }
            V2::Cnt => u64::from(value.count_ones()),
            V2::Not => !value,
            V2::Rbit => u64::from((value as u8).reverse_bits()),
            V2::Abs => a.unsigned_abs() as u64,
            V2::Neg => (-a) as u64,
            V2::Qabs => saturate(a.abs(), size, true, saturated),
            V2::Qneg => saturate(-a, size, true, saturated),
            V2::CmGt0 => truth(a > 0),
            V2::CmGe0 => truth(a >= 0),
            V2::CmEq0 => truth(a == 0),
            V2::CmLe0 => truth(a <= 0),
            V2::CmLt0 => truth(a < 0),
            // SUQADD adds an unsigned source to a signed destination, USQADD the other way.
            _ => {
                let sum = number(s.n, i, size, !signed) + number(s.d, i, size, signed);
                saturate(sum, size, signed, saturated)
            }
        }
    })
}

/// Reductions of all elements.
fn across(op: &Op, kind: VecAcross, signed: bool, n: u128) -> u128 {
    let values = (0..u32::from(op.bytes / op.size)).map(|i| number(n, i, op.size, signed));
    let (value, size) = match kind {
        VecAcross::Add => (values.sum(), op.size),
        VecAcross::AddLong => (values.sum(), 2 * op.size),
        VecAcross::Max => (values.max().unwrap_or(0), op.size),
        VecAcross::Min => (values.min().unwrap_or(0), op.size),
    };
    lanes(size, size, |_| value as u64)
}
