//! Accesses that no cpu makes: DMA, and atomics at the home (`engine.md` section 5).
//!
//! The request goes to the line's home. Once a writer is reduced, or every copy is gone, the home
//! touches the value in that very item, and the result travels (V2). The copy of a line is a read
//! at one home, then a write at the other. Not modelled: accesses across lines, which a device
//! splits, and the bandwidth of a device.

use emu_mem::msg::{Envelope, LineMsg};
use emu_mem::shadow::Data;
use emu_sim::mutant::Mutant;
use emu_sim::{Key, NodeRef, Phase, PhysAddr, SimTime};

use crate::far::is_far;
use crate::platform::Platform;
use crate::run::UncoreItem;
use crate::system::System;

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DmaOp {
    /// Reads.
    Read,
    /// Writes this value.
    Write(u64),
    /// Adds, as a far atomic does; the result is what was there before.
    Add(u64),
}

/// One access of 1 to 8 bytes that lie in one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dma {
    /// First byte.
    pub address: PhysAddr,
    /// Bytes.
    pub size: u8,
    /// What to do.
    pub op: DmaOp,
}

/// An access that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DmaDone {
    /// Its number.
    pub index: usize,
    /// When the device had the answer.
    pub at: SimTime,
    /// What was there before.
    pub value: u64,
}

/// Words of a line.
const LINE_WORDS: usize = 8;

/// Devices from this number on are copies of lines.
const COPY: u32 = 1 << 29;

/// How far the copy of a line is.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The read is under way.
    Reads,
    /// The write is under way, or about to leave.
    Holds([u64; LINE_WORDS]),
    /// The answer to the write is under way.
    Written,
}

/// The copy of a line.
#[derive(Clone, Copy, Debug)]
struct LineCopy {
    from: PhysAddr,
    to: PhysAddr,
    stage: Stage,
}

/// All accesses of devices.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeviceAccesses {
    accesses: Vec<Dma>,
    done: Vec<DmaDone>,
    /// Copies under way, by device; the engine has bounded their number.
    copies: Vec<Option<LineCopy>>,
}

impl<P: Platform> System<P> {
    /// Lets a device make an access, whose request leaves at `at`; returns its number.
    ///
    /// # Panics
    /// If that is past, or the access crosses a line.
    pub(crate) fn dma(&mut self, at: SimTime, dma: Dma) -> usize {
        let line = dma.address.line();
        let last = PhysAddr(dma.address.0 + u64::from(dma.size.clamp(1, 8)) - 1);
        assert!(at >= self.now && last.line() == line, "{dma:?} at {at:?} cannot be made");
        let index = self.dma.accesses.len();
        self.dma.accesses.push(dma);
        self.send_access(at, index as u32, dma.address, dma.op != DmaOp::Read);
        index
    }

    /// Sends the request of a device to the home of a line.
    fn send_access(&mut self, at: SimTime, device: u32, address: PhysAddr, write: bool) {
        let from = NodeRef::Device(device);
        let (line, home) = (address.line(), self.paths.home_of(address));
        let time = at.ps() + self.paths.home_device[home.index()];
        let tie = self.chance.tie(line.0, time, from.rank());
        let key = Key { time, phase: Phase::Request, tie, source: from.rank(), seq: 0 };
        let (to, msg) = (NodeRef::Home(home), LineMsg::Access { write });
        let e = Envelope { key, to, from, line, msg, data: Data::default() };
        self.uncore.push(key, UncoreItem::Line(e));
    }

    /// Begins the copy of a line.
    pub(crate) fn copy_line(&mut self, at: SimTime, from: PhysAddr, to: PhysAddr) {
        let copies = &mut self.dma.copies;
        let free = copies.iter().position(Option::is_none).unwrap_or(copies.len());
        if free == copies.len() {
            copies.push(None);
        }
        copies[free] = Some(LineCopy { from, to, stage: Stage::Reads });
        self.send_access(at, COPY | free as u32, from, false);
    }

    /// The home reads or writes a line of a copy now; the answer is under way.
    fn touch_for_copy(&mut self, slot: usize, e: &Envelope, behind: &mut [Envelope]) {
        let Some(LineCopy { from, to, stage }) = &mut self.dma.copies[slot] else {
            unreachable!("model bug: no copy {slot} is under way")
        };
        let word = |line: PhysAddr, at: usize| PhysAddr(line.0 + 8 * at as u64);
        let (line, phys) = (if matches!(stage, Stage::Reads) { *from } else { *to }, &self.phys);
        let home = self.paths.home_of(line).index();
        let access = || {
            *stage = match *stage {
                Stage::Holds(words) => {
                    for (at, value) in words.into_iter().enumerate() {
                        phys.store(word(line, at), 8, value);
                    }
                    Stage::Written
                }
                _ => Stage::Holds(std::array::from_fn(|at| phys.load(word(line, at), 8))),
            };
        };
        self.homes[home].access(e.line, phys, access, behind);
        self.uncore.push(e.key, UncoreItem::Copied { slot });
    }

    /// The device has the answer to one half of a copy; returns whether it was the second.
    pub(crate) fn copy_answered(&mut self, at: SimTime, slot: usize) -> bool {
        let Some(LineCopy { to, stage, .. }) = self.dma.copies[slot] else { return false };
        if matches!(stage, Stage::Written) {
            self.dma.copies[slot] = None;
            return true;
        }
        self.send_access(at, COPY | slot as u32, to, true);
        false
    }

    /// Accesses that were made, in order of time.
    pub(crate) fn dma_done(&self) -> &[DmaDone] {
        &self.dma.done
    }

    /// The home makes the access now; the answer is under way.
    pub(crate) fn touch_for_device(&mut self, e: &Envelope, behind: &mut [Envelope]) {
        let NodeRef::Device(index) = e.to else { return };
        if is_far(index) {
            return self.touch_for_cpu(index, e, behind);
        }
        if index & COPY != 0 {
            return self.touch_for_copy((index & !COPY) as usize, e, behind);
        }
        let Dma { address, size, op } = self.dma.accesses[index as usize];
        let phys = &self.phys;
        let value = phys.load(address, size);
        let home = self.paths.home_of(address);
        let access = || match op {
            DmaOp::Read => {}
            DmaOp::Write(new) => phys.store(address, size, new),
            DmaOp::Add(n) => phys.store(address, size, value.wrapping_add(n)),
        };
        self.homes[home.index()].access(e.line, phys, access, behind);
        let item = UncoreItem::DmaDone { index: index as usize, value };
        self.uncore.push(e.key, item);
    }

    /// The device has the answer.
    pub(crate) fn dma_answered(&mut self, at: SimTime, index: usize, value: u64) {
        let Dma { address, size, op } = self.dma.accesses[index];
        let is_late = self.options.mutation.is(Mutant::ValueNotCopied) && op == DmaOp::Read;
        let value = if is_late { self.phys.load(address, size) } else { value };
        self.dma.done.push(DmaDone { index, at, value });
    }
}
