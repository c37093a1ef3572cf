//! Memory: flat values, private cache tags, and the line protocol of LLCs and homes.

pub mod cache;
pub mod msg;
pub mod paths;
pub mod phys;
pub mod shadow;

pub mod directory;
pub mod home;
pub mod laws;
pub mod llc;
pub mod llc_tags;
