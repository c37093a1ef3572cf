//! Tags of the private caches of one core. Permission belongs to the core; which cache holds a
//! line is timing only, and values are elsewhere (`phys`).
//!
//! The L2 includes both L1s. Each set is kept in order of recency, most recent first: order, not
//! stamps, so that two states of a spinning core compare equal (`engine.md` S2).
//!
//! Not modelled: prefetchers, banks, way prediction, fill-buffer occupancy of L1.

use emu_sim::LineAddr;

use crate::msg::Perm;

/// Shape of one cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Sets; a power of two.
    pub sets: u32,
    /// Ways.
    pub ways: u32,
}

const EMPTY: u64 = u64::MAX;

/// One tag: a line, and since when (core cycle) it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Slot {
    /// Line number shifted left by two, permission below; `EMPTY` when free.
    tag: u64,
    since: u64,
}

#[derive(Clone, Debug)]
struct Tags {
    slots: Vec<Slot>,
    ways: usize,
    set_mask: u64,
    /// Grows when an order changes.
    moves: u64,
}

const PERMS: [Perm; 3] = [Perm::Read, Perm::Exclusive, Perm::Modified];

fn pack(line: LineAddr, perm: Perm) -> u64 {
    line.0 << 2 | perm as u64
}

impl Tags {
    fn new(g: Geometry) -> Tags {
        let free = Slot { tag: EMPTY, since: 0 };
        Tags {
            slots: vec![free; g.sets as usize * g.ways as usize],
            ways: g.ways as usize,
            set_mask: u64::from(g.sets) - 1,
            moves: 0,
        }
    }

    #[inline]
    fn set(&mut self, line: LineAddr) -> &mut [Slot] {
        let base = (line.0 & self.set_mask) as usize * self.ways;
        &mut self.slots[base..base + self.ways]
    }

    /// Finds the line and makes it the most recent.
    #[inline]
    fn touch(&mut self, line: LineAddr) -> Option<&mut Slot> {
        let base = (line.0 & self.set_mask) as usize * self.ways;
        let set = &mut self.slots[base..base + self.ways];
        if set[0].tag >> 2 == line.0 {
            return Some(&mut set[0]);
        }
        let way = set.iter().position(|s| s.tag >> 2 == line.0)?;
        set[..=way].rotate_right(1);
        self.moves += 1;
        Some(&mut set[0])
    }

    fn find(&mut self, line: LineAddr) -> Option<&mut Slot> {
        self.set(line).iter_mut().find(|s| s.tag >> 2 == line.0)
    }

    /// Puts the line first; returns the slot that fell out, if it held a line.
    fn insert(&mut self, line: LineAddr, perm: Perm, since: u64) -> Option<Slot> {
        self.moves += 1;
        let set = self.set(line);
        let way = set.iter().position(|s| s.tag == EMPTY).unwrap_or(set.len() - 1);
        let out = set[way];
        set[way] = Slot { tag: pack(line, perm), since };
        set[..=way].rotate_right(1);
        (out.tag != EMPTY).then_some(out)
    }

    fn remove(&mut self, line: LineAddr) -> Option<Slot> {
        let set = self.set(line);
        let way = set.iter().position(|s| s.tag >> 2 == line.0)?;
        let out = set[way];
        set[way..].rotate_left(1);
        let last = set.len() - 1;
        set[last] = Slot { tag: EMPTY, since: 0 };
        self.moves += 1;
        Some(out)
    }
}

/// Where a line was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// First level.
    L1,
    /// Second level; it is in the first level now.
    L2,
}

/// A line that is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where it was.
    pub level: Level,
    /// What the core may do.
    pub perm: Perm,
    /// Core cycle since which it is in the first level.
    pub since: u64,
}

/// Which first level an access uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// Data.
    Data,
    /// Instruction fetch.
    Fetch,
}

/// A line that had to leave to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Line.
    pub line: LineAddr,
    /// Permission that ended.
    pub perm: Perm,
}

/// The private caches of one core.
#[derive(Clone, Debug)]
pub struct PrivateCaches {
    l1d: Tags,
    l1i: Tags,
    l2: Tags,
}

impl PrivateCaches {
    /// Empty caches of these shapes.
    #[must_use]
    pub fn new(l1d: Geometry, l1i: Geometry, l2: Geometry) -> PrivateCaches {
        PrivateCaches { l1d: Tags::new(l1d), l1i: Tags::new(l1i), l2: Tags::new(l2) }
    }

    /// Looks a line up for an access at core cycle `now` and makes it the most recent.
    #[inline]
    pub fn access(&mut self, port: Port, line: LineAddr, now: u64) -> Option<Hit> {
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        if let Some(slot) = l1.touch(line) {
            let perm = PERMS[(slot.tag & 3) as usize];
            return Some(Hit { level: Level::L1, perm, since: slot.since });
        }
        self.access_l2(port, line, now)
    }

    #[cold]
    fn access_l2(&mut self, port: Port, line: LineAddr, now: u64) -> Option<Hit> {
        let slot = self.l2.touch(line)?;
        let perm = PERMS[(slot.tag & 3) as usize];
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        l1.insert(line, perm, now);
        Some(Hit { level: Level::L2, perm, since: now })
    }

    /// Permission of the core on a line, order untouched.
    #[must_use]
    pub fn perm(&mut self, line: LineAddr) -> Option<Perm> {
        self.l2.find(line).map(|s| PERMS[(s.tag & 3) as usize])
    }

    /// Installs a granted line at core cycle `now`; returns what had to leave.
    pub fn fill(&mut self, port: Port, line: LineAddr, perm: Perm, now: u64) -> Option<Victim> {
        let victim = match self.l2.touch(line) {
            Some(slot) => {
                slot.tag = pack(line, perm);
                None
            }
            None => self.l2.insert(line, perm, now),
        };
        self.set_l1(line, perm);
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        match l1.touch(line) {
            Some(slot) => slot.since = now,
            None => drop(l1.insert(line, perm, now)),
        }
        victim.map(|s| {
            let line = LineAddr(s.tag >> 2);
            self.l1d.remove(line);
            self.l1i.remove(line);
            Victim { line, perm: PERMS[(s.tag & 3) as usize] }
        })
    }

    fn set_l1(&mut self, line: LineAddr, perm: Perm) {
        for l1 in [&mut self.l1d, &mut self.l1i] {
            if let Some(slot) = l1.find(line) {
                slot.tag = pack(line, perm);
            }
        }
    }

    /// Marks an owned line as modified.
    #[inline]
    pub fn set_modified(&mut self, line: LineAddr) {
        if let Some(slot) = self.l1d.find(line)
            && slot.tag & 3 == Perm::Modified as u64
        {
            return;
        }
        if let Some(slot) = self.l2.find(line) {
            slot.tag = pack(line, Perm::Modified);
        }
        self.set_l1(line, Perm::Modified);
    }

    /// Reduces an owned line to readable. Returns the permission it had.
    pub fn reduce(&mut self, line: LineAddr) -> Option<Perm> {
        let slot = self.l2.find(line)?;
        let had = PERMS[(slot.tag & 3) as usize];
        slot.tag = pack(line, Perm::Read);
        self.set_l1(line, Perm::Read);
        Some(had)
    }

    /// Ends the copy. Returns the permission it had.
    pub fn remove(&mut self, line: LineAddr) -> Option<Perm> {
        let slot = self.l2.remove(line)?;
        self.l1d.remove(line);
        self.l1i.remove(line);
        Some(PERMS[(slot.tag & 3) as usize])
    }

    /// Every line present with its permission, in order of sets.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddr, Perm)> + '_ {
        let held = self.l2.slots.iter().filter(|s| s.tag != EMPTY);
        held.map(|s| (LineAddr(s.tag >> 2), PERMS[(s.tag & 3) as usize]))
    }

    /// Grows whenever the content or the order of recency changes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.l1d.moves + self.l1i.moves + self.l2.moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small() -> PrivateCaches {
        let g = |sets, ways| Geometry { sets, ways };
        PrivateCaches::new(g(2, 2), g(2, 2), g(2, 4))
    }

    #[test]
    fn l2_includes_l1_and_the_least_recent_line_leaves() {
        let mut c = small();
        for n in 0..4 {
            assert_eq!(c.fill(Port::Data, LineAddr(n * 2), Perm::Exclusive, n), None);
        }
        // L1 set 0 holds the two latest.
        assert_eq!(c.access(Port::Data, LineAddr(6), 9).map(|h| h.level), Some(Level::L1));
        assert_eq!(c.access(Port::Data, LineAddr(0), 9).map(|h| h.level), Some(Level::L2));
        let victim = c.fill(Port::Data, LineAddr(8), Perm::Read, 10);
        assert_eq!(victim, Some(Victim { line: LineAddr(2), perm: Perm::Exclusive }));
        assert_eq!(c.access(Port::Data, LineAddr(2), 11), None);
    }

    #[test]
    fn permission_is_one_for_all_levels() {
        let mut c = small();
        c.fill(Port::Data, LineAddr(1), Perm::Exclusive, 0);
        c.set_modified(LineAddr(1));
        assert_eq!(c.perm(LineAddr(1)), Some(Perm::Modified));
        assert_eq!(c.reduce(LineAddr(1)), Some(Perm::Modified));
        assert_eq!(c.access(Port::Data, LineAddr(1), 0).map(|h| h.perm), Some(Perm::Read));
        assert_eq!(c.remove(LineAddr(1)), Some(Perm::Read));
        assert_eq!(c.perm(LineAddr(1)), None);
    }

    #[test]
    fn touching_the_most_recent_line_changes_nothing() {
        let mut c = small();
        c.fill(Port::Data, LineAddr(1), Perm::Read, 0);
        let before = c.changes();
        for _ in 0..3 {
            c.access(Port::Data, LineAddr(1), 5);
        }
        assert_eq!(c.changes(), before);
    }
}
