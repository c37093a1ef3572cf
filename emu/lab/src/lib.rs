//! The lab: benches, scenarios and their results, on top of a machine.
//!
//! Reading order: `rig` (what a driver needs of a machine), `settings`, `bench` (one boot a
//! variant, one fork a seed), then one file a bench; `scenario` runs files of `tests/scenarios`.
//! Nothing here prints, and no result but `speed` depends on the host.

mod rig;

mod counters;
mod ending;
mod laws;
mod machines;
mod settings;
mod stats;

mod csv;
mod image;
mod published;

mod bench;
mod plug;

pub mod atomics;
pub mod c2c;
pub mod fit;
pub mod ipistorm;
pub mod reproduce;
pub mod rtapp;
pub mod run;
pub mod scenario;
pub mod speed;
pub mod sweep;
pub mod workload;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod schema_test;

pub use bench::Setup;
pub use counters::{Counters, Series, read_samples};
pub use ending::{Ending, LabError};
pub use image::{alu_loop, alu_loop_arm64, kernel};
pub use laws::{Breach, check_guest, check_machine};
pub use machines::{cpu_count, load as load_machine};
pub use plug::implemented_features;
pub use published::{IPISTORM_PAIRS, PublishedRatio, PublishedTime};
pub use rig::{Program, Progress, Rig};
pub use scenario::time_of;
pub use settings::{Cell, Dimension, Setting, Side, Switches, cells, split_pair};
pub use stats::Stats;
