//! GICv2 as one cpu sees it: the banked registers of the distributor and the CPU interface.
//!
//! The state is that of GICv3's redistributor and interface, in the core, since timers and nIRQ are
//! wires of it; what belongs to all cpus is in the machine's distributor. Yet a GIC-400 is a block
//! of its own, so a read takes a trip to it: GICC_IAR asks there for the interrupt (one of several
//! targets gets it), other reads only take the time. Writes are posted.
//!
//! Modelled: what a kernel in non-secure state sees: group 1 only, sixteen priorities, the sender
//! of an SGI, EOImode. Not modelled: secure state and the alias registers for it.
//!
//! Source: \[GICv2\] "Distributor register descriptions", "CPU interface register descriptions".
//! Status: spec.

use emu_cpu::port::{DeviceAccess, Port, Space};

use super::redist::{GicConfig, Redistributor};
use super::{INTID_NONE, IccReg, LocalGic, Pending, SPI_FIRST, SpiEvent, message};
use crate::ctx::{Ctx, Exec};

/// Bytes of the distributor's page.
const DISTRIBUTOR_BYTES: u64 = 0x1000;
/// Where the redistributor of GICv3 has the registers that are banked here.
const SGI_FRAME: u64 = 0x1_0000;
/// GICC_IIDR of a GIC-400, r0p1.
const INTERFACE_IIDR: u64 = 0x0202_143b;
/// GICC_CTLR, non-secure: group 1 enabled, EOI drops the priority only.
const ENABLE: u64 = 1;
const EOI_MODE: u64 = 1 << 9;
/// Bits of a priority that non-secure software sees.
const PRIORITIES: u64 = 0xf0f0_f0f0;
/// SGIs are always enabled, and made pending by GICD_SPENDSGIR only.
const PPIS: u64 = 0xffff_0000;

/// A register by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reg {
    /// In the machine's distributor.
    Shared,
    /// As in a redistributor: enables, pending and active bits.
    Bits,
    SetPending,
    ClearPending,
    ClearEnable,
    Priority,
    Config,
    /// Targets of SGIs and PPIs: this cpu.
    Targets,
    /// Senders of SGIs from this one on, to set or to clear.
    Senders(u32, bool),
    Ctlr,
    Pmr,
    Bpr,
    Iar,
    Eoir,
    Rpr,
    Hppir,
    Apr,
    InterfaceIidr,
    Dir,
    Reserved,
}

impl Reg {
    pub(super) fn from_offset(offset: u64) -> Reg {
        match offset {
            0x100 | 0x300 | 0x380 => Reg::Bits,
            0x180 => Reg::ClearEnable,
            0x200 => Reg::SetPending,
            0x280 => Reg::ClearPending,
            0x400..0x420 => Reg::Priority,
            0x800..0x820 => Reg::Targets,
            0xc00 | 0xc04 => Reg::Config,
            0xf10..0xf20 => Reg::Senders((offset - 0xf10) as u32, false),
            0xf20..0xf30 => Reg::Senders((offset - 0xf20) as u32, true),
            0..DISTRIBUTOR_BYTES => Reg::Shared,
            0x1_0000 => Reg::Ctlr,
            0x1_0004 => Reg::Pmr,
            0x1_0008 => Reg::Bpr,
            0x1_000c => Reg::Iar,
            0x1_0010 => Reg::Eoir,
            0x1_0014 => Reg::Rpr,
            0x1_0018 => Reg::Hppir,
            0x1_00d0 => Reg::Apr,
            0x1_00fc => Reg::InterfaceIidr,
            0x1_1000 => Reg::Dir,
            _ => Reg::Reserved,
        }
    }

    /// Words, and bytes of priorities, targets and senders.
    fn takes(self, offset: u64, size: u8) -> bool {
        let is_byte = matches!(self, Reg::Priority | Reg::Targets | Reg::Senders(..));
        size == 1 && is_byte || size == 4 && offset.is_multiple_of(4)
    }
}

impl LocalGic {
    /// State that firmware leaves to a kernel.
    #[must_use]
    pub fn for_v2(config: GicConfig) -> LocalGic {
        let mut gic = LocalGic::new(config);
        gic.redistributor = Redistributor::for_v2(config);
        gic
    }

    /// Whether the machine's distributor has the register at this offset.
    #[must_use]
    pub fn is_shared_v2(offset: u64) -> bool {
        Reg::from_offset(offset) == Reg::Shared
    }

    /// Reads a register that is here, without effect.
    #[must_use]
    pub fn read_v2(&self, offset: u64, size: u8) -> u64 {
        let reg = Reg::from_offset(offset);
        if !reg.takes(offset, size) {
            return 0;
        }
        match reg {
            Reg::Bits | Reg::SetPending | Reg::ClearPending | Reg::ClearEnable => {
                self.redistributor.read(SGI_FRAME + offset, size)
            }
            Reg::Priority | Reg::Config => self.redistributor.read(SGI_FRAME + offset, size),
            Reg::Targets => {
                let own = 1_u64 << (self.redistributor.number() & 7);
                (0..size).fold(0, |word, n| word | own << (8 * n))
            }
            Reg::Senders(first, _) => (0..u32::from(size)).fold(0, |word, n| {
                word | u64::from(self.redistributor.sources(first + n)) << (8 * n)
            }),
            Reg::Ctlr => {
                let eoi_mode = if self.deactivates(IccReg::Dir) { EOI_MODE } else { 0 };
                self.read(IccReg::Igrpen(1)) | eoi_mode
            }
            Reg::Pmr => self.read(IccReg::Pmr),
            Reg::Bpr => self.read(IccReg::Bpr(1)),
            Reg::Rpr => self.read(IccReg::Rpr),
            Reg::Hppir => self.highest().map_or(u64::from(INTID_NONE), |pending| {
                let sources = self.redistributor.sources(pending.intid);
                let is_sent = pending.intid < 16 && sources != 0;
                let source = if is_sent { u64::from(sources.trailing_zeros()) } else { 0 };
                source << 10 | u64::from(pending.intid)
            }),
            Reg::Apr => self.read(IccReg::Apr(1)),
            Reg::InterfaceIidr => INTERFACE_IIDR,
            Reg::Shared | Reg::Iar | Reg::Eoir | Reg::Dir | Reg::Reserved => 0,
        }
    }

    /// Writes a register whose effect stays here.
    pub fn write_v2(&mut self, offset: u64, size: u8, value: u64) {
        let reg = Reg::from_offset(offset);
        if !reg.takes(offset, size) {
            return;
        }
        match reg {
            Reg::Bits => self.redistributor.write(SGI_FRAME + offset, size, value),
            Reg::SetPending | Reg::ClearPending | Reg::ClearEnable => {
                self.redistributor.write(SGI_FRAME + offset, size, value & PPIS);
            }
            Reg::Priority => {
                self.redistributor.write(SGI_FRAME + offset, size, value & PRIORITIES);
            }
            Reg::Senders(first, is_set) => {
                let bytes = value.to_le_bytes().into_iter().take(usize::from(size));
                for (intid, byte) in (first..).zip(bytes) {
                    let old = self.redistributor.sources(intid);
                    let new = if is_set { old | byte } else { old & !byte };
                    self.redistributor.set_sources(intid, new);
                }
            }
            Reg::Ctlr => {
                self.write(IccReg::Igrpen(1), value & ENABLE);
                let is_split = value & EOI_MODE != 0;
                self.write(IccReg::Ctlr, if is_split { super::cpuif::EOI_MODE } else { 0 });
            }
            Reg::Pmr => self.write(IccReg::Pmr, value & PRIORITIES),
            Reg::Bpr => self.write(IccReg::Bpr(1), value),
            Reg::Apr => self.write(IccReg::Apr(1), value),
            Reg::Eoir => self.end(IccReg::Eoir(1), (value & 0x3ff) as u32),
            Reg::Dir => self.end(IccReg::Dir, (value & 0x3ff) as u32),
            _ => {}
        }
    }

    /// The interrupt that a read of GICC_IAR asks for, the same until it is answered.
    pub fn ask(&mut self) -> Pending {
        let none = Pending { intid: INTID_NONE, group: 1, priority: 0xff };
        *self.asked.get_or_insert(self.pending().unwrap_or(none))
    }

    /// Ends a read of GICC_IAR: its value.
    pub fn answer(&mut self, is_granted: bool) -> u64 {
        let Some(asked) = self.asked.take() else { return u64::from(INTID_NONE) };
        let is_there = match asked.intid {
            INTID_NONE => false,
            intid if intid < SPI_FIRST => self.redistributor.is_ready(intid),
            _ => is_granted,
        };
        if !is_there {
            return u64::from(INTID_NONE);
        }
        let source = self.take(asked);
        u64::from(source << 10 | asked.intid)
    }
}

impl<P: Port> Ctx<'_, P> {
    /// Reads the pages of a GICv2.
    pub(super) fn read_v2(&mut self, offset: u64, size: u8) -> Exec<u64> {
        match Reg::from_offset(offset) {
            Reg::Shared => {
                let addr = self.cpu.identity.gic_frame.unwrap_or(0) + offset;
                let access = DeviceAccess { space: Space::Memory, addr, size, write: None };
                Ok(self.port.device(access)?.unwrap_or_default())
            }
            Reg::Iar if size == 4 => {
                let intid = self.cpu.gic.ask().intid;
                let is_granted = self.ask_distributor(message::ACKNOWLEDGED, intid)? != 0;
                let value = self.cpu.gic.answer(is_granted);
                self.note_acknowledged((value & 0x3ff) as u32);
                Ok(value)
            }
            _ => {
                self.ask_distributor(message::REGISTER_READ, 0)?;
                Ok(self.cpu.gic.read_v2(offset, size))
            }
        }
    }

    /// Writes the pages of a GICv2. It must be the last request of its instruction.
    pub(super) fn write_v2(&mut self, offset: u64, size: u8, value: u64) -> Exec<()> {
        let reg = Reg::from_offset(offset);
        if reg == Reg::Shared {
            let addr = self.cpu.identity.gic_frame.unwrap_or(0) + offset;
            let write = Some(value);
            self.port.device(DeviceAccess { space: Space::Memory, addr, size, write })?;
            return Ok(());
        }
        self.drain()?;
        let intid = (value & 0x3ff) as u32;
        let ends = match reg {
            Reg::Eoir => self.cpu.gic.deactivates(IccReg::Eoir(1)),
            Reg::Dir => self.cpu.gic.deactivates(IccReg::Dir),
            _ => false,
        };
        if ends && size == 4 && (SPI_FIRST..1020).contains(&intid) {
            self.tell_distributor(SpiEvent::Deactivated(intid))?;
        }
        self.cpu.gic.write_v2(offset, size, value);
        self.cpu.refresh_attention();
        Ok(())
    }

    fn ask_distributor(&mut self, kind: u64, intid: u32) -> Exec<u64> {
        let addr = kind << 16 | u64::from(intid);
        let access = DeviceAccess { space: Space::Gicd, addr, size: 4, write: None };
        Ok(self.port.device(access)?.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use tests_ins::registers::{self, Row};

    use super::*;

    const CONFIG: GicConfig = GicConfig { affinity: 0x101, number: 5, is_last: false };
    /// Where the CPU interface begins, from the distributor on.
    const INTERFACE: u64 = 0x1_0000;

    /// A GIC that takes all.
    fn gic() -> LocalGic {
        let mut gic = LocalGic::for_v2(CONFIG);
        for (offset, value) in [(0x100, 0xffff_ffff), (0x1_0000, 1), (0x1_0004, 0xf0)] {
            gic.write_v2(offset, 4, value);
        }
        gic
    }

    fn acknowledge(gic: &mut LocalGic, is_granted: bool) -> u64 {
        gic.ask();
        gic.answer(is_granted)
    }

    #[test]
    fn an_sgi_is_taken_once_for_each_of_its_senders() {
        let mut gic = gic();
        assert!(gic.redistributor.set_pending_from(3, 6));
        assert!(gic.redistributor.set_pending_from(3, 2));
        assert!(!gic.redistributor.set_pending_from(3, 6), "merged");
        assert_eq!(gic.read_v2(0xf20, 4), 0x4400_0000);
        assert_eq!(gic.read_v2(0x1_0018, 4), 2 << 10 | 3);
        assert_eq!(acknowledge(&mut gic, true), 2 << 10 | 3);
        assert_eq!(acknowledge(&mut gic, true), 1023, "active");
        gic.write_v2(0x1_0010, 4, 2 << 10 | 3);
        assert_eq!(acknowledge(&mut gic, true), 6 << 10 | 3);
        gic.write_v2(0x1_0010, 4, 6 << 10 | 3);
        assert_eq!((acknowledge(&mut gic, true), gic.read_v2(0xf10, 4)), (1023, 0));
    }

    #[test]
    fn pending_sgis_are_set_and_cleared_by_sender() {
        let mut gic = gic();
        gic.write_v2(0xf27, 1, 0x81);
        assert_eq!((gic.read_v2(0x200, 4), gic.read_v2(0xf17, 1)), (0x80, 0x81));
        gic.write_v2(0x280, 4, 0x80);
        assert_eq!(gic.read_v2(0x200, 4), 0x80, "only by their own registers");
        gic.write_v2(0xf14, 4, 0x0100_0000);
        assert_eq!(acknowledge(&mut gic, true), 7 << 10 | 7);
    }

    #[test]
    fn a_shared_interrupt_that_another_cpu_got_is_none() {
        let mut gic = gic();
        gic.forward(Pending { intid: 40, group: 1, priority: 0x80 });
        assert_eq!(gic.ask().intid, 40);
        gic.forward(Pending { intid: 41, group: 1, priority: 0x10 });
        assert_eq!(gic.ask().intid, 40, "the question stays until it is answered");
        assert_eq!(gic.answer(false), 1023);
        assert_eq!(acknowledge(&mut gic, true), 41);
        assert_eq!(gic.read_v2(0x1_0014, 4), 0x10);
    }

    #[test]
    fn a_private_line_that_fell_meanwhile_is_none() {
        let mut gic = gic();
        gic.redistributor.set_line(27, true);
        assert_eq!(gic.ask().intid, 27);
        gic.redistributor.set_line(27, false);
        assert_eq!(gic.answer(true), 1023);
    }

    #[test]
    fn split_end_needs_dir() {
        let mut gic = gic();
        gic.write_v2(0x1_0000, 4, 0x201);
        assert_eq!(gic.read_v2(0x1_0000, 4), 0x201);
        gic.redistributor.set_pending_from(1, 0);
        assert_eq!(acknowledge(&mut gic, true), 1);
        gic.write_v2(0x1_0010, 4, 1);
        assert_eq!((gic.read_v2(0x1_0014, 4), gic.read_v2(0x300, 4)), (0xff, 2));
        gic.write_v2(0x1_1000, 4, 1);
        assert_eq!(gic.read_v2(0x300, 4), 0);
    }

    /// Source: \[GICv2\] "Distributor register map", "CPU interface register map"; GIC-400 manual
    /// for what is read-only.
    #[rustfmt::skip]
    const REGISTERS: &[Row] = &[
        (0x0100, 0x0100, 4, &[4], 0xffff, 0xffff_ffff),             // GICD_ISENABLER0
        (0x0180, 0x0180, 4, &[4], 0xffff, 0xffff),                  // GICD_ICENABLER0
        (0x0200, 0x0200, 4, &[4], 0, 0xffff_0000),                  // GICD_ISPENDR0
        (0x0280, 0x0280, 4, &[4], 0, 0),                            // GICD_ICPENDR0
        (0x0300, 0x0300, 4, &[4], 0, 0xffff_ffff),                  // GICD_ISACTIVER0
        (0x0380, 0x0380, 4, &[4], 0, 0),                            // GICD_ICACTIVER0
        (0x0400, 0x041c, 4, &[4], 0, 0xf0f0_f0f0),                  // GICD_IPRIORITYR0-7
        (0x0400, 0x041f, 1, &[1], 0, 0xf0),
        (0x0800, 0x081c, 4, &[4], 0x2020_2020, 0x2020_2020),        // GICD_ITARGETSR0-7
        (0x0800, 0x081f, 1, &[1], 0x20, 0x20),
        (0x0c00, 0x0c00, 4, &[4], 0xaaaa_aaaa, 0xaaaa_aaaa),        // GICD_ICFGR0
        (0x0f10, 0x0f1c, 4, &[4], 0, 0),                            // GICD_CPENDSGIR
        (0x0f10, 0x0f1f, 1, &[1], 0, 0),
        (0x0f20, 0x0f2c, 4, &[4], 0, 0xffff_ffff),                  // GICD_SPENDSGIR
        (0x0f20, 0x0f2f, 1, &[1], 0, 0xff),
        (0x1_0000, 0x1_0000, 4, &[4], 0, 0x201),                    // GICC_CTLR
        (0x1_0004, 0x1_0004, 4, &[4], 0, 0xf0),                     // GICC_PMR
        (0x1_0008, 0x1_0008, 4, &[4], 3, 7),                        // GICC_BPR
        (0x1_0014, 0x1_0014, 4, &[4], 0xff, 0xff),                  // GICC_RPR
        (0x1_0018, 0x1_0018, 4, &[4], 0x3ff, 0x3ff),                // GICC_HPPIR
        (0x1_00d0, 0x1_00d0, 4, &[4], 0, 0xffff_ffff),              // GICC_APR0
        (0x1_00fc, 0x1_00fc, 4, &[4], 0x0202_143b, 0x0202_143b),    // GICC_IIDR
    ];

    #[test]
    fn every_offset_reads_and_writes_as_the_manual_says_at_every_width() {
        let fresh = LocalGic::for_v2(CONFIG);
        let offsets = (0..0x1000).chain(INTERFACE..INTERFACE + 0x2000);
        registers::check(&fresh, REGISTERS, offsets, LocalGic::read_v2, LocalGic::write_v2);
    }
}
