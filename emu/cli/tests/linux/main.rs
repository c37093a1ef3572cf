//! Unmodified Linux: the distribution's arm64 kernel with a static busybox boots to a shell, runs a
//! script and powers off.
//!
//! `CROSSCALL_LINUX_IMAGE` and `CROSSCALL_BUSYBOX` name the files; `.ci/run linux` fetches them. Of
//! use in release builds only: a boot executes some hundred million instructions a cpu. The
//! kernel's own tests of its cryptography, which take most of a boot, are off by its command line.

use std::path::PathBuf;
use std::process::{Command, Output};

/// What /init does; each line of its output is checked.
const INIT: &str = "#!/bin/sh
B=/bin/busybox
$B mount -t proc proc /proc
$B mount -t sysfs sys /sys
echo machine $($B uname -m) online $($B cat /sys/devices/system/cpu/online)
echo sum $($B seq 1 100 | $B awk '{ s += $1 } END { print s }')
echo text | $B tr a-z A-Z | $B sed 's/TEXT/sed ran/'
$B sleep 0.01
$B dmesg | $B grep -ciE 'warning|bug:|unhandled|oops' | $B sed 's/^/complaints /'
read part
read line
echo typed $line
exec $B poweroff -f
";

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

/// Paths of kernel and busybox, or `None` where the test is skipped.
#[expect(clippy::print_stdout, reason = "a skipped test must say what it needs")]
fn tools() -> Option<[PathBuf; 2]> {
    let paths = ["CROSSCALL_LINUX_IMAGE", "CROSSCALL_BUSYBOX"].map(std::env::var_os);
    if let [Some(kernel), Some(busybox)] = paths {
        return Some([kernel.into(), busybox.into()]);
    }
    println!("skipped: needs CROSSCALL_LINUX_IMAGE and CROSSCALL_BUSYBOX");
    None
}

fn boot(machine: &str, [kernel, busybox]: &[PathBuf; 2]) -> Output {
    let folder = std::env::temp_dir().join(format!("crosscall-{}-{machine}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let [initrd, input] = ["initrd", "input"].map(|name| folder.join(name));
    let busybox = std::fs::read(busybox).expect("busybox");
    let (folder_mode, file, link, device) = (0o40755, 0o100_755, 0o120_777, 0o20600);
    let disk = archive(&[
        ("bin", folder_mode, b"", [0; 2]),
        ("proc", folder_mode, b"", [0; 2]),
        ("sys", folder_mode, b"", [0; 2]),
        ("dev", folder_mode, b"", [0; 2]),
        ("dev/console", device, b"", [5, 1]),
        ("bin/busybox", file, &busybox, [0; 2]),
        ("bin/sh", link, b"busybox", [0; 2]),
        ("init", file, INIT.as_bytes(), [0; 2]),
    ]);
    std::fs::write(&initrd, disk).expect("written");
    // The driver throws away what has come before it starts: 64 bytes at most, the end of them
    // amid a line.
    std::fs::write(&input, "crosscall\n".repeat(20)).expect("written");
    let output = Command::new(env!("CARGO_BIN_EXE_crosscall"))
        .arg("run")
        .arg(kernel)
        .args(["--machine", machine, "--limit", "60s", "--append", "loglevel=7 cryptomgr.notests"])
        .arg("--initrd")
        .arg(&initrd)
        .arg("--input")
        .arg(&input)
        .output()
        .expect("the tool runs");
    let _ = std::fs::remove_dir_all(folder);
    output
}

fn check(machine: &str, online: &str) {
    let Some(tools) = tools() else { return };
    let first = boot(machine, &tools);
    let text = String::from_utf8_lossy(&first.stdout);
    assert_eq!(first.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&first.stderr));
    let online = format!("machine aarch64 online {online}");
    for line in [&online, "sum 5050", "sed ran", "complaints 0", "typed crosscall"] {
        assert!(text.lines().any(|found| found.trim_end() == line), "no line `{line}` in\n{text}");
    }
    assert_eq!(boot(machine, &tools).stdout, first.stdout, "another console the second time");
}

#[test]
fn the_stock_kernel_runs_a_script_on_one_cpu() {
    check("smp-arm-1", "0");
}

#[test]
fn the_stock_kernel_runs_a_script_on_four_cpus() {
    check("quad-arm", "0-3");
}
