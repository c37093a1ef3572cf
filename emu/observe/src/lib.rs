//! Observation of a run: typed events and what is made of them.

mod event;

pub use event::{Event, IpiId, Observer, Record, WakeCause, Wanted};
