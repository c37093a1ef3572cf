//! A core's side: the bytes of its copies, and of lines that left and may still be asked for, as
//! in a write-back buffer (L7).

use emu_sim::{LineAddr, PhysAddr};

use super::{Copies, Data};
use crate::phys::Phys;

/// The bytes of one core.
#[derive(Clone, Debug, Default)]
pub struct CoreCopies {
    present: Copies,
    leaving: Copies,
}

impl CoreCopies {
    /// A grant brings data, or none to a core that has them.
    #[inline]
    pub fn granted(&mut self, line: LineAddr, data: Data) {
        self.leaving.take(line);
        self.present.put(line, data);
    }

    /// The line leaves. A Put carries what a writer had; data under an upgrade stay in its buffer.
    #[inline]
    pub fn left(&mut self, line: LineAddr, was_writer: bool, is_upgraded: bool) -> Data {
        if !was_writer && is_upgraded {
            return Data::default();
        }
        let data = self.present.take(line).when(was_writer);
        self.leaving.put(line, data);
        data
    }

    /// A snoop: what the answer carries.
    #[inline]
    pub fn snooped(&mut self, line: LineAddr, was_writer: bool, kept: bool) -> Data {
        let leaving = self.leaving.take(line);
        let own = if kept { self.present.get(line) } else { self.present.take(line) };
        own.when(was_writer).or(leaving)
    }

    /// The owner wrote.
    #[inline]
    pub fn wrote(&mut self, line: LineAddr, phys: &Phys) {
        self.present.wrote(line, phys);
    }

    /// An access performs: the core's own bytes are those of flat memory.
    #[inline]
    pub fn check(&self, line: LineAddr, phys: &Phys, who: impl FnOnce() -> String) {
        self.present.check(line, phys, who);
    }

    /// All bytes, of copies and of lines that left, for explorations of all states.
    #[must_use]
    pub fn all(&self) -> [Vec<(LineAddr, Data)>; 2] {
        [self.present.all(), self.leaving.all()]
    }

    /// Memory was changed from outside, at a cut.
    #[inline]
    pub fn overwrite(&mut self, pa: PhysAddr, bytes: &[u8]) {
        self.present.overwrite(pa, bytes);
        self.leaving.overwrite(pa, bytes);
    }
}
