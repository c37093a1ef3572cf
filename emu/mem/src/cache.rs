//! Tags of the private caches of one core. Permission belongs to the core; which cache holds a
//! line is timing only, and values are elsewhere (`phys`).
//!
//! The L2 includes both L1s. The victim is the line used longest ago. Uses carry the time of the
//! access, so that those of skipped spin iterations can be made up exactly (`engine.md` S4).
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

#[derive(Clone, Debug)]
struct Tags {
    /// Line number shifted left by two, permission below; `EMPTY` when free. By set, then way.
    tags: Vec<u64>,
    /// When each was used last.
    stamps: Vec<u64>,
    /// Since when (core cycle) each is there.
    since: Vec<u64>,
    ways: usize,
    set_mask: u64,
    /// Grows when a line comes or goes.
    changes: u64,
}

const PERMS: [Perm; 3] = [Perm::Read, Perm::Exclusive, Perm::Modified];

fn pack(line: LineAddr, perm: Perm) -> u64 {
    line.0 << 2 | perm as u64
}

impl Tags {
    fn new(g: Geometry) -> Tags {
        let slots = g.sets as usize * g.ways as usize;
        Tags {
            tags: vec![EMPTY; slots],
            stamps: vec![0; slots],
            since: vec![0; slots],
            ways: g.ways as usize,
            set_mask: u64::from(g.sets) - 1,
            changes: 0,
        }
    }

    #[inline]
    fn base(&self, line: LineAddr) -> usize {
        (line.0 & self.set_mask) as usize * self.ways
    }

    /// The slot that holds the line.
    #[inline]
    fn find(&self, line: LineAddr) -> Option<usize> {
        let base = self.base(line);
        let set = &self.tags[base..base + self.ways];
        set.iter().position(|tag| tag >> 2 == line.0).map(|way| base + way)
    }

    fn perm(&self, slot: usize) -> Perm {
        PERMS[(self.tags[slot] & 3) as usize]
    }

    /// Puts the line in place of the one used longest ago; returns that, if there was one.
    fn insert(&mut self, line: LineAddr, perm: Perm, stamp: u64, since: u64) -> Option<Victim> {
        self.changes += 1;
        let base = self.base(line);
        let is_free = |slot: &usize| self.tags[*slot] == EMPTY;
        let slots = base..base + self.ways;
        let slot = slots
            .clone()
            .find(is_free)
            .or_else(|| slots.min_by_key(|slot| self.stamps[*slot]))
            .unwrap_or(base);
        let out = self.tags[slot];
        let victim = (out != EMPTY).then(|| self.victim(slot));
        self.tags[slot] = pack(line, perm);
        self.stamps[slot] = stamp;
        self.since[slot] = since;
        victim
    }

    fn victim(&self, slot: usize) -> Victim {
        Victim { line: LineAddr(self.tags[slot] >> 2), perm: self.perm(slot) }
    }

    fn remove(&mut self, line: LineAddr) -> Option<Perm> {
        let slot = self.find(line)?;
        let perm = self.perm(slot);
        self.tags[slot] = EMPTY;
        self.changes += 1;
        Some(perm)
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

    /// Looks a line up for an access of sibling `smt` at core cycle `now`.
    #[inline]
    pub fn access(&mut self, port: Port, line: LineAddr, now: u64, smt: usize) -> Option<Hit> {
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        if let Some(slot) = l1.find(line) {
            l1.stamps[slot] = stamp(now, smt);
            return Some(Hit { level: Level::L1, perm: l1.perm(slot), since: l1.since[slot] });
        }
        self.access_l2(port, line, now, smt)
    }

    #[cold]
    fn access_l2(&mut self, port: Port, line: LineAddr, now: u64, smt: usize) -> Option<Hit> {
        let slot = self.l2.find(line)?;
        self.l2.stamps[slot] = stamp(now, smt);
        let perm = self.l2.perm(slot);
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        l1.insert(line, perm, stamp(now, smt), now);
        Some(Hit { level: Level::L2, perm, since: now })
    }

    /// Whether a first level holds the line; no use of it.
    #[inline]
    #[must_use]
    pub fn is_in_l1(&self, port: Port, line: LineAddr) -> bool {
        let l1 = if port == Port::Data { &self.l1d } else { &self.l1i };
        l1.find(line).is_some()
    }

    /// Makes up for a use of a line in the first level by a skipped iteration.
    pub fn touch(&mut self, port: Port, line: LineAddr, now: u64, smt: usize) {
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        if let Some(slot) = l1.find(line) {
            l1.stamps[slot] = l1.stamps[slot].max(stamp(now, smt));
        }
    }

    /// Permission of the core on a line; no use of it.
    #[inline]
    #[must_use]
    pub fn perm(&self, line: LineAddr) -> Option<Perm> {
        if let Some(slot) = self.l1d.find(line) {
            return Some(self.l1d.perm(slot));
        }
        self.l2.find(line).map(|slot| self.l2.perm(slot))
    }

    /// Installs a granted line at core cycle `now`; returns what had to leave.
    pub fn fill(&mut self, port: Port, line: LineAddr, perm: Perm, now: u64) -> Option<Victim> {
        let victim = match self.l2.find(line) {
            Some(slot) => {
                self.l2.tags[slot] = pack(line, perm);
                self.l2.stamps[slot] = stamp(now, 0);
                None
            }
            None => self.l2.insert(line, perm, stamp(now, 0), now),
        };
        if let Some(victim) = victim {
            self.l1d.remove(victim.line);
            self.l1i.remove(victim.line);
        }
        self.set_l1(line, perm);
        let l1 = if port == Port::Data { &mut self.l1d } else { &mut self.l1i };
        match l1.find(line) {
            Some(slot) => {
                l1.since[slot] = now;
                l1.stamps[slot] = stamp(now, 0);
            }
            None => drop(l1.insert(line, perm, stamp(now, 0), now)),
        }
        victim
    }

    fn set_l1(&mut self, line: LineAddr, perm: Perm) {
        for l1 in [&mut self.l1d, &mut self.l1i] {
            if let Some(slot) = l1.find(line) {
                l1.tags[slot] = pack(line, perm);
            }
        }
    }

    /// Marks an owned line as modified.
    #[inline]
    pub fn set_modified(&mut self, line: LineAddr) {
        if let Some(slot) = self.l1d.find(line)
            && self.l1d.perm(slot) == Perm::Modified
        {
            return;
        }
        if let Some(slot) = self.l2.find(line) {
            self.l2.tags[slot] = pack(line, Perm::Modified);
        }
        self.set_l1(line, Perm::Modified);
    }

    /// Reduces an owned line to readable. Returns the permission it had.
    pub fn reduce(&mut self, line: LineAddr) -> Option<Perm> {
        let slot = self.l2.find(line)?;
        let had = self.l2.perm(slot);
        self.l2.tags[slot] = pack(line, Perm::Read);
        self.set_l1(line, Perm::Read);
        Some(had)
    }

    /// Ends the copy. Returns the permission it had.
    pub fn remove(&mut self, line: LineAddr) -> Option<Perm> {
        let had = self.l2.remove(line)?;
        self.l1d.remove(line);
        self.l1i.remove(line);
        Some(had)
    }

    /// Every line present with its permission, in order of sets.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddr, Perm)> + '_ {
        let held = (0..self.l2.tags.len()).filter(|slot| self.l2.tags[*slot] != EMPTY);
        held.map(|slot| (LineAddr(self.l2.tags[slot] >> 2), self.l2.perm(slot)))
    }

    /// Grows whenever a line comes or goes.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.l1d.changes + self.l1i.changes + self.l2.changes
    }
}

/// Order of uses: by cycle, siblings by index.
#[inline]
fn stamp(now: u64, smt: usize) -> u64 {
    now << 3 | smt as u64
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
        assert_eq!(c.access(Port::Data, LineAddr(6), 9, 0).map(|h| h.level), Some(Level::L1));
        assert_eq!(c.access(Port::Data, LineAddr(0), 9, 0).map(|h| h.level), Some(Level::L2));
        let victim = c.fill(Port::Data, LineAddr(8), Perm::Read, 10);
        assert_eq!(victim, Some(Victim { line: LineAddr(2), perm: Perm::Exclusive }));
        assert_eq!(c.access(Port::Data, LineAddr(2), 11, 0), None);
    }

    #[test]
    fn permission_is_one_for_all_levels() {
        let mut c = small();
        c.fill(Port::Data, LineAddr(1), Perm::Exclusive, 0);
        c.set_modified(LineAddr(1));
        assert_eq!(c.perm(LineAddr(1)), Some(Perm::Modified));
        assert_eq!(c.reduce(LineAddr(1)), Some(Perm::Modified));
        assert_eq!(c.access(Port::Data, LineAddr(1), 0, 0).map(|h| h.perm), Some(Perm::Read));
        assert_eq!(c.remove(LineAddr(1)), Some(Perm::Read));
        assert_eq!(c.perm(LineAddr(1)), None);
    }

    #[test]
    fn a_use_changes_the_victim_and_nothing_else() {
        let mut c = small();
        for n in 0..4 {
            c.fill(Port::Data, LineAddr(n * 2), Perm::Read, n);
        }
        let before = c.changes();
        c.access(Port::Data, LineAddr(6), 5, 0);
        c.access(Port::Data, LineAddr(4), 6, 0);
        assert_eq!(c.changes(), before);
    }
}
