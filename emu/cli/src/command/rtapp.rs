//! `bench rt-app FILE`.

use std::path::Path;

use emu_lab::rtapp::{self, Report, Request, Thread};
use emu_lab::{LabError, Setting};
use emu_machine::Machine;

use crate::args::{Format, RtAppArgs};
use crate::meaning;
use crate::output::{Outcome, print, print_json};
use crate::progress::Bar;
use crate::table::table;

/// Runs the bench.
pub(crate) fn run(args: &RtAppArgs) -> Outcome {
    let report = rtapp::run::<Machine>(&request(args)?, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&rtapp::csv(&report))?,
    }
    Ok(0)
}

/// Reads what the command means, up to where a machine would boot.
pub(crate) fn check(args: &RtAppArgs) -> Result<(), LabError> {
    rtapp::check(&request(args)?)
}

fn request(args: &RtAppArgs) -> Result<Request, LabError> {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(Path::new(&args.file))
        .map_err(|error| LabError::input(format!("{name}: {error}")))?;
    let duration = args.duration.as_deref();
    let duration = duration.map(|text| meaning::time("--duration", text)).transpose()?;
    Ok(Request {
        file: rtapp::read(&name, &text)?,
        machine: args.machine.clone(),
        set: args.on.set.clone(),
        cpus: args.on.cpus,
        duration_us: duration.map(|time| time.ps().div_ceil(1_000_000)),
        switches: meaning::switches(&[], &args.guest)?,
        vary: meaning::dimensions(&args.vary)?,
        seeds: (0..args.seeds).map(|n| args.seed.wrapping_add(n)).collect(),
        limit: meaning::time("--limit", &args.limit)?,
        jobs: meaning::jobs(args.frame.jobs),
    })
}

fn text(report: &Report) -> String {
    let mut text = format!("rt-app on {}, {} seeds", report.machine, report.seeds.len());
    if !report.bootargs.is_empty() {
        text.push_str(&format!(", {}", report.bootargs));
    }
    text.push('\n');
    if !report.overrides.is_empty() {
        text.push_str(&format!("with {}\n", report.overrides.join(" ")));
    }
    for group in &report.groups {
        let words: Vec<String> =
            group.settings.iter().map(|s: &Setting| format!("{}={}", s.key, s.value)).collect();
        text.push_str(&format!("\n{}", words.join(" ")));
        text.push_str(if words.is_empty() { "" } else { "\n" });
        let lines: Vec<Vec<String>> = group.threads.iter().flat_map(lines).collect();
        let header = ["thread", "us", "N", "min", "max", "sum", "mean", "stddev"];
        text.push_str(&table(&header, &lines, 2));
    }
    text
}

/// One line a column of rt-app's log, with what `st` prints of it.
fn lines(thread: &Thread) -> Vec<Vec<String>> {
    let columns = thread.columns().into_iter();
    let line = |(name, st): (&str, Option<rtapp::St>)| {
        let st = st?;
        let numbers = [st.min, st.max, st.sum, st.mean, st.stddev].map(|n| format!("{n:.1}"));
        let words = vec![thread.name.clone(), name.to_owned(), st.n.to_string()];
        Some([words, numbers.to_vec()].concat())
    };
    columns.filter_map(line).collect()
}
