//! The files that tidy looks at: those that git tracks or would track, or all below a folder.

use std::{fs, io, path::Path, process::Command};

/// One file.
#[derive(Clone, Debug)]
pub struct File {
    /// Relative to the root, with `/`.
    pub path: String,
    /// What is in it.
    pub bytes: Vec<u8>,
}

impl File {
    /// The text, or nothing if it is not text.
    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.bytes).unwrap_or("")
    }

    /// The last component of the path.
    pub fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    /// The path of the folder, empty for the root.
    pub fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// Is it Rust?
    pub fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }

    /// Is it test, benchmark or example code as a whole, by its place or name?
    pub fn is_test(&self) -> bool {
        let path = format!("/{}", self.path);
        ["/tests/", "/benches/", "/examples/"].iter().any(|folder| path.contains(folder))
            || path.ends_with("/tests.rs")
            || path.ends_with("_test.rs")
    }
}

/// All files, in order of their paths.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    /// The files.
    pub files: Vec<File>,
}

impl Tree {
    /// Makes a tree of texts, for tests.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter();
        Self {
            files: files
                .map(|&(path, text)| File { path: path.to_owned(), bytes: text.into() })
                .collect(),
        }
    }

    /// Reads the files below `root` that git tracks or would add; without git, all that are
    /// neither hidden nor build output.
    ///
    /// Errors: when a file cannot be read.
    pub fn read(root: &Path) -> io::Result<Self> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            match fs::read(root.join(&path)) {
                Ok(bytes) => files.push(File { path, bytes }),
                // Deleted, and git was not told yet.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Self { files })
    }

    /// The file at `path`.
    pub fn get(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// All Rust files.
    pub fn rust(&self) -> impl Iterator<Item = &File> {
        self.files.iter().filter(|file| file.is_rust())
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let out = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let paths: Vec<_> = text.split('\0').filter(|p| !p.is_empty()).map(str::to_owned).collect();
    (out.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let mut folders = vec![String::new()];
    let mut paths = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root.join(&folder))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let is_output = name.starts_with("target");
            let is_hidden = name.starts_with('.') && name != ".ci" && name != ".cargo";
            match entry.file_type()?.is_dir() {
                true if is_output || is_hidden => {}
                true => folders.push(path),
                false => paths.push(path),
            }
        }
    }
    Ok(paths)
}
