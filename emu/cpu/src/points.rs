//! Watched points of the image: passes, delays and holds (`guest-abi.md` 2).
//!
//! The image marks addresses; nothing is executed there. Without a watch the engine does not look.

use emu_observe::Event;
use emu_sim::{CpuId, Phase, SimTime};

use crate::isa::Isa;
use crate::node::{Core, Out};
use crate::thread::Pending;

/// What a rule does to a cpu that reaches its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Waits for a fixed time.
    Delay(SimTime),
    /// Waits for a seeded time below the bound.
    DelayUpTo(SimTime),
    /// Waits until the machine lets rule `number` go.
    Hold(u32),
}

/// A rule for one cpu, or all, at one point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Cpu; every cpu when `None`.
    pub cpu: Option<CpuId>,
    /// Point index.
    pub index: u32,
    /// What it does.
    pub action: Action,
}

/// Points that are watched.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// (address, point index), ascending.
    addresses: Vec<(u64, u32)>,
    rules: Vec<Rule>,
    points: usize,
    reports: bool,
}

impl Watch {
    /// A watch on all `addresses`, with rules. `reports`: every pass is told to the machine.
    #[must_use]
    pub fn new(mut addresses: Vec<(u64, u32)>, rules: Vec<Rule>, reports: bool) -> Watch {
        addresses.sort_unstable();
        let points = addresses.iter().map(|a| a.1 as usize + 1).max().unwrap_or(0);
        Watch { addresses, rules, points, reports }
    }

    /// Number of points.
    #[must_use]
    pub fn len(&self) -> usize {
        self.points
    }

    /// Whether there is no point.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.points == 0
    }

    fn at(&self, pc: u64) -> &[(u64, u32)] {
        let from = self.addresses.partition_point(|a| a.0 < pc);
        let to = from + self.addresses[from..].partition_point(|a| a.0 == pc);
        &self.addresses[from..to]
    }
}

impl<I: Isa> Core<I> {
    /// Cpu `j` is about to dispatch at `time`: passes the points there. Whether it has to wait.
    pub(crate) fn stops_at_point(&mut self, j: usize, time: u64) -> bool {
        let th = &self.hw.threads[j];
        if th.begun || th.point_passed {
            return false;
        }
        let Some(watch) = self.hw.watch.clone() else { return false };
        let here = watch.at(self.isas[j].pc());
        // An interrupt taken here comes back to this address: the point is passed then.
        if here.is_empty() || self.isas[j].interrupt_ready() {
            return false;
        }
        let mut delay = 0;
        let mut held = None;
        for (_, index) in here {
            self.pass(j, time, *index);
            let cpu = self.hw.threads[j].cpu;
            for r in &watch.rules {
                if r.index == *index && r.cpu.is_none_or(|c| c == cpu) {
                    match r.action {
                        Action::Hold(number) => held = Some((*index, number)),
                        Action::Delay(by) => delay += self.hw.config.freq.cycles_in(by),
                        Action::DelayUpTo(by) => delay += self.seeded_delay(j, *index, by),
                    }
                }
            }
            if watch.reports || held.is_some() {
                let held_by = held.map(|h| h.1);
                let key = self.hw.device_key(time, Phase::Answer);
                self.hw.out.push(Out::Point { cpu, index: *index, held_by, key });
                self.hw.sends(time);
            }
        }
        let th = &mut self.hw.threads[j];
        th.point_passed = true;
        th.spin.is_clean = false;
        th.score.redirect(time + delay);
        if held.is_some() {
            th.pending = Pending::Rule;
        }
        held.is_some() || delay > 0
    }

    fn pass(&mut self, j: usize, time: u64, index: u32) {
        let th = &mut self.hw.threads[j];
        th.passes[index as usize] += 1;
        th.last_points = [Some(index), th.last_points[0]];
        if self.hw.wanted.wakes {
            self.hw.event(j, time, Event::Point { index });
        }
    }

    fn seeded_delay(&mut self, j: usize, index: u32, by: SimTime) -> u64 {
        let th = &self.hw.threads[j];
        let n = th.passes[index as usize];
        let ps = self.hw.chance.below(by.ps(), th.cpu.0, 0x1000 + index, n);
        self.hw.config.freq.cycles_in(SimTime(ps))
    }

    /// How often cpu `j` passed a point since the watch was set.
    #[must_use]
    pub fn passes(&self, j: usize, index: u32) -> u64 {
        self.hw.threads[j].passes.get(index as usize).copied().unwrap_or(0)
    }

    /// The last two points that cpu `j` passed, the later first.
    #[must_use]
    pub fn last_points(&self, j: usize) -> [Option<u32>; 2] {
        self.hw.threads[j].last_points
    }
}
