//! Facts of the architecture: bit positions, vectors, MSR numbers, feature names. No behaviour.
//!
//! Source: [SDM-3] "System Architecture Overview", "Paging", "Interrupt and Exception Handling";
//! [SDM-4] "Model-Specific Registers"; [APM-2] "System Resources".

use bitflags::bitflags;

/// Who made the processor, where the manuals differ.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Vendor {
    /// Intel, by the SDM.
    #[default]
    Intel,
    /// AMD, by the APM.
    Amd,
}

bitflags! {
    /// Features of a cpu that change what instructions do. A missing one raises #UD or #GP.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct Features: u64 {
        /// MONITOR, MWAIT.
        const MONITOR = 1 << 0;
        /// MONITORX, MWAITX.
        const MONITORX = 1 << 1;
        /// UMONITOR, UMWAIT, TPAUSE.
        const WAITPKG = 1 << 2;
        /// TSC-deadline mode of the APIC timer.
        const TSC_DEADLINE = 1 << 3;
        /// x2APIC.
        const X2APIC = 1 << 4;
        /// RDTSCP.
        const RDTSCP = 1 << 5;
        /// RDPID.
        const RDPID = 1 << 6;
        /// RDFSBASE and kin.
        const FSGSBASE = 1 << 7;
        /// Supervisor-mode execution prevention.
        const SMEP = 1 << 8;
        /// Supervisor-mode access prevention.
        const SMAP = 1 << 9;
        /// User-mode instruction prevention.
        const UMIP = 1 << 10;
        /// Process-context identifiers.
        const PCID = 1 << 11;
        /// INVPCID.
        const INVPCID = 1 << 12;
        /// 57-bit linear addresses.
        const LA57 = 1 << 13;
        /// 1 GiB pages.
        const PAGE_1G = 1 << 14;
        /// No-execute pages.
        const NX = 1 << 15;
        /// XSAVE, XGETBV, XSETBV.
        const XSAVE = 1 << 16;
        /// SYSCALL, SYSRET.
        const SYSCALL = 1 << 17;
        /// SYSENTER, SYSEXIT.
        const SYSENTER = 1 << 18;
        /// SERIALIZE.
        const SERIALIZE = 1 << 19;
        /// BMI1.
        const BMI1 = 1 << 20;
        /// BMI2.
        const BMI2 = 1 << 21;
        /// LZCNT.
        const LZCNT = 1 << 22;
        /// POPCNT.
        const POPCNT = 1 << 23;
        /// CMPXCHG16B.
        const CX16 = 1 << 24;
        /// MOVBE.
        const MOVBE = 1 << 25;
        /// ADCX, ADOX.
        const ADX = 1 << 26;
        /// SSE3.
        const SSE3 = 1 << 27;
        /// SSSE3.
        const SSSE3 = 1 << 28;
        /// SSE4.1.
        const SSE41 = 1 << 29;
        /// SSE4.2 with CRC32.
        const SSE42 = 1 << 30;
        /// CLFLUSHOPT.
        const CLFLUSHOPT = 1 << 31;
        /// CLWB.
        const CLWB = 1 << 32;
        /// PREFETCHW.
        const PREFETCHW = 1 << 33;
        /// RDRAND, from the seed.
        const RDRAND = 1 << 34;
        /// Long mode.
        const LONG_MODE = 1 << 35;
        /// LAHF and SAHF in 64-bit mode.
        const LAHF_LM = 1 << 36;
        /// AES-NI.
        const AES = 1 << 37;
        /// PCLMULQDQ.
        const PCLMUL = 1 << 38;
        /// WBNOINVD.
        const WBNOINVD = 1 << 39;
        /// MOVDIRI, MOVDIR64B.
        const MOVDIR = 1 << 40;
        /// FRED is never offered; fast short REP MOV as advertised.
        const FSRM = 1 << 41;
        /// SPEC_CTRL and PRED_CMD exist and do nothing.
        const SPEC_CTRL = 1 << 42;
    }
}

/// RFLAGS bits.
pub mod rflags {
    /// Carry.
    pub const CF: u64 = 1 << 0;
    /// Always one.
    pub const FIXED: u64 = 1 << 1;
    /// Parity.
    pub const PF: u64 = 1 << 2;
    /// Auxiliary carry.
    pub const AF: u64 = 1 << 4;
    /// Zero.
    pub const ZF: u64 = 1 << 6;
    /// Sign.
    pub const SF: u64 = 1 << 7;
    /// Single step.
    pub const TF: u64 = 1 << 8;
    /// Interrupts enabled.
    pub const IF: u64 = 1 << 9;
    /// Direction.
    pub const DF: u64 = 1 << 10;
    /// Overflow.
    pub const OF: u64 = 1 << 11;
    /// I/O privilege level, two bits.
    pub const IOPL: u64 = 3 << 12;
    /// Shift of `IOPL`.
    pub const IOPL_SHIFT: u32 = 12;
    /// Nested task.
    pub const NT: u64 = 1 << 14;
    /// Resume: no instruction breakpoint on the next instruction.
    pub const RF: u64 = 1 << 16;
    /// Virtual-8086 mode.
    pub const VM: u64 = 1 << 17;
    /// Alignment check; with SMAP, supervisor access to user pages.
    pub const AC: u64 = 1 << 18;
    /// Virtual interrupt flag.
    pub const VIF: u64 = 1 << 19;
    /// Virtual interrupt pending.
    pub const VIP: u64 = 1 << 20;
    /// CPUID can be used.
    pub const ID: u64 = 1 << 21;
}

/// CR0 bits.
pub mod cr0 {
    /// Protection enable.
    pub const PE: u64 = 1 << 0;
    /// Monitor coprocessor.
    pub const MP: u64 = 1 << 1;
    /// Emulation.
    pub const EM: u64 = 1 << 2;
    /// Task switched.
    pub const TS: u64 = 1 << 3;
    /// Extension type, always one.
    pub const ET: u64 = 1 << 4;
    /// Numeric error.
    pub const NE: u64 = 1 << 5;
    /// Write protect.
    pub const WP: u64 = 1 << 16;
    /// Alignment mask.
    pub const AM: u64 = 1 << 18;
    /// Not write-through.
    pub const NW: u64 = 1 << 29;
    /// Cache disable.
    pub const CD: u64 = 1 << 30;
    /// Paging.
    pub const PG: u64 = 1 << 31;
}

/// CR4 bits.
pub mod cr4 {
    /// Virtual-8086 extensions.
    pub const VME: u64 = 1 << 0;
    /// Protected-mode virtual interrupts.
    pub const PVI: u64 = 1 << 1;
    /// Time stamp disable.
    pub const TSD: u64 = 1 << 2;
    /// Debugging extensions.
    pub const DE: u64 = 1 << 3;
    /// Page size extension.
    pub const PSE: u64 = 1 << 4;
    /// Physical address extension.
    pub const PAE: u64 = 1 << 5;
    /// Machine check enable.
    pub const MCE: u64 = 1 << 6;
    /// Global pages.
    pub const PGE: u64 = 1 << 7;
    /// Performance counters for users.
    pub const PCE: u64 = 1 << 8;
    /// FXSAVE and SSE enabled.
    pub const OSFXSR: u64 = 1 << 9;
    /// Unmasked SSE exceptions raise #XM.
    pub const OSXMMEXCPT: u64 = 1 << 10;
    /// User-mode instruction prevention.
    pub const UMIP: u64 = 1 << 11;
    /// 57-bit linear addresses.
    pub const LA57: u64 = 1 << 12;
    /// RDFSBASE and kin enabled.
    pub const FSGSBASE: u64 = 1 << 16;
    /// Process-context identifiers.
    pub const PCIDE: u64 = 1 << 17;
    /// XSAVE enabled.
    pub const OSXSAVE: u64 = 1 << 18;
    /// Supervisor-mode execution prevention.
    pub const SMEP: u64 = 1 << 20;
    /// Supervisor-mode access prevention.
    pub const SMAP: u64 = 1 << 21;
}

/// IA32_EFER bits.
pub mod efer {
    /// SYSCALL enable.
    pub const SCE: u64 = 1 << 0;
    /// Long mode enable.
    pub const LME: u64 = 1 << 8;
    /// Long mode active.
    pub const LMA: u64 = 1 << 10;
    /// No-execute enable.
    pub const NXE: u64 = 1 << 11;
}

/// Exception vectors.
pub mod vector {
    /// Divide error.
    pub const DE: u8 = 0;
    /// Debug.
    pub const DB: u8 = 1;
    /// Non-maskable interrupt.
    pub const NMI: u8 = 2;
    /// Breakpoint.
    pub const BP: u8 = 3;
    /// Overflow.
    pub const OF: u8 = 4;
    /// Bound range exceeded.
    pub const BR: u8 = 5;
    /// Invalid opcode.
    pub const UD: u8 = 6;
    /// Device not available.
    pub const NM: u8 = 7;
    /// Double fault.
    pub const DF: u8 = 8;
    /// Invalid TSS.
    pub const TS: u8 = 10;
    /// Segment not present.
    pub const NP: u8 = 11;
    /// Stack fault.
    pub const SS: u8 = 12;
    /// General protection.
    pub const GP: u8 = 13;
    /// Page fault.
    pub const PF: u8 = 14;
    /// x87 floating point.
    pub const MF: u8 = 16;
    /// Alignment check.
    pub const AC: u8 = 17;
    /// Machine check.
    pub const MC: u8 = 18;
    /// SIMD floating point.
    pub const XM: u8 = 19;
}

/// Page-fault error code bits.
pub mod pf {
    /// The page was present: a protection fault.
    pub const P: u32 = 1 << 0;
    /// A write.
    pub const W: u32 = 1 << 1;
    /// From CPL 3.
    pub const U: u32 = 1 << 2;
    /// A reserved bit was set in a paging structure.
    pub const RSVD: u32 = 1 << 3;
    /// An instruction fetch.
    pub const I: u32 = 1 << 4;
}

/// Bits of paging-structure entries.
pub mod pte {
    /// Present.
    pub const P: u64 = 1 << 0;
    /// Writable.
    pub const W: u64 = 1 << 1;
    /// User.
    pub const U: u64 = 1 << 2;
    /// Write-through.
    pub const PWT: u64 = 1 << 3;
    /// Cache disable.
    pub const PCD: u64 = 1 << 4;
    /// Accessed.
    pub const A: u64 = 1 << 5;
    /// Dirty.
    pub const D: u64 = 1 << 6;
    /// Page size, in a directory entry; PAT in a page-table entry.
    pub const PS: u64 = 1 << 7;
    /// Global.
    pub const G: u64 = 1 << 8;
    /// PAT of a large page.
    pub const PAT_LARGE: u64 = 1 << 12;
    /// No execute.
    pub const NX: u64 = 1 << 63;
}

/// Segment rights: descriptor bits 40 to 55 as one number.
pub mod rights {
    /// Accessed, of code and data segments.
    pub const ACCESSED: u16 = 1 << 0;
    /// Writable, of data; readable, of code.
    pub const RW: u16 = 1 << 1;
    /// Expand down, of data; conforming, of code.
    pub const DC: u16 = 1 << 2;
    /// Code.
    pub const CODE: u16 = 1 << 3;
    /// Code or data; clear in system descriptors.
    pub const S: u16 = 1 << 4;
    /// Shift of DPL, two bits.
    pub const DPL_SHIFT: u32 = 5;
    /// Present.
    pub const P: u16 = 1 << 7;
    /// 64-bit code.
    pub const L: u16 = 1 << 13;
    /// Default size.
    pub const DB: u16 = 1 << 14;
    /// Granularity.
    pub const G: u16 = 1 << 15;
    /// Type field, four bits.
    pub const TYPE: u16 = 0xf;
    /// System type: LDT.
    pub const LDT: u16 = 2;
    /// System type: available TSS (32 or 64 bits).
    pub const TSS_AVAILABLE: u16 = 9;
    /// System type: busy TSS.
    pub const TSS_BUSY: u16 = 11;
    /// System type: call gate (32 or 64 bits).
    pub const CALL_GATE: u16 = 12;
    /// System type: 16-bit call gate.
    pub const CALL_GATE_16: u16 = 4;
    /// System type: interrupt gate.
    pub const INTERRUPT_GATE: u16 = 14;
    /// System type: trap gate.
    pub const TRAP_GATE: u16 = 15;
    /// System type: 16-bit interrupt gate.
    pub const INTERRUPT_GATE_16: u16 = 6;
    /// System type: 16-bit trap gate.
    pub const TRAP_GATE_16: u16 = 7;
    /// System type: task gate.
    pub const TASK_GATE: u16 = 5;
}

/// MSR numbers.
pub mod msr {
    /// IA32_TIME_STAMP_COUNTER.
    pub const TSC: u32 = 0x10;
    /// IA32_PLATFORM_ID.
    pub const PLATFORM_ID: u32 = 0x17;
    /// IA32_APIC_BASE.
    pub const APIC_BASE: u32 = 0x1b;
    /// IA32_FEATURE_CONTROL.
    pub const FEATURE_CONTROL: u32 = 0x3a;
    /// IA32_TSC_ADJUST.
    pub const TSC_ADJUST: u32 = 0x3b;
    /// IA32_SPEC_CTRL.
    pub const SPEC_CTRL: u32 = 0x48;
    /// IA32_PRED_CMD.
    pub const PRED_CMD: u32 = 0x49;
    /// IA32_BIOS_SIGN_ID.
    pub const BIOS_SIGN_ID: u32 = 0x8b;
    /// IA32_UMWAIT_CONTROL.
    pub const UMWAIT_CONTROL: u32 = 0xe1;
    /// IA32_MTRRCAP.
    pub const MTRR_CAP: u32 = 0xfe;
    /// IA32_SYSENTER_CS; ESP and EIP follow.
    pub const SYSENTER_CS: u32 = 0x174;
    /// IA32_SYSENTER_EIP.
    pub const SYSENTER_EIP: u32 = 0x176;
    /// IA32_MCG_CAP.
    pub const MCG_CAP: u32 = 0x179;
    /// IA32_MCG_STATUS.
    pub const MCG_STATUS: u32 = 0x17a;
    /// IA32_MISC_ENABLE.
    pub const MISC_ENABLE: u32 = 0x1a0;
    /// First variable MTRR.
    pub const MTRR_PHYS_FIRST: u32 = 0x200;
    /// Last variable MTRR.
    pub const MTRR_PHYS_LAST: u32 = 0x20f;
    /// First fixed MTRR.
    pub const MTRR_FIX_FIRST: u32 = 0x250;
    /// Last fixed MTRR.
    pub const MTRR_FIX_LAST: u32 = 0x26f;
    /// IA32_PAT.
    pub const PAT: u32 = 0x277;
    /// IA32_MTRR_DEF_TYPE.
    pub const MTRR_DEF_TYPE: u32 = 0x2ff;
    /// IA32_TSC_DEADLINE.
    pub const TSC_DEADLINE: u32 = 0x6e0;
    /// First x2APIC register.
    pub const X2APIC_FIRST: u32 = 0x800;
    /// x2APIC interrupt command register.
    pub const X2APIC_ICR: u32 = 0x830;
    /// x2APIC self-IPI register.
    pub const X2APIC_SELF_IPI: u32 = 0x83f;
    /// Last number reserved for the x2APIC.
    pub const X2APIC_LAST: u32 = 0x8ff;
    /// IA32_EFER.
    pub const EFER: u32 = 0xc000_0080;
    /// IA32_STAR.
    pub const STAR: u32 = 0xc000_0081;
    /// IA32_LSTAR.
    pub const LSTAR: u32 = 0xc000_0082;
    /// IA32_CSTAR.
    pub const CSTAR: u32 = 0xc000_0083;
    /// IA32_FMASK.
    pub const FMASK: u32 = 0xc000_0084;
    /// IA32_FS_BASE.
    pub const FS_BASE: u32 = 0xc000_0100;
    /// IA32_GS_BASE.
    pub const GS_BASE: u32 = 0xc000_0101;
    /// IA32_KERNEL_GS_BASE.
    pub const KERNEL_GS_BASE: u32 = 0xc000_0102;
    /// IA32_TSC_AUX.
    pub const TSC_AUX: u32 = 0xc000_0103;
    /// AMD SYSCFG.
    pub const AMD_SYSCFG: u32 = 0xc001_0010;
    /// AMD hardware configuration.
    pub const AMD_HWCR: u32 = 0xc001_0015;
}
