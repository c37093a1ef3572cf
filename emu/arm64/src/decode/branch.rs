//! Branches, exception generation, and system instructions.

use super::kind::Kind;
use super::{Op, ZR, bit, bits, reg, signed};
use crate::defs::SysReg;

pub(super) fn decode(word: u32) -> Option<Op> {
    match bits(word, 25, 7) {
        0b0101010 => {
            let is_allocated = !bit(word, 24) && !bit(word, 4);
            let imm = offset(word, 5, 19);
            let amount = bits(word, 0, 4) as u8;
            is_allocated.then_some(Op { kind: Kind::BranchCond, imm, amount, ..Op::default() })
        }
        0b1101010 if bit(word, 24) => system(word),
        0b1101010 => exception(word),
        0b1101011 => register(word),
        _ => match bits(word, 26, 5) {
            0b00101 => {
                let kind = Kind::Branch { link: bit(word, 31) };
                Some(Op { kind, imm: offset(word, 0, 26), ..Op::default() })
            }
            0b01101 => Some(compare(word)),
            _ => None,
        },
    }
}

fn offset(word: u32, low: u32, len: u32) -> u64 {
    (signed(word, low, len) << 2) as u64
}

/// CBZ, CBNZ, TBZ, TBNZ.
fn compare(word: u32) -> Op {
    let nonzero = bit(word, 24);
    let (rn, wide) = (reg(word, 0), bit(word, 31));
    if bit(word, 25) {
        let amount = (bits(word, 31, 1) << 5 | bits(word, 19, 5)) as u8;
        let imm = offset(word, 5, 14);
        Op { kind: Kind::TestBranch { nonzero }, rn, imm, amount, ..Op::default() }
    } else {
        let imm = offset(word, 5, 19);
        Op { kind: Kind::CompareBranch { nonzero }, rn, imm, wide, ..Op::default() }
    }
}

fn exception(word: u32) -> Option<Op> {
    let kind = match (bits(word, 21, 3), bits(word, 0, 5)) {
        (0, 1) => Kind::Svc,
        (0, 2) => Kind::Hvc,
        (0, 3) => Kind::Smc,
        (1, 0) => Kind::Brk,
        _ => return None,
    };
    Some(Op { kind, imm: u64::from(bits(word, 5, 16)), ..Op::default() })
}

fn register(word: u32) -> Option<Op> {
    if bits(word, 16, 5) != 31 || bits(word, 10, 6) != 0 || bits(word, 0, 5) != 0 {
        return None;
    }
    let rn = reg(word, 5);
    let kind = match bits(word, 21, 4) {
        0 => Kind::BranchReg { link: false },
        1 => Kind::BranchReg { link: true },
        2 => Kind::Return,
        4 if rn == ZR => Kind::Eret,
        _ => return None,
    };
    Some(Op { kind, rn, ..Op::default() })
}

fn system(word: u32) -> Option<Op> {
    if bits(word, 22, 2) != 0 {
        return None;
    }
    let field = |low, len| bits(word, low, len) as u16;
    let (op0, op1, crn, crm, op2) =
        (field(19, 2), field(16, 3), field(12, 4), field(8, 4), field(5, 3));
    let rt = reg(word, 0);
    let is_read = bit(word, 21);
    let name = SysReg::new(op0, op1, crn, crm, op2);
    let op = Op { imm: u64::from(name.bits()), flags: is_read, ..Op::default() };
    match op0 {
        2 | 3 if is_read => Some(Op { kind: Kind::Mrs, rd: rt, ..op }),
        2 | 3 => Some(Op { kind: Kind::Msr, rn: rt, ..op }),
        1 if is_read => Some(Op { kind: Kind::Sys, rd: rt, ..op }),
        1 => Some(Op { kind: Kind::Sys, rn: rt, ..op }),
        _ if is_read => None,
        _ => without_register(word, (op1, crn, crm, op2), op),
    }
}

/// Hints, barriers, and MSR (immediate).
fn without_register(word: u32, fields: (u16, u16, u16, u16), op: Op) -> Option<Op> {
    let (op1, crn, crm, op2) = fields;
    let rt = reg(word, 0);
    let amount = crm as u8;
    if crn == 1 && op1 == 3 && crm == 0 && op2 < 2 {
        return Some(Op { kind: Kind::WaitTimeout { event: op2 == 0 }, rn: rt, ..op });
    }
    if rt != ZR {
        return None;
    }
    match (op1, crn, op2) {
        (3, 2, _) => {
            let imm = u64::from(crm << 3 | op2);
            Some(Op { kind: Kind::Hint, imm, ..op })
        }
        (3, 3, 2) => Some(Op { kind: Kind::ClearExclusive, ..op }),
        (3, 3, 4) => Some(Op { kind: Kind::Dsb, amount, ..op }),
        (3, 3, 5) => Some(Op { kind: Kind::Dmb, amount, ..op }),
        (3, 3, 6) => Some(Op { kind: Kind::Isb, amount, ..op }),
        (3, 3, 7) if crm == 0 => Some(Op { kind: Kind::Sb, ..op }),
        (0, 4, 0) if crm == 0 => Some(Op { kind: Kind::Cfinv, ..op }),
        (_, 4, _) => Some(Op { kind: Kind::MsrImm, amount, ..op }),
        _ => None,
    }
}
