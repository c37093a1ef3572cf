//! Near transfers of control.
//!
//! A target outside the code segment's limit raises #GP(0) at the branch; one that is not canonical
//! does so on Intel's cores, while AMD's raise it at the target, with the target as saved
//! instruction pointer.

use emu_cpu::port::Port;

use super::{Body, Next, fault, operand, stack};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::{Cond, LoopKind, Op};
use crate::defs::Vendor;
use crate::flags;
use crate::state::{SegReg, gpr};

/// Checks a target, already masked by the operand size.
#[inline(always)]
fn check<P: Port>(ctx: &Ctx<'_, P>, op: &Op, target: u64) -> Exec<()> {
    let is_legal = if op.bits == 64 {
        // The low half is canonical with either paging: the common case.
        target >> 47 == 0 || ctx.cpu.is_canonical(target) || ctx.cpu.config.vendor == Vendor::Amd
    } else {
        target <= u64::from(ctx.cpu.state.seg[SegReg::Cs as usize].limit)
    };
    if is_legal { Ok(()) } else { fault(Exception::gp(0)) }
}

/// Target of a direct branch.
#[inline(always)]
fn direct<P: Port>(ctx: &Ctx<'_, P>, op: &Op, size: u8) -> Exec<u64> {
    let target = ctx.cpu.state.rip.wrapping_add(op.imm) & flags::mask(size);
    check(ctx, op, target)?;
    Ok(target)
}

/// Ends a conditional branch.
#[inline(always)]
fn conditional<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, taken: bool) -> Body {
    let next = if taken { Next::Jump(direct(ctx, op, op.size)?) } else { Next::Seq };
    let is_wrong = ctx.cpu.predictor.conditional(ctx.cpu.state.rip, taken);
    ctx.port.branch(is_wrong);
    Ok(next)
}

/// Jcc.
#[inline(always)]
pub(super) fn jcc<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, cond: Cond) -> Body {
    let taken = flags::condition(cond as u8, ctx.cpu.state.rflags);
    conditional(ctx, op, taken)
}

/// JMP, direct.
#[inline(always)]
pub(super) fn jmp<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let target = direct(ctx, op, op.size)?;
    ctx.port.branch(false);
    Ok(Next::Jump(target))
}

/// JMP through a register or memory.
pub(super) fn jmp_indirect<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let target = operand::get(ctx, op, op.dst, op.size)?;
    check(ctx, op, target)?;
    let is_wrong = ctx.cpu.predictor.indirect(ctx.cpu.state.rip, target);
    ctx.port.branch(is_wrong);
    Ok(Next::Jump(target))
}

/// CALL, direct.
#[inline(always)]
pub(super) fn call<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let target = direct(ctx, op, op.size)?;
    push_return(ctx, op)?;
    ctx.port.branch(false);
    Ok(Next::Jump(target))
}

/// CALL through a register or memory.
pub(super) fn call_indirect<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let target = operand::get(ctx, op, op.dst, op.src_size)?;
    if let Err(trap) = check(ctx, op, target) {
        // The push comes first, as measured on Intel cores.
        let rsp = ctx.cpu.state.gpr[gpr::RSP].wrapping_sub(u64::from(op.size));
        ctx.probe_write(SegReg::Ss, rsp & ctx.cpu.stack_mask(), u32::from(op.size))?;
        return Err(trap);
    }
    let pc = ctx.cpu.state.rip;
    push_return(ctx, op)?;
    let is_wrong = ctx.cpu.predictor.indirect(pc, target);
    ctx.port.branch(is_wrong);
    Ok(Next::Jump(target))
}

/// Pushes the return address, and tells the predictor.
#[inline(always)]
fn push_return<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let address = op.next_ip(ctx.cpu.state.rip) & flags::mask(op.size);
    stack::push_values(ctx, op.size, &[address])?;
    ctx.cpu.predictor.call(address);
    Ok(())
}

/// RET, and RET imm16 which drops arguments.
#[inline(always)]
pub(super) fn ret<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let target = stack::read_top(ctx, op.size)?;
    check(ctx, op, target)?;
    let dropped = (op.imm & 0xffff) as i64;
    stack::move_pointer(ctx, i64::from(op.size) + dropped);
    let is_wrong = ctx.cpu.predictor.ret(target);
    ctx.port.branch(is_wrong);
    Ok(Next::Jump(target))
}

/// LOOP, LOOPE, LOOPNE: the counter is as wide as addresses are.
pub(super) fn loop_<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, kind: LoopKind) -> Body {
    let state = &ctx.cpu.state;
    let count = state.gpr[gpr::RCX].wrapping_sub(1) & flags::mask(op.asize);
    let is_zero = state.rflags & flags::ZF != 0;
    let taken = count != 0
        && match kind {
            LoopKind::Loop => true,
            LoopKind::Loope => is_zero,
            LoopKind::Loopne => !is_zero,
        };
    let next = conditional(ctx, op, taken)?;
    operand::set_gpr(&mut ctx.cpu.state, gpr::RCX, op.asize, count);
    Ok(next)
}

/// JCXZ, JECXZ, JRCXZ.
pub(super) fn jcxz<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let taken = ctx.cpu.state.gpr[gpr::RCX] & flags::mask(op.asize) == 0;
    conditional(ctx, op, taken)
}
