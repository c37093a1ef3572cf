//! Redistributor of one cpu: SGIs and PPIs from pending to inactive, and its register frames.
//!
//! One bit an INTID, 0 to 31. A level-sensitive interrupt is pending while its line is up or its
//! latch is set; an edge-triggered one while its latch is.
//!
//! Source: \[GICv3\] "Redistributor register descriptions", "Interrupt states". Status: spec.

/// What a redistributor is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GicConfig {
    /// Affinity Aff3.Aff2.Aff1.Aff0.
    pub affinity: u32,
    /// Processor number in GICR_TYPER.
    pub number: u16,
    /// Whether its frames are the last of their series.
    pub is_last: bool,
}

/// Which register an offset names: those of one bit an INTID by what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reg {
    Ctlr,
    Iidr,
    Typer,
    Waker,
    Group,
    SetEnable,
    ClearEnable,
    SetPending,
    ClearPending,
    SetActive,
    ClearActive,
    /// Priorities from this INTID on.
    Priority(usize),
    /// Configuration of INTIDs 0 to 15, or 16 to 31.
    Config(u32),
    Pidr2,
    Reserved,
}

impl Reg {
    /// The register at a word, and the byte in it.
    const fn from_offset(offset: u64) -> Reg {
        match offset {
            0x0000 => Reg::Ctlr,
            0x0004 => Reg::Iidr,
            0x0008 | 0x000c => Reg::Typer,
            0x0014 => Reg::Waker,
            0xffe8 | 0x1_ffe8 => Reg::Pidr2,
            0x1_0080 => Reg::Group,
            0x1_0100 => Reg::SetEnable,
            0x1_0180 => Reg::ClearEnable,
            0x1_0200 => Reg::SetPending,
            0x1_0280 => Reg::ClearPending,
            0x1_0300 => Reg::SetActive,
            0x1_0380 => Reg::ClearActive,
            0x1_0400..0x1_0420 => Reg::Priority((offset & 0x1f) as usize),
            0x1_0c00 => Reg::Config(0),
            0x1_0c04 => Reg::Config(1),
            _ => Reg::Reserved,
        }
    }
}

/// Implemented bits of a priority: 32 levels.
pub(super) const PRIORITY_MASK: u8 = 0xf8;
/// GICR_WAKER: the cpu sleeps; its interface is asleep.
const PROCESSOR_SLEEP: u32 = 1 << 1;
const CHILDREN_ASLEEP: u32 = 1 << 2;
/// Arm as implementer.
const IIDR: u32 = 0x43b;
/// Architecture revision 3.
const PIDR2: u32 = 0x3b;

/// SGIs and PPIs of one cpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redistributor {
    config: GicConfig,
    is_asleep: bool,
    group: u32,
    enabled: u32,
    latch: u32,
    lines: u32,
    active: u32,
    edge: u32,
    priority: [u8; 32],
    /// Who sent each pending SGI, one bit a cpu (GICv2).
    sources: [u8; 16],
}

impl Redistributor {
    /// State after reset: all disabled, group 0, SGIs edge-triggered, the interface asleep.
    #[must_use]
    pub const fn new(config: GicConfig) -> Redistributor {
        Redistributor {
            config,
            is_asleep: true,
            group: 0,
            enabled: 0,
            latch: 0,
            lines: 0,
            active: 0,
            edge: 0xffff,
            priority: [0; 32],
            sources: [0; 16],
        }
    }

    /// State that firmware leaves to a GICv2: awake, all in group 1, SGIs enabled.
    #[must_use]
    pub const fn for_v2(config: GicConfig) -> Redistributor {
        let fresh = Redistributor::new(config);
        Redistributor { is_asleep: false, group: u32::MAX, enabled: 0xffff, ..fresh }
    }

    /// Interrupts that are pending, enabled or not.
    #[must_use]
    pub const fn pending(&self) -> u32 {
        self.latch | self.lines & !self.edge
    }

    /// Interrupts that are active.
    #[must_use]
    pub const fn active(&self) -> u32 {
        self.active
    }

    /// Makes an interrupt pending; returns whether it was not before.
    pub fn set_pending(&mut self, intid: u8) -> bool {
        let bit = 1 << (intid & 31);
        let was = self.pending() & bit != 0;
        self.latch |= bit;
        !was
    }

    /// Makes an SGI pending from this cpu (GICv2); returns whether it was not before.
    pub fn set_pending_from(&mut self, intid: u8, source: u8) -> bool {
        let from = &mut self.sources[usize::from(intid & 15)];
        let was = *from >> (source & 7) & 1 != 0;
        *from |= 1 << (source & 7);
        self.latch |= 1 << (intid & 15);
        !was
    }

    /// Whether an interrupt is pending, enabled and not active.
    pub(super) const fn is_ready(&self, intid: u32) -> bool {
        self.ready() >> (intid & 31) & 1 != 0
    }

    /// Interrupts that are pending, enabled and not active.
    pub(super) const fn ready(&self) -> u32 {
        self.pending() & self.enabled & !self.active
    }

    /// Whether software has put the connection to the CPU interface to sleep.
    pub(super) const fn is_asleep(&self) -> bool {
        self.is_asleep
    }

    /// Who sent a pending SGI (GICv2).
    pub(super) const fn sources(&self, intid: u32) -> u8 {
        self.sources[(intid & 15) as usize]
    }

    /// Makes an SGI pending from these cpus, and from no other (GICv2).
    pub(super) const fn set_sources(&mut self, intid: u32, sources: u8) {
        self.sources[(intid & 15) as usize] = sources;
        let bit = 1 << (intid & 15);
        self.latch = if sources == 0 { self.latch & !bit } else { self.latch | bit };
    }

    /// The cpu's number.
    pub(super) const fn number(&self) -> u16 {
        self.config.number
    }

    /// Follows the input line of a PPI.
    pub fn set_line(&mut self, intid: u32, is_up: bool) {
        let bit = 1 << (intid & 31);
        let rises = is_up && self.lines & bit == 0;
        self.lines = if is_up { self.lines | bit } else { self.lines & !bit };
        if rises {
            self.latch |= bit & self.edge;
        }
    }

    /// The highest interrupt that could be taken: INTID, group, priority. The lower INTID wins.
    #[must_use]
    pub(super) fn highest(&self) -> Option<(u32, u8, u8)> {
        let ready = self.ready();
        if ready == 0 {
            return None;
        }
        let best =
            (0..32u32).filter(|n| ready >> n & 1 != 0).min_by_key(|n| (self.prio(*n), *n))?;
        Some((best, (self.group >> best & 1) as u8, self.prio(best)))
    }

    fn prio(&self, intid: u32) -> u8 {
        self.priority[(intid & 31) as usize]
    }

    /// Makes an interrupt active that was acknowledged. Returns who sent it, of an SGI of GICv2:
    /// the lowest cpu first, and the SGI stays pending from the others.
    pub(super) fn activate(&mut self, intid: u32) -> u32 {
        let bit = 1 << (intid & 31);
        self.active |= bit;
        self.latch &= !bit;
        if intid >= 16 || self.sources(intid) == 0 {
            return 0;
        }
        let sources = self.sources(intid);
        self.set_sources(intid, sources & (sources - 1));
        sources.trailing_zeros()
    }

    /// Ends an interrupt.
    pub(super) fn deactivate(&mut self, intid: u32) {
        self.active &= !(1 << (intid & 31));
    }

    /// Reads 1 to 8 bytes of the frames; offsets without a register read as zero.
    #[must_use]
    pub fn read(&self, offset: u64, size: u8) -> u64 {
        let word = offset & !3;
        if matches!(Reg::from_offset(offset), Reg::Typer) {
            return self.typer() >> (8 * (offset & 7)) & (u64::MAX >> (64 - 8 * u32::from(size)));
        }
        let low = u64::from(self.read_word(word)) >> (8 * (offset & 3));
        let high = if size == 8 { u64::from(self.read_word(word + 4)) << 32 } else { 0 };
        (low | high) & u64::MAX >> (64 - 8 * u32::from(size))
    }

    fn typer(&self) -> u64 {
        u64::from(self.config.affinity) << 32
            | u64::from(self.config.number) << 8
            | u64::from(self.config.is_last) << 4
    }

    fn read_word(&self, offset: u64) -> u32 {
        match Reg::from_offset(offset) {
            Reg::Ctlr | Reg::Typer | Reg::Reserved => 0,
            Reg::Iidr => IIDR,
            Reg::Waker if self.is_asleep => PROCESSOR_SLEEP | CHILDREN_ASLEEP,
            Reg::Waker => 0,
            Reg::Group => self.group,
            Reg::SetEnable | Reg::ClearEnable => self.enabled,
            Reg::SetPending | Reg::ClearPending => self.pending(),
            Reg::SetActive | Reg::ClearActive => self.active,
            Reg::Priority(from) => (0..4)
                .fold(0, |word, i| word | u32::from(self.priority[(from & 28) + i]) << (8 * i)),
            Reg::Config(half) => {
                (0..16).fold(0, |word, n| word | (self.edge >> (16 * half + n) & 1) << (2 * n + 1))
            }
            Reg::Pidr2 => PIDR2,
        }
    }

    /// Writes 1 to 8 bytes of the frames; offsets without a register lose them.
    pub fn write(&mut self, offset: u64, size: u8, value: u64) {
        if let Reg::Priority(first) = Reg::from_offset(offset) {
            // "These registers are byte-accessible".
            for (slot, byte) in
                self.priority[first..].iter_mut().zip(value.to_le_bytes()).take(usize::from(size))
            {
                *slot = byte & PRIORITY_MASK;
            }
            return;
        }
        if size < 4 {
            return;
        }
        self.write_word(offset, value as u32);
        if size == 8 {
            self.write_word(offset + 4, (value >> 32) as u32);
        }
    }

    fn write_word(&mut self, offset: u64, value: u32) {
        match Reg::from_offset(offset) {
            Reg::Waker => self.is_asleep = value & PROCESSOR_SLEEP != 0,
            Reg::Group => self.group = value,
            Reg::SetEnable => self.enabled |= value,
            Reg::ClearEnable => self.enabled &= !value,
            Reg::SetPending => self.latch |= value,
            Reg::ClearPending => self.latch &= !value,
            Reg::SetActive => self.active |= value,
            Reg::ClearActive => self.active &= !value,
            // SGIs are always edge-triggered.
            Reg::Config(1) => {
                let edge = (0..16).fold(0, |bits, n| bits | (value >> (2 * n + 1) & 1) << (16 + n));
                self.edge = 0xffff | edge;
            }
            _ => {}
        }
    }
}
