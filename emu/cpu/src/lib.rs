//! The core node: cpus of either ISA over private caches, store buffers and waits.
//!
//! Reading order: `isa` and `port` (the two sides of an instruction), `timing` and `scoreboard`
//! (when ops happen), `wait` (waiting as a value), `thread` (one cpu), `node` (the agenda),
//! `access` (loads, stores, atomics), `handle` (messages), `idle`, `spin`, `points`; `digest` is
//! for tests that explore all states, `flat` has ports for tests of instruction bodies.

mod access;
pub mod config;
pub mod counters;
pub mod digest;
pub mod flat;
mod handle;
mod idle;
pub mod isa;
pub mod node;
pub mod points;
pub mod port;
pub mod predict;
mod scoreboard;
mod spin;
mod store_buffer;
pub mod thread;
pub mod timing;
pub mod wait;
