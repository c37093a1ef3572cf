//! `reproduce`: published results, emulated ones, and a verdict on each.

use emu_lab::LabError;
use emu_lab::reproduce::{self, Report, Request, RowReport, Verdict};
use emu_machine::Machine;

use crate::args::{Format, ReproduceArgs};
use crate::meaning;
use crate::output::{Outcome, print, print_json};
use crate::progress::Bar;
use crate::table::{or_dash, table};

/// Runs the command.
pub(crate) fn run(args: &ReproduceArgs) -> Outcome {
    let report = reproduce::run::<Machine>(&request(args)?, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&reproduce::csv(&report))?,
    }
    Ok(0)
}

/// Reads what the command means, up to where a machine would boot.
pub(crate) fn check(args: &ReproduceArgs) -> Result<(), LabError> {
    reproduce::check(&request(args)?)
}

fn request(args: &ReproduceArgs) -> Result<Request, LabError> {
    Ok(Request {
        quick: args.quick,
        only: args.only.clone(),
        seeds: (0..args.seeds).map(|n| args.seed.wrapping_add(n)).collect(),
        limit: meaning::time("--limit", &args.limit)?,
        jobs: meaning::jobs(args.frame.jobs),
        results: args.results.clone(),
    })
}

fn text(report: &Report) -> String {
    let scale = if report.quick { "quick, indicative" } else { "full" };
    let seeds = report.seeds.len();
    let mut text = format!("published results, {scale}, {seeds} seeds, {}\n\n", report.version);
    let header = [
        "row",
        "class",
        "what",
        "published",
        "emulated",
        "spread",
        "verdict",
        "doubled",
        "carried by",
    ];
    let rows: Vec<Vec<String>> = report.rows.iter().map(|row| line(report, row)).collect();
    text.push_str(&table(&header, &rows, 3));
    text.push('\n');
    for row in report.rows.iter().filter(|row| !(row.setup.is_empty() && row.note.is_empty())) {
        let parts: Vec<&str> =
            [row.setup.as_str(), row.note.as_str()].into_iter().filter(|s| !s.is_empty()).collect();
        text.push_str(&format!("- {}: {}\n", row.id, parts.join("; ")));
    }
    text
}

fn line(report: &Report, row: &RowReport) -> Vec<String> {
    let number = |value: f64| match value.abs() {
        large if large >= 1000.0 => format!("{value:.0}"),
        large if large >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    };
    let verdict = match row.verdict {
        Verdict::Pass if report.quick => "(pass)",
        Verdict::Pass => "pass",
        Verdict::MissRightSign => "miss, right sign",
        Verdict::Miss => "miss",
        Verdict::Input => "input",
        Verdict::Failed => "failed",
        Verdict::NotMeasured => "not measured",
    };
    vec![
        row.id.clone(),
        format!("{:?}", row.class),
        row.what.clone(),
        or_dash(row.published, number),
        or_dash(row.emulated, number),
        or_dash(row.spread, number),
        verdict.to_owned(),
        or_dash(row.doubling, |doubling| format!("{:+.1} %", doubling.change_percent)),
        or_dash(row.attribution.as_ref(), |carried| {
            format!("{} {:.0} %", carried.class, carried.share_percent)
        }),
    ]
}
