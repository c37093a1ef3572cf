//! Moves between registers and memory, extensions, conditional moves.

use emu_cpu::port::Port;

use super::{Body, Next, operand, require};
use crate::ctx::Ctx;
use crate::decode::{Cond, Op};
use crate::defs::Features;
use crate::flags;
use crate::state::gpr;

/// MOV of general registers, memory and immediates.
#[inline(always)]
pub(super) fn mov<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let value = operand::get(ctx, op, op.src, op.size)?;
    operand::put(ctx, op, op.size, value)?;
    Ok(Next::Seq)
}

/// LEA: the offset alone, no segment, no access.
#[inline(always)]
pub(super) fn lea<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (_, offset) = ctx.ea(op);
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, offset);
    Ok(Next::Seq)
}

/// MOVZX.
#[inline(always)]
pub(super) fn movzx<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let value = operand::get(ctx, op, op.src, op.src_size)?;
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, value);
    Ok(Next::Seq)
}

/// MOVSX and MOVSXD.
#[inline(always)]
pub(super) fn movsx<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let value = operand::get(ctx, op, op.src, op.src_size)?;
    let value = flags::sign_extend(value, op.src_size);
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, value);
    Ok(Next::Seq)
}

/// CMOVcc. The source is read in any case, and a 32-bit destination is extended in any case.
pub(super) fn cmov<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, cond: Cond) -> Body {
    let value = operand::get(ctx, op, op.src, op.size)?;
    let state = &mut ctx.cpu.state;
    let holds = flags::condition(cond as u8, state.rflags);
    let new = if holds { value } else { operand::reg(state, op.dst, op.size) };
    operand::set_reg(state, op.dst, op.size, new);
    Ok(Next::Seq)
}

/// SETcc.
pub(super) fn set<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, cond: Cond) -> Body {
    let holds = flags::condition(cond as u8, ctx.cpu.state.rflags);
    operand::put(ctx, op, 1, u64::from(holds))?;
    Ok(Next::Seq)
}

/// MOVBE: bytes in reverse order.
pub(super) fn movbe<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::MOVBE)?;
    let value = operand::get(ctx, op, op.src, op.size)?;
    let reversed = value.swap_bytes() >> (64 - 8 * u32::from(op.size));
    operand::put(ctx, op, op.size, reversed)?;
    Ok(Next::Seq)
}

/// CBW, CWDE, CDQE: the lower half of the accumulator into the whole.
pub(super) fn sign_extend<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let state = &mut ctx.cpu.state;
    let value = flags::sign_extend(state.gpr[gpr::RAX], op.size / 2);
    operand::set_gpr(state, gpr::RAX, op.size, value);
    Ok(Next::Seq)
}

/// CWD, CDQ, CQO: the sign of the accumulator into all of RDX.
pub(super) fn sign_double<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let state = &mut ctx.cpu.state;
    let value = flags::sign_extend(state.gpr[gpr::RAX], op.size);
    operand::set_gpr(state, gpr::RDX, op.size, ((value as i64) >> 63) as u64);
    Ok(Next::Seq)
}

/// MOV from a segment register: memory takes 16 bits whatever the operand size.
pub(super) fn from_segment<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let Some(seg) = op.src.segment() else { return Ok(Next::Seq) };
    let selector = u64::from(ctx.cpu.state.seg[seg as usize].selector);
    let size = if op.dst.is_mem() { 2 } else { op.size };
    operand::put(ctx, op, size, selector)?;
    Ok(Next::Seq)
}
