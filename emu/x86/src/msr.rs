//! Model-specific registers: what RDMSR and WRMSR reach.
//!
//! Modelled: the table below. MTRRs (which refuse reserved bits), microcode revision, machine-check
//! capability and speculation controls hold or give values and do nothing. An unknown number is
//! #GP(0) and reported once per address, like an instruction that is not implemented: opcode, then
//! the number.
//!
//! Source: [SDM-4] "Architectural MSRs"; [APM-2] "MSR Cross-Reference".

use emu_cpu::port::{Fence, Port};

use crate::apic::LocalApic;
use crate::cpu::X86Cpu;
use crate::ctx::{Ctx, Exception, Exec, Trap};
use crate::defs::{Features, Vendor, cr0, efer, msr};
use crate::state::{SegReg, gpr};

/// Variable-range MTRRs (pairs) that the capability register names.
const MTRR_PAIRS: usize = 8;
const FIXED_MTRRS: usize = (msr::MTRR_FIX_LAST - msr::MTRR_FIX_FIRST + 1) as usize;

/// Registers that nothing in the model reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MsrFile {
    mtrr_variable: [u64; 2 * MTRR_PAIRS],
    mtrr_fixed: [u64; FIXED_MTRRS],
    mtrr_default: u64,
    spec_ctrl: u64,
    mcg_status: u64,
    amd_syscfg: u64,
    amd_hwcr: u64,
    tsc_adjust: u64,
}

impl MsrFile {
    /// Values after reset: MTRRs on, default write-back, as firmware leaves them.
    pub(crate) fn new() -> Self {
        MsrFile {
            mtrr_variable: [0; 2 * MTRR_PAIRS],
            mtrr_fixed: [0x0606_0606_0606_0606; FIXED_MTRRS],
            mtrr_default: 0xc06,
            spec_ctrl: 0,
            mcg_status: 0,
            amd_syscfg: 0,
            amd_hwcr: 0,
            tsc_adjust: 0,
        }
    }

    fn mtrr(&mut self, number: u32) -> Option<&mut u64> {
        match number {
            msr::MTRR_PHYS_FIRST..=msr::MTRR_PHYS_LAST => {
                Some(&mut self.mtrr_variable[(number - msr::MTRR_PHYS_FIRST) as usize])
            }
            0x250 | 0x258 | 0x259 | 0x268..=0x26f => {
                Some(&mut self.mtrr_fixed[(number - msr::MTRR_FIX_FIRST) as usize])
            }
            msr::MTRR_DEF_TYPE => Some(&mut self.mtrr_default),
            _ => None,
        }
    }
}

impl X86Cpu {
    /// Bits of the byte of a fixed range that give its type.
    ///
    /// Source: [APM-2] "Extended Fixed-Range MTRR Type-Field Encodings": with SYSCFG bit 19, two
    /// bits of the byte say whether reads and writes go to memory.
    fn mtrr_types(&self) -> u8 {
        let is_extended = self.config.vendor == Vendor::Amd && self.msrs.amd_syscfg >> 19 & 1 != 0;
        if is_extended { 0xe7 } else { 0xff }
    }
}

/// Bits of an MTRR that must be 0, those of a reserved type among them.
///
/// Source: [SDM-3] "Memory Type Range Registers", the figures of each register. Status: spec.
fn mtrr_reserved(number: u32, fixed_types: u8, width: u32, value: u64) -> u64 {
    let of_type = |byte: u8| if matches!(byte, 0 | 1 | 4..=6) { 0 } else { u64::from(byte) };
    let beyond = u64::MAX << width;
    match number {
        msr::MTRR_DEF_TYPE => !0xcff | of_type(value as u8),
        msr::MTRR_PHYS_FIRST..=msr::MTRR_PHYS_LAST if number & 1 == 0 => {
            beyond | 0xf00 | of_type(value as u8)
        }
        msr::MTRR_PHYS_FIRST..=msr::MTRR_PHYS_LAST => beyond | 0x7ff,
        _ => {
            let bytes = value.to_le_bytes().map(|byte| of_type(byte & fixed_types) as u8);
            u64::from_le_bytes(bytes)
        }
    }
}

/// Error of a register that is not there, or a value that it does not take.
const GP: Exception = Exception::gp(0);

impl<P: Port> Ctx<'_, P> {
    /// RDMSR of `number`.
    ///
    /// # Errors
    /// #GP(0).
    pub(crate) fn rdmsr(&mut self, number: u32) -> Exec<u64> {
        if LocalApic::has_msr(number) {
            let now = self.now();
            return self.cpu.apic.msr_read(number, now).map_err(|_| GP.into());
        }
        let cpu = &mut *self.cpu;
        let state = &cpu.state;
        let is_amd = cpu.config.vendor == Vendor::Amd;
        Ok(match number {
            msr::EFER => state.efer,
            msr::STAR => state.star,
            msr::LSTAR => state.lstar,
            msr::CSTAR => state.cstar,
            msr::FMASK => state.fmask,
            msr::FS_BASE => cpu.segment(SegReg::Fs).base,
            msr::GS_BASE => cpu.segment(SegReg::Gs).base,
            msr::KERNEL_GS_BASE => state.kernel_gs_base,
            msr::TSC_AUX if cpu.has(Features::RDTSCP) || cpu.has(Features::RDPID) => state.tsc_aux,
            msr::SYSENTER_CS..=msr::SYSENTER_EIP => {
                state.sysenter[(number - msr::SYSENTER_CS) as usize]
            }
            msr::PAT => state.pat,
            msr::MISC_ENABLE if !is_amd => state.misc_enable,
            msr::UMWAIT_CONTROL if cpu.has(Features::WAITPKG) => state.umwait_control,
            msr::TSC => {
                let now = self.now();
                return Ok(self.cpu.tsc_at(now));
            }
            msr::TSC_ADJUST if !is_amd => cpu.msrs.tsc_adjust,
            msr::SPEC_CTRL if cpu.has(Features::SPEC_CTRL) => cpu.msrs.spec_ctrl,
            // Locked, nothing enabled.
            msr::FEATURE_CONTROL if !is_amd => 1,
            msr::MTRR_CAP => 0x500 | MTRR_PAIRS as u64,
            msr::BIOS_SIGN_ID | msr::MCG_CAP | msr::PLATFORM_ID => 0,
            msr::MCG_STATUS => cpu.msrs.mcg_status,
            msr::AMD_SYSCFG if is_amd => cpu.msrs.amd_syscfg,
            // Bit 24: the TSC counts at the P0 frequency.
            msr::AMD_HWCR if is_amd => cpu.msrs.amd_hwcr | 1 << 24,
            _ => match cpu.msrs.mtrr(number) {
                Some(value) => *value,
                None => return Err(self.unknown_msr([0x0f, 0x32])),
            },
        })
    }

    /// WRMSR of `number`; the last request of its instruction.
    ///
    /// # Errors
    /// #GP(0), `Wait`.
    pub(crate) fn wrmsr(&mut self, number: u32, value: u64) -> Exec<()> {
        if LocalApic::has_msr(number) {
            // "WRMSR to x2APIC registers and TSC_DEADLINE are not serialising" (`engine.md` X3).
            if number == msr::APIC_BASE || self.cpu.config.icr_ordered {
                self.port.fence(Fence::Full)?;
            }
            return self.apic_wrmsr(number, value);
        }
        self.port.fence(Fence::Full)?;
        match number {
            msr::TSC => {
                let now = self.now();
                let offset = value.wrapping_sub(self.cpu.config.tsc.count_at(now));
                return self.set_tsc_offset(offset);
            }
            msr::TSC_ADJUST if self.cpu.config.vendor == Vendor::Intel => {
                let change = value.wrapping_sub(self.cpu.msrs.tsc_adjust);
                return self.set_tsc_offset(self.cpu.state.tsc_offset.wrapping_add(change));
            }
            msr::EFER => return self.write_efer(value),
            msr::LSTAR
            | msr::CSTAR
            | msr::FS_BASE
            | msr::GS_BASE
            | msr::KERNEL_GS_BASE
            | 0x175
            | msr::SYSENTER_EIP
                if !self.cpu.is_canonical(value) =>
            {
                return Err(GP.into());
            }
            _ => {}
        }
        let known = self.write_plain(number, value)?;
        if known { Ok(()) } else { Err(self.unknown_msr([0x0f, 0x30])) }
    }

    /// Registers that only keep a value; whether it is one of them.
    fn write_plain(&mut self, number: u32, value: u64) -> Exec<bool> {
        let cpu = &mut *self.cpu;
        let is_amd = cpu.config.vendor == Vendor::Amd;
        let (has_aux, has_wait) =
            (cpu.has(Features::RDTSCP) || cpu.has(Features::RDPID), cpu.has(Features::WAITPKG));
        let has_spec = cpu.has(Features::SPEC_CTRL);
        let state = &mut cpu.state;
        match number {
            msr::STAR => state.star = value,
            msr::LSTAR => state.lstar = value,
            msr::CSTAR => state.cstar = value,
            msr::FMASK => state.fmask = value & 0xffff_ffff,
            msr::FS_BASE => state.seg[SegReg::Fs as usize].base = value,
            msr::GS_BASE => state.seg[SegReg::Gs as usize].base = value,
            msr::KERNEL_GS_BASE => state.kernel_gs_base = value,
            msr::TSC_AUX if has_aux && value >> 32 == 0 => state.tsc_aux = value,
            msr::SYSENTER_CS..=msr::SYSENTER_EIP => {
                state.sysenter[(number - msr::SYSENTER_CS) as usize] = value;
            }
            // "#GP for the encodings 2, 3 and above 7".
            msr::PAT if (0..8).all(|i| matches!(value >> (8 * i) & 0xff, 0 | 1 | 4..=7)) => {
                state.pat = value;
            }
            msr::MISC_ENABLE if !is_amd => state.misc_enable = value,
            msr::UMWAIT_CONTROL if has_wait && value & !0xffff_fffd == 0 => {
                state.umwait_control = value;
            }
            msr::SPEC_CTRL if has_spec && value & !7 == 0 => cpu.msrs.spec_ctrl = value,
            msr::PRED_CMD if has_spec && value & !1 == 0 => {}
            msr::BIOS_SIGN_ID | msr::PLATFORM_ID if value == 0 => {}
            msr::MCG_STATUS => cpu.msrs.mcg_status = value,
            msr::AMD_SYSCFG if is_amd => cpu.msrs.amd_syscfg = value,
            msr::AMD_HWCR if is_amd => cpu.msrs.amd_hwcr = value,
            // Known, but not with this value.
            msr::TSC_AUX | msr::PAT | msr::UMWAIT_CONTROL | msr::SPEC_CTRL | msr::PRED_CMD => {
                return Err(GP.into());
            }
            _ => {
                let (types, width) = (cpu.mtrr_types(), cpu.config.phys_addr_bits);
                match cpu.msrs.mtrr(number) {
                    Some(_) if value & mtrr_reserved(number, types, width, value) != 0 => {
                        return Err(GP.into());
                    }
                    Some(slot) => *slot = value,
                    None => return Ok(false),
                }
            }
        }
        Ok(true)
    }

    fn set_tsc_offset(&mut self, offset: u64) -> Exec<()> {
        let now = self.now();
        let mut apic = self.cpu.apic.clone();
        let effects = apic.set_tsc_offset(offset, now);
        self.apply(apic, effects, true)?;
        // The adjustment follows each change of the counter, whichever register it is made by.
        let change = offset.wrapping_sub(self.cpu.state.tsc_offset);
        self.cpu.msrs.tsc_adjust = self.cpu.msrs.tsc_adjust.wrapping_add(change);
        self.cpu.state.tsc_offset = offset;
        Ok(())
    }

    /// Source: [SDM-3] "Extended Feature Enable Register"; [APM-2] the same: LMA follows CR0.PG,
    /// and LME cannot change while paging is on. Status: spec.
    fn write_efer(&mut self, value: u64) -> Exec<()> {
        let cpu = &mut *self.cpu;
        let mut legal = efer::LMA;
        for (feature, bit) in [
            (Features::SYSCALL, efer::SCE),
            (Features::LONG_MODE, efer::LME),
            (Features::NX, efer::NXE),
        ] {
            if cpu.has(feature) {
                legal |= bit;
            }
        }
        let old = cpu.state.efer;
        let is_paging = cpu.state.cr0 & cr0::PG != 0;
        if value & !legal != 0 || is_paging && (value ^ old) & efer::LME != 0 {
            return Err(GP.into());
        }
        cpu.state.efer = value & !efer::LMA | old & efer::LMA;
        if (value ^ old) & efer::NXE != 0 {
            cpu.tlb.flush_all();
        }
        Ok(())
    }

    /// Reports the opcode with the number of the register behind it.
    #[cold]
    fn unknown_msr(&mut self, opcode: [u8; 2]) -> Trap {
        let number = self.cpu.state.gpr[gpr::RCX] as u32;
        let [a, b, c, d] = number.to_le_bytes();
        let [first, second] = opcode;
        self.port.report_unimplemented(self.cpu.state.rip, &[first, second, a, b, c, d]);
        GP.into()
    }
}
