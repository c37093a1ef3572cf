//! Scheduling domains: who shares what, level by level, and the groups that a balance compares.
//!
//! Each CPU has a chain of domains, from the threads of its core to all nodes. A level that holds
//! no more CPUs than the one below is left out. What the domains of several CPUs span, and the
//! groups in it, lie in memory once; a group of a domain is the domain below of its CPUs.
//! Linux: `build_sched_domains`. Of arrangements in which domains of a level overlap, the groups
//! are those of the CPU with the lowest number.

use guests_abi::class::LineClass;
use guests_abi::layout::{CPUS_MAX, NODES_MAX};
use guests_sched::balance::NewidleCost;
use guests_sched::domain::{Level, NumaImbalance, RECLAIM_DISTANCE};

use crate::arch::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use crate::cpumask::{self, CpuMask};
use crate::link::Link;
use crate::percpu::Line;
use crate::{machine, memory, testdev};

/// Levels below those of nodes.
const NEAR_LEVELS: usize = 4;

/// Most distances of nodes that are told apart; those beyond count as the largest.
const NUMA_LEVELS_MAX: usize = 4;

/// CPUs of a domain, for all of them that have it; read-mostly.
#[repr(C, align(64))]
pub(crate) struct Span {
    pub(crate) mask: CpuMask,
    weight: AtomicU32,
}

impl Span {
    fn new() -> Span {
        Span { mask: CpuMask::new(), weight: AtomicU32::new(0) }
    }

    /// Number of CPUs.
    #[inline]
    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Relaxed)
    }

    fn insert(&self, cpu: usize) {
        self.mask.insert(cpu);
        self.weight.store(self.weight() + 1, Relaxed);
    }
}

/// A group of a domain; read-mostly. The groups of a domain are a ring.
#[repr(C, align(64))]
pub(crate) struct Group {
    next: Link<Group>,
    /// Its CPUs, where it has more than one.
    span: Link<Span>,
    /// Its first CPU.
    first: usize,
}

impl Group {
    /// Calls `each` for every CPU of the group that is in a set, in order.
    pub(crate) fn for_each_in(&self, cpus: &CpuMask, mut each: impl FnMut(usize)) {
        match self.span.get() {
            Some(span) => span.mask.for_each(|cpu| {
                if cpus.contains(cpu) {
                    each(cpu);
                }
            }),
            None if cpus.contains(self.first) => each(self.first),
            None => {}
        }
    }

    /// The first CPU of the group that is in a set and of which something holds.
    pub(crate) fn find_in(
        &self,
        cpus: &CpuMask,
        mut is_wanted: impl FnMut(usize) -> bool,
    ) -> Option<usize> {
        let Some(span) = self.span.get() else {
            return Some(self.first).filter(|&cpu| cpus.contains(cpu) && is_wanted(cpu));
        };
        let mut at = span.mask.next(0);
        while let Some(cpu) = at {
            if cpus.contains(cpu) && is_wanted(cpu) {
                return Some(cpu);
            }
            at = span.mask.next(cpu + 1);
        }
        None
    }
}

/// A domain of one CPU: what its balances leave behind, and what they look at.
#[repr(C, align(64))]
pub(crate) struct Domain {
    pub(crate) parent: Link<Domain>,
    pub(crate) child: Option<&'static Domain>,
    pub(crate) span: &'static Span,
    /// The group of the CPU itself.
    pub(crate) groups: Link<Group>,
    pub(crate) level: Level,
    /// Wakes and new tasks may go everywhere in it (`SD_WAKE_AFFINE`, `SD_BALANCE_FORK`).
    pub(crate) is_near: bool,
    pub(crate) imb_numa_nr: u64,
    pub(crate) last_balance_ns: AtomicU64,
    pub(crate) balance_interval_ms: AtomicU64,
    pub(crate) nr_balance_failed: AtomicU32,
    max_newidle_lb_cost_ns: AtomicU64,
    newidle_cost_changed_ns: AtomicU64,
}

impl Domain {
    /// Number of CPUs.
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        u64::from(self.span.weight())
    }

    /// The groups, that of the CPU itself first.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &'static Group> {
        let first = self.groups.get_some();
        let mut next = Some(first);
        core::iter::from_fn(move || {
            let group = next?;
            next = group.next.get().filter(|&group| !core::ptr::eq(group, first));
            Some(group)
        })
    }

    /// What newidle balance has cost here at most, ns.
    pub(crate) fn max_newidle_lb_cost_ns(&self) -> u64 {
        self.max_newidle_lb_cost_ns.load(Relaxed)
    }

    /// Takes note of what a newidle balance has cost.
    pub(crate) fn update_newidle_cost(&self, cost_ns: u64, now_ns: u64) {
        let (max, changed) = (&self.max_newidle_lb_cost_ns, &self.newidle_cost_changed_ns);
        let mut cost = NewidleCost { max_ns: max.load(Relaxed), changed_ns: changed.load(Relaxed) };
        cost.update(cost_ns, now_ns);
        max.store(cost.max_ns, Relaxed);
        changed.store(cost.changed_ns, Relaxed);
    }
}

/// An LLC domain; lies on the node of its first CPU.
#[repr(C)]
pub(crate) struct Llc {
    pub(crate) span: Span,
    /// SDS: what its CPUs share and write.
    pub(crate) shared: Line<LlcShared>,
}

/// SDS: `sd_llc_shared`.
#[repr(C)]
pub(crate) struct LlcShared {
    /// CPUs that are not idle without a tick.
    pub(crate) nr_busy_cpus: AtomicU32,
    /// 1 while some core is thought to be idle.
    pub(crate) has_idle_cores: AtomicU32,
    /// CPUs that a wake may look at (`sis=util`). Starts as on a machine that has idled.
    pub(crate) nr_idle_scan: AtomicU32,
}

static LLCS: [Link<Llc>; CPUS_MAX] = [const { Link::none() }; CPUS_MAX];

static CORES: [Link<Span>; CPUS_MAX] = [const { Link::none() }; CPUS_MAX];

static CLUSTERS: [Link<Span>; CPUS_MAX] = [const { Link::none() }; CPUS_MAX];

static NODES: [Link<Span>; NODES_MAX] = [const { Link::none() }; NODES_MAX];

/// CPUs up to each distance from a node.
static NUMA: [[Link<Span>; NODES_MAX]; NUMA_LEVELS_MAX] =
    [const { [const { Link::none() }; NODES_MAX] }; NUMA_LEVELS_MAX];

/// The smallest domain of each CPU.
static LOWEST: [Link<Domain>; CPUS_MAX] = [const { Link::none() }; CPUS_MAX];

/// What the machine has; read-mostly.
struct Shape {
    /// 1 when some core has several threads.
    has_smt: AtomicU32,
    /// 1 when some domain is a cluster.
    has_cluster: AtomicU32,
}

static SHAPE: Line<Shape> =
    Line(Shape { has_smt: AtomicU32::new(0), has_cluster: AtomicU32::new(0) });

/// Makes the domains of all CPUs; before other CPUs run.
pub(crate) fn init() {
    let cpus = 0..machine::cpu_count();
    for cpu in cpus.clone() {
        cpumask::all().insert(cpu);
        let node = machine::node(cpu);
        let spans = [&CORES[machine::core_id(cpu)], &CLUSTERS[machine::cluster_id(cpu)]];
        for slot in spans.into_iter().chain([&NODES[node]]) {
            if slot.get().is_none() {
                slot.set(Some(memory::alloc_value(node, Span::new())));
            }
            slot.get_some().insert(cpu);
        }
        enter_llc(cpu, node);
    }
    let distances = init_numa();
    for cpu in cpus.clone() {
        chain_domains(cpu, &distances);
    }
    for cpu in cpus {
        for domain in domains(cpu) {
            if domain.groups.get().is_none() {
                make_groups(domain);
            }
        }
    }
}

fn enter_llc(cpu: usize, node: usize) {
    let slot = &LLCS[machine::llc_id(cpu)];
    if slot.get().is_none() {
        let shared = LlcShared {
            nr_busy_cpus: AtomicU32::new(0),
            has_idle_cores: AtomicU32::new(0),
            nr_idle_scan: AtomicU32::new(0),
        };
        slot.set(Some(memory::alloc_value(node, Llc { span: Span::new(), shared: Line(shared) })));
        testdev::declare(&slot.get_some().shared, LineClass::Sds);
    }
    let llc = slot.get_some();
    llc.span.insert(cpu);
    for count in [&llc.shared.nr_busy_cpus, &llc.shared.nr_idle_scan] {
        count.store(llc.span.weight(), Relaxed);
    }
}

/// Distances of nodes, in order; 0 behind the last.
type Distances = [u32; NUMA_LEVELS_MAX];

/// Makes the spans of nodes up to each distance.
fn init_numa() -> Distances {
    let mut distances = [0; NUMA_LEVELS_MAX];
    let nodes = || (0..NODES_MAX).filter(|&node| NODES[node].get().is_some());
    let mut last = machine::LOCAL_DISTANCE;
    for slot in &mut distances {
        let pairs = nodes().flat_map(|from| nodes().map(move |to| machine::distance(from, to)));
        let Some(next) = pairs.filter(|&distance| distance > last).min() else { break };
        (*slot, last) = (next, next);
    }
    for (level, &distance) in distances.iter().enumerate().take_while(|level| *level.1 != 0) {
        let is_last = level + 1 == NUMA_LEVELS_MAX;
        for from in nodes() {
            let span = Span::new();
            for to in nodes() {
                if is_last || machine::distance(from, to) <= distance {
                    span.mask.insert_all(&NODES[to].get_some().mask);
                }
            }
            span.weight.store(span.mask.count() as u32, Relaxed);
            NUMA[level][from].set(Some(memory::alloc_value(from, span)));
        }
    }
    distances
}

/// The CPUs of a level around a CPU.
fn span(number: usize, cpu: usize) -> &'static Span {
    match number {
        0 => CORES[machine::core_id(cpu)].get_some(),
        1 => CLUSTERS[machine::cluster_id(cpu)].get_some(),
        2 => &llc(cpu).span,
        3 => NODES[machine::node(cpu)].get_some(),
        _ => NUMA[number - NEAR_LEVELS][machine::node(cpu)].get_some(),
    }
}

/// Makes the domains of a CPU, without groups.
fn chain_domains(cpu: usize, distances: &Distances) {
    let numa_levels = distances.iter().take_while(|&&distance| distance != 0).count();
    let numa_weight = (numa_levels != 0).then(|| u64::from(span(NEAR_LEVELS, cpu).weight()));
    let mut numa_imbalance = NumaImbalance::default();
    let mut child: Option<&'static Domain> = None;
    for number in 0..NEAR_LEVELS + numa_levels {
        let (level, span) = (Level::of(number as u8), span(number, cpu));
        let weight = u64::from(span.weight());
        let is_too_wide = level == Level::Cluster && weight >= u64::from(llc(cpu).span.weight());
        if weight <= child.map_or(1, Domain::weight) || is_too_wide {
            continue;
        }
        let below = child.map(|child| (child.level, child.weight()));
        let domain = memory::alloc_value(
            machine::node(cpu),
            Domain {
                parent: Link::none(),
                child,
                span,
                groups: Link::none(),
                level,
                is_near: level < Level::Numa || distances[number - NEAR_LEVELS] <= RECLAIM_DISTANCE,
                imb_numa_nr: numa_imbalance.next((level, weight), below, numa_weight),
                last_balance_ns: AtomicU64::new(0),
                balance_interval_ms: AtomicU64::new(weight),
                nr_balance_failed: AtomicU32::new(0),
                max_newidle_lb_cost_ns: AtomicU64::new(0),
                newidle_cost_changed_ns: AtomicU64::new(0),
            },
        );
        match level {
            Level::Smt => SHAPE.has_smt.store(1, Relaxed),
            Level::Cluster => SHAPE.has_cluster.store(1, Relaxed),
            _ => {}
        }
        child.map_or(&LOWEST[cpu], |child| &child.parent).set(Some(domain));
        child = Some(domain);
    }
}

/// Makes the groups of what a domain spans, for all its CPUs.
fn make_groups(of: &Domain) {
    let grouped = CpuMask::new();
    let (mut first, mut last): (Option<&'static Group>, _) = (None, &Link::none());
    of.span.mask.for_each(|cpu| {
        if grouped.contains(cpu) {
            return;
        }
        let child = domains(cpu).take_while(|domain| domain.weight() < of.weight()).last();
        let span = child.map(|child| child.span);
        let new = Group { next: Link::none(), span: Link::none(), first: cpu };
        let group = memory::alloc_value(machine::node(cpu), new);
        group.span.set(span);
        group.for_each_in(&of.span.mask, |member| {
            grouped.insert(member);
            let same = domains(member).find(|domain| core::ptr::eq(domain.span, of.span));
            if let Some(domain) = same {
                domain.groups.set(Some(group));
            }
        });
        last.set(Some(group));
        last = &group.next;
        first = first.or(Some(group));
    });
    last.set(first);
}

/// The domains of a CPU, the smallest first.
#[inline]
pub(crate) fn domains(cpu: usize) -> impl Iterator<Item = &'static Domain> {
    core::iter::successors(LOWEST[cpu].get(), |domain| domain.parent.get())
}

/// Declares the classes of the lines of a CPU's domains; the CPU itself.
pub(crate) fn declare_lines(cpu: usize) {
    domains(cpu).for_each(|domain| testdev::declare(domain, LineClass::Pcpu));
}

/// The LLC domain of a CPU.
#[inline]
pub(crate) fn llc(cpu: usize) -> &'static Llc {
    LLCS[machine::llc_id(cpu)].get_some()
}

/// The threads of the core of a CPU.
#[inline]
pub(crate) fn core(cpu: usize) -> &'static CpuMask {
    &CORES[machine::core_id(cpu)].get_some().mask
}

/// The CPUs of the cluster of a CPU.
#[inline]
pub(crate) fn cluster(cpu: usize) -> &'static CpuMask {
    &CLUSTERS[machine::cluster_id(cpu)].get_some().mask
}

/// Whether cores have several threads.
#[inline]
pub(crate) fn has_smt() -> bool {
    SHAPE.has_smt.load(Relaxed) != 0
}

/// Whether LLCs have clusters.
#[inline]
pub(crate) fn has_cluster() -> bool {
    SHAPE.has_cluster.load(Relaxed) != 0
}
