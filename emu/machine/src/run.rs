//! The run loop (`engine.md` section 3): cores run ahead of each other only as far as no message
//! can still reach them.
//!
//! With `a` the shortest leg from a core to the uncore, `b` that back and `W = a + b`:
//! the uncore may handle an item before `next core item + a`; a core may run until the least of
//! `next uncore item + b`, `next item of any other core + W` and `its own first message + W`.
//! The bounds are tight; none of them changes a result (D7).

use emu_cpu::isa::Isa;
use emu_cpu::node::{Core, CoreItem, Out};
use emu_cpu::port::{DeviceAccess, Target};
use emu_cpu::thread::RunState;
use emu_cpu::wait::{PowerVote, Signal};
use emu_mem::msg::{Envelope, LineMsg};
use emu_observe::{Event, IpiId, Observer, Record};
use emu_sim::mutant::Mutant;
use emu_sim::{Chance, CpuId, Key, NodeRef, Phase, SimTime};

use crate::api::{NamedLines, Stop, Until};
use crate::bus::{Answer, Asked, Request, abi_state};
use crate::dev::domains;
use crate::earliest::Two;
use crate::platform::Platform;
use crate::system::System;

/// What waits in the uncore's one queue.
#[derive(Clone, Debug)]
pub(crate) enum UncoreItem {
    /// A message to an LLC or a home.
    Line(Envelope),
    /// A device access of a cpu.
    Device { cpu: CpuId, access: DeviceAccess, is_posted: bool },
    /// A cpu's answer to a device.
    RunState { asker: CpuId, run: RunState },
    /// An access of a device was made.
    DmaDone { index: usize, value: u64 },
    /// What a cpu tells its power domains.
    Power { cpu: CpuId, vote: PowerVote, at: SimTime },
    /// An LLC has lost its power.
    Flush { llc: usize },
    /// A device is due.
    Due,
    /// One half of the copy of a line is over.
    Copied { slot: usize },
    /// A cpu passed a watched point.
    Point { cpu: CpuId, index: u32, held_by: Option<u32> },
}

/// Orders stops of one instant, as the host's order must not (`engine.md` D5): what devices ask for
/// comes in order of keys, cpus that fail follow by number.
fn rank(stop: &Stop) -> u64 {
    match stop {
        Stop::GuestFault { cpu, .. } => 1 + u64::from(cpu.0),
        _ => 0,
    }
}

/// Records kept before they are handed on, at least.
const RECORD_BATCH: usize = 4096;

impl<P: Platform> System<P> {
    /// Runs until the guest exits, a region mark (if asked for), the time limit, or the end of all
    /// activity.
    ///
    /// Debug builds check the conservation laws at the end of every run; others leave that to the
    /// caller of [`Machine::check_laws`].
    pub(crate) fn run<O: Observer>(&mut self, until: &Until, observer: &mut O) -> Stop {
        let stop = self.run_to_stop(until, observer);
        if cfg!(debug_assertions)
            && let Err(broken) = self.check_laws()
        {
            panic!("{broken}");
        }
        stop
    }

    pub(crate) fn run_to_stop<O: Observer>(&mut self, until: &Until, observer: &mut O) -> Stop {
        self.want(observer.wanted());
        let (a, b) = (self.topology.min_core_uncore(), self.topology.min_uncore_core());
        let window = self.options.window_ps.unwrap_or(u64::MAX).min(a + b).max(1);
        let a = a.min(window);
        let beyond = self.options.mutation.beyond_window();
        let (b, window) = (b.min(window) + beyond, window + beyond);
        let mut envelopes = Vec::new();
        let mut due = Vec::new();
        self.refresh_next();
        loop {
            let end = self.stop.as_ref().map_or(SimTime::NEVER, |s| s.0).min(until.time).ps();
            loop {
                let t = self.uncore.next_edge().0;
                if t >= self.next.first().saturating_add(a) || t >= end {
                    break;
                }
                self.handle_uncore(until, &mut envelopes);
            }
            let Two { first, at, second } = self.next.two();
            let end = self.stop.as_ref().map_or(SimTime::NEVER, |s| s.0).min(until.time).ps();
            let uncore = self.uncore.next_edge().0;
            // A limit does not hide that nothing can ever happen any more. A spin goes on.
            let is_quiet = first == u64::MAX && uncore == u64::MAX && self.stop.is_none();
            if is_quiet && (end == u64::MAX || !self.cores.iter().any(Core::is_spinning)) {
                let last = self.cores.iter().map(Core::last_time).max();
                self.now = self.now.max(last.unwrap_or(SimTime::ZERO));
                self.flush_records(SimTime::NEVER, observer);
                return Stop::Stalled;
            }
            if first.min(uncore) >= end {
                return self.finish(end, until, observer);
            }
            let reach = uncore.saturating_add(b).min(end);
            let limit = reach.min(first.saturating_add(window));
            if let Some(seed) = self.options.shuffle_host {
                self.run_shuffled(seed, first, limit);
                continue;
            }
            self.run_core(at, reach.min(second.saturating_add(window)));
            if second < limit {
                self.next.below(limit, &mut due);
                for c in due.iter().copied().filter(|c| *c != at) {
                    self.run_core(c, limit);
                }
            }
            if self.records.len() >= RECORD_BATCH {
                self.flush_records(SimTime(first), observer);
            }
        }
    }

    /// One round in a random order, each core to a random legal limit: the core with the first
    /// item handles it at least, so the run goes on.
    fn run_shuffled(&mut self, seed: u64, first: u64, limit: u64) {
        let host = Chance::new(seed);
        self.rounds += 1;
        let mut order = Vec::new();
        self.next.below(limit, &mut order);
        order.sort_by_key(|c| host.draw(*c as u32, 0, self.rounds));
        for c in order {
            let span = limit - first;
            let to = first + 1 + host.below(span, c as u32, 1, self.rounds);
            if self.next.get(c) < to {
                self.run_core(c, to.min(limit));
            }
        }
    }

    fn run_core(&mut self, c: usize, limit: u64) {
        let core = &mut self.cores[c];
        let next = core.run_until(&mut self.unit, &self.phys, SimTime(limit));
        self.next.set(c, next.ps());
        if core.has_events() {
            self.records.extend(core.take_events());
        }
        if core.has_out() {
            let mut out = std::mem::take(&mut self.out);
            out.extend(core.take_out());
            for o in out.drain(..) {
                self.route(c, o);
            }
            self.out = out;
        }
    }

    /// Brings what left core `c` to where it goes.
    fn route(&mut self, c: usize, out: Out) {
        match out {
            Out::Line(e) => self.push_uncore(e.key, UncoreItem::Line(e)),
            Out::Device { cpu, access, is_posted, key } => {
                self.push_uncore(key, UncoreItem::Device { cpu, access, is_posted });
            }
            Out::Far { far, sent, seq } => self.send_far(c, far, sent, seq),
            Out::Answered { id, to, sent } => self.send_answer(c, id, to, sent),
            Out::Power { cpu, vote, at, key } => {
                self.push_uncore(key, UncoreItem::Power { cpu, vote, at });
            }
            Out::RunState { asker, run, key } => {
                self.push_uncore(key, UncoreItem::RunState { asker, run });
            }
            Out::Signal { id, target, signal, began, sent } => {
                self.send_signal(c, id, target, signal, (began, sent));
            }
            Out::Point { cpu, index, held_by, key } => {
                self.push_uncore(key, UncoreItem::Point { cpu, index, held_by });
            }
            Out::Shutdown { cpu, at } => {
                let pc = self.cpu(cpu).pc();
                let what = "an exception could not be delivered (triple fault)".to_owned();
                self.ask_stop(at, Stop::GuestFault { cpu, pc, what });
            }
        }
    }

    pub(crate) fn push_uncore(&mut self, key: Key, item: UncoreItem) {
        let key = self.sequenced(key);
        self.uncore.push(key, item);
    }

    /// The key of a message on its way: unchanged, but for the mutant that counts all items of
    /// the machine in the order of the host.
    #[inline]
    fn sequenced(&mut self, key: Key) -> Key {
        if !self.options.mutation.is(Mutant::GlobalSequence) {
            return key;
        }
        self.seq += 1;
        Key { tie: 0, source: 0, seq: self.seq, ..key }
    }

    /// A key of the machine's own items. Their order among each other does not depend on the host:
    /// they are made in an order that the keys of their causes give.
    fn machine_key(&mut self, time: u64, phase: Phase) -> Key {
        self.seq += 1;
        Key { time, phase, tie: 0, source: NodeRef::Machine.rank(), seq: self.seq }
    }

    /// Stops the run at `at` plus the machine's stop latency, unless it stops earlier.
    fn ask_stop(&mut self, at: SimTime, stop: Stop) {
        let time = at + SimTime(self.topology.stop_latency);
        let is_first = |s: &(SimTime, Stop)| (time, rank(&stop)) < (s.0, rank(&s.1));
        if self.stop.as_ref().is_none_or(is_first) {
            self.stop = Some((time, stop));
        }
    }

    fn send_signal(
        &mut self,
        c: usize,
        id: IpiId,
        target: Target,
        signal: Signal,
        (began, sent): (SimTime, SimTime),
    ) {
        match target {
            Target::ArchId(arch) => {
                let at = self.arch_ids.binary_search_by_key(&arch, |e| e.0);
                if let Ok(at) = at {
                    let to = CpuId(self.arch_ids[at].1);
                    self.send_to(c, id, to, signal, (began, sent));
                }
            }
            Target::All | Target::AllButSelf | Target::Match(_) => {
                for cpu in 0..self.places.len() as u32 {
                    // The sender's own core has served its cpus itself.
                    if self.places[cpu as usize].0 != c {
                        self.send_to(c, id, CpuId(cpu), signal, (began, sent));
                    }
                }
            }
        }
    }

    fn send_to(
        &mut self,
        c: usize,
        id: IpiId,
        to: CpuId,
        signal: Signal,
        (began, sent): (SimTime, SimTime),
    ) {
        let wire = self.topology.ipi_wire(id.from.index(), to.index());
        let (core, smt) = self.places[to.index()];
        let key = Key {
            time: sent.ps() + wire,
            phase: Phase::Signal,
            tie: 0,
            source: self.cores[c].rank(),
            seq: id.n << 1 | u64::from(self.places[id.from.index()].1 as u32 & 1),
        };
        if let Signal::Interrupt { vector, logical, .. } = signal {
            if logical.is_none() {
                self.ipi_sent[id.from.index()] += 1;
            }
            self.records.push(Record {
                time: sent,
                cpu: id.from,
                event: Event::IpiSent { id, to, vector, began },
            });
        }
        self.deliver(core, key, CoreItem::Signal { smt, signal, id });
    }

    /// An answer to an invalidation takes the wire of an IPI.
    fn send_answer(&mut self, c: usize, id: IpiId, to: CpuId, sent: SimTime) {
        let time = sent.ps() + self.topology.ipi_wire(id.from.index(), to.index());
        let (core, smt) = self.places[to.index()];
        let seq = id.n << 1 | u64::from(self.places[id.from.index()].1 as u32 & 1);
        let key = Key { time, phase: Phase::Answer, tie: 0, source: self.cores[c].rank(), seq };
        self.deliver(core, key, CoreItem::Answered { smt });
    }

    pub(crate) fn deliver(&mut self, core: usize, key: Key, item: CoreItem) {
        let key = self.sequenced(key);
        let at = self.cores[core].deliver(key, item);
        self.next.set(core, self.next.get(core).min(at.ps()));
    }

    /// Handles the first item of the uncore.
    fn handle_uncore(&mut self, until: &Until, envelopes: &mut Vec<Envelope>) {
        let Some((key, item)) = self.uncore.pop() else { return };
        assert!(
            key > self.handled,
            "model bug: late message to the uncore: {item:?} of {key:?} after {:?}",
            self.handled
        );
        self.handled = key;
        match item {
            UncoreItem::Line(e) => {
                match e.to {
                    NodeRef::Llc(l) => {
                        self.llcs[l.index()].handle(&e, &self.paths, self.chance, envelopes);
                    }
                    NodeRef::Home(h) => {
                        self.homes[h.index()].begin_shadow(e.line, &self.phys);
                        self.homes[h.index()].handle(&e, &self.paths, self.chance, envelopes);
                    }
                    other => unreachable!("model bug: a line message to {other:?}"),
                }
                for i in 0..envelopes.len() {
                    let (until_here, behind) = envelopes.split_at_mut(i + 1);
                    let e = until_here[i];
                    if let NodeRef::Core(c) = e.to {
                        let item = CoreItem::Line { line: e.line, msg: e.msg, data: e.data };
                        self.deliver(c.index(), e.key, item);
                    } else if e.msg == LineMsg::AccessDone {
                        self.touch_for_device(&e, behind);
                    } else {
                        self.push_uncore(e.key, UncoreItem::Line(e));
                    }
                }
                envelopes.clear();
            }
            UncoreItem::Device { cpu, access, is_posted } => {
                let now = SimTime(key.time);
                let mut requests = Vec::new();
                let answer = self.bus.access(&Asked { cpu, access, now }, &mut requests);
                if !is_posted {
                    self.answer_access(cpu, answer, now);
                }
                self.serve_all(cpu, requests, now, until);
            }
            UncoreItem::Due => self.advance_devices(key.time, until),
            UncoreItem::Copied { slot } => self.hear_copy(slot, key.time, until),
            UncoreItem::RunState { asker, run } => {
                self.answer(asker, Some(abi_state(run)), key.time);
            }
            UncoreItem::DmaDone { index, value } => {
                self.dma_answered(SimTime(key.time), index, value);
            }
            UncoreItem::Power { cpu, vote, at } => self.hear_vote(cpu, vote, at, key.time),
            UncoreItem::Flush { llc } => {
                self.llcs[llc].flush(key.time, &self.paths, self.chance, envelopes);
                for e in envelopes.drain(..) {
                    self.push_uncore(e.key, UncoreItem::Line(e));
                }
            }
            UncoreItem::Point { cpu, index, held_by } => {
                for free in self.rules.passed(cpu, index, held_by) {
                    let (core, smt) = self.places[free.index()];
                    let time = key.time + self.topology.stop_latency;
                    let key = self.machine_key(time, Phase::Signal);
                    self.deliver(core, key, CoreItem::Release { smt });
                }
            }
        }
    }

    /// A device has the answer to one half of a copy.
    fn hear_copy(&mut self, slot: usize, now: u64, until: &Until) {
        if self.copy_answered(SimTime(now), slot) {
            self.bus.copied();
            self.advance_devices(now, until);
        }
    }

    /// Devices do what is due.
    fn advance_devices(&mut self, now: u64, until: &Until) {
        if now == self.due {
            self.due = u64::MAX;
        }
        let mut requests = Vec::new();
        self.bus.advance(SimTime(now), &mut requests);
        self.serve_all(CpuId(0), requests, SimTime(now), until);
    }

    /// Does what devices ask for, and asks them again when the first is due.
    fn serve_all(&mut self, cpu: CpuId, requests: Vec<Request>, now: SimTime, until: &Until) {
        for r in requests {
            self.serve(cpu, r, now, until);
        }
        self.await_devices(now.ps());
    }

    /// Has the devices asked again when the first of them is due.
    fn await_devices(&mut self, now: u64) {
        if let Some(at) = self.bus.due()
            && at.ps() < self.due
        {
            self.due = at.ps().max(now + 1);
            let key = self.machine_key(self.due, Phase::Signal);
            self.push_uncore(key, UncoreItem::Due);
        }
    }

    fn hear_vote(&mut self, cpu: CpuId, vote: PowerVote, at: SimTime, now: u64) {
        for effect in self.domains.hear(cpu, vote, at) {
            match effect {
                domains::Effect::Tell { cpu, n, until, exit } => {
                    let (core, smt) = self.places[cpu.index()];
                    let key = self.machine_key(now + self.device_leg(core), Phase::Signal);
                    self.deliver(core, key, CoreItem::Power { smt, n, until, exit });
                }
                domains::Effect::Flush { llc, at } => {
                    let key = self.machine_key(at.ps().max(now + 1), Phase::Signal);
                    self.push_uncore(key, UncoreItem::Flush { llc });
                }
            }
        }
    }

    /// Sends a device's answer. Who marked a region gets none before the machine may have stopped
    /// at the mark: so what the cpu does behind a read behind the mark, it does behind the stop.
    fn answer(&mut self, cpu: CpuId, value: Option<u64>, now: u64) {
        let (core, smt) = self.places[cpu.index()];
        let marked = self.marked.filter(|mark| mark.0 == cpu).map_or(0, |mark| mark.1);
        let key = self.machine_key((now + self.device_leg(core)).max(marked), Phase::Grant);
        self.deliver(core, key, CoreItem::DeviceDone { smt, value });
    }

    /// Leg from a device to a core: a device is as far as the home of node 0.
    fn device_leg(&self, core: usize) -> u64 {
        let place = &self.topology.cores[core];
        place.llc_response + self.topology.latency.home_llc(0, place.llc)
    }

    fn answer_access(&mut self, cpu: CpuId, answer: Answer, now: SimTime) {
        match answer {
            Answer::Value(value) => self.answer(cpu, Some(value), now.ps()),
            Answer::Nobody => self.answer(cpu, None, now.ps()),
            Answer::RunStateOf(other) => {
                let (core, smt) = self.places[other.index()];
                let query = self.machine_key(now.ps() + self.device_leg(core), Phase::Signal);
                self.deliver(core, query, CoreItem::Query { smt, asker: cpu });
            }
        }
    }

    pub(crate) fn serve(&mut self, cpu: CpuId, request: Request, now: SimTime, until: &Until) {
        let event = match request {
            Request::Console(byte) => {
                // What comes before the stop takes effect is beyond the limit.
                if (self.console.len() as u64) < self.options.max_output {
                    self.console.push(byte);
                }
                if self.console.len() as u64 >= self.options.max_output {
                    self.ask_stop(now, Stop::OutputLimit);
                }
                return;
            }
            Request::Exit(code) => return self.ask_stop(now, Stop::Exit { code }),
            Request::Reset => return self.ask_stop(now, Stop::Reset),
            Request::Region { id, begin } => {
                self.marked = Some((cpu, now.ps() + self.topology.stop_latency));
                if until.regions {
                    self.ask_stop(now, Stop::Region { id, begin, cpu });
                }
                if begin { Event::RegionBegin { id } } else { Event::RegionEnd { id } }
            }
            Request::Sample { id, value } => Event::Sample { id, value },
            Request::Lines { address, len, class } => {
                return self.named_lines.push(NamedLines { address, len, class });
            }
            Request::Copy { from, to } => return self.copy_line(now, from, to),
            Request::Signal { to, signal, from } => {
                return self.send_from_device(to, signal, now, from);
            }
            Request::Unknown { addr, write } => Event::UnknownRegister { addr, write },
        };
        self.records.push(Record { time: now, cpu, event });
    }

    /// Signals of devices travel as far as the farthest IPI of the sender's package, and come no
    /// earlier than `from`.
    fn send_from_device(&mut self, to: CpuId, signal: Signal, now: SimTime, from: SimTime) {
        let (core, smt) = self.places[to.index()];
        let time = (now.ps() + self.topology.ipi_wire.package).max(from.ps());
        let key = self.machine_key(time, Phase::Signal);
        let id = IpiId { from: IpiId::DEVICE, n: self.seq };
        self.deliver(core, key, CoreItem::Signal { smt, signal, id });
    }

    /// Ends a run at `end`: every node stands at the same cut.
    fn finish<O: Observer>(&mut self, end: u64, until: &Until, observer: &mut O) -> Stop {
        self.now = SimTime(end);
        for core in &mut self.cores {
            core.settle(&mut self.unit, &self.phys, SimTime(end));
        }
        self.flush_records(SimTime::NEVER, observer);
        match self.stop.take() {
            Some((time, stop)) if time.ps() <= end => stop,
            other => {
                self.stop = other;
                debug_assert_eq!(end, until.time.ps());
                Stop::TimeLimit
            }
        }
    }

    /// Hands on all records before `t`, in order of time, then cpu.
    fn flush_records<O: Observer>(&mut self, t: SimTime, observer: &mut O) {
        // A send is recorded by the router, perhaps before or after what its cpu recorded at the
        // same time: it goes first.
        self.records.sort_by_key(|r| (r.time, r.cpu, !matches!(r.event, Event::IpiSent { .. })));
        let ready = self.records.partition_point(|r| r.time < t);
        for r in self.records.drain(..ready) {
            observer.record(&r);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;
    use crate::x86::X86;

    #[test]
    fn of_stops_at_one_instant_the_same_is_reported_whoever_asks_first() {
        let topology = topology::Machine::load("duo", &[]).expect("a shipped machine");
        let fault = |cpu| Stop::GuestFault { cpu: CpuId(cpu), pc: 0, what: String::new() };
        let report = |order: [(u64, Stop); 3]| {
            let mut machine =
                System::<X86>::new(&topology, Options::default()).expect("it can be built");
            for (at, stop) in order {
                machine.ask_stop(SimTime(at), stop);
            }
            machine.stop.map(|(_, stop)| stop)
        };
        let [a, b, exit] = [(7, fault(0)), (7, fault(1)), (7, Stop::Exit { code: 3 })];
        let late = (8, exit.1.clone());
        for [x, y] in [[&a, &b], [&b, &a]] {
            assert_eq!(report([x.clone(), late.clone(), y.clone()]), Some(fault(0)));
            assert_eq!(report([x.clone(), exit.clone(), y.clone()]), Some(exit.1.clone()));
        }
    }
}
