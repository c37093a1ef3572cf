//! `test`: scenario files, one line a failed case.

use emu_lab::{LabError, scenario};
use emu_machine::Machine;

use crate::args::{Format, TestArgs};
use crate::meaning;
use crate::output::{Outcome, print, print_json};
use crate::progress::Bar;

/// Runs the command.
pub(crate) fn run(args: &TestArgs) -> Outcome {
    let request = request(args)?;
    let report = scenario::run::<Machine>(&request, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&text(&report, args.verbose))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&scenario::csv(&report))?,
    }
    Ok(u8::from(report.failed > 0))
}

/// What the command asks for.
///
/// Errors: `Input` for what cannot be meant, and faults of the scenario files.
pub(crate) fn request(args: &TestArgs) -> Result<scenario::Request, LabError> {
    let limit = meaning::time("--limit", &args.limit)?;
    let mut cases = scenario::load_dir(&args.dir, &args.guest)?;
    let is_named = |names: &[String], name: &str| {
        names.is_empty() || names.iter().any(|wanted| wanted == name)
    };
    cases.retain(|case| is_named(&args.id, &case.id) && is_named(&args.machine, &case.machine));
    if cases.is_empty() {
        return Err(LabError::input("no scenario matches --id and --machine"));
    }
    Ok(scenario::Request { cases, limit, jobs: meaning::jobs(args.frame.jobs) })
}

fn text(report: &scenario::Report, verbose: bool) -> String {
    let mut text = String::new();
    for cell in &report.cells {
        let is_pass = cell.failures.is_empty();
        if is_pass && !verbose {
            continue;
        }
        let verdict = if is_pass { "pass" } else { "FAIL" };
        let (id, machine, claim) = (&cell.id, &cell.machine, &cell.claim);
        text.push_str(&format!("{verdict} {id} on {machine}: {claim}\n"));
        if !is_pass {
            text.push_str(&format!("     {}: {}\n", cell.file, cell.bootargs));
        }
        for failure in &cell.failures {
            text.push_str(&format!("     {}\n", failure.replace('\n', "\n     ")));
        }
    }
    text + &format!("{} passed, {} failed\n", report.passed, report.failed)
}
