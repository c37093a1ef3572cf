//! Loading: a name or a path, overrides, and the core files that a machine refers to.
//!
//! Order: parse, put overrides in, put core files below, read, check, resolve. Hence a fault of an
//! override is reported as one, and an override reaches everything that a file can say.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::check::check;
use crate::generate;
use crate::model::{Isa, Machine};
use crate::read::Reader;
use crate::report::{OVERRIDE, Report, near};
use crate::resolve::resolve;
use crate::schema;
use crate::tree::{self, Entry, Item, Place, Source, Table, Value};
use crate::units::show_bytes;

/// Largest machine file.
const FILE_BYTES_MAX: u64 = 4 << 20;

const MACHINES: [(&str, &str); 9] = [
    ("epyc-7763-2s", include_str!("../machines/epyc-7763-2s.toml")),
    ("epyc-9654-2s", include_str!("../machines/epyc-9654-2s.toml")),
    ("ice-lake-2s", include_str!("../machines/ice-lake-2s.toml")),
    ("sapphire-rapids-2s", include_str!("../machines/sapphire-rapids-2s.toml")),
    ("dma-xeon-2s", include_str!("../machines/dma-xeon-2s.toml")),
    ("westmere-ex-8s", include_str!("../machines/westmere-ex-8s.toml")),
    ("neoverse-n1-2s", include_str!("../machines/neoverse-n1-2s.toml")),
    ("graviton2", include_str!("../machines/graviton2.toml")),
    ("hikey-620", include_str!("../machines/hikey-620.toml")),
];

const SMP: &str = include_str!("../machines/smp.toml");
const SMP_ARM: &str = include_str!("../machines/smp-arm.toml");

const CORES: [(&str, &str); 10] = [
    ("zen3", include_str!("../machines/cores/zen3.toml")),
    ("zen4", include_str!("../machines/cores/zen4.toml")),
    ("golden-cove", include_str!("../machines/cores/golden-cove.toml")),
    ("sunny-cove", include_str!("../machines/cores/sunny-cove.toml")),
    ("cascade-lake", include_str!("../machines/cores/cascade-lake.toml")),
    ("westmere", include_str!("../machines/cores/westmere.toml")),
    ("neoverse-n1", include_str!("../machines/cores/neoverse-n1.toml")),
    ("cortex-a53", include_str!("../machines/cores/cortex-a53.toml")),
    ("generic", include_str!("../machines/cores/generic.toml")),
    ("generic-arm", include_str!("../machines/cores/generic-arm.toml")),
];

/// Returns the names of the shipped core types.
pub(crate) fn core_names() -> [&'static str; 10] {
    CORES.map(|(name, _)| name)
}

/// Returns the names that `Machine::load` knows, `smp-N` and `smp-arm-N` for generated families.
pub fn list() -> Vec<&'static str> {
    let generated = ["duo", "quad", "smp-N", "duo-arm", "quad-arm", "smp-arm-N"];
    MACHINES.iter().map(|&(name, _)| name).chain(generated).collect()
}

/// Returns the text of a shipped machine, to begin a file of one's own with.
pub fn text(name: &str) -> Option<&'static str> {
    MACHINES.iter().find(|&&(known, _)| known == name).map(|&(_, text)| text)
}

impl Machine {
    /// Loads a shipped or generated machine by name, or a file by path, with `KEY=V` overrides.
    ///
    /// Errors: every fault of file and overrides at once.
    pub fn load(name_or_path: &str, overrides: &[String]) -> Result<Machine, Report> {
        if let Some((name, text)) = MACHINES.iter().find(|&&(name, _)| name == name_or_path) {
            return Machine::from_toml(text, &format!("machines/{name}.toml"), overrides);
        }
        if let Some(smp) = generate::named(name_or_path) {
            return load_generated(name_or_path, smp, overrides);
        }
        let is_path = name_or_path.contains(['/', '\\']) || name_or_path.ends_with(".toml");
        if !is_path && !Path::new(name_or_path).is_file() {
            let known = list();
            let help = match near(name_or_path, known.iter().copied()) {
                Some(near) => format!("did you mean {near}?"),
                None => format!("known: {}, or the path of a file", known.join(", ")),
            };
            return Err(bare_fault(name_or_path, "no machine of this name", &help));
        }
        match read_file(Path::new(name_or_path)) {
            Ok(bytes) if bytes.len() as u64 > FILE_BYTES_MAX => {
                let message = format!("the file has more than {}", show_bytes(FILE_BYTES_MAX));
                Err(bare_fault(name_or_path, &message, "is it a machine file?"))
            }
            Ok(bytes) => match String::from_utf8(bytes) {
                Ok(text) => Machine::from_toml(&text, name_or_path, overrides),
                Err(_) => Err(bare_fault(name_or_path, "the file is not text (UTF-8)", "")),
            },
            Err(error) => Err(bare_fault(name_or_path, &format!("cannot read: {error}"), "")),
        }
    }

    /// Builds a machine from the text of a file; `file` is its name in messages.
    ///
    /// Errors: every fault of text and overrides at once.
    pub fn from_toml(text: &str, file: &str, overrides: &[String]) -> Result<Machine, Report> {
        let mut r = Reader::over(source(file, text, false));
        let (mut root, faults) = tree::parse(0, text);
        for (place, message) in faults {
            r.fault(place, message, "");
        }
        for over in overrides {
            apply(&mut r, &mut root, over);
        }
        graft_cores(&mut r, &mut root);
        let spec = schema::read(&mut r, &root);
        if overrides.is_empty() {
            // An override may be what took the last use away.
            r.check_citations();
        }
        let layout = check(&mut r, &spec);
        match layout {
            Some(layout) if r.faults.is_empty() => {
                let mut figures = std::mem::take(&mut r.figures);
                figures.sort_by_key(|figure| figure.key.starts_with("cores."));
                Ok(resolve(&spec, &layout, file, figures))
            }
            _ => Err(r.report()),
        }
    }
}

/// Reads a file up to a byte more than it may have: a device may have no end.
fn read_file(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn source(name: &str, text: &str, is_override: bool) -> Source {
    Source { name: name.to_string(), text: text.to_string(), is_override }
}

/// A fault without a text to point into.
fn bare_fault(file: &str, message: &str, help: &str) -> Report {
    let mut r = Reader::over(source(file, "", false));
    let place = Place { source: 0, start: 0, end: 0, is_poisoned: false };
    r.fault(place, message, help);
    r.report()
}

fn apply(r: &mut Reader, root: &mut Table, text: &str) {
    let index = r.sources.len();
    r.sources.push(source(OVERRIDE, text, true));
    let applied =
        tree::parse_override(index, text).and_then(|(path, item)| tree::apply(root, &path, item));
    if let Err((place, message)) = applied {
        r.fault(place, message, "");
    }
}

/// Puts the shipped core files below what the machine says of the same core types.
fn graft_cores(r: &mut Reader, root: &mut Table) {
    let mut names = Vec::new();
    if let Some(Value::Table(cores)) = value(root, "cores")
        && let Some(Value::Text(name)) = value(cores, "default")
    {
        names.push(name.clone());
    }
    if let Some(Value::Table(groups)) = value(root, "group") {
        for group in &groups.entries {
            if let Value::Table(group) = &group.item.value
                && let Some(Value::Text(name)) = value(group, "core")
            {
                names.push(name.clone());
            }
        }
    }
    names.sort();
    names.dedup();
    for name in names {
        if let Some((_, text)) = CORES.iter().find(|&&(known, _)| known == name) {
            graft(r, root, &name, text);
        }
    }
}

fn value<'t>(table: &'t Table, key: &str) -> Option<&'t Value> {
    table.get(key).map(|entry| &entry.item.value)
}

fn graft(r: &mut Reader, root: &mut Table, name: &str, text: &str) {
    let index = r.sources.len();
    r.sources.push(source(&format!("machines/cores/{name}.toml"), text, false));
    let (mut core, faults) = tree::parse(index, text);
    for (place, message) in faults {
        r.fault(place, message, "");
    }
    let place = Place { source: index, start: 0, end: 0, is_poisoned: false };
    let entry = |key: &str, table| Entry {
        key: key.to_string(),
        key_place: place,
        item: Item { value: Value::Table(table), place },
    };
    let sources = core.entries.iter().position(|entry| entry.key == "sources");
    let sources = sources.map(|at| core.entries.remove(at));
    let mut base = Table { entries: vec![entry("cores", Table::default())] };
    base.entries.extend(sources);
    if let Value::Table(cores) = &mut base.entries[0].item.value {
        cores.entries.push(entry(name, core));
    }
    base.merge(std::mem::take(root));
    *root = base;
}

/// Takes the parameters out of the overrides, makes the text and loads it.
fn load_generated(
    name: &str,
    mut smp: generate::Smp,
    overrides: &[String],
) -> Result<Machine, Report> {
    let mut rest = Vec::new();
    for over in overrides {
        let Some((key, value)) = over.split_once('=') else {
            rest.push(over.clone());
            continue;
        };
        let Some(key) = key.trim().strip_prefix("smp.") else {
            rest.push(over.clone());
            continue;
        };
        let number = value.trim().parse().ok();
        let slot = match key {
            "packages" => &mut smp.packages,
            "llc_width" => &mut smp.llc_width,
            "smt" => &mut smp.smt,
            _ => return Err(unknown_parameter(over, key)),
        };
        match number {
            Some(number) => *slot = number,
            None => return Err(bare_override(over, "not a whole number", "")),
        }
    }
    if let Some(message) = generate::fault(smp) {
        return Err(bare_fault(name, &message, ""));
    }
    let body = if smp.isa == Isa::X86_64 { SMP } else { SMP_ARM };
    let text = format!("{}{body}", generate::head(name, smp));
    Machine::from_toml(&text, name, &rest)
}

fn unknown_parameter(text: &str, key: &str) -> Report {
    let help = match near(key, generate::SMP_KEYS) {
        Some(near) => format!("did you mean smp.{near}?"),
        None => format!("known here: {}", generate::SMP_KEYS.join(", ")),
    };
    bare_override(text, &format!("unknown key `smp.{key}`"), &help)
}

fn bare_override(text: &str, message: &str, help: &str) -> Report {
    let mut r = Reader::over(source(OVERRIDE, text, true));
    let place = Place { source: 0, start: 0, end: text.len(), is_poisoned: false };
    r.fault(place, message, help);
    r.report()
}
