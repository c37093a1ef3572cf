//! Scheduling domains: what the levels of the topology differ in, and how often they balance.
//!
//! Linux: `sd_init`, `get_sd_balance_interval`, `build_sched_domains`. Not modelled: asymmetric
//! packing and capacity.

/// Level of a domain, from small to large.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    /// Threads of a core.
    Smt,
    /// Cores that share an L2 or a part of the interconnect.
    Cluster,
    /// CPUs of a last-level cache.
    Llc,
    /// CPUs of a node.
    Package,
    /// CPUs of nodes up to some distance.
    Numa,
}

impl Level {
    /// The level of a number.
    pub const fn of(number: u8) -> Level {
        match number {
            0 => Level::Smt,
            1 => Level::Cluster,
            2 => Level::Llc,
            3 => Level::Package,
            _ => Level::Numa,
        }
    }

    /// The CPUs share execution units (`SD_SHARE_CPUCAPACITY`).
    pub const fn shares_capacity(self) -> bool {
        matches!(self, Level::Smt)
    }

    /// The CPUs share the last-level cache (`SD_SHARE_LLC`).
    pub const fn shares_llc(self) -> bool {
        matches!(self, Level::Smt | Level::Cluster | Level::Llc)
    }

    /// Tasks go to an idle group rather than share a busy one (`SD_PREFER_SIBLING`).
    pub const fn prefers_sibling(self) -> bool {
        !matches!(self, Level::Numa)
    }

    /// How much busier another group has to be, in percent.
    pub const fn imbalance_pct(self) -> u64 {
        if self.shares_capacity() { 110 } else { 117 }
    }

    /// Balances without success after which tasks move although their cache is warm.
    pub const fn cache_nice_tries(self) -> u32 {
        match self {
            Level::Smt => 0,
            Level::Numa => 2,
            _ => 1,
        }
    }
}

/// Distance of nodes beyond which wakes and new tasks stay (`node_reclaim_distance`, as AMD has
/// it).
pub const RECLAIM_DISTANCE: u32 = 32;

/// Factor of the interval while the CPU is busy.
const BUSY_FACTOR: u64 = 16;

/// Longest interval that pinned tasks may cause, ms.
const PINNED_INTERVAL_MAX_MS: u64 = 512;

/// Time between two balances of a domain, ns, from its `interval_ms`.
///
/// Counted in ticks; a busy CPU balances a sixteenth as often, and one tick early, so that the
/// intervals of different levels do not meet. The bound is a tenth of a second a CPU.
pub fn interval_ns(interval_ms: u64, is_busy: bool, hz: u64, cpus: u64) -> u64 {
    let ms = if is_busy { interval_ms * BUSY_FACTOR } else { interval_ms };
    let ticks = (ms * hz).div_ceil(1000) - u64::from(is_busy && interval_ms > 0);
    ticks.clamp(1, (hz * cpus / 10).max(1)) * (1_000_000_000 / hz)
}

/// The interval after a balance that found nothing to do, ms; it doubles up to twice the number of
/// CPUs, or further when all that was found was pinned.
pub fn grown_interval_ms(interval_ms: u64, weight: u64, is_pinned: bool) -> u64 {
    let may_grow = is_pinned && interval_ms < PINNED_INTERVAL_MAX_MS || interval_ms < 2 * weight;
    if may_grow { 2 * interval_ms } else { interval_ms }
}

/// How many tasks a node may run before differences to others count (`imb_numa_nr`), from the
/// smallest domain of a CPU to the largest.
#[derive(Clone, Copy, Debug, Default)]
pub struct NumaImbalance {
    allowed: u64,
    /// CPUs of the domain for which `allowed` holds.
    span: u64,
}

impl NumaImbalance {
    /// That of the next domain: its level and CPUs, those of the one below, and the CPUs of the
    /// first NUMA domain from here on.
    pub fn next(
        &mut self,
        (level, weight): (Level, u64),
        child: Option<(Level, u64)>,
        numa_weight: Option<u64>,
    ) -> u64 {
        match child {
            Some((child_level, child_weight))
                if !level.shares_llc() && child_level.shares_llc() =>
            {
                let llcs = weight / child_weight;
                self.allowed = if llcs == 1 { weight >> 3 } else { llcs }.max(1);
                self.span = numa_weight.unwrap_or(weight);
                self.allowed
            }
            _ => self.allowed * (weight / self.span.max(1)).max(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_differ_as_sd_init_has_it() {
        let cases = [
            (Level::Smt, 110, 0, true, true),
            (Level::Cluster, 117, 1, true, true),
            (Level::Llc, 117, 1, true, true),
            (Level::Package, 117, 1, false, true),
            (Level::Numa, 117, 2, false, false),
        ];
        for (number, (level, pct, tries, llc, sibling)) in cases.into_iter().enumerate() {
            assert_eq!(Level::of(number as u8), level);
            let found = (level.imbalance_pct(), level.cache_nice_tries(), level.shares_llc());
            assert_eq!(found, (pct, tries, llc), "{level:?}");
            assert_eq!(level.prefers_sibling(), sibling, "{level:?}");
        }
    }

    #[test]
    fn intervals_are_in_ticks_and_longer_while_busy() {
        // ms, busy, HZ, cpus: ns
        let cases = [
            (16, false, 250, 128, 16_000_000),
            (16, true, 250, 128, 252_000_000),
            (2, false, 250, 128, 4_000_000),
            (2, true, 1000, 128, 31_000_000),
            (512, true, 250, 4, 400_000_000),
            (1, true, 100, 1, 10_000_000),
        ];
        for (ms, is_busy, hz, cpus, expected) in cases {
            assert_eq!(interval_ns(ms, is_busy, hz, cpus), expected, "{ms} {is_busy} {hz}");
        }
        assert_eq!(grown_interval_ms(16, 16, false), 32);
        assert_eq!(grown_interval_ms(32, 16, false), 32);
        assert_eq!(grown_interval_ms(32, 16, true), 64);
        assert_eq!(grown_interval_ms(512, 16, true), 512);
    }

    #[test]
    fn the_allowed_numa_imbalance_counts_llcs() {
        // Two sockets of 8 LLCs of 16; and two of one LLC of 112, on four sockets at two distances.
        let mut zen = NumaImbalance::default();
        let numa = Some(256);
        assert_eq!(zen.next((Level::Llc, 16), Some((Level::Smt, 2)), numa), 0);
        assert_eq!(zen.next((Level::Package, 128), Some((Level::Llc, 16)), numa), 8);
        assert_eq!(zen.next((Level::Numa, 256), Some((Level::Package, 128)), numa), 8);
        let mut xeon = NumaImbalance::default();
        assert_eq!(xeon.next((Level::Numa, 224), Some((Level::Llc, 112)), Some(224)), 2);
        assert_eq!(xeon.next((Level::Numa, 448), Some((Level::Numa, 224)), None), 4);
    }
}
