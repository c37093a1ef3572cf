//! Entering and leaving waits: one function enters, one leaves, and leaving records the cause.

use emu_observe::Event;
use emu_sim::mutant::Mutant;
use emu_sim::{Phase, SimTime};

use crate::config::IdleCost;
use crate::isa::Isa;
use crate::node::{Core, Hw, Out};
use crate::thread::{LastEvent, Pending, RunState, Wait};
use crate::wait::{MonitorState, PowerVote, WaitReason, WaitRequest, WakeCause};

impl<I: Isa> Core<I> {
    /// Cpu `j` begins to wait at cycle `t`. Its store buffer goes on draining (W1).
    pub(crate) fn enter_wait(&mut self, j: usize, t: u64, request: WaitRequest) {
        let now = self.hw.ps(t);
        self.hw.end_mask(j, now);
        let th = &mut self.hw.threads[j];
        th.now = th.now.max(t);
        th.run = RunState::Waiting(Wait { request, since: t });
        th.counters.idle_enter += 1;
        if self.hw.wanted.wakes {
            self.hw.event(j, t, Event::IdleEnter { state: request.state });
        }
        self.hw.share_due = self.hw.share_due.min(t);
        self.hw.vote_down(j, t, &request);
        let is_triggered = request.reason == WaitReason::Monitor
            && matches!(
                self.hw.threads[j].monitor,
                MonitorState::Unarmed | MonitorState::Triggered
            );
        if is_triggered {
            self.hw.leave_wait(j, t, WakeCause::MonitorStore);
        } else {
            self.wake_if_due(j, t);
        }
    }

    /// Ends the wait of cpu `j` if its state says so.
    pub(crate) fn wake_if_due(&mut self, j: usize, t: u64) {
        if let RunState::Waiting(wait) = self.hw.threads[j].run
            && let Some(cause) = self.isas[j].wake_cause(&wait.request)
        {
            self.hw.leave_wait(j, t, cause);
        }
    }
}

impl Hw {
    /// The monitor of cpu `j` triggers at cycle `t`.
    pub(crate) fn trigger(&mut self, j: usize, t: u64) {
        let th = &mut self.threads[j];
        if let MonitorState::Armed(line) | MonitorState::Reserved(line) = th.monitor {
            th.last_wake_event = Some((t, LastEvent::MonitorWrite(line)));
        }
        th.monitor = MonitorState::Triggered;
        if let RunState::Waiting(w) = self.threads[j].run
            && w.request.reason == WaitReason::Monitor
        {
            self.leave_wait(j, t, WakeCause::MonitorStore);
        }
    }

    /// The one place where a wait ends: the event came at cycle `t`; what the state costs is paid
    /// before the next dispatch.
    pub(crate) fn leave_wait(&mut self, j: usize, t: u64, cause: WakeCause) {
        let RunState::Waiting(wait) = self.threads[j].run else { return };
        let resumes = t.max(wait.since) + self.exit_cycles(j, &wait, t, cause);
        let idle_ps = self.ps(resumes) - self.ps(wait.since);
        self.vote_up(j, t.max(wait.since), &wait.request);
        if self.is_timer_stopped(j) {
            self.threads[j].timer = resumes;
        }
        let th = &mut self.threads[j];
        th.run = RunState::Running;
        th.pending = Pending::None;
        th.score.redirect(resumes);
        th.now = th.now.max(t);
        if th.last_wake_event.is_none_or(|(at, _)| at < t) {
            th.last_wake_event = Some((t, LastEvent::Left(cause)));
        }
        // A reservation outlasts the wait.
        let is_reserved = matches!(th.monitor, MonitorState::Reserved(_));
        if wait.request.reason == WaitReason::Monitor && !is_reserved {
            th.monitor = MonitorState::Unarmed;
        }
        th.counters.idle_ps += idle_ps;
        match cause {
            WakeCause::MonitorStore => th.counters.idle_wake_write += 1,
            WakeCause::Interrupt => th.counters.idle_wake_irq += 1,
            _ => th.counters.idle_wake_other += 1,
        }
        let resumes_ps = self.ps(resumes);
        if self.threads[j].mask.is_off {
            self.threads[j].mask.start(resumes_ps);
        }
        if self.wanted.wakes {
            let freq = self.config.freq;
            let exit = Event::IdleExit {
                cause,
                state: wait.request.state,
                since: freq.edge(wait.since),
                resumes: freq.edge(resumes),
            };
            // An event may come while the instruction that waits is still finishing.
            self.event(j, t.max(wait.since), exit);
        }
        self.update_shares();
    }

    /// What an idle state costs, if the wait has one.
    fn cost(&self, request: &WaitRequest) -> Option<&IdleCost> {
        request.state.and_then(|s| self.config.idle.get(usize::from(s)))
    }

    /// Whether cpu `j` is in a state in which its timer stands.
    pub(crate) fn is_timer_stopped(&self, j: usize) -> bool {
        let RunState::Waiting(wait) = self.threads[j].run else { return false };
        self.cost(&wait.request).is_some_and(|cost| cost.timer_stops)
    }

    /// Tells the power domains that cpu `j` waits, where that concerns them (W5).
    fn vote_down(&mut self, j: usize, t: u64, request: &WaitRequest) {
        if !self.config.idle.iter().any(|cost| cost.is_told) {
            return;
        }
        let th = &mut self.threads[j];
        th.told_waits += 1;
        th.power = None;
        match request.state.filter(|_| self.cost(request).is_some_and(|cost| cost.is_told)) {
            Some(state) => {
                let n = self.threads[j].told_waits;
                self.vote(j, t, PowerVote::Down(state, n));
            }
            None if request.reason == WaitReason::Startup => self.vote(j, t, PowerVote::Off),
            None => {}
        }
    }

    /// Tells them that it wakes.
    fn vote_up(&mut self, j: usize, t: u64, request: &WaitRequest) {
        let is_told = self.cost(request).is_some_and(|cost| cost.is_told);
        let is_off = request.reason == WaitReason::Startup
            && self.config.idle.iter().any(|cost| cost.is_told);
        if is_told || is_off {
            self.vote(j, t, PowerVote::Up);
        }
    }

    fn vote(&mut self, j: usize, t: u64, vote: PowerVote) {
        let key = self.device_key(t, Phase::Signal);
        let (cpu, at) = (self.threads[j].cpu, self.config.freq.edge(t));
        self.out.push(Out::Power { cpu, vote, at, key });
        self.sends(t);
    }

    fn exit_cycles(&self, j: usize, wait: &Wait, t: u64, cause: WakeCause) -> u64 {
        let Some(idle) = self.cost(&wait.request) else { return 0 };
        let freq = self.config.freq;
        let exit =
            if cause == WakeCause::MonitorStore { idle.exit_store } else { idle.exit_interrupt };
        // With a busy sibling the core never went down: only the cheap part is paid.
        let is_sibling_busy =
            self.threads.iter().enumerate().any(|(i, th)| {
                i != j && !matches!(th.run, RunState::Waiting(_) | RunState::Shutdown)
            });
        let cheapest = |s: &crate::config::IdleCost| match cause {
            WakeCause::MonitorStore => s.exit_store,
            _ => s.exit_interrupt,
        };
        let exit = if is_sibling_busy && idle.flushes {
            self.config.idle.iter().map(cheapest).min().unwrap_or(exit).min(exit)
        } else {
            exit
        };
        // A wake during an entry that cannot be aborted waits for the rest of it.
        let wait_of_core = if idle.is_abortable { 0 } else { freq.cycles_in(idle.entry) };
        let (entered, wider) = self.threads[j].power.unwrap_or((wait.since + wait_of_core, 0));
        entered.saturating_sub(t.max(wait.since)) + wider + freq.cycles_in(exit)
    }

    /// Once every cpu of the core is in a state that loses the caches, they are emptied. What is
    /// still buffered asks for its lines again, behind the `Put`s (L8).
    fn flush_if_asked(&mut self, t: u64) {
        let flushes = |w: &Wait| self.cost(&w.request).is_some_and(|cost| cost.flushes);
        // A cpu that was not started, or has shut down, keeps no cache alive.
        let is_down = |th: &crate::thread::Thread| match th.run {
            RunState::Waiting(w) => w.request.reason == WaitReason::Startup || flushes(&w),
            RunState::Shutdown => true,
            RunState::Running | RunState::Spinning => false,
        };
        let is_asked =
            |th: &crate::thread::Thread| matches!(th.run, RunState::Waiting(w) if flushes(&w));
        if !self.threads.iter().all(is_down) || !self.threads.iter().any(is_asked) {
            return;
        }
        let held: Vec<_> = self.caches.lines().collect();
        for (line, perm) in held {
            self.caches.remove(line);
            self.put(t, line, perm);
        }
    }

    /// Whether a cpu of this core watches the line.
    pub(crate) fn is_watched(&self, line: emu_sim::LineAddr) -> bool {
        self.threads.iter().any(|th| th.monitor == MonitorState::Armed(line))
    }

    /// Whether a line that the core gives up stays watched (W3).
    pub(crate) fn leaves_watch(&self, line: emu_sim::LineAddr) -> bool {
        self.is_watched(line) && !self.config.mutation.is(Mutant::ForgottenWatch)
    }

    /// What the sleep of the whole core adds to the answer of a snoop.
    pub(crate) fn snoop_delay(&self) -> u64 {
        let mut delay = SimTime::ZERO;
        for th in &self.threads {
            let RunState::Waiting(w) = th.run else { return 0 };
            if let Some(cost) = self.cost(&w.request) {
                delay = delay.max(cost.snoop);
            }
        }
        delay.ps()
    }

    /// A cpu has gone to sleep at `t`: its siblings have more room from now on, and not before, and
    /// the caches may be lost (W4). Another may be on its way.
    pub(crate) fn fell_asleep(&mut self, t: u64) {
        self.update_shares();
        for th in &mut self.threads {
            th.score.redirect(t);
        }
        let since = |th: &crate::thread::Thread| match th.run {
            RunState::Waiting(w) if w.since > t => Some(w.since),
            _ => None,
        };
        match self.threads.iter().filter_map(since).min() {
            Some(next) => self.share_due = next,
            None => self.flush_if_asked(t),
        }
    }

    /// Siblings share width and window while both run (C4). A spinning sibling runs.
    pub(crate) fn update_shares(&mut self) {
        self.share_due = u64::MAX;
        if self.threads.len() == 1 {
            return;
        }
        let is_up =
            |th: &crate::thread::Thread| matches!(th.run, RunState::Running | RunState::Spinning);
        let running = self.threads.iter().filter(|th| is_up(th)).count();
        let config = self.config.clone();
        for th in &mut self.threads {
            th.score.share(&config.timing, running <= 1);
        }
    }
}
