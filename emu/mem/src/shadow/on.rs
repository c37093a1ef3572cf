//! The mode is on.

use emu_sim::{LINE_SIZE, LineAddr, PhysAddr};
use rustc_hash::FxHashMap;

use crate::phys::Phys;

const WORDS: usize = (LINE_SIZE / 8) as usize;

type Bytes = [u64; WORDS];

fn flat(line: LineAddr, phys: &Phys) -> Bytes {
    std::array::from_fn(|i| phys.load(PhysAddr(line.base().0 + 8 * i as u64), 8))
}

/// The bytes that a message carries, if any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Data(Option<Bytes>);

impl Data {
    /// These bytes, or nothing.
    #[must_use]
    pub fn when(self, is_carried: bool) -> Data {
        Data(self.0.filter(|_| is_carried))
    }

    /// These bytes, or those.
    #[must_use]
    pub fn or(self, other: Data) -> Data {
        Data(self.0.or(other.0))
    }
}

/// The bytes of a node's copies.
#[derive(Clone, Debug, Default)]
pub struct Copies(FxHashMap<LineAddr, Bytes>);

impl Copies {
    /// The bytes of a copy.
    #[must_use]
    pub fn get(&self, line: LineAddr) -> Data {
        Data(self.0.get(&line).copied())
    }

    /// All copies, for explorations of all states.
    #[must_use]
    pub fn all(&self) -> Vec<(LineAddr, Data)> {
        let mut all: Vec<_> = self.0.iter().map(|(line, b)| (*line, Data(Some(*b)))).collect();
        all.sort_unstable_by_key(|(line, _)| *line);
        all
    }

    /// Ends a copy and returns its bytes.
    pub fn take(&mut self, line: LineAddr) -> Data {
        Data(self.0.remove(&line))
    }

    /// Keeps bytes that came; none change nothing.
    pub fn put(&mut self, line: LineAddr, data: Data) {
        if let Some(bytes) = data.0 {
            self.0.insert(line, bytes);
        }
    }

    /// Makes a copy out of flat memory, unless there is one.
    pub fn begin(&mut self, line: LineAddr, phys: &Phys) {
        self.0.entry(line).or_insert_with(|| flat(line, phys));
    }

    /// Brings the line up to date after a write of its owner.
    pub fn wrote(&mut self, line: LineAddr, phys: &Phys) {
        self.0.insert(line, flat(line, phys));
    }

    /// Changes bytes of every copy they are in, at a cut.
    pub fn overwrite(&mut self, pa: PhysAddr, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let pa = PhysAddr(pa.0 + i as u64);
            if let Some(copy) = self.0.get_mut(&pa.line()) {
                let (word, shift) = ((pa.0 % LINE_SIZE / 8) as usize, pa.0 % 8 * 8);
                copy[word] = copy[word] & !(0xff << shift) | u64::from(*byte) << shift;
            }
        }
    }

    /// Compares a copy with flat memory.
    ///
    /// # Panics
    /// If they differ or there is no copy, which is a model bug: a rule of permission is broken.
    pub fn check(&self, line: LineAddr, phys: &Phys, who: impl FnOnce() -> String) {
        let flat = flat(line, phys);
        match self.0.get(&line) {
            Some(own) if *own == flat => {}
            Some(own) => {
                let at = own.iter().zip(&flat).position(|(a, b)| a != b).unwrap_or(0);
                panic!(
                    "model bug: {} of line {line}: own copy has {:#x} at byte {}, memory has {:#x}",
                    who(),
                    own[at],
                    8 * at,
                    flat[at]
                );
            }
            None => panic!("model bug: {} of line {line}: the core never got its data", who()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_stays_behind_until_it_is_told() {
        let (phys, line) = (Phys::new(1 << 20), LineAddr(3));
        let mut copies = Copies::default();
        phys.store(PhysAddr(195), 2, 0xabcd);
        copies.begin(line, &phys);
        phys.store(PhysAddr(200), 8, 7);
        copies.begin(line, &phys);
        let stale = || std::panic::catch_unwind(|| copies.check(line, &phys, || "load".into()));
        let text = *stale().expect_err("a stale copy").downcast::<String>().expect("text");
        assert!(text.ends_with("own copy has 0x0 at byte 8, memory has 0x7"), "{text}");
        copies.overwrite(PhysAddr(200), &[7]);
        copies.check(line, &phys, || "load".into());
        let data = copies.take(line);
        assert_eq!((copies.get(line), data.when(false)), (Data(None), Data(None)));
        copies.put(line, Data(None).or(data));
        assert_eq!(copies.get(line), data);
    }
}
