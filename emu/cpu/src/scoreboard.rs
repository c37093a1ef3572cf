//! When ops dispatch, issue, complete and retire (`engine.md` C1), in cycles.
//!
//! Program order: dispatch D = max(width slot, retire of the op one window back, redirect);
//! issue I = max(D, operands); complete C = I + latency; retire R = max(last R, C), by width.
//! Not modelled: ports and schedulers; units are unlimited within the width.

use crate::timing::{CoreTiming, OpTiming, REGS};

/// Timing state of one cpu.
#[derive(Clone, Debug)]
pub(crate) struct Scoreboard {
    slot: u64,
    slot_used: u32,
    redirect: u64,
    /// Accesses issue at this cycle or later.
    accesses: u64,
    retire: u64,
    retire_used: u32,
    last_issue: u64,
    in_order: bool,
    width: u32,
    window: u64,
    ready: [u64; REGS],
    ring: Box<[u64]>,
    count: u64,
}

impl Scoreboard {
    /// An empty core of this timing.
    #[must_use]
    pub(crate) fn new(t: &CoreTiming) -> Scoreboard {
        Scoreboard {
            slot: 0,
            slot_used: 0,
            redirect: 0,
            accesses: 0,
            retire: 0,
            retire_used: 0,
            last_issue: 0,
            in_order: t.in_order,
            width: t.width.max(1),
            window: u64::from(t.window.max(1)),
            ready: [0; REGS],
            ring: vec![0; (t.window.max(1) as usize).next_power_of_two()].into(),
            count: 0,
        }
    }

    /// Sets this cpu's share of width and window: all, or with a running sibling half.
    pub(crate) fn share(&mut self, t: &CoreTiming, is_alone: bool) {
        let part = if is_alone { 1 } else { 2 };
        self.width = (t.width / part).max(1);
        self.window = u64::from((t.window / part).max(1));
    }

    /// Earliest dispatch of the next op.
    #[inline]
    #[must_use]
    pub(crate) fn next_dispatch(&self) -> u64 {
        let slot = if self.slot_used >= self.width { self.slot + 1 } else { self.slot };
        let back = self.count.wrapping_sub(self.window) as usize & (self.ring.len() - 1);
        let room = if self.count >= self.window { self.ring[back] } else { 0 };
        slot.max(room).max(self.redirect)
    }

    /// Issue of an op that dispatches at `d`.
    #[inline]
    #[must_use]
    pub(crate) fn issue(&self, d: u64, op: &OpTiming) -> u64 {
        let r = |i: usize| self.ready[op.reads[i] as usize];
        let i = d.max(r(0)).max(r(1)).max(r(2)).max(r(3));
        if self.in_order { i.max(self.last_issue) } else { i }
    }

    /// Books a finished op; returns its retire time.
    #[inline]
    pub(crate) fn finish(&mut self, d: u64, i: u64, complete: u64, op: &OpTiming) -> u64 {
        if d > self.slot {
            self.slot = d;
            self.slot_used = 1;
        } else {
            self.slot_used += 1;
        }
        self.last_issue = i;
        for w in op.writes {
            self.ready[w as usize] = complete;
        }
        self.ready[REGS - 1] = 0;
        if complete > self.retire {
            self.retire = complete;
            self.retire_used = 1;
        } else if self.retire_used < self.width {
            self.retire_used += 1;
        } else {
            self.retire += 1;
            self.retire_used = 1;
        }
        let at = self.count as usize & (self.ring.len() - 1);
        self.ring[at] = self.retire;
        self.count += 1;
        self.retire
    }

    /// Younger ops dispatch at `at` or later.
    #[inline]
    pub(crate) fn redirect(&mut self, at: u64) {
        self.redirect = self.redirect.max(at);
    }

    /// Accesses of younger ops issue at `at` or later.
    pub(crate) fn order_accesses(&mut self, at: u64) {
        self.accesses = self.accesses.max(at);
    }

    /// Cycle from which accesses may issue.
    #[inline]
    #[must_use]
    pub(crate) fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Retire time of the youngest op.
    #[inline]
    #[must_use]
    pub(crate) fn last_retire(&self) -> u64 {
        self.retire
    }

    /// Whether two states differ by a shift in time only, `self` at `now`, `other` at `other_now`
    /// (`engine.md` S2). What lies before the next dispatch binds nothing any more and counts as
    /// zero; what lies between it and `now` does bind, as dispatch may lag behind accesses.
    #[must_use]
    pub(crate) fn same_shifted(&self, now: u64, other: &Scoreboard, other_now: u64) -> bool {
        let (d, other_d) = (self.next_dispatch(), other.next_dispatch());
        let eq = |a: u64, b: u64| a.saturating_sub(d) == b.saturating_sub(other_d);
        let used = |s: &Scoreboard, d: u64| (s.slot == d).then_some(s.slot_used);
        let retired = |s: &Scoreboard, d: u64| (s.retire > d).then_some(s.retire_used);
        if d.wrapping_sub(now) != other_d.wrapping_sub(other_now)
            || used(self, d) != used(other, other_d)
            || retired(self, d) != retired(other, other_d)
            || !eq(self.retire, other.retire)
            || !eq(self.last_issue, other.last_issue)
            || !eq(self.accesses, other.accesses)
            || (self.width, self.window) != (other.width, other.window)
            || !self.ready.iter().zip(&other.ready).all(|(a, b)| eq(*a, *b))
        {
            return false;
        }
        let nth = |s: &Scoreboard, k: u64| {
            let at = s.count.wrapping_sub(k) as usize & (s.ring.len() - 1);
            if s.count >= k { s.ring[at] } else { 0 }
        };
        (1..=self.window).all(|k| eq(nth(self, k), nth(other, k)))
    }

    /// Moves the state forward by `by` cycles.
    pub(crate) fn shift(&mut self, by: u64) {
        self.slot += by;
        self.redirect += by;
        self.accesses += by;
        self.retire += by;
        self.last_issue += by;
        self.ready[..REGS - 1].iter_mut().for_each(|r| *r += by);
        self.ring.iter_mut().for_each(|r| *r += by);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::{CLASSES, Class, NONE};

    fn core(width: u32, window: u32) -> CoreTiming {
        CoreTiming {
            width,
            window,
            store_buffer: 8,
            in_order: false,
            mispredict: 10,
            l1_latency: 4,
            l2_latency: 12,
            latency: [1; CLASSES],
        }
    }

    fn op(read: u8, write: u8) -> OpTiming {
        OpTiming { reads: [read, NONE, NONE, NONE], writes: [write, NONE, NONE], class: Class::Alu }
    }

    fn run(s: &mut Scoreboard, op: &OpTiming, latency: u64) -> (u64, u64, u64) {
        let d = s.next_dispatch();
        let i = s.issue(d, op);
        let r = s.finish(d, i, i + latency, op);
        (d, i, r)
    }

    #[test]
    fn width_bounds_independent_ops_and_latency_bounds_dependent_ones() {
        let mut s = Scoreboard::new(&core(2, 16));
        let free = op(NONE, NONE);
        let dispatches: Vec<u64> = (0..6).map(|_| run(&mut s, &free, 1).0).collect();
        assert_eq!(dispatches, [0, 0, 1, 1, 2, 2]);
        let mut s = Scoreboard::new(&core(2, 16));
        let chain = op(1, 1);
        let issues: Vec<u64> = (0..4).map(|_| run(&mut s, &chain, 3).1).collect();
        assert_eq!(issues, [0, 3, 6, 9]);
    }

    #[test]
    fn a_long_op_stalls_dispatch_one_window_later() {
        let mut s = Scoreboard::new(&core(1, 4));
        run(&mut s, &op(NONE, 1), 100);
        let free = op(NONE, NONE);
        let dispatches: Vec<u64> = (0..4).map(|_| run(&mut s, &free, 1).0).collect();
        assert_eq!(dispatches, [1, 2, 3, 100]);
    }

    #[test]
    fn a_shifted_state_is_the_same_and_goes_on_the_same() {
        let mut a = Scoreboard::new(&core(2, 8));
        let chain = op(1, 1);
        for _ in 0..20 {
            run(&mut a, &chain, 3);
        }
        let mut b = a.clone();
        b.shift(1000);
        assert!(a.same_shifted(50, &b, 1050));
        assert!(!a.same_shifted(50, &b, 1051));
        let (da, ia, ra) = run(&mut a, &chain, 3);
        let (db, ib, rb) = run(&mut b, &chain, 3);
        assert_eq!((da + 1000, ia + 1000, ra + 1000), (db, ib, rb));
    }

    /// An access can lie far behind the next dispatch; a chain of operands in between still catches
    /// up with it, so that the loop does not go on as it looks.
    #[test]
    fn operands_between_dispatch_and_now_are_part_of_the_state() {
        let (op, now) = (op(1, 1), 1000);
        let mut a = Scoreboard::new(&core(4, 64));
        run(&mut a, &op, 100);
        let mut b = a.clone();
        run(&mut b, &op, 9);
        assert!(!b.same_shifted(now + 5, &a, now));
    }
}
