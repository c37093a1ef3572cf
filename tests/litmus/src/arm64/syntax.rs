//! A64 instructions: text to [`Op`].

use std::collections::BTreeMap;

use super::{
    Access, Acquire, Alu, Barrier, Change, Op, Operand, Program, REGISTERS, Reg, Types, ZR,
};
use crate::program::Size;
use crate::syntax::{Cells, Initial, Scope, SyntaxError, clause, error};

/// A register by one of its names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Name {
    number: Reg,
    is_wide: bool,
}

impl Name {
    /// Index among the registers of a test.
    pub(crate) fn index(self) -> usize {
        usize::from(self.number)
    }
}

/// Reads the name of a register that tests may use.
pub(crate) fn register(name: &str) -> Option<Name> {
    let is_wide = match name.get(..1)? {
        "X" => true,
        "W" => false,
        _ => return None,
    };
    let number = name[1..].parse().ok().filter(|n| usize::from(*n) < REGISTERS)?;
    Some(Name { number, is_wide })
}

/// Reads the columns of the table.
pub(crate) fn program(columns: &[Cells], scope: &mut Scope) -> Result<Program, SyntaxError> {
    let mut program = Program { registers: Vec::new(), threads: Vec::new() };
    for (thread, cells) in columns.iter().enumerate() {
        program.threads.push(column(cells)?);
        let mut registers = [Initial::Number(0); REGISTERS];
        for (register, initial) in scope.initial_of(thread) {
            registers[register] = initial;
        }
        program.registers.push(registers);
    }
    Ok(program)
}

/// Reads one thread: labels first, as branches go forwards.
fn column(cells: &Cells) -> Result<Vec<Op>, SyntaxError> {
    let mut labels = BTreeMap::new();
    let mut lines = Vec::new();
    for (n, cell) in cells {
        let mut text = *cell;
        while let Some((label, rest)) = text.split_once(':') {
            labels.insert(label.trim(), lines.len());
            text = rest.trim();
        }
        if !text.is_empty() {
            lines.push((*n, text));
        }
    }
    let read = |(at, (n, text)): (usize, &(usize, &str))| {
        instruction(text, &|label| labels.get(label).copied().filter(|to| *to > at))
            .ok_or_else(|| error(*n, format!("`{text}` is not known")))
    };
    lines.iter().enumerate().map(read).collect()
}

fn instruction(text: &str, label: &dyn Fn(&str) -> Option<usize>) -> Option<Op> {
    let (mnemonic, operands) = text.split_once(' ').unwrap_or((text, ""));
    let operands = split(operands);
    let with = match operands.as_slice() {
        [_, _, with] => operand(with, None),
        [_, _, with, "SXTW"] => operand(with, Some(())),
        _ => None,
    };
    match (mnemonic, operands.as_slice()) {
        ("CLREX", []) => Some(Op::ClearExclusive),
        ("ISB", [] | ["SY"]) => Some(Op::Barrier(Barrier::Isb)),
        ("DMB", [option]) => Some(Op::Barrier(Barrier::Dmb(types(option)?))),
        ("DSB", [option]) => Some(Op::Barrier(Barrier::Dsb(types(option)?))),
        ("MOV", [rd, value]) => {
            let value = u16::try_from(clause::number(value.strip_prefix('#')?).ok()?).ok()?;
            let rd = register(rd)?;
            Some(Op::Move { is_wide: rd.is_wide, rd: rd.number, value })
        }
        ("CBZ" | "CBNZ", [rt, to]) => {
            let (rt, to) = (source(rt)?, label(to)?);
            let is_nonzero = mnemonic == "CBNZ";
            Some(Op::Branch { is_wide: rt.is_wide, is_nonzero, rt: rt.number, to })
        }
        ("ADD" | "AND" | "EOR", [rd, rn, ..]) => {
            let (rd, rn, with) = (register(rd)?, register(rn)?, with?);
            let what = match (mnemonic, with) {
                ("ADD", _) => Alu::Add,
                ("AND", Operand::Register(_)) => Alu::And,
                ("EOR", Operand::Register(_)) => Alu::Eor,
                _ => return None,
            };
            Some(Op::Alu { what, is_wide: rd.is_wide, rd: rd.number, rn: rn.number, with })
        }
        _ => access(mnemonic, &operands),
    }
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|c| {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    parts.map(str::trim).filter(|p| !p.is_empty()).collect()
}

/// A register that may be the zero register.
fn source(text: &str) -> Option<Name> {
    match text {
        "XZR" => Some(Name { number: ZR, is_wide: true }),
        "WZR" => Some(Name { number: ZR, is_wide: false }),
        _ => register(text),
    }
}

fn operand(text: &str, extended: Option<()>) -> Option<Operand> {
    match (text.strip_prefix('#'), extended) {
        (Some(value), None) => {
            let value = u16::try_from(clause::number(value).ok()?).ok()?;
            (value < 0x1000).then_some(Operand::Constant(value))
        }
        (Some(_), Some(())) => None,
        (None, None) => source(text).map(|r| Operand::Register(r.number)),
        (None, Some(())) => source(text).map(|r| Operand::Sxtw(r.number)),
    }
}

fn types(option: &str) -> Option<Types> {
    match option {
        "SY" | "ISH" => Some(Types::All),
        "LD" | "ISHLD" => Some(Types::Loads),
        "ST" | "ISHST" => Some(Types::Stores),
        _ => None,
    }
}

/// Reads `[X1]` or `[X1,W2,SXTW]`.
fn memory(text: &str) -> Option<(Reg, Option<Reg>)> {
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    let wide = |name: &str| register(name).filter(|r| r.is_wide);
    match parts.as_slice() {
        [base] => Some((wide(base)?.number, None)),
        [base, index, "SXTW"] => Some((wide(base)?.number, Some(source(index)?.number))),
        _ => None,
    }
}

fn access(mnemonic: &str, operands: &[&str]) -> Option<Op> {
    let (bytes, (what, has_result)) = [("", None), ("B", Some(1)), ("H", Some(2))]
        .into_iter()
        .find_map(|(letter, bytes)| Some((bytes, kind(mnemonic.strip_suffix(letter)?)?)))?;
    let (rs, rt, at) = match (what, operands) {
        (Access::Load(_) | Access::Store { .. } | Access::LoadExclusive { .. }, [rt, at]) => {
            (ZR, source(rt)?, at)
        }
        (Access::StoreExclusive { .. }, [status, rt, at]) => {
            (register(status)?.number, source(rt)?, at)
        }
        (Access::Atomic { .. }, [rs, rt, at]) if has_result => {
            (source(rs)?.number, source(rt)?, at)
        }
        (Access::Atomic { .. }, [rs, at]) if !has_result => {
            let rs = source(rs)?;
            (rs.number, Name { number: ZR, is_wide: rs.is_wide }, at)
        }
        _ => return None,
    };
    let (base, index) = memory(at)?;
    let is_indexed =
        matches!(what, Access::Load(Acquire::No) | Access::Store { is_release: false });
    let size = Size(bytes.unwrap_or(if rt.is_wide { 8 } else { 4 }));
    (index.is_none() || is_indexed).then_some(Op::Access {
        what,
        size,
        rt: rt.number,
        rs,
        base,
        index,
    })
}

/// What a mnemonic without its size does, and whether an atomic has a result.
fn kind(name: &str) -> Option<(Access, bool)> {
    let access = match name {
        "LDR" => Access::Load(Acquire::No),
        "LDAR" => Access::Load(Acquire::Full),
        "LDAPR" => Access::Load(Acquire::Pc),
        "STR" => Access::Store { is_release: false },
        "STLR" => Access::Store { is_release: true },
        "LDXR" => Access::LoadExclusive { is_acquire: false },
        "LDAXR" => Access::LoadExclusive { is_acquire: true },
        "STXR" => Access::StoreExclusive { is_release: false },
        "STLXR" => Access::StoreExclusive { is_release: true },
        _ => return atomic(name),
    };
    Some((access, true))
}

fn atomic(name: &str) -> Option<(Access, bool)> {
    let table =
        [("ADD", Change::Add), ("CLR", Change::Clear), ("EOR", Change::Eor), ("SET", Change::Set)];
    let (change, has_result, order) = if let Some(order) = name.strip_prefix("CAS") {
        (Change::Compare, true, order)
    } else if let Some(order) = name.strip_prefix("SWP") {
        (Change::Swap, true, order)
    } else {
        let (has_result, rest) = match name.strip_prefix("LD") {
            Some(rest) => (true, rest),
            None => (false, name.strip_prefix("ST")?),
        };
        let (order, change) =
            table.iter().find_map(|(word, change)| Some((rest.strip_prefix(word)?, *change)))?;
        (change, has_result, order)
    };
    let (is_acquire, is_release) = match order {
        "" => (false, false),
        "L" => (false, true),
        "A" if has_result => (true, false),
        "AL" if has_result => (true, true),
        _ => return None,
    };
    Some((Access::Atomic { change, is_acquire, is_release }, has_result))
}
