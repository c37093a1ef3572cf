//! The order of arm64: what barriers, acquires and releases ask of program order.
//!
//! Dependencies are left out, as programs here have next to none. What reads and writes is two
//! nodes, as its write may be ordered while its read is not. Edges that follow from others are not
//! drawn, so that their number grows with that of accesses.
//!
//! Source: \[ArmARM\] "The Arm memory model", "Ordering relations"; herd's `aarch64.cat` for the
//! edges. Status: spec.

use tests_litmus::arm64::{Acquire, Types};

use super::{Access, Graph, Kind, Values};

/// What of a cpu's older accesses younger ones may have to come behind.
#[derive(Default)]
struct Thread {
    /// The last that every younger access comes behind: an acquire, a barrier behind loads.
    gate: Option<usize>,
    /// The last barrier between stores.
    store_gate: Option<usize>,
    /// The last store-release.
    release: Option<usize>,
    /// Accesses since the last that came behind all older ones, with that.
    all: Vec<usize>,
    /// Loads since the last barrier behind them, stores since the last between them.
    loads: Vec<usize>,
    stores: Vec<usize>,
}

impl Thread {
    fn fence(&mut self, types: Types, node: usize, edges: &mut Vec<(usize, usize)>) {
        let older = match types {
            Types::All => std::mem::take(&mut self.all),
            Types::Loads => std::mem::take(&mut self.loads),
            Types::Stores => std::mem::take(&mut self.stores),
        };
        // Stores are not before a barrier behind loads.
        let store_gate = self.store_gate.filter(|_| types != Types::Loads);
        let before = older.into_iter().chain(self.gate).chain(store_gate);
        edges.extend(before.map(|from| (from, node)));
        match types {
            Types::Stores => self.store_gate = Some(node),
            Types::Loads => self.gate = Some(node),
            Types::All => *self = Thread { gate: Some(node), ..Thread::default() },
        }
        self.all.push(node);
    }

    fn read(&mut self, acquire: Acquire, node: usize, edges: &mut Vec<(usize, usize)>) {
        let release = self.release.filter(|_| acquire == Acquire::Full);
        edges.extend(self.gate.into_iter().chain(release).map(|from| (from, node)));
        self.all.push(node);
        self.loads.push(node);
        if acquire != Acquire::No {
            self.gate = Some(node);
        }
    }

    fn write(&mut self, is_release: bool, node: usize, edges: &mut Vec<(usize, usize)>) {
        let before = self.gate.into_iter().chain(self.store_gate);
        edges.extend(before.map(|from| (from, node)));
        if is_release {
            edges.extend(self.all.drain(..).map(|from| (from, node)));
            self.release = Some(node);
        }
        self.all.push(node);
        self.stores.push(node);
    }
}

impl Graph<'_> {
    /// The read of a node that reads and writes.
    pub(super) fn read_part(&self, node: usize) -> usize {
        2 * self.nodes.len() + self.writers.len() + node
    }

    /// Edges of the order of arm64.
    pub(super) fn weak(&self, sources: &[Option<usize>]) -> Vec<(usize, usize)> {
        let mut edges = self.edges.clone();
        let (mut of, mut thread) = (usize::MAX, Thread::default());
        for (node, &(cpu, _, access)) in self.nodes.iter().enumerate() {
            if cpu != of {
                (of, thread) = (cpu, Thread::default());
            }
            let Access { flavor, reads, writes, .. } = access;
            if let Kind::Fence(types) = access.kind {
                thread.fence(types, node, &mut edges);
                continue;
            }
            let read = if access.is_both() { self.read_part(node) } else { node };
            if reads.is_some() {
                thread.read(flavor.acquire, read, &mut edges);
                let source = self.observed(node, sources[node]);
                edges.extend(source.map(|write| (write, read)));
            }
            if writes.is_some() {
                thread.write(flavor.is_release, node, &mut edges);
            }
            if access.is_both() {
                edges.push((read, node));
                // An atomic of both orders is before all younger accesses.
                let is_ordered = flavor.acquire != Acquire::No && flavor.is_release;
                if is_ordered && !flavor.is_exclusive {
                    thread.gate = Some(node);
                }
            }
        }
        edges
    }

    /// The write that a read comes behind: that of another cpu, or an acquire's own atomic.
    fn observed(&self, node: usize, source: Option<usize>) -> Option<usize> {
        let (cpu, _, access) = self.nodes[node];
        source.filter(|write| {
            let (by, _, of) = self.nodes[*write];
            // Between two known versions there may be unknown ones, some of the own cpu.
            let is_known = self.values(node) == Values::Unique || of.writes == access.reads;
            let is_own = of.is_both() && access.flavor.acquire != Acquire::No;
            is_known && (by != cpu || is_own)
        })
    }
}

#[cfg(test)]
mod tests {
    use topology::Isa;

    use super::super::{Access, Execution, Values, Violation, check};
    use super::{Acquire, Types};
    use crate::program::Flavor;

    const X: u32 = 0;
    const Y: u32 = 1;
    const RELEASE: Flavor = Flavor { is_release: true, ..Flavor::PLAIN };
    const ACQUIRE: Flavor = Flavor { acquire: Acquire::Full, ..Flavor::PLAIN };
    const ACQUIRE_PC: Flavor = Flavor { acquire: Acquire::Pc, ..Flavor::PLAIN };
    const BOTH: Flavor = Flavor { is_release: true, ..ACQUIRE };

    fn is_allowed(cpus: &[&[Access]], last: [u64; 2]) -> bool {
        let locations = vec![Values::Unique; 2];
        let cpus = cpus.iter().map(|c| c.to_vec()).collect();
        let last = last.to_vec();
        match check(&Execution { isa: Isa::Aarch64, locations, cpus, last }) {
            Err(Violation::Memory(_)) => false,
            Ok(()) => true,
            other => panic!("{other:?}"),
        }
    }

    fn load(location: u32, value: u64) -> Access {
        Access::load(location, value)
    }

    fn store(location: u32, value: u64) -> Access {
        Access::store(location, value)
    }

    /// The verdicts of `tests/litmus/arm64`, by their names there.
    #[test]
    fn shapes_are_judged_as_by_the_enumerator() {
        let [dmb, ld, st] = [Types::All, Types::Loads, Types::Stores].map(Access::fence);
        let mp = |between: &[Access], flag: Flavor, seen: Flavor, reader: &[Access]| {
            let writer = [&[store(X, 1)], between, &[store(Y, 1).done(flag)]].concat();
            let reader = [&[load(Y, 1).done(seen)], reader, &[load(X, 0)]].concat();
            is_allowed(&[&writer, &reader], [1, 1])
        };
        let plain = Flavor::PLAIN;
        assert!(mp(&[], plain, plain, &[]), "MP");
        assert!(mp(&[], plain, ACQUIRE, &[]), "MP+po+ldar");
        assert!(mp(&[dmb], plain, plain, &[]), "MP+dmb.sy+po");
        assert!(mp(&[dmb], plain, plain, &[st]), "MP+dmb.sy+dmb.st");
        assert!(!mp(&[st], plain, plain, &[ld]), "MP+dmb.st+dmb.ld");
        assert!(!mp(&[], RELEASE, ACQUIRE, &[]), "MP+stlr+ldar");
        assert!(!mp(&[], RELEASE, ACQUIRE_PC, &[]), "MP+stlr+ldapr");
        let sb = |first: Flavor, between: &[Access], second: Flavor| {
            let one = [&[store(X, 1).done(first)], between, &[load(Y, 0).done(second)]].concat();
            let two = [&[store(Y, 1).done(first)], between, &[load(X, 0).done(second)]].concat();
            is_allowed(&[&one, &two], [1, 1])
        };
        assert!(sb(plain, &[], plain) && sb(plain, &[st], plain) && sb(plain, &[ld], plain), "SB");
        assert!(!sb(plain, &[dmb], plain), "SB+dmb.sys");
        assert!(!sb(RELEASE, &[], ACQUIRE), "SB+stlr-ldars");
        assert!(sb(RELEASE, &[], ACQUIRE_PC), "SB+stlr-ldaprs");
        let writes = |between: &[Access], last| {
            let one = [&[store(X, 1)], between, &[store(Y, 2)]].concat();
            let two = [&[store(Y, 1)], between, &[store(X, 2)]].concat();
            is_allowed(&[&one, &two], last)
        };
        assert!(writes(&[], [1, 1]) && writes(&[ld], [1, 1]), "2+2W");
        assert!(!writes(&[st], [1, 1]), "2+2W+dmb.sts");
        assert!(sb(plain, &[st, ld], plain), "a store is not before a barrier behind loads");
    }

    /// The write of an atomic may be late where its read is early.
    #[test]
    fn atomics_are_two_accesses() {
        let swap = |location, flavor| Access::locked(location, 0, Some(1)).done(flavor);
        let sb = |flavor| {
            let one = [swap(X, flavor), load(Y, 0)];
            let two = [swap(Y, flavor), load(X, 0)];
            is_allowed(&[&one, &two], [1, 1])
        };
        assert!(sb(Flavor::PLAIN) && sb(RELEASE) && sb(ACQUIRE), "SB+swps, -swpls, -swpas");
        assert!(!sb(BOTH), "SB+swpals");
        assert!(sb(Flavor { is_exclusive: true, ..BOTH }), "SB+ldaxr-stlxrs");
        let writer: &[Access] = &[store(X, 1), swap(Y, RELEASE)];
        let reader = |flavor| [Access::locked(Y, 1, Some(2)).done(flavor), load(X, 0)];
        assert!(!is_allowed(&[writer, &reader(ACQUIRE)], [1, 2]), "MP+swpl+swpa");
        assert!(is_allowed(&[writer, &reader(RELEASE)], [1, 2]), "MP+swpl+swpl");
    }

    /// Multi-copy atomic: readers that are ordered agree.
    #[test]
    fn ordered_readers_agree_on_the_order_of_two_writers() {
        let [one, two]: [&[Access]; 2] = [&[store(X, 1)], &[store(Y, 1)]];
        let reader = |a, b, flavor| [load(a, 1).done(flavor), load(b, 0)];
        let iriw =
            |flavor| is_allowed(&[one, two, &reader(X, Y, flavor), &reader(Y, X, flavor)], [1, 1]);
        assert!(iriw(Flavor::PLAIN), "IRIW");
        assert!(!iriw(ACQUIRE) && !iriw(ACQUIRE_PC), "IRIW+ldars, IRIW+ldaprs");
    }
}
