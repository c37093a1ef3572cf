//! Litmus tests by hand: which outcomes are seen over many start offsets and starting states of the
//! lines. Those that a barrier forbids are never seen; those that are allowed and never seen are
//! listed in `docs/fidelity.md`.

use std::collections::BTreeSet;

use emu_cpu::config::MemoryOrder::{self, Total, Weak};
use emu_cpu::port::Fence;
use emu_cpu::port::Order::{Acquire, AcquirePc, AcquireRelease, Release};

use crate::world::*;

const X: u64 = 0x1000;
const Y: u64 = 0x2000;
const READY: u64 = 0x3000;
const DONE: u64 = 0x4000;
/// A line of each cpu.
const OWN: u64 = 0x5000;

/// Outcomes of registers 0 and 1 of both cpus, over offsets of the second and over who has the
/// lines before.
fn outcomes(order: MemoryOrder, first: &[Op], second: &[Op]) -> BTreeSet<[u64; 4]> {
    let mut seen = BTreeSet::new();
    for warm in [[0, 0], [0, 1], [1, 0], [1, 1], [2, 2]] {
        for offset in (0..240).step_by(3) {
            // A line is owned by cpu 0 or 1, or shared.
            let warm_up = |cpu: usize| {
                let mut ops = vec![Store(OWN + 64 * cpu as u64, 0, Plain)];
                for (line, owner) in [X, Y].into_iter().zip(warm) {
                    if owner == cpu {
                        ops.push(Store(line, 0, Plain));
                    } else if owner == 2 {
                        ops.push(Load(7, line, Plain));
                    }
                }
                ops.push(Op::Fence(Fence::Full));
                ops
            };
            let program = |cpu: usize, delay: u32, body: &[Op]| {
                let mut ops = warm_up(cpu);
                // Both are warm before either goes on.
                ops.extend([
                    Add(7, READY, 1, Plain),
                    Load(7, READY, Plain),
                    Count(7, u64::MAX - 1),
                ]);
                ops.push(IfNot(7, ops.len() - 2));
                ops.push(Work(100 + delay));
                ops.extend(body);
                ops.push(Op::Fence(Fence::Full));
                ops.push(Add(7, DONE, 1, Plain));
                ops
            };
            let (a, b) = (program(0, 120, first), program(1, offset, second));
            let mut world = World::new(order, &[&a, &b]);
            world.run(100_000);
            assert!(world.is_over());
            let r = |cpu: usize, n: usize| world.cpu(cpu).regs[n];
            seen.insert([r(0, 0), r(0, 1), r(1, 0), r(1, 1)]);
        }
    }
    seen
}

fn read(r: usize, pa: u64) -> Op {
    Load(r, pa, Plain)
}

fn write(pa: u64) -> Op {
    Store(pa, 1, Plain)
}

fn dmb() -> Op {
    Op::Fence(Fence::Accesses { stores: true })
}

/// Message passing: x then y are written, y then x are read.
#[test]
fn message_passing_needs_a_barrier_between_the_stores() {
    let reads = [read(0, Y), read(1, X)];
    let is_seen = |order, writes: &[Op]| outcomes(order, writes, &reads).contains(&[0, 0, 1, 0]);
    let plain = [write(X), write(Y)];
    assert!(!is_seen(Total, &plain));
    assert!(is_seen(Weak, &plain));
    assert!(!is_seen(Weak, &[write(X), Op::Fence(Fence::Stores), write(Y)]));
    assert!(!is_seen(Weak, &[write(X), dmb(), write(Y)]));
    assert!(!is_seen(Weak, &[write(X), Op::Fence(Fence::Full), write(Y)]));
    assert!(!is_seen(Weak, &[write(X), Store(Y, 1, Release)]));
    assert!(is_seen(Weak, &[Store(X, 1, Release), write(Y)]), "a release holds nothing younger");
    assert!(!is_seen(Weak, &[write(X), Add(0, Y, 1, Release)]));
    assert!(!is_seen(Total, &[write(X), Add(0, Y, 1, Plain)]));
}

/// Store buffering: each writes its word and reads that of the other.
#[test]
fn store_buffering_needs_a_full_barrier_or_release_and_acquire() {
    let is_seen = |order, between: &[Op], store: emu_cpu::port::Order, load| {
        let body = |mine, other| {
            let mut ops = vec![Store(mine, 1, store)];
            ops.extend(between);
            ops.push(Load(0, other, load));
            ops
        };
        outcomes(order, &body(X, Y), &body(Y, X)).contains(&[0, 0, 0, 0])
    };
    for order in [Total, Weak] {
        assert!(is_seen(order, &[], Plain, Plain));
        assert!(!is_seen(order, &[Op::Fence(Fence::Full)], Plain, Plain));
    }
    assert!(!is_seen(Weak, &[dmb()], Plain, Plain));
    assert!(is_seen(Weak, &[Op::Fence(Fence::Stores)], Plain, Plain));
    assert!(is_seen(Weak, &[Op::Fence(Fence::Accesses { stores: false })], Plain, Plain));
    assert!(!is_seen(Weak, &[], Release, Acquire));
    assert!(is_seen(Weak, &[], Release, AcquirePc));
    assert!(is_seen(Weak, &[], Plain, Acquire));
    let is_seen = |order, atomic| {
        let body =
            |mine, other, own| [write(mine), Add(1, OWN + own, 1, atomic), Load(0, other, Plain)];
        let seen = outcomes(order, &body(X, Y, 0), &body(Y, X, 64));
        seen.iter().any(|r| r[0] == 0 && r[2] == 0)
    };
    assert!(is_seen(Weak, Plain));
    assert!(!is_seen(Weak, AcquireRelease));
    assert!(!is_seen(Total, Plain));
}

/// Two words of one line, and one word written twice, are written in order by everybody's account.
#[test]
fn stores_to_a_line_stay_in_order() {
    let one = outcomes(Weak, &[write(X), write(X + 8)], &[read(0, X + 8), read(1, X)]);
    assert!(!one.contains(&[0, 0, 1, 0]));
    let twice = [Store(X, 1, Plain), write(Y), Store(X, 2, Plain)];
    let seen = outcomes(Weak, &twice, &[read(0, X), read(1, X)]);
    assert!(!seen.contains(&[0, 0, 2, 1]) && !seen.contains(&[0, 0, 1, 0]), "{seen:?}");
}

/// Load buffering and reads of younger stores by older loads never happen: stores wait for the
/// loads before them.
#[test]
fn a_load_never_sees_what_depends_on_its_own_store() {
    for order in [Total, Weak] {
        let seen = outcomes(order, &[read(0, X), write(Y)], &[read(0, Y), write(X)]);
        assert!(!seen.contains(&[1, 0, 1, 0]), "{seen:?}");
    }
}

/// Stores wait for lines together, not one after the other.
#[test]
fn weak_stores_wait_for_their_lines_at_once_and_drain_as_these_come() {
    let stores: Vec<Op> = (0..4).map(|n| write(X + n * 64)).collect();
    let end = |order| {
        let mut world = World::new(order, &[&stores, &[]]);
        world.run(100_000);
        (0..4).for_each(|n| assert_eq!(world.word(X + n * 64), 1));
        world.cycle()
    };
    assert!(end(Weak) < 200, "four misses of more than 90 cycles each");
    assert!(end(Total) < 200, "ownership is asked for ahead");
}
