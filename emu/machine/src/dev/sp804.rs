//! An SP804 dual timer, which runs on in every idle state of the cpus.
//!
//! Modelled: both counters, free-running, periodic and one-shot, of 16 and 32 bits, with prescaler;
//! raw and masked interrupt of each, one line for both; background load. Not modelled: the
//! integration test registers, reads of the identification registers as anything but 0 but for the
//! peripheral's own number.
//! Source: \[SP804\] "Programmers model". Status: spec.

use emu_sim::SimTime;

/// Bytes of the registers.
pub const BYTES: u64 = 0x1000;

/// Bytes of the registers of one counter.
const COUNTER_BYTES: u64 = 0x20;

const ONE_SHOT: u32 = 1 << 0;
const IS_32_BITS: u32 = 1 << 1;
const INTERRUPT: u32 = 1 << 5;
const PERIODIC: u32 = 1 << 6;
const ENABLE: u32 = 1 << 7;
/// After reset: enabled interrupt, nothing runs.
const CONTROL_RESET: u32 = INTERRUPT;

/// Identification registers, from 0xfe0 on: part 0x804 of ARM, PrimeCell.
const IDENTIFICATION: [u32; 8] = [0x04, 0x18, 0x14, 0x00, 0x0d, 0xf0, 0x05, 0xb1];

/// One counter, which counts down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Counter {
    control: u32,
    load: u32,
    /// Value at `since`.
    value: u32,
    since: SimTime,
    is_raised: bool,
}

/// The device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sp804 {
    counters: [Counter; 2],
    hz: u64,
}

impl Counter {
    fn is_running(&self) -> bool {
        self.control & ENABLE != 0
            && (self.control & ONE_SHOT == 0 || self.value & self.mask() != 0)
    }

    fn mask(&self) -> u32 {
        if self.control & IS_32_BITS != 0 { u32::MAX } else { 0xffff }
    }

    /// Input cycles for one step: 1, 16 or 256; the fourth value is undefined.
    fn prescale(&self) -> u64 {
        [1, 16, 256, 256][(self.control >> 2 & 3) as usize]
    }

    /// Steps from `since` to now.
    fn steps_until(&self, hz: u64, now: SimTime) -> u64 {
        let ps = u128::from(now.ps().saturating_sub(self.since.ps()));
        (ps * u128::from(hz) / (1_000_000_000_000 * u128::from(self.prescale()))) as u64
    }

    /// When it makes its step of that number.
    fn at_step(&self, hz: u64, step: u64) -> SimTime {
        let ps = u128::from(step) * 1_000_000_000_000 * u128::from(self.prescale());
        SimTime(self.since.ps().saturating_add(ps.div_ceil(u128::from(hz)) as u64))
    }

    /// Where the counter goes on from when it has come to 0.
    fn reload(&self) -> u32 {
        match self.control & (ONE_SHOT | PERIODIC) {
            PERIODIC => self.load & self.mask(),
            0 => self.mask(),
            _ => 0,
        }
    }

    /// When it comes to 0 next.
    fn next_zero(&self, hz: u64) -> Option<SimTime> {
        self.is_running().then(|| self.at_step(hz, u64::from(self.value & self.mask()).max(1)))
    }

    /// Brings the counter up to `now`.
    fn advance(&mut self, hz: u64, now: SimTime) {
        if !self.is_running() {
            self.since = now;
            return;
        }
        let mut left = self.steps_until(hz, now);
        let to_zero = u64::from(self.value & self.mask()).max(1);
        let moved = left;
        if left >= to_zero {
            self.is_raised = true;
            left -= to_zero;
            let period = u64::from(self.reload()).max(1);
            // Beyond the first zero whole periods change nothing.
            self.value = self.reload();
            left %= period;
        }
        self.value = (self.value & self.mask()).saturating_sub(left as u32);
        self.since = self.at_step(hz, moved);
    }

    fn write(&mut self, register: u64, value: u32) {
        match register {
            0x00 => (self.load, self.value) = (value, value),
            0x08 => self.control = value & 0xef,
            0x0c => self.is_raised = false,
            0x18 => self.load = value,
            _ => {}
        }
    }

    fn read(&self, register: u64) -> u32 {
        match register {
            0x00 | 0x18 => self.load,
            0x04 => self.value & self.mask(),
            0x08 => self.control,
            0x10 => u32::from(self.is_raised),
            0x14 => u32::from(self.is_up()),
            _ => 0,
        }
    }

    fn is_up(&self) -> bool {
        self.is_raised && self.control & INTERRUPT != 0
    }
}

impl Sp804 {
    /// The device after reset, its counters fed by a clock of `hz`.
    #[must_use]
    pub fn new(hz: u64) -> Sp804 {
        let counter = Counter {
            control: CONTROL_RESET,
            load: 0,
            value: u32::MAX,
            since: SimTime::ZERO,
            is_raised: false,
        };
        Sp804 { counters: [counter; 2], hz }
    }

    /// Reads a register at `now`.
    pub fn read(&mut self, offset: u64, now: SimTime) -> u64 {
        self.advance(now);
        let counter = self.counters.get((offset / COUNTER_BYTES) as usize);
        let identification = || {
            let at = offset.checked_sub(0xfe0)? / 4;
            IDENTIFICATION.get(at as usize).copied()
        };
        let value = counter.map(|counter| counter.read(offset % COUNTER_BYTES));
        u64::from(value.or_else(identification).unwrap_or(0))
    }

    /// Writes a register at `now`.
    pub fn write(&mut self, offset: u64, value: u64, now: SimTime) {
        self.advance(now);
        if let Some(counter) = self.counters.get_mut((offset / COUNTER_BYTES) as usize) {
            counter.write(offset % COUNTER_BYTES, value as u32);
        }
    }

    /// Brings the device up to `now`.
    pub fn advance(&mut self, now: SimTime) {
        let hz = self.hz;
        self.counters.iter_mut().for_each(|counter| counter.advance(hz, now));
    }

    /// Whether the interrupt line is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.counters.iter().any(Counter::is_up)
    }

    /// When the line may change next without an access.
    #[must_use]
    pub fn next(&self) -> Option<SimTime> {
        let waits = |counter: &&Counter| counter.control & INTERRUPT != 0 && !counter.is_raised;
        self.counters.iter().filter(waits).filter_map(|counter| counter.next_zero(self.hz)).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At so many us a value is read, and the interrupt is raised or not.
    type Reads<'a> = &'a [(u64, u64, bool)];

    #[test]
    fn counters_come_to_zero_as_their_mode_says() {
        const HZ: u64 = 1_000_000;
        let once = ENABLE | INTERRUPT | IS_32_BITS | ONE_SHOT;
        // Control, load, what is read.
        let cases: [(u32, u32, Reads<'_>); 5] = [
            (once, 10, &[(0, 10, false), (9, 1, false), (10, 0, true), (50, 0, true)]),
            (once & !ONE_SHOT | PERIODIC, 10, &[(9, 1, false), (10, 10, true), (34, 6, true)]),
            (once & !ONE_SHOT, 10, &[(10, 0xffff_ffff, true), (11, 0xffff_fffe, true)]),
            (once & !(ONE_SHOT | IS_32_BITS), 0x1_0005, &[(0, 5, false), (5, 0xffff, true)]),
            (once | 1 << 2, 2, &[(15, 2, false), (16, 1, false), (32, 0, true)]),
        ];
        for (control, load, reads) in cases {
            let mut device = Sp804::new(HZ);
            device.write(0x08, u64::from(control), SimTime::ZERO);
            device.write(0x00, u64::from(load), SimTime::ZERO);
            for &(us, value, is_raised) in reads {
                let now = SimTime::from_us(us);
                let found = (device.read(0x04, now), device.is_up());
                assert_eq!(found, (value, is_raised), "control {control:#x} at {us} us");
            }
        }
    }

    #[test]
    fn the_line_goes_up_when_it_says_and_down_when_it_is_cleared() {
        let mut device = Sp804::new(19_200_000);
        assert_eq!(device.next(), None);
        device.write(0x28, u64::from(ENABLE | INTERRUPT | ONE_SHOT | IS_32_BITS), SimTime::ZERO);
        device.write(0x20, 192, SimTime::ZERO);
        assert_eq!(device.next(), Some(SimTime::from_us(10)));
        device.advance(SimTime::from_us(10));
        assert!(device.is_up() && device.next().is_none());
        device.write(0x2c, 0, SimTime::from_us(11));
        assert!(!device.is_up() && device.next().is_none());
        assert_eq!(device.read(0xfe0, SimTime::from_us(11)), 0x04);
        assert_eq!(device.read(0xf00, SimTime::from_us(11)), 0);
    }
}
