//! The far end of the guest's serial port: a person at a terminal, a file, or nobody.
//!
//! Output goes to stdout as it is. A terminal is set to hand on every key at once, and the machine
//! then runs no faster than the clock on the wall, so that a guest that waits can be typed to.
//! Ctrl-C ends the tool, not a program of the guest.

use std::io::{self, IsTerminal, Read};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use emu_lab::run::Terminal;
use emu_sim::SimTime;

use crate::clock::Clock;
use crate::output::print_bytes;

/// Longest sleep of a machine that runs ahead of the clock.
const SLEEP_MAX: Duration = Duration::from_millis(20);
/// How long a machine that waits for a key alone sleeps between two looks.
const LOOK: Duration = Duration::from_millis(100);

/// Who types.
enum Source {
    Nobody,
    /// All of it at once, then nothing.
    File(Vec<u8>),
    Keys(Keys),
}

/// A terminal.
struct Keys {
    keys: Receiver<Vec<u8>>,
    began: Clock,
}

/// Where a run's output goes and its input comes from.
pub(crate) struct Console {
    source: Source,
    prints: bool,
    /// Last byte printed.
    last: u8,
    /// Why output failed.
    failed: io::Result<()>,
}

impl Console {
    /// Prints if `prints`; takes `input`, or keys where that is `None` and stdin a terminal.
    pub(crate) fn new(prints: bool, input: Option<Vec<u8>>) -> Console {
        let source = match input {
            Some(bytes) => Source::File(bytes),
            None if prints && io::stdin().is_terminal() && io::stdout().is_terminal() => {
                Source::Keys(Keys::new())
            }
            None => Source::Nobody,
        };
        Console { source, prints, last: b'\n', failed: Ok(()) }
    }

    /// Whether a person types.
    pub(crate) fn is_interactive(&self) -> bool {
        matches!(self.source, Source::Keys(_))
    }

    /// Ends: whether the last line is complete.
    pub(crate) fn finish(self) -> io::Result<bool> {
        let is_new_line = self.last == b'\n';
        self.failed.map(|()| is_new_line)
    }
}

impl Terminal for Console {
    fn print(&mut self, bytes: &[u8]) {
        if self.prints && self.failed.is_ok() {
            self.failed = print_bytes(bytes);
            self.last = bytes.last().copied().unwrap_or(self.last);
        }
    }

    fn typed(&mut self, now: SimTime, waits: bool) -> Option<Vec<u8>> {
        match &mut self.source {
            Source::Nobody => None,
            Source::File(bytes) => {
                let bytes = std::mem::take(bytes);
                self.source = Source::Nobody;
                Some(bytes)
            }
            Source::Keys(keys) => keys.typed(now, waits),
        }
    }
}

impl Keys {
    fn new() -> Keys {
        stty(&["-icanon", "-echo", "min", "1"]);
        let (sender, keys) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 256];
            while let Ok(len @ 1..) = io::stdin().read(&mut bytes) {
                if sender.send(bytes[..len].to_vec()).is_err() {
                    return;
                }
            }
        });
        Keys { keys, began: Clock::start() }
    }

    fn typed(&mut self, now: SimTime, waits: bool) -> Option<Vec<u8>> {
        let elapsed = Duration::from_secs_f64(self.began.seconds());
        let ahead = Duration::from_nanos(now.ps() / 1000).saturating_sub(elapsed);
        let pause = if waits { LOOK } else { ahead.min(SLEEP_MAX) };
        if pause.is_zero() {
            return match self.keys.try_recv() {
                Ok(bytes) => Some(bytes),
                Err(TryRecvError::Empty) => Some(Vec::new()),
                Err(TryRecvError::Disconnected) => None,
            };
        }
        match self.keys.recv_timeout(pause) {
            Ok(bytes) => Some(bytes),
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => Some(Vec::new()),
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) => None,
        }
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        stty(&["icanon", "echo"]);
    }
}

/// Changes how the terminal hands on keys; where there is no such program it stays as it is.
fn stty(args: &[&str]) {
    let _ = Command::new("stty").args(args).stdin(Stdio::inherit()).status();
}
