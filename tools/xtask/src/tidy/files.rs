//! Which files exist: modules that are declared, machines that are loaded, data that a test
//! reads, and nothing that only holds on the machine where it was written.

use super::{File, Findings, Rule, Tree};

/// Kinds of data files that tests read.
const DATA: &[&str] = &[
    ".seq", ".ins", ".expect", ".toml", ".txt", ".json", ".csv", ".stdout", ".stderr", ".c", ".h",
    ".ld", ".s", ".S",
];
/// Beginnings of paths that exist on one machine only, cut in two so as not to find themselves.
const LOCAL: &[(&str, &str)] = &[("/wo", "rk/"), ("/tm", "p/"), ("/ro", "ot/"), ("/ho", "me/")];
/// Marks of unfinished work, cut in two likewise.
const UNFINISHED: &[(&str, &str)] = &[("TO", "DO"), ("FIX", "ME"), ("XX", "X")];

pub(super) fn check(tree: &Tree, found: &mut Findings) {
    for file in &tree.files {
        local_paths(file, found);
        unfinished(file, found);
    }
    modules(tree, found);
    machines(tree, found);
    data(tree, found);
}

fn local_paths(file: &File, found: &mut Findings) {
    for (start, end) in LOCAL {
        let path = format!("{start}{end}");
        let starts_there = |at: usize| {
            at == 0 || {
                let before = file.bytes[at - 1];
                !before.is_ascii_alphanumeric() && !b"_-.})>*/".contains(&before)
            }
        };
        let places = (0..file.bytes.len().saturating_sub(path.len() - 1))
            .filter(|&at| file.bytes[at..].starts_with(path.as_bytes()) && starts_there(at));
        for at in places {
            let line = 1 + file.bytes[..at].iter().filter(|&&b| b == b'\n').count();
            let message = format!("`{path}` is a path of one machine; make it relative");
            found.add(Rule::Files, file, line, message);
        }
    }
}

fn unfinished(file: &File, found: &mut Findings) {
    for (n, line) in file.text().lines().enumerate() {
        for (start, end) in UNFINISHED {
            let mark = format!("{start}{end}");
            let names_issue = line.contains('#')
                && line.split('#').any(|s| s.starts_with(|c: char| c.is_ascii_digit()));
            if super::source::has_word(line, &mark) && !names_issue {
                let message = format!("{mark} without the number of an issue, as in `{mark}(#2)`");
                found.add(Rule::Files, file, n + 1, message);
            }
        }
    }
}

/// Every module file is declared by the file above it.
fn modules(tree: &Tree, found: &mut Findings) {
    for file in tree.rust() {
        let Some((crate_root, inside)) = file.path.split_once("/src/") else {
            continue;
        };
        if matches!(inside, "lib.rs" | "main.rs") || inside.starts_with("bin/") {
            continue;
        }
        let module = inside.trim_end_matches(".rs").trim_end_matches("/mod");
        let (parent, name) = match module.rsplit_once('/') {
            Some((parent, name)) => (Some(parent), name),
            None => (None, module),
        };
        let parents = match parent {
            Some(parent) => vec![format!("{parent}.rs"), format!("{parent}/mod.rs")],
            None => vec!["lib.rs".to_owned(), "main.rs".to_owned()],
        };
        let is_declared = parents
            .iter()
            .filter_map(|parent| tree.get(&format!("{crate_root}/src/{parent}")))
            .any(|parent| declares(parent.text(), name, file.name()));
        if !is_declared {
            let message = format!("dead file: no `mod {name};` above it");
            found.add(Rule::Files, file, 0, message);
        }
    }
}

fn declares(text: &str, module: &str, file_name: &str) -> bool {
    let by_name = format!("mod {module};");
    text.lines().any(|line| line.trim_end().ends_with(&by_name))
        || text.contains(&format!("#[path = \"{file_name}\"]"))
}

/// Every machine file is loaded by `topology`.
fn machines(tree: &Tree, found: &mut Findings) {
    for file in &tree.files {
        if !file.path.starts_with("topology/machines/") || !file.path.ends_with(".toml") {
            continue;
        }
        let path = file.path.trim_start_matches("topology/");
        let mut loaders = tree.rust().filter(|f| f.path.starts_with("topology/src/"));
        if !loaders.any(|loader| loader.text().contains(path)) {
            found.add(Rule::Files, file, 0, "dead file: nothing in topology/src loads it");
        }
    }
}

/// Every data file of a test is named by Rust code, or lies in a folder that is.
fn data(tree: &Tree, found: &mut Findings) {
    for file in &tree.files {
        let path = format!("/{}", file.path);
        let Some((_, below)) = path.split_once("/tests/") else {
            continue;
        };
        let is_data = DATA.iter().any(|ending| file.path.ends_with(ending));
        if !is_data || file.name() == "Cargo.toml" {
            continue;
        }
        if !tree.rust().any(|reader| reads(reader, file, below)) {
            let message = "no test reads it: neither its name nor its folder stands in Rust code";
            found.add(Rule::Files, file, 0, message);
        }
    }
}

/// Does `reader` name the file, or one of its folders as `tests/<folder>`?
fn reads(reader: &File, file: &File, below: &str) -> bool {
    let text = reader.text();
    if text.contains(&format!("{}\"", file.name())) || text.contains(&format!("/{}", file.name())) {
        return true;
    }
    let folders = below.match_indices('/').map(|(at, _)| &below[..at]);
    folders.into_iter().any(|folder| text.contains(&format!("tests/{folder}")))
}
