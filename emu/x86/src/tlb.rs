//! Translation look-aside buffers: two levels, set-associative, least recently used first out.
//!
//! In front stands a small direct-mapped *micro-TLB* of data pages, a host-side shortcut without a
//! latency of its own. Recency is kept as order of the ways, not as stamps (`engine.md` S2).
//!
//! An instruction that waits runs again from its start, and must then make the same requests in
//! the same order. So nothing here changes while an instruction runs: fills and touches are noted
//! and take effect when it ends ([`Tlb::commit`]); look-ups see the notes.
//!
//! Not modelled: caches of upper paging-structure entries (each walk loads all levels), separate
//! arrays for large pages (all sizes share the sets), touches by micro-TLB hits.

/// What an access wants, as a bit number in a mask of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Supervisor read; also implicit reads of descriptor tables at any CPL.
    ReadSup = 0,
    /// Supervisor write.
    WriteSup = 1,
    /// Supervisor fetch.
    ExecSup = 2,
    /// User read.
    ReadUser = 3,
    /// User write.
    WriteUser = 4,
    /// User fetch.
    ExecUser = 5,
    /// Supervisor read while EFLAGS.AC lifts SMAP.
    ReadSupAc = 6,
    /// Supervisor write while EFLAGS.AC lifts SMAP.
    WriteSupAc = 7,
}

impl Access {
    /// Whether it is a write.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Access::WriteSup | Access::WriteUser | Access::WriteSupAc)
    }

    /// Whether it is a fetch.
    #[must_use]
    pub const fn is_fetch(self) -> bool {
        matches!(self, Access::ExecSup | Access::ExecUser)
    }

    /// Whether it is made as a user.
    #[must_use]
    pub const fn is_user(self) -> bool {
        matches!(self, Access::ReadUser | Access::WriteUser | Access::ExecUser)
    }
}

/// Size of a page, by the paging structure that ends the walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB.
    Small = 0,
    /// 2 MiB.
    Medium = 1,
    /// 4 MiB, 32-bit paging only.
    Four = 2,
    /// 1 GiB.
    Huge = 3,
}

const SHIFTS: [u32; 4] = [12, 21, 22, 30];

impl PageSize {
    /// Binary logarithm of the size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        SHIFTS[self as usize]
    }
}

/// A translation as the TLB and the step log keep it: frame of the *page* and its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation(u64);

impl Translation {
    const W: u64 = 1;
    const U: u64 = 2;
    const NX: u64 = 4;
    const DIRTY: u64 = 8;
    const GLOBAL: u64 = 16;
    const SIZE_SHIFT: u32 = 5;
    const FRAME: u64 = 0x000f_ffff_ffff_f000;

    /// A page at `frame`, which is aligned to `size`.
    #[must_use]
    pub fn new(frame: u64, size: PageSize, rights: PageRights) -> Self {
        let PageRights { is_writable, is_user, is_noexec, is_dirty, is_global } = rights;
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        Translation(
            frame & Self::FRAME
                | flag(is_writable, Self::W)
                | flag(is_user, Self::U)
                | flag(is_noexec, Self::NX)
                | flag(is_dirty, Self::DIRTY)
                | flag(is_global, Self::GLOBAL)
                | (size as u64) << Self::SIZE_SHIFT,
        )
    }

    /// The number that goes into the step log.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The translation behind a number of the step log.
    #[must_use]
    pub const fn from_bits(bits: u64) -> Self {
        Translation(bits)
    }

    /// Size of the page.
    #[must_use]
    pub const fn size(self) -> PageSize {
        match self.0 >> Self::SIZE_SHIFT & 3 {
            0 => PageSize::Small,
            1 => PageSize::Medium,
            2 => PageSize::Four,
            _ => PageSize::Huge,
        }
    }

    /// Physical address of `lin` in this page.
    #[must_use]
    pub const fn physical(self, lin: u64) -> u64 {
        let mask = (1 << self.size().shift()) - 1;
        self.0 & Self::FRAME & !mask | lin & mask
    }

    /// Rights of the page.
    #[must_use]
    pub const fn rights(self) -> PageRights {
        PageRights {
            is_writable: self.0 & Self::W != 0,
            is_user: self.0 & Self::U != 0,
            is_noexec: self.0 & Self::NX != 0,
            is_dirty: self.0 & Self::DIRTY != 0,
            is_global: self.0 & Self::GLOBAL != 0,
        }
    }
}

/// Rights of a page: those of all levels of the walk together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRights {
    /// All levels allow writes.
    pub is_writable: bool,
    /// All levels allow users.
    pub is_user: bool,
    /// A level forbids fetches.
    pub is_noexec: bool,
    /// The dirty bit is set.
    pub is_dirty: bool,
    /// Global page.
    pub is_global: bool,
}

/// Control bits that decide with the rights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Protection {
    /// CR0.WP.
    pub write_protect: bool,
    /// CR4.SMEP.
    pub smep: bool,
    /// CR4.SMAP.
    pub smap: bool,
}

impl PageRights {
    /// Mask of the accesses that are allowed, one bit an [`Access`]. The dirty bit is not asked.
    ///
    /// Source: [SDM-3] "Determination of Access Rights". Status: spec.
    #[must_use]
    pub const fn allowed(self, protection: Protection) -> u8 {
        let sup_write = self.is_writable || !protection.write_protect;
        let smap = self.is_user && protection.smap;
        let smep = self.is_user && protection.smep;
        (!smap as u8) << Access::ReadSup as u8
            | ((!smap && sup_write) as u8) << Access::WriteSup as u8
            | ((!smep && !self.is_noexec) as u8) << Access::ExecSup as u8
            | (self.is_user as u8) << Access::ReadUser as u8
            | ((self.is_user && self.is_writable) as u8) << Access::WriteUser as u8
            | ((self.is_user && !self.is_noexec) as u8) << Access::ExecUser as u8
            | 1 << Access::ReadSupAc as u8
            | (sup_write as u8) << Access::WriteSupAc as u8
    }
}

/// Bits of a permission mask that are writes.
const WRITES: u8 =
    1 << Access::WriteSup as u8 | 1 << Access::WriteUser as u8 | 1 << Access::WriteSupAc as u8;

/// Sizes of the TLBs of a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlbSizes {
    /// First level for data: sets (a power of two) and ways.
    pub data: (u32, u32),
    /// First level for code: sets and ways.
    pub code: (u32, u32),
    /// Second level, shared: sets and ways.
    pub second: (u32, u32),
    /// Cycles that a hit in the second level adds.
    pub second_latency: u32,
}

impl Default for TlbSizes {
    fn default() -> Self {
        TlbSizes { data: (16, 4), code: (16, 4), second: (128, 8), second_latency: 7 }
    }
}

const VALID: u64 = 1 << 63;
const SIZE_AT: u32 = 57;
const PCID_AT: u32 = 45;
const PCID_MASK: u64 = 0xfff << PCID_AT;
const VPN_MASK: u64 = (1 << PCID_AT) - 1;

/// Key of a page in a level.
fn key(lin: u64, size: PageSize, pcid: u16) -> u64 {
    VALID
        | (size as u64) << SIZE_AT
        | u64::from(pcid & 0xfff) << PCID_AT
        | lin >> size.shift() & VPN_MASK
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// 0 when free.
    tag: u64,
    page: u64,
}

impl Entry {
    fn matches(self, key: u64) -> bool {
        let any_pcid = if self.page & Translation::GLOBAL != 0 { PCID_MASK } else { 0 };
        (self.tag ^ key) & !any_pcid == 0
    }
}

/// One level: ways of a set in order of recency, latest first.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    sets: u32,
    ways: usize,
    entries: Vec<Entry>,
}

impl Level {
    fn new((sets, ways): (u32, u32)) -> Self {
        let sets = sets.max(1).next_power_of_two();
        let ways = ways.max(1) as usize;
        Level { sets, ways, entries: vec![Entry::default(); sets as usize * ways] }
    }

    fn set(&self, key: u64) -> std::ops::Range<usize> {
        let first = (key & u64::from(self.sets - 1)) as usize * self.ways;
        first..first + self.ways
    }

    fn find(&self, key: u64) -> Option<Translation> {
        let entry = self.entries[self.set(key)].iter().find(|e| e.matches(key))?;
        Some(Translation(entry.page))
    }

    /// Makes the page the most recent of its set, in place of itself or of the oldest.
    fn insert(&mut self, key: u64, page: Translation) {
        let range = self.set(key);
        let set = &mut self.entries[range];
        let way = set.iter().position(|e| e.matches(key)).unwrap_or(set.len() - 1);
        set[..=way].rotate_right(1);
        set[0] = Entry { tag: key, page: page.0 };
    }

    fn retain(&mut self, keep: impl Fn(Entry) -> bool) {
        for entry in &mut self.entries {
            if entry.tag != 0 && !keep(*entry) {
                *entry = Entry::default();
            }
        }
    }
}

const MICRO_ENTRIES: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Micro {
    /// Linear page number; all ones when free.
    page: u64,
    /// Physical address of the page.
    frame: u64,
    /// Mask of allowed accesses.
    allowed: u8,
}

const MICRO_FREE: Micro = Micro { page: u64::MAX, frame: 0, allowed: 0 };

/// A change that takes effect when the instruction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    /// Insert or touch in both levels.
    Fill { lin: u64, pcid: u16, is_code: bool, page: Translation },
    /// Shortcut for data.
    Micro(Micro),
}

/// Most notes of one instruction; further ones are lost, which costs another walk.
const NOTES_MAX: usize = 24;

/// Where a look-up found a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// In the first level, or noted by this instruction.
    First(Translation),
    /// In the second level.
    Second(Translation),
}

/// The TLBs of one cpu.
#[derive(Clone, Debug)]
pub struct Tlb {
    micro: Box<[Micro; MICRO_ENTRIES]>,
    data: Level,
    code: Level,
    second: Level,
    second_latency: u32,
    /// Sizes that may be present, one bit a [`PageSize`].
    sizes: u8,
    notes: [Note; NOTES_MAX],
    notes_len: usize,
    generation: u64,
    flushes: u64,
}

impl Tlb {
    /// Empty TLBs.
    #[must_use]
    pub fn new(sizes: TlbSizes) -> Self {
        Tlb {
            micro: Box::new([MICRO_FREE; MICRO_ENTRIES]),
            data: Level::new(sizes.data),
            code: Level::new(sizes.code),
            second: Level::new(sizes.second),
            second_latency: sizes.second_latency,
            sizes: 0,
            notes: [Note::Micro(MICRO_FREE); NOTES_MAX],
            notes_len: 0,
            generation: 0,
            flushes: 0,
        }
    }

    /// Physical address of `lin` if the micro-TLB has it with this right.
    #[must_use]
    #[inline(always)]
    pub fn micro(&self, lin: u64, access: Access) -> Option<u64> {
        let page = lin >> 12;
        let entry = &self.micro[page as usize & (MICRO_ENTRIES - 1)];
        (entry.page == page && entry.allowed >> access as u8 & 1 != 0)
            .then_some(entry.frame | lin & 0xfff)
    }

    /// Looks for the page of `lin`, in notes, first and second level.
    #[must_use]
    pub fn find(&self, lin: u64, pcid: u16, is_code: bool) -> Option<Hit> {
        for note in self.notes[..self.notes_len].iter().rev() {
            if let Note::Fill { lin: noted, page, .. } = note
                && noted >> page.size().shift() == lin >> page.size().shift()
            {
                return Some(Hit::First(*page));
            }
        }
        let first = if is_code { &self.code } else { &self.data };
        for level in [first, &self.second] {
            for size in [PageSize::Small, PageSize::Medium, PageSize::Huge, PageSize::Four] {
                if self.sizes >> size as u8 & 1 == 0 {
                    continue;
                }
                if let Some(page) = level.find(key(lin, size, pcid)) {
                    let is_first = std::ptr::eq(level, first);
                    return Some(if is_first { Hit::First(page) } else { Hit::Second(page) });
                }
            }
        }
        None
    }

    /// Cycles that a hit in the second level adds.
    #[must_use]
    pub const fn second_latency(&self) -> u32 {
        self.second_latency
    }

    /// Notes that a page was found by a walk or in the second level.
    pub fn note_fill(&mut self, lin: u64, pcid: u16, is_code: bool, page: Translation) {
        self.note(Note::Fill { lin, pcid, is_code, page });
    }

    /// Notes a shortcut for data accesses to write-back memory.
    pub fn note_micro(&mut self, lin: u64, physical: u64, allowed: u8, is_dirty: bool) {
        let allowed = if is_dirty { allowed } else { allowed & !WRITES };
        self.note(Note::Micro(Micro { page: lin >> 12, frame: physical & !0xfff, allowed }));
    }

    fn note(&mut self, note: Note) {
        if let Some(slot) = self.notes.get_mut(self.notes_len) {
            *slot = note;
            self.notes_len += 1;
        }
    }

    /// Forgets the notes: the instruction starts, or starts again.
    #[inline(always)]
    pub fn begin(&mut self) {
        self.notes_len = 0;
    }

    /// Carries the notes out: the instruction has ended.
    #[inline(always)]
    pub fn commit(&mut self) {
        if self.notes_len != 0 {
            self.carry_out();
        }
    }

    #[inline(never)]
    fn carry_out(&mut self) {
        for i in 0..self.notes_len {
            match self.notes[i] {
                Note::Micro(entry) => {
                    self.micro[entry.page as usize & (MICRO_ENTRIES - 1)] = entry;
                }
                Note::Fill { lin, pcid, is_code, page } => {
                    self.generation += 1;
                    self.sizes |= 1 << page.size() as u8;
                    let key = key(lin, page.size(), pcid);
                    if is_code {
                        self.code.insert(key, page);
                    } else {
                        self.data.insert(key, page);
                    }
                    self.second.insert(key, page);
                }
            }
        }
        self.notes_len = 0;
    }

    /// Grows with every change of the two levels.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// Grows with every flush: what depends on a translation compares it.
    #[must_use]
    #[inline(always)]
    pub const fn flushes(&self) -> u64 {
        self.flushes
    }

    fn flush(&mut self, keep: impl Fn(Entry) -> bool + Copy) {
        self.forget_shortcuts();
        self.data.retain(keep);
        self.code.retain(keep);
        self.second.retain(keep);
    }

    /// Forgets the micro-TLB and whatever compares [`Tlb::flushes`]: rights have changed, or the
    /// privilege level of a fetch.
    pub fn forget_shortcuts(&mut self) {
        self.notes_len = 0;
        self.generation += 1;
        self.flushes += 1;
        *self.micro = [MICRO_FREE; MICRO_ENTRIES];
    }

    /// Drops everything, global pages too.
    pub fn flush_all(&mut self) {
        self.flush(|_| false);
        self.sizes = 0;
    }

    /// Drops all but global pages, of one PCID or of all.
    pub fn flush_non_global(&mut self, pcid: Option<u16>) {
        self.flush(|e| {
            let is_other = pcid.is_some_and(|p| e.tag & PCID_MASK != u64::from(p) << PCID_AT);
            e.page & Translation::GLOBAL != 0 || is_other
        });
    }

    /// Drops the page of `lin` in one PCID, and with `with_global` in all when it is global.
    pub fn flush_page(&mut self, lin: u64, pcid: u16, with_global: bool) {
        self.flush(|e| {
            let page = Translation(e.page);
            let wanted = key(lin, page.size(), pcid);
            let is_exact = e.tag == wanted;
            let is_global = with_global && e.matches(wanted);
            !(is_exact || is_global)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(frame: u64, size: PageSize, is_global: bool) -> Translation {
        let rights =
            PageRights { is_writable: true, is_dirty: true, is_global, ..Default::default() };
        Translation::new(frame, size, rights)
    }

    fn fill(tlb: &mut Tlb, lin: u64, pcid: u16, page: Translation) {
        tlb.begin();
        tlb.note_fill(lin, pcid, false, page);
        tlb.commit();
    }

    #[test]
    fn notes_take_effect_at_the_end_and_are_seen_before() {
        let mut tlb = Tlb::new(TlbSizes::default());
        tlb.begin();
        let page = page(0x5000, PageSize::Small, false);
        tlb.note_fill(0x1234, 0, false, page);
        tlb.note_micro(0x1234, 0x5234, 0xff, true);
        assert_eq!(tlb.find(0x1ff8, 0, false), Some(Hit::First(page)));
        assert_eq!(tlb.micro(0x1234, Access::ReadSup), None);
        tlb.begin();
        assert_eq!(tlb.find(0x1ff8, 0, false), None);
        tlb.note_fill(0x1234, 0, false, page);
        tlb.note_micro(0x1234, 0x5234, 0xff, false);
        tlb.commit();
        assert_eq!(tlb.find(0x1ff8, 0, false), Some(Hit::First(page)));
        assert_eq!(tlb.micro(0x1238, Access::ReadSup), Some(0x5238));
        assert_eq!(tlb.micro(0x1238, Access::WriteSup), None, "clean page");
    }

    #[test]
    fn the_least_recent_way_goes_and_the_second_level_keeps_it() {
        let sizes = TlbSizes { data: (1, 2), code: (1, 1), second: (1, 4), second_latency: 7 };
        let mut tlb = Tlb::new(sizes);
        let at = |n: u64| page(n << 12, PageSize::Small, false);
        for n in [1, 2, 1, 3] {
            fill(&mut tlb, n << 12, 0, at(n));
        }
        assert_eq!(tlb.find(1 << 12, 0, false), Some(Hit::First(at(1))));
        assert_eq!(tlb.find(3 << 12, 0, false), Some(Hit::First(at(3))));
        assert_eq!(tlb.find(2 << 12, 0, false), Some(Hit::Second(at(2))));
    }

    #[test]
    fn flushes_respect_global_pages_and_pcids() {
        let mut tlb = Tlb::new(TlbSizes::default());
        let (plain, global) =
            (page(0x20_0000, PageSize::Medium, false), page(0x7000, PageSize::Small, true));
        fill(&mut tlb, 0x40_0000, 1, plain);
        fill(&mut tlb, 0x3000, 1, global);
        assert_eq!(tlb.find(0x40_1234, 2, false), None);
        assert_eq!(tlb.find(0x3000, 2, false), Some(Hit::First(global)), "any pcid");
        tlb.flush_non_global(Some(2));
        assert!(tlb.find(0x40_1234, 1, false).is_some());
        tlb.flush_non_global(None);
        assert!(tlb.find(0x40_1234, 1, false).is_none());
        assert!(tlb.find(0x3000, 1, false).is_some());
        tlb.flush_page(0x3fff, 5, true);
        assert!(tlb.find(0x3000, 1, false).is_none());
    }

    #[test]
    fn large_pages_translate_their_offset() {
        let huge = page(0x4000_0000, PageSize::Huge, false);
        assert_eq!(huge.physical(0xffff_8000_1234_5678), 0x4000_0000 | 0x1234_5678);
        assert_eq!(Translation::from_bits(huge.bits()), huge);
    }
}
