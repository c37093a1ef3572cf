//! Decoding: bytes to blocks of `Op`, by iced-x86.
//!
//! A block is a run of instructions of one page that ends at the first one after which the next
//! instruction is not simply the following bytes of the same mode: branches, serialising and
//! system instructions. Blocks hold no absolute addresses (RIP-relative operands and branch
//! targets are kept relative to the instruction), so that one block serves all mappings of a page.
//!
//! Reading order: `kind` (what there is to execute), `op` (the compact form), `map` (mnemonics to
//! kinds), `sizes`, `timing` (registers and class for the scoreboard), then this file.

mod kind;
mod map;
mod op;
mod sizes;
mod timing;

use iced_x86::{
    Code, Decoder, DecoderError, DecoderOptions, Instruction, InstructionInfoFactory, OpKind,
    Register,
};

use crate::state::SegReg;

pub use kind::{
    BitOp, BmiOp, Cond, CvtOp, DecimalOp, FarOp, FpArith, FpForm, FpStateOp, FpuOp, IntOp, Kind,
    LoopKind, SegLoad, ShuffleOp, StringOp, SysOp, VecMov, VecShift,
};
pub use op::{NO_REG, Op, Operand, Prefix, RIP_BASE};

/// Most ops of a block.
pub const BLOCK_OPS_MAX: usize = 64;
/// Longest instruction in bytes.
pub const INSTRUCTION_BYTES_MAX: usize = 15;

/// What the meaning of bytes depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mode {
    /// Default size of code: 16, 32 or 64 bits.
    pub bits: u8,
}

/// Instructions that follow each other, decoded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// In order of address.
    pub ops: Vec<Op>,
}

/// Decodes the block that starts at `pc`, of which `bytes` are the code up to the end of the page.
///
/// A block without ops means that the first instruction does not end inside `bytes`: it crosses
/// the page, and [`decode_crossing`] makes its block.
#[must_use]
pub fn decode_block(bytes: &[u8], pc: u64, mode: Mode) -> Block {
    decode(bytes, pc, mode, BLOCK_OPS_MAX)
}

/// Decodes the one instruction at `pc` that crosses a page: `bytes` are those of both pages, at
/// least [`INSTRUCTION_BYTES_MAX`] of them. Always one op.
#[must_use]
pub fn decode_crossing(bytes: &[u8], pc: u64, mode: Mode) -> Block {
    let mut block = decode(bytes, pc, mode, 1);
    if block.ops.is_empty() {
        block.ops.push(Op { kind: Kind::Invalid, ..Op::default() });
    }
    block
}

fn decode(bytes: &[u8], pc: u64, mode: Mode, ops_max: usize) -> Block {
    let mut decoder = Decoder::with_ip(u32::from(mode.bits), bytes, pc, DecoderOptions::NONE);
    let mut factory = InstructionInfoFactory::new();
    let mut instruction = Instruction::default();
    let mut block = Block::default();
    while block.ops.len() < ops_max && decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let incomplete = decoder.last_error() == DecoderError::NoMoreBytes;
        if incomplete && bytes.len() - offset(&instruction, pc) < INSTRUCTION_BYTES_MAX {
            break;
        }
        let mut op = lower(&instruction, mode, &mut factory);
        if op.kind == Kind::Unimplemented {
            let start = offset(&instruction, pc);
            op.keep_bytes(&bytes[start..start + instruction.len()]);
        }
        let ends = op.ends_block();
        block.ops.push(op);
        if ends {
            break;
        }
    }
    block
}

/// Offset of an instruction in its block's bytes.
fn offset(instruction: &Instruction, pc: u64) -> usize {
    instruction.ip().wrapping_sub(pc) as usize
}

/// Makes the compact form of one instruction.
fn lower(instruction: &Instruction, mode: Mode, factory: &mut InstructionInfoFactory) -> Op {
    let mut op = Op { len: instruction.len() as u8, bits: mode.bits, ..Op::default() };
    op.set_prefix(Prefix::LOCK, instruction.has_lock_prefix());
    op.set_prefix(Prefix::REP, instruction.has_rep_prefix());
    op.set_prefix(Prefix::REPNE, instruction.has_repne_prefix());
    if instruction.is_invalid() {
        op.kind = Kind::Invalid;
        return op;
    }
    op.kind = map::kind(instruction);
    if op.kind == Kind::Unimplemented {
        return op;
    }
    operands(instruction, &mut op);
    sizes::fill(instruction, &mut op);
    op.timing = timing::of(instruction, &op, factory);
    op.is_register_form = is_register_form(&op);
    op
}

/// Whether an op is one of those that `exec/fast.rs` executes.
fn is_register_form(op: &Op) -> bool {
    let is_listed = match op.kind {
        Kind::Inc | Kind::Dec => true,
        Kind::Mov
        | Kind::Add
        | Kind::Sub
        | Kind::And
        | Kind::Or
        | Kind::Xor
        | Kind::Cmp
        | Kind::Test => op.src.is_low() || op.src == Operand::IMM,
        _ => false,
    };
    is_listed && op.dst.is_low() && op.size >= 4
}

/// Fills `dst`, `src`, `src2`, the memory operand and the immediate.
fn operands(instruction: &Instruction, op: &mut Op) {
    let mut slots = [Operand::NONE; 3];
    for (i, slot) in slots.iter_mut().enumerate().take(instruction.op_count() as usize) {
        let kind = instruction.op_kind(i as u32);
        *slot = match kind {
            OpKind::Register => op::operand(instruction.op_register(i as u32)),
            OpKind::Memory => {
                memory(instruction, op);
                Operand::MEM
            }
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                op.imm = instruction.near_branch_target().wrapping_sub(instruction.ip());
                Operand::IMM
            }
            OpKind::FarBranch16 => {
                op.imm = u64::from(instruction.far_branch16());
                op.disp = i64::from(instruction.far_branch_selector());
                Operand::IMM
            }
            OpKind::FarBranch32 => {
                op.imm = u64::from(instruction.far_branch32());
                op.disp = i64::from(instruction.far_branch_selector());
                Operand::IMM
            }
            OpKind::Immediate8_2nd => {
                op.disp = i64::from(instruction.immediate8_2nd());
                Operand::IMM
            }
            OpKind::MemorySegSI
            | OpKind::MemorySegESI
            | OpKind::MemorySegRSI
            | OpKind::MemoryESDI
            | OpKind::MemoryESEDI
            | OpKind::MemoryESRDI
            | OpKind::MemorySegDI
            | OpKind::MemorySegEDI
            | OpKind::MemorySegRDI => {
                string_memory(instruction, kind, op);
                Operand::MEM
            }
            _ => {
                op.imm = instruction.immediate(i as u32);
                Operand::IMM
            }
        };
    }
    [op.dst, op.src, op.src2] = slots;
}

/// Fills the memory operand.
fn memory(instruction: &Instruction, op: &mut Op) {
    let base = instruction.memory_base();
    op.seg = segment(instruction, op.bits);
    op.scale = instruction.memory_index_scale().trailing_zeros() as u8;
    op.disp = instruction.memory_displacement64() as i64;
    op.base = match base {
        Register::None => NO_REG,
        Register::RIP | Register::EIP => {
            op.disp = op.disp.wrapping_sub(instruction.ip() as i64);
            RIP_BASE
        }
        register => register.number() as u8,
    };
    op.index = match instruction.memory_index() {
        Register::None => NO_REG,
        register => register.number() as u8,
    };
    op.asize = address_size(instruction, op.bits);
}

/// Segment of the memory operand. In 64-bit code, prefixes for ES, CS, SS and DS are ignored.
fn segment(instruction: &Instruction, bits: u8) -> SegReg {
    match op::segment(instruction.memory_segment()) {
        SegReg::Es | SegReg::Cs | SegReg::Ss | SegReg::Ds if bits == 64 => {
            match instruction.memory_base() {
                Register::RSP | Register::RBP | Register::ESP | Register::EBP => SegReg::Ss,
                _ => SegReg::Ds,
            }
        }
        segment => segment,
    }
}

/// Bytes of an address in the memory operand.
fn address_size(instruction: &Instruction, bits: u8) -> u8 {
    let registers = [instruction.memory_base(), instruction.memory_index()];
    let by_register = registers.iter().find(|r| **r != Register::None).map(|r| r.size() as u8);
    by_register.unwrap_or(match instruction.memory_displ_size() {
        0 => bits / 8,
        2 => 2,
        4 => 4,
        _ if bits == 64 => 8,
        _ => 4,
    })
}

/// Fills segment and address size of a string instruction.
fn string_memory(instruction: &Instruction, kind: OpKind, op: &mut Op) {
    let is_source = !matches!(kind, OpKind::MemoryESDI | OpKind::MemoryESEDI | OpKind::MemoryESRDI);
    if is_source {
        op.seg = segment(instruction, op.bits);
    }
    op.asize = match kind {
        OpKind::MemorySegSI | OpKind::MemoryESDI | OpKind::MemorySegDI => 2,
        OpKind::MemorySegESI | OpKind::MemoryESEDI | OpKind::MemorySegEDI => 4,
        _ => 8,
    };
}

/// Whether the code is the string form of a mnemonic that SSE uses too.
fn is_string_code(code: Code) -> bool {
    matches!(code, Code::Movsd_m32_m32 | Code::Cmpsd_m32_m32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ops(bytes: &[u8]) -> Vec<Op> {
        decode_block(bytes, 0x1000, Mode { bits: 64 }).ops
    }

    #[test]
    fn op_is_compact() {
        assert!(size_of::<Op>() <= 48, "{}", size_of::<Op>());
        assert!(size_of::<Kind>() <= 4);
    }

    #[test]
    fn block_ends_at_branch() {
        let ops = ops(&[0x90, 0x48, 0x01, 0xd8, 0xeb, 0xfe, 0x90]);
        assert_eq!(ops.len(), 3);
        assert_eq!(ops[2].kind, Kind::Jmp);
        assert_eq!(ops[2].imm, 0);
    }

    #[test]
    fn incomplete_first_instruction_gives_no_op() {
        assert!(ops(&[0x48, 0x8b]).is_empty());
        let crossing = decode_crossing(&[0x48, 0x8b, 0xc3, 0x90], 0, Mode { bits: 64 });
        assert_eq!(crossing.ops.len(), 1);
    }

    #[test]
    fn lock_on_register_form_is_invalid() {
        assert_eq!(ops(&[0xf0, 0x01, 0xd8])[0].kind, Kind::Invalid);
        assert_eq!(ops(&[0xf0, 0x01, 0x18])[0].kind, Kind::Add);
    }

    #[test]
    fn rip_relative_is_relative_to_the_instruction() {
        // lea rax, [rip+0x10]: 7 bytes.
        let op = ops(&[0x48, 0x8d, 0x05, 0x10, 0, 0, 0])[0];
        assert_eq!((op.base, op.disp), (RIP_BASE, 0x17));
    }
}
