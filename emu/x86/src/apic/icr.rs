//! Messages between APICs: how a write of the ICR, or an MSI, becomes one.
//!
//! Not modelled: remote read; level-triggered IPIs, which P6 and later treat as edge-triggered;
//! INIT level de-assert, which they ignore.

use emu_sim::ApicId;

use super::defs::{
    BROADCAST_X2APIC, BROADCAST_XAPIC, DELIVERY_SHIFT, Delivery, ICR_ASSERT, ICR_LEVEL,
    ICR_LOGICAL, ICR_SHORTHAND_SHIFT, Trigger, VECTOR_LEGAL_FIRST, XAPIC_ID_SHIFT,
};

/// Whom a message is for. Senders name it, receivers decide by it.
///
/// `SelfOnly` and `AllExcludingSelf` carry the hardware ID of the sender, which software cannot
/// change, unlike the xAPIC ID register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// The sender.
    SelfOnly(ApicId),
    /// Every APIC: the shorthand, or a broadcast ID of either mode.
    AllIncludingSelf,
    /// Every APIC but the sender.
    AllExcludingSelf(ApicId),
    /// The APIC with this ID.
    Physical(u32),
    /// Eight bits that each receiver compares with its LDR, flat or by cluster as its DFR says.
    Logical(u8),
    /// The members `mask` of a cluster of sixteen APICs, as x2APIC IDs give them.
    LogicalX2 {
        /// x2APIC ID without its low four bits.
        cluster: u16,
        /// One bit a member.
        mask: u16,
    },
}

/// A message: an interrupt for another CPU, for oneself, or from a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipi {
    /// Whom it is for.
    pub destination: Destination,
    /// Vector, or the page of a start-up message.
    pub vector: u8,
    /// What it asks for.
    pub delivery: Delivery,
    /// Edge for all IPIs; MSIs may be level-triggered.
    pub trigger: Trigger,
}

/// Why no message leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// Fixed or lowest priority with a vector below 16; the ESR records it.
    IllegalVector,
    /// Lowest priority, which this APIC does not send; the ESR records it.
    Redirectable,
    /// A reserved delivery mode, or one that its shorthand excludes. Nothing records it.
    Invalid,
    /// Level trigger without assert: ignored by all parts since P6.
    Deassert,
}

/// Destination shorthand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shorthand {
    None,
    SelfOnly,
    AllIncludingSelf,
    AllExcludingSelf,
}

impl Shorthand {
    const fn from_icr(low: u32) -> Shorthand {
        match low >> ICR_SHORTHAND_SHIFT & 3 {
            0 => Shorthand::None,
            1 => Shorthand::SelfOnly,
            2 => Shorthand::AllIncludingSelf,
            _ => Shorthand::AllExcludingSelf,
        }
    }

    /// Source: [SDM-3] table "Valid Combinations for the Pentium 4 and Intel Xeon Processors'
    /// Local xAPIC Interrupt Command Register". Status: spec; that an invalid combination sends
    /// nothing is assumed.
    const fn allows(self, delivery: Delivery) -> bool {
        match self {
            Shorthand::None | Shorthand::AllExcludingSelf => true,
            Shorthand::SelfOnly | Shorthand::AllIncludingSelf => {
                matches!(delivery, Delivery::Fixed)
            }
        }
    }
}

impl Ipi {
    /// Decodes a write of the low half of the xAPIC ICR, sent by `sender`.
    ///
    /// Source: [SDM-3] "Interrupt Command Register (ICR)", "Determining IPI Destination".
    /// Status: spec.
    pub fn from_icr_xapic(high: u32, low: u32, sender: ApicId) -> Result<Ipi, SendError> {
        let id = (high >> XAPIC_ID_SHIFT) as u8;
        let named =
            if low & ICR_LOGICAL != 0 { Destination::Logical(id) } else { physical_xapic(id) };
        Ipi::from_icr_low(low, named, sender)
    }

    /// Decodes a write of the x2APIC ICR, sent by `sender`.
    ///
    /// Source: [SDM-3] "ICR Operation in x2APIC Mode", "Logical Destination Mode in x2APIC
    /// Mode": "A destination ID value of FFFF_FFFFH is used for broadcast of interrupts in both
    /// logical destination and physical destination modes." Status: spec.
    pub fn from_icr_x2apic(icr: u64, sender: ApicId) -> Result<Ipi, SendError> {
        let (low, id) = (icr as u32, (icr >> 32) as u32);
        let named = if id == BROADCAST_X2APIC {
            Destination::AllIncludingSelf
        } else if low & ICR_LOGICAL != 0 {
            Destination::LogicalX2 { cluster: (id >> 16) as u16, mask: id as u16 }
        } else {
            Destination::Physical(id)
        };
        Ipi::from_icr_low(low, named, sender)
    }

    /// The message that a write of the SELF IPI register sends.
    ///
    /// Source: [SDM-3] "SELF IPI Register": as the ICR with the self shorthand, edge-triggered
    /// and fixed. Status: spec.
    pub fn from_self_ipi(vector: u8, sender: ApicId) -> Result<Ipi, SendError> {
        let low = u32::from(vector) | 1 << ICR_SHORTHAND_SHIFT;
        Ipi::from_icr_low(low, Destination::SelfOnly(sender), sender)
    }

    /// Decodes a message-signalled interrupt: a write of `data` to `address` (0xfee.....).
    ///
    /// The redirection hint is left to the bus, which may pick one of several receivers.
    ///
    /// Errors: `Invalid` for reserved delivery modes and start-up; `Deassert` for a level that
    /// ends.
    /// Source: [SDM-3] "Message Address Register Format", "Message Data Register Format".
    /// Status: spec.
    pub fn from_msi(address: u64, data: u32) -> Result<Ipi, SendError> {
        const LOGICAL: u64 = 1 << 2;
        let id = (address >> 12) as u8;
        let destination =
            if address & LOGICAL != 0 { Destination::Logical(id) } else { physical_xapic(id) };
        let delivery = Delivery::from_bits(data >> DELIVERY_SHIFT).ok_or(SendError::Invalid)?;
        if delivery == Delivery::StartUp {
            return Err(SendError::Invalid);
        }
        let trigger = if data & ICR_LEVEL != 0 { Trigger::Level } else { Trigger::Edge };
        if trigger == Trigger::Level && data & ICR_ASSERT == 0 {
            return Err(SendError::Deassert);
        }
        Ok(Ipi { destination, vector: data as u8, delivery, trigger })
    }

    fn from_icr_low(low: u32, named: Destination, sender: ApicId) -> Result<Ipi, SendError> {
        let vector = low as u8;
        let delivery = match Delivery::from_bits(low >> DELIVERY_SHIFT) {
            // 111b is reserved in the ICR, though not in the LVT.
            None | Some(Delivery::ExtInt) => return Err(SendError::Invalid),
            Some(delivery) => delivery,
        };
        // "Treated as edge triggered if level bit is set to 1, otherwise ignored."
        if low & ICR_LEVEL != 0 && low & ICR_ASSERT == 0 {
            return Err(SendError::Deassert);
        }
        let shorthand = Shorthand::from_icr(low);
        if !shorthand.allows(delivery) {
            return Err(SendError::Invalid);
        }
        if matches!(delivery, Delivery::Fixed | Delivery::LowestPriority)
            && vector < VECTOR_LEGAL_FIRST
        {
            return Err(SendError::IllegalVector);
        }
        let destination = match shorthand {
            Shorthand::None => named,
            Shorthand::SelfOnly => Destination::SelfOnly(sender),
            Shorthand::AllIncludingSelf => Destination::AllIncludingSelf,
            Shorthand::AllExcludingSelf => Destination::AllExcludingSelf(sender),
        };
        Ok(Ipi { destination, vector, delivery, trigger: Trigger::Edge })
    }
}

/// Physical destination of eight bits.
///
/// Source: [SDM-3] "Physical Destination Mode": 0xff is a broadcast. Status: spec.
fn physical_xapic(id: u8) -> Destination {
    if id == BROADCAST_XAPIC {
        Destination::AllIncludingSelf
    } else {
        Destination::Physical(u32::from(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: ApicId = ApicId(3);
    const DELIVERIES: [Option<Delivery>; 8] = [
        Some(Delivery::Fixed),
        Some(Delivery::LowestPriority),
        Some(Delivery::Smi),
        None,
        Some(Delivery::Nmi),
        Some(Delivery::Init),
        Some(Delivery::StartUp),
        None,
    ];

    #[test]
    fn every_delivery_mode_decodes_with_every_shorthand() {
        let all_but_me = Destination::AllExcludingSelf(ME);
        for (bits, delivery) in (0u32..).zip(DELIVERIES) {
            for shorthand in 0..4u32 {
                let low = 0x40 | bits << 8 | ICR_ASSERT | shorthand << 18;
                let fixed = bits == 0;
                let want = match (delivery, shorthand) {
                    (None, _) => Err(SendError::Invalid),
                    (Some(_), 0) => Ok(Destination::Physical(9)),
                    (Some(_), 1) if fixed => Ok(Destination::SelfOnly(ME)),
                    (Some(_), 2) if fixed => Ok(Destination::AllIncludingSelf),
                    (Some(_), 3) => Ok(all_but_me),
                    _ => Err(SendError::Invalid),
                };
                let want = want.map(|destination| Ipi {
                    destination,
                    vector: 0x40,
                    delivery: delivery.unwrap(),
                    trigger: Trigger::Edge,
                });
                let icr = 9 << 32 | u64::from(low);
                assert_eq!(Ipi::from_icr_x2apic(icr, ME), want, "x2apic {low:#x}");
                assert_eq!(Ipi::from_icr_xapic(9 << 24, low, ME), want, "xapic {low:#x}");
            }
        }
    }

    #[test]
    fn destinations_decode_by_mode() {
        let physical = |id| Destination::Physical(id);
        let cluster = |cluster, mask| Destination::LogicalX2 { cluster, mask };
        let all = Destination::AllIncludingSelf;
        let x2 = [
            (0, 0, physical(0)),
            (254, 0, physical(254)),
            (255, 0, physical(255)),
            (256, 0, physical(256)),
            (1023, 0, physical(1023)),
            (u32::MAX, 0, all),
            (u32::MAX, ICR_LOGICAL, all),
            (0x0000_0001, ICR_LOGICAL, cluster(0, 1)),
            (0x000f_8000, ICR_LOGICAL, cluster(15, 0x8000)),
            (0x0010_0001, ICR_LOGICAL, cluster(16, 1)),
            (0x003f_ffff, ICR_LOGICAL, cluster(63, 0xffff)),
        ];
        for (id, flags, want) in x2 {
            let ipi = Ipi::from_icr_x2apic(u64::from(id) << 32 | u64::from(0x20 | flags), ME);
            assert_eq!(ipi.unwrap().destination, want, "{id:#x} {flags:#x}");
        }
        let x1 = [
            (0xfe, 0, physical(0xfe)),
            (0xff, 0, all),
            (0xff, ICR_LOGICAL, Destination::Logical(0xff)),
            (0x21, ICR_LOGICAL, Destination::Logical(0x21)),
        ];
        for (id, flags, want) in x1 {
            let ipi = Ipi::from_icr_xapic(id << 24 | 0xff_ffff, 0x20 | flags, ME);
            assert_eq!(ipi.unwrap().destination, want, "{id:#x} {flags:#x}");
        }
    }

    #[test]
    fn vectors_below_sixteen_are_illegal_where_the_vector_is_one() {
        for vector in 0..=255u32 {
            for (bits, delivery) in (0u32..).zip(DELIVERIES) {
                let got = Ipi::from_icr_xapic(0, vector | bits << 8 | ICR_ASSERT, ME);
                let illegal = vector < 16 && bits < 2;
                let want = match delivery {
                    None => Some(SendError::Invalid),
                    Some(_) => illegal.then_some(SendError::IllegalVector),
                };
                assert_eq!(got.err(), want, "vector {vector:#x} mode {bits}");
            }
            let by_self = Ipi::from_self_ipi(vector as u8, ME);
            assert_eq!(by_self.is_err(), vector < 16);
        }
    }

    #[test]
    fn level_trigger_counts_as_an_edge_when_asserted_and_as_nothing_else() {
        for delivery in [0u32, 4, 5] {
            let low = 0x31 | delivery << 8 | ICR_LEVEL;
            assert_eq!(Ipi::from_icr_xapic(0, low, ME), Err(SendError::Deassert));
            let asserted = Ipi::from_icr_xapic(0, low | ICR_ASSERT, ME).unwrap();
            assert_eq!(asserted.trigger, Trigger::Edge);
        }
        // Linux leaves the level bit clear in fixed edge-triggered IPIs.
        assert!(Ipi::from_icr_xapic(0, 0xfb, ME).is_ok());
    }

    #[test]
    fn an_msi_decodes() {
        let msi = |address, data| Ipi::from_msi(address, data);
        let edge = msi(0xfee0_5000, 0x31).unwrap();
        assert_eq!((edge.destination, edge.vector), (Destination::Physical(5), 0x31));
        assert_eq!((edge.delivery, edge.trigger), (Delivery::Fixed, Trigger::Edge));
        let level = msi(0xfee0_100c, 0x131 | ICR_LEVEL | ICR_ASSERT).unwrap();
        assert_eq!(level.destination, Destination::Logical(1));
        assert_eq!((level.delivery, level.trigger), (Delivery::LowestPriority, Trigger::Level));
        assert_eq!(msi(0xfeef_f000, 0x31).unwrap().destination, Destination::AllIncludingSelf);
        assert_eq!(msi(0xfee0_0000, 0x31 | ICR_LEVEL), Err(SendError::Deassert));
        assert_eq!(msi(0xfee0_0000, 0x331), Err(SendError::Invalid));
        assert_eq!(msi(0xfee0_0000, 0x631), Err(SendError::Invalid));
    }
}
