//! Multiplication and division.
//!
//! Undefined flags: multiplication sets SF and PF by the lower half and clears ZF and AF, division
//! leaves all; the former as measured on Intel cores.

use emu_cpu::port::Port;

use super::{Body, Next, fault, operand};
use crate::ctx::{Ctx, Exception};
use crate::decode::Op;
use crate::flags::{self, CF, OF, ZF, mask, sign_extend};
use crate::state::{State, gpr};

/// RDX:RAX or AX, as one number.
fn accumulator(state: &State, size: u8) -> u128 {
    let (low, high) = (state.gpr[gpr::RAX], state.gpr[gpr::RDX]);
    match size {
        1 => u128::from(low & 0xffff),
        _ => u128::from(low & mask(size)) | u128::from(high & mask(size)) << (8 * size),
    }
}

/// Writes both halves: RDX:RAX, or AX.
fn set_accumulator(state: &mut State, size: u8, low: u64, high: u64) {
    if size == 1 {
        operand::set_gpr(state, gpr::RAX, 2, (low & 0xff) | (high & 0xff) << 8);
    } else {
        operand::set_gpr(state, gpr::RAX, size, low);
        operand::set_gpr(state, gpr::RDX, size, high);
    }
}

/// CF and OF say that the result does not fit the lower half.
fn set_overflow(state: &mut State, low: u64, size: u8, overflow: bool) {
    let arith = flags::szp(low & mask(size), size) & !ZF;
    state.rflags = flags::merge(state.rflags, arith | if overflow { CF | OF } else { 0 });
}

fn sign_extend_wide(value: u64, size: u8) -> i128 {
    i128::from(sign_extend(value, size) as i64)
}

/// MUL.
pub(super) fn mul<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let b = operand::get(ctx, op, op.dst, size)?;
    let state = &mut ctx.cpu.state;
    let product = u128::from(state.gpr[gpr::RAX] & mask(size)) * u128::from(b);
    let high = (product >> (8 * size)) as u64;
    set_accumulator(state, size, product as u64, high);
    set_overflow(state, product as u64, size, high != 0);
    Ok(Next::Seq)
}

/// IMUL with one operand.
pub(super) fn imul<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let b = operand::get(ctx, op, op.dst, size)?;
    let state = &mut ctx.cpu.state;
    let product = sign_extend_wide(state.gpr[gpr::RAX], size) * sign_extend_wide(b, size);
    set_accumulator(state, size, product as u64, (product >> (8 * size)) as u64);
    let overflow = product != sign_extend_wide(product as u64, size);
    set_overflow(state, product as u64, size, overflow);
    Ok(Next::Seq)
}

/// IMUL with two or three operands.
pub(super) fn imul_truncated<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let b = operand::get(ctx, op, op.src, size)?;
    let state = &mut ctx.cpu.state;
    let is_two_operand = op.src2 == crate::decode::Operand::NONE;
    let a = if is_two_operand { operand::reg(state, op.dst, size) } else { op.imm };
    let product = sign_extend_wide(a, size) * sign_extend_wide(b, size);
    operand::set_reg(state, op.dst, size, product as u64);
    let overflow = product != sign_extend_wide(product as u64, size);
    set_overflow(state, product as u64, size, overflow);
    Ok(Next::Seq)
}

/// DIV.
pub(super) fn div<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let divisor = u128::from(operand::get(ctx, op, op.dst, size)?);
    let state = &mut ctx.cpu.state;
    let dividend = accumulator(state, size);
    if divisor == 0 || dividend / divisor > u128::from(mask(size)) {
        return fault(Exception::de());
    }
    set_accumulator(state, size, (dividend / divisor) as u64, (dividend % divisor) as u64);
    Ok(Next::Seq)
}

/// IDIV.
pub(super) fn idiv<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let divisor = sign_extend_wide(operand::get(ctx, op, op.dst, size)?, size);
    let state = &mut ctx.cpu.state;
    let shift = 128 - 16 * u32::from(size);
    let dividend = ((accumulator(state, size) << shift) as i128) >> shift;
    // `checked_div` refuses zero, and the one quotient that 128 bits do not hold.
    let Some(quotient) = dividend.checked_div(divisor) else { return fault(Exception::de()) };
    if quotient != sign_extend_wide(quotient as u64, size) {
        return fault(Exception::de());
    }
    set_accumulator(state, size, quotient as u64, (dividend % divisor) as u64);
    Ok(Next::Seq)
}
