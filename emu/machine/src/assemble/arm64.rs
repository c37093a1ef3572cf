//! Configuration and identity of arm64 cpus.

use emu_arm64::cpu::{CpuConfig, CpuIdentity, Gic};
use emu_arm64::gic::FRAME_SIZE;
use emu_arm64::tlb::TlbSizes;
use emu_sim::Freq;
use topology::{GicVersion, IdleEntry, Machine};

use super::{holes, tlb_shape};
use crate::{arm_id, map};

/// `MPIDR_EL1`: bits that are one, and that of Aff0 counting threads.
const MPIDR_RES1: u64 = 1 << 31;
const MPIDR_MT: u64 = 1 << 24;

/// Computes what the arm64 cpus of a machine that is entered at `entry_level` have in common.
pub(crate) fn cpu_config(m: &Machine, entry_level: u8) -> CpuConfig {
    let core = &m.core_types[0];
    let state = |wanted: fn(IdleEntry) -> Option<u32>| {
        let states = m.idle.iter().enumerate().filter(|(_, s)| s.enabled);
        states.filter_map(move |(i, s)| Some((wanted(s.entry)?, i as u8)))
    };
    CpuConfig {
        features: arm_id::features(m),
        ids: arm_id::registers(m, entry_level).into(),
        ccsidr: arm_id::cache_sizes(m),
        phys_addr_bits: m.arm.physical_bits,
        mmio: holes(m),
        tlb: TlbSizes {
            data: tlb_shape(&core.dtlb),
            code: tlb_shape(&core.itlb),
            second: tlb_shape(&core.l2_tlb),
            second_latency: core.l2_tlb.latency,
        },
        counter: Freq::from_khz(m.clocks.tsc_khz),
        cycle: Freq::from_khz(m.cores[0].core_khz),
        gic: match m.arm.gic.version {
            GicVersion::V2 => Gic::V2,
            GicVersion::V3 => Gic::V3,
        },
        entry_level,
        event_at_reset: m.arm.is_event_set,
        wfi_state: state(|entry| (entry == IdleEntry::Wfi).then_some(0)).next().map(|s| s.1),
        suspend_states: state(|entry| match entry {
            IdleEntry::Psci(parameter) => Some(parameter),
            _ => None,
        })
        .collect(),
    }
}

/// Affinity Aff3.Aff2.Aff1.Aff0 in 32 bits: the id by which signals find a cpu.
pub(crate) fn affinity(mpidr: u64) -> u32 {
    (mpidr >> 32 << 24 | mpidr & 0xff_ffff) as u32
}

/// Computes what cpu `cpu` of `cpus` has for itself.
pub(crate) fn cpu_identity(m: &Machine, cpu: usize, cpus: usize) -> CpuIdentity {
    let place = &m.cpus[cpu];
    let threads = if m.arm.is_multithreaded { MPIDR_MT } else { 0 };
    CpuIdentity {
        mpidr: place.mpidr | MPIDR_RES1 | threads,
        midr: u64::from(m.core_types[place.core_type].midr),
        is_boot: cpu == 0,
        gic_frame: Some(match m.arm.gic.version {
            GicVersion::V2 => map::GICD_BASE,
            GicVersion::V3 => map::GICR_BASE + cpu as u64 * FRAME_SIZE,
        }),
        number: cpu as u16,
        is_last: cpu + 1 == cpus,
    }
}
