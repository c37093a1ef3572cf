//! The device tree of a machine: its topology as the guest is told it.
//!
//! Modelled: cpus with caches, NUMA nodes, `cpu-map`, idle states with their advertised values,
//! clocks, memory and distances, command line, initial RAM disk, fixed devices; on both ISAs. Not
//! modelled: reserved memory, clocks that change.
//! Source: \[DTSpec\] "Device Node Requirements"; Linux bindings `cpu/cpu-topology`,
//! `cpu/idle-states`, `numa`. Names that begin with `crosscall,` are ours; docs/guest-abi.md
//! lists them.

mod arm;

use std::error::Error;
use std::fmt;
use std::ops::Range;

use guests_abi::layout;
use topology::{
    ApicMode, Cache, CorePlace, IdleEntry, IdleState, Isa, Level, Machine, Node, RamRange,
};
use vm_fdt::FdtWriter;

/// Largest command line in bytes.
pub const MAX_BOOTARGS_BYTES: usize = 64 << 10;

// Ranges of phandles, one for each kind of node that others point to.
const CPU: u32 = 0x1_0000;
const L2: u32 = 0x2_0000;
const LLC: u32 = 0x3_0000;
const IDLE: u32 = 0x4_0000;

/// Why no device tree can be made.
#[derive(Debug, PartialEq)]
#[non_exhaustive]
pub enum FdtError {
    /// The command line is too long or holds a NUL.
    BootArgs {
        /// Bytes of the command line.
        len: usize,
    },
    /// More cpus asked for than the machine has, or none.
    Cpus {
        /// Asked for.
        found: usize,
        /// The machine's.
        allowed: usize,
    },
    /// The writer refused.
    Write(vm_fdt::Error),
}

impl fmt::Display for FdtError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BootArgs { len } => write!(
                f,
                "command line of {len} bytes, allowed are {MAX_BOOTARGS_BYTES} without a NUL; \
                 shorten it"
            ),
            Self::Cpus { found, allowed } => {
                write!(f, "{found} cpus asked for, the machine has 1 to {allowed}; lower --cpus")
            }
            Self::Write(_) => f.write_str("the device tree cannot be written"),
        }
    }
}

impl Error for FdtError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Write(error) => Some(error),
            _ => None,
        }
    }
}

impl From<vm_fdt::Error> for FdtError {
    fn from(error: vm_fdt::Error) -> Self {
        Self::Write(error)
    }
}

type Result<T> = std::result::Result<T, FdtError>;

/// What the loader tells the guest: `/chosen`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chosen<'a> {
    /// Command line.
    pub bootargs: &'a str,
    /// Physical addresses of the initial RAM disk.
    pub initrd: Option<Range<u64>>,
}

impl<'a> From<&'a str> for Chosen<'a> {
    fn from(bootargs: &'a str) -> Self {
        Chosen { bootargs, initrd: None }
    }
}

/// Makes the device tree for the first `cpus` cpus of a machine.
///
/// Errors: `BootArgs`, `Cpus`.
pub fn build<'a>(machine: &Machine, cpus: usize, chosen: impl Into<Chosen<'a>>) -> Result<Vec<u8>> {
    let chosen = chosen.into();
    let bootargs = chosen.bootargs;
    if bootargs.len() > MAX_BOOTARGS_BYTES || bootargs.contains('\0') {
        return Err(FdtError::BootArgs { len: bootargs.len() });
    }
    if cpus == 0 || cpus > machine.cpus.len() {
        return Err(FdtError::Cpus { found: cpus, allowed: machine.cpus.len() });
    }
    let mut fdt = FdtWriter::new()?;
    fdt.set_boot_cpuid_phys(low(register_id(machine, 0)));
    let root = fdt.begin_node("")?;
    fdt.property_string("compatible", "crosscall,machine")?;
    fdt.property_string("model", &machine.id)?;
    fdt.property_u32("#address-cells", 2)?;
    fdt.property_u32("#size-cells", 2)?;
    fdt.property_u64(layout::fdt::TSC_HZ, machine.clocks.tsc_khz.saturating_mul(1000))?;
    if machine.isa == Isa::X86_64 {
        fdt.property_u64(layout::fdt::APIC_TIMER_HZ, machine.clocks.apic_timer_hz)?;
        let mode = match machine.apic.mode {
            ApicMode::Xapic => "xapic",
            ApicMode::X2apic => "x2apic",
        };
        fdt.property_string("crosscall,apic-mode", mode)?;
    } else {
        fdt.property_u32("interrupt-parent", arm::GIC)?;
    }
    write_chosen(&mut fdt, machine, &chosen)?;
    write_cpus(&mut fdt, machine, cpus)?;
    write_memory(&mut fdt, machine)?;
    match machine.isa {
        Isa::X86_64 => write_x86_devices(&mut fdt, machine)?,
        Isa::Aarch64 => arm::write(&mut fdt, machine, cpus)?,
    }
    fdt.end_node(root)?;
    Ok(fdt.finish()?)
}

fn write_chosen(fdt: &mut FdtWriter, machine: &Machine, chosen: &Chosen<'_>) -> Result<()> {
    let node = fdt.begin_node("chosen")?;
    fdt.property_string("bootargs", chosen.bootargs)?;
    if machine.isa == Isa::Aarch64 {
        fdt.property_string("stdout-path", arm::CONSOLE)?;
    }
    if let Some(Range { start, end }) = chosen.initrd {
        fdt.property_u64("linux,initrd-start", start)?;
        fdt.property_u64("linux,initrd-end", end)?;
    }
    fdt.end_node(node)?;
    Ok(())
}

/// What `reg` of a cpu holds: its APIC ID or its MPIDR affinity.
fn register_id(machine: &Machine, cpu: usize) -> u64 {
    let place = &machine.cpus[cpu];
    match machine.isa {
        Isa::X86_64 => u64::from(place.apic_id),
        Isa::Aarch64 => place.mpidr & 0xff_00ff_ffff,
    }
}

fn low(value: u64) -> u32 {
    (value & 0xffff_ffff) as u32
}

/// A dense index as a phandle of its range.
fn handle(range: u32, index: usize) -> u32 {
    range + low(index as u64)
}

fn write_cpus(fdt: &mut FdtWriter, machine: &Machine, cpus: usize) -> Result<()> {
    let is_x86 = machine.isa == Isa::X86_64;
    let node = fdt.begin_node("cpus")?;
    fdt.property_u32("#address-cells", if is_x86 { 1 } else { 2 })?;
    fdt.property_u32("#size-cells", 0)?;
    write_cpu_map(fdt, machine, cpus)?;
    let idle: Vec<_> = told_states(machine).collect();
    if !idle.is_empty() {
        let states = fdt.begin_node("idle-states")?;
        if !is_x86 {
            fdt.property_string("entry-method", "psci")?;
        }
        for (index, state) in &idle {
            write_idle_state(fdt, *index, state)?;
        }
        fdt.end_node(states)?;
    }
    let handles: Vec<u32> = idle.iter().map(|(index, _)| handle(IDLE, *index)).collect();
    for cpu in 0..cpus {
        write_cpu(fdt, machine, cpu, &handles)?;
    }
    write_caches(fdt, machine, cpus)?;
    fdt.end_node(node)?;
    Ok(())
}

fn write_cpu(fdt: &mut FdtWriter, machine: &Machine, cpu: usize, idle: &[u32]) -> Result<()> {
    let place = &machine.cpus[cpu];
    let core = &machine.cores[place.core];
    let id = register_id(machine, cpu);
    let node = fdt.begin_node(&format!("cpu@{id:x}"))?;
    fdt.property_string("device_type", "cpu")?;
    match machine.isa {
        Isa::X86_64 => {
            fdt.property_string("compatible", "crosscall,x86-64")?;
            fdt.property_u32("reg", low(id))?;
        }
        Isa::Aarch64 => {
            let name = arm::core_name(machine.core_types[place.core_type].midr);
            fdt.property_string("compatible", name)?;
            fdt.property_u64("reg", id)?;
            fdt.property_string("enable-method", "psci")?;
        }
    }
    fdt.property_phandle(handle(CPU, cpu))?;
    fdt.property_u32("numa-node-id", low(place.node as u64))?;
    fdt.property_u32(layout::fdt::LLC_ID, low(place.llc as u64))?;
    fdt.property_u32(layout::fdt::CLUSTER_ID, low(place.cluster as u64))?;
    fdt.property_u32(layout::fdt::CORE_ID, low(place.core as u64))?;
    fdt.property_u64("clock-frequency", core.core_khz.saturating_mul(1000))?;
    write_cache_size(fdt, "i-", &core.l1i)?;
    write_cache_size(fdt, "d-", &core.l1d)?;
    if core.l2.is_some() {
        fdt.property_u32("next-level-cache", handle(L2, place.core))?;
    } else if machine.llcs[place.llc].cache.is_some() {
        fdt.property_u32("next-level-cache", handle(LLC, place.llc))?;
    }
    if !idle.is_empty() {
        fdt.property_array_u32("cpu-idle-states", idle)?;
    }
    fdt.end_node(node)?;
    Ok(())
}

fn write_cache_size(fdt: &mut FdtWriter, prefix: &str, cache: &Cache) -> Result<()> {
    fdt.property_u32(&format!("{prefix}cache-size"), low(cache.size))?;
    fdt.property_u32(&format!("{prefix}cache-line-size"), cache.line)?;
    fdt.property_u32(&format!("{prefix}cache-sets"), low(cache.sets()))?;
    Ok(())
}

/// Writes the second and last levels that the first `cpus` cpus use.
fn write_caches(fdt: &mut FdtWriter, machine: &Machine, cpus: usize) -> Result<()> {
    let in_use = |members: &[usize]| members.iter().any(|&cpu| cpu < cpus);
    let core_in_use = |core: &CorePlace| in_use(&core.cpus);
    for (index, core) in machine.cores.iter().enumerate() {
        let Some(cache) = core.l2.as_ref().filter(|_| core_in_use(core)) else { continue };
        let next = machine.llcs[core.llc].cache.as_ref().map(|_| handle(LLC, core.llc));
        let name = format!("l2-cache-{index}");
        write_unified_cache(fdt, &name, handle(L2, index), 2, cache, next)?;
    }
    for (index, llc) in machine.llcs.iter().enumerate() {
        let is_used = llc.cores.iter().any(|&core| core_in_use(&machine.cores[core]));
        let Some(cache) = llc.cache.as_ref().filter(|_| is_used) else { continue };
        let has_l2 = llc.cores.iter().any(|&core| machine.cores[core].l2.is_some());
        let level = if has_l2 { 3 } else { 2 };
        let name = format!("l{level}-cache-llc{index}");
        write_unified_cache(fdt, &name, handle(LLC, index), level, cache, None)?;
    }
    Ok(())
}

fn write_unified_cache(
    fdt: &mut FdtWriter,
    name: &str,
    phandle: u32,
    level: u32,
    cache: &Cache,
    next: Option<u32>,
) -> Result<()> {
    let node = fdt.begin_node(name)?;
    fdt.property_string("compatible", "cache")?;
    fdt.property_null("cache-unified")?;
    fdt.property_u32("cache-level", level)?;
    write_cache_size(fdt, "", cache)?;
    if let Some(next) = next {
        fdt.property_u32("next-level-cache", next)?;
    }
    fdt.property_phandle(phandle)?;
    fdt.end_node(node)?;
    Ok(())
}

/// The idle states the guest is told of; plain WFI is known without being told.
fn told_states(machine: &Machine) -> impl Iterator<Item = (usize, &IdleState)> {
    let states = machine.idle.iter().enumerate();
    states.filter(|(_, state)| state.enabled && state.entry != IdleEntry::Wfi)
}

fn write_idle_state(fdt: &mut FdtWriter, index: usize, state: &IdleState) -> Result<()> {
    let node = fdt.begin_node(&format!("state-{}", state.name))?;
    match state.entry {
        IdleEntry::Psci(parameter) => {
            fdt.property_string("compatible", "arm,idle-state")?;
            fdt.property_u32("arm,psci-suspend-param", parameter)?;
        }
        IdleEntry::Hlt | IdleEntry::Wfi => {
            fdt.property_string("compatible", "crosscall,idle-state")?;
            fdt.property_string("crosscall,entry", "hlt")?;
        }
        IdleEntry::Mwait(hint) => {
            fdt.property_string("compatible", "crosscall,idle-state")?;
            fdt.property_string("crosscall,entry", "mwait")?;
            fdt.property_u32("crosscall,mwait-hint", hint)?;
        }
        IdleEntry::Port(port) => {
            fdt.property_string("compatible", "crosscall,idle-state")?;
            fdt.property_string("crosscall,entry", "port")?;
            fdt.property_u32("crosscall,io-port", u32::from(port))?;
        }
    }
    fdt.property_string("idle-state-name", &state.name)?;
    // ACPI and the tables of drivers know one latency; it counts from the wake event.
    fdt.property_u32("entry-latency-us", state.advertised.entry_us)?;
    fdt.property_u32("exit-latency-us", state.advertised.latency_us)?;
    fdt.property_u32("min-residency-us", state.advertised.residency_us)?;
    if let Some(wakeup) = state.advertised.wakeup_us {
        fdt.property_u32("wakeup-latency-us", wakeup)?;
    }
    if state.timer_stops {
        fdt.property_null("local-timer-stop")?;
    }
    fdt.property_phandle(handle(IDLE, index))?;
    fdt.end_node(node)?;
    Ok(())
}

/// One cpu with its unit at each level of the map, outermost first.
struct Mapped {
    path: Vec<usize>,
    cpu: usize,
}

/// Levels of `cpu-map` between socket and core: those that divide their parents, at least one.
fn cluster_levels(machine: &Machine) -> Vec<Level> {
    let mut outer = machine.packages();
    let mut levels = Vec::new();
    for level in [Level::Die, Level::Complex, Level::Cluster] {
        let count = machine.level(level).count;
        if count > outer {
            levels.push(level);
            outer = count;
        }
    }
    if levels.is_empty() {
        levels.push(Level::Complex);
    }
    levels
}

fn write_cpu_map(fdt: &mut FdtWriter, machine: &Machine, cpus: usize) -> Result<()> {
    let clusters = cluster_levels(machine);
    let has_smt = machine.level(Level::Smt).count > machine.cores.len();
    let mut names = vec!["socket"];
    names.extend(clusters.iter().map(|_| "cluster"));
    names.push("core");
    if has_smt {
        names.push("thread");
    }
    let path = |cpu: usize| {
        let place = &machine.cpus[cpu];
        let mut path = vec![place.package];
        path.extend(clusters.iter().map(|level| match level {
            Level::Die => place.die,
            Level::Complex => place.complex,
            _ => place.cluster,
        }));
        path.push(place.core);
        if has_smt {
            path.push(place.smt);
        }
        path
    };
    let mut mapped: Vec<Mapped> = (0..cpus).map(|cpu| Mapped { path: path(cpu), cpu }).collect();
    mapped.sort_by(|a, b| a.path.cmp(&b.path));
    let node = fdt.begin_node("cpu-map")?;
    write_map_level(fdt, &names, 0, &mapped)?;
    fdt.end_node(node)?;
    Ok(())
}

/// Writes the units of one level; bindings number them from 0 inside each parent.
fn write_map_level(
    fdt: &mut FdtWriter,
    names: &[&str],
    depth: usize,
    mapped: &[Mapped],
) -> Result<()> {
    for (number, unit) in mapped.chunk_by(|a, b| a.path[depth] == b.path[depth]).enumerate() {
        let node = fdt.begin_node(&format!("{}{number}", names[depth]))?;
        if depth + 1 == names.len() {
            fdt.property_u32("cpu", handle(CPU, unit[0].cpu))?;
        } else {
            write_map_level(fdt, names, depth + 1, unit)?;
        }
        fdt.end_node(node)?;
    }
    Ok(())
}

fn write_memory(fdt: &mut FdtWriter, machine: &Machine) -> Result<()> {
    for RamRange { base, size, node } in machine.ram() {
        let memory = fdt.begin_node(&format!("memory@{base:x}"))?;
        fdt.property_string("device_type", "memory")?;
        fdt.property_array_u64("reg", &[base, size])?;
        fdt.property_u32("numa-node-id", low(node as u64))?;
        fdt.end_node(memory)?;
    }
    let nodes: &[Node] = &machine.nodes;
    let mut matrix = Vec::with_capacity(nodes.len() * nodes.len() * 3);
    for from in 0..nodes.len() {
        for to in 0..nodes.len() {
            let distance = machine.node_distance(from, to);
            matrix.extend([low(from as u64), low(to as u64), distance]);
        }
    }
    let node = fdt.begin_node("distance-map")?;
    fdt.property_string("compatible", "numa-distance-map-v1")?;
    fdt.property_array_u32("distance-matrix", &matrix)?;
    fdt.end_node(node)?;
    Ok(())
}

fn write_x86_devices(fdt: &mut FdtWriter, machine: &Machine) -> Result<()> {
    for (name, compatible, base) in [
        ("interrupt-controller", "intel,ce4100-ioapic", layout::IOAPIC_BASE),
        ("interrupt-controller", "intel,ce4100-lapic", layout::LAPIC_BASE),
        ("test-device", "crosscall,test-device", layout::TEST_DEVICE_BASE),
        ("dma-controller", guests_abi::dma::COMPATIBLE, layout::DMA_ENGINE_BASE),
    ] {
        if base == layout::DMA_ENGINE_BASE && machine.dma_latency.is_none() {
            continue;
        }
        let node = fdt.begin_node(&format!("{name}@{base:x}"))?;
        fdt.property_string("compatible", compatible)?;
        fdt.property_array_u64("reg", &[base, 0x1000])?;
        fdt.end_node(node)?;
    }
    let node = fdt.begin_node("serial")?;
    fdt.property_string("compatible", "ns16550a")?;
    fdt.property_u32("crosscall,io-port", u32::from(layout::COM1_PORT))?;
    fdt.end_node(node)?;
    Ok(())
}
