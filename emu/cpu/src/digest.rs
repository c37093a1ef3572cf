//! A core without its times: what tests see that explore all states of a few cores.
//!
//! Not here: anything that a run of a machine needs.

use std::hash::{Hash, Hasher};

use emu_mem::msg::Perm;
use emu_sim::LineAddr;

use crate::isa::Isa;
use crate::node::{Core, CoreItem};
use crate::thread::{Pending, RunState, Thread};
use crate::wait::MonitorState;

/// Cycles below which a time that lies ahead goes in by its distance.
const SHORTLY: u64 = 1 << 16;

impl<I: Isa + Hash> Core<I> {
    /// Feeds to a hasher what decides what the core does next, with `line` to rename lines. Times
    /// that lie shortly ahead go in by their distance, those far ahead by their order only, times
    /// of the past not at all: two cores that agree here behave alike as long as what happens in
    /// between is short against the distance of those far ahead.
    ///
    /// Left out: the order of use in caches (so caches must have one way, or room for all lines),
    /// values but those of shadow mode, counters, holds between siblings.
    pub fn hash_state(&self, line: impl Fn(LineAddr) -> LineAddr, h: &mut impl Hasher) {
        let hw = &self.hw;
        let now = hw.handled.time;
        let mut inbox: Vec<_> = hw.inbox.iter().collect();
        inbox.sort_by_key(|(key, _)| **key);
        // Of several holds of a line the last one decides.
        let mut holds: Vec<(LineAddr, u64)> = Vec::new();
        for hold in &hw.holds {
            match holds.iter_mut().find(|(l, _)| *l == hold.line) {
                Some((_, until)) => *until = hold.until.max(*until),
                None => holds.push((hold.line, hold.until)),
            }
        }
        let mut ahead: Vec<u64> = inbox.iter().map(|(key, _)| key.time).collect();
        ahead.extend(holds.iter().map(|(_, until)| until));
        ahead.extend(hw.threads.iter().map(Thread::step_time));
        ahead.retain(|t| *t >= now + SHORTLY);
        ahead.sort_unstable();
        ahead.dedup();
        let rank = |t: u64| match t.saturating_sub(now) {
            near @ 0..SHORTLY => near,
            _ => SHORTLY + ahead.partition_point(|a| *a < t) as u64,
        };

        let mut held: Vec<_> = hw.caches.lines().map(|(l, perm)| (line(l), perm)).collect();
        held.sort_unstable();
        held.hash(h);
        let mut requests: Vec<_> = hw.requests.iter().map(|r| line(r.line)).collect();
        requests.sort_unstable();
        requests.hash(h);
        holds.retain(|(_, until)| *until > now);
        let mut holds: Vec<_> = holds.iter().map(|(l, until)| (rank(*until), line(*l))).collect();
        holds.sort_unstable();
        holds.hash(h);
        for (key, item) in inbox {
            rank(key.time).hash(h);
            match item {
                CoreItem::Line { line: l, msg, data } => (line(*l), msg, data).hash(h),
                other => std::mem::discriminant(other).hash(h),
            }
        }
        for mut copies in hw.shadow.all() {
            copies.iter_mut().for_each(|(l, _)| *l = line(*l));
            copies.sort_unstable_by_key(|(l, _)| *l);
            copies.hash(h);
        }
        for (th, isa) in hw.threads.iter().zip(&self.isas) {
            isa.hash(h);
            hash_thread(th, &line, rank, h);
        }
    }

    /// Permission of the core on a line.
    #[must_use]
    pub fn perm(&self, line: LineAddr) -> Option<Perm> {
        self.hw.caches.perm(line)
    }

    /// Whether a cpu of the core watches the line.
    #[must_use]
    pub fn watches(&self, line: LineAddr) -> bool {
        self.hw.is_watched(line)
    }

    /// Stores of cpu `j` that have not drained.
    #[must_use]
    pub fn buffered_stores(&self, j: usize) -> usize {
        self.hw.threads[j].stores.len()
    }

    /// Lines that are asked for and not granted.
    pub fn requested(&self) -> impl Iterator<Item = LineAddr> + '_ {
        self.hw.requests.iter().map(|r| r.line)
    }
}

fn hash_thread(
    th: &Thread,
    line: &impl Fn(LineAddr) -> LineAddr,
    rank: impl Fn(u64) -> u64,
    h: &mut impl Hasher,
) {
    std::mem::discriminant(&th.run).hash(h);
    if let RunState::Waiting(w) = th.run {
        std::mem::discriminant(&w.request.reason).hash(h);
        (w.request.state, rank(w.since)).hash(h);
    }
    std::mem::discriminant(&th.pending).hash(h);
    match th.pending {
        Pending::Line(l) | Pending::Flush(l) => line(l).hash(h),
        // The stores before it are those that are buffered, but for younger ones: none begins
        // while an instruction waits.
        _ => {}
    }
    (th.begun, th.log.steps.len(), th.device_value.is_some()).hash(h);
    std::mem::discriminant(&th.monitor).hash(h);
    if let MonitorState::Armed(l) | MonitorState::Reserved(l) = th.monitor {
        line(l).hash(h);
    }
    th.stores.iter().for_each(|s| (line(s.line()), rank(s.ready), s.is_waiting).hash(h));
    rank(th.stores.last_drain()).hash(h);
    for t in [th.now, th.step_time(), th.score.last_retire()] {
        rank(t).hash(h);
    }
}
