//! Data processing, immediate.

use super::kind::{Alu, Bitfield, Kind, Source};
use super::{Op, bit, bits, reg, reg_sp, signed};

pub(super) fn decode(word: u32) -> Option<Op> {
    let wide = bit(word, 31);
    match bits(word, 23, 3) {
        0b000 | 0b001 => Some(address(word)),
        0b010 => Some(add_sub(word)),
        0b100 => logical(word),
        0b101 => move_wide(word),
        0b110 => bitfield(word),
        0b111 => {
            let amount = bits(word, 10, 6) as u8;
            let is_allocated = bits(word, 29, 2) == 0
                && bit(word, 22) == wide
                && !bit(word, 21)
                && (wide || amount < 32);
            let (rd, rn, rm) = (reg(word, 0), reg(word, 5), reg(word, 16));
            is_allocated.then_some(Op {
                kind: Kind::Extract,
                rd,
                rn,
                rm,
                amount,
                wide,
                ..Op::default()
            })
        }
        _ => None,
    }
}

fn address(word: u32) -> Op {
    let imm = signed(word, 5, 19) << 2 | i64::from(bits(word, 29, 2));
    let (kind, imm) = if bit(word, 31) { (Kind::Adrp, imm << 12) } else { (Kind::Adr, imm) };
    Op { kind, rd: reg(word, 0), imm: imm as u64, ..Op::default() }
}

fn add_sub(word: u32) -> Op {
    let alu = if bit(word, 30) { Alu::Sub } else { Alu::Add };
    let flags = bit(word, 29);
    Op {
        kind: Kind::Alu(alu, Source::Imm),
        rd: if flags { reg(word, 0) } else { reg_sp(word, 0) },
        rn: reg_sp(word, 5),
        imm: u64::from(bits(word, 10, 12)) << if bit(word, 22) { 12 } else { 0 },
        wide: bit(word, 31),
        flags,
        ..Op::default()
    }
}

fn logical(word: u32) -> Option<Op> {
    let wide = bit(word, 31);
    let opc = bits(word, 29, 2);
    let (imm, _) = masks(bit(word, 22), bits(word, 10, 6), bits(word, 16, 6), true)?;
    if !wide && bit(word, 22) {
        return None;
    }
    let alu = [Alu::And, Alu::Or, Alu::Xor, Alu::And][opc as usize];
    let flags = opc == 3;
    let rd = if flags { reg(word, 0) } else { reg_sp(word, 0) };
    let kind = Kind::Alu(alu, Source::Imm);
    let imm = if wide { imm } else { imm & 0xffff_ffff };
    Some(Op { kind, rd, rn: reg(word, 5), imm, wide, flags, ..Op::default() })
}

fn move_wide(word: u32) -> Option<Op> {
    let wide = bit(word, 31);
    let shift = bits(word, 21, 2) * 16;
    if !wide && shift > 16 {
        return None;
    }
    let imm = u64::from(bits(word, 5, 16)) << shift;
    let (kind, imm) = match bits(word, 29, 2) {
        0 => (Kind::MovImm, !imm),
        2 => (Kind::MovImm, imm),
        3 => (Kind::MovKeep, imm),
        _ => return None,
    };
    let imm = if wide { imm } else { imm & 0xffff_ffff };
    let rd = reg(word, 0);
    Some(Op { kind, rd, rn: rd, imm, imm2: 0xffff << shift, wide, ..Op::default() })
}

fn bitfield(word: u32) -> Option<Op> {
    let wide = bit(word, 31);
    let (immr, imms) = (bits(word, 16, 6), bits(word, 10, 6));
    if bit(word, 22) != wide || !wide && (immr > 31 || imms > 31) {
        return None;
    }
    let field = match bits(word, 29, 2) {
        0 => Bitfield::Signed,
        1 => Bitfield::Insert,
        2 => Bitfield::Unsigned,
        _ => return None,
    };
    let (wmask, tmask) = masks(wide, imms, immr, false)?;
    Some(Op {
        kind: Kind::Bitfield(field),
        rd: reg(word, 0),
        rn: reg(word, 5),
        ra: imms as u8,
        amount: immr as u8,
        imm: wmask,
        imm2: tmask,
        wide,
        ..Op::default()
    })
}

/// `DecodeBitMasks`: the masks `wmask` and `tmask`, 64 bits wide.
fn masks(n: bool, imms: u32, immr: u32, is_immediate: bool) -> Option<(u64, u64)> {
    let len = 31u32.checked_sub((u32::from(n) << 6 | (!imms & 0x3f)).leading_zeros())?;
    if len < 1 {
        return None;
    }
    let levels = (1u32 << len) - 1;
    if is_immediate && imms & levels == levels {
        return None;
    }
    let (s, r) = (imms & levels, immr & levels);
    let esize = 1u32 << len;
    let ones = |count: u32| if count >= 64 { u64::MAX } else { (1u64 << count) - 1 };
    let element = ones(s + 1);
    let rotated =
        if r == 0 { element } else { (element >> r | element << (esize - r)) & ones(esize) };
    let top = ones((s.wrapping_sub(r) & levels) + 1);
    let replicate = |value: u64| (0..64 / esize).fold(0, |all, i| all | value << (i * esize));
    Some((replicate(rotated), replicate(top)))
}
