//! Tests of the system side of a cpu: `rows` reads the tables of the manuals, the rest is what no
//! table says. Each run is made twice, see `world`.

mod apic;
mod boot;
mod code;
mod delivery;
mod fuzz;
mod modes;
mod msr;
mod paging;
mod rows;
mod waits;
mod words;
mod world;
