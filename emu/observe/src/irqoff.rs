//! Sections with interrupts off, attributed to the point that opened them.
//!
//! A section opens where IF goes from set to clear and closes where it is set again. Its opener is
//! the `irqoff_` point on the instruction that cleared IF, known by its address or by having been
//! passed last; where none stands there (interrupt entry), the first `irqoff_` point inside. Time
//! of waiting with interrupts off is part of the section: the idle entry ends in such a wait.

use std::collections::BTreeMap;

use emu_sim::{CpuId, SimTime};

use crate::event::{Event, Observer, Record, Wanted};
use crate::points::PointTable;
use crate::spread::Spread;

/// Beginning of the names of points that open a section.
pub const OPENER_PREFIX: &str = "irqoff_";
/// Opener of sections without such a point.
pub const NO_OPENER: &str = "unnamed";

#[derive(Clone, Copy, Debug)]
struct Section {
    since: SimTime,
    opener: Option<u32>,
}

/// An observer that measures IRQ-off sections.
#[derive(Clone, Debug, Default)]
pub struct IrqOff {
    points: PointTable,
    open: Vec<Option<Section>>,
    /// By cpu: the `irqoff_` point passed last while no section was open.
    passed: Vec<Option<u32>>,
    /// Lengths in ps by index of the opener.
    lengths: BTreeMap<Option<u32>, Vec<u64>>,
}

impl IrqOff {
    /// Makes an observer for runs of an image with these points.
    #[must_use]
    pub fn new(points: PointTable) -> Self {
        IrqOff { points, ..IrqOff::default() }
    }

    /// Order statistics by opener, sorted by name.
    #[must_use]
    pub fn summary(&self) -> Vec<(String, Spread)> {
        let name = |opener: &Option<u32>| opener.map_or(NO_OPENER, |n| self.points.name(n));
        let row = |(opener, lengths): (&Option<u32>, &Vec<u64>)| {
            Some((name(opener).to_owned(), Spread::of(&mut lengths.clone())?))
        };
        let mut rows: Vec<(String, Spread)> = self.lengths.iter().filter_map(row).collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        rows
    }

    /// Order statistics of the sections that this point opened.
    #[must_use]
    pub fn of(&self, opener: &str) -> Option<Spread> {
        self.summary().into_iter().find(|(name, _)| name == opener).map(|(_, spread)| spread)
    }

    /// Adds the sections of another run of the same image.
    pub fn absorb(&mut self, other: IrqOff) {
        for (opener, lengths) in other.lengths {
            self.lengths.entry(opener).or_default().extend(lengths);
        }
    }

    fn opener_at(&self, pc: u64) -> Option<u32> {
        self.points.at(pc).find(|&index| is_opener_name(self.points.name(index)))
    }

    fn slot(&mut self, cpu: CpuId) -> &mut Option<Section> {
        let n = cpu.index();
        if self.open.len() <= n {
            self.open.resize(n + 1, None);
            self.passed.resize(n + 1, None);
        }
        &mut self.open[n]
    }
}

fn is_opener_name(name: &str) -> bool {
    name.starts_with(OPENER_PREFIX)
}

impl Observer for IrqOff {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, ..Wanted::default() }
    }

    fn record(&mut self, record: &Record) {
        match record.event {
            Event::InterruptFlag { enabled: false, pc } => {
                self.slot(record.cpu);
                let passed = self.passed[record.cpu.index()].take();
                let opener = self.opener_at(pc).or(passed);
                *self.slot(record.cpu) = Some(Section { since: record.time, opener });
            }
            Event::InterruptFlag { enabled: true, .. } => {
                if let Some(section) = self.slot(record.cpu).take() {
                    let length = record.time.saturating_sub(section.since).ps();
                    self.lengths.entry(section.opener).or_default().push(length);
                }
            }
            // The entry of a handler opened it, not the instruction that was interrupted.
            Event::InterruptTaken { .. } => {
                if let Some(section) = self.slot(record.cpu) {
                    section.opener = None;
                }
            }
            Event::Point { index } if is_opener_name(self.points.name(index)) => {
                match self.slot(record.cpu) {
                    Some(section) => _ = section.opener.get_or_insert(index),
                    None => self.passed[record.cpu.index()] = Some(index),
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_section_belongs_to_the_point_on_its_first_instruction_or_to_the_first_inside() {
        let names = ["irqoff_schedule_idle", "irqoff_timer_entry", "other"];
        let places = vec![(0x10, 0), (0x20, 1), (0x20, 2)];
        let points = PointTable::new(names.map(str::to_owned).to_vec(), places);
        let mut sections = IrqOff::new(points);
        let mut at = |ns, event| {
            sections.record(&Record { time: SimTime::from_ns(ns), cpu: CpuId(3), event });
        };
        at(10, Event::InterruptFlag { enabled: false, pc: 0x10 });
        at(12, Event::Point { index: 1 });
        at(30, Event::InterruptFlag { enabled: true, pc: 0x18 });
        at(50, Event::InterruptFlag { enabled: false, pc: 0x99 });
        at(50, Event::Point { index: 1 });
        at(55, Event::InterruptFlag { enabled: true, pc: 0x28 });
        at(60, Event::Point { index: 0 });
        at(61, Event::InterruptFlag { enabled: false, pc: 0 });
        at(71, Event::InterruptFlag { enabled: true, pc: 0 });
        at(80, Event::InterruptFlag { enabled: false, pc: 0x10 });
        at(80, Event::InterruptTaken { vector: 0x41, masked: SimTime::ZERO });
        at(81, Event::Point { index: 1 });
        at(87, Event::InterruptFlag { enabled: true, pc: 0x30 });
        let summary = sections.summary();
        let rows: Vec<_> = summary.iter().map(|(name, s)| (name.as_str(), s.n, s.max)).collect();
        assert_eq!(rows, [("irqoff_schedule_idle", 2, 20_000), ("irqoff_timer_entry", 2, 7_000)]);
        assert_eq!(sections.of("irqoff_schedule_idle").map(|s| s.n), Some(2));
    }
}
