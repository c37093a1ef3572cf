//! Facts of the architecture: names and positions of bits. No behaviour.
//!
//! Source of all: \[ArmARM\] "AArch64 System Register Descriptions", "The AArch64 System Level
//! Programmers' Model". Status: spec.

use bitflags::bitflags;

/// Exception levels that are modelled.
pub const LEVELS: usize = 3;

bitflags! {
    /// Optional parts of the architecture that a machine offers, by their architectural names.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u64 {
        /// FEAT_LSE: atomic instructions.
        const LSE = 1 << 0;
        /// FEAT_CRC32.
        const CRC32 = 1 << 1;
        /// FEAT_PAN: privileged access never.
        const PAN = 1 << 2;
        /// FEAT_PAN2: AT with PAN.
        const PAN2 = 1 << 3;
        /// FEAT_UAO: user access override.
        const UAO = 1 << 4;
        /// FEAT_HAFDBS: access flag and dirty state set by hardware.
        const HAFDBS = 1 << 5;
        /// FEAT_LRCPC: LDAPR.
        const LRCPC = 1 << 6;
        /// FEAT_LSE2: unaligned accesses inside 16 bytes are single-copy atomic.
        const LSE2 = 1 << 7;
        /// FEAT_WFXT: WFET and WFIT.
        const WFXT = 1 << 8;
        /// FEAT_DPB: DC CVAP.
        const DPB = 1 << 9;
        /// FEAT_RDM: rounding double multiply accumulate.
        const RDM = 1 << 10;
        /// FEAT_DotProd.
        const DOT_PROD = 1 << 11;
        /// FEAT_FP16.
        const FP16 = 1 << 12;
        /// FEAT_AES and FEAT_PMULL, FEAT_SHA1, FEAT_SHA256.
        const CRYPTO = 1 << 13;
        /// FEAT_VHE: virtualisation host extensions.
        const VHE = 1 << 14;
        /// FEAT_SB: speculation barrier.
        const SB = 1 << 15;
        /// FEAT_FlagM: flag manipulation.
        const FLAG_M = 1 << 16;
        /// FEAT_TLBIRANGE and FEAT_TLBIOS.
        const TLBI_RANGE = 1 << 17;
    }
}

/// A system register by its encoding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SysReg(u16);

impl SysReg {
    /// The register with these fields of MRS and MSR.
    #[must_use]
    pub const fn new(op0: u16, op1: u16, crn: u16, crm: u16, op2: u16) -> SysReg {
        SysReg((op0 & 3) << 14 | (op1 & 7) << 11 | (crn & 15) << 7 | (crm & 15) << 3 | op2 & 7)
    }

    /// The fields as one number, op0 on top.
    #[must_use]
    pub const fn bits(self) -> u16 {
        self.0
    }

    /// The register whose fields are packed as by [`SysReg::bits`].
    #[must_use]
    pub const fn from_bits(bits: u16) -> SysReg {
        SysReg(bits)
    }

    /// Fields op0, op1, CRn, CRm, op2.
    #[must_use]
    pub const fn fields(self) -> (u8, u8, u8, u8, u8) {
        let r = self.0;
        (
            (r >> 14) as u8,
            (r >> 11 & 7) as u8,
            (r >> 7 & 15) as u8,
            (r >> 3 & 15) as u8,
            (r & 7) as u8,
        )
    }
}

impl std::fmt::Debug for SysReg {
    /// As assemblers spell a register without name: `S3_0_C1_C0_0`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (op0, op1, crn, crm, op2) = self.fields();
        write!(f, "S{op0}_{op1}_C{crn}_C{crm}_{op2}")
    }
}

/// Exception class: `ESR_ELx.EC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Ec {
    /// Unknown reason: undefined instructions.
    Unknown = 0x00,
    /// Trapped WFE, WFI, WFET or WFIT.
    Wfx = 0x01,
    /// Access to SIMD and floating point trapped by CPACR_EL1 or CPTR_EL2.
    Fp = 0x07,
    /// Illegal execution state.
    Illegal = 0x0e,
    /// SVC.
    Svc = 0x15,
    /// HVC.
    Hvc = 0x16,
    /// SMC.
    Smc = 0x17,
    /// Trapped MSR, MRS or system instruction.
    SysReg = 0x18,
    /// Instruction abort from a lower level.
    InstructionAbortLower = 0x20,
    /// Instruction abort from the same level.
    InstructionAbort = 0x21,
    /// Misaligned program counter.
    PcAlignment = 0x22,
    /// Data abort from a lower level.
    DataAbortLower = 0x24,
    /// Data abort from the same level.
    DataAbort = 0x25,
    /// Misaligned stack pointer.
    SpAlignment = 0x26,
    /// Trapped floating-point exception.
    FpException = 0x2c,
    /// SError interrupt.
    SError = 0x2f,
    /// Breakpoint from a lower level.
    BreakpointLower = 0x30,
    /// Software step from a lower level.
    StepLower = 0x32,
    /// Software step from the same level.
    Step = 0x33,
    /// BRK.
    Brk = 0x3c,
}

/// Fault status of an abort, `ISS.{D,I}FSC`; the level is added where it has one.
pub mod fsc {
    /// Address size fault, level 0.
    pub const ADDRESS_SIZE: u32 = 0x00;
    /// Translation fault, level 0.
    pub const TRANSLATION: u32 = 0x04;
    /// Access flag fault, level 0.
    pub const ACCESS_FLAG: u32 = 0x08;
    /// Permission fault, level 0.
    pub const PERMISSION: u32 = 0x0c;
    /// Synchronous external abort.
    pub const EXTERNAL: u32 = 0x10;
    /// Synchronous external abort on a walk, level 0.
    pub const EXTERNAL_WALK: u32 = 0x14;
    /// Alignment fault.
    pub const ALIGNMENT: u32 = 0x21;
    /// TLB conflict.
    pub const TLB_CONFLICT: u32 = 0x30;
    /// Unsupported exclusive or atomic access.
    pub const EXCLUSIVE: u32 = 0x35;
}

/// Bits of PSTATE as SPSR holds them.
pub mod spsr {
    /// Negative.
    pub const N: u64 = 1 << 31;
    /// Zero.
    pub const Z: u64 = 1 << 30;
    /// Carry.
    pub const C: u64 = 1 << 29;
    /// Overflow.
    pub const V: u64 = 1 << 28;
    /// User access override.
    pub const UAO: u64 = 1 << 23;
    /// Privileged access never.
    pub const PAN: u64 = 1 << 22;
    /// Software step.
    pub const SS: u64 = 1 << 21;
    /// Illegal execution state.
    pub const IL: u64 = 1 << 20;
    /// Debug exceptions masked.
    pub const D: u64 = 1 << 9;
    /// SError masked.
    pub const A: u64 = 1 << 8;
    /// IRQ masked.
    pub const I: u64 = 1 << 7;
    /// FIQ masked.
    pub const F: u64 = 1 << 6;
    /// AArch32 state.
    pub const M32: u64 = 1 << 4;
}

/// Bits of `SCTLR_EL1` and, where it has them, `SCTLR_EL2`.
pub mod sctlr {
    /// Translation on.
    pub const M: u64 = 1 << 0;
    /// Every unaligned access faults.
    pub const A: u64 = 1 << 1;
    /// Stack alignment check.
    pub const SA: u64 = 1 << 3;
    /// Stack alignment check at EL0.
    pub const SA0: u64 = 1 << 4;
    /// EL0 may name DAIF.
    pub const UMA: u64 = 1 << 9;
    /// EL0 may use DC ZVA.
    pub const DZE: u64 = 1 << 14;
    /// EL0 may read CTR_EL0.
    pub const UCT: u64 = 1 << 15;
    /// WFI at EL0 is not trapped.
    pub const NTWI: u64 = 1 << 16;
    /// WFE at EL0 is not trapped.
    pub const NTWE: u64 = 1 << 18;
    /// Writable is never executable.
    pub const WXN: u64 = 1 << 19;
    /// PSTATE.PAN stays at exception entry.
    pub const SPAN: u64 = 1 << 23;
    /// EL0 may use cache maintenance.
    pub const UCI: u64 = 1 << 26;
    /// `SCTLR_EL1` bits that read 1 where their features are absent.
    pub const RES1: u64 = 1 << 29 | 1 << 28 | 1 << 22 | 1 << 20 | 1 << 11;
}

/// Bits of `HCR_EL2`.
pub mod hcr {
    /// Physical FIQ to EL2.
    pub const FMO: u64 = 1 << 3;
    /// Physical IRQ to EL2.
    pub const IMO: u64 = 1 << 4;
    /// SError to EL2.
    pub const AMO: u64 = 1 << 5;
    /// WFI traps.
    pub const TWI: u64 = 1 << 13;
    /// WFE traps.
    pub const TWE: u64 = 1 << 14;
    /// SMC traps.
    pub const TSC: u64 = 1 << 19;
    /// Exceptions of EL0 to EL2.
    pub const TGE: u64 = 1 << 27;
    /// HVC is undefined.
    pub const HCD: u64 = 1 << 29;
    /// EL1 is AArch64.
    pub const RW: u64 = 1 << 31;
}

/// Fields of `TCR_EL1`.
pub mod tcr {
    /// No walks by TTBR0.
    pub const EPD0: u64 = 1 << 7;
    /// ASID of TTBR1.
    pub const A1: u64 = 1 << 22;
    /// No walks by TTBR1.
    pub const EPD1: u64 = 1 << 23;
    /// ASIDs of 16 bits.
    pub const AS: u64 = 1 << 36;
    /// Top byte ignored, lower range.
    pub const TBI0: u64 = 1 << 37;
    /// Top byte ignored, upper range.
    pub const TBI1: u64 = 1 << 38;
    /// Access flag by hardware.
    pub const HA: u64 = 1 << 39;
    /// Dirty state by hardware.
    pub const HD: u64 = 1 << 40;
    /// Hierarchical permissions off, lower range.
    pub const HPD0: u64 = 1 << 41;
    /// Hierarchical permissions off, upper range.
    pub const HPD1: u64 = 1 << 42;
}

/// Bits of a stage 1 descriptor.
pub mod descriptor {
    /// Valid.
    pub const VALID: u64 = 1 << 0;
    /// Table, and page at level 3.
    pub const TABLE: u64 = 1 << 1;
    /// AP\[1\]: EL0 may access.
    pub const USER: u64 = 1 << 6;
    /// AP\[2\]: read only.
    pub const READ_ONLY: u64 = 1 << 7;
    /// Access flag.
    pub const AF: u64 = 1 << 10;
    /// Not global.
    pub const NG: u64 = 1 << 11;
    /// Dirty bit modifier.
    pub const DBM: u64 = 1 << 51;
    /// Not executable at EL1.
    pub const PXN: u64 = 1 << 53;
    /// Not executable at EL0; at EL2 not executable.
    pub const UXN: u64 = 1 << 54;
    /// PXNTable.
    pub const TABLE_PXN: u64 = 1 << 59;
    /// UXNTable.
    pub const TABLE_UXN: u64 = 1 << 60;
    /// APTable\[0\]: no access by EL0 below.
    pub const TABLE_NO_USER: u64 = 1 << 61;
    /// APTable\[1\]: no writes below.
    pub const TABLE_READ_ONLY: u64 = 1 << 62;
    /// Output address.
    pub const ADDRESS: u64 = 0x0000_ffff_ffff_f000;
}

/// Syndrome bits of data and instruction aborts.
pub mod abort {
    /// Write, not read.
    pub const WNR: u32 = 1 << 6;
    /// Cache maintenance or address translation instruction.
    pub const CM: u32 = 1 << 8;
}
