//! Sizes of operands, of the stack's items, and of counters.

use iced_x86::{Code, Instruction, MemorySize, Mnemonic as M, OpKind, Register};

use super::Op;
use super::kind::{Kind, SegLoad, ShuffleOp, SysOp, VecMov};

/// Fills `size` and `src_size`.
pub(super) fn fill(instruction: &Instruction, op: &mut Op) {
    op.size =
        match op.kind {
            Kind::Push
            | Kind::Pop
            | Kind::PushSegment
            | Kind::SegLoad(SegLoad::Pop)
            | Kind::PushFlags
            | Kind::PopFlags
            | Kind::Call
            | Kind::CallIndirect
            | Kind::Ret
            | Kind::Leave
            | Kind::Enter => stack_size(instruction),
            Kind::PushAll => (instruction.stack_pointer_increment() / -8) as u8,
            Kind::PopAll => (instruction.stack_pointer_increment() / 8) as u8,
            Kind::Jmp | Kind::Jcc(_) | Kind::Loop(_) | Kind::Jcxz => branch_size(instruction),
            Kind::Far(_) => far_size(instruction),
            Kind::SignExtend | Kind::SignDouble => match instruction.mnemonic() {
                M::Cbw | M::Cwd => 2,
                M::Cwde | M::Cdq => 4,
                _ => 8,
            },
            // The operand that is no port.
            Kind::Out => operand_size(instruction, 1),
            Kind::SegLoad(SegLoad::Mov) => operand_size(instruction, 1),
            Kind::System(SysOp::Sgdt | SysOp::Sidt | SysOp::Lgdt | SysOp::Lidt) => {
                if op.bits == 64 { 8 } else { 4 }
            }
            Kind::Shuffle(ShuffleOp::Pmovzx | ShuffleOp::Pmovsx) => extended_size(instruction),
            Kind::FpState(_) => u8::from(is_64_form(instruction.mnemonic())) * 4 + 4,
            Kind::String(_) => instruction.memory_size().size() as u8,
            Kind::Xlat => 1,
            _ => operand_size(instruction, 0),
        };
    op.src_size = source_size(instruction, op);
    if op.kind == Kind::Xlat {
        op.asize = match instruction.memory_base() {
            Register::BX => 2,
            Register::EBX => 4,
            _ => 8,
        };
    }
    if matches!(op.kind, Kind::Loop(_) | Kind::Jcxz) {
        op.asize = counter_size(instruction.code());
    }
}

/// Bytes of operand `i`.
fn operand_size(instruction: &Instruction, i: u32) -> u8 {
    if instruction.op_count() <= i {
        return 4;
    }
    match instruction.op_kind(i) {
        OpKind::Register => instruction.op_register(i).size() as u8,
        OpKind::Memory => instruction.memory_size().size() as u8,
        _ => 4,
    }
}

/// Bytes that a stack instruction moves for each of its items.
fn stack_size(instruction: &Instruction) -> u8 {
    match instruction.code() {
        Code::Leavew | Code::Enterw_imm16_imm8 => return 2,
        Code::Leaved | Code::Enterd_imm16_imm8 => return 4,
        Code::Leaveq | Code::Enterq_imm16_imm8 => return 8,
        Code::Retnw | Code::Retnw_imm16 => return 2,
        Code::Retnd | Code::Retnd_imm16 => return 4,
        Code::Retnq | Code::Retnq_imm16 => return 8,
        _ => {}
    }
    instruction.stack_pointer_increment().unsigned_abs() as u8
}

/// Bytes of the instruction pointer that a near branch keeps.
fn branch_size(instruction: &Instruction) -> u8 {
    match instruction.op_kind(0) {
        OpKind::NearBranch16 => 2,
        OpKind::NearBranch32 => 4,
        _ => 8,
    }
}

/// Operand size of a far transfer.
fn far_size(instruction: &Instruction) -> u8 {
    match instruction.code() {
        Code::Retfw | Code::Retfw_imm16 | Code::Iretw => 2,
        Code::Retfd | Code::Retfd_imm16 | Code::Iretd => 4,
        Code::Retfq | Code::Retfq_imm16 | Code::Iretq => 8,
        Code::Jmp_ptr1616 | Code::Call_ptr1616 | Code::Jmp_m1616 | Code::Call_m1616 => 2,
        Code::Jmp_ptr1632 | Code::Call_ptr1632 | Code::Jmp_m1632 | Code::Call_m1632 => 4,
        Code::Jmp_m1664 | Code::Call_m1664 | Code::Sysretq | Code::Sysexitq => 8,
        _ => 4,
    }
}

/// Bytes of the counter of LOOP and JCXZ.
fn counter_size(code: Code) -> u8 {
    use Code::{
        Jcxz_rel8_16, Jcxz_rel8_32, Jecxz_rel8_16, Jecxz_rel8_32, Jecxz_rel8_64, Loop_rel8_16_CX,
        Loop_rel8_16_ECX, Loop_rel8_32_CX, Loop_rel8_32_ECX, Loop_rel8_64_ECX, Loope_rel8_16_CX,
        Loope_rel8_16_ECX, Loope_rel8_32_CX, Loope_rel8_32_ECX, Loope_rel8_64_ECX,
        Loopne_rel8_16_CX, Loopne_rel8_16_ECX, Loopne_rel8_32_CX, Loopne_rel8_32_ECX,
        Loopne_rel8_64_ECX,
    };
    match code {
        Jcxz_rel8_16 | Jcxz_rel8_32 | Loop_rel8_16_CX | Loop_rel8_32_CX | Loope_rel8_16_CX
        | Loope_rel8_32_CX | Loopne_rel8_16_CX | Loopne_rel8_32_CX => 2,
        Jecxz_rel8_16 | Jecxz_rel8_32 | Jecxz_rel8_64 | Loop_rel8_16_ECX | Loop_rel8_32_ECX
        | Loop_rel8_64_ECX | Loope_rel8_16_ECX | Loope_rel8_32_ECX | Loope_rel8_64_ECX
        | Loopne_rel8_16_ECX | Loopne_rel8_32_ECX | Loopne_rel8_64_ECX => 4,
        _ => 8,
    }
}

/// Whether a save of state has the 64-bit format of pointers.
fn is_64_form(mnemonic: M) -> bool {
    matches!(mnemonic, M::Fxsave64 | M::Fxrstor64 | M::Xsave64 | M::Xsaveopt64 | M::Xrstor64)
}

/// Bytes of a source element of PMOVSX and PMOVZX in the low four bits, of a destination element
/// in the high ones.
fn extended_size(instruction: &Instruction) -> u8 {
    match instruction.mnemonic() {
        M::Pmovzxbw | M::Pmovsxbw => 0x21,
        M::Pmovzxbd | M::Pmovsxbd => 0x41,
        M::Pmovzxbq | M::Pmovsxbq => 0x81,
        M::Pmovzxwd | M::Pmovsxwd => 0x42,
        M::Pmovzxwq | M::Pmovsxwq => 0x82,
        _ => 0x84,
    }
}

/// Bytes of the source where bodies need them.
fn source_size(instruction: &Instruction, op: &Op) -> u8 {
    match instruction.mnemonic() {
        M::Pinsrb | M::Pextrb | M::Pmovmskb => return 1,
        M::Pinsrw | M::Pextrw => return 2,
        M::Pinsrd | M::Pextrd | M::Extractps | M::Movmskps | M::Movss => return 4,
        M::Pinsrq | M::Pextrq | M::Movmskpd => return 8,
        M::Movsd if op.kind == Kind::VecMov(VecMov::Scalar) => return 8,
        _ => {}
    }
    match op.kind {
        Kind::Shuffle(ShuffleOp::Pmovzx | ShuffleOp::Pmovsx) => {
            16 / (op.size >> 4) * (op.size & 0xf)
        }
        _ if instruction.memory_size() != MemorySize::Unknown => {
            instruction.memory_size().size() as u8
        }
        _ => operand_size(instruction, 1),
    }
}
