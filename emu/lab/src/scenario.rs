//! Microscenarios as data: which machine, which command line, who is held where, what is counted.
//!
//! A file has sets of cells (machine, and the boot switches that say which cpus take part) and
//! scenarios. A scenario runs once for each cell of its set and each combination of its `vary`.
//! `docs/scenarios.md` describes the format. Reading order: `file`, `expect`, `run`.

mod expect;
mod file;
mod lines;
mod run;

pub use expect::{Expression, Names};
pub use file::{Case, RulesAt, load_dir, load_file, time_of};
pub use run::{CellResult, Report, Request, csv, run};
