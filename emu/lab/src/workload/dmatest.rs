//! `dmatest`: copies by the DMA engine, operations a second, and where threads went on.

use guests_abi::block::SampleKind;

use super::{Better, Figure, Measured, Workload};

pub(super) const DMATEST: Workload = Workload { name: "dmatest", figures };

/// As the module prints them: of each thread iterations over the time of its operations, which
/// excludes filling and comparing; here the mean over threads. `hits on irq cpu` is the part of the
/// operations behind which a thread went on at the CPU of the interrupt.
fn figures(measured: &Measured<'_>) -> Vec<Figure> {
    let times = measured.times_us(SampleKind::RequestLatency);
    let (n, sum) = (times.len() as f64, times.iter().sum::<f64>());
    let iops = if sum > 0.0 { 1e6 * n / sum } else { 0.0 };
    let kib = measured.number("test_buf_size") / 1024.0;
    let irq_cpu = measured.number("dma_irq_cpu");
    let places: Vec<u64> = measured.samples(SampleKind::Place).map(|(_, cpu)| cpu).collect();
    let hits = places.iter().filter(|&&cpu| cpu as f64 == irq_cpu).count() as f64;
    let mut cpus = places.clone();
    cpus.sort_unstable();
    cpus.dedup();
    let figure = |name, unit, better, value| Figure { name, unit, better, value };
    vec![
        figure("iops", "1/s", Some(Better::Higher), iops),
        figure("KB/s", "KB/s", Some(Better::Higher), iops * kib),
        figure("operation", "us", Some(Better::Lower), if n > 0.0 { sum / n } else { 0.0 }),
        figure("hits on irq cpu", "%", None, 100.0 * hits / places.len().max(1) as f64),
        figure("cpus hit", "", None, cpus.len() as f64),
    ]
}
