//! BMI1, BMI2 and ADX.
//!
//! Undefined flags: cleared, as measured on Intel cores.

use emu_cpu::port::Port;

use super::{Body, Next, operand, require};
use crate::ctx::Ctx;
use crate::decode::{BmiOp, Op};
use crate::defs::Features;
use crate::flags::{self, CF, SF, ZF, mask, sign_extend, szp};
use crate::state::gpr;

/// Executes one of the three-operand instructions.
pub(super) fn bmi<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: BmiOp) -> Body {
    require(ctx, feature(what))?;
    match what {
        BmiOp::Andn => andn(ctx, op),
        BmiOp::Bextr => bextr(ctx, op),
        BmiOp::Blsi => lowest(ctx, op, |a| (a & a.wrapping_neg(), a != 0)),
        BmiOp::Blsmsk => lowest(ctx, op, |a| (a ^ a.wrapping_sub(1), a == 0)),
        BmiOp::Blsr => lowest(ctx, op, |a| (a & a.wrapping_sub(1), a == 0)),
        BmiOp::Bzhi => bzhi(ctx, op),
        BmiOp::Mulx => mulx(ctx, op),
        BmiOp::Pdep => scatter_gather(ctx, op, deposit),
        BmiOp::Pext => scatter_gather(ctx, op, extract),
        BmiOp::Rorx => rorx(ctx, op),
        BmiOp::Sarx => shift(ctx, op, |a, n, size| (sign_extend(a, size) as i64 >> n) as u64),
        BmiOp::Shlx => shift(ctx, op, |a, n, _| a << n),
        BmiOp::Shrx => shift(ctx, op, |a, n, _| a >> n),
    }
}

/// The half of the extension that has an instruction.
fn feature(what: BmiOp) -> Features {
    match what {
        BmiOp::Andn | BmiOp::Bextr | BmiOp::Blsi | BmiOp::Blsmsk | BmiOp::Blsr => Features::BMI1,
        _ => Features::BMI2,
    }
}

/// Writes the destination, and SF, ZF, CF; the others are cleared.
fn finish<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, result: u64, carry: bool) -> Body {
    let result = result & mask(op.size);
    let state = &mut ctx.cpu.state;
    operand::set_reg(state, op.dst, op.size, result);
    let arith = szp(result, op.size) & (SF | ZF) | if carry { CF } else { 0 };
    state.rflags = flags::merge(state.rflags, arith);
    Ok(Next::Seq)
}

fn andn<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let b = operand::get(ctx, op, op.src2, op.size)?;
    let a = operand::reg(&ctx.cpu.state, op.src, op.size);
    finish(ctx, op, !a & b, false)
}

fn bextr<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let a = operand::get(ctx, op, op.src, op.size)?;
    let control = operand::reg(&ctx.cpu.state, op.src2, op.size);
    let (start, length) = (control as u32 & 0xff, (control >> 8) as u32 & 0xff);
    let shifted = a.checked_shr(start).unwrap_or(0);
    let result = if length < 64 { shifted & ((1 << length) - 1) } else { shifted };
    let arith = if result == 0 { ZF } else { 0 };
    let state = &mut ctx.cpu.state;
    operand::set_reg(state, op.dst, op.size, result);
    state.rflags = flags::merge(state.rflags, arith);
    Ok(Next::Seq)
}

fn lowest<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, f: impl Fn(u64) -> (u64, bool)) -> Body {
    let a = operand::get(ctx, op, op.src, op.size)?;
    let (result, carry) = f(a);
    finish(ctx, op, result, carry)
}

fn bzhi<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let a = operand::get(ctx, op, op.src, op.size)?;
    let n = operand::reg(&ctx.cpu.state, op.src2, op.size) as u32 & 0xff;
    let fits = n < 8 * u32::from(op.size);
    let result = if fits { a & ((1 << n) - 1) } else { a };
    finish(ctx, op, result, !fits)
}

/// MULX: no flags; with equal destinations the high half stays.
fn mulx<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let b = operand::get(ctx, op, op.src2, op.size)?;
    let state = &mut ctx.cpu.state;
    let product = u128::from(state.gpr[gpr::RDX] & mask(op.size)) * u128::from(b);
    operand::set_reg(state, op.src, op.size, product as u64);
    operand::set_reg(state, op.dst, op.size, (product >> (8 * op.size)) as u64);
    Ok(Next::Seq)
}

fn scatter_gather<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, f: fn(u64, u64) -> u64) -> Body {
    let bits = operand::get(ctx, op, op.src2, op.size)?;
    let a = operand::reg(&ctx.cpu.state, op.src, op.size);
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, f(a, bits));
    Ok(Next::Seq)
}

/// Low bits of `a` to the places set in `places`.
fn deposit(mut a: u64, mut places: u64) -> u64 {
    let mut result = 0;
    while places != 0 {
        let lowest = places & places.wrapping_neg();
        if a & 1 != 0 {
            result |= lowest;
        }
        a >>= 1;
        places ^= lowest;
    }
    result
}

/// Bits of `a` at the places set in `places`, gathered.
fn extract(a: u64, mut places: u64) -> u64 {
    let mut result = 0;
    let mut n = 0;
    while places != 0 {
        let lowest = places & places.wrapping_neg();
        if a & lowest != 0 {
            result |= 1 << n;
        }
        n += 1;
        places ^= lowest;
    }
    result
}

/// RORX: no flags.
fn rorx<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    let a = operand::get(ctx, op, op.src, op.size)?;
    let result = if op.size == 8 {
        a.rotate_right(op.imm as u32 & 63)
    } else {
        u64::from((a as u32).rotate_right(op.imm as u32 & 31))
    };
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, result);
    Ok(Next::Seq)
}

/// SARX, SHLX, SHRX: no flags.
fn shift<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, f: impl Fn(u64, u32, u8) -> u64) -> Body {
    let a = operand::get(ctx, op, op.src, op.size)?;
    let n = operand::reg(&ctx.cpu.state, op.src2, op.size) as u32;
    let n = n & if op.size == 8 { 63 } else { 31 };
    operand::set_reg(&mut ctx.cpu.state, op.dst, op.size, f(a, n, op.size));
    Ok(Next::Seq)
}

/// ADCX and ADOX: add with the one flag as carry in and out.
pub(super) fn adx<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, flag: u64) -> Body {
    require(ctx, Features::ADX)?;
    let b = operand::get(ctx, op, op.src, op.size)?;
    let state = &mut ctx.cpu.state;
    let a = operand::reg(state, op.dst, op.size);
    let carry = u64::from(state.rflags & flag != 0);
    let (result, arith) = flags::add(a, b, carry, op.size);
    operand::set_reg(state, op.dst, op.size, result);
    state.rflags = flags::set(state.rflags, flag, arith & CF != 0);
    Ok(Next::Seq)
}
