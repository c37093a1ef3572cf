//! Flag instructions, fences, time reads, cache lines, and the rest.

use emu_cpu::port::{Fence, Port, TimeOrder};

use super::{Body, Next, fault, operand, require};
use crate::ctx::{Ctx, Exception, Exec};
use crate::decode::Op;
use crate::defs::Features;
use crate::flags::{self, CF, mask, sign_extend};
use crate::mmu::Place;
use crate::state::gpr;

/// Flags that LAHF and SAHF move.
const AH_FLAGS: u64 = flags::SF | flags::ZF | flags::AF | flags::PF | flags::CF;

/// LAHF.
pub(super) fn lahf<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    let state = &mut ctx.cpu.state;
    let ah = (state.rflags & AH_FLAGS) | flags::FIXED;
    state.gpr[gpr::RAX] = (state.gpr[gpr::RAX] & !0xff00) | ah << 8;
    Ok(Next::Seq)
}

/// SAHF.
pub(super) fn sahf<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    let state = &mut ctx.cpu.state;
    let ah = state.gpr[gpr::RAX] >> 8;
    state.rflags = (state.rflags & !AH_FLAGS) | (ah & AH_FLAGS);
    Ok(Next::Seq)
}

/// CLC, STC, CLD, STD; `None` complements: CMC.
pub(super) fn set_flag<P: Port>(ctx: &mut Ctx<'_, P>, flag: u64, on: Option<bool>) -> Body {
    let rflags = &mut ctx.cpu.state.rflags;
    let on = on.unwrap_or(*rflags & flag == 0);
    *rflags = flags::set(*rflags, flag, on);
    Ok(Next::Seq)
}

/// XLAT: AL from the table at RBX.
pub(super) fn xlat<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let state = &ctx.cpu.state;
    let offset = state.gpr[gpr::RBX].wrapping_add(state.gpr[gpr::RAX] & 0xff) & mask(op.asize);
    let value = ctx.read(op.seg, offset, 1)?;
    operand::set_gpr(&mut ctx.cpu.state, gpr::RAX, 1, value);
    Ok(Next::Seq)
}

/// SALC: AL from the carry flag.
pub(super) fn salc<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    let state = &mut ctx.cpu.state;
    let value = if state.rflags & CF != 0 { 0xff } else { 0 };
    operand::set_gpr(state, gpr::RAX, 1, value);
    Ok(Next::Seq)
}

/// BOUND: #BR unless the index lies between the two bounds.
pub(super) fn bound<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (seg, offset) = ctx.ea(op);
    let size = op.size;
    let low = ctx.read(seg, offset, size)?;
    let high = ctx.read(seg, offset.wrapping_add(u64::from(size)) & mask(op.asize), size)?;
    let signed = |value| sign_extend(value, size) as i64;
    let index = signed(operand::reg(&ctx.cpu.state, op.dst, size));
    if index < signed(low) || index > signed(high) {
        return fault(Exception::br());
    }
    Ok(Next::Seq)
}

/// LFENCE.
pub(super) fn lfence<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    ctx.fence(Fence::Load)?;
    Ok(Next::Seq)
}

/// MFENCE.
pub(super) fn mfence<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    ctx.fence(Fence::Full)?;
    Ok(Next::Seq)
}

/// CLFLUSH and CLFLUSHOPT: checked as a load of one byte. Both are ordered like CLFLUSH, and one
/// is not refused where only the other is offered.
pub(super) fn flush_line<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    if let Place::Ram(pa) = line_place(ctx, op)? {
        ctx.port.flush_line(emu_sim::PhysAddr(pa))?;
    }
    Ok(Next::Seq)
}

/// CLWB: checked as a load of one byte. The line stays where it is, which is allowed; memory has
/// the value already, as the model keeps one copy.
pub(super) fn write_back_line<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::CLWB)?;
    line_place(ctx, op)?;
    Ok(Next::Seq)
}

fn line_place<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Place> {
    let (seg, offset) = ctx.ea(op);
    let lin = ctx.linear(seg, offset, 1, false)?;
    let access = ctx.read_access();
    ctx.translate_in(seg, lin, access)
}

/// Writes EDX:EAX.
fn set_pair<P: Port>(ctx: &mut Ctx<'_, P>, value: u64) {
    ctx.cpu.state.gpr[gpr::RAX] = value & 0xffff_ffff;
    ctx.cpu.state.gpr[gpr::RDX] = value >> 32;
}

/// RDTSC.
pub(super) fn rdtsc<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    let value = ctx.read_tsc(TimeOrder::Early)?;
    set_pair(ctx, value);
    Ok(Next::Seq)
}

/// RDTSCP.
pub(super) fn rdtscp<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    require(ctx, Features::RDTSCP)?;
    let value = ctx.read_tsc(TimeOrder::Retired)?;
    set_pair(ctx, value);
    ctx.cpu.state.gpr[gpr::RCX] = ctx.cpu.state.tsc_aux & 0xffff_ffff;
    Ok(Next::Seq)
}

/// RDPID.
pub(super) fn rdpid<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::RDPID)?;
    ctx.cpu.state.gpr[op.dst.number()] = ctx.cpu.state.tsc_aux & 0xffff_ffff;
    Ok(Next::Seq)
}

/// An instruction that decodes but has no body: reported once, then #UD.
#[cold]
pub(super) fn unimplemented<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let rip = ctx.cpu.state.rip;
    ctx.port.report_unimplemented(rip, &op.raw_bytes()[..usize::from(op.len)]);
    fault(Exception::ud())
}
