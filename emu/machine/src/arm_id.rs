//! Identification registers of arm64 cpus as plain data, computed from the topology.
//!
//! Modelled: the machine's features that are implemented, the widths that the cpu has, caches in
//! CLIDR_EL1 and CCSIDR_EL1. Not modelled: AArch32 registers, which read as zero; differences
//! between the cores of one machine.
//!
//! Source: \[ArmARM\] "AArch64 System Register Descriptions". Status: spec.

use emu_arm64::defs::{Features, SysReg};
use topology::{Cache, Conduit, GicVersion, Machine};

const PFR0: SysReg = id(4, 0);
const DFR0: SysReg = id(5, 0);
const ISAR0: SysReg = id(6, 0);
const ISAR1: SysReg = id(6, 1);
const ISAR2: SysReg = id(6, 2);
const MMFR0: SysReg = id(7, 0);
const MMFR1: SysReg = id(7, 1);
const MMFR2: SysReg = id(7, 2);
const CLIDR: SysReg = SysReg::new(3, 1, 0, 0, 1);
const CTR: SysReg = SysReg::new(3, 3, 0, 0, 1);

const fn id(crm: u16, op2: u16) -> SysReg {
    SysReg::new(3, 0, 0, crm, op2)
}

/// A feature that is implemented: its name in machine files, what the cpu calls it where it asks,
/// and the field that shows it. Of two features of one field the larger value holds.
struct Shown {
    name: &'static str,
    flag: Features,
    register: SysReg,
    shift: u32,
    value: u64,
}

const fn shown(
    name: &'static str,
    flag: Features,
    register: SysReg,
    shift: u32,
    value: u64,
) -> Shown {
    Shown { name, flag, register, shift, value }
}

/// What needs no code of its own: nothing speculates, and CnP is a hint.
const ALWAYS: Features = Features::empty();

#[rustfmt::skip]
const SHOWN: &[Shown] = &[
    shown("csv2", ALWAYS, PFR0, 56, 1),
    shown("csv3", ALWAYS, PFR0, 60, 1),
    shown("pmuv3", ALWAYS, DFR0, 8, 1),
    shown("crc32", Features::CRC32, ISAR0, 16, 1),
    shown("lse", Features::LSE, ISAR0, 20, 2),
    shown("flagm", Features::FLAG_M, ISAR0, 52, 1),
    shown("tlbirange", Features::TLBI_RANGE, ISAR0, 56, 2),
    shown("dpb", Features::DPB, ISAR1, 0, 1),
    shown("lrcpc", Features::LRCPC, ISAR1, 20, 1),
    shown("sb", Features::SB, ISAR1, 36, 1),
    shown("wfxt", Features::WFXT, ISAR2, 0, 2),
    shown("hafdbs", Features::HAFDBS, MMFR1, 0, 2),
    shown("hpds", ALWAYS, MMFR1, 12, 1),
    shown("pan", Features::PAN, MMFR1, 20, 1),
    shown("pan2", Features::PAN2, MMFR1, 20, 2),
    shown("ttcnp", ALWAYS, MMFR2, 0, 1),
    shown("uao", Features::UAO, MMFR2, 4, 1),
    shown("lse2", Features::LSE2, MMFR2, 32, 1),
];

/// Shown as a value, not as a flag: floating point and SIMD are always there.
const WITHOUT_FLAG: [&str; 2] = ["fp", "advsimd"];

/// The features that arm64 cpus implement and, where the machine has them, offer.
#[must_use]
pub fn implemented() -> Vec<&'static str> {
    SHOWN.iter().map(|row| row.name).chain(WITHOUT_FLAG).collect()
}

/// What the cpus of a machine have and offer.
pub(crate) fn features(m: &Machine) -> Features {
    let rows = SHOWN.iter().filter(|row| m.features.has(row.name));
    rows.fold(Features::empty(), |all, row| all | row.flag)
}

/// Physical address widths by their code in ID_AA64MMFR0_EL1.PARange.
const PA_RANGES: [u32; 7] = [32, 36, 40, 42, 44, 48, 52];

/// Computes the identification registers of the cpus of a machine that is entered at `level`.
#[must_use]
pub fn registers(m: &Machine, level: u8) -> Vec<(SysReg, u64)> {
    let has_gic_registers = m.arm.gic.version == GicVersion::V3;
    let has_el3 = m.arm.conduit == Conduit::Smc;
    // AArch64 only: EL0, EL1, EL2, EL3.
    let levels = 0x11 | u64::from(level == 2) << 8 | u64::from(has_el3) << 12;
    let pa_range = PA_RANGES.iter().rposition(|bits| *bits <= m.arm.physical_bits);
    let mut registers = vec![
        (PFR0, levels | u64::from(has_gic_registers) << 24),
        // Armv8 debug with two breakpoints and two watchpoints.
        (DFR0, 6 | 1 << 12 | 1 << 20),
        (ISAR0, 0),
        (ISAR1, 0),
        (ISAR2, 0),
        // ASIDs of 16 bits; the granule of 4 KiB, neither 16 KiB nor 64 KiB.
        (MMFR0, pa_range.unwrap_or(0) as u64 | 2 << 4 | 0xf << 24),
        (MMFR1, 0),
        (MMFR2, 0),
        (CLIDR, clidr(m)),
        (CTR, CTR_VALUE),
    ];
    for row in SHOWN.iter().filter(|row| m.features.has(row.name)) {
        let found = registers.iter_mut().find(|r| r.0 == row.register);
        let Some((_, value)) = found else { continue };
        let old = *value >> row.shift & 15;
        *value = *value & !(15 << row.shift) | old.max(row.value) << row.shift;
    }
    registers
}

/// CTR_EL0: lines of 64 bytes, PIPT; IDC and DIC, as fetches see what was stored.
const CTR_VALUE: u64 = 1 << 31 | 3 << 28 | 4 << 24 | 4 << 20 | 4 << 16 | 3 << 14 | 4;

/// Unified caches beyond the first level, inner first.
fn outer_caches(m: &Machine) -> Vec<&Cache> {
    let core = &m.cores[0];
    core.l2.iter().chain(&m.llcs[core.llc].cache).collect()
}

fn clidr(m: &Machine) -> u64 {
    let outer = outer_caches(m);
    let types = (1..=outer.len()).fold(3, |all, level| all | 4 << (3 * level));
    // With IDC and DIC nothing is cleaned to unification.
    let coherence = 1 + outer.len() as u64;
    types | coherence << 24
}

/// Computes CCSIDR_EL1 by the value of CSSELR_EL1.
#[must_use]
pub fn cache_sizes(m: &Machine) -> Vec<(u64, u64)> {
    let core = &m.cores[0];
    let first = [(0, &core.l1d), (1, &core.l1i)];
    let outer = (1..).map(|level| level << 1).zip(outer_caches(m));
    first.into_iter().chain(outer).map(|(select, cache)| (select, ccsidr(cache))).collect()
}

/// The format of 32 bits: sets and ways less one, the line's size less four as a power of two.
fn ccsidr(cache: &Cache) -> u64 {
    let sets = (cache.sets().max(1) - 1).min(0x7fff);
    let ways = (u64::from(cache.ways.max(1)) - 1).min(0x3ff);
    sets << 13 | ways << 3 | (u64::from(cache.line.trailing_zeros()).saturating_sub(4) & 7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(set: &[&str]) -> Machine {
        let set: Vec<String> = set.iter().map(|s| (*s).to_owned()).collect();
        Machine::load("quad-arm", &set).expect("a machine")
    }

    fn value(m: &Machine, level: u8, register: SysReg) -> u64 {
        registers(m, level).iter().find(|r| r.0 == register).expect("it is there").1
    }

    #[test]
    fn features_show_where_the_machine_has_them() {
        let m = machine(&[]);
        assert_eq!(value(&m, 1, PFR0), 0x1100_0000_0100_1011);
        assert_eq!(value(&m, 2, PFR0), 0x1100_0000_0100_1111);
        assert_eq!(value(&m, 1, ISAR0), 0x0210_0000_0021_0000);
        assert_eq!(value(&m, 1, MMFR0), 0x0f00_0025);
        assert_eq!(value(&m, 1, MMFR1) >> 20 & 15, 2, "PAN2 beside PAN");
        let plain = machine(&["features=[\"fp\", \"advsimd\", \"pan\"]", "arm.atomics.store=near"]);
        assert_eq!(value(&plain, 1, ISAR0), 0);
        assert_eq!(value(&plain, 1, MMFR1), 1 << 20);
        assert_eq!(features(&plain), Features::PAN);
    }

    #[test]
    fn caches_show_level_by_level() {
        let m = machine(&[]);
        // L1 separate, L2 and L3 unified; coherent at level 3.
        assert_eq!(value(&m, 1, CLIDR), 0x0300_0123);
        let l1 = 255 << 13 | 3 << 3 | 2;
        let l2 = 1023 << 13 | 7 << 3 | 2;
        let l3 = 16383 << 13 | 15 << 3 | 2;
        assert_eq!(cache_sizes(&m), [(0, l1), (1, l1), (2, l2), (4, l3)]);
        assert_eq!(CTR_VALUE, 0xb444_c004);
    }
}
