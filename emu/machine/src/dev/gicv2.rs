//! The distributor of GICv2, as a GIC-400 has it: shared interrupts, and software-generated ones.
//!
//! Modelled: what a kernel in non-secure state sees: all interrupts in group 1, sixteen priorities,
//! target lists, GICD_SGIR with its filters. An interrupt for several cpus is pending for all of
//! them until one reads it; the others then read that there is none (1-N model). The state of SGIs
//! and PPIs, with the registers that are banked, and the CPU interfaces are in the cores
//! (`emu_arm64::gic`): timers and nIRQ are wires between them. A cpu's read of GICC_IAR comes here
//! to be granted.
//! Not modelled: secure state, group 0, a bypass of the interface.
//! Source: \[GICv2\] "Distributor register descriptions", "Interrupt handling and prioritization".
//! Status: spec.

use emu_arm64::gic::message;
use emu_sim::CpuId;

use super::spi::{Effect, Register as Common, Route, Spis};
use crate::map;

/// Most cpus of a GICv2.
pub const CPUS_MAX: usize = 8;

/// What an offset names beyond the registers of `spi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Ctlr,
    Typer,
    Iidr,
    Common(Common),
    /// Targets from this INTID on, a byte each.
    Targets(u32),
    Sgi,
    /// A byte of the identification.
    Id(u8),
    Reserved,
}

impl Register {
    fn from_offset(offset: u64) -> Register {
        match offset {
            0x000 => Register::Ctlr,
            0x004 => Register::Typer,
            0x008 => Register::Iidr,
            // GICD_IGROUPR is secure.
            0x080..0x100 => Register::Reserved,
            0x800..0xc00 => Register::Targets((offset - 0x800) as u32),
            0xf00 => Register::Sgi,
            0xfd0..=0xffc => Register::Id(ID[(offset - 0xfd0) as usize / 4]),
            _ => Common::from_offset(offset).map_or(Register::Reserved, Register::Common),
        }
    }

    fn takes(self, offset: u64, size: u8) -> bool {
        match self {
            Register::Common(common) => common.takes(offset, size),
            Register::Targets(_) if size == 1 => true,
            _ => size == 4 && offset.is_multiple_of(4),
        }
    }
}

/// GICD_IIDR of a GIC-400, r0p1.
const IIDR: u32 = 0x0200_143b;
/// GICD_PIDR4 to 7, 0 to 3, GICD_CIDR0 to 3 of a GIC-400.
const ID: [u8; 12] = [0x04, 0, 0, 0, 0x90, 0xb4, 0x2b, 0, 0x0d, 0xf0, 0x05, 0xb1];
/// GICD_TYPER: the security extensions are there.
const SECURITY: u32 = 1 << 10;
/// Bits of a priority that non-secure software sees.
const PRIORITY_MASK: u8 = 0xf0;

#[derive(Clone, Debug, PartialEq, Eq)]
struct Routing {
    is_enabled: bool,
    /// By SPI: a bit for each cpu.
    targets: Vec<u8>,
    cpus: usize,
}

impl Route for Routing {
    fn targets(&mut self, intid: u32, _group: u8, _before: &[CpuId]) -> Vec<CpuId> {
        let mask =
            if self.is_enabled { self.targets[(intid - map::SPI_FIRST) as usize] } else { 0 };
        cpus_of(mask, self.cpus)
    }
}

fn cpus_of(mask: u8, cpus: usize) -> Vec<CpuId> {
    (0..cpus as u32).filter(|cpu| mask >> cpu & 1 != 0).map(CpuId).collect()
}

/// The distributor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gicv2 {
    spis: Spis,
    routing: Routing,
}

impl Gicv2 {
    /// After reset, for this many cpus: all disabled, without targets.
    #[must_use]
    pub fn new(cpus: usize) -> Gicv2 {
        let cpus = cpus.min(CPUS_MAX);
        let targets = vec![0; (map::INTIDS - map::SPI_FIRST) as usize];
        Gicv2 {
            spis: Spis::new(PRIORITY_MASK, 1, false),
            routing: Routing { is_enabled: false, targets, cpus },
        }
    }

    /// Reads 1 to 8 bytes at an offset; what is no register, or banked, reads as zero.
    #[must_use]
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        let register = Register::from_offset(offset);
        if !register.takes(offset, size) {
            return 0;
        }
        let word = match register {
            Register::Ctlr => u32::from(self.routing.is_enabled),
            Register::Typer => {
                let cpus = (self.routing.cpus as u32).saturating_sub(1);
                (map::INTIDS / 32 - 1) | cpus << 5 | SECURITY
            }
            Register::Iidr => IIDR,
            Register::Id(byte) => u32::from(byte),
            Register::Sgi | Register::Reserved => 0,
            Register::Common(common) => return self.spis.read(common, size),
            Register::Targets(first) => (0..u32::from(size)).fold(0, |word, n| {
                let index = (first + n).checked_sub(map::SPI_FIRST);
                let mask = index.and_then(|index| self.routing.targets.get(index as usize));
                word | mask.map_or(0, |mask| u32::from(*mask) << (8 * n))
            }),
        };
        u64::from(word)
    }

    /// Writes 1 to 8 bytes at an offset, by `cpu`.
    pub fn write(&mut self, cpu: CpuId, offset: u64, size: u8, value: u64) -> Vec<Effect> {
        let register = Register::from_offset(offset);
        if !register.takes(offset, size) {
            return Vec::new();
        }
        let touched = match register {
            Register::Ctlr => {
                self.routing.is_enabled = value & 1 != 0;
                map::SPI_FIRST..map::INTIDS
            }
            Register::Common(common) => self.spis.write(common, size, value),
            Register::Targets(first) => {
                let existing = ((1_u32 << self.routing.cpus) - 1) as u8;
                let bytes = value.to_le_bytes().into_iter().take(usize::from(size));
                for (intid, byte) in (first..).zip(bytes) {
                    let index = intid.checked_sub(map::SPI_FIRST);
                    let mask = index.and_then(|n| self.routing.targets.get_mut(n as usize));
                    if let Some(mask) = mask {
                        *mask = byte & existing;
                    }
                }
                first..first + u32::from(size)
            }
            Register::Sgi => return self.send(cpu, value as u32),
            Register::Typer | Register::Iidr | Register::Id(_) | Register::Reserved => {
                return Vec::new();
            }
        };
        self.spis.settle(touched, &mut self.routing)
    }

    /// Source: \[GICv2\] GICD_SGIR, "TargetListFilter": the list, all but the sender, the sender;
    /// 0b11 is reserved and sends nothing.
    fn send(&self, source: CpuId, value: u32) -> Vec<Effect> {
        if !self.routing.is_enabled {
            return Vec::new();
        }
        let own = 1_u8.checked_shl(source.0).unwrap_or(0);
        let mask = match value >> 24 & 3 {
            0 => (value >> 16) as u8,
            1 => !own,
            2 => own,
            _ => 0,
        };
        let intid = (value & 15) as u8;
        let sgi = |cpu| Effect::Sgi { cpu, intid, source };
        cpus_of(mask, self.routing.cpus).into_iter().map(sgi).collect()
    }

    /// Hears a message of a cpu interface: `addr` in `Space::Gicd`. A read with kind
    /// `ACKNOWLEDGED` asks whether the cpu takes the interrupt: 1 or 0.
    pub fn hear(&mut self, cpu: CpuId, addr: u64) -> (u64, Vec<Effect>) {
        let intid = (addr & 0xffff) as u32;
        let mut is_granted = true;
        match addr >> 16 {
            message::ACKNOWLEDGED if (map::SPI_FIRST..map::INTIDS).contains(&intid) => {
                is_granted = self.spis.is_told(cpu, intid);
                if is_granted {
                    self.spis.acknowledge(cpu, intid);
                }
            }
            message::DEACTIVATED => self.spis.deactivate(intid),
            _ => {}
        }
        let effects = self.spis.settle(intid..intid + 1, &mut self.routing);
        (u64::from(is_granted), effects)
    }

    /// Follows the input line of a shared interrupt.
    pub fn set_line(&mut self, intid: u32, is_up: bool) -> Vec<Effect> {
        self.spis.set_line(intid, is_up, &mut self.routing)
    }
}

#[cfg(test)]
mod tests {
    use tests_ins::registers::{self, Row};

    use super::*;

    const INTID: u32 = 33;

    fn forward(cpu: u32) -> Effect {
        Effect::Forward { cpu: CpuId(cpu), intid: INTID as u16, priority: 0xa0, group: 1 }
    }

    fn retract(cpu: u32) -> Effect {
        Effect::Retract { cpu: CpuId(cpu), intid: INTID as u16 }
    }

    /// Four cpus; interrupt 33 enabled for these.
    fn gic(targets: u64) -> Gicv2 {
        let mut gic = Gicv2::new(4);
        let writes = [(0x000, 4, 1), (0x104, 4, 2), (0x421, 1, 0xa8), (0x821, 1, targets)];
        for (offset, size, value) in writes {
            assert_eq!(gic.write(CpuId(0), offset, size, value), []);
        }
        gic
    }

    fn acknowledge(gic: &mut Gicv2, cpu: u32) -> (u64, Vec<Effect>) {
        gic.hear(CpuId(cpu), message::ACKNOWLEDGED << 16 | u64::from(INTID))
    }

    #[test]
    fn one_of_the_targets_takes_an_interrupt_and_the_others_find_none() {
        let mut gic = gic(0b1010);
        assert_eq!(gic.set_line(INTID, true), [forward(1), forward(3)]);
        assert_eq!(acknowledge(&mut gic, 3), (1, vec![retract(1), retract(3)]));
        assert_eq!(acknowledge(&mut gic, 1), (0, vec![]), "too late");
        assert_eq!(gic.read(0x304, 4), 2);
        gic.set_line(INTID, false);
        let end = message::DEACTIVATED << 16 | u64::from(INTID);
        assert_eq!(gic.hear(CpuId(3), end), (1, vec![]));
        assert_eq!(gic.set_line(INTID, true), [forward(1), forward(3)]);
        assert_eq!(gic.write(CpuId(0), 0x821, 1, 0b1000), [retract(1)]);
        assert_eq!(gic.write(CpuId(0), 0x000, 4, 0), [retract(3)]);
    }

    #[test]
    fn who_gets_an_interrupt_is_told_that_it_is_gone() {
        let mut gic = gic(0b0010);
        gic.set_line(INTID, true);
        assert_eq!(gic.write(CpuId(0), 0x184, 4, 2), [retract(1)]);
        assert_eq!(gic.write(CpuId(0), 0x104, 4, 2), [forward(1)], "comes behind the answer");
        assert_eq!(acknowledge(&mut gic, 1), (1, vec![retract(1)]));
    }

    #[test]
    fn an_sgi_goes_to_its_list_to_the_others_or_to_the_sender() {
        let table: [(u64, &[u32], u8); 7] = [
            (0x0005_0003, &[0, 2], 3),
            (0x00ff_000f, &[0, 1, 2, 3], 15),
            (0x0000_0001, &[], 1),
            (0x0100_0002, &[0, 2, 3], 2),
            (0x01ff_0002, &[0, 2, 3], 2),
            (0x0200_8004, &[1], 4),
            (0x03ff_0005, &[], 5),
        ];
        for (value, targets, intid) in table {
            let source = CpuId(1);
            let sent = gic(0).write(source, 0xf00, 4, value);
            let sgi = |&cpu| Effect::Sgi { cpu: CpuId(cpu), intid, source };
            assert_eq!(sent, targets.iter().map(sgi).collect::<Vec<_>>(), "{value:#x}");
        }
        let mut off = Gicv2::new(4);
        assert_eq!(off.write(CpuId(0), 0xf00, 4, 0x00ff_0000), []);
    }

    /// Source: \[GICv2\] "Distributor register map"; GIC-400 manual for the constants.
    #[rustfmt::skip]
    const REGISTERS: &[Row] = &[
        (0x000, 0x000, 4, &[4], 0, 1),                          // GICD_CTLR
        (0x004, 0x004, 4, &[4], 0x467, 0x467),                  // GICD_TYPER: 256, 4 cpus
        (0x008, 0x008, 4, &[4], 0x0200_143b, 0x0200_143b),      // GICD_IIDR
        (0x104, 0x11c, 4, &[4], 0, 0xffff_ffff),                // GICD_ISENABLER
        (0x184, 0x19c, 4, &[4], 0, 0),                          // GICD_ICENABLER
        (0x204, 0x21c, 4, &[4], 0, 0xffff_ffff),                // GICD_ISPENDR
        (0x284, 0x29c, 4, &[4], 0, 0),                          // GICD_ICPENDR
        (0x304, 0x31c, 4, &[4], 0, 0xffff_ffff),                // GICD_ISACTIVER
        (0x384, 0x39c, 4, &[4], 0, 0),                          // GICD_ICACTIVER
        (0x420, 0x4fc, 4, &[4], 0, 0xf0f0_f0f0),                // GICD_IPRIORITYR
        (0x420, 0x4ff, 1, &[1], 0, 0xf0),
        (0x820, 0x8fc, 4, &[4], 0, 0x0f0f_0f0f),                // GICD_ITARGETSR
        (0x820, 0x8ff, 1, &[1], 0, 0x0f),
        (0xc08, 0xc3c, 4, &[4], 0, 0xaaaa_aaaa),                // GICD_ICFGR
        (0xfd0, 0xfd0, 4, &[4], 0x04, 0x04),                    // ICPIDR4
        (0xfe0, 0xfe0, 4, &[4], 0x90, 0x90),                    // ICPIDR0
        (0xfe4, 0xfe4, 4, &[4], 0xb4, 0xb4),
        (0xfe8, 0xfe8, 4, &[4], 0x2b, 0x2b),                    // ICPIDR2: architecture 2
        (0xff0, 0xff0, 4, &[4], 0x0d, 0x0d),                    // ICCIDR0
        (0xff4, 0xff4, 4, &[4], 0xf0, 0xf0),
        (0xff8, 0xff8, 4, &[4], 0x05, 0x05),
        (0xffc, 0xffc, 4, &[4], 0xb1, 0xb1),
    ];

    #[test]
    fn every_offset_reads_and_writes_as_the_manual_says_at_every_width() {
        let write = |gic: &mut Gicv2, offset, size, value| {
            assert_eq!(gic.write(CpuId(0), offset, size, value), []);
        };
        registers::check(&Gicv2::new(4), REGISTERS, 0..0x1000, Gicv2::read, write);
    }
}
