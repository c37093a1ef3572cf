//! One boot: the initial RAM disk, and the command that is run.

use std::path::PathBuf;
use std::process::{Command, Output};
use std::thread;

const INIT: &[u8] = include_bytes!("init.sh");

/// Which machine boots, and what with.
pub(crate) struct Boot {
    pub(crate) machine: &'static str,
    pub(crate) cpus: usize,
    /// Keys of the machine file that are overridden.
    pub(crate) set: &'static [&'static str],
    /// The kernel's command line.
    pub(crate) append: &'static str,
}

/// Kernel and busybox, or `None` where the test is skipped.
#[expect(clippy::print_stdout, reason = "a skipped test must say what it needs")]
pub(crate) fn tools() -> Option<[PathBuf; 2]> {
    if cfg!(debug_assertions) {
        println!("skipped: needs a release build");
        return None;
    }
    let paths = ["CROSSCALL_LINUX_IMAGE", "CROSSCALL_BUSYBOX"].map(std::env::var_os);
    if let [Some(kernel), Some(busybox)] = paths {
        return Some([kernel.into(), busybox.into()]);
    }
    let is_required = std::env::var("CROSSCALL_REQUIRE_TOOLS").is_ok_and(|v| v == "1");
    assert!(!is_required, "CROSSCALL_LINUX_IMAGE and CROSSCALL_BUSYBOX are required");
    println!("skipped: needs CROSSCALL_LINUX_IMAGE and CROSSCALL_BUSYBOX");
    None
}

/// An archive in the kernel's format (`newc`): name, mode, content, device numbers.
fn archive(entries: &[(&str, u32, &[u8], [u32; 2])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let end = [("TRAILER!!!", 0, &[][..], [0; 2])];
    for (number, (name, mode, content, device)) in entries.iter().chain(&end).enumerate() {
        let [name_len, content_len] = [name.len() + 1, content.len()].map(|n| n as u32);
        let [major, minor] = *device;
        let fields =
            [number as u32, *mode, 0, 0, 1, 0, content_len, 0, 0, major, minor, name_len, 0];
        bytes.extend(b"070701");
        fields.iter().for_each(|field| bytes.extend(format!("{field:08X}").bytes()));
        bytes.extend(name.bytes().chain([0]));
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    }
    bytes
}

fn disk(busybox: &[u8]) -> Vec<u8> {
    let (folder, file, link, device) = (0o40755, 0o100_755, 0o120_777, 0o20600);
    archive(&[
        ("bin", folder, b"", [0; 2]),
        ("proc", folder, b"", [0; 2]),
        ("sys", folder, b"", [0; 2]),
        ("dev", folder, b"", [0; 2]),
        ("dev/console", device, b"", [5, 1]),
        ("bin/busybox", file, busybox, [0; 2]),
        ("bin/sh", link, b"busybox", [0; 2]),
        ("init", file, INIT, [0; 2]),
    ])
}

impl Boot {
    /// The command, twice at the same time.
    pub(crate) fn twice(&self, [kernel, busybox]: &[PathBuf; 2]) -> [Output; 2] {
        let name = format!("crosscall-{}-{}-{}", std::process::id(), self.machine, self.cpus);
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let [initrd, input] = ["initrd", "input"].map(|name| folder.join(name));
        let busybox = std::fs::read(busybox).expect("busybox");
        std::fs::write(&initrd, disk(&busybox)).expect("written");
        // The driver throws away what has come before it starts: 64 bytes at most, the end of them
        // amid a line.
        std::fs::write(&input, "crosscall\n".repeat(20)).expect("written");
        let mut command = Command::new(env!("CARGO_BIN_EXE_crosscall"));
        command.arg("run").arg(kernel).args(["--machine", self.machine, "--limit", "60s"]);
        command.args(["--cpus", &self.cpus.to_string(), "--append", self.append]);
        command.args(self.set.iter().flat_map(|set| ["--set", set]));
        command.arg("--initrd").arg(&initrd).arg("--input").arg(&input);
        let mut again = Command::new(command.get_program());
        again.args(command.get_args());
        let outputs = thread::scope(|scope| {
            let other = scope.spawn(move || again.output().expect("the tool runs"));
            [command.output().expect("the tool runs"), other.join().expect("a thread ends")]
        });
        let _ = std::fs::remove_dir_all(folder);
        outputs
    }
}
