//! What a run left in guest memory, read back as accesses: each word of a log, with the program
//! that wrote it, is what one access saw.
//!
//! What needs no order is judged here: torn values, own bytes and bits, sums, data under a lock.

use emu_machine::Machine;
use tests_litmus::arm64::Types;
use topology::Isa;

use crate::arena::{LINE, Run, Word};
use crate::guest::{Plan, UNWRITTEN};
use crate::order::{Access, Execution, Values};
use crate::program::{self, Change, Flavor, Op, unique};

/// A part of a run that one access reads or writes: runs end at lines and at eight bytes.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u64,
    to: u64,
    run: Run,
    /// Versions written in all.
    last: u64,
}

/// Where each location of the judge is.
struct Locations {
    pieces: Vec<Piece>,
    /// Numbers of the first shared word, locked word, patch.
    shared: u32,
    locked: Vec<u32>,
    patches: u32,
    count: u32,
}

impl Locations {
    fn new(plan: &Plan) -> Self {
        let mut pieces = Vec::new();
        for (block, (_, _, runs)) in plan.arena.owned.iter().enumerate() {
            for (n, run) in runs.iter().enumerate() {
                let writes = |op: &&Op| **op == Op::Own { block, run: n };
                let each = plan.programs[run.owner].iter().filter(writes).count() as u64;
                let last = each * plan.rounds;
                let (mut from, end) = (run.address, run.address + run.size);
                while from < end {
                    let to = end.min(run.address + 8 * ((from - run.address) / 8 + 1));
                    let to = to.min((from / LINE + 1) * LINE);
                    pieces.push(Piece { from, to, run: *run, last });
                    from = to;
                }
            }
        }
        let shared = pieces.len() as u32;
        let mut count = shared + plan.arena.shared.len() as u32;
        let mut locked = Vec::new();
        for l in &plan.arena.locked {
            locked.push(count);
            count += l.words.len() as u32;
        }
        let patches = count;
        count += plan.arena.patches.len() as u32;
        Self { pieces, shared, locked, patches, count }
    }
}

/// What a seat did besides accesses to judged locations.
#[derive(Clone, Debug, Default)]
struct Sums {
    /// By shared word, increments.
    counts: Vec<u64>,
    /// By lock, sections.
    sections: Vec<u64>,
    /// By line, own bit.
    bits: Vec<bool>,
}

/// What a run was, as far as its logs say.
#[derive(Clone, Debug)]
pub struct Replay {
    /// For the judge of order.
    pub execution: Execution,
    /// Memory operations on lines under test, and on lines that sweep them out.
    pub operations: u64,
    /// Interrupts sent.
    pub ipis: u64,
}

struct Seat<'a> {
    plan: &'a Plan,
    at: &'a Locations,
    seat: usize,
    round: u64,
    /// How the operation at hand is done.
    flavor: Flavor,
    log: Vec<u64>,
    next: usize,
    /// By piece, the lowest version that it can have.
    seen: Vec<u64>,
    accesses: Vec<Access>,
    sums: Sums,
    operations: u64,
    ipis: u64,
    /// Cpus of the machine, running or not.
    cpus: u64,
}

type Judged<T> = Result<T, String>;

/// Reads back what all seats saw.
///
/// # Errors
/// What cannot have been, whatever the order.
pub fn replay(machine: &Machine, plan: &Plan) -> Judged<Replay> {
    let at = Locations::new(plan);
    let mut replay =
        Replay { execution: Execution::new(plan.isa, kinds(plan, &at)), operations: 0, ipis: 0 };
    let mut all = Vec::new();
    for seat in 0..plan.seats.len() {
        let (address, bytes) = plan.log(seat);
        let log = machine.read_guest(address, bytes);
        let mut s = Seat {
            plan,
            at: &at,
            seat,
            round: 0,
            flavor: Flavor::PLAIN,
            log: log.chunks_exact(8).map(word).collect(),
            next: 0,
            seen: vec![0; at.pieces.len()],
            accesses: Vec::new(),
            sums: Sums {
                counts: vec![0; plan.arena.shared.len()],
                sections: vec![0; plan.arena.locked.len()],
                bits: vec![false; plan.arena.bits.len()],
            },
            operations: 0,
            ipis: 0,
            cpus: machine.cpus() as u64,
        };
        s.run().map_err(|e| format!("seat {seat}, round {}: {e}", s.round))?;
        replay.operations += s.operations;
        replay.ipis += s.ipis;
        replay.execution.cpus.push(s.accesses);
        all.push(s.sums);
    }
    replay.execution.last = last(machine, plan, &at)?;
    sums(machine, plan, &all)?;
    Ok(replay)
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn kinds(plan: &Plan, at: &Locations) -> Vec<Values> {
    let mut kinds = vec![Values::Versions; at.count as usize];
    for (n, shared) in plan.arena.shared.iter().enumerate() {
        if !matches!(shared.word, Word::Counter { .. }) {
            kinds[at.shared as usize + n] = Values::Unique;
        }
    }
    kinds
}

/// The one half of a unique value.
fn half(value: u64) -> Judged<u64> {
    let low = value & 0xffff_ffff;
    if value >> 32 == low { Ok(low) } else { Err(format!("torn value {value:#x}")) }
}

impl Seat<'_> {
    fn run(&mut self) -> Judged<()> {
        let program = &self.plan.programs[self.seat];
        let numbers = program::numbers(program);
        for round in 0..self.plan.rounds {
            self.round = round;
            for (n, (op, number)) in program.iter().zip(&numbers).enumerate() {
                let before = self.next;
                if self.plan.isa == Isa::Aarch64 {
                    self.flavor = Flavor::draw(self.plan.seed, self.seat, n);
                }
                self.op(*op, number.in_round(round)).map_err(|e| format!("op {n} {op:?}: {e}"))?;
                self.next = before + program::words(op, &self.plan.arena);
            }
        }
        Ok(())
    }

    /// The next word of the log.
    fn logged(&mut self) -> Judged<u64> {
        let word = self.log.get(self.next).copied().unwrap_or(UNWRITTEN);
        self.next += 1;
        if word == UNWRITTEN { Err("nothing was logged".to_owned()) } else { Ok(word) }
    }

    fn op(&mut self, op: Op, number: u64) -> Judged<()> {
        self.operations += match op {
            Op::Mfence | Op::Lfence | Op::Sfence | Op::Pause => 0,
            Op::Ipi(_) | Op::IpiAll | Op::Halt(_) => 0,
            Op::Sweep { lines, .. } => lines,
            Op::Cmpxchg(_) => 2,
            _ => 1,
        };
        match op {
            Op::Load { address, size } => return self.load(address, size),
            Op::Own { block, run } => {
                let run = self.plan.arena.owned[block].2[run];
                let flavor = self.flavor.at(run.address, run.size);
                for (n, _) in self.pieces(run.address, run.address + run.size) {
                    self.seen[n] = number;
                    self.accesses.push(Access::store(n as u32, number).done(flavor));
                }
            }
            Op::Patch(p) => self.accesses.push(Access::store(self.at.patches + p as u32, number)),
            Op::Call(p) => {
                let value = self.logged()?;
                let patch = self.plan.arena.patches[p];
                let writes = |op: &&Op| **op == Op::Patch(p);
                let each = self.plan.programs[patch.owner].iter().filter(writes).count() as u64;
                at_most(value, each * self.plan.rounds)?;
                self.accesses.push(Access::fetch(self.at.patches + p as u32, value));
            }
            Op::Read { .. } | Op::Write(_) | Op::Xchg(_) | Op::Cmpxchg(_) => {
                return self.on_unique(op, number);
            }
            Op::Total(w) => {
                let value = self.logged()?;
                let load = Access::load(self.at.shared + w as u32, value);
                self.accesses.push(load.done(self.flavor));
            }
            Op::Xadd(w) => {
                let value = self.logged()?;
                self.sums.counts[w] += 1;
                let location = self.at.shared + w as u32;
                let locked = Access::locked(location, value, Some(value + 1));
                self.accesses.push(locked.done(self.flavor.both()));
            }
            Op::Count { word, .. } => {
                self.sums.counts[word] += 1;
                self.locked_elsewhere();
            }
            Op::Bit { line, change } | Op::Mask { line, change } => {
                let is_logged = matches!(op, Op::Bit { .. });
                let before = if is_logged { Some(self.logged()? & 0xff) } else { None };
                self.own_bit(line, before, Some(change))?;
                self.locked_elsewhere();
            }
            Op::Look(line) => {
                let byte = self.logged()?;
                self.own_bit(line, Some(byte >> (self.seat % 8) & 1), None)?;
            }
            Op::Section(at) => return self.section(at),
            Op::Mfence => self.accesses.push(Access::fence(Types::All)),
            Op::Lfence | Op::Sfence if self.plan.isa == Isa::Aarch64 => {
                let types = if op == Op::Lfence { Types::Loads } else { Types::Stores };
                self.accesses.push(Access::fence(types));
            }
            Op::Ipi(_) => self.ipis += 1,
            Op::IpiAll => self.ipis += self.cpus - 1,
            Op::Lfence | Op::Sfence | Op::Pause | Op::Flush(_) | Op::Sweep { .. } => {}
            Op::Mwait { .. } | Op::Halt(_) | Op::Meet => {}
        }
        Ok(())
    }

    /// A locked instruction of x86 orders all others, whatever it is of.
    fn locked_elsewhere(&mut self) {
        if self.plan.isa == Isa::X86_64 {
            self.accesses.push(Access::fence(Types::All));
        }
    }

    /// Numbers and places of what lies between two addresses.
    fn pieces(&self, from: u64, to: u64) -> Vec<(usize, Piece)> {
        let pieces = self.at.pieces.iter().copied().enumerate();
        pieces.filter(|(_, p)| p.from < to && from < p.to).collect()
    }

    fn load(&mut self, address: u64, size: u64) -> Judged<()> {
        let mut bytes = Vec::new();
        for _ in 0..size.div_ceil(8) {
            bytes.extend(self.logged()?.to_le_bytes());
        }
        // Sixteen bytes are one access inside a line, and may be two times eight across its end,
        // or anywhere on arm64.
        let is_pair = self.plan.isa == Isa::Aarch64;
        let is_split = size == 16 && (is_pair || address % LINE > LINE - size);
        let part = if is_split { 8 } else { size };
        for begin in (address..address + size).step_by(part as usize) {
            for (n, piece) in self.pieces(begin, begin + part) {
                let (from, to) = (piece.from.max(begin), piece.to.min(begin + part));
                let seen =
                    (from..to).map(|a| (a - piece.run.address, bytes[(a - address) as usize]));
                let seen: Vec<(u64, u8)> = seen.collect();
                self.observe(n, piece, &seen, self.flavor.at(address, size))
                    .map_err(|e| format!("{from:#x} to {to:#x} of {:?}: {e}", piece.run))?;
            }
        }
        Ok(())
    }

    /// Which version of a run has these bytes.
    fn observe(
        &mut self,
        n: usize,
        piece: Piece,
        bytes: &[(u64, u8)],
        flavor: Flavor,
    ) -> Judged<()> {
        let is = |version: u64| bytes.iter().all(|(i, b)| Run::byte(version, *i) == *b);
        let fault = |what: &str| Err(format!("{what}: {bytes:x?}, {} known", self.seen[n]));
        if piece.run.owner == self.seat {
            if !is(self.seen[n]) {
                return fault("not the own last store");
            }
            self.accesses.push(Access::load(n as u32, self.seen[n]).done(flavor));
            return Ok(());
        }
        let mut versions = (0..=piece.last).filter(|v| is(*v));
        let Some(first) = versions.next() else { return fault("no version") };
        if versions.next().is_none() {
            self.accesses.push(Access::load(n as u32, first).done(flavor));
            self.seen[n] = self.seen[n].max(first);
            return Ok(());
        }
        // Several: the lowest that is not older than what was seen before.
        match (self.seen[n]..=piece.last).find(|v| is(*v)) {
            None => fault("older than before"),
            Some(version) => {
                self.seen[n] = version;
                Ok(())
            }
        }
    }

    fn on_unique(&mut self, op: Op, number: u64) -> Judged<()> {
        let value = unique(self.seat, number);
        let location = |word: usize| self.at.shared + word as u32;
        match op {
            Op::Read { word, size, .. } => {
                let at = location(word);
                let seen = self.logged()?;
                let seen = if size == 8 { half(seen)? } else { seen };
                self.accesses.push(Access::load(at, seen).done(self.flavor));
            }
            Op::Xchg(word) => {
                let at = location(word);
                let seen = half(self.logged()?)?;
                let locked = Access::locked(at, seen, Some(value));
                self.accesses.push(locked.done(self.flavor.both()));
            }
            Op::Cmpxchg(word) => {
                let at = location(word);
                let is_pair = self.plan.arena.shared[word].word == Word::Pair;
                let mut expected = [half(self.logged()?)?; 2];
                self.accesses.push(Access::load(at, expected[0]));
                if is_pair {
                    expected[1] = half(self.logged()?)?;
                    self.accesses.push(Access::load(at, expected[1]));
                }
                let seen = half(self.logged()?)?;
                if is_pair && half(self.logged()?)? != seen {
                    return Err(format!("torn pair, low half {seen:#x}"));
                }
                let is_done = expected == [seen; 2];
                let locked = Access::locked(at, seen, is_done.then_some(value));
                self.accesses.push(locked.done(self.flavor.both()));
            }
            Op::Write(word) => {
                self.accesses.push(Access::store(location(word), value).done(self.flavor));
            }
            _ => {}
        }
        Ok(())
    }

    fn own_bit(&mut self, line: usize, seen: Option<u64>, change: Option<Change>) -> Judged<()> {
        let bit = &mut self.sums.bits[line];
        if seen.is_some_and(|seen| seen != u64::from(*bit)) {
            return Err(format!("own bit is {seen:?}, not {bit}"));
        }
        *bit = change.map_or(*bit, |change| change.of(*bit));
        Ok(())
    }

    fn section(&mut self, at: usize) -> Judged<()> {
        let lock = self.logged()?;
        self.locked_elsewhere();
        let count = self.plan.arena.locked[at].words.len();
        if lock == 1 {
            let words = self.log.iter().skip(self.next).take(count);
            let is_skipped = words.into_iter().all(|w| *w == UNWRITTEN);
            return if is_skipped { Ok(()) } else { Err("ran without the lock".to_owned()) };
        }
        if lock != 0 {
            return Err(format!("the lock was {lock:#x}"));
        }
        self.sums.sections[at] += 1;
        self.operations += 2 * count as u64 + 1;
        let mut first = None;
        for n in 0..count {
            let value = self.logged()?;
            if *first.get_or_insert(value) != value {
                return Err(format!("words under the lock differ: {first:?}, {value}"));
            }
            let location = self.at.locked[at] + n as u32;
            self.accesses.push(Access::load(location, value));
            self.accesses.push(Access::store(location, value + 1));
        }
        Ok(())
    }
}

fn at_most(value: u64, most: u64) -> Judged<()> {
    if value <= most { Ok(()) } else { Err(format!("{value:#x} was never written")) }
}

/// The value of each location at the end; that of a run is its last version.
fn last(machine: &Machine, plan: &Plan, at: &Locations) -> Judged<Vec<u64>> {
    let mut last = Vec::new();
    for piece in &at.pieces {
        let bytes = machine.read_guest(piece.from, (piece.to - piece.from) as usize);
        let places = piece.from - piece.run.address..;
        if !places.zip(&bytes).all(|(i, b)| Run::byte(piece.last, i) == *b) {
            let (run, version) = (piece.run, piece.last);
            return Err(format!("{run:?} ends as {bytes:x?}, not as version {version}"));
        }
        last.push(piece.last);
    }
    for shared in &plan.arena.shared {
        let value = machine.read_guest_u64(shared.address);
        last.push(match shared.word {
            Word::Counter { size: 4 } => value & 0xffff_ffff,
            Word::Counter { .. } => value,
            Word::Unique => half(value)?,
            Word::Pair => {
                let upper = machine.read_guest_u64(shared.address + 8);
                if upper != value {
                    return Err(format!("{shared:x?} ends torn: {value:#x}, {upper:#x}"));
                }
                half(value)?
            }
        });
    }
    let words = plan.arena.locked.iter().flat_map(|l| &l.words);
    last.extend(words.map(|w| machine.read_guest_u64(*w)));
    let patches = plan.arena.patches.iter();
    last.extend(patches.map(|p| machine.read_guest_u64(p.address) & 0xffff_ffff));
    Ok(last)
}

/// Sums, bits and locks at the end.
fn sums(machine: &Machine, plan: &Plan, all: &[Sums]) -> Judged<()> {
    let equal = |what: &str, at: u64, found: u64, expected: u64| {
        let fault = || format!("{what} at {at:#x} ends as {found:#x}, not {expected:#x}");
        if found == expected { Ok(()) } else { Err(fault()) }
    };
    for (n, shared) in plan.arena.shared.iter().enumerate() {
        if let Word::Counter { size } = shared.word {
            let found = machine.read_guest_u64(shared.address) & u64::MAX >> (64 - 8 * size);
            equal("a counter", shared.address, found, all.iter().map(|s| s.counts[n]).sum())?;
        }
    }
    for (n, locked) in plan.arena.locked.iter().enumerate() {
        equal("a lock", locked.lock, machine.read_guest_u64(locked.lock) & 0xffff_ffff, 0)?;
        let sections = all.iter().map(|s| s.sections[n]).sum();
        for word in &locked.words {
            equal("a locked word", *word, machine.read_guest_u64(*word), sections)?;
        }
    }
    for (n, line) in plan.arena.bits.iter().enumerate() {
        for (group, seats) in all.chunks(64).enumerate() {
            let bits = seats.iter().enumerate();
            let expected = bits.fold(0, |word, (i, s)| word | u64::from(s.bits[n]) << i);
            let at = line + 8 * group as u64;
            equal("bits", at, machine.read_guest_u64(at), expected)?;
        }
    }
    Ok(())
}
