//! Configuration and identity of x86 cpus.

use std::sync::Arc;

use emu_sim::{ApicId, Freq};
use emu_x86::cpu::{CpuConfig, CpuIdentity, CpuidRow, IdleTable};
use emu_x86::defs::{Features, Vendor};
use emu_x86::tlb::TlbSizes;
use topology::IdleEntry;

use super::{holes, tlb_shape};
use crate::cpuid::{self, Feature};

fn idle_table(m: &topology::Machine) -> IdleTable {
    let mut table = IdleTable::default();
    for (i, s) in m.idle.iter().enumerate().filter(|(_, s)| s.enabled) {
        let i = i as u8;
        match s.entry {
            IdleEntry::Hlt => table.hlt = Some(i),
            IdleEntry::Mwait(hint) => table.mwait.push((hint, i)),
            IdleEntry::Port(port) => table.ports.push((port, i)),
            IdleEntry::Wfi | IdleEntry::Psci(_) => {}
        }
    }
    table
}

/// The CPUID features that x86 cpus implement and, where the machine has them, offer.
#[must_use]
pub fn implemented_features() -> Vec<Feature> {
    Feature::ALL.iter().copied().filter(|f| is_implemented(*f)).collect()
}

fn is_implemented(f: Feature) -> bool {
    // SSE4.2 is not whole (no string compares): CRC32 runs, and CPUID does not offer the rest.
    if f.name() == "sse4_2" {
        return false;
    }
    const BASELINE: [&str; 19] = [
        "arat",
        "nonstop_tsc",
        "topoext",
        "fpu",
        "de",
        "pse",
        "tsc",
        "msr",
        "pae",
        "cx8",
        "apic",
        "pge",
        "cmov",
        "pat",
        "pse36",
        "clflush",
        "fxsr",
        "sse",
        "sse2",
    ];
    BASELINE.contains(&f.name()) || x86_feature(f.name()).is_some()
}

/// The cpu's own flag for a feature name of the topology.
fn x86_feature(name: &str) -> Option<Features> {
    Some(match name {
        "monitor" => Features::MONITOR,
        "monitorx" | "mwaitx" => Features::MONITORX,
        "waitpkg" => Features::WAITPKG,
        "tsc_deadline" => Features::TSC_DEADLINE,
        "x2apic" => Features::X2APIC,
        "rdtscp" => Features::RDTSCP,
        "rdpid" => Features::RDPID,
        "fsgsbase" => Features::FSGSBASE,
        "smep" => Features::SMEP,
        "smap" => Features::SMAP,
        "umip" => Features::UMIP,
        "pcid" => Features::PCID,
        "invpcid" => Features::INVPCID,
        "la57" => Features::LA57,
        "pdpe1gb" => Features::PAGE_1G,
        "nx" => Features::NX,
        "xsave" => Features::XSAVE,
        "syscall" => Features::SYSCALL,
        "serialize" => Features::SERIALIZE,
        "bmi1" => Features::BMI1,
        "bmi2" => Features::BMI2,
        "lzcnt" | "abm" => Features::LZCNT,
        "popcnt" => Features::POPCNT,
        "cx16" => Features::CX16,
        "movbe" => Features::MOVBE,
        "adx" => Features::ADX,
        "clflushopt" => Features::CLFLUSHOPT,
        "clwb" => Features::CLWB,
        "prefetchw" => Features::PREFETCHW,
        "lm" => Features::LONG_MODE,
        "lahf_lm" => Features::LAHF_LM,
        "sse4_2" | "crc32" => Features::SSE42,
        _ => return None,
    })
}

/// Computes what the x86 cpus have in common.
pub(crate) fn cpu_config(m: &topology::Machine) -> CpuConfig {
    let mut features = Features::LONG_MODE | Features::SYSCALL | Features::SYSENTER;
    for name in &m.features.names {
        if let Some(f) = x86_feature(name) {
            features |= f;
        }
    }
    let core = &m.core_types[0];
    CpuConfig {
        vendor: if m.identity.vendor == "GenuineIntel" { Vendor::Intel } else { Vendor::Amd },
        features,
        phys_addr_bits: m.identity.physical_bits.clamp(36, 52),
        mmio: holes(m),
        tlb: TlbSizes {
            data: tlb_shape(&core.dtlb),
            code: tlb_shape(&core.itlb),
            second: tlb_shape(&core.l2_tlb),
            second_latency: core.l2_tlb.latency,
        },
        tsc: Freq::from_khz(m.clocks.tsc_khz),
        apic_timer: Freq::from_khz(m.clocks.apic_timer_hz / 1000),
        idle: idle_table(m),
        icr_ordered: m.apic.icr_ordered,
        starts_in_x2apic: m.apic.mode == topology::ApicMode::X2apic,
    }
}

/// Computes what cpu `cpu` has for itself.
pub(crate) fn cpu_identity(m: &topology::Machine, cpu: usize) -> CpuIdentity {
    let table = cpuid::leaves(m, cpu, &implemented_features());
    let rows: Arc<[CpuidRow]> = table
        .rows()
        .iter()
        .map(|r| CpuidRow { leaf: r.leaf, subleaf: r.subleaf, regs: r.registers })
        .collect();
    CpuIdentity { apic_id: ApicId(m.cpus[cpu].apic_id), is_bsp: cpu == 0, cpuid: rows }
}
