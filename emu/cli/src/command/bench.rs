//! `bench ipistorm`, `bench c2c`, `bench atomics`, `bench speed`; the others are `workload`.

use emu_lab::ipistorm::{self, Distribution, Group, LedgerLine, Row};
use emu_lab::{IPISTORM_PAIRS, LabError, Setting, Setup, atomics, c2c, fit, speed};
use emu_machine::Machine;

use crate::args::{AtomicsArgs, BenchCommand, C2cArgs, Format, IpistormArgs, SpeedArgs};
use crate::clock::Clock;
use crate::command::{rtapp, workload};
use crate::meaning;
use crate::output::{Outcome, print, print_json};
use crate::progress::Bar;
use crate::table::{ns, or_dash, table};

/// Runs the command.
pub(crate) fn run(command: &BenchCommand) -> Outcome {
    match command {
        BenchCommand::Ipistorm(args) => ipistorm(args),
        BenchCommand::C2c(args) => c2c(args),
        BenchCommand::Atomics(args) => atomics(args),
        BenchCommand::Speed(args) => speed(args),
        BenchCommand::RtApp(args) => rtapp::run(args),
        _ => workload::run(command),
    }
}

/// Reads what the command means, up to where a machine would boot.
pub(crate) fn check(command: &BenchCommand) -> Result<(), LabError> {
    match command {
        BenchCommand::Ipistorm(args) => ipistorm::check(&ipistorm_request(args)?),
        BenchCommand::C2c(args) => c2c::check(&c2c_request(args)?),
        BenchCommand::Atomics(args) => atomics::check(&atomics_request(args)?),
        BenchCommand::Speed(_) => Ok(()),
        BenchCommand::RtApp(args) => rtapp::check(args),
        _ => workload::check(command),
    }
}

fn ipistorm_request(args: &IpistormArgs) -> Result<ipistorm::Request, LabError> {
    let (caller, offset) = ipistorm::default_pair(&args.machine, &args.on.set, args.on.cpus)?;
    let flags = [
        ("numipi", args.numipi.to_string()),
        ("single", args.single.to_string()),
        ("offset", args.offset.unwrap_or(offset).to_string()),
        ("cpulist", args.cpulist.clone().unwrap_or_else(|| caller.to_string())),
        ("wait", args.wait.to_string()),
        ("warmup", args.warmup.to_string()),
    ];
    Ok(ipistorm::Request {
        machine: args.machine.clone(),
        set: args.on.set.clone(),
        cpus: args.on.cpus,
        switches: meaning::switches(&flags, &args.guest)?,
        vary: meaning::dimensions(&args.vary)?,
        seeds: (0..args.seeds).map(|n| args.seed.wrapping_add(n)).collect(),
        limit: meaning::time("--limit", &args.limit)?,
        jobs: meaning::jobs(args.frame.jobs),
        ledger: args.ledger,
    })
}

fn ipistorm(args: &IpistormArgs) -> Outcome {
    let request = ipistorm_request(args)?;
    let report = ipistorm::run::<Machine>(&request, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&ipistorm_text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&ipistorm::csv(&report))?,
    }
    Ok(0)
}

fn settings_text(settings: &[Setting]) -> String {
    let words: Vec<String> = settings.iter().map(|s| format!("{}={}", s.key, s.value)).collect();
    words.join(" ")
}

fn ipistorm_text(report: &ipistorm::Report) -> String {
    let mut text = format!(
        "ipistorm on {}, {} cpus, {} seeds, {}, jitter up to {} cycles\n",
        report.machine,
        report.cpus,
        report.seeds.len(),
        report.bootargs,
        report.jitter_cycles
    );
    if !report.overrides.is_empty() {
        text.push_str(&format!("with {}\n", report.overrides.join(" ")));
    }
    for group in &report.groups {
        text.push('\n');
        if !group.settings.is_empty() {
            text.push_str(&format!("{}\n", settings_text(&group.settings)));
        }
        text.push_str(&group_table(group));
        for row in group.rows.iter().filter(|row| !row.ledger.is_empty()) {
            text.push_str(&format!(
                "\nwake ledger, {}\n{}",
                row.variant,
                ledger_table(&row.ledger)
            ));
        }
    }
    if report.groups.len() > 1 {
        text.push_str(&ratio_table(report));
    }
    text
}

fn group_table(group: &Group) -> String {
    let header = [
        "variant",
        "ns/call",
        "spread",
        "min",
        "max",
        "normalised",
        "published",
        "IPIs sent",
        "saved",
        "pending, IRQ off ns",
        "IRQ off ns",
        "IPI ns",
    ];
    let mean = |d: Option<Distribution>| or_dash(d, |d| ns(d.mean));
    let row = |row: &Row| {
        let published = row.published;
        vec![
            row.variant.clone(),
            ns(row.ns_per_call.mean),
            format!("{:.1} %", row.ns_per_call.spread_percent),
            ns(row.ns_per_call.min),
            ns(row.ns_per_call.max),
            format!("{:.2}", row.normalised),
            or_dash(published, |p| format!("{:.2} ({} {})", p.ratio, p.id, p.class)),
            format!("{:.0}", row.ipis_sent),
            format!("{:.0}", row.ipis_saved),
            ns(row.pending_masked_ns),
            mean(row.schedule_idle_irqoff_ns),
            mean(row.ipi_latency_ns),
        ]
    };
    let rows: Vec<Vec<String>> = group.rows.iter().map(row).collect();
    table(&header, &rows, 1)
}

/// Ratios over the measured IRQ-off length in units of the measured IPI latency.
fn ratio_table(report: &ipistorm::Report) -> String {
    let mut header = vec!["setting", "IRQ off / IPI latency"];
    let variants: Vec<&str> = report
        .groups
        .first()
        .map_or(Vec::new(), |group| group.rows.iter().map(|row| row.variant.as_str()).collect());
    header.extend(&variants);
    let row = |group: &Group| {
        let ratio = or_dash(group.irqoff_over_ipi, |ratio| format!("{ratio:.2}"));
        let cells = variants.iter().map(|variant| {
            let row = group.rows.iter().find(|row| row.variant == *variant);
            or_dash(row, |row| format!("{:.2}", row.normalised))
        });
        [vec![settings_text(&group.settings), ratio], cells.collect()].concat()
    };
    let rows: Vec<Vec<String>> = report.groups.iter().map(row).collect();
    let pairs: Vec<String> = IPISTORM_PAIRS
        .iter()
        .map(|(revert, notify)| format!("({revert:.2}, {notify:.2})"))
        .collect();
    let ratios = table(&header, &rows, 1);
    format!(
        "\nnormalised time over measured IRQ-off length\n{ratios}published pairs (revert, \
         notify_ipi): {}\n",
        pairs.join(" and ")
    )
}

/// The summary of a wake ledger.
pub(crate) fn ledger_table(lines: &[LedgerLine]) -> String {
    let header = ["kind", "stage", "n", "min ns", "p50", "p90", "p99", "max", "mean"];
    let row = |line: &LedgerLine| {
        let d = line.ns;
        let values = [d.min, d.p50, d.p90, d.p99, d.max, d.mean].map(ns);
        [vec![line.kind.to_owned(), line.stage.to_owned(), d.n.to_string()], values.to_vec()]
            .concat()
    };
    table(&header, &lines.iter().map(row).collect::<Vec<_>>(), 2)
}

fn c2c_request(args: &C2cArgs) -> Result<c2c::Request, LabError> {
    let setup = Setup {
        machine: args.machine.clone(),
        set: args.set.clone(),
        switches: meaning::switches(&[], &args.guest)?,
        seed: args.seed,
        limit: meaning::time("--limit", &args.limit)?,
        jobs: meaning::jobs(args.frame.jobs),
    };
    Ok(c2c::Request { setup, pairs: args.pairs })
}

fn c2c(args: &C2cArgs) -> Outcome {
    let request = c2c_request(args)?;
    if args.fit {
        return fit(&request, args.frame.format);
    }
    let report = c2c::run::<Machine>(&request, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&c2c_text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&c2c::csv(&report))?,
    }
    Ok(0)
}

fn fit(request: &c2c::Request, format: Format) -> Outcome {
    let report = fit::run::<Machine>(request, &Bar::new())?;
    if format != Format::Text {
        print_json(&report)?;
        return Ok(0);
    }
    let header = ["round", "class", "keys", "ps", "published ns", "emulated ns", "error"];
    let row = |step: &fit::Step| {
        vec![
            step.round.to_string(),
            step.class.to_owned(),
            step.keys.join(" "),
            step.value_ps.to_string(),
            ns(step.published_ns),
            ns(step.emulated_ns),
            format!("{:+.1} %", step.error_percent()),
        ]
    };
    let rows: Vec<Vec<String>> = report.steps.iter().map(row).collect();
    let end = if report.is_met { "every class is met" } else { "not every class is met" };
    print(&format!("fit of {}\n\n{}{end}\n", report.machine, table(&header, &rows, 3)))?;
    Ok(0)
}

fn c2c_text(report: &c2c::Report) -> String {
    let header =
        ["class", "atomics", "home", "pairs", "published ns", "emulated ns", "error", "min", "max"];
    let row = |class: &c2c::Class| {
        vec![
            class.class.to_owned(),
            class.atomics.name().to_owned(),
            format!("node {}", class.home),
            class.pairs.len().to_string(),
            or_dash(class.published, |published| ns(published.ns)),
            ns(class.handover_ns.median),
            or_dash(class.error_percent, |error| format!("{error:+.1} %")),
            ns(class.handover_ns.min),
            ns(class.handover_ns.max),
        ]
    };
    let rows: Vec<Vec<String>> = report.classes.iter().map(row).collect();
    let source = report.classes.iter().find_map(|class| class.published).map(|p| p.source);
    let source = source.map_or_else(String::new, |source| format!("published: {source}\n"));
    format!(
        "line hand-over on {}, medians over pairs\n\n{}{source}",
        report.machine,
        table(&header, &rows, 3)
    )
}

fn atomics_request(args: &AtomicsArgs) -> Result<atomics::Request, LabError> {
    let setup = Setup {
        machine: args.machine.clone(),
        set: args.set.clone(),
        switches: meaning::switches(&[("iters", args.iters.to_string())], &args.guest)?,
        seed: args.seed,
        limit: meaning::time("--limit", &args.limit)?,
        jobs: meaning::jobs(args.frame.jobs),
    };
    Ok(atomics::Request { setup, cpus: args.counts.clone() })
}

fn atomics(args: &AtomicsArgs) -> Outcome {
    let report = atomics::run::<Machine>(&atomics_request(args)?, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&atomics_text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&atomics::csv(&report))?,
    }
    Ok(0)
}

fn atomics_text(report: &atomics::Report) -> String {
    let header =
        ["counter", "atomics", "cpus", "published ns", "ns", "error", "M/s in all", "least share"];
    let row = |row: &atomics::Row| {
        vec![
            row.counter.to_owned(),
            row.atomics.name().to_owned(),
            row.cpus.to_string(),
            or_dash(row.published, |published| ns(published.ns)),
            ns(row.ns),
            or_dash(row.error_percent, |error| format!("{error:+.1} %")),
            format!("{:.1}", row.mops),
            format!("{:.0} %", row.least_share_percent),
        ]
    };
    let rows: Vec<Vec<String>> = report.rows.iter().map(row).collect();
    let source = report.rows.iter().find_map(|row| row.published).map(|p| p.source);
    let source = source.map_or_else(String::new, |source| format!("published: {source}\n"));
    format!(
        "increments of one counter on {}, ns for one of a cpu\n\n{}{source}",
        report.machine,
        table(&header, &rows, 2)
    )
}

fn speed(args: &SpeedArgs) -> Outcome {
    let start = Clock::start();
    let clock = || start.seconds();
    let request = speed::Request { repeats: args.repeats, divide: args.divide, clock: &clock };
    let report = speed::run::<Machine>(&request, &Bar::new())?;
    match args.format {
        Format::Text => print(&speed_text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&speed::csv(&report))?,
    }
    Ok(0)
}

fn speed_text(report: &speed::Report) -> String {
    let header = ["id", "what", "unit", "median", "min", "max", "must", "reached"];
    let row = |figure: &speed::Figure| {
        let values = &figure.values;
        let number = |value: f64| format!("{value:.3}");
        vec![
            figure.id.to_owned(),
            figure.what.to_owned(),
            figure.unit.to_owned(),
            number(values.median),
            number(values.min),
            number(values.max),
            format!("{}{}", if figure.larger_is_better { ">= " } else { "<= " }, figure.must),
            if figure.is_reached() { "yes" } else { "no" }.to_owned(),
        ]
    };
    let rows: Vec<Vec<String>> = report.figures.iter().map(row).collect();
    table(&header, &rows, 3)
}
