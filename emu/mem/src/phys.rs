//! Flat guest memory: the one place where values live.
//!
//! Pages of atomic words, touched relaxed: safe code that may be shared between host threads, and
//! no slower than bytes. Conflicting accesses are excluded by the line protocol (`engine.md` V3);
//! parts of a word merge by load and store, as only the core that owns the line writes it.
//! A page takes host memory when it is first written; untouched pages read zero.
//!
//! Each page counts the versions of its code: decoded blocks are a cache that a store makes stale.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use emu_sim::{PAGE_SIZE, PAGE_SIZE_LOG2, PhysAddr};

const WORDS: usize = (PAGE_SIZE / 8) as usize;
const FAN_LOG2: u32 = 9;
const FAN: usize = 1 << FAN_LOG2;

struct Page {
    words: [AtomicU64; WORDS],
    code_version: AtomicU32,
    has_code: AtomicBool,
}

impl Page {
    fn new() -> Box<Page> {
        Box::new(Page {
            words: [const { AtomicU64::new(0) }; WORDS],
            code_version: AtomicU32::new(0),
            has_code: AtomicBool::new(false),
        })
    }
}

type Leaf = Box<[OnceLock<Box<Page>>]>;

/// Guest memory from address 0 to the end of RAM.
pub struct Phys {
    root: Vec<OnceLock<Leaf>>,
    end: u64,
    touched: AtomicUsize,
}

impl std::fmt::Debug for Phys {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Phys {{ end: {:#x}, touched pages: {} }}", self.end, self.touched_pages())
    }
}

impl Phys {
    /// Memory below `end`; accesses above read zero and write nothing.
    #[must_use]
    pub fn new(end: u64) -> Phys {
        let leaves = end.div_ceil(PAGE_SIZE << FAN_LOG2) as usize;
        let root = (0..leaves).map(|_| OnceLock::new()).collect();
        Phys { root, end, touched: AtomicUsize::new(0) }
    }

    /// Pages that take host memory.
    #[must_use]
    pub fn touched_pages(&self) -> usize {
        self.touched.load(Relaxed)
    }

    #[inline]
    fn page(&self, pa: u64) -> Option<&Page> {
        let pfn = (pa >> PAGE_SIZE_LOG2) as usize;
        let leaf = self.root.get(pfn >> FAN_LOG2)?.get()?;
        Some(leaf[pfn & (FAN - 1)].get()?.as_ref())
    }

    fn page_or_new(&self, pa: u64) -> Option<&Page> {
        let pfn = (pa >> PAGE_SIZE_LOG2) as usize;
        let leaf = self
            .root
            .get(pfn >> FAN_LOG2)?
            .get_or_init(|| (0..FAN).map(|_| OnceLock::new()).collect());
        Some(leaf[pfn & (FAN - 1)].get_or_init(|| {
            self.touched.fetch_add(1, Relaxed);
            Page::new()
        }))
    }

    /// Reads `size` bytes, 1 to 8, that lie in one line.
    #[inline]
    #[must_use]
    pub fn load(&self, pa: PhysAddr, size: u8) -> u64 {
        let Some(page) = self.page(pa.0) else { return 0 };
        let i = (pa.0 & (PAGE_SIZE - 1)) as usize / 8;
        let shift = (pa.0 & 7) * 8;
        let low = page.words[i].load(Relaxed) >> shift;
        let bits = u64::from(size) * 8;
        let value = if shift + bits > 64 {
            low | page.words[i + 1].load(Relaxed) << (64 - shift)
        } else {
            low
        };
        if bits == 64 { value } else { value & ((1 << bits) - 1) }
    }

    /// Writes the low `size` bytes, 1 to 8, of `value`; they lie in one line.
    #[inline]
    pub fn store(&self, pa: PhysAddr, size: u8, value: u64) {
        let page = match self.page(pa.0) {
            Some(page) => page,
            None => match self.page_or_new(pa.0) {
                Some(page) => page,
                None => return,
            },
        };
        let i = (pa.0 & (PAGE_SIZE - 1)) as usize / 8;
        if size == 8 && pa.0 & 7 == 0 {
            page.words[i].store(value, Relaxed);
        } else {
            store_part(page, i, (pa.0 & 7) * 8, u64::from(size) * 8, value);
        }
        if page.has_code.load(Relaxed) {
            page.code_version.store(page.code_version.load(Relaxed).wrapping_add(1), Relaxed);
        }
    }

    /// Reads 16 bytes that lie in one line.
    #[must_use]
    pub fn load_wide(&self, pa: PhysAddr) -> u128 {
        u128::from(self.load(pa, 8)) | u128::from(self.load(PhysAddr(pa.0 + 8), 8)) << 64
    }

    /// Writes 16 bytes that lie in one line.
    pub fn store_wide(&self, pa: PhysAddr, value: u128) {
        self.store(pa, 8, value as u64);
        self.store(PhysAddr(pa.0 + 8), 8, (value >> 64) as u64);
    }

    /// Copies bytes out, across pages.
    pub fn read_bytes(&self, pa: PhysAddr, out: &mut [u8]) {
        let (mut at, mut rest) = (pa.0, out);
        while !rest.is_empty() {
            // Up to the end of a word, which no line divides.
            let len = (8 - (at & 7)).min(rest.len() as u64);
            let (word, after) = rest.split_at_mut(len as usize);
            word.copy_from_slice(&self.load(PhysAddr(at), len as u8).to_le_bytes()[..len as usize]);
            (at, rest) = (at.wrapping_add(len), after);
        }
    }

    /// Copies bytes in, across pages: for loaders and debuggers, at a cut.
    pub fn write_bytes(&self, pa: PhysAddr, bytes: &[u8]) {
        for (i, b) in bytes.iter().enumerate() {
            self.store(PhysAddr(pa.0.wrapping_add(i as u64)), 1, u64::from(*b));
        }
    }

    /// Version of a page's code.
    #[inline]
    #[must_use]
    pub fn code_version(&self, page: u64) -> u32 {
        self.page(page << PAGE_SIZE_LOG2).map_or(0, |p| p.code_version.load(Relaxed))
    }

    /// Notes that blocks of this page are decoded.
    pub fn note_code(&self, page: u64) {
        if let Some(p) = self.page_or_new(page << PAGE_SIZE_LOG2) {
            p.has_code.store(true, Relaxed);
        }
    }
}

#[cold]
fn store_part(page: &Page, i: usize, shift: u64, bits: u64, value: u64) {
    let mask = if bits == 64 { u64::MAX } else { (1 << bits) - 1 };
    let value = value & mask;
    let word = &page.words[i];
    word.store(word.load(Relaxed) & !(mask << shift) | value << shift, Relaxed);
    if shift + bits > 64 {
        let word = &page.words[i + 1];
        let kept = 64 - shift;
        word.store(word.load(Relaxed) & !(mask >> kept) | value >> kept, Relaxed);
    }
}

impl Clone for Phys {
    /// Copies the touched pages: a fork of the machine.
    fn clone(&self) -> Phys {
        let copy = Phys::new(self.end);
        for (hi, leaf) in self.root.iter().enumerate() {
            let Some(leaf) = leaf.get() else { continue };
            for (lo, page) in leaf.iter().enumerate() {
                let Some(page) = page.get() else { continue };
                let pa = ((hi << FAN_LOG2 | lo) as u64) << PAGE_SIZE_LOG2;
                let Some(to) = copy.page_or_new(pa) else { continue };
                for (a, b) in page.words.iter().zip(&to.words) {
                    b.store(a.load(Relaxed), Relaxed);
                }
                to.code_version.store(page.code_version.load(Relaxed), Relaxed);
                to.has_code.store(page.has_code.load(Relaxed), Relaxed);
            }
        }
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_and_offset_of_a_line_reads_back_and_leaves_its_neighbours() {
        for size in 1..=8u8 {
            for offset in 0..=(64 - u64::from(size)) {
                let m = Phys::new(1 << 20);
                for w in 0..8 {
                    m.store(PhysAddr(0x1000 + w * 8), 8, u64::MAX);
                }
                m.store(PhysAddr(0x1000 + offset), size, 0x0123_4567_89ab_cdef);
                let mask = if size == 8 { u64::MAX } else { (1 << (size * 8)) - 1 };
                assert_eq!(m.load(PhysAddr(0x1000 + offset), size), 0x0123_4567_89ab_cdef & mask);
                let mut bytes = [0; 64];
                m.read_bytes(PhysAddr(0x1000), &mut bytes);
                let outside = (offset as usize)..(offset as usize + size as usize);
                assert!((0..64).filter(|i| !outside.contains(i)).all(|i| bytes[i] == 0xff));
            }
        }
    }

    #[test]
    fn addresses_outside_ram_read_zero_and_take_no_memory() {
        let m = Phys::new(1 << 20);
        m.store(PhysAddr(1 << 40), 8, 1);
        assert_eq!(m.load(PhysAddr(1 << 40), 8), 0);
        assert_eq!(m.load(PhysAddr(0x5000), 8), 0);
        assert_eq!(m.touched_pages(), 0);
    }

    #[test]
    fn a_fork_keeps_values_and_shares_nothing() {
        let a = Phys::new(1 << 20);
        a.store(PhysAddr(64), 8, 7);
        let b = a.clone();
        b.store(PhysAddr(64), 8, 8);
        assert_eq!((a.load(PhysAddr(64), 8), b.load(PhysAddr(64), 8)), (7, 8));
    }

    #[test]
    fn a_store_to_a_decoded_page_makes_a_new_version() {
        let m = Phys::new(1 << 20);
        m.store(PhysAddr(0x2000), 1, 0x90);
        assert_eq!(m.code_version(2), 0);
        m.note_code(2);
        m.store(PhysAddr(0x2fff), 1, 0xc3);
        assert_eq!(m.code_version(2), 1);
    }
}
