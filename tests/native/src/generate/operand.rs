//! Random operands of a form.

use emu_x86::flat_user::CODE;
use iced_x86::{Code, Instruction, OpCodeInfo, OpCodeOperandKind as Operand, OpKind, Register};

use super::{landing, place};
use crate::rng::Rng;
use crate::values;

#[rustfmt::skip]
const BYTES: [Register; 20] = [
    Register::AL, Register::CL, Register::DL, Register::BL, Register::AH, Register::CH,
    Register::DH, Register::BH, Register::SPL, Register::BPL, Register::SIL, Register::DIL,
    Register::R8L, Register::R9L, Register::R10L, Register::R11L, Register::R12L, Register::R13L,
    Register::R14L, Register::R15L,
];
const SEGMENTS: [Register; 6] =
    [Register::ES, Register::CS, Register::SS, Register::DS, Register::FS, Register::GS];

/// An instruction of a form with random operands. `None` for operands that no implemented
/// instruction has.
pub(super) fn instruction(code: Code, rng: &mut Rng) -> Option<Instruction> {
    let info = code.op_code();
    let mut instruction = Instruction::default();
    instruction.set_code(code);
    for i in 0..info.op_count() {
        operand(&mut instruction, info, i, rng)?;
    }
    let has_memory = (0..instruction.op_count()).any(|i| instruction.op_kind(i) == OpKind::Memory);
    if info.can_use_lock_prefix() && has_memory && rng.one_in(3) {
        instruction.set_has_lock_prefix(true);
    }
    if info.can_use_rep_prefix() && rng.one_in(2) {
        instruction.set_has_rep_prefix(true);
    } else if info.can_use_repne_prefix() && is_string(&instruction) && rng.one_in(2) {
        instruction.set_has_repne_prefix(true);
    }
    Some(instruction)
}

fn is_string(instruction: &Instruction) -> bool {
    (0..instruction.op_count()).any(|i| {
        let kind = instruction.op_kind(i);
        kind >= OpKind::MemorySegSI && kind <= OpKind::MemoryESRDI
    })
}

fn operand(instruction: &mut Instruction, info: &OpCodeInfo, i: u32, rng: &mut Rng) -> Option<()> {
    let kind = info.op_kind(i);
    let registers = file(kind);
    if let Some((first, count)) = registers {
        if can_be_memory(kind) && rng.one_in(2) {
            memory(instruction, i, rng);
        } else {
            let register = match first {
                Register::AL if count > 1 => rng.pick(&BYTES),
                _ => first + rng.below(count) as u32,
            };
            set_register(instruction, i, register);
        }
        return Some(());
    }
    match kind {
        Operand::mem => memory(instruction, i, rng),
        Operand::mem_offs => {
            set_kind(instruction, i, OpKind::Memory);
            instruction.set_memory_base(Register::None);
            instruction.set_memory_displ_size(8);
            instruction.set_memory_displacement64(place::target(rng, 8));
        }
        Operand::seg_reg => set_register(instruction, i, rng.pick(&SEGMENTS)),
        _ => return immediate(instruction, kind, i, rng),
    }
    Some(())
}

/// First register and number of registers that an operand can be.
#[rustfmt::skip]
fn file(kind: Operand) -> Option<(Register, u64)> {
    Some(match kind {
        Operand::r8_or_mem | Operand::r8_reg | Operand::r8_opcode => (Register::AL, 20),
        Operand::r16_or_mem | Operand::r16_reg | Operand::r16_rm | Operand::r16_opcode
            => (Register::AX, 16),
        Operand::r32_or_mem | Operand::r32_reg | Operand::r32_rm | Operand::r32_opcode
        | Operand::r32_vvvv => (Register::EAX, 16),
        Operand::r64_or_mem | Operand::r64_reg | Operand::r64_rm | Operand::r64_opcode
        | Operand::r64_vvvv => (Register::RAX, 16),
        Operand::xmm_or_mem | Operand::xmm_reg | Operand::xmm_rm => (Register::XMM0, 16),
        // So that forms with MMX registers are seen, and seen not to be implemented.
        Operand::mm_or_mem | Operand::mm_reg | Operand::mm_rm => (Register::MM0, 8),
        Operand::cr_reg => (Register::CR0, 5),
        Operand::dr_reg => (Register::DR0, 8),
        Operand::es => (Register::ES, 1),
        Operand::cs => (Register::CS, 1),
        Operand::ss => (Register::SS, 1),
        Operand::ds => (Register::DS, 1),
        Operand::fs => (Register::FS, 1),
        Operand::gs => (Register::GS, 1),
        Operand::al => (Register::AL, 1),
        Operand::cl => (Register::CL, 1),
        Operand::ax => (Register::AX, 1),
        Operand::dx => (Register::DX, 1),
        Operand::eax => (Register::EAX, 1),
        Operand::rax => (Register::RAX, 1),
        Operand::st0 => (Register::ST0, 1),
        Operand::sti_opcode => (Register::ST0, 8),
        // Vector extensions, which are not implemented: enough to encode them.
        Operand::xmm_vvvv | Operand::xmm_is4 => (Register::XMM0, 8),
        Operand::ymm_or_mem | Operand::ymm_reg | Operand::ymm_rm | Operand::ymm_vvvv
        | Operand::ymm_is4 => (Register::YMM0, 8),
        Operand::zmm_or_mem | Operand::zmm_reg | Operand::zmm_rm | Operand::zmm_vvvv
            => (Register::ZMM0, 8),
        Operand::k_or_mem | Operand::k_reg | Operand::k_rm | Operand::k_vvvv => (Register::K0, 8),
        Operand::r32_reg_mem => (Register::EAX, 8),
        Operand::r64_reg_mem => (Register::RAX, 8),
        _ => return None,
    })
}

fn can_be_memory(kind: Operand) -> bool {
    matches!(
        kind,
        Operand::r8_or_mem
            | Operand::r16_or_mem
            | Operand::r32_or_mem
            | Operand::r64_or_mem
            | Operand::xmm_or_mem
            | Operand::ymm_or_mem
            | Operand::zmm_or_mem
            | Operand::mm_or_mem
            | Operand::k_or_mem
    )
}

fn set_kind(instruction: &mut Instruction, i: u32, kind: OpKind) {
    if i < 4 {
        instruction.set_op_kind(i, kind);
    }
}

fn set_register(instruction: &mut Instruction, i: u32, register: Register) {
    if i < 4 {
        set_kind(instruction, i, OpKind::Register);
        instruction.set_op_register(i, register);
    }
}

/// A memory operand; `place` finds out later where it points.
fn memory(instruction: &mut Instruction, i: u32, rng: &mut Rng) {
    set_kind(instruction, i, OpKind::Memory);
    let is_narrow = rng.one_in(16);
    let first = if is_narrow { Register::EAX } else { Register::RAX };
    let (sp, ip) =
        if is_narrow { (Register::ESP, Register::EIP) } else { (Register::RSP, Register::RIP) };
    let mut base = first + rng.below(16) as u32;
    let mut index = Register::None;
    match rng.below(8) {
        0 => base = ip,
        1 => base = Register::None,
        2..4 => index = first + rng.below(16) as u32,
        _ => {}
    }
    if rng.one_in(16) {
        (base, index) = (Register::None, first + rng.below(16) as u32);
    }
    if index == sp {
        index = Register::None;
    }
    instruction.set_memory_base(base);
    instruction.set_memory_index(index);
    if index != Register::None {
        instruction.set_memory_index_scale(1 << rng.below(4));
    }
    let size = if is_narrow { 4 } else { 8 };
    if base == ip || base == Register::None && index == Register::None {
        instruction.set_memory_displ_size(size);
        instruction.set_memory_displacement64(place::low_target(rng));
    } else if rng.one_in(2) {
        instruction.set_memory_displ_size(1);
        instruction.set_memory_displacement64(extend(rng.word() as i8, size));
    } else if rng.one_in(2) || base == Register::None {
        instruction.set_memory_displ_size(size);
        instruction.set_memory_displacement64(extend(values::integer(rng) as i32, size));
    }
    match rng.below(32) {
        0 => instruction.set_segment_prefix(Register::FS),
        1 => instruction.set_segment_prefix(Register::GS),
        2 => instruction.set_segment_prefix(rng.pick(&SEGMENTS)),
        _ => {}
    }
}

/// A displacement as wide as the address is.
fn extend(value: impl Into<i64>, size: u32) -> u64 {
    let value: i64 = value.into();
    if size == 4 { u64::from(value as u32) } else { value as u64 }
}

fn immediate(instruction: &mut Instruction, kind: Operand, i: u32, rng: &mut Rng) -> Option<()> {
    let value = values::integer(rng);
    let is_second = (0..i).any(|n| instruction.op_kind(n) == OpKind::Immediate16);
    let (op_kind, value) = match kind {
        Operand::imm8 if is_second => (OpKind::Immediate8_2nd, value & 0xff),
        Operand::imm8 => (OpKind::Immediate8, value & 0xff),
        Operand::imm8_const_1 => (OpKind::Immediate8, 1),
        Operand::imm8sex16 => (OpKind::Immediate8to16, value as i8 as u64),
        Operand::imm8sex32 => (OpKind::Immediate8to32, value as i8 as u64),
        Operand::imm8sex64 => (OpKind::Immediate8to64, value as i8 as u64),
        Operand::imm16 => (OpKind::Immediate16, value & 0xffff),
        Operand::imm32 => (OpKind::Immediate32, value & 0xffff_ffff),
        Operand::imm32sex64 => (OpKind::Immediate32to64, value as i32 as u64),
        Operand::imm64 => (OpKind::Immediate64, value),
        Operand::br64_1 | Operand::br64_4 => {
            set_kind(instruction, i, OpKind::NearBranch64);
            instruction.set_near_branch64(branch_target(kind, rng));
            return Some(());
        }
        _ => return string_operand(instruction, kind, i, rng),
    };
    set_kind(instruction, i, op_kind);
    if op_kind == OpKind::Immediate8_2nd {
        instruction.set_immediate8_2nd(value as u8);
    } else if i < 4 {
        instruction.set_immediate_u64(i, value);
    }
    Some(())
}

fn branch_target(kind: Operand, rng: &mut Rng) -> u64 {
    if kind == Operand::br64_1 {
        return CODE.wrapping_add_signed(i64::from(rng.word() as i8));
    }
    match rng.below(4) {
        0 => CODE.wrapping_add_signed(i64::from(rng.word() as i32 >> 1)),
        _ => landing(rng),
    }
}

/// Operands in memory that have no choice but the address size, and their segments.
fn string_operand(
    instruction: &mut Instruction,
    kind: Operand,
    i: u32,
    rng: &mut Rng,
) -> Option<()> {
    // Both operands of MOVS and CMPS have one address size.
    let is_narrow = match i {
        0 => rng.one_in(8),
        _ => matches!(instruction.op_kind(0), OpKind::MemorySegESI | OpKind::MemoryESEDI),
    };
    let op_kind = match kind {
        Operand::seg_rSI if is_narrow => OpKind::MemorySegESI,
        Operand::seg_rSI => OpKind::MemorySegRSI,
        Operand::es_rDI if is_narrow => OpKind::MemoryESEDI,
        Operand::es_rDI => OpKind::MemoryESRDI,
        Operand::seg_rDI if is_narrow => OpKind::MemorySegEDI,
        Operand::seg_rDI => OpKind::MemorySegRDI,
        Operand::seg_rBX_al => {
            set_kind(instruction, i, OpKind::Memory);
            instruction.set_memory_base(if is_narrow { Register::EBX } else { Register::RBX });
            instruction.set_memory_index(Register::AL);
            return Some(());
        }
        _ => return None,
    };
    set_kind(instruction, i, op_kind);
    if kind != Operand::es_rDI && rng.one_in(16) {
        instruction.set_segment_prefix(rng.pick(&SEGMENTS));
    }
    Some(())
}
