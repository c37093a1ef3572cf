//! The generic timer: counters, comparators, the event stream.
//!
//! The count is computed from simulated time, nothing ticks. A comparator is a level: it stays up
//! until software moves its value or masks it. One timer of the engine serves all comparators.
//! The event stream is no timer: whoever waits asks for its next edge
//! ([`GenericTimer::next_event`]).
//!
//! Not modelled: counter scaling and offsets of FEAT_ECV, secure timers, virtual EL2 timer.
//!
//! Source: \[ArmARM\] "The Generic Timer in AArch64 state". Status: spec.

use emu_sim::{Freq, SimTime};

/// A register of the timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of the manual")]
pub enum TimerReg {
    Freq,
    PhysCount,
    VirtCount,
    PhysTval,
    PhysCtl,
    PhysCval,
    VirtTval,
    VirtCtl,
    VirtCval,
    HypTval,
    HypCtl,
    HypCval,
    Offset,
}

/// Which comparator, with its interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparator {
    /// EL1 physical timer: INTID 30.
    Phys = 0,
    /// Virtual timer: INTID 27.
    Virt = 1,
    /// EL2 physical timer: INTID 26.
    Hyp = 2,
}

impl Comparator {
    /// All of them.
    pub const ALL: [Comparator; 3] = [Comparator::Phys, Comparator::Virt, Comparator::Hyp];

    /// Its private peripheral interrupt.
    ///
    /// Source: the numbers that Arm's base system architecture gives to them; the device tree says
    /// them to the guest.
    #[must_use]
    pub const fn intid(self) -> u32 {
        match self {
            Comparator::Phys => 30,
            Comparator::Virt => 27,
            Comparator::Hyp => 26,
        }
    }
}

const ENABLE: u64 = 1;
const IMASK: u64 = 2;
const ISTATUS: u64 = 4;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Compare {
    cval: u64,
    ctl: u64,
}

/// Timer of one cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenericTimer {
    clock: Freq,
    /// CNTFRQ_EL0, which hardware does not use.
    freq_register: u64,
    /// CNTVOFF_EL2.
    offset: u64,
    compare: [Compare; 3],
}

impl GenericTimer {
    /// Comparators off; firmware has set CNTFRQ_EL0.
    #[must_use]
    pub fn new(clock: Freq) -> GenericTimer {
        GenericTimer {
            clock,
            freq_register: clock.khz() * 1000,
            offset: 0,
            compare: [Compare::default(); 3],
        }
    }

    /// Physical count.
    #[must_use]
    pub fn count(&self, now: SimTime) -> u64 {
        self.clock.count_at(now)
    }

    /// Virtual count.
    #[must_use]
    pub fn virtual_count(&self, now: SimTime) -> u64 {
        self.count(now).wrapping_sub(self.offset)
    }

    /// What a comparator's count is less than the physical one.
    fn behind(&self, which: Comparator) -> u64 {
        if which == Comparator::Virt { self.offset } else { 0 }
    }

    fn is_met(&self, which: Comparator, now: SimTime) -> bool {
        let Compare { cval, ctl } = self.compare[which as usize];
        ctl & ENABLE != 0 && self.count(now).wrapping_sub(self.behind(which)) >= cval
    }

    /// Whether a comparator asserts its interrupt.
    #[must_use]
    pub fn is_asserted(&self, which: Comparator, now: SimTime) -> bool {
        self.compare[which as usize].ctl & IMASK == 0 && self.is_met(which, now)
    }

    /// Next time after `now` at which a comparator that is not masked is met.
    #[must_use]
    pub fn next_expiry(&self, now: SimTime) -> Option<SimTime> {
        let expiry = |which: Comparator| {
            let Compare { cval, ctl } = self.compare[which as usize];
            if ctl & (ENABLE | IMASK) != ENABLE || self.is_met(which, now) {
                return None;
            }
            self.edge(cval.checked_add(self.behind(which))?)
        };
        Comparator::ALL.into_iter().filter_map(expiry).min()
    }

    /// Time of a count, unless simulated time does not reach so far.
    fn edge(&self, count: u64) -> Option<SimTime> {
        (count <= self.clock.count_at(SimTime(SimTime::NEVER.0 - 1)))
            .then(|| self.clock.edge(count))
    }

    /// Time at which the virtual count reaches a value, for WFET and WFIT.
    #[must_use]
    pub fn virtual_deadline(&self, value: u64, now: SimTime) -> Option<SimTime> {
        if self.virtual_count(now) >= value {
            return Some(now);
        }
        self.edge(value.checked_add(self.offset)?)
    }

    /// First count of the event stream after `count`: `control` is CNTKCTL_EL1.
    ///
    /// "EVNTI selects which bit of CNTVCT_EL0 is the trigger; EVNTDIR: 0 = on a 0 to 1 transition"
    fn event_after(control: u64, count: u64) -> Option<u64> {
        const EVNTEN: u64 = 1 << 2;
        const EVNTDIR: u64 = 1 << 3;
        const EVNTIS: u64 = 1 << 17;
        if control & EVNTEN == 0 {
            return None;
        }
        let bit = (control >> 4 & 15) + if control & EVNTIS != 0 { 8 } else { 0 };
        let half = 1u64 << bit;
        let phase = if control & EVNTDIR == 0 { half } else { 0 };
        let period = 2 * half;
        let since = count.wrapping_sub(phase) % period;
        count.checked_add(period - since)
    }

    /// Time of the next event of the event stream after `now`.
    #[must_use]
    pub fn next_event(&self, control: u64, now: SimTime) -> Option<SimTime> {
        let count = Self::event_after(control, self.virtual_count(now))?;
        self.edge(count.checked_add(self.offset)?)
    }

    /// Whether the event stream had an event after `since`, up to `now`.
    #[must_use]
    pub fn had_event(&self, control: u64, since: SimTime, now: SimTime) -> bool {
        Self::event_after(control, self.virtual_count(since))
            .is_some_and(|count| count <= self.virtual_count(now))
    }

    /// Reads a register.
    #[must_use]
    pub fn read(&self, reg: TimerReg, now: SimTime) -> u64 {
        let tval = |which: Comparator| {
            let count = self.count(now).wrapping_sub(self.behind(which));
            self.compare[which as usize].cval.wrapping_sub(count) & 0xffff_ffff
        };
        let ctl = |which: Comparator| {
            self.compare[which as usize].ctl | if self.is_met(which, now) { ISTATUS } else { 0 }
        };
        let cval = |which: Comparator| self.compare[which as usize].cval;
        match reg {
            TimerReg::Freq => self.freq_register,
            TimerReg::PhysCount => self.count(now),
            TimerReg::VirtCount => self.virtual_count(now),
            TimerReg::PhysTval => tval(Comparator::Phys),
            TimerReg::PhysCtl => ctl(Comparator::Phys),
            TimerReg::PhysCval => cval(Comparator::Phys),
            TimerReg::VirtTval => tval(Comparator::Virt),
            TimerReg::VirtCtl => ctl(Comparator::Virt),
            TimerReg::VirtCval => cval(Comparator::Virt),
            TimerReg::HypTval => tval(Comparator::Hyp),
            TimerReg::HypCtl => ctl(Comparator::Hyp),
            TimerReg::HypCval => cval(Comparator::Hyp),
            TimerReg::Offset => self.offset,
        }
    }

    /// Writes a register; levels and next expiry may change.
    pub fn write(&mut self, reg: TimerReg, value: u64, now: SimTime) {
        let count = self.count(now);
        // "CVAL = count + SignExtend(TVAL)".
        let from_tval = count.wrapping_add((value as u32 as i32) as u64);
        let ctl = value & (ENABLE | IMASK);
        let offset = self.offset;
        let [phys, virt, hyp] = &mut self.compare;
        match reg {
            TimerReg::Freq => self.freq_register = value & 0xffff_ffff,
            TimerReg::PhysCount | TimerReg::VirtCount => {}
            TimerReg::PhysTval => phys.cval = from_tval,
            TimerReg::PhysCtl => phys.ctl = ctl,
            TimerReg::PhysCval => phys.cval = value,
            TimerReg::VirtTval => virt.cval = from_tval.wrapping_sub(offset),
            TimerReg::VirtCtl => virt.ctl = ctl,
            TimerReg::VirtCval => virt.cval = value,
            TimerReg::HypTval => hyp.cval = from_tval,
            TimerReg::HypCtl => hyp.ctl = ctl,
            TimerReg::HypCval => hyp.cval = value,
            TimerReg::Offset => self.offset = value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: fn(u64) -> SimTime = SimTime::from_us;

    fn timer() -> GenericTimer {
        GenericTimer::new(Freq::from_khz(25_000))
    }

    #[test]
    fn a_comparator_is_a_level_from_its_count_on() {
        let channels = [
            (Comparator::Phys, TimerReg::PhysCval, TimerReg::PhysCtl),
            (Comparator::Virt, TimerReg::VirtCval, TimerReg::VirtCtl),
            (Comparator::Hyp, TimerReg::HypCval, TimerReg::HypCtl),
        ];
        for (which, cval, ctl) in channels {
            let mut timer = timer();
            timer.write(cval, 100, US(0));
            assert_eq!(timer.next_expiry(US(0)), None, "off");
            timer.write(ctl, ENABLE, US(0));
            assert_eq!(timer.next_expiry(US(0)), Some(US(4)));
            let before = SimTime(US(4).0 - 1);
            assert!(!timer.is_asserted(which, before));
            assert_eq!(timer.read(ctl, before), ENABLE);
            assert!(timer.is_asserted(which, US(4)) && timer.is_asserted(which, US(400)));
            assert_eq!(timer.read(ctl, US(4)), ENABLE | ISTATUS);
            assert_eq!(timer.next_expiry(US(4)), None, "no second edge");
            timer.write(ctl, ENABLE | IMASK, US(5));
            assert!(!timer.is_asserted(which, US(5)));
            assert_eq!(timer.read(ctl, US(5)), ENABLE | IMASK | ISTATUS);
            timer.write(ctl, 0, US(5));
            assert_eq!(timer.read(ctl, US(5)), 0, "ISTATUS needs ENABLE");
        }
    }

    #[test]
    fn tval_counts_down_and_is_signed() {
        let mut timer = timer();
        timer.write(TimerReg::VirtTval, 50, US(2));
        assert_eq!(timer.read(TimerReg::VirtCval, US(2)), 100);
        assert_eq!(timer.read(TimerReg::VirtTval, US(3)), 25);
        assert_eq!(timer.read(TimerReg::VirtTval, US(5)), 0xffff_ffe7, "below zero");
        timer.write(TimerReg::VirtTval, 0xffff_ffff, US(2));
        assert_eq!(timer.read(TimerReg::VirtCval, US(2)), 49);
    }

    #[test]
    fn the_virtual_count_lags_by_its_offset() {
        let mut timer = timer();
        timer.write(TimerReg::Offset, 25, US(0));
        assert_eq!(timer.read(TimerReg::VirtCount, US(4)), 75);
        timer.write(TimerReg::VirtCval, 75, US(0));
        timer.write(TimerReg::VirtCtl, ENABLE, US(0));
        timer.write(TimerReg::PhysCval, 75, US(0));
        timer.write(TimerReg::PhysCtl, ENABLE, US(0));
        // A count below zero is far above the comparator.
        assert!(timer.is_asserted(Comparator::Virt, US(0)));
        assert_eq!(timer.next_expiry(US(2)), Some(US(3)), "the earlier of both");
        assert_eq!(timer.next_expiry(US(3)), Some(US(4)));
    }

    #[test]
    fn the_largest_value_never_expires() {
        let mut timer = timer();
        timer.write(TimerReg::VirtCval, u64::MAX, US(0));
        timer.write(TimerReg::VirtCtl, ENABLE, US(0));
        assert_eq!(timer.next_expiry(US(1)), None);
    }

    #[test]
    fn the_event_stream_follows_its_bit() {
        let timer = timer();
        // Bit 4: period of 32 counts; 0 to 1 at 16, 1 to 0 at 32.
        let rising = 4 << 4 | 1 << 2;
        let falling = rising | 1 << 3;
        let at = |count: u64| timer.clock.edge(count);
        for (control, now, next) in [
            (rising, 0, 16),
            (rising, 15, 16),
            (rising, 16, 48),
            (falling, 0, 32),
            (falling, 40, 64),
        ] {
            assert_eq!(timer.next_event(control, at(now)), Some(at(next)), "{control:#x} {now}");
            assert!(!timer.had_event(control, at(now), at(next - 1)));
            assert!(timer.had_event(control, at(now), at(next)));
        }
        assert_eq!(timer.next_event(4 << 4, at(0)), None, "off");
    }
}
