//! Shared peripheral interrupts: their life in a distributor, and the registers that GICv2 and
//! GICv3 have in common.
//!
//! Modelled: enable, pending by latch and by line, active, group, priority, trigger; what each cpu
//! interface was told of an interrupt, so that it hears of changes only. Not modelled: SGIs and
//! PPIs (they are in the cores), message-based SPIs, two security states.
//!
//! An interrupt is forwarded while it is pending, enabled and not active. Where cpus acknowledge by
//! themselves (GICv3), one that is taken back, or has another priority or group, goes to nobody
//! before the cpu has given it back: it may have been acknowledged in that very moment. With GICv2
//! the distributor grants it, and takes it back from who got it too: what it told that cpu before
//! may come behind the answer.
//! Source: \[GICv3\] "Interrupt lifecycle", "Distributor register descriptions". Status: spec.

use std::ops::Range;

use emu_sim::CpuId;

use crate::map;

/// What a distributor tells a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This interrupt is pending for the cpu, or (GICv2) has another priority.
    Forward {
        /// Whom.
        cpu: CpuId,
        /// Which.
        intid: u16,
        /// Priority, 0 the highest.
        priority: u8,
        /// Group.
        group: u8,
    },
    /// It no longer is.
    Retract {
        /// Whom.
        cpu: CpuId,
        /// Which.
        intid: u16,
    },
    /// It no longer is, and the cpu is to say when it has heard so.
    Withdraw {
        /// Whom.
        cpu: CpuId,
        /// Which.
        intid: u16,
    },
    /// A software-generated interrupt (GICv2).
    Sgi {
        /// Whom.
        cpu: CpuId,
        /// Which, 0 to 15.
        intid: u8,
        /// The cpu that wrote GICD_SGIR.
        source: CpuId,
    },
}

/// One interrupt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Spi {
    is_enabled: bool,
    latch: bool,
    line: bool,
    is_active: bool,
    is_edge: bool,
    group: u8,
    priority: u8,
    /// Who was told, and of which priority and group.
    told: Vec<CpuId>,
    told_as: (u8, u8),
    /// From whom it was taken back and who has not given it back.
    withdrawn: Vec<CpuId>,
}

impl Spi {
    fn is_pending(&self) -> bool {
        self.latch || self.line && !self.is_edge
    }

    fn is_ready(&self) -> bool {
        self.is_enabled && self.is_pending() && !self.is_active
    }
}

/// What a register of one bit an interrupt does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bits {
    Group,
    SetEnable,
    ClearEnable,
    SetPending,
    ClearPending,
    SetActive,
    ClearActive,
}

/// A register that both architectures have, with its first INTID.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Register {
    Bits(Bits, u32),
    Priority(u32),
    Config(u32),
}

impl Register {
    /// The register at a word.
    pub(super) fn from_offset(offset: u64) -> Option<Register> {
        let bits = |bits, base: u64| Some(Register::Bits(bits, (offset - base) as u32 * 8));
        match offset & !3 {
            0x080..0x100 => bits(Bits::Group, 0x080),
            0x100..0x180 => bits(Bits::SetEnable, 0x100),
            0x180..0x200 => bits(Bits::ClearEnable, 0x180),
            0x200..0x280 => bits(Bits::SetPending, 0x200),
            0x280..0x300 => bits(Bits::ClearPending, 0x280),
            0x300..0x380 => bits(Bits::SetActive, 0x300),
            0x380..0x400 => bits(Bits::ClearActive, 0x380),
            0x400..0x800 => Some(Register::Priority((offset - 0x400) as u32)),
            0xc00..0xd00 => Some(Register::Config((offset - 0xc00) as u32 * 4)),
            _ => None,
        }
    }

    /// "These registers are byte-accessible": priorities; all others are words.
    pub(super) fn takes(self, offset: u64, size: u8) -> bool {
        let is_byte = size == 1 && matches!(self, Register::Priority(_));
        is_byte || size == 4 && offset.is_multiple_of(4)
    }
}

/// Where a pending interrupt goes, given to whom it went before.
pub(super) trait Route {
    /// Returns its targets; none while nobody takes it or its group is off.
    fn targets(&mut self, intid: u32, group: u8, before: &[CpuId]) -> Vec<CpuId>;
}

/// The SPIs of a distributor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Spis {
    spis: Vec<Spi>,
    /// Bits of a priority that are implemented.
    priority_mask: u8,
    /// Cpus acknowledge without asking.
    is_withdrawn: bool,
}

impl Spis {
    pub(super) fn new(priority_mask: u8, group: u8, is_withdrawn: bool) -> Spis {
        let spi = Spi { group, ..Spi::default() };
        let count = map::INTIDS - map::SPI_FIRST;
        Spis { spis: vec![spi; count as usize], priority_mask, is_withdrawn }
    }

    fn get(&self, intid: u32) -> Option<&Spi> {
        self.spis.get(intid.checked_sub(map::SPI_FIRST)? as usize)
    }

    fn get_mut(&mut self, intid: u32) -> Option<&mut Spi> {
        self.spis.get_mut(intid.checked_sub(map::SPI_FIRST)? as usize)
    }

    /// Reads `size` bytes; INTIDs that are no SPIs read as zero.
    pub(super) fn read(&self, register: Register, size: u8) -> u64 {
        let of = |intid: u32, value: &dyn Fn(&Spi) -> u64| self.get(intid).map_or(0, value);
        match register {
            Register::Bits(bits, first) => (0..32).fold(0, |word, n| {
                let is_set = of(first + n, &|spi| u64::from(bit(spi, bits)));
                word | is_set << n
            }),
            Register::Priority(first) => (0..u32::from(size))
                .fold(0, |word, n| word | of(first + n, &|spi| u64::from(spi.priority)) << (8 * n)),
            Register::Config(first) => (0..16).fold(0, |word, n| {
                word | of(first + n, &|spi| u64::from(spi.is_edge)) << (2 * n + 1)
            }),
        }
    }

    /// Writes `size` bytes; returns which interrupts may have to be told of.
    pub(super) fn write(&mut self, register: Register, size: u8, value: u64) -> Range<u32> {
        let mask = self.priority_mask;
        match register {
            Register::Bits(bits, first) => {
                for n in 0..32 {
                    if let Some(spi) = self.get_mut(first + n) {
                        set_bit(spi, bits, value >> n & 1 != 0);
                    }
                }
                first..first + 32
            }
            Register::Priority(first) => {
                let bytes = value.to_le_bytes().into_iter().take(usize::from(size));
                for (n, byte) in (first..).zip(bytes) {
                    if let Some(spi) = self.get_mut(n) {
                        spi.priority = byte & mask;
                    }
                }
                first..first + u32::from(size)
            }
            Register::Config(first) => {
                for n in 0..16 {
                    if let Some(spi) = self.get_mut(first + n) {
                        spi.is_edge = value >> (2 * n + 1) & 1 != 0;
                    }
                }
                first..first + 16
            }
        }
    }

    /// Follows the input line of an interrupt.
    pub(super) fn set_line(
        &mut self,
        intid: u32,
        is_up: bool,
        route: &mut impl Route,
    ) -> Vec<Effect> {
        if let Some(spi) = self.get_mut(intid) {
            spi.latch |= spi.is_edge && is_up && !spi.line;
            spi.line = is_up;
        }
        self.settle(intid..intid + 1, route)
    }

    /// Whether a cpu was told of an interrupt.
    pub(super) fn is_told(&self, cpu: CpuId, intid: u32) -> bool {
        self.get(intid).is_some_and(|spi| spi.told.contains(&cpu))
    }

    /// A cpu has taken an interrupt.
    pub(super) fn acknowledge(&mut self, cpu: CpuId, intid: u32) {
        let is_withdrawn = self.is_withdrawn;
        let Some(spi) = self.get_mut(intid) else { return };
        if is_withdrawn {
            spi.told.retain(|told| *told != cpu);
        }
        spi.latch = false;
        spi.is_active = true;
    }

    /// A cpu no longer has an interrupt that was taken back.
    pub(super) fn release(&mut self, cpu: CpuId, intid: u32) {
        if let Some(spi) = self.get_mut(intid) {
            spi.withdrawn.retain(|from| *from != cpu);
        }
    }

    /// A cpu has ended an interrupt.
    pub(super) fn deactivate(&mut self, intid: u32) {
        if let Some(spi) = self.get_mut(intid) {
            spi.is_active = false;
        }
    }

    /// Tells cpus what has changed for them.
    pub(super) fn settle(&mut self, intids: Range<u32>, route: &mut impl Route) -> Vec<Effect> {
        let mut effects = Vec::new();
        let is_withdrawn = self.is_withdrawn;
        for intid in intids {
            let Some(spi) = self.get_mut(intid) else { continue };
            let mut targets = if spi.is_ready() && spi.withdrawn.is_empty() {
                route.targets(intid, spi.group, &spi.told)
            } else {
                Vec::new()
            };
            let (is_as_told, number) = ((spi.priority, spi.group) == spi.told_as, intid as u16);
            let stays = |cpu: &CpuId| targets.contains(cpu) && (is_as_told || !is_withdrawn);
            let gone: Vec<CpuId> = spi.told.iter().filter(|cpu| !stays(cpu)).copied().collect();
            if is_withdrawn && !gone.is_empty() {
                targets.clear();
                spi.withdrawn.extend(&gone);
            }
            effects.extend(gone.into_iter().map(|cpu| match is_withdrawn {
                true => Effect::Withdraw { cpu, intid: number },
                false => Effect::Retract { cpu, intid: number },
            }));
            let new = targets.iter().filter(|cpu| !is_as_told || !spi.told.contains(cpu));
            effects.extend(new.map(|&cpu| Effect::Forward {
                cpu,
                intid: number,
                priority: spi.priority,
                group: spi.group,
            }));
            spi.told = targets;
            spi.told_as = (spi.priority, spi.group);
        }
        effects
    }
}

fn bit(spi: &Spi, bits: Bits) -> bool {
    match bits {
        Bits::Group => spi.group != 0,
        Bits::SetEnable | Bits::ClearEnable => spi.is_enabled,
        Bits::SetPending | Bits::ClearPending => spi.is_pending(),
        Bits::SetActive | Bits::ClearActive => spi.is_active,
    }
}

fn set_bit(spi: &mut Spi, bits: Bits, is_set: bool) {
    match bits {
        Bits::Group => spi.group = u8::from(is_set),
        Bits::SetEnable => spi.is_enabled |= is_set,
        Bits::ClearEnable => spi.is_enabled &= !is_set,
        Bits::SetPending => spi.latch |= is_set,
        Bits::ClearPending => spi.latch &= !is_set,
        Bits::SetActive => spi.is_active |= is_set,
        Bits::ClearActive => spi.is_active &= !is_set,
    }
}
