//! Devices: registers in, effects out.
//!
//! Modelled: a 16550 at COM1, the test device of the guest contract, an I/O APIC. Not modelled:
//! PIC, PIT, RTC, PCI, HPET; virtio and PL011 are to come.
//! A device holds no handle to cpus, bus or queue: each access returns what follows from it, and
//! the machine carries it out at the time of the access. A device offset becomes a register enum
//! through one function for reads and one for writes.

pub mod ioapic;
pub mod test_device;
pub mod uart16550;
