//! Random programs: what each cpu does in each round, drawn from the seed.
//!
//! A program is straight: no branch depends on what was read, but that of a section under a lock.
//! So the host knows every value that is written where, and each operation leaves a fixed number
//! of words in the log of its cpu.

use tests_litmus::arm64::{Access, Acquire, Change as Update};
use tests_litmus::plan::Draw;

use crate::arena::{Arena, LINE, Word};

/// One operation, by its name on x86; on arm64 a [`Flavor`] says how it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Loads so many bytes (up to 16) at an address of owned runs.
    Load {
        /// First byte.
        address: u64,
        /// Bytes.
        size: u64,
    },
    /// Writes the whole of an owned run: its block, its place there.
    Own {
        /// Block of runs.
        block: usize,
        /// Run.
        run: usize,
    },
    /// Loads a unique word: all of it, or four bytes at an offset.
    Read {
        /// Word.
        word: usize,
        /// Bytes.
        size: u64,
        /// First byte in it.
        offset: u64,
    },
    /// Stores a unique value.
    Write(usize),
    /// XCHG of a unique value.
    Xchg(usize),
    /// Loads, then CMPXCHG from what was loaded to a unique value; with 16 bytes for a pair.
    Cmpxchg(usize),
    /// LOCK XADD of 1.
    Xadd(usize),
    /// LOCK INC, or LOCK ADD of 1.
    Count {
        /// Counter.
        word: usize,
        /// INC, else ADD.
        is_inc: bool,
    },
    /// Loads a counter.
    Total(usize),
    /// LOCK BTS, BTR or BTC of the own bit.
    Bit {
        /// Line of bits.
        line: usize,
        /// What happens to it.
        change: Change,
    },
    /// LOCK OR, AND or XOR of the byte that holds the own bit.
    Mask {
        /// Line of bits.
        line: usize,
        /// What happens to it.
        change: Change,
    },
    /// Loads the byte that holds the own bit.
    Look(usize),
    /// Tries the lock; with it, adds 1 to all words.
    Section(usize),
    /// Patches the number of a function.
    Patch(usize),
    /// Calls a function that is patched.
    Call(usize),
    /// MFENCE; a barrier of all accesses.
    Mfence,
    /// LFENCE; a barrier behind loads.
    Lfence,
    /// SFENCE; a barrier between stores.
    Sfence,
    /// PAUSE; YIELD or CLREX.
    Pause,
    /// CLFLUSH of a line; DC CIVAC.
    Flush(u64),
    /// Loads some lines of a set, so that others leave it.
    Sweep {
        /// First byte of the first.
        address: u64,
        /// Lines.
        lines: u64,
    },
    /// Sends an interrupt to a seat.
    Ipi(usize),
    /// Sends an interrupt to all others.
    IpiAll,
    /// MONITOR of a line and MWAIT with a hint; a load exclusive and WFE. A timer ends it after so
    /// many ticks at last.
    Mwait {
        /// Line.
        address: u64,
        /// Hint.
        hint: u32,
        /// Ticks.
        ticks: u32,
    },
    /// HLT or WFI, ended by a timer after so many ticks at last.
    Halt(u32),
    /// Waits until all cpus have come here.
    Meet,
}

/// How an operation of arm64 is done: order, and by exclusives or by an atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flavor {
    /// Order of what it loads.
    pub acquire: Acquire,
    /// Order of what it stores.
    pub is_release: bool,
    /// By exclusives; of a barrier, that it is a DSB.
    pub is_exclusive: bool,
}

impl Flavor {
    /// No order, and no exclusives.
    pub const PLAIN: Self = Self { acquire: Acquire::No, is_release: false, is_exclusive: false };

    /// That of the operation `nth` of a seat.
    #[must_use]
    pub fn draw(seed: u64, seat: usize, nth: usize) -> Self {
        let mut draw = Draw::new(seed ^ 1 << 63, (seat as u64) << 32 | nth as u64);
        let acquire = [Acquire::No, Acquire::No, Acquire::Full, Acquire::Pc];
        Self {
            acquire: acquire[draw.below(4) as usize],
            is_release: draw.below(2) == 1,
            is_exclusive: draw.below(3) == 0,
        }
    }

    /// That of an access of so many bytes: ordered ones are aligned, and of eight bytes at most.
    #[must_use]
    pub fn at(self, address: u64, size: u64) -> Self {
        if size <= 8 && address.is_multiple_of(size) { self } else { Self::PLAIN }
    }

    /// That of an operation that loads and stores, which has no LDAPR.
    #[must_use]
    pub fn both(self) -> Self {
        let is_acquire = self.acquire != Acquire::No;
        Self { acquire: if is_acquire { Acquire::Full } else { Acquire::No }, ..self }
    }

    /// Its load exclusive.
    #[must_use]
    pub fn load_exclusive(self) -> Access {
        Access::LoadExclusive { is_acquire: self.acquire != Acquire::No }
    }

    /// Its store exclusive.
    #[must_use]
    pub fn store_exclusive(self) -> Access {
        Access::StoreExclusive { is_release: self.is_release }
    }

    /// Its atomic.
    #[must_use]
    pub fn atomic(self, change: Update) -> Access {
        let is_acquire = self.acquire != Acquire::No;
        Access::Atomic { change, is_acquire, is_release: self.is_release }
    }
}

/// A change of a bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// To 1.
    Set,
    /// To 0.
    Reset,
    /// To the other value.
    Complement,
}

impl Change {
    fn draw(draw: &mut Draw) -> Self {
        [Self::Set, Self::Reset, Self::Complement][draw.below(3) as usize]
    }

    /// The bit afterwards.
    #[must_use]
    pub fn of(self, bit: bool) -> bool {
        match self {
            Self::Set => true,
            Self::Reset => false,
            Self::Complement => !bit,
        }
    }
}

/// Where swept lines begin, and how far those of a set lie apart.
pub const POOL: u64 = 0x0800_0000;
/// Bytes of the pool.
pub const POOL_BYTES: u64 = 0x0080_0000;
const SET_STRIDE: u64 = 0x1_0000;

/// What programs of a run have in common.
#[derive(Clone, Debug)]
pub struct Rules<'a> {
    /// Lines.
    pub arena: &'a Arena,
    /// Cpus that run.
    pub seats: usize,
    /// Times that each program is run.
    pub rounds: u64,
    /// Hints of MWAIT that the machine knows; none without MWAIT.
    pub hints: &'a [u32],
    /// Whether all cpus meet before each round.
    pub has_meetings: bool,
}

/// Draws the program of a seat. A shorter one is the beginning of a longer one.
#[must_use]
pub fn draw(rules: &Rules<'_>, seat: usize, ops: usize, seed: u64) -> Vec<Op> {
    let mut draw = Draw::new(seed, 1 + seat as u64);
    let mine: Vec<Op> = owned_by(rules.arena, seat);
    let mut program: Vec<Op> = Vec::new();
    if rules.has_meetings {
        program.push(Op::Meet);
    }
    while program.len() < ops {
        let op = match draw.below(100) {
            0..20 if !mine.is_empty() => mine[draw.below(mine.len() as u64) as usize],
            0..82 => on_lines(rules, &mut draw),
            82..88 => [Op::Mfence, Op::Lfence, Op::Sfence][draw.below(3) as usize],
            88..90 => Op::Pause,
            90..93 => Op::Flush(line(rules.arena, &mut draw)),
            93..96 => {
                let lines = 1 + draw.below(16);
                let set = draw.below(SET_STRIDE / LINE) * LINE;
                Op::Sweep { address: POOL + set, lines }
            }
            96..98 => Op::Ipi(draw.below(rules.seats as u64) as usize),
            98 if draw.below(8) == 0 => Op::IpiAll,
            98 => Op::Pause,
            _ => wait(rules, &mut draw),
        };
        // One byte tells 255 versions apart.
        let has_room = match op {
            Op::Own { block, run } => {
                let before = program.iter().filter(|o| **o == op).count() as u64;
                let is_byte = rules.arena.owned[block].2[run].size == 1;
                !is_byte || (before + 1) * rules.rounds < 256
            }
            _ => true,
        };
        program.push(if has_room { op } else { Op::Pause });
    }
    program
}

/// What only this seat may do.
fn owned_by(arena: &Arena, seat: usize) -> Vec<Op> {
    let blocks = arena.owned.iter().enumerate();
    let runs = blocks.flat_map(|(block, (_, _, runs))| {
        let mine = runs.iter().enumerate().filter(move |(_, r)| r.owner == seat);
        mine.map(move |(run, _)| Op::Own { block, run })
    });
    let patches = arena.patches.iter().enumerate().filter(|(_, p)| p.owner == seat);
    runs.chain(patches.map(|(p, _)| Op::Patch(p))).collect()
}

fn line(arena: &Arena, draw: &mut Draw) -> u64 {
    arena.lines[draw.below(arena.lines.len() as u64) as usize]
}

/// An operation on a line under test, by the rule of what is there.
fn on_lines(rules: &Rules<'_>, draw: &mut Draw) -> Op {
    let arena = rules.arena;
    let kinds = [
        arena.owned.len(),
        arena.shared.len().div_ceil(2),
        arena.bits.len(),
        arena.locked.len(),
        usize::from(!arena.patches.is_empty() && draw.below(4) == 0),
    ];
    let mut at = draw.below(kinds.iter().sum::<usize>() as u64) as usize;
    let kind = kinds.iter().position(|n| {
        let is_here = at < *n;
        at = at.wrapping_sub(if is_here { 0 } else { *n });
        is_here
    });
    match kind {
        Some(0) => {
            let (from, to, _) = arena.owned[at];
            let size = 1 << draw.below(5);
            Op::Load { address: from + draw.below(to - from - size + 1), size }
        }
        Some(1) => {
            let word = draw.below(arena.shared.len() as u64) as usize;
            on_word(arena.shared[word].word, word, draw)
        }
        Some(2) => match draw.below(4) {
            0 => Op::Look(at),
            1 => Op::Mask { line: at, change: Change::draw(draw) },
            _ => Op::Bit { line: at, change: Change::draw(draw) },
        },
        Some(3) => Op::Section(at),
        _ => Op::Call(draw.below(arena.patches.len() as u64) as usize),
    }
}

fn on_word(rule: Word, word: usize, draw: &mut Draw) -> Op {
    match (rule, draw.below(8)) {
        (Word::Unique, 0..2) => Op::Read { word, size: 8, offset: 0 },
        (Word::Unique, 2) => Op::Read { word, size: 4, offset: 4 * draw.below(2) },
        (Word::Unique, 3..6) => Op::Write(word),
        (Word::Unique, 6) => Op::Xchg(word),
        (Word::Pair, 0) => Op::Read { word, size: 8, offset: 8 * draw.below(2) },
        (Word::Unique | Word::Pair, _) => Op::Cmpxchg(word),
        (Word::Counter { .. }, 0..2) => Op::Total(word),
        (Word::Counter { .. }, 2..6) => Op::Xadd(word),
        (Word::Counter { .. }, n) => Op::Count { word, is_inc: n == 6 },
    }
}

fn wait(rules: &Rules<'_>, draw: &mut Draw) -> Op {
    let ticks = 20 + draw.below(300) as u32;
    match draw.below(rules.hints.len() as u64 + 1) {
        0 => Op::Halt(ticks),
        n => {
            let hint = rules.hints[n as usize - 1];
            Op::Mwait { address: line(rules.arena, draw), hint, ticks }
        }
    }
}

/// Words that an operation leaves in the log.
#[must_use]
pub fn words(op: &Op, arena: &Arena) -> usize {
    match *op {
        Op::Load { size: 16, .. } => 2,
        Op::Load { .. } | Op::Read { .. } | Op::Xchg(_) | Op::Xadd(_) | Op::Total(_) => 1,
        Op::Bit { .. } | Op::Look(_) | Op::Call(_) => 1,
        Op::Cmpxchg(word) if arena.shared[word].word == Word::Pair => 4,
        Op::Cmpxchg(_) => 2,
        Op::Section(at) => 1 + arena.locked[at].words.len(),
        _ => 0,
    }
}

/// The number that a writing operation gives to its value in each round: counted from 1 over all
/// writes of the seat to the same run or function, or to any unique word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Number {
    /// Such writes in a round.
    pub per_round: u64,
    /// Of these, before this one.
    pub nth: u64,
}

impl Number {
    /// The number in a round.
    #[must_use]
    pub fn in_round(self, round: u64) -> u64 {
        round * self.per_round + self.nth + 1
    }
}

/// The numbers of a program's operations.
#[must_use]
pub fn numbers(program: &[Op]) -> Vec<Number> {
    let key = |op: &Op| match op {
        Op::Own { .. } | Op::Patch(_) => Some(*op),
        Op::Write(_) | Op::Xchg(_) | Op::Cmpxchg(_) => Some(Op::Write(0)),
        _ => None,
    };
    let mut counts: Vec<(Op, u64)> = Vec::new();
    let mut places = Vec::new();
    for op in program {
        let place = key(op).map(|key| {
            let known = counts.iter().position(|(k, _)| *k == key);
            let at = known.unwrap_or_else(|| {
                counts.push((key, 0));
                counts.len() - 1
            });
            counts[at].1 += 1;
            (at, counts[at].1 - 1)
        });
        places.push(place);
    }
    let number = |place: Option<(usize, u64)>| {
        place.map_or_else(Number::default, |(at, nth)| Number { per_round: counts[at].1, nth })
    };
    places.into_iter().map(number).collect()
}

/// The half of a unique value: seat and number.
#[must_use]
pub fn unique(seat: usize, number: u64) -> u64 {
    (seat as u64 + 1) << 20 | number
}
