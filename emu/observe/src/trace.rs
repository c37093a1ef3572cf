//! The text trace: one line an event, with time, cpu and kind in fixed columns.
//!
//! `docs/trace.md` is the legend. Two runs of the same image, machine and seed give the same
//! bytes. Times are nanoseconds with three decimals, which is exact.

use std::fmt::Write as _;
use std::io::{self, Write};

use emu_sim::SimTime;

use crate::event::{Event, Observer, Record, WakeCause, Wanted};
use crate::points::PointTable;

/// Returns the word for a cause that traces and reports use.
#[must_use]
pub const fn cause_name(cause: WakeCause) -> &'static str {
    match cause {
        WakeCause::MonitorStore => "store",
        WakeCause::Interrupt => "interrupt",
        WakeCause::Nmi => "nmi",
        WakeCause::Reset => "reset",
        WakeCause::Event => "event",
        WakeCause::Timeout => "timeout",
        WakeCause::Spurious => "spurious",
    }
}

/// Returns the word for the kind of an event, as in the third column.
#[must_use]
pub const fn event_name(event: &Event) -> &'static str {
    match event {
        Event::IpiSent { .. } => "ipi-sent",
        Event::IpiAccepted { .. } => "ipi-accepted",
        Event::IpiMerged { .. } => "ipi-merged",
        Event::InterruptTaken { .. } => "irq-taken",
        Event::HandlerBegin { .. } => "handler-begin",
        Event::HandlerEnd => "handler-end",
        Event::IdleEnter { .. } => "idle-enter",
        Event::IdleExit { .. } => "idle-exit",
        Event::InterruptFlag { .. } => "irq-flag",
        Event::Point { .. } => "point",
        Event::RegionBegin { .. } => "region-begin",
        Event::RegionEnd { .. } => "region-end",
        Event::Sample { .. } => "sample",
        Event::LineRequest { .. } => "line-request",
        Event::LineGrant { .. } => "line-grant",
        Event::LineLost { .. } => "line-lost",
        Event::Step { .. } => "step",
        Event::Unimplemented { .. } => "unimplemented",
        Event::UnknownRegister { .. } => "no-register",
        Event::Shutdown { .. } => "shutdown",
    }
}

/// Nanoseconds with three decimals.
pub(crate) fn ns(time: SimTime) -> String {
    format!("{}.{:03}", time.ps() / 1000, time.ps() % 1000)
}

fn state_text(state: Option<u8>) -> String {
    state.map_or_else(|| "none".to_owned(), |state| state.to_string())
}

const fn access(write: bool) -> &'static str {
    if write { "write" } else { "read" }
}

/// Returns the `key=value` part of an event; empty for an event without values.
#[must_use]
pub fn event_values(event: &Event, points: &PointTable) -> String {
    match *event {
        Event::IpiSent { id, to, vector, began } => {
            format!("id={}.{} to={to} vector={vector:#04x} began={}", id.from, id.n, ns(began))
        }
        Event::IpiAccepted { id, vector } | Event::IpiMerged { id, vector } => {
            format!("id={}.{} vector={vector:#04x}", id.from, id.n)
        }
        Event::InterruptTaken { vector, masked } => {
            format!("vector={vector:#04x} masked={}", ns(masked))
        }
        Event::HandlerBegin { vector } => format!("vector={vector:#04x}"),
        Event::HandlerEnd => String::new(),
        Event::IdleEnter { state } => format!("state={}", state_text(state)),
        Event::IdleExit { cause, state, since, resumes } => {
            let (cause, state) = (cause_name(cause), state_text(state));
            format!("cause={cause} state={state} since={} resumes={}", ns(since), ns(resumes))
        }
        Event::InterruptFlag { enabled, pc } => {
            format!("if={} pc={pc:#x}", u8::from(enabled))
        }
        Event::Point { index } => format!("name={}", points.name(index)),
        Event::RegionBegin { id } | Event::RegionEnd { id } => format!("id={id}"),
        Event::Sample { id, value } => format!("id={id} value={value}"),
        Event::LineRequest { line, write } | Event::LineGrant { line, write } => {
            format!("line={:#x} access={}", line.base().0, access(write))
        }
        Event::LineLost { line, kept } => {
            format!("line={:#x} kept={}", line.base().0, if kept { "read" } else { "none" })
        }
        Event::Step { pc } | Event::Shutdown { pc } => format!("pc={pc:#x}"),
        Event::Unimplemented { pc, bytes, len } => {
            let mut text = format!("pc={pc:#x} bytes=");
            for byte in &bytes[..usize::from(len).min(bytes.len())] {
                let _ = write!(text, "{byte:02x}");
            }
            text
        }
        Event::UnknownRegister { addr, write } => {
            format!("addr={addr:#x} access={}", access(write))
        }
    }
}

/// Formats one record as a line of the trace, without its newline.
#[must_use]
pub fn trace_line(record: &Record, points: &PointTable) -> String {
    let (time, cpu) = (ns(record.time), record.cpu.to_string());
    let values = event_values(&record.event, points);
    let line = format!("{time:>16} {cpu:<7} {:<13} {values}", event_name(&record.event));
    line.trim_end().to_owned()
}

/// An observer that writes the text trace.
#[derive(Debug)]
pub struct TextTrace<W: Write> {
    out: W,
    points: PointTable,
    wanted: Wanted,
    error: Option<io::Error>,
}

impl<W: Write> TextTrace<W> {
    /// Makes a trace of these events.
    #[must_use]
    pub fn new(out: W, points: PointTable, wanted: Wanted) -> Self {
        TextTrace { out, points, wanted, error: None }
    }

    /// Flushes the trace.
    ///
    /// Errors: the first one of any write; what came after it is not in the trace.
    pub fn finish(mut self) -> io::Result<W> {
        match self.error {
            Some(error) => Err(error),
            None => self.out.flush().map(|()| self.out),
        }
    }
}

impl<W: Write> Observer for TextTrace<W> {
    fn wanted(&self) -> Wanted {
        self.wanted
    }

    fn record(&mut self, record: &Record) {
        if self.error.is_none() {
            self.error = writeln!(self.out, "{}", trace_line(record, &self.points)).err();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::IpiId;
    use emu_sim::{CpuId, LineAddr};

    #[test]
    fn lines_have_fixed_columns() {
        let points = PointTable::new(vec!["idle_wait".to_owned()], Vec::new());
        let wanted = Wanted { wakes: true, ..Wanted::default() };
        let mut trace = TextTrace::new(Vec::new(), points, wanted);
        let id = IpiId { from: CpuId(8), n: 3 };
        let began = SimTime(999_500);
        let events = [
            Event::IpiSent { id, to: CpuId(16), vector: 0xfb, began },
            Event::HandlerEnd,
            Event::Point { index: 0 },
            Event::LineLost { line: LineAddr(2), kept: true },
        ];
        for (n, event) in (0..).zip(events) {
            let time = SimTime(1_000_001 * (n + 1));
            trace.record(&Record { time, cpu: CpuId(8 + n as u32 * 120), event });
        }
        let text = String::from_utf8(trace.finish().expect("written")).expect("text");
        let expected = "        1000.001 cpu8    ipi-sent      id=cpu8.3 to=cpu16 vector=0xfb \
                        began=999.500
        2000.002 cpu128  handler-end
        3000.003 cpu248  point         name=idle_wait
        4000.004 cpu368  line-lost     line=0x80 kept=read
";
        assert_eq!(text, expected);
    }
}
