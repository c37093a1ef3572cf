//! Guest-kept counters, and the header by which the machine finds them.
//!
//! A counter is bumped by a plain load and store of its own CPU, on lines that hold nothing else.

use core::cell::UnsafeCell;

use guests_abi::block::{COUNTERS_MAGIC, CountersHeader};
use guests_abi::counter::Counter;

use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::{arch, machine, memory, percpu};

/// The counters of one CPU, in the order of `guests_abi::counter`.
#[repr(C)]
pub(crate) struct Counters([AtomicU64; Counter::COUNT]);

impl Counters {
    /// Adds `count`; only the CPU whose counters these are.
    #[inline]
    pub(crate) fn add(&self, counter: Counter, count: u64) {
        let counter = &self.0[counter as usize];
        counter.store(counter.load(Relaxed) + count, Relaxed);
    }
}

/// Adds `count` to a counter of this CPU.
#[inline]
pub(crate) fn add(counter: Counter, count: u64) {
    arch::this_cpu().counters.add(counter, count);
}

/// Adds 1 to a counter of this CPU.
#[inline]
pub(crate) fn bump(counter: Counter) {
    add(counter, 1);
}

/// A header that the machine reads.
#[repr(transparent)]
pub(crate) struct Header<T>(UnsafeCell<T>);

#[expect(unsafe_code, reason = "read by the machine, not by code")]
// SAFETY: written once, by one CPU, at boot; no code reads it.
unsafe impl<T> Sync for Header<T> {}

impl<T> Header<T> {
    /// A header that holds `value`.
    pub(crate) const fn new(value: T) -> Header<T> {
        Header(UnsafeCell::new(value))
    }

    /// Fills the header; once, while only one CPU writes.
    #[expect(unsafe_code, reason = "see above")]
    pub(crate) fn fill(&self, value: T) {
        // SAFETY: no reference to the content exists, see `Sync`; volatile, as the reader is
        // outside of what the compiler sees.
        unsafe { self.0.get().write_volatile(value) }
    }
}

#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its symbol")]
static CROSSCALL_COUNTERS: Header<CountersHeader> = Header::new(CountersHeader {
    magic: 0,
    counters: 0,
    names: 0,
    names_bytes: 0,
    cpus: 0,
    blocks: 0,
});

const NAMES_BYTES: usize = {
    let (mut bytes, mut at) = (0, 0);
    while at < Counter::COUNT {
        bytes += Counter::NAMES[at].len() + 1;
        at += 1;
    }
    bytes
};

/// The names, each ended by one NUL.
static NAMES: [u8; NAMES_BYTES] = {
    let mut text = [0; NAMES_BYTES];
    let (mut at, mut name) = (0, 0);
    while name < Counter::COUNT {
        let bytes = Counter::NAMES[name].as_bytes();
        let mut byte = 0;
        while byte < bytes.len() {
            text[at] = bytes[byte];
            at += 1;
            byte += 1;
        }
        at += 1;
        name += 1;
    }
    text
};

/// Publishes where the counters are; all areas have been placed.
pub(crate) fn publish() {
    let cpus = machine::cpu_count();
    let blocks = memory::alloc_slice::<u64>(0, cpus);
    for (cpu, block) in blocks.iter_mut().enumerate() {
        *block = percpu::counters_address(cpu);
    }
    CROSSCALL_COUNTERS.fill(CountersHeader {
        magic: COUNTERS_MAGIC,
        counters: Counter::COUNT as u64,
        names: NAMES.as_ptr() as u64,
        names_bytes: NAMES.len() as u64,
        cpus: cpus as u64,
        blocks: blocks.as_ptr() as u64,
    });
}
