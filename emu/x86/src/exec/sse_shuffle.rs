//! Shuffles, insertion and extraction of elements.

use emu_cpu::port::Port;

use super::fpu::check_sse;
use super::sse_mov::{LOW64, destination, source};
use super::{Body, Next, operand, require};
use crate::ctx::{Ctx, Exec};
use crate::decode::{Op, ShuffleOp};
use crate::defs::Features;
use crate::flags::{self, CF, ZF, mask, sign_extend};

/// Executes one of them.
pub(super) fn shuffle<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: ShuffleOp) -> Body {
    check_sse(ctx)?;
    require(ctx, feature(op, what))?;
    match what {
        ShuffleOp::Pinsr => insert(ctx, op)?,
        ShuffleOp::Pextr => extract(ctx, op)?,
        ShuffleOp::Ptest => test(ctx, op)?,
        ShuffleOp::Pmovzx => extend(ctx, op, |value, _| value)?,
        ShuffleOp::Pmovsx => extend(ctx, op, sign_extend)?,
        _ => {
            let b = source(ctx, op, op.src, 16)?;
            let control = op.imm as u8;
            let to = destination(ctx, op);
            *to = permute(what, *to, b, control);
        }
    }
    Ok(Next::Seq)
}

/// The extension that an operation came with; empty for SSE2.
fn feature(op: &Op, what: ShuffleOp) -> Features {
    match what {
        ShuffleOp::Palignr => Features::SSSE3,
        ShuffleOp::Ptest | ShuffleOp::Pmovzx | ShuffleOp::Pmovsx => Features::SSE41,
        // PINSRW, and PEXTRW to a register, are of SSE2.
        ShuffleOp::Pinsr if op.src_size != 2 => Features::SSE41,
        ShuffleOp::Pextr if op.src_size != 2 || op.dst.is_mem() => Features::SSE41,
        _ => Features::empty(),
    }
}

/// Four elements of `bits` bits, picked by two control bits each.
fn pick4(value: u128, bits: u32, control: u8) -> u128 {
    let ones = u128::MAX >> (128 - bits);
    (0..4).fold(0, |result, i| {
        let from = u32::from(control >> (2 * i) & 3);
        result | (value >> (from * bits) & ones) << (i * bits)
    })
}

fn permute(what: ShuffleOp, a: u128, b: u128, control: u8) -> u128 {
    match what {
        ShuffleOp::Pshufd => pick4(b, 32, control),
        ShuffleOp::Pshuflw => (b & !LOW64) | pick4(b, 16, control),
        ShuffleOp::Pshufhw => (b & LOW64) | pick4(b >> 64, 16, control) << 64,
        ShuffleOp::Shufps => (pick4(a, 32, control) & LOW64) | (pick4(b, 32, control) & !LOW64),
        ShuffleOp::Shufpd => {
            let half = |value: u128, bit: u8| (value >> (64 * u32::from(bit & 1))) & LOW64;
            half(a, control) | half(b, control >> 1) << 64
        }
        _ => align(a, b, u32::from(control)),
    }
}

/// PALIGNR: 16 bytes of the pair `a:b`, from byte `n`.
fn align(a: u128, b: u128, n: u32) -> u128 {
    match n {
        0 => b,
        1..16 => b >> (8 * n) | a << (128 - 8 * n),
        16..32 => a >> (8 * (n - 16)),
        _ => 0,
    }
}

/// Bit position of the element that the immediate selects.
fn selected(op: &Op) -> u32 {
    let bits = 8 * u32::from(op.src_size);
    (op.imm as u32 & (128 / bits - 1)) * bits
}

fn insert<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let value = operand::get(ctx, op, op.src, op.src_size)?;
    let ones = u128::from(mask(op.src_size));
    let at = selected(op);
    let to = destination(ctx, op);
    *to = (*to & !(ones << at)) | (u128::from(value) & ones) << at;
    Ok(())
}

/// A register destination is cleared beyond the element; memory takes the element alone.
fn extract<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let value = (ctx.cpu.state.fp.xmm[op.src.number()] >> selected(op)) as u64;
    let size = if op.dst.is_mem() { op.src_size } else { 8 };
    operand::put(ctx, op, size, value & mask(op.src_size))
}

fn test<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<()> {
    let b = source(ctx, op, op.src, 16)?;
    let a = *destination(ctx, op);
    let zero = if a & b == 0 { ZF } else { 0 };
    let carry = if !a & b == 0 { CF } else { 0 };
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::merge(*rflags, zero | carry);
    Ok(())
}

/// PMOVZX, PMOVSX; `op.size` holds both element sizes.
fn extend<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, f: fn(u64, u8) -> u64) -> Exec<()> {
    let value = source(ctx, op, op.src, op.src_size)?;
    let (from, to_size) = (op.size & 0xf, op.size >> 4);
    let result = (0..16 / to_size).fold(0, |result, i| {
        let element = (value >> (8 * from * i)) as u64 & mask(from);
        result | u128::from(f(element, from) & mask(to_size)) << (8 * to_size * i)
    });
    *destination(ctx, op) = result;
    Ok(())
}
