//! Which CPU a wake looks around: the waker's or the one where the wakee last ran.
//!
//! Linux: `wake_wide`, `wake_affine`, `wake_affine_idle`, `wake_affine_weight`, `record_wakee`.

variants! {
    /// The rule that asks who is idle; boot switch `wa_idle`.
    WaIdle {
        /// No such rule.
        Off = "off",
        /// This CPU idle: this one (up to 4.15).
        ThisIdle = "this_idle",
        /// This CPU idle and sharing the cache with prev: this one (7332dec055f2).
        Cache = "cache",
        /// As `Cache`, but prev when that is idle, too (806486c377e3, 4.16 on).
        CachePrev = "cache_prev",
    }
}

/// The two CPUs of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The waker's.
    This,
    /// Where the wakee last ran.
    Prev,
}

/// What the rule asks of the run queues; each answer is remote lines read, so only what is needed
/// is asked.
pub trait View {
    /// Whether the CPU of a side is idle.
    fn is_idle(&mut self, side: Side) -> bool;
    /// Tasks that run or wait on the waker's CPU.
    fn nr_running_here(&mut self) -> u32;
}

/// What the waker knows without a look at run queues.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// Both CPUs share the LLC.
    pub is_same_llc: bool,
    /// The waker says that it is about to sleep.
    pub is_sync: bool,
    /// prev is taken when it is idle, whatever else (d8fcb81f1acf, 5.11 on); switch
    /// `wa_prev_idle`.
    pub has_prev_idle: bool,
}

/// The idle rule: a side, or nothing when it has no opinion.
#[inline]
pub fn by_idle(rule: WaIdle, facts: Facts, view: &mut impl View) -> Option<Side> {
    match rule {
        WaIdle::Off => {}
        WaIdle::ThisIdle if view.is_idle(Side::This) => return Some(Side::This),
        WaIdle::Cache if facts.is_same_llc && view.is_idle(Side::This) => {
            return Some(Side::This);
        }
        WaIdle::CachePrev if facts.is_same_llc && view.is_idle(Side::This) => {
            return Some(if view.is_idle(Side::Prev) { Side::Prev } else { Side::This });
        }
        _ => {}
    }
    if facts.is_sync && view.nr_running_here() == 1 {
        return Some(Side::This);
    }
    (facts.has_prev_idle && view.is_idle(Side::Prev)).then_some(Side::Prev)
}

/// What the weight rule compares.
#[derive(Clone, Copy, Debug)]
pub struct Loads {
    /// Load of the waker's CPU.
    pub this: u64,
    /// Load of the current task there, which a synchronous waker takes off.
    pub current: u64,
    /// Load of prev, the wakee's share included.
    pub prev: u64,
    /// Load of the wakee.
    pub task: u64,
    /// Capacity of the waker's CPU.
    pub capacity_this: u64,
    /// Capacity of prev.
    pub capacity_prev: u64,
    /// Imbalance percentage of the domain.
    pub imbalance_pct: u64,
}

/// The weight rule: this CPU if it would be the less loaded one.
pub fn by_weight(loads: Loads, is_sync: bool) -> Side {
    let mut this = loads.this as i128;
    if is_sync {
        // The waker is alone there, as far as load tells.
        if loads.current > loads.this {
            return Side::This;
        }
        this -= i128::from(loads.current);
    }
    let bias = 100 + (i128::from(loads.imbalance_pct) - 100) / 2;
    let this_eff = (this + i128::from(loads.task)) * 100 * i128::from(loads.capacity_prev);
    let prev = i128::from(loads.prev) - i128::from(loads.task);
    let prev_eff = prev * bias * i128::from(loads.capacity_this) + i128::from(is_sync);
    if this_eff < prev_eff { Side::This } else { Side::Prev }
}

/// Whether waker and wakee switch partners so often that the wake should not be pulled to the
/// waker; `llc_size` is the number of CPUs of the waker's LLC.
#[inline]
pub const fn wake_wide(waker_flips: u32, wakee_flips: u32, llc_size: u32) -> bool {
    let (more, fewer) = if waker_flips < wakee_flips {
        (wakee_flips, waker_flips)
    } else {
        (waker_flips, wakee_flips)
    };
    fewer >= llc_size && more as u64 >= fewer as u64 * llc_size as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cpus {
        is_this_idle: bool,
        is_prev_idle: bool,
        nr_running_here: u32,
    }

    impl View for Cpus {
        fn is_idle(&mut self, side: Side) -> bool {
            match side {
                Side::This => self.is_this_idle,
                Side::Prev => self.is_prev_idle,
            }
        }

        fn nr_running_here(&mut self) -> u32 {
            self.nr_running_here
        }
    }

    #[test]
    fn the_idle_rule_follows_the_table() {
        use Side::{Prev, This};
        use WaIdle::*;
        // rule, same LLC, this idle, prev idle, prev-idle rule of 5.11
        let cases = [
            ("D1", ThisIdle, true, true, true, false, Some(This)),
            ("D1", Cache, true, true, true, false, Some(This)),
            ("D1", CachePrev, true, true, true, false, Some(Prev)),
            ("D2", ThisIdle, true, true, false, false, Some(This)),
            ("D2", Cache, true, true, false, false, Some(This)),
            ("D2", CachePrev, true, true, false, false, Some(This)),
            ("D3", ThisIdle, false, true, true, true, Some(This)),
            ("D3", Cache, false, true, true, true, Some(Prev)),
            ("D3", CachePrev, false, true, true, true, Some(Prev)),
            ("D3 before 5.11", CachePrev, false, true, true, false, None),
            ("this busy", ThisIdle, true, false, true, true, Some(Prev)),
            ("this busy", CachePrev, true, false, true, false, None),
            ("off", Off, true, true, true, false, None),
            ("off", Off, true, true, true, true, Some(Prev)),
        ];
        for (id, rule, is_same_llc, is_this_idle, is_prev_idle, has_prev_idle, expected) in cases {
            let facts = Facts { is_same_llc, is_sync: false, has_prev_idle };
            let mut cpus = Cpus { is_this_idle, is_prev_idle, nr_running_here: 1 };
            assert_eq!(by_idle(rule, facts, &mut cpus), expected, "{id} {rule:?}");
        }
    }

    #[test]
    fn a_lone_synchronous_waker_keeps_the_wakee() {
        let facts = Facts { is_same_llc: true, is_sync: true, has_prev_idle: true };
        let mut cpus = Cpus { is_this_idle: false, is_prev_idle: true, nr_running_here: 1 };
        assert_eq!(by_idle(WaIdle::CachePrev, facts, &mut cpus), Some(Side::This));
        cpus.nr_running_here = 2;
        assert_eq!(by_idle(WaIdle::CachePrev, facts, &mut cpus), Some(Side::Prev));
    }

    #[test]
    fn the_weight_rule_prefers_the_lighter_side_with_a_bias_to_prev() {
        let even = Loads {
            this: 0,
            current: 0,
            prev: 1024,
            task: 1024,
            capacity_this: 1024,
            capacity_prev: 1024,
            imbalance_pct: 117,
        };
        let cases = [
            ("prev is free without the wakee", even, false, Side::Prev),
            ("prev runs another", Loads { prev: 2048, ..even }, false, Side::This),
            ("both run another", Loads { this: 1024, prev: 2048, ..even }, false, Side::Prev),
            (
                "the waker leaves",
                Loads { this: 1024, current: 1024, prev: 2048, ..even },
                true,
                Side::This,
            ),
            (
                "prev is half as strong",
                Loads { this: 1024, prev: 2048, capacity_prev: 512, ..even },
                false,
                Side::This,
            ),
        ];
        for (what, loads, is_sync, expected) in cases {
            assert_eq!(by_weight(loads, is_sync), expected, "{what}");
        }
    }

    #[test]
    fn wide_means_many_partners_on_both_sides() {
        let cases = [
            (0, 100, 8, false),
            (7, 1000, 8, false),
            (8, 63, 8, false),
            (8, 64, 8, true),
            (64, 8, 8, true),
            (u32::MAX, u32::MAX, 8, false),
        ];
        for (waker, wakee, llc_size, expected) in cases {
            assert_eq!(wake_wide(waker, wakee, llc_size), expected, "{waker} {wakee} {llc_size}");
        }
    }
}
