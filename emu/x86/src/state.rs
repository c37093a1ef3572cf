//! Architectural state of one x86 cpu. Data only.

/// Indices of general registers in encoding order.
pub mod gpr {
    /// RAX.
    pub const RAX: usize = 0;
    /// RCX.
    pub const RCX: usize = 1;
    /// RDX.
    pub const RDX: usize = 2;
    /// RBX.
    pub const RBX: usize = 3;
    /// RSP.
    pub const RSP: usize = 4;
    /// RBP.
    pub const RBP: usize = 5;
    /// RSI.
    pub const RSI: usize = 6;
    /// RDI.
    pub const RDI: usize = 7;
    /// R11, which SYSCALL fills.
    pub const R11: usize = 11;
}

/// Segment registers in encoding order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum SegReg {
    /// Extra.
    Es,
    /// Code.
    Cs,
    /// Stack.
    Ss,
    /// Data.
    Ds,
    /// FS.
    Fs,
    /// GS.
    Gs,
}

/// A segment register with its hidden part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Visible selector.
    pub selector: u16,
    /// Base.
    pub base: u64,
    /// Limit in bytes, granularity applied.
    pub limit: u32,
    /// Access rights as in descriptor bits 40 to 55 (type, S, DPL, P, AVL, L, D/B, G).
    pub rights: u16,
}

/// GDTR or IDTR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableReg {
    /// Linear base.
    pub base: u64,
    /// Limit.
    pub limit: u16,
}

/// x87 and SSE state as FXSAVE sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FpState {
    /// XMM0 to XMM15.
    pub xmm: [u128; 16],
    /// MXCSR.
    pub mxcsr: u32,
    /// x87 registers, physical order, 80 bits each.
    pub st: [u128; 8],
    /// Control word.
    pub fcw: u16,
    /// Status word.
    pub fsw: u16,
    /// Abridged tag word: one bit a register, set when valid.
    pub ftw: u8,
    /// Last opcode.
    pub fop: u16,
    /// Last instruction pointer.
    pub fip: u64,
    /// Last data pointer.
    pub fdp: u64,
    /// XCR0.
    pub xcr0: u64,
}

impl Default for FpState {
    fn default() -> Self {
        FpState {
            xmm: [0; 16],
            mxcsr: 0x1f80,
            st: [0; 8],
            fcw: 0x37f,
            fsw: 0,
            ftw: 0,
            fop: 0,
            fip: 0,
            fdp: 0,
            xcr0: 1,
        }
    }
}

/// Registers of one cpu.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub gpr: [u64; 16],
    /// Address of the next instruction.
    pub rip: u64,
    /// RFLAGS, bit 1 always set.
    pub rflags: u64,
    /// ES, CS, SS, DS, FS, GS.
    pub seg: [Segment; 6],
    /// LDTR.
    pub ldtr: Segment,
    /// Task register.
    pub tr: Segment,
    /// GDTR.
    pub gdtr: TableReg,
    /// IDTR.
    pub idtr: TableReg,
    /// CR0.
    pub cr0: u64,
    /// CR2.
    pub cr2: u64,
    /// CR3.
    pub cr3: u64,
    /// CR4.
    pub cr4: u64,
    /// DR0 to DR3, DR6, DR7 by number.
    pub dr: [u64; 8],
    /// IA32_EFER.
    pub efer: u64,
    /// IA32_STAR.
    pub star: u64,
    /// IA32_LSTAR.
    pub lstar: u64,
    /// IA32_CSTAR.
    pub cstar: u64,
    /// IA32_FMASK.
    pub fmask: u64,
    /// IA32_KERNEL_GS_BASE.
    pub kernel_gs_base: u64,
    /// IA32_TSC_AUX.
    pub tsc_aux: u64,
    /// TSC minus invariant counter.
    pub tsc_offset: u64,
    /// IA32_PAT.
    pub pat: u64,
    /// IA32_MISC_ENABLE.
    pub misc_enable: u64,
    /// IA32_UMWAIT_CONTROL.
    pub umwait_control: u64,
    /// IA32_SYSENTER_CS, ESP, EIP.
    pub sysenter: [u64; 3],
    /// x87 and SSE.
    pub fp: FpState,
}
