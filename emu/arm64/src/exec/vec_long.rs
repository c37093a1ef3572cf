//! Vector arithmetic whose results are wider or narrower than their sources.

use super::vec_int::{Sources, lane, lanes, number, polynomial, saturate};
use super::vec_shift::{half, upper};
use crate::decode::{Kind, Op, V3};

/// Executes one; `op.size` is the size of the narrow elements.
pub(super) fn execute(op: &Op, s: &Sources, saturated: &mut bool) -> u128 {
    let size = op.size;
    let wide = 2 * size;
    let (n, m) = (half(op, s.n), half(op, s.m));
    // Scalars have one element.
    let bytes = 2 * op.bytes;
    let element = number(s.m, u32::from(op.amount), size, true);
    match op.kind {
        Kind::Long { op: v3, signed } => lanes(bytes, wide, |i| {
            let (a, b) = (number(n, i, size, signed), number(m, i, size, signed));
            combine(v3, lane(s.d, i, wide), a, b)
        }),
        Kind::LongIndexed { op: v3, signed } => {
            let b = number(s.m, u32::from(op.amount), size, signed);
            lanes(bytes, wide, |i| combine(v3, lane(s.d, i, wide), number(n, i, size, signed), b))
        }
        Kind::AddWide { subtract, signed } => lanes(bytes, wide, |i| {
            let (a, b) = (lane(s.n, i, wide), number(m, i, size, signed) as u64);
            if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) }
        }),
        Kind::AddHighNarrow { subtract, round } => {
            let bits = 8 * u32::from(size);
            let value = lanes(8, size, |i| {
                let (a, b) = (lane(s.n, i, wide), lane(s.m, i, wide));
                let sum = if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) };
                sum.wrapping_add(if round { 1 << (bits - 1) } else { 0 }) >> bits
            });
            upper(op, s.d, value)
        }
        Kind::DoublingLong { op: v3 } => lanes(bytes, wide, |i| {
            let (a, b) = (number(n, i, size, true), number(m, i, size, true));
            doubling(v3, number(s.d, i, wide, true), a * b, wide, saturated)
        }),
        Kind::DoublingLongIndexed { op: v3 } => lanes(bytes, wide, |i| {
            let product = number(n, i, size, true) * element;
            doubling(v3, number(s.d, i, wide, true), product, wide, saturated)
        }),
        _ => lanes(bytes, wide, |i| polynomial(lane(n, i, size), lane(m, i, size))),
    }
}

/// One element of a long form.
fn combine(v3: V3, d: u64, a: i128, b: i128) -> u64 {
    match v3 {
        V3::Add => (a + b) as u64,
        V3::Sub => (a - b) as u64,
        V3::Abd => (a - b).unsigned_abs() as u64,
        V3::Aba => d.wrapping_add((a - b).unsigned_abs() as u64),
        V3::Mla => d.wrapping_add((a * b) as u64),
        V3::Mls => d.wrapping_sub((a * b) as u64),
        _ => (a * b) as u64,
    }
}

/// One element of SQDMULL, SQDMLAL, SQDMLSL: saturates twice.
fn doubling(v3: V3, d: i128, product: i128, size: u8, saturated: &mut bool) -> u64 {
    let doubled = saturate(2 * product, size, true, saturated);
    let doubled = i128::from(super::operand::sign_extend(doubled, size) as i64);
    match v3 {
        V3::Mla => saturate(d + doubled, size, true, saturated),
        V3::Mls => saturate(d - doubled, size, true, saturated),
        _ => doubled as u64,
    }
}
