//! Add, subtract, logic, compare: the two-operand instructions and their one-operand kin.

use emu_cpu::port::Port;

use super::{Body, Next, operand};
use crate::ctx::Ctx;
use crate::decode::Op;
use crate::flags;

/// ADD, SUB, ADC, SBB, AND, OR, XOR: `f(a, b, carry, size)` gives result and flags.
#[inline(always)]
pub(super) fn update<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    f: impl Fn(u64, u64, u64, u8) -> (u64, u64),
) -> Body {
    let carry = ctx.cpu.state.rflags & flags::CF;
    let b = operand::get(ctx, op, op.src, op.size)?;
    let arith = operand::modify(ctx, op, |a| f(a, b, carry, op.size))?;
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::merge(*rflags, arith);
    Ok(Next::Seq)
}

/// CMP, TEST: flags only.
#[inline(always)]
pub(super) fn compare<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    f: impl Fn(u64, u64, u8) -> u64,
) -> Body {
    let a = operand::get(ctx, op, op.dst, op.size)?;
    let b = operand::get(ctx, op, op.src, op.size)?;
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::merge(*rflags, f(a, b, op.size));
    Ok(Next::Seq)
}

/// INC, DEC: the carry flag stays.
#[inline(always)]
pub(super) fn count<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    f: impl Fn(u64, u8) -> (u64, u64),
) -> Body {
    let arith = operand::modify(ctx, op, |a| f(a, op.size))?;
    let rflags = &mut ctx.cpu.state.rflags;
    let carry = *rflags & flags::CF;
    *rflags = flags::merge(*rflags, (arith & !flags::CF) | carry);
    Ok(Next::Seq)
}

/// NEG.
pub(super) fn neg<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let arith = operand::modify(ctx, op, |a| flags::sub(0, a, 0, op.size))?;
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::merge(*rflags, arith);
    Ok(Next::Seq)
}

/// NOT: no flags.
pub(super) fn not<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    operand::modify(ctx, op, |a| (!a, ()))?;
    Ok(Next::Seq)
}
