//! The shape of a machine file, version 1, and its reading into plain values with places.
//!
//! Keys, types, units and provenance are judged here, by the reader; what values mean together is
//! judged in `check`, and `resolve` turns the result into a `Machine`.

use crate::model::{
    ApicMode, AtomicPlace, Conduit, GicVersion, IdleEntry, IdleScope, Isa, Level, OP_NAMES, OPS_X86,
};
use crate::read::{At, Reader, Scope};
use crate::tree::{Place, Table};
use crate::units::{Dim, Quantity};

/// The levels with their keys, outermost first.
pub(crate) const LEVELS: [(&str, Level); 6] = [
    ("package", Level::Package),
    ("die", Level::Die),
    ("complex", Level::Complex),
    ("cluster", Level::Cluster),
    ("core", Level::Core),
    ("smt", Level::Smt),
];

/// The version of the schema that this crate reads.
pub(crate) const VERSION: u32 = 1;

pub(crate) struct Spec {
    pub(crate) version: Option<At<u32>>,
    pub(crate) id: At<String>,
    pub(crate) name: At<String>,
    pub(crate) isa: At<Isa>,
    pub(crate) features: Vec<At<String>>,
    pub(crate) is_llc_package: Option<At<()>>,
    pub(crate) levels: LevelSpec,
    pub(crate) ids: IdSpec,
    pub(crate) caches: Vec<CacheSpec>,
    pub(crate) memory: MemorySpec,
    pub(crate) clocks: ClockSpec,
    pub(crate) default_core: At<String>,
    pub(crate) cores: Vec<CoreSpec>,
    pub(crate) groups: Vec<GroupSpec>,
    pub(crate) latency: LatencySpec,
    pub(crate) wire: [At<Quantity>; 5],
    pub(crate) stop: At<Quantity>,
    pub(crate) apic: ApicSpec,
    pub(crate) own_store_triggers: Option<At<bool>>,
    pub(crate) gic: Option<GicSpec>,
    pub(crate) arm: Option<ArmSpec>,
    pub(crate) dma: Option<At<Quantity>>,
    pub(crate) idle: Vec<IdleSpec>,
    pub(crate) identity: Option<IdentitySpec>,
}

pub(crate) struct LevelSpec {
    pub(crate) widths: [At<Vec<u32>>; 6],
    pub(crate) numbering: Numbering,
    pub(crate) place: Place,
}

pub(crate) enum Numbering {
    SmtLast,
    SmtFirst,
    List(At<Vec<u32>>),
}

pub(crate) struct IdSpec {
    pub(crate) bits: [Option<At<u32>>; 6],
    pub(crate) orders: [Option<At<Vec<u32>>>; 6],
    /// Affinity field of a level (Arm).
    pub(crate) affinity: [Option<At<u32>>; 6],
    /// `MPIDR_EL1.MT`: Aff0 counts threads, whether a core has several or not (Arm).
    pub(crate) is_multithreaded: At<bool>,
    pub(crate) place: Place,
}

#[derive(Default)]
pub(crate) struct ApicSpec {
    pub(crate) place: Option<Place>,
    pub(crate) mode: Option<At<ApicMode>>,
    pub(crate) is_icr_ordered: bool,
}

pub(crate) struct GicSpec {
    pub(crate) version: At<GicVersion>,
    pub(crate) has_range_selector: At<bool>,
}

/// `[arm]`: choices that the architecture leaves to the implementation.
pub(crate) struct ArmSpec {
    pub(crate) place: Place,
    pub(crate) conduit: At<Conduit>,
    pub(crate) physical_bits: At<Quantity>,
    pub(crate) is_event_set: At<bool>,
    /// Where atomics of each form are performed, by the keys of `ATOMICS`.
    pub(crate) atomics: [At<AtomicPlace>; 4],
    pub(crate) exclusive_failure: Option<At<Quantity>>,
    pub(crate) power_on: Option<At<Quantity>>,
}

pub(crate) struct CacheSpec {
    pub(crate) name: At<String>,
    pub(crate) at: At<Level>,
    pub(crate) size: At<Quantity>,
    pub(crate) ways: At<Quantity>,
    pub(crate) latency: At<Quantity>,
}

pub(crate) struct MemorySpec {
    pub(crate) node: At<Level>,
    pub(crate) per_node: At<Quantity>,
    pub(crate) distance: Option<At<Vec<Vec<u64>>>>,
}

pub(crate) struct ClockSpec {
    pub(crate) core: At<Quantity>,
    /// The clock that the guest reads: `tsc`, or `counter` on Arm.
    pub(crate) counter: At<Quantity>,
    pub(crate) apic_timer: Option<At<Quantity>>,
}

pub(crate) struct CoreSpec {
    pub(crate) name: At<String>,
    pub(crate) isa: At<Isa>,
    pub(crate) is_in_order: At<bool>,
    /// `MIDR_EL1` (Arm).
    pub(crate) midr: Option<At<Quantity>>,
    pub(crate) pipe: Vec<(&'static str, At<Quantity>)>,
    pub(crate) tlbs: [[At<Quantity>; 3]; 3],
    pub(crate) ops: Vec<[At<Quantity>; 3]>,
    pub(crate) sys: Vec<(&'static str, At<Quantity>)>,
}

/// Size, ways and latency where a group overrides them.
pub(crate) type CacheOver = [Option<At<Quantity>>; 3];

pub(crate) struct GroupSpec {
    pub(crate) place: Place,
    pub(crate) level: At<Level>,
    pub(crate) units: At<Vec<u32>>,
    pub(crate) core: Option<At<String>>,
    pub(crate) clock: Option<At<Quantity>>,
    pub(crate) caches: Vec<(At<String>, CacheOver)>,
    pub(crate) request: Option<At<Quantity>>,
    pub(crate) response: Option<At<Quantity>>,
}

pub(crate) struct LatencySpec {
    pub(crate) request: At<Quantity>,
    pub(crate) response: At<Quantity>,
    pub(crate) llc_service: At<Quantity>,
    pub(crate) home_service: At<Quantity>,
    pub(crate) memory: At<Quantity>,
    pub(crate) smt_handover: At<Quantity>,
    pub(crate) line_keep: At<Quantity>,
    pub(crate) exclusive_hold: Option<At<Quantity>>,
    pub(crate) retry: At<Quantity>,
    pub(crate) llc_home: LegSpec,
    pub(crate) home_llc: LegSpec,
    pub(crate) llc_llc: LegSpec,
}

/// A leg by level, as a matrix, or both; the matrix wins.
#[derive(Default)]
pub(crate) struct LegSpec {
    pub(crate) place: Option<Place>,
    pub(crate) node: Option<At<Quantity>>,
    pub(crate) package: Option<At<Quantity>>,
    pub(crate) remote: Option<At<Quantity>>,
    pub(crate) matrix: Option<At<Vec<Vec<u64>>>>,
    /// One matrix for each home node.
    pub(crate) by_home: Vec<At<Vec<Vec<u64>>>>,
}

pub(crate) struct IdleSpec {
    pub(crate) name: At<String>,
    pub(crate) place: Place,
    pub(crate) entry: At<IdleEntry>,
    pub(crate) is_enabled: At<bool>,
    pub(crate) entry_latency: At<Quantity>,
    pub(crate) is_abortable: At<bool>,
    pub(crate) exit_store: Option<At<Quantity>>,
    pub(crate) exit_interrupt: At<Quantity>,
    pub(crate) snoop_latency: At<Quantity>,
    pub(crate) flushes: Vec<At<String>>,
    pub(crate) flush_line: Option<At<Quantity>>,
    pub(crate) queue: Option<At<Quantity>>,
    pub(crate) timer_stops: At<bool>,
    pub(crate) scope: At<IdleScope>,
    pub(crate) told_entry: Option<At<Quantity>>,
    pub(crate) latency: At<Quantity>,
    pub(crate) told_wakeup: Option<At<Quantity>>,
    pub(crate) residency: At<Quantity>,
}

pub(crate) struct IdentitySpec {
    pub(crate) vendor: At<String>,
    pub(crate) brand: At<String>,
    pub(crate) numbers: [At<Quantity>; 4],
}

/// Keys of `[cores.NAME.pipe]`.
pub(crate) const PIPE: [(&str, Dim); 13] = [
    ("dispatch_width", Dim::Count),
    ("retire_width", Dim::Count),
    ("window", Dim::Count),
    ("load_buffer", Dim::Count),
    ("store_buffer", Dim::Count),
    ("miss_buffer", Dim::Count),
    ("store_forward", Dim::Cycles),
    ("drain_interval", Dim::Cycles),
    ("mispredict", Dim::Cycles),
    ("predictor_entries", Dim::Count),
    ("predictor_history", Dim::Count),
    ("btb_entries", Dim::Count),
    ("return_stack", Dim::Count),
];

/// Keys of `[cores.NAME.sys]` on x86, in core cycles.
const SYS_X86: [&str; 31] = [
    "rmw_l1",
    "monitor",
    "mwait",
    "umwait",
    "tpause",
    "hlt",
    "pause",
    "mfence",
    "lfence",
    "sfence",
    "cpuid",
    "rdtsc",
    "rdtscp",
    "rdmsr",
    "wrmsr",
    "x2apic_write",
    "icr_write",
    "xapic_mmio",
    "port_io",
    "irq_entry",
    "iret",
    "syscall",
    "sysret",
    "swapgs",
    "cli_sti",
    "mov_cr",
    "invlpg",
    "clflush",
    "xsave",
    "rep_step",
    "rep_start",
];

/// Keys of `[cores.NAME.sys]` on Arm, in core cycles.
const SYS_ARM: [&str; 16] = [
    "rmw_l1",
    "wfe",
    "wfi",
    "yield",
    "dmb",
    "dsb",
    "isb",
    "counter_read",
    "sysreg_read",
    "sysreg_write",
    "sgi_write",
    "exception_entry",
    "eret",
    "firmware_call",
    "tlbi",
    "cache_maintenance",
];

/// Keys of `[arm.atomics]`: forms of LSE atomics.
const ATOMICS: [&str; 4] = ["load", "store", "acquire", "release"];

const ISAS: [(&str, Isa); 2] = [("x86_64", Isa::X86_64), ("aarch64", Isa::Aarch64)];

/// Reads a whole file.
pub(crate) fn read(r: &mut Reader, table: &Table) -> Spec {
    let root = r.root(table);
    r.read_citations(&root);
    let isa = r.choice(&root, "isa", &ISAS).unwrap_or_else(|| {
        r.fault(root.place, "`isa` is missing", "isa = \"x86_64\" or \"aarch64\"");
        poisoned(Isa::X86_64, root.place)
    });
    let (default_core, cores) = read_cores(r, &root);
    let (wire, stop) = read_ipi(r, &root);
    let spec = Spec {
        version: r.int(&root, "schema"),
        id: r.need_text(&root, "id", "id = \"my-machine\""),
        name: r.need_text(&root, "name", "name = \"one line for people\""),
        isa: isa.clone(),
        features: r.texts(&root, "features"),
        is_llc_package: r
            .choice(&root, "llc", &[("package", ())])
            .map(|at| At { value: (), place: at.place }),
        levels: read_levels(r, &root),
        ids: read_ids(r, &root),
        caches: read_caches(r, &root),
        memory: read_memory(r, &root),
        clocks: read_clocks(r, &root, isa.value),
        default_core,
        cores,
        groups: read_groups(r, &root),
        latency: read_latency(r, &root),
        wire,
        stop,
        apic: read_apic(r, &root),
        gic: read_gic(r, &root),
        arm: read_arm(r, &root),
        dma: read_dma(r, &root),
        own_store_triggers: read_monitor(r, &root),
        idle: read_idle(r, &root),
        identity: read_identity(r, &root),
    };
    r.close(root);
    spec
}

fn poisoned<T>(value: T, place: Place) -> At<T> {
    At { value, place: Place { is_poisoned: true, ..place } }
}

fn missing(dim: Dim, place: Place) -> At<Quantity> {
    poisoned(Quantity { dim, value: 0 }, place)
}

fn read_levels(r: &mut Reader, root: &Scope<'_>) -> LevelSpec {
    let default = |place| At { value: vec![1], place };
    let Some(scope) = r.need_table(root, "levels") else {
        let widths = std::array::from_fn(|_| poisoned(vec![1], root.place));
        return LevelSpec { widths, numbering: Numbering::SmtLast, place: root.place };
    };
    let widths = LEVELS.map(|(key, _)| r.ints(&scope, key).unwrap_or(default(scope.place)));
    let numbering = if r.is_list(&scope, "numbering") {
        r.ints(&scope, "numbering").map_or(Numbering::SmtLast, Numbering::List)
    } else {
        let words = [("smt-last", false), ("smt-first", true)];
        match r.choice(&scope, "numbering", &words) {
            Some(At { value: true, .. }) => Numbering::SmtFirst,
            _ => Numbering::SmtLast,
        }
    };
    let place = scope.place;
    r.close(scope);
    LevelSpec { widths, numbering, place }
}

fn read_ids(r: &mut Reader, root: &Scope<'_>) -> IdSpec {
    let mut ids = IdSpec {
        bits: Default::default(),
        orders: Default::default(),
        affinity: Default::default(),
        is_multithreaded: At { value: false, place: root.place },
        place: root.place,
    };
    let Some(scope) = r.table(root, "ids") else { return ids };
    ids.place = scope.place;
    if let Some(bits) = r.table(&scope, "bits") {
        ids.bits = LEVELS.map(|(key, _)| r.int(&bits, key));
        r.close(bits);
    }
    if let Some(order) = r.table(&scope, "order") {
        ids.orders = LEVELS.map(|(key, _)| r.ints(&order, key));
        r.close(order);
    }
    if let Some(affinity) = r.table(&scope, "affinity") {
        ids.affinity = LEVELS.map(|(key, _)| r.int(&affinity, key));
        r.close(affinity);
    }
    ids.is_multithreaded = r.switch(&scope, "multithreaded", false);
    r.close(scope);
    ids
}

fn read_caches(r: &mut Reader, root: &Scope<'_>) -> Vec<CacheSpec> {
    let mut caches = Vec::new();
    if root.find("cache").is_none() {
        r.fault(root.place, "`cache` is missing", "add [cache.l1i], [cache.l1d], …");
    }
    for (name, scope) in r.named(root, "cache") {
        let at = r.choice(&scope, "at", &LEVELS).unwrap_or_else(|| {
            let message = format!("`{}at` is missing", scope.path);
            r.fault(scope.place, message, "at = \"core\", \"cluster\", \"complex\" or \"package\"");
            poisoned(Level::Core, scope.place)
        });
        caches.push(CacheSpec {
            at,
            name,
            size: r.need(&scope, "size", Dim::Bytes),
            ways: r.need(&scope, "ways", Dim::Count),
            latency: r.need(&scope, "latency", Dim::Cycles),
        });
        r.close(scope);
    }
    caches
}

fn read_memory(r: &mut Reader, root: &Scope<'_>) -> MemorySpec {
    let levels = &LEVELS[..3];
    let per_node = Quantity { dim: Dim::Bytes, value: 1 << 30 };
    let default = |value, place| At { value, place };
    let Some(scope) = r.table(root, "memory") else {
        let node = default(Level::Package, root.place);
        let per_node = At { value: per_node, place: root.place };
        return MemorySpec { node, per_node, distance: None };
    };
    let memory = MemorySpec {
        node: r.choice(&scope, "node", levels).unwrap_or(default(Level::Package, scope.place)),
        per_node: r
            .number(&scope, "per_node", Dim::Bytes)
            .unwrap_or(At { value: per_node, place: scope.place }),
        distance: r.matrix(&scope, "distance", Dim::Count),
    };
    r.close(scope);
    memory
}

fn read_clocks(r: &mut Reader, root: &Scope<'_>, isa: Isa) -> ClockSpec {
    let Some(scope) = r.need_table(root, "clock") else {
        let none = missing(Dim::Frequency, root.place);
        return ClockSpec { core: none.clone(), counter: none, apic_timer: None };
    };
    let is_x86 = isa == Isa::X86_64;
    let counter = if is_x86 { "tsc" } else { "counter" };
    let clocks = ClockSpec {
        core: r.need(&scope, "core", Dim::Frequency),
        counter: r.need(&scope, counter, Dim::Frequency),
        apic_timer: is_x86.then(|| r.need(&scope, "apic_timer", Dim::Frequency)),
    };
    r.close(scope);
    clocks
}

fn read_cores(r: &mut Reader, root: &Scope<'_>) -> (At<String>, Vec<CoreSpec>) {
    let Some(outer) = r.need_table(root, "cores") else {
        return (poisoned(String::new(), root.place), Vec::new());
    };
    let default = r.need_text(&outer, "default", "default = \"generic\"");
    let named = r.named_in(&outer);
    (default, named.into_iter().map(|(name, scope)| read_core(r, name, scope)).collect())
}

fn read_core(r: &mut Reader, name: At<String>, scope: Scope<'_>) -> CoreSpec {
    let place = scope.place;
    let _ = scope.find("schema");
    scope.allow_provenance();
    let isa = r.choice(&scope, "isa", &ISAS).unwrap_or_else(|| {
        r.fault(place, format!("`{}isa` is missing", scope.path), "isa = \"x86_64\"");
        poisoned(Isa::X86_64, place)
    });
    let is_in_order = r.switch(&scope, "in_order", false);
    let pipe = match r.need_table(&scope, "pipe") {
        Some(inner) => {
            inner.allow_provenance();
            let pipe = PIPE.map(|(key, dim)| (key, r.need(&inner, key, dim)));
            r.close(inner);
            pipe.to_vec()
        }
        None => Vec::new(),
    };
    let ops = read_ops(r, &scope, isa.value);
    let is_x86 = isa.value == Isa::X86_64;
    let midr = (!is_x86).then(|| r.need(&scope, "midr", Dim::Count));
    let sys = match r.need_table(&scope, "sys") {
        Some(inner) => {
            let keys = if is_x86 { SYS_X86.as_slice() } else { SYS_ARM.as_slice() };
            let sys = keys.iter().map(|key| (*key, r.need(&inner, key, Dim::Cycles))).collect();
            r.close(inner);
            sys
        }
        None => Vec::new(),
    };
    let tlbs = read_tlbs(r, &scope);
    r.close(scope);
    CoreSpec { name, isa, is_in_order, midr, pipe, tlbs, ops, sys }
}

fn read_ops(r: &mut Reader, scope: &Scope<'_>, isa: Isa) -> Vec<[At<Quantity>; 3]> {
    let Some(inner) = r.need_table(scope, "ops") else { return Vec::new() };
    let one = |place| At { value: Quantity { dim: Dim::Count, value: 1 }, place };
    let mut ops = Vec::new();
    for key in OP_NAMES {
        if isa == Isa::Aarch64 && OPS_X86.contains(&key) {
            ops.push(std::array::from_fn(|_| one(inner.place)));
            continue;
        }
        let Some(op) = r.need_table(&inner, key) else { continue };
        op.allow_provenance();
        let one = one(op.place);
        ops.push([
            r.need(&op, "latency", Dim::Cycles),
            r.number(&op, "units", Dim::Count).unwrap_or_else(|| one.clone()),
            r.number(&op, "interval", Dim::Cycles).unwrap_or(one),
        ]);
        r.close(op);
    }
    r.close(inner);
    ops
}

fn read_tlbs(r: &mut Reader, scope: &Scope<'_>) -> [[At<Quantity>; 3]; 3] {
    let keys = ["itlb", "dtlb", "l2"];
    let Some(inner) = r.need_table(scope, "tlb") else {
        return keys.map(|_| std::array::from_fn(|_| missing(Dim::Count, scope.place)));
    };
    let tlbs = keys.map(|key| {
        let Some(tlb) = r.need_table(&inner, key) else {
            return std::array::from_fn(|_| missing(Dim::Count, inner.place));
        };
        let numbers = [
            r.need(&tlb, "entries", Dim::Count),
            r.need(&tlb, "ways", Dim::Count),
            r.need(&tlb, "latency", Dim::Cycles),
        ];
        r.close(tlb);
        numbers
    });
    r.close(inner);
    tlbs
}

fn read_groups(r: &mut Reader, root: &Scope<'_>) -> Vec<GroupSpec> {
    let keys = ["packages", "dies", "complexes", "clusters", "cores"];
    let mut groups = Vec::new();
    for (_, scope) in r.named(root, "group") {
        let mut chosen = None;
        for (level, key) in keys.into_iter().enumerate() {
            if let Some(units) = r.ints(&scope, key) {
                chosen = Some((At { value: LEVELS[level].1, place: units.place }, units));
            }
        }
        let Some((level, units)) = chosen else {
            let message = format!("`{}` selects nothing", scope.path.trim_end_matches('.'));
            r.fault(scope.place, message, "add cores = [0, 1, …], or clusters, complexes, …");
            continue;
        };
        let caches = r.named(&scope, "cache").into_iter().map(|(name, cache)| {
            let numbers = [
                r.number(&cache, "size", Dim::Bytes),
                r.number(&cache, "ways", Dim::Count),
                r.number(&cache, "latency", Dim::Cycles),
            ];
            r.close(cache);
            (name, numbers)
        });
        let caches = caches.collect();
        groups.push(GroupSpec {
            place: scope.place,
            level,
            units,
            core: r.text(&scope, "core"),
            clock: r.number(&scope, "clock", Dim::Frequency),
            caches,
            request: r.number(&scope, "core_llc_request", Dim::Time),
            response: r.number(&scope, "llc_core_response", Dim::Time),
        });
        r.close(scope);
    }
    groups
}

fn read_latency(r: &mut Reader, root: &Scope<'_>) -> LatencySpec {
    let scope = r.need_table(root, "latency");
    let mut time = |key: &str| match &scope {
        Some(scope) => r.need(scope, key, Dim::Time),
        None => missing(Dim::Time, root.place),
    };
    let mut latency = LatencySpec {
        request: time("core_llc_request"),
        response: time("llc_core_response"),
        llc_service: time("llc_service"),
        home_service: time("home_service"),
        memory: time("memory"),
        smt_handover: time("smt_handover"),
        line_keep: time("line_keep"),
        retry: time("retry"),
        exclusive_hold: None,
        llc_home: LegSpec::default(),
        home_llc: LegSpec::default(),
        llc_llc: LegSpec::default(),
    };
    let Some(scope) = scope else { return latency };
    latency.exclusive_hold = r.number(&scope, "exclusive_hold", Dim::Time);
    let legs = [
        ("llc_home", &mut latency.llc_home),
        ("home_llc", &mut latency.home_llc),
        ("llc_llc", &mut latency.llc_llc),
    ];
    for (key, leg) in legs {
        if let Some(inner) = r.table(&scope, key) {
            *leg = read_leg(r, &inner, key == "llc_llc");
            r.close(inner);
        }
    }
    r.close(scope);
    latency
}

fn read_leg(r: &mut Reader, scope: &Scope<'_>, is_between_llcs: bool) -> LegSpec {
    let mut leg = LegSpec {
        place: Some(scope.place),
        node: None,
        package: r.number(scope, "package", Dim::Time),
        remote: r.number(scope, "remote", Dim::Time),
        matrix: r.matrix(scope, "matrix", Dim::Time),
        by_home: Vec::new(),
    };
    if is_between_llcs {
        leg.by_home = r.matrices(scope, "by_home", Dim::Time);
    } else {
        leg.node = r.number(scope, "node", Dim::Time);
    }
    leg
}

fn read_ipi(r: &mut Reader, root: &Scope<'_>) -> ([At<Quantity>; 5], At<Quantity>) {
    let keys = ["self", "core", "llc", "package", "remote"];
    let none = || missing(Dim::Time, root.place);
    let Some(scope) = r.need_table(root, "ipi") else { return (keys.map(|_| none()), none()) };
    let wire = match r.need_table(&scope, "wire") {
        Some(inner) => {
            let wire = keys.map(|key| r.need(&inner, key, Dim::Time));
            r.close(inner);
            wire
        }
        None => keys.map(|_| none()),
    };
    let stop = r.need(&scope, "stop", Dim::Time);
    r.close(scope);
    (wire, stop)
}

fn read_apic(r: &mut Reader, root: &Scope<'_>) -> ApicSpec {
    let words =
        [("auto", None), ("xapic", Some(ApicMode::Xapic)), ("x2apic", Some(ApicMode::X2apic))];
    let Some(scope) = r.table(root, "apic") else { return ApicSpec::default() };
    let mode = r.choice(&scope, "mode", &words);
    let apic = ApicSpec {
        place: Some(scope.place),
        mode: mode.and_then(|at| at.value.map(|value| At { value, place: at.place })),
        is_icr_ordered: r.switch(&scope, "icr_ordered", false).value,
    };
    r.close(scope);
    apic
}

fn read_monitor(r: &mut Reader, root: &Scope<'_>) -> Option<At<bool>> {
    let scope = r.table(root, "monitor")?;
    let value = r.switch(&scope, "own_store_triggers", false);
    let value = At { value: value.value, place: scope.place };
    r.close(scope);
    Some(value)
}

fn read_gic(r: &mut Reader, root: &Scope<'_>) -> Option<GicSpec> {
    let scope = r.table(root, "gic")?;
    let version = r.int(&scope, "version").unwrap_or_else(|| {
        r.fault(scope.place, "`gic.version` is missing", "version = 2 or version = 3");
        poisoned(3, scope.place)
    });
    if !matches!(version.value, 2 | 3) {
        r.fault(version.place, format!("gic.version is {}", version.value), "2 or 3");
    }
    let value = if version.value == 2 { GicVersion::V2 } else { GicVersion::V3 };
    let gic = GicSpec {
        version: At { value, place: version.place },
        has_range_selector: r.switch(&scope, "range_selector", false),
    };
    r.close(scope);
    Some(gic)
}

/// Latency of the DMA engine, if the machine has one.
fn read_dma(r: &mut Reader, root: &Scope<'_>) -> Option<At<Quantity>> {
    let scope = r.table(root, "dma")?;
    let latency = r.need(&scope, "latency", Dim::Time);
    r.close(scope);
    Some(latency)
}

fn read_arm(r: &mut Reader, root: &Scope<'_>) -> Option<ArmSpec> {
    const CONDUITS: [(&str, Conduit); 2] = [("hvc", Conduit::Hvc), ("smc", Conduit::Smc)];
    const PLACES: [(&str, AtomicPlace); 3] =
        [("near", AtomicPlace::Near), ("far", AtomicPlace::Far), ("held", AtomicPlace::Held)];
    let scope = r.table(root, "arm")?;
    let place = scope.place;
    let near = At { value: AtomicPlace::Near, place };
    let mut atomics = std::array::from_fn(|_| near.clone());
    if let Some(inner) = r.table(&scope, "atomics") {
        atomics = ATOMICS.map(|key| r.sourced_choice(&inner, key, &PLACES).unwrap_or(near.clone()));
        r.close(inner);
    }
    let smc = At { value: Conduit::Smc, place };
    let arm = ArmSpec {
        place,
        conduit: r.choice(&scope, "conduit", &CONDUITS).unwrap_or(smc),
        physical_bits: r.need(&scope, "physical_bits", Dim::Count),
        is_event_set: r.switch(&scope, "event_at_reset", false),
        atomics,
        exclusive_failure: r.number(&scope, "exclusive_failure", Dim::Count),
        power_on: r.number(&scope, "power_on", Dim::Time),
    };
    r.close(scope);
    Some(arm)
}

fn read_idle(r: &mut Reader, root: &Scope<'_>) -> Vec<IdleSpec> {
    const SCOPES: [(&str, IdleScope); 4] = [
        ("cpu", IdleScope::Cpu),
        ("core", IdleScope::Core),
        ("cluster", IdleScope::Cluster),
        ("package", IdleScope::Package),
    ];
    let mut states = Vec::new();
    for (name, scope) in r.named(root, "idle") {
        let place = scope.place;
        let entry = r.need_text(&scope, "entry", "entry = \"hlt\", \"mwait 0x00\", \"port 0x814\"");
        let entry = idle_entry(r, entry);
        let (mut exit_store, mut exit_interrupt) = (None, missing(Dim::Time, place));
        if let Some(exit) = r.need_table(&scope, "exit") {
            exit_store = r.number(&exit, "store", Dim::Time);
            exit_interrupt = r.need(&exit, "interrupt", Dim::Time);
            r.close(exit);
        }
        let (mut latency, mut residency) = (missing(Dim::Time, place), missing(Dim::Time, place));
        let (mut told_entry, mut told_wakeup) = (None, None);
        if let Some(told) = r.need_table(&scope, "advertised") {
            told.allow_provenance();
            latency = r.need(&told, "latency", Dim::Time);
            residency = r.need(&told, "residency", Dim::Time);
            told_entry = r.number(&told, "entry", Dim::Time);
            told_wakeup = r.number(&told, "wakeup", Dim::Time);
            r.close(told);
        }
        states.push(IdleSpec {
            name,
            place,
            entry,
            is_enabled: r.switch(&scope, "enabled", true),
            entry_latency: r.need(&scope, "entry_latency", Dim::Time),
            is_abortable: r.switch(&scope, "abortable", false),
            exit_store,
            exit_interrupt,
            snoop_latency: r.need(&scope, "snoop_latency", Dim::Time),
            flushes: r.texts(&scope, "flushes"),
            flush_line: r.number(&scope, "flush_line", Dim::Time),
            queue: r.number(&scope, "queue", Dim::Time),
            timer_stops: r.switch(&scope, "timer_stops", false),
            scope: r
                .choice(&scope, "scope", &SCOPES)
                .unwrap_or(At { value: IdleScope::Core, place }),
            told_entry,
            latency,
            told_wakeup,
            residency,
        });
        r.close(scope);
    }
    states
}

/// Parses `hlt`, `mwait HINT`, `port N`, `wfi` or `psci STATE`.
fn idle_entry(r: &mut Reader, text: At<String>) -> At<IdleEntry> {
    let mut words = text.value.split_whitespace();
    let word = words.next().unwrap_or("");
    let number = words.next().and_then(|word| crate::units::parse(word).ok());
    let number = number.and_then(|quantity| u32::try_from(quantity.value).ok());
    let entry = match (word, number) {
        ("hlt", None) => Some(IdleEntry::Hlt),
        ("wfi", None) => Some(IdleEntry::Wfi),
        ("mwait", Some(hint)) => Some(IdleEntry::Mwait(hint)),
        ("psci", Some(state)) => Some(IdleEntry::Psci(state)),
        ("port", Some(port)) => u16::try_from(port).ok().map(IdleEntry::Port),
        _ => None,
    };
    match entry {
        Some(value) if words.next().is_none() => At { value, place: text.place },
        _ => {
            let help = "hlt, mwait HINT, port NUMBER, wfi or psci STATE";
            r.fault(text.place, format!("\"{}\" enters no idle state", text.value), help);
            poisoned(IdleEntry::Hlt, text.place)
        }
    }
}

fn read_identity(r: &mut Reader, root: &Scope<'_>) -> Option<IdentitySpec> {
    let scope = r.table(root, "x86")?;
    scope.allow_provenance();
    let numbers = ["family", "model", "stepping", "physical_bits"];
    let identity = IdentitySpec {
        vendor: r.need_text(&scope, "vendor", "vendor = \"AuthenticAMD\""),
        brand: r.need_text(&scope, "brand", "brand = \"at most 48 letters\""),
        numbers: numbers.map(|key| r.need(&scope, key, Dim::Count)),
    };
    r.close(scope);
    Some(identity)
}
