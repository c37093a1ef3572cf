//! Ends of guests that need an image of their own: what is printed, and the exit code.

use std::path::{Path, PathBuf};
use std::process::Command;

#[expect(dead_code, reason = "only the good image is used here")]
#[path = "../../machine/tests/common/elf.rs"]
mod elf;

/// Offset of the entry in the good image's file.
const ENTRY_OFFSET: usize = 0x110;

/// Writes an image that begins with these instructions.
fn image(name: &str, code: &[u8]) -> PathBuf {
    let mut bytes = elf::good();
    elf::patch(&mut bytes, ENTRY_OFFSET, code);
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, bytes).expect("an image is written");
    path
}

/// Runs an image on `quad`; exit code and stderr.
fn run(image: &Path, more: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_crosscall"));
    command.arg("run").arg(image).args(["--machine", "quad", "--limit", "1ms"]).args(more);
    let output = command.env_remove("RUST_BACKTRACE").output().expect("crosscall runs");
    assert_eq!(output.stdout, b"", "{output:?}");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

#[test]
fn a_guest_that_halts_everywhere_is_a_stall_with_a_report() {
    // cli; again: hlt; jmp again
    let halt = image("halt-everywhere.elf", &[0xfa, 0xf4, 0xeb, 0xfd]);
    let (code, text) = run(&halt, &[]);
    assert_eq!(code, Some(3), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    let first = lines[0];
    assert!(first.starts_with("crosscall: stalled at "), "{text}");
    assert!(first.ends_with(": no cpu can ever run again"), "{text}");
    assert!(lines[1].starts_with("cpu 0: waits in HLT for an interrupt, since "), "{text}");
    let place = ", at 0x100012 (start+0x2), interrupts off";
    assert!(lines[1].ends_with(place), "{text}");
    assert_eq!(lines[2], "  no event ever reached it that could have woken it", "{text}");
    let started = "cpu 1-3: waits for its start (INIT without start-up message), since ";
    assert!(lines[3].starts_with(started), "{text}");
}

#[test]
fn a_triple_fault_names_symbol_and_registers() {
    // mov eax, 0x1234; ud2
    let triple = image("triple-fault.elf", &[0xb8, 0x34, 0x12, 0, 0, 0x0f, 0x0b]);
    let (code, text) = run(&triple, &[]);
    assert_eq!(code, Some(4), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("crosscall: guest fault on cpu0 at "), "{text}");
    let what = "an exception could not be delivered (triple fault), at 0x100015 (start+0x5)";
    assert!(lines[0].ends_with(what), "{text}");
    assert!(lines[1].starts_with("     rax 0000000000001234    rcx "), "{text}");
    let rip = "rip 0000000000100015";
    assert!(lines.iter().any(|line| line.contains(rip)), "{text}");
}
