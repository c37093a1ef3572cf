//! Pseudo-random numbers from the seed of the run.

/// Generator of one CPU: xorshift with a multiplied output.
pub(crate) struct Rng(u64);

impl Rng {
    /// A generator for a CPU, from the seed of the run.
    pub(crate) fn new(seed: u64, cpu: usize) -> Rng {
        // Spread close seeds apart, and keep clear of 0, the one state that does not move.
        let mixed = (seed ^ (cpu as u64) << 32).wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        Rng((mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) | 1)
    }

    /// The next number in `0..=max`; `max` is below 2^32.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        high * (max + 1) >> 32
    }
}
