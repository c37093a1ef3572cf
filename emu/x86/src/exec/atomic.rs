//! Exchanges: XCHG, XADD, CMPXCHG and the pair forms.
//!
//! XCHG with memory is atomic without LOCK. A failed CMPXCHG writes the old value back ([SDM-2]
//! "CMPXCHG": "the processor never produces a locked read without also producing a locked write"),
//! hence faults on a page that is not writable, and counts as a store for monitors.

use emu_cpu::port::Port;

use super::{Body, Next, operand, require};
use crate::ctx::{Ctx, Exec};
use crate::decode::Op;
use crate::defs::Features;
use crate::flags::{self, ZF, mask};
use crate::state::gpr;

/// XCHG. Either operand may be the memory one.
pub(super) fn xchg<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let (memory, register) = if op.src.is_mem() { (op.src, op.dst) } else { (op.dst, op.src) };
    let value = operand::reg(&ctx.cpu.state, register, size);
    if memory.is_mem() {
        let place = ctx.ea(op);
        let old = operand::modify_locked(ctx, place, size, |old| (value, old))?;
        operand::set_reg(&mut ctx.cpu.state, register, size, old);
    } else {
        let state = &mut ctx.cpu.state;
        let old = operand::reg(state, memory, size);
        operand::set_reg(state, memory, size, value);
        operand::set_reg(state, register, size, old);
    }
    Ok(Next::Seq)
}

/// XADD: the source gets the old value, then the destination the sum.
pub(super) fn xadd<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let b = operand::reg(&ctx.cpu.state, op.src, size);
    if op.dst.is_gpr() {
        let state = &mut ctx.cpu.state;
        let a = operand::reg(state, op.dst, size);
        let (sum, arith) = flags::add(a, b, 0, size);
        operand::set_reg(state, op.src, size, a);
        operand::set_reg(state, op.dst, size, sum);
        state.rflags = flags::merge(state.rflags, arith);
        return Ok(Next::Seq);
    }
    let (old, arith) = operand::modify(ctx, op, |a| {
        let (sum, arith) = flags::add(a, b, 0, size);
        (sum, (a, arith))
    })?;
    let state = &mut ctx.cpu.state;
    operand::set_reg(state, op.src, size, old);
    state.rflags = flags::merge(state.rflags, arith);
    Ok(Next::Seq)
}

/// CMPXCHG.
pub(super) fn cmpxchg<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let size = op.size;
    let expected = ctx.cpu.state.gpr[gpr::RAX] & mask(size);
    let new = operand::reg(&ctx.cpu.state, op.src, size);
    if op.dst.is_gpr() {
        let state = &mut ctx.cpu.state;
        let old = operand::reg(state, op.dst, size);
        if old == expected {
            operand::set_reg(state, op.dst, size, new);
        } else {
            operand::set_gpr(state, gpr::RAX, size, old);
        }
        return finish(ctx, expected, old, size);
    }
    let old = operand::modify(ctx, op, |old| (if old == expected { new } else { old }, old))?;
    if old != expected {
        operand::set_gpr(&mut ctx.cpu.state, gpr::RAX, size, old);
    }
    finish(ctx, expected, old, size)
}

/// The flags of the comparison.
fn finish<P: Port>(ctx: &mut Ctx<'_, P>, expected: u64, old: u64, size: u8) -> Body {
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::merge(*rflags, flags::sub(expected, old, 0, size).1);
    Ok(Next::Seq)
}

/// CMPXCHG8B and CMPXCHG16B, with halves of `half` bytes. The latter raises #GP(0) on an address
/// that is not aligned.
pub(super) fn cmpxchg_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, half: u8) -> Body {
    if half == 8 {
        require(ctx, Features::CX16)?;
    }
    let (seg, offset) = ctx.ea(op);
    let shift = 8 * u32::from(half);
    let pair =
        |high: u64, low: u64| u128::from(high & mask(half)) << shift | u128::from(low & mask(half));
    let registers = &ctx.cpu.state.gpr;
    let expected = pair(registers[gpr::RDX], registers[gpr::RAX]);
    let new = pair(registers[gpr::RCX], registers[gpr::RBX]);
    let old = if op.is_locked() {
        let mut change = |old| Some(if old == expected { new } else { old });
        if half == 8 {
            ctx.check_alignment(seg, offset, 16)?;
        }
        ctx.rmw(seg, offset, 2 * half, &mut change)?
    } else {
        let old = read_pair(ctx, op, half)?;
        let value = if old == expected { new } else { old };
        if half == 8 {
            ctx.write_wide(seg, offset, true, value)?;
        } else {
            ctx.write(seg, offset, 8, value as u64)?;
        }
        old
    };
    let state = &mut ctx.cpu.state;
    if old != expected {
        operand::set_gpr(state, gpr::RAX, half, old as u64);
        operand::set_gpr(state, gpr::RDX, half, (old >> shift) as u64);
    }
    state.rflags = flags::set(state.rflags, ZF, old == expected);
    Ok(Next::Seq)
}

/// Reads what is written back.
fn read_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, half: u8) -> Exec<u128> {
    let (seg, offset) = ctx.ea(op);
    if half == 8 {
        ctx.check_alignment(seg, offset, 16)?;
        ctx.probe_write(seg, offset, 16)?;
        ctx.read_wide(seg, offset, true)
    } else {
        Ok(ctx.read_to_write(seg, offset, 8)?.into())
    }
}
