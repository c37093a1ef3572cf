//! What there is to execute: one kind a body, families with a second level.

/// Condition of Jcc, SETcc and CMOVcc, in encoding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's names")]
pub enum Cond {
    O,
    No,
    B,
    Ae,
    E,
    Ne,
    Be,
    A,
    S,
    Ns,
    P,
    Np,
    L,
    Ge,
    Le,
    G,
}

/// What an instruction does. Names are the manual's; families are grouped by how they execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum Kind {
    Mov,
    Lea,
    Add,
    Or,
    Adc,
    Sbb,
    And,
    Sub,
    Xor,
    Cmp,
    Test,
    Inc,
    Dec,
    Neg,
    Not,
    Movzx,
    Movsx,
    Jcc(Cond),
    Jmp,
    JmpIndirect,
    Call,
    CallIndirect,
    Ret,
    Push,
    Pop,
    Cmov(Cond),
    Set(Cond),
    Nop,
    Shl,
    Shr,
    Sar,
    Rol,
    Ror,
    Rcl,
    Rcr,
    Shld,
    Shrd,
    Mul,
    /// One operand: RDX:RAX.
    Imul,
    /// Two and three operands.
    ImulTruncated,
    Div,
    Idiv,
    Bit(BitOp),
    Bsf,
    Bsr,
    Tzcnt,
    Lzcnt,
    Popcnt,
    Bswap,
    Bmi(BmiOp),
    Adcx,
    Adox,
    Movbe,
    Crc32,
    Xchg,
    Xadd,
    Cmpxchg,
    Cmpxchg8b,
    Cmpxchg16b,
    Loop(LoopKind),
    Jcxz,
    /// CBW, CWDE, CDQE.
    SignExtend,
    /// CWD, CDQ, CQO.
    SignDouble,
    Lahf,
    Sahf,
    Clc,
    Stc,
    Cmc,
    Cld,
    Std,
    Xlat,
    Salc,
    String(StringOp),
    In,
    Out,
    Enter,
    Leave,
    PushAll,
    PopAll,
    PushFlags,
    PopFlags,
    /// PUSH of a segment register.
    PushSegment,
    /// MOV from a segment register.
    MovFromSegment,
    Bound,
    Decimal(DecimalOp),
    Pause,
    Lfence,
    Sfence,
    Mfence,
    /// CLFLUSH, CLFLUSHOPT.
    FlushLine,
    /// CLWB.
    WriteBackLine,
    Rdtsc,
    Rdtscp,
    Rdpid,
    /// RDRAND, RDSEED.
    Random,
    VecMov(VecMov),
    /// Packed integer, whole register: destination and source.
    Int(IntOp),
    /// Packed shifts by register or immediate.
    VecShift(VecShift),
    Shuffle(ShuffleOp),
    Fp(FpArith, FpForm),
    FpCompare(FpForm),
    /// COMIS and UCOMIS.
    FpFlags(FpForm),
    Cvt(CvtOp),
    Fpu(FpuOp),
    FpState(FpStateOp),
    /// System instructions without far transfer.
    System(SysOp),
    /// Loads of segment registers, from memory or register.
    SegLoad(SegLoad),
    /// Far transfers, software interrupts, returns.
    Far(FarOp),
    /// Decodes, but has no body yet: #UD, reported.
    Unimplemented,
    /// No instruction: #UD.
    Invalid,
}

/// BT family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum BitOp {
    Bt,
    Bts,
    Btr,
    Btc,
}

/// BMI1 and BMI2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum BmiOp {
    Andn,
    Bextr,
    Blsi,
    Blsmsk,
    Blsr,
    Bzhi,
    Mulx,
    Pdep,
    Pext,
    Rorx,
    Sarx,
    Shlx,
    Shrx,
}

/// LOOP family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum LoopKind {
    Loop,
    Loope,
    Loopne,
}

/// String instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum StringOp {
    Movs,
    Stos,
    Lods,
    Scas,
    Cmps,
    Ins,
    Outs,
}

/// Decimal adjustment, 16- and 32-bit code only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum DecimalOp {
    Daa,
    Das,
    Aaa,
    Aas,
    Aam,
    Aad,
}

/// Moves of vector registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VecMov {
    /// 16 bytes, memory aligned: MOVAPS, MOVAPD, MOVDQA, MOVNTPS, MOVNTPD, MOVNTDQ(A).
    Aligned,
    /// 16 bytes: MOVUPS, MOVUPD, MOVDQU, LDDQU.
    Unaligned,
    /// MOVSS, MOVSD: loads clear the rest, register moves merge.
    Scalar,
    /// MOVD, MOVQ: the rest of a vector destination is cleared.
    Quad,
    /// MOVLPS, MOVLPD: low half from or to memory.
    Low,
    /// MOVHPS, MOVHPD: high half from or to memory.
    High,
    /// MOVHLPS.
    HighToLow,
    /// MOVLHPS.
    LowToHigh,
    /// MOVNTI.
    NtInteger,
    /// MOVMSKPS, MOVMSKPD, PMOVMSKB: element size in `Op::src_size`.
    Mask,
    /// MASKMOVDQU.
    MaskStore,
    /// MOVDDUP.
    DupLow64,
    /// MOVSLDUP.
    DupEven32,
    /// MOVSHDUP.
    DupOdd32,
    /// LDMXCSR.
    LoadMxcsr,
    /// STMXCSR.
    StoreMxcsr,
}

/// Packed integer operations, and the bitwise ones under all their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum IntOp {
    And,
    Andn,
    Or,
    Xor,
    Paddb,
    Paddw,
    Paddd,
    Paddq,
    Psubb,
    Psubw,
    Psubd,
    Psubq,
    Paddsb,
    Paddsw,
    Paddusb,
    Paddusw,
    Psubsb,
    Psubsw,
    Psubusb,
    Psubusw,
    Pcmpeqb,
    Pcmpeqw,
    Pcmpeqd,
    Pcmpeqq,
    Pcmpgtb,
    Pcmpgtw,
    Pcmpgtd,
    Pcmpgtq,
    Pminsb,
    Pminsw,
    Pminsd,
    Pminub,
    Pminuw,
    Pminud,
    Pmaxsb,
    Pmaxsw,
    Pmaxsd,
    Pmaxub,
    Pmaxuw,
    Pmaxud,
    Pmullw,
    Pmulld,
    Pmulhw,
    Pmulhuw,
    Pmulhrsw,
    Pmuludq,
    Pmuldq,
    Pmaddwd,
    Pmaddubsw,
    Psadbw,
    Pavgb,
    Pavgw,
    Pabsb,
    Pabsw,
    Pabsd,
    Psignb,
    Psignw,
    Psignd,
    Phaddw,
    Phaddd,
    Phsubw,
    Phsubd,
    Punpcklbw,
    Punpcklwd,
    Punpckldq,
    Punpcklqdq,
    Punpckhbw,
    Punpckhwd,
    Punpckhdq,
    Punpckhqdq,
    Packsswb,
    Packssdw,
    Packuswb,
    Packusdw,
    Pshufb,
}

/// Packed shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum VecShift {
    Psllw,
    Pslld,
    Psllq,
    Psrlw,
    Psrld,
    Psrlq,
    Psraw,
    Psrad,
    Pslldq,
    Psrldq,
}

/// Shuffles and element access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum ShuffleOp {
    Pshufd,
    Pshuflw,
    Pshufhw,
    Shufps,
    Shufpd,
    Palignr,
    /// PINSRB/W/D/Q: element size in `Op::src_size`.
    Pinsr,
    /// PEXTRB/W/D/Q: element size in `Op::src_size`.
    Pextr,
    Ptest,
    /// PMOVZX: `Op::src_size` bytes are read; element sizes in `Op::size`.
    Pmovzx,
    /// PMOVSX.
    Pmovsx,
}

/// Floating-point arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's words")]
pub enum FpArith {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
    Sqrt,
    Rcp,
    Rsqrt,
}

/// Element type and count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's suffixes")]
pub enum FpForm {
    Ss,
    Sd,
    Ps,
    Pd,
}

/// Conversions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics, without CVT")]
pub enum CvtOp {
    Si2ss,
    Si2sd,
    Ss2si,
    Sd2si,
    Tss2si,
    Tsd2si,
    Ss2sd,
    Sd2ss,
    Ps2pd,
    Pd2ps,
    Dq2ps,
    Ps2dq,
    Tps2dq,
    Dq2pd,
    Pd2dq,
    Tpd2dq,
}

/// The part of x87 that is there: control, no arithmetic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum FpuOp {
    Fninit,
    Fnclex,
    Fnstcw,
    Fldcw,
    Fnstsw,
    Fnop,
    Fwait,
    Emms,
}

/// Saves and restores of floating-point state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum FpStateOp {
    Fxsave,
    Fxrstor,
    /// XSAVE and XSAVEOPT.
    Xsave,
    Xrstor,
}

/// System instructions that `exec/system.rs` executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum SysOp {
    Hlt,
    Cli,
    Sti,
    Cpuid,
    Rdmsr,
    Wrmsr,
    Rdpmc,
    Xgetbv,
    Xsetbv,
    MovFromCr,
    MovToCr,
    MovFromDr,
    MovToDr,
    Clts,
    Smsw,
    Lmsw,
    Lgdt,
    Lidt,
    Sgdt,
    Sidt,
    Lldt,
    Ltr,
    Sldt,
    Str,
    Invlpg,
    Invpcid,
    Invd,
    Wbinvd,
    Swapgs,
    Rdfsbase,
    Rdgsbase,
    Wrfsbase,
    Wrgsbase,
    Clac,
    Stac,
    Monitor,
    Mwait,
    Monitorx,
    Mwaitx,
    Umonitor,
    Umwait,
    Tpause,
    Serialize,
    Verr,
    Verw,
    Lar,
    Lsl,
    Arpl,
}

/// Loads of a segment register; the register is in `Op::dst` except for LDS and kin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum SegLoad {
    /// MOV Sreg, r/m16.
    Mov,
    /// POP Sreg.
    Pop,
    /// LDS and kin: offset to `Op::dst`, selector behind it in memory.
    Lds,
    Les,
    Lfs,
    Lgs,
    Lss,
}

/// Far transfers that `exec/control_far.rs` executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the manual's mnemonics")]
pub enum FarOp {
    /// Direct: offset in `Op::imm`, selector in `Op::disp`. Indirect: memory operand, `Op::size`
    /// bytes of offset, then the selector.
    Jmp,
    /// As `Jmp`.
    Call,
    /// RETF; `Op::imm` bytes are dropped.
    Ret,
    Iret,
    /// INT n; n in `Op::imm`.
    Int,
    Int1,
    Int3,
    Into,
    /// UD0, UD1, UD2.
    Ud,
    Syscall,
    Sysret,
    Sysenter,
    Sysexit,
}

impl Kind {
    /// Whether a block ends behind this kind: it jumps, changes the mode, or serialises.
    #[must_use]
    pub fn ends_block(self) -> bool {
        match self {
            Kind::Jcc(_)
            | Kind::Jmp
            | Kind::JmpIndirect
            | Kind::Call
            | Kind::CallIndirect
            | Kind::Ret
            | Kind::Loop(_)
            | Kind::Jcxz
            | Kind::PopFlags
            | Kind::SegLoad(_)
            | Kind::Far(_)
            | Kind::Unimplemented
            | Kind::Invalid => true,
            Kind::System(op) => op.ends_block(),
            _ => false,
        }
    }
}

impl SysOp {
    /// Whether code behind this may have to be fetched or decoded anew.
    #[must_use]
    pub fn ends_block(self) -> bool {
        use SysOp::{
            Arpl, Cli, Lar, Lsl, MovFromCr, MovFromDr, Rdfsbase, Rdgsbase, Rdpmc, Sgdt, Sidt, Sldt,
            Smsw, Sti, Str, Swapgs, Verr, Verw, Wrfsbase, Wrgsbase, Xgetbv,
        };
        !matches!(
            self,
            MovFromCr
                | MovFromDr
                | Smsw
                | Sgdt
                | Sidt
                | Sldt
                | Str
                | Swapgs
                | Rdfsbase
                | Rdgsbase
                | Wrfsbase
                | Wrgsbase
                | Rdpmc
                | Xgetbv
                | Verr
                | Verw
                | Lar
                | Lsl
                | Arpl
                | Cli
                | Sti
        )
    }
}
