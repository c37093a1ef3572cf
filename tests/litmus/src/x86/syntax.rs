//! Instructions in AT&T order: text to [`Op`].

use super::{Change, Op, Place, Program, REGISTERS, Source};
use crate::program::{Size, VARIABLE_BYTES};
use crate::syntax::{Cells, Initial, Scope, SyntaxError, clause, error};

/// An operand.
#[derive(Clone, Copy, Debug)]
enum Operand {
    Immediate(u64),
    Register(usize),
    Memory { variable: usize, offset: u8 },
}

/// Reads the columns of the table.
pub(crate) fn program(columns: &[Cells], scope: &mut Scope) -> Result<Program, SyntaxError> {
    let mut program = Program { registers: Vec::new(), threads: Vec::new() };
    for (thread, cells) in columns.iter().enumerate() {
        let read = |(n, text): &(usize, &str)| parse(text, scope).map_err(|m| error(*n, m));
        program.threads.push(cells.iter().map(read).collect::<Result<_, _>>()?);
        let mut registers = [0; 4];
        for (register, initial) in scope.initial_of(thread) {
            let Initial::Number(value) = initial else {
                return Err(error(0, format!("{} begins with no number", REGISTERS[register])));
            };
            registers[register] = value;
        }
        program.registers.push(registers);
    }
    Ok(program)
}

/// Reads one cell of the table, as `lock xaddl %eax,(x)`.
fn parse(text: &str, scope: &mut Scope) -> Result<Op, String> {
    let (is_prefixed, body) = match text.strip_prefix("lock") {
        Some(rest) => (true, rest.trim_start_matches([';', ' '])),
        None => (false, text),
    };
    let (mnemonic, operands) = body.split_once(' ').unwrap_or((body, ""));
    let operands = operands
        .split(',')
        .map(str::trim)
        .filter(|o| !o.is_empty())
        .map(|o| operand(o, scope))
        .collect::<Result<Vec<_>, _>>()?;
    let op = match (mnemonic, operands.as_slice()) {
        ("mfence", []) => Op::Mfence,
        ("lfence", []) => Op::Lfence,
        ("sfence", []) => Op::Sfence,
        _ => sized(mnemonic, &operands).ok_or_else(|| format!("`{text}` is not known"))?,
    };
    match op {
        Op::Rmw { place, change, is_locked } => {
            check(Op::Rmw { place, change, is_locked: is_locked || is_prefixed }, text)
        }
        _ if is_prefixed => Err(format!("`{text}`: LOCK is not allowed here")),
        op => check(op, text),
    }
}

/// Mnemonics that end in the letter of their size.
fn sized(mnemonic: &str, operands: &[Operand]) -> Option<Op> {
    let (name, letter) = mnemonic.split_at_checked(mnemonic.len().checked_sub(1)?)?;
    let size = Size(match letter {
        "b" => 1,
        "w" => 2,
        "l" => 4,
        "q" => 8,
        _ => return None,
    });
    let place = |variable, offset| Place { variable, offset, size };
    let rmw = |v, o, change| Op::Rmw {
        place: place(v, o),
        change,
        is_locked: matches!(change, Change::Xchg(_)),
    };
    use Operand::{Memory, Register};
    Some(match (name, operands) {
        ("mov", [Memory { variable, offset }, Register(r)]) => {
            Op::Load(*r, place(*variable, *offset))
        }
        ("mov", [from, Memory { variable, offset }]) => {
            Op::Store(place(*variable, *offset), source(from)?)
        }
        ("mov", [from, Register(r)]) => Op::Move(*r, size, source(from)?),
        ("add", [from, Memory { variable, offset }]) => {
            rmw(*variable, *offset, Change::Add(source(from)?))
        }
        ("or", [from, Memory { variable, offset }]) => {
            rmw(*variable, *offset, Change::Or(source(from)?))
        }
        ("inc", [Memory { variable, offset }]) => rmw(*variable, *offset, Change::Inc),
        ("xadd", [Register(r), Memory { variable, offset }]) => {
            rmw(*variable, *offset, Change::Xadd(*r))
        }
        ("xchg", [Register(r), Memory { variable, offset }])
        | ("xchg", [Memory { variable, offset }, Register(r)]) => {
            rmw(*variable, *offset, Change::Xchg(*r))
        }
        ("cmpxchg", [Register(r), Memory { variable, offset }]) => {
            rmw(*variable, *offset, Change::Cmpxchg(*r))
        }
        _ => return None,
    })
}

fn source(operand: &Operand) -> Option<Source> {
    match *operand {
        Operand::Immediate(value) => Some(Source::Immediate(value)),
        Operand::Register(r) => Some(Source::Register(r)),
        Operand::Memory { .. } => None,
    }
}

/// Refuses what the encodings do not have, as memory takes 32-bit constants that are not negative,
/// and accesses beyond a variable.
fn check(op: Op, text: &str) -> Result<Op, String> {
    let (place, from) = match op {
        Op::Store(place, from)
        | Op::Rmw { place, change: Change::Add(from) | Change::Or(from), .. } => {
            (place, Some(from))
        }
        Op::Load(_, place) | Op::Rmw { place, .. } => (place, None),
        Op::Move(..) | Op::Mfence | Op::Lfence | Op::Sfence => return Ok(op),
    };
    if usize::from(place.offset) + usize::from(place.size.0) > VARIABLE_BYTES {
        return Err(format!("`{text}`: goes beyond the {VARIABLE_BYTES} bytes of a variable"));
    }
    match from {
        Some(Source::Immediate(value)) if value > 0x7fff_ffff => {
            Err(format!("`{text}`: the constant has more than 31 bits; move it to a register"))
        }
        _ => Ok(op),
    }
}

fn operand(text: &str, scope: &mut Scope) -> Result<Operand, String> {
    if let Some(value) = text.strip_prefix('$') {
        return clause::number(value).map(Operand::Immediate);
    }
    if let Some(name) = text.strip_prefix('%') {
        let (r, _) = register(name).ok_or_else(|| format!("`{text}` is no register"))?;
        return Ok(Operand::Register(r));
    }
    let (offset, name) = text
        .split_once('(')
        .and_then(|(offset, rest)| Some((offset, rest.strip_suffix(')')?)))
        .ok_or_else(|| format!("`{text}` is no operand"))?;
    let offset = if offset.is_empty() { 0 } else { clause::number(offset)? };
    let offset = u8::try_from(offset).map_err(|_| format!("`{text}` is far outside"))?;
    Ok(Operand::Memory { variable: scope.variable(name)?, offset })
}

/// Returns index and size of a register.
pub(crate) fn register(name: &str) -> Option<(usize, Size)> {
    let by_size: [[&str; 4]; 4] = [
        ["al", "bl", "cl", "dl"],
        ["ax", "bx", "cx", "dx"],
        ["eax", "ebx", "ecx", "edx"],
        REGISTERS,
    ];
    by_size
        .iter()
        .enumerate()
        .find_map(|(s, names)| names.iter().position(|n| *n == name).map(|r| (r, Size(1 << s))))
}
