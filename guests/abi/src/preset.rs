//! Era presets: the policies of a version of Linux, as far as the kernel has them.
//!
//! `preset=NAME` sets all switches of a row; switches of the command line override them.

/// An era: its switches in the order of the table of switches.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Value of `preset=`.
    pub name: &'static str,
    /// What it sets.
    pub switches: &'static [(&'static str, &'static str)],
}

macro_rules! presets {
    ($($name:literal: $call_idle:literal, $ttwu:literal $via:literal $poll:literal,
        $wa_idle:literal $wa_prev_idle:literal, $sched_idle_cpu:literal, $lock:literal;)*) => {
        /// Values of the switch `preset`; `none` sets nothing.
        pub const NAMES: &[&str] = &["none", $($name,)*];

        /// All eras, the oldest first.
        pub const PRESETS: &[Preset] = &[$(Preset {
            name: $name,
            switches: &[
                ("call_idle", $call_idle),
                ("ttwu_queue", $ttwu),
                ("ttwu_via", $via),
                ("ttwu_poll", $poll),
                ("wa_idle", $wa_idle),
                ("wa_prev_idle", $wa_prev_idle),
                ("sched_idle_cpu", $sched_idle_cpu),
                ("lock", $lock),
            ],
        },)*];
    };
}

// name: call_idle, ttwu_queue ttwu_via ttwu_poll, wa_idle wa_prev_idle, sched_idle_cpu, lock
presets! {
    "v3.0":         "revert", "always" "resched" "0",    "this_idle" "0",  "off",      "ticket";
    "v3.0-noqueue": "revert", "off" "resched" "0",       "this_idle" "0",  "off",      "ticket";
    "v3.3":         "revert", "cross_llc" "resched" "0", "this_idle" "0",  "off",      "ticket";
    "v3.16":        "revert", "cross_llc" "resched" "1", "this_idle" "0",  "off",      "ticket";
    "v4.15":        "revert", "cross_llc" "resched" "1", "this_idle" "0",  "off",      "queued";
    "v4.16":        "revert", "cross_llc" "resched" "1", "cache_prev" "0", "off",      "queued";
    "v5.4":         "revert", "cross_llc" "resched" "1", "cache_prev" "0", "fallback", "queued";
    "v5.6":         "revert", "cross_llc" "resched" "1", "cache_prev" "0", "always",   "queued";
    "v5.8":         "need_resched", "on_cpu" "csd" "1",  "cache_prev" "0", "always",   "queued";
    "v5.15":        "need_resched", "on_cpu" "csd" "1",  "cache_prev" "1", "always",   "queued";
    "v6.5":         "need_resched", "idle" "csd" "1",    "cache_prev" "1", "always",   "queued";
    "v6.7":         "need_resched", "idle" "csd" "1",    "cache_prev" "1", "always",   "queued";
    "v6.12":        "sm_idle", "idle" "csd" "1",         "cache_prev" "1", "always",   "queued";
}

/// The era of that name, if there is one.
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|preset| preset.name == name)
}

impl Preset {
    /// The value that the era gives a switch, if it gives one.
    pub fn get(&self, switch: &str) -> Option<&'static str> {
        self.switches.iter().find(|pair| pair.0 == switch).map(|pair| pair.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::switch::{Isa, check_switch};

    #[test]
    fn every_era_sets_switches_that_exist_on_both() {
        for preset in PRESETS {
            for (key, value) in preset.switches {
                for isa in [Isa::X86, Isa::Arm] {
                    assert!(check_switch(isa, key, value).is_ok(), "{} {key}={value}", preset.name);
                }
            }
            assert!(check_switch(Isa::X86, "preset", preset.name).is_ok(), "{}", preset.name);
        }
        assert_eq!(find("v5.15").and_then(|preset| preset.get("ttwu_queue")), Some("on_cpu"));
        assert!(find("none").is_none());
    }
}
