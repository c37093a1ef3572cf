//! A case with what the host made of it, as a row of `tests/isa/x86/*.ins` under `mode user`.

use std::fmt::Write as _;

use emu_x86::flat_user::{CODE, FS_BASE, GS_BASE, STACK};
use emu_x86::state::gpr::RSP;
use tests_ins::{GPR, Row, disassemble, flag_bits, letters, number};

use crate::case::{CLEAR_FLAGS, Case, End, FCW, MXCSR, Outcome, SETTABLE_FLAGS};

const FAULTS: [(u8, &str); 9] = [
    (0, "de"),
    (5, "br"),
    (6, "ud"),
    (7, "nm"),
    (11, "np"),
    (12, "ss"),
    (13, "gp"),
    (16, "mf"),
    (19, "xm"),
];

/// The row.
#[must_use]
pub fn row(case: &Case, host: &Outcome) -> String {
    let bytes: Vec<String> = case.code.iter().map(|byte| format!("{byte:02x}")).collect();
    let (before, after) = (before(case), after(case, host));
    let before = if before.is_empty() { String::new() } else { format!(" {before}") };
    format!("{} | {} |{before} => {after}", disassemble(&case.code, 64, CODE), bytes.join(" "))
}

/// The case of a row under `mode user`: what stands before `=>`.
///
/// # Errors
/// A word that is none, as text.
pub fn parse(line: &str) -> Result<Case, String> {
    let row = Row::parse(line)?;
    let mut case = Case::new(row.bytes);
    // Rows say nothing of segments, so all may move them.
    case.moves_segments = true;
    for word in row.before.split_whitespace() {
        set(&mut case, word).ok_or_else(|| word.to_owned())?;
    }
    Ok(case)
}

fn set(case: &mut Case, word: &str) -> Option<()> {
    let (name, value) = word.split_once('=')?;
    let number = |text| number(text).ok();
    if let Some(n) = GPR.iter().position(|register| *register == name) {
        case.gpr[n] = number(value)? as u64;
    } else if let Some(n) = name.strip_prefix("xmm") {
        *case.xmm.get_mut(n.parse::<usize>().ok()?)? = number(value)?;
    } else if let Some((at, len)) = tests_ins::memory(name) {
        case.memory.push((at, number(value)?.to_le_bytes()[..len].to_vec()));
    } else {
        match name {
            "flags" => case.flags = flag_bits(value).ok()? & SETTABLE_FLAGS,
            "mxcsr" => case.mxcsr = number(value)? as u32,
            "fcw" => case.fcw = number(value)? as u16,
            "fsw" => case.fsw = number(value)? as u16,
            "ftw" => case.ftw = number(value)? as u8,
            _ => return None,
        }
    }
    Some(())
}

fn before(case: &Case) -> String {
    let mut words = Vec::new();
    for (n, name) in GPR.iter().enumerate() {
        if case.gpr[n] != if n == RSP { STACK } else { 0 } {
            words.push(format!("{name}={:x}", case.gpr[n]));
        }
    }
    if case.flags != 0 {
        words.push(format!("flags={}", letters(case.flags | CLEAR_FLAGS)));
    }
    for (n, value) in case.xmm.iter().enumerate().filter(|(_, value)| **value != 0) {
        words.push(format!("xmm{n}={value:x}"));
    }
    if case.mxcsr != MXCSR {
        words.push(format!("mxcsr={:x}", case.mxcsr));
    }
    if (case.fcw, case.fsw, case.ftw) != (FCW, 0, 0) {
        words.push(format!("fcw={:x} fsw={:x} ftw={:x}", case.fcw, case.fsw, case.ftw));
    }
    for (at, bytes) in &case.memory {
        let set: Vec<_> = bytes.iter().enumerate().map(|(i, b)| (at + i as u64, *b)).collect();
        words.extend(memory(&set, true));
    }
    words.join(" ")
}

/// Bytes as words of memory: pieces of powers of two; zero ones are left out on demand.
fn memory(bytes: &[(u64, u8)], without_zeroes: bool) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = bytes;
    while let Some(&(at, first)) = rest.first() {
        if without_zeroes && first == 0 {
            rest = &rest[1..];
            continue;
        }
        let run = (0u64..).zip(rest).take_while(|(i, byte)| byte.0 == at + i).count();
        let len = [16, 8, 4, 2, 1].into_iter().find(|len| *len <= run).unwrap_or(1);
        let value = rest[..len].iter().rev().fold(0, |all, row| all << 8 | u128::from(row.1));
        let size = ["b", "w", "d", "q", "x"][len.trailing_zeros() as usize];
        words.push(format!("{size}[{at:x}]={value:x}"));
        rest = &rest[len..];
    }
    words
}

fn after(case: &Case, host: &Outcome) -> String {
    let mut words = Vec::new();
    match host.end {
        End::At(rip) if rip == case.next() => {}
        End::At(rip) => words.push(format!("jump={rip:x}")),
        End::Fault(14, code, cr2) => words.push(format!("fault=pf({code:x},{cr2:x})")),
        End::Fault(vector, code, _) => {
            let known = FAULTS.iter().find(|row| row.0 == vector);
            let name = known.map_or("other", |row| row.1);
            let code =
                if matches!(vector, 11..=13) { format!("({code:x})") } else { String::new() };
            words.push(format!("fault={name}{code}"));
        }
        End::Stuck | End::Lost => words.push("end=none".to_owned()),
    }
    for (n, name) in GPR.iter().enumerate() {
        if case.gpr[n] != host.gpr[n] {
            words.push(format!("{name}={:x}", host.gpr[n]));
        }
    }
    let lasting = !(1 << 16);
    if host.rflags & lasting != (CLEAR_FLAGS | case.flags) {
        words.push(format!("flags={}", letters(host.rflags)));
        for (bit, name) in [(18, "ac"), (21, "id")] {
            if host.rflags >> bit & 1 != 0 {
                words.push(format!("{name}=1"));
            }
        }
    }
    for (n, value) in host.xmm.iter().enumerate() {
        if *value != case.xmm[n] {
            words.push(format!("xmm{n}={value:x}"));
        }
    }
    let mut rest = String::new();
    if host.mxcsr & !0x3f != case.mxcsr & !0x3f {
        let _ = write!(rest, "mxcsr={:x} ", host.mxcsr);
    }
    if (host.fcw, host.fsw, host.ftw) != (case.fcw, case.fsw, case.ftw) {
        let _ = write!(rest, "fcw={:x} fsw={:x} ftw={:x} ", host.fcw, host.fsw, host.ftw);
    }
    if host.bases != [FS_BASE, GS_BASE] {
        let _ = write!(rest, "fsbase={:x} gsbase={:x} ", host.bases[0], host.bases[1]);
    }
    if host.selectors != [0; 4] {
        let [ds, es, fs, gs] = host.selectors;
        let _ = write!(rest, "dssel={ds:x} essel={es:x} fssel={fs:x} gssel={gs:x} ");
    }
    words.extend(rest.split_whitespace().map(str::to_owned));
    words.extend(memory(&host.memory, false));
    if words.is_empty() { "same".to_owned() } else { words.join(" ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_as_cases() {
        let mut case = Case::new(vec![0x48, 0x01, 0x03]);
        case.gpr[3] = 0x20040;
        case.flags = 0x41;
        case.xmm[2] = 1 << 100;
        case.memory = vec![(0x20040, vec![1, 2, 3, 4])];
        case.moves_segments = true;
        let mut host = Outcome::lost(&case);
        host.end = End::At(case.next());
        let row = row(&case, &host);
        assert!(row.starts_with("add [rbx], rax | 48 01 03 | rbx=20040 flags=zci xmm2="), "{row}");
        assert_eq!(parse(&row).unwrap(), case);
    }
}
