//! Flag arithmetic: its only home.
//!
//! Each function takes operands in the low `size` bytes (upper bits ignored) and gives the result,
//! masked, with the six arithmetic flags in their RFLAGS places. [`merge`] puts them in place.
//! Flags are computed eagerly: the work is a dozen host instructions, and `rflags` is right
//! whenever it is read.
//!
//! Flags that the manual calls undefined are set as Zen cores are known to set them where that is
//! documented below, else left as they were; the choice is deterministic.

pub use crate::defs::rflags::{
    AC, AF, CF, DF, FIXED, ID, IF, IOPL, IOPL_SHIFT, NT, OF, PF, RF, SF,
};
pub use crate::defs::rflags::{TF, VIF, VIP, VM, ZF};

/// The arithmetic flags.
pub const ARITH: u64 = CF | PF | AF | ZF | SF | OF;

const OF_SHIFT: u32 = 11;
const SF_SHIFT: u32 = 7;

/// All ones in `size` bytes.
#[must_use]
#[inline(always)]
pub const fn mask(size: u8) -> u64 {
    u64::MAX >> (64 - 8 * size as u32)
}

/// Number of the highest bit of `size` bytes.
#[must_use]
#[inline(always)]
pub const fn top_bit(size: u8) -> u32 {
    8 * size as u32 - 1
}

/// Sign-extends the low `size` bytes.
#[must_use]
#[inline(always)]
pub const fn sign_extend(value: u64, size: u8) -> u64 {
    let shift = 64 - 8 * size as u32;
    (((value << shift) as i64) >> shift) as u64
}

/// Replaces the arithmetic flags.
#[must_use]
#[inline(always)]
pub const fn merge(rflags: u64, arith: u64) -> u64 {
    (rflags & !ARITH) | arith
}

/// Sets or clears one flag.
#[must_use]
#[inline(always)]
pub const fn set(rflags: u64, flag: u64, on: bool) -> u64 {
    if on { rflags | flag } else { rflags & !flag }
}

/// SF, ZF and PF of a masked result.
#[must_use]
#[inline(always)]
pub const fn szp(result: u64, size: u8) -> u64 {
    let sf = ((result >> top_bit(size)) & 1) << SF_SHIFT;
    let zf = if result == 0 { ZF } else { 0 };
    sf | zf | parity(result)
}

/// PF of a result: set if its low byte has an even number of ones.
#[inline(always)]
const fn parity(result: u64) -> u64 {
    // Bit n of the constant is set if n has an even number of ones.
    let nibble = (result ^ (result >> 4)) & 0xf;
    ((0x9669 >> nibble) & 1) << 2
}

/// Sum of `a`, `b` and a carry.
#[must_use]
#[inline(always)]
pub const fn add(a: u64, b: u64, carry: u64, size: u8) -> (u64, u64) {
    let (a, b) = (a & mask(size), b & mask(size));
    let result = a.wrapping_add(b).wrapping_add(carry) & mask(size);
    let carries = (a & b) | ((a | b) & !result);
    let cf = (carries >> top_bit(size)) & 1;
    let of = (((a ^ result) & (b ^ result)) >> top_bit(size)) & 1;
    let af = (a ^ b ^ result) & AF;
    (result, cf | of << OF_SHIFT | af | szp(result, size))
}

/// Difference of `a` and `b` and a borrow.
#[must_use]
#[inline(always)]
pub const fn sub(a: u64, b: u64, borrow: u64, size: u8) -> (u64, u64) {
    let (a, b) = (a & mask(size), b & mask(size));
    let result = a.wrapping_sub(b).wrapping_sub(borrow) & mask(size);
    let borrows = (!a & b) | ((!a | b) & result);
    let cf = (borrows >> top_bit(size)) & 1;
    let of = (((a ^ b) & (a ^ result)) >> top_bit(size)) & 1;
    let af = (a ^ b ^ result) & AF;
    (result, cf | of << OF_SHIFT | af | szp(result, size))
}

/// Flags of a bitwise result. AF is undefined: cleared, as Zen and Intel cores do.
#[must_use]
#[inline(always)]
pub const fn logic(result: u64, size: u8) -> (u64, u64) {
    let result = result & mask(size);
    (result, szp(result, size))
}

/// Whether condition `cond`, in encoding order, holds.
#[must_use]
#[inline(always)]
pub const fn condition(cond: u8, rflags: u64) -> bool {
    let holds = match cond >> 1 {
        0 => rflags & OF != 0,
        1 => rflags & CF != 0,
        2 => rflags & ZF != 0,
        3 => rflags & (CF | ZF) != 0,
        4 => rflags & SF != 0,
        5 => rflags & PF != 0,
        6 => (rflags >> SF_SHIFT ^ rflags >> OF_SHIFT) & 1 != 0,
        _ => rflags & ZF != 0 || (rflags >> SF_SHIFT ^ rflags >> OF_SHIFT) & 1 != 0,
    };
    holds != (cond & 1 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All byte operands against a slow statement of the rules.
    #[test]
    fn byte_sums_follow_the_rules() {
        for (a, b, c) in (0..512u64 * 256).map(|n| (n & 0xff, n >> 8 & 0xff, n >> 16)) {
            let (sum, flags) = add(a, b, c, 1);
            assert_eq!(sum, (a + b + c) & 0xff);
            assert_eq!(flags & CF != 0, a + b + c > 0xff);
            assert_eq!(flags & AF != 0, (a & 15) + (b & 15) + c > 15);
            let signed = a as i8 as i64 + b as i8 as i64 + c as i64;
            assert_eq!(flags & OF != 0, i8::try_from(signed).is_err());
            assert_eq!(flags & PF != 0, sum.count_ones() % 2 == 0);

            let (difference, flags) = sub(a, b, c, 1);
            assert_eq!(difference, a.wrapping_sub(b + c) & 0xff);
            assert_eq!(flags & CF != 0, a < b + c);
            assert_eq!(flags & AF != 0, (a & 15) < (b & 15) + c);
            let signed = a as i8 as i64 - b as i8 as i64 - c as i64;
            assert_eq!(flags & OF != 0, i8::try_from(signed).is_err());
            assert_eq!(flags & ZF != 0, difference == 0);
            assert_eq!(flags & SF != 0, difference >> 7 == 1);
        }
    }

    #[test]
    fn conditions_pair_up() {
        for rflags in (0..4096).map(|n: u64| n & (ARITH | DF)) {
            for cond in (0..16).step_by(2) {
                assert_ne!(condition(cond, rflags), condition(cond + 1, rflags));
            }
        }
        assert!(condition(0xc, SF) && !condition(0xc, SF | OF));
        assert!(condition(0xf, 0) && !condition(0xf, ZF));
    }
}
