//! The trace as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.
//!
//! One process per kind of track (what cpus do; IRQ-off sections), one thread per cpu. IPIs are
//! flow arrows from sender to acceptance. Times are microseconds with six decimals, which is
//! exact. Everything is written as it comes; nothing is kept but what is open.

use std::io::{self, Write};

use emu_sim::{CpuId, SimTime};

use crate::event::{Event, Observer, Record, Wanted};
use crate::points::PointTable;
use crate::trace::{cause_name, event_name, event_values};

const CPU_TRACKS: u32 = 1;
const IRQOFF_TRACKS: u32 = 2;

/// An observer that writes the Chrome trace.
#[derive(Debug)]
pub struct ChromeTrace<W: Write> {
    out: W,
    points: PointTable,
    wanted: Wanted,
    is_first: bool,
    named: Vec<bool>,
    handlers: Vec<u32>,
    irqoff: Vec<Option<SimTime>>,
    error: Option<io::Error>,
}

impl<W: Write> ChromeTrace<W> {
    /// Makes a trace of these events.
    #[must_use]
    pub fn new(out: W, points: PointTable, wanted: Wanted) -> Self {
        ChromeTrace {
            out,
            points,
            wanted,
            is_first: true,
            named: Vec::new(),
            handlers: Vec::new(),
            irqoff: Vec::new(),
            error: None,
        }
    }

    /// Closes the document.
    ///
    /// Errors: the first one of any write.
    pub fn finish(mut self) -> io::Result<W> {
        if let Some(error) = self.error {
            return Err(error);
        }
        let head = if self.is_first { HEAD } else { "" };
        writeln!(self.out, "{head}\n]}}")?;
        self.out.flush()?;
        Ok(self.out)
    }

    fn emit(&mut self, body: &str) {
        if self.error.is_some() {
            return;
        }
        let head = if self.is_first { HEAD } else { "" };
        self.is_first = false;
        self.error = write!(self.out, "{head},\n{{{body}}}").err();
    }

    /// Writes one event: phase letter, track, time, name and further members.
    fn event(&mut self, phase: char, track: u32, at: (CpuId, SimTime), name: &str, more: &str) {
        let (cpu, time) = at;
        let (ts, name) = (us(time), escape(name));
        let comma = if more.is_empty() { "" } else { "," };
        self.emit(&format!(
            r#""ph":"{phase}","pid":{track},"tid":{},"ts":{ts},"name":"{name}"{comma}{more}"#,
            cpu.0
        ));
    }

    fn slice(&mut self, track: u32, cpu: CpuId, from: SimTime, to: SimTime, name: &str) {
        let duration = format!(r#""dur":{}"#, us(to.saturating_sub(from)));
        self.event('X', track, (cpu, from), name, &duration);
    }

    fn name_tracks(&mut self, cpu: CpuId) {
        let n = cpu.index();
        if self.named.len() <= n {
            self.named.resize(n + 1, false);
            self.handlers.resize(n + 1, 0);
            self.irqoff.resize(n + 1, None);
        }
        if std::mem::replace(&mut self.named[n], true) {
            return;
        }
        for (track, what) in [(CPU_TRACKS, ""), (IRQOFF_TRACKS, " irq off")] {
            let args = format!(r#""args":{{"name":"cpu{n}{what}"}}"#);
            self.emit(&format!(r#""ph":"M","pid":{track},"tid":{n},"name":"thread_name",{args}"#));
        }
    }

    fn instant(&mut self, record: &Record, name: &str) {
        let values = escape(&event_values(&record.event, &self.points));
        let more = format!(r#""s":"t","args":{{"values":"{values}"}}"#);
        self.event('i', CPU_TRACKS, (record.cpu, record.time), name, &more);
    }

    fn write_record(&mut self, record: &Record) {
        let (cpu, time) = (record.cpu, record.time);
        let at = (cpu, time);
        let slot = cpu.index();
        match record.event {
            Event::IpiSent { id, to, vector, began } => {
                let name = format!("send {vector:#04x} to {to}");
                self.slice(CPU_TRACKS, cpu, began, time, &name);
                let more = format!(r#""cat":"ipi","id":"{}.{}.{}""#, id.from.0, id.n, to.0);
                self.event('s', CPU_TRACKS, at, "ipi", &more);
            }
            Event::IpiAccepted { id, .. } => {
                let more =
                    format!(r#""cat":"ipi","bp":"e","id":"{}.{}.{}""#, id.from.0, id.n, cpu.0);
                self.event('f', CPU_TRACKS, at, "ipi", &more);
                self.instant(record, "ipi-accepted");
            }
            Event::HandlerBegin { vector } => {
                self.handlers[slot] += 1;
                self.event('B', CPU_TRACKS, at, &format!("handler {vector:#04x}"), "");
            }
            Event::HandlerEnd if self.handlers[slot] > 0 => {
                self.handlers[slot] -= 1;
                self.event('E', CPU_TRACKS, at, "", "");
            }
            Event::IdleEnter { .. } | Event::HandlerEnd => {}
            Event::IdleExit { cause, since, resumes, .. } => {
                self.slice(CPU_TRACKS, cpu, since, time, "idle");
                let name = format!("exit by {}", cause_name(cause));
                self.slice(CPU_TRACKS, cpu, time, resumes, &name);
            }
            Event::InterruptFlag { enabled: false, .. } => self.irqoff[slot] = Some(time),
            Event::InterruptFlag { enabled: true, .. } => {
                if let Some(since) = self.irqoff[slot].take() {
                    self.slice(IRQOFF_TRACKS, cpu, since, time, "irq off");
                }
            }
            Event::Point { index } => {
                let name = self.points.name(index).to_owned();
                self.event('i', CPU_TRACKS, at, &name, r#""s":"t""#);
            }
            ref event => self.instant(record, event_name(event)),
        }
    }
}

/// Opening of the document; the first names are those of the two groups of tracks.
const HEAD: &str = r#"{"displayTimeUnit":"ns","traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"cpus"}},
{"ph":"M","pid":2,"name":"process_name","args":{"name":"interrupts off"}}"#;

fn us(time: SimTime) -> String {
    format!("{}.{:06}", time.ps() / 1_000_000, time.ps() % 1_000_000)
}

/// Escapes a text for a JSON string; names of points come from the image.
fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out
}

impl<W: Write> Observer for ChromeTrace<W> {
    fn wanted(&self) -> Wanted {
        self.wanted
    }

    fn record(&mut self, record: &Record) {
        self.name_tracks(record.cpu);
        self.write_record(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{IpiId, WakeCause};

    #[test]
    fn a_wake_is_slices_and_an_arrow_in_balanced_json() {
        let points = PointTable::new(vec!["odd\"name\n".to_owned()], Vec::new());
        let wanted = Wanted { wakes: true, ..Wanted::default() };
        let mut trace = ChromeTrace::new(Vec::new(), points, wanted);
        let id = IpiId { from: CpuId(0), n: 1 };
        let t = SimTime::from_ns;
        let idle = Event::IdleExit {
            cause: WakeCause::Interrupt,
            state: None,
            since: t(1),
            resumes: t(30),
        };
        let records = [
            (10, 0, Event::IpiSent { id, to: CpuId(1), vector: 0xfb, began: t(5) }),
            (20, 1, Event::IpiAccepted { id, vector: 0xfb }),
            (20, 1, idle),
            (30, 1, Event::HandlerBegin { vector: 0xfb }),
            (31, 1, Event::Point { index: 0 }),
            (40, 1, Event::HandlerEnd),
        ];
        for (ns, cpu, event) in records {
            trace.record(&Record { time: t(ns), cpu: CpuId(cpu), event });
        }
        let text = String::from_utf8(trace.finish().expect("written")).expect("text");
        assert!(text.contains(
            r#""ph":"X","pid":1,"tid":0,"ts":0.005000,"name":"send 0xfb to cpu1","dur":0.005000"#
        ));
        assert!(text.contains(r#""name":"odd\"name\u000a""#));
        assert_eq!(text.matches('{').count(), text.matches('}').count());
        assert_eq!(text.matches(r#""ph":"B""#).count(), text.matches(r#""ph":"E""#).count());
        assert!(!text.contains(",\n]"));
    }
}
