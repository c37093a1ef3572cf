//! The bus: which device answers at which address, and what its effects mean for the machine.
//!
//! Devices hold no handles; they return effects, and this is where those are read.

use emu_cpu::port::{DeviceAccess, Space};
use emu_cpu::thread::RunState;
use emu_cpu::wait::WaitReason;
use emu_sim::{CpuId, PhysAddr};
use guests_abi::class::LineClass;
use guests_abi::device as abi;

use crate::dev::ioapic::{IoApic, Message};
use crate::dev::test_device::{Effect, Read, TestDevice};
use crate::dev::uart16550::{self, Uart16550};

/// Where devices live (`guest-abi.md`, x86 map).
mod map {
    pub(super) const IOAPIC: u64 = 0xfec0_0000;
    pub(super) const TEST: u64 = 0xfed8_0000;
    pub(super) const PAGE: u64 = 0x1000;
    pub(super) const COM1: u64 = 0x3f8;
}

/// What a device access asks of the machine beyond its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Append to the console.
    Console(u8),
    /// End the run.
    Exit(u64),
    /// Region mark.
    Region { id: u64, begin: bool },
    /// Record a sample.
    Sample { id: u64, value: u64 },
    /// Name a range of lines.
    Lines { address: PhysAddr, len: u64, class: LineClass },
    /// Send interrupt messages.
    Interrupts(Vec<Message>),
    /// An access that no device has, for the first time.
    Unknown { addr: u64, write: bool },
}

/// The answer of the bus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// A value (0 for writes).
    Value(u64),
    /// The run state of this cpu, which the device has to ask for.
    RunStateOf(CpuId),
}

/// All devices of a machine.
#[derive(Clone, Debug)]
pub(crate) struct Bus {
    pub(crate) test: TestDevice,
    uart: Uart16550,
    ioapic: IoApic,
    reported: Vec<(u64, bool)>,
}

/// Distinct unknown addresses that are reported; later ones are silent.
const REPORTS_MAX: usize = 64;

impl Bus {
    pub(crate) fn new(cpus: usize, seed: u64) -> Bus {
        Bus {
            test: TestDevice::new(cpus, seed),
            uart: Uart16550::new(),
            ioapic: IoApic::new(),
            reported: Vec::new(),
        }
    }

    /// Performs one access of `cpu`.
    pub(crate) fn access(
        &mut self,
        cpu: CpuId,
        a: &DeviceAccess,
        out: &mut Vec<Request>,
    ) -> Answer {
        let in_page = |base: u64| a.addr >= base && a.addr < base + map::PAGE;
        match a.space {
            Space::Memory if in_page(map::TEST) => self.test_access(cpu, a, out),
            Space::Memory if in_page(map::IOAPIC) => self.ioapic_access(a, out),
            Space::Port
                if (map::COM1..map::COM1 + u64::from(uart16550::PORTS)).contains(&a.addr) =>
            {
                self.uart_access(a, out)
            }
            _ => self.unknown(a, out),
        }
    }

    fn test_access(&mut self, cpu: CpuId, a: &DeviceAccess, out: &mut Vec<Request>) -> Answer {
        let (offset, size) = (a.addr - map::TEST, u32::from(a.size));
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

    fn ioapic_access(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> Answer {
        let offset = a.addr - map::IOAPIC;
        match a.write {
            None => Answer::Value(u64::from(self.ioapic.read(offset))),
            Some(value) => {
                let messages = self.ioapic.write(offset, value as u32);
                if !messages.is_empty() {
                    out.push(Request::Interrupts(messages));
                }
                Answer::Value(0)
            }
        }
    }

    fn uart_access(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> Answer {
        let offset = (a.addr - map::COM1) as u16;
        let (value, effects) = match a.write {
            None => {
                let (value, effects) = self.uart.read(offset);
                (u64::from(value), effects)
            }
            Some(value) => (0, self.uart.write(offset, value as u8)),
        };
        if let Some(byte) = effects.console {
            out.push(Request::Console(byte));
        }
        if let Some(level) = effects.irq {
            let messages = self.ioapic.set_pin(uart16550::COM1_PIN, level);
            if !messages.is_empty() {
                out.push(Request::Interrupts(messages));
            }
        }
        Answer::Value(value)
    }

    /// An access that no device has.
    fn unknown(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> Answer {
        let key = (a.addr, a.write.is_some());
        if self.reported.len() < REPORTS_MAX && !self.reported.contains(&key) {
            self.reported.push(key);
            out.push(Request::Unknown { addr: a.addr, write: a.write.is_some() });
        }
        // An access that nobody answers reads all ones.
        Answer::Value(if a.write.is_some() { 0 } else { u64::MAX >> (64 - 8 * u32::from(a.size)) })
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
