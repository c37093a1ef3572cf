//! Threads of `bench=rtapp` in the form of its switch: what an rt-app file says, in one word.
//!
//! ```text
//! threads = thread { ";" thread }
//! thread  = instances "x" policy nice "@" cpus "*" loops ":" phase { "|" phase }
//! policy  = "n" normal, "i" SCHED_IDLE
//! phase   = loops "/" event { "," event }
//! event   = letter number, us: "r" runs, "s" sleeps, "t" waits for the next period of the thread's
//!           timer, which starts anew when it is late, "T" the same without starting anew
//! ```
//!
//! `cpus` is a CPU list (`all`: may run anywhere, one CPU: pinned); `loops` of 0 are endless. A
//! thread that does nothing but run, for ever, is one endless loop of the kernel.

use crate::switch::{parse_cpu_list, parse_number};

/// Most threads of a word, instances counted.
pub const THREADS_MAX: u64 = 4096;

/// Most phases of a thread.
pub const PHASES_MAX: usize = 8;
/// Most events of a phase.
pub const EVENTS_MAX: usize = 16;

/// Longest time of an event, us.
pub const EVENT_US_MAX: u64 = 100_000_000;

/// What a thread does in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Work of this time on an undisturbed CPU, us.
    Run(u64),
    /// Sleep, us.
    Sleep(u64),
    /// Waits for the next period, us.
    Timer {
        /// Period.
        period_us: u64,
        /// A timer that is late does not start anew.
        is_absolute: bool,
    },
}

/// One kind of thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thread<'a> {
    /// How many there are of it.
    pub instances: u64,
    /// SCHED_IDLE, else normal.
    pub is_idle: bool,
    /// Nice level, -20 to 19.
    pub nice: i8,
    /// CPU list.
    pub cpus: &'a str,
    /// How often the phases are gone through; 0 is for ever.
    pub loops: u64,
    phases: &'a str,
}

/// One phase of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phase<'a> {
    /// How often it is gone through; 0 is for ever.
    pub loops: u64,
    events: &'a str,
}

impl<'a> Thread<'a> {
    fn parse(text: &'a str) -> Option<Thread<'a>> {
        let (instances, text) = text.split_once('x')?;
        let (who, text) = text.split_once('@')?;
        let (cpus, text) = text.split_once('*')?;
        let (loops, phases) = text.split_once(':')?;
        let (policy, nice) = who.split_at_checked(1)?;
        let is_idle = match policy {
            "n" => false,
            "i" => true,
            _ => return None,
        };
        let nice: i8 = nice.parse().ok()?;
        let instances = parse_number(instances)?;
        let is_good = (1..=THREADS_MAX).contains(&instances)
            && (-20..=19).contains(&nice)
            && parse_cpu_list(cpus, |_| ())
            && cpus != "none";
        let thread = Thread { instances, is_idle, nice, cpus, loops: parse_number(loops)?, phases };
        is_good.then_some(thread)
    }

    /// The phases in order.
    pub fn phases(self) -> impl Iterator<Item = Phase<'a>> + Clone {
        self.phases.split('|').filter_map(Phase::parse)
    }

    /// Whether it does nothing but run, for ever.
    pub fn is_endless_loop(self) -> bool {
        let is_endless = self.loops == 0 || self.phases().any(|phase| phase.loops == 0);
        let is_run = |event| matches!(event, Event::Run(_));
        is_endless && self.phases().all(|phase| phase.events().all(is_run))
    }
}

impl<'a> Phase<'a> {
    fn parse(text: &'a str) -> Option<Phase<'a>> {
        let (loops, events) = text.split_once('/')?;
        let is_good = events.split(',').all(|event| Event::parse(event).is_some());
        Some(Phase { loops: parse_number(loops)?, events }).filter(|_| is_good)
    }

    /// The events in order.
    pub fn events(self) -> impl Iterator<Item = Event> + Clone {
        self.events.split(',').filter_map(Event::parse)
    }

    /// How long a turn takes at least, us: its timers' periods, or what is run and slept.
    pub fn turn_us(self) -> u64 {
        self.events().fold(0, |length, event| match event {
            Event::Run(us) | Event::Sleep(us) => length + us,
            Event::Timer { period_us, .. } => length.max(period_us),
        })
    }
}

impl Event {
    fn parse(text: &str) -> Option<Event> {
        let (kind, us) = text.split_at_checked(1)?;
        let us = parse_number(us).filter(|us| (1..=EVENT_US_MAX).contains(us))?;
        Some(match kind {
            "r" => Event::Run(us),
            "s" => Event::Sleep(us),
            "t" | "T" => Event::Timer { period_us: us, is_absolute: kind == "T" },
            _ => return None,
        })
    }
}

/// The threads of a word, in order; those behind a bad one are not found.
pub fn threads(word: &str) -> impl Iterator<Item = Thread<'_>> + Clone {
    word.split(';').map_while(Thread::parse)
}

/// Whether the whole word can be read.
pub fn is_legal(word: &str) -> bool {
    let is_phase =
        |text: &str| Phase::parse(text).is_some_and(|phase| phase.events().count() <= EVENTS_MAX);
    let is_thread = |text: &str| {
        Thread::parse(text).is_some_and(|thread| {
            thread.phases.split('|').count() <= PHASES_MAX && thread.phases.split('|').all(is_phase)
        })
    };
    let count = threads(word).fold(0, |count: u64, thread| count.saturating_add(thread.instances));
    word.split(';').all(is_thread) && count <= THREADS_MAX
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_word_is_read_into_threads_phases_and_events() {
        let word = "1xn-5@5*0:10/r2333,t7777|1/s20;8xi0@all*0:0/r100";
        assert!(is_legal(word));
        let threads: Vec<Thread<'_>> = threads(word).collect();
        assert_eq!((threads[0].instances, threads[0].nice, threads[0].cpus), (1, -5, "5"));
        assert!(!threads[0].is_endless_loop() && threads[1].is_endless_loop());
        assert!(threads[1].is_idle && threads[1].instances == 8);
        let phases: Vec<Phase<'_>> = threads[0].phases().collect();
        let timer = Event::Timer { period_us: 7777, is_absolute: false };
        assert_eq!(phases[0].events().collect::<Vec<_>>(), [Event::Run(2333), timer]);
        assert_eq!((phases[0].loops, phases[0].turn_us(), phases[1].turn_us()), (10, 7777, 20));
    }

    #[test]
    fn what_is_no_word_is_refused() {
        let bad = [
            "",
            "1xn0@5*1:1/",
            "1xn0@5*1:1/q3",
            "1xn0@5*1:1/r0",
            "1xn0@5*1:1/r1|",
            "0xn0@5*1:1/r1",
            "5000xn0@5*1:1/r1",
            "4000xn0@5*1:1/r1;97xn0@5*1:1/r1",
            "1xn20@5*1:1/r1",
            "1xf0@5*1:1/r1",
            "1xn0@none*1:1/r1",
            "1xn0@5-1*1:1/r1",
            "1xn0@5*1:1/r1;",
            "1xn0@5*1:1/r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1,r1",
            "1xn0@5*1:1/r1|1/r1|1/r1|1/r1|1/r1|1/r1|1/r1|1/r1|1/r1",
            "1xn0@5*1:1/r200000000",
            "\u{e9}",
        ];
        for word in bad {
            assert!(!is_legal(word), "{word}");
        }
    }
}
