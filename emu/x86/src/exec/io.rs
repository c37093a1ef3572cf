//! IN and OUT.

use emu_cpu::port::Port;

use super::{Body, Next, operand};
use crate::ctx::Ctx;
use crate::decode::{Op, Operand};
use crate::flags;
use crate::state::gpr;

/// The port number: an immediate byte or DX.
fn port_number<P: Port>(ctx: &Ctx<'_, P>, op: &Op, operand: Operand) -> u16 {
    if operand.is_gpr() { ctx.cpu.state.gpr[gpr::RDX] as u16 } else { op.imm as u16 & 0xff }
}

/// IN.
pub(super) fn input<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let port = port_number(ctx, op, op.src);
    let value = ctx.io_in(port, op.size)?;
    operand::set_gpr(&mut ctx.cpu.state, gpr::RAX, op.size, value);
    Ok(Next::Seq)
}

/// OUT.
pub(super) fn output<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let port = port_number(ctx, op, op.dst);
    let value = ctx.cpu.state.gpr[gpr::RAX] & flags::mask(op.size);
    ctx.io_out(port, op.size, value)?;
    Ok(Next::Seq)
}
