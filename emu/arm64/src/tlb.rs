//! Translation look-aside buffers: two levels, set-associative, least recently used first out.
//!
//! In front stands a small direct-mapped *micro-TLB* of data pages, a host-side shortcut without a
//! latency of its own. Recency is kept as order of the ways, not as stamps (`engine.md` S2).
//!
//! An instruction that waits runs again from its start, and must then make the same requests in
//! the same order. So nothing here changes while an instruction runs: fills and touches are noted
//! and take effect when it ends ([`Tlb::commit`]); look-ups see the notes.
//!
//! Not modelled: caches of table descriptors (each walk loads all levels), separate arrays for
//! blocks (all sizes share the sets), the contiguous hint, touches by micro-TLB hits.

/// What an access wants, as a bit number in a mask of permissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// Read at EL1 or EL2.
    ReadPriv = 0,
    /// Write at EL1 or EL2.
    WritePriv = 1,
    /// Fetch at EL1 or EL2.
    ExecPriv = 2,
    /// Read with the rights of EL0.
    ReadUser = 3,
    /// Write with the rights of EL0.
    WriteUser = 4,
    /// Fetch at EL0.
    ExecUser = 5,
    /// Read at EL1 with PSTATE.PAN.
    ReadPan = 6,
    /// Write at EL1 with PSTATE.PAN.
    WritePan = 7,
}

impl Access {
    /// Whether it is a write.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self, Access::WritePriv | Access::WriteUser | Access::WritePan)
    }

    /// Whether it is a fetch.
    #[must_use]
    pub const fn is_fetch(self) -> bool {
        matches!(self, Access::ExecPriv | Access::ExecUser)
    }
}

/// Size of a page or block of the 4 KiB granule, by the level that maps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageSize {
    /// 4 KiB, level 3.
    Small = 0,
    /// 2 MiB, level 2.
    Medium = 1,
    /// 1 GiB, level 1.
    Huge = 2,
}

impl PageSize {
    /// Binary logarithm of the size in bytes.
    #[must_use]
    pub const fn shift(self) -> u32 {
        12 + 9 * self as u32
    }
}

/// A translation as the TLB and the step log keep it: frame of the *page* and its rights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation(u64);

impl Translation {
    const W: u64 = 1;
    const U: u64 = 2;
    const UXN: u64 = 4;
    const PXN: u64 = 8;
    const DIRTY: u64 = 16;
    const GLOBAL: u64 = 32;
    const DEVICE: u64 = 64;
    const SIZE_SHIFT: u32 = 7;
    const FRAME: u64 = 0x0000_ffff_ffff_f000;
    const ATTR_SHIFT: u32 = 48;

    /// A page at `frame`, which is aligned to `size`; `memory` is its `PAR_EL1` attribute byte and
    /// shareability, for AT.
    #[must_use]
    pub fn new(frame: u64, size: PageSize, rights: PageRights, memory: (u8, u8)) -> Self {
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        Translation(
            frame & Self::FRAME
                | flag(rights.is_writable, Self::W)
                | flag(rights.is_user, Self::U)
                | flag(rights.is_uxn, Self::UXN)
                | flag(rights.is_pxn, Self::PXN)
                | flag(rights.is_dirty, Self::DIRTY)
                | flag(rights.is_global, Self::GLOBAL)
                | flag(rights.is_device, Self::DEVICE)
                | (size as u64) << Self::SIZE_SHIFT
                | u64::from(memory.0) << Self::ATTR_SHIFT
                | u64::from(memory.1 & 3) << (Self::ATTR_SHIFT + 8),
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
            _ => PageSize::Huge,
        }
    }

    /// Physical address of `va` in this page.
    #[must_use]
    pub const fn physical(self, va: u64) -> u64 {
        let mask = (1 << self.size().shift()) - 1;
        self.0 & Self::FRAME & !mask | va & mask
    }

    /// Attribute byte and shareability as `PAR_EL1` shows them.
    #[must_use]
    pub const fn memory(self) -> (u8, u8) {
        ((self.0 >> Self::ATTR_SHIFT) as u8, (self.0 >> (Self::ATTR_SHIFT + 8) & 3) as u8)
    }

    /// Rights of the page.
    #[must_use]
    pub const fn rights(self) -> PageRights {
        PageRights {
            is_writable: self.0 & Self::W != 0,
            is_user: self.0 & Self::U != 0,
            is_uxn: self.0 & Self::UXN != 0,
            is_pxn: self.0 & Self::PXN != 0,
            is_dirty: self.0 & Self::DIRTY != 0,
            is_global: self.0 & Self::GLOBAL != 0,
            is_device: self.0 & Self::DEVICE != 0,
        }
    }
}

/// Rights of a page: those of all levels of the walk together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageRights {
    /// All levels allow writes.
    pub is_writable: bool,
    /// All levels allow EL0.
    pub is_user: bool,
    /// A level forbids fetches by EL0.
    pub is_uxn: bool,
    /// A level forbids fetches by EL1.
    pub is_pxn: bool,
    /// Writes need no update of the descriptor.
    pub is_dirty: bool,
    /// Same for all ASIDs.
    pub is_global: bool,
    /// Device memory: accesses must be aligned.
    pub is_device: bool,
}

impl PageRights {
    /// Mask of the accesses that are allowed, one bit an [`Access`]. The dirty state is not asked.
    ///
    /// Source: \[ArmARM\] "Data access permissions", "Instruction execution permissions": "If the
    /// region is writable at EL0 it is not executable at EL1", "WXN". Status: spec.
    #[must_use]
    pub const fn allowed(self, wxn: bool) -> u8 {
        let user_write = self.is_user && self.is_writable;
        let exec_user = !(self.is_uxn || wxn && user_write);
        let exec_priv = !(self.is_pxn || user_write || wxn && self.is_writable);
        1 << Access::ReadPriv as u8
            | (self.is_writable as u8) << Access::WritePriv as u8
            | (exec_priv as u8) << Access::ExecPriv as u8
            | (self.is_user as u8) << Access::ReadUser as u8
            | (user_write as u8) << Access::WriteUser as u8
            | (exec_user as u8) << Access::ExecUser as u8
            | (!self.is_user as u8) << Access::ReadPan as u8
            | ((self.is_writable && !self.is_user) as u8) << Access::WritePan as u8
    }
}

/// Bits of a permission mask that are writes.
const WRITES: u8 =
    1 << Access::WritePriv as u8 | 1 << Access::WriteUser as u8 | 1 << Access::WritePan as u8;

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
const EL2: u64 = 1 << 62;
const SIZE_AT: u32 = 60;
const ASID_AT: u32 = 44;
const ASID_MASK: u64 = 0xffff << ASID_AT;
const VPN_MASK: u64 = (1 << ASID_AT) - 1;

/// Which translations an address is looked up in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Address space identifier.
    pub asid: u16,
    /// The regime of EL2, not that of EL1 and EL0.
    pub is_el2: bool,
}

/// Key of a page in a level.
fn key(va: u64, size: PageSize, space: Space) -> u64 {
    VALID
        | if space.is_el2 { EL2 } else { 0 }
        | (size as u64) << SIZE_AT
        | u64::from(space.asid) << ASID_AT
        | va >> size.shift() & VPN_MASK
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// 0 when free.
    tag: u64,
    page: u64,
}

impl Entry {
    fn matches(self, key: u64) -> bool {
        let any_asid = if self.page & Translation::GLOBAL != 0 { ASID_MASK } else { 0 };
        (self.tag ^ key) & !any_asid == 0
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
    /// Virtual page number; all ones when free.
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
    Fill { va: u64, space: Space, is_code: bool, page: Translation },
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

    /// Physical address of `va` if the micro-TLB has it with this right.
    #[must_use]
    #[inline(always)]
    pub fn micro(&self, va: u64, access: Access) -> Option<u64> {
        let page = va >> 12;
        let entry = &self.micro[page as usize & (MICRO_ENTRIES - 1)];
        (entry.page == page && entry.allowed >> access as u8 & 1 != 0)
            .then_some(entry.frame | va & 0xfff)
    }

    /// Looks for the page of `va`, in notes, first and second level.
    #[must_use]
    pub fn find(&self, va: u64, space: Space, is_code: bool) -> Option<Hit> {
        for note in self.notes[..self.notes_len].iter().rev() {
            if let Note::Fill { va: noted, page, .. } = note
                && noted >> page.size().shift() == va >> page.size().shift()
            {
                return Some(Hit::First(*page));
            }
        }
        let first = if is_code { &self.code } else { &self.data };
        for level in [first, &self.second] {
            for size in [PageSize::Small, PageSize::Medium, PageSize::Huge] {
                if self.sizes >> size as u8 & 1 == 0 {
                    continue;
                }
                if let Some(page) = level.find(key(va, size, space)) {
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
    pub fn note_fill(&mut self, va: u64, space: Space, is_code: bool, page: Translation) {
        self.note(Note::Fill { va, space, is_code, page });
    }

    /// Notes a shortcut for data accesses to write-back memory.
    pub fn note_micro(&mut self, va: u64, physical: u64, allowed: u8, is_dirty: bool) {
        let allowed = if is_dirty { allowed } else { allowed & !WRITES };
        self.note(Note::Micro(Micro { page: va >> 12, frame: physical & !0xfff, allowed }));
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
                Note::Fill { va, space, is_code, page } => {
                    self.generation += 1;
                    self.sizes |= 1 << page.size() as u8;
                    let key = key(va, page.size(), space);
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

    /// Forgets the micro-TLB and whatever compares [`Tlb::flushes`]: the address space or a control
    /// bit has changed.
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

    /// Drops what TLBI names.
    pub fn invalidate(&mut self, what: Invalidate) {
        self.flush(|e| !what.covers(e));
    }
}

/// What a TLBI drops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalidate {
    /// The whole regime of EL1 and EL0 (false) or of EL2 (true).
    Regime(bool),
    /// What is not global of one ASID.
    Asid(u16),
    /// Pages from `va` on, as many bytes, in one ASID and global; with `None` in every ASID.
    Range {
        /// First address.
        va: u64,
        /// Bytes.
        len: u64,
        /// Address space.
        asid: Option<u16>,
        /// The regime of EL2.
        is_el2: bool,
    },
}

/// Where the parts of an invalidation lie in the second word of its message; the first is `va`.
mod word {
    pub(super) const ASID_AT: u32 = 44;
    pub(super) const HAS_ASID: u64 = 1 << 60;
    pub(super) const EL2: u64 = 1 << 61;
    pub(super) const ASID: u64 = 1 << 62;
    pub(super) const RANGE: u64 = 1 << 63;
}

impl Invalidate {
    /// As the message to other cpus carries it.
    #[must_use]
    pub fn to_words(self) -> [u64; 2] {
        let flag = |is: bool, bit: u64| if is { bit } else { 0 };
        let at = |asid: u16| u64::from(asid) << word::ASID_AT;
        match self {
            Invalidate::Regime(is_el2) => [0, flag(is_el2, word::EL2)],
            Invalidate::Asid(asid) => [0, word::ASID | at(asid)],
            Invalidate::Range { va, len, asid, is_el2 } => {
                let asid = asid.map_or(0, |asid| word::HAS_ASID | at(asid));
                [va, word::RANGE | flag(is_el2, word::EL2) | asid | len]
            }
        }
    }

    /// The inverse of [`Invalidate::to_words`].
    #[must_use]
    pub fn from_words([va, word]: [u64; 2]) -> Invalidate {
        let is_el2 = word & word::EL2 != 0;
        let asid = (word >> word::ASID_AT) as u16;
        if word & word::RANGE != 0 {
            let len = word & ((1 << word::ASID_AT) - 1);
            let asid = (word & word::HAS_ASID != 0).then_some(asid);
            Invalidate::Range { va, len, asid, is_el2 }
        } else if word & word::ASID != 0 {
            Invalidate::Asid(asid)
        } else {
            Invalidate::Regime(is_el2)
        }
    }

    fn covers(self, entry: Entry) -> bool {
        let is_el2 = entry.tag & EL2 != 0;
        let is_global = entry.page & Translation::GLOBAL != 0;
        let of = |asid: u16| entry.tag & ASID_MASK == u64::from(asid) << ASID_AT;
        match self {
            Invalidate::Regime(wanted) => is_el2 == wanted,
            Invalidate::Asid(asid) => !is_el2 && !is_global && of(asid),
            Invalidate::Range { va, len, asid, is_el2: wanted } => {
                let shift = Translation(entry.page).size().shift();
                let (first, mask) = (entry.tag & VPN_MASK, VPN_MASK >> (shift - 12));
                let from = va >> shift & mask;
                let last = va.wrapping_add(len - 1) >> shift & mask;
                is_el2 == wanted
                    && (first & mask).wrapping_sub(from) & mask <= last.wrapping_sub(from) & mask
                    && (is_global || asid.is_none_or(of))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: Space = Space { asid: 1, is_el2: false };
    const SECOND: Space = Space { asid: 2, is_el2: false };

    fn page(frame: u64, size: PageSize, is_global: bool) -> Translation {
        let rights =
            PageRights { is_writable: true, is_dirty: true, is_global, ..Default::default() };
        Translation::new(frame, size, rights, (0xff, 3))
    }

    fn fill(tlb: &mut Tlb, va: u64, space: Space, page: Translation) {
        tlb.begin();
        tlb.note_fill(va, space, false, page);
        tlb.commit();
    }

    #[test]
    fn notes_take_effect_at_the_end_and_are_seen_before() {
        let mut tlb = Tlb::new(TlbSizes::default());
        tlb.begin();
        let page = page(0x5000, PageSize::Small, false);
        tlb.note_fill(0x1234, FIRST, false, page);
        tlb.note_micro(0x1234, 0x5234, 0xff, true);
        assert_eq!(tlb.find(0x1ff8, FIRST, false), Some(Hit::First(page)));
        assert_eq!(tlb.micro(0x1234, Access::ReadPriv), None);
        tlb.begin();
        assert_eq!(tlb.find(0x1ff8, FIRST, false), None);
        tlb.note_fill(0x1234, FIRST, false, page);
        tlb.note_micro(0x1234, 0x5234, 0xff, false);
        tlb.commit();
        assert_eq!(tlb.find(0x1ff8, FIRST, false), Some(Hit::First(page)));
        assert_eq!(tlb.micro(0x1238, Access::ReadPriv), Some(0x5238));
        assert_eq!(tlb.micro(0x1238, Access::WritePriv), None, "clean page");
    }

    #[test]
    fn invalidations_cover_what_they_name() {
        let upper = 0xffff_0000_4000_0000;
        let all = |tlb: &Tlb| {
            [(0x40_0000, FIRST), (0x3000, FIRST), (0x3000, SECOND), (upper, FIRST)]
                .map(|(va, space)| tlb.find(va, space, false).is_some())
        };
        let ranged = |va, len, asid| Invalidate::Range { va, len, asid, is_el2: false };
        let table = [
            (Invalidate::Regime(true), [true; 4]),
            (Invalidate::Regime(false), [false; 4]),
            (Invalidate::Asid(1), [false, false, true, true]),
            (Invalidate::Asid(2), [true, true, false, true]),
            (ranged(0x3000, 0x1000, Some(1)), [true, false, true, true]),
            (ranged(0x3000, 0x1000, None), [true, false, false, true]),
            (ranged(0x5f_f000, 0x1000, Some(1)), [false, true, true, true]),
            (ranged(upper, 0x1000, Some(7)), [true, true, true, false]),
            (ranged(0x2000, 0x40_0000, None), [false, false, false, true]),
        ];
        for (what, left) in table {
            let what = Invalidate::from_words(what.to_words());
            let mut tlb = Tlb::new(TlbSizes::default());
            fill(&mut tlb, 0x40_0000, FIRST, page(0x20_0000, PageSize::Medium, false));
            fill(&mut tlb, 0x3000, FIRST, page(0x7000, PageSize::Small, false));
            fill(&mut tlb, 0x3000, SECOND, page(0x8000, PageSize::Small, false));
            fill(&mut tlb, upper, SECOND, page(0x4000_0000, PageSize::Huge, true));
            assert_eq!(all(&tlb), [true; 4]);
            tlb.invalidate(what);
            assert_eq!(all(&tlb), left, "{what:?}");
        }
    }

    #[test]
    fn large_pages_translate_their_offset() {
        let huge = page(0x4000_0000, PageSize::Huge, false);
        assert_eq!(huge.physical(0xffff_8000_1234_5678), 0x4000_0000 | 0x1234_5678);
        assert_eq!(Translation::from_bits(huge.bits()), huge);
        assert_eq!(huge.memory(), (0xff, 3));
    }

    #[test]
    fn rights_follow_the_tables_of_the_manual() {
        use Access::{
            ExecPriv, ExecUser, ReadPan, ReadPriv, ReadUser, WritePan, WritePriv, WriteUser,
        };
        let base = [ReadPriv, ExecPriv, ExecUser];
        // user, writable, uxn, pxn, wxn; allowed.
        let table: [([bool; 5], &[Access]); 8] = [
            ([false, false, false, false, false], &[ReadPan]),
            ([false, true, false, false, false], &[ReadPan, WritePriv, WritePan]),
            ([true, false, false, false, false], &[ReadUser]),
            ([true, true, false, false, false], &[ReadUser, WritePriv, WriteUser]),
            ([false, false, true, true, false], &[ReadPan]),
            ([false, true, false, false, true], &[ReadPan, WritePriv, WritePan]),
            ([true, true, false, false, true], &[ReadUser, WritePriv, WriteUser]),
            ([true, false, true, false, true], &[ReadUser]),
        ];
        for ([is_user, is_writable, is_uxn, is_pxn, wxn], more) in table {
            let rights = PageRights { is_user, is_writable, is_uxn, is_pxn, ..Default::default() };
            let mut expected: u8 = more.iter().chain(&base).map(|a| 1 << *a as u8).sum();
            if is_uxn || wxn && is_user && is_writable {
                expected &= !(1 << ExecUser as u8);
            }
            if is_pxn || is_user && is_writable || wxn && is_writable {
                expected &= !(1 << ExecPriv as u8);
            }
            assert_eq!(rights.allowed(wxn), expected, "{rights:?} wxn={wxn}");
        }
    }
}
