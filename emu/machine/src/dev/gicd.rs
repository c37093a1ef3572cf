//! The distributor of GICv3: shared interrupts routed by affinity.
//!
//! Modelled: one security state with affinity routing always on, groups 0 and 1, IROUTER to one cpu
//! or to one of N. Which of N: the next one after the last that was chosen, among cpus whose
//! interface has the group enabled; an interrupt stays with the cpu that was told until that one's
//! group is off. Not modelled: message-based and extended SPIs, LPIs, the write-pending bit (a
//! write has its effect at once).
//! Source: \[GICv3\] "Distributor register descriptions", "Affinity routing". Status: spec; the
//! choice among N: assumed.

use emu_arm64::gic::message;
use emu_sim::CpuId;

use super::spi::{Effect, Register as Common, Route, Spis};
use crate::map;

/// What an offset names beyond the registers of `spi`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Ctlr,
    Typer,
    Iidr,
    Common(Common),
    /// Routing of an interrupt: the word at this bit.
    Router(u32, u32),
    /// A word of the identification.
    Id(u32),
    Reserved,
}

impl Register {
    fn from_offset(offset: u64) -> Register {
        let routers = 0x6000 + 8 * u64::from(map::SPI_FIRST)..0x6000 + 8 * u64::from(map::INTIDS);
        match offset {
            0x0000 => Register::Ctlr,
            0x0004 => Register::Typer,
            0x0008 => Register::Iidr,
            _ if routers.contains(&offset) => {
                Register::Router((offset - 0x6000) as u32 / 8, (offset & 4) as u32 * 8)
            }
            0xffd0..=0xfffc => Register::Id(ID[(offset - 0xffd0) as usize / 4]),
            _ => Common::from_offset(offset).map_or(Register::Reserved, Register::Common),
        }
    }

    /// Whether an access of this size reaches the register.
    fn takes(self, offset: u64, size: u8) -> bool {
        match self {
            Register::Common(common) => common.takes(offset, size),
            Register::Router(..) if size == 8 => offset.is_multiple_of(8),
            _ => size == 4 && offset.is_multiple_of(4),
        }
    }
}

/// Arm as implementer, as the redistributors say.
const IIDR: u32 = 0x43b;
/// GICD_PIDR4 to 7, 0 to 3, GICD_CIDR0 to 3: architecture revision 3.
const ID: [u32; 12] = [0x44, 0, 0, 0, 0x92, 0xb4, 0x3b, 0, 0x0d, 0xf0, 0x05, 0xb1];
/// GICD_CTLR beside the enables: affinity routing, one security state.
const CTLR_FIXED: u32 = 1 << 4 | 1 << 6;
/// GICD_TYPER: INTIDs of 10 bits, Aff3 valid; the number of INTIDs and RSS beside.
const TYPER_FIXED: u32 = 9 << 19 | 1 << 24;
const TYPER_RSS: u32 = 1 << 26;
/// GICD_IROUTER: any participating cpu.
const ANY: u64 = 1 << 31;
const ROUTER_WRITABLE: u64 = 0xff_80ff_ffff;
/// Implemented bits of a priority, as in the cpu interfaces.
const PRIORITY_MASK: u8 = 0xf8;

/// Who takes what.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Routing {
    /// Affinity Aff3.Aff2.Aff1.Aff0 of each cpu.
    affinities: Vec<u32>,
    is_enabled: [bool; 2],
    routers: Vec<u64>,
    /// By cpu and group: whether its interface takes interrupts of the group.
    participates: Vec<[bool; 2]>,
    /// The cpu chosen last among N.
    last: usize,
}

impl Route for Routing {
    fn targets(&mut self, intid: u32, group: u8, before: &[CpuId]) -> Vec<CpuId> {
        let group = usize::from(group & 1);
        if !self.is_enabled[group] {
            return Vec::new();
        }
        let router = self.routers[(intid - map::SPI_FIRST) as usize];
        if router & ANY == 0 {
            let affinity = (router >> 32 << 24 | router & 0xff_ffff) as u32;
            let cpu = self.affinities.iter().position(|&known| known == affinity);
            return cpu.map(|cpu| CpuId(cpu as u32)).into_iter().collect();
        }
        let takes = |cpu: usize| self.participates[cpu][group];
        if let Some(&cpu) = before.first().filter(|cpu| takes(cpu.0 as usize)) {
            return vec![cpu];
        }
        let cpus = self.affinities.len();
        let next = (1..=cpus).map(|n| (self.last + n) % cpus).find(|&cpu| takes(cpu));
        if let Some(cpu) = next {
            self.last = cpu;
        }
        next.map(|cpu| CpuId(cpu as u32)).into_iter().collect()
    }
}

/// The distributor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gicd {
    spis: Spis,
    routing: Routing,
    has_range_selector: bool,
}

impl Gicd {
    /// After reset, for cpus of these affinities: all disabled, in group 0, routed to 0.0.0.0.
    #[must_use]
    pub fn new(affinities: Vec<u32>, has_range_selector: bool) -> Gicd {
        let routing = Routing {
            is_enabled: [false; 2],
            routers: vec![0; (map::INTIDS - map::SPI_FIRST) as usize],
            participates: vec![[false; 2]; affinities.len()],
            last: affinities.len().saturating_sub(1),
            affinities,
        };
        Gicd { spis: Spis::new(PRIORITY_MASK, 0, true), routing, has_range_selector }
    }

    /// Reads 1 to 8 bytes at an offset; what is no register reads as zero.
    #[must_use]
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        let register = Register::from_offset(offset);
        if !register.takes(offset, size) {
            return 0;
        }
        let rss = if self.has_range_selector { TYPER_RSS } else { 0 };
        let [group0, group1] = self.routing.is_enabled.map(u32::from);
        let word = match register {
            Register::Ctlr => CTLR_FIXED | group0 | group1 << 1,
            Register::Typer => (map::INTIDS / 32 - 1) | TYPER_FIXED | rss,
            Register::Iidr => IIDR,
            Register::Id(word) => word,
            Register::Reserved => 0,
            Register::Common(common) => return self.spis.read(common, size),
            Register::Router(intid, at) => {
                let router = self.routing.routers[(intid - map::SPI_FIRST) as usize] >> at;
                return if size == 4 { router & 0xffff_ffff } else { router };
            }
        };
        u64::from(word)
    }

    /// Writes 1 to 8 bytes at an offset.
    pub fn write(&mut self, offset: u64, size: u8, value: u64) -> Vec<Effect> {
        let register = Register::from_offset(offset);
        if !register.takes(offset, size) {
            return Vec::new();
        }
        let touched = match register {
            Register::Ctlr => {
                self.routing.is_enabled = [value & 1 != 0, value & 2 != 0];
                map::SPI_FIRST..map::INTIDS
            }
            Register::Common(common) => self.spis.write(common, size, value),
            Register::Router(intid, at) => {
                let router = &mut self.routing.routers[(intid - map::SPI_FIRST) as usize];
                let kept = if size == 8 { 0 } else { *router & !(0xffff_ffff << at) };
                *router = (kept | value << at) & ROUTER_WRITABLE;
                intid..intid + 1
            }
            Register::Typer | Register::Iidr | Register::Id(_) | Register::Reserved => {
                return Vec::new();
            }
        };
        self.spis.settle(touched, &mut self.routing)
    }

    /// Hears a message of a cpu interface: `addr` in `Space::Gicd`, with its value.
    pub fn hear(&mut self, cpu: CpuId, addr: u64, value: u64) -> Vec<Effect> {
        let intid = (addr & 0xffff) as u32;
        let mut touched = intid..intid + 1;
        match addr >> 16 {
            message::ACKNOWLEDGED => self.spis.acknowledge(cpu, intid),
            message::DEACTIVATED => self.spis.deactivate(intid),
            message::RELEASED => self.spis.release(cpu, intid),
            message::GROUP_ENABLE => {
                if let Some(participates) = self.routing.participates.get_mut(cpu.0 as usize) {
                    participates[(intid & 1) as usize] = value != 0;
                }
                touched = map::SPI_FIRST..map::INTIDS;
            }
            _ => {}
        }
        self.spis.settle(touched, &mut self.routing)
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

    fn forward(cpu: u32, priority: u8) -> Effect {
        Effect::Forward { cpu: CpuId(cpu), intid: INTID as u16, priority, group: 1 }
    }

    fn retract(cpu: u32) -> Effect {
        Effect::Withdraw { cpu: CpuId(cpu), intid: INTID as u16 }
    }

    fn release(gicd: &mut Gicd, cpu: u32) -> Vec<Effect> {
        gicd.hear(CpuId(cpu), message::RELEASED << 16 | u64::from(INTID), 0)
    }

    /// Three cpus; interrupt 33 enabled in group 1, priority 0xa0, for cpu 1.
    fn gicd() -> Gicd {
        let mut gicd = Gicd::new(vec![0, 1, 0x0102_0304], true);
        for (offset, size, value) in [
            (0x0000, 4, 3),
            (0x0084, 4, 2),
            (0x0104, 4, 2),
            (0x0400 + u64::from(INTID), 1, 0xa0),
            (0x6000 + 8 * u64::from(INTID), 8, 1),
        ] {
            assert_eq!(gicd.write(offset, size, value), []);
        }
        gicd
    }

    fn acknowledge(gicd: &mut Gicd, cpu: u32) -> Vec<Effect> {
        gicd.hear(CpuId(cpu), message::ACKNOWLEDGED << 16 | u64::from(INTID), 0)
    }

    fn deactivate(gicd: &mut Gicd) -> Vec<Effect> {
        gicd.hear(CpuId(0), message::DEACTIVATED << 16 | u64::from(INTID), 0)
    }

    fn state(gicd: &Gicd) -> (bool, bool) {
        let bit = |offset| gicd.read(offset, 4) & 2 != 0;
        (bit(0x204), bit(0x304))
    }

    #[test]
    fn a_level_comes_back_after_its_end_while_the_line_is_up() {
        let mut gicd = gicd();
        assert_eq!(gicd.set_line(INTID, true), [forward(1, 0xa0)]);
        assert_eq!(gicd.set_line(INTID, true), [], "told once");
        assert_eq!(acknowledge(&mut gicd, 1), []);
        assert_eq!(state(&gicd), (true, true), "active and pending");
        assert_eq!(deactivate(&mut gicd), [forward(1, 0xa0)]);
        assert_eq!(gicd.set_line(INTID, false), [retract(1)]);
        assert_eq!(state(&gicd), (false, false));
    }

    #[test]
    fn an_edge_is_kept_once_and_a_second_one_while_active() {
        let mut gicd = gicd();
        gicd.write(0xc08, 4, 8);
        assert_eq!(gicd.set_line(INTID, true), [forward(1, 0xa0)]);
        assert_eq!(gicd.set_line(INTID, false), []);
        acknowledge(&mut gicd, 1);
        assert_eq!(state(&gicd), (false, true));
        assert_eq!(gicd.set_line(INTID, true), []);
        assert_eq!(state(&gicd), (true, true));
        assert_eq!(deactivate(&mut gicd), [forward(1, 0xa0)]);
    }

    #[test]
    fn every_way_to_hold_an_interrupt_back_takes_it_back() {
        // Offset, size, value that holds it back, value that lets it go.
        let table: [(u64, u8, u64, u64, u64); 4] = [
            (0x0184, 4, 2, 0x0104, 2),
            (0x0000, 4, 1, 0x0000, 3),
            (0x0304, 4, 2, 0x0384, 2),
            (0x6108, 8, 0x55, 0x6108, 1),
        ];
        for (hold, size, value, free, back) in table {
            let mut gicd = gicd();
            gicd.set_line(INTID, true);
            assert_eq!(gicd.write(hold, size, value), [retract(1)], "{hold:#x}");
            assert_eq!(release(&mut gicd, 1), []);
            assert_eq!(gicd.write(free, size, back), [forward(1, 0xa0)], "{free:#x}");
        }
    }

    #[test]
    fn changes_of_priority_group_and_route_are_told() {
        let mut gicd = gicd();
        gicd.write(0x0204, 4, 2);
        assert_eq!(gicd.write(0x0421, 1, 0x47), [retract(1)]);
        assert_eq!(release(&mut gicd, 1), [forward(1, 0x40)]);
        let group0 = Effect::Forward { cpu: CpuId(1), intid: 33, priority: 0x40, group: 0 };
        assert_eq!(gicd.write(0x0084, 4, 0), [retract(1)]);
        assert_eq!(release(&mut gicd, 1), [group0]);
        assert_eq!(gicd.write(0x0084, 4, 2), [retract(1)]);
        assert_eq!(release(&mut gicd, 1), [forward(1, 0x40)]);
        let moved = gicd.write(0x6108, 4, 0x02_0304);
        assert_eq!(moved, [retract(1)], "0.2.3.4 is nobody");
        assert_eq!(release(&mut gicd, 1), []);
        assert_eq!(gicd.write(0x610c, 4, 1), [forward(2, 0x40)]);
        assert_eq!(gicd.read(0x6108, 8), 0x01_0002_0304);
    }

    #[test]
    fn one_of_n_goes_round_among_those_that_take_part() {
        let mut gicd = gicd();
        let enable = |gicd: &mut Gicd, cpu: u32, value| {
            gicd.hear(CpuId(cpu), message::GROUP_ENABLE << 16 | 1, value)
        };
        gicd.write(0x6108, 8, 1 << 31);
        assert_eq!(gicd.set_line(INTID, true), [], "nobody takes part");
        assert_eq!(enable(&mut gicd, 1, 1), [forward(1, 0xa0)]);
        assert_eq!(enable(&mut gicd, 2, 1), [], "it stays where it is");
        assert_eq!(enable(&mut gicd, 1, 0), [retract(1)]);
        assert_eq!(release(&mut gicd, 1), [forward(2, 0xa0)]);
        enable(&mut gicd, 0, 1);
        acknowledge(&mut gicd, 2);
        assert_eq!(deactivate(&mut gicd), [forward(0, 0xa0)], "the next");
        assert_eq!(gicd.hear(CpuId(7), message::GROUP_ENABLE << 16 | 1, 1), [], "no such cpu");
    }

    #[test]
    fn an_acknowledgement_that_crosses_a_retraction_counts() {
        let mut gicd = gicd();
        gicd.write(0x0204, 4, 2);
        assert_eq!(gicd.write(0x0184, 4, 2), [retract(1)]);
        assert_eq!(acknowledge(&mut gicd, 1), []);
        assert_eq!(release(&mut gicd, 1), []);
        assert_eq!(state(&gicd), (false, true));
        gicd.write(0x0104, 4, 2);
        gicd.write(0x0204, 4, 2);
        assert_eq!(deactivate(&mut gicd), [forward(1, 0xa0)]);
    }

    #[test]
    fn an_interrupt_that_moves_is_taken_once() {
        let mut gicd = gicd();
        gicd.set_line(INTID, true);
        assert_eq!(gicd.write(0x6108, 8, 0), [retract(1)], "and to nobody yet");
        assert_eq!(gicd.write(0x6108, 8, 0x01_0002_0304), [], "nor when it moves again");
        // It had been acknowledged: active, and nobody else's until its end.
        assert_eq!(acknowledge(&mut gicd, 1), []);
        assert_eq!(release(&mut gicd, 1), []);
        assert_eq!(state(&gicd), (true, true));
        assert_eq!(deactivate(&mut gicd), [forward(2, 0xa0)]);
        // It had not.
        assert_eq!(gicd.write(0x6108, 8, 1), [retract(2)]);
        assert_eq!(release(&mut gicd, 2), [forward(1, 0xa0)]);
    }

    #[test]
    fn an_interrupt_of_another_priority_is_taken_once() {
        let mut gicd = gicd();
        gicd.set_line(INTID, true);
        assert_eq!(gicd.write(0x0421, 1, 0x40), [retract(1)], "and not told anew yet");
        assert_eq!(acknowledge(&mut gicd, 1), []);
        assert_eq!(release(&mut gicd, 1), [], "it had been acknowledged");
        assert_eq!(deactivate(&mut gicd), [forward(1, 0x40)]);
    }

    /// Source: \[GICv3\] "Distributor register map", and each register's description.
    #[rustfmt::skip]
    const REGISTERS: &[Row] = &[
        (0x0000, 0x0000, 4, &[4], 0x50, 0x53),                          // GICD_CTLR
        (0x0004, 0x0004, 4, &[4], 0x0548_0007, 0x0548_0007),            // GICD_TYPER
        (0x0008, 0x0008, 4, &[4], 0x43b, 0x43b),                        // GICD_IIDR
        (0x0084, 0x009c, 4, &[4], 0, 0xffff_ffff),                      // GICD_IGROUPR
        (0x0104, 0x011c, 4, &[4], 0, 0xffff_ffff),                      // GICD_ISENABLER
        (0x0184, 0x019c, 4, &[4], 0, 0),                                // GICD_ICENABLER
        (0x0204, 0x021c, 4, &[4], 0, 0xffff_ffff),                      // GICD_ISPENDR
        (0x0284, 0x029c, 4, &[4], 0, 0),                                // GICD_ICPENDR
        (0x0304, 0x031c, 4, &[4], 0, 0xffff_ffff),                      // GICD_ISACTIVER
        (0x0384, 0x039c, 4, &[4], 0, 0),                                // GICD_ICACTIVER
        (0x0420, 0x04fc, 4, &[4], 0, 0xf8f8_f8f8),                      // GICD_IPRIORITYR
        (0x0420, 0x04ff, 1, &[1], 0, 0xf8),
        (0x0c08, 0x0c3c, 4, &[4], 0, 0xaaaa_aaaa),                      // GICD_ICFGR
        (0x6100, 0x67f8, 8, &[8], 0, 0xff_80ff_ffff),                   // GICD_IROUTER
        (0x6100, 0x67f8, 8, &[4], 0, 0x80ff_ffff),
        (0x6104, 0x67fc, 8, &[4], 0, 0xff),
        (0xffd0, 0xffd0, 4, &[4], 0x44, 0x44),                          // GICD_PIDR4
        (0xffe0, 0xffe0, 4, &[4], 0x92, 0x92),                          // GICD_PIDR0
        (0xffe4, 0xffe4, 4, &[4], 0xb4, 0xb4),
        (0xffe8, 0xffe8, 4, &[4], 0x3b, 0x3b),                          // GICD_PIDR2.ArchRev = 3
        (0xfff0, 0xfff0, 4, &[4], 0x0d, 0x0d),                          // GICD_CIDR0
        (0xfff4, 0xfff4, 4, &[4], 0xf0, 0xf0),
        (0xfff8, 0xfff8, 4, &[4], 0x05, 0x05),
        (0xfffc, 0xfffc, 4, &[4], 0xb1, 0xb1),
    ];

    #[test]
    fn every_offset_reads_and_writes_as_the_manual_says_at_every_width() {
        let fresh = Gicd::new(vec![0, 1], true);
        let write = |gicd: &mut Gicd, offset, size, value| {
            gicd.write(offset, size, value);
        };
        registers::check(&fresh, REGISTERS, 0..0x1_0000, Gicd::read, write);
    }
}
