//! Integer arithmetic, logic, bit fields, conditional select and compare, multiply, divide.

use emu_cpu::port::Port;

use super::{Body, Next, operand, require};
use crate::ctx::Ctx;
use crate::decode::{Alu, Bitfield, Divide, Op, Select, Shift, Source, Unary, Wide};
use crate::defs::Features;

/// `PSTATE.N` at its place.
pub(super) const N: u32 = 1 << 31;
/// `PSTATE.Z` at its place.
pub(super) const Z: u32 = 1 << 30;
/// `PSTATE.C` at its place.
pub(super) const C: u32 = 1 << 29;
/// `PSTATE.V` at its place.
pub(super) const V: u32 = 1 << 28;

/// `AddWithCarry`: result and flags.
#[inline(always)]
fn add_with_carry(a: u64, b: u64, carry: u64, wide: bool) -> (u64, u32) {
    let (result, c, v) = if wide {
        let (sum, c1) = a.overflowing_add(b);
        let (sum, c2) = sum.overflowing_add(carry);
        (sum, c1 | c2, (a ^ sum) & (b ^ sum) & 1 << 63 != 0)
    } else {
        let (a, b) = (a & 0xffff_ffff, b & 0xffff_ffff);
        let sum = a + b + carry;
        (sum & 0xffff_ffff, sum >> 32 != 0, (a ^ sum) & (b ^ sum) & 1 << 31 != 0)
    };
    let flags = sign_and_zero(result, wide);
    (result, flags | if c { C } else { 0 } | if v { V } else { 0 })
}

#[inline(always)]
fn sign_and_zero(result: u64, wide: bool) -> u32 {
    let sign = if wide { result >> 63 } else { result >> 31 & 1 };
    (sign as u32) << 31 | if result == 0 { Z } else { 0 }
}

/// `ConditionHolds`.
#[inline(always)]
pub(super) fn condition_holds(cond: u8, nzcv: u32) -> bool {
    let (n, z, c, v) = (nzcv & N != 0, nzcv & Z != 0, nzcv & C != 0, nzcv & V != 0);
    let result = match cond >> 1 {
        0 => z,
        1 => c,
        2 => n,
        3 => v,
        4 => c && !z,
        5 => n == v,
        6 => n == v && !z,
        _ => return true,
    };
    result != (cond & 1 != 0)
}

/// Sets the result of an instruction without flags.
#[inline(always)]
fn finish<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, value: u64) -> Body {
    ctx.cpu.state.set_x(op.rd, value & operand::mask(op));
    Ok(Next::Seq)
}

/// ADD, SUB, ADDS, SUBS.
#[inline(always)]
pub(super) fn arithmetic<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    source: Source,
    subtract: bool,
) -> Body {
    let a = operand::get(ctx, op.rn);
    let b = operand::second(ctx, op, source);
    if op.flags {
        let (b, carry) = if subtract { (!b, 1) } else { (b, 0) };
        let (result, nzcv) = add_with_carry(a, b, carry, op.wide);
        ctx.cpu.state.pstate.nzcv = nzcv;
        ctx.cpu.state.set_x(op.rd, result);
    } else {
        let result = if subtract { a.wrapping_sub(b) } else { a.wrapping_add(b) };
        operand::set(ctx, op.rd, result & operand::mask(op));
    }
    Ok(Next::Seq)
}

/// AND, ORR, EOR and their inverted forms.
#[inline(always)]
pub(super) fn logical<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, alu: Alu, source: Source) -> Body {
    let a = ctx.cpu.state.x(op.rn);
    let b = operand::second(ctx, op, source);
    let result = match alu {
        Alu::Or => a | b,
        Alu::Xor => a ^ b,
        Alu::Bic => a & !b,
        Alu::Orn => a | !b,
        Alu::Eon => a ^ !b,
        _ => a & b,
    } & operand::mask(op);
    if op.flags {
        ctx.cpu.state.pstate.nzcv = sign_and_zero(result, op.wide);
    }
    operand::set(ctx, op.rd, result);
    Ok(Next::Seq)
}

/// MOVZ, MOVN.
#[inline(always)]
pub(super) fn mov_imm<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    ctx.cpu.state.set_x(op.rd, op.imm);
    Ok(Next::Seq)
}

/// MOVK.
pub(super) fn mov_keep<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let old = ctx.cpu.state.x(op.rd);
    finish(ctx, op, old & !op.imm2 | op.imm)
}

/// ADR, ADRP.
pub(super) fn adr<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, is_page: bool) -> Body {
    let pc = ctx.cpu.state.pc;
    let base = if is_page { pc & !0xfff } else { pc };
    finish(ctx, op, base.wrapping_add(op.imm))
}

/// ADC, SBC and their flag-setting forms.
pub(super) fn carry<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, subtract: bool) -> Body {
    let (a, b) = (ctx.cpu.state.x(op.rn), ctx.cpu.state.x(op.rm));
    let nzcv = ctx.cpu.state.pstate.nzcv;
    let b = if subtract { !b } else { b };
    let (result, flags) = add_with_carry(a, b, u64::from(nzcv & C != 0), op.wide);
    if op.flags {
        ctx.cpu.state.pstate.nzcv = flags;
    }
    finish(ctx, op, result)
}

/// CCMP, CCMN.
pub(super) fn compare<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, b: u64, subtract: bool) -> Body {
    let state = &mut ctx.cpu.state;
    let nzcv = if condition_holds(op.amount, state.pstate.nzcv) {
        let (b, carry) = if subtract { (!b, 1) } else { (b, 0) };
        add_with_carry(state.x(op.rn), b, carry, op.wide).1
    } else {
        (op.imm2 as u32) << 28
    };
    state.pstate.nzcv = nzcv;
    Ok(Next::Seq)
}

/// SBFM, BFM, UBFM.
#[inline(always)]
pub(super) fn bitfield<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, field: Bitfield) -> Body {
    let source = ctx.cpu.state.x(op.rn) & operand::mask(op);
    let rotated = operand::shift(source, Shift::Ror, u32::from(op.amount), op.wide);
    let (wmask, tmask) = (op.imm, op.imm2);
    let result = match field {
        Bitfield::Unsigned => rotated & wmask & tmask,
        Bitfield::Signed => {
            let top = if source >> op.ra & 1 != 0 { u64::MAX } else { 0 };
            top & !tmask | rotated & wmask & tmask
        }
        Bitfield::Insert => {
            let old = ctx.cpu.state.x(op.rd);
            let bottom = old & !wmask | rotated & wmask;
            old & !tmask | bottom & tmask
        }
    };
    finish(ctx, op, result)
}

/// EXTR.
pub(super) fn extract<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let (high, low) = (ctx.cpu.state.x(op.rn), ctx.cpu.state.x(op.rm));
    let result = if op.wide {
        ((u128::from(high) << 64 | u128::from(low)) >> op.amount) as u64
    } else {
        (high << 32 | low & 0xffff_ffff) >> op.amount
    };
    finish(ctx, op, result)
}

/// CSEL, CSINC, CSINV, CSNEG.
#[inline(always)]
pub(super) fn select<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, select: Select) -> Body {
    let state = &ctx.cpu.state;
    let result = if condition_holds(op.amount, state.pstate.nzcv) {
        state.x(op.rn)
    } else {
        let other = state.x(op.rm);
        match select {
            Select::Sel => other,
            Select::Inc => other.wrapping_add(1),
            Select::Inv => !other,
            Select::Neg => other.wrapping_neg(),
        }
    };
    finish(ctx, op, result)
}

/// RBIT, REV16, REV32, REV, CLZ, CLS.
pub(super) fn unary<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, unary: Unary) -> Body {
    let value = ctx.cpu.state.x(op.rn);
    let narrow = value as u32;
    let result = match unary {
        Unary::Rbit if op.wide => value.reverse_bits(),
        Unary::Rbit => u64::from(narrow.reverse_bits()),
        Unary::Rev16 => (value & 0x00ff_00ff_00ff_00ff) << 8 | value >> 8 & 0x00ff_00ff_00ff_00ff,
        Unary::Rev32 => value.swap_bytes().rotate_right(32),
        Unary::Rev64 => value.swap_bytes(),
        Unary::Clz if op.wide => u64::from(value.leading_zeros()),
        Unary::Clz => u64::from(narrow.leading_zeros()),
        Unary::Cls if op.wide => {
            u64::from((value ^ (value as i64 >> 63) as u64).leading_zeros()) - 1
        }
        Unary::Cls => u64::from((narrow ^ (narrow as i32 >> 31) as u32).leading_zeros()) - 1,
    };
    finish(ctx, op, result)
}

/// UDIV, SDIV: division by zero gives zero.
pub(super) fn divide<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, divide: Divide) -> Body {
    let (a, b) = (ctx.cpu.state.x(op.rn), ctx.cpu.state.x(op.rm));
    let result = match (divide, op.wide) {
        (Divide::Unsigned, true) => a.checked_div(b).unwrap_or(0),
        (Divide::Unsigned, false) => u64::from((a as u32).checked_div(b as u32).unwrap_or(0)),
        (Divide::Signed, true) if b == 0 => 0,
        (Divide::Signed, true) => (a as i64).wrapping_div(b as i64) as u64,
        (Divide::Signed, false) if b as u32 == 0 => 0,
        (Divide::Signed, false) => (a as i32).wrapping_div(b as i32) as u64,
    };
    finish(ctx, op, result)
}

/// LSLV, LSRV, ASRV, RORV.
pub(super) fn shift<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, shift: Shift) -> Body {
    let (value, amount) = (ctx.cpu.state.x(op.rn), ctx.cpu.state.x(op.rm));
    let amount = amount as u32 & if op.wide { 63 } else { 31 };
    finish(ctx, op, operand::shift(value, shift, amount, op.wide))
}

/// CRC32, CRC32C.
pub(super) fn crc<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, castagnoli: bool) -> Body {
    require(ctx, Features::CRC32)?;
    let polynomial: u32 = if castagnoli { 0x82f6_3b78 } else { 0xedb8_8320 };
    let mut crc = ctx.cpu.state.x(op.rn) as u32;
    for byte in &ctx.cpu.state.x(op.rm).to_le_bytes()[..usize::from(op.size)] {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = crc >> 1 ^ if crc & 1 != 0 { polynomial } else { 0 };
        }
    }
    ctx.cpu.state.set_x(op.rd, u64::from(crc));
    Ok(Next::Seq)
}

/// MADD, MSUB.
pub(super) fn multiply<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, subtract: bool) -> Body {
    let state = &ctx.cpu.state;
    let product = state.x(op.rn).wrapping_mul(state.x(op.rm));
    let sum = state.x(op.ra);
    let result = if subtract { sum.wrapping_sub(product) } else { sum.wrapping_add(product) };
    finish(ctx, op, result)
}

/// SMADDL to UMULH.
pub(super) fn multiply_wide<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, wide: Wide) -> Body {
    let state = &ctx.cpu.state;
    let (a, b, sum) = (state.x(op.rn), state.x(op.rm), state.x(op.ra));
    let signed = (i64::from(a as i32) * i64::from(b as i32)) as u64;
    let unsigned = u64::from(a as u32) * u64::from(b as u32);
    let result = match wide {
        Wide::Smaddl => sum.wrapping_add(signed),
        Wide::Smsubl => sum.wrapping_sub(signed),
        Wide::Umaddl => sum.wrapping_add(unsigned),
        Wide::Umsubl => sum.wrapping_sub(unsigned),
        Wide::Smulh => ((i128::from(a as i64) * i128::from(b as i64)) >> 64) as u64,
        Wide::Umulh => ((u128::from(a) * u128::from(b)) >> 64) as u64,
    };
    finish(ctx, op, result)
}

/// RMIF.
pub(super) fn rmif<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::FLAG_M)?;
    let bits = ctx.cpu.state.x(op.rn).rotate_right(u32::from(op.amount)) as u32;
    let mask = op.imm as u32;
    let nzcv = &mut ctx.cpu.state.pstate.nzcv;
    *nzcv = *nzcv & !(mask << 28) | (bits & mask) << 28;
    Ok(Next::Seq)
}

/// SETF8, SETF16.
pub(super) fn setf<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    require(ctx, Features::FLAG_M)?;
    let bits = 8 * u32::from(op.size);
    let value = ctx.cpu.state.x(op.rn) as u32;
    let (sign, above) = (value >> (bits - 1) & 1, value >> bits & 1);
    let zero = if value << (32 - bits) == 0 { Z } else { 0 };
    let nzcv = &mut ctx.cpu.state.pstate.nzcv;
    *nzcv = *nzcv & C | sign << 31 | zero | if sign != above { V } else { 0 };
    Ok(Next::Seq)
}

/// CFINV.
pub(super) fn cfinv<P: Port>(ctx: &mut Ctx<'_, P>) -> Body {
    require(ctx, Features::FLAG_M)?;
    ctx.cpu.state.pstate.nzcv ^= C;
    Ok(Next::Seq)
}
