//! The code of a test's image on arm64: one loop for each thread.
//!
//! The loop is that of x86. Cpu 0 starts the others by PSCI; each turns translation on, as without
//! it all memory is a device. Memory is one table of 1 GiB blocks.
//!
//! Delays are chains of divisions whose result, zero, is added to an address: an access waits, and
//! younger ones with other addresses do not. Neither ISB nor a barrier stands in a test that has
//! none itself.

use emu_machine::load::Segment;

use super::encode::{Assembler, Condition, Label, System};
use super::{Access, Acquire, Barrier, Op, Program, Reg, Types, ZR};
use crate::guest::{
    AT_GAPS, AT_OFFSET, AT_REGISTERS, AT_WARM, BARRIER, CODE, RECORD_BYTES, Seats, TABLES,
    code_segment, segment,
};
use crate::program::{Test, VARIABLES_MAX};
use crate::syntax::Initial;

/// Address of the test device's exit register.
const EXIT: u64 = 0x0900_0000 + guests_abi::device::Register::Exit.offset();
/// PSCI `CPU_ON`, 64-bit calling convention (\[PSCI\] "CPU_ON").
const CPU_ON: u64 = 0xc400_0003;

// Registers of the loop; X0 to X15 are the test's.
const ZERO: Reg = 16;
const COUNT: Reg = 17;
const ONE: Reg = 18;
const RECORD: Reg = 19;
const GAPS: Reg = 20;
const TURNS: Reg = 21;
/// What the barrier has to reach.
const GOAL: Reg = 22;
const MEETING: Reg = 23;
/// First of the variables' addresses.
const ADDRESS: Reg = 24;
const WARM: Reg = 28;
const OFFSET: Reg = 29;

const LDXR: Access = Access::LoadExclusive { is_acquire: false };
const STXR: Access = Access::StoreExclusive { is_release: false };

/// Assembles the image's code, and translation tables.
pub(crate) fn segments(
    test: &Test,
    program: &Program,
    iterations: usize,
    seats: &Seats,
) -> Result<Vec<Segment>, String> {
    let code = code(test, program, iterations, seats)?;
    Ok(vec![code_segment(seats.ram + CODE, code), segment(seats.ram + TABLES, table(seats.ram), 0)])
}

/// A level 1 table of 512 GiB: devices up to RAM, then normal memory (\[ArmARM\] "VMSAv8-64
/// Block descriptor and Page descriptor formats").
#[must_use]
pub fn table(ram: u64) -> Vec<u8> {
    const BLOCK: u64 = 1;
    const ATTRIBUTE_1: u64 = 1 << 2;
    const INNER_SHAREABLE: u64 = 3 << 8;
    const ACCESSED: u64 = 1 << 10;
    const NEVER_EXECUTED: u64 = 3 << 53;
    let entry = |n: u64| {
        let base = n << 30;
        let kind =
            if base + (1 << 30) <= ram { ATTRIBUTE_1 | NEVER_EXECUTED } else { INNER_SHAREABLE };
        base | kind | ACCESSED | BLOCK
    };
    (0..512).flat_map(|n| entry(n).to_le_bytes()).collect()
}

fn code(
    test: &Test,
    program: &Program,
    iterations: usize,
    seats: &Seats,
) -> Result<Vec<u8>, String> {
    let mut a = Assembler::default();
    let entries: Vec<Label> = seats.seats.iter().map(|_| a.label()).collect();
    for ((cpu, mpidr), entry) in seats.seats.iter().zip(&entries) {
        if *cpu != 0 {
            start(&mut a, *mpidr, *entry);
        }
    }
    for ((cpu, _), entry) in seats.seats.iter().zip(&entries) {
        if *cpu == 0 {
            a.b(*entry);
        }
    }
    for (thread, ((cpu, _), entry)) in seats.seats.iter().zip(entries).enumerate() {
        a.bind(entry);
        translate(&mut a, seats.ram + TABLES);
        a.mov(RECORD, seats.records(thread, iterations));
        a.mov(MEETING, seats.ram + BARRIER);
        a.mov(TURNS, iterations as u64);
        turns(&mut a, test, program, thread);
        if *cpu == 0 {
            a.mov(0, EXIT);
            a.str(ZR, 0, 0);
        }
        let end = a.here();
        a.wfi();
        a.b(end);
    }
    a.assemble()
}

/// Starts a cpu; takes X0 to X3.
pub fn start(a: &mut Assembler, mpidr: u64, entry: Label) {
    a.mov(0, CPU_ON);
    a.mov(1, mpidr);
    a.adr(2, entry);
    a.mov(3, 0);
    a.hvc();
}

/// Turns translation and caches on: 39 bits of addresses, tables and memory write-back. Attribute 0
/// is normal memory, 1 is Device-nGnRE. Takes X0 and X1.
pub fn translate(a: &mut Assembler, tables: u64) {
    const T0SZ: u64 = 64 - 39;
    const WRITE_BACK_WALKS: u64 = 1 << 8 | 1 << 10;
    const INNER_SHAREABLE_WALKS: u64 = 3 << 12;
    const NO_UPPER_HALF: u64 = 1 << 23;
    const PHYSICAL_40_BITS: u64 = 2 << 32;
    let control =
        T0SZ | WRITE_BACK_WALKS | INNER_SHAREABLE_WALKS | NO_UPPER_HALF | PHYSICAL_40_BITS;
    for (register, value) in
        [(System::Mair, 0x04ff), (System::Tcr, control), (System::Ttbr0, tables)]
    {
        a.mov(0, value);
        a.msr(register, 0);
    }
    a.barrier(Barrier::Isb);
    a.mrs(0, System::Sctlr);
    a.mov(1, 0x1005); // I, C, M
    a.orr(0, 0, 1);
    a.msr(System::Sctlr, 0);
    a.barrier(Barrier::Isb);
}

fn turns(a: &mut Assembler, test: &Test, program: &Program, thread: usize) {
    let threads = program.threads.len() as u32;
    a.mov(GOAL, 0);
    a.mov(ONE, 1);
    let again = a.here();
    for v in 0..VARIABLES_MAX as u8 {
        a.ldr(ADDRESS + v, RECORD, 8 * u32::from(v));
    }
    a.ldr(GAPS, RECORD, AT_GAPS);
    a.ldr(WARM, RECORD, AT_WARM);
    a.ldr(OFFSET, RECORD, AT_OFFSET);
    for v in 0..test.variables.len() as u8 {
        warm(a, v);
    }
    meet(a, threads);
    begin(a);
    for (r, initial) in program.registers[thread].iter().enumerate() {
        match *initial {
            Initial::Number(value) => a.mov(r as Reg, value),
            Initial::Address(v) => a.mov_reg(r as Reg, ADDRESS + v as Reg),
        }
    }
    let (gapped, end) = (a.label(), a.label());
    a.cb(true, true, GAPS, gapped);
    ops(a, &program.threads[thread], |_, _, _| {});
    a.b(end);
    a.bind(gapped);
    ops(a, &program.threads[thread], gap);
    a.bind(end);
    for (nth, r) in test.recorded(thread).enumerate() {
        a.str(r as Reg, RECORD, AT_REGISTERS + 8 * nth as u32);
    }
    a.add_imm(RECORD, RECORD, RECORD_BYTES);
    a.subs_imm(TURNS, TURNS, 1);
    a.b_if(Condition::NotEqual, again);
    meet(a, threads);
}

/// Reads a variable, and owns it, if the plan says so.
fn warm(a: &mut Assembler, v: Reg) {
    let (is_cold, is_not_owned) = (a.label(), a.label());
    a.tbz(WARM, 2 * u32::from(v), is_cold);
    a.access(Access::Load(Acquire::No), 1, ZERO, ZR, ADDRESS + v);
    a.bind(is_cold);
    a.tbz(WARM, 2 * u32::from(v) + 1, is_not_owned);
    let again = a.here();
    a.access(LDXR, 1, ZERO, ZR, ADDRESS + v);
    a.access(STXR, 1, ZERO, COUNT, ADDRESS + v);
    a.cb(true, false, COUNT, again);
    a.bind(is_not_owned);
}

/// Meets the other threads; older accesses are before it, younger ones behind.
fn meet(a: &mut Assembler, threads: u32) {
    a.barrier(Barrier::Dmb(Types::All));
    a.add_imm(GOAL, GOAL, threads);
    let again = a.here();
    a.access(LDXR, 4, ZERO, ZR, MEETING);
    a.add_imm(ZERO, ZERO, 1);
    a.access(STXR, 4, ZERO, COUNT, MEETING);
    a.cb(true, false, COUNT, again);
    let spin = a.here();
    a.access(Access::Load(Acquire::Full), 4, ZERO, ZR, MEETING);
    a.cmp(ZERO, GOAL);
    a.b_if(Condition::Lower, spin);
}

/// Makes all addresses wait for so many cycles or so as the plan's offset says.
fn begin(a: &mut Assembler) {
    let (is_fine, is_over) = (a.label(), a.label());
    a.ubfx(COUNT, OFFSET, 3, 6);
    divide(a, is_fine);
    a.bind(is_fine);
    a.ubfx(COUNT, OFFSET, 0, 3);
    a.cb(false, true, COUNT, is_over);
    let fine = a.here();
    a.subs_imm(COUNT, COUNT, 1);
    a.b_if(Condition::NotEqual, fine);
    a.bind(is_over);
    a.add(ZERO, ZERO, COUNT);
    for v in 0..VARIABLES_MAX as u8 {
        a.add(ADDRESS + v, ADDRESS + v, ZERO);
    }
}

/// `ZERO` = 0, after as many divisions as `COUNT` says; then goes to `end`, or falls through.
fn divide(a: &mut Assembler, end: Label) {
    a.mov(ZERO, 0);
    a.cb(false, true, COUNT, end);
    let again = a.here();
    a.udiv(ZERO, ZERO, ONE);
    a.subs_imm(COUNT, COUNT, 1);
    a.b_if(Condition::NotEqual, again);
}

/// Emits the instructions of a thread, with `before` each what it emits.
fn ops(a: &mut Assembler, ops: &[Op], before: impl Fn(&mut Assembler, usize, Op)) {
    let at: Vec<Label> = (0..=ops.len()).map(|_| a.label()).collect();
    for (nth, op) in ops.iter().enumerate() {
        a.bind(at[nth]);
        before(a, nth, *op);
        a.op(*op, &at);
    }
    a.bind(at[ops.len()]);
}

/// Delays the address of an access by the plan's gap; nothing else waits.
fn gap(a: &mut Assembler, nth: usize, op: Op) {
    let Op::Access { base, .. } = op else { return };
    let end = a.label();
    a.ubfx(COUNT, GAPS, 8 * (nth as u32 % 8) + 2, 6);
    divide(a, end);
    a.bind(end);
    a.add(base, base, ZERO);
}
