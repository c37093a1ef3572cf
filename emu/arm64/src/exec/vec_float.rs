//! Floating point of vectors: the scalar operations on each element.

use std::cmp::Ordering;

use emu_cpu::port::Port;

use super::convert::{convert, from_integer, to_integer};
use super::float::{Mode, binary, fused, multiply_extended, order, sign, unary};
use super::vec_int::{Sources, lane, lanes, truth};
use super::vec_shift::{half, upper};
use crate::ctx::Ctx;
use crate::decode::{FpBinary, FpVec2, FpVec3, Kind, Op};

/// Executes one.
pub(super) fn execute<P: Port>(ctx: &Ctx<'_, P>, op: &Op, s: &Sources) -> u128 {
    let (bytes, size) = (op.bytes, op.size);
    let fpcr = ctx.cpu.state.fpcr;
    let mode = Mode::new(fpcr);
    let is_default_nan = fpcr & 1 << 25 != 0;
    match op.kind {
        Kind::FpV3(FpVec3::Pair(kind)) => {
            let half = u32::from(bytes / size) / 2;
            lanes(bytes, size, |i| {
                let (v, at) = if i < half { (s.n, 2 * i) } else { (s.m, 2 * (i - half)) };
                binary(kind, lane(v, at, size), lane(v, at + 1, size), size, mode)
            })
        }
        Kind::FpV3(v3) => lanes(bytes, size, |i| {
            three(v3, lane(s.d, i, size), lane(s.n, i, size), lane(s.m, i, size), size, mode)
        }),
        Kind::FpIndexed(v3) => {
            let m = lane(s.m, u32::from(op.amount), size);
            lanes(bytes, size, |i| three(v3, lane(s.d, i, size), lane(s.n, i, size), m, size, mode))
        }
        Kind::FpV2(v2) => lanes(bytes, size, |i| two(v2, lane(s.n, i, size), size, mode)),
        Kind::FpPairScalar(kind) => {
            let value = binary(kind, lane(s.n, 0, size), lane(s.n, 1, size), size, mode);
            u128::from(value)
        }
        Kind::FpAcross(kind) => {
            // "Reduce": halves first, so that which NaN wins is defined.
            let of = |i| lane(s.n, i, size);
            let low = binary(kind, of(0), of(1), size, mode);
            let high = binary(kind, of(2), of(3), size, mode);
            u128::from(binary(kind, low, high, size, mode))
        }
        Kind::FpLengthen => {
            let n = half(op, s.n);
            lanes(16, 2 * size, |i| convert(lane(n, i, size), size, 2 * size, is_default_nan))
        }
        Kind::FpNarrow => {
            let value =
                lanes(8, size, |i| convert(lane(s.n, i, 2 * size), 2 * size, size, is_default_nan));
            upper(op, s.d, value)
        }
        Kind::FpFixedVec { to_int: true, signed } => lanes(bytes, size, |i| {
            to_integer(lane(s.n, i, size), size, 3, (signed, size), op.amount)
        }),
        Kind::FpFixedVec { signed, .. } => lanes(bytes, size, |i| {
            from_integer(lane(s.n, i, size), (signed, size), size, op.amount)
        }),
        _ => 0,
    }
}

fn three(v3: FpVec3, d: u64, n: u64, m: u64, size: u8, mode: Mode) -> u64 {
    let magnitude = |value: u64| value & !sign(size);
    let is_greater = |a, b| order(a, b, size) == Some(Ordering::Greater);
    let is_at_least = |a, b| matches!(order(a, b, size), Some(Ordering::Greater | Ordering::Equal));
    match v3 {
        FpVec3::Binary(kind) | FpVec3::Pair(kind) => binary(kind, n, m, size, mode),
        FpVec3::Mla => fused(d, n, m, size, mode),
        FpVec3::Mls => fused(d, n ^ sign(size), m, size, mode),
        FpVec3::Mulx => multiply_extended(n, m, size, mode),
        FpVec3::Abd => magnitude(binary(FpBinary::Sub, n, m, size, mode)),
        FpVec3::CmEq => truth(order(n, m, size) == Some(Ordering::Equal)),
        FpVec3::CmGe => truth(is_at_least(n, m)),
        FpVec3::CmGt => truth(is_greater(n, m)),
        FpVec3::AcGe => truth(is_at_least(magnitude(n), magnitude(m))),
        FpVec3::AcGt => truth(is_greater(magnitude(n), magnitude(m))),
    }
}

fn two(v2: FpVec2, n: u64, size: u8, mode: Mode) -> u64 {
    let zero = order(n, 0, size);
    match v2 {
        FpVec2::Unary(kind) => unary(kind, n, size, mode),
        FpVec2::CmGt0 => truth(zero == Some(Ordering::Greater)),
        FpVec2::CmGe0 => truth(matches!(zero, Some(Ordering::Greater | Ordering::Equal))),
        FpVec2::CmEq0 => truth(zero == Some(Ordering::Equal)),
        FpVec2::CmLe0 => truth(matches!(zero, Some(Ordering::Less | Ordering::Equal))),
        FpVec2::CmLt0 => truth(zero == Some(Ordering::Less)),
        FpVec2::ToInt(rounding, signed) => to_integer(n, size, rounding, (signed, size), 0),
        FpVec2::FromInt(signed) => from_integer(n, (signed, size), size, 0),
    }
}
