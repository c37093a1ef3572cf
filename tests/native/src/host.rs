//! The host: what its processor has, and the child that runs cases on it.

use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use emu_x86::defs::Vendor;

use crate::case::{Case, Outcome};
use crate::wire::{self, Reader, Writer};

/// Argument by which the binary becomes a child.
pub const CHILD: &str = "child";

/// What the host's processor has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Whose it is.
    pub vendor: Vendor,
    /// Words of the line `flags` of its cpuinfo.
    pub flags: Vec<String>,
}

impl Processor {
    /// The host's. `None` when it is not x86-64 Linux.
    #[must_use]
    pub fn of_host() -> Option<Self> {
        if std::env::consts::ARCH != "x86_64" || std::env::consts::OS != "linux" {
            return None;
        }
        let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
        let line = |name: &str| {
            let line = text.lines().find(|line| line.starts_with(name))?;
            line.split_once(": ").map(|(_, value)| value.to_owned())
        };
        let vendor = if line("vendor_id")?.contains("AMD") { Vendor::Amd } else { Vendor::Intel };
        let flags = line("flags")?.split_whitespace().map(str::to_owned).collect();
        Some(Processor { vendor, flags })
    }

    /// Whether linear addresses have 57 bits.
    #[must_use]
    pub fn has_la57(&self) -> bool {
        self.flags.iter().any(|flag| flag == "la57")
    }
}

/// A child with its streams.
#[derive(Debug)]
pub struct Native {
    binary: PathBuf,
    child: Child,
    input: ChildStdin,
    output: ChildStdout,
}

impl Native {
    /// Starts a child: this crate's binary with `CHILD` as argument.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(binary: PathBuf) -> io::Result<Self> {
        let (child, input, output) = spawn(&binary)?;
        Ok(Native { binary, child, input, output })
    }

    /// Runs cases. One that ends the child has the outcome `Lost`.
    ///
    /// # Errors
    /// When a new child cannot be started.
    pub fn run(&mut self, cases: &[Case]) -> io::Result<Vec<Outcome>> {
        if let Ok(outcomes) = self.try_run(cases) {
            return Ok(outcomes);
        }
        let mut outcomes = Vec::new();
        for case in cases {
            self.restart()?;
            let outcome = self.try_run(std::slice::from_ref(case)).ok();
            let outcome = outcome.and_then(|mut outcomes| outcomes.pop());
            outcomes.push(outcome.unwrap_or_else(|| Outcome::lost(case)));
        }
        self.restart()?;
        Ok(outcomes)
    }

    fn restart(&mut self) -> io::Result<()> {
        self.stop();
        (self.child, self.input, self.output) = spawn(&self.binary)?;
        Ok(())
    }

    /// Ends the child. One that has ended already is as good.
    fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    fn try_run(&mut self, cases: &[Case]) -> io::Result<Vec<Outcome>> {
        let mut body = Writer::default();
        cases.iter().for_each(|case| wire::write_case(&mut body, case));
        let mut head = Writer::default();
        head.u32(body.0.len() as u32);
        head.u32(cases.len() as u32);
        self.input.write_all(&head.0)?;
        self.input.write_all(&body.0)?;
        self.input.flush()?;
        let mut len = [0; 4];
        self.output.read_exact(&mut len)?;
        let mut body = vec![0; u32::from_le_bytes(len) as usize];
        self.output.read_exact(&mut body)?;
        let mut reader = Reader(&body);
        Ok(cases.iter().map(|_| wire::read_outcome(&mut reader)).collect())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        self.stop();
    }
}

fn spawn(binary: &PathBuf) -> io::Result<(Child, ChildStdin, ChildStdout)> {
    let mut command = Command::new(binary);
    let mut child = command.arg(CHILD).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    match (child.stdin.take(), child.stdout.take()) {
        (Some(input), Some(output)) => Ok((child, input, output)),
        _ => Err(io::Error::other("a child without streams")),
    }
}
