//! A 16550A serial port with an endless, instant wire.
//!
//! Modelled: all registers, FIFO enable, interrupt identification and priorities, loopback, the
//! interrupt line (gated by OUT2 as on the PC). Not modelled: baud rate (a byte leaves on the
//! edge it is written, so the transmitter is always empty), modem line changes from outside,
//! break and line errors other than overrun, the receive timeout as a time.
//! Source: \[PC16550D\] "Universal Asynchronous Receiver/Transmitter with FIFOs". Status: spec.

use std::collections::VecDeque;

/// Number of byte ports the device decodes.
pub const PORTS: u16 = 8;
/// Bytes of the receive FIFO.
pub const FIFO_BYTES: usize = 16;
/// I/O APIC pin of COM1.
pub const COM1_PIN: u8 = 4;

/// What a read of a port reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadRegister {
    Rbr,
    Ier,
    Iir,
    Lcr,
    Mcr,
    Lsr,
    Msr,
    Scr,
    Dll,
    Dlm,
}

/// What a write of a port reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WriteRegister {
    Thr,
    Ier,
    Fcr,
    Lcr,
    Mcr,
    /// LSR and MSR: factory test only, ignored.
    Ignored,
    Scr,
    Dll,
    Dlm,
}

impl ReadRegister {
    fn from_port(port: u16, dlab: bool) -> Self {
        match (port % PORTS, dlab) {
            (0, false) => Self::Rbr,
            (0, true) => Self::Dll,
            (1, false) => Self::Ier,
            (1, true) => Self::Dlm,
            (2, _) => Self::Iir,
            (3, _) => Self::Lcr,
            (4, _) => Self::Mcr,
            (5, _) => Self::Lsr,
            (6, _) => Self::Msr,
            _ => Self::Scr,
        }
    }
}

impl WriteRegister {
    fn from_port(port: u16, dlab: bool) -> Self {
        match (port % PORTS, dlab) {
            (0, false) => Self::Thr,
            (0, true) => Self::Dll,
            (1, false) => Self::Ier,
            (1, true) => Self::Dlm,
            (2, _) => Self::Fcr,
            (3, _) => Self::Lcr,
            (4, _) => Self::Mcr,
            (5 | 6, _) => Self::Ignored,
            _ => Self::Scr,
        }
    }
}

mod ier {
    pub(super) const RECEIVED: u8 = 1 << 0;
    pub(super) const TRANSMITTER: u8 = 1 << 1;
    pub(super) const LINE_STATUS: u8 = 1 << 2;
    pub(super) const WRITABLE: u8 = 0x0f;
}

mod iir {
    pub(super) const NONE: u8 = 0x01;
    pub(super) const TRANSMITTER: u8 = 0x02;
    pub(super) const RECEIVED: u8 = 0x04;
    pub(super) const LINE_STATUS: u8 = 0x06;
    pub(super) const FIFO: u8 = 0xc0;
}

mod lsr {
    pub(super) const DATA_READY: u8 = 1 << 0;
    pub(super) const OVERRUN: u8 = 1 << 1;
    pub(super) const TRANSMITTER_EMPTY: u8 = 1 << 5 | 1 << 6;
}

mod mcr {
    pub(super) const DTR: u8 = 1 << 0;
    pub(super) const RTS: u8 = 1 << 1;
    pub(super) const OUT1: u8 = 1 << 2;
    pub(super) const OUT2: u8 = 1 << 3;
    pub(super) const LOOP: u8 = 1 << 4;
    pub(super) const WRITABLE: u8 = 0x1f;
}

mod msr {
    pub(super) const CTS: u8 = 1 << 4;
    pub(super) const DSR: u8 = 1 << 5;
    pub(super) const RI: u8 = 1 << 6;
    pub(super) const DCD: u8 = 1 << 7;
}

const LCR_DLAB: u8 = 1 << 7;

/// What follows from an access.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// A byte for the console.
    pub console: Option<u8>,
    /// The new level of the interrupt line, where it changed.
    pub irq: Option<bool>,
}

/// The serial port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Uart16550 {
    ier: u8,
    lcr: u8,
    mcr: u8,
    scr: u8,
    divisor: u16,
    is_fifo_on: bool,
    has_overrun: bool,
    /// The "transmitter holding register empty" interrupt waits to be identified.
    is_thre_pending: bool,
    received: VecDeque<u8>,
    irq: bool,
}

impl Uart16550 {
    /// Makes the port as it is after reset.
    #[must_use]
    pub fn new() -> Self {
        Uart16550::default()
    }

    /// Reads the port at `offset` from the base.
    pub fn read(&mut self, offset: u16) -> (u8, Effects) {
        let value = match ReadRegister::from_port(offset, self.lcr & LCR_DLAB != 0) {
            ReadRegister::Rbr => self.received.pop_front().unwrap_or(0),
            ReadRegister::Ier => self.ier,
            ReadRegister::Iir => self.identify(),
            ReadRegister::Lcr => self.lcr,
            ReadRegister::Mcr => self.mcr,
            ReadRegister::Lsr => {
                let value = self.line_status();
                self.has_overrun = false;
                value
            }
            ReadRegister::Msr => self.modem_status(),
            ReadRegister::Scr => self.scr,
            ReadRegister::Dll => self.divisor.to_le_bytes()[0],
            ReadRegister::Dlm => self.divisor.to_le_bytes()[1],
        };
        (value, Effects { console: None, irq: self.update_irq() })
    }

    /// Writes the port at `offset` from the base.
    pub fn write(&mut self, offset: u16, value: u8) -> Effects {
        let [low, high] = self.divisor.to_le_bytes();
        let mut console = None;
        match WriteRegister::from_port(offset, self.lcr & LCR_DLAB != 0) {
            WriteRegister::Thr if self.mcr & mcr::LOOP != 0 => {
                self.is_thre_pending = true;
                self.take(value);
            }
            WriteRegister::Thr => {
                self.is_thre_pending = true;
                console = Some(value);
            }
            WriteRegister::Ier => {
                let value = value & ier::WRITABLE;
                // Enabling the interrupt while the transmitter is empty raises it at once.
                if value & !self.ier & ier::TRANSMITTER != 0 {
                    self.is_thre_pending = true;
                }
                self.ier = value;
            }
            WriteRegister::Fcr => {
                let is_on = value & 1 != 0;
                if is_on != self.is_fifo_on || value & 2 != 0 {
                    self.received.clear();
                }
                self.is_fifo_on = is_on;
            }
            WriteRegister::Lcr => self.lcr = value,
            WriteRegister::Mcr => self.mcr = value & mcr::WRITABLE,
            WriteRegister::Ignored => {}
            WriteRegister::Scr => self.scr = value,
            WriteRegister::Dll => self.divisor = u16::from_le_bytes([value, high]),
            WriteRegister::Dlm => self.divisor = u16::from_le_bytes([low, value]),
        }
        Effects { console, irq: self.update_irq() }
    }

    /// Takes a byte from the outside; it is lost with an overrun when the FIFO is full.
    pub fn receive(&mut self, byte: u8) -> Effects {
        // In loopback the serial input is disconnected.
        if self.mcr & mcr::LOOP == 0 {
            self.take(byte);
        }
        Effects { console: None, irq: self.update_irq() }
    }

    /// Whether a byte from the outside would be taken now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.mcr & mcr::LOOP == 0 && self.received.len() < self.depth()
    }

    fn depth(&self) -> usize {
        if self.is_fifo_on { FIFO_BYTES } else { 1 }
    }

    /// Returns how many bytes the guest has not read yet.
    #[must_use]
    pub fn unread(&self) -> usize {
        self.received.len()
    }

    /// Returns the level of the interrupt line.
    #[must_use]
    pub fn irq(&self) -> bool {
        self.irq
    }

    fn take(&mut self, byte: u8) {
        if self.received.len() < self.depth() {
            self.received.push_back(byte);
        } else {
            self.has_overrun = true;
            // Without a FIFO the new byte destroys the old one, with it the new one is lost.
            if !self.is_fifo_on {
                self.received[0] = byte;
            }
        }
    }

    /// The highest enabled interrupt, as IIR names it.
    fn cause(&self) -> u8 {
        if self.ier & ier::LINE_STATUS != 0 && self.has_overrun {
            iir::LINE_STATUS
        } else if self.ier & ier::RECEIVED != 0 && !self.received.is_empty() {
            iir::RECEIVED
        } else if self.ier & ier::TRANSMITTER != 0 && self.is_thre_pending {
            iir::TRANSMITTER
        } else {
            iir::NONE
        }
    }

    /// Reads IIR, which ends a transmitter interrupt when it is the one named.
    fn identify(&mut self) -> u8 {
        let cause = self.cause();
        if cause == iir::TRANSMITTER {
            self.is_thre_pending = false;
        }
        if self.is_fifo_on { cause | iir::FIFO } else { cause }
    }

    fn line_status(&self) -> u8 {
        let ready = if self.received.is_empty() { 0 } else { lsr::DATA_READY };
        let overrun = if self.has_overrun { lsr::OVERRUN } else { 0 };
        lsr::TRANSMITTER_EMPTY | ready | overrun
    }

    fn modem_status(&self) -> u8 {
        if self.mcr & mcr::LOOP == 0 {
            return msr::DCD | msr::DSR | msr::CTS;
        }
        [(mcr::RTS, msr::CTS), (mcr::DTR, msr::DSR), (mcr::OUT1, msr::RI), (mcr::OUT2, msr::DCD)]
            .into_iter()
            .filter(|(control, _)| self.mcr & control != 0)
            .fold(0, |status, (_, line)| status | line)
    }

    fn update_irq(&mut self) -> Option<bool> {
        let is_wired = self.mcr & mcr::OUT2 != 0 && self.mcr & mcr::LOOP == 0;
        let level = is_wired && self.cause() != iir::NONE;
        let changed = level != self.irq;
        self.irq = level;
        changed.then_some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::{Effects, FIFO_BYTES, Uart16550};

    const SILENT: Effects = Effects { console: None, irq: None };

    #[test]
    fn written_bytes_reach_the_console_and_the_transmitter_stays_empty() {
        let mut uart = Uart16550::new();
        assert_eq!(uart.read(5).0 & 0x60, 0x60);
        assert_eq!(uart.write(0, b'x'), Effects { console: Some(b'x'), irq: None });
        assert_eq!(uart.read(5).0 & 0x60, 0x60);
    }

    #[test]
    fn divisor_latch_hides_data_and_ier() {
        let mut uart = Uart16550::new();
        assert_eq!(uart.write(3, 0x83), SILENT);
        assert_eq!(uart.write(0, 0x01), SILENT);
        assert_eq!(uart.write(1, 0x02), SILENT);
        assert_eq!((uart.read(0).0, uart.read(1).0), (1, 2));
        uart.write(3, 0x03);
        assert_eq!((uart.read(1).0, uart.read(3).0), (0, 3));
    }

    #[test]
    fn transmitter_interrupt_ends_when_it_is_identified() {
        let mut uart = Uart16550::new();
        uart.write(4, 0x08);
        assert_eq!(uart.write(1, 2).irq, Some(true));
        assert_eq!(uart.read(2), (0x02, Effects { console: None, irq: Some(false) }));
        assert_eq!(uart.read(2).0, 0x01);
        assert_eq!(uart.write(0, b'a').irq, Some(true));
    }

    #[test]
    fn received_bytes_come_in_order_and_overrun_is_told_once() {
        let mut uart = Uart16550::new();
        uart.write(2, 0x07);
        uart.write(4, 0x08);
        uart.write(1, 0x05);
        for byte in 0..=u8::try_from(FIFO_BYTES).expect("small") {
            uart.receive(byte);
        }
        assert_eq!(uart.read(2).0, 0xc6);
        assert_eq!(uart.read(5).0 & 3, 3);
        assert_eq!(uart.read(5).0 & 3, 1);
        assert_eq!(uart.read(2).0, 0xc4);
        let bytes: Vec<u8> = (0..FIFO_BYTES).map(|_| uart.read(0).0).collect();
        assert_eq!(bytes, (0..16).collect::<Vec<u8>>());
        assert!(!uart.irq());
    }

    #[test]
    fn loopback_passes_the_probe_of_operating_systems() {
        let mut uart = Uart16550::new();
        uart.write(4, 0x1a);
        assert_eq!(uart.read(6).0 & 0xf0, 0x90);
        assert_eq!(uart.write(0, 7), SILENT);
        assert_eq!(uart.read(0).0, 7);
        uart.write(7, 0xa5);
        assert_eq!(uart.read(7).0, 0xa5);
    }
}
