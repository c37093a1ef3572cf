//! What a core does with its items: grants, snoops, signals, timers, drains.

use emu_mem::cache::Port as CachePort;
use emu_mem::msg::{LineMsg, Perm, SnoopKind};
use emu_mem::phys::Phys;
use emu_mem::shadow::Data;
use emu_observe::{Event, IpiId};
use emu_sim::mutant::Mutant;
use emu_sim::{CpuId, Key, LineAddr, NodeRef, Phase, SimTime};

use crate::isa::{Isa, Received};
use crate::node::{Core, CoreItem, Hold, Hw, Out};
use crate::thread::{LastEvent, NOBODY, Pending, PendingIpi, RunState};
use crate::wait::{MonitorState, Signal, WakeCause};

impl<I: Isa> Core<I> {
    /// Handles the first message of the inbox.
    pub(crate) fn handle_next(&mut self, unit: &mut I::Unit, phys: &Phys) {
        let Some((key, item)) = self.hw.inbox.pop() else { return };
        let t = key.time;
        self.hw.handled = key;
        self.hw.materialise_all(t);
        match item {
            CoreItem::Line { line, msg, data } => match msg {
                LineMsg::Grant(perm) => {
                    self.hw.shadow.granted(line, data);
                    self.grant(line, perm, t, unit, phys);
                }
                LineMsg::Snoop { kind, .. } => self.hw.snoop(line, msg, kind, t),
                LineMsg::FlushDone => self.answer(t, Pending::Flush(line), 0, unit, phys),
                _ => unreachable!("model bug: {msg:?} sent to a core"),
            },
            CoreItem::Signal { smt, signal, id } => self.signalled(smt, signal, id, t),
            CoreItem::DeviceDone { smt, value } => {
                let th = &mut self.hw.threads[smt];
                th.device_value = Some(value.map_or(NOBODY, u128::from));
                self.resume_inside(smt, t, unit, phys);
            }
            CoreItem::FarStored { smt, n } => self.hw.far_stored(smt, n, t),
            CoreItem::Answered { smt } => {
                let th = &mut self.hw.threads[smt];
                th.answers_due -= 1;
                if th.answers_due == 0 && th.pending == Pending::Answers {
                    th.now = th.now.max(t);
                    th.pending = Pending::At(th.now);
                }
            }
            CoreItem::Query { smt, asker } => self.hw.report_run_state(smt, asker, t),
            CoreItem::Power { smt, n, until, exit } => {
                let freq = self.hw.config.freq;
                let th = &mut self.hw.threads[smt];
                if n == th.told_waits && matches!(th.run, RunState::Waiting(_)) {
                    th.power = Some((freq.edge_at_or_after(until), freq.cycles_in(exit)));
                }
            }
            CoreItem::Release { smt } => {
                let th = &mut self.hw.threads[smt];
                if th.pending == Pending::Rule {
                    th.pending = Pending::None;
                    th.score.redirect(t);
                }
            }
        }
    }

    /// Goes on with the instruction of cpu `j` inside the item that it waited for (L6).
    fn resume_inside(&mut self, j: usize, t: u64, unit: &mut I::Unit, phys: &Phys) {
        let th = &mut self.hw.threads[j];
        th.now = th.now.max(t);
        th.pending = Pending::At(th.now);
        let time = th.now;
        self.hw.step_limit = time + 1;
        self.step(j, time, unit, phys);
    }

    fn answer(&mut self, t: u64, what: Pending, v: u128, unit: &mut I::Unit, phys: &Phys) {
        for j in 0..self.hw.threads.len() {
            if self.hw.threads[j].pending == what {
                self.hw.threads[j].device_value = Some(v);
                self.resume_inside(j, t, unit, phys);
                return;
            }
        }
    }

    fn grant(&mut self, line: LineAddr, perm: Perm, t: u64, unit: &mut I::Unit, phys: &Phys) {
        let hw = &mut self.hw;
        let at = hw.requests.iter().position(|r| r.line == line);
        let port = at.map_or(CachePort::Data, |at| hw.requests.swap_remove(at).port);
        if let Some(victim) = hw.caches.fill(port, line, perm, t) {
            hw.put(t, victim.line, victim.perm);
        }
        hw.send_line(t, 0, line, LineMsg::Done);
        if hw.wanted.lines {
            hw.event(0, t, Event::LineGrant { line, write: perm.can_write() });
        }
        let waits = |th: &crate::thread::Thread| {
            th.pending == Pending::Line(line) || th.stores.waits_for(line)
        };
        if hw.config.line_keep > 0 && perm.can_write() && hw.threads.iter().any(waits) {
            let until = t + hw.config.line_keep;
            hw.hold(Hold { until, ..Hold::of(line, 0) }, t);
        }
        for j in 0..hw.threads.len() {
            if perm.can_write()
                && let Some(at) = hw.threads[j].stores.granted(line, t)
            {
                hw.drain_at(j, at, t, phys);
            }
            let is_asked = |line| hw.requests.iter().any(|r| r.line == line);
            hw.threads[j].stores.ask_again(line, is_asked, t);
        }
        for j in 0..self.hw.threads.len() {
            if self.hw.threads[j].pending == Pending::Line(line) {
                self.resume_inside(j, t, unit, phys);
            }
        }
    }

    fn signalled(&mut self, j: usize, signal: Signal, id: IpiId, t: u64) {
        let now = self.hw.config.freq.edge(t);
        let received = self.isas[j].receive(signal, now);
        if matches!(signal, Signal::Invalidate { .. }) {
            self.hw.owe_answer(j, id.from, t);
            return;
        }
        if let Signal::Retract { answer: Some(access), .. } = signal {
            let (cpu, key) = (self.hw.threads[j].cpu, self.hw.device_key(t, Phase::Request));
            self.hw.out.push(Out::Device { cpu, access, is_posted: true, key });
            self.hw.sends(t);
        }
        let event = LastEvent::Signal { signal, from: id.from, received };
        self.hw.threads[j].last_wake_event = Some((t, event));
        let vector = match signal {
            Signal::Interrupt { vector, .. } => Some(vector),
            _ => None,
        };
        // Messages of devices are no IPIs.
        let is_message = matches!(signal, Signal::Interrupt { logical: None, .. });
        let vector = vector.filter(|_| !is_message || id.from != IpiId::DEVICE);
        if let Some(vector) = vector {
            // Whoever a logical destination means counts itself, as the sender cannot know; for
            // all others there was no message.
            let is_logical = matches!(signal, Signal::Interrupt { logical: Some(_), .. });
            if !is_logical || received != Received::Ignored {
                self.hw.threads[j].counters.ipi_sent += u64::from(is_logical);
                self.hw.count_ipi(j, vector, received, now, t, id);
            }
        }
        self.wake_if_due(j, t);
    }

    pub(crate) fn handle_timer(&mut self, j: usize, t: u64) {
        if self.hw.is_timer_stopped(j) {
            self.hw.threads[j].timer = u64::MAX;
            return;
        }
        let freq = self.hw.config.freq;
        let next = self.isas[j].timer(freq.edge(t));
        let th = &mut self.hw.threads[j];
        th.timer = next.map_or(u64::MAX, |at| freq.edge_at_or_after(at).max(t + 1));
        th.last_wake_event = Some((t, LastEvent::Timer));
        self.wake_if_due(j, t);
    }

    pub(crate) fn handle_deadline(&mut self, j: usize, t: u64) {
        self.hw.leave_wait(j, t, WakeCause::Timeout);
    }

    pub(crate) fn handle_drain(&mut self, j: usize, t: u64, phys: &Phys) {
        self.hw.drain(j, t, phys);
    }

    /// Brings every cpu up to `t`, at a cut: spins are made good.
    pub fn settle(&mut self, unit: &mut I::Unit, phys: &Phys, t: SimTime) {
        let cycle = self.hw.config.freq.edge_at_or_after(t);
        if self.hw.materialise_all(cycle) {
            self.run_until(unit, phys, t);
        }
    }
}

impl Hw {
    /// Makes every spin good up to cycle `t`; returns whether there was one.
    pub(crate) fn materialise_all(&mut self, t: u64) -> bool {
        let mut any = false;
        for j in 0..self.threads.len() {
            any |= self.materialise(j, t);
        }
        any
    }

    /// A line has left the caches: E and M with a Put, S silently (L7).
    pub(crate) fn put(&mut self, t: u64, line: LineAddr, perm: Perm) {
        self.end_reservations(line, t);
        let is_asked_for = self.requests.iter().any(|r| r.line == line);
        let data = self.shadow.left(line, perm.can_write(), is_asked_for);
        if perm.can_write() {
            let (dirty, watch) = (perm == Perm::Modified, self.leaves_watch(line));
            self.send_data(t, 0, line, LineMsg::Put { dirty, watch }, data);
        }
    }

    /// The exclusive hold of cpu `j` ends at `t`, before its latest end: snoops that wait for it
    /// are looked at again.
    pub(crate) fn end_exclusive_hold(&mut self, j: usize, t: u64) {
        let is_its = |h: &Hold| h.is_exclusive && h.owner == j && h.until > t;
        let Some(at) = self.holds.iter().position(is_its) else { return };
        let line = self.holds.remove(at).line;
        let waits = |key: &Key, item: &CoreItem| {
            key.phase == Phase::HoldEnd
                && matches!(item, CoreItem::Line { line: l, .. } if *l == line)
        };
        for (key, item) in self.inbox.take_where(waits) {
            self.inbox.push(Key { time: key.time.min(t + 1), ..key }, item);
            self.bound_steps(t + 1);
        }
    }

    /// The core has lost the line (A4).
    fn end_reservations(&mut self, line: LineAddr, t: u64) {
        if self.config.mutation.is(Mutant::KeptReservation) {
            return;
        }
        for j in 0..self.threads.len() {
            if self.threads[j].monitor == MonitorState::Reserved(line) {
                self.trigger(j, t);
            }
        }
    }

    /// A snoop is answered when it is handled (L3), or when the hold on its line ends (L4).
    fn snoop(&mut self, line: LineAddr, msg: LineMsg, kind: SnoopKind, t: u64) {
        let held = self.holds.iter().filter(|h| h.line == line).map(|h| h.until).max();
        if let Some(until) = held.max(self.mutant_hold(line, t))
            && until > t
        {
            let source = NodeRef::Core(self.id).rank();
            let key =
                Key { time: until, phase: Phase::HoldEnd, tie: 0, source, seq: self.next_seq() };
            self.inbox.push(key, CoreItem::Line { line, msg, data: Data::default() });
            return;
        }
        let had = match kind {
            SnoopKind::Share => self.caches.reduce(line),
            SnoopKind::Inv | SnoopKind::Flush => self.caches.remove(line),
        };
        for j in 0..self.threads.len() {
            self.threads[j].counters.snoops += 1;
            if kind != SnoopKind::Share {
                self.threads[j].code_changed = true;
            }
            if kind == SnoopKind::Inv && self.threads[j].monitor == MonitorState::Armed(line) {
                self.trigger(j, t);
            }
        }
        if kind != SnoopKind::Share {
            self.end_reservations(line, t);
        }
        let kept = kind == SnoopKind::Share && had.is_some();
        let dirty = had == Some(Perm::Modified);
        let watch = self.leaves_watch(line);
        let delay = self.snoop_delay();
        if self.wanted.lines {
            self.event(0, t, Event::LineLost { line, kept });
        }
        let data = self.shadow.snooped(line, had.is_some_and(Perm::can_write), kept);
        let answer = LineMsg::Ack { kept, dirty, watch, forwarded: false };
        self.send_data(t, delay, line, answer, data);
    }

    /// When a mutant looks at a snoop again that a rule wants answered now.
    fn mutant_hold(&self, line: LineAddr, t: u64) -> Option<u64> {
        let is = |mutant| self.config.mutation.is(mutant);
        let is_asked =
            is(Mutant::SnoopBehindRequest) && self.requests.iter().any(|r| r.line == line);
        let is_unused = is(Mutant::ConditionalHold)
            && self.caches.perm(line).is_some_and(Perm::can_write)
            && self.threads.iter().any(|th| th.stores.writes(line));
        (is_asked || is_unused).then_some(t + 1)
    }

    fn report_run_state(&mut self, j: usize, asker: CpuId, t: u64) {
        let key = self.device_key(t, Phase::Answer);
        let run = self.threads[j].run;
        self.out.push(Out::RunState { asker, run, key });
        self.sends(t);
    }

    /// Cpu `j` has been told of an invalidation by `to`. What it began before may still use what is
    /// invalid: the answer waits for the end of its instruction and its older stores. An
    /// instruction that itself waits for answers uses nothing, or two of them would wait for each
    /// other.
    fn owe_answer(&mut self, j: usize, to: CpuId, t: u64) {
        let th = &mut self.threads[j];
        th.answers_owed.push((to, th.stores.count()));
        self.answer_invalidations(j, t);
    }

    /// Answers those invalidations that cpu `j` has carried out by `t`.
    pub(crate) fn answer_invalidations(&mut self, j: usize, t: u64) {
        let th = &mut self.threads[j];
        if th.begun && th.pending != Pending::Answers {
            return;
        }
        let (owed, oldest) = (&mut th.answers_owed, th.stores.head().map_or(u64::MAX, |s| s.n));
        let ready: Vec<_> = owed.extract_if(.., |(_, n)| *n <= oldest).collect();
        for (to, _) in ready {
            let id = self.threads[j].next_message();
            let sibling = self.threads.iter().position(|th| th.cpu == to);
            if let Some(smt) = sibling {
                let time = t + self.config.ipi_self.max(1);
                let source = NodeRef::Core(self.id).rank();
                let seq = self.next_seq();
                let key = Key { time, phase: Phase::Answer, tie: 0, source, seq };
                self.inbox.push(key, CoreItem::Answered { smt });
                self.bound_steps(time);
            } else {
                let sent = self.config.freq.edge(t);
                self.out.push(Out::Answered { id, to, sent });
                self.sends(t);
            }
        }
    }

    fn count_ipi(
        &mut self,
        j: usize,
        vector: u8,
        received: Received,
        now: SimTime,
        t: u64,
        id: IpiId,
    ) {
        let masked_before_ps = self.threads[j].mask.at(now.ps());
        let th = &mut self.threads[j];
        match received {
            Received::Accepted => {
                th.counters.ipi_accepted += 1;
                th.counters.ipi_pending += 1;
                let accepted_ps = now.ps();
                th.pending_ipis.push(PendingIpi {
                    vector,
                    accepted_ps,
                    masked_before_ps,
                    is_ipi: true,
                });
            }
            Received::Merged => th.counters.ipi_merged += 1,
            Received::Ignored => {
                th.counters.ipi_dropped += 1;
                return;
            }
        }
        if self.wanted.wakes {
            let event = match received {
                Received::Accepted => Event::IpiAccepted { id, vector },
                _ => Event::IpiMerged { id, vector },
            };
            self.event(j, t, event);
        }
    }
}
