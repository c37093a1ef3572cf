//! `cargo xtask tidy`: rules of this repository that neither rustc nor clippy can see.
//!
//! Checked: module docs, widths and lengths, banned words, imports between crates, files that
//! nothing reads, citations, paths of the machine that a file was written on. Every finding names
//! the section of ARCHITECTURE.md that gives the rule.
//!
//! Not checked here: what a compiler or clippy sees (`[workspace.lints]`, `clippy.toml`), and
//! that every figure of a machine file has a source (the checker of `topology` refuses it).
//!
//! Reading order: `tree` (the files), `source` (Rust text without comments and strings), then one
//! file a subject: `rust`, `imports`, `files`, `citations`, `fidelity`.

mod citations;
mod fidelity;
mod files;
mod imports;
mod rust;
mod source;
#[cfg(test)]
mod tests;
mod tree;

use std::{fmt, io, path::Path};

pub use tree::{File, Tree};

/// A section of ARCHITECTURE.md that gives rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Who may import whom.
    Imports,
    /// What the model never does.
    Invariants,
    /// Form of source files.
    Style,
    /// Which files exist, and who reads them.
    Files,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let title = match self {
            Self::Imports => "Imports",
            Self::Invariants => "Invariants",
            Self::Style => "Style",
            Self::Files => "Files",
        };
        write!(f, "ARCHITECTURE.md, {title}")
    }
}

/// One thing that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, relative to the root, with `/`.
    pub path: String,
    /// The line, from 1; 0 when the file as a whole is meant.
    pub line: usize,
    /// What is wrong, and the way out.
    pub message: String,
    /// Where the rule stands.
    pub rule: Rule,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        write!(f, ": {} ({})", self.message, self.rule)
    }
}

/// Where checks put what they find.
#[derive(Debug, Default)]
struct Findings(Vec<Finding>);

impl Findings {
    fn add(&mut self, rule: Rule, file: &File, line: usize, message: impl Into<String>) {
        self.0.push(Finding { path: file.path.clone(), line, message: message.into(), rule });
    }
}

/// The task: checks this repository. All findings are in the message of the error.
///
/// Errors: when there are findings, or arguments, or files cannot be read.
pub fn run(args: &[String]) -> Result<(), String> {
    if let [argument, ..] = args {
        return Err(format!("unknown argument `{argument}`; tidy takes none"));
    }
    let findings = check_repository(&crate::repository_root()).map_err(|e| e.to_string())?;
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    match lines.len() {
        0 => Ok(()),
        n => Err(format!("{n} findings\n{}", lines.join("\n"))),
    }
}

/// Checks every file of the repository at `root`.
///
/// Errors: when the files cannot be listed or read.
pub fn check_repository(root: &Path) -> io::Result<Vec<Finding>> {
    Ok(check(&Tree::read(root)?))
}

/// Checks the files of `tree`. Findings come in order of path and line.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Findings::default();
    rust::check(tree, &mut found);
    imports::check(tree, &mut found);
    files::check(tree, &mut found);
    citations::check(tree, &mut found);
    fidelity::check(tree, &mut found);
    let mut findings = found.0;
    findings.sort_by(|a, b| (&a.path, a.line, &a.message).cmp(&(&b.path, b.line, &b.message)));
    findings
}
