//! The words of rows: what each sets in a machine, and what a machine says of them. `rows` has the
//! list.

use std::collections::BTreeMap;
use std::sync::Arc;

use emu_cpu::isa::Isa;
use emu_cpu::wait::Signal;
use emu_sim::SimTime;
use emu_x86::X86Cpu;
use emu_x86::defs::{Features, Vendor, cr0, cr4, efer, msr, pte, rflags, rights};
use emu_x86::state::{Segment, State, TableReg, gpr};
use tests_ins::{GPR, flag_bits, memory, number};

use crate::modes::Mode;
use crate::world::{GDT, HANDLERS, IDT, KERNEL_CS, World, descriptor};

/// The local descriptor table, once a row puts something there.
pub(crate) const LDT: u64 = 0x8000;

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

/// A machine before or after a row.
#[derive(Clone)]
pub(crate) struct Case {
    pub(crate) mode: Mode,
    /// Whether something can be pending between two instructions.
    pub(crate) has_events: bool,
    pub(crate) world: World,
}

pub(crate) type Words = BTreeMap<String, u64>;

impl Case {
    /// A number, or a place with a number behind it.
    pub(crate) fn value(&self, text: &str) -> Result<u64, String> {
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
    pub(crate) fn bits(&self, kind: &str, old: u64, text: &str) -> Result<u64, String> {
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
    pub(crate) fn set(&mut self, word: &str) -> Result<(), String> {
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
    pub(crate) fn descriptor(&self, n: u64, text: &str) -> Result<[u64; 2], String> {
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
    pub(crate) fn place(&mut self, bytes: &[u8]) {
        let at = self.world.cpu.linear_pc();
        let page = self.mode.page();
        let is_in_page = (page..page + 0x1000).contains(&at);
        let at = if is_in_page { at - page + crate::world::PAGE } else { at };
        self.world.port.put(at, bytes);
    }

    /// What rows name, by name.
    pub(crate) fn words(&self) -> Words {
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
pub(crate) fn table(name: &str) -> Result<Option<(&str, u64)>, String> {
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

pub(crate) fn segment_of<'a>(state: &'a mut State, name: &str) -> Result<&'a mut Segment, String> {
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
