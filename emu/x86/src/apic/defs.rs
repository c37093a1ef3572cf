//! Facts about the local APIC: register map, field positions, reset values. No behaviour.
//!
//! Not here: the 0x400-0x530 extension of AMD (interrupt enable bits, extended LVT) and the
//! registers of the 82489DX.

/// Bytes from one xAPIC register to the next.
pub const REG_STRIDE: u64 = 0x10;
/// Bytes of the xAPIC register page.
pub const MMIO_SIZE: u64 = 0x1000;
/// First MSR of the x2APIC range.
pub const X2APIC_MSR_FIRST: u32 = 0x800;
/// Last MSR of the x2APIC range.
pub const X2APIC_MSR_LAST: u32 = 0x8ff;
/// IA32_APIC_BASE.
pub const MSR_APIC_BASE: u32 = 0x1b;
/// IA32_TSC_DEADLINE.
pub const MSR_TSC_DEADLINE: u32 = 0x6e0;

/// IA32_APIC_BASE: this is the boot processor.
pub const BASE_BSP: u64 = 1 << 8;
/// IA32_APIC_BASE: x2APIC mode (EXTD).
pub const BASE_EXTD: u64 = 1 << 10;
/// IA32_APIC_BASE: global enable (EN).
pub const BASE_EN: u64 = 1 << 11;
/// Physical address of the register page after reset.
pub const BASE_ADDRESS_RESET: u64 = 0xfee0_0000;

/// Vectors below this one are exceptions; an APIC that meets one logs an illegal vector.
pub const VECTOR_LEGAL_FIRST: u8 = 16;

/// SVR: spurious vector.
pub const SVR_VECTOR: u32 = 0xff;
/// SVR: APIC software enable.
pub const SVR_ENABLE: u32 = 1 << 8;
/// SVR: focus processor checking; stored, without effect.
pub const SVR_FOCUS: u32 = 1 << 9;
/// SVR: suppress EOI broadcasts; reserved unless the version register offers it.
pub const SVR_SUPPRESS_EOI_BROADCAST: u32 = 1 << 12;
/// SVR after reset: software disabled.
pub const SVR_RESET: u32 = 0xff;

/// Version register: EOI broadcasts can be suppressed.
pub const VERSION_SUPPRESS_EOI_BROADCAST: u32 = 1 << 24;
/// Version register: position of "number of LVT entries, less one".
pub const VERSION_MAX_LVT_SHIFT: u32 = 16;

/// ESR: lowest-priority message that this APIC cannot send.
pub const ESR_REDIRECTABLE_IPI: u32 = 1 << 4;
/// ESR: illegal vector in a message sent.
pub const ESR_SEND_ILLEGAL_VECTOR: u32 = 1 << 5;
/// ESR: illegal vector received, or from the local vector table.
pub const ESR_RECEIVE_ILLEGAL_VECTOR: u32 = 1 << 6;
/// ESR: access to a reserved xAPIC register.
pub const ESR_ILLEGAL_REGISTER: u32 = 1 << 7;

/// ICR: vector.
pub const ICR_VECTOR: u32 = 0xff;
/// ICR and LVT: position of the delivery mode.
pub const DELIVERY_SHIFT: u32 = 8;
/// ICR and LVT: delivery mode, in place.
pub const DELIVERY_MASK: u32 = 7 << DELIVERY_SHIFT;
/// ICR: the destination is logical.
pub const ICR_LOGICAL: u32 = 1 << 11;
/// ICR: delivery status of xAPIC mode; reserved in x2APIC mode.
pub const ICR_BUSY: u32 = 1 << 12;
/// ICR: level assert.
pub const ICR_ASSERT: u32 = 1 << 14;
/// ICR: level trigger.
pub const ICR_LEVEL: u32 = 1 << 15;
/// ICR: position of the destination shorthand.
pub const ICR_SHORTHAND_SHIFT: u32 = 18;
/// Low half of the ICR: all fields that keep what is written.
pub const ICR_LOW_WRITABLE: u32 =
    ICR_VECTOR | DELIVERY_MASK | ICR_LOGICAL | ICR_ASSERT | ICR_LEVEL | 3 << ICR_SHORTHAND_SHIFT;
/// xAPIC destination, in the high half of the ICR; also the APIC ID and LDR fields.
pub const XAPIC_ID_SHIFT: u32 = 24;
/// The eight bits of an xAPIC destination, ID or logical ID, in place.
pub const XAPIC_ID_MASK: u32 = 0xff << XAPIC_ID_SHIFT;
/// Physical destination of an xAPIC that means all.
pub const BROADCAST_XAPIC: u8 = 0xff;
/// Destination of an x2APIC, physical or logical, that means all.
pub const BROADCAST_X2APIC: u32 = u32::MAX;

/// LVT: vector.
pub const LVT_VECTOR: u32 = 0xff;
/// LVT: delivery status; read only.
pub const LVT_BUSY: u32 = 1 << 12;
/// LVT of LINT0 and LINT1: active low; stored, without effect.
pub const LVT_POLARITY: u32 = 1 << 13;
/// LVT of LINT0 and LINT1: a level interrupt waits for its EOI; read only.
pub const LVT_REMOTE_IRR: u32 = 1 << 14;
/// LVT of LINT0 and LINT1: level trigger.
pub const LVT_LEVEL: u32 = 1 << 15;
/// LVT: masked.
pub const LVT_MASKED: u32 = 1 << 16;
/// LVT of the timer: position of the mode.
pub const LVT_TIMER_MODE_SHIFT: u32 = 17;
/// LVT of the timer: the mode bit that every timer has (periodic).
pub const LVT_TIMER_PERIODIC: u32 = 1 << 17;
/// LVT of the timer: the mode bit that comes with the TSC-deadline feature.
pub const LVT_TIMER_DEADLINE: u32 = 1 << 18;

/// DFR: bits that always read 1.
pub const DFR_ONES: u32 = 0x0fff_ffff;
/// DFR: position of the model of logical destinations.
pub const DFR_MODEL_SHIFT: u32 = 28;
/// DFR model: eight bits, one an APIC.
pub const DFR_MODEL_FLAT: u32 = 0xf;
/// DFR model: four bits of cluster, four bits one an APIC.
pub const DFR_MODEL_CLUSTER: u32 = 0x0;
/// Cluster of an xAPIC destination that means all clusters.
pub const CLUSTER_BROADCAST: u8 = 0xf;

/// Divide configuration: the bits that exist.
pub const DIVIDE_MASK: u32 = 0xb;

/// How a message or a local interrupt reaches the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    /// By vector, through IRR and ISR.
    Fixed,
    /// As `Fixed`, to one of several receivers.
    LowestPriority,
    /// System management interrupt.
    Smi,
    /// Non-maskable interrupt.
    Nmi,
    /// INIT.
    Init,
    /// Start-up (SIPI); the vector is the page of the first instruction.
    StartUp,
    /// Vector from an external controller.
    ExtInt,
}

impl Delivery {
    /// Meaning of the three bits; `None` where they are reserved.
    ///
    /// Source: [SDM-3] "Interrupt Command Register (ICR)", "Local Vector Table". Status: spec.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Option<Delivery> {
        match bits & 7 {
            0 => Some(Delivery::Fixed),
            1 => Some(Delivery::LowestPriority),
            2 => Some(Delivery::Smi),
            4 => Some(Delivery::Nmi),
            5 => Some(Delivery::Init),
            6 => Some(Delivery::StartUp),
            7 => Some(Delivery::ExtInt),
            _ => None,
        }
    }
}

/// Trigger mode of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// One request an edge; EOI stays local.
    Edge,
    /// EOI is broadcast to the I/O APICs.
    Level,
}

/// A source with an entry in the local vector table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LvtEntry {
    /// Corrected machine checks.
    Cmci,
    /// The APIC timer.
    Timer,
    /// Thermal sensor.
    Thermal,
    /// Performance counters.
    Performance,
    /// Pin LINT0.
    Lint0,
    /// Pin LINT1.
    Lint1,
    /// Errors of the APIC itself.
    Error,
}

/// A register of the local APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reg {
    /// APIC ID.
    Id,
    /// Version.
    Version,
    /// Task priority.
    Tpr,
    /// Arbitration priority.
    Apr,
    /// Processor priority.
    Ppr,
    /// End of interrupt.
    Eoi,
    /// Remote read.
    Rrd,
    /// Logical destination.
    Ldr,
    /// Destination format.
    Dfr,
    /// Spurious interrupt vector.
    Svr,
    /// In service, 32 vectors a register: 0 to 7.
    Isr(u8),
    /// Trigger mode, 32 vectors a register: 0 to 7.
    Tmr(u8),
    /// Requested, 32 vectors a register: 0 to 7.
    Irr(u8),
    /// Error status.
    Esr,
    /// Low half of the ICR in xAPIC mode, the whole ICR in x2APIC mode.
    Icr,
    /// High half of the ICR in xAPIC mode.
    IcrHigh,
    /// An entry of the local vector table.
    Lvt(LvtEntry),
    /// Initial count.
    InitialCount,
    /// Current count.
    CurrentCount,
    /// Divide configuration.
    DivideConfig,
    /// Self IPI.
    SelfIpi,
}

impl Reg {
    /// Register number `index`, counted in steps of one MSR or 16 bytes, in either map.
    const fn at_index(index: u32) -> Option<Reg> {
        Some(match index {
            0x02 => Reg::Id,
            0x03 => Reg::Version,
            0x08 => Reg::Tpr,
            0x0a => Reg::Ppr,
            0x0b => Reg::Eoi,
            0x0d => Reg::Ldr,
            0x0f => Reg::Svr,
            0x10..=0x17 => Reg::Isr((index - 0x10) as u8),
            0x18..=0x1f => Reg::Tmr((index - 0x18) as u8),
            0x20..=0x27 => Reg::Irr((index - 0x20) as u8),
            0x28 => Reg::Esr,
            0x2f => Reg::Lvt(LvtEntry::Cmci),
            0x30 => Reg::Icr,
            0x32 => Reg::Lvt(LvtEntry::Timer),
            0x33 => Reg::Lvt(LvtEntry::Thermal),
            0x34 => Reg::Lvt(LvtEntry::Performance),
            0x35 => Reg::Lvt(LvtEntry::Lint0),
            0x36 => Reg::Lvt(LvtEntry::Lint1),
            0x37 => Reg::Lvt(LvtEntry::Error),
            0x38 => Reg::InitialCount,
            0x39 => Reg::CurrentCount,
            0x3e => Reg::DivideConfig,
            _ => return None,
        })
    }

    /// Register at an offset of the xAPIC page; `None` where the map has a reserved place, and
    /// for an offset that is no multiple of 16.
    ///
    /// Source: [SDM-3] "Local APIC Register Address Map". Status: spec.
    #[must_use]
    pub const fn at_offset(offset: u64) -> Option<Reg> {
        match offset {
            0x090 => Some(Reg::Apr),
            0x0c0 => Some(Reg::Rrd),
            0x0e0 => Some(Reg::Dfr),
            0x310 => Some(Reg::IcrHigh),
            _ if offset < MMIO_SIZE && offset.is_multiple_of(REG_STRIDE) => {
                Reg::at_index((offset / REG_STRIDE) as u32)
            }
            _ => None,
        }
    }

    /// Register behind an MSR number; `None` where the map has a reserved place.
    ///
    /// Source: [SDM-3] "x2APIC Register Address Space". Status: spec. (AMD lists 0x809 and 0x80c
    /// too; they are reserved here.)
    #[must_use]
    pub const fn at_msr(msr: u32) -> Option<Reg> {
        match msr {
            0x83f => Some(Reg::SelfIpi),
            X2APIC_MSR_FIRST..=X2APIC_MSR_LAST => Reg::at_index(msr - X2APIC_MSR_FIRST),
            _ => None,
        }
    }

    /// Whether the register can be read, in either mode.
    #[must_use]
    pub const fn is_readable(self) -> bool {
        !matches!(self, Reg::Eoi | Reg::SelfIpi)
    }

    /// Whether the register can be written through the xAPIC page.
    #[must_use]
    pub const fn is_writable_by_offset(self) -> bool {
        let is_bitmap = matches!(self, Reg::Isr(_) | Reg::Tmr(_) | Reg::Irr(_));
        let is_derived = matches!(self, Reg::Version | Reg::Ppr | Reg::CurrentCount);
        let is_absent = matches!(self, Reg::Apr | Reg::Rrd);
        !(is_bitmap || is_derived || is_absent)
    }

    /// Whether the register can be written by WRMSR.
    #[must_use]
    pub const fn is_writable_by_msr(self) -> bool {
        self.is_writable_by_offset() && !matches!(self, Reg::Id | Reg::Ldr)
    }
}
