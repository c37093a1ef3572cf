//! Spinlocks of two kinds, chosen at boot: ticket and queued.
//!
//! Contract: interrupts are off from `lock` to `unlock`, so that a CPU waits for at most one lock
//! at a time and one queue node per CPU is enough. A context switch may carry a lock over; the
//! incoming task unlocks it.

use crate::arch;
use crate::arch::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::arch::atomic::{AtomicU8, AtomicU16, AtomicU32};
use crate::config::LockKind;
use crate::link::Link;
use crate::machine;
use crate::percpu::Cpu;

/// A spinlock, one word; zero is open.
///
/// Ticket: the low half is the ticket served, the high half the next one to hand out.
/// Queued: bits 7..0 are 1 while locked; the high half is the number of the last CPU in the
/// queue plus 1, or 0.
#[repr(transparent)]
pub(crate) struct Lock(AtomicU32);

/// Place of a CPU in the queue of a queued lock.
#[repr(C)]
pub(crate) struct McsNode {
    next: Link<McsNode>,
    is_head: AtomicU32,
}

const LOCKED: u32 = 1;
const LOCKED_MASK: u32 = 0xff;
const HIGH_SHIFT: u32 = 16;
const HIGH_MASK: u32 = 0xffff_0000;

impl Lock {
    /// An open lock.
    pub(crate) const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    /// Takes the lock; returns whether it was obtained at the first try.
    #[inline]
    pub(crate) fn lock(&self) -> bool {
        let cpu = arch::this_cpu();
        match cpu.policy.lock {
            LockKind::Queued => {
                let is_free = self.0.compare_exchange(0, LOCKED, Acquire, Relaxed).is_ok();
                if !is_free {
                    self.lock_queued(cpu);
                }
                is_free
            }
            LockKind::Ticket => {
                let word = self.0.fetch_add(1 << HIGH_SHIFT, Acquire);
                let ticket = word >> HIGH_SHIFT;
                let is_free = word & 0xffff == ticket;
                if !is_free {
                    arch::cond_load(&self.0, Acquire, |word| word & 0xffff == ticket);
                }
                is_free
            }
        }
    }

    /// Takes the lock if it is free; returns whether it was.
    pub(crate) fn try_lock(&self) -> bool {
        let (free, taken) = match arch::this_cpu().policy.lock {
            LockKind::Queued => (0, LOCKED),
            LockKind::Ticket => {
                let word = self.0.load(Relaxed);
                let next = word >> HIGH_SHIFT;
                (next << HIGH_SHIFT | next, word.wrapping_add(1 << HIGH_SHIFT))
            }
        };
        self.0.compare_exchange(free, taken, Acquire, Relaxed).is_ok()
    }

    /// Waits on this CPU's own line until it is head of the queue, then on the lock itself.
    #[cold]
    fn lock_queued(&self, cpu: &'static Cpu) {
        let node = &*cpu.mcs;
        node.next.set(None);
        node.is_head.store(0, Relaxed);
        let own_tail = (cpu.id() as u32 + 1) << HIGH_SHIFT;
        let mut word = self.0.load(Relaxed);
        while let Err(seen) =
            self.0.compare_exchange(word, word & !HIGH_MASK | own_tail, AcqRel, Relaxed)
        {
            word = seen;
        }
        let last = word >> HIGH_SHIFT;
        if last != 0 {
            machine::cpu(last as usize - 1).mcs.next.set(Some(node));
            arch::cond_load(&node.is_head, Acquire, |is_head| is_head != 0);
        }
        // Head of the queue: only the holder can be before us, nobody else takes an open lock
        // while the high half is not 0.
        let mut word = arch::cond_load(&self.0, Acquire, |word| word & LOCKED_MASK == 0);
        loop {
            let is_last = word & HIGH_MASK == own_tail;
            let taken = if is_last { LOCKED } else { word | LOCKED };
            match self.0.compare_exchange(word, taken, Acquire, Relaxed) {
                Ok(_) if is_last => return,
                Ok(_) => break,
                Err(seen) => word = seen,
            }
        }
        node.next.wait_some().is_head.store(1, Release);
    }

    /// Opens the lock.
    #[inline]
    #[expect(unsafe_code, reason = "stores a part of the word, as other CPUs change the rest")]
    pub(crate) fn unlock(&self) {
        let word = self.0.as_ptr();
        // SAFETY: the low byte, or the low half, of an aligned little-endian word, accessed
        // atomically. Only the holder writes this part.
        unsafe {
            match arch::this_cpu().policy.lock {
                LockKind::Queued => AtomicU8::from_ptr(word.cast()).store(0, Release),
                LockKind::Ticket => {
                    let served = AtomicU16::from_ptr(word.cast());
                    served.store(served.load(Relaxed).wrapping_add(1), Release);
                }
            }
        }
    }
}
