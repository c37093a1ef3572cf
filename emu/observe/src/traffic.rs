//! Coherence traffic by class of line: how often lines of a class were asked for, and how long the
//! askers waited.
//!
//! The time is from the request that leaves a core to its permission. Cores go on meanwhile as far
//! as their window allows, so it bounds from above what the class costs; compared between two runs
//! it says where a difference comes from.

use std::collections::BTreeMap;

use emu_sim::{CpuId, LineAddr, SimTime};

use crate::event::{Event, Observer, Record, Wanted};

/// Class of each address: ranges that do not overlap, by their first byte.
#[derive(Clone, Debug, Default)]
pub struct Classes(BTreeMap<u64, (u64, usize)>);

impl Classes {
    /// Gives the bytes from `address` on a class; what they had before is forgotten.
    pub fn declare(&mut self, address: u64, len: u64, class: usize) {
        let end = address.saturating_add(len);
        if address == end {
            return;
        }
        let overlapped: Vec<(u64, (u64, usize))> = self
            .0
            .range(..end)
            .rev()
            .take_while(|(_, range)| range.0 > address)
            .map(copy)
            .collect();
        for (start, (old_end, old)) in overlapped {
            self.0.remove(&start);
            if start < address {
                self.0.insert(start, (address, old));
            }
            if old_end > end {
                self.0.insert(end, (old_end, old));
            }
        }
        self.0.insert(address, (end, class));
    }

    /// Returns the class of an address; 0 where nothing was declared.
    #[must_use]
    pub fn of(&self, address: u64) -> usize {
        let range = self.0.range(..=address).next_back();
        range.filter(|(_, range)| range.0 > address).map_or(0, |(_, range)| range.1)
    }
}

fn copy((start, range): (&u64, &(u64, usize))) -> (u64, (u64, usize)) {
    (*start, *range)
}

/// What was counted of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassTraffic {
    /// Requests that left a core.
    pub requests: u64,
    /// Of these, requests to write.
    pub writes: u64,
    /// Sum of the times from request to permission.
    pub waited: SimTime,
    /// Snoops that took or reduced a permission.
    pub lost: u64,
}

/// An observer that sums by class.
#[derive(Clone, Debug, Default)]
pub struct Traffic {
    classes: Classes,
    /// Core of each cpu: a request is a thread's, the permission its core's.
    cores: Vec<usize>,
    rows: Vec<ClassTraffic>,
    open: BTreeMap<(usize, LineAddr), SimTime>,
}

impl Traffic {
    /// Makes an observer for runs whose lines have these classes and whose cpus are in these cores.
    #[must_use]
    pub fn new(classes: Classes, cores: Vec<usize>) -> Self {
        Traffic { classes, cores, ..Traffic::default() }
    }

    fn core(&self, cpu: CpuId) -> usize {
        self.cores.get(cpu.index()).copied().unwrap_or_else(|| cpu.index())
    }

    /// Sums by class.
    #[must_use]
    pub fn rows(&self) -> &[ClassTraffic] {
        &self.rows
    }

    fn row(&mut self, line: LineAddr) -> &mut ClassTraffic {
        let class = self.classes.of(line.base().0);
        if self.rows.len() <= class {
            self.rows.resize(class + 1, ClassTraffic::default());
        }
        &mut self.rows[class]
    }
}

impl Observer for Traffic {
    fn wanted(&self) -> Wanted {
        Wanted { lines: true, ..Wanted::default() }
    }

    fn record(&mut self, record: &Record) {
        match record.event {
            Event::LineRequest { line, write } => {
                let row = self.row(line);
                row.requests += 1;
                row.writes += u64::from(write);
                self.open.insert((self.core(record.cpu), line), record.time);
            }
            Event::LineGrant { line, .. } => {
                if let Some(since) = self.open.remove(&(self.core(record.cpu), line)) {
                    let waited = record.time.saturating_sub(since);
                    let row = self.row(line);
                    row.waited = SimTime(row.waited.0.saturating_add(waited.0));
                }
            }
            Event::LineLost { line, .. } => self.row(line).lost += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_declaration_replaces_what_it_covers() {
        let mut classes = Classes::default();
        classes.declare(0x100, 0x100, 1);
        classes.declare(0x140, 0x40, 2);
        classes.declare(0x1c0, 0x80, 3);
        classes.declare(0x300, 0, 4);
        let found = [0xff, 0x100, 0x140, 0x17f, 0x180, 0x1c0, 0x23f, 0x240, 0x300];
        assert_eq!(found.map(|at| classes.of(at)), [0, 1, 2, 2, 1, 3, 3, 0, 0]);
        classes.declare(0, 0x1000, 5);
        assert_eq!(found.map(|at| classes.of(at)), [5; 9]);
    }

    #[test]
    fn a_wait_lasts_from_the_request_to_the_permission_of_the_same_core() {
        let mut classes = Classes::default();
        classes.declare(0x40, 0x40, 2);
        let mut traffic = Traffic::new(classes, vec![0, 1, 0]);
        let line = LineAddr(1);
        let events = [
            (100, 2, Event::LineRequest { line, write: true }),
            (150, 1, Event::LineRequest { line, write: false }),
            (180, 0, Event::LineGrant { line, write: true }),
            (300, 0, Event::LineLost { line, kept: true }),
            (320, 1, Event::LineGrant { line, write: false }),
            (330, 1, Event::LineGrant { line, write: false }),
        ];
        for (time, cpu, event) in events {
            traffic.record(&Record { time: SimTime(time), cpu: CpuId(cpu), event });
        }
        let wanted = ClassTraffic { requests: 2, writes: 1, waited: SimTime(80 + 170), lost: 1 };
        assert_eq!(traffic.rows()[2], wanted);
        assert_eq!(traffic.rows()[0], ClassTraffic::default());
    }
}
