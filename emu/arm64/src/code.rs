//! Decoded lines of code: those that the cpus of a unit share, and the recent ones of one cpu.
//!
//! A line has sixteen words, decoded at once. A cpu never reads bytes of a line that it has not
//! fetched, and the check of the page's version right behind the fetch decides whether the decoded
//! line is still right.
//!
//! No architectural state and no timing: entering a line asks for it either way.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::decode::{Op, decode};

/// Words of a line.
pub(crate) const WORDS: usize = 16;

/// A decoded line.
pub(crate) type Line = Arc<[Op; WORDS]>;

/// Pages of decoded lines, shared by the cpus of a unit.
#[derive(Clone, Debug, Default)]
pub struct CodeCache {
    pages: FxHashMap<u64, Page>,
}

#[derive(Clone, Debug, Default)]
struct Page {
    version: u32,
    lines: Vec<Option<Line>>,
}

impl CodeCache {
    /// The line at a physical address, decoded from this version of its page; `bytes` reads it.
    pub(crate) fn line(
        &mut self,
        pa: u64,
        version: u32,
        bytes: impl FnOnce(&mut [u8; 4 * WORDS]),
    ) -> Line {
        let page = self.pages.entry(pa >> 12).or_default();
        if page.version != version || page.lines.is_empty() {
            *page = Page { version, lines: vec![None; 64] };
        }
        let line = page.lines[(pa >> 6 & 63) as usize].get_or_insert_with(|| {
            let mut code = [0; 4 * WORDS];
            bytes(&mut code);
            let word = |at: usize| code[4 * at..][..4].iter().rev();
            let op = |at: usize| decode(word(at).fold(0, |w, b| w << 8 | u32::from(*b)));
            Arc::new(std::array::from_fn(op))
        });
        Arc::clone(line)
    }
}

/// Number of recent lines of a cpu, a power of two.
const RECENT: usize = 256;

/// A line as a cpu enters it.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// Virtual address of its first byte.
    pub(crate) va: u64,
    /// [`crate::tlb::Tlb::flushes`] when the address was translated.
    pub(crate) flushes: u64,
    /// Exception level.
    pub(crate) el: u8,
    /// Physical address of its first byte.
    pub(crate) pa: u64,
    /// Version of its page.
    pub(crate) version: u32,
    /// The ops.
    pub(crate) ops: Line,
}

impl Entry {
    /// Whether it is the line of the word at this address, in this translation and level.
    #[inline(always)]
    pub(crate) fn is(&self, va: u64, flushes: u64, el: u8) -> bool {
        self.va == va & !60 && self.flushes == flushes && self.el == el
    }
}

/// The recent lines of one cpu, by virtual address.
///
/// A copy shares them until one of the two changes: a look at a loop that may be a spin copies the
/// cpu, and such a loop changes none of them.
#[derive(Clone, Debug)]
pub(crate) struct Recent {
    entries: Arc<[Option<Entry>; RECENT]>,
}

impl Default for Recent {
    fn default() -> Self {
        Recent { entries: Arc::new([const { None }; RECENT]) }
    }
}

impl Recent {
    /// Slot of a virtual address.
    #[inline(always)]
    pub(crate) fn slot(va: u64) -> usize {
        let line = va >> 6;
        (line ^ line >> 8) as usize & (RECENT - 1)
    }

    /// The entry in a slot.
    #[inline(always)]
    pub(crate) fn at(&self, slot: usize) -> Option<&Entry> {
        self.entries[slot & (RECENT - 1)].as_ref()
    }

    /// Keeps an entry in place of that with the same slot.
    pub(crate) fn insert(&mut self, entry: Entry) {
        let slot = Self::slot(entry.va);
        Arc::make_mut(&mut self.entries)[slot] = Some(entry);
    }
}
