//! Sets of CPUs.
//!
//! Words are atomics, relaxed: a set that one CPU has for itself compiles to plain loads and
//! stores, and a shared one may be changed by single bits.

use guests_abi::layout::CPUS_MAX;

use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::percpu::Line;

const WORDS: usize = CPUS_MAX / 64;

static ALL: Line<CpuMask> = Line(CpuMask::new());

/// All CPUs, once `domain::init` has entered them.
pub(crate) fn all() -> &'static CpuMask {
    &ALL
}

/// A set of CPUs, one bit each.
#[repr(C)]
pub(crate) struct CpuMask([AtomicU64; WORDS]);

impl CpuMask {
    /// No CPU.
    pub(crate) const fn new() -> CpuMask {
        CpuMask([const { AtomicU64::new(0) }; WORDS])
    }

    /// The CPUs that are in both sets.
    pub(crate) fn both(a: &CpuMask, b: &CpuMask) -> CpuMask {
        let mask = CpuMask::new();
        for ((word, a), b) in mask.0.iter().zip(&a.0).zip(&b.0) {
            word.store(a.load(Relaxed) & b.load(Relaxed), Relaxed);
        }
        mask
    }

    /// Adds a CPU; no other CPU changes the set meanwhile.
    pub(crate) fn insert(&self, cpu: usize) {
        let word = &self.0[cpu / 64];
        word.store(word.load(Relaxed) | 1 << (cpu % 64), Relaxed);
    }

    /// Adds the CPUs of another set; no other CPU changes this one meanwhile.
    pub(crate) fn insert_all(&self, others: &CpuMask) {
        for (word, other) in self.0.iter().zip(&others.0) {
            word.store(word.load(Relaxed) | other.load(Relaxed), Relaxed);
        }
    }

    /// Takes out a CPU; no other CPU changes the set meanwhile.
    pub(crate) fn remove(&self, cpu: usize) {
        let word = &self.0[cpu / 64];
        word.store(word.load(Relaxed) & !(1 << (cpu % 64)), Relaxed);
    }

    /// Number of CPUs.
    pub(crate) fn count(&self) -> usize {
        self.0.iter().map(|word| word.load(Relaxed).count_ones() as usize).sum()
    }

    /// Takes out the CPUs of another set; no other CPU changes this one meanwhile.
    pub(crate) fn remove_all(&self, others: &CpuMask) {
        for (word, other) in self.0.iter().zip(&others.0) {
            word.store(word.load(Relaxed) & !other.load(Relaxed), Relaxed);
        }
    }

    /// Whether the CPU is in the set.
    #[inline]
    pub(crate) fn contains(&self, cpu: usize) -> bool {
        self.0[cpu / 64].load(Relaxed) & 1 << (cpu % 64) != 0
    }

    /// The first CPU from `from` on.
    pub(crate) fn next(&self, from: usize) -> Option<usize> {
        let mut at = from / 64;
        let mut word = self.0.get(at)?.load(Relaxed) & !0 << (from % 64);
        while word == 0 {
            at += 1;
            word = self.0.get(at)?.load(Relaxed);
        }
        Some(at * 64 + word.trailing_zeros() as usize)
    }

    /// Calls `each` for every CPU of the set, in order.
    pub(crate) fn for_each(&self, mut each: impl FnMut(usize)) {
        for (at, word) in self.0.iter().enumerate() {
            let mut left = word.load(Relaxed);
            while left != 0 {
                each(at * 64 + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }
}
