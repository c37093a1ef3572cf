//! Where tests come from: the folders `x86` and `arm64` of this crate, or a file of one JSON object
//! a line with `name`, `source` and `allowed`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use topology::Isa;

use crate::program::Test;
use crate::syntax;

/// A test and its allowed states as somebody else found them.
#[derive(Clone, Debug)]
pub struct Case {
    /// The test.
    pub test: Test,
    /// States as text, sorted.
    pub allowed: Vec<String>,
}

/// The folder of the classics of an instruction set.
#[must_use]
pub fn folder(isa: Isa) -> PathBuf {
    let name = match isa {
        Isa::X86_64 => "x86",
        Isa::Aarch64 => "arm64",
    };
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// Reads the classics of a folder, by name.
///
/// Errors: a file that cannot be read or is no test, or a test that states no allowed set.
pub fn classics(folder: &Path) -> Result<Vec<(PathBuf, Test)>, String> {
    let at = |path: &Path, e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
    let mut paths = fs::read_dir(folder)
        .and_then(|entries| entries.map(|e| e.map(|e| e.path())).collect::<io::Result<Vec<_>>>())
        .map_err(|e| at(folder, &e))?;
    paths.retain(|p| p.extension().is_some_and(|e| e == "litmus"));
    paths.sort();
    paths
        .into_iter()
        .map(|path| {
            let text = fs::read_to_string(&path).map_err(|e| at(&path, &e))?;
            let test = syntax::parse(&text).map_err(|e| at(&path, &e))?;
            Ok((path, test))
        })
        .collect()
}

/// Reads a corpus.
///
/// Errors: the line that is no JSON object with these keys, or no test.
pub fn corpus(text: &str) -> Result<Vec<Case>, String> {
    text.lines()
        .enumerate()
        .filter(|(_, l)| !l.trim().is_empty())
        .map(|(n, l)| case(l).map_err(|e| format!("line {}: {e}", n + 1)))
        .collect()
}

fn case(line: &str) -> Result<Case, String> {
    let row: serde_json::Value = serde_json::from_str(line).map_err(|e| e.to_string())?;
    let text = |key: &str| row[key].as_str().ok_or_else(|| format!("no text `{key}`"));
    let mut test = syntax::parse(text("source")?).map_err(|e| e.to_string())?;
    test.name = text("name")?.to_owned();
    let states = row["allowed"].as_array().ok_or("no list `allowed`")?;
    let mut allowed = states
        .iter()
        .map(|s| s.as_str().map(str::to_owned).ok_or_else(|| "a state is no text".to_owned()))
        .collect::<Result<Vec<_>, _>>()?;
    allowed.sort();
    Ok(Case { test, allowed })
}
