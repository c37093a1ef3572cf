//! The store buffer of one cpu: stores wait here from execution to their drain.
//!
//! Under total store order the oldest store drains first (`engine.md` X1, X2). Under the weak order
//! of arm64 a store drains once its line is writable, whatever older ones wait for, but not before
//! an older store to its line or one that a barrier parts from it, and a store-release not before
//! any older store (A2). Which it is does not depend on chance: of those that may, the oldest whose
//! line is not waited for.

use std::collections::VecDeque;

use emu_sim::mutant::{Mutant, Mutation};
use emu_sim::{LineAddr, PhysAddr};

use crate::config::MemoryOrder;
use crate::port::Update;

/// One buffered store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Store {
    /// First byte.
    pub(crate) pa: PhysAddr,
    /// Bytes: 1 to 8, or 16; all in one line.
    pub(crate) size: u8,
    /// Value, in the low bytes.
    pub(crate) value: u128,
    /// An atomic without result: the value is made from what is there when it drains.
    pub(crate) update: Option<Update>,
    /// Cycle from which it may drain; `u64::MAX` until its instruction has retired.
    pub(crate) ready: u64,
    /// Count of the store on its cpu.
    pub(crate) n: u64,
    /// It drains after every older store.
    pub(crate) is_release: bool,
    /// It waits for the grant of its line, or for room to ask for it; or is under way to the home.
    pub(crate) is_waiting: bool,
    /// It is under way to the home.
    pub(crate) is_far: bool,
    /// An older store writes its line.
    is_behind: bool,
    /// Store barriers of the cpu before it.
    epoch: u64,
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
    /// It covers only a part, or is an atomic: the load waits until store `n` has drained.
    Partial(u64),
}

/// Stores in program order.
#[derive(Clone, Debug)]
pub(crate) struct StoreBuffer {
    entries: VecDeque<Store>,
    capacity: usize,
    order: MemoryOrder,
    mutation: Mutation,
    /// Stores buffered so far.
    count: u64,
    /// Store barriers so far.
    epoch: u64,
    /// Cycle of the last drain.
    last_drain: u64,
    /// The store that drains next, and from which cycle on: behind the last one that is looked at,
    /// and `u64::MAX`, when none may.
    next: usize,
    drain_time: u64,
}

impl StoreBuffer {
    /// An empty buffer.
    #[must_use]
    pub(crate) fn new(capacity: u32, order: MemoryOrder, mutation: Mutation) -> StoreBuffer {
        StoreBuffer {
            entries: VecDeque::with_capacity(capacity as usize),
            capacity: (capacity as usize).max(4),
            order,
            mutation,
            count: 0,
            epoch: 0,
            last_drain: 0,
            next: 0,
            drain_time: u64::MAX,
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

    /// Cycle of the last drain.
    pub(crate) fn last_drain(&self) -> u64 {
        self.last_drain
    }

    /// All stores, oldest first.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = &Store> {
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

    /// Whether store `n` has not drained.
    pub(crate) fn contains(&self, n: u64) -> bool {
        self.entries.iter().any(|s| s.n == n)
    }

    /// Appends a store, or an atomic without result.
    pub(crate) fn push(
        &mut self,
        pa: PhysAddr,
        size: u8,
        value: u128,
        update: Option<Update>,
        is_release: bool,
    ) {
        let is_release = is_release && !self.mutation.is(Mutant::EarlyRelease);
        self.entries.push_back(Store {
            pa,
            size,
            value,
            update,
            ready: u64::MAX,
            n: self.count,
            is_release,
            is_waiting: false,
            is_far: false,
            is_behind: self.writes(pa.line()),
            epoch: self.epoch,
        });
        self.count += 1;
    }

    /// Parts older stores from younger ones: DMB ST.
    pub(crate) fn mark(&mut self) {
        if self.mutation.is(Mutant::NoStoreBarrier) {
            return;
        }
        self.epoch += u64::from(!self.entries.is_empty());
    }

    /// Whether a store barrier stands between this store and what the cpu does next.
    pub(crate) fn is_parted(&self, s: &Store) -> bool {
        s.epoch != self.epoch
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
        self.find_next(self.next);
    }

    /// Oldest store.
    #[inline]
    #[must_use]
    pub(crate) fn head(&self) -> Option<&Store> {
        self.entries.front()
    }

    /// Cycle at which a store may drain, or `u64::MAX`.
    #[inline]
    #[must_use]
    pub(crate) fn drain_time(&self) -> u64 {
        self.drain_time
    }

    /// Place and store that drain next.
    #[inline]
    #[must_use]
    pub(crate) fn next(&self) -> Option<(usize, Store)> {
        (self.drain_time != u64::MAX).then(|| (self.next, self.entries[self.next]))
    }

    /// The store at this place.
    pub(crate) fn at(&self, at: usize) -> Store {
        self.entries[at]
    }

    /// Whether order allows the store at this place to drain before all others.
    fn may_lead(&self, at: usize) -> bool {
        let s = &self.entries[at];
        at == 0
            || self.order == MemoryOrder::Weak
                && !s.is_release
                && !s.is_behind
                && self.entries[0].epoch == s.epoch
    }

    /// Finds the store that drains next; none at a place before `from` may.
    fn find_next(&mut self, from: usize) {
        let may = |at: &usize| !self.entries[*at].is_waiting && self.may_lead(*at);
        let places = match self.order {
            MemoryOrder::Total => self.entries.len().min(1),
            MemoryOrder::Weak => self.entries.len(),
        };
        // Stores retire in order: no younger one is ready earlier.
        let first = (from..places).find(may);
        self.next = first.unwrap_or(places);
        self.drain_time = match first.map(|at| self.entries[at].ready) {
            None | Some(u64::MAX) => u64::MAX,
            Some(ready) => ready.max(self.last_drain + 1),
        };
    }

    /// The store at this place waits for its line.
    pub(crate) fn wait(&mut self, at: usize) {
        self.entries[at].is_waiting = true;
        self.find_next(self.next);
    }

    /// The store at this place is under way to the home.
    pub(crate) fn send(&mut self, at: usize) {
        self.entries[at].is_far = true;
        self.wait(at);
    }

    /// Place of store `n`.
    pub(crate) fn place(&self, n: u64) -> Option<usize> {
        self.entries.iter().position(|s| s.n == n)
    }

    /// Nothing drains before `cycle`.
    pub(crate) fn not_before(&mut self, cycle: u64) {
        self.last_drain = self.last_drain.max(cycle.saturating_sub(1));
        self.find_next(self.next);
    }

    /// Whether a store waits for this line.
    pub(crate) fn waits_for(&self, line: LineAddr) -> bool {
        self.entries.iter().any(|s| s.is_waiting && s.line() == line)
    }

    /// The oldest store to a line whose grant has come, if it drains at `now` because of it.
    pub(crate) fn granted(&self, line: LineAddr, now: u64) -> Option<usize> {
        let at = self.entries.iter().position(|s| s.line() == line)?;
        let s = &self.entries[at];
        let is_ready = s.ready <= now && self.last_drain < now && !s.is_far;
        (is_ready && self.may_lead(at)).then_some(at)
    }

    /// A grant of `line` came at `now`: stores to it, and those that no request is under way for,
    /// ask again, and not before now (C3).
    pub(crate) fn ask_again(
        &mut self,
        line: LineAddr,
        is_asked: impl Fn(LineAddr) -> bool,
        now: u64,
    ) {
        let is_heard =
            |s: &Store| !s.is_far && (s.line() == line || s.is_waiting && !is_asked(s.line()));
        let places = match self.order {
            MemoryOrder::Total => self.entries.len().min(1),
            MemoryOrder::Weak => self.entries.len(),
        };
        let mut any = false;
        for s in self.entries.range_mut(..places).filter(|s| is_heard(s)) {
            (s.is_waiting, any) = (false, true);
        }
        if any {
            self.next = 0;
            self.not_before(now);
        }
    }

    /// Removes the store at this place, which drained at `now`.
    pub(crate) fn remove(&mut self, at: usize, now: u64) {
        self.last_drain = now;
        if let Some(store) = self.entries.remove(at) {
            let mut younger = self.entries.range_mut(at..);
            if let Some(next) = younger.find(|s| s.line() == store.line()) {
                next.is_behind = store.is_behind;
            }
        }
        self.find_next(self.next.min(at));
    }

    /// Count of the youngest store for which `is` holds.
    pub(crate) fn youngest(&self, is: impl Fn(&Store) -> bool) -> Option<u64> {
        self.entries.iter().rev().find(|s| is(s)).map(|s| s.n)
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
            if a <= from && to <= b && s.update.is_none() {
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

    fn buffer(order: MemoryOrder, stores: &[(u64, bool)]) -> StoreBuffer {
        let mut b = StoreBuffer::new(8, order, Mutation::default());
        for &(pa, is_release) in stores {
            b.push(PhysAddr(pa), 8, 1, None, is_release);
        }
        b
    }

    /// Counts of the stores in the order in which they drain if `waiting` never get their lines.
    fn drained(mut b: StoreBuffer, waiting: &[u64]) -> Vec<u64> {
        b.retired(10);
        let mut order = Vec::new();
        while let Some((at, s)) = b.next() {
            if waiting.contains(&s.n) {
                b.wait(at);
            } else {
                order.push(s.n);
                b.remove(at, 20);
            }
        }
        order
    }

    #[test]
    fn a_load_takes_the_youngest_covering_store_and_waits_for_a_partial_one() {
        let mut b = buffer(MemoryOrder::Total, &[]);
        b.push(PhysAddr(0x100), 8, 0x1111_2222_3333_4444, None, false);
        b.push(PhysAddr(0x102), 1, 0xaa, None, false);
        assert_eq!(b.forward(PhysAddr(0x104), 4), Forward::Value(0x1111_2222));
        assert_eq!(b.forward(PhysAddr(0x102), 1), Forward::Value(0xaa));
        assert_eq!(b.forward(PhysAddr(0x100), 8), Forward::Partial(1));
        assert_eq!(b.forward(PhysAddr(0x0ff), 2), Forward::Partial(0));
        assert_eq!(b.forward(PhysAddr(0x108), 8), Forward::None);
    }

    #[test]
    fn a_store_waits_for_its_instruction_to_retire() {
        let mut b = buffer(MemoryOrder::Total, &[(0x100, false)]);
        assert_eq!(b.drain_time(), u64::MAX);
        b.retired(50);
        assert_eq!(b.drain_time(), 50);
        b.push(PhysAddr(0x108), 8, 1, None, false);
        b.retired(50);
        b.remove(0, 60);
        assert_eq!(b.drain_time(), 61);
    }

    #[test]
    fn weak_stores_overtake_those_that_wait_but_for_line_release_and_barrier() {
        let (plain, release) = (|pa| (pa, false), |pa| (pa, true));
        let stores = [plain(0x100), plain(0x200), plain(0x108), release(0x300), plain(0x400)];
        assert_eq!(drained(buffer(MemoryOrder::Total, &stores), &[]), [0, 1, 2, 3, 4]);
        assert_eq!(drained(buffer(MemoryOrder::Total, &stores), &[1]), [0]);
        assert_eq!(drained(buffer(MemoryOrder::Weak, &stores), &[]), [0, 1, 2, 3, 4]);
        assert_eq!(drained(buffer(MemoryOrder::Weak, &stores), &[1]), [0, 2, 4]);
        assert_eq!(drained(buffer(MemoryOrder::Weak, &stores), &[0]), [1, 4]);
        assert_eq!(drained(buffer(MemoryOrder::Weak, &stores), &[2, 3]), [0, 1, 4]);
        let line = [plain(0x100), plain(0x108), plain(0x110), plain(0x200)];
        assert_eq!(drained(buffer(MemoryOrder::Weak, &line), &[1]), [0, 3]);
        assert_eq!(drained(buffer(MemoryOrder::Weak, &line), &[3]), [0, 1, 2]);
        let mut parted = buffer(MemoryOrder::Weak, &stores[..2]);
        parted.mark();
        parted.push(PhysAddr(0x500), 8, 1, None, false);
        parted.push(PhysAddr(0x600), 8, 1, None, false);
        assert_eq!(drained(parted.clone(), &[0]), [1]);
        assert_eq!(drained(parted, &[2]), [0, 1, 3]);
    }

    #[test]
    fn a_grant_wakes_stores_to_its_line_and_those_that_have_not_asked() {
        let mut b = buffer(MemoryOrder::Weak, &[(0x100, false), (0x200, false), (0x300, false)]);
        b.retired(10);
        (0..3).for_each(|at| b.wait(at));
        assert_eq!(b.drain_time(), u64::MAX);
        assert_eq!(b.granted(PhysAddr(0x200).line(), 30), Some(1));
        // The line of the third has not been asked for.
        b.ask_again(PhysAddr(0x200).line(), |line| line == PhysAddr(0x100).line(), 30);
        let waiting: Vec<bool> = b.iter().map(|s| s.is_waiting).collect();
        assert_eq!((waiting, b.drain_time()), (vec![true, false, false], 30));
    }
}
