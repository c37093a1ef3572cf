//! Addresses, selectors and limits of the x86-64 entry contract; arm64 takes all of them from
//! the FDT.
//!
//! At hand-over CPU 0 is in 64-bit mode, CPL 0, IF = 0, with all RAM and the MMIO hole
//! identity-mapped, `rdi` = address of the FDT and `rsp` at the top of a stack of
//! [`BOOT_STACK_BYTES`].

/// Largest number of CPUs that image and machine agree on.
pub const CPUS_MAX: usize = 1024;

/// Largest number of NUMA nodes that image and machine agree on.
pub const NODES_MAX: usize = 64;

/// Bytes of a cache line for which the guest's line map is laid out.
pub const LINE_BYTES: usize = 64;

/// First byte of the area that holds page tables, boot stack and GDT at hand-over.
pub const BOOT_TABLES_BASE: u64 = 0x1000;

/// First byte after the area that holds page tables, boot stack and GDT at hand-over.
pub const BOOT_TABLES_END: u64 = 0x8_0000;

/// First byte of the pages that are free for start-up code of secondary CPUs.
pub const STARTUP_BASE: u64 = 0x8_0000;

/// First byte after the pages that are free for start-up code of secondary CPUs.
pub const STARTUP_END: u64 = 0x9_f000;

/// First byte after the low RAM range, which begins at 0.
pub const LOW_RAM_END: u64 = 0xa_0000;

/// First byte of the RAM range that holds images.
pub const HIGH_RAM_BASE: u64 = 0x10_0000;

/// First byte of the MMIO hole below 4 GiB.
pub const HOLE_BASE: u64 = 0xc000_0000;

/// First byte after the MMIO hole; RAM goes on from here.
pub const HOLE_END: u64 = 0x1_0000_0000;

/// Bytes of the stack on which CPU 0 starts.
pub const BOOT_STACK_BYTES: u64 = 16 * 1024;

/// Code selector at hand-over (64-bit, CPL 0).
pub const BOOT_CS: u16 = 0x08;

/// Data selector at hand-over.
pub const BOOT_DS: u16 = 0x10;

/// Physical base of the I/O APIC.
pub const IOAPIC_BASE: u64 = 0xfec0_0000;

/// Physical base of the local APIC page in xAPIC mode.
pub const LAPIC_BASE: u64 = 0xfee0_0000;

/// Physical base of the test device page.
pub const TEST_DEVICE_BASE: u64 = 0xfed8_0000;

/// Physical base of the DMA engine's page.
pub const DMA_ENGINE_BASE: u64 = 0xfed9_0000;

/// I/O port of COM1.
pub const COM1_PORT: u16 = 0x3f8;

/// Names in the FDT that are ours; properties stand in the root node, except [`fdt::LLC_ID`],
/// [`fdt::CLUSTER_ID`] and [`fdt::CORE_ID`], which stand in each cpu node.
pub mod fdt {
    /// TSC frequency in Hz, as one or two cells.
    pub const TSC_HZ: &str = "crosscall,tsc-hz";
    /// Input frequency of the local APIC timer in Hz, before its divider, as one or two cells.
    pub const APIC_TIMER_HZ: &str = "crosscall,apic-timer-hz";
    /// LLC domain of a CPU, dense from 0, one cell.
    pub const LLC_ID: &str = "crosscall,llc-id";
    /// Cluster of a CPU, dense from 0, one cell; the complex where complexes have no clusters.
    pub const CLUSTER_ID: &str = "crosscall,cluster-id";
    /// Core of a CPU, dense from 0, one cell; the threads of a core share it.
    pub const CORE_ID: &str = "crosscall,core-id";
    /// `compatible` of the test device; its `reg` is where it is.
    pub const TEST_DEVICE: &str = "crosscall,test-device";
}
