//! From a checked file to a `Machine`: indices, numbering, IDs, legs and defaults.
//!
//! Nothing is judged here; `check` has found no fault when this runs.

use crate::features;
use crate::layout::{Layout, affinity_fields, id_fields};
use crate::model::*;
use crate::read::At;
use crate::schema::{CacheSpec, CoreSpec, GroupSpec, IdleSpec, LEVELS, LegSpec, Spec};
use crate::units::{Dim, Quantity};

/// First address of RAM on machines without the x86 map.
const ARM_RAM_BASE: u64 = 0x8000_0000;

/// Builds the machine.
pub(crate) fn resolve(spec: &Spec, layout: &Layout, file: &str, figures: Vec<Figure>) -> Machine {
    let core_khz = spec.clocks.core.value.value / 1_000;
    let core_types: Vec<CoreType> =
        spec.cores.iter().map(|core| core_type(core, core_khz)).collect();
    let llc_level = llc_level(spec);
    let cores = cores(spec, layout, llc_level, &core_types);
    let cpus = cpus(spec, layout, llc_level, &cores);
    let cores = with_cpus(cores, &cpus);
    let llcs = llcs(spec, layout, llc_level, core_khz);
    let nodes = nodes(spec, layout, &cpus);
    let fields = fields(spec, layout);
    Machine {
        id: spec.id.value.clone(),
        name: spec.name.value.clone(),
        file: file.to_string(),
        isa: spec.isa.value,
        levels: LEVELS
            .iter()
            .map(|&(_, level)| LevelPlace {
                level,
                count: layout.count(level),
                id_shift: fields[level as usize].0,
                id_bits: fields[level as usize].1,
            })
            .collect(),
        l2_level: l2_level(spec),
        llc_level,
        node_distances: distances(spec, &nodes),
        core_types,
        clocks: Clocks {
            core_khz,
            tsc_khz: spec.clocks.counter.value.value / 1_000,
            apic_timer_hz: spec.clocks.apic_timer.as_ref().map_or(0, |at| at.value.value),
        },
        latency: latency(spec, &llcs, &nodes),
        ipi_wire: wire(spec),
        apic: Apic { mode: apic_mode(spec, &cpus), icr_ordered: spec.apic.is_icr_ordered },
        monitor: Monitor {
            own_store_triggers: spec.own_store_triggers.as_ref().is_some_and(|at| at.value),
            line_size: LINE_SIZE,
        },
        arm: arm(spec),
        dma_latency: spec.dma.as_ref().map(|latency| latency.value.value),
        idle: spec.idle.iter().map(|state| idle(spec, state, &llcs)).collect(),
        stop_latency: spec.stop.value.value,
        identity: identity(spec),
        features: Features { names: feature_set(spec) },
        cpus,
        cores,
        llcs,
        nodes,
        figures,
    }
}

/// Returns the level whose units are the LLC domains.
pub(crate) fn llc_level(spec: &Spec) -> Level {
    if spec.is_llc_package.is_some() {
        return Level::Package;
    }
    spec.caches.iter().map(|cache| cache.at.value).min().unwrap_or(Level::Package)
}

/// Returns the cache of the LLC domains, if one is described.
pub(crate) fn llc_cache(spec: &Spec) -> Option<&CacheSpec> {
    let level = llc_level(spec);
    let outer = |cache: &&CacheSpec| cache.at.value == level && cache.name.value != "l1i";
    spec.caches.iter().filter(outer).max_by(|a, b| a.name.value.cmp(&b.name.value))
}

/// Returns where the L2 caches are, unless they are the LLCs.
pub(crate) fn l2_level(spec: &Spec) -> Option<Level> {
    let is_llc = llc_cache(spec).is_some_and(|cache| cache.name.value == "l2");
    let l2 = spec.caches.iter().find(|cache| cache.name.value == "l2");
    l2.filter(|_| !is_llc).map(|cache| cache.at.value)
}

/// Returns shift and width of each level in the architectural IDs.
pub(crate) fn fields(spec: &Spec, layout: &Layout) -> [(u32, u32); 6] {
    match spec.isa.value {
        Isa::X86_64 => id_fields(spec, layout),
        Isa::Aarch64 => affinity_fields(spec, layout).unwrap_or_default(),
    }
}

/// Returns the architectural ID of each smt unit.
pub(crate) fn architectural_ids(spec: &Spec, layout: &Layout) -> Vec<u64> {
    let fields = fields(spec, layout);
    let id = |smt: usize| {
        LEVELS.iter().fold(0, |id, &(_, level)| {
            let unit = layout.outer(Level::Smt, smt, level);
            let mut index = layout.units[level as usize][unit].index as u64;
            if let Some(order) = &spec.ids.orders[level as usize] {
                index = order.value.get(unit_index(index)).map_or(index, |&id| u64::from(id));
            }
            id | index.checked_shl(fields[level as usize].0).unwrap_or(0)
        })
    };
    (0..layout.count(Level::Smt)).map(id).collect()
}

fn unit_index(index: u64) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

fn cycles(quantity: Quantity, core_khz: u64) -> u32 {
    let value = match quantity.dim {
        Dim::Time => {
            let cycles = u128::from(quantity.value) * u128::from(core_khz);
            u64::try_from(cycles.div_ceil(1_000_000_000)).unwrap_or(u64::MAX)
        }
        _ => quantity.value,
    };
    u32::try_from(value).unwrap_or(u32::MAX)
}

fn count(quantity: Quantity) -> u32 {
    u32::try_from(quantity.value).unwrap_or(u32::MAX)
}

fn core_type(core: &CoreSpec, core_khz: u64) -> CoreType {
    let c = |at: &At<Quantity>| cycles(at.value, core_khz);
    let pipe =
        |name: &str| core.pipe.iter().find(|(key, _)| *key == name).map_or(0, |(_, at)| c(at));
    let tlb = |n: usize| {
        let [entries, ways, latency] = &core.tlbs[n];
        Tlb { entries: count(entries.value), ways: count(ways.value), latency: c(latency) }
    };
    let op = |[latency, units, interval]: &[At<Quantity>; 3]| OpTime {
        latency: c(latency),
        units: count(units.value),
        interval: c(interval),
    };
    CoreType {
        name: core.name.value.clone(),
        midr: core.midr.as_ref().map_or(0, |at| count(at.value)),
        in_order: core.is_in_order.value,
        dispatch_width: pipe("dispatch_width"),
        retire_width: pipe("retire_width"),
        window: pipe("window"),
        load_buffer: pipe("load_buffer"),
        store_buffer: pipe("store_buffer"),
        miss_buffer: pipe("miss_buffer"),
        store_forward: pipe("store_forward"),
        drain_interval: pipe("drain_interval"),
        mispredict: pipe("mispredict"),
        predictor_entries: pipe("predictor_entries"),
        predictor_history: pipe("predictor_history"),
        btb_entries: pipe("btb_entries"),
        return_stack: pipe("return_stack"),
        itlb: tlb(0),
        dtlb: tlb(1),
        l2_tlb: tlb(2),
        ops: core.ops.iter().map(op).collect(),
        sys: sys(core, core_khz),
    }
}

/// Costs by the x86 key and the Arm key of each; an ISA without the key pays nothing.
fn sys(core: &CoreSpec, core_khz: u64) -> SysCost {
    let is_x86 = core.isa.value == Isa::X86_64;
    let c = |x86: &str, arm: &str| {
        let name = if is_x86 { x86 } else { arm };
        let found = core.sys.iter().find(|(key, _)| *key == name);
        found.map_or(0, |(_, at)| cycles(at.value, core_khz))
    };
    SysCost {
        rmw_l1: c("rmw_l1", "rmw_l1"),
        monitor: c("monitor", ""),
        mwait: c("mwait", "wfe"),
        umwait: c("umwait", ""),
        tpause: c("tpause", ""),
        hlt: c("hlt", "wfi"),
        pause: c("pause", "yield"),
        mfence: c("mfence", "dsb"),
        lfence: c("lfence", "isb"),
        sfence: c("sfence", "dmb"),
        cpuid: c("cpuid", "firmware_call"),
        rdtsc: c("rdtsc", "counter_read"),
        rdtscp: c("rdtscp", ""),
        rdmsr: c("rdmsr", "sysreg_read"),
        wrmsr: c("wrmsr", "sysreg_write"),
        x2apic_write: c("x2apic_write", ""),
        icr_write: c("icr_write", "sgi_write"),
        xapic_mmio: c("xapic_mmio", ""),
        port_io: c("port_io", ""),
        irq_entry: c("irq_entry", "exception_entry"),
        iret: c("iret", "eret"),
        syscall: c("syscall", ""),
        sysret: c("sysret", ""),
        swapgs: c("swapgs", ""),
        cli_sti: c("cli_sti", ""),
        mov_cr: c("mov_cr", ""),
        invlpg: c("invlpg", "tlbi"),
        clflush: c("clflush", "cache_maintenance"),
        xsave: c("xsave", ""),
        rep_step: c("rep_step", ""),
        rep_start: c("rep_start", ""),
    }
}

/// Returns the groups that select a core, in file order; later ones win.
fn groups_of<'s>(
    spec: &'s Spec,
    layout: &'s Layout,
    core: usize,
) -> impl DoubleEndedIterator<Item = &'s GroupSpec> {
    spec.groups.iter().filter(move |group| {
        let unit = layout.outer(Level::Core, core, group.level.value);
        group.units.value.iter().any(|&chosen| chosen as usize == unit)
    })
}

/// Returns a cache of a core with its groups applied.
/// Returns size, ways and latency of a cache of this core.
pub(crate) fn cache_numbers(
    spec: &Spec,
    layout: &Layout,
    core: usize,
    cache: &CacheSpec,
) -> [Quantity; 3] {
    let mut values = [cache.size.value, cache.ways.value, cache.latency.value];
    for group in groups_of(spec, layout, core) {
        for (name, numbers) in &group.caches {
            if name.value != cache.name.value {
                continue;
            }
            for (value, over) in values.iter_mut().zip(numbers) {
                *value = over.as_ref().map_or(*value, |at| at.value);
            }
        }
    }
    values
}

fn cache_of(spec: &Spec, layout: &Layout, core: usize, cache: &CacheSpec, core_khz: u64) -> Cache {
    let [size, ways, latency] = cache_numbers(spec, layout, core, cache);
    Cache {
        size: size.value,
        ways: count(ways),
        line: LINE_SIZE,
        latency: cycles(latency, core_khz),
    }
}

fn cores(
    spec: &Spec,
    layout: &Layout,
    llc_level: Level,
    core_types: &[CoreType],
) -> Vec<CorePlace> {
    let build = |core: usize| {
        let default_khz = spec.clocks.core.value.value / 1_000;
        let last = |pick: &dyn Fn(&GroupSpec) -> Option<Quantity>| {
            groups_of(spec, layout, core).rev().find_map(pick)
        };
        let clock = last(&|group| group.clock.as_ref().map(|at| at.value));
        let core_khz = clock.map_or(default_khz, |clock| clock.value / 1_000);
        let name = groups_of(spec, layout, core).rev().find_map(|group| group.core.as_ref());
        let name = &name.unwrap_or(&spec.default_core).value;
        let request = last(&|group| group.request.as_ref().map(|at| at.value));
        let response = last(&|group| group.response.as_ref().map(|at| at.value));
        let named = |name: &str| {
            let cache = spec.caches.iter().find(|cache| cache.name.value == name)?;
            Some(cache_of(spec, layout, core, cache, core_khz))
        };
        let empty = || Cache { size: 0, ways: 1, line: LINE_SIZE, latency: 1 };
        CorePlace {
            cpus: Vec::new(),
            llc: layout.outer(Level::Core, core, llc_level),
            core_type: core_types.iter().position(|t| t.name == *name).unwrap_or(0),
            core_khz,
            l1i: named("l1i").unwrap_or_else(empty),
            l1d: named("l1d").unwrap_or_else(empty),
            l2: named("l2").filter(|_| l2_level(spec).is_some()),
            llc_request: request.unwrap_or(spec.latency.request.value).value,
            llc_response: response.unwrap_or(spec.latency.response.value).value,
        }
    };
    (0..layout.count(Level::Core)).map(build).collect()
}

fn cpus(spec: &Spec, layout: &Layout, llc_level: Level, cores: &[CorePlace]) -> Vec<CpuPlace> {
    let ids = architectural_ids(spec, layout);
    let is_x86 = spec.isa.value == Isa::X86_64;
    let build = |unit: usize| {
        let outer = |level| layout.outer(Level::Smt, unit, level);
        let core = outer(Level::Core);
        CpuPlace {
            core,
            smt: layout.units[Level::Smt as usize][unit].index,
            cluster: outer(Level::Cluster),
            complex: outer(Level::Complex),
            die: outer(Level::Die),
            package: outer(Level::Package),
            node: outer(spec.memory.node.value),
            llc: outer(llc_level),
            core_type: cores[core].core_type,
            apic_id: if is_x86 { u32::try_from(ids[unit]).unwrap_or(0) } else { 0 },
            mpidr: if is_x86 { 0 } else { ids[unit] },
        }
    };
    layout.order(&spec.levels.numbering).into_iter().map(build).collect()
}

fn with_cpus(mut cores: Vec<CorePlace>, cpus: &[CpuPlace]) -> Vec<CorePlace> {
    for (cpu, place) in cpus.iter().enumerate() {
        cores[place.core].cpus.push(cpu);
    }
    for core in &mut cores {
        core.cpus.sort_by_key(|&cpu| cpus[cpu].smt);
    }
    cores
}

fn llcs(spec: &Spec, layout: &Layout, llc_level: Level, core_khz: u64) -> Vec<Llc> {
    let mut llcs: Vec<Llc> = (0..layout.count(llc_level))
        .map(|llc| Llc {
            cache: None,
            cores: Vec::new(),
            package: layout.outer(llc_level, llc, Level::Package),
            node: 0,
        })
        .collect();
    for core in 0..layout.count(Level::Core) {
        let llc = &mut llcs[layout.outer(Level::Core, core, llc_level)];
        if llc.cores.is_empty() {
            llc.node = layout.outer(Level::Core, core, spec.memory.node.value);
            llc.cache = llc_cache(spec).map(|cache| cache_of(spec, layout, core, cache, core_khz));
        }
        llc.cores.push(core);
    }
    llcs
}

/// Returns the base of each node's range.
fn bases(isa: Isa, nodes: usize, size: u64) -> Vec<u64> {
    let mut next = if isa == Isa::X86_64 { 0 } else { ARM_RAM_BASE };
    let mut bases = Vec::new();
    for _ in 0..nodes {
        let is_crossing = next < DEVICE_HOLE.end && next + size > DEVICE_HOLE.start;
        if isa == Isa::X86_64 && is_crossing {
            next = DEVICE_HOLE.end;
        }
        bases.push(next);
        next += size;
    }
    bases
}

fn nodes(spec: &Spec, layout: &Layout, cpus: &[CpuPlace]) -> Vec<Node> {
    let level = spec.memory.node.value;
    let size = spec.memory.per_node.value.value;
    let bases = bases(spec.isa.value, layout.count(level), size);
    let build = |(node, base)| Node {
        base,
        size,
        package: layout.outer(level, node, Level::Package),
        cpus: (0..cpus.len()).filter(|&cpu| cpus[cpu].node == node).collect(),
    };
    bases.into_iter().enumerate().map(build).collect()
}

fn distances(spec: &Spec, nodes: &[Node]) -> Vec<u32> {
    if let Some(matrix) = &spec.memory.distance {
        let cells = matrix.value.iter().flatten();
        return cells.map(|&cell| u32::try_from(cell).unwrap_or(u32::MAX)).collect();
    }
    let default = |from: usize, to: usize| match () {
        () if from == to => 10,
        () if nodes[from].package == nodes[to].package => 12,
        () => 32,
    };
    let all = 0..nodes.len();
    all.clone().flat_map(|from| all.clone().map(move |to| default(from, to))).collect()
}

fn latency(spec: &Spec, llcs: &[Llc], nodes: &[Node]) -> Latency {
    let l = &spec.latency;
    let home_llc = if l.home_llc.place.is_some() { &l.home_llc } else { &l.llc_home };
    let is_default = l.home_llc.place.is_none();
    let node_place = |node: usize| (nodes[node].package, node);
    let llc_place = |llc: usize| (llcs[llc].package, llcs[llc].node);
    let llc_home = legs(&l.llc_home, llcs.len(), nodes.len(), &llc_place, &node_place);
    let home_llc = if is_default {
        transpose(&llc_home)
    } else {
        legs(home_llc, nodes.len(), llcs.len(), &node_place, &llc_place)
    };
    let llc_llc = if l.llc_llc.by_home.is_empty() {
        vec![legs(&l.llc_llc, llcs.len(), llcs.len(), &llc_place, &llc_place)]
    } else {
        let homes = l.llc_llc.by_home.iter();
        homes.map(|matrix| from_rows(&matrix.value, llcs.len())).collect()
    };
    Latency {
        llc_service: l.llc_service.value.value,
        home_service: l.home_service.value.value,
        memory: l.memory.value.value,
        smt_handover: l.smt_handover.value.value,
        line_keep: l.line_keep.value.value,
        exclusive_hold: l.exclusive_hold.as_ref().map_or(0, |at| at.value.value),
        retry: l.retry.value.value,
        llc_home,
        home_llc,
        llc_llc,
    }
}

fn from_rows(rows: &[Vec<u64>], columns: usize) -> Legs {
    Legs { columns, ps: rows.iter().flatten().copied().collect() }
}

/// Expands a leg over all pairs; a place is (package, node).
fn legs(
    leg: &LegSpec,
    rows: usize,
    columns: usize,
    row_place: &dyn Fn(usize) -> (usize, usize),
    column_place: &dyn Fn(usize) -> (usize, usize),
) -> Legs {
    if let Some(matrix) = &leg.matrix {
        return from_rows(&matrix.value, columns);
    }
    let ps = |at: &Option<At<Quantity>>| at.as_ref().map(|at| at.value.value);
    let package = ps(&leg.package).unwrap_or(0);
    let node = ps(&leg.node).unwrap_or(package);
    let remote = ps(&leg.remote).unwrap_or(package);
    let value = |row: usize, column: usize| match (row_place(row), column_place(column)) {
        (from, to) if from.0 != to.0 => remote,
        (from, to) if from.1 != to.1 => package,
        _ => node,
    };
    let value = &value;
    let ps = (0..rows).flat_map(|row| (0..columns).map(move |column| value(row, column)));
    Legs { columns, ps: ps.collect() }
}

fn transpose(legs: &Legs) -> Legs {
    let rows = legs.ps.len() / legs.columns.max(1);
    let ps = (0..legs.columns).flat_map(|to| (0..rows).map(move |from| legs.at(from, to)));
    Legs { columns: rows, ps: ps.collect() }
}

fn wire(spec: &Spec) -> IpiWire {
    let [same, core, llc, package, remote] = &spec.wire;
    IpiWire {
        same: same.value.value,
        core: core.value.value,
        llc: llc.value.value,
        package: package.value.value,
        remote: remote.value.value,
    }
}

/// Largest APIC ID of xAPIC; 255 is the broadcast.
pub(crate) const XAPIC_ID_MAX: u64 = 254;

fn apic_mode(spec: &Spec, cpus: &[CpuPlace]) -> ApicMode {
    let is_wide = cpus.iter().any(|cpu| u64::from(cpu.apic_id) > XAPIC_ID_MAX);
    let by_rule = if is_wide { ApicMode::X2apic } else { ApicMode::Xapic };
    spec.apic.mode.as_ref().map_or(by_rule, |mode| mode.value)
}

/// Entry into a state that empties the LLC takes the time to write all of its lines back.
fn idle(spec: &Spec, state: &IdleSpec, llcs: &[Llc]) -> IdleState {
    let us = |at: &At<Quantity>| u32::try_from(at.value.value / 1_000_000).unwrap_or(u32::MAX);
    let ps = |at: &Option<At<Quantity>>| at.as_ref().map_or(0, |at| at.value.value);
    let flushes = |name: &str| state.flushes.iter().any(|flush| flush.value == name);
    let is_llc_flushed = llc_cache(spec).is_some_and(|cache| flushes(&cache.name.value));
    let llc = llcs.iter().find_map(|llc| llc.cache.as_ref()).filter(|_| is_llc_flushed);
    let lines = llc.map_or(0, |cache| cache.size / u64::from(cache.line));
    IdleState {
        name: state.name.value.clone(),
        entry: state.entry.value,
        enabled: state.is_enabled.value,
        entry_latency: state.entry_latency.value.value + lines * ps(&state.flush_line),
        queue: ps(&state.queue),
        abortable: state.is_abortable.value,
        exit_store: state.exit_store.as_ref().map(|at| at.value.value),
        exit_interrupt: state.exit_interrupt.value.value,
        snoop_latency: state.snoop_latency.value.value,
        flushes: Flushes {
            l1: flushes("l1"),
            l2: flushes("l2"),
            llc: is_llc_flushed,
            tlb: flushes("tlb"),
        },
        timer_stops: state.timer_stops.value,
        scope: state.scope.value,
        advertised: Advertised {
            entry_us: state.told_entry.as_ref().map_or(0, us),
            wakeup_us: state.told_wakeup.as_ref().map(us),
            latency_us: us(&state.latency),
            residency_us: us(&state.residency),
        },
    }
}

fn arm(spec: &Spec) -> Arm {
    let gic = spec.gic.as_ref();
    let [load, store, acquire, release] = spec.arm.as_ref().map_or([AtomicPlace::Near; 4], |arm| {
        [0, 1, 2, 3].map(|form: usize| arm.atomics[form].value)
    });
    let arm = spec.arm.as_ref();
    Arm {
        gic: Gic {
            version: gic.map_or(GicVersion::V3, |gic| gic.version.value),
            has_range_selector: gic.is_some_and(|gic| gic.has_range_selector.value),
        },
        conduit: arm.map_or(Conduit::Smc, |arm| arm.conduit.value),
        is_multithreaded: spec.ids.is_multithreaded.value,
        physical_bits: arm.map_or(0, |arm| count(arm.physical_bits.value)),
        is_event_set: arm.is_some_and(|arm| arm.is_event_set.value),
        atomics: Atomics { load, store, release, acquire },
        exclusive_failure: arm
            .and_then(|arm| arm.exclusive_failure.as_ref())
            .map_or(0, |at| count(at.value)),
        power_on: arm.and_then(|arm| arm.power_on.as_ref()).map_or(0, |at| at.value.value),
    }
}

fn identity(spec: &Spec) -> X86Identity {
    let Some(identity) = &spec.identity else { return X86Identity::default() };
    let [family, model, stepping, physical_bits] = &identity.numbers;
    X86Identity {
        vendor: identity.vendor.value.clone(),
        brand: identity.brand.value.clone(),
        family: count(family.value),
        model: count(model.value),
        stepping: count(stepping.value),
        physical_bits: count(physical_bits.value),
    }
}

/// Returns the sorted features; the word `generic` stands for its set.
pub(crate) fn feature_set(spec: &Spec) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for feature in &spec.features {
        if feature.value == "generic" {
            names.extend(features::generic(spec.isa.value).map(str::to_string));
        } else {
            names.push(feature.value.clone());
        }
    }
    names.sort();
    names.dedup();
    names
}
