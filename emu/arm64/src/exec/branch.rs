//! Branches. A misaligned target faults at the fetch, not here.

use emu_cpu::port::Port;

use super::{Body, Next, alu};
use crate::ctx::Ctx;
use crate::decode::Op;

/// Bytes of an instruction.
const WORD: u64 = 4;
/// The link register.
const LR: u8 = 30;

/// Ends a conditional branch.
#[inline(always)]
fn decide<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, taken: bool) -> Body {
    let pc = ctx.cpu.state.pc;
    let is_wrong = ctx.cpu.predictor.conditional(pc, taken);
    ctx.port.branch(is_wrong);
    Ok(if taken { Next::Jump(pc.wrapping_add(op.imm)) } else { Next::Seq })
}

/// B.cond.
#[inline(always)]
pub(super) fn conditional<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let taken = alu::condition_holds(op.amount, ctx.cpu.state.pstate.nzcv);
    decide(ctx, op, taken)
}

/// CBZ, CBNZ.
#[inline(always)]
pub(super) fn compare<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, nonzero: bool) -> Body {
    let value = ctx.cpu.state.x(op.rn) & super::operand::mask(op);
    decide(ctx, op, (value != 0) == nonzero)
}

/// TBZ, TBNZ.
#[inline(always)]
pub(super) fn test<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, nonzero: bool) -> Body {
    let bit = ctx.cpu.state.x(op.rn) >> op.amount & 1;
    decide(ctx, op, (bit != 0) == nonzero)
}

/// Sets the link register and the return stack.
#[inline(always)]
fn link_to<P: Port>(ctx: &mut Ctx<'_, P>, address: u64) {
    ctx.cpu.predictor.call(address);
    ctx.cpu.state.set_x(LR, address);
}

/// B, BL.
#[inline(always)]
pub(super) fn direct<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, link: bool) -> Body {
    let pc = ctx.cpu.state.pc;
    if link {
        link_to(ctx, pc.wrapping_add(WORD));
    }
    ctx.port.branch(false);
    Ok(Next::Jump(pc.wrapping_add(op.imm)))
}

/// BR, BLR.
pub(super) fn indirect<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, link: bool) -> Body {
    let (pc, target) = (ctx.cpu.state.pc, ctx.cpu.state.x(op.rn));
    let is_wrong = ctx.cpu.predictor.indirect(pc, target);
    if link {
        link_to(ctx, pc.wrapping_add(WORD));
    }
    ctx.port.branch(is_wrong);
    Ok(Next::Jump(target))
}

/// RET.
pub(super) fn ret<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let target = ctx.cpu.state.x(op.rn);
    let is_wrong = ctx.cpu.predictor.ret(target);
    ctx.port.branch(is_wrong);
    Ok(Next::Jump(target))
}
