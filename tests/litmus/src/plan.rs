//! What changes from iteration to iteration: addresses, what is warm where, and when each thread
//! starts. Drawn from a seed on the host, read by the guest from tables.

use crate::program::{Freedom, Test, VARIABLES_MAX};

/// Bytes of memory that one iteration has for itself on each node.
pub const FRESH_BYTES: u64 = 512;
/// Offset of these bytes from the beginning of a node's memory.
const FRESH_BASE: u64 = 0x1000_0000;
/// Bytes between variables on lines of their own; the line between them takes what crosses.
const APART: u64 = 128;
const LINE: u64 = 64;

/// A stream of pseudo-random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Draw(u64);

impl Draw {
    /// A stream that depends on both numbers.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        Self(seed.wrapping_mul(0xd134_2543_de82_ef95) ^ stream.wrapping_mul(0x2545_f491_4f6c_dd1d))
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// A number below `2^bits` at most, small ones as likely as large ones.
    pub fn by_scale(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        self.below(1 << bits)
    }
}

/// How the variables of one iteration lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Each on a line of its own, in the memory of one node.
    Apart,
    /// Likewise, in the memory of all nodes by turns.
    Spread,
    /// All on one line.
    Shared,
    /// Each inside a line of its own, misaligned.
    Misaligned,
    /// Each across the end of a line.
    Split,
}

impl Layout {
    /// The layouts that do not change what `test` means.
    #[must_use]
    pub fn of(test: &Test) -> &'static [Layout] {
        use Layout::{Apart, Misaligned, Shared, Split, Spread};
        match test.program.freedom(&test.variables) {
            Freedom::Anywhere => &[Apart, Apart, Spread, Spread, Shared, Misaligned, Split],
            Freedom::InsideLine => &[Apart, Apart, Spread, Spread, Shared, Misaligned],
            Freedom::Aligned => &[Apart, Apart, Spread, Spread, Shared],
        }
    }
}

/// What one thread does in one iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadPlan {
    /// Cycles between barrier and test.
    pub offset: u64,
    /// Two bits a variable: read it beforehand, own it beforehand.
    pub warm: u64,
    /// Cycles before each instruction, a byte each; nothing at all when 0.
    pub gaps: u64,
}

/// One iteration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iteration {
    /// Where the variables are.
    pub addresses: [u64; VARIABLES_MAX],
    /// By thread.
    pub threads: Vec<ThreadPlan>,
}

/// Draws `iterations` of `test`; `nodes` are the first bytes of each node's memory.
#[must_use]
pub fn draw(test: &Test, nodes: &[u64], seed: u64, iterations: usize) -> Vec<Iteration> {
    let layouts = Layout::of(test);
    let mut draw = Draw::new(seed, 1);
    (0..iterations as u64)
        .map(|i| {
            let layout = layouts[draw.below(layouts.len() as u64) as usize];
            Iteration {
                addresses: addresses(layout, nodes, i, &mut draw),
                threads: (0..test.program.threads()).map(|_| thread(&mut draw)).collect(),
            }
        })
        .collect()
}

fn addresses(layout: Layout, nodes: &[u64], i: u64, draw: &mut Draw) -> [u64; VARIABLES_MAX] {
    let node = draw.below(nodes.len() as u64);
    let turn = draw.below(VARIABLES_MAX as u64);
    std::array::from_fn(|v| {
        let slot = (v as u64 + turn) % VARIABLES_MAX as u64;
        let base =
            |node: u64| nodes[(node % nodes.len() as u64) as usize] + FRESH_BASE + i * FRESH_BYTES;
        match layout {
            Layout::Apart => base(node) + slot * APART,
            Layout::Spread => base(node + v as u64) + slot * APART,
            Layout::Shared => base(node) + slot * 8,
            Layout::Misaligned => base(node) + slot * APART + 1 + draw.below(LINE - 8),
            Layout::Split => base(node) + slot * APART + LINE - 1,
        }
    })
}

fn thread(draw: &mut Draw) -> ThreadPlan {
    let is_gapped = draw.below(2) == 1;
    let gaps = (0..8).fold(0, |gaps, _| gaps << 8 | draw.by_scale(8));
    ThreadPlan {
        offset: draw.by_scale(9),
        warm: draw.next_u64() & draw.next_u64() & 0xff,
        gaps: if is_gapped { gaps } else { 0 },
    }
}
