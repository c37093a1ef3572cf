//! A random tester of coherence and memory order: machine code on all cpus, few lines, every
//! operation, and a judge that knows what may have been seen.
//!
//! A seed gives a machine, lines with a rule each, and a program for each cpu. What the cpus log
//! is read back as accesses; these must fit the rules (own values, sums, locks, whole words), have
//! one order at each location, and one order of all that x86-TSO or the model of arm64 allows. The
//! machine's counters, its assertions and a hash of the whole run are judged too. What is not
//! checked: how long anything takes; memory types other than write-back; paging; DMA;
//! dependencies, and code that is patched, on arm64.
//!
//! Reading order: `arena` (the lines), `program` (what cpus do), `guest` (as machine code),
//! `shape` (the machine), `run`, `replay` (logs to accesses), `order` (the judge), `shrink`.

pub mod arena;
pub mod guest;
pub mod order;
pub mod program;
pub mod replay;
pub mod run;
pub mod shape;
pub mod shrink;

pub use run::{Case, Host, Report};
