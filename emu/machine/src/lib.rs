//! A machine: assembled from a topology, loaded with an image, run until an event.
//!
//! Reading order: `api` (how a run is asked for and ends), `machine` (state), `assemble` (from the
//! topology), `load`, `fdt`, `handover`, `cpuid` (what the guest meets), `run` (the loop), `bus`
//! and `dev`, `rules`.

mod api;
mod assemble;
mod bus;
pub mod cpuid;
pub mod dev;
mod earliest;
pub mod fdt;
pub mod handover;
pub mod load;
mod machine;
mod rules;
mod run;

pub use api::{Options, PointAction, PointRule, Stop, Until};
pub use emu_cpu::counters::CpuCounters;
pub use load::Image;
pub use machine::{BuildError, Machine, NamedLines};
pub use rules::UnknownPoint;
