//! Published figures that results are printed beside. They are never inputs of a bench.

use serde::Serialize;

use crate::c2c::Atomics;

/// A published value of one variant of ipistorm, as ratio to the baseline.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedRatio {
    /// Id of the row in this project's list of published results.
    pub id: &'static str,
    /// Runtime over that of `need_resched`.
    pub ratio: f64,
    /// A: primary target; B: ordering and rough size.
    pub class: &'static str,
}

/// Machine on which the ipistorm figures were published.
pub(crate) const IPISTORM_MACHINE: &str = "epyc-7763-2s";

/// Variant that the figures are relative to.
pub(crate) const IPISTORM_BASELINE: &str = "need_resched";

/// Normalised runtime of ipistorm, 100000 calls from CPU 8 to CPU 16 of a 2 x 64-core EPYC of the
/// third generation, boost on, C2 off.
///
/// Source: cover letter of "Introducing TIF_NOTIFY_IPI flag", linux-kernel, March 2024. The
/// baseline is unstable: the same author's `revert` was 0.66, 0.81, 0.41 and 0.40 in four runs.
pub(crate) const IPISTORM: [(&str, PublishedRatio); 3] = [
    ("need_resched", PublishedRatio { id: "R0.1", ratio: 1.0, class: "A" }),
    ("revert", PublishedRatio { id: "R0.2", ratio: 0.81, class: "B" }),
    ("notify_ipi", PublishedRatio { id: "R0.3", ratio: 0.20, class: "B" }),
];

/// Published pairs (`revert`, `notify_ipi`) of the same benchmark on the same kind of machine.
///
/// Source: R0.2 and R0.3, and version 2 of the series, June 2024.
pub const IPISTORM_PAIRS: [(f64, f64); 2] = [(0.81, 0.20), (0.41, 0.46)];

/// Returns the published ratio of a variant.
#[must_use]
pub(crate) fn ipistorm(machine: &str, variant: &str) -> Option<PublishedRatio> {
    let row = IPISTORM.iter().find(|(name, _)| *name == variant);
    row.filter(|_| machine == IPISTORM_MACHINE).map(|row| row.1)
}

/// A published median.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedTime {
    /// In ns, of what the row measures.
    pub ns: f64,
    /// Where it was published.
    pub source: &'static str,
}

const KCORES: &str = "KCORES/core-to-core-latency-plus, commit 264ea0a1";

/// Class medians of a machine and the atomics of its run: class, ns.
type Handovers = (&'static str, Atomics, &'static [(&'static str, f64)]);

/// Every machine's class medians.
///
/// Source: `results/` of core-to-core-latency-plus: the dual EPYC 7763 by fwyzard, the dual EPYC
/// 9654 by leavelet; the SMT figure of the 9654 is that of an EPYC 9454, a sibling. Graviton2 on a
/// c6gd.metal by nviennot. `ice-lake-2s` is the Xeon 8360Y, `dma-xeon-2s` beside a Xeon Gold 6242.
/// `neoverse-n1-2s` is beside a sibling, the Altra Q80-30 in two-node mode by zeroping (one socket
/// of 80 cores), and `hikey-620` beside the four Cortex-A53 at the same clock of a BCM2837, by
/// cmey.
///
/// Which atomics the tool ran on the Neoverse-N1 machines is nowhere said: official builds of Rust
/// choose LSE at run time, others may have exclusives only. It shows in the figures: by exclusives
/// Graviton2 would need a system-level cache at 12 ns, by LSE the Altra one at 150 ns, and the
/// other way round both ask for about 40 ns. Pairs of a cluster stand out on the Altra only, as a
/// line does that moves.
const HANDOVERS: [Handovers; 7] = [
    (
        "epyc-7763-2s",
        Atomics::Lock,
        &[("smt", 10.2), ("llc", 24.9), ("package", 124.2), ("cross-package", 303.6)],
    ),
    (
        "epyc-9654-2s",
        Atomics::Lock,
        &[("smt", 10.3), ("llc", 27.1), ("package", 99.3), ("cross-package", 191.6)],
    ),
    ("ice-lake-2s", Atomics::Lock, &[("smt", 7.6), ("llc", 50.3), ("cross-package", 113.6)]),
    ("dma-xeon-2s", Atomics::Lock, &[("smt", 7.4), ("llc", 48.0), ("cross-package", 141.4)]),
    ("graviton2", Atomics::Lse, &[("llc", 47.2)]),
    ("neoverse-n1-2s", Atomics::Exclusives, &[("cluster", 83.4), ("llc", 157.6)]),
    ("hikey-620", Atomics::Exclusives, &[("llc", 36.7)]),
];

/// Returns the published median of a class.
#[must_use]
pub(crate) fn handover(machine: &str, class: &str, atomics: Atomics) -> Option<PublishedTime> {
    let rows = HANDOVERS.iter().find(|row| row.0 == machine && row.1 == atomics)?.2;
    let row = rows.iter().find(|row| row.0 == class);
    row.map(|row| PublishedTime { ns: row.1, source: KCORES })
}

const CONCURRENCY: &str = "travisdowns/concurrency-hierarchy-bench, commit 1b3f7f8c";

/// Time of one increment by a loop: machine, loop, number of cpus and ns.
type Increments = (&'static str, &'static str, &'static [(usize, f64)]);

/// Time of one increment of one cpu, median of 15 trials.
///
/// Source: `results/g2-16` of concurrency-hierarchy-bench, built with LSE: `atomic add` and `cas
/// add` on 1 to 16 cores of a Graviton2.
const INCREMENTS: [Increments; 2] = [
    ("graviton2", "atomic", &[(1, 5.3), (2, 17.0), (4, 34.7), (8, 75.5), (16, 150.3)]),
    ("graviton2", "cas", &[(1, 8.4), (2, 52.2), (4, 116.5), (8, 323.3), (16, 638.7)]),
];

/// Returns the published time of one increment of one cpu, while so many count.
#[must_use]
pub(crate) fn increment(
    machine: &str,
    counter: &str,
    atomics: Atomics,
    cpus: usize,
) -> Option<PublishedTime> {
    let row = INCREMENTS.iter().find(|row| row.0 == machine && row.1 == counter)?;
    let value = row.2.iter().find(|value| value.0 == cpus).filter(|_| atomics == Atomics::Lse);
    value.map(|value| PublishedTime { ns: value.1, source: CONCURRENCY })
}
