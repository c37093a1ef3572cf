//! arm64 machines: a GIC, whose redistributors are in the cpus, and firmware calls.

use std::sync::Arc;

use emu_arm64::cpu::{ArmCpu, CpuIdentity};
use emu_arm64::defs::spsr;
use emu_arm64::gic::{FRAME_SIZE, GicConfig, Redistributor, message};
use emu_cpu::port::{DeviceAccess, Space};
use emu_cpu::wait::Signal;
use emu_sim::{CpuId, PhysAddr, SimTime};
use topology::GicVersion;

use crate::assemble::arm64::{affinity, cpu_config, cpu_identity};
use crate::bus::{Asked, Request};
use crate::dev::gicd::Gicd;
use crate::dev::gicv2::Gicv2;
use crate::dev::pl011::{self, Pl011};
use crate::dev::power::{self, Power};
use crate::dev::sp804::{self, Sp804};
use crate::dev::spi;
use crate::handover::{self, Arm64Entry, Handover, HandoverError};
use crate::map;
use crate::platform::Platform;

/// Devices of an arm64 machine.
#[derive(Clone, Debug)]
pub(crate) struct Arm64 {
    distributor: Distributor,
    uart: Pl011,
    power: Power,
    /// Present where idle states stop the timers of cpus.
    timer: Option<Sp804>,
}

/// The interrupt controller as far as it is no part of a cpu.
#[derive(Clone, Debug)]
enum Distributor {
    V2(Gicv2),
    V3 {
        gicd: Gicd,
        /// The redistributors of other cpus as a cpu sees them, which reads identities only.
        redistributors: Vec<Redistributor>,
    },
}

impl Platform for Arm64 {
    type Cpu = ArmCpu;
    type Entry = Arm64Entry;
    const TEST_DEVICE: u64 = map::TEST_DEVICE_BASE;
    const DMA_ENGINE: u64 = map::DMA_ENGINE_BASE;

    fn new(topology: &topology::Machine, cpus: usize) -> Arm64 {
        let identities = (0..cpus).map(|cpu| cpu_identity(topology, cpu, cpus));
        let affinities: Vec<u32> = identities.clone().map(|id| id.affinity()).collect();
        let memory = topology.ram().iter().map(|r| r.base..r.base + r.size).collect();
        // A cpu starts when the message that starts it has come, at the earliest.
        let start = SimTime(topology.ipi_wire.package.max(topology.arm.power_on));
        let frames = |id: CpuIdentity| {
            let (affinity, number, is_last) = (id.affinity(), id.number, id.is_last);
            Redistributor::new(GicConfig { affinity, number, is_last })
        };
        Arm64 {
            distributor: match topology.arm.gic.version {
                GicVersion::V2 => Distributor::V2(Gicv2::new(cpus)),
                GicVersion::V3 => Distributor::V3 {
                    gicd: Gicd::new(affinities.clone(), topology.arm.gic.has_range_selector),
                    redistributors: identities.map(frames).collect(),
                },
            },
            uart: Pl011::new(),
            power: Power::new(affinities, memory, start),
            timer: topology.stops_timers().then(|| Sp804::new(u64::from(map::TIMER_CLOCK_HZ))),
        }
    }

    fn cpu_maker(
        topology: &topology::Machine,
        cpus: usize,
        entry_level: u8,
    ) -> impl Fn(usize) -> ArmCpu {
        let shared = Arc::new(cpu_config(topology, entry_level));
        move |cpu| ArmCpu::new(shared.clone(), cpu_identity(topology, cpu, cpus))
    }

    fn arch_id(place: &topology::CpuPlace) -> u32 {
        affinity(place.mpidr)
    }

    fn hand_over(
        topology: &topology::Machine,
        start: PhysAddr,
        fdt: Vec<u8>,
    ) -> Result<Handover<Arm64Entry>, HandoverError> {
        handover::arm64(topology, start, fdt)
    }

    fn enter(cpu: &mut ArmCpu, e: &Arm64Entry) {
        cpu.state.pc = e.pc;
        cpu.state.x[0] = e.x0;
        cpu.state.set_x_sp(31, e.sp);
        cpu.registers_changed();
    }

    fn access(&mut self, asked: &Asked, out: &mut Vec<Request>) -> Option<u64> {
        let a = &asked.access;
        match a.space {
            Space::Memory if lies(a, map::UART_BASE, map::DEVICE_BYTES) => {
                Some(self.uart_access(a, out))
            }
            Space::Memory if self.timer.is_some() && lies(a, map::TIMER_BASE, sp804::BYTES) => {
                Some(self.timer_access(a, asked.now, out))
            }
            Space::Memory => self.distributor.access(asked.cpu, a, out),
            Space::Firmware => Some(self.firmware(asked, out)),
            Space::Gicd => Some(self.distributor.hear(asked.cpu, a, out)),
            Space::Port => None,
        }
    }

    fn due(&self) -> Option<SimTime> {
        self.timer.as_ref()?.next()
    }

    fn advance(&mut self, now: SimTime, out: &mut Vec<Request>) {
        if let Some(timer) = &mut self.timer {
            timer.advance(now);
            let is_up = timer.is_up();
            signal(self.distributor.set_line(map::TIMER_INTID, is_up), out);
        }
    }

    fn dma_interrupt(&mut self, is_up: bool, _route: u64, out: &mut Vec<Request>) {
        signal(self.distributor.set_line(map::DMA_ENGINE_INTID, is_up), out);
    }

    fn receive(&mut self, byte: u8, out: &mut Vec<Request>) -> bool {
        let has_room = self.uart.has_room();
        if has_room {
            let effects = self.uart.receive(byte);
            self.uart_effects(effects, out);
        }
        has_room
    }

    fn interrupts(cpu: &ArmCpu) -> (bool, Vec<u8>) {
        let pending = cpu.gic.redistributor.pending();
        let intids = (0..32).filter(|n| pending >> n & 1 != 0).collect();
        (u64::from(cpu.state.pstate.daif) & spsr::I == 0, intids)
    }
}

/// Whether an access is one of a device's bytes.
fn lies(a: &DeviceAccess, base: u64, bytes: u64) -> bool {
    (base..base + bytes).contains(&a.addr)
}

/// Signals what the distributor tells the cpus.
fn signal(effects: Vec<spi::Effect>, out: &mut Vec<Request>) {
    out.extend(effects.into_iter().map(|effect| {
        let (to, signal) = match effect {
            spi::Effect::Forward { cpu, intid, priority, group } => {
                (cpu, Signal::Forward { intid, priority, group })
            }
            spi::Effect::Retract { cpu, intid } => (cpu, Signal::Retract { intid, answer: None }),
            spi::Effect::Withdraw { cpu, intid } => {
                let addr = message::RELEASED << 16 | u64::from(intid);
                let answer = DeviceAccess { space: Space::Gicd, addr, size: 4, write: Some(0) };
                (cpu, Signal::Retract { intid, answer: Some(answer) })
            }
            spi::Effect::Sgi { cpu, intid, source } => {
                let logical = Some(u64::from(source.0));
                (cpu, Signal::Interrupt { vector: intid, level: false, logical })
            }
        };
        Request::Signal { to, signal, from: SimTime::ZERO }
    }));
}

impl Arm64 {
    fn uart_access(&mut self, a: &DeviceAccess, out: &mut Vec<Request>) -> u64 {
        let offset = a.addr - map::UART_BASE;
        let (value, effects) = match a.write {
            None => self.uart.read(offset, a.size),
            Some(value) => (0, self.uart.write(offset, value)),
        };
        self.uart_effects(effects, out);
        value
    }

    fn uart_effects(&mut self, effects: pl011::Effects, out: &mut Vec<Request>) {
        out.extend(effects.console.into_iter().map(Request::Console));
        if let Some(is_up) = effects.irq {
            signal(self.distributor.set_line(map::UART_INTID, is_up), out);
        }
    }

    fn timer_access(&mut self, a: &DeviceAccess, now: SimTime, out: &mut Vec<Request>) -> u64 {
        let Some(timer) = &mut self.timer else { return 0 };
        let offset = a.addr - map::TIMER_BASE;
        let value = match a.write {
            None => timer.read(offset, now),
            Some(value) => {
                timer.write(offset, value, now);
                0
            }
        };
        self.advance(now, out);
        value
    }

    fn firmware(&mut self, asked: &Asked, out: &mut Vec<Request>) -> u64 {
        let DeviceAccess { addr, write, .. } = asked.access;
        let (value, effect) = self.power.access(asked.cpu, addr, write, asked.now);
        out.extend(effect.map(|effect| match effect {
            power::Effect::PowerOn { cpu, entry, context, from } => {
                Request::Signal { to: cpu, signal: Signal::PowerOn { entry, context }, from }
            }
            power::Effect::SystemOff => Request::Exit(0),
            power::Effect::SystemReset => Request::Reset,
        }));
        value
    }
}

impl Distributor {
    fn access(&mut self, cpu: CpuId, a: &DeviceAccess, out: &mut Vec<Request>) -> Option<u64> {
        let bytes = match self {
            Distributor::V2(_) => map::GICD_V2_BYTES,
            Distributor::V3 { .. } => map::GICD_V3_BYTES,
        };
        let offset = a.addr.wrapping_sub(map::GICD_BASE);
        let (value, effects) = match (self, a.write) {
            (Distributor::V3 { redistributors, .. }, _) if offset >= bytes => {
                return redistributor(redistributors, a);
            }
            (Distributor::V2(_), _) if offset >= bytes => return None,
            (Distributor::V2(gic), None) => (gic.read(offset, a.size), Vec::new()),
            (Distributor::V2(gic), Some(value)) => (0, gic.write(cpu, offset, a.size, value)),
            (Distributor::V3 { gicd, .. }, None) => (gicd.read(offset, a.size), Vec::new()),
            (Distributor::V3 { gicd, .. }, Some(value)) => (0, gicd.write(offset, a.size, value)),
        };
        signal(effects, out);
        Some(value)
    }

    /// Hears a message of a cpu interface, and answers where it is a question.
    fn hear(&mut self, cpu: CpuId, a: &DeviceAccess, out: &mut Vec<Request>) -> u64 {
        let (answer, effects) = match self {
            Distributor::V2(gic) => gic.hear(cpu, a.addr),
            Distributor::V3 { gicd, .. } => (0, gicd.hear(cpu, a.addr, a.write.unwrap_or(0))),
        };
        signal(effects, out);
        answer
    }

    fn set_line(&mut self, intid: u32, is_up: bool) -> Vec<spi::Effect> {
        match self {
            Distributor::V2(gic) => gic.set_line(intid, is_up),
            Distributor::V3 { gicd, .. } => gicd.set_line(intid, is_up),
        }
    }
}

/// The frames of a redistributor, by a cpu that is not its own. Software looks for its own by what
/// they say of themselves; their state is in that cpu and cannot be reached from here.
fn redistributor(frames: &[Redistributor], a: &DeviceAccess) -> Option<u64> {
    let offset = a.addr.checked_sub(map::GICR_BASE)?;
    let frames = frames.get((offset / FRAME_SIZE) as usize)?;
    Some(if a.write.is_some() { 0 } else { frames.read(offset % FRAME_SIZE, a.size) })
}
