//! Shifts and rotates.
//!
//! Undefined flags, as measured on Intel cores: OF for counts other than one is what a first single
//! step gives, but stays in ROL and ROR of a register by an
//! immediate; AF is cleared by shifts. A count of zero, after masking, changes no flag but
//! extends a 32-bit destination.

use emu_cpu::port::Port;

use super::{Body, Next, operand};
use crate::ctx::{Ctx, Exec};
use crate::decode::{Op, Operand};
use crate::flags::{self, CF, OF, mask, sign_extend, szp, top_bit};

/// The count, masked: 6 bits for 64-bit operands, 5 for others.
fn count<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, from: Operand) -> Exec<u32> {
    let count = operand::get(ctx, op, from, 1)? as u32;
    Ok(count & if op.size == 8 { 63 } else { 31 })
}

/// Bit `n` of a value, as 0 or 1; 0 beyond bit 63.
fn bit(value: u64, n: u32) -> u64 {
    value.checked_shr(n).unwrap_or(0) & 1
}

/// Whether a shift to the left by one changes the sign.
fn sign_change(value: u64, size: u8) -> u64 {
    bit(value, top_bit(size)) ^ bit(value, top_bit(size) - 1)
}

/// CF and OF of their bits.
fn carry_overflow(carry: u64, overflow: u64) -> u64 {
    let cf = if carry & 1 != 0 { CF } else { 0 };
    cf | if overflow & 1 != 0 { OF } else { 0 }
}

/// Shifts by `f(value, count)`, which gives result and arithmetic flags.
#[inline(always)]
fn shift<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    count: u32,
    replaced: u64,
    f: impl Fn(u64, u32) -> (u64, u64),
) -> Body {
    if count == 0 {
        // The destination is read and written all the same: a fault is a fault.
        operand::modify(ctx, op, |a| (a, ()))?;
        return Ok(Next::Seq);
    }
    let arith = operand::modify(ctx, op, |a| f(a, count))?;
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = (*rflags & !replaced) | (arith & replaced);
    Ok(Next::Seq)
}

/// SHL and SAL.
pub(super) fn shl<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    shift(ctx, op, n, flags::ARITH, |a, n| {
        let result = (a << n) & mask(size);
        let carry = (top_bit(size) + 1).checked_sub(n).map_or(0, |i| bit(a, i));
        (result, carry_overflow(carry, sign_change(a, size)) | szp(result, size))
    })
}

/// SHR.
pub(super) fn shr<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    shift(ctx, op, n, flags::ARITH, |a, n| {
        let result = a >> n;
        (result, carry_overflow(bit(a, n - 1), bit(a, top_bit(size))) | szp(result, size))
    })
}

/// SAR.
pub(super) fn sar<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    shift(ctx, op, n, flags::ARITH, |a, n| {
        let wide = sign_extend(a, size) as i64;
        let result = (wide >> n) as u64 & mask(size);
        (result, carry_overflow((wide >> (n - 1)) as u64, 0) | szp(result, size))
    })
}

/// Flags that ROL and ROR change.
fn rotate_flags(op: &Op, n: u32) -> u64 {
    if op.src == Operand::IMM && op.dst.is_gpr() && n != 1 { CF } else { CF | OF }
}

/// ROL.
pub(super) fn rol<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    let bits = top_bit(size) + 1;
    shift(ctx, op, n, rotate_flags(op, n), |a, n| {
        let n = n % bits;
        let result = if n == 0 { a } else { ((a << n) | (a >> (bits - n))) & mask(size) };
        (result, carry_overflow(result, sign_change(a, size)))
    })
}

/// ROR.
pub(super) fn ror<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    let bits = top_bit(size) + 1;
    shift(ctx, op, n, rotate_flags(op, n), |a, n| {
        let n = n % bits;
        let result = if n == 0 { a } else { ((a >> n) | (a << (bits - n))) & mask(size) };
        (result, carry_overflow(bit(result, top_bit(size)), a ^ bit(a, top_bit(size))))
    })
}

/// RCL: rotates through carry, hence modulo one bit more than the operand has.
pub(super) fn rcl<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    let bits = top_bit(size) + 1;
    let carry = ctx.cpu.state.rflags & CF;
    shift(ctx, op, n % (bits + 1), CF | OF, |a, n| {
        let wide = u128::from(a) | u128::from(carry) << bits;
        let rotated = (wide << n) | (wide >> (bits + 1 - n));
        let result = rotated as u64 & mask(size);
        (result, carry_overflow((rotated >> bits) as u64, sign_change(a, size)))
    })
}

/// RCR.
pub(super) fn rcr<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src)?);
    let bits = top_bit(size) + 1;
    let carry = ctx.cpu.state.rflags & CF;
    shift(ctx, op, n % (bits + 1), CF | OF, |a, n| {
        let wide = u128::from(a) | u128::from(carry) << bits;
        let rotated = (wide >> n) | (wide << (bits + 1 - n));
        let result = rotated as u64 & mask(size);
        let overflow = carry ^ bit(a, top_bit(size));
        (result, carry_overflow((rotated >> bits) as u64, overflow))
    })
}

/// SHLD. A 16-bit operand with a count above 16 is undefined: the pair is shifted as a 32-bit ring
/// with the source, which is what common cores give.
pub(super) fn shld<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src2)?);
    let bits = top_bit(size) + 1;
    let source = operand::reg(&ctx.cpu.state, op.src, size);
    shift(ctx, op, n, flags::ARITH, |a, n| {
        // From the top: destination, source, destination.
        let ring = u128::from(a) << bits | u128::from(source);
        let wide = (ring << n) | if n > bits { u128::from(a) << (n - bits) } else { 0 };
        let result = (wide >> bits) as u64 & mask(size);
        let carry = if n <= bits { bit(a, bits - n) } else { bit(source, 2 * bits - n) };
        (result, carry_overflow(carry, sign_change(a, size)) | szp(result, size))
    })
}

/// SHRD; see SHLD.
pub(super) fn shrd<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (size, n) = (op.size, count(ctx, op, op.src2)?);
    let bits = top_bit(size) + 1;
    let source = operand::reg(&ctx.cpu.state, op.src, size);
    shift(ctx, op, n, flags::ARITH, |a, n| {
        let ring = u128::from(source) << bits | u128::from(a);
        let wide = ring | if bits == 16 { u128::from(a) << (2 * bits) } else { 0 };
        let result = (wide >> n) as u64 & mask(size);
        let carry = (wide >> (n - 1)) as u64;
        (result, carry_overflow(carry, source ^ bit(a, top_bit(size))) | szp(result, size))
    })
}
