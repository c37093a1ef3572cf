//! Hash of the guest sources, which ties a committed image to what it was built from.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use guests_abi::note::HASH_BYTES;
use sha2::{Digest, Sha256};

/// Crates that end up in an image, as folders below the root.
const CRATES: [&str; 3] = ["guests/abi", "guests/kern", "guests/sched"];

/// SHA-256 over the guest crates: of each file its path, a NUL, its length as eight bytes
/// little-endian and its bytes with LF line ends, in order of path.
///
/// Files: manifests, the kernel's lock file, linker scripts and everything below `src`.
/// Errors: what reading the files gives.
pub fn guest_hash(root: &Path) -> io::Result<[u8; HASH_BYTES]> {
    let mut files = Vec::new();
    for folder in CRATES {
        for entry in fs::read_dir(root.join(folder))? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default();
            if path.is_dir() && name == "src" {
                collect(&path, &mut files)?;
            } else if path.is_file()
                && (name == "Cargo.toml" || name == "Cargo.lock" || has_extension(&path, "ld"))
            {
                files.push(path);
            }
        }
    }
    let mut named = files
        .into_iter()
        .map(|path| (portable_name(root, &path), path))
        .collect::<Vec<(String, PathBuf)>>();
    named.sort();
    let mut hash = Sha256::new();
    for (name, path) in named {
        let bytes = with_lf(&fs::read(path)?);
        hash.update(name.as_bytes());
        hash.update([0]);
        hash.update((bytes.len() as u64).to_le_bytes());
        hash.update(&bytes);
    }
    Ok(hash.finalize().into())
}

/// Lower-case hexadecimal text of a hash.
pub fn hex(hash: &[u8]) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}

/// The path below the root, with `/` on every host.
fn portable_name(root: &Path, path: &Path) -> String {
    let below = path.strip_prefix(root).unwrap_or(path);
    let parts = below.components().map(|part| part.as_os_str().to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}

fn with_lf(bytes: &[u8]) -> Vec<u8> {
    let mut normal = Vec::with_capacity(bytes.len());
    for (at, &byte) in bytes.iter().enumerate() {
        if byte != b'\r' || bytes.get(at + 1) != Some(&b'\n') {
            normal.push(byte);
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_ends_do_not_matter_and_lone_returns_do() {
        assert_eq!(with_lf(b"a\r\nb\n"), b"a\nb\n");
        assert_eq!(with_lf(b"a\rb"), b"a\rb");
    }

    #[test]
    fn the_hash_is_that_of_the_repository_twice() {
        let root = crate::repository_root();
        let first = guest_hash(&root).expect("guest sources");
        assert_eq!(guest_hash(&root).expect("guest sources"), first);
        assert_eq!(hex(&first).len(), 64);
    }
}
