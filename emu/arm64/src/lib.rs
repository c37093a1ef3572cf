//! arm64 cpu: decoding, instruction semantics, translation, exceptions, GIC, firmware calls.
//!
//! Reading order: `defs` (facts), `state` (registers), `decode` (ops), `ctx` (what instruction
//! bodies may touch), `exec` (bodies by family), `mmu`, `tlb`, `maintain`, `except`, `sysreg`,
//! `timer`, `gic`, `psci`, `wfx`, `code` (decoded lines), `cpu` (one step).

pub mod code;
pub mod cpu;
pub mod ctx;
pub mod decode;
pub mod defs;
mod except;
pub mod exec;
pub mod gic;
mod maintain;
pub mod mmu;
pub mod psci;
pub mod state;
pub mod sysreg;
pub mod timer;
pub mod tlb;
mod wfx;
