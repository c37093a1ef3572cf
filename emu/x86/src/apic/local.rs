//! One local APIC: the life of an interrupt from message to EOI, modes, reset.
//!
//! Life of a vector: requested (a message that `matches`), accepted (`irr`), in service (`isr`),
//! ended (`eoi`). `pending` compares `irr` with the processor priority; the CPU asks it wherever
//! an interrupt may be taken, and takes one with `acknowledge`.

use emu_sim::{ApicId, Freq, PhysAddr, SimTime};

use super::base::{ApicBase, Mode};
use super::defs::{
    CLUSTER_BROADCAST, DFR_MODEL_CLUSTER, DFR_MODEL_FLAT, DFR_MODEL_SHIFT, Delivery,
    ESR_RECEIVE_ILLEGAL_VECTOR, LvtEntry, SVR_ENABLE, SVR_RESET, SVR_SUPPRESS_EOI_BROADCAST,
    SVR_VECTOR, Trigger, VECTOR_LEGAL_FIRST, XAPIC_ID_SHIFT,
};
use super::errors::ErrorStatus;
use super::icr::{Destination, Ipi};
use super::lvt::Lvt;
use super::timer::ApicTimer;
use super::vectors::VectorSet;

/// What an APIC is made with; nothing of it changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LocalApicConfig {
    /// Hardware ID: the x2APIC ID, and in its low 8 bits the xAPIC ID after reset.
    pub id: ApicId,
    /// Whether this is the boot processor.
    pub is_bsp: bool,
    /// Version number, bits 7:0 of the version register: 0x10 to 0x1f.
    pub version: u8,
    /// Whether there is an LVT entry for corrected machine checks (AMD: no).
    pub has_cmci: bool,
    /// Whether EOI broadcasts can be suppressed.
    pub can_suppress_eoi_broadcast: bool,
    /// Whether lowest-priority IPIs can be sent; without, one logs "redirectable IPI".
    pub can_send_lowest_priority: bool,
    /// CPUID.1:ECX bit 21.
    pub has_x2apic: bool,
    /// CPUID.1:ECX bit 24.
    pub has_tsc_deadline: bool,
    /// Width of a physical address, in bits: 36 to 52.
    pub phys_addr_bits: u32,
    /// Input clock of the timer, before its divider.
    pub timer_freq: Freq,
    /// Clock of the time-stamp counter.
    pub tsc_freq: Freq,
}

/// A register access that the CPU answers with an exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApicFault {
    /// #GP(0).
    GeneralProtection,
}

/// What became of a vector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// It is now in the IRR.
    Accepted,
    /// It was in the IRR already; one handler run serves both.
    Merged,
    /// Illegal vector (logged), or APIC disabled.
    Rejected,
}

/// What a message or a local interrupt means to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Arrival {
    /// A vector went to the IRR, or was refused.
    Vector(Accept),
    /// The CPU takes an SMI.
    Smi,
    /// The CPU takes an NMI.
    Nmi,
    /// The CPU resets; it calls `init` when it does.
    Init,
    /// The CPU starts at `page << 12` if it waits for a start-up message.
    StartUp {
        /// Number of the 4 KiB page.
        page: u8,
    },
    /// The CPU takes a vector from the external controller.
    ExtInt,
    /// Nothing happens: masked, or APIC disabled.
    Ignored,
}

/// What a register write asks of its surroundings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Effects {
    /// A message to send; also one to oneself, which takes its own way.
    pub ipi: Option<Ipi>,
    /// A vector whose end the I/O APICs must hear.
    pub eoi_broadcast: Option<u8>,
    /// `next_expiry` may have changed.
    pub timer_changed: bool,
    /// `pending` may have changed.
    pub pending_changed: bool,
    /// Mode or address of the register page may have changed.
    pub base_changed: bool,
}

/// Local APIC of one CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct LocalApic {
    pub(super) config: LocalApicConfig,
    pub(super) base: ApicBase,
    /// ID in xAPIC mode; software can change it.
    pub(super) xapic_id: u8,
    pub(super) tpr: u8,
    /// LDR and DFR of xAPIC mode.
    pub(super) ldr: u32,
    pub(super) dfr: u32,
    pub(super) svr: u32,
    pub(super) irr: VectorSet,
    pub(super) isr: VectorSet,
    pub(super) tmr: VectorSet,
    pub(super) esr: ErrorStatus,
    pub(super) icr: u64,
    pub(super) lvt: Lvt,
    pub(super) timer: ApicTimer,
}

impl LocalApic {
    /// State after power-up: xAPIC mode, software disabled, all masked.
    ///
    /// Source: [SDM-3] "Local APIC State After Power-Up or Reset". Status: spec.
    #[must_use]
    pub fn new(config: LocalApicConfig) -> LocalApic {
        LocalApic {
            config,
            base: ApicBase::reset(config.is_bsp),
            xapic_id: config.id.0 as u8,
            tpr: 0,
            ldr: 0,
            dfr: u32::MAX,
            svr: SVR_RESET,
            irr: VectorSet::default(),
            isr: VectorSet::default(),
            tmr: VectorSet::default(),
            esr: ErrorStatus::default(),
            icr: 0,
            lvt: Lvt::reset(config.has_tsc_deadline),
            timer: ApicTimer::new(config.timer_freq, config.tsc_freq),
        }
    }

    /// Resets the registers as INIT does; ID, mode and address stay. The timer stops.
    ///
    /// Source: [SDM-3] "Local APIC State After an INIT Reset": "except that the APIC ID and
    /// arbitration ID registers are not affected"; "x2APIC State Transitions": INIT keeps x2APIC
    /// mode. Status: spec.
    pub fn init(&mut self) {
        let mut timer = self.timer;
        timer.reset();
        let (base, xapic_id) = (self.base, self.xapic_id);
        *self = LocalApic { base, xapic_id, timer, ..LocalApic::new(self.config) };
    }

    /// What the APIC was made with.
    #[must_use]
    pub const fn config(&self) -> &LocalApicConfig {
        &self.config
    }

    /// Mode. CPUID.1:EDX bit 9 reads 0 while this is `Disabled`.
    #[must_use]
    pub const fn mode(&self) -> Mode {
        self.base.mode()
    }

    /// Address of the register page, which answers in xAPIC mode only.
    #[must_use]
    pub const fn page_address(&self) -> PhysAddr {
        PhysAddr(self.base.value() & !0xfff)
    }

    /// ID by which messages find this APIC in its present mode.
    #[must_use]
    pub const fn id(&self) -> u32 {
        match self.mode() {
            Mode::X2Apic => self.config.id.0,
            Mode::XApic | Mode::Disabled => self.xapic_id as u32,
        }
    }

    /// Vectors accepted and not yet in service.
    #[must_use]
    pub const fn irr(&self) -> &VectorSet {
        &self.irr
    }

    /// Vectors in service.
    #[must_use]
    pub const fn isr(&self) -> &VectorSet {
        &self.isr
    }

    /// Vectors last accepted as level-triggered.
    #[must_use]
    pub const fn tmr(&self) -> &VectorSet {
        &self.tmr
    }

    /// Whether both enable bits are set: IA32_APIC_BASE and SVR.
    #[must_use]
    pub const fn is_software_enabled(&self) -> bool {
        self.svr & SVR_ENABLE != 0 && !matches!(self.mode(), Mode::Disabled)
    }

    // Destinations.

    /// Whether a message to `destination` is for this APIC.
    ///
    /// Source: [SDM-3] "Determining IPI Destination", "Physical Destination Mode". Status: spec;
    /// that an xAPIC and an x2APIC find each other by equal IDs is assumed (software never mixes
    /// modes).
    #[must_use]
    pub fn matches(&self, destination: Destination) -> bool {
        if self.mode() == Mode::Disabled {
            return false;
        }
        match destination {
            Destination::AllIncludingSelf => true,
            Destination::SelfOnly(sender) => sender == self.config.id,
            Destination::AllExcludingSelf(sender) => sender != self.config.id,
            Destination::Physical(id) => id == self.id(),
            Destination::Logical(mda) => self.matches_logical(mda),
            Destination::LogicalX2 { cluster, mask } => {
                self.mode() == Mode::X2Apic && self.matches_cluster(cluster, mask)
            }
        }
    }

    /// LDR of x2APIC mode.
    ///
    /// Source: [SDM-3] "Deriving Logical x2APIC ID from the Local x2APIC ID": "(x2APIC ID[19:4]
    /// << 16) | (1 << x2APIC ID[3:0])". Status: spec.
    pub(super) const fn x2apic_ldr(&self) -> u32 {
        let id = self.config.id.0;
        (id >> 4) << 16 | 1 << (id & 15)
    }

    fn matches_cluster(&self, cluster: u16, mask: u16) -> bool {
        let ldr = self.x2apic_ldr();
        ldr >> 16 == u32::from(cluster) && ldr & u32::from(mask) != 0
    }

    /// Source: [SDM-3] "Logical Destination Mode": flat is a bitwise AND; in clusters the high
    /// half must be equal or all ones, the low half is an AND. Status: spec. Assumed: a reserved
    /// DFR model matches nothing, and an x2APIC reads the eight bits as members of cluster 0.
    fn matches_logical(&self, mda: u8) -> bool {
        if self.mode() == Mode::X2Apic {
            return self.matches_cluster(0, u16::from(mda));
        }
        let ldr = (self.ldr >> XAPIC_ID_SHIFT) as u8;
        match self.dfr >> DFR_MODEL_SHIFT {
            DFR_MODEL_FLAT => ldr & mda != 0,
            DFR_MODEL_CLUSTER => {
                let cluster = mda >> 4;
                (cluster == CLUSTER_BROADCAST || cluster == ldr >> 4) && ldr & mda & 0xf != 0
            }
            _ => false,
        }
    }

    // Requests.

    /// Takes a message that `matches`.
    ///
    /// Source: [SDM-3] "Local APIC State After It Has Been Software Disabled": responds
    /// "normally to INIT, NMI, SMI, and SIPI messages". Status: spec; that it then refuses ExtINT
    /// along with vectors is assumed.
    pub fn receive(&mut self, ipi: &Ipi) -> Arrival {
        self.arrive(ipi.delivery, ipi.vector, ipi.trigger)
    }

    /// Fires a source of the local vector table.
    ///
    /// The timer and the APIC's own errors fire by themselves.
    ///
    /// Source: [SDM-3] "Local Vector Table"; a performance counter interrupt "automatically sets
    /// the mask flag". Status: spec.
    pub fn raise(&mut self, entry: LvtEntry) -> Arrival {
        let Some(request) = self.lvt.request(entry) else { return Arrival::Ignored };
        if request.delivery == Delivery::Fixed
            && request.trigger == Trigger::Level
            && !self.lvt.begin_level(entry)
        {
            return Arrival::Vector(Accept::Merged);
        }
        if entry == LvtEntry::Performance {
            self.lvt.mask(entry);
        }
        self.arrive(request.delivery, request.vector, request.trigger)
    }

    fn arrive(&mut self, delivery: Delivery, vector: u8, trigger: Trigger) -> Arrival {
        if self.mode() == Mode::Disabled {
            return Arrival::Ignored;
        }
        match delivery {
            Delivery::Fixed | Delivery::LowestPriority => {
                Arrival::Vector(self.accept(vector, trigger))
            }
            Delivery::Smi => Arrival::Smi,
            Delivery::Nmi => Arrival::Nmi,
            Delivery::Init => Arrival::Init,
            Delivery::StartUp => Arrival::StartUp { page: vector },
            Delivery::ExtInt if self.is_software_enabled() => Arrival::ExtInt,
            Delivery::ExtInt => Arrival::Ignored,
        }
    }

    /// Puts `vector` into the IRR.
    ///
    /// Source: [SDM-3] "Interrupt Acceptance for Fixed Interrupts": one request a vector in the
    /// IRR; the TMR bit is written "upon acceptance of an interrupt into the IRR"; "Error
    /// Handling": vectors below 16 log "receive illegal vector". Status: spec; that a software
    /// disabled APIC logs nothing is assumed.
    pub fn accept(&mut self, vector: u8, trigger: Trigger) -> Accept {
        if !self.is_software_enabled() {
            return Accept::Rejected;
        }
        if vector < VECTOR_LEGAL_FIRST {
            self.log_error(ESR_RECEIVE_ILLEGAL_VECTOR);
            return Accept::Rejected;
        }
        match trigger {
            Trigger::Edge => self.tmr.remove(vector),
            Trigger::Level => self.tmr.insert(vector),
        };
        if self.irr.insert(vector) { Accept::Accepted } else { Accept::Merged }
    }

    /// Logs errors and fires the error interrupt if it is armed; `pending` may change.
    pub(super) fn log_error(&mut self, bits: u32) {
        if !self.esr.log(bits) {
            return;
        }
        if let Some(request) = self.lvt.request(LvtEntry::Error) {
            // Its own vector may be illegal; that logs once more, and the log is not armed now.
            self.accept(request.vector, request.trigger);
        }
    }

    // Priorities and service.

    /// Processor priority.
    ///
    /// Source: [SDM-3] "Task and Processor Priorities": the class is the higher one of TPR and
    /// highest ISR vector; the sub-class is that of the TPR where the TPR is higher, else 0.
    /// Status: spec; at equal classes "model-specific", here the TPR's.
    #[must_use]
    pub fn ppr(&self) -> u8 {
        let in_service = self.isr.highest().unwrap_or(0);
        if self.tpr >> 4 >= in_service >> 4 { self.tpr } else { in_service & 0xf0 }
    }

    /// The vector that the CPU takes next if its interrupt flag allows.
    ///
    /// Source: [SDM-3] "Task and Processor Priorities": a class above that of the PPR. Status:
    /// spec. "Local APIC State After It Has Been Software Disabled": requests "are held and
    /// require masking or handling by the CPU"; that held ones are not signalled is assumed.
    #[must_use]
    pub fn pending(&self) -> Option<u8> {
        let vector = self.irr.highest()?;
        (self.is_software_enabled() && vector >> 4 > self.ppr() >> 4).then_some(vector)
    }

    /// Answers the CPU's acknowledge: the vector to enter, now in service.
    ///
    /// With nothing pending this is the spurious vector, which gets no ISR bit and no EOI.
    ///
    /// Source: [SDM-3] "Interrupt Acceptance for Fixed Interrupts", "Spurious Interrupt".
    /// Status: spec.
    pub fn acknowledge(&mut self) -> u8 {
        let Some(vector) = self.pending() else { return (self.svr & SVR_VECTOR) as u8 };
        self.irr.remove(vector);
        let above = self.isr.highest().is_none_or(|in_service| in_service >> 4 < vector >> 4);
        assert!(above, "vector {vector:#x} enters service above all of {:?}", self.isr);
        self.isr.insert(vector);
        vector
    }

    /// Ends the interrupt in service; nothing happens when there is none.
    ///
    /// Source: [SDM-3] "Signaling Interrupt Servicing Completion": clears the highest ISR bit; a
    /// level-triggered vector is broadcast to the I/O APICs, unless suppressed. Status: spec.
    pub fn eoi(&mut self) -> Effects {
        let Some(vector) = self.isr.highest() else { return Effects::default() };
        self.isr.remove(vector);
        let mut effects = Effects { pending_changed: true, ..Effects::default() };
        if self.tmr.contains(vector) {
            self.lvt.end_level(vector);
            let is_suppressed = self.svr & SVR_SUPPRESS_EOI_BROADCAST != 0;
            effects.eoi_broadcast = (!is_suppressed).then_some(vector);
        }
        effects
    }

    /// CR8: the class of the task priority.
    ///
    /// Source: [SDM-3] "Interaction of Task Priorities between CR8 and APIC". Status: spec.
    #[must_use]
    pub const fn cr8(&self) -> u64 {
        (self.tpr >> 4) as u64
    }

    /// Writes CR8; the sub-class of the task priority becomes 0.
    ///
    /// Errors: #GP when a bit above 3 is set.
    /// Source: [SDM-3] "Task Priority in IA-32e Mode", "Interaction of Task Priorities between
    /// CR8 and APIC". Status: spec.
    pub fn set_cr8(&mut self, value: u64) -> Result<Effects, ApicFault> {
        let class = u8::try_from(value).ok().filter(|&class| class < 16);
        self.tpr = class.ok_or(ApicFault::GeneralProtection)? << 4;
        Ok(Effects { pending_changed: true, ..Effects::default() })
    }

    // Time.

    /// When the timer ends next, to be followed by `expire` at that time.
    #[must_use]
    pub fn next_expiry(&self) -> Option<SimTime> {
        self.timer.next_expiry()
    }

    /// Ends the timer's count if it is due at `now`; what became of its vector.
    ///
    /// `None` when nothing is due (the count was changed since) or the entry is masked. A count
    /// that ends while masked is not made up for.
    ///
    /// Source: [SDM-3] "APIC Timer". Status: spec.
    pub fn expire(&mut self, now: SimTime) -> Option<Accept> {
        if !self.timer.expire(now) {
            return None;
        }
        let request = self.lvt.request(LvtEntry::Timer)?;
        Some(self.accept(request.vector, request.trigger))
    }

    /// Follows a write of the TSC: `offset` is the guest's TSC less the edges counted since reset.
    pub fn set_tsc_offset(&mut self, offset: u64, now: SimTime) -> Effects {
        self.timer.set_tsc_offset(offset, now);
        Effects { timer_changed: true, ..Effects::default() }
    }
}

#[cfg(test)]
mod tests;
