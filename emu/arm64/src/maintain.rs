//! System instructions: DC, IC, AT, TLBI.
//!
//! Caches are coherent with fetches and devices, so cleaning changes nothing that a guest can see
//! and only faults; CIVAC and IVAC end the copies of the line (`engine.md` section 5). A TLBI takes
//! effect on this cpu at once; those of the inner and outer shareable domains are told to the other
//! cpus, and DSB waits for their answers.
//!
//! Not modelled: maintenance by set and way (no operation), DC IVAC discarding data, stage 2 forms
//! (they drop the whole regime of EL1), AT of EL1 at EL2 (it translates by the regime of EL2).
//!
//! Source: \[ArmARM\] "Cache maintenance system instructions", "TLB maintenance instructions",
//! "Address translation instructions". Status: spec.

use emu_cpu::port::{Port, Target};
use emu_cpu::wait::Signal;

use crate::ctx::{Ctx, Exception, Exec};
use crate::defs::{Features, SysReg, sctlr};
use crate::sysreg::{Cell, trapped};
use crate::tlb::{Access, Invalidate};

impl<P: Port> Ctx<'_, P> {
    /// A SYS instruction by its encoding, `op` with op0 1, and its operand.
    ///
    /// # Errors
    /// Undefined, traps, data aborts, `Wait`.
    pub fn sys(&mut self, op: SysReg, x: u64) -> Exec<()> {
        match op.fields() {
            (1, _, 7, 8 | 9, _) => self.at(op, x),
            (1, _, 7, _, _) => self.cache_op(op, x),
            (1, _, 8, _, _) => self.tlbi(op, x),
            _ => Err(Exception::undefined().into()),
        }
    }

    /// SYSL: none is there.
    ///
    /// # Errors
    /// Undefined.
    pub fn sysl(&mut self, _op: SysReg) -> Exec<u64> {
        Err(Exception::undefined().into())
    }

    /// DC and IC.
    ///
    /// # Errors
    /// As [`Ctx::sys`].
    pub fn cache_op(&mut self, op: SysReg, x: u64) -> Exec<()> {
        let (_, op1, _, crm, op2) = op.fields();
        match (op1, crm, op2) {
            // IC IALLUIS, IC IALLU; DC ISW, CSW, CISW.
            (0, 1 | 5, 0) | (0, 6 | 10 | 14, 2) => self.require_level(1),
            // DC IVAC.
            (0, 6, 1) => {
                self.require_level(1)?;
                self.flush(x, true)
            }
            // DC ZVA.
            (3, 4, 1) => {
                self.require_el0(op, sctlr::DZE)?;
                self.zero_block(x)
            }
            // IC IVAU; DC CVAC, CVAU.
            (3, 5 | 10 | 11, 1) => self.clean(op, x),
            // DC CVAP.
            (3, 12, 1) if self.cpu.has(Features::DPB) => self.clean(op, x),
            // DC CIVAC.
            (3, 14, 1) => {
                self.require_el0(op, sctlr::UCI)?;
                self.flush(x, false)
            }
            _ => Err(Exception::undefined().into()),
        }
    }

    fn clean(&mut self, op: SysReg, va: u64) -> Exec<()> {
        self.require_el0(op, sctlr::UCI)?;
        self.maintain(va, false)?;
        Ok(())
    }

    fn flush(&mut self, va: u64, writes: bool) -> Exec<()> {
        if let Some(pa) = self.maintain(va, writes)? {
            self.port.flush_line(pa)?;
        }
        Ok(())
    }

    fn require_level(&self, level: u8) -> Exec<()> {
        if self.cpu.state.pstate.el >= level { Ok(()) } else { Err(Exception::undefined().into()) }
    }

    /// EL0 needs this bit of SCTLR_EL1.
    fn require_el0(&self, op: SysReg, bit: u64) -> Exec<()> {
        if self.cpu.state.pstate.el > 0 || self.cpu.sys[Cell::SctlrEl1] & bit != 0 {
            return Ok(());
        }
        Err(trapped(op, false, 1).into())
    }

    /// AT: translates and puts the outcome into PAR_EL1.
    ///
    /// # Errors
    /// Undefined, `Wait`.
    pub fn at(&mut self, op: SysReg, va: u64) -> Exec<()> {
        let (_, op1, _, crm, op2) = op.fields();
        let with_pan = crm == 9 && self.cpu.state.pstate.pan;
        if crm == 9 && !self.cpu.has(Features::PAN2) {
            return Err(Exception::undefined().into());
        }
        let access = match (op1, op2) {
            (0, 0) if with_pan => Access::ReadPan,
            (0, 1) if with_pan => Access::WritePan,
            (0 | 4, 0) => Access::ReadPriv,
            (0 | 4, 1) => Access::WritePriv,
            (0, 2) if crm == 8 => Access::ReadUser,
            (0, 3) if crm == 8 => Access::WriteUser,
            // Stages 1 and 2 of a lower level.
            (4, 4 | 6) if crm == 8 => Access::ReadPriv,
            (4, 5 | 7) if crm == 8 => Access::WritePriv,
            _ => return Err(Exception::undefined().into()),
        };
        self.require_level(if op1 == 4 { 2 } else { 1 })?;
        let par = self.probe_translation(va, access)?;
        self.cpu.sys[Cell::ParEl1] = par;
        Ok(())
    }

    /// TLBI.
    ///
    /// # Errors
    /// Undefined, `Wait`.
    pub fn tlbi(&mut self, op: SysReg, x: u64) -> Exec<()> {
        let (_, op1, _, crm, op2) = op.fields();
        self.require_level(if op1 == 4 { 2 } else { 1 })?;
        // CRm: 1 outer shareable, 3 inner, 7 local; 5, 2, 6 their ranges; 0 and 4 are of stage 2.
        let is_range = matches!(crm, 2 | 5 | 6);
        let is_known = matches!((op1, crm), (0 | 4, 1..=3 | 5..=7) | (4, 0 | 4));
        let needs_range = is_range || crm == 1;
        if !is_known || needs_range && !self.cpu.has(Features::TLBI_RANGE) {
            return Err(Exception::undefined().into());
        }
        let stage_2 = matches!(crm, 0 | 4).then_some(Invalidate::Regime(false));
        let Some(what) = stage_2.or_else(|| self.decode_tlbi(op1, is_range, op2, x)) else {
            return Err(Exception::undefined().into());
        };
        if !matches!(crm, 6 | 7) {
            self.broadcast(what)?;
        }
        self.cpu.tlb.invalidate(what);
        Ok(())
    }

    fn decode_tlbi(&self, op1: u8, is_range: bool, op2: u8, x: u64) -> Option<Invalidate> {
        let is_el2 = op1 == 4;
        let asid = self.tlbi_asid(x);
        let page = |asid| {
            let va = ((x << 20) as i64 >> 8) as u64;
            Invalidate::Range { va, len: 0x1000, asid, is_el2 }
        };
        // "(NUM+1)*2^(5*SCALE + 1) * granule".
        let range = |asid| {
            let va = ((x << 27) as i64 >> 15) as u64;
            let pages = ((x >> 39 & 31) + 1) << (5 * (x >> 44 & 3) + 1);
            Invalidate::Range { va, len: pages << 12, asid, is_el2 }
        };
        Some(match (op2, is_range) {
            (1 | 5, false) => page((!is_el2).then_some(asid)),
            (3 | 7, false) if !is_el2 => page(None),
            (1 | 5, true) => range((!is_el2).then_some(asid)),
            (3 | 7, true) if !is_el2 => range(None),
            (0, false) => Invalidate::Regime(is_el2),
            (2, false) if !is_el2 => Invalidate::Asid(asid),
            // ALLE1, VMALLS12E1.
            (4 | 6, false) if is_el2 => Invalidate::Regime(false),
            _ => return None,
        })
    }

    /// Tells the other cpus to drop translations; DSB waits until they have.
    fn broadcast(&mut self, what: Invalidate) -> Exec<()> {
        let signal = Signal::Invalidate { what: what.to_words() };
        Ok(self.port.signal(Target::AllButSelf, signal, false)?)
    }
}
