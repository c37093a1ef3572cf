//! All interleavings of a line between few cores: every order of messages that a machine can
//! produce, with every operation at every moment.
//!
//! Legs are zero and messages are handed out by choice, in any order that keeps that of each pair
//! of nodes (L8), except that on one edge an earlier phase goes first (K3): a message may overtake
//! one of a later phase. Checked in every state: one writer (L2), no lost watch (W3), the nodes'
//! own assertions; and no state without messages in which a request still waits.
#![allow(clippy::unwrap_used, reason = "tests")]

mod model;

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

use emu_mem::directory::phase_of;
use emu_mem::home::Home;
use emu_mem::llc::Llc;
use emu_mem::msg::{Envelope, LineMsg, Perm};
use emu_mem::paths::Paths;
use emu_mem::shadow::Data;
use emu_sim::mutant::Mutation;
use emu_sim::{Chance, CoreId, HomeId, Key, LineAddr, LlcId, NodeRef, Phase};
use model::{CoreLine, Deeds, Legs, Op, assert_single_writer, paths};
use rustc_hash::FxHashSet;

const LINE: LineAddr = LineAddr(0);
const CHANCE: Chance = Chance::new(0);

#[derive(Clone)]
struct State {
    cores: Vec<CoreLine>,
    /// Shared between states until one of them changes.
    llcs: Vec<Rc<Llc>>,
    home: Rc<Home>,
    /// Messages under way, by (from, to), oldest first.
    channels: BTreeMap<(NodeRef, NodeRef), Vec<LineMsg>>,
}

/// What may happen next.
#[derive(Clone, Copy, Debug)]
enum Choice {
    Deliver(NodeRef, NodeRef, usize),
    Op(usize, Op),
    Evict(usize),
}

impl State {
    fn new(paths: &Paths) -> State {
        State {
            cores: vec![CoreLine::default(); paths.llc_of_core.len()],
            llcs: (0..paths.cores_of_llc.len() as u32)
                .map(|l| Rc::new(Llc::new(LlcId(l), paths)))
                .collect(),
            home: Rc::new(Home::new(HomeId(0), paths)),
            channels: BTreeMap::new(),
        }
    }

    fn digest(&self) -> u64 {
        let mut h = DefaultHasher::new();
        self.cores.hash(&mut h);
        self.llcs.iter().for_each(|l| l.hash_line(LINE, |place| place, |llc| llc, &mut h));
        self.home.hash_line(LINE, |llc| llc, &mut h);
        self.channels.hash(&mut h);
        h.finish()
    }

    fn choices(&self, ops: &[Op], paths: &Paths, out: &mut Vec<Choice>) {
        for ((from, to), queue) in &self.channels {
            for (i, m) in queue.iter().enumerate() {
                if queue[..i].iter().all(|earlier| phase_of(earlier) > phase_of(m)) {
                    out.push(Choice::Deliver(*from, *to, i));
                }
            }
        }
        for (c, core) in self.cores.iter().enumerate() {
            for op in ops {
                let is_useful = match op {
                    Op::Load => core.wants.is_none() && core.perm.is_none(),
                    Op::Store => core.wants.is_none() && core.perm != Some(Perm::Modified),
                    Op::Flush => core.wants.is_none(),
                    Op::Evict => core.perm.is_some(),
                    Op::Watch => core.perm.is_some() && !core.is_watched,
                    Op::Forget => core.perm == Some(Perm::Exclusive),
                };
                // A line that is asked for leaves only as S, under an upgrade.
                if is_useful && (core.wants.is_none() || *op == Op::Evict) {
                    out.push(Choice::Op(c, *op));
                }
            }
        }
        let has_data = |l: &usize| self.llcs[*l].record(LINE, paths).has_data;
        out.extend((0..self.llcs.len()).filter(has_data).map(Choice::Evict));
    }

    fn apply(&mut self, choice: Choice, paths: &Paths) {
        let mut out = Vec::new();
        match choice {
            Choice::Deliver(from, to, i) => {
                let queue = self.channels.get_mut(&(from, to)).unwrap();
                let msg = queue.remove(i);
                if queue.is_empty() {
                    self.channels.remove(&(from, to));
                }
                let key = Key::at(0, Phase::Grant);
                let e = Envelope { key, to, from, line: LINE, msg, data: Data::default() };
                match to {
                    NodeRef::Core(c) => {
                        let deeds = self.cores[c.index()].handle(msg);
                        self.send(c, deeds, paths);
                    }
                    NodeRef::Llc(l) => {
                        let llc = Rc::make_mut(&mut self.llcs[l.index()]);
                        llc.handle(&e, paths, CHANCE, &mut out);
                    }
                    _ => Rc::make_mut(&mut self.home).handle(&e, paths, CHANCE, &mut out),
                }
            }
            Choice::Op(c, Op::Evict) => {
                let sent = self.cores[c].evict().into_iter().collect();
                self.send(CoreId(c as u32), Deeds { sent, ..Deeds::default() }, paths);
            }
            Choice::Op(c, op) => {
                let deeds = self.cores[c].start(op);
                self.send(CoreId(c as u32), deeds, paths);
            }
            Choice::Evict(l) => {
                let llc = Rc::make_mut(&mut self.llcs[l]);
                llc.evict(LINE, 0, paths, CHANCE, &mut out);
            }
        }
        for e in out {
            self.channels.entry((e.from, e.to)).or_default().push(e.msg);
        }
    }

    fn send(&mut self, core: CoreId, deeds: Deeds, paths: &Paths) {
        let pair = (NodeRef::Core(core), NodeRef::Llc(paths.llc_of_core[core.index()]));
        for msg in deeds.sent {
            self.channels.entry(pair).or_default().push(msg);
        }
    }

    fn check(&self) {
        assert_single_writer(LINE, &self.cores);
        if self.channels.is_empty() {
            let is_idle = self.llcs.iter().all(|l| l.is_idle()) && self.home.is_idle();
            assert!(is_idle && self.cores.iter().all(|c| c.wants.is_none()), "stuck");
        }
    }
}

/// Visits every reachable state; returns their number.
fn explore(shape: (u32, u32), has_owned_state: bool, ways: u32, ops: &[Op]) -> usize {
    let zero = Legs {
        core: 0,
        home: 0,
        llc: 0,
        llc_lookup: 0,
        llc_service: 0,
        home_lookup: 0,
        home_service: 0,
        memory: 0,
        sets: 1,
        ways,
        has_owned_state,
        mutation: Mutation::default(),
    };
    let paths = paths((shape.0, shape.1, 1), zero);
    let first = State::new(&paths);
    let mut seen = FxHashSet::default();
    seen.insert(first.digest());
    let mut open = vec![first];
    let mut choices = Vec::new();
    while let Some(state) = open.pop() {
        choices.clear();
        state.choices(ops, &paths, &mut choices);
        for choice in &choices {
            let mut next = state.clone();
            next.apply(*choice, &paths);
            if seen.insert(next.digest()) {
                next.check();
                open.push(next);
            }
        }
    }
    seen.len()
}

const ALL: [Op; 6] = [Op::Load, Op::Store, Op::Evict, Op::Flush, Op::Watch, Op::Forget];

/// Explores and expects at least `least` states, so that a change of the test cannot empty it.
fn check(shape: (u32, u32), has_owned_state: bool, ways: u32, ops: &[Op], least: usize) {
    let n = explore(shape, has_owned_state, ways, ops);
    assert!(n >= least, "{shape:?} {ops:?}: only {n} states");
}

#[test]
fn two_cores_of_one_llc() {
    check((1, 2), true, 1, &ALL, 40_000);
}

#[test]
fn two_cores_of_one_llc_without_room_for_data() {
    check((1, 2), false, 0, &[Op::Load, Op::Store, Op::Evict, Op::Flush], 1_000);
}

#[test]
fn two_llcs_that_evict() {
    for has_owned_state in [false, true] {
        check((2, 1), has_owned_state, 1, &[Op::Load, Op::Store, Op::Evict], 15_000);
    }
}

#[test]
fn two_llcs_that_flush_and_watch() {
    check((2, 1), true, 1, &[Op::Load, Op::Store, Op::Flush, Op::Watch], 20_000);
}

#[test]
fn two_llcs_that_forget() {
    check((2, 1), true, 1, &[Op::Load, Op::Store, Op::Forget, Op::Watch], 5_000);
}

#[test]
fn two_llcs_without_room_for_data() {
    check((2, 1), true, 0, &[Op::Load, Op::Store, Op::Evict], 5_000);
}

#[test]
fn three_llcs_load_and_store() {
    check((3, 1), true, 1, &[Op::Load, Op::Store], 20_000);
}

/// The smallest machine in which a snoop from above meets a local hand-over (L9).
#[test]
fn two_llcs_of_two_cores_that_store() {
    check((2, 2), true, 1, &[Op::Store], 1_000);
}

/// All operations over two LLCs: minutes, so by choice. `EXHAUSTIVE=1` runs it.
#[test]
fn two_llcs_with_everything() {
    if std::env::var_os("EXHAUSTIVE").is_some() {
        for has_owned_state in [false, true] {
            check((2, 1), has_owned_state, 1, &ALL, 400_000);
            check((2, 2), has_owned_state, 1, &[Op::Load, Op::Store], 400_000);
        }
    }
}
