//! Floating-point arithmetic and comparison.
//!
//! Host arithmetic with the default rounding (nearest, even), which IEEE 754 fixes to the bit;
//! results that are not numbers are made here, so that they do not depend on the host. Not
//! modelled: other rounding modes for arithmetic (conversions to integers do honour MXCSR.RC),
//! flush-to-zero and denormals-are-zero, the exception flags of MXCSR, and #XM. RCP and RSQRT give
//! the rounded quotient, which is within the error that the manual allows, but not bit-equal to
//! any core; denormals are zero to them, as source and as result ([SDM-2] "RCPPS").

use emu_cpu::port::Port;

use super::fpu::check_sse;
use super::sse_mov::{destination, source};
use super::{Body, Next};
use crate::ctx::{Ctx, Exec};
use crate::decode::{FpArith, FpForm, Op};
use crate::flags::{self, CF, PF, ZF};

/// What differs between the two element types.
pub(super) trait Float: Copy + PartialOrd {
    /// Bits of an element.
    const BITS: u32;
    /// The quiet bit and the default quiet NaN ("QNaN floating-point indefinite").
    const QUIET: u128;
    const DEFAULT_NAN: u128;
    /// The sign bit.
    const SIGN: u128 = 1 << (Self::BITS - 1);
    fn from_bits_wide(bits: u128) -> Self;
    fn to_bits_wide(self) -> u128;
    fn nan(self) -> bool;
    /// Whether it is a denormal.
    fn is_tiny(self) -> bool;
    fn apply(arith: FpArith, a: Self, b: Self) -> Self;
}

macro_rules! float {
    ($float:ty, $bits:ty, $quiet:expr, $nan:expr) => {
        impl Float for $float {
            const BITS: u32 = <$bits>::BITS;
            const QUIET: u128 = $quiet;
            const DEFAULT_NAN: u128 = $nan;
            fn from_bits_wide(bits: u128) -> Self {
                <$float>::from_bits(bits as $bits)
            }
            fn to_bits_wide(self) -> u128 {
                u128::from(self.to_bits())
            }
            fn nan(self) -> bool {
                self.is_nan()
            }
            fn is_tiny(self) -> bool {
                self.is_subnormal()
            }
            #[inline(always)]
            fn apply(arith: FpArith, a: Self, b: Self) -> Self {
                match arith {
                    FpArith::Add => a + b,
                    FpArith::Sub => a - b,
                    FpArith::Mul => a * b,
                    FpArith::Div => a / b,
                    FpArith::Sqrt => b.sqrt(),
                    FpArith::Rcp => 1.0 / b,
                    FpArith::Rsqrt => 1.0 / b.sqrt(),
                    FpArith::Min => {
                        if a < b {
                            a
                        } else {
                            b
                        }
                    }
                    FpArith::Max => {
                        if a > b {
                            a
                        } else {
                            b
                        }
                    }
                }
            }
        }
    };
}

float!(f32, u32, 0x0040_0000, 0xffc0_0000);
float!(f64, u64, 0x0008_0000_0000_0000, 0xfff8_0000_0000_0000);

/// Bits of an element's result.
#[inline(always)]
fn element<T: Float>(arith: FpArith, a: u128, b: u128) -> u128 {
    let ones = u128::MAX >> (128 - T::BITS);
    let (a_bits, b_bits) = (a & ones, b & ones);
    let (a, b) = (T::from_bits_wide(a_bits), T::from_bits_wide(b_bits));
    match arith {
        // "If a value in the second operand is a NaN, or both are zero, that operand": unchanged.
        FpArith::Min | FpArith::Max => {
            let takes_first = if arith == FpArith::Min { a < b } else { a > b };
            return if takes_first { a_bits } else { b_bits };
        }
        FpArith::Sqrt | FpArith::Rcp | FpArith::Rsqrt => {}
        _ if a.nan() => return a_bits | T::QUIET,
        _ => {}
    }
    if b.nan() {
        return b_bits | T::QUIET;
    }
    let is_approximate = matches!(arith, FpArith::Rcp | FpArith::Rsqrt);
    let b = if is_approximate && b.is_tiny() { T::from_bits_wide(b_bits & T::SIGN) } else { b };
    let result = T::apply(arith, a, b);
    if is_approximate && result.is_tiny() {
        return result.to_bits_wide() & T::SIGN;
    }
    if result.nan() { T::DEFAULT_NAN } else { result.to_bits_wide() }
}

/// Applies `f` to the elements: all of them, or the lowest with the others of `a` kept.
#[inline(always)]
fn elements(a: u128, b: u128, bits: u32, scalar: bool, f: impl Fn(u128, u128) -> u128) -> u128 {
    let ones = u128::MAX >> (128 - bits);
    if scalar {
        return (a & !ones) | f(a & ones, b & ones);
    }
    (0..128 / bits).fold(0, |result, i| {
        let at = i * bits;
        result | f(a >> at & ones, b >> at & ones) << at
    })
}

/// Bytes of a memory operand.
fn memory_size(form: FpForm) -> u8 {
    match form {
        FpForm::Ss => 4,
        FpForm::Sd => 8,
        FpForm::Ps | FpForm::Pd => 16,
    }
}

/// ADD, SUB, MUL, DIV, MIN, MAX, SQRT and kin.
pub(super) fn arith<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: FpArith, form: FpForm) -> Body {
    check_sse(ctx)?;
    let b = source(ctx, op, op.src, memory_size(form))?;
    let to = destination(ctx, op);
    *to = match form {
        FpForm::Ss | FpForm::Ps => {
            elements(*to, b, 32, form == FpForm::Ss, |a, b| element::<f32>(what, a, b))
        }
        FpForm::Sd | FpForm::Pd => {
            elements(*to, b, 64, form == FpForm::Sd, |a, b| element::<f64>(what, a, b))
        }
    };
    Ok(Next::Seq)
}

/// The eight predicates of CMPPS and kin.
fn predicate<T: Float>(a: u128, b: u128, control: u8) -> bool {
    let (a, b) = (T::from_bits_wide(a), T::from_bits_wide(b));
    let holds = match control & 3 {
        0 => a == b,
        1 => a < b,
        2 => a <= b,
        _ => a.nan() || b.nan(),
    };
    holds != (control & 4 != 0)
}

/// CMPPS, CMPPD, CMPSS, CMPSD: all ones where the predicate holds.
pub(super) fn compare<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, form: FpForm) -> Body {
    check_sse(ctx)?;
    let b = source(ctx, op, op.src, memory_size(form))?;
    let control = op.imm as u8;
    let to = destination(ctx, op);
    let ones = |holds: bool, bits: u32| if holds { u128::MAX >> (128 - bits) } else { 0 };
    *to = match form {
        FpForm::Ss | FpForm::Ps => elements(*to, b, 32, form == FpForm::Ss, |a, b| {
            ones(predicate::<f32>(a, b, control), 32)
        }),
        FpForm::Sd | FpForm::Pd => elements(*to, b, 64, form == FpForm::Sd, |a, b| {
            ones(predicate::<f64>(a, b, control), 64)
        }),
    };
    Ok(Next::Seq)
}

/// COMISS, COMISD, UCOMISS, UCOMISD.
pub(super) fn compare_to_flags<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, form: FpForm) -> Body {
    let order = match form {
        FpForm::Ss | FpForm::Ps => ordering::<f32, P>(ctx, op, 4)?,
        FpForm::Sd | FpForm::Pd => ordering::<f64, P>(ctx, op, 8)?,
    };
    let rflags = &mut ctx.cpu.state.rflags;
    *rflags = flags::merge(*rflags, order);
    Ok(Next::Seq)
}

fn ordering<T: Float, P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, size: u8) -> Exec<u64> {
    check_sse(ctx)?;
    let b = T::from_bits_wide(source(ctx, op, op.src, size)?);
    let a = T::from_bits_wide(*destination(ctx, op));
    Ok(match a.partial_cmp(&b) {
        None => ZF | PF | CF,
        Some(std::cmp::Ordering::Less) => CF,
        Some(std::cmp::Ordering::Equal) => ZF,
        Some(std::cmp::Ordering::Greater) => 0,
    })
}
