//! `bench=ipistorm`: cross-CPU calls, back to back. `bench ipistorm` of the command line says more
//! of each call; here is what variants are compared by.

use super::{Better, Figure, Measured, Workload};

pub(super) const IPISTORM: Workload = Workload { name: "ipistorm", figures };

fn figures(run: &Measured<'_>) -> Vec<Figure> {
    let ns = run.seconds() * 1e9 / run.number("numipi").max(1.0);
    vec![Figure { name: "call", unit: "ns", better: Some(Better::Lower), value: ns }]
}
