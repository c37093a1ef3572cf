//! A set of interrupt vectors: the shape of IRR, ISR and TMR.

/// 256 bits, one a vector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VectorSet([u64; 4]);

impl VectorSet {
    /// Adds `vector`; returns whether it was absent.
    pub fn insert(&mut self, vector: u8) -> bool {
        let word = &mut self.0[usize::from(vector >> 6)];
        let bit = 1 << (vector & 63);
        let absent = *word & bit == 0;
        *word |= bit;
        absent
    }

    /// Removes `vector`; returns whether it was present.
    pub fn remove(&mut self, vector: u8) -> bool {
        let word = &mut self.0[usize::from(vector >> 6)];
        let bit = 1 << (vector & 63);
        let present = *word & bit != 0;
        *word &= !bit;
        present
    }

    /// Whether `vector` is in the set.
    #[must_use]
    pub fn contains(&self, vector: u8) -> bool {
        self.0[usize::from(vector >> 6)] & 1 << (vector & 63) != 0
    }

    /// The highest vector, which has the highest priority.
    #[must_use]
    pub fn highest(&self) -> Option<u8> {
        let word = (0..4u8).rev().find(|&w| self.0[usize::from(w)] != 0)?;
        let bit = 63 - self.0[usize::from(word)].leading_zeros() as u8;
        Some(word << 6 | bit)
    }

    /// Number of vectors in the set.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.0.iter().map(|w| w.count_ones()).sum()
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0 == [0; 4]
    }

    /// The vectors, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|&v| self.contains(v))
    }

    /// The 32 vectors of register `index`, 0 to 7.
    pub(super) fn register(&self, index: u8) -> u32 {
        let word = self.0[usize::from(index >> 1 & 3)];
        (word >> (u32::from(index & 1) * 32)) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vector_is_its_own_bit() {
        for v in 0..=255 {
            let mut set = VectorSet::default();
            assert!(set.insert(v) && !set.insert(v));
            assert_eq!((set.highest(), set.len()), (Some(v), 1));
            assert_eq!(set.register(v / 32), 1 << (v % 32));
            assert!(set.iter().eq([v]));
            assert!(set.remove(v) && !set.remove(v) && set.is_empty());
        }
    }

    #[test]
    fn the_highest_vector_wins() {
        let mut set = VectorSet::default();
        for v in 0..=255 {
            set.insert(v);
            assert_eq!(set.highest(), Some(v));
        }
    }
}
