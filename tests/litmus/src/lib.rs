//! Litmus tests of memory order: small programs of several cpus, judged by the architecture.
//!
//! A test in herd's text format is parsed, its complete set of final states is enumerated, and the
//! same test then runs thousands of times on an emulated machine: every state seen must be in the
//! set. What is not checked: progress, time, anything but write-back memory.
//!
//! A front end per instruction set (`x86`, `arm64`) knows the cells of the table, the rules of its
//! memory model, and the code of the image. One plan, one runner and one judge serve both, and meet
//! a front end only through [`program::Program`].
//!
//! Reading order: `program` and `condition` (what a test is), `syntax` (from text), `judge` (what
//! is allowed), `place` and `plan` (where it runs and what changes from iteration to iteration),
//! `guest` (the image), `run` (on the machine), `corpus` (where tests come from), `report`; then a
//! front end.

pub mod arm64;
pub mod condition;
pub mod corpus;
pub mod guest;
pub mod judge;
pub mod place;
pub mod plan;
pub mod program;
pub mod report;
pub mod run;
pub mod syntax;
pub mod x86;

pub use condition::{Condition, Quantifier};
pub use program::{Outcome, Test};
