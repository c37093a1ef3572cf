//! Memory order, exclusives and messages between cores, on the smallest machine that has them: real
//! cores that run programs of a few operations, one LLC, one home.
//!
//! Reading order: `world` (the machine, its instruction set), then the tests.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(unreachable_pub, missing_docs, reason = "modules of one test")]

mod answers;
mod exclusive;
mod far;
mod order;
mod world;
