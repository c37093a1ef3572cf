//! Seeded chance: `hash(seed, node, purpose, n)`, with n counted per node and purpose (D4).
//!
//! Not a source of secrets. The mixer is the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast
//! splittable pseudorandom number generators", 2014).

/// The seed of a run, from which every draw is computed without shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chance {
    seed: u64,
}

impl Chance {
    /// Chance of this seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Chance { seed }
    }

    /// The seed.
    #[must_use]
    pub const fn seed(self) -> u64 {
        self.seed
    }

    /// Draw number `n` of `purpose` at `node`.
    #[must_use]
    pub const fn draw(self, node: u32, purpose: u32, n: u64) -> u64 {
        let stream = mix(self.seed ^ (((node as u64) << 32) | purpose as u64));
        mix(stream ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    /// Draw in `0..bound` (bias below 2^-32 for bounds below 2^32); 0 when `bound` is 0.
    #[must_use]
    pub const fn below(self, bound: u64, node: u32, purpose: u32, n: u64) -> u64 {
        ((self.draw(node, purpose, n) as u128 * bound as u128) >> 64) as u64
    }

    /// Hash that orders the requests for `line` that reach a home at one `time` (K4).
    #[must_use]
    pub const fn tie(self, line: u64, time: u64, source: u32) -> u32 {
        mix(self.seed ^ mix(line ^ mix(time)) ^ source as u64) as u32
    }
}

const fn mix(z: u64) -> u64 {
    let z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_differ_by_every_argument_and_repeat() {
        let c = Chance::new(1);
        let d = c.draw(1, 2, 3);
        assert_eq!(d, Chance::new(1).draw(1, 2, 3));
        for other in
            [Chance::new(2).draw(1, 2, 3), c.draw(2, 2, 3), c.draw(1, 3, 3), c.draw(1, 2, 4)]
        {
            assert_ne!(d, other);
        }
        assert!((0..1000).all(|n| c.below(10, 0, 0, n) < 10));
        assert_eq!(c.below(0, 0, 0, 0), 0);
    }
}
