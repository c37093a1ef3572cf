//! String instructions.
//!
//! A repeated instruction executes one iteration a step and stays at its address until the count
//! is used up, so that interrupts and faults come between iterations with the registers as far as
//! they are. Fast strings: an iteration of REP MOVS or REP STOS moves 16 bytes where that many are
//! left, the direction is up, the destination is aligned to 16, the source lies in one page, and
//! source and destination do not overlap within the chunk; instruction counts then count chunks.
//! Not modelled: the start-up cost of real microcode.

use emu_cpu::port::Port;

use super::{Body, Next, operand};
use crate::ctx::{Ctx, Exec, Trap};
use crate::decode::{Op, Prefix, StringOp};
use crate::flags::{self, DF, ZF, mask};
use crate::state::{SegReg, gpr};

/// Bytes of one iteration of fast strings.
const CHUNK: u64 = 16;
/// The part of an address inside of a page.
const PAGE_MASK: u64 = 0xfff;

/// What an iteration did.
struct Iteration {
    /// Elements moved.
    elements: u64,
    /// Whether RSI and RDI move.
    moves: (bool, bool),
    /// Flags of a comparison.
    arith: Option<u64>,
    /// New accumulator.
    loaded: Option<u64>,
}

impl Iteration {
    fn moving(source: bool, destination: bool) -> Self {
        Iteration { elements: 1, moves: (source, destination), arith: None, loaded: None }
    }
}

/// Executes one iteration.
pub(super) fn string<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: StringOp) -> Body {
    if matches!(what, StringOp::Ins | StringOp::Outs) {
        // Before anything else, even if the count is zero; as measured on Intel cores.
        ctx.check_io(ctx.cpu.state.gpr[gpr::RDX] as u16, op.size)?;
    }
    let is_repeated = op.prefix & (Prefix::REP | Prefix::REPNE) != 0;
    let count = ctx.cpu.state.gpr[gpr::RCX] & mask(op.asize);
    if is_repeated && count == 0 {
        narrow(ctx, op, what);
        return Ok(Next::Seq);
    }
    let repeats = is_repeated.then_some(count);
    let iteration = match what {
        StringOp::Movs => movs(ctx, op, repeats),
        StringOp::Stos => stos(ctx, op, repeats),
        StringOp::Lods => lods(ctx, op),
        StringOp::Scas => scas(ctx, op),
        StringOp::Cmps => cmps(ctx, op),
        StringOp::Ins => ins(ctx, op),
        StringOp::Outs => outs(ctx, op),
    };
    if is_repeated && matches!(iteration, Err(Trap::Fault(_))) {
        narrow(ctx, op, what);
    }
    Ok(finish(ctx, op, repeats, &iteration?))
}

/// Registers of 32 bits that an instruction counts with lose their upper halves also when no
/// iteration is done, as measured on Intel cores: RCX, and the pointers of MOVS and STOS.
fn narrow<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, what: StringOp) {
    let numbers: &[usize] = match what {
        StringOp::Movs => &[gpr::RCX, gpr::RSI, gpr::RDI],
        StringOp::Stos => &[gpr::RCX, gpr::RDI],
        _ => &[gpr::RCX],
    };
    for n in numbers {
        let value = ctx.cpu.state.gpr[*n];
        operand::set_gpr(&mut ctx.cpu.state, *n, op.asize, value);
    }
}

/// Changes the registers once all requests are done.
fn finish<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    count: Option<u64>,
    iteration: &Iteration,
) -> Next {
    let state = &mut ctx.cpu.state;
    let bytes = iteration.elements * u64::from(op.size);
    let by = if state.rflags & DF != 0 { bytes.wrapping_neg() } else { bytes };
    for (n, moves) in [(gpr::RSI, iteration.moves.0), (gpr::RDI, iteration.moves.1)] {
        if moves {
            let value = state.gpr[n].wrapping_add(by);
            operand::set_gpr(state, n, op.asize, value);
        }
    }
    if let Some(value) = iteration.loaded {
        operand::set_gpr(state, gpr::RAX, op.size, value);
    }
    let left = count.map_or(0, |count| count - iteration.elements);
    if count.is_some() {
        operand::set_gpr(state, gpr::RCX, op.asize, left);
    }
    let goes_on = iteration.arith.is_none_or(|arith| {
        let wants_equal = op.prefix & Prefix::REPNE == 0;
        (arith & ZF != 0) == wants_equal
    });
    if left != 0 && goes_on {
        // Flags come with the last iteration: after a page fault, "the EFLAGS value is restored to
        // the state prior to the execution of the instruction" ([SDM-2] "REP").
        return Next::Repeat;
    }
    if let Some(arith) = iteration.arith {
        state.rflags = flags::merge(state.rflags, arith);
    }
    Next::Seq
}

/// Offset of the source.
fn source<P: Port>(ctx: &Ctx<'_, P>, op: &Op) -> u64 {
    ctx.cpu.state.gpr[gpr::RSI] & mask(op.asize)
}

/// Offset of the destination, always in ES.
fn destination<P: Port>(ctx: &Ctx<'_, P>, op: &Op) -> u64 {
    ctx.cpu.state.gpr[gpr::RDI] & mask(op.asize)
}

/// Elements of a chunk, if the iteration may be one.
fn chunk<P: Port>(ctx: &Ctx<'_, P>, op: &Op, count: Option<u64>) -> Option<u64> {
    let elements = CHUNK / u64::from(op.size);
    let is_up = ctx.cpu.state.rflags & DF == 0;
    let is_aligned = destination(ctx, op).is_multiple_of(CHUNK);
    (op.bits == 64 && is_up && is_aligned && count? >= elements).then_some(elements)
}

/// Whether a chunk does not overlap its destination from below, and its source lies in one page:
/// a fault of the next page comes after the elements before it.
fn is_apart<P: Port>(ctx: &Ctx<'_, P>, op: &Op, from: u64, to: u64) -> Exec<bool> {
    let from = ctx.linear(op.seg, from, 1, false)?;
    let to = ctx.linear(SegReg::Es, to, 1, true)?;
    Ok(to.wrapping_sub(from) >= CHUNK && from & PAGE_MASK <= PAGE_MASK + 1 - CHUNK)
}

fn movs<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, count: Option<u64>) -> Exec<Iteration> {
    let (from, to) = (source(ctx, op), destination(ctx, op));
    let iteration = Iteration::moving(true, true);
    if let Some(elements) = chunk(ctx, op, count)
        && is_apart(ctx, op, from, to)?
    {
        let value = ctx.read_wide(op.seg, from, false)?;
        ctx.write_wide(SegReg::Es, to, false, value)?;
        return Ok(Iteration { elements, ..iteration });
    }
    let value = ctx.read(op.seg, from, op.size)?;
    ctx.write(SegReg::Es, to, op.size, value)?;
    Ok(iteration)
}

fn stos<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, count: Option<u64>) -> Exec<Iteration> {
    let to = destination(ctx, op);
    let value = ctx.cpu.state.gpr[gpr::RAX] & mask(op.size);
    let iteration = Iteration::moving(false, true);
    if let Some(elements) = chunk(ctx, op, count) {
        // All ones divided by the mask is a one in each element.
        let wide = u128::from(value) * (u128::MAX / u128::from(mask(op.size)));
        ctx.write_wide(SegReg::Es, to, false, wide)?;
        return Ok(Iteration { elements, ..iteration });
    }
    ctx.write(SegReg::Es, to, op.size, value)?;
    Ok(iteration)
}

fn lods<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Iteration> {
    let value = ctx.read(op.seg, source(ctx, op), op.size)?;
    Ok(Iteration { loaded: Some(value), ..Iteration::moving(true, false) })
}

fn scas<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Iteration> {
    let b = ctx.read(SegReg::Es, destination(ctx, op), op.size)?;
    let a = ctx.cpu.state.gpr[gpr::RAX];
    let arith = flags::sub(a, b, 0, op.size).1;
    Ok(Iteration { arith: Some(arith), ..Iteration::moving(false, true) })
}

fn cmps<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Iteration> {
    // In this order, as measured on Intel cores: it shows when both fault.
    let b = ctx.read(SegReg::Es, destination(ctx, op), op.size)?;
    let a = ctx.read(op.seg, source(ctx, op), op.size)?;
    let arith = flags::sub(a, b, 0, op.size).1;
    Ok(Iteration { arith: Some(arith), ..Iteration::moving(true, true) })
}

/// INS: the destination is checked before the port is read, as the read cannot be taken back.
fn ins<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Iteration> {
    let to = destination(ctx, op);
    ctx.probe_write(SegReg::Es, to, u32::from(op.size))?;
    let value = ctx.io_in(ctx.cpu.state.gpr[gpr::RDX] as u16, op.size)?;
    ctx.write(SegReg::Es, to, op.size, value)?;
    Ok(Iteration::moving(false, true))
}

fn outs<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op) -> Exec<Iteration> {
    let value = ctx.read(op.seg, source(ctx, op), op.size)?;
    ctx.io_out(ctx.cpu.state.gpr[gpr::RDX] as u16, op.size, value)?;
    Ok(Iteration::moving(true, false))
}
