//! The code of a run on arm64: start by PSCI, vectors, and each cpu's program.
//!
//! X19: log. X20: what the cpu counts. X21: round. X26, X27: handlers. X0: address, X1 to X9:
//! scratch.

use emu_machine::load::Segment;
use tests_litmus::arm64::encode::{Assembler, Condition, Label, System};
use tests_litmus::arm64::guest::{start, table, translate};
use tests_litmus::arm64::{Access, Acquire, Barrier, Change as Update, Reg, Types, ZR};

use super::{
    AT_IPIS, AT_ROUNDS, AT_TICKS, CODE, ENDED, FAULT, MET, OWN, OWN_BYTES, OWN_COUNTS, Plan, READY,
    SETTLE_TICKS, TABLES, segment,
};
use crate::arena::Word;
use crate::program::{self, Change, Flavor, Number, Op, unique};

const EXIT: u64 = emu_machine::map::TEST_DEVICE_BASE + guests_abi::device::Register::Exit.offset();
/// Frames of the redistributors, one a cpu.
const GICR: u64 = emu_machine::map::GICR_BASE;
const GICR_BYTES: u64 = emu_machine::map::GICR_BYTES;
/// GICR_WAKER, GICR_IGROUPR0, GICR_ISENABLER0.
const WAKER: u64 = 0x14;
const GROUP: u64 = 0x1_0080;
const SET_ENABLE: u64 = 0x1_0100;
/// INTIDs of interrupts between cpus, of the virtual timer.
const SGI: u32 = 1;
const TIMER: u32 = emu_machine::map::TIMER_INTIDS[2];
/// ICC_SGI1R_EL1: all but the sender.
const ALL_BUT_SELF: u64 = 1 << 40;
const VECTORS_BYTES: usize = 0x800;

const ADDRESS: Reg = 0;
const VALUE: Reg = 1;
const SEEN: Reg = 2;
const NEW: Reg = 4;
const STATUS: Reg = 6;
const SCRATCH: Reg = 9;
const LOG: Reg = 19;
const COUNTS: Reg = 20;
const ROUND: Reg = 21;
/// Of the handlers, which interrupt anything.
const HANDLER: [Reg; 2] = [26, 27];

const LOAD: Access = Access::Load(Acquire::No);
const STORE: Access = Access::Store { is_release: false };

/// Assembles vectors, code and the translation table.
pub(super) fn segments(plan: &Plan) -> Result<Vec<Segment>, String> {
    let mut code = vectors(plan)?;
    code.resize(VECTORS_BYTES, 0);
    code.extend(Guest { a: Assembler::default(), plan }.assemble()?);
    Ok(vec![segment(plan.base + CODE, code, 0), segment(plan.base + TABLES, table(plan.base), 0)])
}

/// First instruction of cpu 0.
pub(super) fn entry(plan: &Plan) -> u64 {
    plan.base + CODE + VECTORS_BYTES as u64
}

/// A vector of 32 words for each kind; all but interrupts at EL1 end the run.
fn vectors(plan: &Plan) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for nth in 0..16 {
        let mut a = Assembler::default();
        if nth == 5 {
            interrupt(&mut a)
        } else {
            fault(&mut a, plan)
        }
        bytes.extend(a.assemble()?);
        bytes.resize((nth + 1) * 0x80, 0);
    }
    Ok(bytes)
}

fn fault(a: &mut Assembler, plan: &Plan) {
    a.mov(ADDRESS, plan.base + FAULT);
    a.mov(VALUE, 1);
    a.str(VALUE, ADDRESS, 0);
    a.barrier(Barrier::Dsb(Types::All));
    a.mov(ADDRESS, EXIT);
    a.str(VALUE, ADDRESS, 0);
    let end = a.here();
    a.wfi();
    a.b(end);
}

/// Counts an interrupt; the timer's is switched off first.
fn interrupt(a: &mut Assembler) {
    let [intid, other] = HANDLER;
    let (is_ipi, end) = (a.label(), a.label());
    a.mrs(intid, System::Acknowledge);
    a.mov(other, TIMER.into());
    a.cmp(intid, other);
    a.b_if(Condition::NotEqual, is_ipi);
    a.msr(System::TimerControl, ZR);
    a.barrier(Barrier::Isb);
    a.ldr(other, COUNTS, AT_TICKS);
    a.add_imm(other, other, 1);
    a.str(other, COUNTS, AT_TICKS);
    a.b(end);
    a.bind(is_ipi);
    a.ldr(other, COUNTS, AT_IPIS);
    a.add_imm(other, other, 1);
    a.str(other, COUNTS, AT_IPIS);
    a.bind(end);
    a.msr(System::End, intid);
    a.eret();
}

struct Guest<'a> {
    a: Assembler,
    plan: &'a Plan,
}

impl Guest<'_> {
    fn assemble(mut self) -> Result<Vec<u8>, String> {
        let others: Vec<Label> = self.plan.seats.iter().skip(1).map(|_| self.a.label()).collect();
        // The programs lie too far away for ADR.
        let islands: Vec<Label> = others.iter().map(|_| self.a.label()).collect();
        for ((_, mpidr), island) in self.plan.seats.iter().skip(1).zip(&islands) {
            start(&mut self.a, *mpidr, *island);
        }
        self.seat(0);
        for (island, entry) in islands.iter().zip(&others) {
            self.a.bind(*island);
            self.a.b(*entry);
        }
        for (seat, entry) in (1..).zip(others) {
            self.a.bind(entry);
            self.seat(seat);
        }
        self.a.assemble()
    }

    /// Translation, vectors, interrupts.
    fn prepare(&mut self, seat: usize) {
        let base = self.plan.base;
        translate(&mut self.a, base + TABLES);
        self.a.mov(COUNTS, base + OWN + seat as u64 * OWN_BYTES + OWN_COUNTS);
        let frames = GICR + self.plan.seats[seat].0 as u64 * GICR_BYTES;
        let enabled = 0xffff | 1 << TIMER;
        for (register, value) in [(WAKER, 0), (GROUP, 0xffff_ffff), (SET_ENABLE, enabled)] {
            self.a.mov(ADDRESS, frames + register);
            self.a.mov(VALUE, value);
            self.a.access(STORE, 4, VALUE, ZR, ADDRESS);
        }
        for (register, value) in
            [(System::Vbar, base + CODE), (System::Priority, 0xff), (System::Enable, 1)]
        {
            self.a.mov(VALUE, value);
            self.a.msr(register, VALUE);
        }
        self.a.barrier(Barrier::Isb);
    }

    fn seat(&mut self, seat: usize) {
        let all = self.plan.seats.len() as u64;
        self.prepare(seat);
        self.a.mov(LOG, self.plan.log(seat).0);
        self.a.mov(ROUND, 0);
        self.meet(READY, all);
        self.a.unmask(true);
        let round = self.a.here();
        let program = &self.plan.programs[seat];
        let mut slot = 0;
        for (nth, (op, number)) in program.iter().zip(program::numbers(program)).enumerate() {
            let flavor = Flavor::draw(self.plan.seed, seat, nth);
            self.op(seat, *op, flavor, number, slot);
            slot += 8 * program::words(op, &self.plan.arena) as u64;
        }
        self.a.mov(SCRATCH, slot);
        self.a.add(LOG, LOG, SCRATCH);
        self.a.add_imm(ROUND, ROUND, 1);
        self.a.str(ROUND, COUNTS, AT_ROUNDS);
        self.a.mov(SCRATCH, self.plan.rounds);
        self.a.cmp(ROUND, SCRATCH);
        self.a.b_if(Condition::Lower, round);
        self.a.barrier(Barrier::Dmb(Types::All));
        if seat == 0 {
            self.meet(ENDED, all);
            self.settle();
        }
        self.add(ENDED);
        let end = self.a.here();
        self.a.wfi();
        self.a.b(end);
    }

    /// Lets everything sent arrive, and ends the run.
    fn settle(&mut self) {
        self.a.ldr(NEW, COUNTS, AT_TICKS);
        self.timer(SETTLE_TICKS.into());
        let settle = self.a.here();
        self.a.wfi();
        self.a.unmask(true);
        self.a.barrier(Barrier::Isb);
        self.a.unmask(false);
        self.a.ldr(SEEN, COUNTS, AT_TICKS);
        self.a.cmp(SEEN, NEW);
        let is_over = self.a.label();
        self.a.b_if(Condition::NotEqual, is_over);
        self.a.b(settle);
        self.a.bind(is_over);
        self.a.mov(ADDRESS, EXIT);
        self.a.str(ZR, ADDRESS, 0);
    }

    /// Adds 1 to a word of the run.
    fn add(&mut self, word: u64) {
        self.a.mov(ADDRESS, self.plan.base + word);
        let flavor = Flavor { is_exclusive: true, ..Flavor::PLAIN };
        self.exclusive(flavor, 4, |a| a.add_imm(NEW, SEEN, 1));
    }

    /// Adds 1 to a word, and waits until it is `all` or more.
    fn meet(&mut self, word: u64, all: u64) {
        self.add(word);
        self.a.mov(VALUE, all);
        self.until();
    }

    /// Waits until the word at the address is that of the value register, or more.
    fn until(&mut self) {
        let again = self.a.here();
        self.a.relax();
        self.a.access(LOAD, 4, SEEN, ZR, ADDRESS);
        self.a.cmp(SEEN, VALUE);
        self.a.b_if(Condition::Lower, again);
    }

    /// Starts the timer with interrupts off, so that it cannot be missed.
    fn timer(&mut self, ticks: u64) {
        self.a.unmask(false);
        self.a.mov(SCRATCH, ticks);
        self.a.msr(System::TimerValue, SCRATCH);
        self.a.mov(SCRATCH, 1);
        self.a.msr(System::TimerControl, SCRATCH);
        self.a.barrier(Barrier::Isb);
    }

    fn log(&mut self, register: Reg, slot: u64) {
        self.a.mov(SCRATCH, slot);
        self.a.add(SCRATCH, SCRATCH, LOG);
        self.a.str(register, SCRATCH, 0);
    }

    /// The number of the round, times a constant, in the value register.
    fn number(&mut self, number: Number, more: u64, times: u64) {
        self.a.mov(VALUE, number.per_round);
        self.a.mul(VALUE, VALUE, ROUND);
        self.a.mov(SCRATCH, number.nth + 1 + more);
        self.a.add(VALUE, VALUE, SCRATCH);
        if times != 1 {
            self.a.mov(SCRATCH, times);
            self.a.mul(VALUE, VALUE, SCRATCH);
        }
    }

    /// Loads to `SEEN`, makes `NEW` of it, and stores that, again until nothing came between.
    fn exclusive(&mut self, flavor: Flavor, bytes: u8, change: impl FnOnce(&mut Assembler)) {
        let again = self.a.here();
        self.a.access(flavor.load_exclusive(), bytes, SEEN, ZR, ADDRESS);
        change(&mut self.a);
        self.a.access(flavor.store_exclusive(), bytes, NEW, STATUS, ADDRESS);
        self.a.cb(true, false, STATUS, again);
    }

    fn op(&mut self, seat: usize, op: Op, flavor: Flavor, number: Number, slot: u64) {
        let arena = &self.plan.arena;
        match op {
            Op::Load { address, size } => {
                self.a.mov(ADDRESS, address);
                if size == 16 {
                    self.a.ldp(SEEN, SEEN + 1, ADDRESS);
                    self.log(SEEN + 1, slot + 8);
                } else {
                    let load = Access::Load(flavor.at(address, size).acquire);
                    self.a.access(load, size as u8, SEEN, ZR, ADDRESS);
                }
                self.log(SEEN, slot);
            }
            Op::Own { block, run } => {
                let run = arena.owned[block].2[run];
                let copies = [1, 1, 0x1_0001, 0x0001_0001_0001_0001];
                self.number(number, 0, copies[run.size.min(8).ilog2() as usize]);
                self.a.mov(ADDRESS, run.address);
                if run.size == 16 {
                    return self.a.stp(VALUE, VALUE, ADDRESS);
                }
                let is_release = flavor.at(run.address, run.size).is_release;
                let store = Access::Store { is_release };
                self.a.access(store, run.size as u8, VALUE, ZR, ADDRESS);
            }
            Op::Read { word, size, offset } => {
                self.a.mov(ADDRESS, arena.shared[word].address + offset);
                self.a.access(Access::Load(flavor.acquire), size as u8, SEEN, ZR, ADDRESS);
                self.log(SEEN, slot);
            }
            Op::Write(word) | Op::Xchg(word) | Op::Cmpxchg(word) => {
                self.number(number, unique(seat, 0), 1 << 32 | 1);
                self.a.mov(ADDRESS, arena.shared[word].address);
                self.unique(op, flavor, arena.shared[word].word == Word::Pair, slot);
            }
            Op::Xadd(word) | Op::Count { word, .. } | Op::Total(word) => {
                let Word::Counter { size } = arena.shared[word].word else { return };
                self.a.mov(ADDRESS, arena.shared[word].address);
                self.count(op, flavor, size as u8, slot);
            }
            Op::Bit { line, .. } | Op::Mask { line, .. } | Op::Look(line) => {
                self.a.mov(ADDRESS, arena.bits[line] + seat as u64 / 8);
                self.bit(op, flavor, seat as u32 % 8, slot);
            }
            Op::Section(at) => {
                let locked = &arena.locked[at];
                self.section(locked.lock, &locked.words, flavor, slot);
            }
            Op::Meet => {
                // All come here once a round.
                self.add(MET);
                let all = self.plan.seats.len() as u64;
                self.number(Number { per_round: all, nth: 0 }, all - 1, 1);
                self.until();
            }
            Op::Sweep { address, lines } => {
                self.a.mov(ADDRESS, self.plan.base + address);
                self.a.mov(VALUE, lines);
                self.a.mov(SCRATCH, 0x1_0000);
                let again = self.a.here();
                self.a.ldr(SEEN, ADDRESS, 0);
                self.a.add(ADDRESS, ADDRESS, SCRATCH);
                self.a.subs_imm(VALUE, VALUE, 1);
                self.a.b_if(Condition::NotEqual, again);
            }
            _ => self.system(op, flavor),
        }
    }

    /// What is no access of the lines under test.
    fn system(&mut self, op: Op, flavor: Flavor) {
        let barrier = if flavor.is_exclusive { Barrier::Dsb } else { Barrier::Dmb };
        match op {
            Op::Mfence => self.a.barrier(barrier(Types::All)),
            Op::Lfence => self.a.barrier(barrier(Types::Loads)),
            Op::Sfence => self.a.barrier(barrier(Types::Stores)),
            Op::Flush(address) => {
                self.a.mov(ADDRESS, address);
                self.a.clean_and_invalidate(ADDRESS);
            }
            Op::Ipi(to) => self.send(sgi(self.plan.seats[to].1)),
            Op::IpiAll => self.send(ALL_BUT_SELF | u64::from(SGI) << 24),
            Op::Mwait { address, ticks, .. } => {
                self.timer(ticks.into());
                self.a.mov(ADDRESS, address);
                self.a.access(Flavor::PLAIN.load_exclusive(), 1, SEEN, ZR, ADDRESS);
                self.a.unmask(true);
                self.a.wfe();
            }
            Op::Halt(ticks) => {
                self.timer(ticks.into());
                self.a.wfi();
                self.a.unmask(true);
            }
            _ if flavor.is_exclusive => self.a.clear_exclusive(),
            _ => self.a.relax(),
        }
    }

    fn send(&mut self, value: u64) {
        self.a.mov(SCRATCH, value);
        self.a.msr(System::Sgi, SCRATCH);
    }

    /// Stores the unique value, or swaps it in, or if the word is still what it was.
    fn unique(&mut self, op: Op, flavor: Flavor, is_pair: bool, slot: u64) {
        match op {
            Op::Write(_) => {
                let store = Access::Store { is_release: flavor.is_release };
                return self.a.access(store, 8, VALUE, ZR, ADDRESS);
            }
            Op::Xchg(_) if flavor.is_exclusive => {
                self.exclusive(flavor, 8, |a| a.mov_reg(NEW, VALUE));
            }
            Op::Xchg(_) => self.a.access(flavor.atomic(Update::Swap), 8, SEEN, VALUE, ADDRESS),
            _ if is_pair => return self.compare_pair(flavor, slot),
            _ => {
                self.a.ldr(SEEN, ADDRESS, 0);
                self.log(SEEN, slot);
                self.compare(flavor);
                return self.log(SEEN, slot + 8);
            }
        }
        self.log(SEEN, slot);
    }

    /// `SEEN` = the word, which becomes `VALUE` if it was `SEEN`.
    fn compare(&mut self, flavor: Flavor) {
        if !flavor.is_exclusive {
            return self.a.access(flavor.atomic(Update::Compare), 8, VALUE, SEEN, ADDRESS);
        }
        let other = self.a.label();
        self.a.mov_reg(STATUS + 1, SEEN);
        self.exclusive(flavor, 8, |a| {
            a.mov_reg(NEW, VALUE);
            a.eor(STATUS, SEEN, STATUS + 1);
            a.cb(true, true, STATUS, other);
        });
        self.a.bind(other);
        self.a.clear_exclusive();
    }

    /// The same of sixteen bytes, which are compared to what two loads found.
    fn compare_pair(&mut self, flavor: Flavor, slot: u64) {
        self.a.ldr(SEEN, ADDRESS, 0);
        self.a.ldr(SEEN + 1, ADDRESS, 8);
        self.log(SEEN, slot);
        self.log(SEEN + 1, slot + 8);
        self.a.mov_reg(NEW, VALUE);
        self.a.mov_reg(NEW + 1, VALUE);
        self.a.casp(SEEN, NEW, ADDRESS, flavor.acquire != Acquire::No, flavor.is_release);
        self.log(SEEN, slot + 16);
        self.log(SEEN + 1, slot + 24);
    }

    fn count(&mut self, op: Op, flavor: Flavor, size: u8, slot: u64) {
        self.a.mov(VALUE, 1);
        match op {
            Op::Total(_) => {
                self.a.access(Access::Load(flavor.acquire), size, SEEN, ZR, ADDRESS);
            }
            _ if flavor.is_exclusive => {
                self.exclusive(flavor, size, |a| a.add(NEW, SEEN, VALUE));
            }
            Op::Xadd(_) => self.a.access(flavor.atomic(Update::Add), size, SEEN, VALUE, ADDRESS),
            _ => {
                let atomic = Flavor { acquire: Acquire::No, ..flavor }.atomic(Update::Add);
                return self.a.access(atomic, size, ZR, VALUE, ADDRESS);
            }
        }
        if !matches!(op, Op::Count { .. }) {
            self.log(SEEN, slot);
        }
    }

    /// Changes the own bit of the byte, or looks at it.
    fn bit(&mut self, op: Op, flavor: Flavor, bit: u32, slot: u64) {
        self.a.mov(VALUE, 1 << bit);
        let (change, is_logged) = match op {
            Op::Bit { change, .. } => (change, true),
            Op::Mask { change, .. } => (change, false),
            _ => {
                self.a.access(Access::Load(flavor.acquire), 1, SEEN, ZR, ADDRESS);
                return self.log(SEEN, slot);
            }
        };
        let update = match change {
            Change::Set => Update::Set,
            Change::Reset => Update::Clear,
            Change::Complement => Update::Eor,
        };
        if flavor.is_exclusive {
            self.exclusive(flavor, 1, |a| match update {
                Update::Set => a.orr(NEW, SEEN, VALUE),
                Update::Clear => {
                    a.orr(NEW, SEEN, VALUE);
                    a.eor(NEW, NEW, VALUE);
                }
                _ => a.eor(NEW, SEEN, VALUE),
            });
        } else if is_logged {
            self.a.access(flavor.atomic(update), 1, SEEN, VALUE, ADDRESS);
        } else {
            let atomic = Flavor { acquire: Acquire::No, ..flavor }.atomic(update);
            self.a.access(atomic, 1, ZR, VALUE, ADDRESS);
        }
        if is_logged {
            self.a.ubfx(SEEN, SEEN, bit, 1);
            self.log(SEEN, slot);
        }
    }

    fn section(&mut self, lock: u64, words: &[u64], flavor: Flavor, slot: u64) {
        let missed = self.a.label();
        let taken = Flavor { acquire: Acquire::Full, is_release: false, ..flavor };
        self.a.mov(ADDRESS, lock);
        self.a.mov(VALUE, 1);
        if flavor.is_exclusive {
            self.exclusive(taken, 4, |a| a.mov_reg(NEW, VALUE));
        } else {
            self.a.access(taken.atomic(Update::Swap), 4, SEEN, VALUE, ADDRESS);
        }
        self.log(SEEN, slot);
        self.a.cb(true, false, SEEN, missed);
        for (n, word) in words.iter().enumerate() {
            self.a.mov(VALUE, *word);
            self.a.ldr(SEEN, VALUE, 0);
            self.log(SEEN, slot + 8 + 8 * n as u64);
            self.a.add_imm(SEEN, SEEN, 1);
            self.a.str(SEEN, VALUE, 0);
        }
        let store = Access::Store { is_release: flavor.is_release };
        if !flavor.is_release {
            self.a.barrier(Barrier::Dmb(Types::All));
        }
        self.a.access(store, 4, ZR, ZR, ADDRESS);
        self.a.bind(missed);
    }
}

/// ICC_SGI1R_EL1 for one cpu.
fn sgi(mpidr: u64) -> u64 {
    let affinity = |n: u32| mpidr >> n & 0xff;
    affinity(32) << 48
        | (affinity(0) >> 4) << 44
        | affinity(16) << 32
        | u64::from(SGI) << 24
        | affinity(8) << 16
        | 1 << (affinity(0) & 15)
}
