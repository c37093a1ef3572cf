//! Waits and what ends them, in machine code on whole machines: monitors, idle states, timers,
//! interrupts, INIT. Each sweep forks one booted machine per case, see `world`.

#![allow(clippy::unwrap_used, reason = "an assembler answers every instruction by a Result")]

#[path = "../common/sweep.rs"]
mod sweep;
#[path = "../common/table.rs"]
mod table;

mod idle;
mod interrupt;
mod races;
mod reset;
mod stall;
mod steps;
mod timed;
mod watch;
mod world;
