//! Who shares what: the CPUs of each core and of each LLC, as sets.

use guests_abi::class::LineClass;
use guests_abi::layout::CPUS_MAX;

use crate::arch::atomic::{AtomicU32, Ordering::Relaxed};
use crate::cpumask::{self, CpuMask};
use crate::link::Link;
use crate::percpu::Line;
use crate::{machine, memory, testdev};

/// An LLC domain; lies on the node of its first CPU.
#[repr(C)]
pub(crate) struct Llc {
    /// Its CPUs; read-mostly, as is their number.
    pub(crate) span: Line<CpuMask>,
    pub(crate) weight: Line<AtomicU32>,
    /// SDS: what its CPUs share and write.
    pub(crate) shared: Line<LlcShared>,
}

/// SDS: `sd_llc_shared`.
#[repr(C)]
pub(crate) struct LlcShared {
    /// 1 while some core is thought to be idle.
    pub(crate) has_idle_cores: AtomicU32,
}

static LLCS: [Link<Llc>; CPUS_MAX] = [const { Link::none() }; CPUS_MAX];

static CORES: [Link<CpuMask>; CPUS_MAX] = [const { Link::none() }; CPUS_MAX];

/// 1 when some core has several threads; read-mostly.
static HAS_SMT: Line<AtomicU32> = Line(AtomicU32::new(0));

/// Makes the sets; before other CPUs run.
pub(crate) fn init() {
    for cpu in 0..machine::cpu_count() {
        cpumask::all().insert(cpu);
        let node = machine::node(cpu);
        let core = &CORES[machine::core_id(cpu)];
        if core.get().is_none() {
            core.set(Some(memory::alloc_value(node, CpuMask::new())));
        } else {
            HAS_SMT.store(1, Relaxed);
        }
        core.get_some().insert(cpu);
        let llc = &LLCS[machine::llc_id(cpu)];
        if llc.get().is_none() {
            let shared = LlcShared { has_idle_cores: AtomicU32::new(0) };
            let weight = Line(AtomicU32::new(0));
            let new = Llc { span: Line(CpuMask::new()), weight, shared: Line(shared) };
            llc.set(Some(memory::alloc_value(node, new)));
            testdev::declare(&llc.get_some().shared, LineClass::Sds);
        }
        let llc = llc.get_some();
        llc.span.insert(cpu);
        llc.weight.store(llc.weight.load(Relaxed) + 1, Relaxed);
    }
}

/// The LLC domain of a CPU.
#[inline]
pub(crate) fn llc(cpu: usize) -> &'static Llc {
    LLCS[machine::llc_id(cpu)].get_some()
}

/// The threads of the core of a CPU.
#[inline]
pub(crate) fn core(cpu: usize) -> &'static CpuMask {
    CORES[machine::core_id(cpu)].get_some()
}

/// Whether cores have several threads.
#[inline]
pub(crate) fn has_smt() -> bool {
    HAS_SMT.load(Relaxed) != 0
}
