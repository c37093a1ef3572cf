//! Decimal adjustment, of 16- and 32-bit code only.
//!
//! Undefined flags: OF stays for all, and AF and CF stay for AAM and AAD; SF, ZF and PF stay for
//! AAA and AAS.

use emu_cpu::port::Port;

use super::{Body, Next, fault, operand};
use crate::ctx::{Ctx, Exception};
use crate::decode::{DecimalOp, Op};
use crate::flags::{self, AF, CF, PF, SF, ZF, szp};
use crate::state::{State, gpr};

/// Executes one of them.
pub(super) fn adjust<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: DecimalOp) -> Body {
    let state = &mut ctx.cpu.state;
    match what {
        DecimalOp::Daa => packed(state, u8::wrapping_add, false),
        DecimalOp::Das => packed(state, u8::wrapping_sub, true),
        DecimalOp::Aaa => unpacked(state, 0x106),
        DecimalOp::Aas => unpacked(state, 0x106u16.wrapping_neg()),
        DecimalOp::Aam => {
            let base = op.imm as u8;
            if base == 0 {
                return fault(Exception::de());
            }
            let al = state.gpr[gpr::RAX] as u8;
            set_ax(state, u16::from(al / base) << 8 | u16::from(al % base));
        }
        DecimalOp::Aad => {
            let [al, ah] = (state.gpr[gpr::RAX] as u16).to_le_bytes();
            let sum = al.wrapping_add(ah.wrapping_mul(op.imm as u8));
            set_ax(state, u16::from(sum));
        }
    }
    Ok(Next::Seq)
}

/// Writes AX and the flags of AL.
fn set_ax(state: &mut State, value: u16) {
    operand::set_gpr(state, gpr::RAX, 2, u64::from(value));
    set_szp(state, value as u8);
}

fn set_szp(state: &mut State, al: u8) {
    state.rflags = (state.rflags & !(SF | ZF | PF)) | szp(u64::from(al), 1);
}

/// DAA and DAS.
fn packed(state: &mut State, step: fn(u8, u8) -> u8, subtracts: bool) {
    let old = state.gpr[gpr::RAX] as u8;
    let had_carry = state.rflags & CF != 0;
    let adjusts_low = old & 0xf > 9 || state.rflags & AF != 0;
    let adjusts_high = old > 0x99 || had_carry;
    let mut al = old;
    let mut carry = adjusts_high;
    if adjusts_low {
        // DAS reports the borrow of this step too ([SDM-2] "DAS").
        carry |= subtracts && old < 6;
        al = step(al, 6);
    }
    if adjusts_high {
        al = step(al, 0x60);
    }
    operand::set_gpr(state, gpr::RAX, 1, u64::from(al));
    set_szp(state, al);
    state.rflags = flags::set(state.rflags, AF, adjusts_low);
    state.rflags = flags::set(state.rflags, CF, carry);
}

/// AAA and AAS: AX changes by `step` if AL is no digit.
fn unpacked(state: &mut State, step: u16) {
    let ax = state.gpr[gpr::RAX] as u16;
    let adjusts = ax & 0xf > 9 || state.rflags & AF != 0;
    let ax = if adjusts { ax.wrapping_add(step) } else { ax };
    operand::set_gpr(state, gpr::RAX, 2, u64::from(ax & 0xff0f));
    state.rflags = flags::set(state.rflags, AF | CF, adjusts);
}
