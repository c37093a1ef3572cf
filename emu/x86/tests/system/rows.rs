//! Runs the rows of `tests/isa/x86/system/*.ins`: what the manuals' tables say of instructions and
//! events under paging, segmentation, privilege, and priority.
//!
//! `tests_ins` says what a row looks like. Three lines hold for the rows behind them: `source`, the
//! manual and the section (each row must have one); `mode`, of `modes`; `with`, words that stand
//! before those of each row (a new `mode` or `with` ends it).
//!
//! A row runs from its first instruction until a handler is entered, the cpu waits or shuts down,
//! or the instruction pointer leaves its bytes. Values are hexadecimal; `page`, `code` and `stack`
//! are addresses of the mode, and `page+8` is eight bytes on. A value `+wp-pg` sets and clears
//! bits by name (`b13`: by number), a plain one is the whole.
//!
//! - **before**: general registers; memory (`q[..]`); `flags` (letters), `iopl`, `ac`; `cpl`;
//!   `cr0`, `cr2`, `cr3`, `cr4`, `cr8`, `efer`, `dr6`, `dr7`, `xcr0`, MSRs by name (`star`, ..);
//!   bases and limits (`fs.base`, `cs.limit`, `gdt.limit`, ..); `rip`;
//!   entries on the way to the page (`pml5e` to `pte`); descriptors and gates (`gdt[40]`,
//!   `ldt[8]`, `idt[6]`: a kind of `Descriptor::parse`, then `.dpl3`, `.np`, `.limN`, `.baseN`,
//!   `.selN`, `.offN`, `.istN`, `.countN`, or the eight bytes); `vendor=amd`, `without=feature`;
//!   `x2apic=1` (needed for `tpr`); events that are there when the row starts: `irq=51`, `nmi=1`,
//!   and `isr=51` for an interrupt in service.
//! - **after**: `fault=gp(10)`, `fault=pf(6,page)` with the error code and CR2: that handler is
//!   entered, to return to the first instruction; `take=51`: the handler of that vector, to return
//!   behind the last one; `at=+3` when the return address is another; `jump=..`, `halt`, `sleep`,
//!   `shutdown`. Then what changed, in the words of before, with `cs`, `ss`, .. for selectors, and
//!   `irr` and `isr` for all vectors of the register (`41,51`, `-` for none), or `same`. All other
//!   registers must be as before; those that delivery changes (`cs`, `ss`, `rsp`, `flags`) are
//!   compared when named.
//!
//! Each row runs twice: with memory that answers at once, and with one that makes the cpu wait.

use std::path::Path;

use emu_cpu::flat::{FlakyPort, FlatPort};
use emu_cpu::isa::{Flow, Isa};
use emu_cpu::wait::WaitReason;
use emu_x86::X86Cpu;
use emu_x86::defs::vector;
use emu_x86::state::gpr;
use tests_ins::{Reader, Row, disassemble, flag_bits, memory, number};

use crate::modes::Mode;
use crate::words::{Case, LDT, Words, segment_of, table};
use crate::world::{GDT, HANDLERS, World};

/// Steps that a row may take.
const STEPS_MAX: u32 = 64;

/// What holds for a row.
struct Rows {
    has_source: bool,
    mode: Mode,
    with: String,
}

impl Reader for Rows {
    const HEADS: &'static [&'static str] = &["source", "mode", "with"];

    fn start(&mut self) {
        (self.has_source, self.mode) = (false, Mode::Long);
        self.with.clear();
    }

    fn head(&mut self, word: &str, value: &str) -> Result<(), String> {
        match word {
            "source" if !value.starts_with('[') => return Err("no tag of a manual".to_owned()),
            "source" => self.has_source = true,
            "mode" => {
                self.mode = Mode::parse(value).ok_or("no such mode")?;
                self.with.clear();
            }
            _ => value.clone_into(&mut self.with),
        }
        Ok(())
    }

    fn text(&self, row: &Row<'_>) -> String {
        disassemble(&row.bytes, self.mode.bits(), crate::world::CODE)
    }

    fn check(&mut self, row: &Row<'_>) -> Result<(), String> {
        if !self.has_source {
            return Err("no `source` above it".to_owned());
        }
        let mut before = Case { mode: self.mode, has_events: false, world: self.mode.world() };
        let words = || self.with.split_whitespace().chain(row.before.split_whitespace());
        // The level comes first: it has its own segments, stack and code.
        let is_level = |word: &&str| word.starts_with("cpl=");
        for word in words().filter(is_level).chain(words().filter(|word| !is_level(word))) {
            before.set(word)?;
        }
        before.world.cpu.registers_changed();
        before.place(&row.bytes);
        for seed in 0..2 {
            let mut found = before.clone();
            let end = found.run(row.bytes.len() as u64, seed);
            found.compare(&before, end, row).map_err(|e| format!("{e} (seed {seed})"))?;
        }
        Ok(())
    }
}

/// How a row ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// Behind its last byte.
    Next,
    /// Elsewhere in code.
    Jump(u64),
    /// In the handler of a vector.
    Handler(u8),
    Wait(WaitReason),
    Shutdown,
    Running,
}

impl Case {
    fn run(&mut self, len: u64, seed: u64) -> End {
        let start = self.world.cpu.linear_pc();
        let World { cpu, port, unit } = &mut self.world;
        let end = if seed == 0 {
            drive(start, len, cpu, |cpu| cpu.step(unit, port).expect("flat memory"))
        } else {
            let mut flaky = FlakyPort::new(std::mem::replace(port, FlatPort::new(0)), seed);
            let end = drive(start, len, cpu, |cpu| flaky.run(|port| cpu.step(unit, port)));
            *port = flaky.inner;
            end
        };
        if !self.has_events || !matches!(end, End::Next | End::Jump(_)) {
            return end;
        }
        // What the last instruction left pending comes before the next one.
        let mut later = self.clone();
        later.world.step();
        match handler_at(later.world.cpu.linear_pc()) {
            Some(vector) => {
                *self = later;
                End::Handler(vector)
            }
            None => end,
        }
    }

    /// Whether this is what a row says of `before`.
    fn compare(&self, before: &Case, end: End, row: &Row<'_>) -> Result<(), String> {
        let mut wanted = before.words();
        let start = before.world.cpu.state.rip;
        let (mut wanted_end, mut back, mut code) = (End::Next, None, None);
        let mut named = Vec::new();
        for word in row.after.split_whitespace().filter(|word| *word != "same") {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "fault" => {
                    let fault = fault_of(before, value)?;
                    (wanted_end, code) = (End::Handler(fault.vector), fault.code);
                    back = Some(start);
                    if let Some(cr2) = fault.cr2 {
                        wanted.insert("cr2".to_owned(), cr2);
                    }
                }
                "take" => {
                    wanted_end = End::Handler(number(value)? as u8);
                    back = Some(start + row.bytes.len() as u64);
                }
                "at" => {
                    let at = value.strip_prefix('+').map(|n| number(n).map(|n| start + n as u64));
                    back = Some(at.unwrap_or_else(|| before.value(value))?);
                }
                "jump" => wanted_end = End::Jump(before.value(value)?),
                "halt" => wanted_end = End::Wait(WaitReason::Halt),
                "sleep" => wanted_end = End::Wait(WaitReason::Monitor),
                "shutdown" => wanted_end = End::Shutdown,
                _ => {
                    named.push(name);
                    self.check_word(before, name, value, &mut wanted)?;
                }
            }
        }
        if end != wanted_end {
            return Err(format!("ends with {end:x?}{}, not {wanted_end:x?}", self.frame_text(end)));
        }
        if matches!(end, End::Handler(_)) {
            let (found_code, found_back) = self.frame(code.is_some());
            if found_code != code || Some(found_back) != back {
                return Err(format!(
                    "code {found_code:x?} returns to {found_back:x}, not {code:x?} and {back:x?}"
                ));
            }
        }
        let delivered: &[&str] = match end {
            End::Handler(_) => &["cs", "ss", "rsp", "flags", "cpl"],
            End::Shutdown => &["cr2"],
            _ => &[],
        };
        let found = self.words();
        let differs = |name: &&String| {
            let is_free = delivered.contains(&name.as_str()) && !named.contains(&name.as_str());
            !is_free && found[*name] != wanted[*name]
        };
        let text: Vec<_> = wanted
            .keys()
            .filter(differs)
            .map(|name| format!("{name}={:x} not {:x}", found[name], wanted[name]))
            .collect();
        if text.is_empty() { Ok(()) } else { Err(text.join(" ")) }
    }

    /// A word behind `=>`: either wanted of a register, or compared at once.
    fn check_word(
        &self,
        before: &Case,
        name: &str,
        value: &str,
        wanted: &mut Words,
    ) -> Result<(), String> {
        if let Some(old) = wanted.get(name).copied() {
            let value = match name {
                "flags" => flag_bits(value)?,
                _ => before.bits(name, old, value)?,
            };
            wanted.insert(name.to_owned(), value);
            return Ok(());
        }
        let (found, wanted) = if let Some((at, size)) = memory(name) {
            (self.world.port.get(at, size as u8) as u64, before.value(value)?)
        } else if let Some(entry) = self.mode.path().iter().find(|entry| entry.name == name) {
            let old = self.mode.entry(&before.world, entry.at);
            (self.mode.entry(&self.world, entry.at), before.bits("entry", old, value)?)
        } else if let Some(("gdt" | "ldt", n)) = table(name)? {
            let base = if name.starts_with('g') { GDT } else { LDT };
            (self.world.get(base + n), before.descriptor(n, value)?[0])
        } else if let Some((segment, part)) = name.split_once('.') {
            let mut state = self.world.cpu.state.clone();
            let mut after = before.clone();
            after.set(&format!("{name}={value}"))?;
            let found = *segment_of(&mut state, segment)?;
            let wanted = *segment_of(&mut after.world.cpu.state, segment)?;
            match part {
                "base" => (found.base, wanted.base),
                "limit" => (u64::from(found.limit), u64::from(wanted.limit)),
                _ => (u64::from(found.rights), u64::from(wanted.rights)),
            }
        } else {
            let set = match name {
                "irr" => self.world.cpu.apic.irr(),
                "isr" => self.world.cpu.apic.isr(),
                _ => return Err(format!("no {name}")),
            };
            let wanted = value.split(',').filter(|text| *text != "-").map(number);
            let wanted = wanted.collect::<Result<Vec<_>, _>>()?;
            let mut found: Vec<_> = set.iter().map(u128::from).collect();
            found.sort_unstable();
            if found != wanted {
                return Err(format!("{name} is {found:x?}"));
            }
            (0, 0)
        };
        if found == wanted {
            return Ok(());
        }
        Err(format!("{name}={found:x} not {wanted:x}"))
    }

    /// Error code and return address of the frame.
    fn frame(&self, has_code: bool) -> (Option<u32>, u64) {
        let width = self.mode.frame_width();
        let state = &self.world.cpu.state;
        let base = if width == 8 { 0 } else { state.seg[2].base };
        let at = base + state.gpr[gpr::RSP];
        let code = has_code.then(|| self.world.port.get(at, width) as u32);
        let at = at + if has_code { u64::from(width) } else { 0 };
        (code, self.world.port.get(at, width) as u64)
    }

    fn frame_text(&self, end: End) -> String {
        match end {
            End::Handler(n) => {
                let has_code = matches!(n, 8 | 10..=14 | 17) && self.mode.frame_width() != 2;
                let (code, back) = self.frame(has_code);
                let cr2 = self.world.cpu.state.cr2;
                format!(" (code {code:x?}, to return to {back:x}, CR2 {cr2:x})")
            }
            _ => String::new(),
        }
    }
}

/// Steps until the row that lies at `start` has ended.
fn drive(start: u64, len: u64, cpu: &mut X86Cpu, mut step: impl FnMut(&mut X86Cpu) -> Flow) -> End {
    for _ in 0..STEPS_MAX {
        match step(cpu) {
            Flow::Sleep(request) if cpu.wake_cause(&request).is_none() => {
                return End::Wait(request.reason);
            }
            Flow::Shutdown => return End::Shutdown,
            _ => {}
        }
        let at = cpu.linear_pc();
        if let Some(vector) = handler_at(at) {
            return End::Handler(vector);
        }
        match at.wrapping_sub(start) {
            n if n == len => return End::Next,
            n if n > len => return End::Jump(at),
            _ => {}
        }
    }
    End::Running
}

/// The vector whose handler lies at an address.
fn handler_at(at: u64) -> Option<u8> {
    (HANDLERS..HANDLERS + 0x1000).contains(&at).then(|| ((at - HANDLERS) / 16) as u8)
}

/// An exception that a row wants.
struct Fault {
    vector: u8,
    code: Option<u32>,
    cr2: Option<u64>,
}

fn fault_of(before: &Case, text: &str) -> Result<Fault, String> {
    let (name, inside) = text.split_once('(').unwrap_or((text, ""));
    let mut numbers = inside.trim_end_matches(')').split(',').filter(|text| !text.is_empty());
    let vector = match name {
        "de" => vector::DE,
        "db" => vector::DB,
        "bp" => vector::BP,
        "of" => vector::OF,
        "br" => vector::BR,
        "ud" => vector::UD,
        "nm" => vector::NM,
        "df" => vector::DF,
        "ts" => vector::TS,
        "np" => vector::NP,
        "ss" => vector::SS,
        "gp" => vector::GP,
        "pf" => vector::PF,
        "mf" => vector::MF,
        "ac" => vector::AC,
        _ => return Err(format!("no fault {name}")),
    };
    let code = numbers.next().map(number).transpose()?.map(|code| code as u32);
    let cr2 = numbers.next().map(|text| before.value(text)).transpose()?;
    Ok(Fault { vector, code, cr2 })
}

#[test]
fn rows_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/isa/x86/system");
    Rows { has_source: false, mode: Mode::Long, with: String::new() }.check_folder(&folder);
}
