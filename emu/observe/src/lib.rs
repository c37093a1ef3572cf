//! Observation of a run: typed events and what is made of them.
//!
//! Reading order: `event` (what a run says), `ledger` and `irqoff` (what wakes cost), `traffic`
//! (what lines cost), `trace` and `chrome` (files for people and viewers), `stall` (why nothing
//! runs any more). Nothing here knows of a machine; `docs/trace.md` is the legend.

mod chrome;
mod event;
mod irqoff;
mod ledger;
mod points;
mod spread;
mod stall;
mod tee;
mod trace;
mod traffic;

pub use chrome::ChromeTrace;
pub use event::{Event, IpiId, Observer, Record, WakeCause, Wanted};
pub use irqoff::{IrqOff, NO_OPENER, OPENER_PREFIX};
pub use ledger::{Ledger, LedgerRow, Stage, WAKES_MAX, Wake, WakeKind};
pub use points::PointTable;
pub use spread::Spread;
pub use stall::{BusyLine, StallReport, StalledCpu, Waiting, cpu_ranges};
pub use trace::{TextTrace, cause_name, event_name, event_values, trace_line};
pub use traffic::{ClassTraffic, Classes, Traffic};
