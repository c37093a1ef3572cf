//! Instruction bodies by family, and the dispatch to them.
//!
//! A body obeys the rule of `ctx`: all requests first, then all changes of registers.
//!
//! Not modelled: half-precision arithmetic, cryptography, dot products, pointer authentication,
//! memory tags, scalable vectors: undefined instructions. Cumulative floating-point exception
//! flags but QC are not set, and arithmetic rounds to nearest whatever `FPCR.RMode` says.
//!
//! Reading order: `operand`, `alu`, `branch`, `memory`, `atomic`, `system`, `vec_int`, `vec_move`,
//! `vec_shift`, `vec_long`, `vec_memory`, `float`, `convert`, `vec_float`.

mod alu;
mod atomic;
mod branch;
mod convert;
mod float;
mod memory;
mod operand;
mod system;
mod vec_float;
mod vec_int;
mod vec_long;
mod vec_memory;
mod vec_move;
mod vec_shift;

use emu_cpu::port::Port;

use crate::ctx::{Ctx, Exception, Exec, Next, Trap};
use crate::decode::{Alu, Kind, Op};
use crate::defs::Features;

/// Result of a body.
pub(crate) type Body = Exec<Next>;

/// Ends a body: the instruction is not there.
#[cold]
pub(crate) fn undefined<T>() -> Exec<T> {
    Err(Trap::Fault(Exception::undefined()))
}

/// Raises an undefined-instruction exception unless the cpu offers the feature.
#[inline]
pub(crate) fn require<P: Port>(ctx: &Ctx<'_, P>, feature: Features) -> Exec<()> {
    if ctx.cpu.has(feature) { Ok(()) } else { undefined() }
}

/// Executes one instruction; `cpu.state.pc` is its address.
///
/// # Errors
/// `Wait` and exceptions; architectural state is then that before the instruction.
#[inline(always)]
pub fn execute<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    match op.kind {
        Kind::Alu(Alu::Add, source) => alu::arithmetic(ctx, op, source, false),
        Kind::Alu(Alu::Sub, source) => alu::arithmetic(ctx, op, source, true),
        Kind::Alu(alu, source) => alu::logical(ctx, op, alu, source),
        Kind::MovImm => alu::mov_imm(ctx, op),
        Kind::Load { mode, signed } => memory::load(ctx, op, mode, signed),
        Kind::Store(mode) => memory::store(ctx, op, mode),
        Kind::BranchCond => branch::conditional(ctx, op),
        Kind::CompareBranch { nonzero } => branch::compare(ctx, op, nonzero),
        Kind::TestBranch { nonzero } => branch::test(ctx, op, nonzero),
        Kind::Branch { link } => branch::direct(ctx, op, link),
        Kind::Return => branch::ret(ctx, op),
        Kind::BranchReg { link } => branch::indirect(ctx, op, link),
        Kind::LoadPair { mode, signed } => memory::load_pair(ctx, op, mode, signed),
        Kind::StorePair(mode) => memory::store_pair(ctx, op, mode),
        Kind::Adr => alu::adr(ctx, op, false),
        Kind::Adrp => alu::adr(ctx, op, true),
        Kind::Bitfield(field) => alu::bitfield(ctx, op, field),
        Kind::Select(select) => alu::select(ctx, op, select),
        Kind::MovKeep => alu::mov_keep(ctx, op),
        _ => execute_less_common(ctx, op),
    }
}

/// The second level of the dispatch, kept out of the hot one.
#[inline(never)]
fn execute_less_common<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    match op.kind {
        Kind::Carry { subtract } => alu::carry(ctx, op, subtract),
        Kind::CompareImm { subtract } => alu::compare(ctx, op, op.imm, subtract),
        Kind::CompareReg { subtract } => {
            let b = ctx.cpu.state.x(op.rm);
            alu::compare(ctx, op, b, subtract)
        }
        Kind::Extract => alu::extract(ctx, op),
        Kind::Unary(unary) => alu::unary(ctx, op, unary),
        Kind::Divide(divide) => alu::divide(ctx, op, divide),
        Kind::ShiftReg(shift) => alu::shift(ctx, op, shift),
        Kind::Crc { castagnoli } => alu::crc(ctx, op, castagnoli),
        Kind::Multiply { subtract } => alu::multiply(ctx, op, subtract),
        Kind::MultiplyWide(wide) => alu::multiply_wide(ctx, op, wide),
        Kind::Rmif => alu::rmif(ctx, op),
        Kind::Setf => alu::setf(ctx, op),
        Kind::Cfinv => alu::cfinv(ctx),
        Kind::Prefetch => Ok(Next::Seq),
        Kind::LoadAcquire => memory::load_acquire(ctx, op, crate::ctx::Acc::Acquire),
        Kind::LoadAcquirePc => memory::load_acquire_pc(ctx, op),
        Kind::StoreRelease => memory::store_release(ctx, op),
        Kind::LoadExclusive { acquire } => atomic::load_exclusive(ctx, op, acquire),
        Kind::StoreExclusive { release } => atomic::store_exclusive(ctx, op, release),
        Kind::LoadExclusivePair { acquire } => atomic::load_exclusive_pair(ctx, op, acquire),
        Kind::StoreExclusivePair { release } => atomic::store_exclusive_pair(ctx, op, release),
        Kind::Cas { acquire, release } => atomic::cas(ctx, op, acquire, release),
        Kind::CasPair { acquire, release } => atomic::cas_pair(ctx, op, acquire, release),
        Kind::Atomic { op: atomic, acquire, release } => {
            atomic::update(ctx, op, atomic, acquire, release)
        }
        Kind::Mrs
        | Kind::Msr
        | Kind::MsrImm
        | Kind::Sys
        | Kind::Svc
        | Kind::Hvc
        | Kind::Smc
        | Kind::Brk
        | Kind::Eret
        | Kind::Hint
        | Kind::WaitTimeout { .. }
        | Kind::Dmb
        | Kind::Dsb
        | Kind::Isb
        | Kind::Sb
        | Kind::ClearExclusive => system::execute(ctx, op),
        Kind::Undefined => undefined(),
        _ => execute_vector(ctx, op),
    }
}

/// The third level: SIMD and floating point.
#[inline(never)]
fn execute_vector<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Body {
    ctx.check_fp()?;
    match op.kind {
        Kind::LoadVec(mode) => vec_memory::load(ctx, op, mode),
        Kind::StoreVec(mode) => vec_memory::store(ctx, op, mode),
        Kind::LoadVecPair(mode) => vec_memory::load_pair(ctx, op, mode),
        Kind::StoreVecPair(mode) => vec_memory::store_pair(ctx, op, mode),
        Kind::Structures { load, elements, repeat, post } => {
            vec_memory::structures(ctx, op, load, (elements, repeat), post)
        }
        Kind::Lane { load, elements, post } => vec_memory::lane(ctx, op, load, elements, post),
        Kind::LoadReplicate { elements, post } => vec_memory::replicate(ctx, op, elements, post),
        _ => {
            vec_int::execute(ctx, op)?;
            Ok(Next::Seq)
        }
    }
}
