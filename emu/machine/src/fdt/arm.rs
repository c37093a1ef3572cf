//! Nodes of arm64 machines: firmware, timers, interrupt controller, PL011, PMU, test device.
//!
//! Source: Linux bindings `arm/psci`, `timer/arm,arch_timer`, `interrupt-controller/arm,gic-v3` and
//! `arm,gic`, `serial/pl011`, `arm/pmu`. Status: spec.

use topology::{Conduit, GicVersion, Machine};
use vm_fdt::FdtWriter;

use super::{Result, low};
use crate::map;

pub(super) const GIC: u32 = 0x5_0000;
const UART_CLOCK: u32 = 0x6_0000;
const TIMER_CLOCK: u32 = 0x6_0001;
/// The console as `/chosen` names it.
pub(super) const CONSOLE: &str = "/pl011@9010000";

/// Kind of an interrupt in its first cell.
const SPI: u32 = 0;
const PPI: u32 = 1;
/// Trigger in the third cell: level, active high.
const LEVEL: u32 = 4;

/// Names of cores that Linux knows, by the part number in MIDR_EL1.
pub(super) fn core_name(midr: u32) -> &'static str {
    const ARM: u32 = 0x41;
    match (midr >> 24, midr >> 4 & 0xfff) {
        (ARM, 0xd03) => "arm,cortex-a53",
        (ARM, 0xd0c) => "arm,neoverse-n1",
        _ => "arm,armv8",
    }
}

/// Writes all of them, for the first `cpus` cpus.
pub(super) fn write(fdt: &mut FdtWriter, machine: &Machine, cpus: usize) -> Result<()> {
    write_psci(fdt, machine)?;
    write_gic(fdt, machine, cpus)?;
    write_timer(fdt, machine, cpus)?;
    if machine.features.has("pmuv3") {
        let node = fdt.begin_node("pmu")?;
        fdt.property_string("compatible", "arm,armv8-pmuv3")?;
        fdt.property_array_u32("interrupts", &ppi(machine, cpus, map::PMU_INTID))?;
        fdt.end_node(node)?;
    }
    write_uart(fdt)?;
    if machine.dma_latency.is_some() {
        let node = fdt.begin_node(&format!("dma-controller@{:x}", map::DMA_ENGINE_BASE))?;
        fdt.property_string("compatible", guests_abi::dma::COMPATIBLE)?;
        fdt.property_array_u64("reg", &[map::DMA_ENGINE_BASE, map::DEVICE_BYTES])?;
        let spi = map::DMA_ENGINE_INTID - map::SPI_FIRST;
        fdt.property_array_u32("interrupts", &[SPI, spi, LEVEL])?;
        fdt.end_node(node)?;
    }
    let node = fdt.begin_node(&format!("test-device@{:x}", map::TEST_DEVICE_BASE))?;
    fdt.property_string("compatible", "crosscall,test-device")?;
    fdt.property_array_u64("reg", &[map::TEST_DEVICE_BASE, map::DEVICE_BYTES])?;
    fdt.end_node(node)?;
    Ok(())
}

/// Cells of a private interrupt. GICv2 wants the mask of cpus that have it beside the trigger.
fn ppi(machine: &Machine, cpus: usize, intid: u32) -> [u32; 3] {
    let mask = match machine.arm.gic.version {
        GicVersion::V2 => (1 << cpus.min(8)) - 1,
        GicVersion::V3 => 0,
    };
    [PPI, intid - map::PPI_FIRST, mask << 8 | LEVEL]
}

fn write_psci(fdt: &mut FdtWriter, machine: &Machine) -> Result<()> {
    let node = fdt.begin_node("psci")?;
    let names = ["arm,psci-1.0".to_string(), "arm,psci-0.2".to_string()];
    fdt.property_string_list("compatible", names.to_vec())?;
    let method = match machine.arm.conduit {
        Conduit::Hvc => "hvc",
        Conduit::Smc => "smc",
    };
    fdt.property_string("method", method)?;
    fdt.end_node(node)?;
    Ok(())
}

fn write_gic(fdt: &mut FdtWriter, machine: &Machine, cpus: usize) -> Result<()> {
    let node = fdt.begin_node(&format!("interrupt-controller@{:x}", map::GICD_BASE))?;
    match machine.arm.gic.version {
        GicVersion::V2 => {
            fdt.property_string("compatible", "arm,gic-400")?;
            let reg = [map::GICD_BASE, map::GICD_V2_BYTES, map::GICC_BASE, map::GICC_BYTES];
            fdt.property_array_u64("reg", &reg)?;
        }
        GicVersion::V3 => {
            fdt.property_string("compatible", "arm,gic-v3")?;
            let frames = map::GICR_BYTES * cpus as u64;
            let reg = [map::GICD_BASE, map::GICD_V3_BYTES, map::GICR_BASE, frames];
            fdt.property_array_u64("reg", &reg)?;
            fdt.property_u32("#redistributor-regions", 1)?;
        }
    }
    fdt.property_null("interrupt-controller")?;
    fdt.property_u32("#interrupt-cells", 3)?;
    fdt.property_u32("#address-cells", 0)?;
    fdt.property_phandle(GIC)?;
    fdt.end_node(node)?;
    Ok(())
}

fn write_timer(fdt: &mut FdtWriter, machine: &Machine, cpus: usize) -> Result<()> {
    let node = fdt.begin_node("timer")?;
    fdt.property_string("compatible", "arm,armv8-timer")?;
    let interrupts: Vec<u32> =
        map::TIMER_INTIDS.iter().flat_map(|&intid| ppi(machine, cpus, intid)).collect();
    fdt.property_array_u32("interrupts", &interrupts)?;
    if !machine.stops_timers() {
        fdt.property_null("always-on")?;
    }
    fdt.end_node(node)?;
    if machine.stops_timers() {
        write_sp804(fdt)?;
    }
    Ok(())
}

/// The timer that runs on while those of cpus stand.
fn write_sp804(fdt: &mut FdtWriter) -> Result<()> {
    write_clock(fdt, "timer-clk", map::TIMER_CLOCK_HZ, TIMER_CLOCK)?;
    let node = fdt.begin_node(&format!("timer@{:x}", map::TIMER_BASE))?;
    let names = ["arm,sp804".to_string(), "arm,primecell".to_string()];
    fdt.property_string_list("compatible", names.to_vec())?;
    fdt.property_array_u64("reg", &[map::TIMER_BASE, map::DEVICE_BYTES])?;
    fdt.property_array_u32("interrupts", &[SPI, map::TIMER_INTID - map::SPI_FIRST, LEVEL])?;
    fdt.property_u32("clock-frequency", map::TIMER_CLOCK_HZ)?;
    fdt.property_array_u32("clocks", &[TIMER_CLOCK; 3])?;
    let names = ["timer0clk", "timer1clk", "apb_pclk"].map(str::to_string);
    fdt.property_string_list("clock-names", names.to_vec())?;
    fdt.end_node(node)?;
    Ok(())
}

fn write_clock(fdt: &mut FdtWriter, name: &str, hz: u32, phandle: u32) -> Result<()> {
    let node = fdt.begin_node(name)?;
    fdt.property_string("compatible", "fixed-clock")?;
    fdt.property_u32("#clock-cells", 0)?;
    fdt.property_u32("clock-frequency", hz)?;
    fdt.property_string("clock-output-names", &name.replace('-', "_"))?;
    fdt.property_phandle(phandle)?;
    fdt.end_node(node)?;
    Ok(())
}

fn write_uart(fdt: &mut FdtWriter) -> Result<()> {
    write_clock(fdt, "apb-pclk", map::UART_CLOCK_HZ, UART_CLOCK)?;
    let node = fdt.begin_node(&format!("pl011@{:x}", map::UART_BASE))?;
    let names = ["arm,pl011".to_string(), "arm,primecell".to_string()];
    fdt.property_string_list("compatible", names.to_vec())?;
    fdt.property_array_u64("reg", &[map::UART_BASE, map::DEVICE_BYTES])?;
    let spi = low(u64::from(map::UART_INTID - map::SPI_FIRST));
    fdt.property_array_u32("interrupts", &[SPI, spi, LEVEL])?;
    fdt.property_array_u32("clocks", &[UART_CLOCK, UART_CLOCK])?;
    let clocks = ["uartclk".to_string(), "apb_pclk".to_string()];
    fdt.property_string_list("clock-names", clocks.to_vec())?;
    fdt.end_node(node)?;
    Ok(())
}
