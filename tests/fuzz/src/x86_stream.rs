//! `x86_stream`: any code on both cpus of a small machine, from any registers.
//!
//! An input is a byte of modes, a byte for each register of each cpu (an index of interesting
//! values), a length, the code of cpu 0 of that length, and the code of cpu 1. Checked are the laws
//! of the machine at the end; and for one input in sixteen that a machine without spin elision,
//! whose cores run in a shuffled order, comes to the same end by the same events (`engine.md` D7).

use std::sync::OnceLock;

use emu_machine::{Machine, Options};
use emu_sim::SimTime;

use crate::twin::{self, Case};
use crate::world::{self, ARENA, SMALL_PAGES, Start};

/// Simulated time of a run.
const TIME: SimTime = SimTime::from_us(4);
/// Bytes of code of one cpu that count.
const CODE_MAX: usize = 128;
/// Memory that is compared.
const COMPARED: (u64, usize) = (ARENA, 0x4000);

/// Segments and flags to start with: kernel, user, compatibility mode, with and without
/// interrupts, single step.
const MODES: [(u16, u16, u64); 8] = [
    (0x08, 0x10, 0x002),
    (0x08, 0x10, 0x202),
    (0x2b, 0x23, 0x202),
    (0x1b, 0x23, 0x202),
    (0x08, 0x00, 0x302),
    (0x2b, 0x23, 0x3202),
    (0x50, 0x10, 0x002),
    (0x08, 0x10, 0x4_0602),
];

/// What registers hold.
#[rustfmt::skip]
const VALUES: [u64; 64] = [
    0, 1, 2, 3, 7, 8, 0x10, 0x1f, 0x20, 0x3f, 0x40, 0x7f, 0x80, 0xff, 0x100, 0x7fff,
    0x8000, 0xffff, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff, 0x1_0000_0000,
    i64::MAX as u64, i64::MIN as u64, u64::MAX, u64::MAX - 1, 1 << 47, (1 << 47) - 1,
    // Code, data, ends of lines and pages.
    ARENA, ARENA + 0x1000, ARENA + 0x2000, ARENA + 0x203d, ARENA + 0x2ffc, ARENA + 0x3000,
    ARENA + 0x3040, ARENA + 0x3ff8, ARENA + 0x1f_fffc, 0x5f_fff9,
    // Small pages: by kind.
    SMALL_PAGES, SMALL_PAGES + 0x1ffc, SMALL_PAGES + 0x3ff8, SMALL_PAGES + 0x5000,
    SMALL_PAGES + 0x7ffa, SMALL_PAGES + 0x8ff8, SMALL_PAGES + 0xa000, SMALL_PAGES + 0xcfff,
    SMALL_PAGES + 0xd000, SMALL_PAGES + 0xe000,
    // Tables of the system, devices, nothing.
    0x20_0000, 0x20_1000, 0x30_0000, 0xfee0_0000, 0xfee0_0300, 0xfec0_0000, 0xfed8_0000, 1 << 30,
    // Numbers of MSRs, an ICR value, a hint, the port of the UART.
    0x1b, 0x10, 0x830, 0xc000_0080, 0x6e0, 0xc_4041, 0x60, 0x3f8,
];

/// An input, taken apart.
struct Input<'a> {
    starts: [Start; 2],
    code: [&'a [u8]; 2],
}

impl<'a> Input<'a> {
    fn read(data: &'a [u8]) -> Option<Input<'a>> {
        let (&modes, rest) = data.split_first()?;
        let (first, rest) = rest.split_first_chunk::<16>()?;
        let (second, rest) = rest.split_first_chunk::<16>()?;
        let (&len, rest) = rest.split_first()?;
        let (code, other) = rest.split_at(usize::from(len).min(CODE_MAX).min(rest.len()));
        let other = &other[..other.len().min(CODE_MAX)];
        let starts = [start(modes, first), start(modes >> 4, second)];
        Some(Input { starts, code: [code, other] })
    }
}

fn start(mode: u8, registers: &[u8; 16]) -> Start {
    let (cs, ss, rflags) = MODES[usize::from(mode) % MODES.len()];
    // The upper bits of an index move the value a little.
    let value = |byte: u8| VALUES[usize::from(byte) % 64].wrapping_add(u64::from(byte >> 6) * 4);
    let [rsp, gpr @ ..] = registers;
    Start { gpr: gpr.map(value), cs, ss, rflags, rsp: value(*rsp) }
}

pub(crate) fn run(data: &[u8]) {
    static PLAIN: OnceLock<Machine> = OnceLock::new();
    static OTHER: OnceLock<Machine> = OnceLock::new();
    let Some(input) = Input::read(data) else { return };
    let prepare = |machine: &mut Machine| {
        for (cpu, (start, code)) in input.starts.iter().zip(input.code).enumerate() {
            start.write(machine, cpu);
            machine.write_guest(Start::code(cpu), code);
        }
    };
    let case = Case { prepare, time: TIME, compared: COMPARED };
    let plain = PLAIN.get_or_init(|| world::boot(Options::default()));
    if !twin::is_compared(data) {
        return case.run(plain);
    }
    case.compare(plain, OTHER.get_or_init(|| world::boot(twin::options())));
}
