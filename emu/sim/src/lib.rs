//! Simulated time, ids, keys and chance: the words that every other crate of the emulator uses.
//!
//! Nothing here knows of a cpu, a line or a device. Reading order: `time`, `ids`, `key`, `chance`.

mod chance;
mod ids;
mod key;
pub mod mutant;
mod time;

pub use chance::Chance;
pub use ids::{
    ApicId, CoreId, CpuId, HomeId, LINE_SIZE, LINE_SIZE_LOG2, LineAddr, LlcId, NodeRef, PAGE_SIZE,
    PAGE_SIZE_LOG2, PhysAddr, VirtAddr,
};
pub use key::{Agenda, Key, Phase};
pub use time::{Cycles, Freq, SimTime};
