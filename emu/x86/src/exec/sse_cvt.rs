//! Conversions between integers and floating point.
//!
//! To integers by MXCSR.RC, or by truncation; out of range gives the integer indefinite value. To
//! floating point with rounding to nearest. Exception flags are not modelled, see `sse_fp`.

use emu_cpu::port::Port;

use super::fpu::check_sse;
use super::sse_mov::{LOW64, destination, source};
use super::{Body, Next, operand};
use crate::ctx::{Ctx, Exec};
use crate::decode::{CvtOp, Op};
use crate::flags::sign_extend;

/// The low quarter.
const LOW32: u128 = 0xffff_ffff;

/// How a value becomes an integer.
#[derive(Clone, Copy)]
enum Rounding {
    Nearest,
    Down,
    Up,
    Truncate,
}

impl Rounding {
    /// MXCSR.RC.
    fn of(mxcsr: u32) -> Self {
        match mxcsr >> 13 & 3 {
            0 => Rounding::Nearest,
            1 => Rounding::Down,
            2 => Rounding::Up,
            _ => Rounding::Truncate,
        }
    }

    fn round(self, value: f64) -> f64 {
        match self {
            Rounding::Nearest => value.round_ties_even(),
            Rounding::Down => value.floor(),
            Rounding::Up => value.ceil(),
            Rounding::Truncate => value.trunc(),
        }
    }
}

/// A signed integer of `size` bytes (4, 8).
fn to_integer(value: f64, rounding: Rounding, size: u8) -> u64 {
    let rounded = rounding.round(value);
    let limit = if size == 8 { 9_223_372_036_854_775_808.0 } else { 2_147_483_648.0 };
    let indefinite = 1 << (8 * size - 1);
    // A NaN fails both comparisons.
    if rounded >= -limit && rounded < limit {
        rounded as i64 as u64 & crate::flags::mask(size)
    } else {
        indefinite
    }
}

/// Widens; a NaN keeps sign and payload and becomes quiet.
fn widen(bits: u32) -> u64 {
    if f32::from_bits(bits).is_nan() {
        let sign = u64::from(bits >> 31) << 63;
        return sign | 0x7ff8_0000_0000_0000 | u64::from(bits & 0x003f_ffff) << 29;
    }
    f64::from(f32::from_bits(bits)).to_bits()
}

/// Narrows; a NaN keeps sign and the top of its payload and becomes quiet.
fn narrow(bits: u64) -> u32 {
    if f64::from_bits(bits).is_nan() {
        let sign = (bits >> 63) as u32;
        return sign << 31 | 0x7fc0_0000 | (bits >> 29) as u32 & 0x003f_ffff;
    }
    (f64::from_bits(bits) as f32).to_bits()
}

/// Executes a conversion.
pub(super) fn convert<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: CvtOp) -> Body {
    check_sse(ctx)?;
    let by_mode = Rounding::of(ctx.cpu.state.fp.mxcsr);
    match what {
        CvtOp::Si2ss => {
            let value = operand::get(ctx, op, op.src, op.src_size)?;
            let bits = (sign_extend(value, op.src_size) as i64 as f32).to_bits();
            merge(ctx, op, LOW32, u128::from(bits));
        }
        CvtOp::Si2sd => {
            let value = operand::get(ctx, op, op.src, op.src_size)?;
            let bits = (sign_extend(value, op.src_size) as i64 as f64).to_bits();
            merge(ctx, op, LOW64, u128::from(bits));
        }
        CvtOp::Ss2si => scalar_to_integer(ctx, op, 4, by_mode)?,
        CvtOp::Sd2si => scalar_to_integer(ctx, op, 8, by_mode)?,
        CvtOp::Tss2si => scalar_to_integer(ctx, op, 4, Rounding::Truncate)?,
        CvtOp::Tsd2si => scalar_to_integer(ctx, op, 8, Rounding::Truncate)?,
        CvtOp::Ss2sd => {
            let bits = source(ctx, op, op.src, 4)? as u32;
            merge(ctx, op, LOW64, u128::from(widen(bits)));
        }
        CvtOp::Sd2ss => {
            let bits = source(ctx, op, op.src, 8)? as u64;
            merge(ctx, op, LOW32, u128::from(narrow(bits)));
        }
        _ => packed(ctx, op, what, by_mode)?,
    }
    Ok(Next::Seq)
}

/// Replaces the part of the destination under `mask`.
fn merge<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mask: u128, value: u128) {
    let to = destination(ctx, op);
    *to = (*to & !mask) | value;
}

fn scalar_to_integer<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    from: u8,
    rounding: Rounding,
) -> Exec<()> {
    let bits = source(ctx, op, op.src, from)?;
    let value = if from == 4 {
        f64::from(f32::from_bits(bits as u32))
    } else {
        f64::from_bits(bits as u64)
    };
    let result = to_integer(value, rounding, op.size);
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, result);
    Ok(())
}

/// The packed forms.
fn packed<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: CvtOp, by_mode: Rounding) -> Exec<()> {
    let reads_half = matches!(what, CvtOp::Ps2pd | CvtOp::Dq2pd);
    let value = source(ctx, op, op.src, if reads_half { 8 } else { 16 })?;
    let single = |bits: u128| f64::from(f32::from_bits(bits as u32));
    let double = |bits: u128| f64::from_bits(bits as u64);
    let integer = |value: f64, rounding| u128::from(to_integer(value, rounding, 4));
    *destination(ctx, op) = match what {
        CvtOp::Ps2pd => map(value, 2, 32, 64, |v| u128::from(widen(v as u32))),
        CvtOp::Pd2ps => map(value, 2, 64, 32, |v| u128::from(narrow(v as u64))),
        CvtOp::Dq2ps => map(value, 4, 32, 32, |v| u128::from((v as i32 as f32).to_bits())),
        CvtOp::Dq2pd => map(value, 2, 32, 64, |v| u128::from(f64::from(v as i32).to_bits())),
        CvtOp::Ps2dq => map(value, 4, 32, 32, |v| integer(single(v), by_mode)),
        CvtOp::Tps2dq => map(value, 4, 32, 32, |v| integer(single(v), Rounding::Truncate)),
        CvtOp::Pd2dq => map(value, 2, 64, 32, |v| integer(double(v), by_mode)),
        _ => map(value, 2, 64, 32, |v| integer(double(v), Rounding::Truncate)),
    };
    Ok(())
}

/// Converts `count` elements from one width to another; the rest is zero.
fn map(value: u128, count: u32, from: u32, to: u32, f: impl Fn(u128) -> u128) -> u128 {
    let ones = u128::MAX >> (128 - from);
    (0..count).fold(0, |result, i| result | f(value >> (i * from) & ones) << (i * to))
}
