//! What kinds of instructions need in registers and memory to do more than fault.

use emu_x86::decode::{BitOp, FarOp, FpStateOp, FpuOp, Kind, Op, SegLoad, StringOp, SysOp, VecMov};
use emu_x86::flat_user::{DATA, DATA_END, STACK, USER_CS, USER_DS};
use emu_x86::state::gpr::{RAX, RBP, RBX, RCX, RDI, RDX, RSI, RSP};
use iced_x86::Instruction;

use super::{landing, place};
use crate::case::{Case, MXCSR};
use crate::rng::Rng;
use crate::values;

/// Selectors whose descriptors every 64-bit Linux has in the same way, or has none for.
const SELECTORS: [u16; 14] =
    [0, 1, 3, 0x08, 0x10, 0x13, 0x18, 0x23, USER_DS, 0x28, USER_CS, 0x30, 0x83, 0x2c];
/// Bytes of an XSAVE area, as far as x87 and SSE need it.
const AREA: u64 = 576;

/// Arranges registers and memory for the kind of an op.
pub(super) fn arrange(case: &mut Case, instruction: &Instruction, op: &Op, rng: &mut Rng) {
    match op.kind {
        Kind::String(what) => string(case, op, what, rng),
        Kind::Xlat => {
            let at = place::target(rng, 1);
            case.gpr[RBX] = at.wrapping_sub(case.gpr[RAX] & 0xff);
            place::fill(case, at, 1, rng);
        }
        Kind::VecMov(VecMov::MaskStore) => {
            case.gpr[RDI] = place::target(rng, 16);
            place::fill(case, case.gpr[RDI], 16, rng);
        }
        Kind::VecMov(VecMov::LoadMxcsr) => {
            let mut value = values::integer(rng) as u32;
            if !rng.one_in(4) {
                value &= 0xffff;
            }
            place::put(case, place::linear(case, op), &value.to_le_bytes());
        }
        Kind::Leave | Kind::Enter => {
            case.gpr[RBP] = place::stack(rng);
            place::fill(case, case.gpr[RBP].wrapping_sub(0x40), 0x80, rng);
        }
        Kind::Bit(what) => bit(case, op, what, rng),
        Kind::JmpIndirect | Kind::CallIndirect => {
            let target = target(rng).to_le_bytes();
            if op.dst.is_mem() {
                place::put(case, place::linear(case, op), &target);
            } else if op.dst.number() != RSP {
                case.gpr[op.dst.number()] = u64::from_le_bytes(target);
            }
        }
        Kind::Ret => place::put(case, case.gpr[RSP], &target(rng).to_le_bytes()),
        Kind::PopFlags => place::put(case, case.gpr[RSP], &rng.word().to_le_bytes()),
        Kind::Div | Kind::Idiv if !rng.one_in(4) => divide(case, op, rng),
        Kind::Loop(_) | Kind::Jcxz if rng.one_in(2) => case.gpr[RCX] = rng.below(3),
        Kind::Cmpxchg | Kind::Cmpxchg8b | Kind::Cmpxchg16b if rng.one_in(2) => {
            compare_equal(case, op);
        }
        Kind::Far(what) => far(case, op, what, rng),
        Kind::SegLoad(what) => {
            case.moves_segments = true;
            segment_load(case, op, what, rng);
        }
        Kind::System(what) => system(case, op, what, rng),
        Kind::FpState(what) => state_area(case, op, what, rng),
        Kind::Fpu(what) => fpu(case, op, what, rng),
        Kind::Cvt(_) => case.mxcsr = MXCSR | rounding_that_counts(instruction, rng),
        _ => {}
    }
}

/// MXCSR.RC, for conversions to integers alone: other arithmetic rounds to nearest only.
fn rounding_that_counts(instruction: &Instruction, rng: &mut Rng) -> u32 {
    let name = format!("{:?}", instruction.mnemonic());
    let to_integer = name.ends_with("si") || name.ends_with("2dq");
    if to_integer { (rng.below(4) as u32) << 13 } else { 0 }
}

/// Where a near branch goes.
fn target(rng: &mut Rng) -> u64 {
    match rng.below(16) {
        0 => values::integer(rng) & 0x7fff_ffff_ffff | 0x40_0000,
        1 => 0x4000_0000_0000_0000 | rng.word() >> 8,
        2 => DATA + rng.below(0x1000),
        _ => landing(rng),
    }
}

fn string(case: &mut Case, op: &Op, what: StringOp, rng: &mut Rng) {
    let size = u64::from(op.size.max(1));
    let source = place::target(rng, size);
    let mut destination = place::target(rng, size);
    if rng.one_in(3) {
        // Near each other, so that runs overlap.
        destination = source.wrapping_add(rng.below(40)).wrapping_sub(20);
    }
    case.gpr[RSI] = source.wrapping_sub(place::base(op.seg));
    case.gpr[RDI] = destination;
    case.gpr[RCX] = match rng.below(16) {
        0 => 0,
        1 => 0x200 + rng.below(0x400),
        2 => values::integer(rng) & 0xfff,
        _ => rng.below(48),
    };
    if op.asize == 4 {
        for n in [RSI, RDI, RCX] {
            if rng.one_in(2) {
                case.gpr[n] = case.gpr[n] & 0xffff_ffff | rng.word() << 32;
            }
        }
    }
    let compares = matches!(what, StringOp::Scas | StringOp::Cmps);
    if compares && rng.one_in(2) {
        // Equal for a while.
        let fill = rng.word() as u8;
        case.gpr[RAX] = u64::from_le_bytes([fill; 8]);
        for at in [source, destination] {
            place::put(case, at.wrapping_sub(96), &[fill; 200]);
        }
        let odd = destination.wrapping_add(rng.below(64)).wrapping_sub(32);
        place::put(case, odd, &[!fill]);
    } else {
        for at in [source, destination] {
            place::fill(case, at.wrapping_sub(96), 224, rng);
        }
    }
}

fn bit(case: &mut Case, op: &Op, what: BitOp, rng: &mut Rng) {
    let is_far = op.dst.is_mem() && op.src.is_gpr() && op.src.number() != RSP;
    if is_far && !rng.one_in(8) {
        let uses_register = usize::from(op.base) == op.src.number()
            || usize::from(op.index) == op.src.number() && what != BitOp::Bt;
        if !uses_register {
            case.gpr[op.src.number()] = rng.below(0x800).wrapping_sub(0x400);
        }
    }
}

/// A dividend that is not much larger than the divisor.
fn divide(case: &mut Case, op: &Op, rng: &mut Rng) {
    let high = match rng.below(4) {
        0 => 0,
        1 => u64::MAX,
        2 => rng.below(16),
        _ => (case.gpr[RAX] as i64 >> 63) as u64,
    };
    let uses = |n: usize| {
        op.dst.is_gpr() && op.dst.number() == n || op.base == n as u8 || op.index == n as u8
    };
    if op.size == 1 {
        if !uses(RAX) {
            case.gpr[RAX] = case.gpr[RAX] & 0xff | (high & 0xff) << 8;
        }
    } else if !uses(RDX) {
        case.gpr[RDX] = high;
    }
}

/// The accumulator as the destination is.
fn compare_equal(case: &mut Case, op: &Op) {
    if op.dst.is_gpr() {
        case.gpr[RAX] = case.gpr[op.dst.number()];
        return;
    }
    let uses = |n: usize| op.base == n as u8 || op.index == n as u8;
    let at = place::linear(case, op);
    if !uses(RAX) && !uses(RDX) {
        let pair = [case.gpr[RAX].to_le_bytes(), case.gpr[RDX].to_le_bytes()].concat();
        if op.kind == Kind::Cmpxchg8b {
            place::put(case, at, &[&pair[..4], &pair[8..12]].concat());
        } else {
            place::put(case, at, &pair);
        }
    }
}

fn selector(rng: &mut Rng) -> u16 {
    if rng.one_in(2) { rng.pick(&[USER_CS, USER_DS]) } else { rng.pick(&SELECTORS) }
}

/// Frames and pointers of far transfers.
fn far(case: &mut Case, op: &Op, what: FarOp, rng: &mut Rng) {
    let code = match rng.below(8) {
        0 => rng.pick(&[0, 0x10, 0x13, 0x18, USER_DS, 0x83]),
        _ => USER_CS,
    };
    let target = match rng.below(8) {
        0 => 0x4000_0000_0000_0000 | rng.word() >> 8,
        _ => landing(rng),
    };
    let size = usize::from(op.size.max(2));
    let mut frame = Vec::new();
    let mut push = |value: u64| frame.extend(&value.to_le_bytes()[..size.min(8)]);
    match what {
        FarOp::Jmp | FarOp::Call => {
            push(target);
            frame.extend(code.to_le_bytes());
            place::put(case, place::linear(case, op), &frame);
        }
        FarOp::Ret => {
            push(target);
            push(u64::from(code));
            place::put(case, case.gpr[RSP], &frame);
        }
        FarOp::Iret => {
            push(target);
            push(u64::from(code));
            // Without TF, whose trap would come at INT3, and without AC: with it, the processor
            // checks the alignment of the rest of the frame, and Linux takes that for a split lock
            // and runs the instruction again for ever.
            push(rng.word() & !0x4_0100);
            push(STACK + rng.below(64));
            push(if rng.one_in(8) { u64::from(selector(rng)) } else { u64::from(USER_DS) });
            place::put(case, case.gpr[RSP], &frame);
        }
        _ => {}
    }
}

fn segment_load(case: &mut Case, op: &Op, what: SegLoad, rng: &mut Rng) {
    let selector = selector(rng);
    match what {
        SegLoad::Pop => {
            let value = rng.word() << 16 | u64::from(selector);
            place::put(case, case.gpr[RSP], &value.to_le_bytes());
        }
        SegLoad::Mov if op.src.is_gpr() => {
            if op.src.number() != RSP {
                let n = op.src.number();
                case.gpr[n] = case.gpr[n] & !0xffff | u64::from(selector);
            }
        }
        SegLoad::Mov => place::put(case, place::linear(case, op), &selector.to_le_bytes()),
        _ => {
            let at = place::linear(case, op).wrapping_add(u64::from(op.size));
            place::put(case, at, &selector.to_le_bytes());
        }
    }
}

fn system(case: &mut Case, op: &Op, what: SysOp, rng: &mut Rng) {
    match what {
        SysOp::Verr | SysOp::Verw | SysOp::Lar | SysOp::Lsl => {
            let operand = if matches!(what, SysOp::Verr | SysOp::Verw) { op.dst } else { op.src };
            let selector = selector(rng);
            if operand.is_mem() {
                place::put(case, place::linear(case, op), &selector.to_le_bytes());
            } else if operand.number() != RSP {
                let n = operand.number();
                case.gpr[n] = case.gpr[n] & !0xffff | u64::from(selector);
            } else {
                case.gpr[RSP] = u64::from(selector);
            }
        }
        SysOp::Rdfsbase | SysOp::Rdgsbase => case.moves_segments = true,
        SysOp::Wrfsbase | SysOp::Wrgsbase => {
            case.moves_segments = true;
            if op.dst.number() != RSP && !rng.one_in(8) {
                case.gpr[op.dst.number()] = rng.word() >> 20;
            }
        }
        // ECX = 1 asks for what not all have.
        SysOp::Xgetbv => case.gpr[RCX] = rng.pick(&[0, 0, 0x1_0000_0000, 2, 0xffff_ffff]),
        _ => {}
    }
}

/// Save areas: aligned mostly, with an image that can be loaded mostly.
fn state_area(case: &mut Case, op: &Op, what: FpStateOp, rng: &mut Rng) {
    if !rng.one_in(16) {
        let room = (DATA_END - DATA - 0x280) / 64;
        let at = DATA + 64 * rng.below(room);
        place::point(case, op, at, rng);
    }
    // The components that the emulator has.
    case.gpr[RAX] = case.gpr[RAX] & !0xffff_ffff | rng.below(4);
    case.gpr[RDX] &= !0xffff_ffff;
    case.fsw = rng.word() as u16 & 0x7f00;
    case.ftw = 0;
    let at = place::linear(case, op);
    if rng.one_in(2) {
        place::fill(case, at, AREA, rng);
    }
    if matches!(what, FpStateOp::Fxsave | FpStateOp::Xsave) {
        return;
    }
    let mask = if rng.one_in(8) { u32::MAX } else { 0xffff };
    let mxcsr = values::integer(rng) as u32 & mask;
    place::put(case, at.wrapping_add(24), &mxcsr.to_le_bytes());
    let control = if rng.one_in(2) { 0x37f } else { rng.word() as u16 };
    let status = rng.word() as u16 & rng.pick(&[0x7f00, 0xffff]);
    place::put(case, at, &control.to_le_bytes());
    place::put(case, at.wrapping_add(2), &status.to_le_bytes());
    let mut header = [0; 64];
    header[0] = rng.below(4) as u8;
    if rng.one_in(8) {
        // Bits that no processor has; not those of other components, or of the compacted format.
        header[rng.pick(&[7, 8, 14, 16, 23])] = 0x80;
    }
    place::put(case, at.wrapping_add(512), &header);
}

fn fpu(case: &mut Case, op: &Op, what: FpuOp, rng: &mut Rng) {
    case.fcw = 0x340 | (rng.below(4) as u16) << 10 | masks(rng);
    case.fsw = rng.word() as u16 & rng.pick(&[0x7f00, 0x7f7f]);
    if case.fsw & !case.fcw & 0x3f != 0 {
        // Error summary and busy go with an exception that is not masked.
        case.fsw |= 0x8080;
    }
    case.ftw = 0;
    if what == FpuOp::Fldcw {
        place::put(case, place::linear(case, op), &(rng.word() as u16).to_le_bytes());
    }
}

/// Masks of x87 exceptions: all, mostly.
fn masks(rng: &mut Rng) -> u16 {
    if rng.one_in(3) { rng.word() as u16 & 0x3f } else { 0x3f }
}
