//! Invalidations that others have to carry out, and the fence that waits for them.

use emu_cpu::config::MemoryOrder::Weak;
use emu_cpu::port::Fence;
use emu_cpu::thread::Pending;

use crate::world::*;

const X: u64 = 0x1000;

#[test]
fn a_fence_waits_until_all_others_have_carried_out_what_was_sent() {
    let sends = [Invalidate(5), Invalidate(6), Op::Fence(Fence::Answers), Store(X, 1, Plain)];
    let mut world = World::new(Weak, &[&sends, &[], &[Work(500)]]);
    world.run(3 * LEG);
    assert_eq!(world.cores[0].thread(0).pending(), Pending::Answers);
    world.run(100_000);
    assert!(world.is_over());
    for cpu in [1, 2] {
        assert_eq!(world.cpu(cpu).invalidations, [5, 6]);
    }
    let alone = [Invalidate(5), Op::Fence(Fence::Answers)];
    let mut world = World::new(Weak, &[&alone]);
    world.run(100_000);
    assert!(world.is_over());
}

/// What was begun before may still use what is invalid: its stores drain before the answer.
#[test]
fn the_answer_comes_behind_begun_instructions_and_their_stores() {
    let sends = [Work(60), Invalidate(5), Op::Fence(Fence::Answers), Load(0, X, Plain)];
    // The load misses and is under way when the message comes, the store behind it is not begun.
    let busy = [Work(40), Store(X, 1, Plain), Load(1, X + 64, Plain), Store(X + 128, 1, Plain)];
    let mut world = World::new(Weak, &[&sends, &busy]);
    world.run(100_000);
    assert!(world.is_over());
    assert_eq!(world.cpu(0).regs[0], 1, "the store was older than the answer");
}

#[test]
fn two_that_wait_for_each_other_both_get_on() {
    let sends = [Invalidate(5), Op::Fence(Fence::Answers)];
    let mut world = World::new(Weak, &[&sends, &sends, &sends]);
    world.run(100_000);
    assert!(world.is_over());
}
