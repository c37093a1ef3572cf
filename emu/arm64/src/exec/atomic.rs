//! Exclusives, compare and swap, and atomic updates of memory.

use emu_cpu::port::{Port, Update};

use super::{Body, Next, operand, require};
use crate::ctx::{Atomic, Ctx};
use crate::decode::{AtomicOp, Op};
use crate::defs::Features;

/// Low bits of a value that an access of `bytes` moves.
fn low(value: u64, bytes: u8) -> u64 {
    value & u64::MAX >> (64 - 8 * u32::from(bytes))
}

/// Two registers as one value of `2 * bytes`.
fn join(first: u64, second: u64, bytes: u8) -> u128 {
    u128::from(low(first, bytes)) | u128::from(low(second, bytes)) << (8 * u32::from(bytes))
}

/// The inverse of [`join`].
fn split(value: u128, bytes: u8) -> (u64, u64) {
    let bits = 8 * u32::from(bytes);
    (low(value as u64, bytes), low((value >> bits) as u64, bytes))
}

/// The register after an even one, which is no zero register.
fn odd(n: u8) -> u8 {
    n + 1
}

/// LDXR, LDAXR.
pub(super) fn load_exclusive<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, acquire: bool) -> Body {
    let va = operand::base(ctx, op)?;
    let value = ctx.read_exclusive(va, op.size, acquire)?;
    ctx.cpu.state.set_x(op.rd, value as u64);
    Ok(Next::Seq)
}

/// LDXP, LDAXP.
pub(super) fn load_exclusive_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, acquire: bool) -> Body {
    let va = operand::base(ctx, op)?;
    let value = ctx.read_exclusive(va, 2 * op.size, acquire)?;
    let (first, second) = split(value, op.size);
    ctx.cpu.state.set_x(op.rd, first);
    ctx.cpu.state.set_x(op.ra, second);
    Ok(Next::Seq)
}

/// Sets the status register of a store exclusive.
fn finish<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, stored: bool) -> Body {
    ctx.cpu.state.set_x(op.rm, u64::from(!stored));
    Ok(Next::Seq)
}

/// STXR, STLXR.
pub(super) fn store_exclusive<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, release: bool) -> Body {
    let va = operand::base(ctx, op)?;
    let value = u128::from(low(ctx.cpu.state.x(op.rd), op.size));
    let stored = ctx.write_exclusive(va, op.size, value, release)?;
    finish(ctx, op, stored)
}

/// STXP, STLXP.
pub(super) fn store_exclusive_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, release: bool) -> Body {
    let va = operand::base(ctx, op)?;
    let value = join(ctx.cpu.state.x(op.rd), ctx.cpu.state.x(op.ra), op.size);
    let stored = ctx.write_exclusive(va, 2 * op.size, value, release)?;
    finish(ctx, op, stored)
}

/// CAS and its ordered and narrow forms.
pub(super) fn cas<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, acquire: bool, release: bool) -> Body {
    require(ctx, Features::LSE)?;
    let va = operand::base(ctx, op)?;
    let expected = ctx.cpu.state.x(op.rm);
    let new = ctx.cpu.state.x(op.rd);
    let order = Atomic { acquire, release };
    let old = ctx.update(va, op.size, order, Update::CompareSwap { expected, new }, true)?;
    ctx.cpu.state.set_x(op.rm, old);
    Ok(Next::Seq)
}

/// CASP and its ordered forms.
pub(super) fn cas_pair<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    acquire: bool,
    release: bool,
) -> Body {
    require(ctx, Features::LSE)?;
    let va = operand::base(ctx, op)?;
    let state = &ctx.cpu.state;
    let expected = join(state.x(op.rm), state.x(odd(op.rm)), op.size);
    let new = join(state.x(op.rd), state.x(odd(op.rd)), op.size);
    let order = Atomic { acquire, release };
    let old = ctx.rmw(va, 2 * op.size, order, &mut |old| (old == expected).then_some(new))?;
    let (first, second) = split(old, op.size);
    ctx.cpu.state.set_x(op.rm, first);
    ctx.cpu.state.set_x(odd(op.rm), second);
    Ok(Next::Seq)
}

/// LD<op>, ST<op>, SWP.
pub(super) fn update<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    atomic: AtomicOp,
    acquire: bool,
    release: bool,
) -> Body {
    require(ctx, Features::LSE)?;
    let va = operand::base(ctx, op)?;
    let b = low(ctx.cpu.state.x(op.rm), op.size);
    let change = match atomic {
        AtomicOp::Add => Update::Add(b),
        AtomicOp::Clear => Update::Clear(b),
        AtomicOp::Xor => Update::Xor(b),
        AtomicOp::Set => Update::Set(b),
        AtomicOp::SMax => Update::SMax(b),
        AtomicOp::SMin => Update::SMin(b),
        AtomicOp::UMax => Update::UMax(b),
        AtomicOp::UMin => Update::UMin(b),
        AtomicOp::Swap => Update::Swap(b),
    };
    // "ST<op>" is the alias with the zero register, which never has acquire semantics.
    let wants_result = op.rd != crate::decode::ZR;
    let order = Atomic { acquire: acquire && wants_result, release };
    let old = ctx.update(va, op.size, order, change, wants_result)?;
    ctx.cpu.state.set_x(op.rd, old);
    Ok(Next::Seq)
}
