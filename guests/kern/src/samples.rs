//! Sample series in guest memory, which the machine reads by symbol (`guests/abi`, block).

use guests_abi::block::{SAMPLES_MAGIC, SampleKind, SampleSeries, SamplesHeader};
use guests_abi::class::LineClass;

use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::counters::Header;
use crate::{machine, memory, testdev};

#[unsafe(no_mangle)]
#[expect(unsafe_code, reason = "found by its symbol")]
static CROSSCALL_SAMPLES: Header<SamplesHeader> =
    Header::new(SamplesHeader { magic: 0, series: 0, table: 0 });

const SERIES_WORDS: usize = size_of::<SampleSeries>() / 8;
const COUNT_WORD: usize = core::mem::offset_of!(SampleSeries, count) / 8;

/// All series of a benchmark.
pub(crate) struct SeriesTable(&'static [AtomicU64]);

/// One series: where its count and its values are.
#[derive(Clone, Copy)]
pub(crate) struct Series {
    count: &'static AtomicU64,
    values: &'static [AtomicU64],
}

impl SeriesTable {
    /// Publishes a table of that many series, all empty. Once per boot.
    pub(crate) fn publish(series: usize) -> SeriesTable {
        let words: &[AtomicU64] = memory::alloc_slice(0, series * SERIES_WORDS);
        CROSSCALL_SAMPLES.fill(SamplesHeader {
            magic: SAMPLES_MAGIC,
            series: series as u64,
            table: words.as_ptr() as u64,
        });
        SeriesTable(words)
    }

    /// Fills in a series whose values lie on the node of the CPU that measures.
    pub(crate) fn define(
        &self,
        at: usize,
        kind: SampleKind,
        cpu: usize,
        peer: usize,
        capacity: usize,
    ) -> Series {
        let values: &[AtomicU64] = memory::alloc_slice(machine::node(cpu), capacity);
        let address = values.as_ptr() as u64;
        testdev::declare_lines(address, size_of_val(values), LineClass::Bench);
        let words = &self.0[at * SERIES_WORDS..][..SERIES_WORDS];
        let record = [kind as u64, cpu as u64, peer as u64, 0, capacity as u64, address];
        for (word, value) in words.iter().zip(record) {
            word.store(value, Relaxed);
        }
        Series { count: &words[COUNT_WORD], values }
    }
}

impl Series {
    /// Brings the lines of the values to this CPU, so that recording does not wait for memory.
    pub(crate) fn touch(&self) {
        for value in self.values.iter().step_by(8) {
            value.store(0, Relaxed);
        }
    }

    /// Records a value: one store.
    #[inline]
    pub(crate) fn record(&self, at: usize, value: u64) {
        if let Some(slot) = self.values.get(at) {
            slot.store(value, Relaxed);
        }
    }

    /// Whether there is room for a value.
    pub(crate) fn has_room(&self, at: usize) -> bool {
        at < self.values.len()
    }

    /// Says how many values there are.
    pub(crate) fn finish(&self, count: usize) {
        self.count.store(count as u64, Relaxed);
    }
}
