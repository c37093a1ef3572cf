//! The core node: cpus of either ISA over private caches, store buffers and waits.

pub mod isa;
pub mod port;
pub mod timing;
pub mod wait;
