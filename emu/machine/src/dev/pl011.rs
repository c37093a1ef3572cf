//! A PL011 serial port with an endless, instant wire.
//!
//! Modelled: data and status with FIFOs of 32 bytes or one, trigger levels, raw and masked
//! interrupts, loopback, identification. Not modelled: baud rate (a byte leaves when it is written,
//! if the transmitter is on), modem lines that change, word length and parity, break and framing
//! errors, DMA, the receive timeout as a time: it comes with the last byte that does not reach the
//! trigger level.
//!
//! A register is 32 bits at a multiple of 4; an access of any size at its address reaches it. At
//! hand-over the port is on, as firmware leaves it.
//! Source: \[PL011\] "Register descriptions", "Interrupts". Status: spec.

use std::collections::VecDeque;

/// Bytes of each FIFO.
pub const FIFO_BYTES: usize = 32;

/// What an offset names; reads and writes differ only where the name says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Register {
    Data,
    /// Receive status when read, error clear when written.
    Status,
    Flags,
    IrdaDivisor,
    DivisorInteger,
    DivisorFraction,
    LineControl,
    Control,
    FifoLevel,
    Mask,
    RawInterrupts,
    MaskedInterrupts,
    InterruptClear,
    DmaControl,
    /// One byte of the identification.
    Id(u8),
    Reserved,
}

impl Register {
    const fn from_offset(offset: u64) -> Register {
        match offset {
            0x000 => Register::Data,
            0x004 => Register::Status,
            0x018 => Register::Flags,
            0x020 => Register::IrdaDivisor,
            0x024 => Register::DivisorInteger,
            0x028 => Register::DivisorFraction,
            0x02c => Register::LineControl,
            0x030 => Register::Control,
            0x034 => Register::FifoLevel,
            0x038 => Register::Mask,
            0x03c => Register::RawInterrupts,
            0x040 => Register::MaskedInterrupts,
            0x044 => Register::InterruptClear,
            0x048 => Register::DmaControl,
            0xfe0..=0xffc if offset & 3 == 0 => Register::Id(ID[(offset as usize - 0xfe0) / 4]),
            _ => Register::Reserved,
        }
    }
}

/// UARTPeriphID of revision r1p5, which has FIFOs of 32 bytes, and UARTPCellID.
const ID: [u8; 8] = [0x11, 0x10, 0x34, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

mod data {
    pub(super) const OVERRUN: u16 = 1 << 11;
}

mod flag {
    pub(super) const CTS: u32 = 1 << 0;
    pub(super) const DSR: u32 = 1 << 1;
    pub(super) const DCD: u32 = 1 << 2;
    pub(super) const RXFE: u32 = 1 << 4;
    pub(super) const TXFF: u32 = 1 << 5;
    pub(super) const RXFF: u32 = 1 << 6;
    pub(super) const TXFE: u32 = 1 << 7;
    pub(super) const RI: u32 = 1 << 8;
}

mod line {
    pub(super) const FIFOS: u32 = 1 << 4;
    pub(super) const WRITABLE: u32 = 0xff;
}

mod control {
    pub(super) const UART: u32 = 1 << 0;
    pub(super) const LOOPBACK: u32 = 1 << 7;
    pub(super) const TRANSMIT: u32 = 1 << 8;
    pub(super) const RECEIVE: u32 = 1 << 9;
    pub(super) const DTR: u32 = 1 << 10;
    pub(super) const RTS: u32 = 1 << 11;
    pub(super) const OUT1: u32 = 1 << 12;
    pub(super) const OUT2: u32 = 1 << 13;
    pub(super) const WRITABLE: u32 = 0xff87;
}

mod interrupt {
    pub(super) const RECEIVE: u32 = 1 << 4;
    pub(super) const TRANSMIT: u32 = 1 << 5;
    pub(super) const TIMEOUT: u32 = 1 << 6;
    pub(super) const OVERRUN: u32 = 1 << 10;
    pub(super) const WRITABLE: u32 = 0x7ff;
}

/// What follows from an access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Effects {
    /// Bytes for the console.
    pub console: Vec<u8>,
    /// The new level of the interrupt line, where it changed.
    pub irq: Option<bool>,
}

/// The serial port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pl011 {
    irda_divisor: u32,
    divisor: [u32; 2],
    line: u32,
    control: u32,
    level: u32,
    mask: u32,
    raw: u32,
    dma: u32,
    has_overrun: bool,
    /// The next byte that finds room tells of the bytes lost before it.
    lost: bool,
    received: VecDeque<u16>,
    /// Bytes that wait for the transmitter to be turned on.
    held: VecDeque<u8>,
    irq: bool,
}

impl Default for Pl011 {
    fn default() -> Self {
        Pl011::new()
    }
}

impl Pl011 {
    /// Makes the port as firmware leaves it: on, without FIFOs, all interrupts masked.
    #[must_use]
    pub fn new() -> Pl011 {
        Pl011 {
            irda_divisor: 0,
            divisor: [0; 2],
            line: 0,
            control: control::UART | control::TRANSMIT | control::RECEIVE,
            level: 0x12,
            mask: 0,
            raw: 0,
            dma: 0,
            has_overrun: false,
            lost: false,
            received: VecDeque::new(),
            held: VecDeque::new(),
            irq: false,
        }
    }

    /// Reads 1 to 8 bytes at an offset of the page.
    pub fn read(&mut self, offset: u64, size: u8) -> (u64, Effects) {
        let value = match Register::from_offset(offset) {
            Register::Data => self.take_byte(),
            Register::Status => u32::from(self.has_overrun) << 3,
            Register::Flags => self.flags(),
            Register::IrdaDivisor => self.irda_divisor,
            Register::DivisorInteger => self.divisor[0],
            Register::DivisorFraction => self.divisor[1],
            Register::LineControl => self.line,
            Register::Control => self.control,
            Register::FifoLevel => self.level,
            Register::Mask => self.mask,
            Register::RawInterrupts => self.raw,
            Register::MaskedInterrupts => self.raw & self.mask,
            Register::DmaControl => self.dma,
            Register::Id(byte) => u32::from(byte),
            Register::InterruptClear | Register::Reserved => 0,
        };
        let value = u64::from(value) & u64::MAX >> (64 - 8 * u32::from(size.clamp(1, 8)));
        (value, Effects { console: Vec::new(), irq: self.update_irq() })
    }

    /// Writes at an offset of the page.
    pub fn write(&mut self, offset: u64, value: u64) -> Effects {
        let mut console = Vec::new();
        let value = value as u32;
        match Register::from_offset(offset) {
            Register::Data => {
                if self.held.len() < self.depth() {
                    self.held.push_back(value as u8);
                }
                self.transmit(&mut console);
            }
            Register::Status => self.has_overrun = false,
            Register::IrdaDivisor => self.irda_divisor = value & 0xff,
            Register::DivisorInteger => self.divisor[0] = value & 0xffff,
            Register::DivisorFraction => self.divisor[1] = value & 0x3f,
            Register::LineControl => {
                if (value ^ self.line) & line::FIFOS != 0 {
                    self.received.clear();
                    self.raw &= !(interrupt::RECEIVE | interrupt::TIMEOUT);
                }
                self.line = value & line::WRITABLE;
            }
            Register::Control => {
                self.control = value & control::WRITABLE;
                self.transmit(&mut console);
            }
            Register::FifoLevel => self.level = value & 0x3f,
            Register::Mask => self.mask = value & interrupt::WRITABLE,
            Register::InterruptClear => self.raw &= !value,
            Register::DmaControl => self.dma = value & 7,
            Register::Flags
            | Register::RawInterrupts
            | Register::MaskedInterrupts
            | Register::Id(_)
            | Register::Reserved => {}
        }
        Effects { console, irq: self.update_irq() }
    }

    /// Whether a byte from the outside would be taken now.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.is_on(control::RECEIVE)
            && self.control & control::LOOPBACK == 0
            && self.received.len() < self.depth()
    }

    /// Takes a byte from the outside; it is lost when the receiver is off or the FIFO full.
    pub fn receive(&mut self, byte: u8) -> Effects {
        if self.control & control::LOOPBACK == 0 {
            self.take(byte);
        }
        Effects { console: Vec::new(), irq: self.update_irq() }
    }

    /// Returns the level of the interrupt line.
    #[must_use]
    pub fn irq(&self) -> bool {
        self.irq
    }

    fn is_on(&self, part: u32) -> bool {
        self.control & (control::UART | part) == control::UART | part
    }

    fn depth(&self) -> usize {
        if self.line & line::FIFOS != 0 { FIFO_BYTES } else { 1 }
    }

    /// Received bytes that raise the receive interrupt: an eighth, a quarter, a half, three
    /// quarters or seven eighths of the FIFO; one without FIFO.
    fn receive_trigger(&self) -> usize {
        if self.line & line::FIFOS == 0 {
            return 1;
        }
        let eighths = [1, 2, 4, 6, 7].get((self.level >> 3 & 7) as usize).copied().unwrap_or(4);
        FIFO_BYTES * eighths / 8
    }

    /// The bytes that wait leave at once. "The transmit interrupt is based on a transition through
    /// a level, rather than on the level itself."
    fn transmit(&mut self, console: &mut Vec<u8>) {
        if !self.is_on(control::TRANSMIT) || self.held.is_empty() {
            return;
        }
        self.raw |= interrupt::TRANSMIT;
        let bytes = std::mem::take(&mut self.held);
        if self.control & control::LOOPBACK == 0 {
            console.extend(bytes);
        } else {
            bytes.into_iter().for_each(|byte| self.take(byte));
        }
    }

    fn take(&mut self, byte: u8) {
        if !self.is_on(control::RECEIVE) {
            return;
        }
        if self.received.len() >= self.depth() {
            self.has_overrun = true;
            self.lost = true;
            self.raw |= interrupt::OVERRUN;
            return;
        }
        let overrun = if std::mem::take(&mut self.lost) { data::OVERRUN } else { 0 };
        self.received.push_back(u16::from(byte) | overrun);
        let is_full = self.received.len() >= self.receive_trigger();
        self.raw |= if is_full { interrupt::RECEIVE } else { interrupt::TIMEOUT };
    }

    fn take_byte(&mut self) -> u32 {
        let byte = self.received.pop_front().unwrap_or(0);
        if self.received.len() < self.receive_trigger() {
            self.raw &= !interrupt::RECEIVE;
        }
        if self.received.is_empty() {
            self.raw &= !interrupt::TIMEOUT;
        }
        u32::from(byte)
    }

    fn flags(&self) -> u32 {
        let fifos = [
            (flag::RXFE, self.received.is_empty()),
            (flag::RXFF, self.received.len() >= self.depth()),
            (flag::TXFE, self.held.is_empty()),
            (flag::TXFF, self.held.len() >= self.depth()),
        ];
        let fifos = fifos.iter().filter(|(_, is_set)| *is_set).fold(0, |bits, (bit, _)| bits | bit);
        fifos | self.modem_lines()
    }

    /// The other end is ready; in loopback the outputs are the inputs.
    fn modem_lines(&self) -> u32 {
        if self.control & control::LOOPBACK == 0 {
            return flag::CTS | flag::DSR | flag::DCD;
        }
        let wires = [
            (control::RTS, flag::CTS),
            (control::DTR, flag::DSR),
            (control::OUT1, flag::DCD),
            (control::OUT2, flag::RI),
        ];
        wires.iter().filter(|(out, _)| self.control & out != 0).fold(0, |bits, (_, to)| bits | to)
    }

    fn update_irq(&mut self) -> Option<bool> {
        let level = self.raw & self.mask != 0;
        let is_changed = level != self.irq;
        self.irq = level;
        is_changed.then_some(level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(uart: &mut Pl011, offset: u64, value: u64) -> Effects {
        uart.write(offset, value)
    }

    fn read(uart: &mut Pl011, offset: u64) -> u64 {
        uart.read(offset, 4).0
    }

    /// Offset, value after reset, value after all ones were written.
    ///
    /// Source: \[PL011\] "Summary of registers".
    const REGISTERS: [(u64, u64, u64); 24] = [
        (0x000, 0, 0),
        (0x004, 0, 0),
        (0x018, 0x97, 0x97),
        (0x020, 0, 0xff),
        (0x024, 0, 0xffff),
        (0x028, 0, 0x3f),
        (0x02c, 0, 0xff),
        (0x030, 0x301, 0xff87),
        (0x034, 0x12, 0x3f),
        (0x038, 0, 0x7ff),
        (0x03c, 0, 0),
        (0x040, 0, 0),
        (0x044, 0, 0),
        (0x048, 0, 7),
        (0x04c, 0, 0),
        (0xfdc, 0, 0),
        (0xfe0, 0x11, 0x11),
        (0xfe4, 0x10, 0x10),
        (0xfe8, 0x34, 0x34),
        (0xfec, 0, 0),
        (0xff0, 0x0d, 0x0d),
        (0xff4, 0xf0, 0xf0),
        (0xff8, 0x05, 0x05),
        (0xffc, 0xb1, 0xb1),
    ];

    #[test]
    fn every_offset_reads_and_writes_as_the_manual_says_at_every_width() {
        for offset in 0..0x1000_u64 {
            let row = REGISTERS.iter().find(|row| row.0 == offset);
            let (reset, written) = row.map_or((0, 0), |row| (row.1, row.2));
            for size in [1, 2, 4, 8] {
                let mask = u64::MAX >> (64 - 8 * u32::from(size));
                let mut uart = Pl011::new();
                assert_eq!(uart.read(offset, size).0, reset & mask, "{offset:#x} {size}");
                // Loopback of the control register turns the modem lines.
                let effects = write(&mut uart, offset, u64::MAX);
                let flags = if offset == 0x030 { 0x197 } else { 0x97 };
                assert_eq!(read(&mut uart, 0x018), flags, "{offset:#x}");
                assert_eq!(effects.console, if offset == 0 { vec![0xff] } else { vec![] });
                let raw = if offset == 0 { 0x20 } else { 0 };
                assert_eq!(read(&mut uart, 0x03c), raw, "{offset:#x}");
                assert_eq!(
                    uart.read(offset, size).0,
                    if offset == 0x03c { raw } else { written } & mask
                );
            }
        }
    }

    #[test]
    fn bytes_wait_for_the_transmitter_and_leave_together() {
        let mut uart = Pl011::new();
        write(&mut uart, 0x02c, 0x70);
        write(&mut uart, 0x030, 0x201);
        for byte in 0..40 {
            assert_eq!(write(&mut uart, 0, byte).console, []);
        }
        assert_eq!(read(&mut uart, 0x018) & 0xa0, 0x20, "full, not empty");
        let sent = write(&mut uart, 0x030, 0x301).console;
        assert_eq!(sent, (0..32).collect::<Vec<u8>>(), "what found no room is lost");
        assert_eq!(read(&mut uart, 0x018) & 0xa0, 0x80);
    }

    #[test]
    fn the_transmit_interrupt_follows_a_byte_and_its_mask() {
        let mut uart = Pl011::new();
        assert_eq!(write(&mut uart, 0x038, 0x20).irq, None, "no byte has left yet");
        assert_eq!(write(&mut uart, 0, 65), Effects { console: vec![65], irq: Some(true) });
        assert_eq!((read(&mut uart, 0x03c), read(&mut uart, 0x040)), (0x20, 0x20));
        assert_eq!(write(&mut uart, 0x038, 0).irq, Some(false));
        assert_eq!((read(&mut uart, 0x03c), read(&mut uart, 0x040)), (0x20, 0));
        write(&mut uart, 0x044, 0x20);
        assert_eq!(read(&mut uart, 0x03c), 0);
    }

    #[test]
    fn receive_interrupts_come_at_the_level_and_at_the_end() {
        // Selection, bytes that raise the receive interrupt.
        for (select, trigger) in [(0, 4), (1, 8), (2, 16), (3, 24), (4, 28)] {
            let mut uart = Pl011::new();
            write(&mut uart, 0x02c, 0x70);
            write(&mut uart, 0x034, select << 3);
            write(&mut uart, 0x038, 0x50);
            for byte in 1..trigger {
                let irq = uart.receive(byte).irq;
                assert_eq!(irq, (byte == 1).then_some(true), "the timeout");
                assert_eq!(read(&mut uart, 0x03c), 0x40);
            }
            uart.receive(trigger);
            assert_eq!(read(&mut uart, 0x03c), 0x50);
            assert_eq!(read(&mut uart, 0), 1);
            assert_eq!(read(&mut uart, 0x03c), 0x40, "below the level");
            for byte in 2..trigger {
                assert_eq!(read(&mut uart, 0), u64::from(byte));
            }
            let (last, effects) = uart.read(0, 4);
            assert_eq!((last, effects.irq), (u64::from(trigger), Some(false)));
            assert_eq!(read(&mut uart, 0x018) & 0x10, 0x10);
        }
    }

    #[test]
    fn an_overrun_is_told_by_status_interrupt_and_the_next_byte() {
        let mut uart = Pl011::new();
        assert!(uart.has_room());
        uart.receive(1);
        assert!(!uart.has_room());
        uart.receive(2);
        assert_eq!((read(&mut uart, 0x004), read(&mut uart, 0x03c)), (8, 0x410));
        assert_eq!(read(&mut uart, 0), 1);
        uart.receive(3);
        assert_eq!(read(&mut uart, 0), 0x803);
        write(&mut uart, 0x004, 0);
        assert_eq!(read(&mut uart, 0x004), 0);
    }

    #[test]
    fn loopback_hears_itself_and_nobody_else() {
        let mut uart = Pl011::new();
        write(&mut uart, 0x030, 0x0b81);
        assert_eq!(write(&mut uart, 0, 65).console, []);
        uart.receive(66);
        assert_eq!(read(&mut uart, 0x018) & 0x107, 1, "RTS is CTS");
        assert_eq!((read(&mut uart, 0), read(&mut uart, 0x018) & 0x10), (65, 0x10));
        write(&mut uart, 0x030, 0x101);
        uart.receive(67);
        assert_eq!(read(&mut uart, 0), 0, "the receiver is off");
    }
}
