//! Counters of both sides under one set of names: kept by the machine, kept by the guest.

use emu_machine::CpuCounters;
use emu_sim::CpuId;
use guests_abi::block::{
    COUNTERS_HEADER_BYTES, COUNTERS_SYMBOL, CountersHeader, SAMPLE_SERIES_BYTES,
    SAMPLES_HEADER_BYTES, SAMPLES_SYMBOL, SampleKind, SampleSeries, SamplesHeader,
};
use guests_abi::layout::CPUS_MAX;

use crate::LabError;
use crate::rig::Rig;

/// Most counters of one block.
const COUNTERS_MAX: u64 = 1024;
/// Most bytes of counter names.
const NAMES_BYTES_MAX: u64 = 1 << 16;
/// Most series of samples.
const SERIES_MAX: u64 = 1 << 16;
/// Most values of all series together.
const VALUES_MAX: u64 = 1 << 26;

/// Returns the machine-kept counters of a cpu with their names; times are in ps.
#[must_use]
pub(crate) fn machine_counters(c: &CpuCounters) -> [(&'static str, u64); 20] {
    [
        ("instructions", c.instructions),
        ("elided", c.elided),
        ("ipi_sent", c.ipi_sent),
        ("ipi_dropped", c.ipi_dropped),
        ("ipi_accepted", c.ipi_accepted),
        ("ipi_merged", c.ipi_merged),
        ("ipi_taken", c.ipi_taken),
        ("ipi_pending", c.ipi_pending),
        ("ipi_pend_ps", c.ipi_pend_ps),
        ("ipi_pend_masked_ps", c.ipi_pend_masked_ps),
        ("idle_enter", c.idle_enter),
        ("idle_wake_write", c.idle_wake_write),
        ("idle_wake_irq", c.idle_wake_irq),
        ("idle_wake_other", c.idle_wake_other),
        ("idle_ps", c.idle_ps),
        ("handler_entries", c.handler_entries),
        ("irqoff_max_ps", c.irqoff_max_ps),
        ("irqoff_ps", c.irqoff_ps),
        ("line_requests", c.line_requests),
        ("snoops", c.snoops),
    ]
}

/// Names of counters that are states or maxima: their difference has no meaning.
const LEVELS: [&str; 3] = ["ipi_pending", "ipi_under_way", "irqoff_max_ps"];

/// Counters of all cpus under their names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    names: Vec<String>,
    /// By cpu, then by name.
    values: Vec<Vec<u64>>,
}

impl Counters {
    /// Reads everything that machine and guest keep.
    ///
    /// Errors: `Input` when the image's counter block lies.
    pub fn read<R: Rig>(rig: &R) -> Result<Counters, LabError> {
        let cpus = (0..rig.cpus()).map(|n| CpuId(u32::try_from(n).unwrap_or(u32::MAX)));
        let machine: Vec<_> = cpus.map(|cpu| machine_counters(&rig.counters(cpu))).collect();
        let mut counters = Counters {
            names: machine_counters(&CpuCounters::default()).map(|(n, _)| n.to_owned()).to_vec(),
            values: machine.iter().map(|c| c.iter().map(|(_, value)| *value).collect()).collect(),
        };
        let mut under_way = vec![0; rig.cpus()];
        under_way.iter_mut().take(1).for_each(|first| *first = rig.ipis_under_way());
        counters.push("ipi_under_way", under_way);
        if let Some((names, blocks)) = read_guest_counters(rig)? {
            counters.names.extend(names);
            for (cpu, block) in counters.values.iter_mut().zip(blocks) {
                cpu.extend(block);
            }
        }
        Ok(counters)
    }

    /// Returns the names.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether the guest exports counters.
    #[must_use]
    pub fn has_guest(&self) -> bool {
        self.position("call_remote").is_some()
    }

    /// Adds a counter with its values by cpu.
    pub fn push(&mut self, name: &str, values: Vec<u64>) {
        self.names.push(name.to_owned());
        for (cpu, value) in self.values.iter_mut().zip(values) {
            cpu.push(value);
        }
    }

    /// Returns one counter of one cpu.
    #[must_use]
    pub fn get(&self, name: &str, cpu: usize) -> Option<u64> {
        let at = self.position(name)?;
        self.values.get(cpu)?.get(at).copied()
    }

    /// Returns the sum of one counter over all cpus.
    #[must_use]
    pub fn sum(&self, name: &str) -> Option<u64> {
        let at = self.position(name)?;
        let values = self.values.iter().filter_map(|cpu| cpu.get(at));
        // What a guest counts is its own affair.
        Some(values.fold(0, |sum, value| sum.saturating_add(*value)))
    }

    /// Returns what was counted since `earlier`; levels and maxima stay as they are now.
    #[must_use]
    pub fn since(&self, earlier: &Counters) -> Counters {
        let values = self.values.iter().enumerate().map(|(cpu, values)| {
            let named = self.names.iter().zip(values);
            let change = |(name, now): (&String, &u64)| {
                let is_level = LEVELS.contains(&name.as_str());
                let before = if is_level { 0 } else { earlier.get(name, cpu).unwrap_or(0) };
                now.wrapping_sub(before)
            };
            named.map(change).collect()
        });
        Counters { names: self.names.clone(), values: values.collect() }
    }

    /// Returns counters of as many cpus without any name.
    #[cfg(test)]
    pub(crate) fn emptied(self) -> Counters {
        Counters { names: Vec::new(), values: vec![Vec::new(); self.values.len()] }
    }

    fn position(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|have| have == name)
    }
}

/// Reads words of guest memory.
fn words<R: Rig, const N: usize>(rig: &R, address: u64) -> [u64; N] {
    let bytes = rig.read_guest(address, N * 8);
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
        *word = le(bytes);
    }
    words
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn word_list<R: Rig>(rig: &R, address: u64, count: u64) -> Vec<u64> {
    let bytes = rig.read_guest(address, usize::try_from(count * 8).unwrap_or(0));
    bytes.chunks_exact(8).map(le).collect()
}

fn bounded(what: &str, value: u64, max: u64) -> Result<u64, LabError> {
    if value <= max {
        Ok(value)
    } else {
        Err(LabError::input(format!("{what} of the image is {value}, at most {max} is possible")))
    }
}

type GuestCounters = (Vec<String>, Vec<Vec<u64>>);

fn read_guest_counters<R: Rig>(rig: &R) -> Result<Option<GuestCounters>, LabError> {
    let Some(address) = rig.symbol(COUNTERS_SYMBOL) else { return Ok(None) };
    let header = words::<R, { COUNTERS_HEADER_BYTES / 8 }>(rig, address);
    let Some(header) = CountersHeader::from_words(header) else { return Ok(None) };
    bounded("counters per cpu", header.counters, COUNTERS_MAX)?;
    bounded("bytes of counter names", header.names_bytes, NAMES_BYTES_MAX)?;
    bounded("counter blocks", header.cpus, CPUS_MAX as u64)?;
    let names = rig.read_guest(header.names, usize::try_from(header.names_bytes).unwrap_or(0));
    let names: Vec<String> = names
        .split(|&byte| byte == 0)
        .take(usize::try_from(header.counters).unwrap_or(0))
        .map(|name| String::from_utf8_lossy(name).into_owned())
        .collect();
    if names.len() as u64 != header.counters {
        let (found, wanted) = (names.len(), header.counters);
        let text = format!("the image names {found} of its {wanted} counters; it must name all");
        return Err(LabError::input(text));
    }
    let blocks = word_list(rig, header.blocks, header.cpus);
    let mut blocks: Vec<Vec<u64>> =
        blocks.into_iter().map(|block| word_list(rig, block, header.counters)).collect();
    blocks.resize(rig.cpus(), vec![0; names.len()]);
    Ok(Some((names, blocks)))
}

/// A series of samples that the guest left in its memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Series {
    /// What the values are.
    pub kind: SampleKind,
    /// The cpu that measured.
    pub cpu: usize,
    /// The other cpu.
    pub peer: usize,
    /// Values, in the unit of the kind.
    pub values: Vec<u64>,
}

/// Reads the samples that the guest exports; empty when it exports none.
///
/// Errors: `Input` when the block lies about its size.
pub fn read_samples<R: Rig>(rig: &R) -> Result<Vec<Series>, LabError> {
    let Some(address) = rig.symbol(SAMPLES_SYMBOL) else { return Ok(Vec::new()) };
    let header = words::<R, { SAMPLES_HEADER_BYTES / 8 }>(rig, address);
    let Some(header) = SamplesHeader::from_words(header) else { return Ok(Vec::new()) };
    bounded("series of samples", header.series, SERIES_MAX)?;
    let read = |n: u64| {
        // Memory ends far below where an address would wrap; what lies behind it reads 0.
        let at = header.table.wrapping_add(n * SAMPLE_SERIES_BYTES as u64);
        let series = SampleSeries::from_words(words::<R, { SAMPLE_SERIES_BYTES / 8 }>(rig, at));
        let kind = SampleKind::from_value(series.kind)?;
        Some((kind, series.count.min(series.capacity), series))
    };
    let all: Vec<_> = (0..header.series).filter_map(read).collect();
    let total = all.iter().fold(0, |total: u64, (_, count, _)| total.saturating_add(*count));
    bounded("number of samples", total, VALUES_MAX)?;
    let series = all.into_iter().map(|(kind, count, series)| Series {
        kind,
        cpu: usize::try_from(series.cpu).unwrap_or(usize::MAX),
        peer: usize::try_from(series.peer).unwrap_or(usize::MAX),
        values: word_list(rig, series.values, count),
    });
    Ok(series.collect())
}

#[cfg(test)]
mod tests {
    use guests_abi::block::{COUNTERS_MAGIC, SAMPLES_MAGIC};

    use super::*;
    use crate::fake::rig_with;

    /// Two series of so many values each, at the same place.
    fn samples(table: u64, count: u64) -> Result<Vec<Series>, LabError> {
        let series = [1, 0, 1, count, count, 0x9000];
        read_samples(&rig_with(&[SAMPLES_MAGIC, 2, table], &[series, series].concat()))
    }

    #[test]
    fn blocks_that_lie_about_their_size_are_refused_before_memory_is_taken() {
        assert_eq!(samples(0x8000, 2).map(|all| all.len()), Ok(2));
        assert_eq!(samples(u64::MAX - 7, 2).map(|all| all.len()), Ok(0), "no such memory");
        for count in [1 << 26, u64::MAX] {
            let error = samples(0x8000, count).expect_err("too many").to_string();
            assert!(error.ends_with("at most 67108864 is possible"), "{error}");
        }
    }

    #[test]
    fn counters_have_a_name_each_and_sums_that_do_not_wrap() {
        let read = |counters, names_bytes| {
            let header = [COUNTERS_MAGIC, counters, 0x8030, names_bytes, 2, 0x8000];
            // Two addresses of blocks, a block, and `a`, `b`.
            let words = [0x8010, 0x8010, u64::MAX, 7, 0, 0, u64::from_le_bytes(*b"a\0b\0\0\0\0\0")];
            Counters::read(&rig_with(&header, &words))
        };
        let counters = read(2, 3).expect("a name each");
        assert_eq!((counters.sum("a"), counters.sum("b")), (Some(u64::MAX), Some(14)));
        let error = read(3, 3).expect_err("a name is missing").to_string();
        assert_eq!(error, "the image names 2 of its 3 counters; it must name all");
    }
}
