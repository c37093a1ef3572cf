//! The judge of memory order: a graph of what must come before what, which may have no cycle.
//!
//! Every write has a value of its own at its location, so each read names the write it took. From
//! program order, reads and locked operations follow edges between accesses; two graphs are
//! searched for a cycle: coherence of each location, and all locations in the order of the
//! instruction set, x86-TSO here or that of `weak`. Only edges that must hold are drawn: a cycle
//! is always a fault, while an order of two plain stores that nobody saw is left open.
//!
//! Source: [SDM-3] "Memory Ordering"; herd's `x86tso.cat` for the edges. Status: spec.

mod weak;

use std::collections::BTreeMap;
use std::fmt;

use tests_litmus::arm64::Types;
use topology::Isa;

use crate::program::Flavor;

/// What a location's values say about the order of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Nothing: each is only unlike all others.
    Unique,
    /// Values count upwards; some writes may be unknown.
    Versions,
}

/// How an access is ordered against others of its cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain load.
    Load,
    /// A plain store.
    Store,
    /// A locked instruction, with what it read and, unless it failed, wrote.
    Locked,
    /// MFENCE, or a locked instruction of another location; a barrier.
    Fence(Types),
    /// An instruction fetch: coherent, and in no order with loads and stores.
    Fetch,
}

/// One access of a cpu.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// Its order.
    pub kind: Kind,
    /// Location; of no meaning for a fence.
    pub location: u32,
    /// Value read; 0 is what memory held at first.
    pub reads: Option<u64>,
    /// Value written, not 0.
    pub writes: Option<u64>,
    /// Its order on arm64.
    pub flavor: Flavor,
}

impl Access {
    fn new(kind: Kind, location: u32, reads: Option<u64>, writes: Option<u64>) -> Self {
        Self { kind, location, reads, writes, flavor: Flavor::PLAIN }
    }

    /// The same, done in this way.
    #[must_use]
    pub fn done(self, flavor: Flavor) -> Self {
        Self { flavor, ..self }
    }

    /// Whether it has read and written.
    fn is_both(&self) -> bool {
        self.reads.is_some() && self.writes.is_some()
    }

    /// A load.
    #[must_use]
    pub fn load(location: u32, value: u64) -> Self {
        Self::new(Kind::Load, location, Some(value), None)
    }

    /// A store.
    #[must_use]
    pub fn store(location: u32, value: u64) -> Self {
        Self::new(Kind::Store, location, None, Some(value))
    }

    /// A locked instruction.
    #[must_use]
    pub fn locked(location: u32, reads: u64, writes: Option<u64>) -> Self {
        Self::new(Kind::Locked, location, Some(reads), writes)
    }

    /// A fence, of all accesses on x86.
    #[must_use]
    pub fn fence(types: Types) -> Self {
        Self::new(Kind::Fence(types), 0, None, None)
    }

    /// A fetch.
    #[must_use]
    pub fn fetch(location: u32, value: u64) -> Self {
        Self::new(Kind::Fetch, location, Some(value), None)
    }
}

/// Why an execution is forbidden.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Two writes left the same value: one did not see the other.
    LostUpdate(String),
    /// A value that nobody wrote.
    FromNowhere(String),
    /// Two locked operations took the value of one write.
    NotAtomic(String),
    /// One location's accesses have no order.
    Coherence(String),
    /// The accesses of all locations have no order that the instruction set allows.
    Memory(String),
    /// The value at the end is not the last one.
    Final(String),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LostUpdate(what) => write!(f, "lost update: {what}"),
            Self::FromNowhere(what) => write!(f, "value from nowhere: {what}"),
            Self::NotAtomic(what) => write!(f, "not atomic: {what}"),
            Self::Coherence(what) => write!(f, "order of one location: {what}"),
            Self::Memory(what) => write!(f, "memory order: {what}"),
            Self::Final(what) => write!(f, "final value: {what}"),
        }
    }
}

/// Accesses of all cpus, and what memory held at the end.
#[derive(Clone, Debug)]
pub struct Execution {
    /// Whose order it is.
    pub isa: Isa,
    /// What values say, by location.
    pub locations: Vec<Values>,
    /// By cpu, in program order.
    pub cpus: Vec<Vec<Access>>,
    /// Final values, by location.
    pub last: Vec<u64>,
}

impl Execution {
    /// No access yet.
    #[must_use]
    pub fn new(isa: Isa, locations: Vec<Values>) -> Self {
        Self { isa, locations, cpus: Vec::new(), last: Vec::new() }
    }
}

/// Accesses in one row, with the edges that hold in both graphs.
struct Graph<'a> {
    execution: &'a Execution,
    /// (cpu, place in its program, access).
    nodes: Vec<(usize, usize, Access)>,
    /// Write of each value, by location.
    writers: Vec<BTreeMap<u64, usize>>,
    /// Edges from write to later write, from read to later write. A node's number plus the number
    /// of nodes is "after all reads of this write", plus twice that number "of the first value",
    /// by location; in the order of arm64 those behind are the reads of what reads and writes.
    edges: Vec<(usize, usize)>,
}

/// Checks an execution.
///
/// # Errors
/// The first rule that it breaks.
pub fn check(execution: &Execution) -> Result<(), Violation> {
    let mut graph = Graph::new(execution)?;
    let sources = graph.sources()?;
    graph.write_order(&sources)?;
    graph.acyclic(&graph.coherence(&sources)).map_err(Violation::Coherence)?;
    let edges = match execution.isa {
        Isa::X86_64 => graph.tso(&sources),
        Isa::Aarch64 => graph.weak(&sources),
    };
    graph.acyclic(&edges).map_err(Violation::Memory)
}

impl<'a> Graph<'a> {
    fn new(execution: &'a Execution) -> Result<Self, Violation> {
        let mut nodes = Vec::new();
        let mut writers = vec![BTreeMap::new(); execution.locations.len()];
        for (cpu, accesses) in execution.cpus.iter().enumerate() {
            for (n, access) in accesses.iter().enumerate() {
                if let Some(value) = access.writes {
                    let of: &mut BTreeMap<u64, usize> = &mut writers[access.location as usize];
                    if let Some(other) = of.insert(value, nodes.len()) {
                        let (by, at, _) = nodes[other];
                        return Err(Violation::LostUpdate(format!(
                            "location {} got {value:#x} by cpu {by} access {at} and by cpu {cpu} \
                             access {n}",
                            access.location
                        )));
                    }
                }
                nodes.push((cpu, n, *access));
            }
        }
        Ok(Self { execution, nodes, writers, edges: Vec::new() })
    }

    fn values(&self, node: usize) -> Values {
        self.execution.locations[self.nodes[node].2.location as usize]
    }

    fn text(&self, node: usize) -> String {
        let (cpu, n, a) = self.nodes[node];
        let value = |v: Option<u64>| v.map_or("-".to_owned(), |v| format!("{v:#x}"));
        format!(
            "cpu {cpu} access {n} {:?} location {} read {} wrote {}",
            a.kind,
            a.location,
            value(a.reads),
            value(a.writes)
        )
    }

    /// The write that each read took; the last known one before it where values are versions.
    fn sources(&self) -> Result<Vec<Option<usize>>, Violation> {
        let source = |(node, &(_, _, access)): (usize, &(usize, usize, Access))| {
            let Some(value) = access.reads.filter(|v| *v != 0) else { return Ok(None) };
            let of = &self.writers[access.location as usize];
            match self.values(node) {
                Values::Versions => Ok(of.range(..=value).next_back().map(|e| *e.1)),
                Values::Unique => of
                    .get(&value)
                    .map(|w| Some(*w))
                    .ok_or_else(|| Violation::FromNowhere(self.text(node))),
            }
        };
        self.nodes.iter().enumerate().map(source).collect()
    }

    /// Draws the edges between writes, and from reads to later writes.
    fn write_order(&mut self, sources: &[Option<usize>]) -> Result<(), Violation> {
        let count = self.nodes.len();
        let locations = self.writers.len();
        // What is known to be directly or later after a write.
        let mut later: Vec<(usize, usize)> = Vec::new();
        let mut locked: Vec<Option<usize>> = vec![None; count];
        let mut locked_first: Vec<Option<usize>> = vec![None; locations];
        let mut last: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        for (node, &(cpu, _, access)) in self.nodes.iter().enumerate() {
            if matches!(access.kind, Kind::Fence(_)) || self.values(node) == Values::Versions {
                continue;
            }
            let seen = &mut last.entry((cpu, access.location)).or_insert(usize::MAX);
            if access.reads == Some(0) && **seen != usize::MAX {
                let what = format!("{}, after {}", self.text(node), self.text(**seen));
                return Err(Violation::Coherence(what));
            }
            for write in sources[node].into_iter().chain(access.writes.map(|_| node)) {
                if **seen != usize::MAX && **seen != write {
                    later.push((**seen, write));
                }
                **seen = write;
            }
            if access.is_both() {
                let place = match sources[node] {
                    Some(source) => &mut locked[source],
                    None => &mut locked_first[access.location as usize],
                };
                if let Some(other) = place.replace(node) {
                    let what = format!("{}, and {}", self.text(other), self.text(node));
                    return Err(Violation::NotAtomic(what));
                }
            }
        }
        for (location, of) in self.writers.iter().enumerate() {
            let value = self.execution.last[location];
            match self.execution.locations[location] {
                Values::Versions => {
                    let writes: Vec<usize> = of.values().copied().collect();
                    later.extend(writes.windows(2).map(|w| (w[0], w[1])));
                    if of.last_key_value().is_some_and(|(last, _)| *last > value) {
                        return Err(Violation::Final(format!("location {location}: {value:#x}")));
                    }
                }
                Values::Unique => {
                    let last = of.get(&value).copied();
                    if last.is_none() && (value != 0 || !of.is_empty()) {
                        return Err(Violation::Final(format!("location {location}: {value:#x}")));
                    }
                    let others = of.values().filter(|w| Some(**w) != last);
                    later.extend(others.filter_map(|w| last.map(|last| (*w, last))));
                }
            }
        }
        later.sort_unstable();
        later.dedup();
        self.edges = self.between(sources, &later, &locked, &locked_first);
        Ok(())
    }

    fn between(
        &self,
        sources: &[Option<usize>],
        later: &[(usize, usize)],
        locked: &[Option<usize>],
        locked_first: &[Option<usize>],
    ) -> Vec<(usize, usize)> {
        let count = self.nodes.len();
        let mut edges = Vec::new();
        let mut after = |from: usize, hub: usize, locked: Option<usize>, write: usize| match locked
        {
            // The locked operation follows directly: all others follow it.
            Some(next) if next != write => edges.extend([(from, next), (hub, next), (next, write)]),
            _ => edges.extend([(from, write), (hub, write)]),
        };
        for &(write, next) in later {
            after(write, count + write, locked[write], next);
        }
        for (location, of) in self.writers.iter().enumerate() {
            let hub = 2 * count + location;
            let is_first = |w: &usize| match self.execution.locations[location] {
                Values::Unique => true,
                Values::Versions => of.first_key_value().is_some_and(|e| e.1 == w),
            };
            for write in of.values().filter(|w| is_first(w)) {
                after(hub, hub, locked_first[location], *write);
            }
        }
        // A locked operation is itself the next write.
        for (node, (_, _, access)) in self.nodes.iter().enumerate() {
            if access.reads.is_some() && access.writes.is_none() {
                let first = 2 * count + access.location as usize;
                edges.push((node, sources[node].map_or(first, |write| count + write)));
            }
        }
        edges
    }

    /// Edges of coherence: program order of each location, and from a write to its readers.
    fn coherence(&self, sources: &[Option<usize>]) -> Vec<(usize, usize)> {
        let mut edges = self.edges.clone();
        let mut last: BTreeMap<(usize, u32), usize> = BTreeMap::new();
        for (node, &(cpu, _, access)) in self.nodes.iter().enumerate() {
            if matches!(access.kind, Kind::Fence(_)) {
                continue;
            }
            let before = last.insert((cpu, access.location), node);
            edges.extend(before.into_iter().chain(sources[node]).map(|from| (from, node)));
        }
        edges
    }

    /// Edges of x86-TSO: program order but for a load behind a store, and from a write to readers
    /// on other cpus. A location that is fetched has its edges for its stores only.
    fn tso(&self, sources: &[Option<usize>]) -> Vec<(usize, usize)> {
        let mut edges = self.edges.clone();
        let fetches = |node: usize| {
            self.nodes.get(node).is_some_and(|(_, _, access)| access.kind == Kind::Fetch)
        };
        edges.retain(|(from, _)| !fetches(*from));
        let (mut of, mut load, mut store) = (usize::MAX, None, None);
        for (node, &(cpu, _, access)) in self.nodes.iter().enumerate() {
            if cpu != of {
                (of, load, store) = (cpu, None, None);
            }
            let (behind_load, behind_store) = match access.kind {
                Kind::Fetch => continue,
                Kind::Load => (load.replace(node), None),
                Kind::Store => (load, store.replace(node)),
                Kind::Locked | Kind::Fence(_) => (load.replace(node), store.replace(node)),
            };
            let remote = sources[node].filter(|w| self.nodes[*w].0 != cpu);
            let all = behind_load.into_iter().chain(behind_store).chain(remote);
            edges.extend(all.map(|from| (from, node)));
        }
        edges
    }

    /// Takes away what has nothing before it until nothing is left, or says what is left.
    fn acyclic(&self, edges: &[(usize, usize)]) -> Result<(), String> {
        let count = 3 * self.nodes.len() + self.writers.len();
        let mut from: Vec<u32> = vec![0; count + 1];
        let mut before: Vec<u32> = vec![0; count];
        for (a, b) in edges {
            from[a + 1] += 1;
            before[*b] += 1;
        }
        for i in 0..count {
            from[i + 1] += from[i];
        }
        let mut next = from.clone();
        let mut to = vec![0; edges.len()];
        for (a, b) in edges {
            to[next[*a] as usize] = *b;
            next[*a] += 1;
        }
        let mut ready: Vec<usize> = (0..count).filter(|n| before[*n] == 0).collect();
        let mut done = 0;
        while let Some(node) = ready.pop() {
            done += 1;
            for &b in &to[from[node] as usize..from[node + 1] as usize] {
                before[b] -= 1;
                if before[b] == 0 {
                    ready.push(b);
                }
            }
        }
        if done == count { Ok(()) } else { Err(self.cycle(edges, &before)) }
    }

    /// Walks backwards among what is left, where every node has one before it, into a cycle.
    fn cycle(&self, edges: &[(usize, usize)], left: &[u32]) -> String {
        let mut back: Vec<Option<usize>> = vec![None; left.len()];
        for (a, b) in edges.iter().filter(|(a, _)| left[*a] > 0) {
            back[*b] = Some(*a);
        }
        let mut seen = vec![false; left.len()];
        let mut at = left.iter().position(|n| *n > 0);
        while let Some(node) = at.filter(|n| !seen[*n]) {
            seen[node] = true;
            at = back[node];
        }
        let mut texts = Vec::new();
        let mut node = at;
        while let Some(n) = node {
            let reads_of = n.checked_sub(self.read_part(0));
            if let Some(n) = reads_of.or(Some(n).filter(|n| *n < self.nodes.len())) {
                texts.push(self.text(n));
            }
            node = back[n].filter(|n| Some(*n) != at);
        }
        texts.reverse();
        texts.join("\n  before ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: u32 = 0;
    const Y: u32 = 1;

    fn run(values: Values, cpus: &[&[Access]], last: [u64; 2]) -> Result<(), Violation> {
        check(&Execution {
            isa: Isa::X86_64,
            locations: vec![values; 2],
            cpus: cpus.iter().map(|c| c.to_vec()).collect(),
            last: last.to_vec(),
        })
    }

    fn load(location: u32, value: u64) -> Access {
        Access::load(location, value)
    }

    fn store(location: u32, value: u64) -> Access {
        Access::store(location, value)
    }

    fn locked(location: u32, reads: u64, writes: u64) -> Access {
        Access::locked(location, reads, Some(writes))
    }

    /// [SDM-3] "Memory Ordering", the examples: message passing and its transitive form are
    /// ordered, store buffering is not unless fenced.
    #[test]
    fn the_examples_of_the_manual_are_judged_as_there() {
        for values in [Values::Unique, Values::Versions] {
            let is_tso = |cpus: &[&[Access]], last| match run(values, cpus, last) {
                Err(Violation::Memory(_)) => false,
                Ok(()) => true,
                other => panic!("{other:?}"),
            };
            let writer: &[Access] = &[store(X, 1), store(Y, 1)];
            assert!(is_tso(&[writer, &[load(Y, 1), load(X, 1)]], [1, 1]));
            assert!(is_tso(&[writer, &[load(Y, 0), load(X, 1)]], [1, 1]));
            assert!(!is_tso(&[writer, &[load(Y, 1), load(X, 0)]], [1, 1]));
            let buffered: [&[Access]; 2] = [&[store(X, 1), load(Y, 0)], &[store(Y, 1), load(X, 0)]];
            assert!(is_tso(&buffered, [1, 1]));
            let fence = Access::fence(Types::All);
            let fenced: [&[Access]; 2] =
                [&[store(X, 1), fence, load(Y, 0)], &[store(Y, 1), fence, load(X, 0)]];
            assert!(!is_tso(&fenced, [1, 1]));
            let lb: [&[Access]; 2] = [&[load(X, 1), store(Y, 1)], &[load(Y, 1), store(X, 1)]];
            assert!(!is_tso(&lb, [1, 1]));
            let causal: [&[Access]; 3] =
                [&[store(X, 1)], &[load(X, 1), store(Y, 1)], &[load(Y, 1), load(X, 0)]];
            assert!(!is_tso(&causal, [1, 1]));
            let iriw: [&[Access]; 4] = [
                &[store(X, 1)],
                &[store(Y, 1)],
                &[load(X, 1), load(Y, 0)],
                &[load(Y, 1), load(X, 0)],
            ];
            assert!(!is_tso(&iriw, [1, 1]));
            let forwarded: [&[Access]; 2] =
                [&[store(X, 1), load(X, 1), load(Y, 0)], &[store(Y, 1), load(Y, 1), load(X, 0)]];
            assert!(is_tso(&forwarded, [1, 1]));
        }
    }

    #[test]
    fn one_location_has_one_order() {
        let is_coherent = |values, cpus: &[&[Access]]| match run(values, cpus, [2, 0]) {
            Err(Violation::Coherence(_)) => false,
            Ok(()) => true,
            other => panic!("{other:?}"),
        };
        for values in [Values::Unique, Values::Versions] {
            let writer: &[Access] = &[store(X, 1), store(X, 2)];
            let reader = |a, b| [load(X, a), load(X, b)];
            assert!(is_coherent(values, &[writer, &reader(0, 2), &reader(1, 2)]));
            assert!(!is_coherent(values, &[writer, &reader(2, 1)]));
            assert!(!is_coherent(values, &[writer, &reader(1, 0)]));
            assert!(!is_coherent(values, &[&[store(X, 1), load(X, 0), store(X, 2)]]));
            assert!(!is_coherent(values, &[&[load(X, 1), store(X, 1), store(X, 2)]]));
        }
        // Two readers who saw two writers in two orders.
        let [one, two]: [&[Access]; 2] = [&[store(X, 1)], &[store(X, 2)]];
        let reader = |a, b| [load(X, a), load(X, b)];
        let unique = Values::Unique;
        assert!(is_coherent(unique, &[one, two, &reader(1, 2), &reader(1, 2)]));
        assert!(!is_coherent(unique, &[one, two, &reader(1, 2), &reader(2, 1)]));
        assert!(!is_coherent(unique, &[one, two, &reader(2, 1)]), "1 is not the last");
    }

    #[test]
    fn locked_operations_follow_directly_on_what_they_read() {
        let unique = Values::Unique;
        let chain: &[Access] = &[locked(X, 0, 1)];
        assert_eq!(run(unique, &[chain, &[locked(X, 1, 2)]], [2, 0]), Ok(()));
        let twice = run(unique, &[chain, &[locked(X, 0, 2)]], [2, 0]);
        assert!(matches!(twice, Err(Violation::NotAtomic(_))), "{twice:?}");
        let twice = run(unique, &[&[store(X, 3)], &[locked(X, 3, 1)], &[locked(X, 3, 2)]], [2, 0]);
        assert!(matches!(twice, Err(Violation::NotAtomic(_))), "{twice:?}");
        // A store between the read and the write of a locked operation.
        let split: [&[Access]; 3] =
            [&[store(X, 1)], &[locked(X, 1, 2)], &[load(X, 1), store(X, 3), load(X, 2)]];
        assert!(matches!(run(unique, &split, [2, 0]), Err(Violation::Coherence(_))));
        let counted = run(Values::Versions, &[chain, &[locked(X, 0, 1)]], [1, 0]);
        assert!(matches!(counted, Err(Violation::LostUpdate(_))), "{counted:?}");
    }

    #[test]
    fn values_come_from_somewhere_and_the_last_one_stays() {
        let writer: &[Access] = &[store(X, 1), store(X, 2)];
        let nowhere = run(Values::Unique, &[writer, &[load(X, 3)]], [2, 0]);
        assert!(matches!(nowhere, Err(Violation::FromNowhere(_))), "{nowhere:?}");
        for (values, last) in [(Values::Unique, 0), (Values::Unique, 3), (Values::Versions, 1)] {
            let end = run(values, &[writer], [last, 0]);
            assert!(matches!(end, Err(Violation::Final(_))), "{end:?}");
        }
        assert!(matches!(run(Values::Unique, &[writer], [1, 0]), Err(Violation::Coherence(_))));
    }

    /// Increments that return nothing leave gaps; what stands on both sides keeps its order.
    #[test]
    fn unknown_versions_keep_the_order_of_known_ones() {
        let versions = Values::Versions;
        let writers: &[Access] = &[locked(X, 0, 1), store(Y, 1), locked(X, 3, 4)];
        assert_eq!(run(versions, &[writers, &[load(X, 2), load(Y, 1)]], [4, 1]), Ok(()));
        let old = run(versions, &[writers, &[load(X, 4), load(Y, 0)]], [4, 1]);
        assert!(matches!(old, Err(Violation::Memory(_))), "{old:?}");
    }

    /// Fetches are coherent, and need not keep step with loads.
    #[test]
    fn fetches_are_ordered_with_their_location_only() {
        let writer: &[Access] = &[store(X, 1), store(Y, 1)];
        let fetch = Access::fetch;
        assert_eq!(run(Values::Versions, &[writer, &[load(Y, 1), fetch(X, 0)]], [1, 1]), Ok(()));
        let back = run(Values::Versions, &[writer, &[fetch(X, 1), fetch(X, 0)]], [1, 1]);
        assert!(matches!(back, Err(Violation::Coherence(_))), "{back:?}");
    }
}
