//! Atomics at the line's home: nothing is lost, order holds, and the line does not move.

use emu_cpu::config::AtomicPlace::{self, Far, Held, Near};
use emu_cpu::config::Atomics;
use emu_cpu::config::MemoryOrder::Weak;
use emu_cpu::port::Fence;
use emu_cpu::port::Order::{Acquire, Release};

use crate::world::*;

const X: u64 = 0x1000;
const Y: u64 = 0x2000;

fn run(place: AtomicPlace, programs: &[&[Op]]) -> World {
    let mut world = World::with(Weak, programs, |config| {
        config.atomics = Atomics { load: place, store: place, release: place, acquire: place };
    });
    world.run(1_000_000);
    assert!(world.is_over());
    world
}

/// An operation `n` times.
fn times(n: u64, op: Op) -> Vec<Op> {
    vec![Count(7, n), op, Count(7, u64::MAX), IfNot(7, 1)]
}

#[test]
fn no_addition_is_lost_wherever_it_is_made() {
    for place in [Near, Far, Held] {
        for cpus in [1, 2, 5] {
            let with = times(20, Op::Update(0, X, 1, Plain));
            let without = times(20, Post(X, 1, Plain));
            let both: Vec<&[Op]> = (0..2 * cpus)
                .map(|c| if c % 2 == 0 { &with } else { &without })
                .map(Vec::as_slice)
                .collect();
            let world = run(place, &both);
            assert_eq!(world.word(X), 40 * cpus as u64, "{place:?}, {cpus} of each");
        }
    }
}

#[test]
fn the_result_is_what_was_there_and_own_accesses_see_it() {
    for place in [Near, Far, Held] {
        let ops = [
            Store(X, 5, Plain),
            Op::Update(0, X, 1, Plain),
            Post(X, 10, Plain),
            Load(1, X, Plain),
            Store(X, 3, Plain),
            Post(X, 1, Release),
            Op::Update(2, X, 1, Acquire),
            Load(3, X, Plain),
        ];
        let world = run(place, &[&ops, &[]]);
        assert_eq!(world.cpu(0).regs[..4], [5, 16, 4, 5], "{place:?}");
    }
}

/// A barrier waits for atomics without result, as for stores.
#[test]
fn barriers_order_atomics_without_result() {
    for place in [Near, Far] {
        for between in [Fence::Full, Fence::Stores, Fence::Accesses { stores: true }] {
            let writer = [Work(200), Post(X, 1, Plain), Op::Fence(between), Store(Y, 1, Plain)];
            for delay in 0..60 {
                let reader = [
                    Load(2, X, Plain),
                    Work(140 + 4 * delay),
                    Load(0, Y, Plain),
                    Load(1, X, Plain),
                ];
                let world = run(place, &[&writer, &reader]);
                assert_ne!(world.cpu(1).regs[..2], [1, 0], "{place:?} {between:?} {delay}");
            }
        }
    }
}

/// What measured parts do: far atomics overlap at the home, near ones move the line.
#[test]
fn far_atomics_do_not_move_the_line() {
    let cycles = |place, cpus, first: &[Op]| {
        let mut ops = first.to_vec();
        let body = times(50, Op::Update(0, X, 1, Plain));
        let at = ops.len();
        ops.extend(body);
        *ops.last_mut().unwrap() = IfNot(7, at + 1);
        let world = run(place, &vec![&ops[..]; cpus]);
        world.cycle() / (50 * cpus as u64)
    };
    assert!(cycles(Far, 16, &[]) * 4 < cycles(Far, 2, &[]), "they overlap");
    assert!(cycles(Far, 16, &[]) * 4 < cycles(Near, 16, &[]), "they do not");
    let hold = [Store(X, 0, Plain), Op::Fence(Fence::Full)];
    assert!(cycles(Held, 1, &hold) * 2 < cycles(Held, 1, &[]), "it is held");
}
