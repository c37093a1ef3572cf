//! The stall report: who waits for what, since when, when no cpu can ever run again.
//!
//! Plain data that the machine fills in, and its text form. Cpus that wait for the same thing at
//! the same place are one paragraph, so that a report of 384 cpus can be read.

use std::fmt;

use emu_sim::{CpuId, LineAddr, SimTime};

/// What a cpu waits for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Waiting {
    /// For its start: INIT without start-up message, or off.
    Start,
    /// In HLT for an interrupt.
    Hlt,
    /// In MWAIT for a store to this line or an interrupt.
    Mwait {
        /// Monitored line, where it is known.
        line: Option<LineAddr>,
    },
    /// In an idle state entered by an I/O port, for an interrupt.
    Port,
    /// Nothing: it shut down, as an exception could not be delivered.
    Shutdown,
    /// For permission on a line. In a stall this is a fault of the model.
    Line {
        /// Line.
        line: LineAddr,
        /// Asks to write.
        write: bool,
    },
    /// For its older stores to become visible. In a stall this is a fault of the model.
    Stores,
    /// For the answer of a device. In a stall this is a fault of the model.
    Device,
    /// For other cpus to carry out invalidations. In a stall this is a fault of the model.
    Answers,
    /// For the end of a flush of this line. In a stall this is a fault of the model.
    Flush {
        /// Line.
        line: LineAddr,
    },
    /// In a timed wait.
    Time,
    /// Nothing: it repeats a loop that nothing disturbs.
    Spin,
    /// Nothing: it runs.
    Nothing,
    /// A test rule holds it at this point.
    Held {
        /// Name of the point.
        point: String,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Waiting::Start => f.write_str("waits for its start (INIT without start-up message)"),
            Waiting::Hlt => f.write_str("waits in HLT for an interrupt"),
            Waiting::Mwait { line: Some(line) } => {
                write!(f, "waits in MWAIT for a store to line {:#x}", line.base().0)
            }
            Waiting::Mwait { line: None } => f.write_str("waits in MWAIT for a store"),
            Waiting::Port => f.write_str("waits in a port idle state for an interrupt"),
            Waiting::Shutdown => f.write_str("shut down: an exception could not be delivered"),
            Waiting::Line { line, write } => {
                let access = if *write { "write" } else { "read" };
                write!(f, "waits for permission to {access} line {:#x}", line.base().0)
            }
            Waiting::Stores => f.write_str("waits for its store buffer to drain"),
            Waiting::Device => f.write_str("waits for the answer of a device"),
            Waiting::Answers => f.write_str("waits for others to carry out invalidations"),
            Waiting::Flush { line } => {
                write!(f, "waits for the flush of line {:#x}", line.base().0)
            }
            Waiting::Time => f.write_str("waits for time to pass"),
            Waiting::Spin => f.write_str("repeats a loop that nothing disturbs"),
            Waiting::Nothing => f.write_str("runs"),
            Waiting::Held { point } => write!(f, "is held by a rule at point {point}"),
        }
    }
}

/// One cpu in a stall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StalledCpu {
    /// Cpu.
    pub cpu: CpuId,
    /// What it waits for.
    pub waiting: Waiting,
    /// Since when.
    pub since: SimTime,
    /// Address of its next instruction.
    pub pc: u64,
    /// Symbol of that address with offset, if the image has one.
    pub symbol: Option<String>,
    /// Whether it could take an interrupt.
    pub interrupts_enabled: bool,
    /// Vectors pending in its controller, ascending.
    pub pending: Vec<u8>,
    /// The last event that could have woken it, and when; in words.
    pub last_wake: Option<(SimTime, String)>,
}

/// A line with a transaction that cannot end. In a stall this is a fault of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BusyLine {
    /// Line.
    pub line: LineAddr,
    /// What the home waits for, in words.
    pub waits_for: String,
    /// Requests queued behind it.
    pub queued: u64,
}

/// State of a machine in which no cpu can ever run again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StallReport {
    /// When the last event was handled.
    pub time: SimTime,
    /// Cpus by number.
    pub cpus: Vec<StalledCpu>,
    /// Busy lines by address.
    pub busy_lines: Vec<BusyLine>,
}

/// What cpus of one paragraph have in common.
type Group<'a> = (&'a Waiting, u64, bool, &'a [u8]);

fn group(cpu: &StalledCpu) -> Group<'_> {
    (&cpu.waiting, cpu.pc, cpu.interrupts_enabled, &cpu.pending)
}

/// Formats cpu numbers as ranges: `0-3,9`.
#[must_use]
pub fn cpu_ranges(cpus: &[CpuId]) -> String {
    let mut text = String::new();
    let mut rest = cpus;
    while let Some(&first) = rest.first() {
        let run = rest.iter().zip(first.0..).take_while(|(cpu, n)| cpu.0 == *n).count();
        let last = rest[run - 1];
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&first.0.to_string());
        if run > 1 {
            text.push('-');
            text.push_str(&last.0.to_string());
        }
        rest = &rest[run..];
    }
    text
}

impl StallReport {
    fn write_group(&self, f: &mut fmt::Formatter<'_>, members: &[&StalledCpu]) -> fmt::Result {
        let cpus: Vec<CpuId> = members.iter().map(|member| member.cpu).collect();
        let first = members[0];
        let since = members.iter().map(|member| member.since).min().unwrap_or_default();
        write!(f, "\ncpu {}: {}", cpu_ranges(&cpus), first.waiting)?;
        write!(f, ", since {since}, at {:#x}", first.pc)?;
        if let Some(symbol) = &first.symbol {
            write!(f, " ({symbol})")?;
        }
        if !matches!(first.waiting, Waiting::Start | Waiting::Shutdown) {
            let flag = if first.interrupts_enabled { "on" } else { "off" };
            write!(f, ", interrupts {flag}")?;
        }
        if !first.pending.is_empty() {
            let vectors: Vec<String> =
                first.pending.iter().map(|vector| format!("{vector:#04x}")).collect();
            write!(f, ", pending vectors {}", vectors.join(" "))?;
        }
        let last =
            members.iter().filter_map(|member| Some((member.cpu, member.last_wake.as_ref()?)));
        match last.max_by_key(|(cpu, (time, _))| (*time, *cpu)) {
            Some((cpu, (time, what))) => write!(f, "\n  last wake event: {what} at {time} ({cpu})"),
            None => f.write_str("\n  no event ever reached it that could have woken it"),
        }
    }
}

impl fmt::Display for StallReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "stalled at {}: no cpu can ever run again", self.time)?;
        let mut done = vec![false; self.cpus.len()];
        for first in 0..self.cpus.len() {
            if done[first] {
                continue;
            }
            let same = |n: &usize| group(&self.cpus[*n]) == group(&self.cpus[first]);
            let members: Vec<usize> = (first..self.cpus.len()).filter(same).collect();
            for &member in &members {
                done[member] = true;
            }
            let members: Vec<&StalledCpu> = members.iter().map(|&n| &self.cpus[n]).collect();
            self.write_group(f, &members)?;
        }
        for line in &self.busy_lines {
            let (base, queued) = (line.line.base().0, line.queued);
            write!(f, "\nline {base:#x}: busy, {}, {queued} queued", line.waits_for)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stalled(cpu: u32, waiting: Waiting) -> StalledCpu {
        StalledCpu {
            cpu: CpuId(cpu),
            waiting,
            since: SimTime::from_us(u64::from(cpu) + 1),
            pc: 0x10_0040,
            symbol: Some("idle+0x10".to_owned()),
            interrupts_enabled: false,
            pending: vec![0xfb],
            last_wake: None,
        }
    }

    #[test]
    fn equal_cpus_are_one_paragraph() {
        let mut last = stalled(3, Waiting::Hlt);
        last.last_wake = Some((SimTime::from_us(2), "ipi 0xfb from cpu0".to_owned()));
        let report = StallReport {
            time: SimTime::from_us(9),
            cpus: vec![
                stalled(0, Waiting::Hlt),
                stalled(1, Waiting::Hlt),
                stalled(2, Waiting::Mwait { line: Some(LineAddr(0x40)) }),
                last,
            ],
            busy_lines: Vec::new(),
        };
        let expected = "\
stalled at 9.000 us: no cpu can ever run again
cpu 0-1,3: waits in HLT for an interrupt, since 1.000 us, at 0x100040 (idle+0x10), interrupts off, \
pending vectors 0xfb
  last wake event: ipi 0xfb from cpu0 at 2.000 us (cpu3)
cpu 2: waits in MWAIT for a store to line 0x1000, since 3.000 us, at 0x100040 (idle+0x10), \
interrupts off, pending vectors 0xfb
  no event ever reached it that could have woken it";
        assert_eq!(report.to_string(), expected);
    }
}
