//! Random bytes as code: nothing panics, and waiting never shows.

use emu_x86::state::gpr;

use crate::world::{End, PAGE, STACK, World};

/// A seeded sequence of numbers.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

fn world(random: &mut Random, user: bool) -> World {
    let mut bytes = [0u8; 32];
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes());
    }
    // Half of the streams begin with a two-byte opcode or a prefix that compilers use.
    match random.next() % 6 {
        0 => bytes[0] = 0x0f,
        1 => bytes[0] = 0x48,
        2 => bytes[..2].copy_from_slice(&[0xf0, 0x48]),
        3 => bytes[..3].copy_from_slice(&[0x66, 0x48, 0x0f]),
        _ => {}
    }
    let mut world = World::long(&bytes);
    if user {
        world = world.user(&bytes);
    }
    for (n, register) in world.cpu.state.gpr.iter_mut().enumerate() {
        if n != gpr::RSP {
            // Small numbers, addresses near the ends of lines and pages, anything.
            *register = match random.next() % 4 {
                0 => random.next() & 0xff,
                1 => PAGE + (random.next() & 0x7f),
                2 => STACK - 0x200 - (random.next() & 0x3f),
                _ => random.next(),
            };
        }
    }
    world.cpu.state.cr4 |= 1 << 9 | 1 << 18;
    world.cpu.registers_changed();
    world
}

#[test]
fn random_code_neither_panics_nor_shows_its_waits() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut ends = [0u32; 3];
    for round in 0..3_000 {
        let mut world = world(&mut random, round % 2 == 0);
        match world.run_with_seeds(2) {
            End::Handler(_) => ends[0] += 1,
            End::Running => ends[1] += 1,
            _ => ends[2] += 1,
        }
    }
    assert!(ends[0] > 1_000, "most end in a handler: {ends:?}");
}
