//! What the engine does for arm64 machines: atomics near and far, exclusives, skipped spins, the
//! cost of a cpu's start.

#[path = "common/words.rs"]
mod words;

use emu_machine::{Machine, Options, Stop, Until};
use emu_sim::{CpuId, SimTime};
use topology::{AtomicPlace, Atomics};
use words::{START, image};

/// Where the cpus count together.
const SHARED: u64 = 0x8009_0000;
/// Operations of each cpu.
const TURNS: u32 = 50;

const HVC: u32 = 0xd400_0002;
const WFI: u32 = 0xd503_207f;
const LDADD: u32 = 0xf821_0062; // ldadd x1, x2, [x3]
const STADD: u32 = 0xf821_007f; // stadd x1, [x3]
const LDXR: u32 = 0xc85f_7c62; // ldxr x2, [x3]
const ADD: u32 = 0x8b01_0042; // add x2, x2, x1
const STXR: u32 = 0xc804_7c62; // stxr w4, x2, [x3]
const RETRY: u32 = 0x35ff_ffa4; // cbnz w4, .-12

/// Loads a register with up to 32 bits.
fn mov(rd: u32, value: u64) -> [u32; 2] {
    let half = |at: u64| (value >> at & 0xffff) as u32;
    [0xd280_0000 | half(0) << 5 | rd, 0xf2a0_0000 | half(16) << 5 | rd]
}

/// A branch by register `rt` of the kind `op` over `words`.
fn branch(op: u32, rt: u32, words: i32) -> u32 {
    op | (words as u32 & 0x7_ffff) << 5 | rt
}

/// Every cpu does the operation `TURNS` times; the first waits until the sum is there, and exits.
fn program(topology: &topology::Machine, cpus: usize, operation: &[u32]) -> Vec<u32> {
    let mut work = Vec::new();
    work.extend(mov(1, 1));
    work.extend(mov(3, SHARED));
    work.extend(mov(5, u64::from(TURNS)));
    work.extend(operation);
    work.push(0xd100_04a5); // sub x5, x5, #1
    work.push(branch(0xb500_0000, 5, -(operation.len() as i32 + 1))); // cbnz x5
    let mut words = vec![0x1400_0000 + work.len() as u32 + 3]; // b over the part of the others
    let entry = START + 4;
    words.extend(&work);
    words.extend([WFI, 0x17ff_ffff]); // b .-4
    for place in &topology.cpus[1..cpus] {
        words.extend(mov(0, 0xc400_0003));
        words.extend(mov(1, place.mpidr & 0xff_ffff));
        words.extend(mov(2, entry));
        words.extend(mov(3, 0));
        words.push(HVC);
    }
    words.extend(&work);
    words.extend(mov(6, u64::from(TURNS) * cpus as u64));
    words.push(0xf940_0067); // ldr x7, [x3]
    words.push(0xeb06_00ff); // cmp x7, x6
    words.push(branch(0x5400_0000, 1, -2)); // b.ne
    words.extend(mov(9, 0x0900_0000));
    words.extend([0xf900_0d3f, WFI]); // str xzr, [x9, #0x18]
    words
}

/// Runs the operation on so many cpus; returns the machine and how long it took.
fn count(name: &str, cpus: usize, place: AtomicPlace, operation: &[u32]) -> (Machine, SimTime) {
    let mut topology = topology::Machine::load(name, &[]).expect("a machine");
    topology.arm.atomics = Atomics { load: place, store: place, release: place, acquire: place };
    let options = Options { cpus: Some(cpus as u32), ..Options::default() };
    let mut machine = Machine::new(&topology, options).expect("it is built");
    machine.load(&image(&program(&topology, cpus, operation)), "").expect("it fits");
    let until = Until { time: SimTime::from_us(10_000), regions: false };
    assert_eq!(machine.run(&until, &mut ()), Stop::Exit { code: 0 }, "{name} {place:?}");
    assert_eq!(machine.check_laws(), Ok(()));
    assert_eq!(machine.read_guest_u64(SHARED), u64::from(TURNS) * cpus as u64);
    let now = machine.now();
    (machine, now)
}

#[test]
fn no_addition_is_lost_near_or_far_or_exclusive() {
    let exclusive = [LDXR, ADD, STXR, RETRY];
    for (name, cpus) in [("duo-arm", 2), ("quad-arm", 4), ("smp-arm-16", 16)] {
        for operation in [&[LDADD][..], &[STADD], &exclusive] {
            for place in [AtomicPlace::Near, AtomicPlace::Far, AtomicPlace::Held] {
                count(name, cpus, place, operation);
            }
        }
    }
}

#[test]
fn far_atomics_overlap_where_near_ones_take_the_line_in_turn() {
    let time = |place| count("smp-arm-64", 64, place, &[LDADD]).1;
    let (near, far) = (time(AtomicPlace::Near), time(AtomicPlace::Far));
    assert!(far < near, "{far:?} against {near:?}");
}

/// The loops of an arm64 guest that wait for a word are skipped: loads of every kind, YIELD.
#[test]
fn spins_on_a_word_are_skipped() {
    for load in [
        0xb940_0001u32, // ldr w1, [x0]
        0x88df_fc01,    // ldar w1, [x0]
        0xb8bf_c001,    // ldapr w1, [x0]
    ] {
        let topology = topology::Machine::load("duo-arm", &[]).expect("a machine");
        let mut machine = Machine::new(&topology, Options::default()).expect("it is built");
        // The magic of the FDT is not zero.
        let words = [load, 0xd503_203f, branch(0x3500_0000, 1, -2)]; // yield; cbnz w1
        machine.load(&image(&words), "").expect("it fits");
        let until = Until { time: SimTime::from_us(1_000), regions: false };
        assert_eq!(machine.run(&until, &mut ()), Stop::TimeLimit);
        let counters = machine.counters(CpuId(0));
        assert!(counters.elided * 10 > counters.instructions * 9, "{load:08x}: {counters:?}");
    }
}
