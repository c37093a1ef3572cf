//! The search: states are visited depth first, deliveries before new operations, and checked.

use emu_mem::llc::Up;
use emu_mem::msg::Perm;
use emu_sim::{CoreId, HomeId, LineAddr, NodeRef};
use rustc_hash::FxHashSet;

use super::nodes::{Node, View};
use super::{Choice, Explorer, State, mix};

const CIRCLE: &str = "a circle without a new operation";

/// What an exploration found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// States, up to symmetry.
    pub states: usize,
    /// Transitions between them.
    pub transitions: u64,
    /// Whether that is all there are.
    pub is_all: bool,
}

impl Explorer {
    fn view(&self, state: &State, slot: usize) -> &View {
        &self.slots[slot].views[state[slot] as usize]
    }

    fn cores(&self) -> usize {
        (self.case.llcs * self.case.per) as usize
    }

    fn check(&self, state: &State) {
        for l in 0..usize::from(self.case.lines) {
            let views = || (0..self.cores()).map(|c| (c, self.view(state, c)));
            for (w, _) in views().filter(|(_, v)| v.perm[l].is_some_and(Perm::can_write)) {
                for (o, v) in views().filter(|(o, _)| *o != w) {
                    assert!(v.perm[l].is_none(), "line {l}: core{w} may write beside core{o}");
                    assert!(!v.watches[l], "line {l}: core{w} may write, core{o} watches");
                }
            }
        }
    }

    /// Nothing is under way: nobody waits, and the records are true (L11).
    fn check_end(&self, state: &State) {
        for (slot, s) in self.slots.iter().enumerate() {
            let is_quiet = self.view(state, slot).is_quiet;
            assert!(is_quiet, "stuck: {:?}", s.nodes[state[slot] as usize]);
        }
        for line in 0..self.case.lines {
            self.check_records(state, line);
        }
    }

    fn check_records(&self, state: &State, line: u8) {
        let node = |who: NodeRef| {
            let at = self.slots.iter().position(|s| s.who == who && s.lines.contains(&line));
            let at = at.unwrap();
            &self.slots[at].nodes[state[at] as usize]
        };
        let (l, addr) = (usize::from(line), LineAddr(line.into()));
        let Node::Home(home, _) = node(NodeRef::Home(HomeId(0))) else { panic!("no home") };
        let home = home.record(addr);
        for c in 0..self.cores() {
            let v = self.view(state, c);
            let (core, llc) = (CoreId(c as u32), self.world.paths.llc_of_core[c]);
            let Node::Llc(node, _) = node(NodeRef::Llc(llc)) else { panic!("no {llc}") };
            let record = node.record(addr, &self.world.paths);
            let is_owner = record.owner == Some(core) && record.up.can_write();
            let is_known = record.sharers.contains(&core);
            let may_write = v.perm[l].is_some_and(Perm::can_write);
            assert!(!may_write || is_owner, "line {l}: core{c} writes, {record:?}");
            let may_read = is_owner || is_known && record.up != Up::None;
            assert!(v.perm[l].is_none() || may_read, "line {l}: core{c} reads, {record:?}");
            assert!(!v.watches[l] || is_owner || is_known, "line {l}: core{c} watches, {record:?}");
            let is_home_owner = home.owner == Some(llc);
            let holds = v.perm[l].is_some() || v.watches[l];
            let is_named = is_home_owner || home.sharers.contains(&llc);
            assert!(!holds || is_named, "line {l}: {llc} is unknown to {home:?}");
            let may = is_home_owner && home.is_writable;
            assert!(!record.up.can_write() || may, "line {l}: {llc} {record:?}, {home:?}");
        }
    }

    /// Visits all states, or the first `most` and some.
    pub fn explore(&mut self, most: usize) -> Found {
        let mut seen = FxHashSet::default();
        // States on the way from the last beginning to here.
        let mut path = FxHashSet::default();
        let mut transitions = 0;
        let mut roots = vec![self.first()];
        while let Some(root) = roots.pop() {
            let digest = self.digest(&root);
            if !seen.insert(digest) {
                continue;
            }
            if seen.len() > most {
                return Found { states: seen.len(), transitions, is_all: false };
            }
            let mut stack = vec![self.visit(root, digest, &mut path)];
            while let Some((state, digest, choices)) = stack.last_mut() {
                if let Some(choice) = choices.pop() {
                    transitions += 1;
                    let Some(next) = self.apply(state, choice) else { panic!("{CIRCLE}") };
                    let digest = self.digest(&next);
                    if seen.insert(digest) {
                        stack.push(self.visit(next, digest, &mut path));
                    } else {
                        assert!(!path.contains(&digest), "{CIRCLE}");
                    }
                } else {
                    path.remove(digest);
                    let state = std::mem::take(state);
                    stack.pop();
                    for choice in self.beginnings(&state) {
                        transitions += 1;
                        let Some(next) = self.apply(&state, choice) else { continue };
                        if !seen.contains(&self.digest(&next)) {
                            roots.push(next);
                        }
                    }
                }
            }
        }
        Found { states: seen.len(), transitions, is_all: true }
    }

    /// Goes at random through states that are too many to be visited; checks the same but circles.
    pub fn walk(&mut self, seed: u64, steps: u64) {
        let mut state = self.first();
        for step in 0..steps {
            self.check(&state);
            let mut choices = self.progress(&state);
            if choices.is_empty() {
                self.check_end(&state);
            }
            choices.extend(self.beginnings(&state));
            let dice = mix(0, seed ^ step) % choices.len() as u64;
            if let Some(next) = self.apply(&state, choices[dice as usize]) {
                state = next;
            }
        }
    }

    /// Whether names say all: nodes of one name, but of other history and time, do the same.
    /// Returns how many steps were compared.
    pub fn compare_twins(&mut self) -> usize {
        let mut compared = 0;
        for slot in 0..self.slots.len() {
            let inputs = self.slots[slot].inputs.clone();
            for (n, twin) in std::mem::take(&mut self.slots[slot].twins) {
                for ((key, values), input) in &inputs {
                    let Some(expected) = self.slots[slot].next.get(&(n, *key, *values)).cloned()
                    else {
                        continue;
                    };
                    let found = self.step(slot, twin.clone(), *input, *values);
                    assert_eq!(
                        found, expected,
                        "{input:?} to {:?}",
                        self.slots[slot].nodes[n as usize]
                    );
                    compared += 1;
                }
            }
        }
        compared
    }

    fn visit(
        &self,
        state: State,
        digest: u64,
        path: &mut FxHashSet<u64>,
    ) -> (State, u64, Vec<Choice>) {
        path.insert(digest);
        self.check(&state);
        let choices = self.progress(&state);
        if choices.is_empty() {
            self.check_end(&state);
        }
        (state, digest, choices)
    }
}
