//! Packed shifts.

use emu_cpu::port::Port;

use super::fpu::check_sse;
use super::sse_mov::{destination, source};
use super::{Body, Next};
use crate::ctx::Ctx;
use crate::decode::{Op, Operand, VecShift};

/// Executes a shift, by the low 64 bits of the source or by the immediate.
pub(super) fn vec_shift<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: VecShift) -> Body {
    check_sse(ctx)?;
    let count =
        if op.src == Operand::IMM { op.imm & 0xff } else { source(ctx, op, op.src, 16)? as u64 };
    let to = destination(ctx, op);
    *to = match what {
        VecShift::Psllw => logical(*to, 16, count, |v, n| v << n),
        VecShift::Pslld => logical(*to, 32, count, |v, n| v << n),
        VecShift::Psllq => logical(*to, 64, count, |v, n| v << n),
        VecShift::Psrlw => logical(*to, 16, count, |v, n| v >> n),
        VecShift::Psrld => logical(*to, 32, count, |v, n| v >> n),
        VecShift::Psrlq => logical(*to, 64, count, |v, n| v >> n),
        VecShift::Psraw => arithmetic(*to, 16, count),
        VecShift::Psrad => arithmetic(*to, 32, count),
        VecShift::Pslldq => to.checked_shl(8 * count as u32).unwrap_or(0),
        VecShift::Psrldq => to.checked_shr(8 * count as u32).unwrap_or(0),
    };
    Ok(Next::Seq)
}

/// Elements of `bits` bits; a count beyond the element gives zero.
fn logical(value: u128, bits: u32, count: u64, f: impl Fn(u128, u32) -> u128) -> u128 {
    if count >= u64::from(bits) {
        return 0;
    }
    let ones = u128::MAX >> (128 - bits);
    (0..128 / bits).fold(0, |result, i| {
        let element = value >> (i * bits) & ones;
        result | (f(element, count as u32) & ones) << (i * bits)
    })
}

/// As `logical`, but the sign fills up, also for counts beyond the element.
fn arithmetic(value: u128, bits: u32, count: u64) -> u128 {
    let count = count.min(u64::from(bits) - 1) as u32;
    let ones = u128::MAX >> (128 - bits);
    (0..128 / bits).fold(0, |result, i| {
        let element = ((value << (128 - bits - i * bits)) as i128) >> (128 - bits);
        result | ((element >> count) as u128 & ones) << (i * bits)
    })
}
