//! A small world for tests of the line protocol: model cores, LLCs and homes on one agenda.
//!
//! A model core holds permissions and nothing else: no time passes inside it. It answers a snoop
//! after a settable delay, during which it keeps its permission, as a hold would (L4).
#![allow(dead_code, unreachable_pub, missing_docs, reason = "each test file uses a part")]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, VecDeque};

use emu_mem::directory::phase_of;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::msg::{Envelope, LineMsg, Perm, SnoopKind};
use emu_mem::paths::Paths;
use emu_mem::phys::Phys;
use emu_mem::shadow::{CoreCopies, Data};
use emu_sim::mutant::Mutation;
use emu_sim::{Agenda, Chance, CoreId, HomeId, Key, LineAddr, LlcId, NodeRef, Phase};

/// What a script makes a core do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    Load,
    Store,
    /// Ends the permission: Put for E and M, silent for S.
    Evict,
    Flush,
    /// Arms a watch on a line that is readable.
    Watch,
    /// Drops E without a word.
    Forget,
}

/// One line in a model core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CoreLine {
    pub perm: Option<Perm>,
    pub is_watched: bool,
    pub wants: Option<Op>,
}

/// What an item made a core do.
#[derive(Clone, Debug, Default)]
pub struct Deeds {
    pub sent: Vec<LineMsg>,
    pub performed: Option<Op>,
    pub is_triggered: bool,
}

impl CoreLine {
    fn can(&self, op: Op) -> bool {
        match op {
            Op::Load => self.perm.is_some(),
            Op::Store => self.perm.is_some_and(Perm::can_write),
            _ => false,
        }
    }

    pub fn start(&mut self, op: Op) -> Deeds {
        assert!(self.wants.is_none());
        let mut deeds = Deeds::default();
        match op {
            Op::Load | Op::Store if self.can(op) => {
                if op == Op::Store {
                    self.perm = Some(Perm::Modified);
                }
                deeds.performed = Some(op);
            }
            Op::Load | Op::Store => {
                self.wants = Some(op);
                deeds.sent.push(LineMsg::Get { write: op == Op::Store });
            }
            Op::Flush => {
                self.wants = Some(op);
                deeds.sent.push(LineMsg::Flush);
            }
            Op::Evict => deeds.sent.extend(self.evict()),
            Op::Watch => self.is_watched |= self.perm.is_some(),
            Op::Forget if self.perm == Some(Perm::Exclusive) => self.perm = None,
            Op::Forget => {}
        }
        deeds
    }

    pub fn evict(&mut self) -> Option<LineMsg> {
        let perm = self.perm.take()?;
        let dirty = perm == Perm::Modified;
        perm.can_write().then_some(LineMsg::Put { dirty, watch: self.is_watched })
    }

    pub fn handle(&mut self, msg: LineMsg) -> Deeds {
        let mut deeds = Deeds::default();
        match msg {
            LineMsg::Grant(perm) => {
                let op = self.wants.take();
                assert!(matches!(op, Some(Op::Load | Op::Store)), "grant for {op:?}");
                self.perm = Some(perm);
                if op == Some(Op::Store) {
                    assert_eq!(perm, Perm::Modified);
                }
                deeds.performed = op;
                deeds.sent.push(LineMsg::Done);
            }
            LineMsg::FlushDone => {
                assert_eq!(self.wants, Some(Op::Flush));
                deeds.performed = self.wants.take();
            }
            LineMsg::Snoop { kind, .. } => {
                deeds.is_triggered = kind == SnoopKind::Inv && self.is_watched;
                if kind == SnoopKind::Inv {
                    self.is_watched = false;
                }
                let dirty = self.perm == Some(Perm::Modified);
                let kept = kind == SnoopKind::Share && self.perm.is_some();
                self.perm = kept.then_some(Perm::Read);
                let watch = self.is_watched;
                deeds.sent.push(LineMsg::Ack { kept, dirty, watch, forwarded: false });
            }
            _ => panic!("core got {msg:?}"),
        }
        deeds
    }
}

/// L2 and W3 over all cores: a writer is alone, and no watch of another outlives its grant.
pub fn assert_single_writer(line: LineAddr, cores: &[CoreLine]) {
    for (w, c) in cores.iter().enumerate() {
        if c.perm.is_some_and(Perm::can_write) {
            for (o, other) in cores.iter().enumerate() {
                assert!(
                    o == w || (other.perm.is_none() && !other.is_watched),
                    "line {line}: core{w} may write beside core{o} {other:?}"
                );
            }
        }
    }
}

/// Paths with equal legs; `shape` is LLCs, cores per LLC, homes.
pub fn paths(shape: (u32, u32, u32), legs: Legs) -> Paths {
    let (llcs, per, homes) = shape;
    let cores = llcs * per;
    let square = |a: u32, b: u32, v| vec![vec![v; b as usize]; a as usize];
    Paths {
        llc_of_core: (0..cores).map(|c| LlcId(c / per)).collect(),
        cores_of_llc: (0..llcs).map(|l| (l * per..(l + 1) * per).map(CoreId).collect()).collect(),
        core_llc: vec![legs.core; cores as usize],
        llc_core: vec![legs.core; cores as usize],
        llc_lookup: legs.llc_lookup,
        llc_service: legs.llc_service,
        llc_home: square(llcs, homes, legs.home),
        home_llc: square(homes, llcs, legs.home),
        home_device: vec![legs.home; homes as usize],
        llc_llc: square(llcs, llcs, legs.llc),
        home_lookup: legs.home_lookup,
        home_service: legs.home_service,
        memory: legs.memory,
        llc_geometry: vec![(legs.sets, legs.ways); llcs as usize],
        has_owned_state: legs.has_owned_state,
        home_ends: (1..=u64::from(homes)).map(|h| h << 20).collect(),
        mutation: legs.mutation,
    }
}

/// Lengths of a world with equal legs, in picoseconds.
#[derive(Clone, Copy, Debug)]
pub struct Legs {
    pub core: u64,
    pub home: u64,
    pub llc: u64,
    pub llc_lookup: u64,
    pub llc_service: u64,
    pub home_lookup: u64,
    pub home_service: u64,
    pub memory: u64,
    pub sets: u32,
    pub ways: u32,
    pub has_owned_state: bool,
    pub mutation: Mutation,
}

impl Default for Legs {
    fn default() -> Self {
        Legs {
            core: 10,
            home: 40,
            llc: 60,
            llc_lookup: 5,
            llc_service: 2,
            home_lookup: 8,
            home_service: 3,
            memory: 70,
            sets: 4,
            ways: 2,
            has_owned_state: false,
            mutation: Mutation::default(),
        }
    }
}

/// An item of the world.
#[derive(Clone, Copy, Debug)]
pub enum Item {
    Msg(Envelope),
    Op(CoreId, LineAddr, Op),
    /// The end of a hold: the core answers the snoop now.
    Answer(CoreId, LineAddr, SnoopKind),
    /// The LLC evicts a line.
    LlcEvict(LlcId, LineAddr),
    /// A device accesses the line at its home.
    Access(LineAddr, bool),
}

/// What happened, as a test sees it.
#[derive(Clone, Debug)]
pub enum Event {
    Msg(Envelope),
    Performed(CoreId, LineAddr, Op),
    Triggered(CoreId, LineAddr),
}

/// All nodes and what is under way.
pub struct World {
    pub paths: Paths,
    pub chance: Chance,
    pub cores: Vec<BTreeMap<LineAddr, CoreLine>>,
    pub answer_delay: Vec<u64>,
    pub llcs: Vec<Llc>,
    pub homes: Vec<Home>,
    pub agenda: Agenda<Item>,
    /// Per line, the cores that ever touched it.
    pub touched: BTreeMap<LineAddr, Vec<bool>>,
    last: BTreeMap<NodeRef, Key>,
    core_seq: Vec<u64>,
    out: Vec<Envelope>,
    pub events: Vec<(u64, Event)>,
    /// What the lines hold: each store makes a new value. In shadow mode nodes have copies of it.
    flat: Phys,
    copies: Vec<CoreCopies>,
    stores: u64,
    /// Accesses of devices: under way by line, which a home serves in order, and answered.
    is_write: BTreeMap<LineAddr, VecDeque<bool>>,
    pub accesses: Vec<(u64, LineAddr)>,
    device_seq: u64,
    /// A core drops E without a word, which no real one does: an LLC has no data then.
    is_forgetful: bool,
}

impl World {
    pub fn new(paths: Paths, seed: u64) -> World {
        let cores = paths.llc_of_core.len();
        let llcs = (0..paths.cores_of_llc.len() as u32).map(|l| Llc::new(LlcId(l), &paths));
        let homes = (0..paths.home_ends.len() as u32).map(|h| Home::new(HomeId(h), &paths));
        World {
            llcs: llcs.collect(),
            homes: homes.collect(),
            chance: Chance::new(seed),
            cores: vec![BTreeMap::new(); cores],
            answer_delay: vec![0; cores],
            agenda: Agenda::default(),
            touched: BTreeMap::new(),
            last: BTreeMap::new(),
            core_seq: vec![0; cores],
            out: Vec::new(),
            events: Vec::new(),
            flat: Phys::new(1 << 30),
            copies: vec![CoreCopies::default(); cores],
            stores: 0,
            is_write: BTreeMap::new(),
            accesses: Vec::new(),
            device_seq: 0,
            is_forgetful: false,
            paths,
        }
    }

    /// The request of a device leaves.
    fn access(&mut self, now: u64, line: LineAddr, write: bool) {
        let home = self.paths.home_of(line.base());
        let (to, from) = (NodeRef::Home(home), NodeRef::Device(0));
        let time = now + self.paths.home_device[home.index()];
        self.device_seq += 1;
        self.is_write.entry(line).or_default().push_back(write);
        let tie = self.chance.tie(line.0, time, from.rank());
        let seq = self.device_seq;
        let key = Key { time, phase: Phase::Request, tie, source: from.rank(), seq };
        let msg = LineMsg::Access { write };
        self.out.push(Envelope { key, to, from, line, msg, data: Data::default() });
    }

    /// The home makes the access: no writer is left, and no copy beside a write (V1).
    fn accessed(&mut self, line: LineAddr, behind: &mut [Envelope]) {
        let write = self.is_write.get_mut(&line).unwrap().pop_front().unwrap();
        for core in &self.cores {
            let perm = core.get(&line).and_then(|l| l.perm);
            let is_legal = if write { perm.is_none() } else { !perm.is_some_and(Perm::can_write) };
            assert!(is_legal, "access to line {line}, write {write}, beside {perm:?}");
        }
        if self.is_forgetful {
            return;
        }
        let home = self.paths.home_of(line.base());
        let (flat, stores) = (&self.flat, &mut self.stores);
        let access = || {
            if write {
                *stores += 1;
                flat.store(line.base(), 8, *stores);
            }
        };
        self.homes[home.index()].access(line, flat, access, behind);
    }

    pub fn core_line(&self, core: CoreId, line: LineAddr) -> CoreLine {
        self.cores[core.index()].get(&line).copied().unwrap_or_default()
    }

    /// Schedules an operation of a core.
    pub fn op(&mut self, time: u64, core: CoreId, line: LineAddr, op: Op) {
        self.is_forgetful |= op == Op::Forget;
        let key = self.own_key(time, Phase::Step, core);
        self.agenda.push(key, Item::Op(core, line, op));
    }

    fn own_key(&mut self, time: u64, phase: Phase, core: CoreId) -> Key {
        let seq = self.core_seq[core.index()];
        self.core_seq[core.index()] += 1;
        Key { time, phase, tie: 0, source: NodeRef::Core(core).rank(), seq }
    }

    /// Handles the next item; `None` when there is none.
    pub fn step(&mut self) -> Option<u64> {
        let (key, item) = self.agenda.pop()?;
        let now = key.time;
        match item {
            Item::Msg(e) => {
                let last = self.last.insert(e.to, e.key);
                assert!(last.is_none_or(|l| l < e.key), "late message {e:?}");
                self.events.push((now, Event::Msg(e)));
                match e.to {
                    NodeRef::Core(c) => self.core_msg(now, c, &e),
                    NodeRef::Llc(l) => {
                        self.llcs[l.index()].handle(&e, &self.paths, self.chance, &mut self.out);
                    }
                    NodeRef::Home(h) => {
                        self.homes[h.index()].begin_shadow(e.line, &self.flat);
                        self.homes[h.index()].handle(&e, &self.paths, self.chance, &mut self.out);
                    }
                    // The answer: the access was made when it left.
                    NodeRef::Device(_) => self.accesses.push((now, e.line)),
                    to => panic!("message to {to:?}"),
                }
            }
            Item::Op(core, line, op) => {
                let before = *self.line_mut(core, line);
                if op == Op::Evict && before.perm == Some(Perm::Read) {
                    self.copies[core.index()].left(line, false, before.wants.is_some());
                }
                let deeds = self.line_mut(core, line).start(op);
                self.apply(now, core, line, (before, deeds));
            }
            Item::Answer(core, line, kind) => {
                let msg = LineMsg::Snoop { kind, grant_to: None };
                let before = *self.line_mut(core, line);
                let deeds = self.line_mut(core, line).handle(msg);
                self.apply(now, core, line, (before, deeds));
            }
            Item::Access(line, write) => self.access(now, line, write),
            Item::LlcEvict(llc, line) => {
                let llc = &mut self.llcs[llc.index()];
                llc.evict(line, now, &self.paths, self.chance, &mut self.out);
            }
        }
        let mut out = std::mem::take(&mut self.out);
        for i in 0..out.len() {
            let (until_here, behind) = out.split_at_mut(i + 1);
            let e = until_here[i];
            assert!(e.key.time >= now);
            if e.msg == LineMsg::AccessDone {
                self.accessed(e.line, behind);
            }
            assert_eq!(e.key.phase, phase_of(&e.msg));
            self.agenda.push(e.key, Item::Msg(e));
        }
        out.clear();
        self.out = out;
        Some(now)
    }

    /// Handles all that is under way.
    pub fn run(&mut self) {
        while self.step().is_some() {}
        self.assert_idle();
    }

    /// Nothing waits: a request that is still open is a deadlock.
    pub fn assert_idle(&self) {
        for (c, core) in self.cores.iter().enumerate() {
            for (line, l) in core {
                assert!(l.wants.is_none(), "core{c} waits for line {line}: {:?}", self.busy());
            }
        }
        assert!(self.busy().is_empty(), "{:?}", self.busy());
        assert!(self.llcs.iter().all(Llc::is_idle) && self.homes.iter().all(Home::is_idle));
    }

    pub fn busy(&self) -> Vec<emu_mem::directory::BusyLine> {
        let llcs = self.llcs.iter().flat_map(|l| l.busy_lines(&self.paths));
        llcs.chain(self.homes.iter().flat_map(Home::busy_lines)).collect()
    }

    fn line_mut(&mut self, core: CoreId, line: LineAddr) -> &mut CoreLine {
        let cores = self.cores.len();
        self.touched.entry(line).or_insert_with(|| vec![false; cores])[core.index()] = true;
        self.cores[core.index()].entry(line).or_default()
    }

    fn core_msg(&mut self, now: u64, core: CoreId, e: &Envelope) {
        let delay = self.answer_delay[core.index()];
        match e.msg {
            LineMsg::Snoop { kind, .. } if delay > 0 => {
                let key = self.own_key(now + delay, Phase::HoldEnd, core);
                self.agenda.push(key, Item::Answer(core, e.line, kind));
            }
            msg => {
                if let LineMsg::Grant(_) = msg {
                    self.copies[core.index()].granted(e.line, e.data);
                }
                let before = *self.line_mut(core, e.line);
                let deeds = self.line_mut(core, e.line).handle(msg);
                self.apply(now, core, e.line, (before, deeds));
            }
        }
    }

    /// The data that a message of a core carries; `before` is its line before that.
    fn data_of(&mut self, core: CoreId, line: LineAddr, before: CoreLine, msg: &LineMsg) -> Data {
        let was_writer = before.perm.is_some_and(Perm::can_write);
        let copies = &mut self.copies[core.index()];
        match msg {
            LineMsg::Put { .. } => copies.left(line, was_writer, before.wants.is_some()),
            LineMsg::Ack { kept, .. } => copies.snooped(line, was_writer, *kept),
            _ => Data::default(),
        }
    }

    /// An access performs: in shadow mode it finds the newest value in the core's own copy.
    fn perform(&mut self, now: u64, core: CoreId, line: LineAddr, op: Op) {
        let copies = &mut self.copies[core.index()];
        if self.is_forgetful || !matches!(op, Op::Load | Op::Store) {
            return;
        }
        copies.check(line, &self.flat, || format!("{core} at {now}: {op:?}"));
        if op == Op::Store {
            self.stores += 1;
            self.flat.store(line.base(), 8, self.stores);
            copies.wrote(line, &self.flat);
        }
    }

    fn apply(
        &mut self,
        now: u64,
        core: CoreId,
        line: LineAddr,
        (before, deeds): (CoreLine, Deeds),
    ) {
        let to = NodeRef::Llc(self.paths.llc_of_core[core.index()]);
        let from = NodeRef::Core(core);
        for msg in deeds.sent {
            let time = now + self.paths.core_llc[core.index()];
            let phase = phase_of(&msg);
            let mut key = self.own_key(time, phase, core);
            if phase == Phase::Request {
                key.tie = self.chance.tie(line.0, time, from.rank());
            }
            let data = self.data_of(core, line, before, &msg);
            self.out.push(Envelope { key, to, from, line, msg, data });
        }
        if deeds.is_triggered {
            self.events.push((now, Event::Triggered(core, line)));
        }
        if let Some(op) = deeds.performed {
            self.perform(now, core, line, op);
            self.events.push((now, Event::Performed(core, line, op)));
        }
        let who = &self.touched[&line];
        let lines: Vec<CoreLine> =
            (0..who.len())
                .map(|c| {
                    if who[c] {
                        self.core_line(CoreId(c as u32), line)
                    } else {
                        CoreLine::default()
                    }
                })
                .collect();
        assert_single_writer(line, &lines);
    }
}
