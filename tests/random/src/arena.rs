//! The lines under test: what lies where, and by which rule it is used.
//!
//! A line has one rule, so that what was seen can be judged: runs of bytes with an owner each,
//! words whose values are unique, counters, bits with an owner each, data under a lock, and code
//! that one cpu patches. Addresses are drawn over all nodes of memory.

use tests_litmus::plan::Draw;
use topology::Isa;

/// Bytes of a line.
pub const LINE: u64 = 64;
/// Bytes of a node below which it has no lines; they lie in its last part.
const NODE_BYTES_MIN: u64 = 0x3000_0000;
/// Offset of the lines in a node.
const LINES_OFFSET: u64 = 0x2c00_0000;
/// Functions that are patched, a page each.
const PATCHES: u64 = 0x0400_0000;
const PAGE: u64 = 0x1000;
/// Functions that are patched, at most.
pub const PATCHES_MAX: u64 = 4;

/// Bytes that one cpu alone writes, always all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// First byte.
    pub address: u64,
    /// 1, 2, 4, 8 or 16.
    pub size: u64,
    /// The seat that writes it.
    pub owner: usize,
}

impl Run {
    /// The byte `i` of version `n`: the low byte of the number at even places, else the high one.
    #[must_use]
    pub fn byte(n: u64, i: u64) -> u8 {
        (n >> (8 * (i % 2))) as u8
    }
}

/// The rule of a part of the lines under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    /// Eight bytes, both halves equal and never used twice.
    Unique,
    /// Sixteen bytes, all four quarters equal and never used twice.
    Pair,
    /// Counts by locked operations of 4 or 8 bytes.
    Counter {
        /// Bytes.
        size: u64,
    },
}

/// A word of several writers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// First byte.
    pub address: u64,
    /// Its rule.
    pub word: Word,
}

/// A lock, and words that are equal whenever nobody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locked {
    /// The lock, four bytes.
    pub lock: u64,
    /// Words of eight bytes.
    pub words: Vec<u64>,
}

/// A function that returns a number, which its owner patches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patch {
    /// First byte of the number in the code.
    pub address: u64,
    /// The seat that writes it.
    pub owner: usize,
}

impl Patch {
    /// Address and bytes of the function: `mov eax, NUMBER; ret`.
    #[must_use]
    pub fn code(self) -> (u64, [u8; 6]) {
        (self.address - 1, [0xb8, 0, 0, 0, 0, 0xc3])
    }
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arena {
    /// First bytes of the lines.
    pub lines: Vec<u64>,
    /// First and behind the last byte of owned runs, and the runs, first to last.
    pub owned: Vec<(u64, u64, Vec<Run>)>,
    /// Words of several writers.
    pub shared: Vec<Shared>,
    /// Lines of bits; seat `n` has bit `n`.
    pub bits: Vec<u64>,
    /// Locks.
    pub locked: Vec<Locked>,
    /// Patched functions.
    pub patches: Vec<Patch>,
}

/// Draws `lines` lines and what is in them, for `seats` cpus.
#[must_use]
pub fn draw(machine: &topology::Machine, lines: u64, seats: usize, draw: &mut Draw) -> Arena {
    let nodes: Vec<u64> = machine
        .ram()
        .iter()
        .filter(|r| r.size >= NODE_BYTES_MIN)
        .map(|r| (r.base + LINES_OFFSET).next_multiple_of(PAGE))
        .collect();
    let mut arena = Arena::default();
    let first_rule = draw.below(5);
    let mut block = 0;
    while (arena.lines.len() as u64) < lines {
        let left = lines - arena.lines.len() as u64;
        let node = nodes[draw.below(nodes.len() as u64) as usize];
        let at = node + arena.lines.len() as u64 * LINE;
        let taken = match (first_rule + block) % 5 {
            0 => arena.own(at, left.min(1 + draw.below(2)), seats, draw),
            1 => arena.share(at, draw),
            2 => arena.lock(at, left.min(1 + draw.below(2))),
            3 => arena.share(at, draw),
            _ => {
                arena.bits.push(at);
                1
            }
        };
        arena.lines.extend((0..taken).map(|l| at + l * LINE));
        block += 1;
    }
    // On arm64 an instruction that others run may be changed between few of its values only.
    let patches = if machine.isa == Isa::X86_64 { draw.below(PATCHES_MAX + 1) } else { 0 };
    for n in 0..patches {
        // Four bytes inside a line that may begin anywhere.
        let address = PATCHES + n * PAGE + 1 + draw.below(LINE - 6);
        arena.patches.push(Patch { address, owner: draw.below(seats as u64) as usize });
    }
    arena
}

impl Arena {
    /// Cuts `lines` lines into runs; one may lie across the end of the first.
    fn own(&mut self, at: u64, lines: u64, seats: usize, draw: &mut Draw) -> u64 {
        let end = at + lines * LINE;
        let (mut address, mut runs) = (at, Vec::new());
        let turn = draw.next_u64() as usize;
        while address < end {
            let size = 1 << draw.below(5);
            if address + size <= end {
                let owner = (turn.wrapping_add(runs.len())) % seats;
                runs.push(Run { address, size, owner });
                address += size;
            }
        }
        self.owned.push((at, end, runs));
        lines
    }

    fn share(&mut self, at: u64, draw: &mut Draw) -> u64 {
        let mut address = at;
        while address < at + LINE {
            let word = match draw.below(4) {
                0 if address.is_multiple_of(16) => Word::Pair,
                1 => Word::Counter { size: 4 << draw.below(2) },
                _ => Word::Unique,
            };
            self.shared.push(Shared { address, word });
            address += if word == Word::Pair { 16 } else { 8 };
        }
        1
    }

    fn lock(&mut self, at: u64, lines: u64) -> u64 {
        let words = match lines {
            1 => vec![at + 8, at + 56],
            _ => vec![at + 8, at + LINE, at + LINE + 56],
        };
        self.locked.push(Locked { lock: at, words });
        lines
    }
}
