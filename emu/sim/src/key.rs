//! The total order of items (`engine.md` K1 to K4): (time, phase, source, sequence).
//!
//! The sequence counts the items of its source, so the order does not depend on which node the
//! host ran first. An `Agenda` is a node's inbox: it hands items out in key order and refuses one
//! that comes too late.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// What happens first on one edge, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Phase {
    /// Data with permission, results of uncached accesses: what waited performs inside.
    Grant,
    /// Inv, Fwd, recall: a step of the same edge sees the line gone.
    Snoop,
    /// IPI, INIT, SIPI, wake: MWAIT on the edge of an interrupt sees it.
    Signal,
    /// Ack, Done and evictions: a line freed on this edge serves this edge's requests. A Put and a
    /// later Ack of one node are one phase, else they would overtake each other (L8).
    Answer,
    /// GetS, GetM, flush, uncached.
    Request,
    /// Ends of holds.
    HoldEnd,
    /// Timers of the node.
    Timer,
    /// Store-buffer drains: a store drained on an edge is seen by a load of that edge.
    Drain,
    /// Dispatches and accesses of cpus.
    Step,
    /// Stop, counter snapshot, sample: sees the whole edge.
    Observe,
}

/// The total order of items. `time` is picoseconds in the uncore and an edge number in a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// When: picoseconds, or the number of a clock edge of the receiving core.
    pub time: u64,
    /// Rank within the instant.
    pub phase: Phase,
    /// Hash that orders requests of one instant (K4); zero for all other phases.
    pub tie: u32,
    /// Rank of the sending node.
    pub source: u32,
    /// Count of the items of that source.
    pub seq: u64,
}

impl Key {
    /// Before every item.
    pub const FIRST: Key = Key { time: 0, phase: Phase::Grant, tie: 0, source: 0, seq: 0 };
    /// After every item.
    pub const NEVER: Key = Key {
        time: u64::MAX,
        phase: Phase::Observe,
        tie: u32::MAX,
        source: u32::MAX,
        seq: u64::MAX,
    };

    /// The least key at `time` and `phase`.
    #[must_use]
    pub const fn at(time: u64, phase: Phase) -> Key {
        Key { time, phase, tie: 0, source: 0, seq: 0 }
    }
}

#[derive(Clone, Debug)]
struct Entry<T> {
    key: Key,
    item: T,
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl<T> Eq for Entry<T> {}
impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.key.cmp(&other.key)
    }
}

/// Items by key, earliest first.
#[derive(Clone, Debug)]
pub struct Agenda<T> {
    heap: BinaryHeap<Reverse<Entry<T>>>,
}

impl<T> Default for Agenda<T> {
    fn default() -> Self {
        Agenda { heap: BinaryHeap::new() }
    }
}

impl<T> Agenda<T> {
    /// Adds an item.
    pub fn push(&mut self, key: Key, item: T) {
        self.heap.push(Reverse(Entry { key, item }));
    }

    /// Key of the earliest item, or `Key::NEVER`.
    #[must_use]
    pub fn next_key(&self) -> Key {
        self.heap.peek().map_or(Key::NEVER, |e| e.0.key)
    }

    /// Time and phase of the earliest item, or those of `Key::NEVER`.
    #[must_use]
    pub fn next_edge(&self) -> (u64, Phase) {
        self.heap.peek().map_or((u64::MAX, Phase::Observe), |e| (e.0.key.time, e.0.key.phase))
    }

    /// Takes the earliest item.
    pub fn pop(&mut self) -> Option<(Key, T)> {
        self.heap.pop().map(|Reverse(e)| (e.key, e.item))
    }

    /// Takes all items for which `is` holds, earliest first.
    pub fn take_where(&mut self, is: impl Fn(&Key, &T) -> bool) -> Vec<(Key, T)> {
        let all = std::mem::take(&mut self.heap).into_iter();
        let (taken, kept): (Vec<_>, Vec<_>) = all.partition(|Reverse(e)| is(&e.key, &e.item));
        self.heap = kept.into();
        let mut taken: Vec<_> = taken.into_iter().map(|Reverse(e)| (e.key, e.item)).collect();
        taken.sort_by_key(|(key, _)| *key);
        taken
    }

    /// Number of items.
    #[must_use]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is waiting.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    /// All items, in no order: for reports that sort.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &T)> {
        self.heap.iter().map(|Reverse(e)| (&e.key, &e.item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_time_phase_tie_source_sequence_whatever_the_push_order() {
        let k = |time, phase, tie, source, seq| Key { time, phase, tie, source, seq };
        let sorted = [
            k(1, Phase::Grant, 0, 9, 9),
            k(1, Phase::Snoop, 0, 0, 0),
            k(1, Phase::Request, 3, 7, 0),
            k(1, Phase::Request, 4, 1, 0),
            k(1, Phase::Request, 4, 1, 1),
            k(1, Phase::Step, 0, 0, 0),
            k(2, Phase::Grant, 0, 0, 0),
        ];
        for rotation in 0..sorted.len() {
            let mut agenda = Agenda::default();
            for i in 0..sorted.len() {
                let k = sorted[(i * 5 + rotation) % sorted.len()];
                agenda.push(k, ());
            }
            let out: Vec<Key> = std::iter::from_fn(|| agenda.pop().map(|e| e.0)).collect();
            assert_eq!(out, sorted);
        }
    }
}
