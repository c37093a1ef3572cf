//! Where operands in memory lie, and what is there.

use emu_x86::decode::{Kind, NO_REG, Op, RIP_BASE};
use emu_x86::flat_user::{
    CODE, DATA, DATA_END, FS_BASE, GS_BASE, PAGES, READ_ONLY, STACK, STACK_PAGE,
};
use emu_x86::state::SegReg;
use iced_x86::{Instruction, OpKind};

use crate::case::Case;
use crate::rng::Rng;
use crate::values;

/// Bytes of memory that are filled around an operand, before and behind its address.
const AROUND: u64 = 64;
const PAGE: u64 = 0x1000;

/// An address for an operand of `size` bytes.
pub(super) fn target(rng: &mut Rng, size: u64) -> u64 {
    let inside = 1 + rng.below(size.max(2) - 1);
    match rng.below(40) {
        // Over the end of a page, of what is mapped, and of a line.
        0 => DATA + PAGE - inside,
        1 => DATA_END - inside,
        2 => DATA + 64 * (1 + rng.below(60)) - inside,
        3 => DATA - inside,
        // Not mapped, not writable, not an address, not the user's.
        4 => DATA_END + 0x10 + rng.below(0xf00),
        5 => READ_ONLY + rng.below(0xf80),
        6 => 0x4000_0000_0000_0000 | rng.word() >> 8,
        7 => 0xffff_8000_0000_0000 + rng.below(1 << 40),
        8..24 => DATA + 64 * (1 + rng.below(120)),
        24..30 => DATA + 64 + 16 * rng.below(480),
        _ => DATA + 64 + rng.below(0x1f00),
    }
}

/// An address for an operand whose address is in the instruction: below 2 GiB.
pub(super) fn low_target(rng: &mut Rng) -> u64 {
    let at = target(rng, 8);
    if at >> 31 == 0 { at } else { DATA + 64 + rng.below(0x1f00) }
}

/// A stack pointer.
pub(super) fn stack(rng: &mut Rng) -> u64 {
    match rng.below(64) {
        0 => 0x8000_0000_0000_0000 | rng.word() >> 2,
        1..4 => STACK_PAGE + rng.below(24),
        4..7 => STACK_PAGE + PAGE - rng.below(24),
        7..10 => STACK + rng.below(64),
        10..12 => 8 * rng.below(1 << 20),
        _ => STACK - 0x200 + 8 * rng.below(0x80),
    }
}

/// Fills memory from `at` with random contents, as far as it is data.
pub(super) fn fill(case: &mut Case, at: u64, len: u64, rng: &mut Rng) {
    let bytes: Vec<u8> =
        (0..len.div_ceil(16)).flat_map(|_| values::vector(rng).to_le_bytes()).collect();
    put(case, at, &bytes[..len as usize]);
}

/// Puts bytes into memory, as far as there is data.
pub(super) fn put(case: &mut Case, at: u64, bytes: &[u8]) {
    let mut run: Option<(u64, Vec<u8>)> = None;
    for (i, byte) in bytes.iter().enumerate() {
        let at = at.wrapping_add(i as u64);
        let page = at & !(PAGE - 1);
        let is_data = PAGES.iter().any(|row| row.0 == page && !row.2);
        if !is_data {
            case.memory.extend(run.take());
            continue;
        }
        match &mut run {
            // A run stays in its page.
            Some((start, bytes)) if *start & !(PAGE - 1) == page => bytes.push(*byte),
            _ => {
                case.memory.extend(run.take());
                run = Some((at, vec![*byte]));
            }
        }
    }
    case.memory.extend(run);
}

/// Base of a segment.
pub(super) fn base(seg: SegReg) -> u64 {
    match seg {
        SegReg::Fs => FS_BASE,
        SegReg::Gs => GS_BASE,
        _ => 0,
    }
}

/// The linear address of the memory operand of an op.
pub(super) fn linear(case: &Case, op: &Op) -> u64 {
    let mut at = op.disp as u64;
    if op.base < RIP_BASE {
        at = at.wrapping_add(case.gpr[usize::from(op.base)]);
    } else if op.base == RIP_BASE {
        at = at.wrapping_add(CODE);
    }
    if op.index != NO_REG {
        at = at.wrapping_add(case.gpr[usize::from(op.index & 15)] << op.scale);
    }
    let mask = u64::MAX >> (64 - 8 * u32::from(op.asize.clamp(1, 8)));
    (at & mask).wrapping_add(base(op.seg))
}

/// Sets the registers of the memory operand such that it points to a target.
pub(super) fn point(case: &mut Case, op: &Op, target: u64, rng: &mut Rng) {
    let offset = target.wrapping_sub(base(op.seg)).wrapping_sub(op.disp as u64);
    let has_base = op.base < RIP_BASE && op.base != 4;
    if op.index != NO_REG && (op.index != op.base || !has_base) {
        let index = usize::from(op.index & 15);
        if has_base {
            if rng.one_in(2) {
                case.gpr[index] = values::integer(rng) & 0xff;
            }
        } else {
            // What the scale cannot reach, it misses by a few bytes.
            let fixed = if op.base == 4 { case.gpr[4] } else { 0 };
            case.gpr[index] = (offset.wrapping_sub(fixed) as i64 >> op.scale) as u64;
        }
    }
    if has_base {
        let n = usize::from(op.base);
        case.gpr[n] = if op.index == op.base {
            // base + base * scale: exact where it divides.
            offset / (1 + (1 << op.scale))
        } else if op.index == NO_REG {
            offset
        } else {
            offset.wrapping_sub(case.gpr[usize::from(op.index & 15)] << op.scale)
        };
        if op.asize == 4 && rng.one_in(2) {
            // The upper half does not count.
            case.gpr[n] ^= rng.word() << 32;
        }
    }
}

/// Bytes that an instruction reads or writes at its memory operand.
fn size(instruction: &Instruction) -> u64 {
    (instruction.memory_size().size() as u64).max(1)
}

/// Places the operands in memory, and fills memory there and at the stack.
pub(super) fn operands(case: &mut Case, instruction: &Instruction, op: &Op, rng: &mut Rng) {
    let kinds = (0..instruction.op_count()).map(|i| instruction.op_kind(i));
    if kinds.into_iter().any(|kind| kind == OpKind::Memory) && op.kind != Kind::Invalid {
        let at = target(rng, size(instruction));
        point(case, op, at, rng);
        let at = linear(case, op);
        fill(case, at.wrapping_sub(AROUND / 4), AROUND, rng);
    }
    if instruction.is_stack_instruction() || op.seg == SegReg::Ss {
        let at = case.gpr[4];
        fill(case, at.wrapping_sub(AROUND), 2 * AROUND, rng);
    }
}
