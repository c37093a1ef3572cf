//! The GIC as one cpu has it: SGIs, PPIs and the CPU interface, by the registers of GICv3 or GICv2.
//!
//! Reading order: `redist` (life of SGIs and PPIs, register frames), `cpuif` (priorities, system
//! registers), `v2` (the same behind the registers of GICv2), `tests`, then here how a cpu reaches
//! them.
//!
//! The distributor with its SPIs is a device of the machine. It tells a cpu which SPI is its
//! highest ([`LocalGic::forward`], [`LocalGic::retract`]), and hears of what became of it by
//! `Ctx::tell_distributor`.
//!
//! Not modelled: LPIs and the ITS, two security states (GICD_CTLR.DS is 1), virtual interfaces.
//!
//! Source: \[GICv3\] "Interrupt handling and prioritization". Status: spec.

mod cpuif;
mod redist;
#[cfg(test)]
mod tests;
mod v2;

use emu_cpu::port::{DeviceAccess, Note, Port, Space, Target};
use emu_cpu::wait::Signal;

pub use cpuif::{IccReg, LocalGic, Pending, SgiTarget};
pub use redist::{GicConfig, Redistributor};

use crate::cpu::Gic;
use crate::ctx::{Ctx, Exec};

/// Bytes of the two frames of a redistributor.
pub const FRAME_SIZE: u64 = 0x2_0000;
/// Special INTID: no interrupt.
pub const INTID_NONE: u32 = 1023;
/// First shared peripheral interrupt.
pub const SPI_FIRST: u32 = 32;

/// Messages to the distributor: `addr >> 16` in `Space::Gicd`.
pub mod message {
    /// The INTID is acknowledged: pending becomes active. As a read (GICv2) it asks for that, and
    /// the answer is 1 or 0.
    pub const ACKNOWLEDGED: u64 = 0;
    /// The INTID is deactivated.
    pub const DEACTIVATED: u64 = 1;
    /// Interrupts of the group in the low bits are enabled (1) or not (0) at this cpu.
    pub const GROUP_ENABLE: u64 = 2;
    /// A read of a register whose state is in the core (GICv2): only its time counts.
    pub const REGISTER_READ: u64 = 3;
    /// The INTID was taken back and is no longer pending at this cpu, or it had been acknowledged
    /// before: that message comes first.
    pub const RELEASED: u64 = 4;
}

/// What the distributor hears of one of its interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpiEvent {
    /// A cpu has acknowledged it: active now.
    Acknowledged(u32),
    /// A cpu has deactivated it.
    Deactivated(u32),
    /// A cpu takes interrupts of a group, or no longer.
    GroupEnable(u8, bool),
}

impl<P: Port> Ctx<'_, P> {
    /// Reads a register of the CPU interface. It must be the last request of its instruction.
    pub(crate) fn read_icc(&mut self, reg: IccReg) -> Exec<u64> {
        if let IccReg::Iar(group) = reg {
            let pending = self.cpu.gic.pending().filter(|p| p.group == group);
            if let Some(Pending { intid, .. }) = pending
                && intid >= SPI_FIRST
            {
                self.tell_distributor(SpiEvent::Acknowledged(intid))?;
            }
            let intid = self.cpu.gic.acknowledge(group);
            self.note_acknowledged(intid);
            return Ok(u64::from(intid));
        }
        Ok(self.cpu.gic.read(reg))
    }

    /// Writes a register of the CPU interface. It must be the last request of its instruction.
    pub(crate) fn write_icc(&mut self, reg: IccReg, value: u64) -> Exec<()> {
        match reg {
            IccReg::Sgi => self.send_sgi(value)?,
            IccReg::Eoir(_) | IccReg::Dir => {
                let intid = (value & 0xff_ffff) as u32;
                if (SPI_FIRST..1020).contains(&intid) && self.cpu.gic.deactivates(reg) {
                    self.tell_distributor(SpiEvent::Deactivated(intid))?;
                }
                self.cpu.gic.end(reg, intid);
            }
            IccReg::Igrpen(group) => {
                let is_on = value & 1 != 0;
                if (self.cpu.gic.read(reg) != 0) != is_on {
                    self.tell_distributor(SpiEvent::GroupEnable(group, is_on))?;
                }
                self.cpu.gic.write(reg, value);
            }
            _ => self.cpu.gic.write(reg, value),
        }
        self.cpu.refresh_attention();
        Ok(())
    }

    /// "ICC_SGI1R_EL1 does not wait for older stores": a guest that needs it has a DSB before.
    ///
    /// With several cpus in the list, each finds itself in it ([`SgiTarget::contains`]).
    fn send_sgi(&mut self, value: u64) -> Exec<()> {
        let (target, vector) = SgiTarget::from_register(value);
        let (target, logical) = match (target, target.only()) {
            (SgiTarget::AllButSelf, _) => (Target::AllButSelf, None),
            (SgiTarget::List { list: 0, .. }, _) => return Ok(()),
            (_, Some(affinity)) => (Target::ArchId(affinity), None),
            (_, None) => (Target::Match(value), Some(value)),
        };
        let signal = Signal::Interrupt { vector, level: false, logical };
        Ok(self.port.signal(target, signal, false)?)
    }

    /// Reads the cpu's own redistributor, or the pages of a GICv2.
    pub(crate) fn read_gic_frame(&mut self, offset: u64, size: u8) -> Exec<u64> {
        if self.cpu.config.gic == Gic::V2 {
            return self.read_v2(offset, size);
        }
        Ok(self.cpu.gic.redistributor.read(offset, size))
    }

    /// Writes the cpu's own redistributor, or the pages of a GICv2. It must be the last request of
    /// its instruction.
    pub(crate) fn write_gic_frame(&mut self, offset: u64, size: u8, value: u64) -> Exec<()> {
        if self.cpu.config.gic == Gic::V2 {
            return self.write_v2(offset, size, value);
        }
        self.drain()?;
        self.cpu.gic.redistributor.write(offset, size, value);
        self.cpu.refresh_attention();
        Ok(())
    }

    /// After an acknowledgement, of 1023 for none.
    fn note_acknowledged(&mut self, intid: u32) {
        self.cpu.refresh_attention();
        if let Ok(vector) = u8::try_from(intid) {
            self.port.note(Note::Acknowledged(vector));
        }
    }

    /// Tells the distributor what became of a shared interrupt; nobody waits.
    fn tell_distributor(&mut self, event: SpiEvent) -> Exec<()> {
        let (kind, which, value) = match event {
            SpiEvent::Acknowledged(intid) => (message::ACKNOWLEDGED, intid, 0),
            SpiEvent::Deactivated(intid) => (message::DEACTIVATED, intid, 0),
            SpiEvent::GroupEnable(group, is_on) => {
                (message::GROUP_ENABLE, u32::from(group), u64::from(is_on))
            }
        };
        let addr = kind << 16 | u64::from(which);
        let access = DeviceAccess { space: Space::Gicd, addr, size: 4, write: Some(value) };
        Ok(self.port.tell(access)?)
    }
}
