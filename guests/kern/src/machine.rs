//! What the machine is, as read from its device tree, in tables.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};

use guests_abi::layout::{self, CPUS_MAX};

use crate::console::die;
use crate::fdt::{self, DEPTH_MAX, Event, Fdt};
use crate::memory;
use crate::percpu::Cpu;

/// What is known of a CPU before it runs; read-mostly afterwards.
#[repr(C)]
pub(crate) struct CpuFacts {
    /// APIC ID or MPIDR.
    hw_id: AtomicU32,
    /// Node whose memory is nearest.
    node: AtomicU32,
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
    CpuFacts { hw_id: AtomicU32::new(0), node: AtomicU32::new(0), area: AtomicU64::new(0) }
}; CPUS_MAX];

static CPU_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Number of CPUs.
#[inline]
pub(crate) fn cpu_count() -> usize {
    CPU_COUNT.load(Relaxed)
}

/// Hardware ID (APIC ID, MPIDR) of a CPU.
#[inline]
pub(crate) fn hw_id(cpu: usize) -> u32 {
    CPUS[cpu].hw_id.load(Relaxed)
}

/// Node of a CPU.
pub(crate) fn node(cpu: usize) -> usize {
    CPUS[cpu].node.load(Relaxed) as usize
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

/// Facts of the machine that only boot needs.
pub(crate) struct Machine {
    /// TSC frequency, or that of the generic timer.
    pub(crate) tsc_hz: u64,
    /// Input frequency of the local timer.
    pub(crate) apic_timer_hz: u64,
    /// Boot switches.
    pub(crate) command_line: &'static str,
    /// Address of the [`CpuFacts`] of the CPU with a hardware ID; 0 where there is none.
    facts_by_hw_id: &'static mut [u64],
}

/// Highest hardware ID for which a table is made.
const HW_ID_MAX: u32 = 0xffff;

/// Values of a node that the walk is in.
#[derive(Clone, Copy, Default)]
struct Node {
    reg: &'static [u8],
    numa_node: u32,
}

impl Machine {
    /// Reads the tree. Memory can be allocated afterwards.
    pub(crate) fn from_fdt(tree: Fdt) -> Machine {
        let (mut tsc_hz, mut apic_timer_hz, mut command_line) = (0, 0, "");
        let mut nodes = [Node::default(); DEPTH_MAX + 1];
        let mut count = 0;
        let reserved = [0..layout::HIGH_RAM_BASE, image_range(), tree.range()];
        let walked = tree.walk(|event| match event {
            Event::Property { path, name, value } => match name {
                "reg" => nodes[path.len()].reg = value,
                "numa-node-id" => {
                    nodes[path.len()].numa_node = fdt::number(value).unwrap_or(0) as u32;
                }
                layout::fdt::TSC_HZ => tsc_hz = fdt::number(value).unwrap_or(0),
                layout::fdt::APIC_TIMER_HZ => apic_timer_hz = fdt::number(value).unwrap_or(0),
                "bootargs" if matches!(path, [_, "chosen"]) => {
                    command_line = fdt::text(value).unwrap_or("");
                }
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
                    _ => {}
                }
            }
        });
        if walked.is_none() || count == 0 || count > CPUS_MAX {
            die!(BAD_MACHINE, "device tree malformed, or not 1 to {CPUS_MAX} cpus: {count}");
        }
        if tsc_hz == 0 || apic_timer_hz == 0 {
            die!(BAD_MACHINE, "device tree lacks {} or its timer", layout::fdt::TSC_HZ);
        }
        if !memory::has_node(0) {
            die!(BAD_MACHINE, "device tree gives node 0 no memory");
        }
        CPU_COUNT.store(count, Relaxed);
        let hw_id_max = (0..count).map(hw_id).max().unwrap_or(0);
        if hw_id_max > HW_ID_MAX {
            die!(BAD_MACHINE, "hardware id {hw_id_max:#x}: at most {HW_ID_MAX:#x}");
        }
        let facts_by_hw_id = memory::alloc_slice(0, hw_id_max as usize + 1);
        Machine { tsc_hz, apic_timer_hz, command_line, facts_by_hw_id }
    }

    /// Sets aside an area of `bytes`, page-aligned, for each CPU on its node.
    pub(crate) fn place_areas(&mut self, bytes: usize) {
        for cpu in &CPUS[..cpu_count()] {
            let area = memory::alloc(cpu.node.load(Relaxed) as usize, bytes, 4096);
            cpu.area.store(area, Relaxed);
            let hw_id = cpu.hw_id.load(Relaxed) as usize;
            self.facts_by_hw_id[hw_id] = core::ptr::from_ref(cpu) as u64;
        }
    }

    /// Addresses of the [`CpuFacts`] by hardware ID.
    pub(crate) fn facts_by_hw_id(&self) -> &[u64] {
        self.facts_by_hw_id
    }
}

/// Enters a CPU; the order of the tree's nodes is that of the CPU numbers.
fn add_cpu(cpu: usize, node: Node) {
    if let Some(facts) = CPUS.get(cpu) {
        facts.hw_id.store(fdt::number(node.reg).unwrap_or(0) as u32, Relaxed);
        facts.node.store(node.numa_node, Relaxed);
    }
}

/// Adds the ranges of a memory node: pairs of two-cell address and size.
fn add_memory(node: Node, reserved: &[Range<u64>]) {
    for pair in node.reg.chunks_exact(16) {
        if let (Some(base), Some(bytes)) = (fdt::number(&pair[..8]), fdt::number(&pair[8..])) {
            memory::add_range(node.numa_node as usize, base..base + bytes, reserved);
        }
    }
}

/// Addresses of the image.
#[expect(unsafe_code, reason = "symbol of the linker script")]
fn image_range() -> Range<u64> {
    unsafe extern "C" {
        static IMAGE_END: u8;
    }
    layout::HIGH_RAM_BASE..&raw const IMAGE_END as u64
}
