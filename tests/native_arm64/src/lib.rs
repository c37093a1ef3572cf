//! Single arm64 instructions, compared with what qemu's user mode makes of them.
//!
//! The other side is a static program (`guest/runner.c`) that is compiled when the test runs. It
//! reads records from its standard input: two words, registers, a window of memory; and writes
//! what they have become. qemu shares no code with the model.
//!
//! Not compared: time, system registers, exceptions beyond "undefined" and "some abort", cumulative
//! floating-point flags but QC.
//!
//! Reading order: `group` (what is generated), `case` (a record), `world` (the model's side),
//! `oracle` (the other side), `left_out` (what the model lacks), `run`.

pub mod case;
pub mod group;
pub mod left_out;
pub mod oracle;
pub mod run;
pub mod world;
