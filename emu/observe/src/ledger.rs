//! The wake ledger: every interrupt and every end of an idle wait, with the bill of its parts.
//!
//! Modelled: for an interrupt sent by a cpu the chain from the sender's register write to the end
//! of the handler; for a store to a monitored line the idle exit. Not modelled: who stored (the
//! line trace knows), and interrupts still pending when the ledger ends.
//! The parts of one interrupt add up to the time from `began` to the handler's end.

use std::collections::BTreeMap;

use emu_sim::{CpuId, SimTime};

use crate::event::{Event, IpiId, Observer, Record, WakeCause, Wanted};
use crate::spread::Spread;

/// Most wakes that a ledger keeps; later ones are only counted.
pub const WAKES_MAX: usize = 1 << 20;

/// A part of the bill, in the order of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// From the issue of the register write to its leaving the sender.
    Sender,
    /// From the sender to acceptance at the receiver.
    Wire,
    /// Leaving the idle state, as far as the interrupt waited for it.
    IdleExit,
    /// Accepted but held up by a masked flag or shadow.
    Masked,
    /// Accepted and held up by nothing of the above: the instruction boundary, other interrupts.
    Pending,
    /// Entry microcode, up to the first instruction of the handler.
    Entry,
    /// The handler, up to its return.
    Handler,
}

impl Stage {
    /// All stages in order.
    pub const ALL: [Stage; 7] = [
        Stage::Sender,
        Stage::Wire,
        Stage::IdleExit,
        Stage::Masked,
        Stage::Pending,
        Stage::Entry,
        Stage::Handler,
    ];

    /// Name as tables and JSON print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Stage::Sender => "sender",
            Stage::Wire => "wire",
            Stage::IdleExit => "idle_exit",
            Stage::Masked => "masked",
            Stage::Pending => "pending",
            Stage::Entry => "entry",
            Stage::Handler => "handler",
        }
    }
}

/// What a row of the ledger is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WakeKind {
    /// An interrupt from a cpu ended an idle wait.
    IpiIdle,
    /// An interrupt from a cpu came while its receiver did not wait.
    IpiBusy,
    /// An interrupt from a timer or device ended an idle wait.
    InterruptIdle,
    /// An interrupt from a timer or device came while its receiver did not wait.
    InterruptBusy,
    /// A store to the monitored line ended an idle wait.
    Store,
    /// A wait ended otherwise.
    Other,
}

impl WakeKind {
    /// All kinds in order.
    pub const ALL: [WakeKind; 6] = [
        WakeKind::IpiIdle,
        WakeKind::IpiBusy,
        WakeKind::InterruptIdle,
        WakeKind::InterruptBusy,
        WakeKind::Store,
        WakeKind::Other,
    ];

    /// Name as tables and JSON print it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            WakeKind::IpiIdle => "ipi_idle",
            WakeKind::IpiBusy => "ipi_busy",
            WakeKind::InterruptIdle => "interrupt_idle",
            WakeKind::InterruptBusy => "interrupt_busy",
            WakeKind::Store => "store",
            WakeKind::Other => "other",
        }
    }
}

/// One row of the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// What it is about.
    pub kind: WakeKind,
    /// Who was interrupted or woken.
    pub cpu: CpuId,
    /// Sender, where a cpu sent it and the ledger saw that.
    pub from: Option<CpuId>,
    /// Vector, for interrupts.
    pub vector: Option<u8>,
    /// Beginning of the first stage that is known.
    pub began: SimTime,
    /// Picoseconds by `Stage as usize`; `None` where the stage does not apply or was not seen.
    pub stages: [Option<u64>; Stage::ALL.len()],
}

impl Wake {
    /// Returns one stage in ps.
    #[must_use]
    pub fn stage(&self, stage: Stage) -> Option<u64> {
        self.stages[stage as usize]
    }

    /// Returns the time from the sender's register write to the handler's first instruction, in
    /// ps; `None` unless a cpu sent it and the handler began.
    #[must_use]
    pub fn write_to_handler(&self) -> Option<u64> {
        self.stage(Stage::Sender)?;
        self.stage(Stage::Entry)?;
        Some(self.stages[..Stage::Handler as usize].iter().flatten().sum())
    }

    /// Returns `write_to_handler` less the time under a mask: the latency of delivery, in ps.
    #[must_use]
    pub fn delivery(&self) -> Option<u64> {
        Some(self.write_to_handler()? - self.stage(Stage::Masked).unwrap_or(0))
    }
}

/// A message on its way.
#[derive(Clone, Copy, Debug)]
struct Sent {
    from: CpuId,
    began: SimTime,
    left: SimTime,
}

/// A message that waits in the receiver's controller.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    vector: u8,
    at: SimTime,
    sent: Option<Sent>,
}

/// An end of a wait and whether an interrupt was billed for it.
#[derive(Clone, Copy, Debug)]
struct Exit {
    by_interrupt: bool,
    at: SimTime,
    resumes: SimTime,
}

/// An interrupt between its entry and the return of its handler.
#[derive(Clone, Copy, Debug)]
struct Open {
    wake: Wake,
    taken: SimTime,
    begun: Option<SimTime>,
}

#[derive(Clone, Debug, Default)]
struct Cpu {
    accepted: Vec<Accepted>,
    exit: Option<Exit>,
    open: Vec<Open>,
}

/// An observer that writes the ledger.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    wakes: Vec<Wake>,
    dropped: u64,
    merged: u64,
    in_flight: BTreeMap<(IpiId, CpuId), Sent>,
    cpus: Vec<Cpu>,
}

impl Ledger {
    /// Returns an empty ledger.
    #[must_use]
    pub fn new() -> Self {
        Ledger::default()
    }

    /// Returns the rows in the order in which they were complete.
    #[must_use]
    pub fn wakes(&self) -> &[Wake] {
        &self.wakes
    }

    /// Number of IPIs that found their vector pending.
    #[must_use]
    pub fn merged(&self) -> u64 {
        self.merged
    }

    /// Number of rows beyond `WAKES_MAX`, which were not kept.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Closes the handlers that have not returned: their last stage stays unknown.
    pub fn finish(&mut self) {
        for cpu in 0..self.cpus.len() {
            for open in std::mem::take(&mut self.cpus[cpu].open) {
                self.keep(open.wake);
            }
        }
        self.in_flight.clear();
    }

    /// Adds the rows of another run.
    pub fn absorb(&mut self, other: Ledger) {
        self.dropped += other.dropped;
        self.merged += other.merged;
        for wake in other.wakes {
            self.keep(wake);
        }
    }

    /// Summarises the rows by kind and stage.
    #[must_use]
    pub fn summary(&self) -> Vec<LedgerRow> {
        let of_kind = |kind| {
            let rows: Vec<&Wake> = self.wakes.iter().filter(|wake| wake.kind == kind).collect();
            let spread = |value: &dyn Fn(&Wake) -> Option<u64>| {
                Spread::of(&mut rows.iter().filter_map(|wake| value(wake)).collect::<Vec<_>>())
            };
            let stages = Stage::ALL.map(|stage| spread(&|wake| wake.stage(stage)));
            let write_to_handler = spread(&Wake::write_to_handler);
            LedgerRow { kind, count: rows.len() as u64, stages, write_to_handler }
        };
        WakeKind::ALL.into_iter().map(of_kind).filter(|row| row.count > 0).collect()
    }

    /// Order statistics of `Wake::delivery`; `None` when no IPI was delivered.
    #[must_use]
    pub fn delivery(&self) -> Option<Spread> {
        Spread::of(&mut self.wakes.iter().filter_map(Wake::delivery).collect::<Vec<_>>())
    }

    fn keep(&mut self, wake: Wake) {
        if self.wakes.len() < WAKES_MAX {
            self.wakes.push(wake);
        } else {
            self.dropped += 1;
        }
    }

    fn cpu(&mut self, cpu: CpuId) -> &mut Cpu {
        let n = cpu.index();
        if self.cpus.len() <= n {
            self.cpus.resize_with(n + 1, Cpu::default);
        }
        &mut self.cpus[n]
    }

    fn accept(&mut self, cpu: CpuId, at: SimTime, id: IpiId, vector: u8) {
        let sent = self.in_flight.remove(&(id, cpu));
        self.cpu(cpu).accepted.push(Accepted { vector, at, sent });
    }

    fn idle_exit(&mut self, cpu: CpuId, at: SimTime, cause: WakeCause, resumes: SimTime) {
        let by_interrupt = cause == WakeCause::Interrupt;
        self.cpu(cpu).exit = Some(Exit { by_interrupt, at, resumes });
        if by_interrupt {
            return;
        }
        let kind = if cause == WakeCause::MonitorStore { WakeKind::Store } else { WakeKind::Other };
        let mut stages = [None; Stage::ALL.len()];
        stages[Stage::IdleExit as usize] = Some(resumes.saturating_sub(at).ps());
        self.keep(Wake { kind, cpu, from: None, vector: None, began: at, stages });
    }

    fn take(&mut self, cpu: CpuId, taken: SimTime, vector: u8, masked: SimTime) {
        let place = self.cpu(cpu);
        let waiting = place.accepted.iter().position(|accepted| accepted.vector == vector);
        let accepted = waiting.map(|n| place.accepted.remove(n));
        let exit = place.exit.take();
        let from_wait = exit.is_some_and(|exit| exit.by_interrupt);
        let wake = bill(cpu, vector, taken, masked, accepted, exit);
        let kind = match (accepted.is_some(), from_wait) {
            (true, true) => WakeKind::IpiIdle,
            (true, false) => WakeKind::IpiBusy,
            (false, true) => WakeKind::InterruptIdle,
            (false, false) => WakeKind::InterruptBusy,
        };
        let wake = Wake { kind, ..wake };
        self.cpu(cpu).open.push(Open { wake, taken, begun: None });
    }

    fn handler_begin(&mut self, cpu: CpuId, at: SimTime) {
        if let Some(open) = self.cpu(cpu).open.last_mut().filter(|open| open.begun.is_none()) {
            open.begun = Some(at);
            open.wake.stages[Stage::Entry as usize] = Some((at - open.taken).ps());
        }
    }

    fn handler_end(&mut self, cpu: CpuId, at: SimTime) {
        let Some(mut open) = self.cpu(cpu).open.pop() else { return };
        open.wake.stages[Stage::Handler as usize] = open.begun.map(|begun| (at - begun).ps());
        self.keep(open.wake);
    }
}

/// Splits the time of an interrupt up to its entry into stages.
fn bill(
    cpu: CpuId,
    vector: u8,
    taken: SimTime,
    masked: SimTime,
    accepted: Option<Accepted>,
    exit: Option<Exit>,
) -> Wake {
    let mut stages = [None; Stage::ALL.len()];
    let sent = accepted.and_then(|accepted| accepted.sent);
    if let (Some(accepted), Some(sent)) = (accepted, sent) {
        stages[Stage::Sender as usize] = Some((sent.left.saturating_sub(sent.began)).ps());
        stages[Stage::Wire as usize] = Some(accepted.at.saturating_sub(sent.left).ps());
    }
    // Without an acceptance record the wait of the interrupt began with the exit it caused.
    let from_exit = exit.filter(|exit| exit.by_interrupt).map(|exit| exit.at);
    let waited_from = accepted.map(|accepted| accepted.at).or(from_exit).unwrap_or(taken);
    let waited = taken.saturating_sub(waited_from).ps();
    let leaving = exit
        .map_or(0, |exit| exit.resumes.min(taken).saturating_sub(exit.at.max(waited_from)).ps());
    // MWAIT may end on an interrupt that is masked: that time is billed to the exit.
    let under_mask = masked.ps().min(waited - leaving);
    stages[Stage::IdleExit as usize] = exit.map(|_| leaving);
    stages[Stage::Masked as usize] = Some(under_mask);
    stages[Stage::Pending as usize] = Some(waited - leaving - under_mask);
    let began = sent.map_or(waited_from, |sent| sent.began);
    let from = sent.map(|sent| sent.from);
    Wake { kind: WakeKind::Other, cpu, from, vector: Some(vector), began, stages }
}

impl Observer for Ledger {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, ..Wanted::default() }
    }

    fn record(&mut self, record: &Record) {
        let (cpu, time) = (record.cpu, record.time);
        match record.event {
            Event::IpiSent { id, to, began, .. } => {
                self.in_flight.insert((id, to), Sent { from: cpu, began, left: time });
            }
            Event::IpiAccepted { id, vector } => self.accept(cpu, time, id, vector),
            Event::IpiMerged { id, .. } => {
                self.in_flight.remove(&(id, cpu));
                self.merged += 1;
            }
            Event::IdleExit { cause, resumes, .. } => self.idle_exit(cpu, time, cause, resumes),
            Event::IdleEnter { .. } => self.cpu(cpu).exit = None,
            Event::InterruptTaken { vector, masked } => self.take(cpu, time, vector, masked),
            Event::HandlerBegin { .. } => self.handler_begin(cpu, time),
            Event::HandlerEnd => self.handler_end(cpu, time),
            _ => {}
        }
    }
}

/// Summary of the rows of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct LedgerRow {
    /// Kind.
    pub kind: WakeKind,
    /// How many.
    pub count: u64,
    /// By `Stage as usize`; `None` where no row has the stage.
    pub stages: [Option<Spread>; Stage::ALL.len()],
    /// From the sender's register write to the handler's first instruction.
    pub write_to_handler: Option<Spread>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: IpiId = IpiId { from: CpuId(0), n: 7 };

    fn run(records: &[(u64, u32, Event)]) -> Ledger {
        let mut ledger = Ledger::new();
        for &(ns, cpu, event) in records {
            ledger.record(&Record { time: SimTime::from_ns(ns), cpu: CpuId(cpu), event });
        }
        ledger.finish();
        ledger
    }

    fn sent(began: u64) -> Event {
        Event::IpiSent { id: ID, to: CpuId(1), vector: 0xfb, began: SimTime::from_ns(began) }
    }

    fn exit(cause: WakeCause, since: u64, resumes: u64) -> Event {
        let (since, resumes) = (SimTime::from_ns(since), SimTime::from_ns(resumes));
        Event::IdleExit { cause, state: Some(0), since, resumes }
    }

    fn taken(masked: u64) -> Event {
        Event::InterruptTaken { vector: 0xfb, masked: SimTime::from_ns(masked) }
    }

    fn ns(wake: &Wake) -> [Option<u64>; 7] {
        wake.stages.map(|stage| stage.map(|ps| ps / 1000))
    }

    #[test]
    fn an_ipi_to_an_idle_cpu_is_billed_without_gap() {
        let ledger = run(&[
            (110, 0, sent(100)),
            (150, 1, Event::IpiAccepted { id: ID, vector: 0xfb }),
            (150, 1, exit(WakeCause::Interrupt, 20, 250)),
            (260, 1, taken(5)),
            (300, 1, Event::HandlerBegin { vector: 0xfb }),
            (420, 1, Event::HandlerEnd),
        ]);
        let wake = ledger.wakes()[0];
        assert_eq!(wake.kind, WakeKind::IpiIdle);
        assert_eq!(wake.from, Some(CpuId(0)));
        let expected = [10, 40, 100, 5, 5, 40, 120].map(Some);
        assert_eq!(ns(&wake), expected);
        assert_eq!(wake.write_to_handler(), Some(200_000));
        assert_eq!(wake.delivery(), Some(195_000));
    }

    #[test]
    fn an_ipi_to_a_masked_cpu_is_pending_under_the_mask() {
        let ledger = run(&[
            (110, 0, sent(100)),
            (150, 1, Event::IpiAccepted { id: ID, vector: 0xfb }),
            (550, 1, taken(390)),
            (590, 1, Event::HandlerBegin { vector: 0xfb }),
        ]);
        let wake = ledger.wakes()[0];
        assert_eq!(wake.kind, WakeKind::IpiBusy);
        assert_eq!(ns(&wake), [Some(10), Some(40), None, Some(390), Some(10), Some(40), None]);
    }

    #[test]
    fn a_store_wake_has_an_exit_and_a_timer_has_no_sender() {
        let ledger = run(&[
            (100, 2, exit(WakeCause::MonitorStore, 10, 180)),
            (200, 2, Event::IdleEnter { state: Some(0) }),
            (300, 2, exit(WakeCause::Interrupt, 200, 380)),
            (380, 2, taken(0)),
            (400, 2, Event::HandlerBegin { vector: 0xfb }),
            (450, 2, Event::HandlerEnd),
        ]);
        let kinds: Vec<_> = ledger.summary().iter().map(|row| (row.kind, row.count)).collect();
        assert_eq!(kinds, [(WakeKind::InterruptIdle, 1), (WakeKind::Store, 1)]);
        assert_eq!(ns(&ledger.wakes()[0])[2], Some(80));
        assert_eq!(ns(&ledger.wakes()[1])[2], Some(80));
        assert_eq!(ledger.delivery(), None);
    }

    #[test]
    fn a_merged_ipi_is_counted_and_bills_nothing() {
        let second = IpiId { n: 8, ..ID };
        let ledger = run(&[
            (110, 0, sent(100)),
            (150, 1, Event::IpiAccepted { id: ID, vector: 0xfb }),
            (160, 1, Event::IpiMerged { id: second, vector: 0xfb }),
        ]);
        assert_eq!((ledger.merged(), ledger.wakes().len()), (1, 0));
    }
}
