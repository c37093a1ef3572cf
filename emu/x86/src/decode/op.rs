//! The compact form of one instruction.

use emu_cpu::timing::OpTiming;
use iced_x86::Register;

use super::Kind;
use crate::state::SegReg;

/// No base or index register.
pub const NO_REG: u8 = 0xff;
/// The base is the address of the instruction itself.
pub const RIP_BASE: u8 = 0x10;

/// A place an operand may be in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operand(u8);

impl Operand {
    /// Memory: see `Op::ea`.
    pub const MEM: Operand = Operand(0x80);
    /// `Op::imm`.
    pub const IMM: Operand = Operand(0x81);
    /// Absent.
    pub const NONE: Operand = Operand(0xff);

    const HIGH8: u8 = 0x10;
    const VECTOR: u8 = 0x20;
    const MMX: u8 = 0x30;
    const SEGMENT: u8 = 0x40;
    const CONTROL: u8 = 0x50;
    const DEBUG: u8 = 0x60;
    const OTHER: u8 = 0x70;

    /// General register `n`, low part.
    #[must_use]
    pub const fn gpr(n: usize) -> Operand {
        Operand(n as u8)
    }

    /// Whether this is a general register whose low part is meant.
    #[must_use]
    #[inline(always)]
    pub const fn is_low(self) -> bool {
        self.0 < Self::HIGH8
    }

    /// Whether this is a general register, AH to BH included.
    #[must_use]
    #[inline(always)]
    pub const fn is_gpr(self) -> bool {
        self.0 < Self::VECTOR
    }

    /// Whether this is in memory.
    #[must_use]
    #[inline(always)]
    pub const fn is_mem(self) -> bool {
        self.0 == Self::MEM.0
    }

    /// Whether this is a vector register.
    #[must_use]
    pub const fn is_vector(self) -> bool {
        self.0 & 0xf0 == Self::VECTOR
    }

    /// Whether this is an MMX register.
    #[must_use]
    pub const fn is_mmx(self) -> bool {
        self.0 & 0xf0 == Self::MMX
    }

    /// Number of the register in its file: for AH to BH that of AX to BX.
    #[must_use]
    #[inline(always)]
    pub const fn number(self) -> usize {
        (self.0 & 0xf) as usize
    }

    /// The segment register, if it is one.
    #[must_use]
    pub const fn segment(self) -> Option<SegReg> {
        Some(match self.0.wrapping_sub(Self::SEGMENT) {
            0 => SegReg::Es,
            1 => SegReg::Cs,
            2 => SegReg::Ss,
            3 => SegReg::Ds,
            4 => SegReg::Fs,
            5 => SegReg::Gs,
            _ => return None,
        })
    }
}

/// Prefixes that change what a body does.
pub struct Prefix;

impl Prefix {
    /// LOCK.
    pub const LOCK: u8 = 1;
    /// REP and REPE.
    pub const REP: u8 = 2;
    /// REPNE.
    pub const REPNE: u8 = 4;
}

/// One instruction, decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    /// Displacement of the memory operand. Relative to the instruction when the base is
    /// `RIP_BASE`. The selector of a direct far branch; the second immediate of ENTER.
    pub disp: i64,
    /// Immediate, sign-extended. Branch distance from the start of the instruction.
    pub imm: u64,
    /// What it does.
    pub kind: Kind,
    /// What the scoreboard must know.
    pub timing: OpTiming,
    /// Bytes of the operands.
    pub size: u8,
    /// Bytes of the source, where it differs; of the memory operand of vector instructions.
    pub src_size: u8,
    /// Bytes of an address.
    pub asize: u8,
    /// Bytes of the instruction.
    pub len: u8,
    /// `Prefix` bits.
    pub prefix: u8,
    /// Default size of the code around it in bits.
    pub bits: u8,
    /// Whether `exec/fast.rs` executes it: operands are registers and immediates.
    pub is_register_form: bool,
    /// First operand.
    pub dst: Operand,
    /// Second operand.
    pub src: Operand,
    /// Third operand.
    pub src2: Operand,
    /// Segment of the memory operand.
    pub seg: SegReg,
    /// Base register of the memory operand.
    pub base: u8,
    /// Index register of the memory operand.
    pub index: u8,
    /// Binary logarithm of the index scale.
    pub scale: u8,
}

impl Default for Op {
    fn default() -> Self {
        Op {
            disp: 0,
            imm: 0,
            kind: Kind::Invalid,
            timing: OpTiming::default(),
            size: 4,
            src_size: 0,
            asize: 8,
            len: 1,
            prefix: 0,
            bits: 64,
            is_register_form: false,
            dst: Operand::NONE,
            src: Operand::NONE,
            src2: Operand::NONE,
            seg: SegReg::Ds,
            base: NO_REG,
            index: NO_REG,
            scale: 0,
        }
    }
}

impl Op {
    /// Whether the LOCK prefix is there.
    #[must_use]
    #[inline(always)]
    pub const fn is_locked(&self) -> bool {
        self.prefix & Prefix::LOCK != 0
    }

    /// Sets or clears a prefix bit.
    pub(super) fn set_prefix(&mut self, bit: u8, present: bool) {
        if present {
            self.prefix |= bit;
        }
    }

    /// Whether the block ends behind this instruction.
    #[must_use]
    pub fn ends_block(&self) -> bool {
        self.kind.ends_block()
    }

    /// Keeps the bytes of an instruction that has no body, in the fields it does not need.
    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) {
        let mut raw = [0; 16];
        for (to, from) in raw.iter_mut().zip(bytes) {
            *to = *from;
        }
        let raw = u128::from_le_bytes(raw);
        (self.imm, self.disp) = (raw as u64, (raw >> 64) as i64);
    }

    /// Bytes of an instruction of `Kind::Unimplemented`, zero beyond `len`.
    #[must_use]
    pub fn raw_bytes(&self) -> [u8; 16] {
        (u128::from(self.imm) | u128::from(self.disp as u64) << 64).to_le_bytes()
    }

    /// Address after this instruction, which is at `ip`, masked by the size of code.
    #[must_use]
    #[inline(always)]
    pub fn next_ip(&self, ip: u64) -> u64 {
        self.mask_ip(ip.wrapping_add(u64::from(self.len)))
    }

    /// Instruction pointer `ip` as wide as it is in this code: 16-bit code keeps 32 bits, as
    /// EIP is not truncated by running on.
    #[must_use]
    #[inline(always)]
    pub fn mask_ip(&self, ip: u64) -> u64 {
        match self.bits {
            64 => ip,
            _ => ip & 0xffff_ffff,
        }
    }
}

/// The operand that an iced register is.
pub(super) fn operand(register: Register) -> Operand {
    // iced numbers the 20 byte registers apart: AL, CL, DL, BL, AH, .., SPL, ..
    let n = register.full_register().number() as u8;
    if matches!(register, Register::AH | Register::CH | Register::DH | Register::BH) {
        return Operand(Operand::HIGH8 + (n & 3));
    }
    let file = if register.is_gpr() {
        0
    } else if register.is_vector_register() {
        Operand::VECTOR
    } else if register.is_mm() {
        Operand::MMX
    } else if register.is_segment_register() {
        Operand::SEGMENT
    } else if register.is_cr() {
        Operand::CONTROL
    } else if register.is_dr() {
        Operand::DEBUG
    } else {
        Operand::OTHER
    };
    Operand(file + (n & 0xf))
}

/// The segment that an iced register is.
pub(super) fn segment(register: Register) -> SegReg {
    operand(register).segment().unwrap_or(SegReg::Ds)
}
