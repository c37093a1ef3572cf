//! arm64 machines: a GIC, whose redistributors are in the cpus, and firmware calls.

use std::sync::Arc;

use emu_arm64::cpu::ArmCpu;
use emu_arm64::defs::spsr;
use emu_arm64::gic::{FRAME_SIZE, GicConfig, Redistributor};
use emu_cpu::port::{DeviceAccess, Space};
use emu_sim::{CpuId, PhysAddr};

use crate::assemble::arm64::{affinity, cpu_config, cpu_identity};
use crate::bus::Request;
use crate::handover::{self, Arm64Entry, Handover, HandoverError};
use crate::map;
use crate::platform::Platform;

/// Devices of an arm64 machine.
#[derive(Clone, Debug)]
pub(crate) struct Arm64 {
    /// The redistributors of other cpus as a cpu sees them, which reads identities only.
    redistributors: Vec<Redistributor>,
}

impl Platform for Arm64 {
    type Cpu = ArmCpu;
    type Entry = Arm64Entry;
    const TEST_DEVICE: u64 = map::TEST_DEVICE_BASE;

    fn new(topology: &topology::Machine, cpus: usize) -> Arm64 {
        let frames = |cpu: usize| {
            let identity = cpu_identity(topology, cpu, cpus);
            identity.gic_frame.map(|_| {
                Redistributor::new(GicConfig {
                    affinity: identity.affinity(),
                    number: identity.number,
                    is_last: identity.is_last,
                })
            })
        };
        Arm64 { redistributors: (0..cpus).filter_map(frames).collect() }
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

    fn access(&mut self, _cpu: CpuId, a: &DeviceAccess, _out: &mut Vec<Request>) -> Option<u64> {
        match a.space {
            Space::Memory => self.redistributor(a),
            Space::Firmware | Space::Gicd | Space::Port => None,
        }
    }

    fn interrupts(cpu: &ArmCpu) -> (bool, Vec<u8>) {
        let pending = cpu.gic.redistributor.pending();
        let intids = (0..32).filter(|n| pending >> n & 1 != 0).collect();
        (u64::from(cpu.state.pstate.daif) & spsr::I == 0, intids)
    }
}

impl Arm64 {
    /// The frames of a redistributor, by a cpu that is not its own. Software looks for its own by
    /// what they say of themselves; their state is in that cpu and cannot be reached from here.
    fn redistributor(&self, a: &DeviceAccess) -> Option<u64> {
        let offset = a.addr.checked_sub(map::GICR_BASE)?;
        let frames = self.redistributors.get((offset / FRAME_SIZE) as usize)?;
        Some(if a.write.is_some() { 0 } else { frames.read(offset % FRAME_SIZE, a.size) })
    }
}
