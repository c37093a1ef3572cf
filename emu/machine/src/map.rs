//! Where arm64 machines have their devices, and which interrupts those raise. Facts only.
//!
//! A guest reads all of it from the device tree. The x86 map is part of the guest contract and
//! lies in `guests_abi::layout`.

/// Distributor of either GIC.
pub const GICD_BASE: u64 = 0x0800_0000;
/// Bytes of the distributor of GICv2.
pub const GICD_V2_BYTES: u64 = 0x1000;
/// Bytes of the distributor of GICv3.
pub const GICD_V3_BYTES: u64 = 0x1_0000;
/// CPU interface of GICv2, the same addresses for every cpu.
pub const GICC_BASE: u64 = 0x0801_0000;
/// Bytes of it.
pub const GICC_BYTES: u64 = 0x2000;
/// Redistributor of cpu 0 (GICv3); the others follow by cpu number.
pub const GICR_BASE: u64 = 0x0a00_0000;
/// Bytes of the two frames of one redistributor.
pub const GICR_BYTES: u64 = 0x2_0000;
/// Test device of the guest contract.
pub const TEST_DEVICE_BASE: u64 = 0x0900_0000;
/// PL011.
pub const UART_BASE: u64 = 0x0901_0000;
/// Bytes of each of the two.
pub const DEVICE_BYTES: u64 = 0x1000;
/// First INTID of shared peripheral interrupts.
pub const SPI_FIRST: u32 = 32;
/// First INTID of private peripheral interrupts.
pub const PPI_FIRST: u32 = 16;
/// INTIDs of the machine, from 0: SGIs, PPIs and 224 SPIs.
pub const INTIDS: u32 = 256;
/// INTID of the PL011.
pub const UART_INTID: u32 = 33;
/// INTIDs of the timers: secure, non-secure physical, virtual, hypervisor.
///
/// Source: the private numbers of Arm's base system architecture, as Linux's trees have them.
pub const TIMER_INTIDS: [u32; 4] = [29, 30, 27, 26];
/// INTID of the performance monitors.
pub const PMU_INTID: u32 = 23;
/// SP804 timer, where idle states stop the timers of cpus.
pub const TIMER_BASE: u64 = 0x0902_0000;
/// INTID of it.
pub const TIMER_INTID: u32 = 34;
/// Clock of its counters.
///
/// Source: Linux's clock driver of Hi6220, from memory: the crystal. Status: assumed elsewhere.
pub const TIMER_CLOCK_HZ: u32 = 19_200_000;
/// DMA engine, where the machine has one.
pub const DMA_ENGINE_BASE: u64 = 0x0903_0000;
/// INTID of it.
pub const DMA_ENGINE_INTID: u32 = 35;
/// Clock of the PL011, which no byte waits for.
pub const UART_CLOCK_HZ: u32 = 24_000_000;
