//! LLC: tags and directory of one last-level cache, between its cores and the homes.
//!
//! Towards its cores it is a home; towards a home it is a holder (L9). A line's record says what
//! the home has granted (`up`), which core may write (`owner`), which cores may read or watch
//! (`sharers`), and whether the tags hold the data. Between transactions:
//!
//! - nothing granted: no data, no owner; a sharer left is a watch only (W3);
//! - an owner: `up` may write, no sharer, no data (they would be stale);
//! - `up` owns the line (O, E, M): the data are here or with the owner. An LLC that cannot keep
//!   them gives the line up with a `Put`, and stays a sharer for its cores' readable copies.
//!
//! Local requests of a line are served first in, first out: reads from the tags side by side,
//! their `Done`s counted; everything else alone, in up to three stages:
//!
//! | stage | waits for | a snoop from the home meanwhile |
//! |---|---|---|
//! | `Up` | the home's grant or `FlushDone` | served at once |
//! | `Acks` | answers of local cores | waits for the end of the local transaction |
//! | `Core` | `Done` of the granted core | waits for the end of the local transaction |
//!
//! **No deadlock** (P2). `Acks`, `Core` and reads side by side need only local cores, which answer
//! at once or after a fixed hold (L3, L4). A snoop that waits for them goes before all queued local
//! requests, so it is answered in bounded time and never waits for a request upwards (L9). `Up`
//! needs the home, which waits for nobody that waits for us. Local copies are ended after the
//! grant from above, not before: a snoop may take the line in between, and then ending them first
//! would have been in vain.
//!
//! **Races with the home.** While a snoop of ours is unanswered the home serves another request of
//! the line alone, so our own is not granted (asserted): except reads beside an owner in O. Those
//! snoops need no local core, since an owner in O has no local writer and holds the data, and are
//! answered as they come, in any stage. `Put` and a snoop may cross: the home ignores the `Put` of
//! a busy line, and the answer says what is left (L7).
//!
//! Not modelled: capacity of the directory (lines stay recorded, no back-invalidation), banks (one
//! service time per LLC), prefetchers, the fill of the tags as a separate step in time.

use std::collections::VecDeque;

use emu_sim::mutant::Mutant;
use emu_sim::{Chance, CoreId, LineAddr, LlcId, NodeRef, PhysAddr};

use crate::directory::{
    Answer, BusyLine, Cx, IDLE, Occupant, PageTable, Sender, Slab, Want, snoop,
};
use crate::llc_tags::{Fill, LlcTags};
use crate::msg::{Envelope, LineMsg, Perm, SnoopKind};
use crate::paths::Paths;
use crate::shadow::{Copies, Data};

/// Most cores of one LLC: its sharer sets are this wide.
pub const CORES_PER_LLC_MAX: usize = 128;
const NOBODY: u8 = u8::MAX;

/// What an LLC counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LlcCounters {
    /// Requests of cores to read.
    pub get_s: u64,
    /// Requests of cores to write.
    pub get_m: u64,
    /// Flushes by cores.
    pub flushes: u64,
    /// Requests that the LLC served without the home.
    pub local_hits: u64,
    /// Requests sent to the home.
    pub up_requests: u64,
    /// Those to write that held a readable copy.
    pub upgrades: u64,
    /// Snoops sent to cores.
    pub snoops_sent: u64,
    /// Invalidations among them.
    pub invs_sent: u64,
    /// Snoops from homes.
    pub snoops: u64,
    /// Grants sent straight to another LLC.
    pub hand_overs: u64,
    /// Puts of cores that ended an ownership.
    pub puts: u64,
    /// Puts of cores from other than the owner, or on a busy line (L7).
    pub puts_ignored: u64,
    /// Lines that left the tags for another.
    pub evictions: u64,
    /// Puts sent to homes.
    pub puts_sent: u64,
    /// Fills that found every way busy.
    pub fills_refused: u64,
    /// Longest queue of a line.
    pub queue_max: u64,
    /// Most reads of one line side by side.
    pub reads_max: u64,
}

/// What the home has granted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Up {
    /// Nothing.
    #[default]
    None,
    /// S.
    Read,
    /// O: read, and the home sends other readers here.
    Owned,
    /// E.
    Exclusive,
    /// M.
    Modified,
}

impl Up {
    /// Whether a local core may be made the writer.
    #[must_use]
    pub const fn can_write(self) -> bool {
        matches!(self, Up::Exclusive | Up::Modified)
    }

    /// Whether the home records the LLC as owner.
    #[must_use]
    pub const fn is_owner(self) -> bool {
        matches!(self, Up::Owned | Up::Exclusive | Up::Modified)
    }
}

/// Record of one line, for reports and for comparison at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LlcRecord {
    /// What the home has granted.
    pub up: Up,
    /// Core that may write.
    pub owner: Option<CoreId>,
    /// Cores that may have a readable copy or an armed watch.
    pub sharers: Vec<CoreId>,
    /// The tags hold the data.
    pub has_data: bool,
    /// The data differ from memory.
    pub is_dirty: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Line {
    sharers: [u64; 2],
    txn: u32,
    up: Up,
    owner: u8,
    has_data: bool,
    is_dirty: bool,
}

const UNTOUCHED: Line = Line {
    sharers: [0; 2],
    txn: IDLE,
    up: Up::None,
    owner: NOBODY,
    has_data: false,
    is_dirty: false,
};

impl Line {
    const fn sharers(&self) -> u128 {
        (self.sharers[1] as u128) << 64 | self.sharers[0] as u128
    }

    const fn set_sharers(&mut self, s: u128) {
        self.sharers = [s as u64, (s >> 64) as u64];
    }

    /// All that a local core may hold: sharers and the owner.
    const fn copies(&self) -> u128 {
        self.sharers() | if self.owner == NOBODY { 0 } else { bit(self.owner) }
    }
}

#[derive(Clone, Copy, Debug, Hash)]
struct Request {
    place: u8,
    want: Want,
    arrival: u64,
    /// Served by the slice and looked up.
    ready: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Stage {
    Up,
    Acks,
    Core,
}

/// The local request that is served alone.
#[derive(Clone, Copy, Debug, Hash)]
struct Active {
    req: Request,
    stage: Stage,
}

/// The snoop of the home.
#[derive(Clone, Copy, Debug, Hash)]
struct FromHome {
    kind: SnoopKind,
    grant_to: Option<LlcId>,
    arrival: u64,
    ready: u64,
    /// Local cores have been asked.
    is_started: bool,
}

#[derive(Clone, Debug)]
struct Txn {
    line: LineAddr,
    active: Option<Active>,
    snoop: Option<FromHome>,
    /// Places whose answer is missing: to the snoop if it is started, else to the active request.
    acks: u128,
    /// Places whose `Done` for a read side by side is missing.
    reads: u128,
    reads_since: u64,
    /// No message of this line leaves before this time, so that none overtakes another (L8).
    floor: u64,
    queue: VecDeque<Request>,
}

/// An LLC.
#[derive(Clone, Debug)]
pub struct Llc {
    id: LlcId,
    sender: Sender,
    pages: PageTable<[Line; 64]>,
    tags: LlcTags,
    txns: Slab<Txn>,
    free_at: u64,
    counters: LlcCounters,
    /// Bytes of the data in the tags or in a transaction, in shadow mode.
    shadow: Copies,
}

const fn bit(place: u8) -> u128 {
    1 << place
}

fn members(mut set: u128) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let place = set.trailing_zeros() as u8;
        set &= set - 1;
        Some(place)
    })
}

impl Llc {
    /// An empty LLC of a machine with these paths.
    #[must_use]
    pub fn new(id: LlcId, paths: &Paths) -> Self {
        let cores = paths.cores_of_llc[id.index()].len();
        assert!(cores <= CORES_PER_LLC_MAX, "{id} has {cores} cores");
        let (sets, ways) = paths.llc_geometry[id.index()];
        Llc {
            id,
            sender: Sender::new(NodeRef::Llc(id)),
            pages: PageTable::default(),
            tags: LlcTags::new(sets, ways),
            txns: Slab::default(),
            free_at: 0,
            counters: LlcCounters::default(),
            shadow: Copies::default(),
        }
    }

    /// Handles one message; what it causes is appended to `out`.
    pub fn handle(&mut self, e: &Envelope, paths: &Paths, chance: Chance, out: &mut Vec<Envelope>) {
        let mut cx = Cx { now: e.key.time, paths, chance, out };
        let line = e.line;
        match (e.from, e.msg) {
            (NodeRef::Core(core), msg) => {
                let place = self.place(paths, core);
                self.handle_core(&mut cx, place, line, (msg, e.data));
            }
            (NodeRef::Home(_) | NodeRef::Llc(_), LineMsg::Grant(perm)) => {
                self.shadow.put(line, e.data.when(!self.line(line).has_data));
                self.granted(&mut cx, line, perm);
            }
            (NodeRef::Home(_), LineMsg::Snoop { kind, grant_to }) => {
                self.snooped(&mut cx, line, kind, grant_to);
            }
            (NodeRef::Home(_), LineMsg::FlushDone) => self.flushed(&mut cx, line),
            (from, msg) => panic!("{} got {msg:?} from {from:?}", self.id),
        }
    }

    fn handle_core(
        &mut self,
        cx: &mut Cx<'_>,
        place: u8,
        line: LineAddr,
        (msg, data): (LineMsg, Data),
    ) {
        // Only the recorded owner's data are newer than what is here.
        self.shadow.put(line, data.when(self.line(line).owner == place));
        match msg {
            LineMsg::Get { write } => self.request(cx, place, line, Want::of_write(write)),
            LineMsg::Flush => self.request(cx, place, line, Want::Flush),
            LineMsg::Put { dirty, watch } => self.put(cx, place, line, dirty, watch),
            LineMsg::Ack { kept, dirty, watch, forwarded } => {
                self.acked(cx, place, line, Answer { kept, dirty, watch, forwarded, data });
            }
            LineMsg::Done => self.done(cx, place, line),
            LineMsg::Grant(_)
            | LineMsg::Snoop { .. }
            | LineMsg::FlushDone
            | LineMsg::Access { .. }
            | LineMsg::AccessDone => panic!("{} got {msg:?} from a core", self.id),
        }
    }

    /// Evicts a line's data from the tags as a fill would, unless the line is busy or absent.
    pub fn evict(
        &mut self,
        line: LineAddr,
        now_ps: u64,
        paths: &Paths,
        chance: Chance,
        out: &mut Vec<Envelope>,
    ) {
        let l = self.line(line);
        if l.has_data && l.txn == IDLE {
            self.tags.remove(line);
            self.evicted(&mut Cx { now: now_ps, paths, chance, out }, line);
        }
    }

    /// Gives up all data, as far as lines are idle: the LLC loses its power.
    pub fn flush(&mut self, now_ps: u64, paths: &Paths, chance: Chance, out: &mut Vec<Envelope>) {
        for line in self.tags.lines() {
            self.evict(line, now_ps, paths, chance, out);
        }
    }

    /// Identity.
    #[must_use]
    pub const fn id(&self) -> LlcId {
        self.id
    }

    /// Whether the record allows that a core of this LLC holds `perm` on the line, or watches it.
    #[must_use]
    pub fn knows(&self, line: LineAddr, core: CoreId, perm: Option<Perm>, paths: &Paths) -> bool {
        let (l, place) = (self.line(line), self.place(paths, core));
        match perm {
            None => l.copies() & bit(place) != 0,
            Some(Perm::Read) => l.copies() & bit(place) != 0 && l.up != Up::None,
            Some(_) => l.owner == place && l.up.can_write(),
        }
    }

    /// Every line that a home has granted to this LLC, ascending, with what was granted.
    pub fn granted_lines(&self) -> impl Iterator<Item = (LineAddr, Up)> {
        let lines = self.pages.iter().flat_map(|(first, page)| {
            page.iter().enumerate().map(move |(n, l)| (LineAddr(first.0 + n as u64), l.up))
        });
        lines.filter(|(_, up)| *up != Up::None)
    }

    /// Whether no transaction is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.txns.live() == 0
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> &LlcCounters {
        &self.counters
    }

    /// Lines with a transaction under way, by address.
    #[must_use]
    pub fn busy_lines(&self, paths: &Paths) -> Vec<BusyLine> {
        let core = |p| NodeRef::Core(paths.cores_of_llc[self.id.index()][usize::from(p)]);
        let report = |t: &Txn| {
            let mut waiting_for: Vec<NodeRef> = members(t.acks | t.reads).map(core).collect();
            let (txn, requester, since_ps) = match (t.snoop, t.active) {
                (Some(s), _) if s.is_started || t.active.is_none() => {
                    let home = NodeRef::Home(paths.home_of(t.line.base()));
                    (Occupant::Snoop, Some(home), s.arrival)
                }
                (_, Some(a)) => {
                    match a.stage {
                        Stage::Up => {
                            waiting_for.push(NodeRef::Home(paths.home_of(t.line.base())));
                        }
                        Stage::Core => waiting_for.push(core(a.req.place)),
                        Stage::Acks => {}
                    }
                    (a.req.want.occupant(), Some(core(a.req.place)), a.req.arrival)
                }
                _ => (Occupant::Reads, None, t.reads_since),
            };
            BusyLine { line: t.line, txn, requester, since_ps, waiting_for, queue: t.queue.len() }
        };
        let mut lines: Vec<BusyLine> = self.txns.iter().map(report).collect();
        lines.sort_by_key(|b| b.line);
        lines
    }

    /// The record of a line.
    #[must_use]
    pub fn record(&self, line: LineAddr, paths: &Paths) -> LlcRecord {
        let l = self.line(line);
        let core = |p: u8| paths.cores_of_llc[self.id.index()][usize::from(p)];
        LlcRecord {
            up: l.up,
            owner: (l.owner != NOBODY).then(|| core(l.owner)),
            sharers: members(l.sharers()).map(core).collect(),
            has_data: l.has_data,
            is_dirty: l.is_dirty,
        }
    }

    // Requests of cores

    fn request(&mut self, cx: &mut Cx<'_>, place: u8, line: LineAddr, want: Want) {
        match want {
            Want::Read => self.counters.get_s += 1,
            Want::Write => self.counters.get_m += 1,
            Want::Flush => self.counters.flushes += 1,
            // Only homes serve these.
            Want::AccessRead | Want::AccessWrite => {}
        }
        let start = cx.now.max(self.free_at);
        self.free_at = start + cx.paths.llc_service;
        let ready = start + cx.paths.llc_lookup;
        let t = self.txn_of(line);
        let queue = &mut self.txns.at_mut(t).queue;
        queue.push_back(Request { place, want, arrival: cx.now, ready });
        self.counters.queue_max = self.counters.queue_max.max(queue.len() as u64);
        self.advance(cx, t);
    }

    /// Starts what may start: the home's snoop first (L9), then local requests in order. Frees the
    /// transaction when nothing is left.
    fn advance(&mut self, cx: &mut Cx<'_>, t: u32) {
        loop {
            let txn = self.txns.at(t);
            let is_quiet = txn.reads == 0;
            if let Some(s) = txn.snoop {
                let needs_nobody_above = txn.active.is_some_and(|a| a.stage != Stage::Up);
                if s.is_started || needs_nobody_above || !is_quiet {
                    return;
                }
                self.start_snoop(cx, t);
                continue;
            }
            if txn.active.is_some() {
                return;
            }
            let Some(req) = txn.queue.front().copied() else { break };
            let beside = req.want == Want::Read && self.may_read_beside(t, req.place);
            if !beside && !is_quiet {
                return;
            }
            self.txns.at_mut(t).queue.pop_front();
            if beside {
                self.counters.local_hits += 1;
                self.start_beside(cx, t, req);
            } else {
                self.start_alone(cx, t, req);
            }
        }
        if self.txns.at(t).reads == 0 {
            self.settle(cx, t);
        }
    }

    /// A read that the tags serve and that gets no E.
    fn may_read_beside(&self, t: u32, place: u8) -> bool {
        let txn = self.txns.at(t);
        let l = self.line(txn.line);
        l.up != Up::None
            && l.has_data
            && txn.reads & bit(place) == 0
            && !self.may_be_exclusive(t, place, 1)
    }

    /// E only without another local copy or watch, a read under way, or a read that waits (L2).
    fn may_be_exclusive(&self, t: u32, place: u8, skip: usize) -> bool {
        let txn = self.txns.at(t);
        let l = self.line(txn.line);
        l.up.can_write()
            && l.copies() & !bit(place) == 0
            && txn.reads == 0
            && !txn.queue.iter().skip(skip).any(|r| r.want == Want::Read)
    }

    fn start_beside(&mut self, cx: &mut Cx<'_>, t: u32, req: Request) {
        let txn = self.txns.at_mut(t);
        let line = txn.line;
        let base = cx.now.max(req.ready).max(txn.floor);
        if txn.reads == 0 {
            txn.reads_since = req.arrival;
        }
        txn.reads |= bit(req.place);
        let reads = u64::from(txn.reads.count_ones());
        self.counters.reads_max = self.counters.reads_max.max(reads);
        self.tags.touch(line);
        let l = self.line_mut(line);
        l.set_sharers(l.sharers() | bit(req.place));
        self.grant(cx, base, req.place, line, Perm::Read);
    }

    fn start_alone(&mut self, cx: &mut Cx<'_>, t: u32, req: Request) {
        let txn = self.txns.at_mut(t);
        let line = txn.line;
        let base = cx.now.max(req.ready).max(txn.floor);
        txn.active = Some(Active { req, stage: Stage::Up });
        let l = *self.line(line);
        let is_local = match req.want {
            Want::Read => l.owner != NOBODY || (l.has_data && l.up.can_write()),
            Want::Write => l.up.can_write(),
            Want::Flush | Want::AccessRead | Want::AccessWrite => false,
        };
        if !is_local {
            // An owner that had no room for the data asks for them again: they go back first.
            let gave_up = self.give_up_without_data(cx, line);
            let base = if gave_up { base.max(cx.now + cx.paths.llc_lookup) } else { base };
            return self.send_up(cx, base, line, req.want);
        }
        self.counters.local_hits += 1;
        match req.want {
            // L7: it has dropped E. The record stays, so nobody else can slip in.
            Want::Read if l.owner == req.place => self.grant_writer(cx, t, base),
            Want::Read if l.owner != NOBODY => {
                self.stage(t, Stage::Acks);
                self.txns.at_mut(t).acks = bit(l.owner);
                self.snoop_places(cx, base, line, bit(l.owner), SnoopKind::Share);
            }
            Want::Read => self.grant_writer(cx, t, base),
            _ => self.end_local_copies(cx, t, base),
        }
    }

    /// Ends all local copies but the writer's, which is then granted (L2).
    fn end_local_copies(&mut self, cx: &mut Cx<'_>, t: u32, base: u64) {
        let line = self.txns.at(t).line;
        let place = self.active(t).req.place;
        let others = self.line(line).copies() & !bit(place);
        if others == 0 {
            return self.grant_writer(cx, t, base);
        }
        self.snoop_places(cx, base, line, others, SnoopKind::Inv);
        if cx.paths.mutation.is(Mutant::EarlyGrant) {
            self.forget_copies(line, others);
            return self.grant_writer(cx, t, base);
        }
        self.stage(t, Stage::Acks);
        self.txns.at_mut(t).acks = others;
    }

    /// Makes the requester the writer: E for a read, M for a write.
    fn grant_writer(&mut self, cx: &mut Cx<'_>, t: u32, base: u64) {
        self.stage(t, Stage::Core);
        let line = self.txns.at(t).line;
        let Request { place, want, .. } = self.active(t).req;
        self.drop_data(line);
        let l = self.line_mut(line);
        assert!(l.up.can_write() && l.copies() & !bit(place) == 0, "second copy of {line}: {l:?}");
        l.owner = place;
        l.set_sharers(0);
        let perm = if want == Want::Read { Perm::Exclusive } else { Perm::Modified };
        if perm == Perm::Modified {
            l.up = Up::Modified;
        }
        self.grant(cx, base, place, line, perm);
        self.shadow.take(line);
    }

    /// A read that had to wait for answers or for the home: E if it may, else beside others.
    fn grant_reader(&mut self, cx: &mut Cx<'_>, t: u32) {
        let req = self.active(t).req;
        if self.may_be_exclusive(t, req.place, 0) {
            let floor = self.txns.at(t).floor;
            return self.grant_writer(cx, t, cx.now.max(floor));
        }
        let line = self.txns.at(t).line;
        self.fill(cx, line);
        self.txns.at_mut(t).active = None;
        self.start_beside(cx, t, Request { ready: 0, ..req });
    }

    // Answers of cores

    fn acked(&mut self, cx: &mut Cx<'_>, place: u8, line: LineAddr, answer: Answer) {
        if cx.paths.mutation.is(Mutant::EarlyGrant) && !self.awaits(line, place) {
            return;
        }
        let t = self.busy(line, "Ack");
        let txn = self.txns.at_mut(t);
        assert!(txn.acks & bit(place) != 0, "{}: stray Ack for {line}", self.id);
        txn.acks &= !bit(place);
        let is_last = txn.acks == 0;
        let (snoop, active) = (txn.snoop.filter(|s| s.is_started), txn.active);
        let kind = match (snoop, active) {
            (Some(s), _) => s.kind,
            (None, Some(a)) if a.req.want == Want::Read => SnoopKind::Share,
            _ => SnoopKind::Inv,
        };
        // An Inv leaves neither copy nor watch: it is what triggers the watch (W2).
        let is_left = match kind {
            SnoopKind::Share => answer.kept || answer.watch,
            SnoopKind::Flush => answer.watch,
            SnoopKind::Inv => false,
        };
        assert!(kind == SnoopKind::Share || !answer.kept, "{}: kept {line} after Inv", self.id);
        let l = self.line_mut(line);
        if l.owner == place {
            l.owner = NOBODY;
        }
        let others = l.sharers() & !bit(place);
        l.set_sharers(others | if is_left { bit(place) } else { 0 });
        l.is_dirty |= answer.dirty;
        if !is_last {
            return;
        }
        if kind == SnoopKind::Share && snoop.is_some() {
            self.fill(cx, line);
        }
        if snoop.is_some() {
            self.answer_home(cx, t);
        } else if kind == SnoopKind::Share {
            self.grant_reader(cx, t);
        } else {
            let floor = self.txns.at(t).floor;
            self.grant_writer(cx, t, cx.now.max(floor));
        }
        self.advance(cx, t);
    }

    fn done(&mut self, cx: &mut Cx<'_>, place: u8, line: LineAddr) {
        let t = self.busy(line, "Done");
        let txn = self.txns.at_mut(t);
        match txn.active {
            Some(a) if a.stage == Stage::Core && a.req.place == place => txn.active = None,
            _ => {
                assert!(txn.reads & bit(place) != 0, "{}: stray Done for {line}", self.id);
                txn.reads &= !bit(place);
            }
        }
        self.advance(cx, t);
    }

    /// Puts of the owner on an idle line end the ownership; others change no permission, since a
    /// snoop that is under way will find the line gone (L7).
    fn put(&mut self, cx: &mut Cx<'_>, place: u8, line: LineAddr, dirty: bool, watch: bool) {
        let l = *self.line(line);
        if l.owner != place || l.txn != IDLE {
            self.counters.puts_ignored += 1;
            // The data are on their way with the Put all the same.
            if l.up.can_write() {
                self.line_mut(line).is_dirty |= dirty;
            }
            return;
        }
        self.counters.puts += 1;
        let l = self.line_mut(line);
        l.owner = NOBODY;
        l.is_dirty |= dirty;
        if watch {
            l.set_sharers(bit(place));
        }
        self.fill(cx, line);
        self.give_up_without_data(cx, line);
        self.end_shadow(line);
        self.check(line);
    }

    // Messages of homes and of owner LLCs

    /// The home's grant: `Done` at once (L1), then the local transaction goes on.
    fn granted(&mut self, cx: &mut Cx<'_>, line: LineAddr, perm: Perm) {
        let t = self.busy(line, "Grant");
        let txn = self.txns.at(t);
        let is_expected = txn.active.is_some_and(|a| a.stage == Stage::Up)
            && !txn.snoop.is_some_and(|s| s.is_started);
        assert!(is_expected, "{}: stray Grant of {line}", self.id);
        let req = self.active(t).req;
        assert!(req.want == Want::Read || perm.can_write(), "{}: no write to {line}", self.id);
        let home = cx.paths.home_of(line.base());
        let at = cx.now + cx.paths.llc_home[self.id.index()][home.index()];
        self.sender.send(cx, at, NodeRef::Home(home), line, LineMsg::Done);
        let l = self.line_mut(line);
        (l.up, l.is_dirty) = match perm {
            Perm::Read => (Up::Read, false),
            // Granted again to the recorded owner: what was dirty still is.
            Perm::Exclusive => (Up::Exclusive, l.is_dirty && l.up.can_write()),
            // A line passed on by its writer is dirty already; else the store makes it so.
            Perm::Modified => (Up::Modified, true),
        };
        if req.want == Want::Read {
            self.grant_reader(cx, t);
        } else {
            let floor = self.txns.at(t).floor;
            self.end_local_copies(cx, t, cx.now.max(floor));
        }
        self.advance(cx, t);
    }

    fn flushed(&mut self, cx: &mut Cx<'_>, line: LineAddr) {
        let t = self.busy(line, "FlushDone");
        let txn = self.txns.at_mut(t);
        let active = txn.active.take();
        let Some(Active { req, stage: Stage::Up }) = active.filter(|a| a.req.want == Want::Flush)
        else {
            panic!("{}: stray FlushDone of {line}", self.id)
        };
        let core = cx.paths.cores_of_llc[self.id.index()][usize::from(req.place)];
        let at = cx.now.max(txn.floor) + cx.paths.llc_core[core.index()];
        self.sender.send(cx, at, NodeRef::Core(core), line, LineMsg::FlushDone);
        self.advance(cx, t);
    }

    fn snooped(
        &mut self,
        cx: &mut Cx<'_>,
        line: LineAddr,
        kind: SnoopKind,
        grant_to: Option<LlcId>,
    ) {
        self.counters.snoops += 1;
        let ready = cx.now + cx.paths.llc_lookup;
        let l = *self.line(line);
        if kind == SnoopKind::Share && !l.up.can_write() {
            let mut base = ready;
            if l.txn != IDLE {
                let txn = self.txns.at_mut(l.txn);
                base = base.max(txn.floor);
                txn.floor = base;
            }
            return self.answer_share(cx, base, line, grant_to);
        }
        let t = self.txn_of(line);
        let txn = self.txns.at_mut(t);
        assert!(txn.snoop.is_none(), "{}: two snoops of {line}", self.id);
        let arrival = cx.now;
        txn.snoop = Some(FromHome { kind, grant_to, arrival, ready, is_started: false });
        self.advance(cx, t);
    }

    fn start_snoop(&mut self, cx: &mut Cx<'_>, t: u32) {
        let txn = self.txns.at_mut(t);
        let (line, floor) = (txn.line, txn.floor);
        let Some(s) = &mut txn.snoop else { return };
        s.is_started = true;
        let (kind, base) = (s.kind, cx.now.max(s.ready).max(floor));
        let l = self.line(line);
        let asked = match kind {
            SnoopKind::Share if l.owner == NOBODY => 0,
            SnoopKind::Share => bit(l.owner),
            SnoopKind::Inv | SnoopKind::Flush => l.copies(),
        };
        self.txns.at_mut(t).acks = asked;
        if asked == 0 {
            self.answer_home(cx, t);
        } else {
            self.snoop_places(cx, base, line, asked, kind);
        }
    }

    /// All local answers are in: the snoop is answered and over.
    fn answer_home(&mut self, cx: &mut Cx<'_>, t: u32) {
        let txn = self.txns.at_mut(t);
        let Some(FromHome { kind, grant_to, ready, .. }) = txn.snoop.take() else { return };
        let base = cx.now.max(ready).max(txn.floor);
        txn.floor = base;
        let line = txn.line;
        if kind == SnoopKind::Share {
            return self.answer_share(cx, base, line, grant_to);
        }
        self.drop_data(line);
        let data = self.shadow.take(line);
        let l = self.line_mut(line);
        assert!(l.owner == NOBODY, "owner of {line} after {kind:?}");
        let to = grant_to.filter(|_| l.up.can_write());
        let watch = l.sharers() != 0;
        let forwarded = to.is_some();
        let answer = Answer { kept: false, dirty: l.is_dirty, watch, forwarded, data };
        (l.up, l.is_dirty) = (Up::None, false);
        self.answer(cx, base, line, answer, to.map(|to| (to, Perm::Modified)));
    }

    /// Answers a reader's snoop: the line stays readable here if anything of it is left.
    fn answer_share(
        &mut self,
        cx: &mut Cx<'_>,
        base: u64,
        line: LineAddr,
        grant_to: Option<LlcId>,
    ) {
        let has_owned_state = cx.paths.has_owned_state;
        let l = self.line_mut(line);
        assert!(l.owner == NOBODY, "writer of {line} while it is shared");
        let can_forward = l.up.can_write() || (l.up != Up::None && l.has_data);
        let to = grant_to.filter(|_| can_forward);
        let is_left = l.up != Up::None && (l.has_data || l.sharers() != 0);
        let dirty = l.is_dirty;
        let stays_owner = has_owned_state && l.up.is_owner() && dirty && l.has_data && to.is_some();
        // With O in the machine "kept and dirty" claims it, but for an access at the home, after
        // which nobody owns the line. Without room for the data memory is
        // written, and the cores' copies are recorded as with a Put.
        let kept = is_left && (stays_owner || grant_to.is_none() || !(has_owned_state && dirty));
        let watch = !kept && l.sharers() != 0;
        l.is_dirty = stays_owner;
        l.up = match () {
            () if stays_owner => Up::Owned,
            () if is_left => Up::Read,
            () => Up::None,
        };
        let data = self.shadow.get(line);
        let answer = Answer { kept, dirty, watch, forwarded: to.is_some(), data };
        self.answer(cx, base, line, answer, to.map(|to| (to, Perm::Read)));
    }

    /// Sends the answer to a snoop, and the grant that goes with it.
    fn answer(
        &mut self,
        cx: &mut Cx<'_>,
        base: u64,
        line: LineAddr,
        answer: Answer,
        grant: Option<(LlcId, Perm)>,
    ) {
        let me = self.id.index();
        let home = cx.paths.home_of(line.base());
        let at = base + cx.paths.llc_home[me][home.index()];
        let (msg, data) = (answer.msg(), answer.data);
        self.sender.send_data(cx, at, NodeRef::Home(home), line, (msg, data.when(answer.dirty)));
        if let Some((to, perm)) = grant {
            self.counters.hand_overs += 1;
            let at = base + cx.paths.llc_llc[me][to.index()];
            self.sender.send_data(cx, at, NodeRef::Llc(to), line, (LineMsg::Grant(perm), data));
        }
    }

    // Data in the tags

    /// Puts a line's data into the tags; when all ways are busy they stay outside.
    fn fill(&mut self, cx: &mut Cx<'_>, line: LineAddr) {
        let pages = &self.pages;
        let is_busy = |l: LineAddr| pages.get(l).is_some_and(|p| p[l.index_in_page()].txn != IDLE);
        match self.tags.insert(line, is_busy) {
            Fill::Placed => self.line_mut(line).has_data = true,
            Fill::Evicted(victim) => {
                self.line_mut(line).has_data = true;
                self.counters.evictions += 1;
                self.evicted(cx, victim);
            }
            Fill::Refused => self.counters.fills_refused += 1,
        }
    }

    fn drop_data(&mut self, line: LineAddr) {
        if self.line(line).has_data {
            self.tags.remove(line);
            self.line_mut(line).has_data = false;
        }
    }

    /// The data of an idle line have left the tags.
    fn evicted(&mut self, cx: &mut Cx<'_>, line: LineAddr) {
        let l = self.line_mut(line);
        l.has_data = false;
        // L7: S is dropped silently; it stays while local cores may read.
        if l.up == Up::Read && l.sharers() == 0 {
            l.up = Up::None;
        }
        self.give_up_without_data(cx, line);
        self.end_shadow(line);
        self.check(line);
    }

    /// An owner without data gives the line up; it stays a sharer for its cores' copies. Whether
    /// it was one.
    fn give_up_without_data(&mut self, cx: &mut Cx<'_>, line: LineAddr) -> bool {
        let l = self.line_mut(line);
        if !l.up.is_owner() || l.has_data || l.owner != NOBODY {
            return false;
        }
        let (dirty, watch) = (l.is_dirty, l.sharers() != 0);
        l.is_dirty = false;
        l.up = if watch { Up::Read } else { Up::None };
        let home = cx.paths.home_of(line.base());
        // The look-up keeps a Put behind an earlier answer of this line (L8).
        let leg = cx.paths.llc_home[self.id.index()][home.index()];
        let at = cx.now + cx.paths.llc_lookup + leg;
        self.counters.puts_sent += 1;
        let put = (LineMsg::Put { dirty, watch }, self.shadow.get(line).when(dirty));
        self.sender.send_data(cx, at, NodeRef::Home(home), line, put);
        true
    }

    // Messages

    fn send_up(&mut self, cx: &mut Cx<'_>, base: u64, line: LineAddr, want: Want) {
        self.counters.up_requests += 1;
        let is_upgrade = want == Want::Write && self.line(line).up != Up::None;
        self.counters.upgrades += u64::from(is_upgrade);
        let home = cx.paths.home_of(line.base());
        let at = base + cx.paths.llc_home[self.id.index()][home.index()];
        self.sender.send(cx, at, NodeRef::Home(home), line, want.msg());
    }

    fn grant(&mut self, cx: &mut Cx<'_>, base: u64, place: u8, line: LineAddr, perm: Perm) {
        let core = cx.paths.cores_of_llc[self.id.index()][usize::from(place)];
        let at = base + cx.paths.llc_core[core.index()];
        let grant = (LineMsg::Grant(perm), self.shadow.get(line));
        self.sender.send_data(cx, at, NodeRef::Core(core), line, grant);
    }

    fn snoop_places(
        &mut self,
        cx: &mut Cx<'_>,
        base: u64,
        line: LineAddr,
        places: u128,
        kind: SnoopKind,
    ) {
        let paths = cx.paths;
        for place in members(places) {
            self.counters.snoops_sent += 1;
            self.counters.invs_sent += u64::from(kind == SnoopKind::Inv);
            let core = paths.cores_of_llc[self.id.index()][usize::from(place)];
            let at = base + paths.llc_core[core.index()];
            self.sender.send(cx, at, NodeRef::Core(core), line, snoop(kind, None));
        }
    }

    // Records

    /// The rules of the module doc, at every end of a transaction.
    fn check(&self, line: LineAddr) {
        let l = self.line(line);
        let is_sound = match l.up {
            Up::None => l.owner == NOBODY && !l.has_data,
            Up::Read => l.owner == NOBODY,
            Up::Owned => l.owner == NOBODY && l.has_data,
            Up::Exclusive | Up::Modified if l.owner == NOBODY => l.has_data,
            Up::Exclusive | Up::Modified => l.sharers() == 0 && !l.has_data,
        };
        assert!(is_sound, "{} line {line}: {l:?}", self.id);
    }

    /// Frees a transaction with nothing left to do.
    fn settle(&mut self, cx: &mut Cx<'_>, t: u32) {
        let line = self.txns.at(t).line;
        self.line_mut(line).txn = IDLE;
        self.txns.give_back(t);
        self.give_up_without_data(cx, line);
        self.end_shadow(line);
        self.check(line);
    }

    /// Without a transaction, the tags hold the data or nobody here does.
    fn end_shadow(&mut self, line: LineAddr) {
        if !self.line(line).has_data {
            self.shadow.take(line);
        }
    }

    /// Memory was changed from outside, at a cut.
    #[inline]
    pub fn overwrite_shadow(&mut self, pa: PhysAddr, bytes: &[u8]) {
        self.shadow.overwrite(pa, bytes);
    }

    fn active(&self, t: u32) -> Active {
        match self.txns.at(t).active {
            Some(active) => active,
            None => panic!("{}: no request served alone", self.id),
        }
    }

    fn stage(&mut self, t: u32, stage: Stage) {
        if let Some(a) = &mut self.txns.at_mut(t).active {
            a.stage = stage;
        }
    }

    fn busy(&self, line: LineAddr, what: &str) -> u32 {
        let t = self.line(line).txn;
        assert!(t != IDLE, "{}: stray {what} for {line}", self.id);
        t
    }

    /// The transaction of a line, opened when there is none.
    fn txn_of(&mut self, line: LineAddr) -> u32 {
        let t = self.line(line).txn;
        if t != IDLE {
            return t;
        }
        let t = self.txns.take(|| Txn {
            line,
            active: None,
            snoop: None,
            acks: 0,
            reads: 0,
            reads_since: 0,
            floor: 0,
            queue: VecDeque::new(),
        });
        let txn = self.txns.at_mut(t);
        (txn.line, txn.floor) = (line, 0);
        self.line_mut(line).txn = t;
        t
    }

    fn place(&self, paths: &Paths, core: CoreId) -> u8 {
        match paths.cores_of_llc[self.id.index()].binary_search(&core) {
            Ok(place) => place as u8,
            Err(_) => panic!("{} got a message of {core}", self.id),
        }
    }

    fn line(&self, line: LineAddr) -> &Line {
        self.pages.get(line).map_or(&UNTOUCHED, |p| &p[line.index_in_page()])
    }

    fn line_mut(&mut self, line: LineAddr) -> &mut Line {
        let page = self.pages.get_or_make(line, || [UNTOUCHED; 64]);
        &mut page[line.index_in_page()]
    }
}

impl Llc {
    /// Feeds a line's record and transaction to a hasher, times excepted: two LLCs that agree here
    /// behave alike when all legs are zero. `place` and `llc` rename cores (by their place) and
    /// LLCs, so that states which differ by names only can be told to be one. For explorations of
    /// all states.
    pub fn hash_line(
        &self,
        line: LineAddr,
        place: impl Fn(u8) -> u8,
        llc: impl Fn(LlcId) -> LlcId,
        h: &mut impl std::hash::Hasher,
    ) {
        use std::hash::Hash;
        let set = |s| members(s).fold(0, |s, p| s | bit(place(p)));
        let l = self.line(line);
        let owner = if l.owner == NOBODY { NOBODY } else { place(l.owner) };
        (set(l.sharers()), l.up, owner, l.has_data, l.is_dirty).hash(h);
        self.shadow.get(line).hash(h);
        if l.txn != IDLE {
            let t = self.txns.at(l.txn);
            t.active.map(|a| (place(a.req.place), a.req.want, a.stage)).hash(h);
            t.snoop.map(|s| (s.kind, s.grant_to.map(&llc), s.is_started)).hash(h);
            (set(t.acks), set(t.reads), t.queue.len()).hash(h);
            t.queue.iter().for_each(|r| (place(r.place), r.want).hash(h));
        }
    }
}

/// The mutant that grants a write at once.
impl Llc {
    /// Strikes local copies off the record, as if their answers were in.
    fn forget_copies(&mut self, line: LineAddr, places: u128) {
        let l = self.line_mut(line);
        if l.owner != NOBODY && places & bit(l.owner) != 0 {
            l.owner = NOBODY;
        }
        l.set_sharers(l.sharers() & !places);
    }

    /// Whether an answer of a core is still waited for.
    fn awaits(&self, line: LineAddr, place: u8) -> bool {
        let t = self.line(line).txn;
        t != IDLE && self.txns.at(t).acks & bit(place) != 0
    }
}
