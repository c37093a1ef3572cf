//! The core's side of shadow mode (`emu_mem::shadow`): the bytes of its copies, and of lines that
//! left and may still be asked for, as in a write-back buffer (L7).
//!
//! Without the feature this is empty.

use emu_mem::phys::Phys;
use emu_mem::shadow::{Copies, Data};
use emu_sim::LineAddr;

/// Bytes of one core.
#[derive(Clone, Debug, Default)]
pub(crate) struct Shadow {
    copies: Copies,
    leaving: Copies,
}

impl Shadow {
    /// A grant brings data, or none to a core that has them.
    #[inline]
    pub(crate) fn granted(&mut self, line: LineAddr, data: Data) {
        self.leaving.take(line);
        self.copies.put(line, data);
    }

    /// The line leaves. A Put carries what a writer had; data under an upgrade stay in its buffer.
    #[inline]
    pub(crate) fn left(&mut self, line: LineAddr, was_writer: bool, is_upgraded: bool) -> Data {
        if !was_writer && is_upgraded {
            return Data::default();
        }
        let data = self.copies.take(line).when(was_writer);
        self.leaving.put(line, data);
        data
    }

    /// A snoop: what the answer carries.
    #[inline]
    pub(crate) fn snooped(&mut self, line: LineAddr, was_writer: bool, kept: bool) -> Data {
        let leaving = self.leaving.take(line);
        let own = if kept { self.copies.get(line) } else { self.copies.take(line) };
        own.when(was_writer).or(leaving)
    }

    /// The owner wrote.
    #[inline]
    pub(crate) fn wrote(&mut self, line: LineAddr, phys: &Phys) {
        self.copies.wrote(line, phys);
    }

    /// An access performs.
    #[inline]
    pub(crate) fn check(&self, line: LineAddr, phys: &Phys, who: impl FnOnce() -> String) {
        self.copies.check(line, phys, who);
    }

    /// Memory was changed from outside, at a cut.
    pub(crate) fn overwrite(&mut self, pa: emu_sim::PhysAddr, bytes: &[u8]) {
        self.copies.overwrite(pa, bytes);
        self.leaving.overwrite(pa, bytes);
    }
}
