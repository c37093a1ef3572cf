//! A run of two cpus from a booted machine, and its twin on a machine without spin elision whose
//! cores run in a shuffled order: both come to the same end by the same events (`engine.md` D7).

use emu_machine::{CpuCounters, Machine, Options, Stop, Until};
use emu_observe::{Observer, Record, Wanted};
use emu_sim::{CpuId, SimTime};

/// How the twin's machine differs.
pub(crate) fn options() -> Options {
    Options { elide_spins: false, shuffle_host: Some(1), ..Options::default() }
}

/// All records of a run.
#[derive(Default, PartialEq, Debug)]
struct Log(Vec<Record>);

impl Observer for Log {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, lines: true, steps: false }
    }
    fn record(&mut self, record: &Record) {
        self.0.push(*record);
    }
}

/// What must not depend on the host.
#[derive(PartialEq, Debug)]
struct End {
    stop: Stop,
    now: SimTime,
    registers: Vec<Vec<(&'static str, u64)>>,
    counters: Vec<CpuCounters>,
    log: Log,
    memory: Vec<u8>,
}

/// What is run.
pub(crate) struct Case<P> {
    /// Puts an input into a booted machine.
    pub(crate) prepare: P,
    /// Simulated time.
    pub(crate) time: SimTime,
    /// Memory that is compared: address, bytes.
    pub(crate) compared: (u64, usize),
}

impl<P: Fn(&mut Machine)> Case<P> {
    fn load(&self, booted: &Machine) -> (Machine, Until) {
        let mut machine = booted.clone();
        (self.prepare)(&mut machine);
        let time = machine.now() + self.time;
        (machine, Until { time, regions: false })
    }

    fn end(&self, booted: &Machine) -> End {
        let (mut machine, until) = self.load(booted);
        let mut log = Log::default();
        let stop = machine.run(&until, &mut log);
        assert_eq!(machine.check_laws(), Ok(()));
        let cpus = [CpuId(0), CpuId(1)];
        let counters = |cpu| CpuCounters { elided: 0, ..machine.counters(cpu) };
        End {
            stop,
            now: machine.now(),
            registers: cpus.map(|cpu| machine.registers(cpu)).to_vec(),
            counters: cpus.map(counters).to_vec(),
            log,
            memory: machine.read_guest(self.compared.0, self.compared.1),
        }
    }

    /// Runs without its twin.
    pub(crate) fn run(&self, booted: &Machine) {
        let (mut machine, until) = self.load(booted);
        machine.run(&until, &mut ());
        assert_eq!(machine.check_laws(), Ok(()));
    }

    /// Runs with its twin.
    pub(crate) fn compare(&self, plain: &Machine, other: &Machine) {
        let (plain, other) = (self.end(plain), self.end(other));
        assert!(plain == other, "the host shows:\n{plain:#?}\n{other:#?}");
    }
}

/// Whether an input is run with its twin: one in sixteen.
pub(crate) fn is_compared(data: &[u8]) -> bool {
    data.iter().fold(0u8, |sum, byte| sum.wrapping_mul(31).wrapping_add(*byte)) >> 4 == 0
}
