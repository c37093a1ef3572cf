//! Reading operands and making addresses.

use emu_cpu::port::Port;

use crate::ctx::{Ctx, Exec};
use crate::decode::{Addressing, Extend, Op, SP, Shift, Source};

/// Mask of the operand's width.
#[inline(always)]
pub(super) fn mask(op: &Op) -> u64 {
    if op.wide { u64::MAX } else { 0xffff_ffff }
}

/// Register `n` by its resolved number.
#[inline(always)]
pub(super) fn get<P: Port>(ctx: &Ctx<'_, P>, n: u8) -> u64 {
    if n == SP { ctx.cpu.state.x_sp(31) } else { ctx.cpu.state.x(n) }
}

/// Sets register `n` by its resolved number.
#[inline(always)]
pub(super) fn set<P: Port>(ctx: &mut Ctx<'_, P>, n: u8, value: u64) {
    if n == SP { ctx.cpu.state.set_x_sp(31, value) } else { ctx.cpu.state.set_x(n, value) }
}

/// Sign-extends the low `bytes` of a value.
#[inline(always)]
pub(super) fn sign_extend(value: u64, bytes: u8) -> u64 {
    let shift = 64 - 8 * u32::from(bytes);
    ((value << shift) as i64 >> shift) as u64
}

/// Shifts by less than the width.
#[inline(always)]
pub(super) fn shift(value: u64, shift: Shift, amount: u32, wide: bool) -> u64 {
    if wide {
        match shift {
            Shift::Lsl => value << amount,
            Shift::Lsr => value >> amount,
            Shift::Asr => (value as i64 >> amount) as u64,
            Shift::Ror => value.rotate_right(amount),
        }
    } else {
        let value = value as u32;
        u64::from(match shift {
            Shift::Lsl => value << amount,
            Shift::Lsr => value >> amount,
            Shift::Asr => (value as i32 >> amount) as u32,
            Shift::Ror => value.rotate_right(amount),
        })
    }
}

/// Extends a value.
#[inline(always)]
pub(super) fn extend(value: u64, extend: Extend) -> u64 {
    if extend.signed {
        sign_extend(value, extend.bytes)
    } else {
        value & u64::MAX >> (64 - 8 * u32::from(extend.bytes))
    }
}

/// The second operand of arithmetic and logic.
#[inline(always)]
pub(super) fn second<P: Port>(ctx: &Ctx<'_, P>, op: &Op, source: Source) -> u64 {
    match source {
        Source::Imm => op.imm,
        Source::Shifted(kind) => shift(ctx.cpu.state.x(op.rm), kind, u32::from(op.amount), op.wide),
        Source::Extended(kind) => extend(ctx.cpu.state.x(op.rm), kind) << op.amount,
    }
}

/// The base of an access.
#[inline(always)]
pub(super) fn base<P: Port>(ctx: &Ctx<'_, P>, op: &Op) -> Exec<u64> {
    if op.rn == SP {
        ctx.check_sp()?;
    }
    Ok(get(ctx, op.rn))
}

/// Address of an access, and what the base becomes.
#[inline(always)]
pub(super) fn address<P: Port>(
    ctx: &Ctx<'_, P>,
    op: &Op,
    mode: Addressing,
) -> Exec<(u64, Option<u64>)> {
    let base = base(ctx, op)?;
    let moved = base.wrapping_add(op.imm);
    Ok(match mode {
        Addressing::Offset | Addressing::Unprivileged => (moved, None),
        Addressing::Pre => (moved, Some(moved)),
        Addressing::Post => (base, Some(moved)),
        Addressing::PostReg => (base, Some(base.wrapping_add(ctx.cpu.state.x(op.rm)))),
        Addressing::Index(kind) => {
            let index = extend(ctx.cpu.state.x(op.rm), kind) << op.amount;
            (base.wrapping_add(index), None)
        }
        Addressing::Literal => (ctx.cpu.state.pc.wrapping_add(op.imm), None),
    })
}

/// Moves the base on.
#[inline(always)]
pub(super) fn write_back<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, base: Option<u64>) {
    if let Some(base) = base {
        set(ctx, op.rn, base);
    }
}
