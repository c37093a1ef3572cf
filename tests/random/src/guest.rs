//! The image of a run: each cpu's program as machine code, and what the host reads afterwards.
//!
//! A program runs its rounds with interrupts on and writes what it saw to a log of its own. At the
//! end all cpus halt; cpu 0 waits until everything sent has arrived, and ends the run.

mod arm64;
mod x86;

use emu_machine::Image;
use emu_machine::load::{Segment, Symbols};
use emu_sim::PhysAddr;
use topology::Isa;

use crate::arena::Arena;
use crate::program::{self, Op, POOL, POOL_BYTES};

// Places, from the first byte of RAM.
const CODE: u64 = 0x10_0000;
/// IDT, or translation table.
const TABLES: u64 = 0x0410_0000;
/// Cpus that are ready to begin, that have met, that have ended; an unexpected exception.
const READY: u64 = 0x0420_0000;
const MET: u64 = READY + 0x40;
const ENDED: u64 = READY + 0x80;
const FAULT: u64 = READY + 0xc0;
/// Stack and counts of each seat.
const OWN: u64 = 0x0430_0000;
const OWN_BYTES: u64 = 0x1000;
const OWN_COUNTS: u64 = 0xf80;
/// Counts: interrupts of other cpus, of the timer, rounds done.
const AT_IPIS: u32 = 0;
const AT_TICKS: u32 = 8;
const AT_ROUNDS: u32 = 16;
const LOGS: u64 = 0x1000_0000;
/// Where logs end.
const LOGS_END: u64 = 0x2c00_0000;
/// Ticks of the timer until nothing is under way any more.
const SETTLE_TICKS: u32 = 10_000;

/// What a word of the log holds before it is written.
pub const UNWRITTEN: u64 = 0xa5a5_a5a5_a5a5_a5a5;

/// What a guest is made from.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Instruction set.
    pub isa: Isa,
    /// First byte of RAM.
    pub base: u64,
    /// Seed of what programs leave open.
    pub seed: u64,
    /// Lines.
    pub arena: Arena,
    /// Programs by seat.
    pub programs: Vec<Vec<Op>>,
    /// Times that they are run.
    pub rounds: u64,
    /// (cpu, architectural ID) by seat; the first is cpu 0.
    pub seats: Vec<(usize, u64)>,
    /// Whether an x86 machine hands cpus over in x2APIC mode.
    pub is_x2apic: bool,
}

impl Plan {
    /// Words that a seat's program logs in each round.
    #[must_use]
    pub fn words(&self, seat: usize) -> usize {
        self.programs[seat].iter().map(|op| program::words(op, &self.arena)).sum()
    }

    /// Address and bytes of a seat's log.
    #[must_use]
    pub fn log(&self, seat: usize) -> (u64, usize) {
        let bytes = |s: usize| (8 * self.words(s) * self.rounds as usize).next_multiple_of(64);
        (self.base + LOGS + (0..seat).map(bytes).sum::<usize>() as u64, bytes(seat))
    }

    /// Whether all logs fit into guest memory.
    #[must_use]
    pub fn fits(&self) -> bool {
        let (last, bytes) = self.log(self.seats.len() - 1);
        last + bytes as u64 <= self.base + LOGS_END
    }

    /// Addresses of what a seat counts: interrupts of other cpus, of its timer, rounds.
    #[must_use]
    pub fn counts(&self, seat: usize) -> [u64; 3] {
        let at = self.base + OWN + seat as u64 * OWN_BYTES + OWN_COUNTS;
        [AT_IPIS, AT_TICKS, AT_ROUNDS].map(|offset| at + u64::from(offset))
    }

    /// Address of a word that is not 0 once an exception came that nobody expects.
    #[must_use]
    pub fn unexpected(&self) -> u64 {
        self.base + FAULT
    }

    /// Builds the image.
    ///
    /// # Errors
    /// What the assembler says; a bug here.
    pub fn image(&self) -> Result<Image, String> {
        let (entry, mut segments) = match self.isa {
            Isa::X86_64 => (CODE, x86::segments(self).map_err(|e| e.to_string())?),
            Isa::Aarch64 => (arm64::entry(self), arm64::segments(self)?),
        };
        segments.extend([
            segment(self.base + READY, Vec::new(), 0x1000),
            segment(self.base + OWN, Vec::new(), self.seats.len() as u64 * OWN_BYTES),
            segment(self.base + POOL, Vec::new(), POOL_BYTES),
        ]);
        segments.extend(self.arena.patches.iter().map(|patch| {
            let (address, bytes) = patch.code();
            segment(address, bytes.to_vec(), 0)
        }));
        segments.sort_by_key(|s| s.base.0);
        for (index, s) in segments.iter_mut().enumerate() {
            s.index = index;
        }
        Ok(Image {
            isa: self.isa,
            entry: PhysAddr(entry),
            segments,
            symbols: Symbols::default(),
            points: Vec::new(),
            origin: None,
        })
    }
}

fn segment(base: u64, bytes: Vec<u8>, size_min: u64) -> Segment {
    let size = size_min.max(bytes.len() as u64);
    Segment {
        index: 0,
        base: PhysAddr(base),
        bytes,
        size,
        virtual_base: base,
        is_executable: true,
        is_writable: true,
    }
}
