//! The herd/litmus text format, as far as tests here use it.
//!
//! Read: a head line that names the instruction set, a quoted line and `Key=value` fields, the
//! initial state in braces, a table of instructions with one column a thread, `locations [...]`, a
//! final clause, and a comment `(* allowed ... *)` that lists states, one a line. The cells of the
//! table are the front end's. Not read: more than 8 bytes, herd's `filter`.

pub(crate) mod clause;

use std::collections::BTreeMap;
use std::fmt;

use topology::Isa;

use crate::program::{
    Observed, Program, RECORDED_MAX, Size, THREADS_MAX, Test, VARIABLES_MAX, Variable,
};
use crate::{arm64, x86};

/// Why a text is no test, with its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Line from 1; 0 when the text as a whole is meant.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for SyntaxError {}

/// The cells of one thread, each with its line.
pub(crate) type Cells<'a> = Vec<(usize, &'a str)>;

/// What a register begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Initial {
    /// A value.
    Number(u64),
    /// Where a variable is.
    Address(usize),
}

/// Names that have been met, and what they begin with.
#[derive(Debug)]
pub(crate) struct Scope {
    isa: Isa,
    variables: Vec<Variable>,
    registers: BTreeMap<(usize, usize), Initial>,
}

impl Scope {
    /// Returns the index of a register, by any of its names.
    fn register(&self, name: &str) -> Option<usize> {
        match self.isa {
            Isa::X86_64 => x86::syntax::register(name.trim_start_matches('%')).map(|(r, _)| r),
            Isa::Aarch64 => arm64::syntax::register(name).map(arm64::syntax::Name::index),
        }
    }

    /// What the registers of a thread begin with.
    pub(crate) fn initial_of(&self, thread: usize) -> impl Iterator<Item = (usize, Initial)> {
        self.registers.range((thread, 0)..(thread + 1, 0)).map(|((_, r), initial)| (*r, *initial))
    }

    /// Returns the index of a variable, a new one of 4 bytes if need be.
    pub(crate) fn variable(&mut self, name: &str) -> Result<usize, String> {
        if let Some(at) = self.variables.iter().position(|v| v.name == name) {
            return Ok(at);
        }
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic())
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
        if !is_name {
            return Err(format!("`{name}` is no variable"));
        }
        if self.variables.len() == VARIABLES_MAX {
            return Err(format!("`{name}` is one variable more than {VARIABLES_MAX}"));
        }
        self.variables.push(Variable { name: name.to_owned(), size: Size(4), initial: 0 });
        Ok(self.variables.len() - 1)
    }
}

/// Reads one test.
///
/// Errors: the first line that is not understood.
pub fn parse(text: &str) -> Result<Test, SyntaxError> {
    let (text, stated) = take_comments(text);
    let mut lines = text.lines().enumerate().map(|(n, l)| (n + 1, l.trim()));
    let mut next = || lines.find(|(_, l)| !l.is_empty());
    let (n, head) = next().ok_or_else(|| error(0, "the text is empty"))?;
    let (isa, name) = match head.split_once(' ') {
        Some(("X86_64", name)) => (Isa::X86_64, name.trim().to_owned()),
        Some(("AArch64", name)) => (Isa::Aarch64, name.trim().to_owned()),
        _ => return Err(error(n, "the head is not `X86_64 NAME` or `AArch64 NAME`")),
    };
    let mut fields = BTreeMap::new();
    let mut scope = Scope { isa, variables: Vec::new(), registers: BTreeMap::new() };
    let (mut n, mut line) = next().ok_or_else(|| error(n, "the test ends after its head"))?;
    while !line.starts_with('{') {
        if let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with('"')) {
            fields.insert(key.to_owned(), value.to_owned());
        }
        (n, line) = next().ok_or_else(|| error(n, "no initial state in braces"))?;
    }
    let mut initial = String::new();
    loop {
        initial.push_str(line);
        initial.push(' ');
        if line.contains('}') {
            break;
        }
        (n, line) = next().ok_or_else(|| error(n, "the initial state has no end"))?;
    }
    parse_initial(initial.trim().trim_matches(['{', '}']), &mut scope).map_err(|m| error(n, m))?;
    let mut rows = Vec::new();
    let mut rest = String::new();
    while let Some((n, line)) = next() {
        match line.strip_suffix(';').filter(|_| rest.is_empty() && !line.starts_with("locations")) {
            Some(row) => rows.push((n, row.split('|').map(str::trim).collect::<Vec<_>>())),
            None => rest = format!("{rest} {line}"),
        }
    }
    let columns = columns(&rows)?;
    if scope.registers.keys().any(|(thread, _)| *thread >= columns.len()) {
        return Err(error(0, "an initial register has no thread"));
    }
    let program = match isa {
        Isa::X86_64 => Program::X86(x86::syntax::program(&columns, &mut scope)?),
        Isa::Aarch64 => Program::Arm64(arm64::syntax::program(&columns, &mut scope)?),
    };
    finish(name, fields, scope, program, &rest, stated).map_err(|m| error(0, m))
}

pub(crate) fn error(line: usize, message: impl Into<String>) -> SyntaxError {
    SyntaxError { line, message: message.into() }
}

/// Blanks comments out, and returns the states that a comment `allowed` lists.
fn take_comments(text: &str) -> (String, Option<Vec<String>>) {
    let mut kept = String::new();
    let mut stated = None;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("(*") {
        kept.push_str(before);
        let (comment, after) = after.split_once("*)").unwrap_or((after, ""));
        if let Some(states) = comment.trim().strip_prefix("allowed") {
            let states = states.lines().map(str::trim).filter(|l| !l.is_empty());
            stated = Some(states.map(str::to_owned).collect());
        }
        kept.extend(comment.chars().filter(|c| *c == '\n'));
        rest = after;
    }
    kept.push_str(rest);
    (kept, stated)
}

/// `x=1; 0:rax=2; 0:X1=x; uint64_t y=3; uint8_t z;`
fn parse_initial(text: &str, scope: &mut Scope) -> Result<(), String> {
    for item in text.split(';').map(str::trim).filter(|i| !i.is_empty()) {
        let (left, value) = item.split_once('=').map_or((item, None), |(l, v)| (l, Some(v)));
        let left = left.trim();
        if let Some((thread, register)) = left.split_once(':') {
            let thread: usize = thread.parse().map_err(|_| format!("`{left}` is no register"))?;
            let register =
                scope.register(register).ok_or_else(|| format!("`{left}` is no register"))?;
            let value = value.map_or("0", str::trim);
            let initial = match clause::number(value) {
                Ok(number) => Initial::Number(number),
                Err(_) => Initial::Address(scope.variable(value)?),
            };
            scope.registers.insert((thread, register), initial);
            continue;
        }
        let value = value.map(|v| clause::number(v.trim())).transpose()?;
        let (kind, name) = left.split_once(' ').unwrap_or(("int", left));
        let size = match kind {
            "int8_t" | "uint8_t" | "char" => 1,
            "int16_t" | "uint16_t" => 2,
            "int" | "int32_t" | "uint32_t" => 4,
            "int64_t" | "uint64_t" => 8,
            _ => return Err(format!("`{kind}` is no type of 1 to 8 bytes")),
        };
        let at = scope.variable(name.trim().trim_matches(['[', ']']))?;
        scope.variables[at].size = Size(size);
        scope.variables[at].initial = value.unwrap_or(0);
    }
    Ok(())
}

/// Turns rows into columns, and leaves empty cells out.
fn columns<'a>(rows: &[(usize, Vec<&'a str>)]) -> Result<Vec<Cells<'a>>, SyntaxError> {
    let Some(((n, names), rows)) = rows.split_first() else {
        return Err(error(0, "no program"));
    };
    let is_named = |(i, name): (usize, &&str)| *name == format!("P{i}");
    if names.len() > THREADS_MAX || !names.iter().enumerate().all(is_named) {
        return Err(error(*n, format!("threads are not P0 to P{} at most", THREADS_MAX - 1)));
    }
    let mut columns = vec![Vec::new(); names.len()];
    for (n, cells) in rows {
        if cells.len() != names.len() {
            return Err(error(*n, format!("{} columns for {}", cells.len(), names.len())));
        }
        for (column, cell) in columns.iter_mut().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            column.push((*n, *cell));
        }
    }
    match columns.iter().position(Vec::is_empty) {
        Some(idle) => Err(error(*n, format!("P{idle} has no instruction"))),
        None => Ok(columns),
    }
}

fn finish(
    name: String,
    fields: BTreeMap<String, String>,
    mut scope: Scope,
    program: Program,
    rest: &str,
    stated: Option<Vec<String>>,
) -> Result<Test, String> {
    let mut observed = Vec::new();
    let mut rest = rest.trim();
    if let Some(list) = rest.strip_prefix("locations") {
        let (list, after) = list.split_once(']').ok_or("`locations` has no end `]`")?;
        for item in list.trim().trim_start_matches('[').split(';') {
            let item = item.trim();
            if !item.is_empty() {
                observed.push(clause::observed(item, &mut scope)?);
            }
        }
        rest = after.trim_start_matches([';', ' ']);
    }
    let (quantifier, condition) = clause::parse(rest, &mut scope)?;
    condition.collect(&mut observed);
    observed.sort_unstable();
    observed.dedup();
    let threads = program.threads();
    let is_foreign = |o: &&Observed| matches!(**o, Observed::Register(t, _) if t >= threads);
    if let Some(Observed::Register(thread, _)) = observed.iter().find(is_foreign) {
        let last = threads.saturating_sub(1);
        return Err(format!("a register of P{thread} is observed; threads are P0 to P{last}"));
    }
    // herd orders variables by name, behind the registers.
    let by_name = |o: &Observed| match *o {
        Observed::Register(t, r) => (t, r, String::new()),
        Observed::Variable(v) => (usize::MAX, 0, scope.variables[v].name.clone()),
    };
    observed.sort_by_key(by_name);
    let test = Test {
        name,
        fields,
        variables: scope.variables,
        program,
        quantifier,
        condition,
        observed,
        stated,
    };
    match (0..threads).find(|t| test.recorded(*t).count() > RECORDED_MAX) {
        Some(t) => Err(format!("more than {RECORDED_MAX} registers of P{t} are observed")),
        None => Ok(test),
    }
}

#[cfg(test)]
mod tests {
    /// The message for a test of one store with this end.
    fn refusal(end: &str) -> String {
        refusal_of(&format!(" P0 ;\n movl $1,(x) ;\n{end}"))
    }

    fn refusal_of(body: &str) -> String {
        super::parse(&format!("X86_64 t\n{{ }}\n{body}\n")).expect_err(body).to_string()
    }

    #[test]
    fn accesses_stay_inside_their_variable_and_constants_inside_their_encoding() {
        let cases = [
            ("movl $1,5(x)", "`movl $1,5(x)`: goes beyond the 8 bytes of a variable"),
            ("lock incq 1(x)", "`lock incq 1(x)`: goes beyond the 8 bytes of a variable"),
            ("movb %al,256(x)", "`256(x)` is far outside"),
            (
                "addq $2147483648,(x)",
                "`addq $2147483648,(x)`: the constant has more than 31 bits; move it to a register",
            ),
        ];
        for (text, message) in cases {
            let found = refusal_of(&format!(" P0 ;\n {text} ;\nexists (x=1)"));
            assert_eq!(found, format!("line 4: {message}"));
        }
    }

    #[test]
    fn every_thread_has_an_instruction() {
        let text = " P0 | P1 ;\n movl $1,(x) | ;\nexists (x=1)";
        assert_eq!(refusal_of(text), "line 3: P1 has no instruction");
    }

    #[test]
    fn a_clause_names_threads_that_are_there_and_is_not_nested_without_end() {
        let foreign = "line 0: a register of P2 is observed; threads are P0 to P0";
        assert_eq!(refusal("exists (2:rax=1)"), foreign);
        assert_eq!(refusal("locations [2:rax;]\nexists (x=1)"), foreign);
        let deep = "line 0: the clause is nested deeper than 64";
        assert_eq!(refusal(&format!("exists {}", "(".repeat(100_000))), deep);
        assert_eq!(refusal(&format!("exists {}", "~".repeat(100_000))), deep);
    }
}
