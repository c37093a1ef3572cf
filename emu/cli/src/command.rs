//! The commands, one file each.

pub(crate) mod bench;
pub(crate) mod generate;
pub(crate) mod machine;
pub(crate) mod run;
pub(crate) mod test;
pub(crate) mod workload;
