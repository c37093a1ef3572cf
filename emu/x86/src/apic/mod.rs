//! The local APIC: a pure state machine in xAPIC, x2APIC and disabled mode.
//!
//! It takes inputs (a register access, a message, the end of a timer, the CPU's acknowledge) and
//! returns effects (a message to send, a timer to re-arm). It holds no handle to a CPU, a bus or a
//! queue, and it reads no other APIC: a message carries its destination, and each receiver
//! decides by `LocalApic::matches` whether it is meant.
//!
//! Not modelled: delivery status (a message leaves at once, so the bit reads 0), the serial bus of
//! old parts with its arbitration, focus processors, remote read, AMD's extended APIC space
//! (offsets from 0x400 on), pin levels of LINT0 and LINT1 (a request is a pulse). Which receiver
//! of a lowest-priority message takes it is the bus's choice.
//!
//! Reading order: `defs` (facts), `vectors`, `base`, `icr`, `lvt`, `errors`, `timer`, `local`
//! (life of an interrupt), `access` (registers as software sees them).

pub mod defs;
mod vectors;

mod base;
mod errors;
mod icr;
mod lvt;
mod timer;

mod access;
mod local;

pub use base::Mode;
pub use defs::{Delivery, LvtEntry, Reg, Trigger};
pub use icr::{Destination, Ipi, SendError};
pub use local::{Accept, ApicFault, Arrival, Effects, LocalApic, LocalApicConfig};
pub use vectors::VectorSet;

#[cfg(test)]
mod matrix;
