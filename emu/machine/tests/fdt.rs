//! The device tree says what the machine is, for all shipped machines and for fewer cpus.

#[path = "common/tree.rs"]
mod tree;

use emu_machine::fdt::{Chosen, FdtError, build};
use emu_machine::handover;
use emu_sim::PhysAddr;
use topology::{ApicMode, Machine};
use tree::Tree;

fn machine(name: &str) -> Machine {
    Machine::load(name, &[]).expect("a shipped machine")
}

fn tree(machine: &Machine, cpus: usize, bootargs: &str) -> Tree {
    Tree::parse(&build(machine, cpus, bootargs).expect("a device tree"))
}

fn cpu_path(machine: &Machine, cpu: usize) -> String {
    format!("/cpus/cpu@{:x}", machine.cpus[cpu].apic_id)
}

fn wide(cells: &[u32]) -> u64 {
    u64::from(cells[0]) << 32 | u64::from(cells[1])
}

#[test]
fn cpus_say_their_ids_nodes_and_caches() {
    for name in ["duo", "quad", "epyc-7763-2s", "epyc-9654-2s", "smp-1024"] {
        let machine = machine(name);
        let tree = tree(&machine, machine.cpus.len(), "");
        assert_eq!(wide(&tree.cells("", "crosscall,tsc-hz")), machine.clocks.tsc_khz * 1000);
        let timer = wide(&tree.cells("", "crosscall,apic-timer-hz"));
        assert_eq!(timer, machine.clocks.apic_timer_hz);
        let is_x2 = machine.apic.mode == ApicMode::X2apic;
        assert_eq!(tree.text("", "crosscall,apic-mode") == "x2apic", is_x2);
        for (cpu, place) in machine.cpus.iter().enumerate() {
            let path = cpu_path(&machine, cpu);
            assert_eq!(tree.cells(&path, "reg"), [place.apic_id]);
            assert_eq!(tree.cells(&path, "numa-node-id")[0] as usize, place.node);
            assert_eq!(tree.cells(&path, "crosscall,llc-id")[0] as usize, place.llc);
            let cluster = tree.cells(&path, "crosscall,cluster-id")[0];
            assert_eq!(cluster as usize, place.cluster);
            assert_eq!(tree.cells(&path, "crosscall,core-id")[0] as usize, place.core);
            let l2 = tree.by_phandle(tree.cells(&path, "next-level-cache")[0]).to_owned();
            assert_eq!(tree.cells(&l2, "cache-level"), [2]);
            let l3 = tree.by_phandle(tree.cells(&l2, "next-level-cache")[0]);
            assert_eq!(l3, format!("/cpus/l3-cache-llc{}", place.llc));
        }
    }
}

#[test]
fn blob_order_of_cpus_is_their_number() {
    let machine = machine("epyc-7763-2s");
    let blob = build(&machine, 256, "").expect("a device tree");
    let mut last = 0;
    for cpu in 0..256 {
        let name = format!("cpu@{:x}\0", machine.cpus[cpu].apic_id);
        let at = blob.windows(name.len()).position(|window| window == name.as_bytes());
        let at = at.expect("the node is there");
        assert!(at > last, "{name} comes too early");
        last = at;
    }
}

#[test]
fn cpu_map_leads_to_every_cpu_once_in_its_place() {
    let machine = machine("epyc-9654-2s");
    let tree = tree(&machine, machine.cpus.len(), "");
    let leaves: Vec<_> = tree.nodes.keys().filter(|path| path.contains("/thread")).collect();
    assert_eq!(leaves.len(), 384);
    // Package 1, complex 3, core 5, thread 1.
    let path = "/cpus/cpu-map/socket1/cluster3/core5/thread1";
    let target = tree.by_phandle(tree.cells(path, "cpu")[0]);
    let cpu = machine
        .cpus
        .iter()
        .position(|c| (c.package, c.complex, c.core, c.smt) == (1, 12 + 3, 96 + 24 + 5, 1))
        .expect("the cpu exists");
    assert_eq!(target, cpu_path(&machine, cpu));
}

#[test]
fn fewer_cpus_leave_memory_and_drop_unused_caches() {
    let machine = machine("epyc-7763-2s");
    let tree = tree(&machine, 9, "");
    let count = |part: &str| tree.nodes.keys().filter(|path| path.contains(part)).count();
    assert_eq!((count("/cpu@"), count("/l2-cache"), count("/l3-cache")), (9, 9, 2));
    assert_eq!(count("/memory@"), 3);
    assert_eq!(tree.cells("/distance-map", "distance-matrix").len(), 12);
}

#[test]
fn idle_states_are_told_with_advertised_values() {
    let machine = machine("epyc-7763-2s");
    let tree = tree(&machine, 1, "");
    let handles = tree.cells(&cpu_path(&machine, 0), "cpu-idle-states");
    let told: Vec<_> = machine.idle.iter().filter(|state| state.enabled).collect();
    assert_eq!(handles.len(), told.len());
    for (handle, state) in handles.iter().zip(told) {
        let path = tree.by_phandle(*handle);
        assert_eq!(tree.text(path, "idle-state-name"), state.name);
        assert_eq!(tree.cells(path, "exit-latency-us"), [state.advertised.latency_us]);
        assert_eq!(tree.cells(path, "min-residency-us"), [state.advertised.residency_us]);
    }
}

#[test]
fn command_line_is_passed_or_refused() {
    let duo = machine("duo");
    assert_eq!(tree(&duo, 2, "idle=poll a b").text("/chosen", "bootargs"), "idle=poll a b");
    let found = build(&duo, 2, "a\0b");
    assert_eq!(found, Err(FdtError::BootArgs { len: 3 }));
    let text = build(&duo, 3, "").map_err(|error| error.to_string());
    assert_eq!(text, Err("3 cpus asked for, the machine has 1 to 2; lower --cpus".to_owned()));
}

#[test]
fn handover_places_everything_in_memory_without_overlap() {
    for name in ["duo", "epyc-7763-2s", "epyc-9654-2s", "smp-1024"] {
        let machine = machine(name);
        let fdt = build(&machine, machine.cpus.len(), "").expect("a device tree");
        assert!(name != "smp-1024" || fdt.len() > 300 << 10, "{}", fdt.len());
        let state = handover::x86(&machine, PhysAddr(0x10_0000), fdt).expect("fits");
        let ram = machine.ram();
        let mut pieces: Vec<(u64, u64)> =
            state.memory.iter().map(|(at, bytes)| (at.0, at.0 + bytes.len() as u64)).collect();
        pieces.sort_unstable();
        assert!(pieces.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{pieces:x?}");
        for (from, to) in pieces {
            let inside = ram.iter().any(|r| r.base <= from && to <= r.base + r.size);
            assert!(inside, "{name}: {from:#x}-{to:#x}");
            let guarded = state.reserved.iter().any(|r| r.base <= from && to - 1 <= r.last);
            assert!(guarded, "{name}: {from:#x}-{to:#x}");
        }
        assert_eq!(state.entry.rdi % 4096, 0);
    }
}

/// Words of a property that holds several strings.
fn words(tree: &Tree, path: &str, key: &str) -> Vec<String> {
    let bytes = tree.get(path, key).expect("the property is there");
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    text.trim_end_matches('\0').split('\0').map(str::to_owned).collect()
}

#[test]
fn arm_machines_tell_firmware_timer_interrupts_and_console() {
    let machine = machine("smp-arm-40");
    let tree = tree(&machine, 34, "console=ttyAMA0");
    assert_eq!(tree.text("/chosen", "stdout-path"), "/pl011@9010000");
    assert_eq!(wide(&tree.cells("", "crosscall,tsc-hz")), 100_000_000);
    let gic = tree.by_phandle(tree.cells("", "interrupt-parent")[0]).to_owned();
    assert_eq!(tree.text(&gic, "compatible"), "arm,gic-v3");
    let reg = tree.cells(&gic, "reg");
    assert_eq!(reg, [0, 0x0800_0000, 0, 0x1_0000, 0, 0x0a00_0000, 0, 34 * 0x2_0000]);
    assert_eq!(words(&tree, "/psci", "compatible"), ["arm,psci-1.0", "arm,psci-0.2"]);
    assert_eq!(tree.text("/psci", "method"), "smc");
    let timer = tree.cells("/timer", "interrupts");
    assert_eq!(timer, [1, 13, 4, 1, 14, 4, 1, 11, 4, 1, 10, 4]);
    assert!(!tree.nodes["/timer"].contains_key("always-on"), "cpu-sleep stops it");
    assert_eq!(words(&tree, "/pl011@9010000", "compatible"), ["arm,pl011", "arm,primecell"]);
    assert_eq!(tree.cells("/pl011@9010000", "interrupts"), [0, 1, 4]);
    let clock = tree.cells("/pl011@9010000", "clocks")[1];
    assert_eq!(tree.text(tree.by_phandle(clock), "compatible"), "fixed-clock");
    assert_eq!(tree.cells("/pmu", "interrupts"), [1, 7, 4]);
    assert_eq!(tree.cells("/test-device@9000000", "reg"), [0, 0x0900_0000, 0, 0x1000]);
    assert_eq!(
        tree.cells("/cpus/cpu@201", "reg"),
        [0, 0x201],
        "cpu 33 is the second of its sixteen"
    );
    assert_eq!(tree.text("/cpus/cpu@201", "enable-method"), "psci");
    assert_eq!(tree.text("/cpus/idle-states", "entry-method"), "psci");
    let sleep = "/cpus/idle-states/state-cpu-sleep";
    assert_eq!(tree.cells(sleep, "arm,psci-suspend-param"), [0x1_0000]);
    let times = ["entry-latency-us", "exit-latency-us", "min-residency-us"];
    assert_eq!(times.map(|key| tree.cells(sleep, key)[0]), [50, 100, 300]);
    assert!(tree.nodes[sleep].contains_key("local-timer-stop"));
}

#[test]
fn gicv2_names_the_cpus_of_private_interrupts_and_wfi_keeps_the_timer() {
    let set = ["gic.version=2", "idle.cpu-sleep.enabled=false"].map(str::to_owned);
    let machine = Machine::load("quad-arm", &set).expect("a machine");
    let tree = tree(&machine, 4, "");
    let gic = tree.by_phandle(tree.cells("", "interrupt-parent")[0]);
    assert_eq!(tree.text(gic, "compatible"), "arm,gic-400");
    assert_eq!(tree.cells(gic, "reg"), [0, 0x0800_0000, 0, 0x1000, 0, 0x0801_0000, 0, 0x2000]);
    assert_eq!(tree.cells("/timer", "interrupts")[..3], [1, 13, 0xf04]);
    assert!(tree.nodes["/timer"].contains_key("always-on"));
    assert!(!tree.nodes.contains_key("/cpus/idle-states"), "WFI is known without being told");
}

#[test]
fn the_initial_ram_disk_is_named_by_its_ends() {
    let machine = machine("duo-arm");
    let chosen = Chosen { bootargs: "quiet", initrd: Some(0x8800_0000..0x8812_3457) };
    let tree = Tree::parse(&build(&machine, 2, chosen).expect("a device tree"));
    assert_eq!(tree.cells("/chosen", "linux,initrd-start"), [0, 0x8800_0000]);
    assert_eq!(tree.cells("/chosen", "linux,initrd-end"), [0, 0x8812_3457]);
}
