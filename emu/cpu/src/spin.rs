//! Spin elision (`engine.md` S1 to S4): a loop-head state that repeats, shifted by a period,
//! repeats until an input comes. Its iterations are skipped, and made good before any input is
//! handled, with the cycles, counters and end state of stepping.
//!
//! Not elided: loops with a store, an atomic, a time read or a watched point; loops whose state
//! changes (counters, deadlines).

use emu_mem::cache::Port as CachePort;
use emu_sim::LineAddr;
use emu_sim::mutant::Mutant;

use crate::isa::Isa;
use crate::node::{Core, Hw};
use crate::scoreboard::Scoreboard;
use crate::thread::RunState;

/// Longest loop, in bytes of code.
pub(crate) const LOOP_BYTES: u64 = 512;
/// Most instructions in one iteration.
const LOOP_INSTRUCTIONS: u64 = 32;
/// Clean iterations before the state is looked at.
const FIRST_TRY: u32 = 3;
/// Longest time between two looks, in iterations.
const TRY_MAX: u32 = 1 << 12;

/// A use of a line.
#[derive(Clone, Copy, Debug)]
struct Touch {
    port: CachePort,
    line: LineAddr,
    at: u64,
}

/// What is known of the loop that a cpu is in.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spin {
    head: u64,
    /// Nothing happened in this iteration that S1 excludes.
    pub(crate) is_clean: bool,
    /// Instructions since the head.
    pub(crate) instructions: u64,
    streak: u32,
    next_try: u32,
    base: u64,
    period: u64,
    count: u64,
    /// The uses of lines are kept in `touches`.
    pub(crate) is_recording: bool,
    touches: Vec<Touch>,
}

impl Spin {
    pub(crate) fn note_touch(&mut self, port: CachePort, line: LineAddr, at: u64) {
        // A loop of more accesses than this is no spin.
        if self.touches.len() < 2 * LOOP_INSTRUCTIONS as usize {
            self.touches.push(Touch { port, line, at });
        } else {
            self.is_clean = false;
        }
    }

    fn record(&mut self, is_recording: bool) {
        self.is_recording = is_recording;
        self.touches.clear();
    }
}

/// The state of a cpu at a loop head.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot<I> {
    isa: I,
    score: Scoreboard,
    now: u64,
    cache_changes: u64,
    instructions: u64,
}

impl<I: Isa> Core<I> {
    /// Cpu `j` has jumped back to `head`.
    #[inline]
    pub(crate) fn spin_head(&mut self, j: usize, head: u64) {
        let spin = &mut self.hw.threads[j].spin;
        let goes_on = spin.is_clean && spin.head == head && spin.instructions <= LOOP_INSTRUCTIONS;
        spin.is_clean = true;
        spin.instructions = 0;
        if !goes_on {
            spin.head = head;
            spin.streak = 0;
            spin.next_try = FIRST_TRY;
            spin.record(false);
            self.snapshots[j] = None;
            return;
        }
        spin.streak = spin.streak.saturating_add(1);
        // A list of all instructions has those of spins, too.
        let is_elided = self.hw.config.elide_spins && !self.hw.wanted.steps;
        if spin.streak >= spin.next_try && is_elided {
            self.try_elide(j);
        }
    }

    fn try_elide(&mut self, j: usize) {
        let hw = &mut self.hw;
        let th = &hw.threads[j];
        let is_quiet = th.stores.is_empty()
            && hw.requests.is_empty()
            && hw.holds.iter().all(|h| h.until.max(h.sibling_until) <= th.now);
        if !is_quiet {
            return;
        }
        let Some(before) = self.snapshots[j].take() else {
            self.snapshots[j] = Some(Box::new(Snapshot {
                isa: self.isas[j].clone(),
                score: th.score.clone(),
                now: th.now,
                cache_changes: hw.caches.changes(),
                instructions: th.counters.instructions,
            }));
            hw.threads[j].spin.record(true);
            return;
        };
        let period = th.now - before.now;
        let repeats = period > 0
            && hw.caches.changes() == before.cache_changes
            && th.score.same_shifted(th.now, &before.score, before.now)
            && self.isas[j].same_state(&before.isa);
        let base = th.step_time();
        let count = th.counters.instructions - before.instructions;
        let spin = &mut hw.threads[j].spin;
        if repeats {
            (spin.base, spin.period, spin.count) = (base, period, count);
            spin.is_recording = false;
            hw.threads[j].run = RunState::Spinning;
        } else {
            spin.next_try = spin.streak + (spin.streak * 2).min(TRY_MAX);
            spin.record(false);
        }
    }
}

impl Hw {
    /// Ends the spin of cpu `j`, if it spins: all iterations whose head lies before cycle `t` are
    /// made good; the rest is stepped. Returns whether it did.
    pub(crate) fn materialise(&mut self, j: usize, t: u64) -> bool {
        let th = &mut self.threads[j];
        if th.run != RunState::Spinning {
            return false;
        }
        let spin = &mut th.spin;
        let n = if t > spin.base { (t - 1 - spin.base) / spin.period } else { 0 };
        let n = n + u64::from(self.config.mutation.is(Mutant::ElisionOffByOne));
        th.score.shift(n * spin.period);
        th.now += n * spin.period;
        th.counters.instructions += n * spin.count;
        th.counters.elided += n * spin.count;
        spin.streak = 0;
        spin.next_try = FIRST_TRY;
        let by = n * spin.period;
        for touch in &spin.touches {
            if n > 0 {
                self.caches.touch(touch.port, touch.line, touch.at + by, j);
            }
        }
        spin.record(false);
        th.run = RunState::Running;
        // What siblings did meanwhile is no obstacle: had it mattered, the spin had ended there.
        self.handled.time = self.handled.time.min(th.step_time());
        true
    }

    /// Whether an access of cpu `j` at cycle `t` concerns a loop that its sibling skips: a write to
    /// a line of the loop, or a victim that may have to be chosen. The sibling is then made good,
    /// and its steps before `t` come first.
    #[inline]
    pub(crate) fn disturbs_spin(
        &mut self,
        j: usize,
        port: CachePort,
        line: LineAddr,
        t: u64,
        write: bool,
    ) -> bool {
        if self.threads.len() == 1 {
            return false;
        }
        let mut disturbs = false;
        for i in (0..self.threads.len()).filter(|i| *i != j) {
            if self.threads[i].run == RunState::Spinning
                && (write && self.threads[i].spin.touches.iter().any(|touch| touch.line == line)
                    || !self.caches.is_in_l1(port, line))
            {
                disturbs |= self.materialise(i, t);
            }
        }
        if disturbs {
            self.bound_steps(0);
        }
        disturbs
    }
}
