//! The core as a node of the engine: its agenda, and how far it runs (`engine.md` section 3).
//!
//! A core handles inbox messages, timers, store-buffer drains and steps of its cpus in key order.
//! When only one cpu has steps, they run in a plain loop up to the next other item.

use std::sync::Arc;

use emu_mem::cache::PrivateCaches;
use emu_mem::directory::phase_of;
use emu_mem::msg::{Envelope, LineMsg};
use emu_mem::phys::Phys;
use emu_mem::shadow::{CoreCopies, Data};
use emu_observe::{Event, IpiId, Record, Wanted};
use emu_sim::{
    Agenda, Chance, CoreId, CpuId, Key, LineAddr, LlcId, NodeRef, Phase, PhysAddr, SimTime,
};
use rustc_hash::FxHashSet;

use crate::config::CoreConfig;
use crate::isa::{Flow, Isa};
use crate::points::Watch;
use crate::port::{DeviceAccess, Target, Update};
use crate::spin::Snapshot;
use crate::thread::{Pending, RunState, Thread};
use crate::timing::Class;
use crate::wait::{PowerVote, Signal, WaitReason, WaitRequest};

/// What reaches a core.
#[derive(Clone, Copy, Debug)]
pub enum CoreItem {
    /// A message of the line protocol.
    Line {
        /// Line.
        line: LineAddr,
        /// What is said.
        msg: LineMsg,
        /// The line's bytes, in shadow mode.
        data: Data,
    },
    /// An interrupt message for the cpu with this SMT index.
    Signal {
        /// SMT index.
        smt: usize,
        /// What.
        signal: Signal,
        /// Message.
        id: IpiId,
    },
    /// A device answers the cpu with this SMT index.
    DeviceDone {
        /// SMT index.
        smt: usize,
        /// Value read, or 0; nothing where nobody answers.
        value: Option<u64>,
    },
    /// The home has performed an atomic without result of the cpu with this SMT index.
    FarStored {
        /// SMT index.
        smt: usize,
        /// Which of its stores.
        n: u64,
    },
    /// Another cpu has carried out an invalidation of the cpu with this SMT index.
    Answered {
        /// SMT index.
        smt: usize,
    },
    /// A device asks what the cpu with this SMT index does.
    Query {
        /// SMT index.
        smt: usize,
        /// Who asks, for the answer.
        asker: CpuId,
    },
    /// What the power domains cost the cpu with this SMT index in its present wait.
    Power {
        /// SMT index.
        smt: usize,
        /// Number of the wait.
        n: u64,
        /// The wait ends at this time at the earliest.
        until: SimTime,
        /// Added to the exit.
        exit: SimTime,
    },
    /// A rule lets the cpu with this SMT index go on.
    Release {
        /// SMT index.
        smt: usize,
    },
}

/// What leaves a core.
#[derive(Clone, Copy, Debug)]
pub enum Out {
    /// To the line protocol; the key is complete.
    Line(Envelope),
    /// To cpus of other cores.
    Signal {
        /// Message.
        id: IpiId,
        /// Whom.
        target: Target,
        /// What.
        signal: Signal,
        /// Issue of the sending write.
        began: SimTime,
        /// When it left.
        sent: SimTime,
    },
    /// To a device.
    Device {
        /// Asking cpu.
        cpu: CpuId,
        /// What.
        access: DeviceAccess,
        /// Nobody waits for the answer.
        is_posted: bool,
        /// Arrival and order.
        key: Key,
    },
    /// An atomic to the line's home; the answer is `DeviceDone`, or `FarStored`.
    Far {
        /// What.
        far: Far,
        /// When it left.
        sent: SimTime,
        /// Order among the messages of the core.
        seq: u64,
    },
    /// Answer to an invalidation.
    Answered {
        /// The answer's message; `from` has carried it out.
        id: IpiId,
        /// Who had sent the invalidation.
        to: CpuId,
        /// When it left.
        sent: SimTime,
    },
    /// Answer to a query.
    RunState {
        /// Who asked.
        asker: CpuId,
        /// What the cpu does.
        run: RunState,
        /// Arrival and order.
        key: Key,
    },
    /// To the power domains.
    Power {
        /// Which cpu.
        cpu: CpuId,
        /// What it says.
        vote: PowerVote,
        /// Since when it holds.
        at: SimTime,
        /// Arrival and order.
        key: Key,
    },
    /// The cpu shut down.
    Shutdown {
        /// Which.
        cpu: CpuId,
        /// When.
        at: SimTime,
    },
    /// The cpu passed a watched point, or arrived at one where a rule holds it.
    Point {
        /// Which.
        cpu: CpuId,
        /// Point index.
        index: u32,
        /// Rule that holds it, by number.
        held_by: Option<u32>,
        /// Arrival at the machine, and order.
        key: Key,
    },
}

/// An atomic that is performed at the line's home.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// Whose.
    pub cpu: CpuId,
    /// First byte.
    pub pa: PhysAddr,
    /// Bytes: 1 to 8, in one line.
    pub size: u8,
    /// What it does.
    pub update: Update,
    /// Which store of the cpu it is, when nobody wants the result.
    pub store: Option<u64>,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) line: LineAddr,
    pub(crate) port: emu_mem::cache::Port,
}

/// A time during which the core delays snoops of a line, or a sibling its use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) line: LineAddr,
    /// Snoops wait until this cycle.
    pub(crate) until: u64,
    /// Siblings of `owner` wait until this cycle.
    pub(crate) sibling_until: u64,
    pub(crate) owner: usize,
    /// It ends with the reservation of `owner` too.
    pub(crate) is_exclusive: bool,
    /// A sibling waits: the owner's next write comes after it, or it would never get its turn.
    pub(crate) is_wanted: bool,
}

impl Hold {
    /// A hold of no time, for the rest of its fields.
    pub(crate) fn of(line: LineAddr, owner: usize) -> Hold {
        let (until, sibling_until) = (0, 0);
        Hold { line, until, sibling_until, owner, is_exclusive: false, is_wanted: false }
    }
}

/// All of a core but the architectural state.
#[derive(Clone, Debug)]
pub struct Hw {
    pub(crate) id: CoreId,
    pub(crate) llc: LlcId,
    pub(crate) config: Arc<CoreConfig>,
    pub(crate) threads: Vec<Thread>,
    pub(crate) arch_ids: Vec<u32>,
    pub(crate) caches: PrivateCaches,
    pub(crate) shadow: CoreCopies,
    pub(crate) requests: Vec<Request>,
    pub(crate) holds: Vec<Hold>,
    pub(crate) inbox: Agenda<CoreItem>,
    pub(crate) out: Vec<Out>,
    pub(crate) events: Vec<Record>,
    pub(crate) wanted: Wanted,
    pub(crate) chance: Chance,
    pub(crate) watch: Option<Arc<Watch>>,
    /// Pages that its cpus have decoded code in, and a filter for them by the page's low bits.
    pub(crate) code_pages: FxHashSet<u64>,
    pub(crate) code_filter: u64,
    seq: u64,
    /// Items at or above this cycle are not handled now.
    pub(crate) limit: u64,
    /// As `limit`, for steps: bounded by the other items of the core too.
    pub(crate) step_limit: u64,
    /// Cycle at which a cpu will have gone to sleep: shares change, and caches may be lost.
    pub(crate) share_due: u64,
    /// Key of the last handled item; of own items, and of accesses that performed inside a step,
    /// only cycle and phase (K3).
    pub(crate) handled: Key,
}

/// A core: its cpus and their surroundings.
#[derive(Clone, Debug)]
pub struct Core<I: Isa> {
    pub(crate) hw: Hw,
    pub(crate) isas: Vec<I>,
    pub(crate) snapshots: Vec<Option<Box<Snapshot<I>>>>,
}

#[derive(Clone, Copy)]
enum Due {
    Inbox,
    Timer(usize),
    Deadline(usize),
    Drain(usize),
    Step(usize),
    Share,
}

impl Hw {
    /// Time of a cycle's edge; `u64::MAX` is never.
    fn edge(&self, cycle: u64) -> SimTime {
        if cycle == u64::MAX { SimTime::NEVER } else { self.config.freq.edge(cycle) }
    }

    /// Picoseconds of a cycle's edge.
    #[inline]
    pub(crate) fn ps(&self, cycle: u64) -> u64 {
        self.config.freq.edge(cycle).ps()
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// Bounds how far steps run now.
    #[inline]
    pub(crate) fn bound_steps(&mut self, cycle: u64) {
        self.step_limit = self.step_limit.min(cycle);
    }

    /// Notes that an own item of this cycle and phase is handled, or an access performs.
    ///
    /// # Panics
    /// If the core was beyond it, which is a model bug (K3).
    #[inline]
    pub(crate) fn handles(&mut self, cycle: u64, phase: Phase) {
        assert!(
            cycle >= self.handled.time,
            "model bug: late item of core {}: {phase:?} of cycle {cycle} after {:?}",
            self.id.0,
            self.handled
        );
        (self.handled.time, self.handled.phase) = (cycle, phase);
    }

    /// Notes that a message leaves at `cycle`: nothing at or after its earliest consequence is
    /// handled before the uncore has seen it (H4).
    pub(crate) fn sends(&mut self, cycle: u64) {
        let back = SimTime(self.ps(cycle) + self.config.window_ps);
        let limit = self.config.freq.edge_at_or_after(back);
        self.limit = self.limit.min(limit);
        self.step_limit = self.step_limit.min(limit);
    }

    /// Records an event of cpu `j`.
    pub(crate) fn event(&mut self, j: usize, cycle: u64, event: Event) {
        let time = self.config.freq.edge(cycle);
        self.events.push(Record { time, cpu: self.threads[j].cpu, event });
    }

    /// Key of a message to a device that leaves at `cycle`.
    pub(crate) fn device_key(&mut self, cycle: u64, phase: Phase) -> Key {
        let time = self.ps(cycle) + self.config.core_device;
        let source = NodeRef::Core(self.id).rank();
        Key { time, phase, tie: 0, source, seq: self.next_seq() }
    }

    /// Sends a message of the line protocol to the LLC.
    pub(crate) fn send_line(&mut self, cycle: u64, delay_ps: u64, line: LineAddr, msg: LineMsg) {
        self.send_data(cycle, delay_ps, line, msg, Data::default());
    }

    /// Sends a message of the line protocol to the LLC, with the line's bytes.
    pub(crate) fn send_data(
        &mut self,
        cycle: u64,
        delay_ps: u64,
        line: LineAddr,
        msg: LineMsg,
        data: Data,
    ) {
        let phase = phase_of(&msg);
        let time = self.ps(cycle) + delay_ps + self.config.core_llc;
        let source = NodeRef::Core(self.id).rank();
        let tie = if phase == Phase::Request { self.chance.tie(line.0, time, source) } else { 0 };
        let key = Key { time, phase, tie, source, seq: self.next_seq() };
        let (to, from) = (NodeRef::Llc(self.llc), NodeRef::Core(self.id));
        self.out.push(Out::Line(Envelope { key, to, from, line, msg, data }));
        self.sends(cycle);
    }
}

impl<I: Isa> Core<I> {
    /// A core at reset: the first cpu runs if `is_boot`, all others wait for start-up.
    #[must_use]
    pub fn new(
        id: CoreId,
        llc: LlcId,
        config: Arc<CoreConfig>,
        cpus: Vec<(CpuId, u32, I)>,
        boot: Option<CpuId>,
        chance: Chance,
    ) -> Core<I> {
        let startup = RunState::Waiting(crate::thread::Wait {
            request: WaitRequest {
                reason: WaitReason::Startup,
                state: None,
                wake_on_masked: false,
                deadline: None,
            },
            since: 0,
        });
        let mut threads = Vec::new();
        let mut arch_ids = Vec::new();
        let mut isas = Vec::new();
        for (cpu, arch_id, isa) in cpus {
            let run = if boot == Some(cpu) { RunState::Running } else { startup };
            threads.push(Thread::new(cpu, &config, run));
            arch_ids.push(arch_id);
            isas.push(isa);
        }
        let mut core = Core {
            snapshots: isas.iter().map(|_| None).collect(),
            isas,
            hw: Hw {
                id,
                llc,
                caches: PrivateCaches::new(config.l1d, config.l1i, config.l2),
                shadow: CoreCopies::default(),
                config,
                threads,
                arch_ids,
                requests: Vec::new(),
                holds: Vec::new(),
                inbox: Agenda::default(),
                out: Vec::new(),
                events: Vec::new(),
                wanted: Wanted::default(),
                chance,
                watch: None,
                code_pages: FxHashSet::default(),
                code_filter: 0,
                seq: 0,
                limit: 0,
                step_limit: 0,
                share_due: u64::MAX,
                handled: Key::FIRST,
            },
        };
        core.hw.update_shares();
        core
    }

    /// Puts a message of time `at` into the inbox (K2: it is handled on the first edge at or
    /// after it); returns the time of that edge.
    ///
    /// # Panics
    /// If the message is late, which is a model bug (K3).
    pub fn deliver(&mut self, mut key: Key, item: CoreItem) -> SimTime {
        key.time = self.hw.config.freq.edge_at_or_after(SimTime(key.time));
        let handled = self.hw.handled;
        assert!(
            key > handled || handled == Key::FIRST,
            "model bug: late message to core {}: {item:?} of {key:?} after {handled:?}",
            self.hw.id.0
        );
        self.hw.inbox.push(key, item);
        self.hw.config.freq.edge(key.time)
    }

    /// Time of the core's earliest item.
    #[must_use]
    pub fn next_time(&self) -> SimTime {
        self.hw.edge(self.next_due().0)
    }

    /// Whether a cpu repeats a loop whose iterations are skipped.
    #[must_use]
    pub fn is_spinning(&self) -> bool {
        self.hw.threads.iter().any(|th| th.run == RunState::Spinning)
    }

    /// Time of the last item that was handled.
    #[must_use]
    pub fn last_time(&self) -> SimTime {
        self.hw.config.freq.edge(self.hw.handled.time)
    }

    /// Handles every item before `limit`, in key order, or fewer when a message of its own may
    /// have consequences before it; returns the time of the next one. What leaves is in
    /// [`Core::take_out`].
    pub fn run_until(&mut self, unit: &mut I::Unit, phys: &Phys, limit: SimTime) -> SimTime {
        self.hw.limit = self.hw.config.freq.edge_at_or_after(limit);
        loop {
            let (time, phase, due) = self.next_due();
            if time >= self.hw.limit {
                return self.hw.edge(time);
            }
            self.hw.step_limit = self.hw.limit;
            let is_own = matches!(due, Due::Drain(_) | Due::Step(_));
            if !is_own && self.hw.materialise_all(time) {
                // Its steps before the item come first (S4).
                continue;
            }
            self.hw.handles(time, phase);
            match due {
                Due::Inbox => self.handle_next(unit, phys),
                Due::Timer(j) => self.handle_timer(j, time),
                Due::Deadline(j) => self.handle_deadline(j, time),
                Due::Drain(j) => self.handle_drain(j, time, phys),
                Due::Step(j) => self.run_steps(j, unit, phys),
                Due::Share => self.hw.fell_asleep(time),
            }
        }
    }

    /// Earliest item: cycle, phase, what.
    fn next_due(&self) -> (u64, Phase, Due) {
        let (time, phase) = self.hw.inbox.next_edge();
        let mut best = (time, phase, Due::Inbox);
        let mut consider = |time: u64, phase: Phase, due: Due| {
            if time < best.0 || time == best.0 && phase < best.1 {
                best = (time, phase, due);
            }
        };
        for (j, th) in self.hw.threads.iter().enumerate() {
            consider(th.timer, Phase::Timer, Due::Timer(j));
            consider(self.deadline(j), Phase::Timer, Due::Deadline(j));
            consider(th.stores.drain_time(), Phase::Drain, Due::Drain(j));
            consider(th.step_time(), Phase::Step, Due::Step(j));
        }
        consider(self.hw.share_due, Phase::HoldEnd, Due::Share);
        best
    }

    fn deadline(&self, j: usize) -> u64 {
        match self.hw.threads[j].run {
            RunState::Waiting(w) => match w.request.deadline {
                Some(at) => self.hw.config.freq.edge_at_or_after(at).max(w.since),
                None => u64::MAX,
            },
            _ => u64::MAX,
        }
    }

    /// First cycle at which something other than a step or drain of cpu `j` is due.
    fn others_limit(&self, j: usize) -> u64 {
        let mut limit = self.hw.inbox.next_edge().0.min(self.hw.threads[j].timer);
        limit = limit.min(self.hw.share_due);
        for (i, th) in self.hw.threads.iter().enumerate() {
            if i != j {
                let step = th.step_time().saturating_add(u64::from(j < i));
                limit =
                    limit.min(th.timer).min(self.deadline(i)).min(th.stores.drain_time()).min(step);
            }
        }
        limit
    }

    /// The plain loop: steps of one cpu until something else is due.
    fn run_steps(&mut self, j: usize, unit: &mut I::Unit, phys: &Phys) {
        self.hw.step_limit = self.hw.limit.min(self.others_limit(j));
        loop {
            let th = &self.hw.threads[j];
            let time = th.step_time();
            if time >= self.hw.step_limit {
                return;
            }
            if th.stores.drain_time() <= time {
                let at = th.stores.drain_time();
                self.hw.handles(at, Phase::Drain);
                self.handle_drain(j, at, phys);
                continue;
            }
            self.hw.handles(time, Phase::Step);
            self.step(j, time, unit, phys);
        }
    }

    /// Runs one instruction of cpu `j` at `time`, or more of it.
    pub(crate) fn step(&mut self, j: usize, time: u64, unit: &mut I::Unit, phys: &Phys) {
        if self.hw.watch.is_some() && self.stops_at_point(j, time) {
            return;
        }
        let th = &mut self.hw.threads[j];
        if th.drain_before_next && !th.begun {
            if !th.stores.is_empty() {
                th.pending = Pending::BufferEmpty;
                return;
            }
            th.drain_before_next = false;
        }
        th.pending = Pending::None;
        th.now = th.now.max(time);
        th.log.cursor = 0;
        th.current.start(time);
        let pc = self.isas[j].pc();
        let mut port = crate::access::CorePort { hw: &mut self.hw, j, pc, phys };
        match self.isas[j].step(unit, &mut port) {
            Ok(flow) => self.finish(j, flow, pc),
            Err(_) => {
                let th = &mut self.hw.threads[j];
                assert!(th.pending != Pending::None, "model bug: an instruction waits for nothing");
                th.begun = true;
                // A wait for the core's own limit is no event: it depends on the window.
                if !matches!(th.pending, Pending::At(_)) {
                    th.spin.is_clean = false;
                }
            }
        }
    }

    fn finish(&mut self, j: usize, flow: Flow, pc: u64) {
        let config = &self.hw.config;
        let th = &mut self.hw.threads[j];
        let cur = &th.current;
        let latency = u64::from(config.timing.latency[cur.timing.class as usize]);
        let complete = cur.i.max(cur.data) + latency + cur.extra;
        // What follows from the instruction is not dated before what it waited for (C3).
        let retire = th.score.finish(cur.d, cur.i, complete, &cur.timing).max(th.now);
        if cur.mispredicted {
            th.score.redirect(complete + u64::from(config.timing.mispredict));
        }
        if cur.serialises {
            th.score.redirect(retire);
        }
        // PAUSE holds younger instructions back, whatever they need.
        if cur.timing.class == Class::Pause {
            th.score.redirect(complete);
        }
        th.score.redirect(cur.redirect);
        if cur.acquires {
            th.score.order_accesses(complete);
        }
        if !th.stores.is_empty() {
            th.stores.retired(retire);
        }
        th.log.clear();
        th.begun = false;
        let (answers, ended) = (!th.answers_owed.is_empty(), th.now.max(retire));
        let is_instruction = cur.timing.class != Class::IrqEntry;
        th.point_passed = false;
        th.counters.instructions += 1;
        th.spin.instructions += 1;
        if answers {
            self.hw.answer_invalidations(j, ended);
        }
        if self.hw.wanted.steps && is_instruction {
            self.hw.event(j, ended, Event::Step { pc });
        }
        match flow {
            Flow::Next => {
                let next = self.isas[j].pc();
                if next <= pc && pc - next < crate::spin::LOOP_BYTES {
                    self.spin_head(j, next);
                }
            }
            Flow::Sleep(request) => self.enter_wait(j, retire, request),
            Flow::Shutdown => self.shut_down(j, retire, pc),
        }
    }

    fn shut_down(&mut self, j: usize, cycle: u64, pc: u64) {
        self.hw.threads[j].run = RunState::Shutdown;
        self.hw.event(j, cycle, Event::Shutdown { pc });
        let (cpu, at) = (self.hw.threads[j].cpu, self.hw.config.freq.edge(cycle));
        self.hw.out.push(Out::Shutdown { cpu, at });
        self.hw.sends(cycle);
        self.hw.share_due = self.hw.share_due.min(cycle);
    }

    /// What left the core since the last call, in the order in which it was made.
    pub fn take_out(&mut self) -> std::vec::Drain<'_, Out> {
        self.hw.out.drain(..)
    }

    /// Whether something left the core.
    #[must_use]
    pub fn has_out(&self) -> bool {
        !self.hw.out.is_empty()
    }

    /// Whether there are records.
    #[must_use]
    pub fn has_events(&self) -> bool {
        !self.hw.events.is_empty()
    }

    /// Records made since the last call.
    pub fn take_events(&mut self) -> std::vec::Drain<'_, Record> {
        self.hw.events.drain(..)
    }

    /// Sets which events are recorded.
    pub fn want(&mut self, wanted: Wanted) {
        self.hw.wanted = wanted;
    }

    /// Sets the watched points; `None` ends all rules.
    pub fn watch(&mut self, watch: Option<Arc<Watch>>) {
        for th in &mut self.hw.threads {
            th.passes = vec![0; watch.as_ref().map_or(0, |w| w.len())];
            th.point_passed = false;
        }
        self.hw.watch = watch;
    }

    /// Memory was changed from outside, at a cut: so are the copies of shadow mode.
    #[inline]
    pub fn overwrite_shadow(&mut self, pa: PhysAddr, bytes: &[u8]) {
        self.hw.shadow.overwrite(pa, bytes);
    }

    /// Changes the chance of a forked machine.
    pub fn reseed(&mut self, chance: Chance) {
        self.hw.chance = chance;
    }

    /// Delays the next dispatch of cpu `j` by `by`: a start offset (`guest-abi.md` 3). A cpu that
    /// waits is not delayed.
    pub fn delay(&mut self, j: usize, by: SimTime) {
        let cycles = self.hw.config.freq.cycles_in(by);
        let th = &mut self.hw.threads[j];
        if th.run == RunState::Running && th.pending == Pending::None {
            let from = th.step_time();
            th.score.redirect(from + cycles);
        }
    }

    /// The engine state of cpu `j`.
    #[must_use]
    pub fn thread(&self, j: usize) -> &Thread {
        &self.hw.threads[j]
    }

    /// Number of cpus.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.hw.threads.len()
    }

    /// The architectural state of cpu `j`.
    #[must_use]
    pub fn isa(&self, j: usize) -> &I {
        &self.isas[j]
    }

    /// The architectural state of cpu `j`, for loaders and debuggers at a cut.
    pub fn isa_mut(&mut self, j: usize) -> &mut I {
        &mut self.isas[j]
    }

    /// The core's rank as a source of keys.
    #[must_use]
    pub fn rank(&self) -> u32 {
        NodeRef::Core(self.hw.id).rank()
    }

    /// Identity.
    #[must_use]
    pub fn id(&self) -> CoreId {
        self.hw.id
    }

    /// Every line that the core holds, with its permission.
    pub fn lines(&self) -> impl Iterator<Item = (LineAddr, emu_mem::msg::Perm)> {
        self.hw.caches.lines()
    }

    /// Whether a message is in the inbox.
    #[must_use]
    pub fn has_messages(&self) -> bool {
        !self.hw.inbox.is_empty()
    }

    /// Lines that were asked for and have not come.
    pub fn lines_under_way(&self) -> impl Iterator<Item = LineAddr> {
        self.hw.requests.iter().map(|r| r.line)
    }

    /// Interrupt messages in the inbox.
    #[must_use]
    pub fn interrupts_under_way(&self) -> u64 {
        let is_interrupt = |item: &CoreItem| {
            matches!(
                item,
                CoreItem::Signal { signal: Signal::Interrupt { logical: None, .. }, id, .. }
                    if id.from != IpiId::DEVICE
            )
        };
        self.hw.inbox.iter().filter(|(_, item)| is_interrupt(item)).count() as u64
    }
}
