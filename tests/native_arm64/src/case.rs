//! One record: what both sides start from, and what they end with.

/// Where the first word is.
pub const CODE: u64 = 0x10_0000;
/// The window of memory.
pub const MEMORY: u64 = 0x10_1000;
/// Its size.
pub const MEMORY_BYTES: usize = 512;
/// Bytes of a record on the wire.
pub const RECORD_BYTES: usize = 16 + 34 * 8 + 32 * 16 + MEMORY_BYTES;
/// Where a branch that is taken goes.
pub const TAKEN: u64 = CODE + 12;

/// How a record ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Behind the second word.
    GoesOn,
    /// At [`TAKEN`].
    Jumps,
    /// A word is undefined.
    Undefined,
    /// An access faults.
    Faults,
}

/// Words, registers, memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The instruction, and what follows it.
    pub words: [u32; 2],
    /// How it ends.
    pub outcome: Outcome,
    /// X0 to X30.
    pub x: [u64; 31],
    /// Stack pointer.
    pub sp: u64,
    /// Flags.
    pub nzcv: u64,
    /// Floating-point status.
    pub fpsr: u64,
    /// V0 to V31.
    pub v: [u128; 32],
    /// The window of memory.
    pub memory: [u8; MEMORY_BYTES],
}

impl Case {
    /// Appends the record.
    pub fn write(&self, out: &mut Vec<u8>) {
        for word in self.words {
            out.extend(word.to_le_bytes());
        }
        out.extend((self.outcome as u64).to_le_bytes());
        for value in self.x.iter().chain([&self.sp, &self.nzcv, &self.fpsr]) {
            out.extend(value.to_le_bytes());
        }
        for value in self.v {
            out.extend(value.to_le_bytes());
        }
        out.extend(self.memory);
    }

    /// Reads a record of [`RECORD_BYTES`] bytes.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Case {
        let number = |at: usize, size: usize| {
            bytes[at..at + size].iter().rev().fold(0u128, |all, byte| all << 8 | u128::from(*byte))
        };
        let x = |n: usize| number(16 + 8 * n, 8) as u64;
        let mut memory = [0; MEMORY_BYTES];
        memory.copy_from_slice(&bytes[RECORD_BYTES - MEMORY_BYTES..]);
        Case {
            words: [number(0, 4) as u32, number(4, 4) as u32],
            outcome: match number(8, 8) {
                0 => Outcome::GoesOn,
                1 => Outcome::Jumps,
                2 => Outcome::Undefined,
                _ => Outcome::Faults,
            },
            x: std::array::from_fn(x),
            sp: x(31),
            nzcv: x(32),
            fpsr: x(33),
            v: std::array::from_fn(|n| number(16 + 34 * 8 + 16 * n, 16)),
            memory,
        }
    }

    /// What differs from another, as text.
    #[must_use]
    pub fn differences(&self, other: &Case) -> String {
        let mut text = Vec::new();
        let mut compare = |name: String, a: u128, b: u128| {
            if a != b {
                text.push(format!("{name}={a:x} not {b:x}"));
            }
        };
        compare("outcome".into(), self.outcome as u128, other.outcome as u128);
        for n in 0..31 {
            compare(format!("x{n}"), self.x[n].into(), other.x[n].into());
        }
        compare("sp".into(), self.sp.into(), other.sp.into());
        compare("nzcv".into(), self.nzcv.into(), other.nzcv.into());
        compare("qc".into(), (self.fpsr >> 27 & 1).into(), (other.fpsr >> 27 & 1).into());
        for n in 0..32 {
            compare(format!("v{n}"), self.v[n], other.v[n]);
        }
        for n in 0..MEMORY_BYTES {
            compare(format!("b[{n:x}]"), self.memory[n].into(), other.memory[n].into());
        }
        text.join(" ")
    }
}
