//! Exceptions: entry, return, and the instructions that make them.
//!
//! A synchronous exception is noted by the step that meets it and taken by the next one, which
//! nothing can come before. An entry changes registers only and asks nothing of memory.
//!
//! Not modelled: EL3 (its firmware answers calls in `psci`), AArch32, VHE, SError, software step,
//! traps of debug exceptions to EL2.
//!
//! Source: \[ArmARM\] "AArch64.TakeException", "AArch64.ExceptionReturn",
//! "ELFromSPSR", "Exception vectors". Status: spec.

use emu_cpu::port::{Fence, Note, Port};

use crate::cpu::ArmCpu;
use crate::ctx::{Call, Ctx, Exception, Exec, Next};
use crate::defs::{Ec, hcr, sctlr, spsr};
use crate::sysreg::Cell;

/// Offsets of vectors by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Synchronous = 0,
    Irq = 0x80,
    Fiq = 0x100,
}

/// Vectors of the present level with its own stack, and of a lower level in AArch64.
const CURRENT_SPX: u64 = 0x200;
const LOWER_64: u64 = 0x400;
/// ESR_ELx.IL: a 32-bit instruction.
const IL: u64 = 1 << 25;

/// The class as the level that takes it reads it.
const fn corrected(class: Ec, is_same: bool) -> Ec {
    match (class, is_same) {
        (Ec::InstructionAbortLower, true) => Ec::InstructionAbort,
        (Ec::DataAbortLower, true) => Ec::DataAbort,
        (Ec::StepLower, true) => Ec::Step,
        (Ec::InstructionAbort, false) => Ec::InstructionAbortLower,
        (Ec::DataAbort, false) => Ec::DataAbortLower,
        (Ec::Step, false) => Ec::StepLower,
        (other, _) => other,
    }
}

impl ArmCpu {
    /// Whether EL2 is implemented.
    pub(crate) fn has_el2(&self) -> bool {
        self.config.entry_level == 2
    }

    fn hcr(&self, bit: u64) -> bool {
        self.has_el2() && self.sys[Cell::HcrEl2] & bit != 0
    }

    /// Level that takes a synchronous exception.
    fn target(&self, least: u8) -> u8 {
        let el = self.state.pstate.el;
        let is_taken_over = el == 0 && self.hcr(hcr::TGE);
        if is_taken_over { 2 } else { least.max(el).max(1) }
    }

    /// Takes a synchronous exception.
    pub(crate) fn take_exception(&mut self, exception: Exception) {
        let target = self.target(exception.level);
        let class = corrected(exception.class, target == self.state.pstate.el);
        let esr = (class as u64) << 26 | IL | u64::from(exception.iss);
        let is_el2 = target == 2;
        self.sys[if is_el2 { Cell::EsrEl2 } else { Cell::EsrEl1 }] = esr;
        if let Some(far) = exception.far {
            self.sys[if is_el2 { Cell::FarEl2 } else { Cell::FarEl1 }] = far;
        }
        let back = self.state.pc.wrapping_add(if exception.is_after { 4 } else { 0 });
        self.enter(target, Kind::Synchronous, back);
    }

    /// Level that an interrupt would be taken to now; `None` while it is masked.
    ///
    /// Source: \[ArmARM\] "Asynchronous exception routing", "Asynchronous exception masking": one
    /// for a higher level is not masked, one for a lower level is not taken.
    pub(crate) fn interrupt_target(&self, kind: Kind) -> Option<u8> {
        let (route, mask) = match kind {
            Kind::Fiq => (hcr::FMO, spsr::F),
            Kind::Irq | Kind::Synchronous => (hcr::IMO, spsr::I),
        };
        let pstate = &self.state.pstate;
        let target = if self.hcr(route | hcr::TGE) { 2 } else { 1 };
        let is_masked = u64::from(pstate.daif) & mask != 0;
        (target > pstate.el.max(1) || target == pstate.el.max(1) && !is_masked).then_some(target)
    }

    /// Enters a handler at `target`; the return address is `back`.
    pub(crate) fn enter(&mut self, target: u8, kind: Kind, back: u64) {
        let pstate = self.state.pstate;
        let from = match (target > pstate.el, pstate.spsel) {
            (true, _) => LOWER_64,
            (false, true) => CURRENT_SPX,
            (false, false) => 0,
        };
        let at = usize::from(target);
        self.state.spsr[at] = pstate.to_spsr();
        self.state.elr[at] = back;
        let vbar = self.sys[if target == 2 { Cell::VbarEl2 } else { Cell::VbarEl1 }];
        let new = &mut self.state.pstate;
        new.daif = (spsr::D | spsr::A | spsr::I | spsr::F) as u32;
        new.spsel = true;
        new.uao = false;
        new.ss = false;
        new.il = false;
        // "if SCTLR_EL1.SPAN == 0, PSTATE.PAN is set to 1" on an entry to EL1.
        if self.has_pan() && target == 1 && self.sys[Cell::SctlrEl1] & sctlr::SPAN == 0 {
            self.state.pstate.pan = true;
        }
        self.set_level(target);
        self.state.pc = vbar.wrapping_add(from + kind as u64);
        self.refresh_attention();
    }

    /// Changes the level; EL2 has translations of its own.
    fn set_level(&mut self, el: u8) {
        if (self.state.pstate.el == 2) != (el == 2) {
            self.tlb.forget_shortcuts();
        }
        self.state.pstate.el = el;
    }

    /// Process state and address after ERET.
    ///
    /// Source: \[ArmARM\] "Illegal return events from AArch64 state": PSTATE.IL is set; level,
    /// stack pointer and, of the rest, what is not flags and masks stay.
    fn exception_return(&mut self) {
        let el = self.state.pstate.el;
        let (saved, elr) = (self.state.spsr[usize::from(el)], self.state.elr[usize::from(el)]);
        let wanted = (saved >> 2 & 3) as u8;
        let is_illegal = saved & spsr::M32 != 0
            || saved & 2 != 0
            || wanted > el
            || wanted == 0 && saved & 1 != 0
            || wanted == 1 && self.hcr(hcr::TGE)
            || wanted < 2 && el == 2 && self.sys[Cell::HcrEl2] & hcr::RW == 0;
        let (has_pan, has_uao) = (self.has_pan(), self.has_uao());
        let pstate = &mut self.state.pstate;
        pstate.nzcv = (saved & 0xf000_0000) as u32;
        pstate.daif = (saved & 0x3c0) as u32;
        pstate.il = is_illegal || saved & spsr::IL != 0;
        if !is_illegal {
            pstate.spsel = saved & 1 != 0;
            pstate.pan = has_pan && saved & spsr::PAN != 0;
            pstate.uao = has_uao && saved & spsr::UAO != 0;
            self.set_level(wanted);
        }
        self.state.pc = elr;
        self.refresh_attention();
    }
}

impl<P: Port> Ctx<'_, P> {
    /// SVC, HVC, SMC, BRK, ERET.
    ///
    /// # Errors
    /// The exception that the instruction makes; undefined; `Wait`.
    pub fn call(&mut self, call: Call) -> Exec<Next> {
        let el = self.cpu.state.pstate.el;
        let made = |class, imm: u16, level, is_after| {
            Err(Exception { class, iss: u32::from(imm), far: None, level, is_after }.into())
        };
        match call {
            Call::Svc(imm) => made(Ec::Svc, imm, 1, true),
            Call::Brk(imm) => made(Ec::Brk, imm, 1, false),
            Call::Eret | Call::Hvc(_) | Call::Smc(_) if el == 0 => {
                Err(Exception::undefined().into())
            }
            Call::Eret => {
                // "exception return waits for the load queue" (`engine.md` A3).
                self.port.fence(Fence::Load)?;
                self.port.serialise();
                self.port.note(Note::InterruptReturned);
                self.clear_exclusive();
                self.cpu.event_register = true;
                self.cpu.exception_return();
                self.masks_changed();
                Ok(Next::Jump(self.cpu.state.pc))
            }
            Call::Hvc(imm) if self.cpu.has_el2() => {
                if el == 1 && self.cpu.hcr(hcr::HCD) {
                    return Err(Exception::undefined().into());
                }
                made(Ec::Hvc, imm, 2, true)
            }
            Call::Smc(imm) if el == 1 && self.cpu.hcr(hcr::TSC) => made(Ec::Smc, imm, 2, false),
            // Without EL2 the hypervisor below the machine answers HVC, always the firmware SMC.
            Call::Hvc(_) | Call::Smc(_) => self.firmware_call(),
        }
    }
}
