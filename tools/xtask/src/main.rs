//! `cargo xtask <task>`: project tasks. Each task is a module with one `run`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

mod fuzz;
mod guests;

use std::process::ExitCode;

/// A task: name, one line of help, what it runs with the arguments behind its name.
type Task = (&'static str, &'static str, fn(&[String]) -> Result<(), String>);

const TASKS: &[Task] = &[
    ("fuzz", "run fuzz targets: [TARGET|all] [RUNS] [FLAG OF LIBFUZZER...]", fuzz::run),
    ("guests", "build the guest images; --check: only compare their hashes", guests::run),
    ("tidy", "check the rules of ARCHITECTURE.md that no compiler sees", tools_xtask::tidy::run),
];

fn main() -> ExitCode {
    let args = std::env::args().skip(1).collect::<Vec<_>>();
    let named = args.first().and_then(|name| TASKS.iter().find(|task| task.0 == name));
    let Some((name, _, run)) = named else {
        eprintln!("usage: cargo xtask <task>");
        for (name, help, _) in TASKS {
            eprintln!("  {name:<10} {help}");
        }
        return ExitCode::from(2);
    };
    match run(&args[1..]) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask {name}: {message}");
            ExitCode::FAILURE
        }
    }
}
