//! Checks on the text of single Rust files.

use super::{File, Findings, Rule, Tree, source};

/// Columns of a line, as `rustfmt.toml` says.
const COLUMNS_MAX: usize = 100;
/// Lines of a function, signature included.
const FUNCTION_LINES_MAX: usize = 70;

/// Words that the model must not use, each with its way out.
#[rustfmt::skip]
const BANNED: &[(&str, &str)] = &[
    ("HashMap",       "its order is random; use FxHashMap for look-up only, or BTreeMap"),
    ("HashSet",       "its order is random; use FxHashSet for look-up only, or BTreeSet"),
    ("RandomState",   "it is seeded by the host; use emu_sim's seeded chance"),
    ("Instant",       "the model reads no host clock; use SimTime, or ask the caller"),
    ("SystemTime",    "the model reads no host clock; use SimTime"),
    ("thread::sleep", "nothing waits for the host; wait for an event of the model"),
    ("env::var",      "the model reads no environment; take the value as an argument"),
    ("env::var_os",   "the model reads no environment; take the value as an argument"),
];

/// Folders whose code may use banned words: they face the host.
const HOST_SIDE: &[&str] = &["emu/cli/", "tools/", "tests/"];
/// Folders whose code may be unsafe, each with its own `[lints]` and a reason there.
const UNSAFE_ALLOWED: &[&str] = &["guests/kern/", "guests/scenarios/", "tests/native/"];

/// Folders whose code may ask for the architecture that it is compiled for.
const ARCH_ALLOWED: &[&str] = &["guests/", "tests/native/"];

pub(super) fn check(tree: &Tree, found: &mut Findings) {
    for file in tree.rust() {
        let code = source::blank(file.text());
        first_line(file, found);
        widths(file, found);
        lengths(file, &code, found);
        words(file, &code, found);
    }
}

fn first_line(file: &File, found: &mut Findings) {
    let first = file.text().lines().next().unwrap_or("");
    if !first.starts_with("//! ") {
        let message = "the first line is not `//!` with what this file is, as a noun phrase";
        found.add(Rule::Style, file, 1, message);
    }
}

fn widths(file: &File, found: &mut Findings) {
    for (n, line) in file.text().lines().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            let message = format!("{columns} columns, more than {COLUMNS_MAX}; break the line");
            found.add(Rule::Style, file, n + 1, message);
        }
    }
}

fn lengths(file: &File, code: &str, found: &mut Findings) {
    if file.is_test() {
        return;
    }
    let lines: Vec<&str> = file.text().lines().collect();
    let tests = source::test_modules(code);
    for function in source::functions(code) {
        let (first, length) = (function.lines.start, function.lines.len());
        let in_tests = tests.iter().any(|module| module.contains(&first));
        if length > FUNCTION_LINES_MAX && !in_tests && !is_table_or_test(&lines, first) {
            let name = function.name;
            let message = format!(
                "`{name}` has {length} lines, more than {FUNCTION_LINES_MAX}; \
                 split it, or mark a table with `// tidy: table`"
            );
            found.add(Rule::Style, file, first + 1, message);
        }
    }
}

/// Do the lines directly above line `first`, or the one below it, mark a table or a test?
fn is_table_or_test(lines: &[&str], first: usize) -> bool {
    let above = lines[..first].iter().rev().map(|line| line.trim());
    let mut head = above.take_while(|line| line.starts_with("#[") || line.starts_with("//"));
    let marks = ["#[rustfmt::skip]", "#[test]", "// tidy: table"];
    head.any(|line| marks.iter().any(|mark| line.starts_with(mark)))
        || lines.get(first + 1).is_some_and(|line| line.trim().starts_with("// tidy: table"))
}

fn words(file: &File, code: &str, found: &mut Findings) {
    let lies_in = |folders: &[&str]| folders.iter().any(|folder| file.path.starts_with(folder));
    let host_side = lies_in(HOST_SIDE) || file.is_test();
    let lines: Vec<&str> = file.text().lines().collect();
    for (n, line) in code.lines().enumerate() {
        if !lies_in(UNSAFE_ALLOWED) && source::has_word(line, "unsafe") {
            let message = "unsafe code outside of the guests; write it in safe Rust";
            found.add(Rule::Invariants, file, n + 1, message);
        }
        if !lies_in(ARCH_ALLOWED) && source::has_word(line, "target_arch") {
            let message = "`cfg(target_arch)` outside of the guests; choose by value";
            found.add(Rule::Imports, file, n + 1, message);
        }
        for &(word, way_out) in BANNED {
            if !host_side && source::has_word(line, word) && !is_allowed(&lines, n, word) {
                let message = format!("`{word}` is banned here: {way_out}");
                found.add(Rule::Invariants, file, n + 1, message);
            }
        }
    }
}

/// Does line `n`, or the one above it, say `// tidy: allow <word>: <reason>`?
fn is_allowed(lines: &[&str], n: usize, word: &str) -> bool {
    let mark = format!("// tidy: allow {word}: ");
    let says = |line: &&str| line.split_once(&mark).is_some_and(|(_, reason)| !reason.is_empty());
    lines[n.saturating_sub(1)..=n].iter().any(says)
}
