//! Exclusives: what ends a reservation, and that somebody always gets on (`engine.md` A4, P3).

use emu_cpu::config::MemoryOrder::Weak;
use emu_cpu::port::Fence;
use emu_cpu::thread::RunState;

use crate::world::*;

const X: u64 = 0x1000;
/// Another line of the same set of the private caches, by its number.
const ALIAS: u64 = 64 * 64;

/// Whether a store exclusive of cpu 0 succeeds with this between it and its load, while cpu 1 does
/// that after 200 cycles.
fn succeeds(between: &[Op], other: &[Op]) -> bool {
    let mut ops = vec![LoadEx(0, X)];
    ops.extend(between);
    ops.extend([Work(1000), StoreEx(1, X, 0, 1)]);
    let mut theirs = vec![Work(300)];
    theirs.extend(other);
    let mut world = World::new(Weak, &[&ops, &theirs]);
    world.run(100_000);
    assert!(world.is_over());
    world.cpu(0).regs[1] == 1
}

#[test]
fn a_reservation_falls_with_its_line_and_by_command() {
    let read = Load(7, X, Plain);
    let table: [(&[Op], &[Op], bool); 9] = [
        (&[], &[], true),
        (&[], &[read], true),
        (&[read], &[LoadEx(0, X)], true),
        (&[], &[Store(X + 8, 1, Plain)], false),
        (&[], &[Add(7, X, 0, Plain)], false),
        (&[ClearEx], &[], false),
        (&[LoadEx(2, X + 64)], &[], false),
        // A second load reserves again; an own store leaves the reservation.
        (&[StoreEx(2, X, 0, 0), LoadEx(0, X)], &[], true),
        (&[Store(X + 8, 3, Plain), Op::Fence(Fence::Full)], &[], true),
    ];
    for (between, other, expected) in table {
        assert_eq!(succeeds(between, other), expected, "{between:?} against {other:?}");
    }
    let evict: Vec<Op> = (1..16).map(|n| Store(X + n * ALIAS, 1, Plain)).collect();
    assert!(!succeeds(&evict, &[]), "evicted");
}

#[test]
fn a_store_exclusive_may_fail_for_no_reason_and_by_seed() {
    let once = [LoadEx(0, X), StoreEx(1, X, 0, 1), Count(2, 1), Count(3, u64::MAX)];
    let mut ops = vec![Count(3, 200)];
    // Counts successes in register 4.
    ops.extend(once);
    ops.extend([IfZero(1, 6 + 1), Count(4, 1), IfNot(3, 1)]);
    let successes = |failures| {
        let mut world = World::with(Weak, &[&ops, &[]], |c| c.exclusive_failure = failures);
        world.run(1_000_000);
        assert!(world.is_over());
        assert_eq!(world.word(X), world.cpu(0).regs[4]);
        world.cpu(0).regs[4]
    };
    assert_eq!(successes(0), 200);
    assert_eq!(successes(1), 0);
    let half = successes(2);
    assert!((60..140).contains(&half), "{half}");
    assert_eq!(successes(2), half);
}

#[test]
fn a_wait_for_the_line_ends_when_it_is_written() {
    let waits = [LoadEx(0, X), WaitForEvent, Load(1, X, Plain)];
    let mut world = World::new(Weak, &[&waits, &[Work(500), Store(X, 7, Plain)]]);
    world.run(400);
    assert!(matches!(world.cores[0].thread(0).run_state(), RunState::Waiting(_)));
    world.run(100_000);
    assert!(world.is_over());
    assert_eq!(world.cpu(0).regs[1], 7);
    // What fell before the wait ends it at once.
    let late = [LoadEx(0, X), Work(1000), WaitForEvent, Load(1, X, Plain)];
    let mut world = World::new(Weak, &[&late, &[Work(300), Store(X, 7, Plain)]]);
    world.run(100_000);
    assert!(world.is_over());
}

/// A load exclusive of a line that the core may write keeps it for a short loop.
#[test]
fn a_hold_lets_a_short_loop_finish_and_ends_with_it() {
    // Cycle at which cpu 1 has the line that it asks for while cpu 0 has it reserved.
    let run = |hold: u64, body: &[Op]| {
        let mut ops = vec![Store(X, 1, Plain), Op::Fence(Fence::Full), Work(400)];
        ops.extend(body);
        let theirs = [Work(530), Store(X + 8, 1, Plain)];
        let mut world = World::with(Weak, &[&ops, &theirs], |c| c.exclusive_hold = hold);
        world.run(100_000);
        assert!(world.is_over());
        (world.cpu(0).regs[1] == 1, world.cycle())
    };
    let slow = [LoadEx(0, X), Work(300), StoreEx(1, X, 0, 1)];
    let (stored, free) = run(0, &slow);
    assert!(!stored);
    assert!(!run(50, &slow).0, "the hold has its end");
    let (stored, end) = run(500, &slow);
    assert!(stored && end > free);
    let (_, late) = run(5000, &slow);
    assert_eq!(late, end, "the store ends the hold");
    // Loads alone do not begin it again: the other cpu gets its turn.
    let polls: Vec<Op> = (0..40).flat_map(|_| [LoadEx(0, X), Work(20)]).collect();
    assert!(run(500, &polls).1 < 1500);
    // So does giving the reservation up.
    let gives_up = [LoadEx(0, X), Work(300), ClearEx, Work(1)];
    assert!(run(5000, &gives_up).1 < end + 50);
}

/// P3: with equal legs, whatever the gap, the successes of all cpus together grow.
#[test]
fn somebody_always_gets_on_whatever_the_gap() {
    let gaps = [1, 2, 5, 13, 20, 24, 28, 32, 36, 40, 48, 64];
    for (cpus, hold) in [2, 3, 16, 64].into_iter().flat_map(|cpus| [(cpus, 0), (cpus, 40)]) {
        for gap in gaps {
            let ops = [LoadEx(0, X), Work(gap), StoreEx(1, X, 0, 1), Count(2, 1), IfNot(2, 0)];
            let programs = vec![&ops[..]; cpus];
            let mut world = World::with(Weak, &programs, |c| c.exclusive_hold = hold);
            // A turn of the line takes less than 200 cycles; every cpu may have to wait for all.
            let span = 1_000 * cpus as u64;
            let mut before = 0;
            for part in 1..=3 {
                world.run(part * span);
                let now = world.word(X);
                assert!(now > before, "{cpus} cpus, gap {gap}: {before} then {now} in {part}");
                before = now;
            }
        }
    }
}
