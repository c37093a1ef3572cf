//! The table of what the manuals leave undefined: `undefined.txt`.

use emu_x86::decode::Op;
use emu_x86::state::gpr::RCX;
use iced_x86::{Instruction, OpKind};

use crate::case::Case;

const TABLE: &str = include_str!("../undefined.txt");

const LETTERS: [(char, u64); 6] =
    [('o', 1 << 11), ('s', 1 << 7), ('z', 1 << 6), ('a', 1 << 4), ('p', 1 << 2), ('c', 1)];

/// When a row holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Always,
    CountAbove(u64),
    CountFromSize,
    CountAboveSize,
    Size(u64),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    mnemonics: Vec<String>,
    flags: u64,
    destination: bool,
    when: When,
}

/// What is undefined after an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Undefined {
    /// Flags.
    pub flags: u64,
    /// Whether its destination is.
    pub destination: bool,
}

/// The table, parsed.
#[derive(Clone, Debug)]
pub struct Table(Vec<Row>);

impl Table {
    /// Reads the table.
    ///
    /// # Errors
    /// A row that is none, with its line.
    pub fn read() -> Result<Self, String> {
        let rows = TABLE.lines().enumerate();
        let rows = rows.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let rows = rows
            .map(|(n, line)| row(line).ok_or_else(|| format!("undefined.txt:{}: {line}", n + 1)));
        rows.collect::<Result<_, _>>().map(Table)
    }

    /// What an instruction leaves undefined in a case.
    #[must_use]
    pub fn of(&self, case: &Case, instruction: &Instruction, op: &Op) -> Undefined {
        let name = format!("{:?}", instruction.mnemonic()).to_lowercase();
        let size = 8 * u64::from(op.size);
        let count = count(case, instruction, size);
        let mut all = Undefined::default();
        for row in self.0.iter().filter(|row| row.mnemonics.contains(&name)) {
            let holds = match row.when {
                When::Always => true,
                When::CountAbove(n) => count > n,
                When::CountFromSize => count >= size,
                When::CountAboveSize => count > size,
                When::Size(n) => size == n,
            };
            if holds {
                all.flags |= row.flags;
                all.destination |= row.destination;
            }
        }
        all
    }
}

fn row(line: &str) -> Option<Row> {
    let [mnemonics, what, when, source] =
        line.split('|').map(str::trim).collect::<Vec<_>>().try_into().ok()?;
    if source.is_empty() {
        return None;
    }
    let mut row = Row {
        mnemonics: mnemonics.split_whitespace().map(str::to_owned).collect(),
        flags: 0,
        destination: false,
        when: match when {
            "always" => When::Always,
            "count>0" => When::CountAbove(0),
            "count>1" => When::CountAbove(1),
            "count>=size" => When::CountFromSize,
            "count>size" => When::CountAboveSize,
            "size=16" => When::Size(16),
            _ => return None,
        },
    };
    for word in what.split_whitespace() {
        if word == "dst" {
            row.destination = true;
            continue;
        }
        for letter in word.chars() {
            row.flags |= LETTERS.iter().find(|known| known.0 == letter)?.1;
        }
    }
    Some(row)
}

/// The count of a shift, masked: by the last operand, an immediate or CL.
fn count(case: &Case, instruction: &Instruction, size: u64) -> u64 {
    let Some(last) = instruction.op_count().checked_sub(1) else { return 0 };
    let count = match instruction.op_kind(last) {
        OpKind::Immediate8 => u64::from(instruction.immediate8()),
        _ => case.gpr[RCX] & 0xff,
    };
    count & if size == 64 { 63 } else { 31 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{emulate, generate};

    #[test]
    fn a_shift_by_more_than_one_leaves_of_undefined() {
        let table = Table::read().unwrap();
        let of = |code: &[u8]| {
            let case = Case::new(code.to_vec());
            table.of(&case, &generate::decode(code), &emulate::decode(code)).flags
        };
        // shl eax, 1; shl eax, 2; shl al, 8; add al, al.
        assert_eq!(of(&[0xd1, 0xe0]), 1 << 4);
        assert_eq!(of(&[0xc1, 0xe0, 2]), 1 << 4 | 1 << 11);
        assert_eq!(of(&[0xc0, 0xe0, 8]), 1 << 4 | 1 << 11 | 1);
        assert_eq!(of(&[0x00, 0xc0]), 0);
    }
}
