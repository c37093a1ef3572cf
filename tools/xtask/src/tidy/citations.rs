//! Citations: a document that is named exists, and so does the engine rule that is cited.

use super::{File, Findings, Rule, Tree};

/// The document that gives the engine rules their ids.
const ENGINE: &str = "docs/engine.md";

pub(super) fn check(tree: &Tree, found: &mut Findings) {
    for file in &tree.files {
        if !file.is_rust() && !file.path.ends_with(".md") && !file.path.ends_with(".toml") {
            continue;
        }
        for (n, line) in file.text().lines().enumerate() {
            for name in documents(line) {
                if !exists(tree, name) {
                    let message = format!("`{name}` is cited and does not exist");
                    found.add(Rule::Files, file, n + 1, message);
                }
            }
        }
        rules(tree, file, found);
    }
}

/// The names in backticks, or as targets of links, that end in `.md`.
fn documents(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    let linked = line.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    quoted.chain(linked).filter(|name| {
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        name.ends_with(".md") && name.len() > 3 && name.chars().all(is_name)
    })
}

fn exists(tree: &Tree, name: &str) -> bool {
    let name = name.trim_start_matches("../");
    tree.get(name).is_some()
        || tree.get(&format!("docs/{name}")).is_some()
        || tree.get(&format!("docs/schema/{name}")).is_some()
}

/// Every rule id behind `engine.md` stands in the document.
fn rules(tree: &Tree, file: &File, found: &mut Findings) {
    let Some(engine) = tree.get(ENGINE) else {
        return;
    };
    for (n, line) in file.text().lines().enumerate() {
        for cited in line.split("engine.md` ").skip(1) {
            for id in ids(cited) {
                if !engine.text().contains(&format!("**{id}**")) {
                    let message = format!("rule {id} does not stand in {ENGINE}");
                    found.add(Rule::Files, file, n + 1, message);
                }
            }
        }
    }
}

/// Ids such as `K1, L13 and X3` at the start of a text.
fn ids(text: &str) -> impl Iterator<Item = &str> {
    let pieces = text.split([' ', ',', '.', ';', ':', ')']).filter(|piece| !piece.is_empty());
    let is_id = |piece: &&str| {
        let number = piece.trim_start_matches(|c: char| c.is_ascii_uppercase());
        number.len() + 1 == piece.len()
            && !number.is_empty()
            && number.chars().all(|c| c.is_ascii_digit())
    };
    pieces.take_while(move |p| is_id(p) || matches!(*p, "and" | "to")).filter(is_id)
}
