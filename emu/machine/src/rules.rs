//! Rules at points: which cpu is held where, and what lets it go.

use std::sync::Arc;

use emu_cpu::points::{Action, Rule, Watch};
use emu_sim::CpuId;

use crate::api::{PointAction, PointRule};

/// A condition of a hold.
#[derive(Clone, Debug)]
struct Condition {
    cpu: Option<CpuId>,
    index: u32,
    times: u64,
    seen: u64,
}

/// The machine's side of all rules.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rules {
    conditions: Vec<Condition>,
    /// Held cpus with the number of their condition.
    held: Vec<(CpuId, u32)>,
}

/// A rule that names what is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPoint {
    /// The name that was given.
    pub name: String,
    /// Names that the image has.
    pub known: Vec<String>,
}

impl std::fmt::Display for UnknownPoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.known.is_empty() {
            return write!(f, "no point `{}`: the image has no points", self.name);
        }
        let mut near: Vec<&String> = self.known.iter().collect();
        near.sort_by_key(|k| (!k.contains(&self.name) && !self.name.contains(k.as_str()), *k));
        let near: Vec<&str> = near.iter().take(5).map(|s| s.as_str()).collect();
        write!(f, "no point `{}` in the image; it has {} and others", self.name, near.join(", "))
    }
}

impl std::error::Error for UnknownPoint {}

impl Rules {
    /// Builds the watch for the cores. `points`: (address, index); `names` by index.
    pub(crate) fn new(
        rules: &[PointRule],
        points: &[(u64, u32)],
        names: &[String],
    ) -> Result<(Rules, Arc<Watch>), UnknownPoint> {
        let find = |name: &str| {
            let at = names.iter().position(|n| n == name);
            at.map(|i| i as u32)
                .ok_or_else(|| UnknownPoint { name: name.into(), known: names.to_vec() })
        };
        let mut conditions = Vec::new();
        let mut out = Vec::new();
        for r in rules {
            let action = match &r.action {
                PointAction::Delay(by) => Action::Delay(*by),
                PointAction::DelayUpTo(by) => Action::DelayUpTo(*by),
                PointAction::HoldUntil { cpu, point, times } => {
                    let index = find(point)?;
                    conditions.push(Condition { cpu: *cpu, index, times: *times, seen: 0 });
                    Action::Hold(conditions.len() as u32 - 1)
                }
            };
            out.push(Rule { cpu: r.cpu, index: find(&r.point)?, action });
        }
        let reports = !conditions.is_empty();
        let watch = Arc::new(Watch::new(points.to_vec(), out, reports));
        Ok((Rules { conditions, held: Vec::new() }, watch))
    }

    /// A cpu passed a point, and is held there if `held_by` says so. Returns who may go on.
    pub(crate) fn passed(&mut self, cpu: CpuId, index: u32, held_by: Option<u32>) -> Vec<CpuId> {
        for c in &mut self.conditions {
            if c.index == index && c.cpu.is_none_or(|wanted| wanted == cpu) {
                c.seen += 1;
            }
        }
        if let Some(number) = held_by {
            self.held.push((cpu, number));
        }
        let is_met = |n: u32| self.conditions.get(n as usize).is_none_or(|c| c.seen >= c.times);
        let (free, held) = self.held.iter().copied().partition(|(_, n)| is_met(*n));
        let free: Vec<(CpuId, u32)> = free;
        self.held = held;
        free.into_iter().map(|(cpu, _)| cpu).collect()
    }
}
