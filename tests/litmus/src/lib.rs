//! Litmus tests of memory order: small programs of several cpus, judged by the architecture.
//!
//! A test in herd's text format is parsed, its complete set of final states is enumerated by a
//! small machine of x86-TSO, and the same test then runs thousands of times on an emulated
//! machine: every state seen must be in the set. What is not checked: progress, time, anything
//! but write-back memory.
//!
//! Reading order: `program` and `condition` (what a test is), `syntax` (from text), `tso` (what is
//! allowed), `place` and `plan` (where it runs and what changes from iteration to iteration),
//! `guest` and `boot` (the image), `run` (on the machine), `corpus` (where tests come from),
//! `report`.

pub mod boot;
pub mod condition;
pub mod corpus;
pub mod guest;
pub mod place;
pub mod plan;
pub mod program;
pub mod report;
pub mod run;
pub mod syntax;
pub mod tso;

pub use condition::{Condition, Quantifier};
pub use program::{Outcome, Test};
