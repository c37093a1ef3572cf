//! Benchmarks that pass messages, and `stream`, their control: the figures that the tools print.

use super::{Better, Figure, Measured, Workload};

pub(super) const HACKBENCH: Workload = Workload { name: "hackbench", figures: hackbench };
pub(super) const CTXSW: Workload = Workload { name: "ctxsw", figures: ctxsw };
pub(super) const STREAM: Workload = Workload { name: "stream", figures: stream };
pub(super) const NETPERF: Workload = Workload { name: "netperf", figures: netperf };
pub(super) const TBENCH: Workload = Workload { name: "tbench", figures: tbench };
pub(super) const SYSBENCH: Workload = Workload { name: "sysbench", figures: sysbench };

fn higher(name: &'static str, unit: &'static str, value: f64) -> Figure {
    Figure { name, unit, better: Some(Better::Higher), value }
}

fn count(run: &Measured<'_>, counter: &str) -> f64 {
    run.counters.sum(counter).unwrap_or(0) as f64
}

/// Counts for each unit of work.
fn rates(run: &Measured<'_>) -> [Figure; 2] {
    let per_wake = |name, counter| {
        let value = count(run, counter) / count(run, "wake_done").max(1.0);
        Figure { name, unit: "per wake", better: None, value }
    };
    [per_wake("migrations", "mig_wake"), per_wake("call IPIs", "call_ipi")]
}

fn with_rates(run: &Measured<'_>, figures: Vec<Figure>) -> Vec<Figure> {
    figures.into_iter().chain(rates(run)).collect()
}

fn hackbench(run: &Measured<'_>) -> Vec<Figure> {
    let time = Figure {
        name: "Time",
        unit: "ms",
        better: Some(Better::Lower),
        value: run.seconds() * 1e3,
    };
    with_rates(run, vec![time, higher("messages", "1/s", run.units() / run.seconds())])
}

fn ctxsw(run: &Measured<'_>) -> Vec<Figure> {
    let each = |name, counter| {
        let value = count(run, counter) / run.cpus as f64 / run.seconds();
        Figure { name, unit: "1/s per cpu", better: None, value }
    };
    vec![
        higher("switches", "1/s", run.units() / run.seconds()),
        each("reschedule IPIs", "resched_ipi"),
        each("call IPIs", "call_ipi"),
    ]
}

fn stream(run: &Measured<'_>) -> Vec<Figure> {
    vec![higher("rate", "MB/s", run.units() / run.seconds() / 1e6)]
}

/// Units a second, mean of the clients.
fn per_client(run: &Measured<'_>) -> f64 {
    let clients = run.threads(guests_abi::block::SampleKind::Units).max(1);
    run.units() / run.seconds() / clients as f64
}

fn netperf(run: &Measured<'_>) -> Vec<Figure> {
    let figure = if run.switches.get("netperf_test") == Some("tcp_stream") {
        higher("throughput", "10^6bits/s per client", per_client(run) * 8.0 / 1e6)
    } else {
        higher("transactions", "1/s per client", per_client(run))
    };
    with_rates(run, vec![figure])
}

fn tbench(run: &Measured<'_>) -> Vec<Figure> {
    with_rates(run, vec![higher("throughput", "MB/s", run.units() / run.seconds() / 1e6)])
}

fn sysbench(run: &Measured<'_>) -> Vec<Figure> {
    with_rates(run, vec![higher("transactions", "1/s", run.units() / run.seconds())])
}
