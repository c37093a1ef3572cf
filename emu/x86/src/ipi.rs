//! Between the local APIC and the engine: register accesses with their effects, and signals.
//!
//! A write to the register page waits for an empty store buffer first, as every uncached access
//! does; a WRMSR to the x2APIC does so only where the machine says it (`CpuConfig::icr_ordered`,
//! `engine.md` X3). The new state of the APIC takes effect after its message has left, so that an
//! access that waits can run again.
//!
//! Not modelled: EOI broadcasts to I/O APICs (level-triggered interrupts end at the local APIC),
//! NMI, INIT and start-up messages to logical destinations of several members (dropped), SMI,
//! ExtInt.

use emu_cpu::isa::Received;
use emu_cpu::port::{Fence, Port, Target};
use emu_cpu::wait::Signal;
use emu_sim::SimTime;

use crate::apic::{Accept, Arrival, Delivery, Destination, Effects, Ipi, LocalApic, Trigger};
use crate::cpu::X86Cpu;
use crate::ctx::{Ctx, Exception, Exec};

impl<P: Port> Ctx<'_, P> {
    /// Reads the register page.
    pub(crate) fn apic_read(&mut self, offset: u64, size: u8) -> Exec<u64> {
        let now = self.now();
        let value = self.cpu.apic.mmio_read(offset, size, now).unwrap_or(u64::MAX);
        self.cpu.refresh_attention();
        Ok(value & u64::MAX >> (64 - 8 * u32::from(size)))
    }

    /// Writes the register page. It must be the last request of its instruction.
    pub(crate) fn apic_write(&mut self, offset: u64, size: u8, value: u64) -> Exec<()> {
        self.port.fence(Fence::Full)?;
        let now = self.now();
        let mut apic = self.cpu.apic.clone();
        let effects = apic.mmio_write(offset, size, value, now).unwrap_or_default();
        self.apply(apic, effects, true)
    }

    /// Writes an MSR of the APIC. It must be the last request of its instruction.
    pub(crate) fn apic_wrmsr(&mut self, msr: u32, value: u64) -> Exec<()> {
        let is_ordered = self.cpu.config.icr_ordered;
        let now = self.now();
        let mut apic = self.cpu.apic.clone();
        let Ok(effects) = apic.msr_write(msr, value, now) else {
            return Err(Exception::gp(0).into());
        };
        self.apply(apic, effects, is_ordered)
    }

    /// Sends what a write asks for, then makes the new state valid.
    pub(crate) fn apply(&mut self, apic: LocalApic, effects: Effects, ordered: bool) -> Exec<()> {
        if let Some(ipi) = effects.ipi {
            self.send(&ipi, ordered)?;
        }
        self.cpu.apic = apic;
        if effects.timer_changed {
            self.port.set_timer(self.cpu.apic.next_expiry());
        }
        if effects.base_changed {
            self.cpu.tlb.forget_shortcuts();
        }
        self.cpu.refresh_attention();
        Ok(())
    }

    fn send(&mut self, ipi: &Ipi, ordered: bool) -> Exec<()> {
        let logical = logical(ipi.destination);
        let signal = match ipi.delivery {
            Delivery::Fixed | Delivery::LowestPriority => Signal::Interrupt {
                vector: ipi.vector,
                level: ipi.trigger == Trigger::Level,
                logical,
            },
            Delivery::Nmi if logical.is_none() => Signal::Nmi,
            Delivery::Init if logical.is_none() => Signal::Init,
            Delivery::StartUp if logical.is_none() => Signal::Startup(ipi.vector),
            _ => return Ok(()),
        };
        let target = match (logical, ipi.destination) {
            (Some(destination), _) => Target::Match(destination),
            (None, Destination::SelfOnly(id)) => Target::ArchId(id.0),
            (None, Destination::AllExcludingSelf(_)) => Target::AllButSelf,
            (None, Destination::Physical(id)) => Target::ArchId(id),
            (None, Destination::LogicalX2 { cluster, mask }) => {
                Target::ArchId(u32::from(cluster) << 4 | mask.trailing_zeros())
            }
            (None, Destination::AllIncludingSelf | Destination::Logical(_)) => Target::All,
        };
        Ok(self.port.signal(target, signal, ordered)?)
    }
}

/// Tells a cluster destination from one of eight bits.
const CLUSTER: u64 = 1 << 32;

/// Number by which receivers decide whether a logical destination means them; `None` where the
/// sender knows: the logical x2APIC ID is made from the ID, so a single member has a known ID.
fn logical(destination: Destination) -> Option<u64> {
    match destination {
        Destination::Logical(mda) => Some(u64::from(mda)),
        Destination::LogicalX2 { cluster, mask } if mask.count_ones() != 1 => {
            Some(CLUSTER | u64::from(cluster) << 16 | u64::from(mask))
        }
        _ => None,
    }
}

/// The destination behind such a number.
fn logical_destination(number: u64) -> Destination {
    if number & CLUSTER == 0 {
        Destination::Logical(number as u8)
    } else {
        Destination::LogicalX2 { cluster: (number >> 16) as u16, mask: number as u16 }
    }
}

impl X86Cpu {
    /// Takes a signal: see `Isa::receive`.
    pub(crate) fn take_signal(&mut self, signal: Signal, _now: SimTime) -> Received {
        let (delivery, vector, trigger, destination) = match signal {
            Signal::Interrupt { vector, level, logical } => {
                let trigger = if level { Trigger::Level } else { Trigger::Edge };
                let destination = match logical {
                    Some(number) => logical_destination(number),
                    None => Destination::AllIncludingSelf,
                };
                (Delivery::Fixed, vector, trigger, destination)
            }
            Signal::Nmi => (Delivery::Nmi, 0, Trigger::Edge, Destination::AllIncludingSelf),
            Signal::Init => (Delivery::Init, 0, Trigger::Edge, Destination::AllIncludingSelf),
            Signal::Startup(page) => {
                (Delivery::StartUp, page, Trigger::Edge, Destination::AllIncludingSelf)
            }
            // Those of the other instruction set.
            _ => return Received::Ignored,
        };
        if !self.apic.matches(destination) {
            return Received::Ignored;
        }
        let arrival = self.apic.receive(&Ipi { destination, vector, delivery, trigger });
        let received = self.arrive(arrival);
        self.refresh_attention();
        received
    }

    fn arrive(&mut self, arrival: Arrival) -> Received {
        let latch = |flag: &mut bool| {
            let was = std::mem::replace(flag, true);
            if was { Received::Merged } else { Received::Accepted }
        };
        match arrival {
            Arrival::Vector(Accept::Accepted) => Received::Accepted,
            Arrival::Vector(Accept::Merged) => Received::Merged,
            Arrival::Vector(Accept::Rejected) => Received::Ignored,
            Arrival::Nmi => latch(&mut self.nmi_pending),
            Arrival::Init => {
                self.startup = None;
                latch(&mut self.init_pending)
            }
            Arrival::StartUp { page } if self.init_pending || self.awaits_startup => {
                let was = self.startup.replace(page);
                if was.is_some() { Received::Merged } else { Received::Accepted }
            }
            Arrival::StartUp { .. } | Arrival::Smi | Arrival::ExtInt | Arrival::Ignored => {
                Received::Ignored
            }
        }
    }
}
