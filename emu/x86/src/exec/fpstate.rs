//! FXSAVE, FXRSTOR, XSAVE, XRSTOR: the legacy area and the header.
//!
//! Components: x87 and SSE, the standard format. XSAVEOPT saves as XSAVE does, without the
//! optimisation, which is allowed. Not modelled: the compacted format (XSAVEC, XSAVES).
//!
//! Source: [SDM-1] "FXSAVE and FXRSTOR", "Managing State Using the XSAVE Feature Set".

use emu_cpu::port::Port;

use super::fpu::{check_sse, legal_fcw, summarised};
use super::{Body, Next, fault};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::{FpStateOp, Op};
use crate::defs::{cr0, cr4};
use crate::flags::mask;
use crate::state::{FpState, SegReg, gpr};

/// Bytes of the legacy area.
const LEGACY_BYTES: u64 = 512;
/// Bytes of the XSAVE header.
const HEADER_BYTES: u64 = 64;
/// Offset of MXCSR with its mask.
const MXCSR: u64 = 24;
/// Offset of the x87 registers.
const ST: u64 = 32;
/// Offset of the XMM registers.
const XMM: u64 = 160;
/// MXCSR bits that may be set.
pub(super) const MXCSR_MASK: u32 = 0xffff;
/// XCR0 bit of x87.
const X87: u64 = 1;
/// XCR0 bit of SSE.
const SSE: u64 = 2;

/// A save area: where it is, and in which format.
#[derive(Clone, Copy)]
struct Area {
    seg: SegReg,
    offset: u64,
    asize: u8,
    has_64_format: bool,
    registers: usize,
}

impl Area {
    fn at(&self, offset: u64) -> u64 {
        self.offset.wrapping_add(offset) & mask(self.asize)
    }
}

/// Executes one of them.
pub(super) fn save_restore<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: FpStateOp) -> Body {
    let is_xsave = matches!(what, FpStateOp::Xsave | FpStateOp::Xrstor);
    if is_xsave && ctx.cpu.state.cr4 & cr4::OSXSAVE == 0 {
        return fault(Exception::ud());
    }
    let blocked = if is_xsave { cr0::TS } else { cr0::TS | cr0::EM };
    if ctx.cpu.state.cr0 & blocked != 0 {
        return fault(Exception::nm());
    }
    let (seg, offset) = ctx.ea(op);
    ctx.check_canonical(seg, offset)?;
    ctx.check_alignment(seg, offset, if is_xsave { 64 } else { 16 })?;
    let area = Area {
        seg,
        offset,
        asize: op.asize,
        has_64_format: op.size == 8,
        registers: if op.bits == 64 { 16 } else { 8 },
    };
    match what {
        FpStateOp::Fxsave => {
            ctx.probe_write(seg, offset, LEGACY_BYTES as u32)?;
            save_x87(ctx, area)?;
            save_mxcsr(ctx, area)?;
            save_xmm(ctx, area)?;
        }
        FpStateOp::Fxrstor => {
            // All of the area is read, reserved bytes too.
            ctx.probe_read(seg, offset, LEGACY_BYTES as u32)?;
            let mut fp = ctx.cpu.state.fp.clone();
            load_x87(ctx, area, &mut fp)?;
            load_mxcsr(ctx, area, &mut fp)?;
            load_xmm(ctx, area, &mut fp)?;
            ctx.cpu.state.fp = fp;
        }
        FpStateOp::Xsave => xsave(ctx, area)?,
        FpStateOp::Xrstor => xrstor(ctx, area)?,
    }
    Ok(Next::Seq)
}

/// Components asked for, of those enabled.
fn requested<P: Port>(ctx: &Ctx<'_, P>) -> u64 {
    let state = &ctx.cpu.state;
    let asked = state.gpr[gpr::RDX] << 32 | state.gpr[gpr::RAX] & 0xffff_ffff;
    asked & state.fp.xcr0
}

fn xsave<P: Port>(ctx: &mut Ctx<'_, P>, area: Area) -> Exec<()> {
    let wanted = requested(ctx);
    ctx.probe_write(area.seg, area.offset, (LEGACY_BYTES + HEADER_BYTES) as u32)?;
    let saved = ctx.read(area.seg, area.at(LEGACY_BYTES), 8)?;
    if wanted & X87 != 0 {
        save_x87(ctx, area)?;
    }
    if wanted & SSE != 0 {
        save_mxcsr(ctx, area)?;
        save_xmm(ctx, area)?;
    }
    // All components are reported in use: the init optimisation is not modelled.
    ctx.write(area.seg, area.at(LEGACY_BYTES), 8, saved | wanted)
}

fn xrstor<P: Port>(ctx: &mut Ctx<'_, P>, area: Area) -> Exec<()> {
    let wanted = requested(ctx);
    let present = ctx.read(area.seg, area.at(LEGACY_BYTES), 8)?;
    let compaction = ctx.read(area.seg, area.at(LEGACY_BYTES + 8), 8)?;
    let reserved = ctx.read(area.seg, area.at(LEGACY_BYTES + 16), 8)?;
    if present & !ctx.cpu.state.fp.xcr0 != 0 || compaction != 0 || reserved != 0 {
        return fault(Exception::gp(0));
    }
    let mut fp = ctx.cpu.state.fp.clone();
    let init = FpState::default();
    if wanted & SSE != 0 {
        // "the value of MXCSR is loaded from memory" even if the component is in its initial state.
        load_mxcsr(ctx, area, &mut fp)?;
        if present & SSE != 0 {
            load_xmm(ctx, area, &mut fp)?;
        } else {
            fp.xmm[..area.registers].fill(0);
        }
    }
    if wanted & X87 != 0 {
        if present & X87 != 0 {
            load_x87(ctx, area, &mut fp)?;
        } else {
            fp = FpState { xmm: fp.xmm, mxcsr: fp.mxcsr, xcr0: fp.xcr0, ..init };
        }
    }
    ctx.cpu.state.fp = fp;
    Ok(())
}

/// Physical register of ST(i).
fn physical(fsw: u16, i: usize) -> usize {
    (usize::from(fsw >> 11) + i) & 7
}

fn save_x87<P: Port>(ctx: &mut Ctx<'_, P>, area: Area) -> Exec<()> {
    let fp = ctx.cpu.state.fp.clone();
    let control = u64::from(fp.fcw)
        | u64::from(fp.fsw) << 16
        | u64::from(fp.ftw) << 32
        | u64::from(fp.fop) << 48;
    ctx.write(area.seg, area.at(0), 8, control)?;
    // The selectors of the 32-bit format are deprecated and stored as zero.
    let pointer_mask = if area.has_64_format { u64::MAX } else { 0xffff_ffff };
    ctx.write(area.seg, area.at(8), 8, fp.fip & pointer_mask)?;
    ctx.write(area.seg, area.at(16), 8, fp.fdp & pointer_mask)?;
    for i in 0..8 {
        let value = fp.st[physical(fp.fsw, i)];
        ctx.write_wide(area.seg, area.at(ST + 16 * i as u64), false, value)?;
    }
    Ok(())
}

fn load_x87<P: Port>(ctx: &mut Ctx<'_, P>, area: Area, fp: &mut FpState) -> Exec<()> {
    let control = ctx.read(area.seg, area.at(0), 8)?;
    let pointer_mask = if area.has_64_format { u64::MAX } else { 0xffff_ffff };
    fp.fip = ctx.read(area.seg, area.at(8), 8)? & pointer_mask;
    fp.fdp = ctx.read(area.seg, area.at(16), 8)? & pointer_mask;
    fp.fcw = legal_fcw(control as u16);
    fp.fsw = summarised((control >> 16) as u16, fp.fcw);
    fp.ftw = (control >> 32) as u8;
    fp.fop = (control >> 48) as u16 & 0x7ff;
    for i in 0..8 {
        let value = ctx.read_wide(area.seg, area.at(ST + 16 * i as u64), false)?;
        fp.st[physical(fp.fsw, i)] = value & (u128::MAX >> 48);
    }
    Ok(())
}

fn save_mxcsr<P: Port>(ctx: &mut Ctx<'_, P>, area: Area) -> Exec<()> {
    let value = u64::from(ctx.cpu.state.fp.mxcsr) | u64::from(MXCSR_MASK) << 32;
    ctx.write(area.seg, area.at(MXCSR), 8, value)
}

fn load_mxcsr<P: Port>(ctx: &mut Ctx<'_, P>, area: Area, fp: &mut FpState) -> Exec<()> {
    let value = ctx.read(area.seg, area.at(MXCSR), 4)? as u32;
    if value & !MXCSR_MASK != 0 {
        return fault(Exception::gp(0));
    }
    fp.mxcsr = value;
    Ok(())
}

fn save_xmm<P: Port>(ctx: &mut Ctx<'_, P>, area: Area) -> Exec<()> {
    for i in 0..area.registers {
        let value = ctx.cpu.state.fp.xmm[i];
        ctx.write_wide(area.seg, area.at(XMM + 16 * i as u64), false, value)?;
    }
    Ok(())
}

fn load_xmm<P: Port>(ctx: &mut Ctx<'_, P>, area: Area, fp: &mut FpState) -> Exec<()> {
    for i in 0..area.registers {
        fp.xmm[i] = ctx.read_wide(area.seg, area.at(XMM + 16 * i as u64), false)?;
    }
    Ok(())
}

/// LDMXCSR.
pub(super) fn load_control<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    check_sse(ctx)?;
    let (seg, offset) = ctx.ea(op);
    let value = ctx.read(seg, offset, 4)? as u32;
    if value & !MXCSR_MASK != 0 {
        return fault(Exception::gp(0));
    }
    ctx.cpu.state.fp.mxcsr = value;
    Ok(Next::Seq)
}

/// STMXCSR.
pub(super) fn store_control<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    check_sse(ctx)?;
    let (seg, offset) = ctx.ea(op);
    ctx.write(seg, offset, 4, u64::from(ctx.cpu.state.fp.mxcsr))?;
    Ok(Next::Seq)
}
