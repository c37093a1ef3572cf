//! The engine's side of the port: accesses under permission, store buffer, fences, messages
//! (`engine.md` sections 3, 5 and 6).

use emu_mem::cache::{Level, Port as CachePort};
use emu_mem::msg::{LineMsg, Perm};
use emu_mem::phys::Phys;
use emu_observe::Event;
use emu_sim::{Key, LineAddr, NodeRef, PAGE_SIZE_LOG2, Phase, PhysAddr, SimTime};

use crate::config::{AtomicPlace, MemoryOrder};
use crate::node::{CoreItem, Far, Hold, Hw, Out, Request};
use crate::port::{DeviceAccess, Fence, Note, Order, Port, Target, TimeOrder, Update, Wait};
use crate::store_buffer::{Forward, Store};
use crate::thread::{Pending, PendingIpi, RunState};
use crate::timing::{Class, OpTiming};
use crate::wait::{MonitorState, Signal};

/// Purpose of the draw for a store exclusive.
const DRAW_EXCLUSIVE: u32 = 2;

/// The port of cpu `j` for one run of one instruction.
pub(crate) struct CorePort<'a> {
    pub(crate) hw: &'a mut Hw,
    pub(crate) j: usize,
    /// Address of the instruction; of an interrupt entry, that of the interrupted one.
    pub(crate) pc: u64,
    pub(crate) phys: &'a Phys,
}

impl Hw {
    /// Asks for a line unless that is under way already.
    pub(crate) fn request(
        &mut self,
        j: usize,
        line: LineAddr,
        write: bool,
        port: CachePort,
        t: u64,
    ) {
        if self.requests.iter().any(|r| r.line == line) {
            return;
        }
        self.requests.push(Request { line, port });
        self.threads[j].counters.line_requests += 1;
        if self.wanted.lines {
            self.event(j, t, Event::LineRequest { line, write });
        }
        self.send_line(t, 0, line, LineMsg::Get { write });
    }

    /// When cpu `j` may use the line, if that is after `t` because of its sibling.
    #[inline]
    pub(crate) fn sibling_wait(
        &mut self,
        j: usize,
        line: LineAddr,
        t: u64,
        write: bool,
    ) -> Option<u64> {
        if self.holds.is_empty() {
            return None;
        }
        let mut until = None;
        for h in self.holds.iter_mut().filter(|h| h.line == line && h.sibling_until > t) {
            if h.owner != j {
                h.is_wanted = true;
                until = until.max(Some(h.sibling_until));
            } else if write && h.is_wanted {
                until = until.max(Some(h.sibling_until + 1));
            }
        }
        until
    }

    /// Begins a hold whose end is fixed now (L4).
    pub(crate) fn hold(&mut self, hold: Hold, t: u64) {
        self.holds.retain(|h| h.until.max(h.sibling_until) > t);
        self.holds.push(hold);
    }

    /// A write of cpu `j` became visible to its siblings at `t`: their monitors and spins see it.
    pub(crate) fn wrote(&mut self, j: usize, line: LineAddr, t: u64) {
        for i in 0..self.threads.len() {
            if i == j && !self.config.own_store_triggers {
                continue;
            }
            let monitor = self.threads[i].monitor;
            if monitor == MonitorState::Armed(line) || monitor == MonitorState::Reserved(line) {
                self.trigger(i, t);
                self.bound_steps(0);
            }
        }
    }

    /// In shadow mode: the core's own copy is what memory holds.
    #[inline]
    fn check_shadow(&self, j: usize, line: LineAddr, t: u64, phys: &Phys, what: &str) {
        let who = || format!("{} at {} ps: {what}", self.threads[j].cpu, self.ps(t));
        self.shadow.check(line, phys, who);
    }

    /// Whether cpus of this core have decoded code in the page.
    #[inline]
    fn is_code_page(&self, page: u64) -> bool {
        self.code_filter & 1 << (page & 63) != 0 && self.code_pages.contains(&page)
    }

    /// Tries to drain the store of cpu `j` whose turn it is, at `t`.
    pub(crate) fn drain(&mut self, j: usize, t: u64, phys: &Phys) {
        if let Some((at, _)) = self.threads[j].stores.next() {
            self.drain_at(j, at, t, phys);
        }
    }

    /// Tries to drain the store of cpu `j` at this place of its buffer, at `t`.
    pub(crate) fn drain_at(&mut self, j: usize, at: usize, t: u64, phys: &Phys) {
        let store = self.threads[j].stores.at(at);
        let line = store.line();
        if self.disturbs_spin(j, CachePort::Data, line, t, true) {
            return;
        }
        if let Some(until) = self.sibling_wait(j, line, t, true) {
            self.threads[j].stores.not_before(until);
            return;
        }
        let place = self.config.atomics.store(store.is_release);
        if let Some(update) = store.update
            && self.goes_far(place, line)
        {
            self.threads[j].stores.send(at);
            let Store { pa, size, n, .. } = store;
            self.send_far(j, t, pa, size, update, Some(n));
            return;
        }
        let hit = self.caches.access(CachePort::Data, line, t, j);
        if !hit.is_some_and(|h| h.perm.can_write()) {
            self.threads[j].stores.wait(at);
            // The oldest store always asks, so that it gets its turn.
            if at == 0 || self.requests.len() < self.config.fill_buffers {
                self.request(j, line, true, CachePort::Data, t);
            }
            return;
        }
        self.caches.set_modified(line);
        self.check_shadow(j, line, t, phys, "store");
        let value = match store.update {
            None => Some(store.value),
            Some(update) => {
                update.apply(phys.load(store.pa, store.size), store.size).map(u128::from)
            }
        };
        if let Some(value) = value {
            write(phys, store.pa, store.size, value);
        }
        self.shadow.wrote(line, phys);
        self.threads[j].stores.remove(at, t);
        if self.threads.len() > 1 {
            let sibling_until = t + self.config.smt_handover;
            if self.threads.iter().enumerate().any(|(i, th)| i != j && th.run == RunState::Running)
            {
                let hold = Hold { until: t, sibling_until, ..Hold::of(line, j) };
                self.hold(hold, t);
            }
        }
        self.wrote(j, line, t);
        self.drained(j, t);
    }

    /// Whether an atomic is performed at the home.
    fn goes_far(&self, place: AtomicPlace, line: LineAddr) -> bool {
        match place {
            AtomicPlace::Near => false,
            AtomicPlace::Far => true,
            AtomicPlace::Held => !self.caches.perm(line).is_some_and(Perm::can_write),
        }
    }

    /// Sends an atomic to the home.
    fn send_far(
        &mut self,
        j: usize,
        t: u64,
        pa: PhysAddr,
        size: u8,
        update: Update,
        store: Option<u64>,
    ) {
        let (cpu, sent, seq) = (self.threads[j].cpu, self.config.freq.edge(t), self.next_seq());
        self.out.push(Out::Far { far: Far { cpu, pa, size, update, store }, sent, seq });
        self.sends(t);
    }

    /// The home has performed store `n` of cpu `j`.
    pub(crate) fn far_stored(&mut self, j: usize, n: u64, t: u64) {
        let at = self.threads[j].stores.place(n);
        let Some(at) = at else { unreachable!("model bug: store {n} is not under way") };
        self.threads[j].stores.remove(at, t);
        self.drained(j, t);
    }

    fn drained(&mut self, j: usize, t: u64) {
        let th = &mut self.threads[j];
        let goes_on = match th.pending {
            Pending::BufferEmpty => th.stores.is_all_unretired(),
            Pending::BufferSpace => true,
            Pending::Drained(n) => !th.stores.contains(n),
            _ => false,
        };
        if goes_on {
            th.now = th.now.max(t);
            th.pending = Pending::At(th.now);
        }
        if !th.answers_owed.is_empty() {
            self.answer_invalidations(j, t);
        }
    }
}

/// Reads 1 to 8 or 16 bytes.
#[inline]
fn read(phys: &Phys, pa: PhysAddr, size: u8) -> u128 {
    if size == 16 { phys.load_wide(pa) } else { u128::from(phys.load(pa, size)) }
}

/// Writes 1 to 8 or 16 bytes.
#[inline]
fn write(phys: &Phys, pa: PhysAddr, size: u8, value: u128) {
    if size == 16 { phys.store_wide(pa, value) } else { phys.store(pa, size, value as u64) }
}

impl CorePort<'_> {
    #[inline]
    fn wait<T>(&mut self, pending: Pending) -> Result<T, Wait> {
        self.hw.threads[self.j].pending = pending;
        Err(Wait)
    }

    /// Time at which an access performs that may not be before `earliest`, if that is allowed now;
    /// stores that are due by then drain first.
    #[inline]
    fn perform_at(&mut self, earliest: u64) -> Result<u64, Wait> {
        let th = &mut self.hw.threads[self.j];
        th.current.i = th.current.i.max(th.score.accesses());
        let t = th.current.i.max(th.now).max(earliest);
        if t >= self.hw.step_limit {
            return self.wait(Pending::At(t));
        }
        while self.hw.threads[self.j].stores.drain_time() <= t {
            let at = self.hw.threads[self.j].stores.drain_time();
            self.hw.drain(self.j, at, self.phys);
            if t >= self.hw.step_limit {
                return self.wait(Pending::At(t));
            }
        }
        self.hw.handles(t, Phase::Step);
        Ok(t)
    }

    /// As `perform_at`, after all older stores have drained.
    fn perform_drained(&mut self) -> Result<u64, Wait> {
        if !self.hw.threads[self.j].stores.is_all_unretired() {
            return self.wait(Pending::BufferEmpty);
        }
        let retired = self.hw.threads[self.j].score.last_retire();
        self.perform_at(retired)
    }

    /// As `perform_at`, for an access that writes at once: it is no guess any more, and what it has
    /// to come behind has drained.
    fn perform_write(&mut self, line: LineAddr) -> Result<u64, Wait> {
        let th = &mut self.hw.threads[self.j];
        let order = th.current.order;
        th.current.acquires |= order.acquires();
        if self.hw.config.order == MemoryOrder::Total || order.releases() {
            return self.perform_drained();
        }
        let is_before = |s: &Store| {
            s.line() == line || s.is_release && order.awaits_releases() || th.stores.is_parted(s)
        };
        if let Some(n) = th.stores.youngest(is_before) {
            return self.wait(Pending::Drained(n));
        }
        let retired = th.score.last_retire();
        self.perform_at(retired)
    }

    /// Uses the line at `t` for a write, or asks for it.
    fn own_line(&mut self, line: LineAddr, t: u64) -> Result<(), Wait> {
        if self.hw.disturbs_spin(self.j, CachePort::Data, line, t, true) {
            return self.wait(Pending::At(t));
        }
        let hit = self.hw.caches.access(CachePort::Data, line, t, self.j);
        if !hit.is_some_and(|h| h.perm.can_write()) {
            self.hw.request(self.j, line, true, CachePort::Data, t);
            return self.wait(Pending::Line(line));
        }
        Ok(())
    }

    /// A load that acquires or reserves does not take its value from the store buffer, and one that
    /// acquires comes behind store-releases (A3).
    #[cold]
    fn await_stores(&mut self, pa: PhysAddr, size: u8, order: Order) -> Result<(), Wait> {
        let (from, to) = (pa.0, pa.0 + u64::from(size));
        let is_before = |s: &Store| {
            s.pa.0 < to && from < s.pa.0 + u64::from(s.size)
                || s.is_release && order.awaits_releases()
        };
        match self.hw.threads[self.j].stores.youngest(is_before) {
            Some(n) => self.wait(Pending::Drained(n)),
            None => Ok(()),
        }
    }

    #[inline]
    fn replay(&mut self) -> Option<u128> {
        let th = &mut self.hw.threads[self.j];
        let step = th.log.replay(false)?;
        th.current.data = th.current.data.max(step.done);
        Some(step.value)
    }

    #[inline]
    fn performed(&mut self, t: u64, value: u128, done: u64) {
        let th = &mut self.hw.threads[self.j];
        th.now = t;
        th.current.data = th.current.data.max(done);
        th.log.push(value, done, false);
    }

    /// A load of 1 to 8 or 16 bytes.
    #[inline]
    fn load_any(&mut self, pa: PhysAddr, size: u8) -> Result<u128, Wait> {
        let order = self.hw.threads[self.j].current.order;
        if order.acquires() {
            self.hw.threads[self.j].current.acquires = true;
        }
        if let Some(value) = self.replay() {
            return Ok(value);
        }
        if order.awaits_releases() {
            self.await_stores(pa, size, order)?;
        }
        let t = self.perform_at(0)?;
        let l1 = u64::from(self.hw.config.timing.l1_latency);
        let th = &self.hw.threads[self.j];
        match th.stores.forward(pa, size) {
            Forward::None => {}
            Forward::Value(value) => {
                let done = th.current.i + l1;
                self.performed(t, value, done);
                return Ok(value);
            }
            Forward::Partial(n) => return self.wait(Pending::Drained(n)),
        }
        let line = pa.line();
        if let Some(until) = self.hw.sibling_wait(self.j, line, t, false) {
            return self.wait(Pending::At(until));
        }
        if self.hw.disturbs_spin(self.j, CachePort::Data, line, t, false) {
            return self.wait(Pending::At(t));
        }
        let Some(hit) = self.hw.caches.access(CachePort::Data, line, t, self.j) else {
            self.hw.request(self.j, line, false, CachePort::Data, t);
            return self.wait(Pending::Line(line));
        };
        self.note_touch(CachePort::Data, line, t);
        self.hw.check_shadow(self.j, line, t, self.phys, "load");
        let latency = match hit.level {
            Level::L1 => l1,
            Level::L2 => u64::from(self.hw.config.timing.l2_latency),
        };
        let issue = self.hw.threads[self.j].current.i;
        let value = read(self.phys, pa, size);
        // C2: a line that was there at issue gives its data as if read then.
        let from = if hit.level == Level::L1 { issue.max(hit.since.min(t)) } else { issue };
        self.performed(t, value, from + latency);
        Ok(value)
    }

    /// Keeps the uses of lines by an iteration that may be skipped later.
    #[inline]
    fn note_touch(&mut self, port: CachePort, line: LineAddr, t: u64) {
        let spin = &mut self.hw.threads[self.j].spin;
        if spin.is_recording {
            spin.note_touch(port, line, t);
        }
    }

    fn store_any(&mut self, pa: PhysAddr, size: u8, value: u128) -> Result<(), Wait> {
        self.buffer(pa, size, value, None)
    }

    /// Buffers a store, or an atomic that nobody wants the result of.
    fn buffer(
        &mut self,
        pa: PhysAddr,
        size: u8,
        value: u128,
        update: Option<Update>,
    ) -> Result<(), Wait> {
        if self.replay().is_some() {
            return Ok(());
        }
        let th = &self.hw.threads[self.j];
        if th.stores.is_full() && !th.stores.is_all_unretired() {
            return self.wait(Pending::BufferSpace);
        }
        let t = th.current.i.max(th.now);
        let line = pa.line();
        let owned = self.hw.caches.perm(line).is_some_and(Perm::can_write);
        let is_release = self.hw.threads[self.j].current.order.releases();
        let place = self.hw.config.atomics.store(is_release);
        let is_far = update.is_some() && place != AtomicPlace::Near;
        if !owned && !is_far && self.hw.requests.len() < self.hw.config.fill_buffers {
            self.hw.request(self.j, line, true, CachePort::Data, t);
        }
        let is_code = self.hw.is_code_page(pa.0 >> PAGE_SIZE_LOG2);
        let th = &mut self.hw.threads[self.j];
        if is_code {
            th.code_changed = true;
            th.drain_before_next = true;
        }
        th.stores.push(pa, size, value, update, is_release);
        th.spin.is_clean = false;
        th.log.push(0, 0, false);
        Ok(())
    }

    fn own_ipi(&mut self, i: usize, t: u64, signal: Signal, id: emu_observe::IpiId) {
        let hw = &mut *self.hw;
        if matches!(signal, Signal::Interrupt { logical: None, .. }) {
            hw.threads[self.j].counters.ipi_sent += 1;
        }
        let time = t + hw.config.ipi_self.max(1);
        let source = NodeRef::Core(hw.id).rank();
        let key = Key { time, phase: Phase::Signal, tie: 0, source, seq: hw.next_seq() };
        hw.inbox.push(key, CoreItem::Signal { smt: i, signal, id });
        hw.bound_steps(time);
    }
}

impl Port for CorePort<'_> {
    fn note(&mut self, note: Note) {
        let hw = &mut *self.hw;
        let (j, pc) = (self.j, self.pc);
        let th = &mut hw.threads[j];
        th.spin.is_clean = false;
        let cycle = th.current.i.max(th.now);
        let now = hw.ps(cycle);
        match note {
            Note::InterruptTaken(vector) => hw.interrupt_taken(j, cycle, now, vector),
            Note::Acknowledged(vector) => {
                hw.ipi_taken(j, now, vector);
            }
            Note::InterruptReturned => {
                if hw.wanted.wakes {
                    hw.event(j, cycle, Event::HandlerEnd);
                }
            }
            Note::InterruptFlag(enabled) => {
                hw.set_masked(j, now, !enabled);
                if hw.wanted.wakes {
                    hw.event(j, cycle, Event::InterruptFlag { enabled, pc });
                }
            }
        }
    }

    #[inline]
    fn dispatch(&mut self, timing: &OpTiming) {
        let th = &mut self.hw.threads[self.j];
        let d = th.score.next_dispatch();
        th.current.d = d;
        th.current.i = th.score.issue(d, timing);
        th.current.timing = *timing;
        if let Some(vector) = th.handler_began.take() {
            let cycle = d.max(th.now);
            if self.hw.wanted.wakes {
                self.hw.event(self.j, cycle, Event::HandlerBegin { vector });
            }
        }
    }

    fn extra_latency(&mut self, cycles: u32) {
        self.hw.threads[self.j].current.extra += u64::from(cycles);
    }

    fn serialise(&mut self) {
        self.hw.threads[self.j].current.serialises = true;
    }

    #[inline]
    fn branch(&mut self, mispredicted: bool) {
        self.hw.threads[self.j].current.mispredicted |= mispredicted;
    }

    #[inline]
    fn order(&mut self, order: Order) {
        self.hw.threads[self.j].current.order = order;
    }

    #[inline]
    fn logged_translation(&mut self) -> Option<u64> {
        self.hw.threads[self.j].log.replay(true).map(|s| s.value as u64)
    }

    #[inline]
    fn translated(&mut self, entry: u64) {
        let log = &mut self.hw.threads[self.j].log;
        if let Some(mark) = log.walk_mark.take() {
            log.steps.truncate(mark);
        }
        log.push(u128::from(entry), 0, true);
    }

    fn begin_walk(&mut self) {
        let log = &mut self.hw.threads[self.j].log;
        // Also on a re-run: the walk's steps begin where the cursor stands.
        log.walk_mark = Some(log.cursor);
    }

    #[inline]
    fn load(&mut self, pa: PhysAddr, size: u8) -> Result<u64, Wait> {
        self.load_any(pa, size).map(|v| v as u64)
    }

    fn load_wide(&mut self, pa: PhysAddr) -> Result<u128, Wait> {
        self.load_any(pa, 16)
    }

    #[inline]
    fn store(&mut self, pa: PhysAddr, size: u8, value: u64) -> Result<(), Wait> {
        self.store_any(pa, size, u128::from(value))
    }

    fn store_wide(&mut self, pa: PhysAddr, value: u128) -> Result<(), Wait> {
        self.store_any(pa, 16, value)
    }

    fn rmw(
        &mut self,
        pa: PhysAddr,
        size: u8,
        change: &mut dyn FnMut(u128) -> Option<u128>,
    ) -> Result<u128, Wait> {
        if let Some(value) = self.replay() {
            // The change is made once; a re-run only needs what it returned.
            change(value);
            return Ok(value);
        }
        self.hw.threads[self.j].spin.is_clean = false;
        let line = pa.line();
        let t = self.perform_write(line)?;
        if let Some(until) = self.hw.sibling_wait(self.j, line, t, true) {
            return self.wait(Pending::At(until));
        }
        self.own_line(line, t)?;
        self.hw.check_shadow(self.j, line, t, self.phys, "read-modify-write");
        let old = read(self.phys, pa, size);
        if let Some(new) = change(old) {
            write(self.phys, pa, size, new);
        }
        self.hw.shadow.wrote(line, self.phys);
        self.hw.caches.set_modified(line);
        let latency = u64::from(self.hw.config.timing.latency[Class::Rmw as usize]);
        let sibling_until = t + latency + self.hw.config.smt_handover;
        let hold = Hold { until: t + latency, sibling_until, ..Hold::of(line, self.j) };
        self.hw.hold(hold, t);
        let cur = &mut self.hw.threads[self.j].current;
        let done = if cur.timing.class == Class::Rmw { t } else { t + latency };
        cur.redirect = cur.redirect.max(t + latency);
        self.performed(t, old, done);
        self.hw.wrote(self.j, line, t);
        Ok(old)
    }

    fn update(
        &mut self,
        pa: PhysAddr,
        size: u8,
        update: Update,
        wants_result: bool,
    ) -> Result<u64, Wait> {
        let order = self.hw.threads[self.j].current.order;
        if self.hw.config.order == MemoryOrder::Weak && !wants_result && !order.acquires() {
            return self.buffer(pa, size, 0, Some(update)).map(|()| 0);
        }
        let mut change = |old: u128| update.apply(old as u64, size).map(u128::from);
        let place = self.hw.config.atomics.load(order);
        let is_near = place == AtomicPlace::Near;
        if self.hw.config.order == MemoryOrder::Total || is_near {
            return self.rmw(pa, size, &mut change).map(|old| old as u64);
        }
        if self.hw.threads[self.j].log.has_next() {
            self.hw.threads[self.j].current.acquires |= order.acquires();
            return self.replay().map_or(Err(Wait), |old| Ok(old as u64));
        }
        if let Some(old) = self.hw.threads[self.j].device_value.take() {
            let cur = &mut self.hw.threads[self.j].current;
            cur.acquires |= order.acquires();
            let t = self.hw.threads[self.j].now;
            self.performed(t, old, t);
            return Ok(old as u64);
        }
        let line = pa.line();
        if !self.hw.goes_far(place, line) {
            return self.rmw(pa, size, &mut change).map(|old| old as u64);
        }
        self.hw.threads[self.j].spin.is_clean = false;
        let t = self.perform_write(line)?;
        self.hw.threads[self.j].now = t;
        self.hw.send_far(self.j, t, pa, size, update, None);
        self.wait(Pending::Device)
    }

    fn fetch(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        if self.replay().is_some() {
            return Ok(());
        }
        let th = &self.hw.threads[self.j];
        // Fetch goes with dispatch, not with operands: it never waits for the step limit.
        let t = th.now.max(th.score.next_dispatch());
        let line = pa.line();
        // Code that this cpu has just written is fetched when it has left the store buffer.
        if th.stores.writes(line) {
            return self.wait(Pending::BufferEmpty);
        }
        if self.hw.disturbs_spin(self.j, CachePort::Fetch, line, t, false) {
            return self.wait(Pending::At(t));
        }
        let Some(hit) = self.hw.caches.access(CachePort::Fetch, line, t, self.j) else {
            if t >= self.hw.step_limit {
                return self.wait(Pending::At(t));
            }
            self.hw.request(self.j, line, false, CachePort::Fetch, t);
            return self.wait(Pending::Line(line));
        };
        self.note_touch(CachePort::Fetch, line, t);
        self.hw.check_shadow(self.j, line, t, self.phys, "fetch");
        if hit.level == Level::L2 {
            let l2 = u64::from(self.hw.config.timing.l2_latency);
            self.hw.threads[self.j].score.redirect(t + l2);
        }
        self.hw.threads[self.j].log.push(0, 0, false);
        Ok(())
    }

    fn code_bytes(&mut self, pa: PhysAddr, out: &mut [u8]) {
        self.phys.read_bytes(pa, out);
    }

    #[inline]
    fn code_version(&mut self, page: u64) -> u32 {
        self.phys.code_version(page)
    }

    fn note_code(&mut self, page: u64) {
        self.phys.note_code(page);
        self.hw.code_filter |= 1 << (page & 63);
        self.hw.code_pages.insert(page);
    }

    #[inline]
    fn take_code_store(&mut self) -> bool {
        std::mem::take(&mut self.hw.threads[self.j].code_changed)
    }

    fn fence(&mut self, fence: Fence) -> Result<(), Wait> {
        let is_replay = self.replay().is_some();
        let drains = matches!(fence, Fence::Full | Fence::Accesses { stores: true });
        if drains && !is_replay {
            let t = self.perform_drained()?;
            self.hw.threads[self.j].now = t;
        }
        let th = &mut self.hw.threads[self.j];
        if fence == Fence::Answers && !is_replay && th.answers_due != 0 {
            return self.wait(Pending::Answers);
        }
        match fence {
            Fence::Stores if !is_replay => th.stores.mark(),
            Fence::Stores => {}
            Fence::Accesses { .. } => {
                th.current.i = th.current.i.max(th.score.last_retire());
                th.current.acquires = true;
            }
            Fence::Load | Fence::Full | Fence::Answers => {
                th.current.i = th.current.i.max(th.score.last_retire());
                th.current.serialises = true;
                th.spin.is_clean = false;
            }
        }
        if !is_replay {
            th.log.push(0, 0, false);
        }
        Ok(())
    }

    fn tell(&mut self, access: DeviceAccess) -> Result<(), Wait> {
        if self.replay().is_none() {
            let t = self.perform_at(0)?;
            let (cpu, key) = (self.hw.threads[self.j].cpu, self.hw.device_key(t, Phase::Request));
            self.hw.out.push(Out::Device { cpu, access, is_posted: true, key });
            self.hw.sends(t);
            self.hw.threads[self.j].spin.is_clean = false;
            self.performed(t, 0, t);
        }
        Ok(())
    }

    fn flush_line(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        if self.replay().is_some() {
            return Ok(());
        }
        if self.hw.threads[self.j].device_value.take().is_some() {
            let t = self.hw.threads[self.j].now;
            self.performed(t, 0, t);
            return Ok(());
        }
        let t = self.perform_drained()?;
        self.hw.threads[self.j].now = t;
        self.hw.send_line(t, 0, pa.line(), LineMsg::Flush);
        self.wait(Pending::Flush(pa.line()))
    }

    fn device(&mut self, access: DeviceAccess) -> Result<Option<u64>, Wait> {
        if let Some(value) = self.replay() {
            return Ok(u64::try_from(value).ok());
        }
        if let Some(value) = self.hw.threads[self.j].device_value.take() {
            let t = self.hw.threads[self.j].now;
            self.performed(t, value, t);
            // Younger accesses come after an uncached one (X3).
            let cur = &mut self.hw.threads[self.j].current;
            cur.redirect = cur.redirect.max(t);
            return Ok(u64::try_from(value).ok());
        }
        let t = self.perform_drained()?;
        let hw = &mut *self.hw;
        hw.threads[self.j].now = t;
        let key = hw.device_key(t, Phase::Request);
        hw.out.push(Out::Device { cpu: hw.threads[self.j].cpu, access, is_posted: false, key });
        hw.sends(t);
        self.wait(Pending::Device)
    }

    fn arm_monitor(&mut self, pa: PhysAddr) -> Result<(), Wait> {
        let replayed = self.hw.threads[self.j].log.has_next();
        self.load_any(pa, 1)?;
        if !replayed {
            // A store of this cpu that is still buffered does not count; the line must be ours.
            let line = pa.line();
            let th = &mut self.hw.threads[self.j];
            th.spin.is_clean = false;
            if self.hw.caches.perm(line).is_some() {
                th.monitor = MonitorState::Armed(line);
            } else {
                // Forwarded from the own store buffer without the line: fall through once.
                th.monitor = MonitorState::Triggered;
            }
        }
        Ok(())
    }

    fn load_exclusive(&mut self, pa: PhysAddr, size: u8) -> Result<u128, Wait> {
        let is_replay = self.hw.threads[self.j].log.has_next();
        if !is_replay {
            let order = self.hw.threads[self.j].current.order;
            self.await_stores(pa, size, order)?;
        }
        let value = self.load_any(pa, size)?;
        if !is_replay {
            let th = &mut self.hw.threads[self.j];
            th.spin.is_clean = false;
            let (line, t) = (pa.line(), th.now);
            let is_new = th.monitor != MonitorState::Reserved(line);
            th.monitor = MonitorState::Reserved(line);
            let is_held = self.hw.caches.perm(line).is_some_and(Perm::can_write);
            if is_new && is_held && self.hw.config.exclusive_hold > 0 {
                // P3: the line stays for a short loop, once a reservation.
                self.hw.end_exclusive_hold(self.j, t);
                let until = t + self.hw.config.exclusive_hold;
                let hold = Hold { until, is_exclusive: true, ..Hold::of(line, self.j) };
                self.hw.hold(hold, t);
            }
        }
        Ok(value)
    }

    fn store_exclusive(&mut self, pa: PhysAddr, size: u8, value: u128) -> Result<bool, Wait> {
        if let Some(stored) = self.replay() {
            return Ok(stored != 0);
        }
        self.hw.threads[self.j].spin.is_clean = false;
        let line = pa.line();
        let t = self.perform_write(line)?;
        if let Some(until) = self.hw.sibling_wait(self.j, line, t, true) {
            return self.wait(Pending::At(until));
        }
        let stands = self.hw.threads[self.j].monitor == MonitorState::Reserved(line);
        if stands {
            self.own_line(line, t)?;
        }
        let stored = stands && !self.hw.exclusive_fails(self.j);
        self.hw.threads[self.j].monitor = MonitorState::Unarmed;
        if stored {
            self.hw.check_shadow(self.j, line, t, self.phys, "store exclusive");
            write(self.phys, pa, size, value);
            self.hw.shadow.wrote(line, self.phys);
            self.hw.caches.set_modified(line);
        }
        self.performed(t, u128::from(stored), t);
        self.hw.end_exclusive_hold(self.j, t);
        if stored {
            self.hw.wrote(self.j, line, t);
        }
        Ok(stored)
    }

    fn monitor(&self) -> MonitorState {
        self.hw.threads[self.j].monitor
    }

    fn disarm_monitor(&mut self) {
        let th = &self.hw.threads[self.j];
        let t = th.current.i.max(th.now);
        self.hw.end_exclusive_hold(self.j, t);
        self.hw.threads[self.j].monitor = MonitorState::Unarmed;
    }

    fn signal(&mut self, target: Target, signal: Signal, ordered: bool) -> Result<(), Wait> {
        if self.replay().is_some() {
            return Ok(());
        }
        let t = if ordered { self.perform_drained()? } else { self.perform_at(0)? };
        let send = u64::from(self.hw.config.timing.latency[Class::IpiSend as usize]);
        let left = t + send;
        let id = self.hw.threads[self.j].next_message();
        let me = self.j;
        if matches!(signal, Signal::Invalidate { .. }) {
            self.hw.threads[me].answers_due += u64::from(self.hw.config.cpus) - 1;
        }
        for i in 0..self.hw.threads.len() {
            let is_meant = match target {
                Target::ArchId(id) => self.hw.arch_ids[i] == id,
                Target::All | Target::Match(_) => true,
                Target::AllButSelf => i != me,
            };
            if is_meant {
                self.own_ipi(i, left, signal, id);
            }
        }
        let is_own = matches!(target, Target::ArchId(id) if self.hw.arch_ids.contains(&id));
        if !is_own {
            let freq = self.hw.config.freq;
            let (began, sent) = (freq.edge(t), freq.edge(left));
            self.hw.out.push(Out::Signal { id, target, signal, began, sent });
            self.hw.sends(t);
        }
        let cur = &mut self.hw.threads[self.j].current;
        if cur.timing.class != Class::IpiSend {
            cur.extra += send;
        }
        self.hw.threads[self.j].spin.is_clean = false;
        self.performed(t, 0, t);
        Ok(())
    }

    fn set_timer(&mut self, at: Option<SimTime>) {
        let freq = self.hw.config.freq;
        let th = &mut self.hw.threads[self.j];
        th.spin.is_clean = false;
        th.timer = at.map_or(u64::MAX, |at| freq.edge_at_or_after(at).max(th.now + 1));
        let timer = th.timer;
        self.hw.bound_steps(timer);
    }

    fn time(&mut self, order: TimeOrder) -> SimTime {
        let freq = self.hw.config.freq;
        let th = &mut self.hw.threads[self.j];
        th.spin.is_clean = false;
        let t = match order {
            TimeOrder::Early => th.current.i.max(th.now),
            TimeOrder::Retired => th.now.max(th.score.last_retire()),
        };
        th.now = t;
        th.current.i = th.current.i.max(t);
        freq.edge(t)
    }

    fn report_unimplemented(&mut self, rip: u64, bytes: &[u8]) {
        let th = &mut self.hw.threads[self.j];
        if th.reported.contains(&rip) {
            return;
        }
        th.reported.push(rip);
        let cycle = th.now;
        let mut first = [0; 15];
        let len = bytes.len().min(15);
        first[..len].copy_from_slice(&bytes[..len]);
        let event = Event::Unimplemented { pc: rip, bytes: first, len: len as u8 };
        self.hw.event(self.j, cycle, event);
    }
}

impl Hw {
    /// Whether a store exclusive fails for no reason, as the manual allows.
    fn exclusive_fails(&mut self, j: usize) -> bool {
        let th = &mut self.threads[j];
        th.exclusives += 1;
        let one_in = u64::from(self.config.exclusive_failure);
        one_in != 0 && self.chance.below(one_in, th.cpu.0, DRAW_EXCLUSIVE, th.exclusives) == 0
    }

    fn interrupt_taken(&mut self, j: usize, cycle: u64, now: u64, vector: u8) {
        let masked = self.ipi_taken(j, now, vector);
        let th = &mut self.threads[j];
        th.counters.handler_entries += 1;
        th.handler_began = Some(vector);
        if self.wanted.wakes {
            self.event(j, cycle, Event::InterruptTaken { vector, masked: SimTime(masked) });
        }
    }

    /// If an interrupt of this vector came from a cpu, it no longer pends; returns how long it was
    /// masked, in picoseconds.
    fn ipi_taken(&mut self, j: usize, now: u64, vector: u8) -> u64 {
        let masked_now = self.threads[j].mask.at(now);
        let th = &mut self.threads[j];
        let Some(at) = th.pending_ipis.iter().position(|p| p.vector == vector) else { return 0 };
        let PendingIpi { accepted_ps, masked_before_ps, is_ipi, .. } = th.pending_ipis.remove(at);
        if !is_ipi {
            return 0;
        }
        let masked = masked_now - masked_before_ps;
        th.counters.ipi_taken += 1;
        th.counters.ipi_pending -= 1;
        th.counters.ipi_pend_ps += now.saturating_sub(accepted_ps);
        th.counters.ipi_pend_masked_ps += masked;
        masked
    }

    fn set_masked(&mut self, j: usize, now: u64, is_off: bool) {
        let th = &mut self.threads[j];
        th.mask.is_off = is_off;
        if is_off {
            th.mask.start(now);
        } else {
            self.end_mask(j, now);
        }
    }

    /// A section with interrupts off ends, or a wait begins inside it.
    pub(crate) fn end_mask(&mut self, j: usize, now: u64) {
        let th = &mut self.threads[j];
        let length = th.mask.stop(now);
        th.counters.irqoff_ps += length;
        th.counters.irqoff_max_ps = th.counters.irqoff_max_ps.max(length);
    }
}
