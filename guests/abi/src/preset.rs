//! Era presets: the policies of a version of Linux, as far as the kernel has them.
//!
//! `preset=NAME` sets what has changed up to that version, oldest first, so that later changes win;
//! switches of the command line override all of it.

/// An era.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Value of `preset=`.
    pub name: &'static str,
    /// Switches whose values are others than in the era before; the first one has all.
    pub changes: &'static [(&'static str, &'static str)],
}

macro_rules! presets {
    ($($name:literal: $($switch:ident = $value:literal)*;)*) => {
        /// Values of the switch `preset`; `none` sets nothing.
        pub const NAMES: &[&str] = &["none", $($name,)*];

        /// All eras, the oldest first.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            changes: &[$((stringify!($switch), $value),)*],
        },)*];
    };
}

presets! {
    "v3.0": call_idle="revert" ttwu_queue="always" ttwu_via="resched" ttwu_poll="0"
        wa_idle="this_idle" wa_prev_idle="0" sched_idle_cpu="off" lock="ticket"
        tg_load="threshold" preempt="cfs" rq_layout="classic" sis="full" sis_cluster="0" ilb="on"
        nohz_nr_cpus="1";
    "v3.0-noqueue": ttwu_queue="off";
    "v3.3": ttwu_queue="cross_llc";
    "v3.16": ttwu_poll="1";
    "v4.15": lock="queued";
    "v4.16": wa_idle="cache_prev";
    "v5.4": sched_idle_cpu="fallback";
    "v5.6": sched_idle_cpu="always";
    "v5.8": call_idle="need_resched" ttwu_queue="on_cpu" ttwu_via="csd";
    "v5.15": wa_prev_idle="1";
    "v6.5": ttwu_queue="idle" sis="util";
    "v6.7": tg_load="ratelimit" preempt="eevdf";
    "v6.12": call_idle="sm_idle" sis_cluster="1";
    "v6.13": ilb="on_fixed";
    "v7.0": rq_layout="split" nohz_nr_cpus="0";
}

/// What the era of that name sets, in order, a later value of a switch being the one that holds;
/// `None`: there is no such era.
pub fn find(
    name: &str,
) -> Option<impl DoubleEndedIterator<Item = (&'static str, &'static str)> + Clone> {
    let last = PRESETS.iter().position(|preset| preset.name == name)?;
    Some(PRESETS[..=last].iter().flat_map(|preset| preset.changes).copied())
}

/// The value that an era gives a switch, if there is such an era and it gives one.
pub fn value(era: &str, switch: &str) -> Option<&'static str> {
    find(era)?.rev().find(|change| change.0 == switch).map(|change| change.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{Isa, check_switch};

    #[test]
    fn every_era_sets_switches_that_exist_on_both_and_that_the_first_one_sets() {
        for preset in PRESETS {
            for &(key, new) in preset.changes {
                for isa in [Isa::X86, Isa::Arm] {
                    assert!(check_switch(isa, key, new).is_ok(), "{} {key}={new}", preset.name);
                }
                assert!(value(PRESETS[0].name, key).is_some(), "{} {key}", preset.name);
                assert_eq!(value(preset.name, key), Some(new));
            }
            assert!(check_switch(Isa::X86, "preset", preset.name).is_ok(), "{}", preset.name);
        }
        assert!(find("none").is_none());
    }

    #[test]
    fn eras_keep_what_they_do_not_change() {
        let cases = [
            ("v3.0", "ttwu_queue", "always"),
            ("v3.16", "call_idle", "revert"),
            ("v4.16", "ttwu_queue", "cross_llc"),
            ("v5.15", "ttwu_queue", "on_cpu"),
            ("v6.5", "tg_load", "threshold"),
            ("v6.12", "ttwu_poll", "1"),
            ("v6.12", "preempt", "eevdf"),
            ("v7.0", "rq_layout", "split"),
            ("v6.5", "sis", "util"),
            ("v6.12", "ilb", "on"),
            ("v7.0", "ilb", "on_fixed"),
        ];
        for (era, switch, expected) in cases {
            assert_eq!(value(era, switch), Some(expected), "{era} {switch}");
        }
    }
}
