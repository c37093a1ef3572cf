//! An I/O APIC with 24 pins.
//!
//! Modelled: index and data window, ID, version and arbitration registers, redirection entries
//! with edge and level trigger, remote IRR, mask, polarity as stored, the EOI register of version
//! 0x20. Not modelled: delivery status (a message leaves on the edge of its cause), lowest
//! priority arbitration (the receiver decides), destination IDs above 255, ExtINT from a PIC.
//! A masked edge is lost, as on the 82093AA.
//! Source: \[82093AA\] "Register Description". Status: spec.

/// Pins of the device.
pub const PINS: usize = 24;
/// Version register: version 0x20, which has an EOI register, and the highest pin number.
const VERSION: u32 = 0x20 | (PINS as u32 - 1) << 16;

/// What the MMIO page decodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Port {
    Index,
    Data,
    Eoi,
}

/// What the index selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Id,
    Version,
    Arbitration,
    EntryLow(usize),
    EntryHigh(usize),
}

impl Port {
    fn from_offset(offset: u64) -> Option<Self> {
        match offset {
            0x00 => Some(Port::Index),
            0x10 => Some(Port::Data),
            0x40 => Some(Port::Eoi),
            _ => None,
        }
    }
}

impl Register {
    fn from_index(index: u8) -> Option<Self> {
        match index {
            0 => Some(Register::Id),
            1 => Some(Register::Version),
            2 => Some(Register::Arbitration),
            0x10..=0x3f => {
                let pin = usize::from(index - 0x10) / 2;
                Some(if index.is_multiple_of(2) {
                    Register::EntryLow(pin)
                } else {
                    Register::EntryHigh(pin)
                })
            }
            _ => None,
        }
    }
}

const MASKED: u64 = 1 << 16;
const LEVEL: u64 = 1 << 15;
const REMOTE_IRR: u64 = 1 << 14;
const ACTIVE_LOW: u64 = 1 << 13;
const LOGICAL: u64 = 1 << 11;
/// Bits 12 (delivery status) and 14 (remote IRR) are read-only.
const WRITABLE: u64 = 0xff00_0000_0001_afff;

/// An interrupt message to the local APICs, as an MSI would carry it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message {
    /// Pin that caused it.
    pub pin: u8,
    /// Destination field, 8 bits.
    pub destination: u8,
    /// Logical rather than physical destination.
    pub is_logical: bool,
    /// Delivery mode as in the ICR: 0 fixed, 1 lowest priority, 2 SMI, 4 NMI, 5 INIT, 7 ExtINT.
    pub delivery_mode: u8,
    /// Vector.
    pub vector: u8,
    /// Level triggered: the receiver sets TMR and broadcasts its EOI.
    pub is_level: bool,
}

impl Message {
    /// Returns the message as an MSI address and data pair.
    #[must_use]
    pub fn to_msi(self) -> (u32, u32) {
        let mode = if self.is_logical { 1 << 2 } else { 0 };
        let address = 0xfee0_0000 | u32::from(self.destination) << 12 | mode;
        let trigger = if self.is_level { 3 << 14 } else { 0 };
        let data = u32::from(self.vector) | u32::from(self.delivery_mode) << 8 | trigger;
        (address, data)
    }
}

/// Messages of one input; several when an EOI frees several pins.
pub type Messages = Vec<Message>;

/// The I/O APIC.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IoApic {
    id: u8,
    index: u8,
    entries: [u64; PINS],
    /// Levels of the pins, as bits.
    levels: u32,
}

impl Default for IoApic {
    fn default() -> Self {
        IoApic { id: 0, index: 0, entries: [MASKED; PINS], levels: 0 }
    }
}

impl IoApic {
    /// Makes the device as it is after reset: all pins masked.
    #[must_use]
    pub fn new() -> Self {
        IoApic::default()
    }

    /// Reads 32 bits at `offset` into the page; what is no register reads 0.
    #[must_use]
    pub fn read(&self, offset: u64) -> u32 {
        match Port::from_offset(offset) {
            Some(Port::Index) => u32::from(self.index),
            Some(Port::Data) => match Register::from_index(self.index) {
                Some(Register::Id | Register::Arbitration) => u32::from(self.id) << 24,
                Some(Register::Version) => VERSION,
                Some(Register::EntryLow(pin)) => low(self.entries[pin]),
                Some(Register::EntryHigh(pin)) => low(self.entries[pin] >> 32),
                None => 0,
            },
            Some(Port::Eoi) | None => 0,
        }
    }

    /// Writes 32 bits at `offset` into the page; what is no register is ignored.
    pub fn write(&mut self, offset: u64, value: u32) -> Messages {
        match Port::from_offset(offset) {
            Some(Port::Index) => {
                self.index = value.to_le_bytes()[0];
                Messages::new()
            }
            Some(Port::Data) => self.write_register(value),
            Some(Port::Eoi) => self.eoi(value.to_le_bytes()[0]),
            None => Messages::new(),
        }
    }

    /// Sets the level of a pin.
    ///
    /// An edge entry sends on the rising edge, a level entry while the pin is high and no
    /// earlier message of it is in service.
    pub fn set_pin(&mut self, pin: u8, level: bool) -> Messages {
        let index = usize::from(pin);
        let Some(&entry) = self.entries.get(index) else { return Messages::new() };
        let was = self.levels >> pin & 1 != 0;
        self.levels = self.levels & !(1 << pin) | u32::from(level) << pin;
        if entry & LEVEL != 0 {
            return self.send_level(index).into_iter().collect();
        }
        let is_sent = level && !was && entry & MASKED == 0;
        is_sent.then(|| message(index, entry)).into_iter().collect()
    }

    /// Takes the EOI broadcast of a local APIC for a level-triggered vector.
    pub fn eoi(&mut self, vector: u8) -> Messages {
        let mut messages = Messages::new();
        for pin in 0..PINS {
            let entry = &mut self.entries[pin];
            if *entry & LEVEL != 0 && entry.to_le_bytes()[0] == vector {
                *entry &= !REMOTE_IRR;
                messages.extend(self.send_level(pin));
            }
        }
        messages
    }

    fn write_register(&mut self, value: u32) -> Messages {
        let (pin, entry) = match Register::from_index(self.index) {
            Some(Register::Id) => {
                self.id = value.to_le_bytes()[3] & 0xf;
                return Messages::new();
            }
            Some(Register::EntryLow(pin)) => {
                (pin, self.entries[pin] & !0xffff_ffff | u64::from(value))
            }
            Some(Register::EntryHigh(pin)) => {
                (pin, self.entries[pin] & 0xffff_ffff | u64::from(value) << 32)
            }
            Some(Register::Version | Register::Arbitration) | None => return Messages::new(),
        };
        let mut kept = self.entries[pin] & REMOTE_IRR;
        if entry & LEVEL == 0 {
            // Software clears a stuck remote IRR by a passage through edge mode.
            kept = 0;
        }
        self.entries[pin] = entry & WRITABLE | kept;
        self.send_level(pin).into_iter().collect()
    }

    /// Sends for a level entry that is high, open and not in service.
    fn send_level(&mut self, pin: usize) -> Option<Message> {
        let entry = self.entries[pin];
        let is_high = self.levels >> pin & 1 != 0;
        if entry & LEVEL == 0 || entry & (MASKED | REMOTE_IRR) != 0 || !is_high {
            return None;
        }
        self.entries[pin] |= REMOTE_IRR;
        Some(message(pin, entry))
    }

    /// Whether the entry of a pin says "active low"; pins here are levels of assertion already.
    #[must_use]
    pub fn is_active_low(&self, pin: u8) -> bool {
        self.entries.get(usize::from(pin)).is_some_and(|entry| entry & ACTIVE_LOW != 0)
    }
}

fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

fn message(pin: usize, entry: u64) -> Message {
    Message {
        pin: (pin & 0xff) as u8,
        destination: entry.to_le_bytes()[7],
        is_logical: entry & LOGICAL != 0,
        delivery_mode: (entry >> 8 & 7) as u8,
        vector: entry.to_le_bytes()[0],
        is_level: entry & LEVEL != 0,
    }
}

#[cfg(test)]
mod tests {
    use super::{IoApic, Message};

    fn program(apic: &mut IoApic, pin: u8, high: u32, low: u32) -> Vec<Message> {
        apic.write(0x00, 0x11 + 2 * u32::from(pin));
        let mut messages = apic.write(0x10, high);
        apic.write(0x00, 0x10 + 2 * u32::from(pin));
        messages.extend(apic.write(0x10, low));
        messages
    }

    #[test]
    fn version_names_24_pins_and_entries_read_back_without_read_only_bits() {
        let mut apic = IoApic::new();
        apic.write(0, 1);
        assert_eq!(apic.read(0x10), 0x0017_0020);
        program(&mut apic, 4, 0x0300_0000, 0x0001_5030);
        assert_eq!(apic.read(0x10), 0x0001_0030 & !0x4000);
        apic.write(0, 0x19);
        assert_eq!(apic.read(0x10), 0x0300_0000);
        apic.write(0, 0x50);
        assert_eq!((apic.read(0x10), apic.read(0x20)), (0, 0));
    }

    #[test]
    fn an_edge_is_sent_once_and_lost_when_masked() {
        let mut apic = IoApic::new();
        assert_eq!(apic.set_pin(4, true), []);
        program(&mut apic, 4, 0x0300_0000, 0x0000_0030);
        assert_eq!(apic.set_pin(4, true), []);
        apic.set_pin(4, false);
        let sent = apic.set_pin(4, true);
        let expected = Message {
            pin: 4,
            destination: 3,
            is_logical: false,
            delivery_mode: 0,
            vector: 0x30,
            is_level: false,
        };
        assert_eq!(sent, [expected]);
        assert_eq!(expected.to_msi(), (0xfee0_3000, 0x30));
    }

    #[test]
    fn a_level_is_sent_again_after_eoi_while_it_stays_high() {
        let mut apic = IoApic::new();
        program(&mut apic, 5, 0, 0x0000_8031);
        assert_eq!(apic.set_pin(5, true).len(), 1);
        assert_eq!(apic.set_pin(5, true), []);
        assert_eq!(apic.read(0x10) & 0x4000, 0x4000);
        assert_eq!(apic.eoi(0x32), []);
        assert_eq!(apic.eoi(0x31).len(), 1);
        apic.set_pin(5, false);
        assert_eq!(apic.eoi(0x31), []);
    }

    #[test]
    fn unmasking_a_high_level_sends() {
        let mut apic = IoApic::new();
        program(&mut apic, 5, 0, 0x0001_8031);
        assert_eq!(apic.set_pin(5, true), []);
        assert_eq!(program(&mut apic, 5, 0, 0x0000_8831).len(), 1);
        assert_eq!(apic.set_pin(64, true), []);
    }
}
