//! The code of a test's image on x86: one loop for each thread.
//!
//! Each turn of the loop warms what the plan says, meets the others at a barrier, waits for its
//! offset, runs the test, and stores its registers. The barrier's locked increment orders turns;
//! the last one orders all that the host reads. Variables are never used twice.

use emu_machine::load::Segment;
use iced_x86::code_asm::*;
use iced_x86::{Code, IcedError, Instruction, MemoryOperand, Register};

use super::{Change, Op, Place, Program, Source, boot};
use crate::guest::{
    AT_GAPS, AT_OFFSET, AT_REGISTERS, AT_WARM, BARRIER, CODE, RECORD_BYTES, Seats, code_segment,
    segment,
};
use crate::program::Test;

const TEST_DEVICE_EXIT: u64 =
    guests_abi::layout::TEST_DEVICE_BASE + guests_abi::device::Register::Exit.offset();

/// Assembles the image's code.
pub(crate) fn segments(
    test: &Test,
    program: &Program,
    iterations: usize,
    seats: &Seats,
) -> Result<Vec<Segment>, IcedError> {
    let trampoline = segment(boot::TRAMPOLINE, boot::trampoline()?, 0x1000);
    let code = code(test, program, iterations, seats)?;
    Ok(vec![trampoline, code_segment(seats.ram + CODE, code)])
}

fn code(
    test: &Test,
    program: &Program,
    iterations: usize,
    seats: &Seats,
) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut entries: Vec<CodeLabel> = seats.seats.iter().map(|_| a.create_label()).collect();
    boot::prepare(&mut a)?;
    let others = seats.seats.iter().zip(&entries).filter(|((cpu, _), _)| *cpu != 0);
    for (n, ((_, apic_id), entry)) in others.enumerate() {
        boot::start(&mut a, *apic_id as u32, seats.is_x2apic, *entry, n as u32 + 1)?;
    }
    for (thread, (cpu, _)) in seats.seats.iter().enumerate() {
        if *cpu == 0 {
            a.jmp(entries[thread])?;
        }
    }
    for (thread, entry) in entries.iter_mut().enumerate() {
        a.set_label(entry)?;
        turn(&mut a, test, program, thread, seats.records(thread, iterations), iterations)?;
        if seats.seats[thread].0 == 0 {
            a.mov(rbx, TEST_DEVICE_EXIT)?;
            a.xor(eax, eax)?;
            a.mov(qword_ptr(rbx), rax)?;
        }
        let mut end = a.create_label();
        a.set_label(&mut end)?;
        a.cli()?;
        a.hlt()?;
        a.jmp(end)?;
    }
    a.assemble(seats.ram + CODE)
}

/// RBP: record. R8 to R11: addresses. R12: gaps. R13: scratch. R14: turns left. R15: what the
/// barrier has to reach.
fn turn(
    a: &mut CodeAssembler,
    test: &Test,
    program: &Program,
    thread: usize,
    records: u64,
    iterations: usize,
) -> Result<(), IcedError> {
    let threads = program.threads.len() as i32;
    a.mov(rbp, records)?;
    a.mov(r14d, iterations as u32)?;
    a.xor(r15d, r15d)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    for (v, base) in [r8, r9, r10, r11].into_iter().enumerate() {
        a.mov(base, qword_ptr(rbp + 8 * v as i32))?;
    }
    a.mov(r12, qword_ptr(rbp + AT_GAPS as i32))?;
    a.mov(rsi, qword_ptr(rbp + AT_WARM as i32))?;
    a.mov(r13, qword_ptr(rbp + AT_OFFSET as i32))?;
    for (v, base) in [r8, r9, r10, r11].into_iter().enumerate().take(test.variables.len()) {
        let (mut is_cold, mut is_not_owned) = (a.create_label(), a.create_label());
        a.test(esi, 1 << (2 * v))?;
        a.jz(is_cold)?;
        a.mov(al, byte_ptr(base))?;
        a.set_label(&mut is_cold)?;
        a.test(esi, 2 << (2 * v))?;
        a.jz(is_not_owned)?;
        a.lock().or(byte_ptr(base), 0)?;
        a.set_label(&mut is_not_owned)?;
    }
    barrier(a, threads)?;
    wait(a)?;
    for (r, value) in [rax, rbx, rcx, rdx].into_iter().zip(program.registers[thread]) {
        a.mov(r, value)?;
    }
    let (mut gapped, mut end) = (a.create_label(), a.create_label());
    a.test(r12, r12)?;
    a.jnz(gapped)?;
    for op in &program.threads[thread] {
        a.add_instruction(instruction(*op)?)?;
    }
    a.jmp(end)?;
    a.set_label(&mut gapped)?;
    for (n, op) in program.threads[thread].iter().enumerate() {
        a.mov(r13, r12)?;
        a.shr(r13, 8 * (n as u32 % 8))?;
        a.and(r13d, 0xff)?;
        wait(a)?;
        a.add_instruction(instruction(*op)?)?;
    }
    a.set_label(&mut end)?;
    a.nop()?;
    for (nth, r) in test.recorded(thread).enumerate() {
        let at = rbp + AT_REGISTERS as i32 + 8 * nth as i32;
        a.mov(qword_ptr(at), [rax, rbx, rcx, rdx][r])?;
    }
    a.add(rbp, RECORD_BYTES as i32)?;
    a.dec(r14d)?;
    a.jnz(again)?;
    barrier(a, threads)
}

fn barrier(a: &mut CodeAssembler, threads: i32) -> Result<(), IcedError> {
    let mut spin = a.create_label();
    a.mov(edi, BARRIER as u32)?;
    a.add(r15d, threads)?;
    a.lock().inc(dword_ptr(rdi))?;
    a.set_label(&mut spin)?;
    a.pause()?;
    a.mov(eax, dword_ptr(rdi))?;
    a.cmp(eax, r15d)?;
    a.jb(spin)
}

/// Waits R13 cycles or so. A chain of multiplications costs the host less than as many turns of an
/// empty loop; LFENCE lets nothing younger begin before its end, and leaves the store buffer alone.
fn wait(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let [mut coarse, mut fine, mut is_fine, mut is_over] = [(); 4].map(|()| a.create_label());
    a.mov(edi, r13d)?;
    a.and(edi, 7)?;
    a.shr(r13d, 3)?;
    a.jz(is_fine)?;
    a.set_label(&mut coarse)?;
    for _ in 0..3 {
        a.imul_2(esi, esi)?;
    }
    a.dec(r13d)?;
    a.jnz(coarse)?;
    a.set_label(&mut is_fine)?;
    a.test(edi, edi)?;
    a.jz(is_over)?;
    a.set_label(&mut fine)?;
    a.dec(edi)?;
    a.jnz(fine)?;
    a.set_label(&mut is_over)?;
    a.lfence()
}

// Encodings by size: 1, 2, 4 and 8 bytes.
type BySize = [Code; 4];
#[rustfmt::skip]
mod by_size {
    use super::{BySize, Code::*};
    pub(super) const STORE: BySize = [Mov_rm8_r8, Mov_rm16_r16, Mov_rm32_r32, Mov_rm64_r64];
    pub(super) const LOAD: BySize = [Mov_r8_rm8, Mov_r16_rm16, Mov_r32_rm32, Mov_r64_rm64];
    pub(super) const SET: BySize = [Mov_rm8_imm8, Mov_rm16_imm16, Mov_rm32_imm32, Mov_rm64_imm32];
    pub(super) const LET: BySize = [Mov_r8_imm8, Mov_r16_imm16, Mov_r32_imm32, Mov_r64_imm64];
    pub(super) const ADD: BySize = [Add_rm8_r8, Add_rm16_r16, Add_rm32_r32, Add_rm64_r64];
    pub(super) const ADDI: BySize =
        [Add_rm8_imm8, Add_rm16_imm16, Add_rm32_imm32, Add_rm64_imm32];
    pub(super) const OR: BySize = [Or_rm8_r8, Or_rm16_r16, Or_rm32_r32, Or_rm64_r64];
    pub(super) const ORI: BySize = [Or_rm8_imm8, Or_rm16_imm16, Or_rm32_imm32, Or_rm64_imm32];
    pub(super) const INC: BySize = [Inc_rm8, Inc_rm16, Inc_rm32, Inc_rm64];
    pub(super) const XADD: BySize = [Xadd_rm8_r8, Xadd_rm16_r16, Xadd_rm32_r32, Xadd_rm64_r64];
    pub(super) const XCHG: BySize = [Xchg_rm8_r8, Xchg_rm16_r16, Xchg_rm32_r32, Xchg_rm64_r64];
    pub(super) const CMPXCHG: BySize =
        [Cmpxchg_rm8_r8, Cmpxchg_rm16_r16, Cmpxchg_rm32_r32, Cmpxchg_rm64_r64];
}

fn register(r: usize, size: usize) -> Register {
    use Register::{AL, AX, BL, BX, CL, CX, DL, DX, EAX, EBX, ECX, EDX, RAX, RBX, RCX, RDX};
    let names = [[AL, BL, CL, DL], [AX, BX, CX, DX], [EAX, EBX, ECX, EDX], [RAX, RBX, RCX, RDX]];
    names[size][r]
}

fn memory(place: Place) -> MemoryOperand {
    let base = [Register::R8, Register::R9, Register::R10, Register::R11][place.variable];
    MemoryOperand::with_base_displ(base, i64::from(place.offset))
}

fn instruction(op: Op) -> Result<Instruction, IcedError> {
    use by_size::{ADD, ADDI, CMPXCHG, INC, LET, LOAD, OR, ORI, SET, STORE, XADD, XCHG};
    let with = |place: Place, source, by_register: BySize, by_constant: BySize| {
        let s = place.size.index();
        match source {
            Source::Immediate(v) => Instruction::with2(by_constant[s], memory(place), v as i32),
            Source::Register(r) => {
                Instruction::with2(by_register[s], memory(place), register(r, s))
            }
        }
    };
    match op {
        Op::Mfence => Ok(Instruction::with(Code::Mfence)),
        Op::Lfence => Ok(Instruction::with(Code::Lfence)),
        Op::Sfence => Ok(Instruction::with(Code::Sfence)),
        Op::Store(place, source) => with(place, source, STORE, SET),
        Op::Load(r, place) => {
            let s = place.size.index();
            Instruction::with2(LOAD[s], register(r, s), memory(place))
        }
        Op::Move(r, size, source) => {
            let s = size.index();
            match source {
                Source::Immediate(v) if s == 3 => Instruction::with2(LET[3], register(r, 3), v),
                Source::Immediate(v) => Instruction::with2(LET[s], register(r, s), v as u32),
                Source::Register(from) => {
                    Instruction::with2(LOAD[s], register(r, s), register(from, s))
                }
            }
        }
        Op::Rmw { place, change, is_locked } => {
            let s = place.size.index();
            let at = memory(place);
            let mut i = match change {
                Change::Add(source) => with(place, source, ADD, ADDI)?,
                Change::Or(source) => with(place, source, OR, ORI)?,
                Change::Inc => Instruction::with1(INC[s], at)?,
                Change::Xadd(r) => Instruction::with2(XADD[s], at, register(r, s))?,
                Change::Xchg(r) => Instruction::with2(XCHG[s], at, register(r, s))?,
                Change::Cmpxchg(r) => Instruction::with2(CMPXCHG[s], at, register(r, s))?,
            };
            i.set_has_lock_prefix(is_locked && !matches!(change, Change::Xchg(_)));
            Ok(i)
        }
    }
}
