//! Runs the rows of `tests/isa/x86/*.ins`: one instruction each, before and after.
//!
//! `tests_ins` says what a row looks like. Here the words mean:
//!
//! - **before** sets: general registers (`rax=1`), `xmm0=..`, `flags=..` (letters of `oszapcditn`,
//!   `-` for none), memory (`b[20000]=..`, and `w`, `d`, `q`, `x` for 2, 4, 8 and 16 bytes), `cpl`,
//!   `iopl`, `cr0`, `cr4`, `mxcsr`, `fsbase`, `port` (the value that devices answer), and `without`
//!   (a feature that the cpu then lacks).
//! - **after** says what changed, in the same words, or `same`; besides `jump=..`, `fault=gp(0)`,
//!   and `fault=pf(6,22000)` with the error code and CR2. All else must be as before: registers,
//!   flags, and memory.
//! - A line `mode 16`, `mode 32`, `mode 64` (the default) or `mode user` holds for the rows behind
//!   it. The last is 64-bit code at CPL 3 with paging: `emu_x86::flat_user` has its addresses.
//!
//! But for `mode user`, the instruction is at 0x1000, RSP is 0x28100, other registers are 0. A
//! repeated string instruction runs until it goes on. Each row runs twice: with memory that answers
//! at once, and with one that makes the instruction wait and start again, which must not show.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use emu_cpu::flat::{FlakyPort, FlatPort};
use emu_cpu::port::{Port, Wait};
use emu_sim::{ApicId, Freq};
use emu_x86::ctx::{Exception, Trap};
use emu_x86::decode::{self, decode_block};
use emu_x86::defs::{Features, Vendor, cr0, cr4, efer, rights, vector};
use emu_x86::exec::Next;
use emu_x86::exec::run_body;
use emu_x86::flat_user;
use emu_x86::state::{SegReg, Segment, State};
use emu_x86::{CpuConfig, CpuIdentity, X86Cpu};
use tests_ins::{FLAGS, GPR, Reader, Row, disassemble, flag_bits, memory, number};

const CODE: u64 = 0x1000;
const STACK: u64 = 0x28100;
const MEMORY_BYTES: usize = 0x40000;
const REPEATS_MAX: u32 = 10_000;

/// A machine before or after a row.
#[derive(Clone)]
struct World {
    cpu: X86Cpu,
    port: FlatPort,
}

/// How an instruction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Seq,
    Jump(u64),
    Fault(u8, Option<u32>),
    /// Error code and CR2.
    PageFault(u32, u64),
    Other,
}

/// What a line `mode` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// CPL 0, no paging, code of so many bits.
    Bits(u8),
    /// CPL 3 with paging.
    User,
}

impl Mode {
    fn parse(text: &str) -> Self {
        if text == "user" {
            Mode::User
        } else {
            Mode::Bits(text.parse().expect("16, 32, 64 or user"))
        }
    }

    /// Bits of the code.
    fn bits(self) -> u8 {
        match self {
            Mode::Bits(bits) => bits,
            Mode::User => 64,
        }
    }

    /// Where the instruction lies.
    fn code(self) -> u64 {
        match self {
            Mode::Bits(_) => CODE,
            Mode::User => flat_user::CODE,
        }
    }

    fn world(self) -> World {
        match self {
            Mode::Bits(bits) => world(bits),
            Mode::User => {
                let (cpu, port) = flat_user::user_world(Vendor::Intel, false);
                World { cpu, port }
            }
        }
    }
}

/// The cpu of a mode, at `CODE`.
fn world(mode: u8) -> World {
    let config = CpuConfig {
        vendor: Vendor::Intel,
        features: Features::all(),
        phys_addr_bits: 46,
        mmio: Vec::new(),
        tlb: emu_x86::tlb::TlbSizes::default(),
        tsc: Freq::from_khz(1_000_000),
        apic_timer: Freq::from_khz(100_000),
        idle: emu_x86::IdleTable::default(),
        icr_ordered: true,
        starts_in_x2apic: false,
    };
    let identity = CpuIdentity { apic_id: ApicId(0), is_bsp: true, cpuid: Arc::from([]) };
    let mut cpu = X86Cpu::new(Arc::new(config), identity);
    let state = &mut cpu.state;
    state.gpr = [0; 16];
    state.gpr[4] = if mode == 16 { STACK & 0xffff } else { STACK };
    state.rip = CODE;
    state.cr4 = cr4::OSFXSR | cr4::OSXSAVE;
    state.fp.xcr0 = 3;
    let limit = if mode == 16 { 0xffff } else { 0xffff_ffff };
    let wide = if mode == 32 { rights::DB } else { 0 };
    state.seg = [Segment { selector: 0, base: 0, limit, rights: 0x93 | wide }; 6];
    let code = &mut state.seg[SegReg::Cs as usize];
    code.rights = 0x9b | wide | if mode == 64 { rights::L } else { 0 };
    if mode != 16 {
        state.cr0 |= cr0::PE;
    }
    if mode == 64 {
        state.efer = efer::LME | efer::LMA;
    }
    cpu.registers_changed();
    World { cpu, port: FlatPort::new(MEMORY_BYTES) }
}

impl World {
    /// Applies one word of a row.
    fn set(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').ok_or(format!("{word}: no ="))?;
        let state = &mut self.cpu.state;
        if let Some(n) = GPR.iter().position(|register| *register == name) {
            state.gpr[n] = number(value)? as u64;
        } else if let Some(n) = name.strip_prefix("xmm") {
            let n: usize = n.parse().map_err(|e| format!("{name}: {e}"))?;
            state.fp.xmm[n] = number(value)?;
        } else if let Some((at, size)) = memory(name) {
            self.port.put(at, &number(value)?.to_le_bytes()[..size]);
        } else {
            self.set_special(name, value)?;
        }
        Ok(())
    }

    fn set_special(&mut self, name: &str, value: &str) -> Result<(), String> {
        let state = &mut self.cpu.state;
        match name {
            "flags" => {
                let known = FLAGS.iter().fold(0, |all, row| all | row.1);
                state.rflags = state.rflags & !known | flag_bits(value)?;
            }
            "iopl" => state.rflags |= (number(value)? as u64) << 12,
            "ac" => state.rflags |= 1 << 18,
            "id" => state.rflags |= 1 << 21,
            "mxcsr" => state.fp.mxcsr = number(value)? as u32,
            "cr0" => state.cr0 = number(value)? as u64,
            "cr4" => state.cr4 = number(value)? as u64,
            "fcw" => state.fp.fcw = number(value)? as u16,
            "fsw" => state.fp.fsw = number(value)? as u16,
            "ftw" => state.fp.ftw = number(value)? as u8,
            "tscaux" => state.tsc_aux = number(value)? as u64,
            "fsbase" => state.seg[SegReg::Fs as usize].base = number(value)? as u64,
            "gsbase" => state.seg[SegReg::Gs as usize].base = number(value)? as u64,
            "gssel" => state.seg[SegReg::Gs as usize].selector = number(value)? as u16,
            "port" => self.port.device_value = number(value)? as u64,
            "cpl" => {
                let cpl = number(value)? as u16;
                for seg in [SegReg::Cs, SegReg::Ss] {
                    let segment = &mut state.seg[seg as usize];
                    segment.selector = segment.selector & !3 | cpl;
                    segment.rights |= cpl << rights::DPL_SHIFT;
                }
                self.cpu.registers_changed();
            }
            "without" => {
                let feature = Features::from_name(&value.to_uppercase());
                let feature = feature.ok_or(format!("no feature {value}"))?;
                Arc::make_mut(&mut self.cpu.config).features.remove(feature);
            }
            _ => return Err(format!("no {name}")),
        }
        Ok(())
    }
}

fn fault_of(text: &str) -> Result<End, String> {
    if let Some((code, cr2)) = text.strip_prefix("pf(").and_then(|rest| rest.split_once(',')) {
        let cr2 = number(cr2.trim_end_matches(')'))? as u64;
        return Ok(End::PageFault(number(code)? as u32, cr2));
    }
    let (name, code) = text
        .split_once('(')
        .map_or((text, None), |(name, code)| (name, Some(code.trim_end_matches(')'))));
    let vector = match name {
        "de" => vector::DE,
        "br" => vector::BR,
        "ud" => vector::UD,
        "nm" => vector::NM,
        "ss" => vector::SS,
        "gp" => vector::GP,
        "mf" => vector::MF,
        _ => return Err(format!("no fault {name}")),
    };
    let code = code.map(number).transpose()?.map(|code| code as u32);
    Ok(End::Fault(vector, code))
}

/// Runs the instruction at `CODE` once.
fn step<P: Port>(cpu: &mut X86Cpu, port: &mut P, bytes: &[u8]) -> Result<Option<End>, Wait> {
    // What follows is never executed, but iced reads on before it calls bytes invalid.
    let mut padded = [0x90; 16];
    padded[..bytes.len()].copy_from_slice(bytes);
    let block = decode_block(&padded, cpu.state.rip, decode::Mode { bits: cpu.bits() });
    let Some(op) = block.ops.first() else { return Ok(Some(End::Other)) };
    Ok(Some(match run_body(cpu, port, op) {
        Ok(Next::Repeat) => return Ok(None),
        Ok(Next::Seq) if usize::from(op.len) == bytes.len() => End::Seq,
        Ok(Next::Jump(target)) => End::Jump(target),
        Ok(_) => End::Other,
        Err(Trap::Fault(Exception { vector: vector::PF, code: Some(code), cr2 })) => {
            End::PageFault(code, cr2)
        }
        Err(Trap::Fault(Exception { vector, code, .. })) => End::Fault(vector, code),
        Err(Trap::Wait) => return Err(Wait),
    }))
}

fn run_flat(world: &mut World, bytes: &[u8]) -> End {
    for _ in 0..REPEATS_MAX {
        match step(&mut world.cpu, &mut world.port, bytes) {
            Ok(Some(end)) => return end,
            Ok(None) => {}
            Err(Wait) => return End::Other,
        }
    }
    End::Other
}

/// As `run_flat`, with waits; also checks that a run that waits changes no register.
fn run_flaky(world: &mut World, bytes: &[u8], seed: u64) -> End {
    let mut port = FlakyPort::new(world.port.clone(), seed);
    let cpu = &mut world.cpu;
    for _ in 0..REPEATS_MAX {
        let before = cpu.state.clone();
        let end = port.run(|port| {
            let end = step(cpu, port, bytes);
            if end.is_err() {
                assert_eq!(cpu.state, before, "a run that waits changed registers");
            }
            end
        });
        if let Some(end) = end {
            world.port = port.inner;
            return end;
        }
    }
    End::Other
}

/// Differences between what is and what should be, as text.
fn differences(found: &World, wanted: &World) -> String {
    let mut text = String::new();
    let (a, b) = (&found.cpu.state, &wanted.cpu.state);
    for (n, name) in GPR.iter().enumerate() {
        if a.gpr[n] != b.gpr[n] {
            let _ = write!(text, " {name}={:x} not {:x}", a.gpr[n], b.gpr[n]);
        }
    }
    for n in 0..16 {
        if a.fp.xmm[n] != b.fp.xmm[n] {
            let _ = write!(text, " xmm{n}={:x} not {:x}", a.fp.xmm[n], b.fp.xmm[n]);
        }
    }
    if a.rflags != b.rflags {
        let letters = |rflags: u64| -> String {
            FLAGS.iter().filter(|row| rflags & row.1 != 0).map(|row| row.0).collect()
        };
        let _ = write!(text, " flags={}({:x})", letters(a.rflags), a.rflags);
        let _ = write!(text, " not {}({:x})", letters(b.rflags), b.rflags);
    }
    let memory = found.port.memory.iter().zip(&wanted.port.memory).enumerate();
    for (at, (a, b)) in memory.filter(|(_, (a, b))| a != b) {
        let _ = write!(text, " b[{at:x}]={a:x} not {b:x}");
    }
    let rest = |state: &State| State { gpr: [0; 16], rflags: 0, ..state.clone() };
    if text.is_empty() && rest(a) != rest(b) {
        let _ = write!(text, " other registers: {:?} not {:?}", a.fp, b.fp);
    }
    text
}

fn check(row: &Row<'_>, mode: Mode) -> Result<(), String> {
    let mut before = mode.world();
    before.port.put(mode.code(), &row.bytes);
    for word in row.before.split_whitespace() {
        before.set(word)?;
    }
    let mut wanted = before.clone();
    let mut wanted_end = End::Seq;
    for word in row.after.split_whitespace().filter(|word| *word != "same") {
        if let Some(target) = word.strip_prefix("jump=") {
            wanted_end = End::Jump(number(target)? as u64);
        } else if let Some(fault) = word.strip_prefix("fault=") {
            wanted_end = fault_of(fault)?;
        } else {
            wanted.set(word)?;
        }
    }
    for seed in 0..4 {
        let mut found = before.clone();
        let end = match seed {
            0 => run_flat(&mut found, &row.bytes),
            _ => run_flaky(&mut found, &row.bytes, seed),
        };
        if end != wanted_end {
            return Err(format!("ends with {end:?}, not {wanted_end:?} (seed {seed})"));
        }
        let text = differences(&found, &wanted);
        if !text.is_empty() {
            return Err(format!("{text} (seed {seed})"));
        }
    }
    Ok(())
}

/// The mode that the last line `mode` asked for.
struct Rows(Mode);

impl Reader for Rows {
    const HEADS: &'static [&'static str] = &["mode"];

    fn start(&mut self) {
        self.0 = Mode::Bits(64);
    }

    fn head(&mut self, _mode: &str, value: &str) -> Result<(), String> {
        self.0 = Mode::parse(value);
        Ok(())
    }

    fn text(&self, row: &Row<'_>) -> String {
        disassemble(&row.bytes, self.0.bits(), self.0.code())
    }

    fn check(&mut self, row: &Row<'_>) -> Result<(), String> {
        check(row, self.0)
    }
}

#[test]
fn rows_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/isa/x86");
    Rows(Mode::Bits(64)).check_folder(&folder);
}
