//! System registers, barriers, hints, exceptions: calls into the system side.

use emu_cpu::port::Port;

use super::{Body, Next, require};
use crate::ctx::{Barrier, BarrierTypes, Call, Ctx, Hint, Trap};
use crate::decode::{Kind, Op};
use crate::defs::{Features, SysReg};

/// What the field CRm of DMB and DSB asks for; a reserved value is SY.
fn types(crm: u8) -> BarrierTypes {
    match crm & 3 {
        1 => BarrierTypes::Loads,
        2 => BarrierTypes::Stores,
        _ => BarrierTypes::All,
    }
}

/// Executes one of them.
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let reg = SysReg::from_bits(op.imm as u16);
    let imm = op.imm as u16;
    match op.kind {
        Kind::Mrs => {
            let value = ctx.read_sysreg(reg).map_err(|trap: Trap| trap.with_register(op.rd))?;
            ctx.cpu.state.set_x(op.rd, value);
        }
        Kind::Msr => {
            let value = ctx.cpu.state.x(op.rn);
            ctx.write_sysreg(reg, value).map_err(|trap| trap.with_register(op.rn))?;
        }
        Kind::MsrImm => ctx.write_pstate(reg, op.amount)?,
        Kind::Sys if op.flags => {
            let value = ctx.sysl(reg).map_err(|trap| trap.with_register(op.rd))?;
            ctx.cpu.state.set_x(op.rd, value);
        }
        Kind::Sys => {
            let value = ctx.cpu.state.x(op.rn);
            ctx.sys(reg, value).map_err(|trap| trap.with_register(op.rn))?;
        }
        Kind::Dmb => ctx.barrier(Barrier::Dmb(types(op.amount)))?,
        Kind::Dsb => ctx.barrier(Barrier::Dsb(types(op.amount)))?,
        Kind::Isb => ctx.barrier(Barrier::Isb)?,
        Kind::Sb => {
            require(ctx, Features::SB)?;
            ctx.barrier(Barrier::Sb)?;
        }
        Kind::ClearExclusive => ctx.clear_exclusive(),
        Kind::Svc => return ctx.call(Call::Svc(imm)),
        Kind::Hvc => return ctx.call(Call::Hvc(imm)),
        Kind::Smc => return ctx.call(Call::Smc(imm)),
        Kind::Brk => return ctx.call(Call::Brk(imm)),
        Kind::Eret => return ctx.call(Call::Eret),
        Kind::WaitTimeout { event } => {
            require(ctx, Features::WFXT)?;
            return ctx.hint(if event { Hint::Wfet(op.rn) } else { Hint::Wfit(op.rn) });
        }
        // Other hints are those of extensions that are not offered: they do nothing.
        _ => {
            return ctx.hint(match op.imm {
                1 => Hint::Yield,
                2 => Hint::Wfe,
                3 => Hint::Wfi,
                4 => Hint::Sev,
                5 => Hint::Sevl,
                _ => Hint::Nop,
            });
        }
    }
    Ok(Next::Seq)
}
