//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod generate;
pub(crate) mod machine;
pub(crate) mod reproduce;
pub(crate) mod rtapp;
pub(crate) mod run;
pub(crate) mod sweep;
pub(crate) mod test;
pub(crate) mod workload;
