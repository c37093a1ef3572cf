//! Machine descriptions: text file in, checked plain data out.
//!
//! Modelled: structure, architectural IDs, latencies, idle states and features of a machine, each
//! number with its kind and source. Not modelled: behaviour; `emu/machine` builds from `Machine`.

mod model;

pub use model::*;
