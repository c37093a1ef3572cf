//! What there is to execute, by family.

/// How the second operand of arithmetic and logic is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// `imm`.
    Imm,
    /// `rm`, shifted by `amount`.
    Shifted(Shift),
    /// `rm`, extended and shifted left by `amount`.
    Extended(Extend),
}

/// Shift types in encoding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shift {
    Lsl,
    Lsr,
    Asr,
    Ror,
}

impl Shift {
    pub(crate) const ALL: [Shift; 4] = [Shift::Lsl, Shift::Lsr, Shift::Asr, Shift::Ror];
}

/// Extension of an index or operand: its bytes, and whether signed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extend {
    pub(crate) bytes: u8,
    pub(crate) signed: bool,
}

impl Extend {
    /// By the field `option`.
    pub(crate) fn new(option: u32) -> Extend {
        Extend { bytes: 1 << (option & 3), signed: option & 4 != 0 }
    }
}

/// Arithmetic and logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add,
    Sub,
    And,
    Or,
    Xor,
    Bic,
    Orn,
    Eon,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bitfield {
    Signed,
    Insert,
    Unsigned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Select {
    Sel,
    Inc,
    Inv,
    Neg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unary {
    Rbit,
    Rev16,
    Rev32,
    Rev64,
    Clz,
    Cls,
}

/// Two sources that are no arithmetic or logic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Divide {
    Unsigned,
    Signed,
}

/// Multiply with 64-bit accumulator or upper half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wide {
    Smaddl,
    Smsubl,
    Umaddl,
    Umsubl,
    Smulh,
    Umulh,
}

/// How an address is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addressing {
    /// `rn + imm`.
    Offset,
    /// `rn + imm`, which `rn` becomes.
    Pre,
    /// `rn`, which becomes `rn + imm`.
    Post,
    /// `rn`, which becomes `rn + rm`.
    PostReg,
    /// `rn` + extended and shifted `rm`.
    Index(Extend),
    /// The instruction's address + `imm`.
    Literal,
    /// `rn + imm`, with the rights of level 0.
    Unprivileged,
}

/// What an atomic memory operation stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AtomicOp {
    Add,
    Clear,
    Xor,
    Set,
    SMax,
    SMin,
    UMax,
    UMin,
    Swap,
}

/// Vector operations of three registers of one shape, in the order of the manual's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V3 {
    Hadd,
    Qadd,
    Rhadd,
    Hsub,
    Qsub,
    CmGt,
    CmGe,
    Shl,
    Qshl,
    Rshl,
    Qrshl,
    Max,
    Min,
    Abd,
    Aba,
    Add,
    Sub,
    CmTst,
    CmEq,
    Mla,
    Mls,
    Mul,
    Pmul,
    MaxP,
    MinP,
    Qdmulh,
    Qrdmulh,
    AddP,
    And,
    Bic,
    Orr,
    Orn,
    Eor,
    Bsl,
    Bit,
    Bif,
}

/// Vector operations of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum V2 {
    Rev64,
    Rev32,
    Rev16,
    Cls,
    Clz,
    Cnt,
    Not,
    Rbit,
    Abs,
    Neg,
    Qabs,
    Qneg,
    CmGt0,
    CmGe0,
    CmEq0,
    CmLe0,
    CmLt0,
    AddLp,
    AdaLp,
    /// SUQADD, USQADD.
    QaddMixed,
}

/// What a narrowing move keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VecNarrow {
    /// XTN.
    Plain,
    /// SQXTN.
    Signed,
    /// UQXTN.
    Unsigned,
    /// SQXTUN.
    SignedToUnsigned,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VecAcross {
    Add,
    AddLong,
    Max,
    Min,
}

/// Shifts by immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VecShift {
    Shr,
    Sra,
    Rshr,
    Rsra,
    Sri,
    Shl,
    Sli,
    Qshl,
    Qshlu,
}

/// Floating-point operations of two sources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FpBinary {
    Mul,
    Div,
    Add,
    Sub,
    Max,
    Min,
    MaxNm,
    MinNm,
    Nmul,
}

/// Floating-point operations of one source of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FpUnary {
    Mov,
    Abs,
    Neg,
    Sqrt,
    /// FRINTN and kin: rounding mode by FPCR encoding, or 4: ties away.
    Rint(u8),
    /// FRINTX, FRINTI.
    RintCurrent,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FpFused {
    Madd,
    Msub,
    Nmadd,
    Nmsub,
}

/// Vector floating point of three registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FpVec3 {
    Binary(FpBinary),
    Pair(FpBinary),
    Mla,
    Mls,
    Mulx,
    Abd,
    CmEq,
    CmGe,
    CmGt,
    AcGe,
    AcGt,
}

/// Vector floating point of one source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FpVec2 {
    Unary(FpUnary),
    CmGt0,
    CmGe0,
    CmEq0,
    CmLe0,
    CmLt0,
    /// To integer: rounding, signed.
    ToInt(u8, bool),
    /// From integer: signed.
    FromInt(bool),
}

/// What an op does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Undefined,
    Alu(Alu, Source),
    Carry {
        subtract: bool,
    },
    MovImm,
    MovKeep,
    Adr,
    Adrp,
    Bitfield(Bitfield),
    Extract,
    Select(Select),
    CompareImm {
        subtract: bool,
    },
    CompareReg {
        subtract: bool,
    },
    Unary(Unary),
    Divide(Divide),
    ShiftReg(Shift),
    Crc {
        castagnoli: bool,
    },
    Multiply {
        subtract: bool,
    },
    MultiplyWide(Wide),
    Rmif,
    Setf,
    Cfinv,
    Branch {
        link: bool,
    },
    BranchReg {
        link: bool,
    },
    Return,
    BranchCond,
    CompareBranch {
        nonzero: bool,
    },
    TestBranch {
        nonzero: bool,
    },
    Svc,
    Hvc,
    Smc,
    Brk,
    Eret,
    Hint,
    WaitTimeout {
        event: bool,
    },
    Dmb,
    Dsb,
    Isb,
    Sb,
    ClearExclusive,
    Mrs,
    Msr,
    MsrImm,
    Sys,
    Load {
        mode: Addressing,
        signed: bool,
    },
    Store(Addressing),
    Prefetch,
    LoadPair {
        mode: Addressing,
        signed: bool,
    },
    StorePair(Addressing),
    LoadVec(Addressing),
    StoreVec(Addressing),
    LoadVecPair(Addressing),
    StoreVecPair(Addressing),
    LoadExclusive {
        acquire: bool,
    },
    StoreExclusive {
        release: bool,
    },
    LoadExclusivePair {
        acquire: bool,
    },
    StoreExclusivePair {
        release: bool,
    },
    LoadAcquire,
    LoadAcquirePc,
    StoreRelease,
    Cas {
        acquire: bool,
        release: bool,
    },
    CasPair {
        acquire: bool,
        release: bool,
    },
    Atomic {
        op: AtomicOp,
        acquire: bool,
        release: bool,
    },
    /// LD1 to LD4, ST1 to ST4: registers of an element, repetitions.
    Structures {
        load: bool,
        elements: u8,
        repeat: u8,
        post: Option<Addressing>,
    },
    Lane {
        load: bool,
        elements: u8,
        post: Option<Addressing>,
    },
    LoadReplicate {
        elements: u8,
        post: Option<Addressing>,
    },
    // Vectors.
    V3 {
        op: V3,
        signed: bool,
    },
    V2 {
        op: V2,
        signed: bool,
    },
    DupElement,
    DupGeneral,
    InsertGeneral,
    InsertElement,
    MoveToGeneral {
        signed: bool,
    },
    Table {
        insert: bool,
    },
    Zip,
    Uzp,
    Trn,
    ExtractVec,
    VecImm,
    VecImmOr,
    VecImmBic,
    Shift {
        op: VecShift,
        signed: bool,
    },
    ShiftNarrow {
        to: VecNarrow,
        round: bool,
    },
    ShiftLong {
        signed: bool,
    },
    Narrow(VecNarrow),
    ShiftLeftLong,
    Across {
        op: VecAcross,
        signed: bool,
    },
    AddPairScalar,
    Long {
        op: V3,
        signed: bool,
    },
    AddWide {
        subtract: bool,
        signed: bool,
    },
    AddHighNarrow {
        subtract: bool,
        round: bool,
    },
    DoublingLong {
        op: V3,
    },
    PolyLong,
    Indexed {
        op: V3,
    },
    LongIndexed {
        op: V3,
        signed: bool,
    },
    DoublingLongIndexed {
        op: V3,
    },
    // Floating point.
    Fp1(FpUnary),
    Fp2(FpBinary),
    FpFused(FpFused),
    FpCompare {
        zero: bool,
    },
    FpCondCompare,
    FpSelect,
    FpImm,
    FpConvert,
    FpToInt {
        rounding: u8,
        signed: bool,
    },
    FpFromInt {
        signed: bool,
    },
    FpToGeneral,
    FpFromGeneral,
    FpToGeneralHigh,
    FpFromGeneralHigh,
    FpV3(FpVec3),
    FpV2(FpVec2),
    FpIndexed(FpVec3),
    FpLengthen,
    FpNarrow,
    FpPairScalar(FpBinary),
    FpAcross(FpBinary),
    FpFixedVec {
        to_int: bool,
        signed: bool,
    },
    FpFixed {
        to_int: bool,
        signed: bool,
    },
}
