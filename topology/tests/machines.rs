//! The shipped and generated machines against facts: counts, numbering, IDs, memory, provenance.

use topology::{ApicMode, Distance, Kind, Machine, Op};

fn load(name: &str, overrides: &[&str]) -> Machine {
    let overrides: Vec<String> = overrides.iter().map(|text| text.to_string()).collect();
    Machine::load(name, &overrides).unwrap_or_else(|report| panic!("{report}"))
}

fn state<'m>(machine: &'m Machine, name: &str) -> &'m topology::IdleState {
    machine.idle.iter().find(|state| state.name == name).expect("the state is there")
}

#[test]
fn every_shipped_machine_resolves() {
    for name in topology::list() {
        let name = name.replace('N', "16");
        let machine = load(&name, &[]);
        assert_eq!(machine.id, name);
        assert!(machine.figures.iter().all(|figure| !figure.source.is_empty()));
        assert!(machine.figures.len() > 100, "{name}");
        let text = machine.render(&["fp", "fpu"]);
        let window = format!("window W = {}ns (", machine.window_ps() as f64 / 1e3);
        assert!(text.contains(&window), "{text}");
        let shown =
            if machine.isa == topology::Isa::X86_64 { "  shown: fpu" } else { "  shown: fp" };
        assert!(text.lines().any(|line| line == shown));
    }
}

#[test]
fn epyc_7763_has_its_counts_and_ids() {
    let machine = load("epyc-7763-2s", &[]);
    assert_eq!(machine.cpus.len(), 256);
    assert_eq!(machine.cores.len(), 128);
    assert_eq!((machine.llcs.len(), machine.nodes.len(), machine.packages()), (16, 2, 2));
    let ids = [(0, 0), (1, 2), (8, 16), (63, 126), (64, 128), (127, 254), (128, 1), (255, 255)];
    for (cpu, apic_id) in ids {
        assert_eq!(machine.cpus[cpu].apic_id, apic_id, "cpu {cpu}");
    }
    assert_eq!(machine.apic.mode, ApicMode::X2apic, "id 255 is the xAPIC broadcast");
    assert_eq!(machine.cores[0].cpus, [0, 128]);
    let far = [(0, 0), (128, 1), (7, 2), (8, 3), (64, 4)];
    let classes =
        [Distance::Same, Distance::Smt, Distance::Llc, Distance::Package, Distance::Remote];
    for (cpu, class) in far {
        assert_eq!(machine.distance(0, cpu), classes[class]);
    }
    assert_eq!(machine.clocks.core_khz, 3_500_000);
    assert_eq!(machine.cores[0].l2.as_ref().map(|l2| (l2.size, l2.latency)), Some((512 << 10, 12)));
    assert_eq!(machine.core_type_of(0).sys.pause, 65);
    assert_eq!(machine.core_type_of(0).op(Op::Mul).latency, 3);
    assert!(!machine.features.has("waitpkg") && machine.features.has("mwaitx"));
    let c2 = state(&machine, "c2");
    assert!(!c2.enabled && c2.exit_store.is_none());
}

#[test]
fn epyc_9654_has_holes_in_its_ids() {
    let machine = load("epyc-9654-2s", &[]);
    assert_eq!((machine.cpus.len(), machine.llcs.len()), (384, 24));
    let ids = [(0, 0), (8, 16), (95, 190), (96, 256), (191, 446), (192, 1), (383, 447)];
    for (cpu, apic_id) in ids {
        assert_eq!(machine.cpus[cpu].apic_id, apic_id, "cpu {cpu}");
    }
    let holes = 192..256;
    assert!(machine.cpus.iter().all(|cpu| !holes.contains(&cpu.apic_id)));
}

#[test]
fn complexes_take_ids_in_the_order_of_the_file() {
    // EPYC 9354 as Linux shows it: 8 complexes of 4 cores, ids 0, 64, 32, 96, 48, 112, 16, 80.
    let overrides = [
        "levels.complex=8",
        "levels.core=4",
        "ids.bits={ smt = 1, core = 3, complex = 3, package = 1 }",
        "ids.order.complex=[0, 4, 2, 6, 3, 7, 1, 5]",
    ];
    let machine = load("epyc-9654-2s", &overrides);
    let firsts: Vec<u32> = (0..8).map(|complex| machine.cpus[complex * 4].apic_id).collect();
    assert_eq!(firsts, [0, 64, 32, 96, 48, 112, 16, 80]);
    assert_eq!(machine.cpus[32].apic_id, 128);
    assert_eq!(machine.cpus[64].apic_id, 1);
}

#[test]
fn generated_machines_have_every_size() {
    let sizes = [
        1, 2, 3, 63, 64, 65, 127, 128, 129, 255, 256, 257, 383, 384, 385, 511, 512, 513, 1023, 1024,
    ];
    for cpus in sizes {
        let machine = load(&format!("smp-{cpus}"), &[]);
        assert_eq!(machine.cpus.len(), cpus);
        let mut ids: Vec<u32> = machine.cpus.iter().map(|cpu| cpu.apic_id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), cpus, "distinct ids");
        let is_wide = ids.last().is_some_and(|&id| id > 254);
        assert_eq!(machine.apic.mode == ApicMode::X2apic, is_wide);
        let in_llcs: usize = machine.llcs.iter().map(|llc| llc.cores.len()).sum();
        assert_eq!(in_llcs, machine.cores.len());
    }
    for name in ["smp-0", "smp-1025", "smp-99999999999999999999", "smp-x", "smp-01"] {
        assert!(Machine::load(name, &[]).is_err(), "{name}");
    }
}

#[test]
fn smp_takes_llc_width_packages_and_siblings() {
    let machine = load("smp-100", &["smp.packages=3", "smp.smt=2", "smp.llc_width=4"]);
    assert_eq!((machine.cpus.len(), machine.cores.len(), machine.packages()), (100, 50, 3));
    assert!(machine.llcs.iter().all(|llc| llc.cores.len() <= 4));
    assert_eq!(machine.nodes.len(), 3);
    assert_eq!(machine.cores[0].cpus, [0, 50]);
    for bad in ["smp.smt=3", "smp.packages=0", "smp.width=4", "smp.smt=x"] {
        assert!(Machine::load("smp-100", &[bad.to_string()]).is_err(), "{bad}");
    }
}

#[test]
fn duo_and_quad_are_what_they_say() {
    let duo = load("duo", &[]);
    assert_eq!((duo.cpus.len(), duo.llcs.len(), duo.packages()), (2, 1, 1));
    assert_eq!(duo.apic.mode, ApicMode::Xapic);
    assert!(duo.features.has("waitpkg") && duo.features.has("tsc_deadline"));
    let quad = load("quad", &[]);
    assert_eq!((quad.cpus.len(), quad.llcs.len(), quad.packages()), (4, 2, 1));
    assert_eq!(quad.distance(0, 1), Distance::Llc);
    assert_eq!(quad.distance(0, 2), Distance::Package);
}

#[test]
fn memory_keeps_out_of_the_holes() {
    let machine = load("smp-8", &["smp.packages=6", "memory.per_node=1GiB"]);
    let bases: Vec<u64> = machine.nodes.iter().map(|node| node.base >> 30).collect();
    assert_eq!(bases, [0, 1, 2, 4, 5, 6]);
    let machine = load("smp-8", &["smp.packages=3", "memory.per_node=2GiB"]);
    let bases: Vec<u64> = machine.nodes.iter().map(|node| node.base >> 30).collect();
    assert_eq!(bases, [0, 4, 6], "node 1 would straddle the hole");
    let ram = machine.ram();
    assert_eq!((ram[0].base, ram[0].size), (0, 0xa_0000));
    assert_eq!((ram[1].base, ram[1].base + ram[1].size), (1 << 20, 2 << 30));
    assert_eq!(machine.node_of(5 << 30), Some(1));
    assert_eq!(machine.node_of(3 << 30), None);
}

#[test]
fn overrides_reach_every_part_and_are_marked() {
    let machine = load(
        "epyc-7763-2s",
        &[
            "idle.c1.exit.store=80ns",
            "memory.per_node=2GiB",
            "latency.llc_home.package=60ns",
            "cores.zen3.sys.pause=40cycles",
            "cores.zen3.ops.mul.latency=5",
            "clock.core=3GHz",
            "idle.c2.enabled=true",
            "features=[\"fpu\", \"monitor\", \"apic\", \"x2apic\"]",
        ],
    );
    let c1 = state(&machine, "c1");
    assert_eq!(c1.exit_store, Some(80_000));
    assert_eq!(machine.nodes[0].size, 2 << 30);
    assert_eq!(machine.latency.llc_home(0, 0), 60_000);
    assert_eq!(machine.latency.home_llc(0, 0), 60_000, "the way back follows");
    assert_eq!(machine.latency.llc_home(0, 1), 127_280);
    assert_eq!(machine.core_types[0].sys.pause, 40);
    assert_eq!(machine.core_types[0].op(Op::Mul).latency, 5);
    assert_eq!(machine.clocks.core_khz, 3_000_000);
    let set = machine.figures.iter().filter(|figure| figure.kind == Kind::Set);
    assert_eq!(set.count(), 6);
}

#[test]
fn costs_in_time_become_cycles_of_the_core_clock() {
    let machine = load("duo", &["cores.generic.sys.pause=10.1ns", "cache.l3.latency=20ns"]);
    assert_eq!(machine.core_types[0].sys.pause, 31, "30.3 cycles at 3 GHz, rounded up");
    assert_eq!(machine.llcs[0].cache.as_ref().map(|cache| cache.latency), Some(60));
}

fn arm(levels: &str, edit: impl Fn(&str) -> String) -> Machine {
    let head = format!("schema = 1\nid = \"arm\"\nname = \"a test\"\nlevels = {levels}\n");
    let text = format!("{head}{}", edit(include_str!("../machines/smp-arm.toml")));
    Machine::from_toml(&text, "arm.toml", &[]).unwrap_or_else(|report| panic!("{report}"))
}

#[test]
fn arm_machines_get_affinity_ids_and_llc_without_a_cache() {
    let machine = arm("{ package = 2, cluster = 3, core = 2 }", |text| {
        format!("llc = \"package\"\n{}", text.replace("l3 = {", "# l3 = {"))
    });
    let ids: Vec<u64> = machine.cpus.iter().map(|cpu| cpu.mpidr).collect();
    assert_eq!(ids[..7], [0, 1, 0x100, 0x101, 0x200, 0x201, 0x1_0000]);
    assert_eq!(machine.llcs.len(), 2);
    assert!(machine.llcs[0].cache.is_none() && machine.cores[0].l2.is_some());
    assert!(machine.nodes[0].base > 0 && machine.features.has("lse"));
}

#[test]
fn affinity_fields_hold_threads_packed_levels_and_holes() {
    let ids = "[ids]\nmultithreaded = true\n\
               affinity = { core = 1, cluster = 2, package = 2 }\nbits = { cluster = 6 }\n\
               order.cluster = [0x12, 0x11, 0x0a]\n";
    let machine = arm("{ package = 2, cluster = 3, core = 2 }", |text| format!("{text}{ids}"));
    let ids: Vec<u64> = machine.cpus.iter().map(|cpu| cpu.mpidr).collect();
    let first = [0x12_0000, 0x12_0100, 0x11_0000, 0x11_0100, 0x0a_0000, 0x0a_0100];
    assert_eq!(ids[..6], first);
    assert_eq!(ids[6..], first.map(|id| id | 0x40_0000), "packages lie above the six bits");
    assert!(machine.arm.is_multithreaded);
    let four = "{ package = 2, complex = 2, cluster = 2, core = 2 }";
    let machine = arm(four, |text| text.replace("at = \"complex\"", "at = \"package\""));
    assert_eq!(machine.cpus[8].mpidr, 1 << 32, "the fourth level is Aff3");
}

#[test]
fn generated_arm_machines_have_every_size() {
    use topology::{Conduit, GicVersion, IdleEntry, Isa};
    for cpus in [1, 2, 15, 16, 17, 63, 64, 65, 255, 256, 257, 384, 1023, 1024] {
        let machine = load(&format!("smp-arm-{cpus}"), &[]);
        assert_eq!((machine.isa, machine.cpus.len()), (Isa::Aarch64, cpus));
        for (n, cpu) in machine.cpus.iter().enumerate() {
            let n = n as u64;
            assert_eq!(cpu.mpidr, (n / 16) * 0x100 + n % 16, "sixteen cpus a value of Aff1");
        }
    }
    let duo = load("duo-arm", &[]);
    assert_eq!((duo.cpus.len(), duo.llcs.len()), (2, 1));
    assert_eq!((duo.arm.gic.version, duo.arm.conduit), (GicVersion::V3, Conduit::Smc));
    assert_eq!(duo.clocks.counter_hz(), 100_000_000);
    assert_eq!(duo.core_type_of(0).midr, 0x000f_0000);
    assert_eq!(duo.core_type_of(0).sys.irq_entry, 50);
    assert_eq!(duo.idle[0].entry, IdleEntry::Wfi);
    assert_eq!((duo.idle[1].advertised.entry_us, duo.idle[1].advertised.wakeup_us), (50, None));
    let quad = load("quad-arm", &[]);
    assert_eq!((quad.llcs.len(), quad.cpus[2].mpidr), (2, 0x100));
    let wide = load("smp-arm-96", &["smp.llc_width=48", "smp.packages=2", "smp.smt=2"]);
    assert_eq!(wide.cpus[24].mpidr, 0x1_0000, "smt, core, package");
    for name in ["smp-arm-0", "smp-arm-1025", "smp-arm-", "smp-arm-x", "smp-arm-01"] {
        assert!(Machine::load(name, &[]).is_err(), "{name}");
    }
}

#[test]
fn atomics_and_exclusives_are_choices_with_a_source() {
    use topology::AtomicPlace::{Far, Held, Near};
    let machine = load(
        "duo-arm",
        &["arm.atomics.load=held", "arm.exclusive_failure=64", "latency.exclusive_hold=30ns"],
    );
    let atomics = machine.arm.atomics;
    assert_eq!((atomics.load, atomics.store, atomics.acquire), (Held, Far, Near));
    assert_eq!((machine.arm.exclusive_failure, machine.latency.exclusive_hold), (64, 30_000));
    let load = machine.figures.iter().find(|figure| figure.key == "arm.atomics.load");
    let load = load.expect("a choice that is shown with its source");
    assert_eq!((load.value.as_str(), load.kind), ("held", Kind::Set));
}

#[test]
fn neoverse_n1_has_two_sockets_of_pairs_behind_one_thread_each() {
    use topology::{AtomicPlace, GicVersion};
    let machine = load("neoverse-n1-2s", &[]);
    assert_eq!((machine.cpus.len(), machine.packages(), machine.nodes.len()), (128, 2, 2));
    assert_eq!((machine.level(topology::Level::Cluster).count, machine.llcs.len()), (64, 2));
    let ids = [(0, 0), (1, 0x100), (2, 0x1_0000), (63, 0x1f_0100), (64, 1 << 32)];
    for (cpu, mpidr) in ids {
        assert_eq!(machine.cpus[cpu].mpidr, mpidr, "cpu {cpu}");
    }
    assert!(machine.arm.is_multithreaded && machine.arm.gic.version == GicVersion::V3);
    assert_eq!(machine.arm.atomics.acquire, AtomicPlace::Held);
    assert_eq!(machine.latency.home_service, 9_400);
    assert_eq!(machine.core_type_of(0).midr, 0x413f_d0c1);
    assert_eq!(machine.core_type_of(0).sys.icr_write, 105, "35 ns at 3 GHz");
    assert_eq!(machine.clocks.counter_hz(), 25_000_000);
    assert!(machine.features.has("lse") && !machine.features.has("wfxt"));
    let told: Vec<&str> =
        machine.idle.iter().filter(|s| s.enabled).map(|s| s.name.as_str()).collect();
    assert_eq!(told, ["wfi"], "what firmware offers is not known");
    let graviton2 = load("graviton2", &[]);
    assert_eq!((graviton2.cpus.len(), graviton2.llcs.len()), (64, 1));
    assert_eq!(graviton2.cpus[63].mpidr, 63 << 8);
}

#[test]
fn hikey_has_clusters_with_their_own_l2_and_sleep() {
    use topology::{GicVersion, IdleEntry, IdleScope};
    let machine = load("hikey-620", &[]);
    assert_eq!((machine.cpus.len(), machine.llcs.len(), machine.nodes.len()), (8, 2, 1));
    assert_eq!(machine.cpus[5].mpidr, 0x101);
    assert_eq!(machine.arm.gic.version, GicVersion::V2);
    assert!(machine.core_type_of(0).in_order && machine.cores[0].l2.is_none());
    assert_eq!(machine.llcs[1].cache.as_ref().map(|l2| (l2.size, l2.ways)), Some((512 << 10, 16)));
    assert!(!machine.features.has("lse"));
    let sleep = state(&machine, "cluster-sleep");
    assert_eq!((sleep.entry, sleep.scope), (IdleEntry::Psci(0x101_0000), IdleScope::Cluster));
    let told = sleep.advertised;
    assert_eq!((told.entry_us, told.latency_us, told.wakeup_us), (1000, 700, Some(1500)));
    assert_eq!(sleep.exit_interrupt, 20_000_000);
    assert!(sleep.flushes.l2 && !state(&machine, "cpu-sleep").flushes.l2);
}
