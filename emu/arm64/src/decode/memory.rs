//! Loads and stores.

use super::kind::{Addressing, AtomicOp, Extend, Kind};
use super::{Op, ZR, bit, bits, reg, reg_sp, signed};

pub(super) fn decode(word: u32) -> Option<Op> {
    let op = Op { rd: reg(word, 0), rn: reg_sp(word, 5), ..Op::default() };
    match (bits(word, 27, 3), bits(word, 24, 2), bit(word, 26)) {
        (0b001, 0b00, false) => exclusive(word, op),
        (0b001, 0b00, true) => structures(word, op),
        (0b001, 0b01, true) => lane(word, op),
        (0b011, 0b00, _) => literal(word, op),
        (0b101, 0b00 | 0b01, _) => pair(word, op),
        (0b111, 0b01, _) => {
            let (log2, op) = transfer(word, op, Addressing::Offset)?;
            Some(Op { imm: u64::from(bits(word, 10, 12)) << log2, ..op })
        }
        (0b111, 0b00, _) => single(word, op),
        _ => None,
    }
}

/// Kind and size of a single transfer by `size`, `V`, `opc`; with the logarithm of its size.
fn transfer(word: u32, op: Op, mode: Addressing) -> Option<(u32, Op)> {
    let (size, opc) = (bits(word, 30, 2), bits(word, 22, 2));
    if bit(word, 26) {
        let log2 = match opc {
            0 | 1 => size,
            _ if size == 0 => 4,
            _ => return None,
        };
        let kind = if opc & 1 != 0 { Kind::LoadVec(mode) } else { Kind::StoreVec(mode) };
        return Some((log2, Op { kind, size: 1 << log2, ..op }));
    }
    let kind = match (opc, size) {
        (0, _) => Kind::Store(mode),
        (1, _) => Kind::Load { mode, signed: false },
        (2, 3) if matches!(mode, Addressing::Offset | Addressing::Index(_)) => Kind::Prefetch,
        (2, 0..=2) | (3, 0..=1) => Kind::Load { mode, signed: true },
        _ => return None,
    };
    Some((size, Op { kind, size: 1 << size, wide: opc != 3, ..op }))
}

/// Unscaled, pre- and post-indexed, unprivileged, register offset; atomics.
fn single(word: u32, op: Op) -> Option<Op> {
    if bit(word, 21) {
        return match bits(word, 10, 2) {
            0 => atomic(word, op),
            2 => {
                let option = bits(word, 13, 3);
                let (log2, op) = transfer(word, op, Addressing::Index(Extend::new(option)))?;
                let amount = if bit(word, 12) { log2 as u8 } else { 0 };
                (option & 2 != 0).then_some(Op { rm: reg(word, 16), amount, ..op })
            }
            _ => None,
        };
    }
    let mode = match bits(word, 10, 2) {
        0 => Addressing::Offset,
        1 => Addressing::Post,
        2 if bit(word, 26) => return None,
        2 => Addressing::Unprivileged,
        _ => Addressing::Pre,
    };
    let (_, op) = transfer(word, op, mode)?;
    Some(Op { imm: signed(word, 12, 9) as u64, ..op })
}

fn literal(word: u32, op: Op) -> Option<Op> {
    let mode = Addressing::Literal;
    let opc = bits(word, 30, 2);
    let op = Op { rn: ZR, imm: (signed(word, 5, 19) << 2) as u64, ..op };
    if bit(word, 26) {
        return (opc != 3).then_some(Op { kind: Kind::LoadVec(mode), size: 4 << opc, ..op });
    }
    let (kind, size) = match opc {
        0 => (Kind::Load { mode, signed: false }, 4),
        1 => (Kind::Load { mode, signed: false }, 8),
        2 => (Kind::Load { mode, signed: true }, 4),
        _ => (Kind::Prefetch, 8),
    };
    Some(Op { kind, size, ..op })
}

fn pair(word: u32, op: Op) -> Option<Op> {
    let (opc, load) = (bits(word, 30, 2), bit(word, 22));
    let mode = match bits(word, 23, 2) {
        1 => Addressing::Post,
        3 => Addressing::Pre,
        _ => Addressing::Offset,
    };
    let is_temporal = bits(word, 23, 2) != 0;
    let (kind, size) = match (bit(word, 26), opc) {
        (true, 3) => return None,
        (true, _) if load => (Kind::LoadVecPair(mode), 4 << opc),
        (true, _) => (Kind::StoreVecPair(mode), 4 << opc),
        (false, 0 | 2) if load => (Kind::LoadPair { mode, signed: false }, 4 << (opc >> 1)),
        (false, 0 | 2) => (Kind::StorePair(mode), 4 << (opc >> 1)),
        (false, 1) if load && is_temporal => (Kind::LoadPair { mode, signed: true }, 4),
        _ => return None,
    };
    let imm = (signed(word, 15, 7) * i64::from(size)) as u64;
    Some(Op { kind, size, imm, ra: reg(word, 10), ..op })
}

/// Exclusives, acquire and release, compare and swap.
fn exclusive(word: u32, op: Op) -> Option<Op> {
    let (size, load, is_pair) = (bits(word, 30, 2), bit(word, 22), bit(word, 21));
    let (rs, ordered, rt2) = (reg(word, 16), bit(word, 15), reg(word, 10));
    let op = Op { rm: rs, size: 1 << size, ..op };
    let is_single = rt2 == 31;
    let kind = match (bit(word, 23), is_pair) {
        (false, false) if load => Kind::LoadExclusive { acquire: ordered },
        (false, false) => Kind::StoreExclusive { release: ordered },
        (false, true) if size >= 2 => {
            let op = Op { ra: rt2, ..op };
            return Some(if load {
                Op { kind: Kind::LoadExclusivePair { acquire: ordered }, rm: ZR, ..op }
            } else {
                Op { kind: Kind::StoreExclusivePair { release: ordered }, ..op }
            });
        }
        (false, true) => {
            let is_allocated = is_single && rs & 1 == 0 && op.rd & 1 == 0;
            let kind = Kind::CasPair { acquire: load, release: ordered };
            return is_allocated.then_some(Op { kind, size: 4 << size, ..op });
        }
        (true, false) if !ordered => return None,
        (true, false) if load => Kind::LoadAcquire,
        (true, false) => Kind::StoreRelease,
        (true, true) if is_single => Kind::Cas { acquire: load, release: ordered },
        (true, true) => return None,
    };
    let has_rs = matches!(kind, Kind::StoreExclusive { .. } | Kind::Cas { .. });
    Some(Op { kind, rm: if has_rs { rs } else { ZR }, ..op })
}

fn atomic(word: u32, op: Op) -> Option<Op> {
    if bit(word, 26) {
        return None;
    }
    let (acquire, release) = (bit(word, 23), bit(word, 22));
    let op = Op { rm: reg(word, 16), size: 1 << bits(word, 30, 2), ..op };
    let atomic = match (bit(word, 15), bits(word, 12, 3)) {
        (false, opc) => [
            AtomicOp::Add,
            AtomicOp::Clear,
            AtomicOp::Xor,
            AtomicOp::Set,
            AtomicOp::SMax,
            AtomicOp::SMin,
            AtomicOp::UMax,
            AtomicOp::UMin,
        ][opc as usize],
        (true, 0) => AtomicOp::Swap,
        (true, 4) if acquire && !release && op.rm == ZR => {
            return Some(Op { kind: Kind::LoadAcquirePc, ..op });
        }
        _ => return None,
    };
    Some(Op { kind: Kind::Atomic { op: atomic, acquire, release }, ..op })
}

/// How the base moves on after structures, by `bytes` or by a register.
fn post(word: u32, bytes: u32) -> Option<(Option<Addressing>, u64, u8)> {
    let rm = reg(word, 16);
    match (bit(word, 23), rm) {
        (false, 0) => Some((None, 0, ZR)),
        (false, _) => None,
        (true, ZR) => Some((Some(Addressing::Post), u64::from(bytes), ZR)),
        (true, _) => Some((Some(Addressing::PostReg), 0, rm)),
    }
}

/// LD1 to LD4, ST1 to ST4 of whole registers.
fn structures(word: u32, op: Op) -> Option<Op> {
    if bit(word, 31) || bit(word, 21) {
        return None;
    }
    let (elements, repeat) = match bits(word, 12, 4) {
        0b0000 => (4, 1),
        0b0010 => (1, 4),
        0b0100 => (3, 1),
        0b0110 => (1, 3),
        0b0111 => (1, 1),
        0b1000 => (2, 1),
        0b1010 => (1, 2),
        _ => return None,
    };
    let bytes = if bit(word, 30) { 16 } else { 8 };
    let size = bits(word, 10, 2);
    if size == 3 && bytes == 8 && elements != 1 {
        return None;
    }
    let (post, imm, rm) = post(word, u32::from(bytes * elements * repeat))?;
    let kind = Kind::Structures { load: bit(word, 22), elements, repeat, post };
    Some(Op { kind, bytes, size: 1 << size, imm, rm, ..op })
}

/// LD1 to LD4, ST1 to ST4 of one lane, and LD1R to LD4R.
fn lane(word: u32, op: Op) -> Option<Op> {
    if bit(word, 31) {
        return None;
    }
    let (opcode, size, s) = (bits(word, 13, 3), bits(word, 10, 2), bits(word, 12, 1));
    let elements = ((opcode & 1) << 1 | bits(word, 21, 1)) as u8 + 1;
    let q = bits(word, 30, 1);
    let load = bit(word, 22);
    let (log2, index) = match opcode >> 1 {
        0 => (0, q << 3 | s << 2 | size),
        1 if size & 1 == 0 => (1, q << 2 | s << 1 | size >> 1),
        2 if size == 0 => (2, q << 1 | s),
        2 if size == 1 && s == 0 => (3, q),
        3 if load && s == 0 => (size, 0),
        _ => return None,
    };
    let (post, imm, rm) = post(word, u32::from(elements) << log2)?;
    let kind = match opcode >> 1 {
        3 => Kind::LoadReplicate { elements, post },
        _ => Kind::Lane { load, elements, post },
    };
    let bytes = if q != 0 { 16 } else { 8 };
    Some(Op { kind, bytes, size: 1 << log2, amount: index as u8, imm, rm, ..op })
}
