//! The `crosscall` command: parse, dispatch, map the result to an exit code.
//!
//! Reading order: `args` (what can be typed), `meaning` (what it means), then one file of `command`
//! for each of them. Results go to stdout, errors and progress to stderr. Exit codes: 0 the guest
//! passed, 1 it reported failure, 2 bad input, 3 no cpu can ever run again, 4 guest fault, 5 a
//! limit was reached, 101 a bug of the model.

mod args;
mod bug;
mod clock;
mod command;
mod meaning;
mod output;
mod progress;
mod table;
mod terminal;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use emu_lab::LabError;

use crate::args::{Args, Command};
use crate::output::Failure;

/// Carries out the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    bug::install_hook();
    let args = Args::parse();
    let result = match &args.command {
        Command::Run(run) => command::run::run(run),
        Command::Bench(bench) => command::bench::run(bench),
        Command::Reproduce(args) => command::reproduce::run(args),
        Command::Sweep(args) => command::sweep::run(args),
        Command::Machine(machine) => command::machine::run(machine),
        Command::Test(test) => command::test::run(test),
        Command::Completions { shell } => command::generate::completions(*shell),
        Command::Man => command::generate::man(),
    };
    match result {
        Ok(code) => ExitCode::from(code),
        // Whoever read the results has enough of them.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            ExitCode::SUCCESS
        }
        Err(failure) => {
            output::print_error(&failure);
            match failure {
                Failure::Lab(error) => ExitCode::from(error.exit_code()),
                Failure::Output(_) => ExitCode::from(LabError::input("").exit_code()),
            }
        }
    }
}

/// Reads a command line, the name of the command first, and what it means, up to where work would
/// begin: no image is read, nothing is written or run. For tests.
///
/// Errors: what would be printed on stderr.
pub fn check<W: Into<OsString> + Clone>(words: impl IntoIterator<Item = W>) -> Result<(), String> {
    let args = Args::try_parse_from(words).map_err(|error| error.to_string())?;
    let meaning = match &args.command {
        Command::Run(run) => command::run::request(run, &command::run::Files::default()).map(drop),
        Command::Bench(bench) => command::bench::check(bench),
        Command::Reproduce(args) => command::reproduce::check(args),
        Command::Sweep(args) => command::sweep::read(args).map(drop),
        Command::Machine(machine) => command::machine::check_names(machine),
        Command::Test(test) => command::test::request(test).map(drop),
        Command::Completions { .. } | Command::Man => Ok(()),
    };
    meaning.map_err(|error| output::chain(&error))
}
