//! System registers by their encodings: who may name them, and what they hold or do.
//!
//! One row a register. A register is a cell of plain storage with the bits that can be written, a
//! constant, or one that something else answers (process state, timers, GIC, identification). A
//! register without a row is undefined, but for the identification space, which reads as zero.
//!
//! Not modelled: traps of EL1 registers to EL2 other than those of the physical timer and of SIMD,
//! VHE names, breakpoints and watchpoints (their registers hold what is written), event counters
//! (PMCR.N is 0), software step.
//!
//! Source: \[ArmARM\] "AArch64 System Register Descriptions", "System PMU registers". Status: spec.

use std::sync::LazyLock;

use emu_cpu::port::{Fence, Note, Port, TimeOrder};
use emu_sim::{Freq, SimTime};

use crate::cpu::ArmCpu;
use crate::ctx::{Ctx, Exception, Exec};
use crate::defs::{Ec, SysReg, sctlr, spsr};
use crate::gic::IccReg;
use crate::timer::TimerReg;

macro_rules! cells {
    ($($name:ident),* $(,)?) => {
        /// A register that is plain storage.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the names are those of the manual")]
        pub enum Cell { $($name),* }
        /// Number of cells.
        const CELLS: usize = [$(Cell::$name),*].len();
    };
}

cells! {
    SctlrEl1, ActlrEl1, CpacrEl1, Ttbr0El1, Ttbr1El1, TcrEl1, Afsr0El1, Afsr1El1, EsrEl1, FarEl1,
    ParEl1, MairEl1, AmairEl1, VbarEl1, ContextidrEl1, TpidrEl1, TpidrEl0, TpidrroEl0, CntkctlEl1,
    CsselrEl1, MdscrEl1, MdccintEl1, OsdlrEl1, DbgprcrEl1, DbgclaimEl1, OsLock, PmuserenrEl0,
    PmselrEl0, PmccfiltrEl0, Pmcnten, Pmovs, Pminten, PmcrEl0,
    SctlrEl2, ActlrEl2, HcrEl2, MdcrEl2, CptrEl2, HstrEl2, HacrEl2, Ttbr0El2, TcrEl2, VttbrEl2,
    VtcrEl2, Afsr0El2, Afsr1El2, EsrEl2, FarEl2, HpfarEl2, MairEl2, AmairEl2, VbarEl2, TpidrEl2,
    VpidrEl2, VmpidrEl2, CnthctlEl2, IchHcrEl2, IchVmcrEl2,
}

/// A register that is more than storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Special {
    Nzcv,
    Daif,
    CurrentEl,
    SpSel,
    Pan,
    Uao,
    Fpcr,
    Fpsr,
    /// Stack pointer of a level.
    Sp(u8),
    Elr(u8),
    Spsr(u8),
    Midr,
    Mpidr,
    Ccsidr,
    /// From the machine's list, or this value.
    Id(u64),
    Dczid,
    Isr,
    Oslar,
    Oslsr,
    /// Breakpoint or watchpoint register: kind 0 to 3, number.
    Debug(u8, u8),
    ClaimSet,
    ClaimClear,
    /// Bits of a cell are set by a write.
    SetBits(Cell),
    /// Bits of a cell are cleared by a write.
    ClearBits(Cell),
    Pmcr,
    Pmccntr,
    Timer(TimerReg),
    Icc(IccReg),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// Storage, with the bits that can be written.
    Cell(Cell, u64),
    Const(u64),
    Do(Special),
}

/// What lets EL0 name a register whose row says EL0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// SCTLR_EL1.UMA.
    Daif,
    /// SCTLR_EL1.UCT.
    CacheType,
    /// CPACR_EL1.FPEN, at all levels.
    Fp,
    /// PMUSERENR_EL0: EN, or this bit for reads.
    Pmu(u64),
    /// CNTKCTL_EL1: any of these bits.
    Timer(u64),
}

/// Least level that may do it; `NO` = none.
const NO: u8 = 9;

#[derive(Clone, Copy, Debug)]
struct Row {
    name: &'static str,
    reg: SysReg,
    read: u8,
    write: u8,
    gate: Gate,
    what: What,
}

const ALL: u64 = u64::MAX;
const LOW: u64 = 0xffff_ffff;

type Fields = (u16, u16, u16, u16, u16);

const fn row(name: &'static str, f: Fields, read: u8, write: u8, what: What) -> Row {
    Row { name, reg: SysReg::new(f.0, f.1, f.2, f.3, f.4), read, write, gate: Gate::Open, what }
}

const fn cell(name: &'static str, f: Fields, level: u8, cell: Cell, mask: u64) -> Row {
    row(name, f, level, level, What::Cell(cell, mask))
}

const fn special(name: &'static str, f: Fields, read: u8, write: u8, what: Special) -> Row {
    row(name, f, read, write, What::Do(what))
}

const fn zero(name: &'static str, f: Fields, level: u8) -> Row {
    row(name, f, level, level, What::Const(0))
}

/// A register of the generic timer that bits of CNTKCTL_EL1 open to EL0.
const fn timer(name: &'static str, f: Fields, write: u8, reg: TimerReg, bits: u64) -> Row {
    special(name, f, 0, write, Special::Timer(reg)).gate(Gate::Timer(bits))
}

/// A register of the performance monitors that PMUSERENR_EL0.EN opens to EL0.
const fn pmu(name: &'static str, f: Fields, what: Special) -> Row {
    special(name, f, 0, 0, what).gate(Gate::Pmu(0))
}

impl Row {
    const fn gate(self, gate: Gate) -> Row {
        Row { gate, ..self }
    }
}

#[rustfmt::skip]
const TABLE: &[Row] = &[
    // Process state.
    special("NZCV", (3, 3, 4, 2, 0), 0, 0, Special::Nzcv),
    special("DAIF", (3, 3, 4, 2, 1), 0, 0, Special::Daif).gate(Gate::Daif),
    special("CurrentEL", (3, 0, 4, 2, 2), 1, NO, Special::CurrentEl),
    special("SPSel", (3, 0, 4, 2, 0), 1, 1, Special::SpSel),
    special("PAN", (3, 0, 4, 2, 3), 1, 1, Special::Pan),
    special("UAO", (3, 0, 4, 2, 4), 1, 1, Special::Uao),
    special("FPCR", (3, 3, 4, 4, 0), 0, 0, Special::Fpcr).gate(Gate::Fp),
    special("FPSR", (3, 3, 4, 4, 1), 0, 0, Special::Fpsr).gate(Gate::Fp),
    special("SP_EL0", (3, 0, 4, 1, 0), 1, 1, Special::Sp(0)),
    special("SP_EL1", (3, 4, 4, 1, 0), 2, 2, Special::Sp(1)),
    special("SPSR_EL1", (3, 0, 4, 0, 0), 1, 1, Special::Spsr(1)),
    special("SPSR_EL2", (3, 4, 4, 0, 0), 2, 2, Special::Spsr(2)),
    special("ELR_EL1", (3, 0, 4, 0, 1), 1, 1, Special::Elr(1)),
    special("ELR_EL2", (3, 4, 4, 0, 1), 2, 2, Special::Elr(2)),
    // Identification; the rest of its space is in `id_space`.
    special("MIDR_EL1", (3, 0, 0, 0, 0), 1, NO, Special::Midr),
    special("MPIDR_EL1", (3, 0, 0, 0, 5), 1, NO, Special::Mpidr),
    special("REVIDR_EL1", (3, 0, 0, 0, 6), 1, NO, Special::Id(0)),
    special("CCSIDR_EL1", (3, 1, 0, 0, 0), 1, NO, Special::Ccsidr),
    special("CLIDR_EL1", (3, 1, 0, 0, 1), 1, NO, Special::Id(0)),
    special("AIDR_EL1", (3, 1, 0, 0, 7), 1, NO, Special::Id(0)),
    cell("CSSELR_EL1", (3, 2, 0, 0, 0), 1, Cell::CsselrEl1, 0xf),
    // Lines of 64 bytes, PIPT; IDC and DIC: caches are coherent with fetches.
    special("CTR_EL0", (3, 3, 0, 0, 1), 0, NO, Special::Id(0xb444_c004)).gate(Gate::CacheType),
    special("DCZID_EL0", (3, 3, 0, 0, 7), 0, NO, Special::Dczid),
    // EL1 control.
    cell("SCTLR_EL1", (3, 0, 1, 0, 0), 1, Cell::SctlrEl1, ALL),
    cell("ACTLR_EL1", (3, 0, 1, 0, 1), 1, Cell::ActlrEl1, 0),
    cell("CPACR_EL1", (3, 0, 1, 0, 2), 1, Cell::CpacrEl1, 3 << 20),
    cell("TTBR0_EL1", (3, 0, 2, 0, 0), 1, Cell::Ttbr0El1, ALL),
    cell("TTBR1_EL1", (3, 0, 2, 0, 1), 1, Cell::Ttbr1El1, ALL),
    cell("TCR_EL1", (3, 0, 2, 0, 2), 1, Cell::TcrEl1, ALL),
    cell("AFSR0_EL1", (3, 0, 5, 1, 0), 1, Cell::Afsr0El1, LOW),
    cell("AFSR1_EL1", (3, 0, 5, 1, 1), 1, Cell::Afsr1El1, LOW),
    cell("ESR_EL1", (3, 0, 5, 2, 0), 1, Cell::EsrEl1, LOW),
    cell("FAR_EL1", (3, 0, 6, 0, 0), 1, Cell::FarEl1, ALL),
    cell("PAR_EL1", (3, 0, 7, 4, 0), 1, Cell::ParEl1, ALL),
    cell("MAIR_EL1", (3, 0, 10, 2, 0), 1, Cell::MairEl1, ALL),
    cell("AMAIR_EL1", (3, 0, 10, 3, 0), 1, Cell::AmairEl1, ALL),
    cell("VBAR_EL1", (3, 0, 12, 0, 0), 1, Cell::VbarEl1, !0x7ff),
    special("ISR_EL1", (3, 0, 12, 1, 0), 1, NO, Special::Isr),
    cell("CONTEXTIDR_EL1", (3, 0, 13, 0, 1), 1, Cell::ContextidrEl1, LOW),
    cell("TPIDR_EL1", (3, 0, 13, 0, 4), 1, Cell::TpidrEl1, ALL),
    cell("TPIDR_EL0", (3, 3, 13, 0, 2), 0, Cell::TpidrEl0, ALL),
    row("TPIDRRO_EL0", (3, 3, 13, 0, 3), 0, 1, What::Cell(Cell::TpidrroEl0, ALL)),
    cell("CNTKCTL_EL1", (3, 0, 14, 1, 0), 1, Cell::CntkctlEl1, 0x203ff),
    // Debug.
    cell("MDSCR_EL1", (2, 0, 0, 2, 2), 1, Cell::MdscrEl1, LOW),
    cell("MDCCINT_EL1", (2, 0, 0, 2, 0), 1, Cell::MdccintEl1, 3 << 29),
    zero("OSDTRRX_EL1", (2, 0, 0, 0, 2), 1),
    zero("OSDTRTX_EL1", (2, 0, 0, 3, 2), 1),
    zero("OSECCR_EL1", (2, 0, 0, 6, 2), 1),
    row("MDRAR_EL1", (2, 0, 1, 0, 0), 1, NO, What::Const(0)),
    special("OSLAR_EL1", (2, 0, 1, 0, 4), NO, 1, Special::Oslar),
    special("OSLSR_EL1", (2, 0, 1, 1, 4), 1, NO, Special::Oslsr),
    cell("OSDLR_EL1", (2, 0, 1, 3, 4), 1, Cell::OsdlrEl1, 1),
    cell("DBGPRCR_EL1", (2, 0, 1, 4, 4), 1, Cell::DbgprcrEl1, 1),
    special("DBGCLAIMSET_EL1", (2, 0, 7, 8, 6), 1, 1, Special::ClaimSet),
    special("DBGCLAIMCLR_EL1", (2, 0, 7, 9, 6), 1, 1, Special::ClaimClear),
    row("DBGAUTHSTATUS_EL1", (2, 0, 7, 14, 6), 1, NO, What::Const(0)),
    row("MDCCSR_EL0", (2, 3, 0, 1, 0), 0, NO, What::Const(0)),
    // Performance monitors.
    pmu("PMCR_EL0", (3, 3, 9, 12, 0), Special::Pmcr),
    pmu("PMCNTENSET_EL0", (3, 3, 9, 12, 1), Special::SetBits(Cell::Pmcnten)),
    pmu("PMCNTENCLR_EL0", (3, 3, 9, 12, 2), Special::ClearBits(Cell::Pmcnten)),
    pmu("PMOVSCLR_EL0", (3, 3, 9, 12, 3), Special::ClearBits(Cell::Pmovs)),
    row("PMSWINC_EL0", (3, 3, 9, 12, 4), NO, 0, What::Const(0)).gate(Gate::Pmu(0)),
    cell("PMSELR_EL0", (3, 3, 9, 12, 5), 0, Cell::PmselrEl0, 0x1f).gate(Gate::Pmu(0)),
    row("PMCEID0_EL0", (3, 3, 9, 12, 6), 0, NO, What::Const(1 << 0x11)).gate(Gate::Pmu(0)),
    row("PMCEID1_EL0", (3, 3, 9, 12, 7), 0, NO, What::Const(0)).gate(Gate::Pmu(0)),
    special("PMCCNTR_EL0", (3, 3, 9, 13, 0), 0, 0, Special::Pmccntr).gate(Gate::Pmu(1 << 2)),
    zero("PMXEVTYPER_EL0", (3, 3, 9, 13, 1), 0).gate(Gate::Pmu(0)),
    zero("PMXEVCNTR_EL0", (3, 3, 9, 13, 2), 0).gate(Gate::Pmu(0)),
    row("PMUSERENR_EL0", (3, 3, 9, 14, 0), 0, 1, What::Cell(Cell::PmuserenrEl0, 0xf)),
    pmu("PMOVSSET_EL0", (3, 3, 9, 14, 3), Special::SetBits(Cell::Pmovs)),
    cell("PMCCFILTR_EL0", (3, 3, 14, 15, 7), 0, Cell::PmccfiltrEl0, 0xf800_0000).gate(Gate::Pmu(0)),
    special("PMINTENSET_EL1", (3, 0, 9, 14, 1), 1, 1, Special::SetBits(Cell::Pminten)),
    special("PMINTENCLR_EL1", (3, 0, 9, 14, 2), 1, 1, Special::ClearBits(Cell::Pminten)),
    // Generic timer.
    timer("CNTFRQ_EL0", (3, 3, 14, 0, 0), 2, TimerReg::Freq, 3),
    timer("CNTPCT_EL0", (3, 3, 14, 0, 1), NO, TimerReg::PhysCount, 1),
    timer("CNTVCT_EL0", (3, 3, 14, 0, 2), NO, TimerReg::VirtCount, 2),
    timer("CNTP_TVAL_EL0", (3, 3, 14, 2, 0), 0, TimerReg::PhysTval, 1 << 9),
    timer("CNTP_CTL_EL0", (3, 3, 14, 2, 1), 0, TimerReg::PhysCtl, 1 << 9),
    timer("CNTP_CVAL_EL0", (3, 3, 14, 2, 2), 0, TimerReg::PhysCval, 1 << 9),
    timer("CNTV_TVAL_EL0", (3, 3, 14, 3, 0), 0, TimerReg::VirtTval, 1 << 8),
    timer("CNTV_CTL_EL0", (3, 3, 14, 3, 1), 0, TimerReg::VirtCtl, 1 << 8),
    timer("CNTV_CVAL_EL0", (3, 3, 14, 3, 2), 0, TimerReg::VirtCval, 1 << 8),
    special("CNTVOFF_EL2", (3, 4, 14, 0, 3), 2, 2, Special::Timer(TimerReg::Offset)),
    special("CNTHP_TVAL_EL2", (3, 4, 14, 2, 0), 2, 2, Special::Timer(TimerReg::HypTval)),
    special("CNTHP_CTL_EL2", (3, 4, 14, 2, 1), 2, 2, Special::Timer(TimerReg::HypCtl)),
    special("CNTHP_CVAL_EL2", (3, 4, 14, 2, 2), 2, 2, Special::Timer(TimerReg::HypCval)),
    cell("CNTHCTL_EL2", (3, 4, 14, 1, 0), 2, Cell::CnthctlEl2, 0xff),
    // GIC CPU interface.
    special("ICC_PMR_EL1", (3, 0, 4, 6, 0), 1, 1, Special::Icc(IccReg::Pmr)),
    special("ICC_IAR0_EL1", (3, 0, 12, 8, 0), 1, NO, Special::Icc(IccReg::Iar(0))),
    special("ICC_EOIR0_EL1", (3, 0, 12, 8, 1), NO, 1, Special::Icc(IccReg::Eoir(0))),
    special("ICC_HPPIR0_EL1", (3, 0, 12, 8, 2), 1, NO, Special::Icc(IccReg::Hppir(0))),
    special("ICC_BPR0_EL1", (3, 0, 12, 8, 3), 1, 1, Special::Icc(IccReg::Bpr(0))),
    special("ICC_AP0R0_EL1", (3, 0, 12, 8, 4), 1, 1, Special::Icc(IccReg::Apr(0))),
    special("ICC_AP1R0_EL1", (3, 0, 12, 9, 0), 1, 1, Special::Icc(IccReg::Apr(1))),
    special("ICC_DIR_EL1", (3, 0, 12, 11, 1), NO, 1, Special::Icc(IccReg::Dir)),
    special("ICC_RPR_EL1", (3, 0, 12, 11, 3), 1, NO, Special::Icc(IccReg::Rpr)),
    special("ICC_SGI1R_EL1", (3, 0, 12, 11, 5), NO, 1, Special::Icc(IccReg::Sgi)),
    special("ICC_ASGI1R_EL1", (3, 0, 12, 11, 6), NO, 1, Special::Icc(IccReg::Sgi)),
    special("ICC_SGI0R_EL1", (3, 0, 12, 11, 7), NO, 1, Special::Icc(IccReg::Sgi)),
    special("ICC_IAR1_EL1", (3, 0, 12, 12, 0), 1, NO, Special::Icc(IccReg::Iar(1))),
    special("ICC_EOIR1_EL1", (3, 0, 12, 12, 1), NO, 1, Special::Icc(IccReg::Eoir(1))),
    special("ICC_HPPIR1_EL1", (3, 0, 12, 12, 2), 1, NO, Special::Icc(IccReg::Hppir(1))),
    special("ICC_BPR1_EL1", (3, 0, 12, 12, 3), 1, 1, Special::Icc(IccReg::Bpr(1))),
    special("ICC_CTLR_EL1", (3, 0, 12, 12, 4), 1, 1, Special::Icc(IccReg::Ctlr)),
    special("ICC_SRE_EL1", (3, 0, 12, 12, 5), 1, 1, Special::Icc(IccReg::Sre)),
    special("ICC_IGRPEN0_EL1", (3, 0, 12, 12, 6), 1, 1, Special::Icc(IccReg::Igrpen(0))),
    special("ICC_IGRPEN1_EL1", (3, 0, 12, 12, 7), 1, 1, Special::Icc(IccReg::Igrpen(1))),
    // EL2.
    cell("VPIDR_EL2", (3, 4, 0, 0, 0), 2, Cell::VpidrEl2, LOW),
    cell("VMPIDR_EL2", (3, 4, 0, 0, 5), 2, Cell::VmpidrEl2, ALL),
    cell("SCTLR_EL2", (3, 4, 1, 0, 0), 2, Cell::SctlrEl2, ALL),
    cell("ACTLR_EL2", (3, 4, 1, 0, 1), 2, Cell::ActlrEl2, 0),
    cell("HCR_EL2", (3, 4, 1, 1, 0), 2, Cell::HcrEl2, !(1 << 34)),
    cell("MDCR_EL2", (3, 4, 1, 1, 1), 2, Cell::MdcrEl2, LOW),
    cell("CPTR_EL2", (3, 4, 1, 1, 2), 2, Cell::CptrEl2, LOW),
    cell("HSTR_EL2", (3, 4, 1, 1, 3), 2, Cell::HstrEl2, LOW),
    cell("HACR_EL2", (3, 4, 1, 1, 7), 2, Cell::HacrEl2, 0),
    cell("TTBR0_EL2", (3, 4, 2, 0, 0), 2, Cell::Ttbr0El2, ALL),
    cell("TCR_EL2", (3, 4, 2, 0, 2), 2, Cell::TcrEl2, ALL),
    cell("VTTBR_EL2", (3, 4, 2, 1, 0), 2, Cell::VttbrEl2, ALL),
    cell("VTCR_EL2", (3, 4, 2, 1, 2), 2, Cell::VtcrEl2, LOW),
    zero("DACR32_EL2", (3, 4, 3, 0, 0), 2),
    zero("IFSR32_EL2", (3, 4, 5, 0, 1), 2),
    cell("AFSR0_EL2", (3, 4, 5, 1, 0), 2, Cell::Afsr0El2, LOW),
    cell("AFSR1_EL2", (3, 4, 5, 1, 1), 2, Cell::Afsr1El2, LOW),
    cell("ESR_EL2", (3, 4, 5, 2, 0), 2, Cell::EsrEl2, LOW),
    zero("FPEXC32_EL2", (3, 4, 5, 3, 0), 2),
    cell("FAR_EL2", (3, 4, 6, 0, 0), 2, Cell::FarEl2, ALL),
    cell("HPFAR_EL2", (3, 4, 6, 0, 4), 2, Cell::HpfarEl2, ALL),
    cell("MAIR_EL2", (3, 4, 10, 2, 0), 2, Cell::MairEl2, ALL),
    cell("AMAIR_EL2", (3, 4, 10, 3, 0), 2, Cell::AmairEl2, ALL),
    cell("VBAR_EL2", (3, 4, 12, 0, 0), 2, Cell::VbarEl2, !0x7ff),
    special("ICC_SRE_EL2", (3, 4, 12, 9, 5), 2, 2, Special::Icc(IccReg::SreEl2)),
    cell("ICH_HCR_EL2", (3, 4, 12, 11, 0), 2, Cell::IchHcrEl2, LOW),
    row("ICH_VTR_EL2", (3, 4, 12, 11, 1), 2, NO, What::Const(0x9000_0003)),
    cell("ICH_VMCR_EL2", (3, 4, 12, 11, 7), 2, Cell::IchVmcrEl2, LOW),
    cell("TPIDR_EL2", (3, 4, 13, 0, 2), 2, Cell::TpidrEl2, ALL),
];

/// All rows by encoding, with the numbered debug registers.
static ROWS: LazyLock<Box<[Row]>> = LazyLock::new(|| {
    const DEBUG: [&str; 4] = ["DBGBVRn_EL1", "DBGBCRn_EL1", "DBGWVRn_EL1", "DBGWCRn_EL1"];
    let numbered = (0..16u8).flat_map(|n| {
        (0..4u8).map(move |kind| {
            let fields = (2, 0, 0, u16::from(n), u16::from(4 + kind));
            special(DEBUG[usize::from(kind)], fields, 1, 1, Special::Debug(kind, n))
        })
    });
    let mut rows: Vec<Row> = TABLE.iter().copied().chain(numbered).collect();
    rows.sort_by_key(|row| row.reg);
    rows.into_boxed_slice()
});

fn find(reg: SysReg) -> Option<&'static Row> {
    let at = ROWS.binary_search_by_key(&reg, |row| row.reg).ok()?;
    Some(&ROWS[at])
}

/// Name of a register, for reports.
#[must_use]
pub fn name(reg: SysReg) -> Option<&'static str> {
    find(reg).map(|row| row.name)
}

/// Whether a register lies in the identification space: op0 3, op1 0, CRn 0, CRm 1 to 7.
fn is_id_space(reg: SysReg) -> bool {
    matches!(reg.fields(), (3, 0, 0, 1..=7, _))
}

/// Syndrome of a trapped access; the number of the general register is the caller's.
pub(crate) fn syndrome(reg: SysReg, is_read: bool) -> u32 {
    let (op0, op1, crn, crm, op2) = reg.fields();
    u32::from(op0) << 20
        | u32::from(op2) << 17
        | u32::from(op1) << 14
        | u32::from(crn) << 10
        | u32::from(crm) << 1
        | u32::from(is_read)
}

/// A trapped access.
pub(crate) fn trapped(reg: SysReg, is_read: bool, level: u8) -> Exception {
    let iss = syndrome(reg, is_read);
    Exception { class: Ec::SysReg, iss, far: None, level, is_after: false }
}

/// Cycle counter: cycles that were counted, and since when it runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CycleCounter {
    base: u64,
    since: Option<SimTime>,
}

impl CycleCounter {
    fn value(self, clock: Freq, now: SimTime) -> u64 {
        let ran = |since| clock.count_at(now).wrapping_sub(clock.count_at(since));
        self.base.wrapping_add(self.since.map_or(0, ran))
    }

    fn set(&mut self, value: u64, runs: bool, now: SimTime) {
        *self = CycleCounter { base: value, since: runs.then_some(now) };
    }
}

/// The registers of one cpu that are storage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SysRegs {
    cells: [u64; CELLS],
    debug: [[u64; 16]; 4],
    cycles: CycleCounter,
}

impl std::ops::Index<Cell> for SysRegs {
    type Output = u64;

    #[inline(always)]
    fn index(&self, cell: Cell) -> &u64 {
        &self.cells[cell as usize]
    }
}

impl std::ops::IndexMut<Cell> for SysRegs {
    #[inline(always)]
    fn index_mut(&mut self, cell: Cell) -> &mut u64 {
        &mut self.cells[cell as usize]
    }
}

/// PMCR_EL0: enable, and what can be written.
const PMCR_E: u64 = 1;
const PMCR_C: u64 = 1 << 2;
const PMCR_KEPT: u64 = 0x79 & !PMCR_C;
/// PMCR_EL0.LC reads 1.
const PMCR_LC: u64 = 1 << 6;
/// The cycle counter in enable and overflow registers.
const CYCLE: u64 = 1 << 31;

impl SysRegs {
    /// Registers after reset; with the identity that EL1 reads.
    #[must_use]
    pub fn new(midr: u64, mpidr: u64) -> SysRegs {
        let mut regs =
            SysRegs { cells: [0; CELLS], debug: [[0; 16]; 4], cycles: CycleCounter::default() };
        regs[Cell::SctlrEl1] = sctlr::RES1;
        regs[Cell::SctlrEl2] = 0x30c5_0830;
        regs[Cell::OsLock] = 1;
        regs[Cell::CptrEl2] = 0x33ff;
        regs[Cell::VpidrEl2] = midr;
        regs[Cell::VmpidrEl2] = mpidr;
        regs
    }

    fn counts_cycles(&self) -> bool {
        self[Cell::PmcrEl0] & PMCR_E != 0 && self[Cell::Pmcnten] & CYCLE != 0
    }
}

/// Whether a change of the cell changes translations or the rights of accesses.
const fn is_translation(cell: Cell) -> bool {
    matches!(
        cell,
        Cell::SctlrEl1
            | Cell::TcrEl1
            | Cell::Ttbr0El1
            | Cell::Ttbr1El1
            | Cell::MairEl1
            | Cell::SctlrEl2
            | Cell::TcrEl2
            | Cell::Ttbr0El2
            | Cell::MairEl2
            | Cell::HcrEl2
    )
}

impl<P: Port> Ctx<'_, P> {
    /// Reads a register for MRS.
    ///
    /// # Errors
    /// Undefined, traps by control registers, `Wait`.
    pub fn read_sysreg(&mut self, reg: SysReg) -> Exec<u64> {
        let Some(row) = find(reg) else {
            if is_id_space(reg) && self.cpu.state.pstate.el > 0 {
                return Ok(self.cpu.id_register(reg).unwrap_or(0));
            }
            return Err(Exception::undefined().into());
        };
        self.check_access(row, true)?;
        match row.what {
            What::Cell(cell, _) => Ok(self.cpu.sys[cell]),
            What::Const(value) => Ok(value),
            What::Do(special) => self.read_special(reg, special),
        }
    }

    /// Writes a register for MSR. It must be the last request of its instruction.
    ///
    /// # Errors
    /// Undefined, traps by control registers, `Wait`.
    pub fn write_sysreg(&mut self, reg: SysReg, value: u64) -> Exec<()> {
        let Some(row) = find(reg) else { return Err(Exception::undefined().into()) };
        self.check_access(row, false)?;
        match row.what {
            What::Cell(cell, mask) => self.cpu.write_cell(cell, value & mask),
            What::Const(_) => {}
            What::Do(special) => self.write_special(special, value)?,
        }
        Ok(())
    }

    /// MSR (immediate): `reg` holds its fields op1 and op2.
    ///
    /// # Errors
    /// Undefined; DAIF at EL0 without SCTLR_EL1.UMA.
    ///
    /// Source: \[ArmARM\] "MSR (immediate)".
    pub fn write_pstate(&mut self, reg: SysReg, imm: u8) -> Exec<()> {
        let (_, op1, _, _, op2) = reg.fields();
        const DAIF: SysReg = SysReg::new(3, 3, 4, 2, 1);
        let el = self.cpu.state.pstate.el;
        let is_set = imm & 1 != 0;
        match (op1, op2) {
            (3, 6 | 7) => {
                if el == 0 && self.cpu.sys[Cell::SctlrEl1] & sctlr::UMA == 0 {
                    return Err(trapped(DAIF, false, 1).into());
                }
                let bits = u32::from(imm & 15) << 6;
                let daif = &mut self.cpu.state.pstate.daif;
                *daif = if op2 == 6 { *daif | bits } else { *daif & !bits };
                self.masks_changed();
            }
            _ if el == 0 => return Err(Exception::undefined().into()),
            (0, 3) if self.cpu.has_uao() => self.cpu.state.pstate.uao = is_set,
            (0, 4) if self.cpu.has_pan() => self.cpu.state.pstate.pan = is_set,
            (0, 5) => self.cpu.state.pstate.spsel = is_set,
            _ => return Err(Exception::undefined().into()),
        }
        Ok(())
    }

    /// Whether SIMD and floating point may be used, for the bodies of both.
    ///
    /// # Errors
    /// EC 0x07 by CPACR_EL1.FPEN or CPTR_EL2.TFP.
    pub fn check_fp(&self) -> Exec<()> {
        let el = self.cpu.state.pstate.el;
        let fpen = self.cpu.sys[Cell::CpacrEl1] >> 20 & 3;
        let is_open = el == 2 || fpen == 3 || fpen == 1 && el == 1;
        let level = if !is_open {
            1
        } else if self.cpu.has_el2() && self.cpu.sys[Cell::CptrEl2] >> 10 & 1 != 0 {
            2
        } else {
            return Ok(());
        };
        // "COND 0b1110, CV 1" for AArch64.
        let iss = 1 << 24 | 0xe << 20;
        Err(Exception { class: Ec::Fp, iss, far: None, level, is_after: false }.into())
    }

    fn check_access(&self, row: &Row, is_read: bool) -> Exec<()> {
        let el = self.cpu.state.pstate.el;
        if el < if is_read { row.read } else { row.write } {
            return Err(Exception::undefined().into());
        }
        let sys = &self.cpu.sys;
        let is_open = match row.gate {
            Gate::Fp => return self.check_fp(),
            Gate::Timer(bits) => {
                self.check_physical_timer(row, is_read)?;
                el > 0 || sys[Cell::CntkctlEl1] & bits != 0
            }
            _ if el > 0 => true,
            Gate::Open => true,
            Gate::Daif => sys[Cell::SctlrEl1] & sctlr::UMA != 0,
            Gate::CacheType => sys[Cell::SctlrEl1] & sctlr::UCT != 0,
            Gate::Pmu(more) => sys[Cell::PmuserenrEl0] & (1 | if is_read { more } else { 0 }) != 0,
        };
        if is_open { Ok(()) } else { Err(trapped(row.reg, is_read, 1).into()) }
    }

    /// CNTHCTL_EL2.EL1PCTEN and EL1PCEN: "Traps EL0 and EL1 accesses to EL2".
    fn check_physical_timer(&self, row: &Row, is_read: bool) -> Exec<()> {
        let What::Do(Special::Timer(timer)) = row.what else { return Ok(()) };
        if !self.cpu.has_el2() || self.cpu.state.pstate.el == 2 {
            return Ok(());
        }
        let bit = match timer {
            TimerReg::PhysCount => 1,
            TimerReg::PhysTval | TimerReg::PhysCtl | TimerReg::PhysCval => 2,
            _ => return Ok(()),
        };
        if self.cpu.sys[Cell::CnthctlEl2] & bit != 0 {
            return Ok(());
        }
        Err(trapped(row.reg, is_read, 2).into())
    }

    /// Simulated time after all older instructions, for registers that count.
    pub(crate) fn now(&mut self) -> SimTime {
        self.port.time(TimeOrder::Retired)
    }

    fn read_special(&mut self, reg: SysReg, special: Special) -> Exec<u64> {
        let cpu = &*self.cpu;
        let pstate = cpu.state.pstate;
        Ok(match special {
            Special::Nzcv => u64::from(pstate.nzcv),
            Special::Daif => u64::from(pstate.daif),
            Special::CurrentEl => u64::from(pstate.el) << 2,
            Special::SpSel => u64::from(pstate.spsel),
            Special::Pan if cpu.has_pan() => {
                if pstate.pan {
                    spsr::PAN
                } else {
                    0
                }
            }
            Special::Uao if cpu.has_uao() => {
                if pstate.uao {
                    spsr::UAO
                } else {
                    0
                }
            }
            Special::Pan | Special::Uao => return Err(Exception::undefined().into()),
            Special::Fpcr => u64::from(cpu.state.fpcr),
            Special::Fpsr => u64::from(cpu.state.fpsr),
            Special::Sp(level) => {
                self.check_sp_register(level)?;
                self.cpu.state.sp[usize::from(level)]
            }
            Special::Elr(level) => cpu.state.elr[usize::from(level)],
            Special::Spsr(level) => cpu.state.spsr[usize::from(level)],
            // EL1 reads what EL2 has set.
            Special::Midr if pstate.el == 1 && cpu.has_el2() => cpu.sys[Cell::VpidrEl2],
            Special::Mpidr if pstate.el == 1 && cpu.has_el2() => cpu.sys[Cell::VmpidrEl2],
            Special::Midr => cpu.identity.midr,
            Special::Mpidr => cpu.identity.mpidr,
            Special::Ccsidr => cpu.ccsidr(),
            Special::Id(default) => cpu.id_register(reg).unwrap_or(default),
            Special::Dczid => {
                let is_off = pstate.el == 0 && cpu.sys[Cell::SctlrEl1] & sctlr::DZE == 0;
                4 | u64::from(is_off) << 4
            }
            Special::Isr => cpu.pending_summary(),
            Special::Oslar => 0,
            Special::Oslsr => 1 << 3 | cpu.sys[Cell::OsLock] << 1,
            Special::Debug(kind, n) => cpu.sys.debug[usize::from(kind)][usize::from(n)],
            Special::ClaimSet => 0xff,
            Special::ClaimClear => cpu.sys[Cell::DbgclaimEl1],
            Special::SetBits(cell) | Special::ClearBits(cell) => cpu.sys[cell],
            // "IMP, IDCODE: 0; N: 0 event counters".
            Special::Pmcr => cpu.sys[Cell::PmcrEl0] | PMCR_LC,
            Special::Pmccntr => {
                let now = self.now();
                self.cpu.sys.cycles.value(self.cpu.config.cycle, now)
            }
            Special::Timer(timer) => {
                let now = self.now();
                self.cpu.timer.read(timer, now)
            }
            Special::Icc(icc) => self.read_icc(icc)?,
        })
    }

    /// SP_EL0 is undefined while it is the stack pointer in use.
    fn check_sp_register(&self, level: u8) -> Exec<()> {
        let pstate = self.cpu.state.pstate;
        if level == 0 && !pstate.spsel { Err(Exception::undefined().into()) } else { Ok(()) }
    }

    fn write_special(&mut self, special: Special, value: u64) -> Exec<()> {
        match special {
            Special::Timer(timer) => return self.write_timer(timer, value),
            Special::Icc(icc) => return self.write_icc(icc, value),
            Special::Pmcr | Special::Pmccntr | Special::SetBits(_) | Special::ClearBits(_) => {
                self.write_pmu(special, value);
            }
            Special::Sp(level) => {
                self.check_sp_register(level)?;
                self.cpu.state.sp[usize::from(level)] = value;
            }
            Special::Pan if !self.cpu.has_pan() => return Err(Exception::undefined().into()),
            Special::Uao if !self.cpu.has_uao() => return Err(Exception::undefined().into()),
            Special::Daif => {
                self.cpu.state.pstate.daif = (value & 0x3c0) as u32;
                self.masks_changed();
            }
            _ => self.cpu.write_state(special, value),
        }
        Ok(())
    }

    fn write_pmu(&mut self, special: Special, value: u64) {
        let now = self.now();
        let clock = self.cpu.config.cycle;
        let sys = &mut self.cpu.sys;
        let mut count = sys.cycles.value(clock, now);
        match special {
            Special::Pmcr => {
                if value & PMCR_C != 0 {
                    count = 0;
                }
                sys[Cell::PmcrEl0] = value & PMCR_KEPT;
            }
            Special::Pmccntr => count = value,
            Special::SetBits(cell) => sys[cell] |= value & CYCLE,
            Special::ClearBits(cell) => sys[cell] &= !(value & CYCLE),
            _ => {}
        }
        let runs = sys.counts_cycles();
        sys.cycles.set(count, runs, now);
    }

    fn write_timer(&mut self, timer: TimerReg, value: u64) -> Exec<()> {
        let now = self.now();
        self.cpu.timer.write(timer, value, now);
        self.cpu.update_timer_lines(now);
        self.port.set_timer(self.cpu.timer.next_expiry(now));
        Ok(())
    }

    /// Follows a change of PSTATE.DAIF.
    pub(crate) fn masks_changed(&mut self) {
        let is_open = u64::from(self.cpu.state.pstate.daif) & spsr::I == 0;
        self.port.note(Note::InterruptFlag(is_open));
        self.cpu.refresh_attention();
    }

    /// Waits for older stores, for registers whose writes tell others.
    pub(crate) fn drain(&mut self) -> Exec<()> {
        Ok(self.port.fence(Fence::Full)?)
    }
}

impl ArmCpu {
    /// Whether PSTATE.PAN is there.
    pub(crate) fn has_pan(&self) -> bool {
        self.has(crate::defs::Features::PAN)
    }

    /// Whether PSTATE.UAO is there.
    pub(crate) fn has_uao(&self) -> bool {
        self.has(crate::defs::Features::UAO)
    }

    /// An identification register of the machine.
    fn id_register(&self, reg: SysReg) -> Option<u64> {
        self.config.ids.iter().find(|row| row.0 == reg).map(|row| row.1)
    }

    /// Description of the cache that CSSELR_EL1 selects; unknown caches read as zero.
    fn ccsidr(&self) -> u64 {
        let select = self.sys[Cell::CsselrEl1];
        self.config.ccsidr.iter().find(|row| row.0 == select).map_or(0, |row| row.1)
    }

    /// Stores a cell; what depends on translations is forgotten where one may have changed.
    pub(crate) fn write_cell(&mut self, cell: Cell, value: u64) {
        let is_changed = self.sys[cell] != value;
        self.sys[cell] = value;
        if is_changed && is_translation(cell) {
            self.tlb.forget_shortcuts();
            self.refresh_attention();
        }
    }

    fn write_state(&mut self, special: Special, value: u64) {
        let state = &mut self.state;
        match special {
            Special::Nzcv => state.pstate.nzcv = (value & 0xf000_0000) as u32,
            Special::SpSel => state.pstate.spsel = value & 1 != 0,
            Special::Pan => state.pstate.pan = value & spsr::PAN != 0,
            Special::Uao => state.pstate.uao = value & spsr::UAO != 0,
            // AHP, DN, FZ, RMode, FZ16; trap enables read as zero.
            Special::Fpcr => state.fpcr = (value & 0x07c8_0000) as u32,
            Special::Fpsr => state.fpsr = (value & 0xf800_009f) as u32,
            Special::Elr(level) => state.elr[usize::from(level)] = value,
            Special::Spsr(level) => state.spsr[usize::from(level)] = value & LOW,
            Special::Oslar => self.sys[Cell::OsLock] = value & 1,
            Special::Debug(kind, n) => self.sys.debug[usize::from(kind)][usize::from(n)] = value,
            Special::ClaimSet => self.sys[Cell::DbgclaimEl1] |= value & 0xff,
            Special::ClaimClear => self.sys[Cell::DbgclaimEl1] &= !value,
            _ => {}
        }
    }
}
