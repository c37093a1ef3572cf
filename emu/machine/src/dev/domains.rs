//! Power domains: which clusters and packages are down, and what that costs the cpus in them.
//!
//! A cpu that enters a state of wider scope than a core tells its domains, and tells them again
//! when it wakes. The vote that completes a cluster or package is that of the last man: the domain
//! goes down behind it, in the shallowest state that its cpus have asked for, and that cpu's entry
//! is longer by the domain's part. Whoever wakes first brings the domains up before its core, and
//! cpus that wake meanwhile wait for that. A cpu whose domain is not complete has paid for its
//! core only, whatever it asked for. Firmware takes the requests of a cluster one after the other.
//! What a cpu will pay is told to it by messages, so that one which wakes within a leg of another
//! pays by what it knew.
//!
//! Not modelled: states that the operating system coordinates (OS-initiated mode), exits that wait
//! for the firmware.
//!
//! Source: \[PSCI\] "Power state coordination", platform-coordinated mode; costs in two parts and
//! the queue: assumed, after measurements of such firmware. Rule W5.

use emu_cpu::wait::PowerVote;
use emu_sim::{CpuId, SimTime};
use topology::{IdleScope, Machine};

/// Levels of domains: cluster and package.
const LEVELS: usize = 2;

/// What follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// This cpu, in this wait, cannot leave before `until`, and pays `exit` beside its core's.
    Tell {
        /// Which cpu.
        cpu: CpuId,
        /// Number of its wait.
        n: u64,
        /// When the entry is over, or the domains are up again.
        until: SimTime,
        /// Exit of the domains that are down.
        exit: SimTime,
    },
    /// This LLC loses what it holds.
    Flush {
        /// Which LLC.
        llc: usize,
        /// When its lines have been written back.
        at: SimTime,
    },
}

/// Part of a state's cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Part {
    entry: u64,
    exit: u64,
    /// A wake need not wait for the entry.
    is_abortable: bool,
    flushes_llc: bool,
}

/// An idle state: what its core pays, and what each level adds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct State {
    core: Part,
    wider: [Part; LEVELS],
    levels: usize,
    queue: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Domain {
    cpus: Vec<usize>,
    /// LLCs that have no other cpus.
    llcs: Vec<usize>,
    /// Down: what the first one up pays.
    down: Option<u64>,
    /// When its last entry or exit is over.
    settled: u64,
    /// When the firmware can take the next request.
    free: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    Up,
    Off,
    Down { state: usize, n: u64, until: u64, told: (u64, u64) },
}

/// The domains of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    states: Vec<State>,
    cpus: Vec<Run>,
    /// By level and cpu.
    of: [Vec<usize>; LEVELS],
    domains: [Vec<Domain>; LEVELS],
}

/// Levels that a state asks for.
fn levels(scope: IdleScope) -> usize {
    match scope {
        IdleScope::Cpu | IdleScope::Core => 0,
        IdleScope::Cluster => 1,
        IdleScope::Package => 2,
    }
}

/// A state as the sum of its parts.
fn state(m: &Machine, index: usize) -> State {
    let whole = &m.idle[index];
    let mut state = State {
        core: Part::default(),
        wider: [Part::default(); LEVELS],
        levels: levels(whole.scope),
        queue: whole.queue,
    };
    let mut at = Some(index);
    while let Some(index) = at {
        let s = &m.idle[index];
        at = m.narrower(index);
        let inner = at.map(|index| &m.idle[index]);
        let less =
            |all: u64, of: fn(&topology::IdleState) -> u64| all.saturating_sub(inner.map_or(0, of));
        let part = Part {
            entry: less(s.entry_latency, |s| s.entry_latency),
            exit: less(s.exit_interrupt, |s| s.exit_interrupt),
            is_abortable: s.abortable,
            flushes_llc: s.flushes.llc,
        };
        match levels(s.scope).checked_sub(1).filter(|_| at.is_some()) {
            Some(level) => state.wider[level] = part,
            None => state.core = part,
        }
    }
    state
}

impl Domains {
    /// All cpus but the first are off.
    #[must_use]
    pub fn new(m: &Machine, cpus: usize) -> Domains {
        let place = |cpu: usize| [m.cpus[cpu].cluster, m.cpus[cpu].package];
        let of = [0, 1].map(|level| (0..cpus).map(|cpu| place(cpu)[level]).collect::<Vec<_>>());
        let domains = [0, 1].map(|level| {
            let count = (0..m.cpus.len()).map(|cpu| place(cpu)[level] + 1).max().unwrap_or(0);
            let mut domains = vec![Domain::default(); count];
            for cpu in 0..cpus {
                domains[of[level][cpu]].cpus.push(cpu);
            }
            for (llc, place_of) in m.llcs.iter().enumerate() {
                let cpus = place_of.cores.iter().flat_map(|core| m.cores[*core].cpus.iter());
                let mut homes: Vec<usize> = cpus.map(|cpu| place(*cpu)[level]).collect();
                homes.dedup();
                if let [one] = homes[..] {
                    domains[one].llcs.push(llc);
                }
            }
            domains
        });
        let states = (0..m.idle.len()).map(|index| state(m, index)).collect();
        let cpus = (0..cpus).map(|cpu| if cpu == 0 { Run::Up } else { Run::Off }).collect();
        Domains { states, cpus, of, domains }
    }

    /// Hears what a cpu said at `at`.
    pub fn hear(&mut self, cpu: CpuId, vote: PowerVote, at: SimTime) -> Vec<Effect> {
        let (cpu, at) = (cpu.index(), at.ps());
        let mut effects = Vec::new();
        match vote {
            PowerVote::Down(state, n) => self.down(cpu, usize::from(state), n, at, &mut effects),
            PowerVote::Off => {
                self.cpus[cpu] = Run::Off;
                self.complete(cpu, at, &mut effects);
            }
            PowerVote::Up => self.up(cpu, at),
        }
        self.tell(cpu, &mut effects);
        effects
    }

    fn down(&mut self, cpu: usize, state: usize, n: u64, at: u64, effects: &mut Vec<Effect>) {
        let State { core, queue, .. } = self.states[state];
        let cluster = &mut self.domains[0][self.of[0][cpu]];
        let begin = if queue > 0 { at.max(cluster.free) } else { at };
        if queue > 0 {
            cluster.free = begin + queue;
        }
        let wait = if core.is_abortable { 0 } else { core.entry };
        // What its core takes for granted.
        let told = (at + wait, 0);
        self.cpus[cpu] = Run::Down { state, n, until: begin + wait, told };
        self.complete(cpu, begin + core.entry, effects);
    }

    /// The domains of a cpu that is down from `done` on go down as far as all have asked for.
    fn complete(&mut self, cpu: usize, mut done: u64, effects: &mut Vec<Effect>) {
        for level in 0..LEVELS {
            let domain = &mut self.domains[level][self.of[level][cpu]];
            let asks = domain.cpus.iter().map(|cpu| match self.cpus[*cpu] {
                Run::Up => None,
                Run::Off => Some(None),
                Run::Down { state, .. } => {
                    Some(Some(state)).filter(|_| self.states[state].levels > level)
                }
            });
            let Some(asked) = asks.collect::<Option<Vec<_>>>() else { return };
            // Nobody will wake in a domain whose cpus are all off.
            let Some(shallowest) = asked.into_iter().flatten().min() else { continue };
            let part = self.states[shallowest].wider[level];
            done = done.max(domain.settled) + part.entry;
            domain.down = Some(part.exit);
            domain.settled = done;
            let flushed: &[usize] = if part.flushes_llc { &domain.llcs } else { &[] };
            effects.extend(flushed.iter().map(|&llc| Effect::Flush { llc, at: SimTime(done) }));
            if !part.is_abortable {
                self.wait_until(level, cpu, done);
            }
        }
    }

    /// Whoever is down in the domain of a cpu leaves it at `until` or later.
    fn wait_until(&mut self, level: usize, cpu: usize, until: u64) {
        for member in &self.domains[level][self.of[level][cpu]].cpus {
            if let Run::Down { until: own, .. } = &mut self.cpus[*member] {
                *own = until.max(*own);
            }
        }
    }

    fn up(&mut self, cpu: usize, at: u64) {
        let mut up = match self.cpus[cpu] {
            Run::Down { until, .. } => until.max(at),
            Run::Up | Run::Off => at,
        };
        self.cpus[cpu] = Run::Up;
        for level in (0..LEVELS).rev() {
            let domain = &mut self.domains[level][self.of[level][cpu]];
            if let Some(exit) = domain.down.take() {
                up += exit;
                domain.settled = up;
                self.wait_until(level, cpu, up);
            }
        }
    }

    /// Tells those whose cost is another one now: all are in the package of the cpu.
    fn tell(&mut self, cpu: usize, effects: &mut Vec<Effect>) {
        for &member in &self.domains[1][self.of[1][cpu]].cpus {
            let exits = (0..LEVELS).map(|level| self.domains[level][self.of[level][member]].down);
            let exit = exits.flatten().sum();
            if let Run::Down { n, until, told, .. } = &mut self.cpus[member]
                && *told != (*until, exit)
            {
                *told = (*until, exit);
                let (until, exit) = (SimTime(*until), SimTime(exit));
                effects.push(Effect::Tell { cpu: CpuId(member as u32), n: *n, until, exit });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! Histories as tables: `tests/power/*.seq`.
    //!
    //! ```text
    //! ;! claim   = what the file shows
    //! ;! machine = hikey-620 KEY=VALUE
    //! 0    cpu0 in cluster-sleep         at 0 us cpu 0 begins to wait in the state
    //! 5    cpu1 off                      it is switched off, or goes off
    //! 100  cpu0 out 120                  it wakes at 100 us, and runs from 120 us on
    //! 67   llc0 flushed                  the LLC has lost what it held at 67 us
    //! ```
    //!
    //! All cpus but the first are off before. Between cpu and domains no time passes here.

    use std::path::Path;

    use super::*;

    const US: u64 = 1_000_000;

    /// What a core knows of its wait.
    #[derive(Clone, Copy, Default)]
    struct Wait {
        n: u64,
        until: u64,
        exit: u64,
    }

    struct History {
        machine: Machine,
        domains: Domains,
        waits: Vec<Wait>,
        flushed: Vec<(u64, usize)>,
    }

    impl History {
        fn new(text: &str) -> History {
            let mut words = text.split_whitespace();
            let name = words.next().expect("a machine");
            let set: Vec<String> = words.map(str::to_owned).collect();
            let machine = Machine::load(name, &set).unwrap_or_else(|e| panic!("{e}"));
            let cpus = machine.cpus.len();
            let domains = Domains::new(&machine, cpus);
            History { machine, domains, waits: vec![Wait::default(); cpus], flushed: Vec::new() }
        }

        fn hear(&mut self, cpu: usize, vote: PowerVote, at: u64) {
            for effect in self.domains.hear(CpuId(cpu as u32), vote, SimTime(at)) {
                match effect {
                    Effect::Tell { cpu, n, until, exit } => {
                        let wait = &mut self.waits[cpu.index()];
                        if wait.n == n {
                            (wait.until, wait.exit) = (until.ps(), exit.ps());
                        }
                    }
                    Effect::Flush { llc, at } => self.flushed.push((at.ps(), llc)),
                }
            }
        }

        /// What the core of a state pays by itself: entry as far as it counts, and exit.
        fn own(&self, state: usize) -> (u64, u64) {
            let part = self.domains.states[state].core;
            (if part.is_abortable { 0 } else { part.entry }, part.exit)
        }

        fn line(&mut self, line: &str) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let us = |text: &str| text.parse::<u64>().map_or_else(|_| panic!("{line}"), |n| n * US);
            let at = us(words[0]);
            let number = |text: &str| text[3..].parse::<usize>().expect(line);
            match words[1..] {
                [cpu, "in", name] => {
                    let cpu = number(cpu);
                    let state = self.machine.idle.iter().position(|s| s.name == name).expect(line);
                    let (until, n) = (at + self.own(state).0, self.waits[cpu].n + 1);
                    self.waits[cpu] = Wait { n, until, exit: 0 };
                    self.hear(cpu, PowerVote::Down(state as u8, n), at);
                }
                [cpu, "off"] => self.hear(number(cpu), PowerVote::Off, at),
                [cpu, "on"] => self.hear(number(cpu), PowerVote::Up, at),
                [cpu, "out", runs] => {
                    let cpu = number(cpu);
                    let Run::Down { state, .. } = self.domains.cpus[cpu] else { panic!("{line}") };
                    let wait = self.waits[cpu];
                    self.hear(cpu, PowerVote::Up, at);
                    let found = wait.until.max(at) + wait.exit + self.own(state).1;
                    assert_eq!(found.div_ceil(US), us(runs) / US, "{line}");
                }
                [llc, "flushed"] => {
                    let found = self.flushed.iter().position(|&(then, which)| {
                        then.div_ceil(US) == at / US && which == number(llc)
                    });
                    let found = found.unwrap_or_else(|| panic!("{line}: {:?}", self.flushed));
                    self.flushed.remove(found);
                }
                _ => panic!("cannot read `{line}`"),
            }
        }
    }

    #[test]
    fn cpus_of_a_domain_pay_what_is_written() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/power");
        let files: Vec<_> = std::fs::read_dir(dir).expect("tests/power").collect();
        assert!(!files.is_empty());
        for file in files {
            let path = file.expect("readable").path();
            let text = std::fs::read_to_string(&path).expect("text");
            let machine = text.lines().find_map(|line| line.strip_prefix(";! machine = "));
            let mut history = History::new(machine.expect("a machine"));
            let lines = text.lines().map(|line| line.split(" #").next().unwrap_or(line).trim());
            for line in lines.filter(|line| !line.is_empty() && !line.starts_with([';', '#'])) {
                history.line(line);
            }
            assert_eq!(history.flushed, [], "{}", path.display());
        }
    }
}
