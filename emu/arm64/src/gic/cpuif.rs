//! CPU interface: which interrupt may be taken, and what runs.
//!
//! Priorities have 32 levels, 0 the highest. An interrupt is signalled when its group is enabled,
//! its priority is above the mask, and its group priority above that of what runs. The running
//! priorities are one bit a level and group, as the active priorities registers hold them.
//!
//! Source: \[GICv3\] "Preemption", "Priority grouping", "Interrupt lifecycle", ICC registers.
//! Status: spec.

use super::redist::{GicConfig, PRIORITY_MASK, Redistributor};
use super::{INTID_NONE, SPI_FIRST};

/// A register of the CPU interface; numbers are groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the manual")]
pub enum IccReg {
    Pmr,
    Iar(u8),
    Eoir(u8),
    Hppir(u8),
    Bpr(u8),
    Apr(u8),
    Dir,
    Rpr,
    Sgi,
    Ctlr,
    Sre,
    SreEl2,
    Igrpen(u8),
}

/// An interrupt that may be taken now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Number.
    pub intid: u32,
    /// 0 signals FIQ, 1 IRQ.
    pub group: u8,
    /// Priority.
    pub priority: u8,
}

/// Whom an SGI addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SgiTarget {
    /// All cpus but the sender.
    AllButSelf,
    /// Cpus `first + n` of a cluster, for each bit n of the list.
    List {
        /// Aff3.Aff2.Aff1 at their places, Aff0 zero.
        cluster: u32,
        /// Aff0 of bit 0: 16 times the range selector.
        first: u8,
        /// Bits.
        list: u16,
    },
}

impl SgiTarget {
    /// Target and INTID in a value of ICC_SGI1R_EL1.
    #[must_use]
    pub fn from_register(value: u64) -> (SgiTarget, u8) {
        let intid = (value >> 24 & 15) as u8;
        if value >> 40 & 1 != 0 {
            return (SgiTarget::AllButSelf, intid);
        }
        let field = |at: u32| (value >> at & 0xff) as u32;
        let cluster = field(48) << 24 | field(32) << 16 | field(16) << 8;
        let first = ((value >> 44 & 15) << 4) as u8;
        (SgiTarget::List { cluster, first, list: value as u16 }, intid)
    }

    /// Affinity of the only cpu in the list, if there is one.
    #[must_use]
    pub const fn only(self) -> Option<u32> {
        match self {
            SgiTarget::List { cluster, first, list } if list.is_power_of_two() => {
                Some(cluster | (first as u32 + list.trailing_zeros()))
            }
            _ => None,
        }
    }

    /// Whether a list has the cpu of this affinity.
    #[must_use]
    pub fn contains(self, affinity: u32) -> bool {
        match self {
            SgiTarget::AllButSelf => true,
            SgiTarget::List { cluster, first, list } => {
                let bit = affinity.wrapping_sub(cluster | u32::from(first));
                bit < 16 && list >> bit & 1 != 0
            }
        }
    }
}

/// ICC_CTLR_EL1: one binary point for both groups; EOI only drops the priority.
const CBPR: u64 = 1;
pub(super) const EOI_MODE: u64 = 2;
/// ICC_CTLR_EL1 as it reads beside those: PRIbits 4, A3V, RSS.
const CTLR_FIXED: u64 = 4 << 8 | 1 << 15 | 1 << 18;
/// Least binary points by group: 5 bits of priority.
const BPR_MIN: [u8; 2] = [2, 3];
/// System register access is on and cannot be turned off.
const SRE: u64 = 7;
const SRE_EL2: u64 = 0xf;
/// No interrupt runs.
const IDLE: u8 = 0xff;

/// GIC of one cpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalGic {
    /// SGIs and PPIs.
    pub redistributor: Redistributor,
    pmr: u8,
    bpr: [u8; 2],
    is_enabled: [bool; 2],
    ctlr: u64,
    /// Active priorities by group, one bit a level.
    apr: [u32; 2],
    /// Shared interrupts that the distributor has forwarded.
    spis: Vec<Pending>,
    /// What the read of GICC_IAR under way asks for (GICv2).
    pub(super) asked: Option<Pending>,
}

impl LocalGic {
    /// State after reset: all masked.
    #[must_use]
    pub const fn new(config: GicConfig) -> LocalGic {
        LocalGic {
            redistributor: Redistributor::new(config),
            pmr: 0,
            bpr: BPR_MIN,
            is_enabled: [false; 2],
            ctlr: 0,
            apr: [0; 2],
            spis: Vec::new(),
            asked: None,
        }
    }

    /// The distributor has made an interrupt pending for this cpu, or changed its priority.
    pub fn forward(&mut self, spi: Pending) {
        self.retract(spi.intid);
        self.spis.push(spi);
    }

    /// The distributor takes an interrupt back: disabled, no longer pending, or sent elsewhere.
    pub fn retract(&mut self, intid: u32) {
        self.spis.retain(|spi| spi.intid != intid);
    }

    /// The interrupt of highest priority, whatever runs; the lower INTID wins. A redistributor that
    /// sleeps forwards none, shared ones included.
    ///
    /// Source: \[GICv3\] "GICR_WAKER", "Power management". Status: spec.
    pub(super) fn highest(&self) -> Option<Pending> {
        if self.redistributor.is_asleep() {
            return None;
        }
        let own = self.redistributor.highest();
        let own = own.map(|(intid, group, priority)| Pending { intid, group, priority });
        let all = own.into_iter().chain(self.spis.iter().copied());
        all.filter(|p| self.is_enabled[usize::from(p.group & 1)])
            .min_by_key(|p| (p.priority, p.intid))
    }

    /// Group priority of a priority.
    ///
    /// Source: \[GICv3\] "Priority grouping": binary point n leaves bits 7:n+1 in group 0, and 7:n
    /// in group 1.
    fn group_priority(&self, priority: u8, group: u8) -> u8 {
        let is_common = self.ctlr & CBPR != 0;
        let shift = if group == 0 || is_common { self.bpr[0] + 1 } else { self.bpr[1] };
        (u16::from(priority) >> shift << shift) as u8
    }

    /// Group priority of what runs.
    fn running(&self) -> u8 {
        match (self.apr[0] | self.apr[1]).trailing_zeros() {
            32 => IDLE,
            level => (level as u8) << 3,
        }
    }

    /// The interrupt that may be taken now.
    #[must_use]
    pub fn pending(&self) -> Option<Pending> {
        self.highest().filter(|p| {
            p.priority < self.pmr && self.group_priority(p.priority, p.group) < self.running()
        })
    }

    /// Whether the redistributor asks the power controller to power the cpu up. Masks and group
    /// enables of the CPU interface do not count: they are off before GICR_WAKER is written.
    ///
    /// Source: \[GICv3\] "GICR_WAKER": with ProcessorSleep set, "all interrupts that arrive at the
    /// Redistributor assert a WakeRequest signal". Status: spec.
    #[must_use]
    pub const fn wake_request(&self) -> bool {
        let has_interrupt = self.redistributor.ready() != 0 || !self.spis.is_empty();
        self.redistributor.is_asleep() && has_interrupt
    }

    /// Acknowledges: the pending interrupt of this group becomes active. Returns its INTID, or
    /// 1023.
    pub fn acknowledge(&mut self, group: u8) -> u32 {
        let Some(taken) = self.pending().filter(|p| p.group == group) else { return INTID_NONE };
        self.take(taken);
        taken.intid
    }

    /// Makes an interrupt active. Returns the cpu that sent it, of an SGI of GICv2.
    pub(super) fn take(&mut self, taken: Pending) -> u32 {
        let level = self.group_priority(taken.priority, taken.group) >> 3;
        self.apr[usize::from(taken.group & 1)] |= 1 << level;
        if taken.intid < SPI_FIRST {
            return self.redistributor.activate(taken.intid);
        }
        self.retract(taken.intid);
        0
    }

    /// Whether a write of this register deactivates an interrupt.
    #[must_use]
    pub const fn deactivates(&self, reg: IccReg) -> bool {
        matches!(reg, IccReg::Dir) == (self.ctlr & EOI_MODE != 0)
    }

    /// Ends an interrupt by EOIR (priority drop, and deactivation unless they are split) or DIR.
    pub fn end(&mut self, reg: IccReg, intid: u32) {
        if intid >= 1020 {
            return;
        }
        if let IccReg::Eoir(group) = reg {
            let apr = &mut self.apr[usize::from(group & 1)];
            *apr &= apr.wrapping_sub(1);
        }
        if self.deactivates(reg) && intid < SPI_FIRST {
            self.redistributor.deactivate(intid);
        }
    }

    /// Reads a register without effect.
    #[must_use]
    pub fn read(&self, reg: IccReg) -> u64 {
        match reg {
            IccReg::Pmr => u64::from(self.pmr),
            IccReg::Hppir(group) => {
                let highest = self.highest().filter(|p| p.group == group);
                u64::from(highest.map_or(INTID_NONE, |p| p.intid))
            }
            IccReg::Bpr(1) if self.ctlr & CBPR != 0 => u64::from((self.bpr[0] + 1).min(7)),
            IccReg::Bpr(group) => u64::from(self.bpr[usize::from(group & 1)]),
            IccReg::Apr(group) => u64::from(self.apr[usize::from(group & 1)]),
            IccReg::Rpr => u64::from(self.running()),
            IccReg::Ctlr => self.ctlr | CTLR_FIXED,
            IccReg::Sre => SRE,
            IccReg::SreEl2 => SRE_EL2,
            IccReg::Igrpen(group) => u64::from(self.is_enabled[usize::from(group & 1)]),
            IccReg::Iar(_) | IccReg::Eoir(_) | IccReg::Dir | IccReg::Sgi => 0,
        }
    }

    /// Writes a register whose effect stays here.
    pub fn write(&mut self, reg: IccReg, value: u64) {
        match reg {
            IccReg::Pmr => self.pmr = value as u8 & PRIORITY_MASK,
            IccReg::Bpr(1) if self.ctlr & CBPR != 0 => {}
            IccReg::Bpr(group) => {
                let group = usize::from(group & 1);
                self.bpr[group] = (value as u8 & 7).max(BPR_MIN[group]);
            }
            IccReg::Apr(group) => self.apr[usize::from(group & 1)] = value as u32,
            IccReg::Ctlr => self.ctlr = value & (CBPR | EOI_MODE),
            IccReg::Igrpen(group) => self.is_enabled[usize::from(group & 1)] = value & 1 != 0,
            _ => {}
        }
    }
}
