//! What the scoreboard must know of an instruction: registers read and written, class.
//!
//! The facts come from iced's instruction information, with these changes:
//! - a write of 8 or 16 bits of a general register merges, hence reads the register;
//! - a write under a condition reads what it may leave;
//! - the stack engine of real cores is modelled by leaving RSP out of the writes of PUSH, POP,
//!   CALL and RET: their RSP is ready at once, not when their data is;
//! - likewise RSI, RDI and RCX of string instructions.
//!
//! Segment registers, MXCSR and x87 registers are always ready. More than four reads or three
//! writes are cut; only instructions that end or drain the pipeline anyway have so many.

use emu_cpu::timing::{Class, FLAGS, GPR0, NONE, OpTiming, Reg, VEC0};
use iced_x86::{Instruction, InstructionInfoFactory, OpAccess, Register, UsedRegister};

use super::kind::{FpArith, IntOp, Kind, StringOp, SysOp};
use super::{FarOp, Op};
use crate::state::gpr;

/// Timing of one instruction.
pub(super) fn of(
    instruction: &Instruction,
    op: &Op,
    factory: &mut InstructionInfoFactory,
) -> OpTiming {
    let mut timing = OpTiming { class: class(op), ..OpTiming::default() };
    for used in factory.info(instruction).used_registers() {
        add_register(&mut timing, op, used);
    }
    if instruction.rflags_read() != 0 {
        add(&mut timing.reads, FLAGS);
    }
    if instruction.rflags_modified() != 0 {
        add(&mut timing.writes, FLAGS);
    }
    timing
}

fn add_register(timing: &mut OpTiming, op: &Op, used: &UsedRegister) {
    use OpAccess::{CondRead, CondWrite, Read, ReadCondWrite, ReadWrite, Write};
    let Some(reg) = scoreboard(used.register()) else { return };
    let access = used.access();
    let is_partial = used.register().is_gpr8() || used.register().is_gpr16();
    let reads = matches!(access, Read | CondRead | ReadWrite | ReadCondWrite | CondWrite);
    let writes = matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite);
    if reads || (writes && is_partial) {
        add(&mut timing.reads, reg);
    }
    if writes && !is_early(op, reg) {
        add(&mut timing.writes, reg);
    }
}

/// Whether the register is ready before the result of the instruction.
fn is_early(op: &Op, reg: Reg) -> bool {
    match op.kind {
        Kind::Push
        | Kind::Pop
        | Kind::PushSegment
        | Kind::PushFlags
        | Kind::PopFlags
        | Kind::Call
        | Kind::CallIndirect
        | Kind::Ret => reg == general(gpr::RSP),
        Kind::String(_) => [gpr::RSI, gpr::RDI, gpr::RCX].map(general).contains(&reg),
        _ => false,
    }
}

fn general(n: usize) -> Reg {
    GPR0 + n as Reg
}

/// Index in the scoreboard, for registers that are there.
fn scoreboard(register: Register) -> Option<Reg> {
    if register.is_gpr() {
        Some(GPR0 + register.full_register().number() as Reg)
    } else if register.is_vector_register() && register.number() < 16 {
        Some(VEC0 + register.number() as Reg)
    } else {
        None
    }
}

fn add(slots: &mut [Reg], reg: Reg) {
    if slots.contains(&reg) {
        return;
    }
    if let Some(slot) = slots.iter_mut().find(|slot| **slot == NONE) {
        *slot = reg;
    }
}

fn class(op: &Op) -> Class {
    match op.kind {
        Kind::Jcc(_)
        | Kind::Jmp
        | Kind::JmpIndirect
        | Kind::Call
        | Kind::CallIndirect
        | Kind::Ret
        | Kind::Loop(_)
        | Kind::Jcxz => Class::Branch,
        Kind::Shl
        | Kind::Shr
        | Kind::Sar
        | Kind::Rol
        | Kind::Ror
        | Kind::Rcl
        | Kind::Rcr
        | Kind::Shld
        | Kind::Shrd
        | Kind::Bsf
        | Kind::Bsr
        | Kind::Tzcnt
        | Kind::Lzcnt
        | Kind::Popcnt
        | Kind::Bmi(_) => Class::Shift,
        Kind::Mul | Kind::Imul | Kind::ImulTruncated => Class::Mul,
        Kind::Div | Kind::Idiv if op.size == 8 => Class::DivWide,
        Kind::Div | Kind::Idiv => Class::Div,
        Kind::Crc32 => Class::Crc,
        Kind::Pause => Class::Pause,
        Kind::Lfence => Class::FenceLoad,
        Kind::Mfence => Class::FenceFull,
        Kind::Rdtsc | Kind::Rdtscp => Class::TimeRead,
        Kind::Xchg if op.dst.is_mem() || op.src.is_mem() => Class::Rmw,
        _ if op.is_locked() => Class::Rmw,
        Kind::Mov | Kind::Movzx | Kind::Movsx | Kind::VecMov(_) if op.src.is_mem() => Class::Load,
        Kind::Pop => Class::Load,
        _ => rare_class(op.kind),
    }
}

fn rare_class(kind: Kind) -> Class {
    match kind {
        Kind::VecMov(_) | Kind::VecShift(_) | Kind::Shuffle(_) => Class::Vec,
        Kind::Int(
            IntOp::Pmullw
            | IntOp::Pmulld
            | IntOp::Pmulhw
            | IntOp::Pmulhuw
            | IntOp::Pmuludq
            | IntOp::Pmuldq
            | IntOp::Pmulhrsw
            | IntOp::Pmaddwd
            | IntOp::Pmaddubsw,
        ) => Class::FpMul,
        Kind::Int(_) => Class::Vec,
        Kind::Fp(FpArith::Mul, _) => Class::FpMul,
        Kind::Fp(FpArith::Div | FpArith::Sqrt, _) => Class::FpDiv,
        Kind::Fp(..) | Kind::FpCompare(_) | Kind::FpFlags(_) | Kind::Cvt(_) => Class::FpAdd,
        Kind::FpState(_) | Kind::Fpu(_) | Kind::Enter | Kind::PushAll | Kind::PopAll => {
            Class::Micro
        }
        Kind::String(StringOp::Ins | StringOp::Outs) | Kind::In | Kind::Out => Class::Micro,
        Kind::SegLoad(_) => Class::SysReg,
        Kind::System(op) => system_class(op),
        Kind::Far(op) => far_class(op),
        _ => Class::Alu,
    }
}

fn system_class(op: SysOp) -> Class {
    match op {
        SysOp::Cpuid => Class::Micro,
        SysOp::Monitor | SysOp::Monitorx | SysOp::Umonitor => Class::Monitor,
        SysOp::Hlt | SysOp::Mwait | SysOp::Mwaitx | SysOp::Umwait | SysOp::Tpause => {
            Class::WaitEntry
        }
        SysOp::Cli | SysOp::Sti | SysOp::Clac | SysOp::Stac => Class::Alu,
        _ => Class::SysReg,
    }
}

fn far_class(op: FarOp) -> Class {
    match op {
        FarOp::Iret => Class::IrqReturn,
        FarOp::Int | FarOp::Int1 | FarOp::Int3 | FarOp::Into => Class::IrqEntry,
        _ => Class::SysReg,
    }
}
