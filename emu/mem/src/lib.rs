//! Memory: flat values, private cache tags, and the line protocol of LLCs and homes.

pub mod msg;
pub mod paths;
