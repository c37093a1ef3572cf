//! What values of a machine file mean together: one function a subject, each rule with its words.
//!
//! Every rule runs, whatever the others found; values that could not be read are skipped. The
//! nesting rules are those of Linux: siblings in a core, clusters in dies, an LLC inside one
//! package and one node.

use crate::features::feature_names;
use crate::layout::{AffinityMisfit, CPUS_MAX, Layout, Misfit, affinity_fields, bits_for};
use crate::model::*;
use crate::read::{At, Reader};
use crate::report::near;
use crate::resolve::{
    XAPIC_ID_MAX, architectural_ids, cache_numbers, feature_set, fields, l2_level, llc_level,
};
use crate::schema::{CacheSpec, IdleSpec, LEVELS, LegSpec, Numbering, Spec, VERSION};
use crate::units::{self, Quantity};

/// Runs every rule; returns the layout if the structure stands.
pub(crate) fn check(r: &mut Reader, spec: &Spec) -> Option<Layout> {
    header(r, spec);
    features(r, spec);
    clocks(r, spec);
    caches(r, spec);
    core_types(r, spec);
    idle(r, spec);
    positive_legs(r, spec);
    wires(r, spec);
    identity(r, spec);
    isa_tables(r, spec);
    if let Some(latency) = &spec.dma {
        between(r, latency, "dma.latency", 1, 1_000_000_000_000);
    }
    let layout = structure(r, spec)?;
    numbering(r, spec, &layout);
    ids(r, spec, &layout);
    nesting(r, spec, &layout);
    private_caches(r, spec, &layout);
    memory(r, spec, &layout);
    groups(r, spec, &layout);
    legs(r, spec, &layout);
    Some(layout)
}

fn header(r: &mut Reader, spec: &Spec) {
    match &spec.version {
        None => {
            let place = spec.id.place;
            r.fault(place, "`schema` is missing", format!("begin with schema = {VERSION}"));
        }
        Some(version) if version.value != VERSION => {
            let message = format!("schema {} is not known", version.value);
            r.fault(version.place, message, format!("this program reads schema = {VERSION}"));
        }
        _ => {}
    }
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if spec.id.value.is_empty() || !spec.id.value.chars().all(is_plain) {
        let message = format!("id \"{}\" has letters that a name may not have", spec.id.value);
        r.fault(spec.id.place, message, "use a-z, 0-9, - and _");
    }
}

fn features(r: &mut Reader, spec: &Spec) {
    let known = feature_names(spec.isa.value);
    let mut seen: Vec<&str> = Vec::new();
    for feature in &spec.features {
        let name = feature.value.as_str();
        if name != "generic" && !known.contains(&name) {
            let help = match near(name, known.iter().copied()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => "leave it out, or spell it as /proc/cpuinfo does".to_string(),
            };
            r.fault(feature.place, format!("no feature \"{name}\" on this isa"), help);
        }
        if seen.contains(&name) {
            r.fault(feature.place, format!("feature \"{name}\" stands twice"), "remove one");
        }
        seen.push(name);
    }
    let set = feature_set(spec);
    let has = |name: &str| set.iter().any(|have| have == name);
    let needs = [
        ("avx2", "avx"),
        ("avx", "xsave"),
        ("fma", "avx"),
        ("x2apic", "apic"),
        ("pan2", "pan"),
        ("lrcpc2", "lrcpc"),
        ("flagm2", "flagm"),
        ("dpb2", "dpb"),
        ("pmull", "aes"),
        ("sha256", "sha1"),
        ("tlbirange", "tlbios"),
    ];
    for (feature, base) in needs {
        if has(feature) && !has(base) {
            let place = spec.features.iter().find(|at| at.value == feature);
            let place = place.map_or(spec.id.place, |at| at.place);
            r.fault(place, format!("feature \"{feature}\" needs \"{base}\""), "add it");
        }
    }
}

fn clocks(r: &mut Reader, spec: &Spec) {
    let groups = spec.groups.iter().filter_map(|group| group.clock.as_ref());
    let core: Vec<&At<Quantity>> = groups.chain([&spec.clocks.core]).collect();
    for clock in core {
        between(r, clock, "core clock", 10_000_000, 10_000_000_000);
        if clock.value.value % 1_000 != 0 {
            r.fault(clock.place, "core clock is not a whole number of kHz", "round it");
        }
    }
    let counter = &spec.clocks.counter;
    let (name, max) = match spec.isa.value {
        Isa::X86_64 => ("tsc", 10_000_000_000),
        Isa::Aarch64 => ("counter", 1_000_000_000),
    };
    between(r, counter, &format!("{name} clock"), 1_000_000, max);
    if let Some(timer) = &spec.clocks.apic_timer {
        between(r, timer, "apic_timer clock", 1_000_000, 1_000_000_000);
    }
    if !counter.value.value.is_multiple_of(1_000) {
        let message = format!("{name} clock is not a whole number of kHz");
        r.fault(counter.place, message, "round it");
    }
}

/// Requires a number in a closed range.
fn between(r: &mut Reader, at: &At<Quantity>, what: &str, low: u64, high: u64) {
    let value = at.value.value;
    if value < low || value > high {
        let show = |value| units::show(Quantity { value, ..at.value });
        let message = format!("{what} is {}", show(value));
        r.fault(at.place, message, format!("allowed: {} to {}", show(low), show(high)));
    }
}

fn caches(r: &mut Reader, spec: &Spec) {
    const NAMES: [&str; 4] = ["l1i", "l1d", "l2", "l3"];
    for cache in &spec.caches {
        let name = cache.name.value.as_str();
        if !NAMES.contains(&name) {
            let message = format!("no cache is called \"{name}\"");
            r.fault(cache.name.place, message, "names: l1i, l1d, l2, l3");
        }
        if cache.at.value == Level::Smt {
            let message = format!("cache {name} is attached to one sibling");
            r.fault(cache.at.place, message, "siblings share all caches: at = \"core\"");
        }
        if name.starts_with("l1") && cache.at.value < Level::Core {
            let message = format!("cache {name} is shared by cores");
            r.fault(cache.at.place, message, "first-level caches are private: at = \"core\"");
        }
        cache_geometry(r, name, [&cache.size, &cache.ways, &cache.latency]);
    }
    for name in ["l1i", "l1d"] {
        let has = spec.caches.iter().any(|cache| cache.name.value == name);
        if !has && !spec.caches.is_empty() {
            r.fault(spec.caches[0].name.place, format!("cache {name} is missing"), "add it");
        }
    }
    cache_order(r, spec);
}

fn cache_geometry(r: &mut Reader, name: &str, [size, ways, latency]: [&At<Quantity>; 3]) {
    between(r, size, &format!("size of cache {name}"), 1 << 10, 1 << 33);
    between(r, ways, &format!("ways of cache {name}"), 1, 128);
    between(r, latency, &format!("latency of cache {name}"), 1, 1_000_000);
    let way = ways.value.value.max(1) * u64::from(LINE_SIZE);
    if ways.is_known() && size.value.value % way != 0 {
        let message = format!("cache {name} does not divide into {} ways", ways.value.value);
        r.fault(size.place, message, format!("size must be a multiple of {way} bytes"));
    }
}

/// Every line of a private cache has a record on the host from the start.
fn private_caches(r: &mut Reader, spec: &Spec, layout: &Layout) {
    const MAX: u64 = 4 << 30;
    let has_l2 = l2_level(spec).is_some();
    let is_private = |cache: &&CacheSpec| match cache.name.value.as_str() {
        "l1i" | "l1d" => true,
        name => name == "l2" && has_l2,
    };
    let caches: Vec<&CacheSpec> = spec.caches.iter().filter(is_private).collect();
    let in_all = |cache: &&CacheSpec| {
        let sizes = (0..layout.count(Level::Core))
            .map(|core| cache_numbers(spec, layout, core, cache)[0].value);
        sizes.fold(0, u64::saturating_add)
    };
    let total = caches.iter().map(in_all).fold(0, u64::saturating_add);
    let largest = caches.iter().max_by_key(|cache| in_all(cache));
    if let Some(largest) = largest.filter(|_| total > MAX) {
        let show = units::show_bytes;
        let message = format!("private caches of all cores hold {} together", show(total));
        r.fault(largest.size.place, message, format!("allowed: {}; make them smaller", show(MAX)));
    }
}

/// Outer caches are shared at least as widely, and slower.
fn cache_order(r: &mut Reader, spec: &Spec) {
    let data = ["l1d", "l2", "l3"]
        .iter()
        .filter_map(|name| spec.caches.iter().find(|cache| cache.name.value == *name));
    let data: Vec<_> = data.collect();
    for pair in data.windows(2) {
        let (inner, outer) = (pair[0], pair[1]);
        let names = format!("{} than {}", outer.name.value, inner.name.value);
        if outer.at.value > inner.at.value {
            let message = format!("fewer cores share {names}");
            r.fault(outer.at.place, message, "an outer cache spans at least the inner one");
        }
        let is_same = outer.latency.value.dim == inner.latency.value.dim;
        if is_same && outer.latency.value.value <= inner.latency.value.value {
            let message = format!("a hit takes no longer in {names}");
            r.fault(outer.latency.place, message, "latencies grow outwards");
        }
    }
}

fn core_types(r: &mut Reader, spec: &Spec) {
    let names: Vec<&str> = spec.cores.iter().map(|core| core.name.value.as_str()).collect();
    let wanted = spec.groups.iter().filter_map(|group| group.core.as_ref());
    for name in wanted.chain([&spec.default_core]) {
        if !names.contains(&name.value.as_str()) {
            let help = match near(&name.value, crate::load::core_names()) {
                Some(near) => format!("did you mean \"{near}\"?"),
                None => format!("shipped: {}", crate::load::core_names().join(", ")),
            };
            r.fault(name.place, format!("no core type \"{}\"", name.value), help);
        }
    }
    for core in &spec.cores {
        if core.isa.value != spec.isa.value {
            let message = format!("core type \"{}\" has another isa", core.name.value);
            r.fault(core.isa.place, message, "machine and core type must agree");
        }
        for (key, at) in &core.pipe {
            between(r, at, &format!("`{key}`"), 1, 1 << 20);
        }
        for (key, at) in &core.sys {
            between(r, at, &format!("`{key}`"), 1, 1_000_000);
        }
        for [latency, units, interval] in &core.ops {
            between(r, latency, "latency of an operation", 1, 10_000);
            between(r, units, "units of an operation", 1, 16);
            between(r, interval, "interval of an operation", 1, 10_000);
        }
        if let Some(midr) = &core.midr {
            between(r, midr, "`midr`", 1, u64::from(u32::MAX));
        }
        for [entries, ways, latency] in &core.tlbs {
            between(r, latency, "latency of a TLB", 0, 1_000);
            between(r, entries, "TLB entries", 1, 1 << 16);
            let (entry_count, way_count) = (entries.value.value, ways.value.value);
            if ways.is_known() && (way_count == 0 || entry_count % way_count != 0) {
                let message = format!("a TLB of {entry_count} entries has {way_count} ways");
                r.fault(ways.place, message, "entries must be a multiple of ways");
            }
        }
        let pipe = |name| core.pipe.iter().find(|(key, _)| *key == name).map(|(_, at)| at);
        if let (Some(window), Some(width)) = (pipe("window"), pipe("dispatch_width"))
            && width.is_known()
            && window.value.value < width.value.value
        {
            let message = "window is smaller than dispatch_width";
            r.fault(window.place, message, "a window holds at least one dispatch group");
        }
    }
}

fn idle(r: &mut Reader, spec: &Spec) {
    for (n, state) in spec.idle.iter().enumerate() {
        idle_state(r, spec, state);
        let twin = spec.idle[..n].iter().find(|other| other.entry.value == state.entry.value);
        if let (Some(twin), true) = (twin, state.entry.is_known()) {
            let message = format!("{} is entered as {} is", state.name.value, twin.name.value);
            r.fault(state.entry.place, message, "each state needs an entry of its own");
        }
    }
    let x86 = spec.isa.value == Isa::X86_64;
    let basic = if x86 { IdleEntry::Hlt } else { IdleEntry::Wfi };
    if !spec.idle.iter().any(|state| state.entry.value == basic) {
        let word = if x86 { "hlt" } else { "wfi" };
        let message = format!("no idle state is entered by {word}");
        r.fault(spec.id.place, message, format!("add [idle.{word}] with entry = \"{word}\""));
    }
}

/// Bits of a PSCI power state that the original format leaves at zero.
const PSCI_RESERVED: u32 = 0xfcfe_0000;

fn idle_state(r: &mut Reader, spec: &Spec, state: &IdleSpec) {
    let name = &state.name.value;
    let entry = &state.entry;
    let is_x86_entry = !matches!(entry.value, IdleEntry::Wfi | IdleEntry::Psci(_));
    if is_x86_entry != (spec.isa.value == Isa::X86_64) {
        r.fault(entry.place, format!("idle {name} is entered as on another isa"), "see isa");
    }
    match (&state.exit_store, entry.value.has_monitor()) {
        (Some(store), false) if entry.is_known() => {
            let message = format!("idle {name} arms no monitor, so no store ends it");
            r.fault(store.place, message, "remove exit.store");
        }
        (None, true) => {
            let message = format!("idle {name} is left by stores too, but has no exit.store");
            r.fault(state.place, message, "add exit.store");
        }
        _ => {}
    }
    let is_mwait = matches!(entry.value, IdleEntry::Mwait(_));
    if is_mwait && !feature_set(spec).iter().any(|feature| feature == "monitor") {
        let message = format!("idle {name} needs MWAIT");
        r.fault(entry.place, message, "add feature \"monitor\"");
    }
    let exits = state.exit_store.iter().chain([&state.exit_interrupt, &state.entry_latency]);
    for time in exits {
        between(r, time, &format!("entry or exit time of idle {name}"), 1, 1_000_000_000_000);
    }
    for flush in &state.flushes {
        if !["l1", "l2", "l3", "tlb"].contains(&flush.value.as_str()) {
            let message = format!("\"{}\" cannot be flushed", flush.value);
            r.fault(flush.place, message, "one of l1, l2, l3, tlb");
        }
    }
    if state.residency.value.value < state.latency.value.value && state.residency.is_known() {
        let message = format!("idle {name} advertises a residency below its latency");
        r.fault(state.residency.place, message, "a stay shorter than the exit never pays");
    }
    for (time, most) in [(&state.queue, 1_000_000_000_000), (&state.flush_line, 1_000_000)] {
        if let Some(time) = time {
            between(r, time, &format!("a time of idle {name}"), 0, most);
        }
    }
    between(r, &state.snoop_latency, &format!("snoop_latency of idle {name}"), 0, 1_000_000_000);
    if let IdleEntry::Psci(parameter) = entry.value
        && parameter & PSCI_RESERVED != 0
    {
        let message = format!("power state {parameter:#x} of idle {name} has reserved bits");
        let help = "original format: state id 15:0, power-down 16, power level 25:24";
        r.fault(entry.place, message, help);
    }
    let optional = [&state.told_entry, &state.told_wakeup].into_iter().flatten();
    for told in optional.chain([&state.latency, &state.residency]) {
        between(r, told, "an advertised time", 0, 1_000_000_000_000);
        if told.value.value % 1_000_000 != 0 {
            r.fault(told.place, "advertised times are whole microseconds", "round it");
        }
    }
}

/// Longest leg or hold: 1 ms, so that sums of many stay far from overflow.
const LEG_MAX: Ps = 1_000_000_000;

fn positive_legs(r: &mut Reader, spec: &Spec) {
    let l = &spec.latency;
    let legs = [
        ("core_llc_request", &l.request),
        ("llc_core_response", &l.response),
        ("llc_service", &l.llc_service),
        ("home_service", &l.home_service),
        ("memory", &l.memory),
        ("smt_handover", &l.smt_handover),
        ("retry", &l.retry),
        ("ipi.stop", &spec.stop),
    ];
    let group = spec.groups.iter().flat_map(|group| {
        [("core_llc_request", &group.request), ("llc_core_response", &group.response)]
    });
    let group = group.filter_map(|(name, at)| Some((name, at.as_ref()?)));
    let levels = [("llc_home", &l.llc_home), ("home_llc", &l.home_llc), ("llc_llc", &l.llc_llc)];
    let levels = levels.iter().flat_map(|&(name, leg)| {
        let values = [&leg.node, &leg.package, &leg.remote];
        values.into_iter().filter_map(move |at| Some((name, at.as_ref()?)))
    });
    for (name, at) in legs.into_iter().chain(group).chain(levels) {
        between(r, at, &format!("leg `{name}`"), 1, LEG_MAX);
    }
    for (name, at) in
        [("line_keep", Some(&l.line_keep)), ("exclusive_hold", l.exclusive_hold.as_ref())]
    {
        if let Some(at) = at {
            between(r, at, &format!("hold `{name}`"), 0, LEG_MAX);
        }
    }
}

/// Returns the window as far as it can be known, or `None`.
fn window(spec: &Spec) -> Option<Ps> {
    let groups = spec.groups.iter();
    let requests = groups.clone().filter_map(|group| group.request.as_ref());
    let responses = groups.filter_map(|group| group.response.as_ref());
    let least = |base: &At<Quantity>, over: &mut dyn Iterator<Item = &At<Quantity>>| {
        let base = base.is_known().then_some(base.value.value)?;
        Some(over.map(|at| at.value.value).fold(base, u64::min))
    };
    let request = least(&spec.latency.request, &mut requests.into_iter())?;
    let response = least(&spec.latency.response, &mut responses.into_iter())?;
    Some(request.saturating_add(response))
}

fn wires(r: &mut Reader, spec: &Spec) {
    let names = ["self", "core", "llc", "package", "remote"];
    for (name, wire) in names.iter().zip(&spec.wire) {
        between(r, wire, &format!("wire `ipi.wire.{name}`"), 1, LEG_MAX);
    }
    if let Some(window) = window(spec) {
        let across = names.iter().zip(&spec.wire).skip(2);
        for (name, wire) in across.chain([(&"stop", &spec.stop)]) {
            if wire.value.value < window && wire.value.value > 0 {
                let (found, window) = (units::show(wire.value), units::show_time(window));
                let message = format!("{name} = {found} is shorter than the window {window}");
                let help = "what goes from core to core takes at least core_llc_request + \
                            llc_core_response";
                r.fault(wire.place, message, help);
            }
        }
    }
    for n in 3..5 {
        let (inner, outer) = (&spec.wire[n - 1], &spec.wire[n]);
        if inner.is_known() && outer.value.value < inner.value.value {
            let message = format!("ipi.wire.{} is shorter than {}", names[n], names[n - 1]);
            r.fault(outer.place, message, "wires grow with distance");
        }
    }
}

fn identity(r: &mut Reader, spec: &Spec) {
    let Some(identity) = &spec.identity else {
        if spec.isa.value == Isa::X86_64 && spec.isa.is_known() {
            let help = "add it with vendor, brand, family, model, stepping, physical_bits";
            r.fault(spec.id.place, "table [x86] is missing", help);
        }
        return;
    };
    if spec.isa.value != Isa::X86_64 {
        r.fault(identity.vendor.place, "[x86] belongs to another isa", "remove it");
    }
    if identity.vendor.value.len() != 12 || !identity.vendor.value.is_ascii() {
        let message = format!("vendor \"{}\" has not 12 letters", identity.vendor.value);
        r.fault(identity.vendor.place, message, "as in \"AuthenticAMD\"");
    }
    if identity.brand.value.len() > 48 {
        let message = format!("brand has {} bytes", identity.brand.value.len());
        r.fault(identity.brand.place, message, "at most 48");
    }
    let limits = [("family", 0, 270), ("model", 0, 255), ("stepping", 0, 15)];
    let bits = [("physical_bits", 36, 52)];
    for ((name, low, high), at) in limits.iter().chain(&bits).zip(&identity.numbers) {
        between(r, at, name, *low, *high);
    }
}

/// Tables that belong to one ISA, and must be there on it.
fn isa_tables(r: &mut Reader, spec: &Spec) {
    let is_x86 = spec.isa.value == Isa::X86_64;
    let arm_ids = spec.ids.affinity.iter().flatten().map(|at| at.place).next();
    let tables = [
        ("apic", spec.apic.place, true),
        ("monitor", spec.own_store_triggers.as_ref().map(|at| at.place), true),
        ("gic", spec.gic.as_ref().map(|gic| gic.version.place), false),
        ("arm", spec.arm.as_ref().map(|arm| arm.place), false),
        ("ids.affinity", arm_ids, false),
    ];
    for (name, place, is_of_x86) in tables {
        if let Some(place) = place.filter(|_| is_of_x86 != is_x86) {
            r.fault(place, format!("[{name}] belongs to another isa"), "remove it");
        }
    }
    if is_x86 {
        return;
    }
    let place = spec.id.place;
    if spec.gic.is_none() {
        r.fault(place, "table [gic] is missing", "add it with version = 2 or 3");
    }
    match &spec.arm {
        None => r.fault(place, "table [arm] is missing", "add it with physical_bits"),
        Some(arm) => {
            between(r, &arm.physical_bits, "physical_bits", 32, 48);
            if let Some(failure) = &arm.exclusive_failure {
                between(r, failure, "exclusive_failure", 0, 1 << 30);
                if failure.value.value == 1 {
                    let message = "exclusive_failure is 1: no store-exclusive ever succeeds";
                    r.fault(failure.place, message, "one in 2 or more fails; 0 for none");
                }
            }
            if let Some(time) = &arm.power_on {
                between(r, time, "power_on", 0, 1_000_000_000_000);
            }
            let far = arm.atomics.iter().find(|at| at.value != AtomicPlace::Near);
            if let Some(far) = far.filter(|_| !feature_set(spec).iter().any(|name| name == "lse")) {
                let message = "far atomics without feature \"lse\"";
                r.fault(far.place, message, "exclusives are always near; remove atomics");
            }
        }
    }
}

fn structure(r: &mut Reader, spec: &Spec) -> Option<Layout> {
    let mut is_sound = true;
    for ((name, _), widths) in LEVELS.iter().zip(&spec.levels.widths) {
        let is_bad = |&width: &u32| width == 0 || width as usize > CPUS_MAX;
        if let Some(width) = widths.value.iter().find(|width| is_bad(width)) {
            let message = format!("width {width} of level {name}");
            r.fault(widths.place, message, format!("allowed: 1 to {CPUS_MAX}"));
            is_sound = false;
        }
        if widths.value.is_empty() {
            let message = format!("level {name} has no width");
            r.fault(widths.place, message, "one number, or one for each parent");
            is_sound = false;
        }
        is_sound &= widths.is_known();
    }
    if !is_sound {
        return None;
    }
    match Layout::new(spec) {
        Ok(layout) => Some(layout),
        Err(Misfit::Length { level, parents, found }) => {
            let name = Layout::name(level);
            let message =
                format!("level {name} has a list of {found} widths for {parents} parents");
            r.fault(spec.levels.widths[level].place, message, "one width, or one each");
            None
        }
        Err(Misfit::TooMany { level, count }) => {
            let name = Layout::name(level);
            let message = format!("{count} units of level {name}");
            let help = format!("a machine has at most {CPUS_MAX} cpus");
            r.fault(spec.levels.widths[level].place, message, help);
            None
        }
    }
}

fn numbering(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let Numbering::List(list) = &spec.levels.numbering else { return };
    let cpus = layout.count(Level::Smt);
    let mut sorted = list.value.clone();
    sorted.sort_unstable();
    if !sorted.iter().map(|&unit| unit as usize).eq(0..cpus) {
        let message = format!("numbering does not list each of 0 to {} once", cpus - 1);
        let help = "entry n is the place of cpu n when counting core by core, siblings together";
        r.fault(list.place, message, help);
    }
}

fn ids(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let mut is_sound = order_is_sound(spec);
    for (at, (name, level)) in LEVELS.iter().enumerate() {
        is_sound &= order(r, spec, layout, at);
        let Some(bits) = &spec.ids.bits[at] else { continue };
        let needed = bits_for(layout.width_max(*level));
        if bits.is_known() && bits.value < needed {
            let width = layout.width_max(*level);
            let message = format!("{} id bits do not hold {width} units of {name}", bits.value);
            r.fault(bits.place, message, format!("at least {needed}"));
            is_sound = false;
        }
    }
    match spec.isa.value {
        Isa::Aarch64 if is_sound => affinity(r, spec, layout),
        Isa::Aarch64 => {}
        Isa::X86_64 => {
            let fields = fields(spec, layout);
            let total: u64 = fields.iter().map(|&(_, bits)| u64::from(bits)).sum();
            if total > 32 {
                let message = format!("architectural ids need {total} bits");
                r.fault(spec.ids.place, message, "an APIC id has 32");
            } else if is_sound {
                apic_mode(r, spec, layout);
            }
        }
    }
}

/// Affinity fields, and what the interrupt controller can address.
fn affinity(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let mut place = spec.ids.place;
    let (message, help) = match affinity_fields(spec, layout) {
        Ok(fields) => {
            aff0(r, spec, layout, fields);
            gic_cpus(r, spec, layout);
            return;
        }
        Err(AffinityMisfit::Levels) => {
            place = spec.levels.place;
            (
                "MPIDR has Aff0 to Aff3, no more".to_string(),
                "leave a level out, or set ids.affinity",
            )
        }
        Err(AffinityMisfit::Wide { field, bits }) => (
            format!("Aff{field} of MPIDR needs {bits} bits"),
            "it has 8; see ids.affinity and bits",
        ),
        Err(AffinityMisfit::Field { level }) => {
            let message = format!("ids.affinity names no field for {}", Layout::name(level));
            (message, "0 to 3 for each level that has more than one unit")
        }
    };
    r.fault(place, message, help);
}

/// Threads are alone in Aff0 where MPIDR says so, and without a range selector an SGI reaches
/// sixteen values of it.
///
/// Source: \[GICv3\] ICC_SGI1R_EL1, "TargetList", "RS". Status: spec.
fn aff0(r: &mut Reader, spec: &Spec, layout: &Layout, fields: [(u32, u32); 6]) {
    let smt = Level::Smt as usize;
    for (level, &(shift, bits)) in fields.iter().enumerate().take(smt) {
        if spec.ids.is_multithreaded.value && shift < 8 && bits > 0 {
            let place = spec.ids.is_multithreaded.place;
            let message = format!("ids.multithreaded, but {} is in Aff0", Layout::name(level));
            r.fault(place, message, "Aff0 counts threads then; use Aff1 to Aff3 for it");
        }
    }
    let largest = architectural_ids(spec, layout).into_iter().map(|id| id & 0xff).max();
    let largest = largest.unwrap_or(0);
    let Some(gic) = spec.gic.as_ref().filter(|gic| gic.version.value == GicVersion::V3) else {
        return;
    };
    if largest > 15 && !gic.has_range_selector.value {
        let message = format!("Aff0 goes to {largest}, an SGI reaches 0 to 15");
        r.fault(gic.version.place, message, "set gic.range_selector, or move the level to Aff1");
    }
}

/// Source: \[GICv2\] "Cpu interfaces": at most eight. Status: spec.
fn gic_cpus(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let cpus = layout.count(Level::Smt);
    let gic = spec.gic.as_ref().filter(|gic| gic.version.value == GicVersion::V2);
    if let Some(gic) = gic.filter(|_| cpus > 8) {
        let message = format!("gic.version 2 with {cpus} cpus");
        r.fault(gic.version.place, message, "GICv2 has 8 cpu interfaces; use version 3");
    }
}

/// Whether the order of a level's ids is one id for each unit of its parent.
fn order(r: &mut Reader, spec: &Spec, layout: &Layout, at: usize) -> bool {
    let (name, level) = LEVELS[at];
    let Some(order) = &spec.ids.orders[at] else { return true };
    let width = layout.width_max(level);
    let mut sorted = order.value.clone();
    sorted.sort_unstable();
    sorted.dedup();
    let bits = spec.ids.bits[at].as_ref().map_or(31, |bits| bits.value);
    let is_wide = order.value.iter().any(|&id| u64::from(id) >> bits.min(63) != 0);
    if sorted.len() != width || order.value.len() != width {
        let message = format!("ids.order.{name} has {} distinct ids", sorted.len());
        r.fault(order.place, message, format!("one for each of the {width} units of {name}"));
        return false;
    }
    if is_wide {
        let message = format!("ids.order.{name} does not fit {bits} bits");
        r.fault(order.place, message, format!("raise ids.bits.{name} or lower the ids"));
        return false;
    }
    true
}

/// Ids in plain order are sound if their widths could be read.
fn order_is_sound(spec: &Spec) -> bool {
    spec.ids.bits.iter().flatten().all(At::is_known)
}

fn apic_mode(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let largest = architectural_ids(spec, layout).into_iter().max().unwrap_or(0);
    let set = feature_set(spec);
    let has_x2apic = set.iter().any(|name| name == "x2apic");
    let mode = spec.apic.mode.as_ref();
    let is_x2apic = mode.map_or(largest > XAPIC_ID_MAX, |m| m.value == ApicMode::X2apic);
    let place = mode.map_or(spec.id.place, |mode| mode.place);
    if !is_x2apic && largest > XAPIC_ID_MAX {
        let message = format!("apic id {largest} does not fit xAPIC (max {XAPIC_ID_MAX})");
        r.fault(place, message, "set apic.mode = \"x2apic\" or lower the id bits");
    }
    if is_x2apic && !has_x2apic {
        let message = format!("largest apic id {largest} in x2APIC mode without the feature");
        r.fault(place, message, "add feature \"x2apic\"");
    }
}

/// Linux's rules: an LLC lies inside one package and one node.
fn nesting(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let llc = llc_level(spec);
    if let Some(place) = spec.is_llc_package.as_ref().map(|at| at.place) {
        let has_llc = |level: Level| level > Level::Package && level < Level::Core;
        let inner = spec.caches.iter().find(|cache| has_llc(cache.at.value));
        if let Some(cache) = inner.filter(|cache| cache.name.value == "l3") {
            let message = format!("llc = \"package\", but {} is described", cache.name.value);
            r.fault(place, message, "the llc domain is where the outermost cache is; remove llc");
        }
    }
    if llc == Level::Core && layout.count(Level::Core) > 1 {
        let place = spec.caches.first().map_or(spec.id.place, |cache| cache.name.place);
        let message = "no cache is shared by cores";
        r.fault(place, message, "add llc = \"package\", or attach l3 to a wider level");
    }
    let node = &spec.memory.node;
    if node.value > llc && layout.count(node.value) > layout.count(llc) {
        let message = format!("nodes by {} divide an llc", Layout::name(node.value as usize));
        r.fault(node.place, message, "an llc never spans nodes; choose a level further out");
    }
}

fn memory(r: &mut Reader, spec: &Spec, layout: &Layout) {
    const MIN: u64 = 16 << 20;
    const ALIGN: u64 = 2 << 20;
    let size = &spec.memory.per_node;
    let is_x86 = spec.isa.value == Isa::X86_64;
    let max = if is_x86 { DEVICE_HOLE.start } else { 1 << 40 };
    between(r, size, "memory.per_node", MIN, max);
    if !size.value.value.is_multiple_of(ALIGN) {
        let message =
            format!("memory.per_node {} is not whole large pages", units::show(size.value));
        r.fault(size.place, message, "a multiple of 2MiB");
    }
    let Some(matrix) = &spec.memory.distance else { return };
    let nodes = layout.count(spec.memory.node.value);
    let rows = &matrix.value;
    if rows.len() != nodes || rows.iter().any(|row| row.len() != nodes) {
        let message = format!("memory.distance is not {nodes} x {nodes}");
        r.fault(matrix.place, message, "one row and one column for each node");
        return;
    }
    let is_off = |from: usize, to: usize| match rows[from][to] {
        cell if from == to => cell != 10,
        cell => cell <= 10 || cell > 254,
    };
    if (0..nodes).any(|from| (0..nodes).any(|to| is_off(from, to))) {
        let message = "memory.distance must be 10 on the diagonal and 11 to 254 elsewhere";
        r.fault(matrix.place, message, "as ACPI SLIT and FDT distance-map have it");
    }
}

fn groups(r: &mut Reader, spec: &Spec, layout: &Layout) {
    for group in &spec.groups {
        let units = layout.count(group.level.value);
        let far = group.units.value.iter().find(|&&unit| unit as usize >= units);
        if let Some(far) = far {
            let level = Layout::name(group.level.value as usize);
            let message = format!("no {level} {far}");
            r.fault(group.units.place, message, format!("the machine has 0 to {}", units - 1));
        }
        let is_empty = group.core.is_none()
            && group.clock.is_none()
            && group.caches.is_empty()
            && group.request.is_none()
            && group.response.is_none();
        if is_empty {
            let help = "set core, clock, cache.*, core_llc_request or llc_core_response";
            r.fault(group.place, "the group changes nothing", help);
        }
        for (name, numbers) in &group.caches {
            let Some(cache) = spec.caches.iter().find(|cache| cache.name.value == name.value)
            else {
                r.fault(name.place, format!("no cache \"{}\"", name.value), "see [cache]");
                continue;
            };
            let base = [&cache.size, &cache.ways, &cache.latency];
            let pick = |n: usize| numbers[n].as_ref().unwrap_or(base[n]);
            cache_geometry(r, &name.value, [pick(0), pick(1), pick(2)]);
        }
    }
}

/// Every pair that the machine has must have a leg.
fn legs(r: &mut Reader, spec: &Spec, layout: &Layout) {
    let llcs = layout.count(llc_level(spec));
    let nodes = layout.count(spec.memory.node.value);
    let packages = layout.count(Level::Package);
    let l = &spec.latency;
    let place = spec.latency.memory.place;
    let is_split = llcs > packages || nodes > packages;
    let by_level = |r: &mut Reader, name: &str, leg: &LegSpec, needs_package: bool| {
        let is_full = leg.matrix.is_some() || !leg.by_home.is_empty();
        let place = leg.place.unwrap_or(place);
        if needs_package && !is_full && leg.package.is_none() {
            let message = format!("`latency.{name}.package` is missing");
            r.fault(place, message, "add it, or a matrix");
        }
        if packages > 1 && !is_full && leg.remote.is_none() {
            let message = format!("`latency.{name}.remote` is missing on {packages} packages");
            r.fault(place, message, "add it, or a matrix");
        }
    };
    by_level(r, "llc_home", &l.llc_home, true);
    if l.home_llc.place.is_some() {
        by_level(r, "home_llc", &l.home_llc, true);
    }
    by_level(r, "llc_llc", &l.llc_llc, is_split);
    matrix(r, "llc_home", l.llc_home.matrix.as_ref(), llcs, nodes);
    matrix(r, "home_llc", l.home_llc.matrix.as_ref(), nodes, llcs);
    matrix(r, "llc_llc", l.llc_llc.matrix.as_ref(), llcs, llcs);
    for home in &l.llc_llc.by_home {
        matrix(r, "llc_llc", Some(home), llcs, llcs);
    }
    if let Some(first) = l.llc_llc.by_home.first()
        && l.llc_llc.by_home.len() != nodes
    {
        let message = format!("by_home has {} matrices", l.llc_llc.by_home.len());
        r.fault(first.place, message, format!("one for each of {nodes} nodes"));
    }
}

fn matrix(r: &mut Reader, name: &str, at: Option<&At<Vec<Vec<u64>>>>, rows: usize, columns: usize) {
    let Some(at) = at else { return };
    if at.value.len() != rows || at.value.iter().any(|row| row.len() != columns) {
        let message = format!("matrix of {name} is not {rows} x {columns}");
        r.fault(at.place, message, "rows are where the leg starts, columns where it ends");
        return;
    }
    let is_between_llcs = name == "llc_llc";
    let is_zero = |(row, cells): (usize, &Vec<u64>)| {
        let zero =
            |(column, &cell): (usize, &u64)| cell == 0 && !(is_between_llcs && row == column);
        cells.iter().enumerate().any(zero)
    };
    if at.value.iter().enumerate().any(is_zero) {
        r.fault(at.place, format!("matrix of {name} has a zero leg"), "every leg takes time");
    }
    if at.value.iter().flatten().any(|&cell| cell > LEG_MAX) {
        let message = format!("matrix of {name} has a leg above {}", units::show_time(LEG_MAX));
        r.fault(at.place, message, "times of a matrix are in ns");
    }
}
