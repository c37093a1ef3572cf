//! Devices: registers in, effects out.
//!
//! Modelled: a 16550 at COM1, the test device of the guest contract, an I/O APIC; on arm64 a PL011,
//! the distributors of GICv3 and GICv2, the power controller behind the firmware, an SP804 timer;
//! on both a DMA engine;
//! power domains.
//! Not modelled: PIC, PIT, RTC, PCI, HPET; virtio is to come.
//! A device holds no handle to cpus, bus or queue: each access returns what follows from it, and
//! the machine carries it out at the time of the access. One that does something later says when it
//! is due, and is asked then. A device offset becomes a register enum
//! through one function for reads and one for writes.

pub mod dma_engine;
pub mod domains;
pub mod gicd;
pub mod gicv2;
pub mod ioapic;
pub mod pl011;
pub mod power;
pub mod sp804;
pub mod spi;
pub mod test_device;
pub mod uart16550;
