//! The code of a run on x86: start-up by INIT and SIPI, interrupt handlers, and each cpu's program.
//!
//! RDI: log. R13: what the cpu counts. R14: round. All else is scratch.

use emu_machine::load::Segment;
use guests_abi::layout::{BOOT_DS, TEST_DEVICE_BASE};
use iced_x86::code_asm::*;
use iced_x86::{BlockEncoderOptions, IcedError};
use tests_litmus::x86::boot;

use super::{
    AT_IPIS, AT_ROUNDS, AT_TICKS, CODE, ENDED, FAULT, MET, OWN, OWN_BYTES, OWN_COUNTS, Plan, READY,
    SETTLE_TICKS, segment,
};
use crate::arena::Word;
use crate::program::{self, Change, Number, Op, unique};

const IDT: u64 = super::TABLES;
const IDTR: u64 = IDT + 0x1000;

const IPI: u32 = 0x41;
const TIMER: u32 = 0x42;
const XAPIC: u64 = 0xfee0_0000;
const ALL_BUT_SELF: u32 = 0xc_0000;
const EXIT: u64 = TEST_DEVICE_BASE + guests_abi::device::Register::Exit.offset();

/// Assembles code and tables.
pub(super) fn segments(plan: &Plan) -> Result<Vec<Segment>, IcedError> {
    let mut asm = Asm { a: CodeAssembler::new(64)?, is_x2apic: plan.is_x2apic };
    let handlers = asm.guest(plan)?;
    let options = BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let code = asm.a.assemble_options(CODE, options)?;
    let at = |handler: usize| code.label_ip(&handlers[handler]);
    let tables = tables([at(0)?, at(1)?, at(2)?]);
    Ok(vec![
        segment(boot::TRAMPOLINE, boot::trampoline()?, 0x1000),
        segment(CODE, code.inner.code_buffer, 0),
        segment(IDT, tables, 0x2000),
    ])
}

/// The IDT with its register: handlers of `IPI`, of `TIMER`, of everything else.
fn tables(handlers: [u64; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for vector in 0..256 {
        let to = handlers[match vector {
            IPI => 0,
            TIMER => 1,
            _ => 2,
        }];
        bytes.extend((to as u16).to_le_bytes());
        bytes.extend([8, 0, 0, 0x8e]);
        bytes.extend(&(to >> 16).to_le_bytes()[..6]);
        bytes.extend([0; 4]);
    }
    bytes.extend(0xfff_u16.to_le_bytes());
    bytes.extend(IDT.to_le_bytes());
    bytes
}

type Done = Result<(), IcedError>;

struct Asm {
    a: CodeAssembler,
    is_x2apic: bool,
}

impl Asm {
    /// Everything; returns where the handlers are.
    fn guest(&mut self, plan: &Plan) -> Result<[CodeLabel; 3], IcedError> {
        let mut entries: Vec<CodeLabel> =
            plan.seats.iter().map(|_| self.a.create_label()).collect();
        boot::prepare(&mut self.a)?;
        for (seat, (_, apic_id)) in plan.seats.iter().enumerate().skip(1) {
            boot::start(&mut self.a, *apic_id as u32, self.is_x2apic, entries[seat], seat as u32)?;
        }
        for (seat, entry) in entries.iter_mut().enumerate() {
            self.a.set_label(entry)?;
            self.seat(plan, seat)?;
        }
        let handlers = [self.handler(AT_IPIS)?, self.handler(AT_TICKS)?, self.a.create_label()];
        let mut unexpected = handlers[2];
        self.a.set_label(&mut unexpected)?;
        self.a.mov(rsi, FAULT)?;
        self.a.mov(eax, 1)?;
        self.a.mov(dword_ptr(rsi), eax)?;
        self.exit(1)?;
        Ok([handlers[0], handlers[1], unexpected])
    }

    fn handler(&mut self, counter: u32) -> Result<CodeLabel, IcedError> {
        let mut entry = self.a.create_label();
        self.a.set_label(&mut entry)?;
        for register in [rax, rcx, rdx] {
            self.a.push(register)?;
        }
        self.a.inc(qword_ptr(r13 + counter as i32))?;
        self.apic(0xb0, 0)?;
        for register in [rdx, rcx, rax] {
            self.a.pop(register)?;
        }
        self.a.iretq()?;
        Ok(entry)
    }

    fn exit(&mut self, code: u32) -> Done {
        self.a.mov(rsi, EXIT)?;
        self.a.mov(eax, code)?;
        self.a.mov(qword_ptr(rsi), rax)?;
        let mut end = self.a.create_label();
        self.a.set_label(&mut end)?;
        self.a.hlt()?;
        self.a.jmp(end)
    }

    /// Writes a register of the local APIC.
    fn apic(&mut self, register: u32, value: u32) -> Done {
        if self.is_x2apic {
            self.a.mov(ecx, 0x800 + (register >> 4))?;
            self.a.xor(edx, edx)?;
            self.a.mov(eax, value)?;
            self.a.wrmsr()
        } else {
            self.a.mov(rdx, XAPIC)?;
            self.a.mov(dword_ptr(rdx + register), value)
        }
    }

    fn ipi(&mut self, apic_id: u32, shorthand: u32) -> Done {
        if self.is_x2apic {
            self.a.mov(ecx, 0x830)?;
            self.a.mov(edx, apic_id)?;
            self.a.mov(eax, shorthand | IPI)?;
            return self.a.wrmsr();
        }
        self.apic(0x310, apic_id << 24)?;
        self.apic(0x300, shorthand | IPI)
    }

    /// Adds 1 to a word, and waits until it is `all`.
    fn meet(&mut self, word: u64, all: u32) -> Done {
        self.a.mov(rsi, word)?;
        self.a.lock().inc(dword_ptr(rsi))?;
        self.until(all)
    }

    /// Waits until the word at RSI is `all` or more.
    fn until(&mut self, all: u32) -> Done {
        let mut again = self.a.create_label();
        self.a.set_label(&mut again)?;
        self.a.pause()?;
        self.a.cmp(dword_ptr(rsi), all as i32)?;
        self.a.jb(again)
    }

    fn seat(&mut self, plan: &Plan, seat: usize) -> Done {
        let all = plan.seats.len() as u32;
        self.a.mov(eax, u32::from(BOOT_DS))?;
        self.a.mov(ds, eax)?;
        self.a.mov(es, eax)?;
        self.a.mov(ss, eax)?;
        self.a.mov(r13, OWN + seat as u64 * OWN_BYTES + OWN_COUNTS)?;
        self.a.mov(rsp, r13)?;
        self.a.mov(rsi, IDTR)?;
        self.a.lidt(ptr(rsi))?;
        for (register, value) in [(0xf0, 0x1ff), (0x3e0, 0xb), (0x320, TIMER)] {
            self.apic(register, value)?;
        }
        self.a.mov(rdi, plan.log(seat).0)?;
        self.a.xor(r14d, r14d)?;
        self.meet(READY, all)?;
        self.a.sti()?;
        let mut round = self.a.create_label();
        self.a.set_label(&mut round)?;
        let program = &plan.programs[seat];
        let mut slot = 0;
        for (op, number) in program.iter().zip(program::numbers(program)) {
            self.op(plan, seat, *op, number, slot)?;
            slot += 8 * program::words(op, &plan.arena) as i32;
        }
        self.a.add(rdi, slot)?;
        self.a.inc(qword_ptr(r13 + AT_ROUNDS as i32))?;
        self.a.inc(r14d)?;
        self.a.cmp(r14d, plan.rounds as i32)?;
        self.a.jb(round)?;
        self.a.mov(rsi, ENDED)?;
        self.a.lock().inc(dword_ptr(rsi))?;
        if seat != 0 {
            let mut end = self.a.create_label();
            self.a.set_label(&mut end)?;
            self.a.hlt()?;
            return self.a.jmp(end);
        }
        self.until(all)?;
        let mut settle = self.a.create_label();
        self.a.mov(rbx, qword_ptr(r13 + AT_TICKS as i32))?;
        self.timer(SETTLE_TICKS)?;
        self.a.set_label(&mut settle)?;
        self.a.sti()?;
        self.a.hlt()?;
        self.a.cli()?;
        self.a.cmp(rbx, qword_ptr(r13 + AT_TICKS as i32))?;
        self.a.je(settle)?;
        self.exit(0)
    }

    /// Starts the timer with interrupts off, so that it cannot be missed.
    fn timer(&mut self, ticks: u32) -> Done {
        self.a.cli()?;
        self.apic(0x380, ticks)
    }

    fn log(&mut self, slot: i32) -> Done {
        self.a.mov(qword_ptr(rdi + slot), rax)
    }

    /// The number of the round in EAX.
    fn number(&mut self, number: Number) -> Done {
        self.a.imul_3(eax, r14d, number.per_round as i32)?;
        self.a.add(eax, number.nth as i32 + 1)
    }

    /// The unique value of the round in RAX.
    fn unique(&mut self, seat: usize, number: Number) -> Done {
        self.number(number)?;
        self.a.add(eax, unique(seat, 0) as i32)?;
        self.a.mov(edx, eax)?;
        self.a.shl(rdx, 32)?;
        self.a.or(rax, rdx)
    }

    fn op(&mut self, plan: &Plan, seat: usize, op: Op, number: Number, slot: i32) -> Done {
        let arena = &plan.arena;
        match op {
            Op::Load { address, size } => {
                self.a.mov(rsi, address)?;
                self.load(size)?;
                if size == 16 {
                    return self.a.movups(xmmword_ptr(rdi + slot), xmm0);
                }
                self.log(slot)
            }
            Op::Own { block, run } => {
                let run = arena.owned[block].2[run];
                self.number(number)?;
                self.a.mov(rsi, run.address)?;
                self.own(run.size)
            }
            Op::Patch(patch) => {
                self.number(number)?;
                self.a.mov(rsi, arena.patches[patch].address)?;
                self.a.mov(dword_ptr(rsi), eax)
            }
            Op::Call(patch) => {
                self.a.mov(rax, arena.patches[patch].code().0)?;
                self.a.call(rax)?;
                self.log(slot)
            }
            Op::Read { word, size, offset } => {
                self.a.mov(rsi, arena.shared[word].address + offset)?;
                self.load(size)?;
                self.log(slot)
            }
            Op::Write(word) | Op::Xchg(word) | Op::Cmpxchg(word) => {
                self.unique(seat, number)?;
                self.a.mov(rsi, arena.shared[word].address)?;
                match op {
                    Op::Write(_) => return self.a.mov(qword_ptr(rsi), rax),
                    Op::Xchg(_) => self.a.xchg(qword_ptr(rsi), rax)?,
                    _ => return self.compare(arena.shared[word].word == Word::Pair, slot),
                }
                self.log(slot)
            }
            Op::Xadd(word) | Op::Count { word, .. } | Op::Total(word) => {
                self.a.mov(rsi, arena.shared[word].address)?;
                let is_wide = arena.shared[word].word == Word::Counter { size: 8 };
                self.count(op, is_wide)?;
                if matches!(op, Op::Count { .. }) { Ok(()) } else { self.log(slot) }
            }
            Op::Bit { line, .. } | Op::Mask { line, .. } | Op::Look(line) => {
                self.a.mov(rsi, arena.bits[line])?;
                self.bit(op, seat as u32, slot)
            }
            Op::Section(at) => {
                let locked = &arena.locked[at];
                self.section(locked.lock, &locked.words, slot)
            }
            Op::Sweep { address, lines } => {
                self.a.mov(rsi, address)?;
                self.a.mov(ecx, lines as u32)?;
                let mut again = self.a.create_label();
                self.a.set_label(&mut again)?;
                self.a.mov(rax, qword_ptr(rsi))?;
                self.a.add(rsi, 0x1_0000)?;
                self.a.dec(ecx)?;
                self.a.jne(again)
            }
            Op::Ipi(to) => self.ipi(plan.seats[to].1 as u32, 0),
            Op::IpiAll => self.ipi(0, ALL_BUT_SELF),
            Op::Meet => {
                // All come here once a round.
                self.a.imul_3(ebx, r14d, plan.seats.len() as i32)?;
                self.a.add(ebx, plan.seats.len() as i32)?;
                self.a.mov(rsi, MET)?;
                self.a.lock().inc(dword_ptr(rsi))?;
                let mut again = self.a.create_label();
                self.a.set_label(&mut again)?;
                self.a.pause()?;
                self.a.cmp(dword_ptr(rsi), ebx)?;
                self.a.jb(again)
            }
            Op::Mfence => self.a.mfence(),
            Op::Lfence => self.a.lfence(),
            Op::Sfence => self.a.sfence(),
            Op::Pause => self.a.pause(),
            Op::Flush(address) => {
                self.a.mov(rsi, address)?;
                self.a.clflush(byte_ptr(rsi))
            }
            Op::Mwait { address, hint, ticks } => {
                self.timer(ticks)?;
                self.a.mov(rax, address)?;
                self.a.xor(ecx, ecx)?;
                self.a.xor(edx, edx)?;
                self.a.monitor()?;
                self.a.mov(eax, hint)?;
                // A pending interrupt ends the wait although it is masked.
                self.a.mov(ecx, 1)?;
                self.a.mwait()?;
                self.a.sti()
            }
            Op::Halt(ticks) => {
                self.timer(ticks)?;
                self.a.sti()?;
                self.a.hlt()
            }
        }
    }

    /// Loads from RSI to RAX, or XMM0.
    fn load(&mut self, size: u64) -> Done {
        match size {
            1 => self.a.movzx(eax, byte_ptr(rsi)),
            2 => self.a.movzx(eax, word_ptr(rsi)),
            4 => self.a.mov(eax, dword_ptr(rsi)),
            8 => self.a.mov(rax, qword_ptr(rsi)),
            _ => self.a.movups(xmm0, xmmword_ptr(rsi)),
        }
    }

    /// Stores the number in AX to all of the run at RSI.
    fn own(&mut self, size: u64) -> Done {
        match size {
            1 => self.a.mov(byte_ptr(rsi), al),
            2 => self.a.mov(word_ptr(rsi), ax),
            4 => {
                self.a.imul_3(eax, eax, 0x1_0001)?;
                self.a.mov(dword_ptr(rsi), eax)
            }
            _ => {
                self.a.mov(rdx, 0x0001_0001_0001_0001_u64)?;
                self.a.imul_2(rax, rdx)?;
                if size == 8 {
                    return self.a.mov(qword_ptr(rsi), rax);
                }
                self.a.movq(xmm0, rax)?;
                self.a.punpcklqdq(xmm0, xmm0)?;
                self.a.movups(xmmword_ptr(rsi), xmm0)
            }
        }
    }

    /// Loads the word at RSI, and changes it from that to RAX if it is still that.
    fn compare(&mut self, is_pair: bool, slot: i32) -> Done {
        self.a.mov(rbx, rax)?;
        self.a.mov(rax, qword_ptr(rsi))?;
        self.log(slot)?;
        if !is_pair {
            self.a.lock().cmpxchg(qword_ptr(rsi), rbx)?;
            return self.log(slot + 8);
        }
        self.a.mov(rcx, rbx)?;
        self.a.mov(rdx, qword_ptr(rsi + 8))?;
        self.a.mov(qword_ptr(rdi + slot + 8), rdx)?;
        self.a.lock().cmpxchg16b(xmmword_ptr(rsi))?;
        self.log(slot + 16)?;
        self.a.mov(qword_ptr(rdi + slot + 24), rdx)
    }

    fn count(&mut self, op: Op, is_wide: bool) -> Done {
        match (op, is_wide) {
            (Op::Total(_), true) => self.a.mov(rax, qword_ptr(rsi)),
            (Op::Total(_), false) => self.a.mov(eax, dword_ptr(rsi)),
            (Op::Count { is_inc: true, .. }, true) => self.a.lock().inc(qword_ptr(rsi)),
            (Op::Count { is_inc: true, .. }, false) => self.a.lock().inc(dword_ptr(rsi)),
            (Op::Count { .. }, true) => self.a.lock().add(qword_ptr(rsi), 1),
            (Op::Count { .. }, false) => self.a.lock().add(dword_ptr(rsi), 1),
            (_, true) => {
                self.a.mov(eax, 1)?;
                self.a.lock().xadd(qword_ptr(rsi), rax)
            }
            (_, false) => {
                self.a.mov(eax, 1)?;
                self.a.lock().xadd(dword_ptr(rsi), eax)
            }
        }
    }

    fn bit(&mut self, op: Op, bit: u32, slot: i32) -> Done {
        let byte = byte_ptr(rsi + bit as i32 / 8);
        let mask = i32::from((1_u8 << (bit % 8)).cast_signed());
        match op {
            Op::Bit { change, .. } => {
                self.a.mov(eax, bit)?;
                match change {
                    Change::Set => self.a.lock().bts(qword_ptr(rsi), rax)?,
                    Change::Reset => self.a.lock().btr(qword_ptr(rsi), rax)?,
                    Change::Complement => self.a.lock().btc(qword_ptr(rsi), rax)?,
                }
                self.a.setb(al)?;
                self.log(slot)
            }
            Op::Mask { change, .. } => match change {
                Change::Set => self.a.lock().or(byte, mask),
                Change::Reset => self.a.lock().and(byte, !mask),
                Change::Complement => self.a.lock().xor(byte, mask),
            },
            _ => {
                self.a.movzx(eax, byte)?;
                self.log(slot)
            }
        }
    }

    fn section(&mut self, lock: u64, words: &[u64], slot: i32) -> Done {
        let mut missed = self.a.create_label();
        self.a.mov(rsi, lock)?;
        self.a.mov(eax, 1)?;
        self.a.xchg(dword_ptr(rsi), eax)?;
        self.log(slot)?;
        self.a.test(eax, eax)?;
        self.a.jnz(missed)?;
        for (n, word) in words.iter().enumerate() {
            self.a.mov(rdx, *word)?;
            self.a.mov(rax, qword_ptr(rdx))?;
            self.log(slot + 8 + 8 * n as i32)?;
            self.a.inc(rax)?;
            self.a.mov(qword_ptr(rdx), rax)?;
        }
        self.a.xor(eax, eax)?;
        self.a.mov(dword_ptr(rsi), eax)?;
        self.a.set_label(&mut missed)?;
        self.a.nop()
    }
}
