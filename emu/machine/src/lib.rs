//! A machine: assembled from a topology, loaded with an image, run until an event.

mod api;

pub mod load;

pub mod fdt;

pub mod handover;

pub mod cpuid;

pub mod dev;

pub use api::{CpuCounters, Options, PointAction, PointRule, Stop, Until};
