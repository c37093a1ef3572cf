//! `bench NAME` of the workloads: their flags as boot switches, and one form of result for all.

use emu_lab::workload::{self, LineRow, Report, Request, Row, Workload};
use emu_lab::{LabError, Setting};
use emu_machine::Machine;

use crate::args::messages::Flags;
use crate::args::{BenchCommand, DmatestArgs, Format, SchbenchArgs, WorkloadArgs};
use crate::meaning;
use crate::output::{Outcome, print, print_json};
use crate::progress::Bar;
use crate::table::table;

/// Runs a workload.
pub(crate) fn run(command: &BenchCommand) -> Outcome {
    let Some((name, flags, args)) = flags(command) else { return Ok(0) };
    let report = workload::run::<Machine>(&request(name, &flags, args)?, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&text(&report, args))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&workload::csv(&report))?,
    }
    Ok(0)
}

/// Reads what the command means, up to where a machine would boot.
pub(crate) fn check(command: &BenchCommand) -> Result<(), LabError> {
    match flags(command) {
        Some((name, flags, args)) => workload::check(&request(name, &flags, args)?),
        None => Ok(()),
    }
}

/// Name of a workload, and its own flags as boot switches; `None` for other benches.
fn flags(command: &BenchCommand) -> Option<(&'static str, Flags, &WorkloadArgs)> {
    match command {
        BenchCommand::Busy(args) => {
            let flags = vec![("on", args.on.clone()), ("iters", args.iters.to_string())];
            Some(("busy", flags, &args.workload))
        }
        BenchCommand::Hackbench(args) => Some(("hackbench", args.flags(), &args.workload)),
        BenchCommand::Ctxsw(args) => Some(("ctxsw", args.flags(), &args.workload)),
        BenchCommand::Stream(args) => Some(("stream", args.flags(), &args.workload)),
        BenchCommand::Netperf(args) => Some(("netperf", args.flags(), &args.run.workload)),
        BenchCommand::Tbench(args) => Some(("tbench", args.flags(), &args.run.workload)),
        BenchCommand::Sysbench(args) => Some(("sysbench", args.flags(), &args.run.workload)),
        BenchCommand::Dmatest(args) => Some(("dmatest", dmatest_flags(args), &args.workload)),
        BenchCommand::Schbench(args) => Some(("schbench", schbench_flags(args), &args.workload)),
        _ => None,
    }
}

fn dmatest_flags(args: &DmatestArgs) -> Flags {
    vec![
        ("iterations", args.iterations.to_string()),
        ("threads_per_chan", args.threads_per_chan.to_string()),
        ("test_buf_size", args.test_buf_size.to_string()),
        ("noverify", args.noverify.to_string()),
        ("polled", args.polled.to_string()),
        ("timeout", args.timeout.to_string()),
        ("dma_irq_cpu", args.irq_cpu.to_string()),
    ]
}

fn schbench_flags(args: &SchbenchArgs) -> Flags {
    vec![
        ("message_threads", args.message_threads.to_string()),
        ("worker_threads", args.threads.to_string()),
        ("runtime_us", args.runtime.saturating_mul(1000).to_string()),
        ("operations", args.operations.to_string()),
        ("cache_footprint", args.cache_footprint.to_string()),
        ("no_locking", u8::from(args.no_locking).to_string()),
        ("sleeps", args.sleeps.to_string()),
    ]
}

fn request(
    name: &'static str,
    flags: &[(&str, String)],
    args: &WorkloadArgs,
) -> Result<Request, LabError> {
    let workload = Workload::find(name)
        .ok_or_else(|| LabError::input(format!("{name}: not a workload of this version")))?;
    Ok(Request {
        workload,
        machine: args.machine.clone(),
        set: args.on.set.clone(),
        cpus: args.on.cpus,
        switches: meaning::switches(flags, &args.guest)?,
        vary: meaning::dimensions(&args.vary)?,
        seeds: (0..args.seeds).map(|n| args.seed.wrapping_add(n)).collect(),
        limit: meaning::time("--limit", &args.limit)?,
        jobs: meaning::jobs(args.frame.jobs),
        lines: args.lines,
    })
}

fn text(report: &Report, args: &WorkloadArgs) -> String {
    let mut text = format!(
        "{} on {}, {} cpus, {} seeds, {}\n",
        report.workload,
        report.machine,
        report.cpus,
        report.seeds.len(),
        report.bootargs
    );
    if !report.overrides.is_empty() {
        text.push_str(&format!("with {}\n", report.overrides.join(" ")));
    }
    text.push('\n');
    text.push_str(&figures_table(report));
    for row in &report.rows {
        let title = format!("{} {}", report.workload, settings_text(&row.settings));
        let title = title.trim_end();
        if args.lines {
            text.push_str(&format!("\nlines, {title}\n{}", lines_table(&row.lines)));
        }
        if args.counters {
            text.push_str(&format!("\ncounters, {title}\n{}", counters_table(row)));
        }
    }
    text
}

fn settings_text(settings: &[Setting]) -> String {
    let words: Vec<String> = settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
    words.join(" ")
}

/// One line a variant: every figure with its spread, and the ratio of the first.
fn figures_table(report: &Report) -> String {
    let names = report.rows.first().map_or(&[][..], |row| &row.figures);
    let mut header = vec!["variant".to_owned()];
    for figure in names {
        header.extend([format!("{} {}", figure.name, figure.unit), "spread".to_owned()]);
    }
    header.push("ratio".to_owned());
    let line = |row: &Row| {
        let mut line = vec![settings_text(&row.settings)];
        for figure in &row.figures {
            let stats = &figure.stats;
            line.extend([number(stats.mean), format!("{:.1} %", stats.spread_percent)]);
        }
        line.push(format!("{:.3}", row.ratio));
        line
    };
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header, &report.rows.iter().map(line).collect::<Vec<_>>(), 1)
}

fn lines_table(lines: &[LineRow]) -> String {
    let header = ["class", "requests", "to write", "lost", "waited us", "ns a request"];
    let line = |row: &LineRow| {
        let each = 1e3 * row.waited_us / row.requests.max(1.0);
        let numbers = [row.requests, row.writes, row.lost, row.waited_us, each];
        [vec![row.class.to_owned()], numbers.map(number).to_vec()].concat()
    };
    table(&header, &lines.iter().map(line).collect::<Vec<_>>(), 1)
}

fn counters_table(row: &Row) -> String {
    let counted = row.counters.iter().filter(|(_, value)| **value != 0.0);
    let lines: Vec<Vec<String>> =
        counted.map(|(name, value)| vec![name.clone(), number(*value)]).collect();
    table(&["counter", "a run"], &lines, 1)
}

/// Formats a figure for people: four digits or all before the point.
fn number(value: f64) -> String {
    let digits = if value.abs() >= 1000.0 {
        0
    } else if value.abs() >= 10.0 {
        1
    } else {
        3
    };
    format!("{value:.digits$}")
}
