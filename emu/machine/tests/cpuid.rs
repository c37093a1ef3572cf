//! CPUID leaves: an operating system's enumeration finds the topology they were made from.
//!
//! The enumeration follows what Linux does on AMD and Intel parts: package, core and sibling from
//! leaf 0xB, LLC from the sharing count of leaf 4 or 0x8000001D, all by shifts of the APIC ID.

use std::collections::BTreeMap;

use emu_machine::cpuid::{CpuidTable, Feature, leaves, masked_features, shown_features};
use emu_machine::implemented_features;
use topology::{Isa, Machine, list};

const CORE: u32 = 2;

fn machine(name: &str) -> Machine {
    Machine::load(name, &[]).expect("a shipped machine")
}

/// What an operating system knows of one cpu; numbers mean nothing but equality.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    apic_id: u32,
    package: u32,
    core: u32,
    llc: u32,
    threads_per_core: u32,
}

/// Reads the levels of leaf 0xB or 0x1F: APIC ID and the shift of each level kind.
fn levels(table: &CpuidTable, leaf: u32) -> (u32, BTreeMap<u32, u32>) {
    let mut shifts = BTreeMap::new();
    let mut last = 0;
    for subleaf in 0.. {
        let [eax, ebx, ecx, edx] = table.lookup(leaf, subleaf);
        assert_eq!(ecx & 0xff, subleaf);
        if ecx >> 8 & 0xff == 0 {
            assert_eq!((eax, ebx), (0, 0));
            return (edx, shifts);
        }
        assert!(eax >= last, "shifts grow outwards");
        last = eax;
        shifts.insert(ecx >> 8 & 0xff, eax);
    }
    unreachable!("a level of kind 0 ends the list")
}

/// Returns how many IDs share the outermost cache.
fn sharing_of_llc(table: &CpuidTable, leaf: u32) -> u32 {
    let mut sharing = 0;
    for subleaf in 0.. {
        let [eax, ebx, ecx, _] = table.lookup(leaf, subleaf);
        if eax & 0x1f == 0 {
            break;
        }
        let bytes = ((ebx >> 22) + 1) * ((ebx & 0xfff) + 1) * (ecx + 1);
        assert!(bytes >= 16 << 10, "subleaf {subleaf}: {bytes} bytes");
        sharing = (eax >> 14 & 0xfff) + 1;
    }
    sharing
}

fn enumerate(table: &CpuidTable, is_amd: bool) -> Seen {
    let (apic_id, shifts) = levels(table, 0xb);
    let smt_shift = shifts[&1];
    let package_shift = shifts[&CORE];
    let sharing = sharing_of_llc(table, if is_amd { 0x8000_001d } else { 4 });
    let llc_shift = sharing.next_power_of_two().trailing_zeros();
    Seen {
        apic_id,
        package: apic_id >> package_shift,
        core: apic_id >> smt_shift,
        llc: apic_id >> llc_shift,
        threads_per_core: table.lookup(0xb, 0)[1],
    }
}

/// Asserts that two numberings divide the cpus into the same groups.
fn assert_same_groups(what: &str, pairs: impl Iterator<Item = (u32, usize)>) {
    let (mut there, mut back) = (BTreeMap::new(), BTreeMap::new());
    for (seen, told) in pairs {
        assert_eq!(*there.entry(seen).or_insert(told), told, "{what} {seen:#x} is split");
        assert_eq!(*back.entry(told).or_insert(seen), seen, "{what} {told} is merged");
    }
}

#[test]
fn enumeration_from_the_leaves_gives_the_topology_back() {
    for name in ["duo", "quad", "epyc-7763-2s", "epyc-9654-2s", "smp-6", "smp-256", "smp-1024"] {
        let machine = machine(name);
        let is_amd = machine.identity.vendor == "AuthenticAMD";
        let seen: Vec<Seen> = (0..machine.cpus.len())
            .map(|cpu| enumerate(&leaves(&machine, cpu, Feature::ALL), is_amd))
            .collect();
        let places = || machine.cpus.iter().zip(&seen);
        assert!(places().all(|(place, seen)| place.apic_id == seen.apic_id), "{name}");
        assert_same_groups("package", places().map(|(p, s)| (s.package, p.package)));
        assert_same_groups("core", places().map(|(p, s)| (s.core, p.core)));
        assert_same_groups("llc", places().map(|(p, s)| (s.llc, p.llc)));
        for (place, seen) in places() {
            let threads = machine.cores[place.core].cpus.len();
            assert_eq!(usize::try_from(seen.threads_per_core), Ok(threads), "{name}");
        }
    }
}

#[test]
fn amd_parts_answer_as_amd_and_generic_ones_as_intel() {
    let table = leaves(&machine("epyc-7763-2s"), 255, Feature::ALL);
    assert_eq!(table.lookup(4, 0), [0; 4]);
    assert_eq!(table.lookup(0x15, 0), [0; 4]);
    assert_eq!(table.lookup(0x8000_001e, 0)[0], 255);
    assert_eq!(table.lookup(0x8000_0008, 0)[2], 7 << 12 | 127);
    assert_eq!(table.lookup(1, 0)[0], 0x00a0_0f10 | 0x1 & 0xf);
    let waitpkg = table.lookup(7, 0)[2] >> 5 & 1;
    let deadline = table.lookup(1, 0)[2] >> 24 & 1;
    assert_eq!((waitpkg, deadline), (0, 0), "Zen has neither");

    let duo = machine("duo");
    let table = leaves(&duo, 1, Feature::ALL);
    assert_ne!(table.lookup(4, 0), [0; 4]);
    assert_eq!(table.lookup(0x8000_001d, 0), [0; 4]);
    let [denominator, numerator, crystal, _] = table.lookup(0x15, 0);
    let tsc_hz = u64::from(crystal) * u64::from(numerator) / u64::from(denominator);
    assert_eq!(tsc_hz, duo.clocks.tsc_khz * 1000);
    assert_eq!(table.lookup(7, 0)[2] >> 5 & 1, 1, "generic has WAITPKG");
}

#[test]
fn text_leaves_spell_vendor_and_brand() {
    let machines = list().into_iter().filter(|name| !name.ends_with('N')).map(machine);
    for machine in machines.filter(|machine| machine.isa == Isa::X86_64) {
        let table = leaves(&machine, 0, Feature::ALL);
        let [_, b, c, d] = table.lookup(0, 0);
        let text: Vec<u8> = [b, d, c].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(text, machine.identity.vendor.as_bytes());
        let words = (0x8000_0002..=0x8000_0004).flat_map(|leaf| table.lookup(leaf, 0));
        let brand: Vec<u8> = words.flat_map(u32::to_le_bytes).filter(|&byte| byte != 0).collect();
        assert_eq!(brand, machine.identity.brand.as_bytes());
    }
}

#[test]
fn only_features_of_machine_and_model_show() {
    let machine = machine("duo");
    let implemented = [Feature::Waitpkg, Feature::Monitor, Feature::Sse2, Feature::Sse4a];
    let shown = shown_features(&machine, &implemented);
    assert!(shown.contains(&Feature::Waitpkg) && !shown.contains(&Feature::Sse4a));
    let table = leaves(&machine, 0, &implemented);
    assert_eq!(table.lookup(7, 0), [0, 0, 1 << 5, 0]);
    assert_eq!(table.lookup(1, 0)[2], 1 << 3);
    let masked = masked_features(&machine, &implemented);
    assert!(masked.contains(&"x2apic") && !masked.contains(&"waitpkg"));
    assert_eq!(masked.len() + shown.len(), machine.features.names.len());
    let none = leaves(&machine, 0, &[]);
    assert_eq!((none.lookup(5, 0), none.lookup(0xd, 0)), ([0; 4], [0; 4]));
}

#[test]
fn what_the_model_lacks_is_masked() {
    let machine = machine("epyc-7763-2s");
    let implemented = implemented_features();
    let shown = shown_features(&machine, &implemented);
    let masked = masked_features(&machine, &implemented);
    assert!(masked.contains(&"avx2") && !masked.contains(&"cx16"), "{masked:?}");
    assert!(shown.contains(&Feature::Cx16) && !shown.contains(&Feature::Avx2), "{shown:?}");
    // The text for people says the same.
    let names: Vec<&str> = implemented.iter().map(|feature| feature.name()).collect();
    let text = machine.render(&names);
    let line = |start: &str| text.lines().find(|line| line.trim().starts_with(start));
    let words = |start: &str| line(start).map(|line| line.split_whitespace().collect::<Vec<_>>());
    assert!(words("shown:").is_some_and(|all| all.contains(&"cx16") && !all.contains(&"avx2")));
    assert!(words("masked").is_some_and(|all| all.contains(&"avx2") && !all.contains(&"cx16")));
}

#[test]
fn monitor_leaf_counts_the_mwait_states_that_are_told() {
    let table = leaves(&machine("epyc-7763-2s"), 0, Feature::ALL);
    // C1 by hint 0; C2 is entered by a port and has no hint.
    assert_eq!(table.lookup(5, 0), [64, 64, 3, 0x10]);
}
