//! Far JMP and CALL through call gates.
//!
//! Modelled: gates of 64, 32 and 16 bits, at the same level, and for CALL to an inner level with
//! its stack and parameters.
//!
//! Source: [SDM-3] "Accessing a Code Segment Through a Call Gate", "Stack Switching"; [SDM-2]
//! "CALL", "JMP", `CALL-GATE`.

use emu_cpu::port::Port;

use super::Next;
use crate::ctx::{Ctx, Exception, Exec, Trap};
use crate::decode::Op;
use crate::defs::{rights, vector};
use crate::fault::Stack;
use crate::segment::{Descriptor, code_of, null_stack};
use crate::state::{SegReg, Segment, gpr};

/// Most parameters that a gate copies.
const PARAMETERS_MAX: usize = 31;

/// A checked way through a gate.
struct Passage {
    code: Segment,
    rip: u64,
    cpl: u8,
    /// Bytes of what is pushed.
    width: u8,
    parameters: usize,
}

/// Whether a descriptor is a call gate of the present mode.
pub(super) fn is_call_gate<P: Port>(ctx: &Ctx<'_, P>, descriptor: Descriptor) -> bool {
    let is_known = match descriptor.system_type() {
        rights::CALL_GATE => true,
        rights::CALL_GATE_16 => !ctx.cpu.is_long(),
        _ => false,
    };
    descriptor.is_system() && is_known
}

/// Checks a gate and its code segment.
fn passage<P: Port>(
    ctx: &mut Ctx<'_, P>,
    selector: u16,
    gate: Descriptor,
    is_call: bool,
) -> Exec<Passage> {
    let (rpl, cpl) = ((selector & 3) as u8, ctx.cpu.cpl);
    if gate.dpl() < cpl.max(rpl) {
        return Err(Exception::gp(code_of(selector)).into());
    }
    if !gate.is_present() {
        return Err(Exception::np(code_of(selector)).into());
    }
    let is_long = ctx.cpu.is_long();
    let high = if is_long { upper_half(ctx, selector)? } else { 0 };
    let target = (gate.raw >> 16) as u16;
    if target & 0xfffc == 0 {
        return Err(Exception::gp(0).into());
    }
    let code = ctx.descriptor(target, 0, Exception::gp)?;
    let dpl = code.dpl();
    let is_legal = code.is_code()
        && dpl <= cpl
        && (is_call || code.is_conforming() || dpl == cpl)
        && (!is_long || code.is_long() && !code.is_wide());
    if !is_legal {
        return Err(Exception::gp(code_of(target)).into());
    }
    if !code.is_present() {
        return Err(Exception::np(code_of(target)).into());
    }
    let width = match gate.system_type() {
        _ if is_long => 8,
        rights::CALL_GATE => 4,
        _ => 2,
    };
    let low = gate.raw & 0xffff | if width == 2 { 0 } else { gate.raw >> 32 & 0xffff_0000 };
    let cpl = if code.is_conforming() { cpl } else { dpl };
    Ok(Passage {
        code: ctx.mark_accessed(code)?.segment(target & !3 | u16::from(cpl)),
        rip: high << 32 | low,
        cpl,
        width,
        parameters: if is_long { 0 } else { (gate.raw >> 32) as usize & PARAMETERS_MAX },
    })
}

/// Bits 63:32 of the offset of a 64-bit gate.
fn upper_half<P: Port>(ctx: &mut Ctx<'_, P>, selector: u16) -> Exec<u64> {
    let refused = Err(Exception::gp(code_of(selector)).into());
    let raw = match ctx.descriptor(selector.wrapping_add(8), 0, Exception::gp) {
        Ok(upper) => upper.raw,
        Err(Trap::Fault(fault)) if fault.vector == vector::GP => return refused,
        Err(trap) => return Err(trap),
    };
    // The type of an upper half is 0, so that it is no descriptor by itself.
    if raw >> 40 & 0x1f != 0 { refused } else { Ok(raw & 0xffff_ffff) }
}

/// JMP.
pub(super) fn jump<P: Port>(ctx: &mut Ctx<'_, P>, selector: u16, gate: Descriptor) -> Exec<Next> {
    let to = passage(ctx, selector, gate, false)?;
    ctx.check_target(to.code, to.rip, 0)?;
    ctx.cpu.state.seg[SegReg::Cs as usize] = to.code;
    ctx.cpu.update_mode();
    Ok(Next::Jump(to.rip))
}

/// CALL.
pub(super) fn call<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    selector: u16,
    gate: Descriptor,
) -> Exec<Next> {
    let to = passage(ctx, selector, gate, true)?;
    let (rsp, old_ss) = (ctx.cpu.state.gpr[gpr::RSP], ctx.cpu.segment(SegReg::Ss));
    let is_inner = to.cpl < ctx.cpu.cpl;
    let mut values = [0; PARAMETERS_MAX + 4];
    let mut len = 0;
    let mut push = |value| {
        values[len] = value;
        len += 1;
    };
    let stack = if is_inner {
        let stack = inner_stack(ctx, to.cpl)?;
        push(u64::from(old_ss.selector));
        push(rsp);
        for i in (0..to.parameters).rev() {
            push(ctx.stack_read(rsp.wrapping_add(i as u64 * u64::from(to.width)), to.width)?);
        }
        stack
    } else {
        Stack { ss: old_ss, rsp: rsp & ctx.cpu.stack_mask(), pushes_old: false }
    };
    push(u64::from(ctx.cpu.segment(SegReg::Cs).selector));
    push(op.next_ip(ctx.cpu.state.rip));
    ctx.check_target(to.code, to.rip, 0)?;
    let rsp = ctx.push_frame(to.width, stack, to.cpl, 0, &values[..len])?;
    let state = &mut ctx.cpu.state;
    state.seg[SegReg::Cs as usize] = to.code;
    state.seg[SegReg::Ss as usize] = stack.ss;
    ctx.cpu.cpl = to.cpl;
    ctx.cpu.update_mode();
    ctx.cpu.set_rsp(rsp);
    Ok(Next::Jump(to.rip))
}

fn inner_stack<P: Port>(ctx: &mut Ctx<'_, P>, cpl: u8) -> Exec<Stack> {
    let (rsp, selector) = ctx.stack_of_level(cpl, 0)?;
    if !ctx.cpu.is_long() {
        let ss = ctx.inner_stack_segment(selector, cpl, 0)?;
        return Ok(Stack { ss, rsp, pushes_old: true });
    }
    if !ctx.cpu.is_canonical(rsp) {
        return Err(Exception::ss(0).into());
    }
    Ok(Stack { ss: null_stack(u16::from(cpl)), rsp, pushes_old: true })
}
