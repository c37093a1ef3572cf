//! Branch prediction: a deterministic predictor of ordinary size.
//!
//! Modelled: direction by a gshare table of two-bit counters, targets of indirect branches by a
//! table of last targets, returns by a stack. Not modelled: misses of the target buffer for direct
//! branches (they are decoded early and cost little), loop predictors, and sharing between SMT
//! siblings (each cpu owns its predictor). Sizes are assumed, smaller than those of real cores,
//! whose longer histories predict better.

/// Binary logarithm of the number of direction counters.
const COUNTERS_LOG2: u32 = 12;
/// Binary logarithm of the number of remembered indirect targets.
const TARGETS_LOG2: u32 = 8;
/// Depth of the return stack.
const RETURNS: usize = 16;
/// Counter values from here on predict taken.
const TAKEN_MIN: u8 = 2;
/// Strongest counter value.
const COUNTER_MAX: u8 = 3;

/// Predictor of one cpu.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Predictor {
    counters: Box<[u8; 1 << COUNTERS_LOG2]>,
    targets: Box<[u64; 1 << TARGETS_LOG2]>,
    returns: [u64; RETURNS],
    top: u8,
    history: u32,
    changes: u64,
}

impl Default for Predictor {
    fn default() -> Self {
        Predictor {
            counters: Box::new([1; 1 << COUNTERS_LOG2]),
            targets: Box::new([0; 1 << TARGETS_LOG2]),
            returns: [0; RETURNS],
            top: 0,
            history: 0,
            changes: 0,
        }
    }
}

impl Predictor {
    /// Records the outcome of the conditional branch at `pc`; returns whether it was predicted
    /// wrongly.
    #[inline]
    pub fn conditional(&mut self, pc: u64, taken: bool) -> bool {
        let mask = (1 << COUNTERS_LOG2) - 1;
        let index = ((pc ^ (pc >> COUNTERS_LOG2)) as u32 ^ self.history) & mask;
        let counter = &mut self.counters[index as usize];
        let predicted = *counter >= TAKEN_MIN;
        let new = if taken { (*counter + 1).min(COUNTER_MAX) } else { counter.saturating_sub(1) };
        if new != *counter {
            *counter = new;
            self.changes += 1;
        }
        self.history = ((self.history << 1) | u32::from(taken)) & mask;
        predicted != taken
    }

    /// Records the target of the indirect jump or call at `pc`; returns whether it was predicted
    /// wrongly.
    pub fn indirect(&mut self, pc: u64, target: u64) -> bool {
        let mask = (1 << TARGETS_LOG2) - 1;
        let index = (pc ^ (pc >> TARGETS_LOG2)) & mask;
        let last = &mut self.targets[index as usize];
        let is_wrong = *last != target;
        if is_wrong {
            *last = target;
            self.changes += 1;
        }
        is_wrong
    }

    /// Records a call that returns to `address`.
    #[inline]
    pub fn call(&mut self, address: u64) {
        self.top = (self.top + 1) % RETURNS as u8;
        let slot = &mut self.returns[usize::from(self.top)];
        if *slot != address {
            *slot = address;
            self.changes += 1;
        }
    }

    /// Records a return to `target`; returns whether it was predicted wrongly.
    #[inline]
    pub fn ret(&mut self, target: u64) -> bool {
        let predicted = self.returns[usize::from(self.top)];
        self.top = (self.top + RETURNS as u8 - 1) % RETURNS as u8;
        predicted != target
    }

    /// What decides the next predictions, cheap to compare: direction history, top of the return
    /// stack, and the number of table entries changed so far. Equal stamps of one predictor mean
    /// an equal predictor.
    #[must_use]
    pub fn stamp(&self) -> (u32, u8, u64) {
        (self.history, self.top, self.changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_branch_is_learnt() {
        let mut predictor = Predictor::default();
        let misses = (0..100).filter(|_| predictor.conditional(0x1234, true)).count();
        // Each history value up to all-taken meets a counter of its own once.
        assert!(misses <= COUNTERS_LOG2 as usize + 1, "{misses}");
        let stamp = predictor.stamp();
        assert!(!predictor.conditional(0x1234, true));
        assert_eq!(predictor.stamp(), stamp);
    }

    #[test]
    fn alternating_branch_is_learnt_by_history() {
        let mut predictor = Predictor::default();
        for i in 0..64 {
            predictor.conditional(0x40, i % 2 == 0);
        }
        assert!((0..64).all(|i| !predictor.conditional(0x40, i % 2 == 0)));
    }

    #[test]
    fn returns_nest() {
        let mut predictor = Predictor::default();
        predictor.call(1);
        predictor.call(2);
        assert!(!predictor.ret(2));
        assert!(!predictor.ret(1));
        assert!(predictor.ret(7));
    }

    #[test]
    fn indirect_target_is_remembered() {
        let mut predictor = Predictor::default();
        assert!(predictor.indirect(0x10, 0x2000));
        assert!(!predictor.indirect(0x10, 0x2000));
    }
}
