//! What LLC and home directories share: tables of lines, slabs of transactions, sets of nodes, the
//! sending of envelopes, and the busy lines of a stall report.
//!
//! Not here: any rule of the protocol. Tables are indexed by address and slabs by a number that
//! never leaves the node, so nothing that a result shows depends on a hash or on an allocation
//! (D4).

use emu_sim::{Chance, Key, LineAddr, LlcId, NodeRef, Phase};

use crate::msg::{Envelope, LineMsg, SnoopKind};
use crate::paths::Paths;
use crate::shadow::Data;

/// What occupies a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Occupant {
    /// Reads side by side, whose `Done` or forward is missing.
    Reads,
    /// A read served alone.
    Read,
    /// A write.
    Write,
    /// A flush.
    Flush,
    /// A snoop from the home.
    Snoop,
    /// An access at the home.
    Access,
}

/// A busy line, for the stall report (P4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyLine {
    /// Line.
    pub line: LineAddr,
    /// What occupies it.
    pub txn: Occupant,
    /// Who asked, unless several did.
    pub requester: Option<NodeRef>,
    /// When it arrived, in picoseconds.
    pub since_ps: u64,
    /// Nodes whose answer, `Done` or grant is missing.
    pub waiting_for: Vec<NodeRef>,
    /// Requests that wait behind it.
    pub queue: usize,
}

/// What a request wants of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Want {
    Read,
    Write,
    Flush,
    /// Touches the value at the home: a writer is reduced first, or every copy ends.
    AccessRead,
    AccessWrite,
}

impl Want {
    pub(crate) const fn occupant(self) -> Occupant {
        match self {
            Want::Read => Occupant::Read,
            Want::Write => Occupant::Write,
            Want::Flush => Occupant::Flush,
            Want::AccessRead | Want::AccessWrite => Occupant::Access,
        }
    }

    pub(crate) const fn msg(self) -> LineMsg {
        match self {
            Want::Read => LineMsg::Get { write: false },
            Want::Write => LineMsg::Get { write: true },
            Want::Flush => LineMsg::Flush,
            Want::AccessRead => LineMsg::Access { write: false },
            Want::AccessWrite => LineMsg::Access { write: true },
        }
    }

    pub(crate) const fn of_write(write: bool) -> Want {
        if write { Want::Write } else { Want::Read }
    }
}

/// The fields of an `Ack`, and its data.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answer {
    pub(crate) kept: bool,
    pub(crate) dirty: bool,
    pub(crate) watch: bool,
    pub(crate) forwarded: bool,
    pub(crate) data: Data,
}

impl Answer {
    pub(crate) const fn msg(self) -> LineMsg {
        let Answer { kept, dirty, watch, forwarded, .. } = self;
        LineMsg::Ack { kept, dirty, watch, forwarded }
    }
}

/// A snoop without a direct grant.
pub(crate) const fn snoop(kind: SnoopKind, grant_to: Option<LlcId>) -> LineMsg {
    LineMsg::Snoop { kind, grant_to }
}

/// What one `handle` works with.
pub(crate) struct Cx<'a> {
    pub(crate) now: u64,
    pub(crate) paths: &'a Paths,
    pub(crate) chance: Chance,
    pub(crate) out: &'a mut Vec<Envelope>,
}

/// The sending half of a node: its name and the count of its messages (K1).
#[derive(Clone, Debug)]
pub(crate) struct Sender {
    me: NodeRef,
    seq: u64,
}

impl Sender {
    pub(crate) const fn new(me: NodeRef) -> Self {
        Sender { me, seq: 0 }
    }

    /// Sends a message without data that arrives at `time`.
    pub(crate) fn send(
        &mut self,
        cx: &mut Cx<'_>,
        time: u64,
        to: NodeRef,
        line: LineAddr,
        msg: LineMsg,
    ) {
        self.send_data(cx, time, to, line, (msg, Data::default()));
    }

    /// Sends a message that arrives at `time`.
    pub(crate) fn send_data(
        &mut self,
        cx: &mut Cx<'_>,
        time: u64,
        to: NodeRef,
        line: LineAddr,
        (msg, data): (LineMsg, Data),
    ) {
        let source = self.me.rank();
        let phase = phase_of(&msg);
        // K4: equal edges are decided by a hash, else low ids would always win.
        let tie = if phase == Phase::Request { cx.chance.tie(line.0, time, source) } else { 0 };
        let key = Key { time, phase, tie, source, seq: self.seq };
        self.seq += 1;
        cx.out.push(Envelope { key, to, from: self.me, line, msg, data });
    }
}

/// Phase in which a message is handled (`engine.md` section 2).
#[must_use]
pub const fn phase_of(msg: &LineMsg) -> Phase {
    match msg {
        LineMsg::Grant(_) | LineMsg::FlushDone | LineMsg::AccessDone => Phase::Grant,
        LineMsg::Snoop { .. } => Phase::Snoop,
        // A Put goes before a later answer of its sender (L8), hence in one phase with it.
        LineMsg::Ack { .. } | LineMsg::Done | LineMsg::Put { .. } => Phase::Answer,
        LineMsg::Get { .. } | LineMsg::Flush | LineMsg::Access { .. } => Phase::Request,
    }
}

/// Pages under one entry of the upper level.
const LEAF_PAGES: usize = 128;
/// Leaves of a branch: 4 GiB. The addresses of 52 bits have a million branches.
const BRANCH_LEAVES: usize = 1 << 13;

type Leaf<P> = Box<[Option<Box<P>>]>;

/// State by page of lines: three levels, grown by touch, so that an idle gigabyte costs 16 KiB, and
/// an address far beyond memory, which a guest can name, no more than the way to it.
#[derive(Clone, Debug)]
pub(crate) struct PageTable<P> {
    branches: Vec<Vec<Option<Leaf<P>>>>,
}

impl<P> Default for PageTable<P> {
    fn default() -> Self {
        PageTable { branches: Vec::new() }
    }
}

impl<P> PageTable<P> {
    /// The page of a line, if anything was ever recorded in it.
    pub(crate) fn get(&self, line: LineAddr) -> Option<&P> {
        let page = line.page() as usize;
        let leaf = page / LEAF_PAGES;
        let branch = self.branches.get(leaf / BRANCH_LEAVES)?;
        branch.get(leaf % BRANCH_LEAVES)?.as_ref()?[page % LEAF_PAGES].as_deref()
    }

    /// Every page of lines in which something was recorded, with its first line, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (LineAddr, &P)> {
        let leaves = self.branches.iter().enumerate().flat_map(|(branch, leaves)| {
            leaves.iter().enumerate().map(move |(n, leaf)| (branch * BRANCH_LEAVES + n, leaf))
        });
        let pages = leaves.flat_map(|(leaf, pages)| {
            let pages = pages.iter().flatten().enumerate();
            pages.map(move |(n, page)| (leaf * LEAF_PAGES + n, page))
        });
        pages.filter_map(|(n, page)| Some((LineAddr(64 * n as u64), page.as_deref()?)))
    }

    /// The page of a line, made at the first touch.
    pub(crate) fn get_or_make(&mut self, line: LineAddr, make: impl FnOnce() -> P) -> &mut P {
        let page = line.page() as usize;
        let leaf = page / LEAF_PAGES;
        let branch = grown(&mut self.branches, leaf / BRANCH_LEAVES);
        let leaf = grown(branch, leaf % BRANCH_LEAVES)
            .get_or_insert_with(|| (0..LEAF_PAGES).map(|_| None).collect::<Leaf<P>>());
        leaf[page % LEAF_PAGES].get_or_insert_with(|| Box::new(make()))
    }
}

/// The entry at an index, with as many empty ones before it as that takes.
fn grown<T: Default>(entries: &mut Vec<T>, index: usize) -> &mut T {
    if index >= entries.len() {
        entries.resize_with(index + 1, T::default);
    }
    &mut entries[index]
}

/// No transaction: the value of a line's slab index.
pub(crate) const IDLE: u32 = u32::MAX;

/// Active transactions: entries are reused, so their queues keep their room.
#[derive(Clone, Debug)]
pub(crate) struct Slab<T> {
    entries: Vec<T>,
    is_live: Vec<bool>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { entries: Vec::new(), is_live: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Index of a free entry; the caller sets it up.
    pub(crate) fn take(&mut self, make: impl FnOnce() -> T) -> u32 {
        if let Some(i) = self.free.pop() {
            self.is_live[i as usize] = true;
            return i;
        }
        self.entries.push(make());
        self.is_live.push(true);
        (self.entries.len() - 1) as u32
    }

    pub(crate) fn give_back(&mut self, i: u32) {
        self.is_live[i as usize] = false;
        self.free.push(i);
    }

    pub(crate) fn at(&self, i: u32) -> &T {
        &self.entries[i as usize]
    }

    pub(crate) fn at_mut(&mut self, i: u32) -> &mut T {
        &mut self.entries[i as usize]
    }

    pub(crate) fn live(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.entries.iter().zip(&self.is_live).filter(|(_, live)| **live).map(|(t, _)| t)
    }
}

/// Sets of LLCs, one bit each.
pub(crate) mod set {
    pub(crate) fn has(words: &[u64], i: u32) -> bool {
        words[(i / 64) as usize] >> (i % 64) & 1 == 1
    }

    pub(crate) fn put(words: &mut [u64], i: u32) {
        words[(i / 64) as usize] |= 1 << (i % 64);
    }

    pub(crate) fn take(words: &mut [u64], i: u32) {
        words[(i / 64) as usize] &= !(1 << (i % 64));
    }

    pub(crate) fn clear(words: &mut [u64]) {
        words.fill(0);
    }

    pub(crate) fn is_empty(words: &[u64]) -> bool {
        words.iter().all(|w| *w == 0)
    }

    /// Whether the set holds a member other than `i`.
    pub(crate) fn has_other(words: &[u64], i: u32) -> bool {
        words.iter().enumerate().any(|(n, w)| {
            let own = if n as u32 == i / 64 { 1 << (i % 64) } else { 0 };
            w & !own != 0
        })
    }

    pub(crate) fn members(words: &[u64]) -> impl Iterator<Item = u32> + '_ {
        words.iter().enumerate().flat_map(|(n, w)| {
            let mut rest = *w;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros();
                rest &= rest - 1;
                Some(n as u32 * 64 + bit)
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_table_grows_by_touch() {
        let mut t = PageTable::<[u8; 64]>::default();
        let far = LineAddr(1 << 30);
        assert!(t.get(far).is_none());
        t.get_or_make(far, || [7; 64])[3] = 9;
        assert_eq!(t.get(LineAddr(far.0 + 3)).map(|p| p[3]), Some(9));
        assert!(t.get(LineAddr(0)).is_none());
        let last = LineAddr((1 << 46) - 1);
        t.get_or_make(last, || [5; 64]);
        let pages: Vec<u64> = t.iter().map(|(line, _)| line.0).collect();
        assert_eq!(pages, [far.0, last.0 - 63]);
        let leaves: usize = t.branches.iter().map(Vec::len).sum();
        assert!(t.branches.len() <= 1 << 20 && leaves <= 2 * BRANCH_LEAVES, "few for two pages");
    }

    #[test]
    fn sets_cross_words() {
        let mut s = vec![0; 3];
        for i in [0, 63, 64, 129] {
            set::put(&mut s, i);
        }
        assert_eq!(set::members(&s).collect::<Vec<_>>(), [0, 63, 64, 129]);
        set::take(&mut s, 64);
        assert!(!set::has(&s, 64) && set::has(&s, 129) && set::has_other(&s, 129));
        for i in [0, 63] {
            set::take(&mut s, i);
        }
        assert!(!set::has_other(&s, 129) && !set::is_empty(&s));
    }

    #[test]
    fn a_slab_reuses_entries() {
        let mut s = Slab::default();
        let (a, b) = (s.take(|| 'a'), s.take(|| 'b'));
        s.give_back(a);
        assert_eq!((s.live(), s.iter().copied().collect::<String>().as_str()), (1, "b"));
        assert_eq!(s.take(|| 'c'), a);
        assert_ne!(a, b);
    }
}
