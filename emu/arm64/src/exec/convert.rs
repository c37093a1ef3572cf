//! Conversions between floating-point formats, and to and from integers.
//!
//! Source: \[ArmARM\] `FPConvert`, `FPToFixed`, `FixedToFP`, `FPConvertNaN`. Status: spec.

use emu_cpu::port::Port;

use super::float::Float;
use super::operand;
use super::vec_int::{Sources, finish, ones};
use crate::ctx::{Ctx, Exec};
use crate::decode::{Kind, Op};

/// Mantissa and exponent bits of a format of `size` bytes.
fn format(size: u8) -> (u32, u32) {
    match size {
        2 => (10, 5),
        4 => (23, 8),
        _ => (52, 11),
    }
}

/// Two to the power of `n`, for `n` from 0 to 64 and its negatives.
fn power(n: i32) -> f64 {
    2f64.powi(n)
}

/// A value of `size` bytes in double precision, exactly; NaNs keep the top of their payload.
fn widen(bits: u64, size: u8) -> u64 {
    let (mantissa_bits, exponent_bits) = format(size);
    let sign = bits >> (mantissa_bits + exponent_bits) << 63;
    let mantissa = bits & ones(mantissa_bits);
    let exponent = bits >> mantissa_bits & ones(exponent_bits);
    let bias = ones(exponent_bits) >> 1;
    if exponent == ones(exponent_bits) {
        return sign | 0x7ff << 52 | mantissa << (52 - mantissa_bits);
    }
    if size == 8 {
        return bits;
    }
    let scale = exponent.max(1) as i32 - bias as i32 - mantissa_bits as i32;
    let implicit = if exponent == 0 { 0 } else { 1 << mantissa_bits };
    sign | ((mantissa | implicit) as f64 * power(scale)).to_bits()
}

/// A double in a narrower format, rounded to nearest even.
fn round(bits: u64, size: u8) -> u64 {
    let (mantissa_bits, exponent_bits) = format(size);
    let sign = bits >> 63 << (mantissa_bits + exponent_bits);
    let magnitude = bits & !f64::SIGN;
    let infinity = ones(exponent_bits) << mantissa_bits;
    if magnitude >= 0x7ff << 52 {
        return sign | infinity | (magnitude & ones(52)) >> (52 - mantissa_bits);
    }
    // In units of the last place the value is an integer and a fraction; adding rounded units to
    // the exponent field carries as it should.
    let exponent = (magnitude >> 52) as i32 - 1023;
    let least = 1 - (ones(exponent_bits) >> 1) as i32;
    let unit = exponent.max(least) - mantissa_bits as i32;
    let units = (f64::from_bits(magnitude) * 2f64.powi(-unit.max(-1000))).round_ties_even() as u64;
    let field = (exponent.max(least) - least) as u64;
    let value = (field << mantissa_bits) + units;
    sign | value.min(infinity)
}

/// `FPConvert`.
pub(super) fn convert(bits: u64, from: u8, to: u8, is_default_nan: bool) -> u64 {
    let wide = widen(bits, from);
    let quiet = if wide & !f64::SIGN > 0x7ff << 52 { f64::QUIET } else { 0 };
    let wide = if quiet != 0 && is_default_nan { f64::DEFAULT_NAN } else { wide | quiet };
    if to == 8 { wide } else { round(wide, to) }
}

/// `FPToFixed` to an integer of `bytes`, of `fraction` bits.
pub(super) fn to_integer(bits: u64, size: u8, rounding: u8, form: (bool, u8), fraction: u8) -> u64 {
    let (signed, bytes) = form;
    // A product with a power of two is exact, or infinite, which saturates as it should.
    let value = f64::from_bits(widen(bits, size)) * power(i32::from(fraction));
    let value = value.rint(rounding);
    match (signed, bytes) {
        (true, 8) => value as i64 as u64,
        (true, _) => u64::from(value as i32 as u32),
        (false, 8) => value as u64,
        (false, _) => u64::from(value as u32),
    }
}

/// `FixedToFP` of an integer of `bytes` with `fraction` bits.
pub(super) fn from_integer(value: u64, form: (bool, u8), size: u8, fraction: u8) -> u64 {
    let (signed, bytes) = form;
    let scale = power(-i32::from(fraction));
    let value = if signed {
        operand::sign_extend(value, bytes)
    } else {
        value & ones(8 * u32::from(bytes))
    };
    match (signed, size) {
        (true, 4) => (value as i64 as f32 * scale as f32).bits(),
        (true, _) => (value as i64 as f64 * scale).bits(),
        (false, 4) => (value as f32 * scale as f32).bits(),
        (false, _) => (value as f64 * scale).bits(),
    }
}

/// Executes one.
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, s: &Sources) -> Exec<()> {
    let n = s.n as u64 & ones(8 * u32::from(op.size));
    let general = ctx.cpu.state.x(op.rn);
    let bytes = if op.wide { 8 } else { 4 };
    let value = match op.kind {
        Kind::FpToInt { rounding, signed } => {
            let value = to_integer(n, op.size, rounding, (signed, bytes), 0);
            ctx.cpu.state.set_x(op.rd, value);
            return Ok(());
        }
        Kind::FpFixed { to_int: true, signed } => {
            let value = to_integer(n, op.size, 3, (signed, bytes), op.amount);
            ctx.cpu.state.set_x(op.rd, value);
            return Ok(());
        }
        Kind::FpToGeneral => {
            ctx.cpu.state.set_x(op.rd, n);
            return Ok(());
        }
        Kind::FpToGeneralHigh => {
            ctx.cpu.state.set_x(op.rd, (s.n >> 64) as u64);
            return Ok(());
        }
        Kind::FpFromInt { signed } => from_integer(general, (signed, bytes), op.size, 0),
        Kind::FpFixed { signed, .. } => from_integer(general, (signed, bytes), op.size, op.amount),
        Kind::FpFromGeneral => general & ones(8 * u32::from(op.size)),
        Kind::FpFromGeneralHigh => {
            let value = s.d & u128::from(u64::MAX) | u128::from(general) << 64;
            finish(ctx, op, value, false);
            return Ok(());
        }
        _ => {
            let is_default_nan = ctx.cpu.state.fpcr & 1 << 25 != 0;
            convert(n, op.size, op.bytes, is_default_nan)
        }
    };
    finish(ctx, op, u128::from(value), false);
    Ok(())
}
