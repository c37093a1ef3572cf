//! `bench=busy`: CPUs that work on memory of their own.

use super::{Better, Figure, Measured, Workload};

pub(super) const BUSY: Workload = Workload { name: "busy", figures };

fn figures(run: &Measured<'_>) -> Vec<Figure> {
    let ns = run.seconds() * 1e9 / run.number("iters").max(1.0);
    vec![Figure { name: "round", unit: "ns", better: Some(Better::Lower), value: ns }]
}
