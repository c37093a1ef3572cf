//! Home: the directory slice above the LLCs, with its memory channel.
//!
//! One record per line: the owner, whether the owner may write (E, M) or only supplies the data
//! (O), and the sharers. The record is the authority (L11): single-writer is asserted at each of
//! its changes. It may name more than there is, since S is dropped silently; never less.
//!
//! Requests of a line are served first in, first out. Reads without a writer run side by side and
//! only their `Done`s are counted (L1); everything else is served alone, until all answers and the
//! requester's `Done` are in.
//!
//! | request | record | served |
//! |---|---|---|
//! | read | nobody else, no other read waits | alone: `Grant(Exclusive)` from memory (L2) |
//! | read | sharers | side by side: `Grant(Read)` from memory |
//! | read | owner in O | side by side: `Snoop{Share}`, the owner grants directly |
//! | read | owner in E or M | alone: `Snoop{Share}`, the owner grants directly |
//! | write | owner in E or M | alone: `Snoop{Inv}`, the owner passes the permission on |
//! | write | sharers, or owner in O | alone: `Inv` to all, `Grant(Modified)` after all answers |
//! | flush | any | alone: `Snoop{Flush}` to all recorded, then `FlushDone` |
//! | access, read | owner | alone: `Snoop{Share}`, which leaves no owner, then `AccessDone` |
//! | access, write | any | alone: `Inv` to all recorded, then `AccessDone` |
//!
//! **No deadlock** (P2). A busy line waits for: answers of LLCs, which never wait for a request of
//! their own (L9); memory, which is a fixed time; the grant that an owner sends, which leaves with
//! its answer; and the requester's `Done`, which leaves when the grant is handled (L1). None of
//! these waits for another transaction, so each ends in bounded time and the queue moves. The
//! queue is bounded: an LLC has one request under way per line, so it holds at most one per LLC
//! (L10). An owner that gave the line up before the snoop came says `forwarded: false`, and the
//! home grants from memory: its own record and memory suffice.
//!
//! Not modelled: capacity of the directory (no back-invalidation), bandwidth of memory, computed
//! times of the last `Ack` (L12), the time that a write to memory takes.

use std::collections::VecDeque;

use emu_sim::mutant::Mutant;
use emu_sim::{Chance, HomeId, LineAddr, LlcId, NodeRef, PhysAddr};

use crate::directory::{
    Answer, BusyLine, Cx, IDLE, Occupant, PageTable, Sender, Slab, Want, set, snoop,
};
use crate::llc::Up;
use crate::msg::{Envelope, LineMsg, Perm, SnoopKind};
use crate::paths::Paths;
use crate::phys::Phys;
use crate::shadow::{Copies, Data};

const NOBODY: u32 = u32::MAX;
/// Requesters from here on are devices, below LLCs.
const DEVICES: u32 = 1 << 31;

/// What a home counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HomeCounters {
    /// Requests to read.
    pub get_s: u64,
    /// Requests to write.
    pub get_m: u64,
    /// Requests to write by an LLC that was recorded as a reader.
    pub upgrades: u64,
    /// Requests to flush.
    pub flushes: u64,
    /// Accesses of devices.
    pub accesses: u64,
    /// Snoops of all kinds.
    pub snoops: u64,
    /// Invalidations among them.
    pub invs: u64,
    /// Grants that an owner LLC sent straight to the requester.
    pub hand_overs: u64,
    /// Grants that needed a read of memory.
    pub memory_reads: u64,
    /// Write-backs to memory: dirty Puts and dirty answers that left no owner.
    pub memory_writes: u64,
    /// Puts that ended an ownership.
    pub puts: u64,
    /// Puts from other than the owner or on a busy line (L7).
    pub puts_ignored: u64,
    /// Longest queue of a line.
    pub queue_max: u64,
    /// Most reads of one line side by side.
    pub reads_max: u64,
}

/// Record of one line, for reports and for comparison at a cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HomeRecord {
    /// Owner: E, M or O.
    pub owner: Option<LlcId>,
    /// Whether the owner may write.
    pub is_writable: bool,
    /// Other LLCs that may have a readable copy or an armed watch.
    pub sharers: Vec<LlcId>,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Line {
    owner: u32,
    is_writable: bool,
    txn: u32,
}

const UNTOUCHED: Line = Line { owner: NOBODY, is_writable: false, txn: IDLE };

#[derive(Clone, Debug)]
struct Page {
    lines: [Line; 64],
    /// Sharer sets, `words` per line.
    sharers: Box<[u64]>,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Request {
    from: u32,
    want: Want,
    arrival: u64,
    /// Served by the slice and looked up.
    ready: u64,
}

/// The request that is served alone.
#[derive(Clone, Copy, Debug, Hash)]
struct Active {
    req: Request,
    /// Before this time no permission leaves the home.
    data_at: u64,
    /// The home sends the grant, or has sent it.
    is_granted: bool,
    is_done: bool,
}

/// A read that waits for the owner in O to answer.
#[derive(Clone, Copy, Debug, Hash)]
struct Forward {
    owner: u32,
    to: u32,
}

#[derive(Clone, Debug)]
struct Txn {
    line: LineAddr,
    active: Option<Active>,
    /// LLCs whose answer to the active request is missing.
    acks: Box<[u64]>,
    /// LLCs whose `Done` for a read side by side is missing.
    reads: Box<[u64]>,
    reads_since: u64,
    /// In the order of the snoops, which is that of the answers (L8).
    forwards: VecDeque<Forward>,
    queue: VecDeque<Request>,
    /// What an owner's answer brought for the active request.
    data: Data,
}

impl Txn {
    /// No read side by side is under way: a write may start (L1).
    fn is_quiet(&self) -> bool {
        set::is_empty(&self.reads) && self.forwards.is_empty()
    }
}

fn node(from: u32) -> NodeRef {
    if from < DEVICES { NodeRef::Llc(LlcId(from)) } else { NodeRef::Device(from - DEVICES) }
}

/// A home.
#[derive(Clone, Debug)]
pub struct Home {
    id: HomeId,
    sender: Sender,
    words: usize,
    llcs: usize,
    pages: PageTable<Page>,
    txns: Slab<Txn>,
    free_at: u64,
    counters: HomeCounters,
    /// Memory, in shadow mode.
    memory: Copies,
}

impl Home {
    /// A home of a machine with these paths; all lines are in memory only.
    #[must_use]
    pub fn new(id: HomeId, paths: &Paths) -> Self {
        let llcs = paths.cores_of_llc.len();
        Home {
            id,
            sender: Sender::new(NodeRef::Home(id)),
            words: llcs.div_ceil(64).max(1),
            llcs,
            pages: PageTable::default(),
            txns: Slab::default(),
            free_at: 0,
            counters: HomeCounters::default(),
            memory: Copies::default(),
        }
    }

    /// In shadow mode memory begins, line by line, as what was loaded into it.
    #[inline]
    pub fn begin_shadow(&mut self, line: LineAddr, phys: &Phys) {
        self.memory.begin(line, phys);
    }

    /// Makes the access for which `AccessDone` has just left (V2). In shadow mode memory is what
    /// it finds, and holds what it leaves, as do grants that left `behind` it in the same item.
    pub fn access(
        &mut self,
        line: LineAddr,
        phys: &Phys,
        access: impl FnOnce(),
        behind: &mut [Envelope],
    ) {
        self.memory.check(line, phys, || format!("access at {}", self.id));
        access();
        self.memory.wrote(line, phys);
        for e in behind.iter_mut().filter(|e| e.line == line) {
            e.data = self.memory.get(line).when(matches!(e.msg, LineMsg::Grant(_)));
        }
    }

    /// Memory was changed from outside, at a cut.
    #[inline]
    pub fn overwrite_shadow(&mut self, pa: PhysAddr, bytes: &[u8]) {
        self.memory.overwrite(pa, bytes);
    }

    /// Handles one message; what it causes is appended to `out`.
    pub fn handle(&mut self, e: &Envelope, paths: &Paths, chance: Chance, out: &mut Vec<Envelope>) {
        let from = match (e.from, e.msg) {
            (NodeRef::Llc(LlcId(from)), _) => from,
            (NodeRef::Device(d), LineMsg::Access { .. }) => DEVICES + d,
            (from, msg) => panic!("{} got {msg:?} from {from:?}", self.id),
        };
        let mut cx = Cx { now: e.key.time, paths, chance, out };
        match e.msg {
            LineMsg::Get { write } => self.request(&mut cx, from, e.line, Want::of_write(write)),
            LineMsg::Flush => self.request(&mut cx, from, e.line, Want::Flush),
            LineMsg::Put { dirty, watch } => self.put(from, e.line, (dirty, e.data), watch),
            LineMsg::Ack { kept, dirty, watch, forwarded } => {
                self.ack(
                    &mut cx,
                    from,
                    e.line,
                    Answer { kept, dirty, watch, forwarded, data: e.data },
                );
            }
            LineMsg::Done => self.done(&mut cx, from, e.line),
            LineMsg::Access { write } => {
                let want = if write { Want::AccessWrite } else { Want::AccessRead };
                self.request(&mut cx, from, e.line, want);
            }
            LineMsg::Grant(_)
            | LineMsg::Snoop { .. }
            | LineMsg::FlushDone
            | LineMsg::AccessDone => panic!("{} got {:?} from llc{from}", self.id, e.msg),
        }
    }

    /// Whether the record allows that an LLC has `up`. While a transaction of the line is under
    /// way it allows everything: an owner may have passed its permission on.
    #[must_use]
    pub fn knows(&self, line: LineAddr, llc: LlcId, up: Up) -> bool {
        let (l, sharers) = self.line_and_sharers(line);
        let is_owner = l.owner == llc.0;
        match up {
            _ if l.txn != IDLE => true,
            Up::None => true,
            Up::Read => is_owner || !sharers.is_empty() && set::has(sharers, llc.0),
            Up::Owned => is_owner,
            Up::Exclusive | Up::Modified => is_owner && l.is_writable,
        }
    }

    /// Whether no transaction is under way.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.txns.live() == 0
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> &HomeCounters {
        &self.counters
    }

    /// Lines with a transaction under way, by address.
    #[must_use]
    pub fn busy_lines(&self) -> Vec<BusyLine> {
        let report = |t: &Txn| {
            let (txn, requester, since_ps) = match t.active {
                Some(a) => (a.req.want.occupant(), Some(node(a.req.from)), a.req.arrival),
                None => (Occupant::Reads, None, t.reads_since),
            };
            let mut waiting_for: Vec<u32> = set::members(&t.acks).collect();
            waiting_for.extend(set::members(&t.reads));
            waiting_for.extend(t.forwards.iter().map(|f| f.owner));
            waiting_for.extend(
                t.active.filter(|a| !a.is_done && a.req.from < DEVICES).map(|a| a.req.from),
            );
            waiting_for.sort_unstable();
            waiting_for.dedup();
            let waiting_for = waiting_for.into_iter().map(node).collect();
            BusyLine { line: t.line, txn, requester, since_ps, waiting_for, queue: t.queue.len() }
        };
        let mut lines: Vec<BusyLine> = self.txns.iter().map(report).collect();
        lines.sort_by_key(|b| b.line);
        lines
    }

    /// The record of a line.
    #[must_use]
    pub fn record(&self, line: LineAddr) -> HomeRecord {
        let Some(page) = self.pages.get(line) else { return HomeRecord::default() };
        let i = line.index_in_page();
        let l = page.lines[i];
        HomeRecord {
            owner: (l.owner != NOBODY).then_some(LlcId(l.owner)),
            is_writable: l.is_writable,
            sharers: set::members(&page.sharers[i * self.words..][..self.words])
                .map(LlcId)
                .collect(),
        }
    }

    // Requests

    fn request(&mut self, cx: &mut Cx<'_>, from: u32, line: LineAddr, want: Want) {
        match want {
            Want::Read => self.counters.get_s += 1,
            Want::Write => self.counters.get_m += 1,
            Want::Flush => self.counters.flushes += 1,
            Want::AccessRead | Want::AccessWrite => self.counters.accesses += 1,
        }
        let start = cx.now.max(self.free_at);
        self.free_at = start + cx.paths.home_service;
        let ready = start + cx.paths.home_lookup;
        let t = self.txn_of(line);
        let queue = &mut self.txns.at_mut(t).queue;
        queue.push_back(Request { from, want, arrival: cx.now, ready });
        let waiting = queue.iter().filter(|r| r.from < DEVICES).count();
        assert!(waiting <= self.llcs, "{} line {line}: {waiting} requests wait", self.id);
        self.counters.queue_max = self.counters.queue_max.max(waiting as u64);
        self.advance(cx, t);
    }

    /// Starts what may start, in order, and frees the transaction when nothing is left.
    fn advance(&mut self, cx: &mut Cx<'_>, t: u32) {
        while self.txns.at(t).active.is_none() {
            let Some(req) = self.txns.at(t).queue.front().copied() else { break };
            let beside = req.want == Want::Read
                && !self.line(self.txns.at(t).line).is_writable
                && !self.may_be_exclusive(t, req.from, 1);
            // A reader whose last forward is unanswered waits: at most one forward per LLC.
            let txn = self.txns.at(t);
            let must_wait = if beside {
                txn.forwards.iter().any(|f| f.to == req.from)
            } else {
                !txn.is_quiet()
            };
            if must_wait {
                break;
            }
            self.txns.at_mut(t).queue.pop_front();
            if beside {
                self.start_beside(cx, t, req);
            } else {
                self.start_alone(cx, t, req);
            }
        }
        let txn = self.txns.at(t);
        if txn.active.is_none() && txn.queue.is_empty() && txn.is_quiet() {
            let line = txn.line;
            self.line_mut(line).0.txn = IDLE;
            self.txns.give_back(t);
        }
    }

    /// E is granted only without another copy, a read under way, or a read that waits (L2).
    fn may_be_exclusive(&self, t: u32, from: u32, skip: usize) -> bool {
        let txn = self.txns.at(t);
        let (l, sharers) = self.line_and_sharers(txn.line);
        l.owner == NOBODY
            && !set::has_other(sharers, from)
            && txn.is_quiet()
            && !txn.queue.iter().skip(skip).any(|r| r.want == Want::Read)
    }

    fn start_beside(&mut self, cx: &mut Cx<'_>, t: u32, req: Request) {
        let base = cx.now.max(req.ready);
        let txn = self.txns.at_mut(t);
        let line = txn.line;
        assert!(!set::has(&txn.reads, req.from), "llc{} reads {line} twice", req.from);
        if txn.is_quiet() {
            txn.reads_since = req.arrival;
        }
        set::put(&mut txn.reads, req.from);
        let reads = txn.reads.iter().map(|w| u64::from(w.count_ones())).sum();
        self.counters.reads_max = self.counters.reads_max.max(reads);
        let (l, sharers) = self.line_mut(line);
        set::put(sharers, req.from);
        // L7: an owner that asks again has lost the data.
        if l.owner == req.from {
            l.owner = NOBODY;
        }
        let owner = l.owner;
        self.check(line);
        if owner == NOBODY {
            self.grant_from_memory(cx, base, req.from, line, Perm::Read);
        } else {
            self.txns.at_mut(t).forwards.push_back(Forward { owner, to: req.from });
            self.snoop(cx, base, owner, line, SnoopKind::Share, Some(req.from));
        }
    }

    fn start_alone(&mut self, cx: &mut Cx<'_>, t: u32, req: Request) {
        let base = cx.now.max(req.ready);
        let active = Active { req, data_at: base, is_granted: false, is_done: false };
        let txn = self.txns.at_mut(t);
        txn.active = Some(active);
        let line = txn.line;
        let l = *self.line(line);
        let writer = if l.is_writable { l.owner } else { NOBODY };
        match req.want {
            Want::Flush => self.end_all(cx, t, SnoopKind::Flush),
            Want::AccessWrite => self.end_all(cx, t, SnoopKind::Inv),
            Want::AccessRead if l.owner != NOBODY => {
                self.await_answer(t, l.owner);
                self.snoop(cx, base, l.owner, line, SnoopKind::Share, None);
            }
            Want::AccessRead => self.end_at_once(cx, t),
            Want::Read | Want::Write if writer == req.from => {
                // L7: it has dropped E. The record stays, so nobody else can slip in.
                self.grant_alone(cx, t, base + cx.paths.memory, true);
            }
            Want::Read if writer != NOBODY => {
                self.await_answer(t, writer);
                self.snoop(cx, base, writer, line, SnoopKind::Share, Some(req.from));
            }
            Want::Read => {
                let (l, sharers) = self.line_mut(line);
                (l.owner, l.is_writable) = (req.from, true);
                set::take(sharers, req.from);
                self.grant_alone(cx, t, base + cx.paths.memory, true);
            }
            Want::Write if writer != NOBODY => {
                self.await_answer(t, writer);
                self.snoop(cx, base, writer, line, SnoopKind::Inv, Some(req.from));
            }
            Want::Write => self.start_write(cx, t, base, req.from),
        }
    }

    /// A write of a line without a writer: every other copy must end first (L2).
    fn start_write(&mut self, cx: &mut Cx<'_>, t: u32, base: u64, from: u32) {
        let line = self.txns.at(t).line;
        let (l, sharers) = self.line_and_sharers(line);
        let is_upgrade = l.owner == from || set::has(sharers, from);
        // The data of an owner in O come with its answer.
        let needs_memory = !is_upgrade && l.owner == NOBODY;
        self.counters.upgrades += u64::from(is_upgrade);
        self.counters.memory_reads += u64::from(needs_memory);
        let data_at = if needs_memory { base + cx.paths.memory } else { base };
        if let Some(a) = &mut self.txns.at_mut(t).active {
            a.data_at = data_at;
        }
        let must_wait = self.snoop_all(cx, t, base, SnoopKind::Inv, Some(from));
        if cx.paths.mutation.is(Mutant::EarlyGrant) {
            self.forget_copies(t);
            self.grant_write(cx, t);
        } else if !must_wait {
            self.grant_write(cx, t);
        }
    }

    /// A flush, or an access that writes: every copy ends.
    fn end_all(&mut self, cx: &mut Cx<'_>, t: u32, kind: SnoopKind) {
        let base = self.active(t).data_at;
        if !self.snoop_all(cx, t, base, kind, None) {
            self.end_at_once(cx, t);
        }
    }

    // Answers

    fn ack(&mut self, cx: &mut Cx<'_>, from: u32, line: LineAddr, answer: Answer) {
        if cx.paths.mutation.is(Mutant::EarlyGrant) && !self.awaits(line, from) {
            return;
        }
        let t = self.busy(line, from, "Ack");
        let txn = self.txns.at_mut(t);
        let Some(active) = txn.active else { return self.forward_ack(cx, t, from, answer) };
        assert!(set::has(&txn.acks, from), "{}: stray Ack of llc{from} for {line}", self.id);
        set::take(&mut txn.acks, from);
        let is_last = set::is_empty(&txn.acks);
        match active.req.want {
            Want::Read => self.read_acked(cx, t, from, answer),
            Want::Write => self.write_acked(cx, t, from, answer, is_last),
            Want::AccessRead => {
                let (l, sharers) = self.line_mut(line);
                (l.owner, l.is_writable) = (NOBODY, false);
                if answer.kept || answer.watch {
                    set::put(sharers, from);
                }
                self.write_back(line, answer.dirty, answer.data);
                self.end_at_once(cx, t);
            }
            Want::Flush | Want::AccessWrite => {
                let (l, sharers) = self.line_mut(line);
                if l.owner == from {
                    (l.owner, l.is_writable) = (NOBODY, false);
                }
                set::take(sharers, from);
                if answer.watch {
                    set::put(sharers, from);
                }
                self.write_back(line, answer.dirty, answer.data);
                if is_last {
                    self.end_at_once(cx, t);
                }
            }
        }
        self.check(line);
        self.end_alone(cx, t);
    }

    /// The writer has answered a read (L2).
    fn read_acked(&mut self, cx: &mut Cx<'_>, t: u32, from: u32, answer: Answer) {
        let req = self.active(t).req;
        let line = self.txns.at(t).line;
        let stays_owner =
            answer.kept && answer.dirty && answer.forwarded && cx.paths.has_owned_state;
        let (l, sharers) = self.line_mut(line);
        l.is_writable = false;
        if !stays_owner {
            l.owner = NOBODY;
            if answer.kept || answer.watch {
                set::put(sharers, from);
            }
            self.write_back(line, answer.dirty, answer.data);
        }
        if answer.forwarded {
            self.counters.hand_overs += 1;
            set::put(self.line_mut(line).1, req.from);
            self.granted(t);
            return;
        }
        let is_exclusive = self.may_be_exclusive(t, req.from, 0);
        let (l, sharers) = self.line_mut(line);
        if is_exclusive {
            (l.owner, l.is_writable) = (req.from, true);
            set::take(sharers, req.from);
        } else {
            set::put(sharers, req.from);
        }
        self.grant_alone(cx, t, cx.now + cx.paths.memory, true);
    }

    /// A copy has ended for a write.
    fn write_acked(&mut self, cx: &mut Cx<'_>, t: u32, from: u32, answer: Answer, is_last: bool) {
        let line = self.txns.at(t).line;
        let req = self.active(t).req;
        assert!(!answer.kept, "{}: llc{from} kept {line} after Inv", self.id);
        let (l, sharers) = self.line_mut(line);
        set::take(sharers, from);
        let was_writer = l.owner == from && l.is_writable;
        let is_owners = l.owner == from && !answer.forwarded;
        if l.owner == from {
            (l.owner, l.is_writable) = (NOBODY, false);
        }
        let txn = self.txns.at_mut(t);
        txn.data = answer.data.when(is_owners).or(txn.data);
        if answer.forwarded {
            let (l, _) = self.line_mut(line);
            // L2: the permission travels with the data; this was the only copy.
            assert!(was_writer && is_last, "{}: llc{from} forwarded {line}", self.id);
            (l.owner, l.is_writable) = (req.from, true);
            self.counters.hand_overs += 1;
            self.granted(t);
        } else if is_last {
            if was_writer {
                self.counters.memory_reads += 1;
                if let Some(a) = &mut self.txns.at_mut(t).active {
                    a.data_at = cx.now + cx.paths.memory;
                }
            }
            self.grant_write(cx, t);
        }
    }

    /// The owner in O has answered for the oldest read that was forwarded to it.
    fn forward_ack(&mut self, cx: &mut Cx<'_>, t: u32, from: u32, answer: Answer) {
        let txn = self.txns.at_mut(t);
        let line = txn.line;
        let forward = txn.forwards.pop_front().filter(|f| f.owner == from);
        let Some(Forward { to, .. }) = forward else {
            panic!("{}: stray Ack of llc{from} for {line}", self.id)
        };
        // An owner of meanwhile may be a new sharer already: its late answer takes nothing away.
        let (l, sharers) = self.line_mut(line);
        if l.owner == from && !(answer.kept && answer.dirty && answer.forwarded) {
            l.owner = NOBODY;
            if answer.kept || answer.watch {
                set::put(sharers, from);
            }
        }
        self.check(line);
        if answer.forwarded {
            self.counters.hand_overs += 1;
        } else {
            self.grant_from_memory(cx, cx.now, to, line, Perm::Read);
        }
        self.advance(cx, t);
    }

    fn done(&mut self, cx: &mut Cx<'_>, from: u32, line: LineAddr) {
        let t = self.busy(line, from, "Done");
        let txn = self.txns.at_mut(t);
        if set::has(&txn.reads, from) {
            set::take(&mut txn.reads, from);
            return self.advance(cx, t);
        }
        // A forwarded grant may be done before the owner's answer is here.
        match &mut txn.active {
            Some(a) if a.req.from == from && !a.is_done && a.req.want != Want::Flush => {
                a.is_done = true;
            }
            _ => panic!("{}: stray Done of llc{from} for {line}", self.id),
        }
        self.end_alone(cx, t);
    }

    /// Puts of the owner on a line that nobody is served alone end the ownership; others change no
    /// record, since a snoop that is under way will find the line gone (L7). A writer's data are
    /// the newest whatever becomes of its record: the owner's, or those of the requester, if the
    /// owner passed its permission on and its answer has the longer way.
    fn put(&mut self, from: u32, line: LineAddr, (dirty, data): (bool, Data), watch: bool) {
        let l = *self.line(line);
        let active = if l.txn == IDLE { None } else { self.txns.at(l.txn).active };
        let is_writer = l.owner == from || active.is_some_and(|a| a.req.from == from);
        self.write_back(line, dirty && is_writer, data);
        if active.is_some() || l.owner != from {
            self.counters.puts_ignored += 1;
            return;
        }
        let (l, sharers) = self.line_mut(line);
        (l.owner, l.is_writable) = (NOBODY, false);
        if watch {
            set::put(sharers, from);
        }
        self.counters.puts += 1;
        self.check(line);
    }

    fn write_back(&mut self, line: LineAddr, dirty: bool, data: Data) {
        self.counters.memory_writes += u64::from(dirty);
        self.memory.put(line, data.when(dirty));
    }

    // Ends

    fn granted(&mut self, t: u32) {
        if let Some(a) = &mut self.txns.at_mut(t).active {
            a.is_granted = true;
        }
    }

    /// Sends the grant of the request that is served alone: as the record now says.
    fn grant_alone(&mut self, cx: &mut Cx<'_>, t: u32, at: u64, from_memory: bool) {
        let Request { from, want, .. } = self.active(t).req;
        let line = self.txns.at(t).line;
        let l = self.line(line);
        let is_owner = l.owner == from && l.is_writable;
        let perm = match want {
            Want::Read if !is_owner => Perm::Read,
            Want::Read => Perm::Exclusive,
            _ => Perm::Modified,
        };
        assert!(perm == Perm::Read || is_owner, "{}: grant of {line} against record", self.id);
        self.check(line);
        self.counters.memory_reads += u64::from(from_memory);
        self.granted(t);
        let at = at + cx.paths.home_llc[self.id.index()][from as usize];
        let data = std::mem::take(&mut self.txns.at_mut(t).data).or(self.memory.get(line));
        let grant = (LineMsg::Grant(perm), data);
        self.sender.send_data(cx, at, NodeRef::Llc(LlcId(from)), line, grant);
    }

    fn grant_from_memory(
        &mut self,
        cx: &mut Cx<'_>,
        base: u64,
        to: u32,
        line: LineAddr,
        perm: Perm,
    ) {
        self.counters.memory_reads += 1;
        let leg = cx.paths.home_llc[self.id.index()][to as usize];
        let at = base + cx.paths.memory + leg;
        let grant = (LineMsg::Grant(perm), self.memory.get(line));
        self.sender.send_data(cx, at, NodeRef::Llc(LlcId(to)), line, grant);
    }

    /// All other copies are gone: the requester becomes the writer.
    fn grant_write(&mut self, cx: &mut Cx<'_>, t: u32) {
        let Active { req, data_at, .. } = self.active(t);
        let line = self.txns.at(t).line;
        let (l, sharers) = self.line_mut(line);
        assert!(l.owner == NOBODY || l.owner == req.from, "second owner of {line}");
        (l.owner, l.is_writable) = (req.from, true);
        set::take(sharers, req.from);
        self.grant_alone(cx, t, cx.now.max(data_at), false);
    }

    /// Ends what needs no permission: a flush, or an access, which touches the value in this item.
    fn end_at_once(&mut self, cx: &mut Cx<'_>, t: u32) {
        let Active { req, data_at, .. } = self.active(t);
        let line = self.txns.at(t).line;
        assert!(self.line(line).owner == NOBODY, "owner of {line} after {:?}", req.want);
        let (msg, leg) = match req.want {
            Want::Flush => {
                (LineMsg::FlushDone, cx.paths.home_llc[self.id.index()][req.from as usize])
            }
            _ => (LineMsg::AccessDone, cx.paths.home_device[self.id.index()]),
        };
        let memory = if req.want == Want::AccessRead { cx.paths.memory } else { 0 };
        self.counters.memory_reads += u64::from(req.want == Want::AccessRead);
        let at = cx.now.max(data_at) + memory + leg;
        self.sender.send(cx, at, node(req.from), line, msg);
        // No `Done` follows: the caller goes on with the queue.
        self.txns.at_mut(t).active = None;
    }

    /// Ends the request that is served alone, once all answers and its `Done` are in (L1).
    fn end_alone(&mut self, cx: &mut Cx<'_>, t: u32) {
        let txn = self.txns.at_mut(t);
        if let Some(a) = txn.active {
            if !(a.is_done && set::is_empty(&txn.acks)) {
                return;
            }
            assert!(a.is_granted, "{}: Done without grant of {}", self.id, txn.line);
            txn.active = None;
        }
        self.advance(cx, t);
    }

    // Snoops

    fn await_answer(&mut self, t: u32, from: u32) {
        set::put(&mut self.txns.at_mut(t).acks, from);
    }

    /// Snoops every recorded LLC but one; whether there was any.
    fn snoop_all(
        &mut self,
        cx: &mut Cx<'_>,
        t: u32,
        base: u64,
        kind: SnoopKind,
        but: Option<u32>,
    ) -> bool {
        let line = self.txns.at(t).line;
        let i = line.index_in_page() * self.words;
        if let Some(page) = self.pages.get(line) {
            let acks = &mut self.txns.at_mut(t).acks;
            acks.copy_from_slice(&page.sharers[i..i + self.words]);
            let owner = page.lines[line.index_in_page()].owner;
            if owner != NOBODY {
                set::put(acks, owner);
            }
            if let Some(but) = but {
                set::take(acks, but);
            }
        }
        let acks = std::mem::take(&mut self.txns.at_mut(t).acks);
        for to in set::members(&acks) {
            self.snoop(cx, base, to, line, kind, None);
        }
        let has_any = !set::is_empty(&acks);
        self.txns.at_mut(t).acks = acks;
        has_any
    }

    fn snoop(
        &mut self,
        cx: &mut Cx<'_>,
        base: u64,
        to: u32,
        line: LineAddr,
        kind: SnoopKind,
        grant_to: Option<u32>,
    ) {
        self.counters.snoops += 1;
        self.counters.invs += u64::from(kind == SnoopKind::Inv);
        let at = base + cx.paths.home_llc[self.id.index()][to as usize];
        let msg = snoop(kind, grant_to.map(LlcId));
        self.sender.send(cx, at, NodeRef::Llc(LlcId(to)), line, msg);
    }

    // Records

    /// L11: one writer, or an owner that supplies the data beside readers, or readers.
    fn check(&self, line: LineAddr) {
        let (l, sharers) = self.line_and_sharers(line);
        let is_sound = if l.owner == NOBODY {
            !l.is_writable
        } else if l.is_writable {
            set::is_empty(sharers)
        } else {
            !set::has(sharers, l.owner)
        };
        assert!(is_sound, "{} line {line}: {l:?} beside sharers {sharers:x?}", self.id);
    }

    fn active(&self, t: u32) -> Active {
        match self.txns.at(t).active {
            Some(active) => active,
            None => panic!("{}: no request served alone", self.id),
        }
    }

    /// The transaction that a message belongs to.
    fn busy(&self, line: LineAddr, from: u32, what: &str) -> u32 {
        let t = self.line(line).txn;
        assert!(t != IDLE, "{}: stray {what} of llc{from} for {line}", self.id);
        t
    }

    /// The transaction of a line, opened when there is none.
    fn txn_of(&mut self, line: LineAddr) -> u32 {
        let t = self.line(line).txn;
        if t != IDLE {
            return t;
        }
        let none = || vec![0; self.words].into_boxed_slice();
        let t = self.txns.take(|| Txn {
            line,
            active: None,
            acks: none(),
            reads: none(),
            reads_since: 0,
            forwards: VecDeque::new(),
            queue: VecDeque::new(),
            data: Data::default(),
        });
        self.txns.at_mut(t).line = line;
        self.line_mut(line).0.txn = t;
        t
    }

    fn line(&self, line: LineAddr) -> &Line {
        self.pages.get(line).map_or(&UNTOUCHED, |p| &p.lines[line.index_in_page()])
    }

    fn line_and_sharers(&self, line: LineAddr) -> (&Line, &[u64]) {
        let i = line.index_in_page();
        self.pages.get(line).map_or((&UNTOUCHED, &[]), |p| {
            (&p.lines[i], &p.sharers[i * self.words..][..self.words])
        })
    }

    fn line_mut(&mut self, line: LineAddr) -> (&mut Line, &mut [u64]) {
        let words = self.words;
        let page = self.pages.get_or_make(line, || Page {
            lines: [UNTOUCHED; 64],
            sharers: vec![0; 64 * words].into_boxed_slice(),
        });
        let i = line.index_in_page();
        (&mut page.lines[i], &mut page.sharers[i * words..][..words])
    }
}

impl Home {
    /// Feeds a line's record and transaction to a hasher, times excepted: two homes that agree
    /// here behave alike when all legs are zero. `llc` renames LLCs, as in [`Llc::hash_line`].
    /// For explorations of all states.
    ///
    /// [`Llc::hash_line`]: crate::llc::Llc::hash_line
    pub fn hash_line(
        &self,
        line: LineAddr,
        llc: impl Fn(LlcId) -> LlcId,
        h: &mut impl std::hash::Hasher,
    ) {
        use std::hash::Hash;
        let name = |i| if i == NOBODY { NOBODY } else { llc(LlcId(i)).0 };
        let set = |words: &[u64]| {
            let mut named: Vec<u32> = set::members(words).map(name).collect();
            named.sort_unstable();
            named
        };
        let (l, sharers) = self.line_and_sharers(line);
        (name(l.owner), l.is_writable, set(sharers), self.memory.get(line)).hash(h);
        if l.txn != IDLE {
            let t = self.txns.at(l.txn);
            t.active.map(|a| (name(a.req.from), a.req.want, a.is_granted, a.is_done)).hash(h);
            (set(&t.acks), set(&t.reads), t.forwards.len(), t.queue.len(), t.data).hash(h);
            t.forwards.iter().for_each(|f| (name(f.owner), name(f.to)).hash(h));
            t.queue.iter().for_each(|r| (name(r.from), r.want).hash(h));
        }
    }
}

/// The mutant that grants a write at once.
impl Home {
    /// Strikes all copies off the record, as if their answers were in.
    fn forget_copies(&mut self, t: u32) {
        set::clear(&mut self.txns.at_mut(t).acks);
        let line = self.txns.at(t).line;
        let (l, sharers) = self.line_mut(line);
        (l.owner, l.is_writable) = (NOBODY, false);
        set::clear(sharers);
    }

    /// Whether an answer of an LLC is still waited for.
    fn awaits(&self, line: LineAddr, from: u32) -> bool {
        let t = self.line(line).txn;
        t != IDLE && {
            let txn = self.txns.at(t);
            set::has(&txn.acks, from) || txn.forwards.front().is_some_and(|f| f.owner == from)
        }
    }
}
