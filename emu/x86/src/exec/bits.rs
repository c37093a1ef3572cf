//! Bit tests, scans, counts, byte swap, CRC.
//!
//! Undefined flags: BT and kin change only CF; BSF and BSR set PF by the result, LZCNT and TZCNT
//! none, and all four clear the others, as measured on Intel cores. A scan of zero leaves the
//! destination, as all cores do (and the APM says); a 32-bit destination then keeps its upper half.
//! Without BMI1, TZCNT is BSF, and without LZCNT, LZCNT is BSR: their prefix is ignored.

use emu_cpu::port::Port;

use super::{Body, Next, operand, require};
use crate::ctx::Ctx;
use crate::decode::{BitOp, Op};
use crate::defs::Features;
use crate::flags::{self, ARITH, CF, PF, ZF, sign_extend, szp};

/// Reversed CRC32C polynomial.
const CRC32C: u32 = 0x82f6_3b78;

/// BT, BTS, BTR, BTC. A register index on a memory operand reaches beyond the operand.
pub(super) fn bit<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: BitOp) -> Body {
    let size = op.size;
    let bits = 8 * u64::from(size);
    let index = operand::get(ctx, op, op.src, size)?;
    let n = index & (bits - 1);
    let mut target = *op;
    if op.dst.is_mem() && op.src.is_gpr() {
        // Whole operands away from the address, by the signed index.
        let index = sign_extend(index, size) as i64;
        let units = index >> bits.trailing_zeros();
        target.disp = op.disp.wrapping_add(units.wrapping_mul(i64::from(size)));
    }
    let carry = if what == BitOp::Bt {
        (operand::get(ctx, &target, op.dst, size)? >> n) & 1
    } else {
        operand::modify(ctx, &target, |a| {
            let new = match what {
                BitOp::Bts => a | 1 << n,
                BitOp::Btr => a & !(1 << n),
                _ => a ^ 1 << n,
            };
            (new, (a >> n) & 1)
        })?
    };
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::set(*rflags, CF, carry != 0);
    Ok(Next::Seq)
}

/// BSF.
pub(super) fn bsf<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    scan(ctx, op, u64::trailing_zeros)
}

/// BSR.
pub(super) fn bsr<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    scan(ctx, op, |a| 63 - a.leading_zeros())
}

fn scan<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, find: impl Fn(u64) -> u32) -> Body {
    let value = operand::get(ctx, op, op.src, op.size)?;
    let state = &mut ctx.cpu.state;
    if value == 0 {
        state.rflags = flags::merge(state.rflags, ZF | PF);
        return Ok(Next::Seq);
    }
    let result = u64::from(find(value));
    operand::set_reg(state, op.dst, op.size, result);
    state.rflags = flags::merge(state.rflags, szp(result, op.size) & PF);
    Ok(Next::Seq)
}

/// TZCNT.
pub(super) fn tzcnt<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    if !ctx.cpu.has(Features::BMI1) {
        return bsf(ctx, op);
    }
    count(ctx, op, |value, bits| value.trailing_zeros().min(bits))
}

/// LZCNT.
pub(super) fn lzcnt<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    if !ctx.cpu.has(Features::LZCNT) {
        return bsr(ctx, op);
    }
    count(ctx, op, |value, bits| value.leading_zeros() - (64 - bits))
}

fn count<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, f: impl Fn(u64, u32) -> u32) -> Body {
    let value = operand::get(ctx, op, op.src, op.size)?;
    let result = f(value, 8 * u32::from(op.size));
    let state = &mut ctx.cpu.state;
    operand::set_reg(state, op.dst, op.size, u64::from(result));
    let carry = if value == 0 { CF } else { 0 };
    let zero = if result == 0 { ZF } else { 0 };
    state.rflags = flags::merge(state.rflags, carry | zero);
    Ok(Next::Seq)
}

/// POPCNT.
pub(super) fn popcnt<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::POPCNT)?;
    let value = operand::get(ctx, op, op.src, op.size)?;
    let state = &mut ctx.cpu.state;
    operand::set_reg(state, op.dst, op.size, u64::from(value.count_ones()));
    state.rflags = (state.rflags & !ARITH) | if value == 0 { ZF } else { 0 };
    Ok(Next::Seq)
}

/// BSWAP. With 16 bits undefined: the low half becomes zero, as on known cores.
pub(super) fn bswap<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let state = &mut ctx.cpu.state;
    let value = operand::reg(state, op.dst, op.size);
    let swapped = match op.size {
        8 => value.swap_bytes(),
        4 => u64::from((value as u32).swap_bytes()),
        _ => 0,
    };
    operand::set_reg(state, op.dst, op.size, swapped);
    Ok(Next::Seq)
}

/// CRC32: the Castagnoli polynomial, byte by byte.
pub(super) fn crc32<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::SSE42)?;
    let value = operand::get(ctx, op, op.src, op.src_size)?;
    let state = &mut ctx.cpu.state;
    let mut crc = state.gpr[op.dst.number()] as u32;
    for byte in value.to_le_bytes().iter().take(usize::from(op.src_size)) {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ if crc & 1 != 0 { CRC32C } else { 0 };
        }
    }
    operand::set_reg(state, op.dst, op.size, u64::from(crc));
    Ok(Next::Seq)
}
