//! Requests for lines by class and cpu, which expectations name `line.CLASS`.

use emu_observe::{Classes, Event, Observer, Record, Wanted};
use guests_abi::class::LineClass;

use crate::bench::classes;
use crate::counters::Counters;
use crate::rig::Rig;

const PREFIX: &str = "line.";

/// An observer that counts requests that leave a core.
pub(super) struct LineRequests {
    classes: Classes,
    /// By cpu, then by class.
    requests: Vec<[u64; LineClass::ALL.len()]>,
}

impl LineRequests {
    /// Makes one for a machine whose guest has declared its lines.
    pub(super) fn new<R: Rig>(rig: &R) -> Self {
        let requests = vec![[0; LineClass::ALL.len()]; rig.cpus()];
        LineRequests { classes: classes(rig), requests }
    }

    /// Whether an expression names a class of lines.
    pub(super) fn are_named(text: &str) -> bool {
        text.contains(PREFIX)
    }

    /// Adds what was counted so far.
    pub(super) fn push_to(&self, counters: &mut Counters) {
        for (at, class) in LineClass::ALL.iter().enumerate() {
            let values = self.requests.iter().map(|cpu| cpu[at]).collect();
            counters.push(&format!("{PREFIX}{}", class.name()), values);
        }
    }
}

impl Observer for LineRequests {
    fn wanted(&self) -> Wanted {
        Wanted { lines: true, ..Wanted::default() }
    }

    fn record(&mut self, record: &Record) {
        if let Event::LineRequest { line, .. } = record.event
            && let Some(cpu) = self.requests.get_mut(record.cpu.index())
        {
            cpu[self.classes.of(line.base().0)] += 1;
        }
    }
}
