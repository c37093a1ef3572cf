//! Tags of one LLC: which lines' data it holds, in true order of use within each set.
//!
//! The set is chosen by the low line address bits. Not modelled: hashed set indices, partitioning
//! (CAT), replacement other than true LRU.

use emu_sim::LineAddr;

/// Sets per block of storage: blocks are made at the first fill.
const BLOCK_SETS: usize = 64;
/// An empty way. No line has this address: physical addresses have 52 bits.
const EMPTY: u64 = u64::MAX;

/// What an insertion did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// The line is present; a way was free or the line was there before.
    Placed,
    /// The line is present in the way of this victim.
    Evicted(LineAddr),
    /// All ways hold busy lines: the line is not present (L10).
    Refused,
}

/// Tag array of an LLC.
#[derive(Clone, Debug)]
pub struct LlcTags {
    set_mask: usize,
    ways: usize,
    /// Ways of `BLOCK_SETS` sets each, most recently used first.
    blocks: Vec<Option<Box<[u64]>>>,
}

impl LlcTags {
    /// Empty tags of `sets` (a power of two) by `ways`; zero of either is an LLC without data.
    #[must_use]
    pub fn new(sets: u32, ways: u32) -> Self {
        assert!(sets == 0 || sets.is_power_of_two(), "LLC sets {sets} are not a power of two");
        let blocks = (sets as usize).div_ceil(BLOCK_SETS);
        let ways = if sets == 0 { 0 } else { ways as usize };
        LlcTags { set_mask: (sets as usize).saturating_sub(1), ways, blocks: vec![None; blocks] }
    }

    fn set(&mut self, line: LineAddr) -> Option<&mut [u64]> {
        let set = line.0 as usize & self.set_mask;
        let at = set % BLOCK_SETS * self.ways;
        let block = self.blocks.get_mut(set / BLOCK_SETS)?.as_mut()?;
        Some(&mut block[at..at + self.ways])
    }

    /// Makes a present line the most recently used of its set.
    pub fn touch(&mut self, line: LineAddr) {
        if let Some(set) = self.set(line)
            && let Some(way) = set.iter().position(|l| *l == line.0)
        {
            set[..=way].rotate_right(1);
        }
    }

    /// Removes a line.
    pub fn remove(&mut self, line: LineAddr) {
        if let Some(set) = self.set(line)
            && let Some(way) = set.iter().position(|l| *l == line.0)
        {
            // Empty ways stay behind the used ones.
            set[way..].rotate_left(1);
            if let Some(last) = set.last_mut() {
                *last = EMPTY;
            }
        }
    }

    /// Every line that is present, set by set.
    #[must_use]
    pub fn lines(&self) -> Vec<LineAddr> {
        let held = self.blocks.iter().flatten().flatten().filter(|line| **line != EMPTY);
        held.map(|line| LineAddr(*line)).collect()
    }

    /// Inserts a line as the most recently used; the victim is the least recently used line that
    /// `is_busy` does not name.
    pub fn insert(&mut self, line: LineAddr, is_busy: impl Fn(LineAddr) -> bool) -> Fill {
        if self.ways == 0 {
            return Fill::Refused;
        }
        let block = (line.0 as usize & self.set_mask) / BLOCK_SETS;
        let room = BLOCK_SETS * self.ways;
        self.blocks[block].get_or_insert_with(|| vec![EMPTY; room].into_boxed_slice());
        let Some(set) = self.set(line) else { return Fill::Refused };
        let present = set.iter().position(|l| *l == line.0 || *l == EMPTY);
        if let Some(way) = present {
            set[way] = line.0;
            set[..=way].rotate_right(1);
            return Fill::Placed;
        }
        let Some(way) = set.iter().rposition(|l| !is_busy(LineAddr(*l))) else {
            return Fill::Refused;
        };
        let victim = LineAddr(set[way]);
        set[way] = line.0;
        set[..=way].rotate_right(1);
        Fill::Evicted(victim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_victim_is_the_least_recently_used_line_that_is_not_busy() {
        let mut t = LlcTags::new(2, 2);
        let l = LineAddr;
        assert_eq!(t.insert(l(0), |_| false), Fill::Placed);
        assert_eq!(t.insert(l(2), |_| false), Fill::Placed);
        assert_eq!(t.insert(l(1), |_| false), Fill::Placed);
        t.touch(l(0));
        assert_eq!(t.insert(l(4), |_| false), Fill::Evicted(l(2)));
        assert_eq!(t.insert(l(6), |v| v == l(0)), Fill::Evicted(l(4)));
        assert_eq!(t.insert(l(8), |_| true), Fill::Refused);
        t.remove(l(6));
        assert_eq!(t.insert(l(8), |_| true), Fill::Placed);
        assert_eq!(t.insert(l(8), |_| true), Fill::Placed);
        assert_eq!(LlcTags::new(0, 8).insert(l(0), |_| false), Fill::Refused);
    }
}
