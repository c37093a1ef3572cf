//! The short run of the gate, the rows that were kept, and the table of forms.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests, with functions that they share"
)]

use std::path::{Path, PathBuf};

use tests_native::forms;
use tests_native::host::{Native, Processor};
use tests_native::run::{Pair, Plan};
use tests_native::{coverage, row};

/// Cases of each form in the short run.
const CASES_PER_FORM: u64 = 160;
const SEED: u64 = 0x0c05_5ca1;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Host and emulator, or a word that there is no such host.
fn pair() -> Option<Pair> {
    let Some(processor) = Processor::of_host() else {
        println!("skipped: needs x86-64 linux");
        return None;
    };
    let native = Native::start(env!("CARGO_BIN_EXE_tests_native").into()).unwrap();
    Some(Pair::new(native, processor).unwrap())
}

/// Files with rows, by name.
fn row_files() -> Vec<(String, String)> {
    tests_ins::files(&root().join("tests/isa/x86"))
}

#[test]
fn every_form_agrees_with_the_host() {
    let Some(mut pair) = pair() else { return };
    let codes = forms::native(&forms::all());
    let cases = CASES_PER_FORM * codes.len() as u64;
    let report = pair.run(&Plan { cases, seed: SEED, codes: codes.clone() }).unwrap();
    let text = report.text();
    println!("{text}");
    assert!(report.failures.is_empty(), "{text}");
    let skipped: usize = report.skipped.values().map(Vec::len).sum();
    let ran = codes.iter().filter(|code| report.by_form.contains_key(&format!("{code:?}")));
    assert_eq!(ran.count() + skipped, codes.len(), "a form that the host has did not run");
}

#[test]
fn equal_seeds_give_equal_reports() {
    let codes = forms::native(&forms::all());
    let plan = Plan { cases: 2000, seed: 7, codes };
    let reports: Vec<_> = (0..2).filter_map(|_| Some(pair()?.run(&plan).unwrap().text())).collect();
    assert!(reports.windows(2).all(|pair| pair[0] == pair[1]), "{reports:?}");
}

#[test]
fn kept_rows_agree_with_the_host() {
    let Some(mut pair) = pair() else { return };
    let mut rows = 0;
    let mut failures = Vec::new();
    for (name, content) in row_files() {
        let mut is_user = false;
        for (n, line) in content.lines().enumerate() {
            if let Some(mode) = line.strip_prefix("mode ") {
                is_user = mode.trim() == "user";
            } else if is_user && !line.trim().is_empty() && !line.starts_with('#') {
                rows += 1;
                let text = match row::parse(line) {
                    Ok(case) => pair.differs(&case).unwrap(),
                    Err(word) => format!(" `{word}` is not known"),
                };
                if !text.is_empty() {
                    failures.push(format!("{name}:{}:{text}\n    {line}", n + 1));
                }
            }
        }
    }
    assert!(rows > 0, "no rows");
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn the_tables_of_forms_are_current() {
    let system = tests_ins::files(&root().join("tests/isa/x86/system"));
    let files: Vec<String> = row_files().into_iter().chain(system).map(|file| file.1).collect();
    let (forms, rows) = (forms::all(), coverage::rows_by_form(&files));
    check_document("docs/instructions.md", |_| coverage::document(&forms, &rows));
    check_document("docs/fidelity.md", |found| {
        let [begin, end] = coverage::MARKS.map(|mark| found.find(mark).expect("a mark"));
        let table = coverage::by_feature(&forms, &rows);
        format!("{}{}\n{table}{}", &found[..begin], coverage::MARKS[0], &found[end..])
    });
}

/// Compares a document with what it should be, made from what it is; `BLESS=1` rewrites it.
fn check_document(path: &str, make: impl Fn(&str) -> String) {
    let file = root().join(path);
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    let document = make(&found);
    if std::env::var_os("BLESS").is_some() {
        return std::fs::write(&file, &document).unwrap();
    }
    let first = found.lines().zip(document.lines()).find(|(a, b)| a != b);
    assert!(found == document, "{path} is old at {first:?}; run with BLESS=1");
}
