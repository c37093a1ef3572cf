//! Tests of tidy on small trees: each rule finds its fault, and leaves the neighbour alone.

use super::{Tree, check, source};

/// Checks a tree of `files`, with a crate root that declares nothing, and gives the messages.
#[track_caller]
fn expect(files: &[(&str, &str)], expected: &[&str]) {
    let found: Vec<String> = check(&Tree::of(files)).iter().map(ToString::to_string).collect();
    assert_eq!(found, expected);
}

const MODEL: &str = "emu/mem/src/lib.rs";

#[test]
fn a_file_opens_with_its_module_doc() {
    expect(&[(MODEL, "//! Lines.\n")], &[]);
    expect(
        &[(MODEL, "// Lines.\n")],
        &["emu/mem/src/lib.rs:1: the first line is not `//!` with what this file is, \
           as a noun phrase (ARCHITECTURE.md, Style)"],
    );
}

#[test]
fn a_line_is_100_columns_at_most() {
    let wide = format!("//! {}\n", "x".repeat(96));
    expect(&[(MODEL, &wide)], &[]);
    let wider = format!("//! {}\n", "\u{e4}".repeat(97));
    expect(
        &[(MODEL, &wider)],
        &["emu/mem/src/lib.rs:1: 101 columns, more than 100; break the line \
           (ARCHITECTURE.md, Style)"],
    );
}

fn function_of(lines: usize, above: &str) -> String {
    format!("//! X.\n{above}\nfn long() {{\n{}}}\n", "    ();\n".repeat(lines - 2))
}

#[test]
fn a_function_is_70_lines_at_most_unless_it_is_a_table_or_a_test() {
    expect(&[(MODEL, &function_of(70, ""))], &[]);
    expect(
        &[(MODEL, &function_of(71, ""))],
        &["emu/mem/src/lib.rs:3: `long` has 71 lines, more than 70; \
           split it, or mark a table with `// tidy: table` (ARCHITECTURE.md, Style)"],
    );
    for mark in ["// tidy: table: opcodes", "#[rustfmt::skip]", "#[test]"] {
        expect(&[(MODEL, &function_of(71, mark))], &[]);
    }
    expect(&[("emu/mem/tests/line.rs", &function_of(71, ""))], &[]);
    let inner = function_of(71, "").replace("//! X.", "");
    let module = format!("//! X.\n#[cfg(test)]\nmod tests {{\n{inner}}}\n");
    expect(&[(MODEL, &module)], &[]);
}

#[test]
fn the_model_uses_no_banned_word_without_a_reason() {
    let text = "//! X.\nuse std::collections::HashMap; // HashMap\nfn f(x: FxHashMap) {}\n";
    expect(
        &[(MODEL, text), ("emu/cli/src/main.rs", text), ("emu/mem/tests/line.rs", text)],
        &["emu/mem/src/lib.rs:2: `HashMap` is banned here: its order is random; use \
           FxHashMap for look-up only, or BTreeMap (ARCHITECTURE.md, Invariants)"],
    );
    let excused = "//! X.\n// tidy: allow Instant: speed is measured in host time\nuse Instant;\n";
    expect(&[("emu/lab/src/lib.rs", excused)], &[]);
    let unexcused = "//! X.\n// tidy: allow Instant: \nuse Instant;\n";
    assert_eq!(check(&Tree::of(&[("emu/lab/src/lib.rs", unexcused)])).len(), 1);
}

#[test]
fn unsafe_code_and_cfg_of_the_target_stay_in_the_guests() {
    let text = "//! X.\n#[cfg(target_arch = \"x86_64\")]\nunsafe fn f() {}\n";
    expect(&[("guests/kern/src/main.rs", text)], &[]);
    expect(
        &[(MODEL, text)],
        &[
            "emu/mem/src/lib.rs:2: `cfg(target_arch)` outside of the guests; choose by value \
             (ARCHITECTURE.md, Imports)",
            "emu/mem/src/lib.rs:3: unsafe code outside of the guests; write it in safe Rust \
             (ARCHITECTURE.md, Invariants)",
        ],
    );
}

fn manifest(package: &str, dependencies: &str) -> String {
    format!("[package]\nname = \"{package}\"\n\n{dependencies}\n[lints]\nworkspace = true\n")
}

const REASONS: (&str, &str) = ("ARCHITECTURE.md", "| `rustc-hash` | emu/mem | look-up |\n");

#[test]
fn crates_import_inwards_only() {
    let good =
        manifest("emu_mem", "[dependencies]\nemu_sim.workspace = true\nrustc-hash = \"2\"\n");
    expect(&[REASONS, ("emu/mem/Cargo.toml", &good)], &[]);
    let bad = manifest("emu_x86", "[dev-dependencies]\nemu_arm64 = { path = \"../arm64\" }\n");
    expect(
        &[("emu/x86/Cargo.toml", &bad)],
        &["emu/x86/Cargo.toml:5: `emu_x86` may not import `emu_arm64`; it may import emu_sim, \
           emu_observe, emu_mem, emu_cpu (ARCHITECTURE.md, Imports)"],
    );
}

#[test]
fn foreign_crates_are_listed_and_have_a_reason() {
    let bad = manifest("emu_sim", "[dependencies.rand]\nversion = \"1\"\n");
    expect(
        &[("emu/sim/Cargo.toml", &bad)],
        &[
            "emu/sim/Cargo.toml:4: `emu_sim` may not use the foreign crate `rand`; use what it \
             has, or extend the table of tidy/imports.rs with a reason (ARCHITECTURE.md, Imports)",
            "emu/sim/Cargo.toml:4: `rand` has no line of reason under Dependencies \
             (ARCHITECTURE.md, Imports)",
        ],
    );
    let renamed = "[dependencies]\nmap = { package = \"rustc-hash\", version = \"2\" }\n";
    let renamed = manifest("emu_mem", renamed);
    expect(&[REASONS, ("emu/mem/Cargo.toml", &renamed)], &[]);
}

#[test]
fn a_crate_with_one_user_file_has_no_second() {
    let text = "//! X.\nuse goblin::elf;\n";
    expect(
        &[("emu/machine/src/lib.rs", text), ("emu/machine/tests/load.rs", text)],
        &["emu/machine/src/lib.rs:2: `goblin` is used by emu/machine/src/load alone \
           (ARCHITECTURE.md, Imports)"],
    );
}

#[test]
fn packages_come_from_the_public_registry() {
    let lock = "source = \"registry+https://github.com/rust-lang/crates.io-index\"\n\
                source = \"registry+https://mirror.example/index\"\n";
    expect(
        &[("Cargo.lock", lock)],
        &["Cargo.lock:2: a package from elsewhere than crates.io (ARCHITECTURE.md, Files)"],
    );
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let local = concat!("see /t", "mp/x\n");
    expect(
        &[("README.md", local), ("docs/a.txt", "requester/home/owner and <a>/home/<b>\n")],
        &[concat!(
            "README.md:1: `/t",
            "mp/` is a path of one machine; make it relative (ARCHITECTURE.md, Files)"
        )],
    );
}

#[test]
fn unfinished_work_names_its_issue() {
    expect(
        &[(MODEL, concat!("//! X.\n// TO", "DO(#2): y\n// TO", "DO: z\n"))],
        &[concat!(
            "emu/mem/src/lib.rs:3: TO",
            "DO without the number of an issue, as in `TO",
            "DO(#2)` (ARCHITECTURE.md, Files)"
        )],
    );
}

#[test]
fn every_module_file_is_declared() {
    let files = [
        (MODEL, "//! X.\npub(crate) mod line;\n"),
        ("emu/mem/src/line.rs", "//! X.\nmod race;\n"),
        ("emu/mem/src/line/race.rs", "//! X.\n"),
        ("emu/mem/src/line/old.rs", "//! X.\n"),
        ("emu/mem/src/bin/tool.rs", "//! X.\n"),
    ];
    expect(
        &files,
        &["emu/mem/src/line/old.rs: dead file: no `mod old;` above it (ARCHITECTURE.md, Files)"],
    );
}

#[test]
fn every_machine_is_loaded() {
    let files = [
        ("topology/machines/old.toml", ""),
        ("topology/machines/cores/zen3.toml", ""),
        ("topology/src/lib.rs", "//! X.\nconst A: &str = \"../machines/cores/zen3.toml\";\n"),
    ];
    expect(
        &files,
        &["topology/machines/old.toml: dead file: nothing in topology/src loads it \
           (ARCHITECTURE.md, Files)"],
    );
}

#[test]
fn every_data_file_has_a_reader() {
    let files = [
        ("tests/line/share.seq", ""),
        ("tests/isa/x86/add.ins", ""),
        ("tests/irq/lost.txt", ""),
        ("emu/mem/tests/seq.rs", "//! X.\nconst A: [&str; 2] = [\"tests/line\", \"add.ins\"];\n"),
    ];
    expect(
        &files,
        &["tests/irq/lost.txt: no test reads it: neither its name nor its folder stands in \
           Rust code (ARCHITECTURE.md, Files)"],
    );
}

#[test]
fn what_is_cited_exists() {
    let cites = concat!("//! See `engine", ".md` K1, K9 and `lost", ".md`.\n");
    expect(
        &[(MODEL, cites), ("docs/engine.md", "- **K1** The key.\n")],
        &[
            concat!(
                "emu/mem/src/lib.rs:1: `lost",
                ".md` is cited and does not exist (ARCHITECTURE.md, Files)"
            ),
            "emu/mem/src/lib.rs:1: rule K9 does not stand in docs/engine.md \
             (ARCHITECTURE.md, Files)",
        ],
    );
}

#[test]
fn rows_of_the_fidelity_table_are_whole() {
    let page = "| behaviour | machine | status | source | test |\n|---|---|---|---|---|\n\
                | a | all | spec | [SDM-3] | `a_holds`, `emu/mem/` |\n\
                | b | all | assumed | ours | none yet |\n\
                | c | all | sure | | `c_holds` |\n| d |\n";
    let code = "//! X.\nfn a_holds() {}\n";
    expect(
        &[("docs/fidelity.md", page), (MODEL, code)],
        &[
            "docs/fidelity.md:5: no source (ARCHITECTURE.md, Files)",
            "docs/fidelity.md:5: status `sure` is none of spec, measured, assumed \
             (ARCHITECTURE.md, Files)",
            "docs/fidelity.md:5: there is no test function, file or folder `c_holds` \
             (ARCHITECTURE.md, Files)",
            "docs/fidelity.md:6: a row has five cells: behaviour, machine, status, source, test \
             (ARCHITECTURE.md, Files)",
        ],
    );
}

#[test]
fn comments_and_literals_are_blanked() {
    let cases = [
        ("a /* b /* c */ d */ e", "a e"),
        ("a // b\nc", "a c"),
        (r#"a "b\"c" d"#, "a d"),
        (r##"a r#"b"c"# d"##, "a d"),
        ("x 'y' fn f<'a>(x: &'a u8)", "x fn f<'a>(x: &'a u8)"),
        ("'\\'' '\u{e4}' z", "z"),
    ];
    for (text, words) in cases {
        let blanked = source::blank(text);
        let left: Vec<_> = blanked.split_whitespace().collect();
        assert_eq!(left.join(" "), words, "{text}");
        assert_eq!(blanked.len(), text.len(), "columns stay: {text}");
    }
}

#[test]
fn functions_are_found_with_their_lines() {
    let text =
        "trait T { fn a(); }\nfn b(x: [u8; 3], f: fn() -> u8) -> u8\nwhere u8: Copy,\n{\n  3\n}\n";
    let found = source::functions(text);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].name.as_str(), found[0].lines.clone()), ("b", 1..6));
}
