//! System instructions: the enumeration that the decoder maps to, and their dispatch.

use crate::state::SegReg;

/// Direction of a move to or from a special register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Move {
    /// From the special register.
    Read,
    /// To the special register.
    Write,
}

/// Destination of a far jump or call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FarTarget {
    /// `ptr16:16` or `ptr16:32` in the instruction.
    Direct {
        /// Selector.
        selector: u16,
        /// Offset.
        offset: u32,
    },
    /// `m16:16`, `m16:32` or `m16:64` at the op's memory operand; the op's operand size says which.
    Memory,
}

/// One system instruction. Operands that are not here are the op's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SystemOp {
    /// HLT.
    Hlt,
    /// CLI.
    Cli,
    /// STI.
    Sti,
    /// LGDT m.
    Lgdt,
    /// SGDT m.
    Sgdt,
    /// LIDT m.
    Lidt,
    /// SIDT m.
    Sidt,
    /// LLDT r/m16.
    Lldt,
    /// SLDT r/m.
    Sldt,
    /// LTR r/m16.
    Ltr,
    /// STR r/m.
    Str,
    /// LMSW r/m16.
    Lmsw,
    /// SMSW r/m.
    Smsw,
    /// MOV between CR `cr` and general register `reg` (0 to 15).
    MovCr(Move, u8, u8),
    /// MOV between DR `dr` and general register `reg` (0 to 15).
    MovDr(Move, u8, u8),
    /// CLTS.
    Clts,
    /// INVLPG m.
    Invlpg,
    /// INVPCID r, m128: type in general register `reg`.
    Invpcid(u8),
    /// RDMSR.
    Rdmsr,
    /// WRMSR.
    Wrmsr,
    /// CPUID.
    Cpuid,
    /// RDPMC.
    Rdpmc,
    /// SYSCALL.
    Syscall,
    /// SYSRET; operand size 8 returns to 64-bit code.
    Sysret,
    /// SYSENTER.
    Sysenter,
    /// SYSEXIT; operand size 8 returns to 64-bit code.
    Sysexit,
    /// SWAPGS.
    Swapgs,
    /// IRET, IRETD, IRETQ by operand size.
    Iret,
    /// INT n.
    Int(u8),
    /// INT3.
    Int3,
    /// INT1.
    Int1,
    /// INTO.
    Into,
    /// UD0, UD1, UD2, RSM, and what a feature set lacks.
    Ud,
    /// An encoding that the model does not implement: reported once, then #UD.
    Unimplemented,
    /// JMP far.
    FarJmp(FarTarget),
    /// CALL far.
    FarCall(FarTarget),
    /// RET far, releasing this many bytes.
    FarRet(u16),
    /// MOV between a segment register and r/m.
    MovSeg(Move, SegReg),
    /// PUSH of a segment register.
    PushSeg(SegReg),
    /// POP of a segment register.
    PopSeg(SegReg),
    /// LDS, LES, LSS, LFS, LGS: far pointer at the memory operand, offset to the op's destination.
    LoadFar(SegReg),
    /// LAR r, r/m16.
    Lar,
    /// LSL r, r/m16.
    Lsl,
    /// VERR r/m16.
    Verr,
    /// VERW r/m16.
    Verw,
    /// WBINVD, WBNOINVD.
    Wbinvd,
    /// INVD.
    Invd,
    /// MONITOR: address in rAX by address size, segment by prefix.
    Monitor,
    /// MWAIT.
    Mwait,
    /// MONITORX.
    Monitorx,
    /// MWAITX.
    Mwaitx,
    /// UMONITOR: address in general register `reg`.
    Umonitor(u8),
    /// UMWAIT: control in general register `reg`.
    Umwait(u8),
    /// TPAUSE: control in general register `reg`.
    Tpause(u8),
    /// XGETBV.
    Xgetbv,
    /// XSETBV.
    Xsetbv,
    /// RDFSBASE and RDGSBASE to general register `reg`, by operand size.
    Rdbase(SegReg, u8),
    /// WRFSBASE and WRGSBASE from general register `reg`, by operand size.
    Wrbase(SegReg, u8),
    /// SERIALIZE.
    Serialize,
    /// STAC.
    Stac,
    /// CLAC.
    Clac,
}
