//! The most frequent instructions in their register forms, without the ways that they do not take.
//!
//! `Op::is_register_form` is set by the decoder for the kinds matched below, when all
//! operands are whole registers of 4 or 8 bytes, or immediates. Such an instruction makes no
//! request and raises no exception. The meaning is that of the general bodies: same flag functions.

use super::operand::set_reg;
use crate::decode::{Kind, Op, Operand};
use crate::flags;
use crate::state::State;

/// Executes an op that has `is_register_form`.
#[inline]
pub(super) fn execute(state: &mut State, op: &Op) {
    let size = op.size;
    let a = state.gpr[op.dst.number()];
    let b = if op.src == Operand::IMM { op.imm } else { state.gpr[op.src.number()] };
    let (result, arith) = match op.kind {
        Kind::Mov => return set_reg(state, op.dst, size, b),
        Kind::Add => flags::add(a, b, 0, size),
        Kind::Sub => flags::sub(a, b, 0, size),
        Kind::And => flags::logic(a & b, size),
        Kind::Or => flags::logic(a | b, size),
        Kind::Xor => flags::logic(a ^ b, size),
        Kind::Cmp => {
            state.rflags = flags::merge(state.rflags, flags::sub(a, b, 0, size).1);
            return;
        }
        Kind::Test => {
            state.rflags = flags::merge(state.rflags, flags::logic(a & b, size).1);
            return;
        }
        Kind::Inc => keep_carry(state, flags::add(a, 1, 0, size)),
        _ => keep_carry(state, flags::sub(a, 1, 0, size)),
    };
    set_reg(state, op.dst, size, result);
    state.rflags = flags::merge(state.rflags, arith);
}

/// INC and DEC leave the carry flag.
#[inline(always)]
fn keep_carry(state: &State, (result, arith): (u64, u64)) -> (u64, u64) {
    (result, (arith & !flags::CF) | (state.rflags & flags::CF))
}
