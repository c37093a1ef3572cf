//! Fuzz targets: functions of bytes that may refuse an input, but never panic, hang or take much
//! memory.
//!
//! `cargo xtask fuzz TARGET` runs one under libFuzzer (`src/main.rs`, stable Rust);
//! `tests/corpus.rs` replays the committed inputs, without it, in every test run. What a target
//! checks beyond that stands at its head.
//!
//! Covered is each reader of something that a user gives: image, machine file and overrides,
//! command line, scenario file, litmus file; and what a guest can do to the machine: any code on
//! two cpus, any access of the interrupt controllers. Not covered: readers of this repository's own
//! test data (`.ins`, `.seq`, transcripts), the parsers of the guest kernel.

mod apic_stream;
mod arm64_stream;
mod command_line;
mod elf;
mod gic_stream;
mod image;
mod litmus;
mod scenario;
mod topology_file;
mod twin;
mod world;
mod x86_stream;

/// A target: its name, which is the folder of its inputs, and the function.
pub struct Target {
    /// Name.
    pub name: &'static str,
    /// Takes an input; panics where something is wrong.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: [Target; 9] = [
    Target { name: "elf", run: elf::run },
    Target { name: "topology", run: topology_file::run },
    Target { name: "command_line", run: command_line::run },
    Target { name: "scenario", run: scenario::run },
    Target { name: "litmus", run: litmus::run },
    Target { name: "x86_stream", run: x86_stream::run },
    Target { name: "arm64_stream", run: arm64_stream::run },
    Target { name: "apic_stream", run: apic_stream::run },
    Target { name: "gic_stream", run: gic_stream::run },
];

/// Returns a target.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Reads an error as a user would: with all of its sources.
fn read_error(error: &dyn std::error::Error) {
    let mut next = Some(error);
    while let Some(error) = next {
        assert!(!error.to_string().is_empty(), "{error:?} says nothing");
        next = error.source();
    }
}
