//! A machine: assembled from a topology, loaded with an image, run until an event.

mod api;

pub use api::{CpuCounters, Options, PointAction, PointRule, Stop, Until};
