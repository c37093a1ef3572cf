//! Visits every state that a few real cores, LLCs and a home can reach.
//!
//! **What moves.** The nodes are those of the machine: `Core` with its store buffer, requests,
//! holds, monitor and caches, `Llc`, `Home`. A core runs a script of one operation at a time.
//! Messages are handed out by choice, in any order that keeps that of a pair of nodes and a line
//! (L8), except that on one edge an earlier phase goes first (K3): a message may overtake one of a
//! later phase, or the answer of a sleeping core (W4). Every free core may begin every operation at
//! every moment, holds end at any moment, LLCs evict at any moment.
//!
//! **How it fits.** Each node's states are kept once and numbered, and each transition is computed
//! once: a state of the machine is a list of numbers. A home, and an LLC with room for all lines,
//! treats lines apart (all legs are zero), so there is one copy of it per line. States that differ
//! by names of equal cores, equal LLCs and lines count once. Seen states are kept as 64-bit
//! digests: n states are confused with a chance of n * n / 2^65.
//!
//! **What is checked** in every state: one writer or many readers (L2), no watch beside a writer
//! (W3), the nodes' own assertions, first in first out (L1). Where nothing is left to deliver:
//! nobody waits (no deadlock), and the records of LLCs and home name all that cores hold (L11).
//! And no circle without a new operation: whatever the order of messages, all that has begun ends.
//!
//! **Values** are in the states under the feature `shadow` only: then copies and messages carry
//! data, each atomic changes its line, and each access of a core compares its copy with flat
//! memory. There are several times as many states. Without it, one writer or many readers in every
//! state means that each read returns the last write (V3).

mod nodes;
pub mod script;
pub mod search;

use std::collections::BTreeMap;
use std::hash::Hasher;
use std::sync::Arc;

use emu_cpu::node::Core;
use emu_mem::directory::phase_of;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::msg::LineMsg;
use emu_mem::paths::Paths;
use emu_mem::phys::Phys;
use emu_mem::shadow::Data;
use emu_sim::mutant::Mutation;
use emu_sim::{Chance, CoreId, CpuId, HomeId, LineAddr, LlcId, NodeRef};
use nodes::{Input, LINES, Node, Sent, View, World};
use rustc_hash::{FxHashMap, FxHasher};
use script::{Op, Script};

/// Most states of one node: more would be an error in its name.
const NODES_MAX: usize = 100_000;

/// A machine and what its cores do.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub llcs: u32,
    /// Cores of each LLC.
    pub per: u32,
    pub lines: u8,
    /// Ways of each LLC; below `lines` a fill evicts.
    pub llc_ways: u32,
    /// Ways of the private caches: 1 or `lines`.
    pub core_ways: u32,
    pub has_owned_state: bool,
    /// Cores hold a line after a demand grant.
    pub keeps: bool,
    /// Requests under way at which a core asks for no further ownership ahead of need.
    pub fill_buffers: usize,
    /// Stores that a core may have buffered when it begins an operation.
    pub stores: usize,
    /// Operations on a line.
    pub ops: &'static [fn(u8) -> Op],
    /// Cores sleep and lose their caches.
    pub sleeps: bool,
    /// LLCs evict at any moment.
    pub evicts: bool,
    /// Messages reach a core between any two of its cycles, not only when it has come to rest.
    pub is_fine: bool,
    /// States of each node that are kept to prove that its names say all.
    pub twins: usize,
}

/// New names: `x[old]` is new.
pub struct Symmetry {
    pub cores: Vec<u8>,
    pub llcs: Vec<u8>,
    pub lines: [u8; LINES],
    slots: Vec<usize>,
    queues: Vec<usize>,
}

/// A place for a node in a state: which, and the lines that this copy of it knows.
struct Slot {
    who: NodeRef,
    lines: Vec<u8>,
    nodes: Vec<Node>,
    views: Vec<View>,
    /// Contribution of each node to the digest of a state, by node, then symmetry.
    names: Vec<Vec<u64>>,
    by_name: FxHashMap<u64, u32>,
    /// By node, key of the input, and flat memory.
    next: FxHashMap<(u32, u32, u32), Step>,
    /// Inputs that this place has had, by key and flat memory.
    inputs: BTreeMap<(u32, u32), Input>,
    /// Other states than the one that is kept, of the same name.
    twins: Vec<(u32, Node)>,
}

/// Messages that leave a node: ways and codes.
type Messages = Arc<[(u16, u8)]>;

/// What an input makes of a node and of flat memory, and what the node sends.
type Step = (u32, u32, Messages);

/// A way for messages of one line.
struct Way {
    from: NodeRef,
    to: NodeRef,
    line: u8,
    /// Slot of the receiver.
    slot: usize,
}

/// Numbers of the nodes' states, by slot, then numbers of the contents of all ways, then flat
/// memory.
type State = Box<[u32]>;

#[derive(Clone, Copy, Debug)]
struct Choice {
    slot: usize,
    input: Input,
    /// The input as a number.
    key: u32,
    /// Way and place of the message.
    from: Option<(usize, usize)>,
}

pub struct Explorer {
    case: Case,
    world: World,
    symmetries: Vec<Symmetry>,
    /// Room for the digest of a state under each symmetry.
    sums: Vec<u64>,
    slots: Vec<Slot>,
    ways: Vec<Way>,
    messages: Vec<(LineMsg, Data, bool)>,
    contents: Vec<Vec<u8>>,
    /// By content, then symmetry.
    content_names: Vec<Vec<u64>>,
    by_content: FxHashMap<Vec<u8>, u32>,
    /// What a content becomes by a message at its end, or without the one at a place.
    longer: FxHashMap<(u32, u8), u32>,
    shorter: FxHashMap<(u32, usize), u32>,
}

fn mix(slot: usize, name: u64) -> u64 {
    let z = name ^ (slot as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn permutations(n: u8) -> Vec<Vec<u8>> {
    let Some(last) = n.checked_sub(1) else { return vec![Vec::new()] };
    let mut all = Vec::new();
    for p in permutations(last) {
        for at in 0..=p.len() {
            let mut longer = p.clone();
            longer.insert(at, last);
            all.push(longer);
        }
    }
    all.sort();
    all
}

impl Case {
    fn paths(&self, mutation: Mutation) -> Paths {
        let (llcs, per) = (self.llcs, self.per);
        let square = |a: u32, b: u32| vec![vec![0; b as usize]; a as usize];
        Paths {
            llc_of_core: (0..llcs * per).map(|c| LlcId(c / per)).collect(),
            cores_of_llc: (0..llcs)
                .map(|l| (l * per..(l + 1) * per).map(CoreId).collect())
                .collect(),
            core_llc: vec![0; (llcs * per) as usize],
            llc_core: vec![0; (llcs * per) as usize],
            llc_lookup: 0,
            llc_service: 0,
            llc_home: square(llcs, 1),
            home_llc: square(1, llcs),
            home_device: vec![0],
            llc_llc: square(llcs, llcs),
            home_lookup: 0,
            home_service: 0,
            memory: 0,
            llc_geometry: vec![(1, self.llc_ways); llcs as usize],
            has_owned_state: self.has_owned_state,
            home_ends: vec![1 << 20],
            mutation,
        }
    }

    /// Copies of an LLC: one per line if lines do not share its ways.
    fn parts(&self) -> Vec<Vec<u8>> {
        let all: Vec<u8> = (0..self.lines).collect();
        let is_apart = self.llc_ways == 0 || self.llc_ways >= u32::from(self.lines);
        if is_apart { all.iter().map(|l| vec![*l]).collect() } else { vec![all] }
    }
}

impl Explorer {
    pub fn new(case: Case, mutation: Mutation) -> Explorer {
        let paths = case.paths(mutation);
        let cores = case.llcs * case.per;
        let world =
            World { paths, phys: Phys::new(1 << 16), lines: case.lines, is_fine: case.is_fine };
        let all: Vec<u8> = (0..case.lines).collect();
        let mut slots = Vec::new();
        let slot = |who, lines| Slot {
            who,
            lines,
            nodes: Vec::new(),
            views: Vec::new(),
            names: Vec::new(),
            by_name: FxHashMap::default(),
            next: FxHashMap::default(),
            inputs: BTreeMap::new(),
            twins: Vec::new(),
        };
        slots.extend((0..cores).map(|c| slot(NodeRef::Core(CoreId(c)), all.clone())));
        for l in 0..case.llcs {
            slots.extend(case.parts().into_iter().map(|p| slot(NodeRef::Llc(LlcId(l)), p)));
        }
        slots.extend(all.iter().map(|l| slot(NodeRef::Home(HomeId(0)), vec![*l])));
        let mut ways = Vec::new();
        let find = |who: NodeRef, line: u8| {
            slots.iter().position(|s: &Slot| s.who == who && s.lines.contains(&line)).unwrap()
        };
        for line in all {
            let mut way = |from, to| {
                ways.push(Way { from, to, line, slot: find(to, line) });
            };
            for (c, l) in world.paths.llc_of_core.iter().enumerate() {
                let (c, l) = (NodeRef::Core(CoreId(c as u32)), NodeRef::Llc(*l));
                way(c, l);
                way(l, c);
            }
            for l in (0..case.llcs).map(|l| NodeRef::Llc(LlcId(l))) {
                way(l, NodeRef::Home(HomeId(0)));
                way(NodeRef::Home(HomeId(0)), l);
                for other in (0..case.llcs).map(|l| NodeRef::Llc(LlcId(l))).filter(|o| *o != l) {
                    way(l, other);
                }
            }
        }
        let mut explorer = Explorer {
            symmetries: Vec::new(),
            sums: Vec::new(),
            case,
            world,
            slots,
            ways,
            messages: Vec::new(),
            contents: Vec::new(),
            content_names: Vec::new(),
            by_content: FxHashMap::default(),
            longer: FxHashMap::default(),
            shorter: FxHashMap::default(),
        };
        explorer.find_symmetries();
        explorer.sums = vec![0; explorer.symmetries.len()];
        explorer
    }

    /// Every renaming of cores, LLCs and lines that leaves the machine as it is; the first changes
    /// nothing.
    fn find_symmetries(&mut self) {
        let (llcs, per) = (self.case.llcs as u8, self.case.per as u8);
        for cores in permutations(llcs * per) {
            let mut groups = BTreeMap::new();
            let keeps = (0..llcs * per).all(|c| {
                let new = cores[usize::from(c)] / per;
                *groups.entry(c / per).or_insert(new) == new
            });
            if !keeps {
                continue;
            }
            let llcs: Vec<u8> = groups.into_values().collect();
            for lines in permutations(self.case.lines) {
                let lines = [lines[0], lines.get(1).copied().unwrap_or(1)];
                let rename = |who: NodeRef| match who {
                    NodeRef::Core(c) => NodeRef::Core(CoreId(cores[c.index()].into())),
                    NodeRef::Llc(l) => NodeRef::Llc(LlcId(llcs[l.index()].into())),
                    other => other,
                };
                let line = |l: u8| lines[usize::from(l)];
                let slot_of = |s: &Slot| {
                    let (who, first) = (rename(s.who), line(s.lines[0]));
                    self.slots.iter().position(|t| t.who == who && t.lines.contains(&first))
                };
                let way_of = |w: &Way| {
                    let new = (rename(w.from), rename(w.to), line(w.line));
                    self.ways.iter().position(|t| (t.from, t.to, t.line) == new)
                };
                let slots = self.slots.iter().map(|s| slot_of(s).unwrap()).collect();
                let queues =
                    self.ways.iter().map(|w| self.slots.len() + way_of(w).unwrap()).collect();
                let (cores, llcs) = (cores.clone(), llcs.clone());
                self.symmetries.push(Symmetry { cores, llcs, lines, slots, queues });
            }
        }
    }

    fn first(&mut self) -> State {
        let config = Arc::new(nodes::config(&self.case, self.world.paths.mutation));
        let mut state = Vec::new();
        for slot in 0..self.slots.len() {
            let paths = &self.world.paths;
            let node = match self.slots[slot].who {
                NodeRef::Core(id) => {
                    let cpu = CpuId(id.0);
                    let cpus = vec![(cpu, id.0, Script::default())];
                    let llc = paths.llc_of_core[id.index()];
                    let chance = Chance::new(0);
                    let core = Core::new(id, llc, config.clone(), cpus, Some(cpu), chance);
                    Node::start(core, &self.world)
                }
                NodeRef::Llc(id) => Node::Llc(Box::new(Llc::new(id, paths)), Default::default()),
                _ => {
                    let mut home = Home::new(HomeId(0), paths);
                    self.world.set_values(0);
                    for line in 0..self.case.lines {
                        home.begin_shadow(LineAddr(line.into()), &self.world.phys);
                    }
                    Node::Home(Box::new(home), Default::default())
                }
            };
            state.push(self.number(slot, node));
        }
        let empty = self.content(Vec::new());
        state.extend(self.ways.iter().map(|_| empty));
        state.push(0);
        state.into()
    }

    fn number(&mut self, slot: usize, node: Node) -> u32 {
        let s = &mut self.slots[slot];
        let llc = if let NodeRef::Llc(l) = s.who { l.index() } else { 0 };
        let name = node.name(&s.lines, &self.symmetries[0], llc, &self.world);
        if let Some(n) = s.by_name.get(&name) {
            if s.twins.len() < self.case.twins {
                s.twins.push((*n, node));
            }
            return *n;
        }
        let name_under =
            |y: &Symmetry| mix(y.slots[slot], node.name(&s.lines, y, llc, &self.world));
        s.names.push(self.symmetries.iter().map(name_under).collect());
        s.views.push(node.view(&self.world));
        s.nodes.push(node);
        assert!(s.nodes.len() <= NODES_MAX, "{:?} has no end of states", s.who);
        let n = (s.nodes.len() - 1) as u32;
        s.by_name.insert(name, n);
        n
    }

    fn content(&mut self, codes: Vec<u8>) -> u32 {
        if let Some(n) = self.by_content.get(&codes) {
            return *n;
        }
        let name = |y: &Symmetry| {
            let mut h = FxHasher::default();
            for code in &codes {
                let (mut msg, data, is_slow) = self.messages[usize::from(*code)];
                if let LineMsg::Snoop { grant_to: Some(llc), .. } = &mut msg {
                    *llc = LlcId(y.llcs[llc.index()].into());
                }
                std::hash::Hash::hash(&(msg, data, is_slow), &mut h);
            }
            h.finish()
        };
        self.content_names.push(self.symmetries.iter().map(name).collect());
        let n = self.contents.len() as u32;
        self.by_content.insert(codes.clone(), n);
        self.contents.push(codes);
        n
    }

    fn code(&mut self, message: (LineMsg, Data, bool)) -> u8 {
        let at = self.messages.iter().position(|m| *m == message);
        let at = at.unwrap_or_else(|| {
            self.messages.push(message);
            self.messages.len() - 1
        });
        u8::try_from(at).unwrap()
    }

    /// The least of the names that a state has under all symmetries.
    fn digest(&mut self, state: &State) -> u64 {
        let (nodes, queues) = state[..state.len() - 1].split_at(self.slots.len());
        let values = state[state.len() - 1];
        let sums = &mut self.sums;
        sums.fill(0);
        for (slot, n) in self.slots.iter().zip(nodes) {
            for (sum, name) in sums.iter_mut().zip(&slot.names[*n as usize]) {
                *sum = sum.wrapping_add(*name);
            }
        }
        for (i, n) in queues.iter().enumerate().filter(|(_, n)| **n != 0) {
            let names = &self.content_names[*n as usize];
            for ((sum, name), y) in sums.iter_mut().zip(names).zip(&self.symmetries) {
                *sum = sum.wrapping_add(mix(y.queues[i], *name));
            }
        }
        for line in (0..self.case.lines).filter(|line| values >> line & 1 == 1) {
            for (sum, y) in sums.iter_mut().zip(&self.symmetries) {
                *sum = sum.wrapping_add(mix(usize::MAX / 2, y.lines[usize::from(line)].into()));
            }
        }
        sums.iter().copied().min().unwrap_or(0)
    }

    /// What ends by itself: deliveries, and times that come.
    fn progress(&self, state: &State) -> Vec<Choice> {
        let mut out = Vec::new();
        for (w, way) in self.ways.iter().enumerate() {
            let codes = &self.contents[state[self.slots.len() + w] as usize];
            for (i, code) in codes.iter().enumerate() {
                let (msg, data, _) = self.messages[usize::from(*code)];
                let may_pass = |earlier: &u8| {
                    let (e, _, is_slow) = &self.messages[usize::from(*earlier)];
                    *is_slow || phase_of(e) > phase_of(&msg)
                };
                if codes[..i].iter().all(may_pass) {
                    let input = Input::Msg(way.from, way.line, msg, data);
                    let key = (w as u32) << 8 | u32::from(*code);
                    out.push(Choice { slot: way.slot, input, key, from: Some((w, i)) });
                }
            }
        }
        for (slot, s) in self.slots.iter().enumerate() {
            if s.views[state[slot] as usize].has_time {
                out.push(Choice { slot, input: Input::Time, key: u32::MAX, from: None });
            }
        }
        out
    }

    /// What may begin.
    fn beginnings(&self, state: &State) -> Vec<Choice> {
        let mut out = Vec::new();
        for (slot, s) in self.slots.iter().enumerate() {
            let v = &s.views[state[slot] as usize];
            let mut key = u32::MAX / 2;
            let mut consider = |may: bool, input| {
                key += 1;
                if may {
                    out.push(Choice { slot, input, key, from: None });
                }
            };
            for line in &s.lines {
                for op in self.case.ops {
                    let op = op(*line);
                    let has_room = !matches!(op, Op::Store(_)) || v.stores < self.case.stores;
                    consider(v.is_free && has_room, Input::Op(op));
                }
                let has_data = v.has_data[usize::from(*line)];
                consider(self.case.evicts && has_data, Input::Evict(*line));
            }
            consider(v.is_free && self.case.sleeps, Input::Op(Op::Sleep));
        }
        out
    }

    /// The state that a choice leads to, if that is another one.
    fn apply(&mut self, state: &State, choice: Choice) -> Option<State> {
        let (before, last) = (state[choice.slot], state.len() - 1);
        let (n, values, sent) = self.transition(choice, before, state[last]);
        if (n, values) == (before, state[last]) && sent.is_empty() && choice.from.is_none() {
            return None;
        }
        let mut next = state.clone();
        (next[choice.slot], next[last]) = (n, values);
        let queues = self.slots.len();
        if let Some((w, i)) = choice.from {
            next[queues + w] = self.without(state[queues + w], i);
        }
        for (w, code) in sent.iter() {
            let at = queues + usize::from(*w);
            next[at] = self.with(next[at], *code);
        }
        Some(next)
    }

    fn with(&mut self, content: u32, code: u8) -> u32 {
        if let Some(n) = self.longer.get(&(content, code)) {
            return *n;
        }
        let mut codes = self.contents[content as usize].clone();
        codes.push(code);
        let n = self.content(codes);
        self.longer.insert((content, code), n);
        n
    }

    fn without(&mut self, content: u32, at: usize) -> u32 {
        if let Some(n) = self.shorter.get(&(content, at)) {
            return *n;
        }
        let mut codes = self.contents[content as usize].clone();
        codes.remove(at);
        let n = self.content(codes);
        self.shorter.insert((content, at), n);
        n
    }

    fn transition(&mut self, choice: Choice, node: u32, values: u32) -> Step {
        let Choice { slot, input, key, .. } = choice;
        let s = &self.slots[slot];
        if let Some(step) = s.next.get(&(node, key, values)) {
            return step.clone();
        }
        let moved = s.nodes[node as usize].clone();
        let step = self.step(slot, moved, input, values);
        let s = &mut self.slots[slot];
        s.inputs.insert((key, values), input);
        s.next.insert((node, key, values), step.clone());
        step
    }

    fn step(&mut self, slot: usize, mut node: Node, input: Input, values: u32) -> Step {
        let from = self.slots[slot].who;
        let mut sent = Vec::new();
        self.world.set_values(values);
        node.apply(input, &self.world, &mut sent);
        let values = self.world.values();
        let code = |Sent { to, line, msg, data, is_slow }: &Sent| {
            let is_way = |w: &Way| (w.from, w.to, w.line) == (from, *to, *line);
            let way = self.ways.iter().position(is_way).unwrap() as u16;
            (way, self.code((*msg, *data, *is_slow)))
        };
        let sent = sent.iter().map(code).collect();
        (self.number(slot, node), values, sent)
    }
}
