//! x87 control: what kernels execute to set the unit up. No x87 arithmetic, no MMX.

use emu_cpu::port::Port;

use super::{Body, Next, fault, operand};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::{FpuOp, Op};
use crate::defs::{cr0, cr4};

/// Control word after FNINIT: all exceptions masked, 64-bit precision.
const FCW_INIT: u16 = 0x37f;
/// Status bits that FNCLEX keeps: condition codes and top of stack.
const FSW_KEPT: u16 = 0x7f00;

/// Control bits that can be set: masks, precision, rounding, and the 387's infinity bit.
const FCW_LEGAL: u16 = 0x1f3f;
/// The control bit that reads as one on all cores since the 387.
const FCW_FIXED: u16 = 0x40;
/// The exceptions of status and control word.
const EXCEPTIONS: u16 = 0x3f;
/// Error summary.
const FSW_ES: u16 = 0x80;
/// Busy, which follows the error summary.
const FSW_BUSY: u16 = 0x8000;

/// The control word that a load of `value` gives; reserved bits are zero, as measured on Intel
/// cores.
pub(super) const fn legal_fcw(value: u16) -> u16 {
    value & FCW_LEGAL | FCW_FIXED
}

/// The status word with its summary of what the control word does not mask.
///
/// Source: [SDM-1] "x87 FPU Status Register", "Exception flags". Status: spec.
pub(super) const fn summarised(fsw: u16, fcw: u16) -> u16 {
    let summary = FSW_ES | FSW_BUSY;
    if fsw & !fcw & EXCEPTIONS != 0 { fsw | summary } else { fsw & !summary }
}

/// Raises #MF when an exception is pending that the control word does not mask.
fn check_pending<P: Port>(ctx: &Ctx<'_, P>) -> Exec<()> {
    if ctx.cpu.state.fp.fsw & FSW_ES != 0 {
        return fault(Exception::mf());
    }
    Ok(())
}

/// Checks that an x87 instruction may run.
fn check_x87<P: Port>(ctx: &Ctx<'_, P>) -> Exec<()> {
    if ctx.cpu.state.cr0 & (cr0::EM | cr0::TS) != 0 {
        return fault(Exception::nm());
    }
    Ok(())
}

/// Checks that an SSE instruction may run: #UD before #NM.
#[inline(always)]
pub(super) fn check_sse<P: Port>(ctx: &Ctx<'_, P>) -> Exec<()> {
    let state = &ctx.cpu.state;
    if state.cr0 & (cr0::EM | cr0::TS) == 0 && state.cr4 & cr4::OSFXSR != 0 {
        return Ok(());
    }
    if state.cr0 & cr0::EM != 0 || state.cr4 & cr4::OSFXSR == 0 {
        return fault(Exception::ud());
    }
    fault(Exception::nm())
}

/// Executes one of them.
pub(super) fn control<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: FpuOp) -> Body {
    match what {
        FpuOp::Fwait => {
            let both = cr0::MP | cr0::TS;
            if ctx.cpu.state.cr0 & both == both {
                return fault(Exception::nm());
            }
            check_pending(ctx)?;
            return Ok(Next::Seq);
        }
        FpuOp::Emms if ctx.cpu.state.cr0 & cr0::EM != 0 => return fault(Exception::ud()),
        _ => check_x87(ctx)?,
    }
    if matches!(what, FpuOp::Fldcw | FpuOp::Fnop | FpuOp::Emms) {
        check_pending(ctx)?;
    }
    match what {
        FpuOp::Fninit => {
            let fp = &mut ctx.cpu.state.fp;
            (fp.fcw, fp.fsw, fp.ftw, fp.fop) = (FCW_INIT, 0, 0, 0);
            (fp.fip, fp.fdp) = (0, 0);
        }
        FpuOp::Fnclex => ctx.cpu.state.fp.fsw &= FSW_KEPT,
        FpuOp::Fnstcw => operand::put(ctx, op, 2, u64::from(ctx.cpu.state.fp.fcw))?,
        FpuOp::Fnstsw => operand::put(ctx, op, 2, u64::from(ctx.cpu.state.fp.fsw))?,
        FpuOp::Fldcw => {
            let value = operand::get(ctx, op, op.dst, 2)?;
            let fp = &mut ctx.cpu.state.fp;
            fp.fcw = legal_fcw(value as u16);
            fp.fsw = summarised(fp.fsw, fp.fcw);
        }
        FpuOp::Emms => {
            ctx.cpu.state.fp.ftw = 0;
            ctx.cpu.state.fp.fsw &= !0x3800;
        }
        FpuOp::Fnop | FpuOp::Fwait => {}
    }
    Ok(Next::Seq)
}
