//! GICv3 as one cpu has it: its redistributor and its CPU interface.
//!
//! Reading order: `redist` (life of SGIs and PPIs, register frames), `cpuif` (priorities, system
//! registers), `tests`, then here how a cpu reaches them.
//!
//! The distributor with its SPIs is a device of the machine. It tells a cpu which SPI is its
//! highest ([`LocalGic::forward`], [`LocalGic::retract`]), and hears of what became of it by
//! `Ctx::tell_distributor`.
//!
//! Not modelled: LPIs and the ITS, two security states (GICD_CTLR.DS is 1), virtual interfaces,
//! the memory-mapped CPU interface of GICv2.
//!
//! Source: \[GICv3\] "Interrupt handling and prioritization". Status: spec.

mod cpuif;
mod redist;
#[cfg(test)]
mod tests;

use emu_cpu::port::{DeviceAccess, Port, Space, Target};
use emu_cpu::wait::Signal;

pub use cpuif::{IccReg, LocalGic, Pending, SgiTarget};
pub use redist::{GicConfig, Redistributor};

use crate::ctx::{Ctx, Exec};

/// Bytes of the two frames of a redistributor.
pub const FRAME_SIZE: u64 = 0x2_0000;
/// Special INTID: no interrupt.
pub const INTID_NONE: u32 = 1023;
/// First shared peripheral interrupt.
pub const SPI_FIRST: u32 = 32;

/// What the distributor hears of one of its interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpiEvent {
    /// A cpu has acknowledged it: active now.
    Acknowledged(u32),
    /// A cpu has deactivated it.
    Deactivated(u32),
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
            self.cpu.refresh_attention();
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
        let (target, logical) = match target {
            SgiTarget::AllButSelf => (Target::AllButSelf, None),
            SgiTarget::List { list: 0, .. } => return Ok(()),
            SgiTarget::List { cluster, first, list } if list.is_power_of_two() => {
                (Target::ArchId(cluster | (u32::from(first) + list.trailing_zeros())), None)
            }
            SgiTarget::List { .. } => (Target::Match(value), Some(value)),
        };
        let signal = Signal::Interrupt { vector, level: false, logical };
        Ok(self.port.signal(target, signal, false)?)
    }

    /// Reads the cpu's own redistributor.
    pub(crate) fn read_gic_frame(&mut self, offset: u64, size: u8) -> Exec<u64> {
        Ok(self.cpu.gic.redistributor.read(offset, size))
    }

    /// Writes the cpu's own redistributor. It must be the last request of its instruction.
    pub(crate) fn write_gic_frame(&mut self, offset: u64, size: u8, value: u64) -> Exec<()> {
        self.drain()?;
        self.cpu.gic.redistributor.write(offset, size, value);
        self.cpu.refresh_attention();
        Ok(())
    }

    /// Tells the distributor what became of a shared interrupt; nobody waits.
    fn tell_distributor(&mut self, event: SpiEvent) -> Exec<()> {
        let (kind, intid) = match event {
            SpiEvent::Acknowledged(intid) => (0, intid),
            SpiEvent::Deactivated(intid) => (1, intid),
        };
        let addr = kind << 16 | u64::from(intid);
        let access = DeviceAccess { space: Space::Gicd, addr, size: 4, write: Some(0) };
        Ok(self.port.tell(access)?)
    }
}
