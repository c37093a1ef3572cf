//! Data processing, register.

use super::kind::{Alu, Divide, Extend, Kind, Select, Shift, Source, Unary, Wide};
use super::{Op, ZR, bit, bits, reg, reg_sp};

pub(super) fn decode(word: u32) -> Option<Op> {
    let op = Op {
        rd: reg(word, 0),
        rn: reg(word, 5),
        rm: reg(word, 16),
        wide: bit(word, 31),
        flags: bit(word, 29),
        ..Op::default()
    };
    if !bit(word, 28) {
        return match (bit(word, 24), bit(word, 21)) {
            (false, _) => logical(word, op),
            (true, false) => add_sub(word, op),
            (true, true) => add_sub_extended(word, op),
        };
    }
    match bits(word, 21, 4) {
        0b0000 => carry(word, op),
        0b0010 => compare(word, op),
        0b0100 => select(word, op),
        0b0110 if op.flags => None,
        0b0110 if bit(word, 30) => one_source(word, op),
        0b0110 => two_sources(word, op),
        0b1000..=0b1111 => three_sources(word, op),
        _ => None,
    }
}

fn shifted(word: u32, op: Op) -> Option<(Shift, Op)> {
    let amount = bits(word, 10, 6) as u8;
    let shift = Shift::ALL[bits(word, 22, 2) as usize];
    (op.wide || amount < 32).then_some((shift, Op { amount, ..op }))
}

fn logical(word: u32, op: Op) -> Option<Op> {
    let (shift, op) = shifted(word, op)?;
    let opc = bits(word, 29, 2);
    let alu = match (opc, bit(word, 21)) {
        (0 | 3, false) => Alu::And,
        (0 | 3, true) => Alu::Bic,
        (1, false) => Alu::Or,
        (1, true) => Alu::Orn,
        (_, false) => Alu::Xor,
        (_, true) => Alu::Eon,
    };
    Some(Op { kind: Kind::Alu(alu, Source::Shifted(shift)), flags: opc == 3, ..op })
}

fn add_or_sub(word: u32) -> Alu {
    if bit(word, 30) { Alu::Sub } else { Alu::Add }
}

fn add_sub(word: u32, op: Op) -> Option<Op> {
    let (shift, op) = shifted(word, op)?;
    let kind = Kind::Alu(add_or_sub(word), Source::Shifted(shift));
    (shift != Shift::Ror).then_some(Op { kind, ..op })
}

fn add_sub_extended(word: u32, op: Op) -> Option<Op> {
    let amount = bits(word, 10, 3) as u8;
    let kind = Kind::Alu(add_or_sub(word), Source::Extended(Extend::new(bits(word, 13, 3))));
    let rd = if op.flags { op.rd } else { reg_sp(word, 0) };
    let is_allocated = bits(word, 22, 2) == 0 && amount <= 4;
    is_allocated.then_some(Op { kind, rd, rn: reg_sp(word, 5), amount, ..op })
}

/// ADC, SBC; RMIF, SETF8, SETF16.
fn carry(word: u32, op: Op) -> Option<Op> {
    if bits(word, 10, 6) == 0 {
        return Some(Op { kind: Kind::Carry { subtract: bit(word, 30) }, ..op });
    }
    if bits(word, 29, 3) != 0b101 && bits(word, 29, 3) != 0b001 {
        return None;
    }
    if op.wide && bits(word, 10, 5) == 1 && !bit(word, 4) {
        let (amount, imm) = (bits(word, 15, 6) as u8, u64::from(bits(word, 0, 4)));
        return Some(Op { kind: Kind::Rmif, rd: ZR, rm: ZR, amount, imm, ..op });
    }
    if !op.wide && bits(word, 15, 6) == 0 && bits(word, 10, 4) == 2 && bits(word, 0, 5) == 13 {
        let size = if bit(word, 14) { 2 } else { 1 };
        return Some(Op { kind: Kind::Setf, rd: ZR, rm: ZR, size, ..op });
    }
    None
}

fn compare(word: u32, op: Op) -> Option<Op> {
    if !op.flags || bit(word, 10) || bit(word, 4) {
        return None;
    }
    let subtract = bit(word, 30);
    let op =
        Op { rd: ZR, amount: bits(word, 12, 4) as u8, imm2: u64::from(bits(word, 0, 4)), ..op };
    Some(if bit(word, 11) {
        let imm = u64::from(bits(word, 16, 5));
        Op { kind: Kind::CompareImm { subtract }, imm, rm: ZR, ..op }
    } else {
        Op { kind: Kind::CompareReg { subtract }, ..op }
    })
}

fn select(word: u32, op: Op) -> Option<Op> {
    if op.flags {
        return None;
    }
    let select = match (bit(word, 30), bits(word, 10, 2)) {
        (false, 0) => Select::Sel,
        (false, 1) => Select::Inc,
        (true, 0) => Select::Inv,
        (true, 1) => Select::Neg,
        _ => return None,
    };
    Some(Op { kind: Kind::Select(select), amount: bits(word, 12, 4) as u8, ..op })
}

fn one_source(word: u32, op: Op) -> Option<Op> {
    if bits(word, 16, 5) != 0 {
        return None;
    }
    let unary = match bits(word, 10, 6) {
        0 => Unary::Rbit,
        1 => Unary::Rev16,
        2 => Unary::Rev32,
        3 if op.wide => Unary::Rev64,
        4 => Unary::Clz,
        5 => Unary::Cls,
        _ => return None,
    };
    Some(Op { kind: Kind::Unary(unary), rm: ZR, ..op })
}

fn two_sources(word: u32, op: Op) -> Option<Op> {
    let opcode = bits(word, 10, 6);
    let kind = match opcode {
        0b000010 => Kind::Divide(Divide::Unsigned),
        0b000011 => Kind::Divide(Divide::Signed),
        0b001000..=0b001011 => Kind::ShiftReg(Shift::ALL[(opcode & 3) as usize]),
        0b010000..=0b010111 if op.wide == (opcode & 3 == 3) => {
            Kind::Crc { castagnoli: opcode & 4 != 0 }
        }
        _ => return None,
    };
    Some(Op { kind, size: 1 << (opcode & 3), ..op })
}

fn three_sources(word: u32, op: Op) -> Option<Op> {
    if bits(word, 29, 2) != 0 {
        return None;
    }
    let ra = reg(word, 10);
    let kind = match (bits(word, 21, 3), bit(word, 15)) {
        (0, subtract) => Kind::Multiply { subtract },
        _ if !op.wide => return None,
        (1, false) => Kind::MultiplyWide(Wide::Smaddl),
        (1, true) => Kind::MultiplyWide(Wide::Smsubl),
        (2, false) => Kind::MultiplyWide(Wide::Smulh),
        (5, false) => Kind::MultiplyWide(Wide::Umaddl),
        (5, true) => Kind::MultiplyWide(Wide::Umsubl),
        (6, false) => Kind::MultiplyWide(Wide::Umulh),
        _ => return None,
    };
    Some(Op { kind, ra, ..op })
}
