//! What Linux should show of a machine in `/sys/devices/system`, by the machine file.
//!
//! Source: Linux 6.1, `Documentation/admin-guide/cputopology.rst`, `drivers/base/arch_topology.c`,
//! `drivers/base/cacheinfo.c`, `drivers/cpuidle/dt_idle_states.c`. Status: spec.
//!
//! Not shown by the kernel: latencies of caches, dies and complexes (`cluster_id` is the one level
//! between package and core), idle states that are off in the machine file, and plain WFI where no
//! other state is on, as the driver registers for states of the device tree.

use std::collections::{BTreeMap, BTreeSet};

use topology::{Cache, CpuPlace, IdleEntry, Machine};

/// Values by their paths.
pub(crate) type Files = BTreeMap<String, String>;

/// A list of cpus or nodes as Linux writes it: `0-3,8`.
fn list(numbers: impl Iterator<Item = usize>) -> String {
    let numbers: Vec<usize> = numbers.collect();
    let runs = numbers.chunk_by(|a, b| a + 1 == *b).map(|run| match run {
        [one] => one.to_string(),
        _ => format!("{}-{}", run[0], run[run.len() - 1]),
    });
    runs.collect::<Vec<_>>().join(",")
}

/// What the kernel shows of the first `cpus` cpus.
pub(crate) fn expected(machine: &Machine, cpus: usize) -> Files {
    let mut files = Files::new();
    let mut put = |path: String, value: String| assert!(files.insert(path, value).is_none());
    for set in ["online", "possible", "present"] {
        put(format!("cpu/{set}"), list(0..cpus));
    }
    put("node/online".into(), list(0..machine.nodes.len()));
    for node in 0..machine.nodes.len() {
        let members = (0..cpus).filter(|cpu| machine.cpus[*cpu].node == node);
        put(format!("node/node{node}/cpulist"), list(members));
        let distances = (0..machine.nodes.len()).map(|to| machine.node_distance(node, to));
        let distances: Vec<String> = distances.map(|d| d.to_string()).collect();
        put(format!("node/node{node}/distance"), distances.join(" "));
    }
    let states = idle_states(machine);
    let driver = if states.is_empty() { "none" } else { "psci_idle" };
    put("cpu/cpuidle/current_driver".into(), driver.into());
    for cpu in 0..cpus {
        let midr = machine.core_types[machine.cpus[cpu].core_type].midr;
        put(format!("cpu/cpu{cpu}/regs/identification/midr_el1"), format!("{midr:#018x}"));
        for (name, value) in topology(machine, cpus, cpu) {
            put(format!("cpu/cpu{cpu}/topology/{name}"), value);
        }
        for (index, fields) in caches(machine, cpus, cpu).into_iter().enumerate() {
            for (name, value) in fields {
                put(format!("cpu/cpu{cpu}/cache/index{index}/{name}"), value);
            }
        }
        for (index, fields) in states.iter().enumerate() {
            for (name, value) in fields {
                put(format!("cpu/cpu{cpu}/cpuidle/state{index}/{name}"), value.clone());
            }
        }
    }
    files
}

type Fields = Vec<(&'static str, String)>;
/// Which unit of a level a cpu belongs to.
type Unit = fn(&CpuPlace) -> usize;

fn topology(machine: &Machine, cpus: usize, cpu: usize) -> Fields {
    let here = &machine.cpus[cpu];
    let cpus_of =
        |unit: Unit| list((0..cpus).filter(|cpu| unit(&machine.cpus[*cpu]) == unit(here)));
    let package = cpus_of(|place| place.package);
    let core = cpus_of(|place| place.core);
    // Counted from 0 inside each parent.
    let number = |unit: Unit, parent: Unit| {
        let inside = machine.cpus[..cpus].iter().filter(|place| parent(place) == parent(here));
        let units: BTreeSet<usize> = inside.map(unit).collect();
        units.range(..unit(here)).count().to_string()
    };
    vec![
        ("physical_package_id", here.package.to_string()),
        ("cluster_id", number(|place| place.cluster, |place| place.package)),
        ("core_id", number(|place| place.core, |place| place.cluster)),
        ("package_cpus_list", package.clone()),
        ("core_siblings_list", package),
        ("cluster_cpus_list", cpus_of(|place| place.cluster)),
        ("core_cpus_list", core.clone()),
        ("thread_siblings_list", core),
    ]
}

fn caches(machine: &Machine, cpus: usize, cpu: usize) -> Vec<Fields> {
    let here = &machine.cpus[cpu];
    let core = &machine.cores[here.core];
    let in_core = list((0..cpus).filter(|i| machine.cpus[*i].core == here.core));
    let in_llc = list((0..cpus).filter(|i| machine.cpus[*i].llc == here.llc));
    let mut caches =
        vec![(&core.l1d, "Data", 1, &in_core), (&core.l1i, "Instruction", 1, &in_core)];
    caches.extend(core.l2.as_ref().map(|l2| (l2, "Unified", 2, &in_core)));
    let level = caches.len();
    caches.extend(machine.llcs[here.llc].cache.as_ref().map(|l| (l, "Unified", level, &in_llc)));
    let fields = |(cache, kind, level, shared): (&Cache, &str, usize, &String)| {
        vec![
            ("level", level.to_string()),
            ("type", kind.to_string()),
            ("size", format!("{}K", cache.size >> 10)),
            ("ways_of_associativity", cache.ways.to_string()),
            ("number_of_sets", cache.sets().to_string()),
            ("coherency_line_size", cache.line.to_string()),
            ("shared_cpu_list", shared.clone()),
        ]
    };
    caches.into_iter().map(fields).collect()
}

/// Letters of an idle state's name: `CPUIDLE_NAME_LEN` less the end.
const NAME_LEN: usize = 15;

/// WFI and the states that firmware enters, if there are any.
fn idle_states(machine: &Machine) -> Vec<Fields> {
    let of = |is: fn(&IdleEntry) -> bool| {
        machine.idle.iter().filter(move |state| state.enabled && is(&state.entry))
    };
    let firmware = of(|entry| matches!(entry, IdleEntry::Psci(_))).map(|state| {
        let told = &state.advertised;
        // The longest time from a request to the first instruction after it.
        let latency = told.wakeup_us.unwrap_or(told.entry_us + told.latency_us);
        // The node's name, as much of it as the kernel keeps.
        let name = format!("state-{}", state.name).chars().take(NAME_LEN).collect();
        (name, state.name.clone(), latency, told.residency_us)
    });
    let wfi = of(|entry| *entry == IdleEntry::Wfi).map(|state| {
        let told = &state.advertised;
        ("WFI".to_string(), "ARM WFI".to_string(), told.latency_us, told.residency_us)
    });
    let states: Vec<_> = wfi.chain(firmware).collect();
    if states.len() < 2 {
        return Vec::new();
    }
    let fields = |(name, desc, latency, residency): (String, String, u32, u32)| {
        vec![
            ("name", name),
            ("desc", desc),
            ("latency", latency.to_string()),
            ("residency", residency.to_string()),
        ]
    };
    states.into_iter().map(fields).collect()
}
