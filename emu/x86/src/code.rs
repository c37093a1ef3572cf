//! Decoded blocks: those that the cpus of a unit share, and the recent ones of one cpu.
//!
//! A block lies in one line, except that an instruction which crosses into the next line is a
//! block of its own. So a cpu never reads bytes of a line that it has not fetched, and the check of
//! the page's version right behind the fetch decides whether a block is still right.
//!
//! No architectural state and no timing: entering a block asks for its lines either way.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::decode::Block;

/// Pages of decoded blocks, shared by the cpus of a unit.
#[derive(Clone, Debug, Default)]
pub struct CodeCache {
    pages: FxHashMap<(u64, u8), Page>,
}

#[derive(Clone, Debug, Default)]
struct Page {
    version: u32,
    /// By offset in the page, ascending.
    blocks: Vec<(u16, Arc<Block>)>,
}

impl CodeCache {
    /// The block at an offset of a page for code of `bits`, if it was decoded from this version of
    /// the page.
    #[must_use]
    pub fn find(&self, frame: u64, bits: u8, offset: u16, version: u32) -> Option<&Arc<Block>> {
        let page = self.pages.get(&(frame, bits)).filter(|page| page.version == version)?;
        let at = page.blocks.binary_search_by_key(&offset, |block| block.0).ok()?;
        Some(&page.blocks[at].1)
    }

    /// Keeps a block; those of other versions of its page go.
    pub fn insert(&mut self, frame: u64, bits: u8, offset: u16, version: u32, block: Arc<Block>) {
        let page = self.pages.entry((frame, bits)).or_default();
        if page.version != version {
            page.blocks.clear();
            page.version = version;
        }
        match page.blocks.binary_search_by_key(&offset, |block| block.0) {
            Ok(at) => page.blocks[at].1 = block,
            Err(at) => page.blocks.insert(at, (offset, block)),
        }
    }
}

/// Number of recent blocks of a cpu, a power of two.
const RECENT: usize = 256;

/// A block as a cpu enters it.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Linear address.
    pub lin: u64,
    /// [`crate::tlb::Tlb::flushes`] when the address was translated.
    pub flushes: u64,
    /// Privilege level and bits of the code, packed.
    pub mode: u16,
    /// Physical address of the first byte.
    pub pa: u64,
    /// Version of its page.
    pub version: u32,
    /// Physical address in the second line, and version of its page, of a crossing instruction.
    pub second: Option<(u64, u32)>,
    /// The ops.
    pub block: Arc<Block>,
}

/// The recent blocks of one cpu, by linear address.
#[derive(Clone, Debug)]
pub struct Recent {
    entries: Vec<Option<Entry>>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { entries: vec![None; RECENT] }
    }
}

impl Recent {
    fn index(lin: u64) -> usize {
        ((lin ^ lin >> 8 ^ lin >> 16) as usize) & (RECENT - 1)
    }

    /// The entry of a linear address, if it is of this translation and mode.
    #[must_use]
    #[inline(always)]
    pub fn find(&self, lin: u64, flushes: u64, mode: u16) -> Option<&Entry> {
        self.entries[Self::index(lin)]
            .as_ref()
            .filter(|e| e.lin == lin && e.flushes == flushes && e.mode == mode)
    }

    /// Slot of a linear address, for the cursor.
    #[must_use]
    #[inline(always)]
    pub fn slot(lin: u64) -> usize {
        Self::index(lin)
    }

    /// The entry in a slot.
    #[must_use]
    #[inline(always)]
    pub fn at(&self, slot: usize) -> Option<&Entry> {
        self.entries[slot & (RECENT - 1)].as_ref()
    }

    /// Keeps an entry in place of that with the same slot.
    pub fn insert(&mut self, entry: Entry) {
        let slot = Self::index(entry.lin);
        self.entries[slot] = Some(entry);
    }
}
