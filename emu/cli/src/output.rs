//! The only place that prints: results on stdout, errors on stderr.

use std::error::Error;
use std::io::{self, Write};

use emu_lab::LabError;
use serde::Serialize;

/// Why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Input, or the end of a run.
    Lab(LabError),
    /// The results could not be written.
    Output(io::Error),
}

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        Failure::Lab(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Output(error)
    }
}

/// Result of a command: its exit code.
pub(crate) type Outcome = Result<u8, Failure>;

/// Writes text to stdout as it is.
pub(crate) fn print(text: &str) -> io::Result<()> {
    print_bytes(text.as_bytes())
}

/// Writes bytes to stdout as they are.
pub(crate) fn print_bytes(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

/// Writes a result as JSON to stdout.
pub(crate) fn print_json(result: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_string_pretty(result).map_err(io::Error::other)?;
    print(&(text + "\n"))
}

/// Writes a line to stderr; where that fails there is no one to tell.
pub(crate) fn print_line_to_stderr(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Prints an error with its sources as one chain.
pub(crate) fn print_error(failure: &Failure) {
    let text = match failure {
        Failure::Lab(error) => chain(error),
        Failure::Output(error) => format!("cannot write the results: {error}"),
    };
    print_line_to_stderr(&format!("crosscall: {text}"));
}

/// Joins an error and its sources; what spans several lines begins on a line of its own.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let inner_text = inner.to_string();
        let joint = if inner_text.contains('\n') { ":\n" } else { ": " };
        text.push_str(joint);
        text.push_str(&inner_text);
        source = inner.source();
    }
    text
}
