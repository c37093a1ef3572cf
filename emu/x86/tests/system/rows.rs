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
//!   `irr` and `isr` for all vectors of the register (`41,51`, `-` for none), or `same`. All other registers must be as before; those that delivery changes
//!   (`cs`, `ss`, `rsp`, `flags`) are compared when named.
//!
//! Each row runs twice: with memory that answers at once, and with one that makes the cpu wait.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use emu_cpu::isa::{Flow, Isa};
use emu_cpu::wait::{Signal, WaitReason};
use emu_sim::SimTime;
use emu_x86::X86Cpu;
use emu_x86::defs::{Features, Vendor, cr0, cr4, efer, msr, pte, rflags, rights, vector};
use emu_x86::flat::{FlakyPort, FlatPort};
use emu_x86::state::{Segment, State, TableReg, gpr};
use tests_ins::{GPR, Reader, Row, disassemble, flag_bits, memory, number};

use crate::modes::Mode;
use crate::world::{GDT, HANDLERS, IDT, KERNEL_CS, World, descriptor};

/// Steps that a row may take.
const STEPS_MAX: u32 = 64;
/// The local descriptor table, once a row puts something there.
const LDT: u64 = 0x8000;

const SEGMENTS: [&str; 6] = ["es", "cs", "ss", "ds", "fs", "gs"];
/// Flags that a row names: those with letters.
const LETTERS: u64 = tests_flags();

#[rustfmt::skip]
const BITS: &[(&str, &[(&str, u64)])] = &[
    ("cr0", &[("pe", cr0::PE), ("mp", cr0::MP), ("em", cr0::EM), ("ts", cr0::TS), ("ne", cr0::NE),
              ("wp", cr0::WP), ("am", cr0::AM), ("nw", cr0::NW), ("cd", cr0::CD), ("pg", cr0::PG)]),
    ("cr4", &[("vme", cr4::VME), ("pvi", cr4::PVI), ("tsd", cr4::TSD), ("de", cr4::DE),
              ("pse", cr4::PSE), ("pae", cr4::PAE), ("mce", cr4::MCE), ("pge", cr4::PGE),
              ("pce", cr4::PCE), ("osfxsr", cr4::OSFXSR), ("umip", cr4::UMIP),
              ("la57", cr4::LA57), ("fsgsbase", cr4::FSGSBASE), ("pcide", cr4::PCIDE),
              ("osxsave", cr4::OSXSAVE), ("smep", cr4::SMEP), ("smap", cr4::SMAP)]),
    ("efer", &[("sce", efer::SCE), ("lme", efer::LME), ("lma", efer::LMA), ("nxe", efer::NXE)]),
    // A page-table entry; `ps` makes it a page at physical 0.
    ("entry", &[("p", pte::P), ("w", pte::W), ("u", pte::U), ("pwt", pte::PWT), ("pcd", pte::PCD),
                ("a", pte::A), ("d", pte::D), ("ps", pte::PS), ("g", pte::G), ("nx", pte::NX)]),
];

const fn tests_flags() -> u64 {
    let (mut all, mut n) = (0, 0);
    while n < tests_ins::FLAGS.len() {
        all |= tests_ins::FLAGS[n].1;
        n += 1;
    }
    all
}

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

/// A machine before or after a row.
#[derive(Clone)]
struct Case {
    mode: Mode,
    /// Whether something can be pending between two instructions.
    has_events: bool,
    world: World,
}

type Words = BTreeMap<String, u64>;

impl Case {
    /// A number, or a place with a number behind it.
    fn value(&self, text: &str) -> Result<u64, String> {
        let (name, plus) = text.split_once('+').unwrap_or((text, "0"));
        let state = &self.world.cpu.state;
        let base = match name {
            "page" => self.mode.page(),
            "code" => state.rip,
            "stack" => state.gpr[gpr::RSP],
            _ => return Ok(number(text)? as u64),
        };
        Ok(base.wrapping_add(number(plus)? as u64))
    }

    /// A whole value, or bits to set and to clear in `old`.
    fn bits(&self, kind: &str, old: u64, text: &str) -> Result<u64, String> {
        if !text.starts_with(['+', '-']) {
            return self.value(text);
        }
        let names = BITS.iter().find(|row| row.0 == kind).map_or(&[][..], |row| row.1);
        changes(text).try_fold(old, |value, (is_on, name)| {
            let number = name.strip_prefix('b').and_then(|n| n.parse::<u32>().ok());
            let known = names.iter().find(|row| row.0 == name).map(|row| row.1);
            let bit = known.or(number.map(|n| 1 << n)).ok_or(format!("{kind}: no bit {name}"))?;
            let value = if kind == "entry" && name == "ps" { value & 0xfff } else { value };
            Ok(if is_on { value | bit } else { value & !bit })
        })
    }

    /// Applies one word of a row.
    fn set(&mut self, word: &str) -> Result<(), String> {
        let (name, value) = word.split_once('=').ok_or(format!("{word}: no ="))?;
        self.has_events |= matches!(name, "irq" | "nmi" | "flags");
        if let Some((at, size)) = memory(name) {
            self.world.port.put(at, &self.value(value)?.to_le_bytes()[..size.min(8)]);
        } else if let Some((table, at)) = table(name)? {
            self.set_descriptor(table, at, value)?;
        } else if let Some(entry) = self.mode.path().iter().find(|entry| entry.name == name) {
            let value = self.bits("entry", self.mode.entry(&self.world, entry.at), value)?;
            self.mode.set_entry(&mut self.world, entry.at, value);
        } else if let Some(old) = register(&mut self.world.cpu.state, name).map(|slot| *slot) {
            let value = self.bits(name, old, value)?;
            if let Some(slot) = register(&mut self.world.cpu.state, name) {
                *slot = value;
            }
        } else {
            self.set_special(name, value)?;
        }
        Ok(())
    }

    fn set_special(&mut self, name: &str, text: &str) -> Result<(), String> {
        let number = |text| Ok::<_, String>(number(text)? as u64);
        let cpu = &mut self.world.cpu;
        match name {
            "flags" => cpu.state.rflags = cpu.state.rflags & !LETTERS | flag_bits(text)?,
            "iopl" => cpu.state.rflags |= number(text)? << rflags::IOPL_SHIFT,
            "ac" if text == "0" => cpu.state.rflags &= !rflags::AC,
            "ac" => cpu.state.rflags |= rflags::AC,
            "cpl" => self.mode.set_level(&mut self.world, number(text)? as u16),
            "cr8" => cpu.apic.set_cr8(number(text)?).map(|_| ()).map_err(|e| format!("{e:?}"))?,
            "irq" => signal(cpu, interrupt(number(text)? as u8)),
            "isr" => {
                signal(cpu, interrupt(number(text)? as u8));
                cpu.apic.acknowledge();
            }
            "x2apic" => {
                let base = cpu.apic.page_address().0 | 1 << 8 | 3 << 10;
                let set = cpu.apic.msr_write(msr::APIC_BASE, base, SimTime::ZERO);
                set.map(|_| ()).map_err(|e| format!("{e:?}"))?;
            }
            "tpr" => {
                let set = cpu.apic.msr_write(0x808, number(text)?, SimTime::ZERO);
                set.map(|_| ()).map_err(|e| format!("{e:?}"))?;
            }
            "nmi" => signal(cpu, Signal::Nmi),
            "vendor" => Arc::make_mut(&mut cpu.config).vendor = vendor(text)?,
            "without" => {
                let feature = Features::from_name(&text.to_uppercase());
                let feature = feature.ok_or(format!("no feature {text}"))?;
                Arc::make_mut(&mut cpu.config).features.remove(feature);
            }
            _ => {
                let value = self.value(text)?;
                let (segment, part) = name.split_once('.').ok_or(format!("no {name}"))?;
                let state = &mut self.world.cpu.state;
                if let Some(table) = table_of(state, segment) {
                    match part {
                        "base" => table.base = value,
                        "limit" => table.limit = value as u16,
                        _ => return Err(format!("no {name}")),
                    }
                    return Ok(());
                }
                let segment = segment_of(state, segment)?;
                match part {
                    "base" => segment.base = value,
                    "limit" => segment.limit = value as u32,
                    "rights" => segment.rights = value as u16,
                    _ => return Err(format!("no {name}")),
                }
            }
        }
        Ok(())
    }

    fn set_descriptor(&mut self, table: &str, n: u64, text: &str) -> Result<(), String> {
        let is_long = self.mode.frame_width() == 8;
        let [low, high] = self.descriptor(n, text)?;
        let (base, stride, is_wide) = match table {
            "gdt" => (GDT, 1, high != 0),
            "ldt" => {
                let ldtr = &mut self.world.cpu.state.ldtr;
                *ldtr = Segment { selector: 0x70, base: LDT, limit: 0xfff, rights: 0x82 };
                (LDT, 1, high != 0)
            }
            _ if is_long => (IDT, 16, true),
            _ => (IDT, 8, false),
        };
        self.world.put(base + n * stride, low);
        if is_wide {
            self.world.put(base + n * stride + 8, high);
        }
        Ok(())
    }

    /// A descriptor or gate: its kind, and what differs from the usual.
    fn descriptor(&self, n: u64, text: &str) -> Result<[u64; 2], String> {
        let mut parts = text.split('.');
        let kind = parts.next().unwrap_or("");
        let (mut rights, is_gate) = match kind {
            "data" => (0xc093, false),
            "ro" => (0xc091, false),
            "down" => (0xc097, false),
            "code64" => (0xa09b, false),
            "code32" => (0xc09b, false),
            "code16" => (0x809b, false),
            "xo32" => (0xc099, false),
            "xo64" => (0xa099, false),
            "conf32" => (0xc09f, false),
            "conf64" => (0xa09f, false),
            "code64d" => (0xe09b, false),
            "tss" => (0x89, false),
            "busy" => (0x8b, false),
            "tss16" => (0x81, false),
            "ldt" => (0x82, false),
            "callgate" => (0x8c, true),
            "callgate16" => (0x84, true),
            "taskgate" => (0x85, true),
            "int" => (0x8e, true),
            "trap" => (0x8f, true),
            "int16" => (0x86, true),
            "trap16" => (0x87, true),
            _ => return Ok([number(kind)? as u64, 0]),
        };
        let is_long = self.mode.frame_width() == 8;
        let wide = if is_long { KERNEL_CS } else { crate::modes::KERNEL_CS32 };
        let (mut limit, mut base) = (if rights & 0x8000 != 0 { 0xf_ffff } else { 0x67 }, 0);
        let (mut selector, mut offset, mut low_bits) = (wide, HANDLERS + n * 16, 0);
        let mut high_bits = 0;
        for part in parts {
            let split = part.find(|c: char| c.is_ascii_digit()).unwrap_or(part.len());
            // `lim` and the like are followed by hexadecimal digits that may be letters.
            let name = ["lim", "base", "sel", "off", "ist", "count", "dpl", "np", "high"]
                .into_iter()
                .find(|name| part.starts_with(name))
                .ok_or(format!("{text}: no {}", &part[..split]))?;
            let value = if name == "np" { 0 } else { number(&part[name.len()..])? as u64 };
            match name {
                "lim" => (limit, rights) = (value as u32, rights & !0x8000),
                "base" => base = value,
                "sel" => selector = value as u16,
                "off" => offset = value,
                "ist" | "count" => low_bits = value << 32,
                "dpl" => rights = rights & !(3 << 5) | (value as u16) << 5,
                "high" => high_bits = value,
                _ => rights &= !rights::P,
            }
        }
        if is_gate {
            let low = offset & 0xffff | u64::from(selector) << 16 | low_bits;
            let high = if is_long { offset >> 32 | high_bits } else { 0 };
            return Ok([low | u64::from(rights) << 40 | (offset >> 16 & 0xffff) << 48, high]);
        }
        let is_system = rights & rights::S == 0;
        let high = if is_system && is_long { base >> 32 | high_bits } else { 0 };
        Ok([descriptor(base, limit, rights), high])
    }

    /// Puts the row's bytes where it starts.
    fn place(&mut self, bytes: &[u8]) {
        let at = self.world.cpu.linear_pc();
        let page = self.mode.page();
        let is_in_page = (page..page + 0x1000).contains(&at);
        let at = if is_in_page { at - page + crate::world::PAGE } else { at };
        self.world.port.put(at, bytes);
    }

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

    /// What rows name, by name.
    fn words(&self) -> Words {
        let mut state = self.world.cpu.state.clone();
        let mut words = Words::new();
        let names = GPR.iter().chain(REGISTERS);
        for name in names {
            if let Some(slot) = register(&mut state, name) {
                words.insert((*name).to_owned(), *slot);
            }
        }
        for (name, segment) in SEGMENTS.iter().zip(&state.seg) {
            words.insert((*name).to_owned(), u64::from(segment.selector));
        }
        words.insert("tr".to_owned(), u64::from(state.tr.selector));
        words.insert("ldtr".to_owned(), u64::from(state.ldtr.selector));
        words.insert("flags".to_owned(), state.rflags & LETTERS);
        words.insert("iopl".to_owned(), (state.rflags & rflags::IOPL) >> rflags::IOPL_SHIFT);
        words.insert("ac".to_owned(), u64::from(state.rflags & rflags::AC != 0));
        words.insert("cpl".to_owned(), u64::from(self.world.cpu.cpl));
        words.insert("cr8".to_owned(), self.world.cpu.apic.cr8());
        words
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

fn interrupt(vector: u8) -> Signal {
    Signal::Interrupt { vector, level: false, logical: None }
}

fn signal(cpu: &mut X86Cpu, signal: Signal) {
    cpu.receive(signal, SimTime::ZERO);
}

fn vendor(text: &str) -> Result<Vendor, String> {
    match text {
        "amd" => Ok(Vendor::Amd),
        "intel" => Ok(Vendor::Intel),
        _ => Err(format!("no vendor {text}")),
    }
}

/// Changes `+a-b`: whether it is set, and its name.
fn changes(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let starts: Vec<usize> = text.match_indices(['+', '-']).map(|found| found.0).collect();
    let ends: Vec<usize> = starts.iter().skip(1).copied().chain([text.len()]).collect();
    starts.into_iter().zip(ends).map(|(a, b)| (text[a..].starts_with('+'), &text[a + 1..b]))
}

/// `gdt[40]`: table and number.
fn table(name: &str) -> Result<Option<(&str, u64)>, String> {
    let Some((table, n)) = name.strip_suffix(']').and_then(|name| name.split_once('[')) else {
        return Ok(None);
    };
    match table {
        "gdt" | "ldt" | "idt" => Ok(Some((table, number(n)? as u64))),
        _ => Err(format!("no table {table}")),
    }
}

/// Names of registers that rows may use, without the general ones.
const REGISTERS: &[&str] = &[
    "cr0",
    "cr2",
    "cr3",
    "cr4",
    "dr0",
    "dr1",
    "dr2",
    "dr3",
    "dr6",
    "dr7",
    "efer",
    "star",
    "lstar",
    "cstar",
    "fmask",
    "kgsbase",
    "tscaux",
    "pat",
    "xcr0",
    "sysenter_cs",
    "sysenter_esp",
    "sysenter_eip",
];

fn register<'a>(state: &'a mut State, name: &str) -> Option<&'a mut u64> {
    if let Some(n) = GPR.iter().position(|register| *register == name) {
        return Some(&mut state.gpr[n]);
    }
    if let Some(n) = name.strip_prefix("dr") {
        return state.dr.get_mut(n.parse::<usize>().ok()?);
    }
    Some(match name {
        "rip" => &mut state.rip,
        "cr0" => &mut state.cr0,
        "cr2" => &mut state.cr2,
        "cr3" => &mut state.cr3,
        "cr4" => &mut state.cr4,
        "efer" => &mut state.efer,
        "star" => &mut state.star,
        "lstar" => &mut state.lstar,
        "cstar" => &mut state.cstar,
        "fmask" => &mut state.fmask,
        "kgsbase" => &mut state.kernel_gs_base,
        "tscaux" => &mut state.tsc_aux,
        "pat" => &mut state.pat,
        "xcr0" => &mut state.fp.xcr0,
        "sysenter_cs" => &mut state.sysenter[0],
        "sysenter_esp" => &mut state.sysenter[1],
        "sysenter_eip" => &mut state.sysenter[2],
        _ => return None,
    })
}

fn segment_of<'a>(state: &'a mut State, name: &str) -> Result<&'a mut Segment, String> {
    let n = SEGMENTS.iter().position(|segment| *segment == name);
    match name {
        "tr" => Ok(&mut state.tr),
        "ldt" => Ok(&mut state.ldtr),
        _ => Ok(&mut state.seg[n.ok_or(format!("no segment {name}"))?]),
    }
}

fn table_of<'a>(state: &'a mut State, name: &str) -> Option<&'a mut TableReg> {
    match name {
        "gdt" => Some(&mut state.gdtr),
        "idt" => Some(&mut state.idtr),
        _ => None,
    }
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
