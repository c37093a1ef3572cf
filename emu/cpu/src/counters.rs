//! Machine-kept counters of one cpu (`guest-abi.md` 4).

/// Counts since reset. Times are picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CpuCounters {
    /// Instructions retired.
    pub instructions: u64,
    /// Of these, instructions of elided spin iterations.
    pub elided: u64,
    /// IPIs sent, counted once for each receiver.
    pub ipi_sent: u64,
    /// IPIs that reached this cpu and were not accepted: its controller is off.
    pub ipi_dropped: u64,
    /// IPIs accepted as newly pending.
    pub ipi_accepted: u64,
    /// IPIs that found their vector pending.
    pub ipi_merged: u64,
    /// Interrupts taken that came as IPIs.
    pub ipi_taken: u64,
    /// IPIs pending now.
    pub ipi_pending: u64,
    /// Time IPIs spent pending.
    pub ipi_pend_ps: u64,
    /// Part of it while interrupts were masked.
    pub ipi_pend_masked_ps: u64,
    /// Waits entered.
    pub idle_enter: u64,
    /// Waits ended by a store to the monitored line.
    pub idle_wake_write: u64,
    /// Waits ended by an interrupt.
    pub idle_wake_irq: u64,
    /// Waits ended otherwise.
    pub idle_wake_other: u64,
    /// Time spent waiting.
    pub idle_ps: u64,
    /// Interrupt entries.
    pub handler_entries: u64,
    /// Longest section with interrupts off, waits left out.
    pub irqoff_max_ps: u64,
    /// Total time with interrupts off, waits left out.
    pub irqoff_ps: u64,
    /// Line requests sent (misses, upgrades, prefetches of ownership).
    pub line_requests: u64,
    /// Snoops answered.
    pub snoops: u64,
}
