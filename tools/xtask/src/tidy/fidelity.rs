//! `docs/fidelity.md`: every row of behaviour has a known status, a source, and tests that exist.

use super::{File, Findings, Rule, Tree, source};

const PAGE: &str = "docs/fidelity.md";
const STATUSES: &[&str] = &["spec", "measured", "assumed"];
/// What stands in place of a test that is missing.
const NO_TEST: &str = "none yet";

pub(super) fn check(tree: &Tree, found: &mut Findings) {
    let Some(page) = tree.get(PAGE) else {
        return;
    };
    let mut is_behaviour = false;
    for (n, line) in page.text().lines().enumerate() {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        if !line.starts_with('|') {
            is_behaviour = false;
        } else if cells[0] == "behaviour" {
            is_behaviour = true;
        } else if is_behaviour && !line.starts_with("|---") {
            row(tree, page, n + 1, &cells, found);
        }
    }
}

/// Behaviour, machine, status, source, test.
fn row(tree: &Tree, page: &File, line: usize, cells: &[&str], found: &mut Findings) {
    let &[_, _, status, source, tests] = cells else {
        let message = "a row has five cells: behaviour, machine, status, source, test";
        found.add(Rule::Files, page, line, message);
        return;
    };
    if !STATUSES.contains(&status) {
        let message = format!("status `{status}` is none of {}", STATUSES.join(", "));
        found.add(Rule::Files, page, line, message);
    }
    if source.is_empty() {
        found.add(Rule::Files, page, line, "no source");
    }
    let names: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
    if names.is_empty() && tests != NO_TEST {
        let message = format!("no test in backticks; write `{NO_TEST}` if there is none");
        found.add(Rule::Files, page, line, message);
    }
    for name in names.into_iter().filter(|name| !exists(tree, name)) {
        let message = format!("there is no test function, file or folder `{name}`");
        found.add(Rule::Files, page, line, message);
    }
}

fn exists(tree: &Tree, name: &str) -> bool {
    if name.contains('/') {
        return tree.files.iter().any(|file| file.path.starts_with(name));
    }
    let head = format!("fn {name}");
    tree.rust().any(|file| source::has_word(file.text(), &head))
}
