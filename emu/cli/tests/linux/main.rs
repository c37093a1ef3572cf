//! Unmodified Linux: the distribution's arm64 kernel with a static busybox boots to a shell, runs a
//! script and powers off, twice with the same console.
//!
//! The script (`init.sh`) shows what the kernel has found in `/sys/devices/system`, which is held
//! against the machine file, and what it complained of, which must be nothing. `.ci/run linux`
//! fetches the files that `CROSSCALL_LINUX_IMAGE` and `CROSSCALL_BUSYBOX` name. In release builds
//! only: a boot executes some hundred million instructions a cpu. `EXHAUSTIVE=1` boots more shapes.
//! The random place of the kernel, for which firmware would have to give a seed, is off by its
//! command line. So are the kernel's own tests of its cryptography, which are more than half of a
//! boot with them, but for the boot of one cpu.

mod boot;
mod sysfs;

use std::collections::BTreeSet;

use boot::Boot;
use sysfs::Files;
use topology::Machine;

const APPEND: &str = "loglevel=7 cryptomgr.notests nokaslr";

/// Words of a complaint of any level, which the kernel must not have even after the script.
const NEVER: &[&str] = &["WARNING:", "BUG:", "Call trace:", "Oops", "[Firmware"];

fn check(boot: &Boot) {
    let Some(tools) = boot::tools() else { return };
    let [first, second] = boot.twice(&tools);
    let text = String::from_utf8_lossy(&first.stdout);
    assert_eq!(first.status.code(), Some(0), "{text}\n{}", String::from_utf8_lossy(&first.stderr));
    let lines = || text.lines().map(str::trim_end);
    let ran = format!("machine aarch64 on {} cpus", boot.cpus);
    for line in [&ran, "sum 5050", "sed ran", "typed crosscall"] {
        assert!(lines().any(|found| found == line), "no line `{line}` in\n{text}");
    }

    let set: Vec<String> = boot.set.iter().map(|set| (*set).to_owned()).collect();
    let machine = Machine::load(boot.machine, &set).expect("a machine");
    let shown = lines().filter_map(|line| line.strip_prefix("sysfs ")?.split_once(':'));
    let shown: Files = shown.map(|(path, value)| (path.to_owned(), value.to_owned())).collect();
    let expected = sysfs::expected(&machine, boot.cpus);
    let paths: BTreeSet<&String> = expected.keys().chain(shown.keys()).collect();
    let differences: Vec<String> = paths
        .into_iter()
        .filter(|path| expected.get(*path) != shown.get(*path))
        .map(|path| format!("{path}: {:?}, by the file {:?}", shown.get(path), expected.get(path)))
        .collect();
    assert!(differences.is_empty(), "{}\n{text}", differences.join("\n"));

    let messages = lines().find_map(|line| line.strip_prefix("messages ")?.parse::<u32>().ok());
    assert!(messages.is_some_and(|n| n > 100), "{messages:?} messages in\n{text}");
    let complains =
        |line: &&str| line.starts_with("complaint ") || NEVER.iter().any(|w| line.contains(w));
    let complaints: Vec<&str> = lines().filter(complains).collect();
    assert!(complaints.is_empty(), "{}\n{text}", complaints.join("\n"));
    let other = String::from_utf8_lossy(&second.stdout);
    assert!(second.stdout == first.stdout, "two consoles:\n{text}\nand\n{other}");
}

/// Shapes that take longer than the gate has.
fn check_if_exhaustive(boot: &Boot) {
    if std::env::var_os("EXHAUSTIVE").is_some() {
        check(boot);
    }
}

/// With its power-down state, so that cpuidle has a choice and timers are broadcast.
#[test]
fn the_stock_kernel_runs_a_script_on_four_cpus() {
    let set = &["idle.core-down.enabled=true"];
    check(&Boot { machine: "neoverse-n1-2s", cpus: 4, set, append: APPEND });
}

/// With the kernel's own tests of its cryptography, of which one that fails is a complaint.
#[test]
fn the_stock_kernel_runs_a_script_on_one_cpu() {
    let append = "loglevel=7 nokaslr";
    check_if_exhaustive(&Boot { machine: "neoverse-n1-2s", cpus: 1, set: &[], append });
}

#[test]
fn the_stock_kernel_runs_a_script_on_64_cpus() {
    check_if_exhaustive(&Boot { machine: "neoverse-n1-2s", cpus: 64, set: &[], append: APPEND });
}

/// GICv2, cores of two clusters, idle states of cpu and cluster.
#[test]
fn the_stock_kernel_runs_a_script_on_a_board() {
    check_if_exhaustive(&Boot { machine: "hikey-620", cpus: 8, set: &[], append: APPEND });
}
