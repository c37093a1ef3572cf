//! Registers of one cpu that instructions name.
//!
//! System registers with side effects are in `sysreg`.

use crate::defs::{LEVELS, spsr};

/// Process state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pstate {
    /// N, Z, C, V at their places in `SPSR` (bits 31 to 28).
    pub nzcv: u32,
    /// D, A, I, F at their places in `SPSR` (bits 9 to 6).
    pub daif: u32,
    /// Exception level, 0 to 2.
    pub el: u8,
    /// Whether the stack pointer is that of the level, not `SP_EL0`.
    pub spsel: bool,
    /// Privileged access never.
    pub pan: bool,
    /// User access override.
    pub uao: bool,
    /// Software step.
    pub ss: bool,
    /// Illegal execution state.
    pub il: bool,
}

impl Pstate {
    /// State at reset and hand-over: level `el` with its own stack, all exceptions masked.
    #[must_use]
    pub const fn at_level(el: u8) -> Pstate {
        let daif = (spsr::D | spsr::A | spsr::I | spsr::F) as u32;
        Pstate { nzcv: 0, daif, el, spsel: el > 0, pan: false, uao: false, ss: false, il: false }
    }

    /// As SPSR holds it.
    #[must_use]
    pub fn to_spsr(self) -> u64 {
        let bit = |is: bool, bit: u64| if is { bit } else { 0 };
        u64::from(self.nzcv | self.daif)
            | u64::from(self.el) << 2
            | u64::from(self.spsel)
            | bit(self.pan, spsr::PAN)
            | bit(self.uao, spsr::UAO)
            | bit(self.ss, spsr::SS)
            | bit(self.il, spsr::IL)
    }
}

/// Registers of one cpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// X0 to X30.
    pub x: [u64; 31],
    /// Stack pointers by level.
    pub sp: [u64; LEVELS],
    /// Address of the next instruction.
    pub pc: u64,
    /// Process state.
    pub pstate: Pstate,
    /// V0 to V31.
    pub v: [u128; 32],
    /// FPCR.
    pub fpcr: u32,
    /// FPSR.
    pub fpsr: u32,
    /// Exception link registers by level; that of level 0 is not used.
    pub elr: [u64; LEVELS],
    /// Saved process states by level; that of level 0 is not used.
    pub spsr: [u64; LEVELS],
}

impl State {
    /// State at reset, at level `el`.
    #[must_use]
    pub const fn at_level(el: u8) -> State {
        State {
            x: [0; 31],
            sp: [0; LEVELS],
            pc: 0,
            pstate: Pstate::at_level(el),
            v: [0; 32],
            fpcr: 0,
            fpsr: 0,
            elr: [0; LEVELS],
            spsr: [0; LEVELS],
        }
    }

    /// Register `n`; 31 is zero.
    #[must_use]
    #[inline(always)]
    pub fn x(&self, n: u8) -> u64 {
        if n == 31 { 0 } else { self.x[usize::from(n & 31)] }
    }

    /// Sets register `n`; 31 is discarded.
    #[inline(always)]
    pub fn set_x(&mut self, n: u8, value: u64) {
        if n != 31 {
            self.x[usize::from(n & 31)] = value;
        }
    }

    /// Register `n`; 31 is the stack pointer in use.
    #[must_use]
    #[inline(always)]
    pub fn x_sp(&self, n: u8) -> u64 {
        if n == 31 { self.sp[self.stack()] } else { self.x[usize::from(n & 31)] }
    }

    /// Sets register `n`; 31 is the stack pointer in use.
    #[inline(always)]
    pub fn set_x_sp(&mut self, n: u8, value: u64) {
        if n == 31 {
            let stack = self.stack();
            self.sp[stack] = value;
        } else {
            self.x[usize::from(n & 31)] = value;
        }
    }

    /// Index in `sp` of the stack pointer in use.
    #[inline(always)]
    fn stack(&self) -> usize {
        if self.pstate.spsel { usize::from(self.pstate.el) } else { 0 }
    }
}
