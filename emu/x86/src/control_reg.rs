//! Control and debug registers, and the mode changes that CR0 and CR4 make.
//!
//! Modelled: reserved bits by feature, the order that long mode demands, flushes of the TLB, CR8,
//! general detect.
//! Not modelled: debug registers compare nothing; CR0.CD does not switch caches off; VME, PVI, and
//! the PDPTE checks of a CR3 load in PAE mode (entries are checked by each walk).
//!
//! Source: [SDM-2] "MOV—Move to/from Control Registers"; [SDM-3] "Control Registers",
//! "Initializing IA-32e Mode", "Operations that Invalidate TLBs and Paging-Structure Caches".

use emu_cpu::port::{Fence, Port};

use crate::cpu::X86Cpu;
use crate::ctx::{Ctx, Exception, Exec};
use crate::defs::{Features, cr0, cr4, efer, rights};
use crate::state::SegReg;

const GP: Exception = Exception::gp(0);

/// CR0 bits that keep what is written.
const CR0_KEPT: u64 = cr0::PE
    | cr0::MP
    | cr0::EM
    | cr0::TS
    | cr0::NE
    | cr0::WP
    | cr0::AM
    | cr0::NW
    | cr0::CD
    | cr0::PG;
/// CR4 changes that drop all translations.
const CR4_FLUSHES: u64 = cr4::PSE | cr4::PAE | cr4::PGE | cr4::LA57 | cr4::PCIDE | cr4::SMEP;
/// CR3 bit that keeps translations, with PCIDs.
const CR3_NO_FLUSH: u64 = 1 << 63;
/// DR6 and DR7 bits that always read 1.
const DR6_ONES: u64 = 0xffff_0ff0;
const DR7_ONES: u64 = 0x400;
/// DR7 bit that makes each MOV of a debug register a #DB, and the DR6 bit that tells.
pub(crate) const DR7_GD: u64 = 1 << 13;
pub(crate) const DR6_BD: u64 = 1 << 13;

impl X86Cpu {
    /// CR4 bits that may be set.
    fn cr4_legal(&self) -> u64 {
        let always = cr4::VME
            | cr4::PVI
            | cr4::TSD
            | cr4::DE
            | cr4::PSE
            | cr4::PAE
            | cr4::MCE
            | cr4::PGE
            | cr4::PCE
            | cr4::OSFXSR
            | cr4::OSXMMEXCPT;
        let by_feature = [
            (Features::UMIP, cr4::UMIP),
            (Features::LA57, cr4::LA57),
            (Features::FSGSBASE, cr4::FSGSBASE),
            (Features::PCID, cr4::PCIDE),
            (Features::XSAVE, cr4::OSXSAVE),
            (Features::SMEP, cr4::SMEP),
            (Features::SMAP, cr4::SMAP),
        ];
        let offered = by_feature.iter().filter(|(feature, _)| self.has(*feature));
        offered.fold(always, |bits, (_, bit)| bits | bit)
    }
}

impl<P: Port> Ctx<'_, P> {
    /// Waits as a serialising instruction does.
    ///
    /// # Errors
    /// `Wait`.
    pub(crate) fn serialise(&mut self) -> Exec<()> {
        self.port.serialise();
        Ok(self.port.fence(Fence::Full)?)
    }

    /// MOV from CR `n`.
    ///
    /// # Errors
    /// #UD for a number without register, #GP(0) above CPL 0.
    pub(crate) fn read_cr(&self, n: usize) -> Exec<u64> {
        let state = &self.cpu.state;
        let value = match n {
            0 => state.cr0,
            2 => state.cr2,
            3 => state.cr3,
            4 => state.cr4,
            8 => self.cpu.apic.cr8(),
            _ => return Err(Exception::ud().into()),
        };
        self.require_cpl0()?;
        Ok(value)
    }

    /// MOV to CR `n`.
    ///
    /// # Errors
    /// #UD for a number without register, #GP(0), `Wait`.
    pub(crate) fn write_cr(&mut self, n: usize, value: u64) -> Exec<()> {
        if !matches!(n, 0 | 2 | 3 | 4 | 8) {
            return Err(Exception::ud().into());
        }
        self.require_cpl0()?;
        match n {
            0 => {
                self.check_cr0(value)?;
                self.serialise()?;
                self.commit_cr0(value);
            }
            2 => self.cpu.state.cr2 = value,
            3 => self.write_cr3(value)?,
            4 => self.write_cr4(value)?,
            _ => {
                // Not serialising ([SDM-2] "MOV—Move to/from Control Registers").
                if self.cpu.apic.set_cr8(value).is_err() {
                    return Err(GP.into());
                }
                self.cpu.refresh_attention();
            }
        }
        Ok(())
    }

    /// Source: [SDM-2] "MOV—Move to/from Control Registers", exceptions.
    fn check_cr0(&self, value: u64) -> Exec<()> {
        let state = &self.cpu.state;
        let is_set = |bit: u64| value & bit != 0;
        let turns_on = is_set(cr0::PG) && state.cr0 & cr0::PG == 0;
        let turns_off = !is_set(cr0::PG) && state.cr0 & cr0::PG != 0;
        let cs = self.cpu.segment(SegReg::Cs);
        let has_lme = state.efer & efer::LME != 0;
        let is_illegal = value >> 32 != 0
            || is_set(cr0::PG) && !is_set(cr0::PE)
            || is_set(cr0::NW) && !is_set(cr0::CD)
            || turns_on && has_lme && state.cr4 & cr4::PAE == 0
            || turns_on && has_lme && self.cpu.is_protected() && cs.rights & rights::L != 0
            || turns_off && self.cpu.is_64
            || turns_off && state.cr4 & cr4::PCIDE != 0;
        if is_illegal { Err(GP.into()) } else { Ok(()) }
    }

    /// Makes a checked value of CR0 valid, with LMA and the modes that follow from it.
    fn commit_cr0(&mut self, value: u64) {
        let cpu = &mut *self.cpu;
        let old = cpu.state.cr0;
        cpu.state.cr0 = value & CR0_KEPT | cr0::ET;
        let changed = old ^ cpu.state.cr0;
        if changed & cr0::PG != 0 {
            let is_long = value & cr0::PG != 0 && cpu.state.efer & efer::LME != 0;
            let lma = if is_long { efer::LMA } else { 0 };
            cpu.state.efer = cpu.state.efer & !efer::LMA | lma;
        }
        if changed & (cr0::PG | cr0::PE) != 0 {
            cpu.tlb.flush_all();
        } else if changed & cr0::WP != 0 {
            cpu.tlb.forget_shortcuts();
        }
        cpu.update_mode();
    }

    /// LMSW: the low four bits of CR0; PE cannot be cleared.
    ///
    /// # Errors
    /// #GP(0), `Wait`.
    pub(crate) fn load_msw(&mut self, value: u64) -> Exec<()> {
        self.serialise()?;
        let old = self.cpu.state.cr0;
        self.commit_cr0(old & !0xe | value & 0xf);
        Ok(())
    }

    fn write_cr3(&mut self, value: u64) -> Exec<()> {
        let cpu = &*self.cpu;
        let has_pcid = cpu.state.cr4 & cr4::PCIDE != 0;
        let keeps = has_pcid && value & CR3_NO_FLUSH != 0;
        let value = if has_pcid { value & !CR3_NO_FLUSH } else { value };
        let legal = if cpu.is_long() { (1u64 << cpu.config.phys_addr_bits) - 1 } else { u64::MAX };
        if value & !legal != 0 {
            return Err(GP.into());
        }
        self.serialise()?;
        self.cpu.state.cr3 = value;
        if keeps {
            self.cpu.tlb.forget_shortcuts();
        } else {
            let pcid = has_pcid.then_some((value & 0xfff) as u16);
            self.cpu.tlb.flush_non_global(pcid);
        }
        Ok(())
    }

    fn write_cr4(&mut self, value: u64) -> Exec<()> {
        let cpu = &*self.cpu;
        let old = cpu.state.cr4;
        let changed = old ^ value;
        let sets_pcid = changed & value & cr4::PCIDE != 0;
        let is_illegal = value & !cpu.cr4_legal() != 0
            || cpu.is_long() && value & cr4::PAE == 0
            || cpu.is_long() && changed & cr4::LA57 != 0
            || sets_pcid && (!cpu.is_long() || cpu.state.cr3 & 0xfff != 0);
        if is_illegal {
            return Err(GP.into());
        }
        self.serialise()?;
        self.cpu.state.cr4 = value;
        if changed & CR4_FLUSHES != 0 {
            self.cpu.tlb.flush_all();
        } else if changed & cr4::SMAP != 0 {
            self.cpu.tlb.forget_shortcuts();
        }
        Ok(())
    }

    /// MOV from DR `n`.
    ///
    /// # Errors
    /// #UD for DR4 and DR5 with CR4.DE, #GP(0) above CPL 0, #DB with DR7.GD.
    pub(crate) fn read_dr(&self, n: usize) -> Exec<u64> {
        let n = self.debug_register(n)?;
        Ok(self.cpu.state.dr[n])
    }

    /// MOV to DR `n`.
    ///
    /// # Errors
    /// As `read_dr`; #GP(0) for bits above 31 of DR6 and DR7; `Wait`.
    pub(crate) fn write_dr(&mut self, n: usize, value: u64) -> Exec<()> {
        let n = self.debug_register(n)?;
        if n >= 6 && value >> 32 != 0 {
            return Err(GP.into());
        }
        self.serialise()?;
        self.cpu.state.dr[n] = match n {
            6 => value & 0x1_e00f | DR6_ONES,
            7 => value & 0xffff_2bff | DR7_ONES,
            _ => value,
        };
        Ok(())
    }

    /// Source: [SDM-3] "Debug Registers DR4 and DR5": aliases of DR6 and DR7 without CR4.DE.
    fn debug_register(&self, n: usize) -> Exec<usize> {
        let has_aliases = self.cpu.state.cr4 & cr4::DE == 0;
        let n = match n {
            4 | 5 if has_aliases => n + 2,
            4 | 5 | 8.. => return Err(Exception::ud().into()),
            _ => n,
        };
        self.require_cpl0()?;
        // "General-Detect Exception Condition": what privilege lets pass, DR7.GD catches.
        if self.cpu.state.dr[7] & DR7_GD != 0 {
            return Err(Exception::db().into());
        }
        Ok(n)
    }
}
