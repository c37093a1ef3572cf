//! How runs end, what that is called, and what goes wrong in the lab.

use std::fmt;

use emu_machine::Stop;
use emu_observe::StallReport;
use emu_sim::SimTime;
use guests_abi::exit;

use crate::laws::Breach;
use crate::rig::Rig;

/// Bytes of console output that a message shows.
const CONSOLE_TAIL_BYTES: usize = 2000;

/// Registers in a line of a message.
const REGISTERS_PER_LINE: usize = 4;

/// The end of a run, with what a person needs to understand it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ending {
    /// How it ended.
    pub stop: Stop,
    /// When.
    pub time: SimTime,
    /// Symbol of the address in a guest fault.
    pub symbol: Option<String>,
    /// Registers of the cpu in a guest fault, by name.
    pub registers: Vec<(&'static str, u64)>,
    /// Who waits for what, when nothing can run.
    pub stall: Option<StallReport>,
    /// Last part of the console output.
    pub console_tail: String,
}

impl Ending {
    /// Describes the end of a run of this rig.
    pub fn of<R: Rig>(rig: &R, stop: Stop) -> Ending {
        let console = rig.console();
        let tail = &console[console.len().saturating_sub(CONSOLE_TAIL_BYTES)..];
        let stall = matches!(stop, Stop::Stalled).then(|| rig.stall_report());
        let (symbol, registers) = match stop {
            Stop::GuestFault { cpu, pc, .. } => (rig.describe(pc), rig.registers(cpu)),
            _ => (None, Vec::new()),
        };
        let console_tail = String::from_utf8_lossy(tail).into_owned();
        Ending { stop, time: rig.now(), symbol, registers, stall, console_tail }
    }

    /// Returns the exit code of the command line for this end.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self.stop {
            Stop::Exit { code: 0 } => 0,
            Stop::Exit { .. } => 1,
            Stop::Region { .. } => 2,
            Stop::Stalled => 3,
            Stop::GuestFault { .. } | Stop::Reset => 4,
            Stop::TimeLimit | Stop::OutputLimit => 5,
        }
    }

    /// Returns the word for this end in JSON.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self.stop {
            Stop::Exit { .. } => "exit",
            Stop::Region { .. } => "region",
            Stop::Stalled => "stalled",
            Stop::GuestFault { .. } => "guest_fault",
            Stop::Reset => "reset",
            Stop::TimeLimit => "time_limit",
            Stop::OutputLimit => "output_limit",
        }
    }

    /// Returns the guest's own exit code, if it wrote one.
    #[must_use]
    pub const fn guest_code(&self) -> Option<u64> {
        match self.stop {
            Stop::Exit { code } => Some(code),
            _ => None,
        }
    }
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = self.time;
        match &self.stop {
            Stop::Exit { code: 0 } => write!(f, "guest passed at {time}"),
            Stop::Exit { code } => write!(f, "guest reported failure {code} at {time}"),
            Stop::Region { id, begin, .. } => {
                let mark = if *begin { "begin" } else { "end" };
                write!(f, "stopped at {mark} of region {id} at {time}")
            }
            Stop::Stalled => match &self.stall {
                Some(report) => write!(f, "{report}"),
                None => write!(f, "stalled at {time}: no cpu can ever run again"),
            },
            Stop::GuestFault { cpu, pc, what } => {
                write!(f, "guest fault on {cpu} at {time}: {what}, at {pc:#x}")?;
                self.symbol.as_ref().map_or(Ok(()), |symbol| write!(f, " ({symbol})"))?;
                self.registers.chunks(REGISTERS_PER_LINE).try_for_each(|line| {
                    f.write_str("\n ")?;
                    line.iter().try_for_each(|(name, value)| write!(f, " {name:>6} {value:016x}"))
                })
            }
            Stop::Reset => write!(f, "the guest asked for a reset at {time}, which ends a run"),
            Stop::TimeLimit => {
                write!(f, "time limit reached at {time} simulated; raise it with --limit")
            }
            Stop::OutputLimit => {
                write!(f, "output limit reached at {time}; raise it with --max-output")
            }
        }
    }
}

/// What goes wrong in the lab; guest faults and limits are endings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabError {
    /// The user's input: a flag, a file, a machine, an image.
    Input(String),
    /// The same, with what was being done.
    Context {
        /// What was being done, or to what.
        what: String,
        /// What went wrong.
        source: Box<LabError>,
    },
    /// A run ended before the driver had what it needs.
    Ended(Box<Ending>),
    /// A conservation law does not hold: the model or the guest miscounts.
    Laws(Vec<Breach>),
}

impl LabError {
    /// Makes an input error.
    pub fn input(text: impl Into<String>) -> LabError {
        LabError::Input(text.into())
    }

    /// Adds what was being done.
    #[must_use]
    pub fn during(self, what: impl Into<String>) -> LabError {
        LabError::Context { what: what.into(), source: Box::new(self) }
    }

    /// Returns the exit code of the command line for this error.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            LabError::Input(_) => 2,
            LabError::Context { source, .. } => source.exit_code(),
            LabError::Ended(ending) => ending.exit_code().max(1),
            LabError::Laws(_) => 101,
        }
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LabError::Input(text) => f.write_str(text),
            LabError::Context { what, .. } => f.write_str(what),
            LabError::Ended(ending) => {
                let text = ending.to_string();
                f.write_str(&text)?;
                if let Some(code) = ending.guest_code() {
                    write!(f, " ({})", exit::meaning(code))?;
                }
                let tail = ending.console_tail.trim_end();
                // A report of several lines is not gone on with.
                let gap = if text.contains('\n') { "\n" } else { "; " };
                if tail.is_empty() { Ok(()) } else { write!(f, "{gap}the guest said:\n{tail}") }
            }
            LabError::Laws(breaches) => {
                f.write_str("a conservation law does not hold")?;
                breaches.iter().try_for_each(|breach| write!(f, "\n  {breach}"))
            }
        }
    }
}

impl std::error::Error for LabError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LabError::Context { source, .. } => Some(source),
            _ => None,
        }
    }
}
