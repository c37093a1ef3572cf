//! The table of forms, `docs/instructions.md`, and its counts in `docs/fidelity.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use iced_x86::{Code, Decoder, DecoderOptions, EncodingKind};

use crate::forms::{Class, Form};

/// Number of rows of `.ins` files by form, in 64-bit code.
#[must_use]
pub fn rows_by_form(files: &[String]) -> BTreeMap<Code, u64> {
    let mut rows = BTreeMap::new();
    for content in files {
        let mut bits = 64;
        for line in content.lines().map(str::trim) {
            if let Some(mode) = line.strip_prefix("mode ") {
                bits = if matches!(mode, "user" | "57") { 64 } else { mode.parse().unwrap_or(0) };
            } else if !line.starts_with('#')
                && bits == 64
                && let Some(bytes) = line.split('|').nth(1)
            {
                let bytes: Vec<u8> = bytes
                    .split_whitespace()
                    .filter_map(|byte| u8::from_str_radix(byte, 16).ok())
                    .collect();
                let code = Decoder::new(64, &bytes, DecoderOptions::NONE).decode().code();
                *rows.entry(code).or_default() += 1;
            }
        }
    }
    rows
}

const HEAD: &str = "\
# x86 instructions: what is implemented, and what tests it

Generated from the decoder by `BLESS=1 cargo test -p tests_native`; the same test without `BLESS`
checks that it is current. A form is an encoding with its kinds of operands, in 64-bit code.

- **host**: `tests/native` runs the form on the host's processor and on the emulator, with random
  operands and state, and compares. Where a process cannot run it, the reason stands here.
- **rows**: rows of `tests/isa/x86/*.ins` and `tests/isa/x86/system/*.ins` with the form.
- Forms with neither are tested by `emu/x86/tests/system` at most.
- Not made: meanings that only AMD's processors give bytes (16-bit branches), that other
  instructions have taken over, and operands of features that are not implemented (bounds, tiles,
  gathers, XBEGIN).

";

/// The document.
#[must_use]
pub fn document(forms: &[Form], rows: &BTreeMap<Code, u64>) -> String {
    let mut text = HEAD.to_owned();
    summary(&mut text, forms, rows);
    implemented(&mut text, forms, rows);
    missing(&mut text, forms);
    text
}

fn summary(text: &mut String, forms: &[Form], rows: &BTreeMap<Code, u64>) {
    let count = |test: &dyn Fn(&Form) -> bool| forms.iter().filter(|form| test(form)).count();
    let is_implemented = |form: &Form| matches!(form.class, Class::Native | Class::NotNative(_));
    let has_row = |form: &Form| rows.contains_key(&form.code);
    let is_native = |form: &Form| form.class == Class::Native;
    let lines = [
        ("forms of 64-bit code that iced knows", forms.len()),
        ("implemented", count(&is_implemented)),
        ("of these, tested on the host", count(&is_native)),
        ("of these, tested by rows", count(&|form| is_implemented(form) && has_row(form))),
        (
            "of these, tested by neither",
            count(&|form| is_implemented(form) && !is_native(form) && !has_row(form)),
        ),
        ("not implemented: #UD, reported once", count(&|form| form.class == Class::NotImplemented)),
        ("not made: see below", count(&|form| form.class == Class::NotDecoded)),
    ];
    let _ = writeln!(text, "| what | forms |\n|---|---|");
    for (what, number) in lines {
        let _ = writeln!(text, "| {what} | {number} |");
    }
}

/// Line before and line after the table in `docs/fidelity.md`.
pub const MARKS: [&str; 2] =
    ["<!-- instruction coverage, from tests/native -->", "<!-- end of instruction coverage -->"];

/// Counts by feature, for the features of which something is implemented.
#[must_use]
pub fn by_feature(forms: &[Form], rows: &BTreeMap<Code, u64>) -> String {
    let mut features: BTreeMap<String, [u64; 5]> = BTreeMap::new();
    for form in forms.iter().filter(|form| form.class != Class::NotDecoded) {
        let is_native = form.class == Class::Native;
        let is_implemented = form.class != Class::NotImplemented;
        let has_row = is_implemented && rows.contains_key(&form.code);
        let is = [is_implemented, is_native, has_row, is_implemented && !is_native && !has_row];
        let counts = features.entry(feature(form.code)).or_default();
        for (count, is) in counts.iter_mut().zip(is.into_iter().chain([!is_implemented])) {
            *count += u64::from(is);
        }
    }
    let (kept, absent): (Vec<_>, Vec<_>) = features.into_iter().partition(|f| f.1[0] > 0);
    let sum = |of: &[(String, [u64; 5])]| {
        of.iter().fold([0; 5], |sum, (_, n)| std::array::from_fn(|i| sum[i] + n[i]))
    };
    let mut table = String::from(
        "| feature | implemented | on the host | by rows | by neither | not implemented |\n\
         |---|---|---|---|---|---|\n",
    );
    let absent = (format!("{} features of which nothing is", absent.len()), sum(&absent));
    let all = sum(&[&kept, std::slice::from_ref(&absent)].concat());
    for (name, n) in kept.into_iter().chain([absent, ("all".to_owned(), all)]) {
        let _ =
            writeln!(table, "| {name} | {} | {} | {} | {} | {} |", n[0], n[1], n[2], n[3], n[4]);
    }
    table
}

fn implemented(text: &mut String, forms: &[Form], rows: &BTreeMap<Code, u64>) {
    let _ =
        writeln!(text, "\n## Implemented\n\n| form | encoding | host | rows |\n|---|---|---|---|");
    for form in forms {
        let host = match form.class {
            Class::Native => "yes".to_owned(),
            Class::NotNative(reason) => format!("no: {reason}"),
            Class::NotImplemented | Class::NotDecoded => continue,
        };
        let info = form.code.op_code();
        let rows = rows.get(&form.code).map_or_else(|| "-".to_owned(), u64::to_string);
        let (name, encoding) = (info.instruction_string(), info.op_code_string());
        let _ = writeln!(text, "| `{name}` | `{encoding}` | {host} | {rows} |");
    }
}

fn feature(code: Code) -> String {
    let names: Vec<String> = code.cpuid_features().iter().map(|f| format!("{f:?}")).collect();
    names.join(" + ")
}

/// Forms that are not implemented, by feature; mnemonics where they are few enough to read.
fn missing(text: &mut String, forms: &[Form]) {
    let mut by_feature: BTreeMap<String, (usize, BTreeSet<String>)> = BTreeMap::new();
    for form in forms.iter().filter(|form| form.class == Class::NotImplemented) {
        let entry = by_feature.entry(feature(form.code)).or_default();
        entry.0 += 1;
        if form.code.encoding() == EncodingKind::Legacy {
            entry.1.insert(format!("{:?}", form.code.mnemonic()).to_uppercase());
        }
    }
    let _ = writeln!(
        text,
        "\n## Not implemented\n\nMnemonics of VEX, EVEX and XOP encodings are left out.\n\n\
         | feature | forms | mnemonics |\n|---|---|---|"
    );
    for (feature, (count, mnemonics)) in by_feature {
        let names: Vec<String> = mnemonics.into_iter().collect();
        let _ = writeln!(text, "| {feature} | {count} | {} |", names.join(" "));
    }
}
