//! PUSH, POP and kin.

use emu_cpu::port::{Note, Port};

use super::{Body, Next, fault, operand};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::Op;
use crate::flags;
use crate::state::{SegReg, gpr};

/// Deepest nesting that ENTER knows.
const ENTER_LEVEL_MASK: u64 = 31;

/// Adds to the stack pointer.
#[inline(always)]
pub(super) fn move_pointer<P: Port>(ctx: &mut Ctx<'_, P>, by: i64) {
    let value = ctx.cpu.state.gpr[gpr::RSP].wrapping_add_signed(by);
    ctx.cpu.set_rsp(value);
}

/// Reads the top of the stack.
#[inline(always)]
pub(super) fn read_top<P: Port>(ctx: &mut Ctx<'_, P>, size: u8) -> Exec<u64> {
    let rsp = ctx.cpu.state.gpr[gpr::RSP];
    ctx.stack_read(rsp, size)
}

/// Pushes the values, first one first, as the last requests of a body; then moves RSP.
#[inline(always)]
pub(super) fn push_values<P: Port>(ctx: &mut Ctx<'_, P>, size: u8, values: &[u64]) -> Exec<()> {
    let mut rsp = ctx.cpu.state.gpr[gpr::RSP];
    for value in values {
        rsp = rsp.wrapping_sub(u64::from(size));
        ctx.stack_write(rsp, size, *value)?;
    }
    ctx.cpu.set_rsp(rsp);
    Ok(())
}

/// PUSH of a register, immediate or memory. PUSH RSP pushes the old value.
#[inline(always)]
pub(super) fn push<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let value = operand::get(ctx, op, op.dst, op.size)?;
    push_values(ctx, op.size, &[value & flags::mask(op.size)])?;
    Ok(Next::Seq)
}

/// PUSH of a segment register: the selector, zero-extended.
pub(super) fn push_segment<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let Some(seg) = op.dst.segment() else { return Ok(Next::Seq) };
    let selector = u64::from(ctx.cpu.state.seg[seg as usize].selector);
    push_values(ctx, op.size, &[selector])?;
    Ok(Next::Seq)
}

/// POP to a register or memory. POP RSP keeps the popped value; an address based on RSP uses RSP
/// after the pop ([SDM-2] "POP").
#[inline(always)]
pub(super) fn pop<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let value = read_top(ctx, op.size)?;
    if op.dst.is_gpr() {
        move_pointer(ctx, i64::from(op.size));
        operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, value);
        return Ok(Next::Seq);
    }
    let (seg, mut offset) = ctx.ea(op);
    if usize::from(op.base) == gpr::RSP {
        offset = offset.wrapping_add(u64::from(op.size)) & flags::mask(op.asize);
    }
    ctx.write(seg, offset, op.size, value)?;
    move_pointer(ctx, i64::from(op.size));
    Ok(Next::Seq)
}

/// PUSHA.
pub(super) fn push_all<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let mut values = [0; 8];
    values.copy_from_slice(&ctx.cpu.state.gpr[..8]);
    push_values(ctx, op.size, &values.map(|value| value & flags::mask(op.size)))?;
    Ok(Next::Seq)
}

/// POPA: the stored RSP is skipped.
pub(super) fn pop_all<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let mut values = [0; 8];
    for (i, value) in values.iter_mut().enumerate() {
        let rsp = ctx.cpu.state.gpr[gpr::RSP];
        *value = ctx.stack_read(rsp.wrapping_add(i as u64 * u64::from(op.size)), op.size)?;
    }
    for (i, value) in values.iter().enumerate() {
        let n = 7 - i;
        if n != gpr::RSP {
            operand::set_gpr(&mut ctx.cpu.state, n, op.size, *value);
        }
    }
    move_pointer(ctx, 8 * i64::from(op.size));
    Ok(Next::Seq)
}

/// LEAVE: RSP from RBP, then POP RBP.
pub(super) fn leave<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let frame = ctx.cpu.state.gpr[gpr::RBP];
    let value = ctx.stack_read(frame, op.size)?;
    ctx.cpu.set_rsp(frame.wrapping_add(u64::from(op.size)));
    operand::set_gpr(&mut ctx.cpu.state, gpr::RBP, op.size, value);
    Ok(Next::Seq)
}

/// ENTER: pushes RBP, copies `level - 1` frame pointers, makes room.
pub(super) fn enter<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let room = op.imm & 0xffff;
    let level = op.disp as u64 & ENTER_LEVEL_MASK;
    let size = u64::from(op.size);
    let (rsp, rbp) = (ctx.cpu.state.gpr[gpr::RSP], ctx.cpu.state.gpr[gpr::RBP]);
    let frame = rsp.wrapping_sub(size);
    ctx.stack_write(frame, op.size, rbp & flags::mask(op.size))?;
    let mut top = frame;
    for i in 1..level {
        let pointer = ctx.stack_read(rbp.wrapping_sub(i * size), op.size)?;
        top = top.wrapping_sub(size);
        ctx.stack_write(top, op.size, pointer)?;
    }
    if level > 0 {
        top = top.wrapping_sub(size);
        ctx.stack_write(top, op.size, frame & flags::mask(op.size))?;
    }
    let end = top.wrapping_sub(room);
    // The last word of the frame must be writable ([SDM-2] "ENTER").
    ctx.probe_write(SegReg::Ss, end & ctx.cpu.stack_mask(), u32::from(op.size))?;
    operand::set_gpr(&mut ctx.cpu.state, gpr::RBP, op.size, frame);
    ctx.cpu.set_rsp(end);
    Ok(Next::Seq)
}

/// PUSHF: VM and RF read as zero.
pub(super) fn push_flags<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let value = ctx.cpu.state.rflags & !(flags::VM | flags::RF);
    push_values(ctx, op.size, &[value & flags::mask(op.size)])?;
    Ok(Next::Seq)
}

/// POPF. IF changes only if CPL is not above IOPL, IOPL only at CPL 0; neither raises #GP. VM,
/// VIF and VIP stay, RF is cleared.
pub(super) fn pop_flags<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    if ctx.cpu.state.rflags & flags::VM != 0 {
        return fault(Exception::gp(0));
    }
    let value = read_top(ctx, op.size)?;
    let cpl = u64::from(ctx.cpu.cpl);
    let old = ctx.cpu.state.rflags;
    let mut writable =
        flags::ARITH | flags::TF | flags::DF | flags::NT | flags::RF | flags::AC | flags::ID;
    if cpl == 0 {
        writable |= flags::IOPL;
    }
    if cpl <= (old & flags::IOPL) >> flags::IOPL_SHIFT {
        writable |= flags::IF;
    }
    writable &= flags::mask(op.size);
    let new = (old & !writable) | (value & writable & !flags::RF);
    ctx.cpu.state.rflags = new | flags::FIXED;
    if (old ^ new) & flags::IF != 0 {
        ctx.port.note(Note::InterruptFlag(new & flags::IF != 0));
    }
    move_pointer(ctx, i64::from(op.size));
    Ok(Next::Seq)
}
