//! Blocks that the machine finds by symbol and reads out of guest memory.
//!
//! All addresses are physical (the guest kernel is identity-mapped), all words little-endian
//! `u64`. The guest fills the headers before the first region begins; a header whose magic is
//! wrong or whose addresses lie outside RAM means "no block". The machine reads them at region
//! begin, region end and exit, never during the run.

/// Symbol of the counters header.
pub const COUNTERS_SYMBOL: &str = "CROSSCALL_COUNTERS";
/// Symbol of the samples header.
pub const SAMPLES_SYMBOL: &str = "CROSSCALL_SAMPLES";

/// First word of a filled [`CountersHeader`]: `"XCOUNTER"`.
pub const COUNTERS_MAGIC: u64 = u64::from_le_bytes(*b"XCOUNTER");
/// First word of a filled [`SamplesHeader`]: `"XSAMPLES"`.
pub const SAMPLES_MAGIC: u64 = u64::from_le_bytes(*b"XSAMPLES");

/// Describes the per-CPU counter blocks; lies at [`COUNTERS_SYMBOL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CountersHeader {
    /// [`COUNTERS_MAGIC`] once the rest is filled.
    pub magic: u64,
    /// Number of counters in each block.
    pub counters: u64,
    /// Address of the names: text, each name ended by one NUL.
    pub names: u64,
    /// Bytes of the names.
    pub names_bytes: u64,
    /// Number of CPUs.
    pub cpus: u64,
    /// Address of an array of `cpus` words: the address of each CPU's block of `u64`.
    pub blocks: u64,
}

/// Describes the sample series; lies at [`SAMPLES_SYMBOL`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SamplesHeader {
    /// [`SAMPLES_MAGIC`] once the rest is filled.
    pub magic: u64,
    /// Number of series.
    pub series: u64,
    /// Address of an array of `series` records of [`SampleSeries`].
    pub table: u64,
}

/// One series of samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SampleSeries {
    /// A [`SampleKind`].
    pub kind: u64,
    /// The CPU that measured.
    pub cpu: u64,
    /// The other CPU, if the kind has one; else 0.
    pub peer: u64,
    /// Number of values that are there, ever growing until the region ends.
    pub count: u64,
    /// Number of values that fit.
    pub capacity: u64,
    /// Address of the values, `u64` each.
    pub values: u64,
}

/// What the values of a series are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum SampleKind {
    /// TSC ticks from before a call to after it, jitter spin not included. `cpu` calls, `peer`
    /// is the target (or the CPU itself when there are several).
    Call = 1,
    /// TSC ticks of `iters` round trips of the ping-pong loop between `cpu` and `peer`.
    RoundTrips = 2,
    /// One value: the number of lost calls from `cpu` to `peer`.
    LostCalls = 3,
    /// Two values: TSC ticks that `cpu` incremented a counter for, and how often it did.
    Increments = 4,
    /// One value: units of work that a thread completed in the region. `cpu` is where it ended.
    Units = 5,
    /// TSC ticks from the event that wakes a thread to its first instruction, one an activation.
    WakeLatency = 6,
    /// TSC ticks of a whole request, one each.
    RequestLatency = 7,
    /// One value: how often something happened on `cpu`; `peer` is the thread it happened to.
    Hits = 8,
    /// TSC ticks that a thread of `bench=rtapp` ran in a turn of a phase; `peer` is its number.
    Run = 9,
    /// TSC ticks of a whole turn.
    Period = 10,
    /// TSC ticks that were left in a turn before its timer.
    Slack = 11,
    /// Number of the CPU on which a thread went on, one each time; `peer` is its number.
    Place = 12,
}

impl SampleKind {
    /// The kind that a word stands for, if there is one.
    pub const fn from_value(value: u64) -> Option<SampleKind> {
        Some(match value {
            1 => SampleKind::Call,
            2 => SampleKind::RoundTrips,
            3 => SampleKind::LostCalls,
            4 => SampleKind::Increments,
            5 => SampleKind::Units,
            6 => SampleKind::WakeLatency,
            7 => SampleKind::RequestLatency,
            8 => SampleKind::Hits,
            9 => SampleKind::Run,
            10 => SampleKind::Period,
            11 => SampleKind::Slack,
            12 => SampleKind::Place,
            _ => return None,
        })
    }
}

/// Bytes of a [`CountersHeader`].
pub const COUNTERS_HEADER_BYTES: usize = size_of::<CountersHeader>();
/// Bytes of a [`SamplesHeader`].
pub const SAMPLES_HEADER_BYTES: usize = size_of::<SamplesHeader>();
/// Bytes of a [`SampleSeries`].
pub const SAMPLE_SERIES_BYTES: usize = size_of::<SampleSeries>();

impl CountersHeader {
    /// The header in these words, if its magic is there.
    pub fn from_words(words: [u64; COUNTERS_HEADER_BYTES / 8]) -> Option<CountersHeader> {
        let [magic, counters, names, names_bytes, cpus, blocks] = words;
        (magic == COUNTERS_MAGIC).then_some(CountersHeader {
            magic,
            counters,
            names,
            names_bytes,
            cpus,
            blocks,
        })
    }
}

impl SamplesHeader {
    /// The header in these words, if its magic is there.
    pub fn from_words(words: [u64; SAMPLES_HEADER_BYTES / 8]) -> Option<SamplesHeader> {
        let [magic, series, table] = words;
        (magic == SAMPLES_MAGIC).then_some(SamplesHeader { magic, series, table })
    }
}

impl SampleSeries {
    /// The record in these words.
    pub fn from_words(words: [u64; SAMPLE_SERIES_BYTES / 8]) -> SampleSeries {
        let [kind, cpu, peer, count, capacity, values] = words;
        SampleSeries { kind, cpu, peer, count, capacity, values }
    }
}
