//! Tests of the system side of a cpu, as tables: paging, descriptors, privileges, delivery, boot,
//! waits. Each run is made twice, see `world`.

mod apic;
mod boot;
mod calls;
mod code;
mod delivery;
mod fuzz;
mod paging;
mod privilege;
mod segments;
mod waits;
mod world;
