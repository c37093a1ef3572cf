//! Shifts of vectors by immediates, and narrowing and widening moves.

use super::vec_int::{Sources, lane, lanes, number, ones, saturate};
use crate::decode::{Op, VecNarrow, VecShift};

/// Shifts left by `amount`, right when it is negative; right shifts may round.
pub(super) fn by(value: i128, amount: i32, is_rounding: bool) -> i128 {
    if amount >= 0 {
        // By 63 places all saturates that saturates by more; callers that cut off look again.
        return value << amount.min(63);
    }
    let amount = -amount;
    let amount = amount.min(100) as u32;
    let rounding = if is_rounding { 1i128 << (amount - 1) } else { 0 };
    (value + rounding) >> amount
}

/// Shifts whose results have the size of their sources.
pub(super) fn same_size(
    op: &Op,
    shift: VecShift,
    signed: bool,
    s: &Sources,
    saturated: &mut bool,
) -> u128 {
    let (size, amount) = (op.size, i32::from(op.amount));
    let bits = 8 * u32::from(size);
    lanes(op.bytes, size, |i| {
        let a = number(s.n, i, size, signed);
        let d = lane(s.d, i, size);
        match shift {
            VecShift::Shr => by(a, -amount, false) as u64,
            VecShift::Sra => d.wrapping_add(by(a, -amount, false) as u64),
            VecShift::Rshr => by(a, -amount, true) as u64,
            VecShift::Rsra => d.wrapping_add(by(a, -amount, true) as u64),
            VecShift::Shl => lane(s.n, i, size) << amount,
            VecShift::Sli => lane(s.n, i, size) << amount | d & !(ones(bits) << amount),
            VecShift::Sri => {
                let mask = ones(bits).checked_shr(amount as u32).unwrap_or(0);
                let value = lane(s.n, i, size).checked_shr(amount as u32).unwrap_or(0);
                d & !mask | value
            }
            VecShift::Qshl => saturate(a << amount, size, signed, saturated),
            VecShift::Qshlu => {
                saturate(number(s.n, i, size, true) << amount, size, false, saturated)
            }
        }
    })
}

/// Shifts right and halves the size of elements; `op.size` is that of results. The second form
/// (`op.wide`) fills the upper half of the destination.
pub(super) fn narrow(
    op: &Op,
    to: VecNarrow,
    round: bool,
    amount: u8,
    s: &Sources,
    saturated: &mut bool,
) -> u128 {
    let (is_source_signed, is_signed) = match to {
        VecNarrow::Plain | VecNarrow::Unsigned => (false, false),
        VecNarrow::Signed => (true, true),
        VecNarrow::SignedToUnsigned => (true, false),
    };
    let value = lanes(op.bytes, op.size, |i| {
        let a = number(s.n, i, 2 * op.size, is_source_signed);
        let a = if amount == 0 { a } else { by(a, -i32::from(amount), round) };
        match to {
            VecNarrow::Plain => a as u64,
            _ => saturate(a, op.size, is_signed, saturated),
        }
    });
    upper(op, s.d, value)
}

/// Puts a result of 8 bytes where the form says: alone, or above the lower half of `d`.
pub(super) fn upper(op: &Op, d: u128, value: u128) -> u128 {
    if op.wide { d & u128::from(u64::MAX) | value << 64 } else { value }
}

/// The half of a source that a long form reads.
pub(super) fn half(op: &Op, value: u128) -> u128 {
    if op.wide { value >> 64 } else { value }
}

/// SSHLL, USHLL, SHLL.
pub(super) fn long(op: &Op, signed: bool, amount: u32, n: u128) -> u128 {
    let n = half(op, n);
    lanes(16, 2 * op.size, |i| (number(n, i, op.size, signed) << amount) as u64)
}
