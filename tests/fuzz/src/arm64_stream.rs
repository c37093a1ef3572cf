//! `arm64_stream`: any code on both cpus of a small arm64 machine, from any registers.
//!
//! An input is a byte of modes, a byte for each register of each cpu (an index of interesting
//! values), a length in words, the code of cpu 0 of that length, and the code of cpu 1. An
//! exception goes on with the following word, until there were too many. Checked is what
//! `x86_stream` checks.

use std::sync::OnceLock;

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::SimTime;
use tests_litmus::arm64::encode::{Assembler, Condition, System};
use tests_litmus::arm64::guest::{start, translate};

use crate::image::{self, segment};
use crate::twin::{self, Case};
use crate::world;

const RAM: u64 = 0x8000_0000;
const CODE: u64 = RAM + 0x10_0000;
const VECTORS: u64 = RAM + 0x20_0000;
const TABLE: u64 = RAM + 0x21_0000;
/// Registers of each cpu, then where it starts and in which state.
const STARTS: u64 = RAM + 0x22_0000;
/// Code of each cpu, a page each; data behind.
const ARENA: u64 = RAM + 0x40_0000;
const PAGE: u64 = 0x1000;
/// RAM once more: for EL0, for reading only, as a device, without access flag.
const USER: u64 = 0x4000_0000;

/// When the machine is cloned, when both cpus begin, and how long they run.
const BOOTED: SimTime = SimTime::from_us(40);
const BEGIN: SimTime = SimTime::from_us(41);
const TIME: SimTime = SimTime::from_us(5);
/// Words of code of one cpu that count.
const WORDS_MAX: usize = 32;
/// Exceptions after which a cpu sleeps.
const FAULTS_MAX: u64 = 24;

/// SPSR to start with: EL1 with its own stack or that of EL0, open or masked; EL0.
const MODES: [u64; 4] = [0x3c5, 0x005, 0x004, 0x000];

/// What registers hold.
#[rustfmt::skip]
const VALUES: [u64; 64] = [
    0, 1, 2, 3, 7, 8, 0x10, 0x1f, 0x20, 0x3f, 0x40, 0x7f, 0x80, 0xff, 0x100, 0x7fff,
    0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000,
    i64::MAX as u64, i64::MIN as u64, u64::MAX, u64::MAX - 1, 1 << 48, (1 << 39) - 8,
    // Code, data, ends of lines and pages.
    ARENA, ARENA + 0x1000, ARENA + 0x2000, ARENA + 0x203d, ARENA + 0x2ffc, ARENA + 0x3000,
    ARENA + 0x3040, ARENA + 0x3ff8, ARENA + 0x4000, ARENA + 0x4038,
    // The same for others.
    ARENA + USER, ARENA + USER + 0x2000, ARENA + USER + 0x2ffc, ARENA + USER + 0x3000,
    ARENA + 2 * USER, ARENA + 2 * USER + 0x3000, ARENA + 3 * USER, ARENA + 3 * USER + 0x3008,
    ARENA + 4 * USER, ARENA + 5 * USER,
    // Tables, devices, nothing.
    VECTORS, TABLE, STARTS, 0x0800_0000, 0x0800_0104, 0x0a00_0000, 0x0a01_0100, 0x0900_0000,
    0x0901_0000, 0x4000_0000,
    // SGIs, firmware calls, a bit of SCTLR.
    0x1_0001, 1 << 40 | 1, 0x8400_0000, 0xc400_0003, 0xc400_0001, 0x1005,
];

/// An input, taken apart.
struct Input {
    starts: [Vec<u8>; 2],
    code: [Vec<u8>; 2],
}

impl Input {
    fn read(data: &[u8]) -> Option<Input> {
        let (&modes, rest) = data.split_first()?;
        let (first, rest) = rest.split_first_chunk::<31>()?;
        let (second, rest) = rest.split_first_chunk::<31>()?;
        let (&len, rest) = rest.split_first()?;
        let words = usize::from(len).min(WORDS_MAX).min(rest.len() / 4);
        let (code, other) = rest.split_at(4 * words);
        let other = &other[..other.len().min(4 * WORDS_MAX)];
        let starts = [registers(0, modes, first), registers(1, modes >> 4, second)];
        Some(Input { starts, code: [code.to_vec(), other.to_vec()] })
    }
}

fn registers(cpu: u64, mode: u8, registers: &[u8; 31]) -> Vec<u8> {
    // The upper bits of an index move the value a little.
    let value = |b: &u8| VALUES[usize::from(*b) % 64].wrapping_add(u64::from(*b >> 6) * 4);
    let end = [ARENA + cpu * PAGE, MODES[usize::from(mode) % MODES.len()]];
    registers.iter().map(value).chain(end).flat_map(u64::to_le_bytes).collect()
}

pub(crate) fn run(data: &[u8]) {
    static PLAIN: OnceLock<Machine> = OnceLock::new();
    static OTHER: OnceLock<Machine> = OnceLock::new();
    let Some(input) = Input::read(data) else { return };
    let prepare = |machine: &mut Machine| {
        for (cpu, (start, code)) in (0..).zip(input.starts.iter().zip(&input.code)) {
            machine.write_guest(STARTS + cpu * PAGE, start);
            machine.write_guest(ARENA + cpu * PAGE, code);
        }
    };
    let case = Case { prepare, time: TIME, compared: (ARENA, 0x5000) };
    let plain = PLAIN.get_or_init(|| boot(Options::default()));
    if !twin::is_compared(data) {
        return case.run(plain);
    }
    case.compare(plain, OTHER.get_or_init(|| boot(twin::options())));
}

/// Boots two cpus up to where they wait for the time to begin.
fn boot(options: Options) -> Machine {
    let topology = topology::Machine::load("duo-arm", &world::small()).expect("a machine");
    let image = image(&topology).expect("it can be assembled");
    let mut machine = Machine::new(&topology, options).expect("it can be built");
    machine.load(&image, "").expect("it fits");
    let stop = machine.run(&Until { time: BOOTED, regions: false }, &mut ());
    assert_eq!(stop, Stop::TimeLimit, "both cpus start");
    machine
}

fn image(topology: &topology::Machine) -> Result<Image, String> {
    let mut a = Assembler::default();
    let other = a.label();
    start(&mut a, topology.cpus[1].mpidr, other);
    let begin = BEGIN.ps() / 1000 * (topology.clocks.counter_hz() / 1_000_000) / 1000;
    cpu(&mut a, 0, begin);
    a.bind(other);
    cpu(&mut a, 1, begin);
    let segments = vec![
        segment(CODE, a.assemble()?),
        segment(VECTORS, vectors()?),
        segment(TABLE, table()),
        segment(STARTS, vec![0; 0x2000]),
        // Branches to themselves.
        segment(ARENA, 0x1400_0000_u32.to_le_bytes().repeat(0x800)),
    ];
    Ok(image::image(topology::Isa::Aarch64, CODE, segments))
}

/// Sets a cpu up, waits, and loads all its registers.
fn cpu(a: &mut Assembler, cpu: u64, begin: u64) {
    translate(a, TABLE);
    for (register, value) in [
        (System::Vbar, VECTORS),
        (System::Cpacr, 3 << 20),
        (System::Tpidr, 0),
        (System::Priority, 0xff),
        (System::Enable, 1),
    ] {
        a.mov(0, value);
        a.msr(register, 0);
    }
    a.mov(0, begin);
    let spin = a.here();
    a.mrs(1, System::Counter);
    a.cmp(1, 0);
    a.b_if(Condition::Lower, spin);
    a.mov(30, STARTS + cpu * PAGE);
    for (at, register) in [(31, System::Elr), (32, System::Spsr)] {
        a.ldr(0, 30, 8 * at);
        a.msr(register, 0);
    }
    for r in 0..=30 {
        a.ldr(r, 30, 8 * u32::from(r));
    }
    a.eret();
}

/// A vector of 32 words for each kind: exceptions go on, interrupts are ended, all else sleeps.
fn vectors() -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    for nth in 0..16 {
        let mut a = Assembler::default();
        match nth % 4 {
            0 => {
                let end = a.label();
                a.mrs(17, System::Elr);
                a.add_imm(17, 17, 4);
                a.msr(System::Elr, 17);
                a.mrs(16, System::Tpidr);
                a.add_imm(16, 16, 1);
                a.msr(System::Tpidr, 16);
                a.mov(17, FAULTS_MAX);
                a.cmp(17, 16);
                a.b_if(Condition::Lower, end);
                a.eret();
                a.bind(end);
            }
            1 => {
                a.mrs(16, System::Acknowledge);
                a.msr(System::End, 16);
                a.eret();
            }
            _ => {}
        }
        let sleep = a.here();
        a.wfi();
        a.b(sleep);
        bytes.extend(a.assemble()?);
        bytes.resize((nth + 1) * 0x80, 0);
    }
    Ok(bytes)
}

/// A level 1 table: devices, RAM, and RAM again in other ways.
fn table() -> Vec<u8> {
    const DEVICE: u64 = 1 << 2;
    const ACCESSED: u64 = 1 << 10;
    const SHARED: u64 = 3 << 8;
    const NEVER_EXECUTED: u64 = 3 << 53;
    let block = |gib: u64, flags: u64| gib << 30 | flags | 1;
    let entries = [
        block(0, DEVICE | ACCESSED | NEVER_EXECUTED),
        block(1, DEVICE | ACCESSED | NEVER_EXECUTED),
        block(2, SHARED | ACCESSED),
        block(2, SHARED | ACCESSED | 1 << 6),
        block(2, SHARED | ACCESSED | 3 << 6),
        block(2, DEVICE | ACCESSED),
        block(2, SHARED),
    ];
    let mut bytes: Vec<u8> = entries.iter().flat_map(|e| e.to_le_bytes()).collect();
    bytes.resize(0x1000, 0);
    bytes
}
