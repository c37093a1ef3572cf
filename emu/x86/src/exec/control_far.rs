//! Far transfers: far JMP, CALL and RET, IRET, software interrupts, SYSCALL and SYSENTER.
//!
//! Modelled: transfers to code segments at the same privilege and through call gates (`call_gate`),
//! RET and IRET to outer levels, all in real, protected, compatibility and 64-bit mode. Not
//! modelled: task gates and task switches (#GP), returns to virtual-8086 mode (#GP), SYSCALL
//! outside long mode (#UD).

use emu_cpu::port::{Note, Port};

use super::{Next, call_gate};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::{FarOp, Op, Operand};
use crate::defs::{Features, Vendor, efer, rflags, rights, vector};
use crate::fault::Delivery;
use crate::segment::{Descriptor, Raise, code_of, flat_segment, null_stack};
use crate::state::{SegReg, Segment, gpr};

/// Rights of the flat segments that SYSCALL and kin load, DPL 0.
const CODE_64: u16 = 0xa09b;
const CODE_32: u16 = 0xc09b;
const DATA: u16 = 0xc093;
const DPL3: u16 = 3 << rights::DPL_SHIFT;

/// Flags that IRET and RETs may load at CPL 0, without IF and IOPL.
const IRET_FLAGS: u64 = rflags::CF
    | rflags::PF
    | rflags::AF
    | rflags::ZF
    | rflags::SF
    | rflags::TF
    | rflags::DF
    | rflags::OF
    | rflags::NT
    | rflags::AC
    | rflags::ID;
/// Flags that SYSRET loads from R11.
const SYSRET_FLAGS: u64 = 0x003c_7fd7;

/// Executes a far transfer.
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: FarOp) -> Exec<Next> {
    match what {
        FarOp::Jmp => far_jump(ctx, op),
        FarOp::Call => far_call(ctx, op),
        FarOp::Ret => far_return(ctx, op),
        FarOp::Iret => interrupt_return(ctx, op),
        FarOp::Int => software_interrupt(ctx, op, op.imm as u8, true),
        FarOp::Int1 => software_interrupt(ctx, op, vector::DB, false),
        FarOp::Int3 => software_interrupt(ctx, op, vector::BP, true),
        FarOp::Into if ctx.cpu.is_64 => Err(Exception::ud().into()),
        FarOp::Into if ctx.cpu.state.rflags & rflags::OF == 0 => Ok(Next::Seq),
        FarOp::Into => software_interrupt(ctx, op, vector::OF, true),
        FarOp::Ud => Err(Exception::ud().into()),
        FarOp::Syscall => syscall(ctx, op),
        FarOp::Sysret => sysret(ctx, op),
        FarOp::Sysenter => sysenter(ctx),
        FarOp::Sysexit => sysexit(ctx, op),
    }
}

fn software_interrupt<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    number: u8,
    checks_dpl: bool,
) -> Exec<Next> {
    let back = op.next_ip(ctx.cpu.state.rip);
    ctx.deliver(Delivery::software(number, back, checks_dpl))?;
    Ok(Next::Jump(ctx.cpu.state.rip))
}

/// Selector and offset of a far JMP or CALL.
fn target<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<(u16, u64)> {
    let mask = u64::MAX >> (64 - 8 * u32::from(op.size));
    if op.dst == Operand::IMM {
        return Ok((op.disp as u16, op.imm & mask));
    }
    let (seg, at) = ctx.ea(op);
    let offset = ctx.read(seg, at, op.size)?;
    let selector = ctx.read(seg, ctx.cpu.wrap_offset(at, u64::from(op.size)), 2)?;
    Ok((selector as u16, offset))
}

/// The code segment of a selector in real mode.
fn real_code<P: Port>(ctx: &Ctx<'_, P>, selector: u16) -> Segment {
    Segment { selector, base: u64::from(selector) << 4, ..ctx.cpu.segment(SegReg::Cs) }
}

/// Where a far JMP or CALL leads to.
enum Destination {
    /// A code segment, checked. The target is checked later, when the stack is known to be there.
    Code(Segment),
    /// A call gate, not checked.
    Gate(Descriptor),
}

/// Source: [SDM-2] "JMP", "CALL", the pseudocode.
fn destination<P: Port>(ctx: &mut Ctx<'_, P>, selector: u16) -> Exec<Destination> {
    if !ctx.cpu.is_protected() {
        return Ok(Destination::Code(real_code(ctx, selector)));
    }
    if selector & 0xfffc == 0 {
        return Err(Exception::gp(0).into());
    }
    let descriptor = ctx.descriptor(selector, 0, Exception::gp)?;
    if call_gate::is_call_gate(ctx, descriptor) {
        return Ok(Destination::Gate(descriptor));
    }
    ctx.check_code(descriptor, selector)?;
    let descriptor = ctx.mark_accessed(descriptor)?;
    Ok(Destination::Code(descriptor.segment(selector & !3 | u16::from(ctx.cpu.cpl))))
}

fn far_jump<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    let (selector, offset) = target(ctx, op)?;
    let code = match destination(ctx, selector)? {
        Destination::Code(code) => code,
        Destination::Gate(gate) => return call_gate::jump(ctx, selector, gate),
    };
    ctx.check_target(code, offset, 0)?;
    ctx.cpu.state.seg[SegReg::Cs as usize] = code;
    ctx.cpu.update_mode();
    Ok(Next::Jump(offset))
}

fn far_call<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    let (selector, offset) = target(ctx, op)?;
    let code = match destination(ctx, selector)? {
        Destination::Code(code) => code,
        Destination::Gate(gate) => return call_gate::call(ctx, op, selector, gate),
    };
    let size = u64::from(op.size);
    let rsp = ctx.cpu.state.gpr[gpr::RSP];
    let low = rsp.wrapping_sub(2 * size);
    ctx.probe_write(SegReg::Ss, low & ctx.cpu.stack_mask(), 2 * u32::from(op.size))?;
    ctx.check_target(code, offset, 0)?;
    let back = op.next_ip(ctx.cpu.state.rip);
    let old = ctx.cpu.segment(SegReg::Cs).selector;
    ctx.stack_write(rsp.wrapping_sub(size), op.size, u64::from(old))?;
    ctx.stack_write(low, op.size, back)?;
    ctx.cpu.set_rsp(low);
    ctx.cpu.state.seg[SegReg::Cs as usize] = code;
    ctx.cpu.update_mode();
    Ok(Next::Jump(offset))
}

/// Code segment, new privilege level and, if that is an outer one, the new stack of a return.
struct Return {
    code: Segment,
    cpl: u8,
    /// SS and RSP.
    stack: Option<(Segment, u64)>,
}

/// Checks the code segment of a return; gives it with its privilege level.
///
/// Source: [SDM-2] "RET", "IRET", the pseudocode of returns.
fn return_code<P: Port>(ctx: &mut Ctx<'_, P>, selector: u16) -> Exec<Segment> {
    let gp: Raise = Exception::gp;
    if selector & 0xfffc == 0 {
        return Err(gp(0).into());
    }
    let code = code_of(selector);
    let descriptor = ctx.descriptor(selector, 0, gp)?;
    let (rpl, dpl) = ((selector & 3) as u8, descriptor.dpl());
    let is_legal = descriptor.is_code()
        && rpl >= ctx.cpu.cpl
        && if descriptor.is_conforming() { dpl <= rpl } else { dpl == rpl }
        && !(ctx.cpu.is_long() && descriptor.is_long() && descriptor.is_wide());
    if !is_legal {
        return Err(gp(code).into());
    }
    if !descriptor.is_present() {
        return Err(Exception::np(code).into());
    }
    Ok(ctx.mark_accessed(descriptor)?.segment(selector))
}

/// Checks the stack segment of a return.
fn return_stack<P: Port>(ctx: &mut Ctx<'_, P>, selector: u16, code: Segment) -> Exec<Segment> {
    let gp: Raise = Exception::gp;
    let cpl = (code.selector & 3) as u8;
    if selector & 0xfffc == 0 {
        let is_64 = ctx.cpu.is_long() && code.rights & rights::L != 0;
        if !is_64 || cpl == 3 || (selector & 3) as u8 != cpl {
            return Err(gp(0).into());
        }
        return Ok(null_stack(selector));
    }
    let descriptor = ctx.descriptor(selector, 0, gp)?;
    let is_legal =
        (selector & 3) as u8 == cpl && descriptor.dpl() == cpl && descriptor.is_writable_data();
    if !is_legal {
        return Err(gp(code_of(selector)).into());
    }
    if !descriptor.is_present() {
        return Err(Exception::ss(code_of(selector)).into());
    }
    Ok(ctx.mark_accessed(descriptor)?.segment(selector))
}

/// Makes a checked return valid. Data segments that the outer level may not have become null.
fn commit_return<P: Port>(ctx: &mut Ctx<'_, P>, to: Return, plain_rsp: u64) {
    let cpu = &mut *ctx.cpu;
    let is_outer = to.cpl > cpu.cpl;
    cpu.state.seg[SegReg::Cs as usize] = to.code;
    cpu.cpl = to.cpl;
    if let Some((ss, _)) = to.stack {
        cpu.state.seg[SegReg::Ss as usize] = ss;
    }
    cpu.update_mode();
    cpu.set_rsp(to.stack.map_or(plain_rsp, |stack| stack.1));
    if !is_outer {
        return;
    }
    for seg in [SegReg::Es, SegReg::Ds, SegReg::Fs, SegReg::Gs] {
        let segment = &mut cpu.state.seg[seg as usize];
        let dpl = (segment.rights >> rights::DPL_SHIFT & 3) as u8;
        let is_conforming =
            segment.rights & (rights::CODE | rights::DC) == rights::CODE | rights::DC;
        if dpl < to.cpl && !is_conforming {
            // The base stays: in 64-bit mode FS and GS go on with it.
            *segment = Segment { base: segment.base, ..Segment::default() };
        }
    }
}

fn far_return<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    let size = u64::from(op.size);
    let released = if op.dst == Operand::IMM { op.imm & 0xffff } else { 0 };
    let rsp = ctx.cpu.state.gpr[gpr::RSP];
    let rip = ctx.stack_read(rsp, op.size)?;
    // Of a selector's slot, the selector alone is read.
    let selector = ctx.stack_read(rsp.wrapping_add(size), 2)? as u16;
    let above = rsp.wrapping_add(2 * size + released);
    if !ctx.cpu.is_protected() {
        let code = real_code(ctx, selector);
        ctx.check_target(code, rip, 0)?;
        ctx.cpu.state.seg[SegReg::Cs as usize] = code;
        ctx.cpu.set_rsp(above);
        ctx.cpu.update_mode();
        return Ok(Next::Jump(rip));
    }
    let code = return_code(ctx, selector)?;
    let cpl = (selector & 3) as u8;
    let stack = if cpl > ctx.cpu.cpl {
        let new_rsp = ctx.stack_read(above, op.size)?;
        let ss = ctx.stack_read(above.wrapping_add(size), 2)? as u16;
        Some((return_stack(ctx, ss, code)?, new_rsp.wrapping_add(released)))
    } else {
        None
    };
    ctx.check_target(code, rip, 0)?;
    commit_return(ctx, Return { code, cpl, stack }, above);
    Ok(Next::Jump(rip))
}

/// Source: [SDM-2] "IRET/IRETD/IRETQ"; an NMI is no longer blocked afterwards.
fn interrupt_return<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    let size = u64::from(op.size);
    let rsp = ctx.cpu.state.gpr[gpr::RSP];
    let has_task_return = ctx.cpu.state.rflags & rflags::NT != 0;
    if ctx.cpu.is_protected() && has_task_return || ctx.cpu.is_virtual_8086() {
        return Err(Exception::gp(0).into());
    }
    ctx.serialise()?;
    let rip = ctx.stack_read(rsp, op.size)?;
    let selector = ctx.stack_read(rsp.wrapping_add(size), 2)? as u16;
    let flags = ctx.stack_read(rsp.wrapping_add(2 * size), op.size)?;
    let above = rsp.wrapping_add(3 * size);
    if !ctx.cpu.is_protected() {
        let code = real_code(ctx, selector);
        ctx.check_target(code, rip, 0)?;
        ctx.cpu.state.seg[SegReg::Cs as usize] = code;
        ctx.cpu.set_rsp(above);
        ctx.cpu.update_mode();
        finish_iret(ctx, flags, op.size, 0);
        return Ok(Next::Jump(rip));
    }
    if !ctx.cpu.is_long() && op.size == 4 && flags & rflags::VM != 0 && ctx.cpu.cpl == 0 {
        return Err(Exception::gp(0).into());
    }
    let code = return_code(ctx, selector)?;
    let cpl = (selector & 3) as u8;
    // In 64-bit mode SS:RSP is always popped.
    let stack = if ctx.cpu.is_64 || cpl > ctx.cpu.cpl {
        let new_rsp = ctx.stack_read(above, op.size)?;
        let ss = ctx.stack_read(above.wrapping_add(size), 2)? as u16;
        Some((return_stack(ctx, ss, code)?, new_rsp))
    } else {
        None
    };
    let old_cpl = ctx.cpu.cpl;
    ctx.check_target(code, rip, 0)?;
    commit_return(ctx, Return { code, cpl, stack }, above);
    finish_iret(ctx, flags, op.size, old_cpl);
    Ok(Next::Jump(rip))
}

/// Loads the flags that privilege level `cpl` may change, and ends the blocking of NMIs.
fn finish_iret<P: Port>(ctx: &mut Ctx<'_, P>, flags: u64, size: u8, cpl: u8) {
    let old = ctx.cpu.state.rflags;
    let iopl = (old & rflags::IOPL) >> rflags::IOPL_SHIFT;
    let mut mask = IRET_FLAGS;
    if u64::from(cpl) <= iopl {
        mask |= rflags::IF;
    }
    if cpl == 0 {
        mask |= rflags::IOPL | rflags::VIF | rflags::VIP;
    }
    if size == 2 {
        mask &= 0xffff;
    }
    ctx.cpu.nmi_blocked = false;
    set_flags(ctx, old & !mask | flags & mask);
    ctx.port.note(Note::InterruptReturned);
    ctx.cpu.refresh_attention();
}

/// Sets RFLAGS and reports a change of IF.
fn set_flags<P: Port>(ctx: &mut Ctx<'_, P>, value: u64) {
    let old = ctx.cpu.state.rflags;
    ctx.cpu.state.rflags = value & !rflags::RF | rflags::FIXED;
    if (old ^ value) & rflags::IF != 0 {
        ctx.port.note(Note::InterruptFlag(value & rflags::IF != 0));
    }
}

/// Makes flat CS and SS for a change of level by SYSCALL and kin.
fn set_flat<P: Port>(ctx: &mut Ctx<'_, P>, cs: (u16, u16), ss: u16, cpl: u8) {
    let dpl = if cpl == 3 { DPL3 } else { 0 };
    let state = &mut ctx.cpu.state;
    state.seg[SegReg::Cs as usize] = flat_segment(cs.0, cs.1 | dpl);
    state.seg[SegReg::Ss as usize] = flat_segment(ss, DATA | dpl);
    ctx.cpu.cpl = cpl;
    ctx.cpu.update_mode();
}

/// Source: [SDM-2] "SYSCALL": #UD outside 64-bit mode; [APM-3] "SYSCALL": compatibility mode uses
/// CSTAR.
fn syscall<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    let cpu = &*ctx.cpu;
    let is_amd = cpu.config.vendor == Vendor::Amd;
    let is_there = cpu.has(Features::SYSCALL)
        && cpu.state.efer & efer::SCE != 0
        && (cpu.is_64 || is_amd && cpu.is_long());
    if !is_there {
        return Err(Exception::ud().into());
    }
    let state = &cpu.state;
    let back = op.next_ip(state.rip);
    let target = if cpu.is_64 { state.lstar } else { state.cstar };
    let selector = (state.star >> 32) as u16 & 0xfffc;
    let old = state.rflags;
    ctx.cpu.state.gpr[gpr::RCX] = back;
    ctx.cpu.state.gpr[gpr::R11] = old & !rflags::RF;
    let mask = ctx.cpu.state.fmask;
    set_flags(ctx, old & !mask);
    ctx.cpu.drops_trap = ctx.cpu.state.rflags & rflags::TF == 0;
    set_flat(ctx, (selector, CODE_64), selector.wrapping_add(8), 0);
    Ok(Next::Jump(target))
}

/// Source: [SDM-2] "SYSRET": "#GP(0) if … RCX contains a non-canonical address" and the operand
/// size is 64; [APM-3] "SYSRET" has no such check, the fault comes at the target.
fn sysret<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    let cpu = &*ctx.cpu;
    let is_amd = cpu.config.vendor == Vendor::Amd;
    let is_there = cpu.has(Features::SYSCALL)
        && cpu.state.efer & efer::SCE != 0
        && (cpu.is_64 || is_amd && cpu.is_long());
    if !is_there {
        return Err(Exception::ud().into());
    }
    ctx.require_cpl0()?;
    let state = &ctx.cpu.state;
    let to_64 = op.size == 8;
    let rcx = state.gpr[gpr::RCX];
    if to_64 && !is_amd && !ctx.cpu.is_canonical(rcx) {
        return Err(Exception::gp(0).into());
    }
    let base = (state.star >> 48) as u16;
    let cs = if to_64 { (base.wrapping_add(16) | 3, CODE_64) } else { (base | 3, CODE_32) };
    let ss = base.wrapping_add(8) | 3;
    let flags = state.gpr[gpr::R11] & SYSRET_FLAGS | rflags::FIXED;
    set_flags(ctx, flags);
    set_flat(ctx, cs, ss, 3);
    Ok(Next::Jump(if to_64 { rcx } else { rcx & 0xffff_ffff }))
}

/// Source: [SDM-2] "SYSENTER"; [APM-3] "SYSENTER": #UD in long mode.
fn sysenter<P: Port>(ctx: &mut Ctx<'_, P>) -> Exec<Next> {
    require_sysenter(ctx)?;
    let [cs, esp, eip] = ctx.cpu.state.sysenter;
    if !ctx.cpu.is_protected() || cs & 0xfffc == 0 {
        return Err(Exception::gp(0).into());
    }
    let selector = cs as u16 & 0xfffc;
    let is_long = ctx.cpu.is_long();
    let old = ctx.cpu.state.rflags;
    set_flags(ctx, old & !(rflags::VM | rflags::IF));
    let code = if is_long { CODE_64 } else { CODE_32 };
    set_flat(ctx, (selector, code), selector.wrapping_add(8), 0);
    let wide = |value: u64| if is_long { value } else { value & 0xffff_ffff };
    ctx.cpu.state.gpr[gpr::RSP] = wide(esp);
    Ok(Next::Jump(wide(eip)))
}

/// Source: [SDM-2] "SYSEXIT".
fn sysexit<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Next> {
    require_sysenter(ctx)?;
    let base = ctx.cpu.state.sysenter[0] as u16;
    if !ctx.cpu.is_protected() || base & 0xfffc == 0 {
        return Err(Exception::gp(0).into());
    }
    ctx.require_cpl0()?;
    let (rcx, rdx) = (ctx.cpu.state.gpr[gpr::RCX], ctx.cpu.state.gpr[gpr::RDX]);
    let to_64 = op.size == 8;
    if to_64 && !(ctx.cpu.is_canonical(rcx) && ctx.cpu.is_canonical(rdx)) {
        return Err(Exception::gp(0).into());
    }
    let (cs, ss) = if to_64 {
        ((base.wrapping_add(32) | 3, CODE_64), base.wrapping_add(40) | 3)
    } else {
        ((base.wrapping_add(16) | 3, CODE_32), base.wrapping_add(24) | 3)
    };
    set_flat(ctx, cs, ss, 3);
    let wide = |value: u64| if to_64 { value } else { value & 0xffff_ffff };
    ctx.cpu.state.gpr[gpr::RSP] = wide(rcx);
    Ok(Next::Jump(wide(rdx)))
}

fn require_sysenter<P: Port>(ctx: &Ctx<'_, P>) -> Exec<()> {
    let cpu = &ctx.cpu;
    let is_amd_long = cpu.config.vendor == Vendor::Amd && cpu.is_long();
    let is_there = cpu.has(Features::SYSENTER) && !is_amd_long;
    if is_there { Ok(()) } else { Err(Exception::ud().into()) }
}
