//! The machine of a case: a named one, with caches and legs drawn from the seed, and which of its
//! cpus run.

use tests_litmus::plan::Draw;
use topology::{IdleEntry, Isa, Machine};

/// Overrides drawn for a machine: small caches so that lines leave them, legs of any length. A
/// generated machine gets a shape too.
#[must_use]
pub fn overrides(name: &str, isa: Isa, draw: &mut Draw) -> Vec<String> {
    let mut set = Vec::new();
    let mut put = |key: &str, value: String| set.push(format!("{key}={value}"));
    let is_arm = isa == Isa::Aarch64;
    let number = name.strip_prefix("smp-").map(|n| n.strip_prefix("arm-").unwrap_or(n));
    let cpus: Option<u64> = number.and_then(|n| n.parse().ok());
    if let Some(cpus) = cpus {
        let has_siblings = cpus.is_multiple_of(2) && !is_arm;
        let smt = if has_siblings { 1 + draw.below(2) } else { 1 };
        let packages = (1 << draw.below(3)).min(cpus / smt).max(1);
        put("smp.smt", smt.to_string());
        put("smp.packages", packages.to_string());
        // An affinity field of arm64 counts to 256.
        put("smp.llc_width", (1 + draw.below(16)).max(1 + u64::from(is_arm)).to_string());
    }
    match draw.below(3) {
        0 => {}
        1 => {
            for (cache, kib) in [("l1d", 4), ("l1i", 8), ("l2", 16), ("l3", 64)] {
                put(&format!("cache.{cache}.size"), format!("{kib}KiB"));
            }
        }
        _ => {
            // A set of one way, and fewer lines above than below. Where an instruction takes the
            // line of the load exclusive before it out of its set, no store exclusive succeeds:
            // arm64 has more ways.
            let least = |cache| match cache {
                "l3" if is_arm => 8,
                _ if is_arm => 2,
                _ => 1,
            };
            for (cache, kib) in [("l1d", 1), ("l1i", 2), ("l2", 4), ("l3", 8)] {
                put(&format!("cache.{cache}.size"), format!("{kib}KiB"));
                put(&format!("cache.{cache}.ways"), (least(cache) << draw.below(2)).to_string());
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
    if is_arm {
        for form in ["load", "store", "acquire", "release"] {
            let place = ["near", "far", "held"][draw.below(3) as usize];
            set.push(format!("arm.atomics.{form}={place}"));
        }
        let one_in = [0, 2, 3, 10][draw.below(4) as usize];
        set.push(format!("arm.exclusive_failure={one_in}"));
        set.push(format!("latency.exclusive_hold={}ns", draw.below(40)));
    }
    set
}

/// The cpus that run, cpu 0 first: neighbours or any, as drawn. Fewer are the first of more.
#[must_use]
pub fn seats(machine: &Machine, count: usize, draw: &mut Draw) -> Vec<(usize, u64)> {
    let mut cpus: Vec<usize> = (1..machine.cpus.len()).collect();
    let keys: Vec<u64> = machine.cpus.iter().map(|_| draw.next_u64()).collect();
    match draw.below(3) {
        0 => cpus.sort_by_key(|c| keys[*c]),
        1 => cpus.sort_by_key(|c| (machine.cpus[*c].core, machine.cpus[*c].smt)),
        _ => {}
    }
    let id = |cpu: usize| match machine.isa {
        Isa::X86_64 => u64::from(machine.cpus[cpu].apic_id),
        Isa::Aarch64 => machine.cpus[cpu].mpidr,
    };
    std::iter::once(0).chain(cpus).take(count).map(|c| (c, id(c))).collect()
}

/// Hints of MWAIT that the machine knows and whose states leave the timer running; one of no
/// meaning for WFE.
#[must_use]
pub fn hints(machine: &Machine) -> Vec<u32> {
    if machine.isa == Isa::Aarch64 {
        return vec![0];
    }
    if !machine.features.has("monitor") {
        return Vec::new();
    }
    let states = machine.idle.iter().filter(|s| s.enabled && !s.timer_stops);
    states
        .filter_map(|s| if let IdleEntry::Mwait(hint) = s.entry { Some(hint) } else { None })
        .collect()
}
