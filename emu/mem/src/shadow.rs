//! Shadow mode (`engine.md` section 12): messages and copies carry the bytes of their line.
//!
//! Values live in flat memory and are touched under permission only (V1). So a stale copy would
//! still read the newest value, and dirty data that were dropped would not be missed. Under the
//! feature `shadow` each core, LLC and home keeps the bytes of its copies too, and they travel
//! with the messages that would carry data on a real machine: grants, Puts, and answers of a
//! writer. A home's memory changes by write-back only. Each access then compares the copy of its
//! own core with flat memory.
//!
//! Without the feature all types are empty, and so is every function of them.

mod core;
pub use core::CoreCopies;

#[cfg(feature = "shadow")]
mod on;
#[cfg(feature = "shadow")]
pub use on::{Copies, Data};

#[cfg(not(feature = "shadow"))]
mod off;
#[cfg(not(feature = "shadow"))]
pub use off::{Copies, Data};
