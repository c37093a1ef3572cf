//! Published figures that results are printed beside. They are never inputs of a bench.

use serde::Serialize;

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

/// A published median of line hand-overs between two cpus.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PublishedHandover {
    /// Median over all pairs of the class in ns: one hand-over of the compare-exchange loop.
    pub ns: f64,
    /// Where it was published.
    pub source: &'static str,
}

const KCORES: &str = "KCORES/core-to-core-latency-plus, commit 264ea0a1";

/// Class medians by machine: SMT siblings, one LLC, one package, two packages.
///
/// Source: `results/` of core-to-core-latency-plus: the dual EPYC 7763 by fwyzard, the dual EPYC
/// 9654 by leavelet; the SMT figure of the 9654 is that of an EPYC 9454, a sibling.
const HANDOVERS: [(&str, [f64; 4]); 2] =
    [("epyc-7763-2s", [10.2, 24.9, 124.2, 303.6]), ("epyc-9654-2s", [10.3, 27.1, 99.3, 191.6])];

/// Returns the published median of a class (0 SMT, 1 LLC, 2 package, 3 two packages).
#[must_use]
pub(crate) fn handover(machine: &str, class: usize) -> Option<PublishedHandover> {
    let (_, medians) = HANDOVERS.iter().find(|(name, _)| *name == machine)?;
    medians.get(class).map(|&ns| PublishedHandover { ns, source: KCORES })
}
