//! Tables for people, in a form that Markdown renders too.

use comfy_table::{CellAlignment, Table, presets};

/// Makes a table; columns other than the first `left` ones are aligned to the right.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>], left: usize) -> String {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN);
    table.set_header(header.iter().copied());
    table.add_rows(rows);
    for column in table.column_iter_mut().skip(left) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.trim_fmt() + "\n"
}

/// Formats nanoseconds for people: enough digits to compare, not more.
pub(crate) fn ns(value: f64) -> String {
    if value >= 1000.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

/// Formats what may be absent.
pub(crate) fn or_dash<T>(value: Option<T>, format: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), format)
}
