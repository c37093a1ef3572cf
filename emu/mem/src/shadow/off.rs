//! The mode is off: nothing is kept, nothing is compared.

use emu_sim::{LineAddr, PhysAddr};

use crate::phys::Phys;

/// The bytes that a message carries: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Data(());

impl Data {
    /// These bytes, or nothing.
    #[inline]
    #[must_use]
    pub fn when(self, _: bool) -> Data {
        Data(())
    }

    /// These bytes, or those.
    #[inline]
    #[must_use]
    pub fn or(self, _: Data) -> Data {
        Data(())
    }
}

/// The bytes of a node's copies: none.
#[derive(Clone, Debug, Default)]
pub struct Copies(());

impl Copies {
    /// The bytes of a copy.
    #[inline]
    #[must_use]
    pub fn get(&self, _: LineAddr) -> Data {
        Data(())
    }

    /// All copies.
    #[must_use]
    pub fn all(&self) -> Vec<(LineAddr, Data)> {
        Vec::new()
    }

    /// Ends a copy and returns its bytes.
    #[inline]
    pub fn take(&mut self, _: LineAddr) -> Data {
        Data(())
    }

    /// Keeps bytes that came; none change nothing.
    #[inline]
    pub fn put(&mut self, _: LineAddr, _: Data) {}

    /// Makes a copy out of flat memory, unless there is one.
    #[inline]
    pub fn begin(&mut self, _: LineAddr, _: &Phys) {}

    /// Brings the line up to date after a write of its owner.
    #[inline]
    pub fn wrote(&mut self, _: LineAddr, _: &Phys) {}

    /// Changes bytes of every copy they are in, at a cut.
    #[inline]
    pub fn overwrite(&mut self, _: PhysAddr, _: &[u8]) {}

    /// Compares a copy with flat memory.
    #[inline]
    pub fn check(&self, _: LineAddr, _: &Phys, _: impl FnOnce() -> String) {}
}
