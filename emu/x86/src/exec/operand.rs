//! Reading and writing operands.

use emu_cpu::port::Port;

use crate::ctx::{Ctx, Exec};
use crate::decode::{NO_REG, Op, Operand, RIP_BASE};
use crate::flags;
use crate::state::{SegReg, State};

impl<P: Port> Ctx<'_, P> {
    /// Segment and offset of the memory operand, masked by the address size.
    #[must_use]
    #[inline(always)]
    pub fn ea(&self, op: &Op) -> (SegReg, u64) {
        let state = &self.cpu.state;
        let mut offset = op.disp as u64;
        if op.base < RIP_BASE {
            offset = offset.wrapping_add(state.gpr[usize::from(op.base & 15)]);
        } else if op.base == RIP_BASE {
            offset = offset.wrapping_add(state.rip);
        }
        if op.index != NO_REG {
            let index = state.gpr[usize::from(op.index & 15)];
            offset = offset.wrapping_add(index << op.scale);
        }
        (op.seg, offset & flags::mask(op.asize))
    }
}

/// Reads a general register, zero-extended.
#[inline(always)]
pub(super) fn reg(state: &State, operand: Operand, size: u8) -> u64 {
    let value = state.gpr[operand.number()];
    if operand.is_low() { value & flags::mask(size) } else { (value >> 8) & 0xff }
}

/// Writes a general register: 32 bits clear the upper half, 8 and 16 bits merge.
#[inline(always)]
pub(super) fn set_reg(state: &mut State, operand: Operand, size: u8, value: u64) {
    let slot = &mut state.gpr[operand.number()];
    *slot = match size {
        8 => value,
        4 => value & 0xffff_ffff,
        2 => (*slot & !0xffff) | (value & 0xffff),
        _ if operand.is_low() => (*slot & !0xff) | (value & 0xff),
        _ => (*slot & !0xff00) | ((value & 0xff) << 8),
    };
}

/// Writes the low `size` bytes of general register `n`, by the same rules.
#[inline(always)]
pub(super) fn set_gpr(state: &mut State, n: usize, size: u8, value: u64) {
    set_reg(state, Operand::gpr(n), size, value);
}

/// Reads `operand` of `size` bytes: register, immediate or memory. Immediates come as decoded.
#[inline(always)]
pub(super) fn get<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, operand: Operand, size: u8) -> Exec<u64> {
    if operand.is_gpr() {
        Ok(reg(&ctx.cpu.state, operand, size))
    } else if operand.is_mem() {
        let (seg, offset) = ctx.ea(op);
        ctx.read(seg, offset, size)
    } else {
        Ok(op.imm)
    }
}

/// Writes the destination, register or memory: the last request of a body, then its first change.
#[inline(always)]
pub(super) fn put<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, size: u8, value: u64) -> Exec<()> {
    if op.dst.is_gpr() {
        set_reg(&mut ctx.cpu.state, op.dst, size, value);
        Ok(())
    } else {
        let (seg, offset) = ctx.ea(op);
        ctx.write(seg, offset, size, value & flags::mask(size))
    }
}

/// Reads the destination, computes, writes it back: in memory with LOCK as one atomic access. The
/// closure gives the new value and whatever the body wants to know; with LOCK it may run twice.
#[inline(always)]
pub(super) fn modify<P: Port, T>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    change: impl Fn(u64) -> (u64, T),
) -> Exec<T> {
    let size = op.size;
    if op.dst.is_gpr() {
        let old = reg(&ctx.cpu.state, op.dst, size);
        let (new, result) = change(old);
        set_reg(&mut ctx.cpu.state, op.dst, size, new);
        return Ok(result);
    }
    let (seg, offset) = ctx.ea(op);
    if op.is_locked() {
        return modify_locked(ctx, (seg, offset), size, change);
    }
    let old = ctx.read_to_write(seg, offset, size)?;
    let (new, result) = change(old);
    ctx.write(seg, offset, size, new & flags::mask(size))?;
    Ok(result)
}

/// One atomic access to memory.
pub(super) fn modify_locked<P: Port, T>(
    ctx: &mut Ctx<'_, P>,
    (seg, offset): (SegReg, u64),
    size: u8,
    change: impl Fn(u64) -> (u64, T),
) -> Exec<T> {
    let old = ctx.rmw(seg, offset, size, &mut |old| {
        Some(u128::from(change(old as u64).0 & flags::mask(size)))
    })?;
    Ok(change(old as u64).1)
}
