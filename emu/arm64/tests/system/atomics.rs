//! Exclusives and atomics.

use emu_arm64::ctx::Hint;
use emu_arm64::ctx::Next;

use emu_cpu::wait::MonitorState;

use crate::world::*;

#[test]
fn an_exclusive_store_needs_its_load() {
    for size in [1, 2, 4, 8, 16] {
        let mut world = World::new();
        let load = LoadExclusive { va: PAGE + 0x40, size };
        let store = |value| StoreExclusive { va: PAGE + 0x40, size, value };
        assert_eq!(world.run(&store(5)), Ok(false), "no load");
        assert_eq!(world.run(&load), Ok(0));
        assert_eq!(world.run(&store(5)), Ok(true));
        assert_eq!(world.port.get(PAGE + 0x40, size), 5);
        assert_eq!(world.run(&store(6)), Ok(false), "used up");
        world.run(&load).unwrap();
        world.port.monitor = MonitorState::Triggered;
        assert_eq!(world.run(&store(6)), Ok(false), "stored by another");
        world.run(&load).unwrap();
        let elsewhere = StoreExclusive { va: PAGE + 0x80, size, value: 1 };
        assert_eq!(world.run(&elsewhere), Ok(false), "other address");
    }
}

#[test]
fn atomics_return_the_old_value_and_want_alignment() {
    let mut world = World::new();
    world.put(PAGE, 41);
    for size in [1, 2, 4, 8] {
        assert_eq!(
            world.run(&Add { va: PAGE, size }).map(|old| old as u8),
            Ok(40 + size.ilog2() as u8 + 1)
        );
    }
    let fault = world.run(&Add { va: PAGE + 12, size: 8 }).unwrap_err();
    assert_eq!(fault.iss & 0x3f, 0x21);
}

#[test]
fn the_fall_of_a_reservation_ends_the_wait() {
    let mut world = World::new();
    world.run(&LoadExclusive { va: PAGE, size: 8 }).unwrap();
    world.run(&write(PAGE + 8, 8, 1)).unwrap();
    assert_eq!(world.run(&Hinted { hint: Hint::Wfe }), Ok(Next::Seq));
}
