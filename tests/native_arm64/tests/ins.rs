//! Rows of `tests/isa/arm64`: one instruction each, with what it changes.
//!
//! Words beside those of memory: `x0` to `x30`, `sp`, `nzcv` (one digit), `qc`, `v0` to `v31`;
//! behind the arrow also `jump` (to the instruction's address + 12), `undefined`, `fault`, `same`.
//! What is not named is zero before, and unchanged after. The window of memory is at 101000.

use std::path::Path;

use tests_ins::{Reader, Row, memory, number};
use tests_native_arm64::case::{Case, MEMORY, MEMORY_BYTES, Outcome};
use tests_native_arm64::world::World;

/// What follows the instruction.
const NOP: u32 = 0xd503_201f;

fn set(case: &mut Case, word: &str) -> Result<(), String> {
    match word {
        "same" => return Ok(()),
        "jump" => case.outcome = Outcome::Jumps,
        "undefined" => case.outcome = Outcome::Undefined,
        "fault" => case.outcome = Outcome::Faults,
        _ => {
            let (name, value) = word.split_once('=').ok_or(format!("{word}: no ="))?;
            return assign(case, name, number(value)?);
        }
    }
    Ok(())
}

fn assign(case: &mut Case, name: &str, value: u128) -> Result<(), String> {
    let unknown = || format!("no {name}");
    if let Some((at, size)) = memory(name) {
        let at = at.checked_sub(MEMORY).ok_or_else(unknown)? as usize;
        let place = case.memory.get_mut(at..at + size).ok_or_else(unknown)?;
        place.copy_from_slice(&value.to_le_bytes()[..size]);
        return Ok(());
    }
    let index = |prefix: &str| name.strip_prefix(prefix).and_then(|n| n.parse::<usize>().ok());
    match name {
        "sp" => case.sp = value as u64,
        "nzcv" => case.nzcv = (value as u64) << 28,
        "qc" => case.fpsr = (value as u64) << 27,
        _ => {
            if let Some(x) = index("x").and_then(|n| case.x.get_mut(n)) {
                *x = value as u64;
            } else if let Some(v) = index("v").and_then(|n| case.v.get_mut(n)) {
                *v = value;
            } else {
                return Err(unknown());
            }
        }
    }
    Ok(())
}

struct Rows;

impl Reader for Rows {
    const HEADS: &'static [&'static str] = &[];

    fn start(&mut self) {}

    fn head(&mut self, word: &str, _value: &str) -> Result<(), String> {
        Err(format!("no {word}"))
    }

    // No disassembler is at hand: the text is what the row was assembled from.
    fn text(&self, row: &Row<'_>) -> String {
        row.text.to_owned()
    }

    fn check(&mut self, row: &Row<'_>) -> Result<(), String> {
        let bytes = <[u8; 4]>::try_from(row.bytes.as_slice()).map_err(|_| "not four bytes")?;
        let mut before = Case {
            words: [u32::from_le_bytes(bytes), NOP],
            outcome: Outcome::GoesOn,
            x: [0; 31],
            sp: 0,
            nzcv: 0,
            fpsr: 0,
            v: [0; 32],
            memory: [0; MEMORY_BYTES],
        };
        row.before.split_whitespace().try_for_each(|word| set(&mut before, word))?;
        let mut wanted = before.clone();
        row.after.split_whitespace().try_for_each(|word| set(&mut wanted, word))?;
        for seed in 0..4u64 {
            let found = World::default().run(&before, (seed != 0).then_some(seed));
            let text = found.differences(&wanted);
            if !text.is_empty() {
                return Err(format!("{text} (seed {seed})"));
            }
        }
        Ok(())
    }
}

#[test]
fn rows_hold() {
    Rows.check_folder(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/isa/arm64"));
}
