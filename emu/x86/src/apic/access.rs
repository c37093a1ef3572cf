//! Registers as software sees them: the xAPIC page, the x2APIC MSRs, and the two MSRs beside them.
//!
//! In xAPIC mode nothing faults: reserved bits are dropped, read-only registers ignore writes, a
//! reserved place is logged in the ESR. In x2APIC mode the same mistakes are #GP. Outside its
//! mode neither way in exists.

use emu_sim::SimTime;

use super::base::Mode;
use super::defs::{
    DELIVERY_MASK, DELIVERY_SHIFT, DFR_ONES, DIVIDE_MASK, Delivery, ESR_ILLEGAL_REGISTER,
    ESR_REDIRECTABLE_IPI, ESR_SEND_ILLEGAL_VECTOR, ICR_LOW_WRITABLE, LvtEntry, MSR_APIC_BASE,
    MSR_TSC_DEADLINE, REG_STRIDE, Reg, SVR_ENABLE, SVR_FOCUS, SVR_SUPPRESS_EOI_BROADCAST,
    SVR_VECTOR, VERSION_MAX_LVT_SHIFT, VERSION_SUPPRESS_EOI_BROADCAST, X2APIC_MSR_FIRST,
    X2APIC_MSR_LAST, XAPIC_ID_MASK, XAPIC_ID_SHIFT,
};
use super::icr::{Ipi, SendError};
use super::local::{ApicFault, Effects, LocalApic};
use super::timer::TimerMode;

const GP: ApicFault = ApicFault::GeneralProtection;

/// Bytes of a register that software may touch in xAPIC mode.
const REG_SIZE: u64 = 4;

impl LocalApic {
    /// Reads `size` bytes at `offset` of the register page; `None` when the page does not answer.
    ///
    /// A reserved place reads 0 and logs an error, so that `pending` may change.
    ///
    /// Source: [SDM-3] "Local APIC Register Address Map", "Error Handling". Status: spec for
    /// aligned 32-bit reads. Others are "undefined behavior": assumed here is the part of the
    /// register that they cover, or 0 when they touch its bytes 4 to 15.
    pub fn mmio_read(&mut self, offset: u64, size: u8, now: SimTime) -> Option<u64> {
        if self.mode() != Mode::XApic {
            return None;
        }
        let Some(reg) = self.reg_at_offset(offset) else { return Some(0) };
        let byte = offset % REG_STRIDE;
        if byte + u64::from(size) > REG_SIZE || !reg.is_readable() {
            return Some(0);
        }
        let value = u64::from(self.value(reg, now)) >> (8 * byte);
        Some(value & ((1 << (8 * u32::from(size))) - 1))
    }

    /// Writes `size` bytes at `offset` of the register page; `None` when it does not answer.
    ///
    /// Source: as `mmio_read`. Status: spec for aligned 32-bit writes; that others change nothing
    /// is assumed.
    pub fn mmio_write(
        &mut self,
        offset: u64,
        size: u8,
        value: u64,
        now: SimTime,
    ) -> Option<Effects> {
        if self.mode() != Mode::XApic {
            return None;
        }
        let Some(reg) = self.reg_at_offset(offset) else {
            return Some(Effects { pending_changed: true, ..Effects::default() });
        };
        let is_whole = offset.is_multiple_of(REG_STRIDE) && u64::from(size) == REG_SIZE;
        if !is_whole || !reg.is_writable_by_offset() {
            return Some(Effects::default());
        }
        Some(self.set(reg, value as u32, now))
    }

    /// Whether `msr` is one that `msr_read` and `msr_write` answer for.
    #[must_use]
    pub const fn has_msr(msr: u32) -> bool {
        matches!(msr, MSR_APIC_BASE | MSR_TSC_DEADLINE | X2APIC_MSR_FIRST..=X2APIC_MSR_LAST)
    }

    /// Answers RDMSR.
    ///
    /// Errors: #GP outside x2APIC mode, for reserved and write-only registers, and for
    /// IA32_TSC_DEADLINE on a part without it.
    /// Source: [SDM-3] "x2APIC Register Availability", "x2APIC Register Address Space".
    /// Status: spec.
    pub fn msr_read(&self, msr: u32, now: SimTime) -> Result<u64, ApicFault> {
        match msr {
            MSR_APIC_BASE => return Ok(self.base.value()),
            MSR_TSC_DEADLINE if self.config.has_tsc_deadline => return Ok(self.timer.deadline()),
            _ => {}
        }
        let reg = self.reg_at_msr(msr)?;
        match reg {
            Reg::Icr => Ok(self.icr),
            _ if reg.is_readable() => Ok(u64::from(self.value(reg, now))),
            _ => Err(GP),
        }
    }

    /// Carries out WRMSR.
    ///
    /// Errors: #GP as for `msr_read`, for read-only registers, reserved bits and illegal changes
    /// of mode.
    /// Source: [SDM-3] "Reserved Bit Checking", "x2APIC State Transitions". Status: spec.
    pub fn msr_write(&mut self, msr: u32, value: u64, now: SimTime) -> Result<Effects, ApicFault> {
        match msr {
            MSR_APIC_BASE => return self.set_base(value),
            MSR_TSC_DEADLINE if self.config.has_tsc_deadline => {
                self.timer.set_deadline(value, now);
                return Ok(Effects { timer_changed: true, ..Effects::default() });
            }
            _ => {}
        }
        let reg = self.reg_at_msr(msr)?;
        if !reg.is_writable_by_msr() || value & self.reserved_by_msr(reg) != 0 {
            return Err(GP);
        }
        match reg {
            Reg::Icr => {
                self.icr = value;
                let sender = self.config.id;
                Ok(self.send(value as u32, Ipi::from_icr_x2apic(value, sender)))
            }
            Reg::Lvt(LvtEntry::Timer)
                if TimerMode::from_lvt(value as u32) == TimerMode::Reserved =>
            {
                Err(GP)
            }
            _ => Ok(self.set(reg, value as u32, now)),
        }
    }

    /// Register of the page; logs an illegal register access where there is none.
    fn reg_at_offset(&mut self, offset: u64) -> Option<Reg> {
        let reg = Reg::at_offset(offset - offset % REG_STRIDE).filter(|&reg| self.is_present(reg));
        if reg.is_none() {
            self.log_error(ESR_ILLEGAL_REGISTER);
        }
        reg
    }

    fn reg_at_msr(&self, msr: u32) -> Result<Reg, ApicFault> {
        if self.mode() != Mode::X2Apic {
            return Err(GP);
        }
        Reg::at_msr(msr).filter(|&reg| self.is_present(reg)).ok_or(GP)
    }

    fn is_present(&self, reg: Reg) -> bool {
        reg != Reg::Lvt(LvtEntry::Cmci) || self.config.has_cmci
    }

    /// Bits that WRMSR must leave 0.
    ///
    /// Source: [SDM-3] "Reserved Bit Checking", and the figure of each register. Status: spec.
    fn reserved_by_msr(&self, reg: Reg) -> u64 {
        let legal = match reg {
            Reg::Tpr | Reg::SelfIpi => 0xff,
            Reg::Svr => self.svr_writable(),
            Reg::Icr => return !(0xffff_ffff << 32 | u64::from(ICR_LOW_WRITABLE)),
            Reg::Lvt(entry) => self.lvt.defined(entry),
            Reg::InitialCount => u32::MAX,
            Reg::DivideConfig => DIVIDE_MASK,
            _ => 0,
        };
        !u64::from(legal)
    }

    const fn svr_writable(&self) -> u32 {
        let suppress =
            if self.config.can_suppress_eoi_broadcast { SVR_SUPPRESS_EOI_BROADCAST } else { 0 };
        SVR_VECTOR | SVR_ENABLE | SVR_FOCUS | suppress
    }

    fn version(&self) -> u32 {
        let suppress =
            if self.config.can_suppress_eoi_broadcast { VERSION_SUPPRESS_EOI_BROADCAST } else { 0 };
        let max_lvt_entry = if self.config.has_cmci { 6 } else { 5 };
        u32::from(self.config.version) | max_lvt_entry << VERSION_MAX_LVT_SHIFT | suppress
    }

    /// Value of a readable register, in the layout of the present mode.
    ///
    /// APR and RRD exist on old parts only; they read 0 and log nothing.
    fn value(&self, reg: Reg, now: SimTime) -> u32 {
        let is_x2apic = self.mode() == Mode::X2Apic;
        match reg {
            Reg::Id if is_x2apic => self.config.id.0,
            Reg::Id => u32::from(self.xapic_id) << XAPIC_ID_SHIFT,
            Reg::Version => self.version(),
            Reg::Tpr => u32::from(self.tpr),
            Reg::Ppr => u32::from(self.ppr()),
            Reg::Ldr if is_x2apic => self.x2apic_ldr(),
            Reg::Ldr => self.ldr,
            Reg::Dfr => self.dfr,
            Reg::Svr => self.svr,
            Reg::Isr(index) => self.isr.register(index),
            Reg::Tmr(index) => self.tmr.register(index),
            Reg::Irr(index) => self.irr.register(index),
            Reg::Esr => self.esr.visible(),
            Reg::Icr => self.icr as u32,
            Reg::IcrHigh => (self.icr >> 32) as u32,
            Reg::Lvt(entry) => self.lvt.get(entry),
            Reg::InitialCount => self.timer.initial_count(),
            Reg::CurrentCount => self.timer.current_count(now),
            Reg::DivideConfig => self.timer.divide_config(),
            Reg::Apr | Reg::Rrd | Reg::Eoi | Reg::SelfIpi => 0,
        }
    }

    /// Stores into a register that both ways in share, or that only the page has; reserved bits
    /// are dropped.
    fn set(&mut self, reg: Reg, value: u32, now: SimTime) -> Effects {
        let mut effects = Effects::default();
        match reg {
            Reg::Id => self.xapic_id = (value >> XAPIC_ID_SHIFT) as u8,
            Reg::Tpr => {
                self.tpr = value as u8;
                effects.pending_changed = true;
            }
            Reg::Eoi => return self.eoi(),
            Reg::Ldr => self.ldr = value & XAPIC_ID_MASK,
            Reg::Dfr => self.dfr = value | DFR_ONES,
            Reg::Svr => {
                self.svr = value & self.svr_writable();
                if !self.is_software_enabled() {
                    self.lvt.mask_all();
                }
                effects.pending_changed = true;
            }
            Reg::Esr => self.esr.latch(),
            Reg::Icr => return self.send_xapic(value),
            Reg::IcrHigh => {
                self.icr = u64::from(value & XAPIC_ID_MASK) << 32 | self.icr & 0xffff_ffff;
            }
            Reg::Lvt(entry) => {
                self.lvt.set(entry, value, self.is_software_enabled());
                if entry == LvtEntry::Timer {
                    self.timer.set_mode(TimerMode::from_lvt(self.lvt.get(entry)));
                    effects.timer_changed = true;
                }
            }
            Reg::InitialCount => {
                self.timer.set_initial_count(value, now);
                effects.timer_changed = true;
            }
            Reg::DivideConfig => {
                self.timer.set_divide_config(value, now);
                effects.timer_changed = true;
            }
            Reg::SelfIpi => {
                let ipi = Ipi::from_self_ipi(value as u8, self.config.id);
                return self.send(0, ipi);
            }
            Reg::Version | Reg::Apr | Reg::Ppr | Reg::Rrd | Reg::CurrentCount => {}
            Reg::Isr(_) | Reg::Tmr(_) | Reg::Irr(_) => {}
        }
        effects
    }

    fn send_xapic(&mut self, value: u32) -> Effects {
        let low = value & ICR_LOW_WRITABLE;
        let high = (self.icr >> 32) as u32;
        self.icr = u64::from(high) << 32 | u64::from(low);
        self.send(low, Ipi::from_icr_xapic(high, low, self.config.id))
    }

    /// Hands out a decoded message, or logs why there is none. An APIC that is software disabled
    /// "can still issue IPIs".
    ///
    /// Source: [SDM-3] "Error Handling": a lowest-priority IPI that cannot be sent sets "only the
    /// redirectable IPI error bit", whatever its vector. Status: spec.
    fn send(&mut self, icr_low: u32, decoded: Result<Ipi, SendError>) -> Effects {
        let is_lowest_priority = Delivery::from_bits((icr_low & DELIVERY_MASK) >> DELIVERY_SHIFT)
            == Some(Delivery::LowestPriority);
        let decoded = if is_lowest_priority && !self.config.can_send_lowest_priority {
            Err(SendError::Redirectable)
        } else {
            decoded
        };
        let error = match decoded {
            Ok(ipi) => return Effects { ipi: Some(ipi), ..Effects::default() },
            Err(SendError::Redirectable) => ESR_REDIRECTABLE_IPI,
            Err(SendError::IllegalVector) => ESR_SEND_ILLEGAL_VECTOR,
            Err(SendError::Invalid | SendError::Deassert) => return Effects::default(),
        };
        self.log_error(error);
        Effects { pending_changed: true, ..Effects::default() }
    }

    /// Writes IA32_APIC_BASE.
    ///
    /// Source: [SDM-3] "Enabling or Disabling the Local APIC": when disabled, the APIC "may
    /// return to the state described in Local APIC State After Power-Up or Reset"; here it does,
    /// ID included. "x2APIC State Transitions": from xAPIC to x2APIC the high half of the ICR is
    /// not preserved, nor are ID, LDR and DFR, which have other sources there. Status: spec.
    fn set_base(&mut self, value: u64) -> Result<Effects, ApicFault> {
        let before = self.mode();
        let (bits, has_x2apic) = (self.config.phys_addr_bits, self.config.has_x2apic);
        self.base = self.base.after_write(value, bits, has_x2apic).ok_or(GP)?;
        match (before, self.mode()) {
            (_, Mode::Disabled) => {
                self.xapic_id = self.config.id.0 as u8;
                self.init();
            }
            (Mode::XApic, Mode::X2Apic) => self.icr &= 0xffff_ffff,
            _ => {}
        }
        Ok(Effects {
            timer_changed: true,
            pending_changed: true,
            base_changed: true,
            ..Effects::default()
        })
    }
}
