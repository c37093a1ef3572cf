//! Where instructions come from: decoded lines that follow the bytes, in whatever line and state.

use emu_arm64::code::CodeCache;
use emu_cpu::flat::FlakyPort;
use emu_cpu::isa::Isa;

use crate::world::*;

const ADD_1: u32 = 0x9100_0421; // add x1, x1, #1
const ADD_16: u32 = 0x9100_4021; // add x1, x1, #16
const BACK: u32 = 0x17ff_ffff; // b .-4
const STORE: u32 = 0xb900_0062; // str w2, [x3]
const LOAD: u32 = 0xf940_0084; // ldr x4, [x4]

/// A world whose page may be executed and written, with these words at its start.
fn program(words: &[u32]) -> World {
    let mut world = World::new();
    world.set_page(PAGE | PAGE_BITS & !(3 << 53));
    world.cpu.state.pc = PAGE;
    world.cpu.state.pstate.daif = 0x3c0;
    for (at, word) in words.iter().enumerate() {
        world.port.put(PAGE + 4 * at as u64, &word.to_le_bytes());
    }
    world
}

fn run(world: &mut World, unit: &mut CodeCache, steps: usize) {
    for _ in 0..steps {
        world.cpu.step(unit, &mut world.port).expect("flat memory");
    }
}

#[test]
fn a_line_is_decoded_again_when_its_bytes_change() {
    let mut world = program(&[ADD_1, BACK]);
    let mut unit = CodeCache::default();
    run(&mut world, &mut unit, 6);
    assert_eq!(world.cpu.state.x[1], 3);
    world.port.put(PAGE, &ADD_16.to_le_bytes());
    run(&mut world, &mut unit, 4);
    assert_eq!(world.cpu.state.x[1], 3 + 32);
}

#[test]
fn an_own_store_to_the_line_that_runs_is_executed() {
    let mut world = program(&[STORE, ADD_1, ADD_1]);
    (world.cpu.state.x[2], world.cpu.state.x[3]) = (ADD_16.into(), PAGE + 8);
    run(&mut world, &mut CodeCache::default(), 3);
    assert_eq!(world.cpu.state.x[1], 17);
}

#[test]
fn a_step_that_waits_anywhere_is_the_same_step() {
    // Three lines, with a load in the middle of each and a jump back.
    let mut words = vec![ADD_1; 40];
    (words[8], words[20], words[39]) = (LOAD, LOAD, 0x17ff_ffd9); // b .-0x9c
    for seed in 1..20 {
        let mut world = program(&words);
        world.cpu.state.x[4] = 0x1_8000;
        world.put(0x1_8000, 0x1_8000);
        let mut flaky = FlakyPort::new(world.port.clone(), seed);
        let (mut cpu, mut units) = (world.cpu.clone(), [(); 2].map(|()| CodeCache::default()));
        for step in 0..100 {
            run(&mut world, &mut units[0], 1);
            flaky.run(|port| cpu.step(&mut units[1], port));
            assert_eq!(cpu.state, world.cpu.state, "seed {seed}, step {step}");
        }
        assert!(flaky.waits > 0);
    }
}
