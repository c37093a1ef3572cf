//! Loads and stores of vector registers, and of structures.

use emu_cpu::port::Port;

use super::{Body, Next, operand};
use crate::ctx::{Acc, Ctx, Exec};
use crate::decode::{Addressing, Op};

/// Most bytes that structures move: four registers.
const BYTES_MAX: usize = 64;

fn read<P: Port>(ctx: &mut Ctx<'_, P>, va: u64, size: u8) -> Exec<u128> {
    match size {
        16 => ctx.read_wide(va),
        _ => Ok(u128::from(ctx.read(va, size, Acc::Plain)?)),
    }
}

fn write<P: Port>(ctx: &mut Ctx<'_, P>, va: u64, size: u8, value: u128) -> Exec<()> {
    match size {
        16 => ctx.write_wide(va, value),
        _ => ctx.write(va, size, low(value, size) as u64, Acc::Plain),
    }
}

/// Low `bytes` of a vector.
fn low(value: u128, bytes: u8) -> u128 {
    value & u128::MAX >> (128 - 8 * u32::from(bytes))
}

/// LDR of a vector register: what is not loaded becomes zero.
pub(super) fn load<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let value = read(ctx, va, op.size)?;
    operand::write_back(ctx, op, base);
    ctx.cpu.state.v[usize::from(op.rd)] = value;
    Ok(Next::Seq)
}

/// STR of a vector register.
pub(super) fn store<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let value = ctx.cpu.state.v[usize::from(op.rd)];
    write(ctx, va, op.size, value)?;
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}

/// LDP, LDNP of vector registers.
pub(super) fn load_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let first = read(ctx, va, op.size)?;
    let second = read(ctx, va.wrapping_add(u64::from(op.size)), op.size)?;
    operand::write_back(ctx, op, base);
    ctx.cpu.state.v[usize::from(op.rd)] = first;
    ctx.cpu.state.v[usize::from(op.ra)] = second;
    Ok(Next::Seq)
}

/// STP, STNP of vector registers.
pub(super) fn store_pair<P: Port>(ctx: &mut Ctx<'_, P>, op: &Op, mode: Addressing) -> Body {
    let (va, base) = operand::address(ctx, op, mode)?;
    let at = va.wrapping_add(u64::from(op.size));
    let (first, second) =
        (ctx.cpu.state.v[usize::from(op.rd)], ctx.cpu.state.v[usize::from(op.ra)]);
    ctx.probe_write(at, op.size)?;
    write(ctx, va, op.size, first)?;
    write(ctx, at, op.size, second)?;
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}

/// Reads `bytes` from `va` by elements of `size`.
fn read_elements<P: Port>(
    ctx: &mut Ctx<'_, P>,
    va: u64,
    bytes: usize,
    size: u8,
) -> Exec<[u8; BYTES_MAX]> {
    let mut buffer = [0; BYTES_MAX];
    for at in (0..bytes).step_by(usize::from(size)) {
        let value = ctx.read(va.wrapping_add(at as u64), size, Acc::Plain)?;
        buffer[at..at + usize::from(size)]
            .copy_from_slice(&value.to_le_bytes()[..usize::from(size)]);
    }
    Ok(buffer)
}

/// Writes `bytes` to `va` by elements of `size`; none is written when one cannot be.
fn write_elements<P: Port>(
    ctx: &mut Ctx<'_, P>,
    va: u64,
    bytes: usize,
    size: u8,
    buffer: &[u8; BYTES_MAX],
) -> Exec<()> {
    ctx.probe_write(va.wrapping_add((bytes - usize::from(size)) as u64), size)?;
    for at in (0..bytes).step_by(usize::from(size)) {
        let mut value = [0; 8];
        value[..usize::from(size)].copy_from_slice(&buffer[at..at + usize::from(size)]);
        ctx.write(va.wrapping_add(at as u64), size, u64::from_le_bytes(value), Acc::Plain)?;
    }
    Ok(())
}

/// The base after structures.
fn moved<P: Port>(ctx: &Ctx<'_, P>, op: &Op, post: Option<Addressing>) -> Exec<Option<u64>> {
    Ok(match post {
        Some(mode) => operand::address(ctx, op, mode)?.1,
        None => None,
    })
}

/// LD1 to LD4, ST1 to ST4 of whole registers. `shape`: registers of a structure, repetitions.
pub(super) fn structures<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    load: bool,
    shape: (u8, u8),
    post: Option<Addressing>,
) -> Body {
    let (va, base) = (operand::base(ctx, op)?, moved(ctx, op, post)?);
    let (elements, repeat) = (usize::from(shape.0), usize::from(shape.1));
    let (size, bytes) = (usize::from(op.size), usize::from(op.bytes));
    let total = bytes * elements * repeat;
    // Where element `lane` of register `n` lies.
    let place = |n: usize, lane: usize| match elements {
        1 => n * bytes + lane * size,
        _ => (lane * elements + n) * size,
    };
    let register = |n: usize| (usize::from(op.rd) + n) % 32;
    let count = elements * repeat;
    if load {
        let buffer = read_elements(ctx, va, total, op.size)?;
        for n in 0..count {
            let mut value = [0; 16];
            for lane in 0..bytes / size {
                let at = place(n, lane);
                value[lane * size..][..size].copy_from_slice(&buffer[at..at + size]);
            }
            ctx.cpu.state.v[register(n)] = u128::from_le_bytes(value);
        }
    } else {
        let mut buffer = [0; BYTES_MAX];
        for n in 0..count {
            let value = ctx.cpu.state.v[register(n)].to_le_bytes();
            for lane in 0..bytes / size {
                let at = place(n, lane);
                buffer[at..at + size].copy_from_slice(&value[lane * size..][..size]);
            }
        }
        write_elements(ctx, va, total, op.size, &buffer)?;
    }
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}

/// LD1 to LD4, ST1 to ST4 of one lane.
pub(super) fn lane<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    load: bool,
    elements: u8,
    post: Option<Addressing>,
) -> Body {
    let (va, base) = (operand::base(ctx, op)?, moved(ctx, op, post)?);
    let (size, at) = (usize::from(op.size), usize::from(op.amount) * usize::from(op.size));
    let total = usize::from(elements) * size;
    let register = |n: usize| (usize::from(op.rd) + n) % 32;
    let mut buffer = [0; BYTES_MAX];
    if load {
        buffer = read_elements(ctx, va, total, op.size)?;
    }
    for n in 0..usize::from(elements) {
        let mut value = ctx.cpu.state.v[register(n)].to_le_bytes();
        let (lane, place) = (&mut value[at..at + size], &mut buffer[n * size..][..size]);
        if load {
            lane.copy_from_slice(place);
            ctx.cpu.state.v[register(n)] = u128::from_le_bytes(value);
        } else {
            place.copy_from_slice(lane);
        }
    }
    if !load {
        write_elements(ctx, va, total, op.size, &buffer)?;
    }
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}

/// LD1R to LD4R.
pub(super) fn replicate<P: Port>(
    ctx: &mut Ctx<'_, P>,
    op: &Op,
    elements: u8,
    post: Option<Addressing>,
) -> Body {
    let (va, base) = (operand::base(ctx, op)?, moved(ctx, op, post)?);
    let size = usize::from(op.size);
    let buffer = read_elements(ctx, va, usize::from(elements) * size, op.size)?;
    for n in 0..usize::from(elements) {
        let mut value = [0; 16];
        for lane in value[..usize::from(op.bytes)].chunks_exact_mut(size) {
            lane.copy_from_slice(&buffer[n * size..][..size]);
        }
        ctx.cpu.state.v[(usize::from(op.rd) + n) % 32] = u128::from_le_bytes(value);
    }
    operand::write_back(ctx, op, base);
    Ok(Next::Seq)
}
