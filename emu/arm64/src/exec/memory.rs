//! Loads and stores of general registers.

use emu_cpu::port::Port;

use super::{Body, Next, operand, require};
use crate::ctx::{Acc, Ctx};
use crate::decode::{Addressing, Op};
use crate::defs::Features;

/// What an access is by its addressing.
fn acc(mode: Addressing) -> Acc {
    if mode == Addressing::Unprivileged { Acc::Unprivileged } else { Acc::Plain }
}

/// A loaded value as a register holds it.
#[inline(always)]
fn loaded(op: &Op, value: u64, signed: bool) -> u64 {
    if signed { operand::sign_extend(value, op.size) & operand::mask(op) } else { value }
}

/// LDR and kin.
#[inline(always)]
pub(super) fn load<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing, signed: bool) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let value = ctx.read(va, op.size, acc(mode))?;
    operand::write_back(ctx, op, base);
    ctx.cpu.state.set_x(op.rd, loaded(op, value, signed));
    Ok(Next::Seq)
}

/// STR and kin.
#[inline(always)]
pub(super) fn store<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let value = ctx.cpu.state.x(op.rd);
    ctx.write(va, op.size, value, acc(mode))?;
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}

/// LDP, LDNP, LDPSW: each register is an access of its own.
pub(super) fn load_pair<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    mode: Addressing,
    signed: bool,
) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let first = ctx.read(va, op.size, Acc::Plain)?;
    let second = ctx.read(va.wrapping_add(u64::from(op.size)), op.size, Acc::Plain)?;
    operand::write_back(ctx, op, base);
    ctx.cpu.state.set_x(op.rd, loaded(op, first, signed));
    ctx.cpu.state.set_x(op.ra, loaded(op, second, signed));
    Ok(Next::Seq)
}

/// STP, STNP.
pub(super) fn store_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let second = va.wrapping_add(u64::from(op.size));
    let values = (ctx.cpu.state.x(op.rd), ctx.cpu.state.x(op.ra));
    ctx.probe_write(second, op.size)?;
    ctx.write(va, op.size, values.0, Acc::Plain)?;
    ctx.write(second, op.size, values.1, Acc::Plain)?;
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}

/// LDAR.
pub(super) fn load_acquire<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, acc: Acc) -> Body {
    let va = operand::base(ctx, op)?;
    let value = ctx.read(va, op.size, acc)?;
    ctx.cpu.state.set_x(op.rd, value);
    Ok(Next::Seq)
}

/// LDAPR.
pub(super) fn load_acquire_pc<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::LRCPC)?;
    load_acquire(ctx, op, Acc::AcquirePc)
}

/// STLR.
pub(super) fn store_release<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let va = operand::base(ctx, op)?;
    let value = ctx.cpu.state.x(op.rd);
    ctx.write(va, op.size, value, Acc::Release)?;
    Ok(Next::Seq)
}
