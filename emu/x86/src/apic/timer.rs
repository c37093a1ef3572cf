//! The APIC timer: one-shot, periodic and TSC-deadline.
//!
//! The count is computed from simulated time, nothing ticks. Counting starts on the first edge of
//! the timer's input clock at or after the write, so a period is never short; later expiries are
//! whole numbers of input edges away from it, so a periodic timer does not drift.
//!
//! Not modelled: stopping in deep idle states (the CPU's idle states decide that), the phase of
//! the divider (it starts anew with each count).

use emu_sim::{Freq, SimTime};

use super::defs::{DIVIDE_MASK, LVT_TIMER_MODE_SHIFT};

/// What a timer does when its count ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerMode {
    /// Stops.
    OneShot,
    /// Starts again.
    Periodic,
    /// Waits for the next write of IA32_TSC_DEADLINE.
    TscDeadline,
    /// Reserved: never runs.
    Reserved,
}

impl TimerMode {
    /// Mode in a timer entry of the local vector table.
    pub(super) const fn from_lvt(value: u32) -> TimerMode {
        match value >> LVT_TIMER_MODE_SHIFT & 3 {
            0 => TimerMode::OneShot,
            1 => TimerMode::Periodic,
            2 => TimerMode::TscDeadline,
            _ => TimerMode::Reserved,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Stopped,
    /// Ends on this edge of the input clock.
    Counting {
        end_edge: u64,
    },
    /// Ends at `expiry`, when the guest's TSC reaches `deadline`.
    Deadline {
        deadline: u64,
        expiry: SimTime,
    },
}

/// Timer of one local APIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ApicTimer {
    /// Input clock, before the divider.
    freq: Freq,
    tsc_freq: Freq,
    /// Guest TSC less the count of `tsc_freq` edges.
    tsc_offset: u64,
    mode: TimerMode,
    divide_config: u32,
    initial_count: u32,
    run: Run,
}

impl ApicTimer {
    pub(super) const fn new(freq: Freq, tsc_freq: Freq) -> ApicTimer {
        ApicTimer {
            freq,
            tsc_freq,
            tsc_offset: 0,
            mode: TimerMode::OneShot,
            divide_config: 0,
            initial_count: 0,
            run: Run::Stopped,
        }
    }

    /// State after power-up or INIT; the TSC goes on.
    pub(super) fn reset(&mut self) {
        let tsc_offset = self.tsc_offset;
        *self = ApicTimer { tsc_offset, ..ApicTimer::new(self.freq, self.tsc_freq) };
    }

    pub(super) const fn initial_count(&self) -> u32 {
        self.initial_count
    }

    pub(super) const fn divide_config(&self) -> u32 {
        self.divide_config
    }

    const fn divisor(&self) -> u64 {
        divisor(self.divide_config)
    }

    /// Input edges in one initial count.
    const fn period(&self) -> u64 {
        self.initial_count as u64 * self.divisor()
    }

    /// Takes over the mode of a write to the timer's LVT entry.
    ///
    /// Source: [SDM-3] "APIC Timer": "A write to the LVT Timer Register that changes the timer
    /// mode disarms the local APIC timer." Status: spec; that the initial count then reads 0 is
    /// assumed.
    pub(super) fn set_mode(&mut self, mode: TimerMode) {
        if mode != self.mode {
            self.mode = mode;
            self.initial_count = 0;
            self.run = Run::Stopped;
        }
    }

    /// Starts counting, or stops with `count` 0.
    ///
    /// Source: [SDM-3] "APIC Timer": "A write of 0 to the initial-count register effectively
    /// stops the local APIC timer"; "TSC-Deadline Mode": writes are ignored. Status: spec.
    pub(super) fn set_initial_count(&mut self, count: u32, now: SimTime) {
        if !matches!(self.mode, TimerMode::OneShot | TimerMode::Periodic) {
            return;
        }
        self.initial_count = count;
        self.run = if count == 0 {
            Run::Stopped
        } else {
            Run::Counting { end_edge: self.freq.edge_at_or_after(now) + self.period() }
        };
    }

    /// Changes the divider; a running count goes on from its value.
    ///
    /// Source: the manuals do not say what a running count does. Status: assumed.
    pub(super) fn set_divide_config(&mut self, value: u32, now: SimTime) {
        let left = self.current_count(now);
        self.divide_config = value & DIVIDE_MASK;
        if let Run::Counting { end_edge } = &mut self.run {
            let edges_left = u64::from(left) * divisor(self.divide_config);
            *end_edge = self.freq.edge_at_or_after(now) + edges_left;
        }
    }

    /// The current-count register at `now`.
    ///
    /// Source: [SDM-3] "APIC Timer". Status: spec. A periodic count reads the initial count, not
    /// 0, on the edge on which it ends.
    pub(super) fn current_count(&self, now: SimTime) -> u32 {
        let Run::Counting { end_edge } = self.run else { return 0 };
        let edge = self.freq.count_at(now);
        let left = if edge < end_edge {
            end_edge - edge
        } else if self.mode == TimerMode::Periodic {
            self.period() - (edge - end_edge) % self.period()
        } else {
            0
        };
        // Between the write and the edge on which counting starts there is one edge more.
        left.div_ceil(self.divisor()).min(u64::from(self.initial_count)) as u32
    }

    /// The IA32_TSC_DEADLINE MSR: 0 when not armed.
    ///
    /// Source: [SDM-3] "TSC-Deadline Mode". Status: spec.
    pub(super) const fn deadline(&self) -> u64 {
        match self.run {
            Run::Deadline { deadline, .. } => deadline,
            _ => 0,
        }
    }

    /// Arms the timer for the guest TSC value `deadline`, at once if that is past; 0 disarms.
    ///
    /// Source: [SDM-3] "TSC-Deadline Mode": in other modes the write is ignored. Status: spec.
    pub(super) fn set_deadline(&mut self, deadline: u64, now: SimTime) {
        if self.mode != TimerMode::TscDeadline {
            return;
        }
        self.run = if deadline == 0 {
            Run::Stopped
        } else {
            Run::Deadline { deadline, expiry: self.deadline_expiry(deadline, now) }
        };
    }

    fn deadline_expiry(&self, deadline: u64, now: SimTime) -> SimTime {
        let count = self.tsc_freq.count_at(now);
        let tsc = count.wrapping_add(self.tsc_offset);
        match deadline.checked_sub(tsc) {
            None | Some(0) => now,
            Some(wait) => match count.checked_add(wait) {
                Some(edge) => edge_or_never(self.tsc_freq, edge),
                None => SimTime::NEVER,
            },
        }
    }

    /// Follows a change of the guest's TSC.
    ///
    /// Source: [SDM-3] "TSC-Deadline Mode": the deadline is compared with the TSC as software
    /// sees it. Status: spec.
    pub(super) fn set_tsc_offset(&mut self, offset: u64, now: SimTime) {
        self.tsc_offset = offset;
        if let Run::Deadline { deadline, .. } = self.run {
            self.set_deadline(deadline, now);
        }
    }

    /// When the timer ends next; `None` when it is stopped or that is beyond simulated time.
    pub(super) fn next_expiry(&self) -> Option<SimTime> {
        let expiry = match self.run {
            Run::Stopped => return None,
            Run::Counting { end_edge } => edge_or_never(self.freq, end_edge),
            Run::Deadline { expiry, .. } => expiry,
        };
        (expiry != SimTime::NEVER).then_some(expiry)
    }

    /// Ends the count if it is due; returns whether it was. Missed periods count once.
    pub(super) fn expire(&mut self, now: SimTime) -> bool {
        if self.next_expiry().is_none_or(|expiry| expiry > now) {
            return false;
        }
        match self.run {
            Run::Counting { end_edge } if self.mode == TimerMode::Periodic => {
                let missed = (self.freq.count_at(now) - end_edge) / self.period();
                self.run = Run::Counting { end_edge: end_edge + (missed + 1) * self.period() };
            }
            _ => self.run = Run::Stopped,
        }
        true
    }
}

/// Input edges in one count, 1 to 128.
///
/// Source: [SDM-3] figure "Divide Configuration Register": bits 3, 1, 0 are 000b for 2, 110b for
/// 128, 111b for 1. Status: spec.
const fn divisor(divide_config: u32) -> u64 {
    let code = divide_config >> 1 & 4 | divide_config & 3;
    1 << ((code + 1) & 7)
}

/// Time of edge `n`, or `NEVER` when it does not fit.
fn edge_or_never(freq: Freq, n: u64) -> SimTime {
    let last = freq.count_at(SimTime(u64::MAX - 1));
    if n > last { SimTime::NEVER } else { freq.edge(n) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIVIDE_BY_1: u32 = 0xb;

    fn timer(khz: u64, mode: TimerMode) -> ApicTimer {
        let mut timer = ApicTimer::new(Freq::from_khz(khz), Freq::from_khz(2_450_000));
        timer.set_mode(mode);
        timer.set_divide_config(DIVIDE_BY_1, SimTime::ZERO);
        timer
    }

    #[test]
    fn the_divider_follows_its_table() {
        let table =
            [(0x0, 2), (0x1, 4), (0x2, 8), (0x3, 16), (0x8, 32), (0x9, 64), (0xa, 128), (0xb, 1)];
        for (config, divisor) in table {
            let mut timer = timer(1_000_000, TimerMode::OneShot);
            timer.set_divide_config(config | 0xffff_fff4, SimTime::ZERO);
            assert_eq!(timer.divide_config(), config);
            timer.set_initial_count(1000, SimTime::ZERO);
            assert_eq!(timer.next_expiry(), Some(SimTime::from_ns(1000 * divisor)));
        }
    }

    #[test]
    fn one_shot_counts_down_once() {
        let mut timer = timer(1_000_000, TimerMode::OneShot);
        let start = SimTime(500);
        timer.set_initial_count(100, start);
        let end = SimTime::from_ns(101);
        assert_eq!(timer.next_expiry(), Some(end), "starts on the next edge, never short");
        for (at, count) in [(500, 100), (1_000, 100), (1_999, 100), (2_000, 99), (100_000, 1)] {
            assert_eq!(timer.current_count(SimTime(at)), count, "at {at} ps");
        }
        assert!(!timer.expire(SimTime(end.0 - 1)), "a stale item does nothing");
        assert_eq!(timer.current_count(end), 0);
        assert!(timer.expire(end));
        assert!(!timer.expire(end));
        assert_eq!((timer.next_expiry(), timer.current_count(end)), (None, 0));
        assert_eq!(timer.initial_count(), 100);
    }

    #[test]
    fn periodic_does_not_drift() {
        // 100 MHz / 3: a period is no whole number of picoseconds.
        let khz = 33_333;
        let mut timer = timer(khz, TimerMode::Periodic);
        timer.set_initial_count(7, SimTime::ZERO);
        for k in 1..=100_000u64 {
            let expiry = timer.next_expiry().unwrap();
            assert_eq!(expiry, Freq::from_khz(khz).edge(7 * k));
            assert_eq!(timer.current_count(expiry), 7, "reloaded before the item is handled");
            assert!(timer.expire(expiry));
            assert_eq!(timer.current_count(expiry), 7);
        }
    }

    #[test]
    fn missed_periods_count_once_and_keep_the_grid() {
        let mut timer = timer(1_000_000, TimerMode::Periodic);
        timer.set_initial_count(10, SimTime::ZERO);
        assert_eq!(timer.current_count(SimTime::from_ns(33)), 7);
        assert!(timer.expire(SimTime::from_ns(35)));
        assert!(!timer.expire(SimTime::from_ns(35)));
        assert_eq!(timer.next_expiry(), Some(SimTime::from_ns(40)));
    }

    #[test]
    fn a_new_divider_keeps_the_count() {
        let mut timer = timer(1_000_000, TimerMode::OneShot);
        timer.set_initial_count(100, SimTime::ZERO);
        let now = SimTime::from_ns(40);
        timer.set_divide_config(0x1, now);
        assert_eq!(timer.current_count(now), 60);
        assert_eq!(timer.next_expiry(), Some(SimTime::from_ns(40 + 60 * 4)));
    }

    #[test]
    fn zero_and_a_change_of_mode_disarm() {
        let modes = [TimerMode::OneShot, TimerMode::Periodic, TimerMode::TscDeadline];
        for from in modes {
            for to in modes {
                let mut timer = timer(1_000_000, from);
                timer.set_initial_count(100, SimTime::ZERO);
                timer.set_deadline(1_000, SimTime::ZERO);
                assert!(timer.next_expiry().is_some());
                timer.set_mode(to);
                assert_eq!(timer.next_expiry().is_some(), from == to, "{from:?} to {to:?}");
                timer.set_initial_count(0, SimTime::ZERO);
                timer.set_deadline(0, SimTime::ZERO);
                assert_eq!(timer.next_expiry(), None);
            }
        }
    }

    #[test]
    fn a_deadline_is_met_on_its_tsc_edge() {
        let tsc = Freq::from_khz(2_450_000);
        let mut timer = timer(1_000_000, TimerMode::TscDeadline);
        let now = SimTime::from_us(3);
        timer.set_initial_count(5, now);
        assert_eq!((timer.initial_count(), timer.next_expiry()), (0, None), "ignored");
        timer.set_deadline(10_000, now);
        assert_eq!((timer.deadline(), timer.current_count(now)), (10_000, 0));
        assert_eq!(timer.next_expiry(), Some(tsc.edge(10_000)));
        assert!(!timer.expire(SimTime(tsc.edge(10_000).0 - 1)));
        assert!(timer.expire(tsc.edge(10_000)));
        assert_eq!((timer.deadline(), timer.next_expiry()), (0, None));
        // Past, present, beyond the end of time.
        timer.set_deadline(1, now);
        assert_eq!(timer.next_expiry(), Some(now));
        timer.set_deadline(tsc.count_at(now), now);
        assert_eq!(timer.next_expiry(), Some(now));
        timer.set_deadline(u64::MAX, now);
        assert_eq!((timer.deadline(), timer.next_expiry()), (u64::MAX, None));
    }

    #[test]
    fn a_deadline_follows_the_tsc_that_software_sees() {
        let tsc = Freq::from_khz(2_450_000);
        let mut timer = timer(1_000_000, TimerMode::TscDeadline);
        timer.set_deadline(10_000, SimTime::ZERO);
        timer.set_tsc_offset(4_000, SimTime::ZERO);
        assert_eq!(timer.next_expiry(), Some(tsc.edge(6_000)));
        timer.set_tsc_offset(4_000u64.wrapping_neg(), SimTime::ZERO);
        let now = tsc.edge(5_000);
        timer.set_deadline(10_000, now);
        assert_eq!(timer.next_expiry(), Some(tsc.edge(14_000)));
    }

    #[test]
    fn the_largest_count_fits() {
        let mut timer = timer(1_000, TimerMode::Periodic);
        timer.set_divide_config(0xa, SimTime::ZERO);
        timer.set_initial_count(u32::MAX, SimTime(1 << 62));
        assert!(timer.next_expiry().is_some());
        timer.set_initial_count(u32::MAX, SimTime(u64::MAX - 1));
        assert_eq!(timer.next_expiry(), None, "beyond the end of time");
    }
}
