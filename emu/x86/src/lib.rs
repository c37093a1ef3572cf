//! x86-64 cpu: decoding, instruction semantics, translation, exceptions, local APIC.
//!
//! Reading order: `defs` (facts), `state` (registers), `decode` (ops), `ctx` (what instruction
//! bodies may touch), `exec` (bodies by family), `segment`, `mmu`, `tlb`, `fault`, `mwait`, `msr`,
//! `apic`, `code` (decoded blocks), `cpu` (one step). `flat_user` is a
//! user's world for tests of bodies.

pub mod apic;
pub mod code;
mod control_reg;
pub mod cpu;
pub mod ctx;
pub mod decode;
pub mod defs;
pub mod exec;
pub mod fault;
pub mod flags;
pub mod flat_user;
mod ipi;
pub mod mmu;
pub mod msr;
pub mod mwait;
pub mod segment;
pub mod state;
pub mod tlb;

pub use cpu::{CpuConfig, CpuIdentity, CpuidRow, IdleTable, X86Cpu};
