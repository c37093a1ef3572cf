//! Who may import whom: the table of ARCHITECTURE.md, against every manifest.

use super::{File, Findings, Rule, Tree, source};

/// What one package may name under `[dependencies]`.
struct Row {
    package: &'static str,
    /// Packages of this repository.
    own: &'static [&'static str],
    /// Packages of the registry.
    foreign: &'static [&'static str],
}

const fn row(
    package: &'static str,
    own: &'static [&'static str],
    foreign: &'static [&'static str],
) -> Row {
    Row { package, own, foreign }
}

/// From the inside outwards: a crate imports only what stands above it.
#[rustfmt::skip]
const TABLE: &[Row] = &[
    row("emu_sim",      &[], &[]),
    row("emu_observe",  &["emu_sim"], &[]),
    row("emu_mem",      &["emu_sim", "emu_observe"], &["rustc-hash"]),
    row("emu_cpu",      &["emu_sim", "emu_observe", "emu_mem"], &["rustc-hash"]),
    row("emu_x86",      &["emu_sim", "emu_observe", "emu_mem", "emu_cpu"],
                        &["bitflags", "iced-x86", "rustc-hash", "rustc_apfloat"]),
    row("emu_arm64",    &["emu_sim", "emu_observe", "emu_mem", "emu_cpu"],
                        &["bitflags", "rustc-hash", "rustc_apfloat"]),
    row("topology",     &[], &["toml", "serde"]),
    row("guests_abi",   &[], &[]),
    row("guests_sched", &[], &[]),
    row("emu_machine",  &["emu_sim", "emu_observe", "emu_mem", "emu_cpu", "emu_x86", "emu_arm64",
                          "topology", "guests_abi"],
                        &["goblin", "vm-fdt", "crossbeam-channel", "rustc-hash"]),
    row("emu_lab",      &["emu_sim", "emu_observe", "emu_mem", "emu_cpu", "emu_machine",
                          "topology", "guests_abi"],
                        &["serde", "serde_json", "toml"]),
    row("emu_cli",      &["emu_sim", "emu_observe", "emu_machine", "emu_lab", "topology",
                          "guests_abi"],
                        &["clap", "clap_complete", "clap_mangen", "comfy-table", "indicatif",
                          "plotters", "serde", "serde_json"]),
    row("kern",         &["guests_abi", "guests_sched"], &[]),
    row("scenarios",    &["guests_abi", "guests_sched"], &[]),
    row("tools_xtask",  &["guests_abi", "topology", "emu_machine", "emu_lab"], &["sha2"]),
    row("tests_fuzz",   &["emu_sim", "emu_observe", "emu_cpu", "emu_x86", "emu_arm64",
                          "emu_machine", "emu_lab", "emu_cli", "topology", "tests_litmus"],
                        &["arbitrary", "iced-x86", "libfuzzer-sys"]),
    row("tests_litmus", &["emu_sim", "emu_machine", "topology", "guests_abi"],
                        &["iced-x86", "serde_json"]),
    row("tests_ins",    &[], &["iced-x86"]),
    row("tests_native", &["emu_cpu", "emu_x86", "tests_ins"], &["iced-x86", "libc"]),
    row("tests_native_arm64", &["emu_sim", "emu_cpu", "emu_arm64", "tests_ins"], &[]),
    row("tests_random", &["emu_sim", "emu_observe", "emu_machine", "topology", "guests_abi",
                          "tests_litmus"],
                        &["clap", "iced-x86", "sha2"]),
    row("tests_runner", &["emu_sim", "emu_observe", "emu_mem", "emu_cpu", "emu_x86", "emu_arm64",
                          "emu_machine", "emu_lab", "topology", "guests_abi", "guests_sched",
                          "tools_xtask"],
                        &["libtest-mimic", "serde_json", "similar", "toml"]),
];

/// Packages of this repository that any crate may name under `[dev-dependencies]`.
const OWN_FOR_TESTS: &[&str] = &["tests_ins"];

/// Packages of the registry that any crate may name under `[dev-dependencies]`.
const FOR_TESTS: &[&str] =
    &["criterion", "divan", "goblin", "iced-x86", "insta", "libtest-mimic", "proptest", "similar"];

/// Packages that one file, or one folder, alone may use: (crate, who, in words).
#[rustfmt::skip]
const SOLE_USERS: &[(&str, &[&str], &str)] = &[
    ("goblin",            &["emu/machine/src/load"], "emu/machine/src/load"),
    ("vm_fdt",            &["emu/machine/src/fdt"],  "emu/machine/src/fdt"),
    ("crossbeam_channel", &["emu/machine/src/host.rs"], "emu/machine/src/host.rs"),
    ("clap",              &["emu/cli/src/", "tools/"], "emu/cli and tools"),
];

pub(super) fn check(tree: &Tree, found: &mut Findings) {
    let architecture = tree.get("ARCHITECTURE.md").map_or("", File::text);
    for file in tree.files.iter().filter(|file| file.name() == "Cargo.toml") {
        manifest(file, architecture, found);
    }
    sole_users(tree, found);
    if let Some(lock) = tree.get("Cargo.lock") {
        sources(lock, found);
    }
}

/// One entry of a dependency table.
struct Entry<'a> {
    line: usize,
    name: &'a str,
    is_dev: bool,
}

fn manifest(file: &File, architecture: &str, found: &mut Findings) {
    let Some(package) = package_name(file.text()) else {
        return;
    };
    let Some(row) = TABLE.iter().find(|row| row.package == package) else {
        let message = format!("package `{package}` is not in the import table of tidy/imports.rs");
        found.add(Rule::Imports, file, 1, message);
        return;
    };
    if !file.text().contains("[lints") {
        found.add(Rule::Style, file, 0, "no lints; add `[lints]` with `workspace = true`");
    }
    for Entry { line, name, is_dev } in entries(file.text()) {
        if row.own.contains(&name) || is_dev && OWN_FOR_TESTS.contains(&name) {
            continue;
        }
        if TABLE.iter().any(|other| other.package == name) {
            let allowed = if row.own.is_empty() { "nothing".into() } else { row.own.join(", ") };
            let message = format!("`{package}` may not import `{name}`; it may import {allowed}");
            found.add(Rule::Imports, file, line, message);
            continue;
        }
        let is_listed = row.foreign.contains(&name) || (is_dev && FOR_TESTS.contains(&name));
        if !is_listed {
            let message = format!(
                "`{package}` may not use the foreign crate `{name}`; \
                 use what it has, or extend the table of tidy/imports.rs with a reason"
            );
            found.add(Rule::Imports, file, line, message);
        }
        if !architecture.contains(&format!("| `{name}` |")) {
            let message = format!("`{name}` has no line of reason under Dependencies");
            found.add(Rule::Imports, file, line, message);
        }
    }
}

fn package_name(manifest: &str) -> Option<&str> {
    let mut in_package = false;
    for line in manifest.lines().map(str::trim) {
        if line.starts_with('[') {
            in_package = line == "[package]";
        } else if in_package && let Some(value) = line.strip_prefix("name") {
            return value.split('"').nth(1);
        }
    }
    None
}

/// The names in all dependency tables. A renamed package counts by its real name.
fn entries(manifest: &str) -> Vec<Entry<'_>> {
    let mut found = Vec::new();
    let mut table = "";
    for (n, line) in manifest.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        if let Some(head) = line.strip_prefix('[') {
            table = head.trim_end_matches(']');
            // `[dependencies.name]`
            if let Some((kind, name)) = table.rsplit_once('.').filter(|(k, _)| is_table(k)) {
                let is_dev = kind.ends_with("dev-dependencies");
                found.push(Entry { line: n + 1, name, is_dev });
            }
        } else if is_table(table) && table != "workspace.dependencies" && line.contains('=') {
            let key = line.split(['=', '.', ' ']).next().unwrap_or("").trim_matches('"');
            let renamed = line.split_once("package").and_then(|(_, rest)| rest.split('"').nth(1));
            let is_dev = table.ends_with("dev-dependencies");
            found.push(Entry { line: n + 1, name: renamed.unwrap_or(key), is_dev });
        }
    }
    found
}

fn is_table(name: &str) -> bool {
    name.ends_with("dependencies")
}

fn sole_users(tree: &Tree, found: &mut Findings) {
    for file in tree.rust().filter(|file| !file.is_test()) {
        let code = source::blank(file.text());
        for (n, line) in code.lines().enumerate() {
            for &(name, users, in_words) in SOLE_USERS {
                let is_used = source::has_word(line, name)
                    && (line.contains(&format!("{name}::")) || line.contains("use "));
                if is_used && !users.iter().any(|user| file.path.starts_with(user)) {
                    let message = format!("`{name}` is used by {in_words} alone");
                    found.add(Rule::Imports, file, n + 1, message);
                }
            }
        }
    }
}

/// Every locked package comes from crates.io under its public name.
fn sources(lock: &File, found: &mut Findings) {
    const PUBLIC: &str = "source = \"registry+https://github.com/rust-lang/crates.io-index\"";
    for (n, line) in lock.text().lines().enumerate() {
        if line.starts_with("source = ") && line != PUBLIC {
            found.add(Rule::Files, lock, n + 1, "a package from elsewhere than crates.io");
        }
    }
}
