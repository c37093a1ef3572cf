//! System instructions: the enumeration that the decoder maps to, and their dispatch.
//!
//! Operands stay in the op, in the decoder's places: `dst`, `src`, the memory operand, `imm`
//! (vector of INT n, offset of a direct far branch, bytes released by RET far) and `disp`
//! (selector of a direct far branch).

use crate::state::SegReg;

/// One system instruction.
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
    /// LLDT r/m16: `dst`.
    Lldt,
    /// SLDT r/m: `dst`.
    Sldt,
    /// LTR r/m16: `dst`.
    Ltr,
    /// STR r/m: `dst`.
    Str,
    /// LMSW r/m16: `dst`.
    Lmsw,
    /// SMSW r/m: `dst`.
    Smsw,
    /// MOV r, CR: general register `dst`, number of the control register in `src`.
    MovFromCr,
    /// MOV CR, r: number of the control register in `dst`, general register `src`.
    MovToCr,
    /// MOV r, DR.
    MovFromDr,
    /// MOV DR, r.
    MovToDr,
    /// CLTS.
    Clts,
    /// INVLPG m.
    Invlpg,
    /// INVPCID r, m128: type in `dst`.
    Invpcid,
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
    /// INT n: vector in `imm`.
    Int,
    /// INT3.
    Int3,
    /// INT1.
    Int1,
    /// INTO.
    Into,
    /// UD0, UD1, UD2, RSM.
    Ud,
    /// JMP far: direct when `dst` is immediate, else `m16:16`, `m16:32`, `m16:64` by operand size.
    FarJmp,
    /// CALL far: as `FarJmp`.
    FarCall,
    /// RET far, releasing `imm` bytes.
    FarRet,
    /// MOV Sreg, r/m16: segment register `dst`.
    MovToSeg,
    /// MOV r/m, Sreg: segment register `src`.
    MovFromSeg,
    /// PUSH of a segment register.
    PushSeg(SegReg),
    /// POP of a segment register.
    PopSeg(SegReg),
    /// LDS, LES, LSS, LFS, LGS: far pointer in memory, offset to general register `dst`.
    LoadFar(SegReg),
    /// LAR r, r/m16.
    Lar,
    /// LSL r, r/m16.
    Lsl,
    /// VERR r/m16: `dst`.
    Verr,
    /// VERW r/m16: `dst`.
    Verw,
    /// WBINVD, WBNOINVD.
    Wbinvd,
    /// INVD.
    Invd,
    /// MONITOR: address in rAX by `asize`, segment `seg`.
    Monitor,
    /// MWAIT.
    Mwait,
    /// MONITORX: as `Monitor`.
    Monitorx,
    /// MWAITX.
    Mwaitx,
    /// UMONITOR: address in general register `dst`, by `asize`, segment `seg`.
    Umonitor,
    /// UMWAIT: control in general register `dst`.
    Umwait,
    /// TPAUSE: control in general register `dst`.
    Tpause,
    /// XGETBV.
    Xgetbv,
    /// XSETBV.
    Xsetbv,
    /// RDFSBASE and RDGSBASE: general register `dst`, by operand size.
    Rdbase(SegReg),
    /// WRFSBASE and WRGSBASE: general register `dst`, by operand size.
    Wrbase(SegReg),
    /// SERIALIZE.
    Serialize,
    /// STAC.
    Stac,
    /// CLAC.
    Clac,
}
