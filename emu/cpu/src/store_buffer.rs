//! The store buffer of one cpu: stores wait here from execution to their drain, in program order
//! (`engine.md` X1, X2).

use std::collections::VecDeque;

use emu_sim::{LineAddr, PhysAddr};

/// One buffered store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store {
    /// First byte.
    pub(crate) pa: PhysAddr,
    /// Bytes: 1 to 8, or 16; all in one line.
    pub(crate) size: u8,
    /// Value, in the low bytes.
    pub(crate) value: u128,
    /// Cycle from which it may drain; `u64::MAX` until its instruction has retired.
    pub(crate) ready: u64,
    /// Count of the store on its cpu.
    pub(crate) n: u64,
}

impl Store {
    /// The line it writes.
    #[must_use]
    pub(crate) fn line(&self) -> LineAddr {
        self.pa.line()
    }
}

/// What a load finds in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forward {
    /// No older store overlaps.
    None,
    /// The youngest overlapping store covers the load: its value.
    Value(u128),
    /// It covers only a part: the load waits until store `n` has drained.
    Partial(u64),
}

/// Stores in program order.
#[derive(Clone, Debug)]
pub(crate) struct StoreBuffer {
    entries: VecDeque<Store>,
    capacity: usize,
    /// Stores buffered so far.
    count: u64,
    /// Cycle of the last drain.
    pub(crate) last_drain: u64,
    /// The head has asked for its line and waits for the grant.
    pub(crate) is_head_waiting: bool,
}

impl StoreBuffer {
    /// An empty buffer.
    #[must_use]
    pub(crate) fn new(capacity: u32) -> StoreBuffer {
        StoreBuffer {
            entries: VecDeque::with_capacity(capacity as usize),
            capacity: (capacity as usize).max(4),
            count: 0,
            last_drain: 0,
            is_head_waiting: false,
        }
    }

    /// Whether nothing is buffered.
    #[inline]
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of stores.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Stores buffered so far: younger ones have this count or a higher one.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// All stores, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Store> {
        self.entries.iter()
    }

    /// Whether no entry is free.
    #[inline]
    #[must_use]
    pub(crate) fn is_full(&self) -> bool {
        self.entries.len() >= self.capacity
    }

    /// Whether all buffered stores belong to an instruction that has not retired.
    #[must_use]
    pub(crate) fn is_all_unretired(&self) -> bool {
        self.entries.front().is_none_or(|s| s.ready == u64::MAX)
    }

    /// Appends a store.
    pub(crate) fn push(&mut self, pa: PhysAddr, size: u8, value: u128) {
        self.entries.push_back(Store { pa, size, value, ready: u64::MAX, n: self.count });
        self.count += 1;
    }

    /// The instruction of the youngest stores retired at `at`: they may drain.
    #[inline]
    pub(crate) fn retired(&mut self, at: u64) {
        for s in self.entries.iter_mut().rev() {
            if s.ready != u64::MAX {
                break;
            }
            s.ready = at;
        }
    }

    /// Oldest store.
    #[inline]
    #[must_use]
    pub(crate) fn head(&self) -> Option<&Store> {
        self.entries.front()
    }

    /// Cycle at which the head may drain, or `u64::MAX`.
    #[inline]
    #[must_use]
    pub(crate) fn drain_time(&self) -> u64 {
        match self.entries.front() {
            Some(s) if !self.is_head_waiting => s.ready.max(self.last_drain + 1),
            _ => u64::MAX,
        }
    }

    /// The grant that the head waited for came at `now` and is of no use to it: it asks again, and
    /// not before now (C3).
    pub(crate) fn try_again(&mut self, now: u64) {
        self.is_head_waiting = false;
        self.last_drain = self.last_drain.max(now - 1);
    }

    /// Removes the head, which drained at `now`.
    pub(crate) fn pop(&mut self, now: u64) -> Option<Store> {
        self.last_drain = now;
        self.is_head_waiting = false;
        self.entries.pop_front()
    }

    /// What a load of `size` bytes at `pa` takes from here.
    #[inline]
    #[must_use]
    pub(crate) fn forward(&self, pa: PhysAddr, size: u8) -> Forward {
        if self.entries.is_empty() {
            return Forward::None;
        }
        self.forward_slow(pa, size)
    }

    /// Whether a buffered store writes the line.
    #[inline]
    #[must_use]
    pub(crate) fn writes(&self, line: LineAddr) -> bool {
        !self.entries.is_empty() && self.entries.iter().any(|s| s.line() == line)
    }

    fn forward_slow(&self, pa: PhysAddr, size: u8) -> Forward {
        let (from, to) = (pa.0, pa.0 + u64::from(size));
        for s in self.entries.iter().rev() {
            let (a, b) = (s.pa.0, s.pa.0 + u64::from(s.size));
            if a <= from && to <= b {
                let value = s.value >> ((from - a) * 8);
                let mask = if size == 16 { u128::MAX } else { (1 << (u32::from(size) * 8)) - 1 };
                return Forward::Value(value & mask);
            }
            if a < to && from < b {
                return Forward::Partial(s.n);
            }
        }
        Forward::None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_load_takes_the_youngest_covering_store_and_waits_for_a_partial_one() {
        let mut b = StoreBuffer::new(8);
        b.push(PhysAddr(0x100), 8, 0x1111_2222_3333_4444);
        b.push(PhysAddr(0x102), 1, 0xaa);
        assert_eq!(b.forward(PhysAddr(0x104), 4), Forward::Value(0x1111_2222));
        assert_eq!(b.forward(PhysAddr(0x102), 1), Forward::Value(0xaa));
        assert_eq!(b.forward(PhysAddr(0x100), 8), Forward::Partial(1));
        assert_eq!(b.forward(PhysAddr(0x0ff), 2), Forward::Partial(0));
        assert_eq!(b.forward(PhysAddr(0x108), 8), Forward::None);
    }

    #[test]
    fn a_store_waits_for_its_instruction_to_retire() {
        let mut b = StoreBuffer::new(8);
        b.push(PhysAddr(0x100), 8, 1);
        assert_eq!(b.drain_time(), u64::MAX);
        b.retired(50);
        assert_eq!(b.drain_time(), 50);
        b.push(PhysAddr(0x108), 8, 1);
        b.retired(50);
        b.pop(60);
        assert_eq!(b.drain_time(), 61);
    }
}
