//! `sweep`: a workload over the axes of a file, as a table or as a figure.

use std::path::Path;

use emu_lab::LabError;
use emu_lab::sweep::{self, Axis, Report, Sweep};
use emu_machine::Machine;
use plotters::prelude::*;

use crate::args::{Format, SweepArgs};
use crate::meaning;
use crate::output::{Outcome, print, print_json};
use crate::progress::Bar;
use crate::table::table;

/// Width and height of a panel, in pixels.
const PANEL: (u32, u32) = (360, 260);
/// Height of the title.
const TITLE: u32 = 34;

/// Runs the command.
pub(crate) fn run(args: &SweepArgs) -> Outcome {
    let sweep = read(args)?;
    let limit = meaning::time("--limit", &args.limit)?;
    let jobs = meaning::jobs(args.frame.jobs);
    let report = sweep::run::<Machine>(&sweep, limit, jobs, &Bar::new())?;
    match args.frame.format {
        Format::Text => print(&text(&report))?,
        Format::Json => print_json(&report)?,
        Format::Csv => print(&sweep::csv(&report))?,
    }
    if let Some(path) = &args.svg {
        let drawn = draw(&report, path);
        drawn.map_err(|error| LabError::input(format!("{}: {error}", path.display())))?;
    }
    Ok(0)
}

/// Reads the sweep file.
pub(crate) fn read(args: &SweepArgs) -> Result<Sweep, LabError> {
    let name = args.file.display().to_string();
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| LabError::input(format!("{name}: {error}")))?;
    Sweep::read(&text).map_err(|error| error.during(name))
}

fn text(report: &Report) -> String {
    let names: Vec<&str> = report.axes.iter().map(|axis| axis.name.as_str()).collect();
    let header = [names, vec![report.label.as_str(), "spread"]].concat();
    let rows: Vec<Vec<String>> = report
        .points
        .iter()
        .map(|point| {
            let values = report.axes.iter().zip(&point.at).map(|(axis, &n)| axis.values[n].clone());
            let spread = if point.mean == 0.0 { 0.0 } else { 100.0 * point.stddev / point.mean };
            values.chain([format!("{:.3}", point.mean), format!("{spread:.1} %")]).collect()
        })
        .collect();
    format!("{}\n\n{}", report.title, table(&header, &rows, report.axes.len()))
}

/// One panel for each value of the third and fourth axis, one line for each of the second.
fn draw(report: &Report, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let none = || Axis::blank();
    let axis = |n: usize| report.axes.get(n).cloned().unwrap_or_else(none);
    let (columns, rows) = (axis(2), axis(3));
    let size = (PANEL.0 * columns.values.len() as u32, PANEL.1 * rows.values.len() as u32 + TITLE);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let panels = area.titled(&report.title, ("sans-serif", 18))?;
    let panels = panels.split_evenly((rows.values.len(), columns.values.len()));
    for (n, panel) in panels.iter().enumerate() {
        let (row, column) = (n / columns.values.len(), n % columns.values.len());
        let named = [(&columns, column), (&rows, row)];
        let named = named.into_iter().filter(|(axis, _)| !axis.name.is_empty());
        let words: Vec<String> =
            named.map(|(axis, n)| format!("{} {}", axis.name, axis.values[n])).collect();
        draw_panel(report, panel, &words.join(", "), &[column, row], n == 0)?;
    }
    area.present()?;
    Ok(())
}

/// Draws the points whose third and fourth index are `at`.
fn draw_panel(
    report: &Report,
    panel: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    caption: &str,
    at: &[usize],
    has_legend: bool,
) -> Result<(), Box<dyn std::error::Error>> {
    let x = report.axes.first().cloned().unwrap_or_else(Axis::blank);
    let lines = report.axes.get(1).cloned().unwrap_or_else(Axis::blank);
    let place = |n: usize| x.values[n].parse::<f64>().unwrap_or(n as f64);
    let right = (0..x.values.len()).map(place).fold(0.0, f64::max);
    let top = report.points.iter().map(|point| point.mean).fold(0.0, f64::max);
    let mut chart = ChartBuilder::on(panel)
        .caption(caption, ("sans-serif", 13))
        .margin(6)
        .x_label_area_size(34)
        .y_label_area_size(58)
        .build_cartesian_2d(0.0..right.max(1.0), 0.0..(top * 1.05).max(f64::MIN_POSITIVE))?;
    chart.configure_mesh().x_desc(&x.name).y_desc(&report.label).light_line_style(WHITE).draw()?;
    for (line, name) in lines.values.iter().enumerate() {
        let is_here = |point: &&sweep::Point| {
            let mut indices = point.at.iter().skip(1);
            indices.next().is_none_or(|&n| n == line) && indices.zip(at).all(|(n, at)| n == at)
        };
        let here = report.points.iter().filter(is_here);
        let places: Vec<(f64, f64)> = here.map(|p| (place(p.at[0]), p.mean)).collect();
        let color = Palette99::pick(line).to_rgba();
        let drawn =
            chart.draw_series(LineSeries::new(places, color.stroke_width(2)).point_size(2))?;
        drawn
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 14, y)], color.stroke_width(2)));
    }
    if has_legend {
        chart.configure_series_labels().background_style(WHITE.mix(0.8)).draw()?;
    }
    Ok(())
}
