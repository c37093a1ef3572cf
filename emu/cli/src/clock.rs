//! The host's clock, for what is said about the host (`bench speed`) and for people at a terminal.
//! The model never reads it.
#![expect(
    clippy::disallowed_types,
    reason = "speed on this host, and the patience of a person, have the clock of this host"
)]

use std::time::Instant;

/// A stopwatch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    /// Starts it.
    pub(crate) fn start() -> Clock {
        Clock(Instant::now())
    }

    /// Seconds since its start.
    pub(crate) fn seconds(self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}
