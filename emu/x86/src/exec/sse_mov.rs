//! Moves of vector registers.
//!
//! Non-temporal stores are ordinary stores (`engine.md` section 5).

use emu_cpu::port::Port;

use super::fpu::check_sse;
use super::{Body, Next, fpstate, operand, require};
use crate::ctx::{Ctx, Exec};
use crate::decode::{Op, Operand, VecMov};
use crate::defs::Features;
use crate::flags::mask;
use crate::state::gpr;

/// The low quarter of a register.
const LOW32: u128 = 0xffff_ffff;
/// The low half of a register.
pub(super) const LOW64: u128 = u64::MAX as u128;

/// Reads a vector source of `size` bytes: a register (whole), or memory, zero-extended. Memory of
/// 16 bytes must be aligned.
#[inline(always)]
pub(super) fn source<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    from: Operand,
    size: u8,
) -> Exec<u128> {
    if from.is_mem() {
        let (seg, offset) = ctx.ea(op);
        if size == 16 {
            ctx.read_wide(seg, offset, true)
        } else {
            Ok(u128::from(ctx.read(seg, offset, size)?))
        }
    } else {
        Ok(ctx.cpu.state.fp.xmm[from.number()])
    }
}

/// The vector register that is the destination.
#[inline(always)]
pub(super) fn destination<'a, P: Port>(ctx: &'a mut Ctx<'_, P>, op: &Op) -> &'a mut u128 {
    &mut ctx.cpu.state.fp.xmm[op.dst.number()]
}

/// Executes a move.
pub(super) fn vec_mov<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: VecMov) -> Body {
    match what {
        VecMov::LoadMxcsr => return fpstate::load_control(ctx, op),
        VecMov::StoreMxcsr => return fpstate::store_control(ctx, op),
        // MOVNTI has no vector operand: no check.
        VecMov::NtInteger => {
            let value = operand::reg(&ctx.cpu.state, op.src, op.size);
            operand::put(ctx, op, op.size, value)?;
            return Ok(Next::Seq);
        }
        _ => check_sse(ctx)?,
    }
    match what {
        VecMov::Aligned => whole(ctx, op, true)?,
        VecMov::Unaligned => whole(ctx, op, false)?,
        VecMov::Scalar => scalar(ctx, op)?,
        VecMov::Quad => quad(ctx, op)?,
        VecMov::Low => low(ctx, op)?,
        VecMov::High => high(ctx, op)?,
        VecMov::HighToLow => {
            let value = ctx.cpu.state.fp.xmm[op.src.number()] >> 64;
            let to = destination(ctx, op);
            *to = (*to & !LOW64) | value;
        }
        VecMov::LowToHigh => {
            let value = ctx.cpu.state.fp.xmm[op.src.number()] << 64;
            let to = destination(ctx, op);
            *to = (*to & LOW64) | value;
        }
        VecMov::Mask => sign_mask(ctx, op),
        VecMov::MaskStore => mask_store(ctx, op)?,
        VecMov::DupLow64 => {
            require(ctx, Features::SSE3)?;
            let value = source(ctx, op, op.src, 8)? & LOW64;
            *destination(ctx, op) = value | value << 64;
        }
        VecMov::DupEven32 => duplicate(ctx, op, 0)?,
        VecMov::DupOdd32 => duplicate(ctx, op, 32)?,
        VecMov::LoadMxcsr | VecMov::StoreMxcsr | VecMov::NtInteger => {}
    }
    Ok(Next::Seq)
}

/// 16 bytes between registers, or from or to memory.
fn whole<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, aligned: bool) -> Exec<()> {
    let (seg, offset) = ctx.ea(op);
    if op.dst.is_mem() {
        let value = ctx.cpu.state.fp.xmm[op.src.number()];
        return ctx.write_wide(seg, offset, aligned, value);
    }
    let value = if op.src.is_mem() {
        ctx.read_wide(seg, offset, aligned)?
    } else {
        ctx.cpu.state.fp.xmm[op.src.number()]
    };
    *destination(ctx, op) = value;
    Ok(())
}

/// MOVSS, MOVSD.
fn scalar<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let size = op.src_size;
    if op.dst.is_mem() {
        return store_low(ctx, op, size);
    }
    let is_load = op.src.is_mem();
    let value = source(ctx, op, op.src, size)?;
    let low = u128::from(mask(size));
    let to = destination(ctx, op);
    *to = if is_load { value } else { (*to & !low) | (value & low) };
    Ok(())
}

/// Stores the low `size` bytes of the source.
fn store_low<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, size: u8) -> Exec<()> {
    let (seg, offset) = ctx.ea(op);
    let value = ctx.cpu.state.fp.xmm[op.src.number()] as u64;
    ctx.write(seg, offset, size, value & mask(size))
}

/// MOVD, MOVQ, also between the register files.
fn quad<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    if op.dst.is_vector() {
        let value = if op.src.is_vector() {
            ctx.cpu.state.fp.xmm[op.src.number()] as u64
        } else {
            operand::get(ctx, op, op.src, op.src_size)?
        };
        *destination(ctx, op) = u128::from(value);
        return Ok(());
    }
    let value = ctx.cpu.state.fp.xmm[op.src.number()] as u64;
    operand::put(ctx, op, op.size, value)
}

/// MOVLPS, MOVLPD.
fn low<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    if op.dst.is_mem() {
        return store_low(ctx, op, 8);
    }
    let value = source(ctx, op, op.src, 8)?;
    let to = destination(ctx, op);
    *to = (*to & !LOW64) | value;
    Ok(())
}

/// MOVHPS, MOVHPD.
fn high<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    if op.dst.is_mem() {
        let (seg, offset) = ctx.ea(op);
        let value = (ctx.cpu.state.fp.xmm[op.src.number()] >> 64) as u64;
        return ctx.write(seg, offset, 8, value);
    }
    let value = source(ctx, op, op.src, 8)?;
    let to = destination(ctx, op);
    *to = (*to & LOW64) | value << 64;
    Ok(())
}

/// MOVSLDUP, MOVSHDUP: elements of 32 bits from bit `from` of each half, twice.
fn duplicate<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, from: u32) -> Exec<()> {
    require(ctx, Features::SSE3)?;
    let value = source(ctx, op, op.src, 16)? >> from;
    let picked = value & (LOW32 | LOW32 << 64);
    *destination(ctx, op) = picked | picked << 32;
    Ok(())
}

/// PMOVMSKB, MOVMSKPS, MOVMSKPD: the sign of each element.
fn sign_mask<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) {
    let value = ctx.cpu.state.fp.xmm[op.src.number()];
    let bits = 8 * u32::from(op.src_size);
    let signs = (0..128 / bits)
        .map(|i| ((value >> (i * bits + bits - 1)) as u64 & 1) << i)
        .fold(0, |all, bit| all | bit);
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, signs);
}

/// MASKMOVDQU: bytes whose mask byte is negative, to RDI. Each byte is an access of its own.
fn mask_store<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let to = ctx.cpu.state.gpr[gpr::RDI];
    let fp = &ctx.cpu.state.fp;
    let (value, select) = (fp.xmm[op.src.number()], fp.xmm[op.src2.number()]);
    // All bytes are checked, selected or not, as measured on Intel cores.
    ctx.probe_write(op.seg, to & mask(op.asize), 16)?;
    for (i, byte) in value.to_le_bytes().into_iter().enumerate() {
        if select >> (8 * i + 7) & 1 != 0 {
            let offset = to.wrapping_add(i as u64) & mask(op.asize);
            ctx.write(op.seg, offset, 1, u64::from(byte))?;
        }
    }
    Ok(())
}
