//! What is generated: words of an encoding group, with registers that make its accesses hit.

use crate::case::{CODE, Case, MEMORY, MEMORY_BYTES, Outcome, TAKEN};

/// A source of numbers with a seed.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_mul(2).wrapping_add(1))
    }

    /// The next number (splitmix64).
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.number() % n
    }

    /// A register value: an edge as often as not.
    fn value(&mut self) -> u64 {
        const EDGES: [u64; 12] = [
            0,
            1,
            2,
            u64::MAX,
            1 << 63,
            (1 << 63) - 1,
            1 << 31,
            0xffff_ffff,
            0x7fff_ffff,
            0xffff_ffff_8000_0000,
            0x80,
            0xff,
        ];
        match self.below(4) {
            0 => EDGES[self.below(12) as usize],
            1 => self.number() >> self.below(64),
            _ => self.number(),
        }
    }

    /// A vector: lanes of one kind.
    fn vector(&mut self) -> u128 {
        const F32: [u32; 16] = [
            0,
            0x8000_0000,
            0x3f80_0000,
            0xbf80_0000,
            0x7f80_0000,
            0xff80_0000,
            0x7fc0_0000,
            0x7f80_0001,
            0xffc1_2345,
            1,
            0x007f_ffff,
            0x7f7f_ffff,
            0x3f00_0000,
            0x4f00_0000,
            0xcf00_0000,
            0x4020_0000,
        ];
        const F64: [u64; 16] = [
            0,
            1 << 63,
            0x3ff0 << 48,
            0xbff0 << 48,
            0x7ff0 << 48,
            0xfff0 << 48,
            0x7ff8 << 48,
            (0x7ff0 << 48) + 1,
            (0xfff8 << 48) + 5,
            1,
            (1 << 52) - 1,
            (0x7ff0 << 48) - 1,
            0x3fe0 << 48,
            0x43e0 << 48,
            0xc3e0 << 48,
            0x4004 << 48,
        ];
        let mut lanes = |n: u32, bits: u32, mut f: Box<dyn FnMut(&mut Rng) -> u64>| {
            let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
            (0..n).fold(0u128, |all, i| all | u128::from(f(self) & mask) << (i * bits))
        };
        match lanes(1, 8, Box::new(Rng::number)) % 7 {
            0 => lanes(4, 32, Box::new(|r| u64::from(F32[r.below(16) as usize]))),
            1 => lanes(2, 64, Box::new(|r| F64[r.below(16) as usize])),
            2 => lanes(4, 32, Box::new(|r| u64::from((r.number() as i32 as f32 / 64.0).to_bits()))),
            3 => lanes(2, 64, Box::new(|r| (r.number() as i32 as f64 / 64.0).to_bits())),
            4 => lanes(16, 8, Box::new(Rng::value)),
            _ => lanes(2, 64, Box::new(Rng::value)),
        }
    }
}

/// How an encoding group addresses memory or branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Neither.
    None,
    /// An offset of this many bits from this bit.
    Branch(u32, u32),
    /// To a register.
    BranchReg,
    /// Unsigned scaled offset.
    Unsigned,
    /// Signed offset of 9 bits.
    Signed9,
    /// Register offset.
    Index,
    /// Pair.
    Pair,
    /// The base alone, aligned.
    Aligned,
    /// The base alone.
    Base,
    /// The instruction's own address.
    Literal,
    /// A load exclusive, with the store exclusive that belongs to it.
    Exclusive,
}

/// Name, fixed bits, their mask, addressing.
#[derive(Clone, Copy, Debug)]
pub struct Group(pub &'static str, pub u32, pub u32, pub Fix);

/// All groups.
#[rustfmt::skip]
pub const GROUPS: &[Group] = &[
    Group("pc-relative", 0x1000_0000, 0x1f00_0000, Fix::None),
    Group("add-sub-imm", 0x1100_0000, 0x1f80_0000, Fix::None),
    Group("logical-imm", 0x1200_0000, 0x1f80_0000, Fix::None),
    Group("move-wide", 0x1280_0000, 0x1f80_0000, Fix::None),
    Group("bitfield", 0x1300_0000, 0x1f80_0000, Fix::None),
    Group("extract", 0x1380_0000, 0x1fa0_0000, Fix::None),
    Group("logical-shifted", 0x0a00_0000, 0x1f00_0000, Fix::None),
    Group("add-sub-shifted", 0x0b00_0000, 0x1f20_0000, Fix::None),
    Group("add-sub-extended", 0x0b20_0000, 0x1fe0_0000, Fix::None),
    Group("add-sub-carry", 0x1a00_0000, 0x1fe0_fc00, Fix::None),
    Group("flags", 0x1a00_0000, 0x1fe0_0000, Fix::None),
    Group("compare-conditional", 0x3a40_0000, 0x3fe0_0410, Fix::None),
    Group("select", 0x1a80_0000, 0x3fe0_0800, Fix::None),
    Group("one-source", 0x5ac0_0000, 0x7fff_e000, Fix::None),
    Group("two-sources", 0x1ac0_0000, 0x7fe0_8000, Fix::None),
    Group("three-sources", 0x1b00_0000, 0x7f00_0000, Fix::None),
    Group("branch", 0x1400_0000, 0x7c00_0000, Fix::Branch(0, 26)),
    Group("branch-conditional", 0x5400_0000, 0xff00_0010, Fix::Branch(5, 19)),
    Group("compare-branch", 0x3400_0000, 0x7e00_0000, Fix::Branch(5, 19)),
    Group("test-branch", 0x3600_0000, 0x7e00_0000, Fix::Branch(5, 14)),
    Group("branch-register", 0xd61f_0000, 0xff9f_fc1f, Fix::BranchReg),
    Group("load-store-unsigned", 0x3900_0000, 0x3b00_0000, Fix::Unsigned),
    Group("load-store-9", 0x3800_0000, 0x3b20_0000, Fix::Signed9),
    Group("load-store-index", 0x3820_0800, 0x3b20_0c00, Fix::Index),
    Group("load-store-pair", 0x2800_0000, 0x3a00_0000, Fix::Pair),
    Group("load-literal", 0x1800_0000, 0x3b00_0000, Fix::Literal),
    Group("exclusive", 0x0800_0000, 0x3f80_0000, Fix::Aligned),
    Group("exclusive-pairs", 0x0840_7c00, 0x3fc0_7c00, Fix::Exclusive),
    Group("acquire-release-cas", 0x0880_7c00, 0x3f80_7c00, Fix::Aligned),
    Group("atomic", 0x3820_0000, 0x3f20_0c00, Fix::Aligned),
    Group("structures", 0x0c00_0000, 0xbf20_0000, Fix::Base),
    Group("lane", 0x0d00_0000, 0xbf00_0000, Fix::Base),
    Group("vec-three-same", 0x0e20_0400, 0x9f20_0400, Fix::None),
    Group("vec-three-different", 0x0e20_0000, 0x9f20_0c00, Fix::None),
    Group("vec-two", 0x0e20_0800, 0x9f3e_0c00, Fix::None),
    Group("vec-across", 0x0e30_0800, 0x9f3e_0c00, Fix::None),
    Group("vec-copy", 0x0e00_0400, 0x9fe0_8400, Fix::None),
    Group("vec-table", 0x0e00_0000, 0xbfe0_8c00, Fix::None),
    Group("vec-permute", 0x0e00_0800, 0xbf20_8c00, Fix::None),
    Group("vec-extract", 0x2e00_0000, 0xbfe0_8400, Fix::None),
    Group("vec-imm", 0x0f00_0400, 0x9ff8_0400, Fix::None),
    Group("vec-shift", 0x0f00_0400, 0x9f80_0400, Fix::None),
    Group("vec-indexed", 0x0f00_0000, 0x9f00_0400, Fix::None),
    Group("scalar-three-same", 0x5e20_0400, 0xdf20_0400, Fix::None),
    Group("scalar-three-different", 0x5e20_0000, 0xdf20_0c00, Fix::None),
    Group("scalar-two", 0x5e20_0800, 0xdf3e_0c00, Fix::None),
    Group("scalar-pairwise", 0x5e30_0800, 0xdf3e_0c00, Fix::None),
    Group("scalar-copy", 0x5e00_0400, 0xdfe0_8400, Fix::None),
    Group("scalar-shift", 0x5f00_0400, 0xdf80_0400, Fix::None),
    Group("scalar-indexed", 0x5f00_0000, 0xdf00_0400, Fix::None),
    Group("fp-fixed", 0x1e00_0000, 0x7f20_0000, Fix::None),
    Group("fp-integer", 0x1e20_0000, 0x7f20_fc00, Fix::None),
    Group("fp-one-source", 0x1e20_4000, 0xff20_7c00, Fix::None),
    Group("fp-compare", 0x1e20_2000, 0xff20_fc07, Fix::None),
    Group("fp-imm", 0x1e20_1000, 0xff20_1fe0, Fix::None),
    Group("fp-compare-conditional", 0x1e20_0400, 0xff20_0c00, Fix::None),
    Group("fp-two-sources", 0x1e20_0800, 0xff20_0c00, Fix::None),
    Group("fp-select", 0x1e20_0c00, 0xff20_0c00, Fix::None),
    Group("fp-three-sources", 0x1f00_0000, 0xff00_0000, Fix::None),
];

const NOP: u32 = 0xd503_201f;

impl Group {
    /// A record of the group. `None`: the word is one whose outcome the manual leaves open.
    pub fn case(&self, rng: &mut Rng) -> Option<Case> {
        let mut word = self.1 | rng.number() as u32 & !self.2;
        // Half-precision and reserved types are one case in four, not half of all.
        if self.0.starts_with("fp-") && rng.below(4) != 0 {
            word &= !(1 << 23);
        }
        let mut memory = [0; MEMORY_BYTES];
        for bytes in memory.chunks_exact_mut(8) {
            bytes.copy_from_slice(&rng.value().to_le_bytes());
        }
        let mut case = Case {
            words: [word, NOP],
            outcome: Outcome::GoesOn,
            x: std::array::from_fn(|_| rng.value()),
            sp: MEMORY + 16 * rng.below(32),
            nzcv: rng.below(16) << 28,
            fpsr: 0,
            v: std::array::from_fn(|_| rng.vector()),
            memory,
        };
        if rng.below(4) == 0 {
            // Equal operands: compares, and exclusives that find what they expect.
            let (a, b) = (field(word, 5, 5) as usize, field(word, 16, 5) as usize);
            case.v[a] = case.v[b];
            if a < 31 && b < 31 {
                case.x[a] = case.x[b];
            }
        }
        self.fix(&mut case, rng).then_some(case)
    }

    /// Makes accesses hit the window. Whether the outcome is defined.
    fn fix(&self, case: &mut Case, rng: &mut Rng) -> bool {
        let word = case.words[0];
        let (rt, rn) = (field(word, 0, 5), field(word, 5, 5));
        let (rm, rt2) = (field(word, 16, 5), field(word, 10, 5));
        let is_vector = word >> 26 & 1 != 0;
        let is_load = word >> 22 & 1 != 0;
        let middle = MEMORY + 240 + rng.below(16);
        match self.3 {
            Fix::None => true,
            Fix::Branch(low, len) => {
                let mask = ((1 << len) - 1) << low;
                case.words[0] = word & !mask | 3 << low;
                true
            }
            Fix::BranchReg => {
                set(case, rn, TAKEN);
                rn != 31
            }
            Fix::Unsigned => {
                let wide = is_vector && word >> 23 & 1 != 0;
                let scale = if wide { 4 } else { word >> 30 };
                set(case, rn, middle.wrapping_sub(u64::from(field(word, 10, 12)) << scale));
                true
            }
            Fix::Signed9 => {
                let mode = field(word, 10, 2);
                let offset = sign(field(word, 12, 9), 9);
                set(case, rn, if mode == 1 { middle } else { middle.wrapping_sub(offset) });
                mode == 0 || mode == 2 || is_vector || rt != rn || rn == 31
            }
            Fix::Index => {
                let index = rng.below(6) | if word >> 13 & 3 == 2 { rng.number() << 32 } else { 0 };
                set(case, rn, middle);
                if rm < 31 {
                    case.x[rm as usize] = index;
                }
                rm != rn
            }
            Fix::Pair => {
                let mode = field(word, 23, 2);
                let scale = if is_vector { 2 + (word >> 30) } else { 2 + (word >> 31) };
                let offset = sign(field(word, 15, 7), 7) << scale;
                set(case, rn, if mode == 1 { middle } else { middle.wrapping_sub(offset) });
                let moves = mode & 1 != 0 && !is_vector && rn != 31;
                !(is_load && rt == rt2 || moves && (rt == rn || rt2 == rn))
            }
            Fix::Aligned => {
                set(case, rn, MEMORY + 16 * rng.below(16));
                let is_exclusive = word & 0x3f00_0000 == 0x0800_0000;
                let is_open = is_exclusive
                    && (!is_load && (rm == rn || rm == rt)
                        || field(word, 21, 1) != 0 && (rt == rt2 || rm == rt2));
                // An exclusive that stores alone fails, and a load alone is just a load.
                let expected = case.memory[16 * rng.below(16) as usize];
                if rm < 31 && rm != rn && rng.below(2) == 0 {
                    case.x[rm as usize] = u64::from(expected);
                }
                if rng.below(2) == 0 && rm < 30 && rm != rn {
                    // A compare and swap that succeeds: memory is all the expected value.
                    let value = case.x[rm as usize].to_le_bytes();
                    case.x[rm as usize + 1] = case.x[rm as usize];
                    if rm + 1 == rn {
                        return false;
                    }
                    for bytes in case.memory.chunks_exact_mut(8) {
                        bytes.copy_from_slice(&value);
                    }
                }
                !is_open
            }
            Fix::Base => {
                set(case, rn, MEMORY + rng.below(256));
                true
            }
            Fix::Literal => {
                let words = ((MEMORY - CODE) / 4 + rng.below(100)) as u32;
                case.words[0] = word & !(0x7_ffff << 5) | words << 5;
                true
            }
            Fix::Exclusive => {
                set(case, rn, MEMORY + 16 * rng.below(16));
                // STXR of the same size and base; status and data elsewhere.
                let (status, data) = ((rn + 1) % 31, (rn + 2) % 31);
                let store = word & !(1 << 22) & !0x1f & !(0x1f << 16);
                case.words[1] = store | status << 16 | data;
                rt != rn
            }
        }
    }
}

fn field(word: u32, low: u32, len: u32) -> u32 {
    word >> low & ((1 << len) - 1)
}

fn sign(value: u32, bits: u32) -> u64 {
    (i64::from(value) << (64 - bits) >> (64 - bits)) as u64
}

fn set(case: &mut Case, n: u32, value: u64) {
    match case.x.get_mut(n as usize) {
        Some(x) => *x = value,
        None => case.sp = value,
    }
}
