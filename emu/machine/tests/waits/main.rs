//! Waits and what ends them, in machine code on whole machines: monitors, idle states, timers,
//! interrupts, INIT. Each sweep forks one booted machine per case, see `world`.

#![allow(clippy::unwrap_used, reason = "an assembler answers every instruction by a Result")]

mod idle;
mod interrupt;
mod races;
mod reset;
mod stall;
mod steps;
mod table;
mod timed;
mod watch;
mod world;
