//! Who waits for what, since when: the machine's side of the stall report.

use emu_cpu::isa::{Isa, Received};
use emu_cpu::thread::{LastEvent, Pending, RunState};
use emu_cpu::wait::{MonitorState, Signal, WaitReason, WakeCause};
use emu_mem::directory::{self, Occupant};
use emu_observe::{BusyLine, StallReport, StalledCpu, Waiting};
use emu_sim::{CoreId, CpuId, Freq, LineAddr, NodeRef};

use crate::platform::Platform;
use crate::system::System;

impl<P: Platform> System<P> {
    /// Says of every cpu what it waits for and what last reached it, and which lines are busy.
    pub(crate) fn stall_report(&self) -> StallReport {
        let mut busy: Vec<directory::BusyLine> =
            self.llcs.iter().flat_map(|llc| llc.busy_lines(&self.paths)).collect();
        let names = self.point_names();
        let cpus = (0..self.places.len() as u32).map(CpuId);
        let cpus = cpus.map(|cpu| self.stalled(cpu, &busy, &names)).collect();
        busy.extend(self.homes.iter().flat_map(emu_mem::home::Home::busy_lines));
        busy.sort_by_key(|line| line.line);
        let busy_lines = busy.iter().map(busy_line).collect();
        StallReport { time: self.now, cpus, busy_lines }
    }

    fn stalled(&self, cpu: CpuId, busy: &[directory::BusyLine], names: &[String]) -> StalledCpu {
        let (core, smt) = self.places[cpu.index()];
        let clock = Freq::from_khz(self.topology.cores[core].core_khz);
        let thread = self.cores[core].thread(smt);
        let isa = self.cores[core].isa(smt);
        let mut since = thread.now();
        let waiting = match thread.run_state() {
            RunState::Waiting(wait) => {
                since = wait.since;
                asleep(wait.request.reason, thread.monitor())
            }
            RunState::Shutdown => Waiting::Shutdown,
            RunState::Spinning => Waiting::Spin,
            RunState::Running => match thread.pending() {
                Pending::None | Pending::At(_) => Waiting::Nothing,
                Pending::Line(line) => Waiting::Line { line, write: is_write(busy, line, core) },
                Pending::BufferEmpty | Pending::BufferSpace | Pending::Drained(_) => {
                    Waiting::Stores
                }
                Pending::Device => Waiting::Device,
                Pending::Answers => Waiting::Answers,
                Pending::Flush(line) => Waiting::Flush { line },
                Pending::Rule => {
                    let point = self.cores[core].last_points(smt)[0];
                    let name = point.and_then(|point| names.get(point as usize));
                    Waiting::Held { point: name.cloned().unwrap_or_default() }
                }
            },
        };
        let pc = isa.pc();
        let (interrupts_enabled, pending) = P::interrupts(isa);
        let symbols = self.image.as_deref().map(|image| &image.symbols);
        StalledCpu {
            cpu,
            waiting,
            since: clock.edge(since),
            pc,
            symbol: symbols.filter(|all| all.at(pc).is_some()).map(|all| all.describe(pc)),
            interrupts_enabled,
            pending,
            last_wake: thread.last_wake_event().map(|(at, what)| (clock.edge(at), words(what))),
        }
    }
}

fn asleep(reason: WaitReason, monitor: MonitorState) -> Waiting {
    match reason {
        WaitReason::Halt => Waiting::Hlt,
        WaitReason::Monitor => {
            let line = match monitor {
                MonitorState::Armed(line) | MonitorState::Reserved(line) => Some(line),
                MonitorState::Unarmed | MonitorState::Triggered => None,
            };
            Waiting::Mwait { line }
        }
        WaitReason::Pause => Waiting::Time,
        WaitReason::Power => Waiting::Port,
        WaitReason::Startup => Waiting::Start,
        WaitReason::Shutdown => Waiting::Shutdown,
    }
}

/// Whether the core's request for this line, where its LLC knows of it, is a write.
fn is_write(busy: &[directory::BusyLine], line: LineAddr, core: usize) -> bool {
    let core = NodeRef::Core(CoreId(core as u32));
    let is_its = |b: &&directory::BusyLine| b.line == line && b.requester == Some(core);
    busy.iter().find(is_its).is_some_and(|b| b.txn == Occupant::Write)
}

fn busy_line(b: &directory::BusyLine) -> BusyLine {
    let what = match b.txn {
        Occupant::Reads => "reads",
        Occupant::Read => "a read",
        Occupant::Write => "a write",
        Occupant::Flush => "a flush",
        Occupant::Snoop => "a snoop",
        Occupant::Access => "an access",
    };
    let from = b.requester.map_or_else(String::new, |node| format!(" of {}", node_name(node)));
    let nodes: Vec<String> = b.waiting_for.iter().map(|node| node_name(*node)).collect();
    let nodes = if nodes.is_empty() { "nobody".to_owned() } else { nodes.join(", ") };
    let waits_for = format!("{what}{from} waits for {nodes}");
    BusyLine { line: b.line, waits_for, queued: b.queue as u64 }
}

fn node_name(node: NodeRef) -> String {
    match node {
        NodeRef::Core(core) => format!("core {}", core.0),
        NodeRef::Llc(llc) => format!("LLC {}", llc.0),
        NodeRef::Home(home) => format!("home {}", home.0),
        NodeRef::Device(device) => format!("device {device}"),
        NodeRef::Machine => "the machine".to_owned(),
    }
}

fn words(event: LastEvent) -> String {
    match event {
        LastEvent::Signal { signal, from, received } => {
            let what = match signal {
                Signal::Interrupt { vector, .. } => format!("interrupt {vector:#04x}"),
                Signal::Nmi => "NMI".to_owned(),
                Signal::Init => "INIT".to_owned(),
                Signal::Startup(_) => "start-up message".to_owned(),
                Signal::Event => "event".to_owned(),
                Signal::Forward { intid, .. } => format!("shared interrupt {intid}"),
                Signal::Retract { intid, .. } => format!("end of shared interrupt {intid}"),
                Signal::PowerOn { .. } => "power-on".to_owned(),
                Signal::Invalidate { .. } => "invalidation".to_owned(),
            };
            let from =
                if from.0 == u32::MAX { "a device".to_owned() } else { format!("cpu{}", from.0) };
            let fate = match received {
                Received::Accepted => "",
                Received::Merged => ", which was pending already",
                Received::Ignored => ", not accepted",
            };
            format!("{what} from {from}{fate}")
        }
        LastEvent::Timer => "end of its timer".to_owned(),
        LastEvent::MonitorWrite(line) => format!("store to line {:#x}", line.base().0),
        LastEvent::Left(cause) => {
            let cause = match cause {
                WakeCause::MonitorStore => "a store",
                WakeCause::Interrupt => "an interrupt that was pending",
                WakeCause::Nmi => "an NMI that was pending",
                WakeCause::Reset => "INIT or a start-up message",
                WakeCause::Event => "an event",
                WakeCause::Timeout => "its deadline",
                WakeCause::Spurious => "no cause",
            };
            format!("end of a wait by {cause}")
        }
    }
}
