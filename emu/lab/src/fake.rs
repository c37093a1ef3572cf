//! A machine made of a table, for tests of the drivers.
//!
//! It knows the workloads by their command line, writes counters and samples into memory like the
//! guest kernel, and marks its regions. Its figures are arithmetic, not a model of anything.

use std::collections::BTreeMap;

use emu_machine::{BrokenLaw, CpuCounters, NamedLines, Options, PointRule, Stop, Until};
use emu_observe::{Event, IpiId, Observer, PointTable, Record, StallReport};
use emu_sim::{CpuId, SimTime};
use guests_abi::block::{COUNTERS_MAGIC, COUNTERS_SYMBOL, SAMPLES_MAGIC, SAMPLES_SYMBOL};
use guests_abi::counter::Counter;
use topology::Machine;

use crate::counters::Counters;
use crate::ending::LabError;
use crate::rig::{Program, Rig};
use crate::settings::Switches;

const COUNTERS_AT: u64 = 0x1000;
const NAMES_AT: u64 = 0x2000;
const BLOCK_TABLE_AT: u64 = 0x4000;
const BLOCKS_AT: u64 = 0x10_0000;
const SAMPLES_AT: u64 = 0x20_0000;
const SERIES_AT: u64 = 0x20_1000;
const VALUES_AT: u64 = 0x30_0000;

/// Makes counters of one cpu.
pub(crate) fn counters_of(pairs: &[(&str, u64)]) -> Counters {
    let rig = FakeRig { cpus: 1, ..FakeRig::default() };
    let mut counters = Counters::read(&rig).expect("counters of nothing").emptied();
    for &(name, value) in pairs {
        counters.push(name, vec![value]);
    }
    counters
}

/// Makes a machine of two cpus with this header of counters and samples, and words at 0x8000.
pub(crate) fn rig_with(header: &[u64], words: &[u64]) -> FakeRig {
    let mut rig =
        FakeRig { cpus: 2, machine: vec![CpuCounters::default(); 2], ..FakeRig::default() };
    rig.put(COUNTERS_AT, header);
    rig.put(SAMPLES_AT, header);
    rig.put(0x8000, words);
    rig
}

/// The fake.
#[derive(Clone, Debug, Default)]
pub(crate) struct FakeRig {
    cpus: usize,
    step: usize,
    now: SimTime,
    seed: u64,
    switches: Switches,
    memory: BTreeMap<u64, u8>,
    machine: Vec<CpuCounters>,
    rules: Vec<PointRule>,
}

impl FakeRig {
    fn put(&mut self, address: u64, words: &[u64]) {
        for (n, byte) in (0u64..).zip(words.iter().flat_map(|word| word.to_le_bytes())) {
            self.memory.insert(address + n, byte);
        }
    }

    fn number(&self, key: &str) -> u64 {
        self.switches.get(key).and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    fn add(&mut self, cpu: usize, counter: Counter, value: u64) {
        let block = BLOCKS_AT + 0x1000 * cpu as u64 + 8 * counter as u64;
        let old = self.read_guest(block, 8);
        let old = u64::from_le_bytes(old.try_into().expect("a word"));
        self.put(block, &[old + value]);
    }

    fn fill_headers(&mut self) {
        let names: String = Counter::NAMES.iter().map(|name| format!("{name}\0")).collect();
        for (n, byte) in (0u64..).zip(names.bytes()) {
            self.memory.insert(NAMES_AT + n, byte);
        }
        let (count, bytes) = (Counter::COUNT as u64, names.len() as u64);
        let cpus = self.cpus as u64;
        let header = [COUNTERS_MAGIC, count, NAMES_AT, bytes, cpus, BLOCK_TABLE_AT];
        self.put(COUNTERS_AT, &header);
        let table: Vec<u64> = (0..cpus).map(|cpu| BLOCKS_AT + 0x1000 * cpu).collect();
        self.put(BLOCK_TABLE_AT, &table);
    }

    /// Writes one series for each (kind, cpu, peer, values).
    fn put_samples(&mut self, all: &[(u64, u64, u64, Vec<u64>)]) {
        self.put(SAMPLES_AT, &[SAMPLES_MAGIC, all.len() as u64, SERIES_AT]);
        for (n, (kind, cpu, peer, values)) in (0u64..).zip(all) {
            let (count, at) = (values.len() as u64, VALUES_AT + 0x1000 * n);
            self.put(SERIES_AT + 48 * n, &[*kind, *cpu, *peer, count, count, at]);
            self.put(at, values);
        }
    }

    /// The measured part of ipistorm: half of the calls are saved, unless under `revert`.
    fn storm(&mut self, observer: &mut impl Observer) {
        let calls = self.number("numipi");
        let variant = self.switches.get("call_idle").unwrap_or_default().to_owned();
        let ns = match variant.as_str() {
            "need_resched" => 1000,
            "revert" => 800,
            "notify_ipi" => 250,
            _ => 500,
        };
        let sent = if variant == "revert" { calls } else { calls / 2 };
        self.add(8, Counter::CallIpi, sent);
        self.add(8, Counter::CallSaved, calls - sent);
        self.add(8, Counter::CallRemote, calls);
        self.machine[8].ipi_sent += sent;
        self.machine[16].ipi_taken += sent;
        self.machine[16].ipi_pend_masked_ps += sent * 100_000;
        let id = IpiId { from: CpuId(8), n: 1 };
        let begun = self.now;
        let at = |ns| begun.saturating_add(SimTime::from_ns(ns));
        let (to, vector, masked) = (CpuId(16), 0xfb, SimTime::ZERO);
        let events = [
            (10, 8, Event::IpiSent { id, to, vector, began: begun }),
            (60, 16, Event::IpiAccepted { id, vector }),
            (70, 16, Event::InterruptTaken { vector, masked }),
            (100, 16, Event::HandlerBegin { vector }),
            (150, 16, Event::HandlerEnd),
            (200, 16, Event::InterruptFlag { enabled: false, pc: 0x40 }),
            (500, 16, Event::InterruptFlag { enabled: true, pc: 0x80 }),
        ];
        for (ns, cpu, event) in events {
            observer.record(&Record { time: at(ns), cpu: CpuId(cpu), event });
        }
        self.put_samples(&[(1, 8, 16, vec![ns * 245 / 100; 4])]);
        self.now = at(calls * ns + self.seed);
    }

    /// The whole of c2c: ten ticks a round trip for each cpu number between the pair.
    fn handovers(&mut self) {
        let (a, b) = (self.switches.cpu_list("c2c_a", 1024), self.switches.cpu_list("c2c_b", 1024));
        let iters = self.number("iters");
        let of_pair = |(a, b): (usize, usize)| {
            let ticks = 10 * iters * (b - a) as u64;
            (2, a as u64, b as u64, vec![ticks; 2])
        };
        let series: Vec<_> = a.into_iter().zip(b).map(of_pair).collect();
        self.put_samples(&series);
    }

    /// The whole of atomics: an increment takes ten ticks for each cpu that increments.
    fn increments(&mut self) {
        let on = self.switches.cpu_list("on", 1024);
        let iters = self.number("iters");
        let ticks = 10 * iters * on.len() as u64;
        let series: Vec<_> =
            on.into_iter().map(|cpu| (4, cpu as u64, cpu as u64, vec![ticks, iters])).collect();
        self.put_samples(&series);
    }

    /// The measured part of busy: a microsecond a round, and one more for the seed.
    fn work(&mut self) {
        let (rounds, seed) = (self.number("iters"), self.seed);
        self.put_samples(&[(5, 0, 0, vec![rounds]), (6, 0, 0, vec![245, 490])]);
        self.now = self.now.saturating_add(SimTime::from_us(rounds + seed));
    }

    /// The measured part of a scenario: a call to a polling target.
    fn scenario(&mut self) {
        let revert = self.switches.get("call_idle") == Some("revert");
        let counter = if revert { Counter::CallIpi } else { Counter::CallSaved };
        self.add(0, counter, 1);
        self.add(0, Counter::CallRemote, 1);
        self.machine[0].ipi_sent += u64::from(revert);
        self.machine[1].ipi_taken += u64::from(revert);
        self.now = self.now.saturating_add(SimTime::from_us(50));
    }
}

impl Rig for FakeRig {
    fn build(
        topology: &Machine,
        options: Options,
        program: &Program<'_>,
    ) -> Result<Self, LabError> {
        let cpus = options.cpus.map_or(topology.cpus.len(), |cpus| cpus as usize);
        let machine = vec![CpuCounters::default(); cpus];
        let mut rig = FakeRig { cpus, machine, seed: options.seed, ..FakeRig::default() };
        let words: Vec<String> = program.bootargs.split_whitespace().map(str::to_owned).collect();
        rig.switches.set_all(&words)?;
        rig.fill_headers();
        Ok(rig)
    }

    fn run<O: Observer>(&mut self, until: &Until, observer: &mut O) -> Stop {
        let bench = self.switches.get("bench").unwrap_or_default().to_owned();
        let (id, cpu) = (if bench == "scenario" { 2 } else { 1 }, CpuId(0));
        loop {
            self.step += 1;
            self.machine[0].instructions += 1000;
            match (self.step, bench.as_str()) {
                (1, "ipistorm" | "scenario" | "c2c" | "atomics" | "busy" | "idle") => {
                    self.now = SimTime::from_us(100);
                    if until.regions {
                        return Stop::Region { id, begin: true, cpu };
                    }
                }
                (2, "ipistorm" | "scenario" | "c2c" | "atomics" | "busy" | "idle") => {
                    match bench.as_str() {
                        "ipistorm" => self.storm(observer),
                        "scenario" => self.scenario(),
                        "c2c" => self.handovers(),
                        "atomics" => self.increments(),
                        "busy" => self.work(),
                        _ => {}
                    }
                    if until.regions {
                        return Stop::Region { id, begin: false, cpu };
                    }
                }
                _ => return Stop::Exit { code: 0 },
            }
        }
    }

    fn input(&mut self, _: &[u8]) {}

    fn now(&self) -> SimTime {
        self.now
    }

    fn cpus(&self) -> usize {
        self.cpus
    }

    fn counters(&self, cpu: CpuId) -> CpuCounters {
        self.machine.get(cpu.index()).cloned().unwrap_or_default()
    }

    fn ipis_under_way(&self) -> u64 {
        0
    }

    fn reseed(&mut self, seed: u64) {
        self.seed = seed;
    }

    fn set_rules(&mut self, rules: &[PointRule]) -> Result<(), LabError> {
        self.rules = rules.to_vec();
        Ok(())
    }

    fn read_guest(&self, address: u64, len: usize) -> Vec<u8> {
        let bytes = (0..len as u64).map(|n| address.wrapping_add(n));
        bytes.map(|at| self.memory.get(&at).copied().unwrap_or(0)).collect()
    }

    fn console(&self) -> &[u8] {
        b""
    }

    fn symbol(&self, name: &str) -> Option<u64> {
        match name {
            COUNTERS_SYMBOL => Some(COUNTERS_AT),
            SAMPLES_SYMBOL => Some(SAMPLES_AT),
            _ => None,
        }
    }

    fn describe(&self, _: u64) -> Option<String> {
        None
    }

    fn points(&self) -> PointTable {
        PointTable::new(vec!["irqoff_schedule_idle".to_owned()], vec![(0x40, 0)])
    }

    fn named_lines(&self) -> &[NamedLines] {
        &[]
    }

    fn is_settled(&self, _: CpuId) -> bool {
        true
    }

    fn passed(&self, _: CpuId, _: &str) -> u64 {
        2
    }

    fn registers(&self, _: CpuId) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    fn check_laws(&self) -> Result<(), BrokenLaw> {
        Ok(())
    }

    fn stall_report(&self) -> StallReport {
        StallReport::default()
    }
}
