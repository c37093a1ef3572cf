//! The guests `smp.c` and `smp_arm64.c` on machines of every size and shape at which something
//! changes: sets of CPUs that fill a word, APIC IDs that need x2APIC, clusters of 16 that an SGI
//! reaches at once, LLCs of odd widths, packages of one CPU.
//!
//! A guest starts all CPUs, sends to each, to all and to clusters, and stores lines that all read;
//! that for arm64 changes a translation that all have used. Here what it found is held against the
//! topology. By default a few sizes; `EXHAUSTIVE=1
//! cargo test -p emu_machine --test shapes` runs all of them and prints how long a start takes.

#[path = "common/guest.rs"]
mod guest;
#[path = "common/trace.rs"]
mod trace;

use std::path::Path;

use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::{CpuId, SimTime};
use topology::Isa;

/// A machine on which a guest has passed.
struct Passed {
    case: String,
    topology: topology::Machine,
    machine: Machine,
    console: String,
    /// Simulated time of the start.
    started: SimTime,
}

/// Boots a guest, which passes.
fn pass(image: &Image, machine: &str, set: &[String]) -> Passed {
    let case = format!("{machine} {set:?}");
    let topology = topology::Machine::load(machine, set).expect(&case);
    let mut machine = Machine::new(&topology, Options::default()).expect(&case);
    machine.load(image, "").expect(&case);
    let time = SimTime::from_us(1_000_000);
    let stop = machine.run(&Until { time, regions: true }, &mut ());
    assert!(matches!(stop, Stop::Region { begin: true, .. }), "{case}: {stop:?}");
    let started = machine.now();
    let stop = machine.run(&Until { time, regions: false }, &mut ());
    let console = String::from_utf8_lossy(machine.console()).into_owned();
    assert_eq!(stop, Stop::Exit { code: 0 }, "{case}: {console}");
    // Every reader lost its copy of the round's line to each store.
    for c in 1..topology.cpus.len() as u32 {
        assert!(machine.counters(CpuId(c)).snoops >= 4, "{case} cpu{c}");
    }
    Passed { case, topology, machine, console, started }
}

/// Checks what `smp` found on a machine; simulated time of the start.
fn check(image: &Image, machine: &str, set: &[String]) -> SimTime {
    let Passed { case, topology, machine, console, started } = pass(image, machine, set);
    let cpus = topology.cpus.len();
    let is_x2apic = topology.apic.mode == topology::ApicMode::X2apic;
    assert_eq!(is_x2apic, topology.cpus.iter().any(|c| c.apic_id > 254), "{case}");
    let mode = if is_x2apic { "x2apic" } else { "xapic" };
    let wanted = format!("smp: {cpus} cpus in {mode} mode, {cpus} answered\nsmp: passed\n");
    assert_eq!(console, wanted, "{case}");
    let at = image.symbols.find("apic_ids").expect("a symbol").address;
    let ids = machine.read_guest(at, 4 * cpus);
    let mut found: Vec<u32> = ids
        .chunks_exact(4)
        .map(|id| u32::from_le_bytes(id.try_into().expect("four bytes")))
        .collect();
    found.sort_unstable();
    let mut ids: Vec<u32> = topology.cpus.iter().map(|c| c.apic_id).collect();
    ids.sort_unstable();
    assert_eq!(found, ids, "{case}");
    // One to each, to all others, to all, to all by clusters, to all others; not start-up messages.
    let sent: u64 = (0..cpus as u32).map(|c| machine.counters(CpuId(c)).ipi_sent).sum();
    let broadcasts = if is_x2apic { 5 } else { 4 };
    assert_eq!(sent, broadcasts * cpus as u64 - 2, "{case}");
    started
}

fn is_exhaustive() -> bool {
    std::env::var_os("EXHAUSTIVE").is_some()
}

/// These sizes, or all at which something changes.
fn sizes(some: &[u32]) -> Vec<u32> {
    let all = [1..=2, 63..=65, 127..=129, 255..=257, 383..=385, 511..=513, 1024..=1024];
    if is_exhaustive() { all.into_iter().flatten().collect() } else { some.to_vec() }
}

/// As `check`, on arm64.
fn check_arm64(image: &Image, machine: &str, set: &[&str]) -> SimTime {
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    let Passed { case, topology, machine, console, started } = pass(image, machine, &set);
    let cpus = topology.cpus.len();
    assert_eq!(console, format!("smp: {cpus} cpus, {cpus} answered\nsmp: passed\n"), "{case}");
    assert_eq!(machine.check_laws(), Ok(()), "{case}");
    started
}

fn arm64_images(extra: &[&str]) -> Vec<Image> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let build = |t: &guest::Toolchain| {
        let elf = t.build("smp_arm64", extra, out);
        Image::from_elf(&elf, Some(Isa::Aarch64)).expect("a good image")
    };
    guest::arm64_toolchains().iter().map(build).collect()
}

fn images() -> Vec<Image> {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let toolchains = guest::toolchains();
    let build = |t: &guest::Toolchain| Image::from_elf(&t.build("smp", &[], out), None);
    toolchains.iter().map(|t| build(t).expect("a good image")).collect()
}

#[test]
fn every_cpu_is_started_interrupted_and_sees_stores_at_every_size() {
    for image in images() {
        for cpus in sizes(&[1, 2, 64, 65, 255, 256, 257, 384]) {
            let started = check(&image, &format!("smp-{cpus}"), &[]);
            if is_exhaustive() {
                println!("smp-{cpus}: up after {started}");
            }
        }
        for machine in ["epyc-7763-2s", "epyc-9654-2s"] {
            check(&image, machine, &[]);
        }
    }
}

#[test]
fn every_cpu_is_started_interrupted_and_sees_stores_in_every_shape() {
    let sizes = if is_exhaustive() { &[24, 48, 96, 384][..] } else { &[24][..] };
    let set = |key: &str, n: u32| format!("smp.{key}={n}");
    for image in images() {
        for cpus in sizes {
            for smt in [1, 2] {
                for width in [1, 3, 6, 12] {
                    for packages in [1, 2, cpus / smt] {
                        if cpus / smt / packages % width == 0 {
                            let shape = [
                                set("packages", packages),
                                set("llc_width", width),
                                set("smt", smt),
                            ];
                            check(&image, &format!("smp-{cpus}"), &shape);
                        }
                    }
                }
            }
        }
    }
}

/// By code with LSE atomics and by code with exclusives.
#[test]
fn every_cpu_of_arm64_is_started_interrupted_and_sees_stores_and_invalidations() {
    for image in arm64_images(&[]) {
        for cpus in sizes(&[1, 2, 15, 16, 17, 65, 257, 384]) {
            let started = check_arm64(&image, &format!("smp-arm-{cpus}"), &[]);
            if is_exhaustive() {
                println!("smp-arm-{cpus}: up after {started}");
            }
        }
        check_arm64(&image, "smp-arm-72", &["smp.llc_width=36", "smp.smt=2"]);
        for machine in ["neoverse-n1-2s", "graviton2"] {
            check_arm64(&image, machine, &[]);
        }
    }
    // A Cortex-A53 has no LSE.
    for image in arm64_images(&["-DGICV2", "-march=armv8-a", "-mno-outline-atomics"]) {
        for cpus in 1..=8 {
            check_arm64(&image, &format!("smp-arm-{cpus}"), &["gic.version=2"]);
        }
        check_arm64(&image, "hikey-620", &[]);
    }
}

#[test]
fn the_guest_kernel_starts_1024_cpus() {
    for name in ["smp-1024", "smp-arm-1024"] {
        let topology = trace::topology(name);
        let mut machine = Machine::new(&topology, Options::default()).expect(name);
        machine.load(&trace::kernel(topology.isa), "").expect(name);
        let until = Until { time: SimTime::from_us(100_000), regions: false };
        assert_eq!(machine.run(&until, &mut ()), Stop::Exit { code: 0 }, "{name}");
        let console = String::from_utf8_lossy(machine.console()).into_owned();
        assert_eq!(console, "kern: 1024 cpus up\nkern: passed\n", "{name}");
    }
}
