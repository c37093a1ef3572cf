//! The other side: qemu's user mode, running `guest/runner.c`.

use std::io::{self, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::case::{Case, RECORD_BYTES};

/// Compiles the program; `None` when there is no compiler or no emulator.
///
/// # Panics
/// When the compiler refuses it, or, with `CROSSCALL_REQUIRE_TOOLS`, when there is none.
#[must_use]
pub fn build(folder: &Path) -> Option<std::path::PathBuf> {
    let is_there = |tool: &str| {
        let run = Command::new(tool).arg("--version").stdout(Stdio::null()).status();
        run.is_ok_and(|status| status.success())
    };
    if !["clang", "ld.lld", "qemu-aarch64"].into_iter().all(is_there) {
        let is_required = std::env::var_os("CROSSCALL_REQUIRE_TOOLS").is_some();
        assert!(!is_required, "needs clang, ld.lld and qemu-aarch64");
        return None;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("guest/runner.c");
    let program = folder.join("runner_aarch64");
    let status = Command::new("clang")
        .args(["--target=aarch64-linux-gnu", "-O1", "-ffreestanding", "-nostdlib", "-static"])
        .args(["-fuse-ld=lld", "-fno-pic", "-mgeneral-regs-only", "-Wl,--build-id=none"])
        .args(["-Wl,--image-base=0x200000", "-Wl,--defsym=CODE=0x100000", "-o"])
        .arg(&program)
        .arg(&source)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "clang refuses {}", source.display());
    Some(program)
}

/// Runs records and returns what became of them.
///
/// # Errors
/// Of the process, or when it ends early.
pub fn run(program: &Path, cases: &[Case]) -> io::Result<Vec<Case>> {
    let mut child = Command::new("qemu-aarch64")
        .args(["-cpu", "neoverse-n1"])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let (Some(mut stdin), Some(mut stdout)) = (stdin, stdout) else {
        return Err(io::Error::other("no pipes"));
    };
    let mut input = Vec::new();
    cases.iter().for_each(|case| case.write(&mut input));
    let mut output = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(move || stdin.write_all(&input));
        stdout.read_to_end(&mut output)
    })?;
    child.wait()?;
    if output.len() != cases.len() * RECORD_BYTES {
        let done = output.len() / RECORD_BYTES;
        let words = cases.get(done).map(|case| case.words);
        return Err(io::Error::other(format!("qemu ended at record {done}: {words:08x?}")));
    }
    Ok(output.chunks_exact(RECORD_BYTES).map(Case::read).collect())
}
