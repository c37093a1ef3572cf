//! Test of every register access against the table `tests/irq/apic_matrix.txt`.

use emu_sim::{ApicId, Freq, SimTime};

use super::defs::{BASE_EXTD, ESR_ILLEGAL_REGISTER, MSR_APIC_BASE, SVR_ENABLE, SVR_RESET};
use super::{LocalApic, LocalApicConfig, Mode};

const TABLE: &str = include_str!("../../../../tests/irq/apic_matrix.txt");
const NOW: SimTime = SimTime::ZERO;
const SVR_OFFSET: u64 = 0xf0;
const SVR_MSR: u32 = 0x80f;
const ESR_OFFSET: u64 = 0x280;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Mmio,
    Msr,
}

/// What an access came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Value(u64),
    Done,
    Gp,
    Esr,
    Unclaimed,
}

#[derive(Debug)]
enum Write {
    Stores { zeros: u64, ones: u64, reserved: u64 },
    Acts { reserved: u64 },
    Ignored,
    Refused(Outcome),
}

#[derive(Debug)]
struct Row<'a> {
    line: usize,
    way: Way,
    places: Vec<u64>,
    size: u8,
    mode: Mode,
    read: Outcome,
    write: Write,
    text: &'a str,
}

fn number(text: &str) -> u64 {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("{text} is no number"))
}

fn refusal(word: &str) -> Option<Outcome> {
    match word {
        "gp" => Some(Outcome::Gp),
        "esr" => Some(Outcome::Esr),
        "unclaimed" => Some(Outcome::Unclaimed),
        _ => None,
    }
}

fn write_of(words: &[&str]) -> Write {
    let reserved = |index: usize| words.get(index).map_or(0, |w| number(w));
    match words[0] {
        "stores" => {
            Write::Stores { zeros: number(words[1]), ones: number(words[2]), reserved: reserved(3) }
        }
        "acts" => Write::Acts { reserved: reserved(1) },
        "ignored" => Write::Ignored,
        word => Write::Refused(refusal(word).unwrap_or_else(|| panic!("{word} is no outcome"))),
    }
}

fn row(line: usize, text: &str) -> Option<Row<'_>> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() || text.starts_with('#') {
        return None;
    }
    let (way, step) = match words[0] {
        "mmio" => (Way::Mmio, 16),
        "msr" => (Way::Msr, 1),
        word => panic!("line {line}: {word} is no way"),
    };
    let (first, last) = words[1].split_once('-').unwrap_or((words[1], words[1]));
    let places = (number(first)..=number(last)).step_by(step).collect();
    let mode = match words[3] {
        "xapic" => Mode::XApic,
        "x2apic" => Mode::X2Apic,
        "disabled" => Mode::Disabled,
        word => panic!("line {line}: {word} is no mode"),
    };
    let read = refusal(words[5]).unwrap_or_else(|| Outcome::Value(number(words[5])));
    let size = number(words[2]) as u8;
    Some(Row { line, way, places, size, mode, read, write: write_of(&words[6..]), text })
}

fn rows() -> Vec<Row<'static>> {
    TABLE.lines().enumerate().filter_map(|(i, text)| row(i + 1, text)).collect()
}

fn apic(mode: Mode) -> LocalApic {
    let mut apic = LocalApic::new(LocalApicConfig {
        id: ApicId(5),
        is_bsp: false,
        version: 0x15,
        has_cmci: true,
        can_suppress_eoi_broadcast: true,
        can_send_lowest_priority: true,
        has_x2apic: true,
        has_tsc_deadline: false,
        phys_addr_bits: 48,
        timer_freq: Freq::from_khz(100_000),
        tsc_freq: Freq::from_khz(2_450_000),
    });
    let base = apic.msr_read(MSR_APIC_BASE, NOW).unwrap();
    let value = match mode {
        Mode::XApic => base,
        Mode::X2Apic => base | BASE_EXTD,
        Mode::Disabled => 0,
    };
    let _ = apic.msr_write(MSR_APIC_BASE, value, NOW).unwrap();
    assert_eq!(apic.mode(), mode);
    apic
}

fn software_enabled(mode: Mode) -> LocalApic {
    let mut apic = apic(mode);
    let svr = u64::from(SVR_RESET | SVR_ENABLE);
    match mode {
        Mode::XApic => assert!(apic.mmio_write(SVR_OFFSET, 4, svr, NOW).is_some()),
        Mode::X2Apic => assert!(apic.msr_write(SVR_MSR, svr, NOW).is_ok()),
        Mode::Disabled => {}
    }
    apic
}

/// Whether an illegal register access was logged since the last look.
fn has_logged(apic: &mut LocalApic) -> bool {
    apic.mmio_write(ESR_OFFSET, 4, 0, NOW).is_some()
        && apic.mmio_read(ESR_OFFSET, 4, NOW) == Some(u64::from(ESR_ILLEGAL_REGISTER))
}

fn read(apic: &mut LocalApic, row: &Row, place: u64) -> Outcome {
    let value = match row.way {
        Way::Mmio => match apic.mmio_read(place, row.size, NOW) {
            None => return Outcome::Unclaimed,
            Some(value) => value,
        },
        Way::Msr => match apic.msr_read(place as u32, NOW) {
            Err(_) => return Outcome::Gp,
            Ok(value) => value,
        },
    };
    if value == 0 && has_logged(apic) { Outcome::Esr } else { Outcome::Value(value) }
}

fn write(apic: &mut LocalApic, row: &Row, place: u64, value: u64) -> Outcome {
    match row.way {
        Way::Mmio if apic.mmio_write(place, row.size, value, NOW).is_none() => Outcome::Unclaimed,
        Way::Msr if apic.msr_write(place as u32, value, NOW).is_err() => Outcome::Gp,
        _ if has_logged(apic) => Outcome::Esr,
        _ => Outcome::Done,
    }
}

/// Each reserved bit faults alone and changes nothing; each other bit alone is accepted.
fn check_reserved_bits(row: &Row, place: u64, reserved: u64) {
    for bit in 0..64 {
        let mut apic = software_enabled(row.mode);
        let before = apic.clone();
        let want = if reserved >> bit & 1 != 0 { Outcome::Gp } else { Outcome::Done };
        let got = write(&mut apic, row, place, 1 << bit);
        assert_eq!(got, want, "line {}: write of bit {bit}: {}", row.line, row.text);
        assert!(want == Outcome::Done || apic == before, "line {}: #GP has no effect", row.line);
    }
}

fn check_write(row: &Row, place: u64) {
    let context = format!("line {}, {place:#x}: {}", row.line, row.text);
    let mut apic = software_enabled(row.mode);
    let before = apic.clone();
    match row.write {
        Write::Stores { zeros, ones, reserved } => {
            assert_eq!(write(&mut apic, row, place, 0), Outcome::Done, "{context}");
            assert_eq!(read(&mut apic, row, place), Outcome::Value(zeros), "zeros, {context}");
            let mut apic = software_enabled(row.mode);
            assert_eq!(write(&mut apic, row, place, !reserved), Outcome::Done, "{context}");
            assert_eq!(read(&mut apic, row, place), Outcome::Value(ones), "ones, {context}");
            if row.way == Way::Msr {
                check_reserved_bits(row, place, reserved);
            }
        }
        Write::Acts { reserved } => {
            assert_eq!(write(&mut apic, row, place, 0), Outcome::Done, "{context}");
            if row.way == Way::Msr {
                check_reserved_bits(row, place, reserved);
            }
        }
        Write::Ignored => {
            for value in [0, 0x20, u64::MAX] {
                assert_eq!(write(&mut apic, row, place, value), Outcome::Done, "{context}");
            }
            assert_eq!(apic, before, "{context}");
        }
        Write::Refused(want) => {
            for value in [0, 0x20, u64::MAX] {
                let mut apic = before.clone();
                assert_eq!(write(&mut apic, row, place, value), want, "{context}");
            }
        }
    }
}

#[test]
fn every_register_access_does_what_the_table_says() {
    for row in rows() {
        for &place in &row.places {
            let got = read(&mut apic(row.mode), &row, place);
            assert_eq!(got, row.read, "line {}, {place:#x}: {}", row.line, row.text);
            check_write(&row, place);
        }
    }
}

#[test]
fn the_table_has_every_place_in_every_mode_once() {
    let rows = rows();
    for mode in [Mode::XApic, Mode::X2Apic, Mode::Disabled] {
        let count = |way, size, place| {
            let same = |row: &&Row| row.way == way && row.size == size && row.mode == mode;
            rows.iter().filter(same).filter(|row| row.places.contains(&place)).count()
        };
        for place in (0..0x1000).step_by(16) {
            assert_eq!(count(Way::Mmio, 4, place), 1, "offset {place:#x} in {mode:?}");
        }
        for place in 0x800..=0x8ff {
            assert_eq!(count(Way::Msr, 8, place), 1, "MSR {place:#x} in {mode:?}");
        }
    }
}

#[test]
fn without_cmci_its_entry_is_a_reserved_place() {
    let config = LocalApicConfig { has_cmci: false, ..*apic(Mode::XApic).config() };
    let mut apic = LocalApic::new(config);
    assert_eq!(apic.mmio_read(0x30, 4, NOW), Some(0x0105_0015));
    assert_eq!(apic.mmio_read(0x2f0, 4, NOW), Some(0));
    assert!(has_logged(&mut apic));
    let _ = apic.msr_write(MSR_APIC_BASE, 0xfee0_0c00, NOW).unwrap();
    assert!(apic.msr_read(0x82f, NOW).is_err());
}
