//! What the machine is, as read from its device tree, in tables.

use core::ops::Range;

use guests_abi::layout::fdt::{CLUSTER_ID, CORE_ID, LLC_ID, TEST_DEVICE};
use guests_abi::layout::{CPUS_MAX, NODES_MAX};

use crate::arch;
use crate::arch::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use crate::console::die;
use crate::fdt::{self, DEPTH_MAX, Event, Fdt};
use crate::memory;
use crate::percpu::Cpu;
use crate::testdev;
use crate::{broadcast, cpuidle, dma};

/// What is known of a CPU before it runs; read-mostly afterwards.
#[repr(C)]
pub(crate) struct CpuFacts {
    /// APIC ID, or affinity fields of MPIDR.
    hw_id: AtomicU64,
    /// Node whose memory is nearest.
    node: AtomicU32,
    /// LLC domain.
    llc: AtomicU32,
    /// Cluster.
    cluster: AtomicU32,
    /// Core.
    core: AtomicU32,
    /// Name of the nearest cache outside the core's first level: its L2, where there is one.
    l2: AtomicU32,
    /// Address of the CPU's area.
    pub(crate) area: AtomicU64,
}

impl CpuFacts {
    /// Number of the CPU.
    pub(crate) fn cpu(&'static self) -> usize {
        let bytes = core::ptr::from_ref(self) as usize - CPUS.as_ptr() as usize;
        bytes / size_of::<CpuFacts>()
    }
}

static CPUS: [CpuFacts; CPUS_MAX] = [const {
    CpuFacts {
        hw_id: AtomicU64::new(0),
        node: AtomicU32::new(0),
        llc: AtomicU32::new(0),
        cluster: AtomicU32::new(0),
        core: AtomicU32::new(0),
        l2: AtomicU32::new(0),
        area: AtomicU64::new(0),
    }
}; CPUS_MAX];

static CPU_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Number of CPUs.
#[inline]
pub(crate) fn cpu_count() -> usize {
    CPU_COUNT.load(Relaxed)
}

/// Hardware ID (APIC ID, MPIDR) of a CPU.
#[inline]
pub(crate) fn hw_id(cpu: usize) -> u64 {
    CPUS[cpu].hw_id.load(Relaxed)
}

/// Facts of a CPU.
pub(crate) fn facts(cpu: usize) -> &'static CpuFacts {
    &CPUS[cpu]
}

/// Node of a CPU.
pub(crate) fn node(cpu: usize) -> usize {
    CPUS[cpu].node.load(Relaxed) as usize
}

/// LLC domain of a CPU.
#[inline]
pub(crate) fn llc_id(cpu: usize) -> usize {
    CPUS[cpu].llc.load(Relaxed) as usize
}

/// Cluster of a CPU.
pub(crate) fn cluster_id(cpu: usize) -> usize {
    CPUS[cpu].cluster.load(Relaxed) as usize
}

/// Core of a CPU.
#[inline]
pub(crate) fn core_id(cpu: usize) -> usize {
    CPUS[cpu].core.load(Relaxed) as usize
}

/// Whether two CPUs share the last-level cache.
#[inline]
pub(crate) fn share_llc(a: usize, b: usize) -> bool {
    llc_id(a) == llc_id(b)
}

/// Whether two CPUs share an L2, as the threads of a core do.
#[inline]
pub(crate) fn share_l2(a: usize, b: usize) -> bool {
    CPUS[a].l2.load(Relaxed) == CPUS[b].l2.load(Relaxed)
}

/// Address of the area of a CPU.
pub(crate) fn area_address(cpu: usize) -> u64 {
    CPUS[cpu].area.load(Relaxed)
}

/// The area of a CPU; all areas are ready once every CPU has counted itself as up.
#[inline]
#[expect(unsafe_code, reason = "makes a reference of an address")]
pub(crate) fn cpu(cpu: usize) -> &'static Cpu {
    // SAFETY: `place_areas` set a whole area aside for each CPU, which its CPU has filled.
    unsafe { &*(CPUS[cpu].area.load(Relaxed) as *const Cpu) }
}

/// Values of a node that the walk is in.
#[derive(Clone, Copy, Default)]
pub(crate) struct Node {
    compatible: &'static [u8],
    reg: &'static [u8],
    /// Cells of `interrupts`.
    pub(crate) interrupts: &'static [u8],
    /// `method` of a PSCI node.
    pub(crate) method: &'static str,
    numa_node: u32,
    llc: u32,
    cluster: u32,
    core: u32,
    /// Phandle of the next cache.
    next_cache: u32,
    /// Hz of a device's clock.
    pub(crate) clock_hz: u32,
    idle: cpuidle::Properties,
}

impl Node {
    /// Whether one of the names of the node's `compatible` is this one.
    pub(crate) fn is(&self, compatible: &str) -> bool {
        self.compatible.split(|&byte| byte == 0).any(|name| name == compatible.as_bytes())
    }

    /// The ranges of addresses of `reg`: pairs of two-cell address and size.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        self.reg.chunks_exact(16).filter_map(|pair| {
            let base = fdt::number(&pair[..8])?;
            Some(base..base.checked_add(fdt::number(&pair[8..])?)?)
        })
    }
}

/// Reads the tree; returns the command line. Memory can be allocated afterwards.
pub(crate) fn read(tree: Fdt) -> &'static str {
    let mut command_line = "";
    let mut nodes = [Node::default(); DEPTH_MAX + 1];
    let mut count = 0;
    // What lies below the image belongs to the machine.
    let reserved = [0..image_end(), tree.range()];
    let walked = tree.walk(|event| match event {
        Event::Property { path: path @ [_, "cpus", "idle-states", _], name, value } => {
            nodes[path.len()].idle.take(name, value);
        }
        Event::Property { path, name, value } => match name {
            "compatible" => nodes[path.len()].compatible = value,
            "reg" => nodes[path.len()].reg = value,
            "interrupts" => nodes[path.len()].interrupts = value,
            "method" => nodes[path.len()].method = fdt::text(value).unwrap_or(""),
            "numa-node-id" => nodes[path.len()].numa_node = cell(value),
            "next-level-cache" => nodes[path.len()].next_cache = cell(value),
            "clock-frequency" => nodes[path.len()].clock_hz = cell(value),
            LLC_ID => nodes[path.len()].llc = cell(value),
            CLUSTER_ID => nodes[path.len()].cluster = cell(value),
            CORE_ID => nodes[path.len()].core = cell(value),
            "bootargs" if matches!(path, [_, "chosen"]) => {
                command_line = fdt::text(value).unwrap_or("");
            }
            "distance-matrix" => set_distances(value),
            _ if path.len() == 1 => arch::find_property(name, value),
            _ => {}
        },
        Event::NodeEnd { path } => {
            let node = core::mem::take(&mut nodes[path.len()]);
            match path {
                [_, "cpus", name] if name.starts_with("cpu@") => {
                    add_cpu(count, node);
                    count += 1;
                }
                [_, name] if name.starts_with("memory") => add_memory(node, &reserved),
                [_, "cpus", "idle-states", _] => cpuidle::find(&node.idle),
                _ if node.is(guests_abi::dma::COMPATIBLE) => dma::find(&node),
                _ if node.is("arm,sp804") => broadcast::find(&node),
                _ if node.is(TEST_DEVICE) => testdev::find(&node),
                _ => arch::find_device(&node),
            }
        }
    });
    if walked.is_none() || count == 0 || count > CPUS_MAX {
        die!(BAD_MACHINE, "device tree malformed, or not 1 to {CPUS_MAX} cpus: {count}");
    }
    if !memory::has_node(0) {
        die!(BAD_MACHINE, "device tree gives node 0 no memory");
    }
    CPU_COUNT.store(count, Relaxed);
    command_line
}

/// Distance of a node to itself, and to others where the tree does not say.
pub(crate) const LOCAL_DISTANCE: u32 = 10;
const REMOTE_DISTANCE: u32 = 20;

/// Distances of the nodes, as from ACPI's SLIT; 0 where the tree does not say.
static DISTANCES: [[AtomicU32; NODES_MAX]; NODES_MAX] =
    [const { [const { AtomicU32::new(0) }; NODES_MAX] }; NODES_MAX];

/// Takes triples of node, node and distance.
fn set_distances(value: &[u8]) {
    for triple in value.chunks_exact(12) {
        let [from, to, distance] = [0, 4, 8].map(|at| fdt::be32(triple, at).unwrap_or(0));
        if let Some(to) = DISTANCES.get(from as usize).and_then(|row| row.get(to as usize)) {
            to.store(distance, Relaxed);
        }
    }
}

/// Distance of two nodes.
pub(crate) fn distance(from: usize, to: usize) -> u32 {
    match DISTANCES[from][to].load(Relaxed) {
        0 if from == to => LOCAL_DISTANCE,
        0 => REMOTE_DISTANCE,
        distance => distance,
    }
}

fn cell(value: &[u8]) -> u32 {
    fdt::number(value).unwrap_or(0) as u32
}

/// Sets aside an area of `bytes`, page-aligned, for each CPU on its node.
pub(crate) fn place_areas(bytes: usize) {
    for cpu in &CPUS[..cpu_count()] {
        let area = memory::alloc(cpu.node.load(Relaxed) as usize, bytes, 4096);
        cpu.area.store(area, Relaxed);
    }
}

/// Enters a CPU; the order of the tree's nodes is that of the CPU numbers.
fn add_cpu(cpu: usize, node: Node) {
    if node.numa_node as usize >= NODES_MAX {
        die!(BAD_MACHINE, "cpu {cpu} on node {}: at most {NODES_MAX} nodes", node.numa_node);
    }
    if let Some(facts) = CPUS.get(cpu) {
        facts.hw_id.store(fdt::number(node.reg).unwrap_or(0), Relaxed);
        facts.node.store(node.numa_node, Relaxed);
        facts.llc.store(node.llc, Relaxed);
        facts.cluster.store(node.cluster, Relaxed);
        facts.core.store(node.core, Relaxed);
        facts.l2.store(node.next_cache, Relaxed);
    }
}

/// Adds the ranges of a memory node.
fn add_memory(node: Node, reserved: &[Range<u64>]) {
    for range in node.ranges() {
        arch::map_ram(&range);
        memory::add_range(node.numa_node as usize, range, reserved);
    }
}

/// Address behind the image.
#[expect(unsafe_code, reason = "symbol of the linker script")]
fn image_end() -> u64 {
    unsafe extern "C" {
        static IMAGE_END: u8;
    }
    &raw const IMAGE_END as u64
}
