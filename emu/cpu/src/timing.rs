//! Core timing (`engine.md` C1): what an op needs, and what a kind of core takes for it.

/// Index of a register in the scoreboard. `NONE` is always ready and never written.
pub type Reg = u8;
/// General registers are 0 to 30.
pub const GPR0: Reg = 0;
/// Condition flags.
pub const FLAGS: Reg = 31;
/// Vector registers are 32 to 63.
pub const VEC0: Reg = 32;
/// No register.
pub const NONE: Reg = 64;
/// Entries of the scoreboard.
pub const REGS: usize = 65;

/// Kinds of op that a core description gives a latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Class {
    /// Add, logic, move, compare, LEA.
    #[default]
    Alu,
    /// Move from memory: nothing beyond the load.
    Load,
    /// Shift, rotate, bit scan and count.
    Shift,
    /// Integer multiply.
    Mul,
    /// Divide, operands up to 32 bits.
    Div,
    /// Divide, 64-bit operands.
    DivWide,
    /// Jump, call, return, conditional branch.
    Branch,
    /// Vector move, logic, integer arithmetic.
    Vec,
    /// Floating-point add, compare, convert.
    FpAdd,
    /// Floating-point multiply.
    FpMul,
    /// Floating-point divide and square root.
    FpDiv,
    /// CRC32.
    Crc,
    /// Spin-wait hint.
    Pause,
    /// LFENCE.
    FenceLoad,
    /// MFENCE.
    FenceFull,
    /// Atomic read-modify-write on an owned line.
    Rmw,
    /// Time counter read.
    TimeRead,
    /// System register access.
    SysReg,
    /// CPUID and other microcode.
    Micro,
    /// MONITOR.
    Monitor,
    /// Entry of a wait: MWAIT, HLT.
    WaitEntry,
    /// Write of the interrupt command register.
    IpiSend,
    /// Interrupt and exception entry.
    IrqEntry,
    /// Return from interrupt.
    IrqReturn,
}

/// Number of classes.
pub const CLASSES: usize = Class::IrqReturn as usize + 1;

/// What the scoreboard must know of one op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpTiming {
    /// Registers read, padded with `NONE`.
    pub reads: [Reg; 4],
    /// Registers written, padded with `NONE`.
    pub writes: [Reg; 3],
    /// Kind of op.
    pub class: Class,
}

impl Default for OpTiming {
    fn default() -> Self {
        OpTiming { reads: [NONE; 4], writes: [NONE; 3], class: Class::Alu }
    }
}

/// Timing of one kind of core, in cycles, from its core file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreTiming {
    /// Ops dispatched and retired a cycle.
    pub width: u32,
    /// Ops in flight.
    pub window: u32,
    /// Store-buffer entries.
    pub store_buffer: u32,
    /// Whether ops issue in program order (A53-like).
    pub in_order: bool,
    /// Redirect cost of a mispredicted branch.
    pub mispredict: u32,
    /// Load-to-use latency of L1.
    pub l1_latency: u32,
    /// Load-to-use latency of L2.
    pub l2_latency: u32,
    /// Latency by `Class`.
    pub latency: [u32; CLASSES],
}
