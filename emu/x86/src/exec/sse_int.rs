//! Packed integer arithmetic, comparison, interleaving, packing, and bitwise logic.

use emu_cpu::port::Port;

use super::fpu::check_sse;
use super::sse_mov::{destination, source};
use super::{Body, Next, require};
use crate::ctx::Ctx;
use crate::decode::{IntOp, Op};
use crate::defs::Features;

/// Executes one of them: `dst = f(dst, src)`.
pub(super) fn int<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: IntOp) -> Body {
    check_sse(ctx)?;
    require(ctx, feature(what))?;
    let b = source(ctx, op, op.src, 16)?;
    let to = destination(ctx, op);
    *to = compute(what, *to, b);
    Ok(Next::Seq)
}

/// The extension that an operation came with; empty for SSE2.
#[rustfmt::skip]
fn feature(what: IntOp) -> Features {
    use IntOp::{
        Pabsb, Pabsd, Pabsw, Packusdw, Pcmpeqq, Pcmpgtq, Phaddd, Phaddw, Phsubd, Phsubw, Pmaddubsw,
        Pmaxsb, Pmaxsd, Pmaxud, Pmaxuw, Pminsb, Pminsd, Pminud, Pminuw, Pmuldq, Pmulhrsw, Pmulld,
        Pshufb, Psignb, Psignd, Psignw,
    };
    match what {
        Pcmpgtq => Features::SSE42,
        Pcmpeqq | Pminsb | Pminsd | Pminuw | Pminud | Pmaxsb | Pmaxsd | Pmaxuw | Pmaxud | Pmulld
        | Pmuldq | Packusdw => Features::SSE41,
        Pmulhrsw | Pmaddubsw | Pabsb | Pabsw | Pabsd | Psignb | Psignw | Psignd | Phaddw | Phaddd
        | Phsubw | Phsubd | Pshufb => Features::SSSE3,
        _ => Features::empty(),
    }
}

/// Elements of a register, lowest first.
trait Lanes: Copy + Default {
    const BITS: u32;
    fn from_wide(value: u128) -> Self;
    fn to_wide(self) -> u128;
}

macro_rules! lanes {
    ($($int:ty: $unsigned:ty),*) => {$(
        impl Lanes for $int {
            const BITS: u32 = <$int>::BITS;
            fn from_wide(value: u128) -> Self {
                value as $int
            }
            fn to_wide(self) -> u128 {
                u128::from(self as $unsigned)
            }
        }
    )*};
}

lanes!(u8: u8, i8: u8, u16: u16, i16: u16, u32: u32, i32: u32, u64: u64, i64: u64);

/// Applies `f` to each pair of elements.
#[inline(always)]
fn each<T: Lanes>(a: u128, b: u128, f: impl Fn(T, T) -> T) -> u128 {
    let mut result = 0;
    for i in 0..128 / T::BITS {
        let shift = i * T::BITS;
        let value = f(T::from_wide(a >> shift), T::from_wide(b >> shift));
        result |= value.to_wide() << shift;
    }
    result
}

/// All ones where `f` holds.
#[inline(always)]
fn each_if<T: Lanes>(a: u128, b: u128, f: impl Fn(T, T) -> bool) -> u128 {
    let ones = u128::MAX >> (128 - T::BITS);
    let mut result = 0;
    for i in 0..128 / T::BITS {
        let shift = i * T::BITS;
        if f(T::from_wide(a >> shift), T::from_wide(b >> shift)) {
            result |= ones << shift;
        }
    }
    result
}

/// Element `i` of `bits` bits, zero-extended.
fn element(value: u128, bits: u32, i: u32) -> u128 {
    value >> (i * bits) & (u128::MAX >> (128 - bits))
}

/// Interleaves elements of `bits` bits of the low or the high halves.
fn unpack(a: u128, b: u128, bits: u32, high: bool) -> u128 {
    let count = 64 / bits;
    let from = if high { count } else { 0 };
    let mut result = 0;
    for i in 0..count {
        result |= element(a, bits, from + i) << (2 * i * bits);
        result |= element(b, bits, from + i) << ((2 * i + 1) * bits);
    }
    result
}

/// Narrows the elements of both registers to half their width.
fn pack<T: Lanes>(a: u128, b: u128, narrow: impl Fn(T) -> u128) -> u128 {
    let count = 128 / T::BITS;
    let mut result = 0;
    for i in 0..count {
        let at = i * T::BITS / 2;
        result |= narrow(T::from_wide(a >> (i * T::BITS))) << at;
        result |= narrow(T::from_wide(b >> (i * T::BITS))) << (at + 64);
    }
    result
}

/// Adds or subtracts neighbours of both registers.
fn horizontal<T: Lanes>(a: u128, b: u128, f: impl Fn(T, T) -> T) -> u128 {
    let count = 64 / T::BITS;
    let mut result = 0;
    for i in 0..count {
        for (wide, at) in [(a, i * T::BITS), (b, i * T::BITS + 64)] {
            let low = T::from_wide(wide >> (2 * i * T::BITS));
            let next = T::from_wide(wide >> ((2 * i + 1) * T::BITS));
            result |= f(low, next).to_wide() << at;
        }
    }
    result
}

fn sad(a: u128, b: u128) -> u128 {
    let differences = each::<u8>(a, b, u8::abs_diff).to_le_bytes();
    let sum = |half: &[u8]| half.iter().map(|d| u128::from(*d)).sum::<u128>();
    sum(&differences[..8]) | sum(&differences[8..]) << 64
}

/// Multiplies pairs of 16-bit elements and adds neighbours.
fn multiply_add(a: u128, b: u128) -> u128 {
    each::<i32>(a, b, |a, b| {
        let low = i32::from(a as i16) * i32::from(b as i16);
        let high = (a >> 16) * (b >> 16);
        low.wrapping_add(high)
    })
}

/// PMADDUBSW: unsigned times signed bytes, neighbours added with saturation.
fn multiply_add_bytes(a: u128, b: u128) -> u128 {
    each::<i16>(a, b, |a, b| {
        let low = i32::from(a as u8) * i32::from(b as i8);
        let high = i32::from((a as u16 >> 8) as u8) * i32::from(b >> 8);
        (low + high).clamp(i32::from(i16::MIN), i32::from(i16::MAX)) as i16
    })
}

fn shuffle_bytes(a: u128, b: u128) -> u128 {
    let from = a.to_le_bytes();
    let pick = |i: u8| if i & 0x80 != 0 { 0 } else { from[usize::from(i & 15)] };
    u128::from_le_bytes(b.to_le_bytes().map(pick))
}

/// The high half of a product.
fn high16(a: i16, b: i16) -> i16 {
    ((i32::from(a) * i32::from(b)) >> 16) as i16
}

fn high16_unsigned(a: u16, b: u16) -> u16 {
    ((u32::from(a) * u32::from(b)) >> 16) as u16
}

/// PMULHRSW: the high part of a product, rounded.
fn high16_rounded(a: i16, b: i16) -> i16 {
    ((((i32::from(a) * i32::from(b)) >> 14) + 1) >> 1) as i16
}

fn average8(a: u8, b: u8) -> u8 {
    (u16::from(a) + u16::from(b)).div_ceil(2) as u8
}

fn average16(a: u16, b: u16) -> u16 {
    (u32::from(a) + u32::from(b)).div_ceil(2) as u16
}

/// One row an operation.
#[rustfmt::skip]
fn compute(what: IntOp, a: u128, b: u128) -> u128 {
    match what {
        IntOp::And => a & b,
        IntOp::Andn => !a & b,
        IntOp::Or => a | b,
        IntOp::Xor => a ^ b,
        IntOp::Paddb => each::<u8>(a, b, u8::wrapping_add),
        IntOp::Paddw => each::<u16>(a, b, u16::wrapping_add),
        IntOp::Paddd => each::<u32>(a, b, u32::wrapping_add),
        IntOp::Paddq => each::<u64>(a, b, u64::wrapping_add),
        IntOp::Psubb => each::<u8>(a, b, u8::wrapping_sub),
        IntOp::Psubw => each::<u16>(a, b, u16::wrapping_sub),
        IntOp::Psubd => each::<u32>(a, b, u32::wrapping_sub),
        IntOp::Psubq => each::<u64>(a, b, u64::wrapping_sub),
        IntOp::Paddsb => each::<i8>(a, b, i8::saturating_add),
        IntOp::Paddsw => each::<i16>(a, b, i16::saturating_add),
        IntOp::Paddusb => each::<u8>(a, b, u8::saturating_add),
        IntOp::Paddusw => each::<u16>(a, b, u16::saturating_add),
        IntOp::Psubsb => each::<i8>(a, b, i8::saturating_sub),
        IntOp::Psubsw => each::<i16>(a, b, i16::saturating_sub),
        IntOp::Psubusb => each::<u8>(a, b, u8::saturating_sub),
        IntOp::Psubusw => each::<u16>(a, b, u16::saturating_sub),
        IntOp::Pcmpeqb => each_if::<u8>(a, b, |a, b| a == b),
        IntOp::Pcmpeqw => each_if::<u16>(a, b, |a, b| a == b),
        IntOp::Pcmpeqd => each_if::<u32>(a, b, |a, b| a == b),
        IntOp::Pcmpeqq => each_if::<u64>(a, b, |a, b| a == b),
        IntOp::Pcmpgtb => each_if::<i8>(a, b, |a, b| a > b),
        IntOp::Pcmpgtw => each_if::<i16>(a, b, |a, b| a > b),
        IntOp::Pcmpgtd => each_if::<i32>(a, b, |a, b| a > b),
        IntOp::Pcmpgtq => each_if::<i64>(a, b, |a, b| a > b),
        IntOp::Pminsb => each::<i8>(a, b, Ord::min),
        IntOp::Pminsw => each::<i16>(a, b, Ord::min),
        IntOp::Pminsd => each::<i32>(a, b, Ord::min),
        IntOp::Pminub => each::<u8>(a, b, Ord::min),
        IntOp::Pminuw => each::<u16>(a, b, Ord::min),
        IntOp::Pminud => each::<u32>(a, b, Ord::min),
        IntOp::Pmaxsb => each::<i8>(a, b, Ord::max),
        IntOp::Pmaxsw => each::<i16>(a, b, Ord::max),
        IntOp::Pmaxsd => each::<i32>(a, b, Ord::max),
        IntOp::Pmaxub => each::<u8>(a, b, Ord::max),
        IntOp::Pmaxuw => each::<u16>(a, b, Ord::max),
        IntOp::Pmaxud => each::<u32>(a, b, Ord::max),
        IntOp::Pmullw => each::<i16>(a, b, i16::wrapping_mul),
        IntOp::Pmulld => each::<i32>(a, b, i32::wrapping_mul),
        IntOp::Pmulhw => each::<i16>(a, b, high16),
        IntOp::Pmulhuw => each::<u16>(a, b, high16_unsigned),
        IntOp::Pmulhrsw => each::<i16>(a, b, high16_rounded),
        IntOp::Pmuludq => each::<u64>(a, b, |a, b| u64::from(a as u32) * u64::from(b as u32)),
        IntOp::Pmuldq => each::<i64>(a, b, |a, b| i64::from(a as i32) * i64::from(b as i32)),
        IntOp::Pmaddwd => multiply_add(a, b),
        IntOp::Pmaddubsw => multiply_add_bytes(a, b),
        IntOp::Psadbw => sad(a, b),
        IntOp::Pavgb => each::<u8>(a, b, average8),
        IntOp::Pavgw => each::<u16>(a, b, average16),
        IntOp::Pabsb => each::<i8>(a, b, |_, b| b.wrapping_abs()),
        IntOp::Pabsw => each::<i16>(a, b, |_, b| b.wrapping_abs()),
        IntOp::Pabsd => each::<i32>(a, b, |_, b| b.wrapping_abs()),
        IntOp::Psignb => each::<i8>(a, b, |a, b| a.wrapping_mul(b.signum())),
        IntOp::Psignw => each::<i16>(a, b, |a, b| a.wrapping_mul(b.signum())),
        IntOp::Psignd => each::<i32>(a, b, |a, b| a.wrapping_mul(b.signum())),
        IntOp::Phaddw => horizontal::<u16>(a, b, u16::wrapping_add),
        IntOp::Phaddd => horizontal::<u32>(a, b, u32::wrapping_add),
        IntOp::Phsubw => horizontal::<u16>(a, b, u16::wrapping_sub),
        IntOp::Phsubd => horizontal::<u32>(a, b, u32::wrapping_sub),
        IntOp::Punpcklbw => unpack(a, b, 8, false),
        IntOp::Punpcklwd => unpack(a, b, 16, false),
        IntOp::Punpckldq => unpack(a, b, 32, false),
        IntOp::Punpcklqdq => unpack(a, b, 64, false),
        IntOp::Punpckhbw => unpack(a, b, 8, true),
        IntOp::Punpckhwd => unpack(a, b, 16, true),
        IntOp::Punpckhdq => unpack(a, b, 32, true),
        IntOp::Punpckhqdq => unpack(a, b, 64, true),
        IntOp::Packsswb => pack::<i16>(a, b, |v| u128::from(v.clamp(-0x80, 0x7f) as u8)),
        IntOp::Packssdw => pack::<i32>(a, b, |v| u128::from(v.clamp(-0x8000, 0x7fff) as u16)),
        IntOp::Packuswb => pack::<i16>(a, b, |v| u128::from(v.clamp(0, 0xff) as u8)),
        IntOp::Packusdw => pack::<i32>(a, b, |v| u128::from(v.clamp(0, 0xffff) as u16)),
        IntOp::Pshufb => shuffle_bytes(a, b),
    }
}
