//! The machine of a case: a named one, with caches and legs drawn from the seed, and which of its
//! cpus run.

use tests_litmus::plan::Draw;
use topology::{IdleEntry, Machine};

/// Overrides drawn for a machine: small caches so that lines leave them, legs of any length. A
/// generated machine gets a shape too.
#[must_use]
pub fn overrides(name: &str, draw: &mut Draw) -> Vec<String> {
    let mut set = Vec::new();
    let mut put = |key: &str, value: String| set.push(format!("{key}={value}"));
    let cpus: Option<u64> = name.strip_prefix("smp-").and_then(|n| n.parse().ok());
    if let Some(cpus) = cpus {
        let smt = if cpus.is_multiple_of(2) { 1 + draw.below(2) } else { 1 };
        let packages = (1 << draw.below(3)).min(cpus / smt).max(1);
        put("smp.smt", smt.to_string());
        put("smp.packages", packages.to_string());
        put("smp.llc_width", (1 + draw.below(16)).to_string());
    }
    match draw.below(3) {
        0 => {}
        1 => {
            for (cache, kib) in [("l1d", 4), ("l1i", 8), ("l2", 16), ("l3", 64)] {
                put(&format!("cache.{cache}.size"), format!("{kib}KiB"));
            }
        }
        _ => {
            // A set of one way, and fewer lines above than below.
            for (cache, kib) in [("l1d", 1), ("l1i", 2), ("l2", 4), ("l3", 8)] {
                put(&format!("cache.{cache}.size"), format!("{kib}KiB"));
                put(&format!("cache.{cache}.ways"), (1 << draw.below(2)).to_string());
            }
        }
    }
    if draw.below(2) == 1 {
        for leg in ["core_llc_request", "llc_core_response", "llc_service", "home_service"] {
            put(&format!("latency.{leg}"), format!("{}ps", 500 + draw.below(20_000)));
        }
        for leg in ["memory", "smt_handover", "line_keep", "retry"] {
            put(&format!("latency.{leg}"), format!("{}ps", 500 + draw.below(50_000)));
        }
        for leg in ["llc_home", "llc_llc"] {
            put(&format!("latency.{leg}.package"), format!("{}ps", 1000 + draw.below(40_000)));
            put(&format!("latency.{leg}.remote"), format!("{}ps", 1000 + draw.below(90_000)));
        }
    }
    set
}

/// The cpus that run, cpu 0 first: neighbours or any, as drawn. Fewer are the first of more.
#[must_use]
pub fn seats(machine: &Machine, count: usize, draw: &mut Draw) -> Vec<(usize, u32)> {
    let mut cpus: Vec<usize> = (1..machine.cpus.len()).collect();
    let keys: Vec<u64> = machine.cpus.iter().map(|_| draw.next_u64()).collect();
    match draw.below(3) {
        0 => cpus.sort_by_key(|c| keys[*c]),
        1 => cpus.sort_by_key(|c| (machine.cpus[*c].core, machine.cpus[*c].smt)),
        _ => {}
    }
    std::iter::once(0).chain(cpus).take(count).map(|c| (c, machine.cpus[c].apic_id)).collect()
}

/// Hints of MWAIT that the machine knows and whose states leave the timer running.
#[must_use]
pub fn hints(machine: &Machine) -> Vec<u32> {
    if !machine.features.has("monitor") {
        return Vec::new();
    }
    let states = machine.idle.iter().filter(|s| s.enabled && !s.timer_stops);
    states
        .filter_map(|s| if let IdleEntry::Mwait(hint) = s.entry { Some(hint) } else { None })
        .collect()
}
