//! Scalar floating point: arithmetic, comparison, selection; the rules on NaNs.
//!
//! Arithmetic is that of the host, which is IEEE 754 as well; NaNs are not left to it. "If any
//! operand is a signalling NaN" the first of them, else the first quiet one, is the result, made
//! quiet; an invalid operation on numbers gives the default NaN, and with `FPCR.DN` all do.
//!
//! Not modelled: flushing of denormals (`FPCR.FZ`), rounding other than to nearest, cumulative
//! exception flags.
//!
//! Source: \[ArmARM\] `FPProcessNaNs`, `FPProcessNaNs3`, `FPMulAdd`, `FPMax`. Status: spec.

use emu_cpu::port::Port;

use super::alu;
use super::vec_int::{Sources, finish, ones};
use crate::ctx::{Ctx, Exec};
use crate::decode::{FpBinary, FpFused, FpUnary, Kind, Op};

/// `FPCR.DN`.
const DN: u32 = 1 << 25;
/// Position of `FPCR.RMode`.
const RMODE_SHIFT: u32 = 22;

/// A format by its constants and host operations.
pub(super) trait Float: Copy + PartialOrd {
    /// Sign bit.
    const SIGN: u64;
    /// Bit that is set in quiet NaNs.
    const QUIET: u64;
    /// The default NaN, which is infinity and the quiet bit.
    const DEFAULT_NAN: u64;
    fn of(bits: u64) -> Self;
    fn bits(self) -> u64;
    fn compute(op: FpBinary, a: Self, b: Self) -> Self;
    fn fused(a: Self, b: Self, sum: Self) -> Self;
    fn sqrt(self) -> Self;
    fn rint(self, mode: u8) -> Self;
}

macro_rules! float {
    ($float:ty, $bits:ty, $mantissa:literal) => {
        impl Float for $float {
            const SIGN: u64 = 1 << (<$bits>::BITS - 1);
            const QUIET: u64 = 1 << ($mantissa - 1);
            const DEFAULT_NAN: u64 = Self::SIGN - Self::QUIET;

            fn of(bits: u64) -> Self {
                Self::from_bits(bits as $bits)
            }

            fn bits(self) -> u64 {
                u64::from(self.to_bits())
            }

            fn compute(op: FpBinary, a: Self, b: Self) -> Self {
                match op {
                    FpBinary::Mul | FpBinary::Nmul => a * b,
                    FpBinary::Div => a / b,
                    FpBinary::Add => a + b,
                    _ => a - b,
                }
            }

            fn fused(a: Self, b: Self, sum: Self) -> Self {
                a.mul_add(b, sum)
            }

            fn sqrt(self) -> Self {
                self.sqrt()
            }

            fn rint(self, mode: u8) -> Self {
                match mode {
                    0 => self.round_ties_even(),
                    1 => self.ceil(),
                    2 => self.floor(),
                    3 => self.trunc(),
                    _ => self.round(),
                }
            }
        }
    };
}

float!(f32, u32, 23);
float!(f64, u64, 52);

/// What arithmetic depends on beside its operands.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    is_default_nan: bool,
    /// Rounding of FRINTI and FRINTX.
    pub(super) rounding: u8,
}

impl Mode {
    pub(super) fn new(fpcr: u32) -> Mode {
        Mode { is_default_nan: fpcr & DN != 0, rounding: (fpcr >> RMODE_SHIFT & 3) as u8 }
    }
}

fn is_nan<F: Float>(bits: u64) -> bool {
    bits & !F::SIGN > F::DEFAULT_NAN - F::QUIET
}

fn is_signalling<F: Float>(bits: u64) -> bool {
    is_nan::<F>(bits) && bits & F::QUIET == 0
}

/// `FPProcessNaNs` of any number of operands.
fn nan<F: Float>(operands: &[u64], mode: Mode) -> Option<u64> {
    let first = operands.iter().find(|bits| is_signalling::<F>(**bits));
    let found = first.or_else(|| operands.iter().find(|bits| is_nan::<F>(**bits)))?;
    Some(if mode.is_default_nan { F::DEFAULT_NAN } else { found | F::QUIET })
}

/// A result of numbers: a NaN is that of an invalid operation.
fn number<F: Float>(value: F) -> u64 {
    let bits = value.bits();
    if is_nan::<F>(bits) { F::DEFAULT_NAN } else { bits }
}

fn binary_of<F: Float>(op: FpBinary, a: u64, b: u64, mode: Mode) -> u64 {
    let (a, b) = match op {
        // "A quiet NaN is treated as missing data" if the other is a number.
        FpBinary::MaxNm | FpBinary::MinNm => {
            let is_quiet = |bits| is_nan::<F>(bits) && !is_signalling::<F>(bits);
            match (is_quiet(a) && !is_nan::<F>(b), is_quiet(b) && !is_nan::<F>(a)) {
                (true, _) => (b, b),
                (_, true) => (a, a),
                _ => (a, b),
            }
        }
        _ => (a, b),
    };
    let sign = if op == FpBinary::Nmul { F::SIGN } else { 0 };
    if let Some(nan) = nan::<F>(&[a, b], mode) {
        return nan ^ sign;
    }
    let (x, y) = (F::of(a), F::of(b));
    match op {
        // Zeros are ordered by sign.
        FpBinary::Max | FpBinary::MaxNm if x == y => a & b,
        FpBinary::Max | FpBinary::MaxNm => {
            if x > y {
                a
            } else {
                b
            }
        }
        FpBinary::Min | FpBinary::MinNm if x == y => a | b,
        FpBinary::Min | FpBinary::MinNm => {
            if x < y {
                a
            } else {
                b
            }
        }
        _ => number(F::compute(op, x, y)) ^ sign,
    }
}

/// One operation of two sources, by size.
pub(super) fn binary(op: FpBinary, a: u64, b: u64, size: u8, mode: Mode) -> u64 {
    if size == 4 { binary_of::<f32>(op, a, b, mode) } else { binary_of::<f64>(op, a, b, mode) }
}

fn fused_of<F: Float>(sum: u64, a: u64, b: u64, mode: Mode) -> u64 {
    let infinity = F::DEFAULT_NAN - F::QUIET;
    let (ma, mb) = (a & !F::SIGN, b & !F::SIGN);
    let is_invalid = ma == infinity && mb == 0 || ma == 0 && mb == infinity;
    if is_invalid && is_nan::<F>(sum) && !is_signalling::<F>(sum) {
        return F::DEFAULT_NAN;
    }
    nan::<F>(&[sum, a, b], mode).unwrap_or_else(|| number(F::fused(F::of(a), F::of(b), F::of(sum))))
}

/// `sum + a * b`, rounded once.
pub(super) fn fused(sum: u64, a: u64, b: u64, size: u8, mode: Mode) -> u64 {
    if size == 4 { fused_of::<f32>(sum, a, b, mode) } else { fused_of::<f64>(sum, a, b, mode) }
}

fn multiply_extended_of<F: Float>(a: u64, b: u64, two: u64, mode: Mode) -> u64 {
    let infinity = F::DEFAULT_NAN - F::QUIET;
    let (ma, mb) = (a & !F::SIGN, b & !F::SIGN);
    if ma == infinity && mb == 0 || ma == 0 && mb == infinity {
        return (a ^ b) & F::SIGN | two;
    }
    binary_of::<F>(FpBinary::Mul, a, b, mode)
}

/// FMULX: infinity times zero is 2.
pub(super) fn multiply_extended(a: u64, b: u64, size: u8, mode: Mode) -> u64 {
    if size == 4 {
        multiply_extended_of::<f32>(a, b, 2f32.bits(), mode)
    } else {
        multiply_extended_of::<f64>(a, b, 2f64.bits(), mode)
    }
}

fn unary_of<F: Float>(op: FpUnary, a: u64, mode: Mode) -> u64 {
    match op {
        FpUnary::Mov => a,
        FpUnary::Abs => a & !F::SIGN,
        FpUnary::Neg => a ^ F::SIGN,
        _ => nan::<F>(&[a], mode).unwrap_or_else(|| {
            number(match op {
                FpUnary::Rint(rounding) => F::of(a).rint(rounding),
                FpUnary::RintCurrent => F::of(a).rint(mode.rounding),
                _ => F::of(a).sqrt(),
            })
        }),
    }
}

/// One operation of one source, by size.
pub(super) fn unary(op: FpUnary, a: u64, size: u8, mode: Mode) -> u64 {
    if size == 4 { unary_of::<f32>(op, a, mode) } else { unary_of::<f64>(op, a, mode) }
}

/// Order of two values; `None` when one is a NaN.
pub(super) fn order(a: u64, b: u64, size: u8) -> Option<std::cmp::Ordering> {
    if size == 4 {
        f32::of(a).partial_cmp(&f32::of(b))
    } else {
        f64::of(a).partial_cmp(&f64::of(b))
    }
}

/// The sign bit by size.
pub(super) fn sign(size: u8) -> u64 {
    1 << (8 * u32::from(size) - 1)
}

/// `FPCompare`.
fn compare(a: u64, b: u64, size: u8) -> u32 {
    match order(a, b, size) {
        None => alu::C | alu::V,
        Some(std::cmp::Ordering::Equal) => alu::Z | alu::C,
        Some(std::cmp::Ordering::Less) => alu::N,
        Some(std::cmp::Ordering::Greater) => alu::C,
    }
}

/// Executes one.
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, s: &Sources) -> Exec<()> {
    let size = op.size;
    let mode = Mode::new(ctx.cpu.state.fpcr);
    let low = |v: u128| v as u64 & ones(8 * u32::from(size));
    let (n, m, a) = (low(s.n), low(s.m), low(s.a));
    let nzcv = ctx.cpu.state.pstate.nzcv;
    let value = match op.kind {
        Kind::Fp1(unary_op) => unary(unary_op, n, size, mode),
        Kind::Fp2(binary_op) => binary(binary_op, n, m, size, mode),
        Kind::FpFused(kind) => {
            let sign = sign(size);
            let (sum, n) = match kind {
                FpFused::Madd => (a, n),
                FpFused::Msub => (a, n ^ sign),
                FpFused::Nmadd => (a ^ sign, n ^ sign),
                FpFused::Nmsub => (a ^ sign, n),
            };
            fused(sum, n, m, size, mode)
        }
        Kind::FpSelect => {
            if alu::condition_holds(op.amount, nzcv) {
                n
            } else {
                m
            }
        }
        Kind::FpCompare { zero } => {
            ctx.cpu.state.pstate.nzcv = compare(n, if zero { 0 } else { m }, size);
            return Ok(());
        }
        Kind::FpCondCompare => {
            let holds = alu::condition_holds(op.amount, nzcv);
            let flags = if holds { compare(n, m, size) } else { (op.imm2 as u32) << 28 };
            ctx.cpu.state.pstate.nzcv = flags;
            return Ok(());
        }
        _ => op.imm,
    };
    finish(ctx, op, u128::from(value), false);
    Ok(())
}
