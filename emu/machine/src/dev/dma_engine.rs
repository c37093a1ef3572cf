//! A DMA engine with one channel, which copies memory to memory.
//!
//! Modelled: registers, a queue of transfers that are done one after the other, the time of a
//! transfer (so much for 64 KiB), during which its lines go one by one through their homes, an
//! interrupt when one is complete, errors of what was asked. Not modelled: scatter lists, other
//! channels, the engine's own translation.
//! Source: ours; what it does is what `dmatest` asks of engines of servers. Status: assumed.

use std::collections::VecDeque;
use std::ops::Range;

use emu_sim::{PhysAddr, SimTime};
use guests_abi::dma::{self, Error, Register};

/// Bytes that go at once.
const LINE: u64 = 64;
/// Bytes that the latency of the machine file is for.
const LATENCY_BYTES: u64 = 64 << 10;

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Copy one line.
    Copy {
        /// From here.
        from: PhysAddr,
        /// To there.
        to: PhysAddr,
    },
    /// The interrupt goes up or down; who gets it is in the value of `Route`.
    Interrupt {
        /// Up.
        is_up: bool,
        /// Value of [`Register::Route`].
        route: u64,
    },
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Transfer {
    from: u64,
    to: u64,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Active {
    transfer: Transfer,
    begin: SimTime,
    /// Lines whose copy has begun, and those whose copy is over.
    begun: u64,
    over: u64,
}

/// The engine.
#[derive(Clone, Debug)]
pub struct DmaEngine {
    /// Time of a transfer of 64 KiB, ps.
    latency: u64,
    ram: Vec<Range<u64>>,
    next: Transfer,
    queue: VecDeque<Transfer>,
    active: Option<Active>,
    completed: u64,
    route: u64,
    is_up: bool,
    error: Option<Error>,
}

impl DmaEngine {
    /// An engine that does nothing yet, in a machine with this memory.
    #[must_use]
    pub fn new(latency: SimTime, ram: Vec<Range<u64>>) -> DmaEngine {
        DmaEngine {
            latency: latency.ps(),
            ram,
            next: Transfer::default(),
            queue: VecDeque::new(),
            active: None,
            completed: 0,
            route: 0,
            is_up: false,
            error: None,
        }
    }

    /// Reads a register; `None`: there is none.
    #[must_use]
    pub fn read(&self, offset: u64, size: u8) -> Option<u64> {
        let register = Register::from_offset(offset).filter(|_| size == 8)?;
        Some(match register {
            Register::Id => dma::ID_VALUE,
            Register::Source => self.next.from,
            Register::Destination => self.next.to,
            Register::Length => self.next.bytes,
            Register::Doorbell => 0,
            Register::Status => {
                let bits = [
                    (self.active.is_some(), dma::BUSY),
                    (self.is_up, dma::INTERRUPT),
                    (self.error.is_some(), dma::ERROR),
                ];
                bits.iter().filter(|(is_set, _)| *is_set).map(|(_, bit)| bit).sum()
            }
            Register::Completed => self.completed,
            Register::Route => self.route,
            Register::Error => self.error.map_or(0, |error| error as u64),
        })
    }

    /// Writes a register at `now`; `None`: there is none.
    pub fn write(
        &mut self,
        offset: u64,
        size: u8,
        value: u64,
        now: SimTime,
        out: &mut Vec<Effect>,
    ) -> Option<()> {
        match Register::from_offset(offset).filter(|_| size == 8)? {
            Register::Source => self.next.from = value,
            Register::Destination => self.next.to = value,
            Register::Length => self.next.bytes = value,
            Register::Doorbell => self.ring(now),
            Register::Status => {
                if value & dma::ERROR != 0 {
                    self.error = None;
                }
                if value & dma::INTERRUPT != 0 {
                    self.raise(false, out);
                }
            }
            Register::Route => self.route = value,
            Register::Id | Register::Completed | Register::Error => {}
        }
        Some(())
    }

    /// Queues the transfer that the registers describe.
    fn ring(&mut self, now: SimTime) {
        let transfer = self.next;
        match self.fault(transfer) {
            Some(error) => self.error = Some(error),
            None if self.active.is_none() => self.begin(transfer, now),
            None => self.queue.push_back(transfer),
        }
    }

    fn fault(&self, t: Transfer) -> Option<Error> {
        let is_ram = |at: u64| {
            let end = at.checked_add(t.bytes);
            end.is_some_and(|end| self.ram.iter().any(|ram| ram.start <= at && end <= ram.end))
        };
        if t.bytes == 0 || t.bytes > dma::LENGTH_MAX || !t.bytes.is_multiple_of(LINE) {
            Some(Error::Length)
        } else if !t.from.is_multiple_of(LINE) || !t.to.is_multiple_of(LINE) {
            Some(Error::Alignment)
        } else if !is_ram(t.from) || !is_ram(t.to) {
            Some(Error::Address)
        } else if self.queue.len() >= dma::QUEUE_MAX {
            Some(Error::Full)
        } else {
            None
        }
    }

    fn begin(&mut self, transfer: Transfer, now: SimTime) {
        self.active = Some(Active { transfer, begin: now, begun: 0, over: 0 });
    }

    fn raise(&mut self, is_up: bool, out: &mut Vec<Effect>) {
        if self.is_up != is_up {
            self.is_up = is_up;
            out.push(Effect::Interrupt { is_up, route: self.route });
        }
    }

    /// When `bytes` of a transfer may be over.
    fn time_of(&self, begin: SimTime, bytes: u64) -> SimTime {
        let ps = u128::from(self.latency) * u128::from(bytes) / u128::from(LATENCY_BYTES);
        SimTime(begin.ps().saturating_add(u64::try_from(ps).unwrap_or(u64::MAX)))
    }

    /// When it does something next, if no copy ends before.
    #[must_use]
    pub fn next(&self) -> Option<SimTime> {
        let Active { transfer, begin, begun, over } = self.active?;
        let lines = transfer.bytes / LINE;
        if begun < lines {
            let has_room = begun - over < dma::COPIES_MAX;
            has_room.then(|| self.time_of(begin, begun * LINE))
        } else {
            (over == lines).then(|| self.time_of(begin, transfer.bytes))
        }
    }

    /// Does what is due at `now`.
    pub fn advance(&mut self, now: SimTime, out: &mut Vec<Effect>) {
        while self.next().is_some_and(|at| at <= now)
            && let Some(active) = &mut self.active
        {
            let Transfer { from, to, bytes } = active.transfer;
            if active.begun < bytes / LINE {
                let at = active.begun * LINE;
                active.begun += 1;
                out.push(Effect::Copy { from: PhysAddr(from + at), to: PhysAddr(to + at) });
            } else {
                self.active = None;
                self.completed += 1;
                self.raise(true, out);
                if let Some(transfer) = self.queue.pop_front() {
                    self.begin(transfer, now);
                }
            }
        }
    }

    /// A copy of a line is over.
    pub fn copied(&mut self) {
        if let Some(active) = &mut self.active {
            active.over += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RAM: Range<u64> = 0x10_0000..0x20_0000;

    fn engine() -> DmaEngine {
        DmaEngine::new(SimTime::from_us(10), vec![RAM])
    }

    fn ask(engine: &mut DmaEngine, [from, to, bytes]: [u64; 3], now: SimTime) {
        let writes = [
            (Register::Source, from),
            (Register::Destination, to),
            (Register::Length, bytes),
            (Register::Doorbell, 1),
        ];
        for (register, value) in writes {
            let found = engine.write(register as u64, 8, value, now, &mut Vec::new());
            assert_eq!(found, Some(()));
        }
    }

    #[test]
    fn what_cannot_be_done_is_an_error_with_its_reason() {
        let cases = [
            ([RAM.start, RAM.start + 0x1000, 0x1000], None),
            ([RAM.start, RAM.start + 0x1000, 0], Some(Error::Length)),
            ([RAM.start, RAM.start + 0x1000, 100], Some(Error::Length)),
            ([RAM.start, RAM.start, dma::LENGTH_MAX + 64], Some(Error::Length)),
            ([RAM.start + 8, RAM.start, 64], Some(Error::Alignment)),
            ([RAM.end - 64, RAM.start, 128], Some(Error::Address)),
            ([RAM.start, u64::MAX - 63, 128], Some(Error::Address)),
        ];
        for (transfer, error) in cases {
            let mut engine = engine();
            ask(&mut engine, transfer, SimTime::ZERO);
            let found = engine.read(Register::Error as u64, 8);
            assert_eq!(found, Some(error.map_or(0, |error| error as u64)), "{transfer:x?}");
        }
        let mut engine = engine();
        for _ in 0..=dma::QUEUE_MAX {
            ask(&mut engine, [RAM.start, RAM.start, 64], SimTime::ZERO);
            assert_eq!(engine.read(Register::Error as u64, 8), Some(0));
        }
        ask(&mut engine, [RAM.start, RAM.start, 64], SimTime::ZERO);
        assert_eq!(engine.read(Register::Error as u64, 8), Some(Error::Full as u64));
        assert_eq!(engine.read(0x48, 8), None);
        assert_eq!(engine.read(0, 4), None);
    }

    #[test]
    fn transfers_are_done_in_turn_each_in_its_time() {
        let mut engine = engine();
        for _ in 0..2 {
            ask(&mut engine, [RAM.start, RAM.start + 0x2_0000, 0x8000], SimTime::ZERO);
        }
        let (mut out, mut copies, mut interrupts) = (Vec::new(), 0, Vec::new());
        let mut now = SimTime::ZERO;
        while let Some(at) = engine.next() {
            now = at;
            engine.advance(now, &mut out);
            for effect in out.drain(..) {
                match effect {
                    Effect::Copy { .. } => {
                        copies += 1;
                        engine.copied();
                    }
                    Effect::Interrupt { is_up, .. } => interrupts.push((now, is_up)),
                }
            }
            if engine.read(Register::Status as u64, 8).is_some_and(|s| s & dma::INTERRUPT != 0) {
                let status = Register::Status as u64;
                engine.write(status, 8, dma::INTERRUPT, now, &mut Vec::new());
            }
        }
        // Two times half of 64 KiB.
        assert_eq!((copies, now), (1024, SimTime::from_us(10)));
        let up = [(SimTime::from_us(5), true), (SimTime::from_us(10), true)];
        assert_eq!(interrupts, up);
        assert_eq!(engine.read(Register::Completed as u64, 8), Some(2));
    }
}
