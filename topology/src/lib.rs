//! Machine descriptions: text file in, checked plain data out.
//!
//! Modelled: structure, architectural IDs, latencies, idle states and features of a machine, each
//! number with its kind and source. Not modelled: behaviour; `emu/machine` builds from `Machine`.
//!
//! ```
//! let machine = topology::Machine::load("duo", &["latency.memory=80ns".to_string()])?;
//! assert_eq!(machine.cpus.len(), 2);
//! assert_eq!(machine.latency.memory, 80_000);
//! # Ok::<(), topology::Report>(())
//! ```
//!
//! Reading order: `model` (what comes out), `schema` (what goes in), `check`, `resolve`, `load`.

mod model;

mod report;
mod tree;
mod units;

mod features;
mod layout;
mod read;
mod schema;

mod check;
mod resolve;

mod generate;
mod load;
mod render;

pub use features::feature_names;
pub use load::{list, text};
pub use model::*;
pub use report::{Fault, Report, near};
