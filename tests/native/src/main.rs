//! The long run: `cargo run --release -p tests_native -- --cases 1000000 --seed 1`.
//!
//! `--form TEXT` runs only forms whose name in iced has the text in it. Exit code 1 says that
//! something differs, 2 that the arguments are wrong. With `child` as argument, the process runs
//! cases for another (see `tests_native::child`).
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program of the command line")]

use std::process::ExitCode;

use tests_native::host::{CHILD, Native, Processor};
use tests_native::run::{Pair, Plan};
use tests_native::{child, forms};

/// Cases without `--cases`.
const CASES: u64 = 100_000;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args == [CHILD] {
        return exit(child::serve().map(|()| true).map_err(|e| e.to_string()));
    }
    exit(parse(&args).and_then(run))
}

fn exit(result: Result<bool, String>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("tests_native: {error}");
            ExitCode::from(2)
        }
    }
}

/// Cases, seed, and the text that forms must have.
fn parse(args: &[String]) -> Result<(u64, u64, String), String> {
    let (mut cases, mut seed, mut form) = (CASES, 1, String::new());
    for pair in args.chunks(2) {
        let [name, value] = pair else { return Err(format!("{}: no value", pair[0])) };
        let number = || value.parse().map_err(|e| format!("{name} {value}: {e}"));
        match name.as_str() {
            "--cases" => cases = number()?,
            "--seed" => seed = number()?,
            "--form" => form.clone_from(value),
            _ => return Err(format!("{name}: known are --cases, --seed and --form")),
        }
    }
    Ok((cases, seed, form))
}

/// Runs; `false` when something differs.
fn run((cases, seed, form): (u64, u64, String)) -> Result<bool, String> {
    let Some(processor) = Processor::of_host() else {
        println!("skipped: needs x86-64 linux");
        return Ok(true);
    };
    let mut codes = forms::native(&forms::all());
    codes.retain(|code| format!("{code:?}").to_lowercase().contains(&form.to_lowercase()));
    let binary = std::env::current_exe().map_err(|e| e.to_string())?;
    let native = Native::start(binary).map_err(|e| format!("child: {e}"))?;
    let mut pair = Pair::new(native, processor).map_err(|e| e.to_string())?;
    let plan = Plan { cases, seed, codes };
    let report = pair.run(&plan).map_err(|e| format!("child: {e}"))?;
    print!("{}", report.text());
    Ok(report.failures.is_empty())
}
