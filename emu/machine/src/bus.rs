//! The bus: which device answers at which address, and what its effects mean for the machine.
//!
//! Devices hold no handles; they return effects, and this is where those are read.

use std::collections::VecDeque;

use emu_cpu::port::{DeviceAccess, Space};
use emu_cpu::thread::RunState;
use emu_cpu::wait::{Signal, WaitReason};
use emu_sim::{CpuId, PhysAddr, SimTime};
use guests_abi::class::LineClass;
use guests_abi::device as abi;

use crate::dev::dma_engine::{self, DmaEngine};
use crate::dev::test_device::{Effect, Read, TestDevice};
use crate::platform::Platform;

/// Bytes of a device's page.
pub(crate) const PAGE: u64 = 0x1000;

/// An access that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Who made it.
    pub(crate) cpu: CpuId,
    /// What.
    pub(crate) access: DeviceAccess,
    /// When it arrived.
    pub(crate) now: SimTime,
}

/// What a device access asks of the machine beyond its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Append to the console.
    Console(u8),
    /// End the run.
    Exit(u64),
    /// Start the machine anew.
    Reset,
    /// Region mark.
    Region { id: u64, begin: bool },
    /// Record a sample.
    Sample { id: u64, value: u64 },
    /// Name a range of lines.
    Lines { address: PhysAddr, len: u64, class: LineClass },
    /// Copy a line.
    Copy { from: PhysAddr, to: PhysAddr },
    /// Send a signal to a cpu; it comes at this time at the earliest.
    Signal { to: CpuId, signal: Signal, from: SimTime },
    /// An access that no device has, for the first time.
    Unknown { addr: u64, write: bool },
}

/// The answer of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A value (0 for writes).
    Value(u64),
    /// No device is there.
    Nobody,
    /// The run state of this cpu, which the device has to ask for.
    RunStateOf(CpuId),
}

/// All devices of a machine: the test device, and those of its instruction set.
#[derive(Clone, Debug)]
pub(crate) struct Bus<P> {
    pub(crate) test: TestDevice,
    engine: Option<DmaEngine>,
    platform: P,
    /// Bytes from the outside that the console has not taken.
    input: VecDeque<u8>,
    reported: Vec<(u64, bool)>,
}

/// Distinct unknown addresses that are reported; later ones are silent.
const REPORTS_MAX: usize = 64;

impl<P: Platform> Bus<P> {
    pub(crate) fn new(topology: &topology::Machine, cpus: usize, seed: u64) -> Bus<P> {
        Bus {
            test: TestDevice::new(cpus, seed),
            engine: topology.dma_latency.map(|latency| {
                let ram = topology.ram().iter().map(|r| r.base..r.base + r.size).collect();
                DmaEngine::new(SimTime(latency), ram)
            }),
            platform: P::new(topology, cpus),
            input: VecDeque::new(),
            reported: Vec::new(),
        }
    }

    /// Performs one access.
    pub(crate) fn access(&mut self, asked: &Asked, out: &mut Vec<Request>) -> Answer {
        let a = &asked.access;
        let test = P::TEST_DEVICE..P::TEST_DEVICE + PAGE;
        if a.space == Space::Memory && test.contains(&a.addr) {
            return self.test_access(asked.cpu, a, out);
        }
        let engine = P::DMA_ENGINE..P::DMA_ENGINE + PAGE;
        if a.space == Space::Memory && engine.contains(&a.addr) && self.engine.is_some() {
            return self.engine_access(asked, out);
        }
        let value = self.platform.access(asked, out);
        self.feed(out);
        match value {
            Some(value) => Answer::Value(value),
            None => self.unknown(a, out),
        }
    }

    /// When a device does something next, unasked.
    pub(crate) fn due(&self) -> Option<SimTime> {
        let engine = self.engine.as_ref().and_then(DmaEngine::next);
        self.platform.due().into_iter().chain(engine).min()
    }

    /// Lets devices do what is due at `now`.
    pub(crate) fn advance(&mut self, now: SimTime, out: &mut Vec<Request>) {
        self.platform.advance(now, out);
        let mut effects = Vec::new();
        if let Some(engine) = &mut self.engine {
            engine.advance(now, &mut effects);
        }
        self.serve_engine(effects, out);
    }

    /// A line that the DMA engine has asked for is copied.
    pub(crate) fn copied(&mut self) {
        if let Some(engine) = &mut self.engine {
            engine.copied();
        }
    }

    fn engine_access(&mut self, asked: &Asked, out: &mut Vec<Request>) -> Answer {
        let (a, mut effects) = (&asked.access, Vec::new());
        let Some(engine) = &mut self.engine else { return Answer::Nobody };
        let offset = a.addr - P::DMA_ENGINE;
        let value = match a.write {
            None => engine.read(offset, a.size),
            Some(value) => engine.write(offset, a.size, value, asked.now, &mut effects).map(|()| 0),
        };
        self.serve_engine(effects, out);
        match value {
            Some(value) => Answer::Value(value),
            None => {
                self.unknown(a, out);
                Answer::Value(0)
            }
        }
    }

    fn serve_engine(&mut self, effects: Vec<dma_engine::Effect>, out: &mut Vec<Request>) {
        for effect in effects {
            match effect {
                dma_engine::Effect::Copy { from, to } => out.push(Request::Copy { from, to }),
                dma_engine::Effect::Interrupt { is_up, route } => {
                    self.platform.dma_interrupt(is_up, route, out);
                }
            }
        }
    }

    /// Bytes for the console's receiver, which takes them as it finds room.
    pub(crate) fn input(&mut self, bytes: &[u8], out: &mut Vec<Request>) {
        self.input.extend(bytes);
        self.feed(out);
    }

    fn feed(&mut self, out: &mut Vec<Request>) {
        while let Some(byte) = self.input.front() {
            if !self.platform.receive(*byte, out) {
                return;
            }
            self.input.pop_front();
        }
    }

    fn test_access(&mut self, cpu: CpuId, a: &DeviceAccess, out: &mut Vec<Request>) -> Answer {
        let (offset, size) = (a.addr - P::TEST_DEVICE, u32::from(a.size));
        let Some(value) = a.write else {
            return match self.test.read(cpu, offset, size) {
                Read::Value(value) => Answer::Value(value),
                Read::RunState(cpu) => Answer::RunStateOf(cpu),
                Read::Report(_) => {
                    out.push(Request::Unknown { addr: a.addr, write: false });
                    Answer::Value(0)
                }
            };
        };
        out.extend(match self.test.write(cpu, offset, size, value) {
            Effect::None => None,
            Effect::Console(byte) => Some(Request::Console(byte)),
            Effect::Exit(code) => Some(Request::Exit(code)),
            Effect::RegionBegin(id) => Some(Request::Region { id, begin: true }),
            Effect::RegionEnd(id) => Some(Request::Region { id, begin: false }),
            Effect::Sample { id, value } => Some(Request::Sample { id, value }),
            Effect::DeclareLines { address, len, class } => {
                Some(Request::Lines { address: PhysAddr(address), len, class })
            }
            Effect::Report(_) => Some(Request::Unknown { addr: a.addr, write: true }),
        });
        Answer::Value(0)
    }

    /// An access that no device has.
    fn unknown(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> Answer {
        let key = (a.addr, a.write.is_some());
        if self.reported.len() < REPORTS_MAX && !self.reported.contains(&key) {
            self.reported.push(key);
            out.push(Request::Unknown { addr: a.addr, write: a.write.is_some() });
        }
        Answer::Nobody
    }
}

/// The run state as the test device reports it.
pub(crate) fn abi_state(run: RunState) -> u64 {
    let state = match run {
        RunState::Running | RunState::Spinning => abi::RunState::Running,
        RunState::Shutdown => abi::RunState::Off,
        RunState::Waiting(w) => match w.request.reason {
            WaitReason::Halt => abi::RunState::Hlt,
            WaitReason::Monitor | WaitReason::Pause => abi::RunState::Mwait,
            WaitReason::Power => abi::RunState::PortIdle,
            WaitReason::Startup | WaitReason::Shutdown => abi::RunState::Off,
        },
    };
    state as u64
}
