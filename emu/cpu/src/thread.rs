//! The engine's state of one cpu: its time, scoreboard, store buffer, step log, and what it waits
//! for. Architectural state is the `Isa`'s.

use emu_observe::IpiId;
use emu_sim::{CpuId, LineAddr};

use crate::config::CoreConfig;
use crate::counters::CpuCounters;
use crate::isa::Received;
use crate::port::Order;
use crate::scoreboard::Scoreboard;
use crate::spin::Spin;
use crate::store_buffer::StoreBuffer;
use crate::timing::OpTiming;
use crate::wait::{MonitorState, Signal, WaitRequest, WakeCause};

/// Steps one instruction may take; the longest are FXSAVE-like.
pub(crate) const STEPS_MAX: usize = 1024;

/// Result of a device access that nobody answers.
pub(crate) const NOBODY: u128 = 1 << 64;

/// A finished request of the running instruction (`engine.md` L13).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LoggedStep {
    pub(crate) value: u128,
    /// Cycle at which its data are there.
    pub(crate) done: u64,
    /// A translation, else an access.
    pub(crate) is_translation: bool,
}

/// Finished requests of the running instruction, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct StepLog {
    pub(crate) steps: Vec<LoggedStep>,
    pub(crate) cursor: usize,
    pub(crate) walk_mark: Option<usize>,
}

impl StepLog {
    /// The next step, if this run of the instruction has it already. An incomplete page walk
    /// stands where its translation will: the walk's accesses then answer, not the translation.
    #[inline]
    pub(crate) fn replay(&mut self, is_translation: bool) -> Option<LoggedStep> {
        let step = self.steps.get(self.cursor).copied()?;
        if step.is_translation != is_translation {
            assert!(is_translation, "model bug: a re-run asks for other steps");
            return None;
        }
        self.cursor += 1;
        Some(step)
    }

    /// Whether this run of the instruction has the next step already.
    pub(crate) fn has_next(&self) -> bool {
        self.cursor < self.steps.len()
    }

    #[inline]
    pub(crate) fn push(&mut self, value: u128, done: u64, is_translation: bool) {
        self.steps.push(LoggedStep { value, done, is_translation });
        self.cursor = self.steps.len();
        assert!(self.cursor <= STEPS_MAX, "model bug: an instruction takes too many steps");
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.steps.clear();
        self.cursor = 0;
        self.walk_mark = None;
    }
}

/// What an incomplete instruction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pending {
    /// Nothing: the next instruction has not begun.
    None,
    /// Its next access performs at this cycle.
    At(u64),
    /// The grant of a line.
    Line(LineAddr),
    /// The store buffer to be empty.
    BufferEmpty,
    /// A free store-buffer entry.
    BufferSpace,
    /// The drain of this store.
    Drained(u64),
    /// The answer of a device.
    Device,
    /// The end of a flush of this line.
    Flush(LineAddr),
    /// Answers of other cpus to invalidations.
    Answers,
    /// A rule at a point of the image.
    Rule,
}

/// The running instruction.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Current {
    pub(crate) d: u64,
    pub(crate) i: u64,
    /// Latest arrival of loaded data.
    pub(crate) data: u64,
    pub(crate) extra: u64,
    pub(crate) timing: OpTiming,
    pub(crate) serialises: bool,
    pub(crate) mispredicted: bool,
    /// How its accesses from here on stand to its neighbours.
    pub(crate) order: Order,
    /// Younger accesses wait for its end.
    pub(crate) acquires: bool,
    /// Younger instructions dispatch at this cycle or later.
    pub(crate) redirect: u64,
}

impl Current {
    /// Before `dispatch`: an instruction that asks for nothing is an ALU op at `time`.
    #[inline]
    pub(crate) fn start(&mut self, time: u64) {
        self.d = time;
        self.i = time;
        self.data = 0;
        self.extra = 0;
        self.serialises = false;
        self.mispredicted = false;
        self.order = Order::Plain;
        self.acquires = false;
        self.redirect = 0;
    }
}

/// A wait that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    /// What for.
    pub request: WaitRequest,
    /// First cycle of the wait.
    pub since: u64,
}

/// What a cpu does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunState {
    /// Executes.
    Running,
    /// Waits.
    Waiting(Wait),
    /// Repeats a loop that nothing has disturbed; its iterations are skipped.
    Spinning,
    /// Shut down.
    Shutdown,
}

/// An event that can end a wait, whether it did or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastEvent {
    /// A signal arrived.
    Signal {
        /// What.
        signal: Signal,
        /// Who sent it; `IpiId::DEVICE` for a device.
        from: CpuId,
        /// What became of it.
        received: Received,
    },
    /// The cpu's timer expired.
    Timer,
    /// The monitored line was written.
    MonitorWrite(LineAddr),
    /// A wait ended for a cause that was there before, or by its own deadline.
    Left(WakeCause),
}

/// An IPI that is pending at this cpu.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingIpi {
    pub(crate) vector: u8,
    pub(crate) accepted_ps: u64,
    pub(crate) masked_before_ps: u64,
    pub(crate) is_ipi: bool,
}

/// How long interrupts have been off on this cpu, waits left out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MaskClock {
    pub(crate) total_ps: u64,
    pub(crate) since_ps: Option<u64>,
    pub(crate) is_off: bool,
}

impl MaskClock {
    /// Total up to `now`.
    pub(crate) fn at(&self, now: u64) -> u64 {
        self.total_ps + self.since_ps.map_or(0, |s| now.saturating_sub(s))
    }

    /// Interrupts go off (or a wait with them off ends).
    pub(crate) fn start(&mut self, now: u64) {
        if self.since_ps.is_none() {
            self.since_ps = Some(now);
        }
    }

    /// They go on (or a wait begins); returns the length of the section.
    pub(crate) fn stop(&mut self, now: u64) -> u64 {
        let Some(since) = self.since_ps.take() else { return 0 };
        let length = now.saturating_sub(since);
        self.total_ps += length;
        length
    }
}

/// Engine state of one cpu.
#[derive(Clone, Debug)]
pub struct Thread {
    pub(crate) cpu: CpuId,
    pub(crate) now: u64,
    pub(crate) score: Scoreboard,
    pub(crate) stores: StoreBuffer,
    pub(crate) log: StepLog,
    pub(crate) current: Current,
    pub(crate) pending: Pending,
    /// The running instruction has begun and is not complete.
    pub(crate) begun: bool,
    pub(crate) run: RunState,
    pub(crate) monitor: MonitorState,
    pub(crate) timer: u64,
    pub(crate) code_changed: bool,
    pub(crate) drain_before_next: bool,
    pub(crate) spin: Spin,
    pub(crate) counters: CpuCounters,
    pub(crate) mask: MaskClock,
    pub(crate) pending_ipis: Vec<PendingIpi>,
    pub(crate) handler_began: Option<u8>,
    pub(crate) messages_sent: u64,
    /// Store exclusives so far, for their chance to fail.
    pub(crate) exclusives: u64,
    /// Result of the device access under way: a value of 64 bits, or `NOBODY`.
    pub(crate) device_value: Option<u128>,
    /// Invalidations of this cpu that others have not answered.
    pub(crate) answers_due: u64,
    /// Invalidations of others that this cpu has not answered: sender, and count of the stores that
    /// have to drain first.
    pub(crate) answers_owed: Vec<(CpuId, u64)>,
    /// The instruction at this address has passed its point.
    pub(crate) point_passed: bool,
    /// Passes of each watched point.
    pub(crate) passes: Vec<u64>,
    /// The last two points passed, the later first.
    pub(crate) last_points: [Option<u32>; 2],
    /// Addresses of unimplemented instructions that were reported.
    pub(crate) reported: Vec<u64>,
    /// Cycle and kind of the last event that could have ended a wait.
    pub(crate) last_wake_event: Option<(u64, LastEvent)>,
    /// Waits of which the machine was told.
    pub(crate) told_waits: u64,
    /// What it answered for this one: no end before this cycle, and cycles of exit to be added.
    pub(crate) power: Option<(u64, u64)>,
}

impl Thread {
    pub(crate) fn new(cpu: CpuId, config: &CoreConfig, run: RunState) -> Thread {
        Thread {
            cpu,
            now: 0,
            score: Scoreboard::new(&config.timing),
            stores: StoreBuffer::new(config.timing.store_buffer, config.order, config.mutation),
            log: StepLog::default(),
            current: Current::default(),
            pending: Pending::None,
            begun: false,
            run,
            monitor: MonitorState::Unarmed,
            timer: u64::MAX,
            code_changed: false,
            drain_before_next: false,
            spin: Spin::default(),
            counters: CpuCounters::default(),
            mask: MaskClock::default(),
            pending_ipis: Vec::new(),
            handler_began: None,
            messages_sent: 0,
            exclusives: 0,
            device_value: None,
            answers_due: 0,
            answers_owed: Vec::new(),
            point_passed: false,
            passes: Vec::new(),
            last_points: [None; 2],
            reported: Vec::new(),
            last_wake_event: None,
            told_waits: 0,
            power: None,
        }
    }

    /// Cycle of the cpu's next dispatch or access; `u64::MAX` when it has none of its own.
    #[inline]
    pub(crate) fn step_time(&self) -> u64 {
        match (self.run, self.pending) {
            (RunState::Running, Pending::None) => self.score.next_dispatch().max(self.now),
            (RunState::Running, Pending::At(t)) => t,
            _ => u64::MAX,
        }
    }

    /// What the instruction waits for, for reports.
    #[must_use]
    pub fn pending(&self) -> Pending {
        self.pending
    }

    /// What the cpu does.
    #[must_use]
    pub fn run_state(&self) -> RunState {
        self.run
    }

    /// The monitor, for reports.
    #[must_use]
    pub fn monitor(&self) -> MonitorState {
        self.monitor
    }

    /// Cycle up to which the cpu has come, for reports.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.now
    }

    /// Cycle and kind of the last event that could have ended a wait, for reports.
    #[must_use]
    pub fn last_wake_event(&self) -> Option<(u64, LastEvent)> {
        self.last_wake_event
    }

    /// Counters.
    #[must_use]
    pub fn counters(&self) -> &CpuCounters {
        &self.counters
    }

    /// Identity of the next message of this cpu.
    pub(crate) fn next_message(&mut self) -> IpiId {
        let n = self.messages_sent;
        self.messages_sent += 1;
        IpiId { from: self.cpu, n }
    }
}
