//! Moves of vector elements: copies, permutations, tables, immediates.

use emu_cpu::port::Port;

use super::operand::sign_extend;
use super::vec_int::{Sources, finish, lane, lanes, ones};
use crate::ctx::{Ctx, Exec};
use crate::decode::{Kind, Op};

/// `v` with element `i` replaced.
fn with_lane(v: u128, i: u32, size: u8, value: u64) -> u128 {
    let bits = 8 * u32::from(size);
    let mask = u128::from(ones(bits)) << (i * bits);
    v & !mask | u128::from(value) << (i * bits) & mask
}

/// Executes one.
pub(super) fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, s: &Sources) -> Exec<()> {
    let (bytes, size, index) = (op.bytes, op.size, u32::from(op.amount));
    let general = ctx.cpu.state.x(op.rn);
    let imm = lanes(bytes, 8, |_| op.imm);
    let low = u128::MAX >> (128 - 8 * u32::from(bytes));
    let half = u32::from(bytes / size.max(1)) / 2;
    let value = match op.kind {
        Kind::MoveToGeneral { signed } => {
            let value = lane(s.n, index, size);
            let value = if signed { sign_extend(value, size) } else { value };
            ctx.cpu.state.set_x(op.rd, value & super::operand::mask(op));
            return Ok(());
        }
        Kind::DupElement => lanes(bytes, size, |_| lane(s.n, index, size)),
        Kind::DupGeneral => lanes(bytes, size, |_| general),
        Kind::InsertGeneral => with_lane(s.d, index, size, general),
        Kind::InsertElement => with_lane(s.d, index, size, lane(s.n, op.imm as u32, size)),
        Kind::Zip => lanes(bytes, size, |i| {
            let v = if i & 1 == 0 { s.n } else { s.m };
            lane(v, i / 2 + index * half, size)
        }),
        Kind::Uzp => lanes(bytes, size, |i| {
            let (v, i) = if i < half { (s.n, i) } else { (s.m, i - half) };
            lane(v, 2 * i + index, size)
        }),
        Kind::Trn => lanes(bytes, size, |i| {
            let v = if i & 1 == 0 { s.n } else { s.m };
            lane(v, (i & !1) + index, size)
        }),
        Kind::ExtractVec => lanes(bytes, 1, |i| {
            let (at, bytes) = (i + index, u32::from(bytes));
            if at < bytes { lane(s.n, at, 1) } else { lane(s.m, at - bytes, 1) }
        }),
        Kind::VecImmOr => (s.d | imm) & low,
        Kind::VecImmBic => s.d & !imm & low,
        Kind::Table { insert } => {
            let table = &ctx.cpu.state.v;
            lanes(bytes, 1, |i| {
                let at = lane(s.m, i, 1);
                let register = (u64::from(op.rn) + at / 16) as usize % 32;
                match at < 16 * u64::from(op.amount) {
                    true => lane(table[register], at as u32 % 16, 1),
                    false if insert => lane(s.d, i, 1),
                    false => 0,
                }
            })
        }
        _ => imm,
    };
    finish(ctx, op, value, false);
    Ok(())
}
