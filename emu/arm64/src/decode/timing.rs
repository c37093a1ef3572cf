//! What the scoreboard must know of an op: registers read and written, class.

use emu_cpu::timing::{Class, FLAGS, GPR0, NONE, OpTiming, Reg, VEC0};

use super::kind::{Addressing, Divide, FpBinary, FpUnary, FpVec3, Kind, Source, V3};
use super::{Op, SP, ZR};

/// The link register.
const LR: Reg = 30;

/// Scoreboard entry of a general register. The stack pointer has none: it is moved early by
/// instructions of one cycle, and seldom is what the next one waits for.
fn gpr(n: u8) -> Reg {
    if n == ZR || n == SP { NONE } else { GPR0 + n }
}

fn vec(n: u8) -> Reg {
    VEC0 + (n & 31)
}

/// Timing of one op.
pub(super) fn of(op: &Op) -> OpTiming {
    let (reads, writes) = registers(op);
    OpTiming { reads, writes, class: class(op) }
}

/// Whether an addressing mode moves its base.
fn moved(op: &Op, mode: Addressing) -> Reg {
    match mode {
        Addressing::Pre | Addressing::Post | Addressing::PostReg => gpr(op.rn),
        _ => NONE,
    }
}

#[rustfmt::skip]
fn registers(op: &Op) -> ([Reg; 4], [Reg; 3]) {
    let (d, n, m, a) = (gpr(op.rd), gpr(op.rn), gpr(op.rm), gpr(op.ra));
    let (vd, vn, vm, va) = (vec(op.rd), vec(op.rn), vec(op.rm), vec(op.ra));
    let flags = if op.flags { FLAGS } else { NONE };
    match op.kind {
        Kind::Undefined | Kind::Svc | Kind::Hvc | Kind::Smc | Kind::Brk | Kind::Eret | Kind::Hint
        | Kind::Dmb | Kind::Dsb | Kind::Isb | Kind::Sb | Kind::ClearExclusive | Kind::MsrImm => {
            ([NONE; 4], [NONE; 3])
        }
        Kind::Cfinv => ([FLAGS, NONE, NONE, NONE], [FLAGS, NONE, NONE]),
        Kind::Rmif | Kind::Setf | Kind::CompareImm { .. } | Kind::CompareReg { .. } => {
            ([n, m, FLAGS, NONE], [FLAGS, NONE, NONE])
        }
        Kind::MovImm | Kind::Adr | Kind::Adrp => ([NONE; 4], [d, NONE, NONE]),
        Kind::Branch { link } => ([NONE; 4], [if link { LR } else { NONE }, NONE, NONE]),
        Kind::BranchReg { link } => {
            ([n, NONE, NONE, NONE], [if link { LR } else { NONE }, NONE, NONE])
        }
        Kind::BranchCond => ([FLAGS, NONE, NONE, NONE], [NONE; 3]),
        Kind::Return | Kind::CompareBranch { .. } | Kind::TestBranch { .. } | Kind::Msr
        | Kind::WaitTimeout { .. } => ([n, NONE, NONE, NONE], [NONE; 3]),
        Kind::Alu(_, source) => {
            let m = if source == Source::Imm { NONE } else { m };
            ([n, m, NONE, NONE], [d, flags, NONE])
        }
        Kind::Carry { .. } => ([n, m, FLAGS, NONE], [d, flags, NONE]),
        Kind::Select(_) => ([n, m, FLAGS, NONE], [d, NONE, NONE]),
        Kind::Bitfield(_) => ([n, d, NONE, NONE], [d, NONE, NONE]),
        Kind::Load { mode, .. } => ([n, m, NONE, NONE], [d, moved(op, mode), NONE]),
        Kind::Store(mode) => ([n, m, d, NONE], [moved(op, mode), NONE, NONE]),
        Kind::LoadPair { mode, .. } => ([n, NONE, NONE, NONE], [d, a, moved(op, mode)]),
        Kind::StorePair(mode) => ([n, d, a, NONE], [moved(op, mode), NONE, NONE]),
        Kind::LoadVec(mode) => ([n, m, NONE, NONE], [vd, moved(op, mode), NONE]),
        Kind::StoreVec(mode) => ([n, m, vd, NONE], [moved(op, mode), NONE, NONE]),
        Kind::LoadVecPair(mode) => ([n, NONE, NONE, NONE], [vd, va, moved(op, mode)]),
        Kind::StoreVecPair(mode) => ([n, vd, va, NONE], [moved(op, mode), NONE, NONE]),
        Kind::LoadExclusive { .. } | Kind::LoadAcquire | Kind::LoadAcquirePc => {
            ([n, NONE, NONE, NONE], [d, NONE, NONE])
        }
        Kind::LoadExclusivePair { .. } => ([n, NONE, NONE, NONE], [d, a, NONE]),
        Kind::StoreRelease => ([n, d, NONE, NONE], [NONE; 3]),
        Kind::StoreExclusive { .. } => ([n, d, NONE, NONE], [m, NONE, NONE]),
        Kind::StoreExclusivePair { .. } => ([n, d, a, NONE], [m, NONE, NONE]),
        Kind::Cas { .. } => ([n, d, m, NONE], [m, NONE, NONE]),
        Kind::CasPair { .. } => ([n, d, m, gpr(op.rm + 1)], [m, gpr(op.rm + 1), NONE]),
        Kind::Atomic { .. } => ([n, m, NONE, NONE], [d, NONE, NONE]),
        // Two of up to four registers stand for all: the scoreboard has three entries an op.
        Kind::Structures { load, elements, repeat, post } => {
            let last = vec(op.rd + elements * repeat - 1);
            let base = post.map_or(NONE, |_| n);
            if load { ([n, m, NONE, NONE], [vd, last, base]) }
            else { ([n, m, vd, last], [base, NONE, NONE]) }
        }
        Kind::Lane { load, elements, post } => {
            let last = vec(op.rd + elements - 1);
            let base = post.map_or(NONE, |_| n);
            if load { ([n, m, vd, last], [vd, last, base]) }
            else { ([n, m, vd, last], [base, NONE, NONE]) }
        }
        Kind::LoadReplicate { elements, post } => {
            ([n, m, NONE, NONE], [vd, vec(op.rd + elements - 1), post.map_or(NONE, |_| n)])
        }
        Kind::DupGeneral | Kind::InsertGeneral | Kind::FpFromGeneral | Kind::FpFromInt { .. }
        | Kind::FpFromGeneralHigh => ([n, vd, NONE, NONE], [vd, NONE, NONE]),
        Kind::FpFixed { to_int: false, .. } => ([n, NONE, NONE, NONE], [vd, NONE, NONE]),
        Kind::MoveToGeneral { .. } | Kind::FpToGeneral | Kind::FpToGeneralHigh
        | Kind::FpToInt { .. } | Kind::FpFixed { .. } => ([vn, NONE, NONE, NONE], [d, NONE, NONE]),
        Kind::FpCompare { .. } => ([vn, vm, NONE, NONE], [FLAGS, NONE, NONE]),
        Kind::FpCondCompare => ([vn, vm, FLAGS, NONE], [FLAGS, NONE, NONE]),
        Kind::FpSelect => ([vn, vm, FLAGS, NONE], [vd, NONE, NONE]),
        Kind::FpFused(_) => ([vn, vm, va, NONE], [vd, NONE, NONE]),
        Kind::FpImm | Kind::VecImm => ([NONE; 4], [vd, NONE, NONE]),
        kind if is_vector(kind) => ([vn, vm, vd, NONE], [vd, NONE, NONE]),
        _ => ([n, m, a, d], [d, NONE, NONE]),
    }
}

/// Whether the operands of what is left are vectors.
fn is_vector(kind: Kind) -> bool {
    !matches!(
        kind,
        Kind::MovKeep
            | Kind::Extract
            | Kind::Unary(_)
            | Kind::Divide(_)
            | Kind::ShiftReg(_)
            | Kind::Crc { .. }
            | Kind::Multiply { .. }
            | Kind::MultiplyWide(_)
            | Kind::Mrs
            | Kind::Sys
            | Kind::Prefetch
    )
}

fn class(op: &Op) -> Class {
    match op.kind {
        Kind::Load { .. }
        | Kind::LoadPair { .. }
        | Kind::LoadVec(_)
        | Kind::LoadVecPair(_)
        | Kind::LoadExclusive { .. }
        | Kind::LoadExclusivePair { .. }
        | Kind::LoadAcquire
        | Kind::LoadAcquirePc
        | Kind::Structures { load: true, .. }
        | Kind::Lane { load: true, .. }
        | Kind::LoadReplicate { .. } => Class::Load,
        Kind::Cas { .. } | Kind::CasPair { .. } | Kind::Atomic { .. } => Class::Rmw,
        Kind::Alu(_, Source::Shifted(_) | Source::Extended(_)) if op.amount != 0 => Class::Shift,
        Kind::ShiftReg(_) | Kind::Bitfield(_) | Kind::Extract | Kind::Unary(_) => Class::Shift,
        Kind::Multiply { .. } | Kind::MultiplyWide(_) => Class::Mul,
        Kind::Divide(Divide::Signed | Divide::Unsigned) if op.wide => Class::DivWide,
        Kind::Divide(_) => Class::Div,
        Kind::Crc { .. } => Class::Crc,
        Kind::Branch { .. }
        | Kind::BranchReg { .. }
        | Kind::Return
        | Kind::BranchCond
        | Kind::CompareBranch { .. }
        | Kind::TestBranch { .. } => Class::Branch,
        Kind::Mrs | Kind::Msr | Kind::MsrImm | Kind::Sys => Class::SysReg,
        Kind::Hint if op.imm == 1 => Class::Pause,
        Kind::Hint if matches!(op.imm, 2 | 3) => Class::WaitEntry,
        Kind::WaitTimeout { .. } => Class::WaitEntry,
        Kind::Dmb | Kind::Dsb => Class::FenceFull,
        Kind::Isb | Kind::Sb => Class::FenceLoad,
        Kind::Eret => Class::IrqReturn,
        kind => vector_class(kind),
    }
}

fn vector_class(kind: Kind) -> Class {
    match kind {
        Kind::Fp2(FpBinary::Div)
        | Kind::Fp1(FpUnary::Sqrt)
        | Kind::FpV3(FpVec3::Binary(FpBinary::Div)) => Class::FpDiv,
        Kind::Fp2(FpBinary::Mul | FpBinary::Nmul)
        | Kind::FpFused(_)
        | Kind::FpIndexed(_)
        | Kind::FpV3(FpVec3::Mla | FpVec3::Mls | FpVec3::Mulx | FpVec3::Binary(FpBinary::Mul))
        | Kind::V3 { op: V3::Mul | V3::Mla | V3::Mls | V3::Qdmulh | V3::Qrdmulh, .. }
        | Kind::Indexed { .. } => Class::FpMul,
        Kind::Fp1(FpUnary::Rint(_) | FpUnary::RintCurrent)
        | Kind::Fp2(_)
        | Kind::FpV3(_)
        | Kind::FpV2(_)
        | Kind::FpCompare { .. }
        | Kind::FpCondCompare
        | Kind::FpConvert
        | Kind::FpToInt { .. }
        | Kind::FpFromInt { .. }
        | Kind::FpFixed { .. }
        | Kind::FpLengthen
        | Kind::FpNarrow
        | Kind::FpPairScalar(_)
        | Kind::FpAcross(_) => Class::FpAdd,
        kind if is_alu(kind) => Class::Alu,
        _ => Class::Vec,
    }
}

/// What is left of integer instructions.
fn is_alu(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Undefined
            | Kind::Alu(..)
            | Kind::Carry { .. }
            | Kind::MovImm
            | Kind::MovKeep
            | Kind::Adr
            | Kind::Adrp
            | Kind::Select(_)
            | Kind::CompareImm { .. }
            | Kind::CompareReg { .. }
            | Kind::Rmif
            | Kind::Setf
            | Kind::Cfinv
            | Kind::Svc
            | Kind::Hvc
            | Kind::Smc
            | Kind::Brk
            | Kind::Hint
            | Kind::ClearExclusive
            | Kind::Prefetch
            | Kind::Store(_)
            | Kind::StorePair(_)
            | Kind::StoreVec(_)
            | Kind::StoreVecPair(_)
            | Kind::StoreExclusive { .. }
            | Kind::StoreExclusivePair { .. }
            | Kind::StoreRelease
            | Kind::Structures { .. }
            | Kind::Lane { .. }
    )
}
