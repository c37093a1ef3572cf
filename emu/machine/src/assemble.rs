//! From a topology to the parts of a machine: legs and core constants; cpus in a file an ISA.

pub(crate) mod arm64;
pub(crate) mod x86;

use emu_cpu::config::{AtomicPlace, Atomics, CoreConfig, IdleCost, MemoryOrder};
use emu_cpu::timing::{CLASSES, Class, CoreTiming};
use emu_mem::cache::Geometry;
use emu_mem::paths::Paths;
use emu_sim::mutant::Mutation;
use emu_sim::{CoreId, Freq, LlcId, SimTime};
use topology::{Cache, CoreType, Op};

use crate::api::Options;

/// Requests a core may have under way, where the core file gives no number.
const MISS_BUFFER_MIN: u32 = 4;
/// End of the physical address space that a cpu can name.
const ADDRESS_END: u64 = 1 << 52;

/// Computes the legs of the line protocol.
pub(crate) fn paths(m: &topology::Machine, mutation: Mutation) -> Paths {
    let l = &m.latency;
    let (llcs, nodes) = (m.llcs.len(), m.nodes.len());
    let leg = |rows: usize, columns: usize, f: &dyn Fn(usize, usize) -> u64| {
        (0..rows).map(|r| (0..columns).map(|c| f(r, c)).collect()).collect::<Vec<Vec<u64>>>()
    };
    Paths {
        llc_of_core: m.cores.iter().map(|c| LlcId(c.llc as u32)).collect(),
        cores_of_llc: m
            .llcs
            .iter()
            .map(|llc| llc.cores.iter().map(|c| CoreId(*c as u32)).collect())
            .collect(),
        core_llc: m.cores.iter().map(|c| c.llc_request).collect(),
        llc_core: m.cores.iter().map(|c| c.llc_response).collect(),
        llc_lookup: l.llc_service,
        llc_service: l.llc_service,
        llc_home: leg(llcs, nodes, &|a, b| l.llc_home(a, b)),
        home_llc: leg(nodes, llcs, &|a, b| l.home_llc(a, b)),
        // As far as from the first LLC of node 0: a device is beside that node's home.
        home_device: (0..nodes).map(|h| l.home_llc(h, 0)).collect(),
        llc_llc: leg(llcs, llcs, &|a, b| l.llc_llc(a, b, 0)),
        home_lookup: l.home_service,
        home_service: l.home_service,
        memory: l.memory,
        llc_geometry: m.llcs.iter().map(|llc| llc_geometry(llc.cache.as_ref())).collect(),
        has_owned_state: m.identity.vendor == "AuthenticAMD",
        home_ends: m.nodes.iter().map(|n| n.base + n.size).collect(),
        mutation,
    }
}

/// Sets and ways; an odd number of sets (3/4-populated caches) is rounded down to a power of two
/// and the ways make up for it.
fn llc_geometry(cache: Option<&Cache>) -> (u32, u32) {
    let Some(cache) = cache else { return (1024, 16) };
    let g = geometry(cache);
    (g.sets, g.ways)
}

fn geometry(cache: &Cache) -> Geometry {
    let lines = (cache.size / u64::from(cache.line)).max(1);
    let sets = cache.sets().max(1);
    let sets = if sets.is_power_of_two() { sets } else { sets.next_power_of_two() / 2 };
    Geometry { sets: sets as u32, ways: (lines / sets).max(1) as u32 }
}

/// Computes the timing of one kind of core.
fn core_timing(t: &CoreType, l1_latency: u32, l2_latency: u32) -> CoreTiming {
    let op = |o: Op| t.op(o).latency;
    let s = &t.sys;
    let mut latency = [0; CLASSES];
    let mut set = |class: Class, cycles: u32| latency[class as usize] = cycles;
    set(Class::Alu, op(Op::Alu));
    set(Class::Load, 0);
    set(Class::Shift, op(Op::Shift));
    set(Class::Mul, op(Op::Mul));
    set(Class::Div, op(Op::Div32));
    set(Class::DivWide, op(Op::Div64));
    set(Class::Branch, op(Op::Branch));
    set(Class::Vec, op(Op::SimdInt));
    set(Class::FpAdd, op(Op::FpAdd));
    set(Class::FpMul, op(Op::FpMul));
    set(Class::FpDiv, op(Op::FpDiv64));
    set(Class::Crc, op(Op::Crc32));
    set(Class::Pause, s.pause);
    set(Class::FenceLoad, s.lfence);
    set(Class::FenceFull, s.mfence);
    set(Class::Rmw, s.rmw_l1);
    set(Class::TimeRead, s.rdtsc);
    set(Class::SysReg, s.wrmsr);
    set(Class::Micro, s.cpuid);
    set(Class::Monitor, s.monitor);
    set(Class::WaitEntry, s.mwait);
    set(Class::IpiSend, s.icr_write);
    set(Class::IrqEntry, s.irq_entry);
    set(Class::IrqReturn, s.iret);
    CoreTiming {
        width: t.dispatch_width,
        window: t.window,
        store_buffer: t.store_buffer,
        in_order: t.in_order,
        mispredict: t.mispredict,
        l1_latency,
        l2_latency,
        latency,
    }
}

/// Computes the constants of core `core`.
pub(crate) fn core_config(m: &topology::Machine, core: usize, options: &Options) -> CoreConfig {
    let place = &m.cores[core];
    let t = &m.core_types[place.core_type];
    let freq = Freq::from_khz(place.core_khz);
    let l2 = place.l2.as_ref().unwrap_or(&place.l1d);
    // A device is as far as the home of node 0.
    let to_home = place.llc_request + m.latency.llc_home(place.llc, 0);
    let window_ps = options.window_ps.unwrap_or(u64::MAX).min(m.window_ps()).max(1);
    let window_ps = window_ps + options.mutation.beyond_window();
    CoreConfig {
        freq,
        timing: core_timing(t, place.l1d.latency, l2.latency),
        l1d: geometry(&place.l1d),
        l1i: geometry(&place.l1i),
        l2: geometry(l2),
        core_llc: place.llc_request,
        core_device: to_home,
        smt_handover: freq.cycles_in(SimTime(m.latency.smt_handover)),
        line_keep: freq.cycles_in(SimTime(m.latency.line_keep)),
        ipi_self: freq.cycles_in(SimTime(m.ipi_wire.same)),
        own_store_triggers: m.monitor.own_store_triggers,
        order: match m.isa {
            topology::Isa::X86_64 => MemoryOrder::Total,
            topology::Isa::Aarch64 => MemoryOrder::Weak,
        },
        atomics: Atomics {
            load: atomic_place(m.arm.atomics.load),
            store: atomic_place(m.arm.atomics.store),
            release: atomic_place(m.arm.atomics.release),
            acquire: atomic_place(m.arm.atomics.acquire),
        },
        exclusive_hold: freq.cycles_in(SimTime(m.latency.exclusive_hold)),
        exclusive_failure: m.arm.exclusive_failure,
        fill_buffers: t.miss_buffer.max(MISS_BUFFER_MIN) as usize,
        cpus: options.cpus.unwrap_or(m.cpus.len() as u32),
        idle: (0..m.idle.len()).map(|s| idle_cost(m, s, place.l2.is_some())).collect(),
        window_ps,
        elide_spins: options.elide_spins,
        mutation: options.mutation,
    }
}

fn atomic_place(place: topology::AtomicPlace) -> AtomicPlace {
    match place {
        topology::AtomicPlace::Near => AtomicPlace::Near,
        topology::AtomicPlace::Far => AtomicPlace::Far,
        topology::AtomicPlace::Held => AtomicPlace::Held,
    }
}

/// What a core pays for a state; of one of wider scope, what it pays by itself. `has_l2`: whether
/// the core's outermost cache of its own is an L2.
fn idle_cost(m: &topology::Machine, state: usize, has_l2: bool) -> IdleCost {
    let s = &m.idle[state];
    let mut own = state;
    while let Some(narrower) = m.narrower(own) {
        own = narrower;
    }
    let own = &m.idle[own];
    IdleCost {
        name: s.name.clone(),
        entry: SimTime(own.entry_latency),
        is_abortable: own.abortable,
        exit_store: SimTime(own.exit_store.unwrap_or(own.exit_interrupt)),
        exit_interrupt: SimTime(own.exit_interrupt),
        flushes: if has_l2 { s.flushes.l2 } else { s.flushes.l1 },
        timer_stops: s.timer_stops,
        is_told: s.scope > topology::IdleScope::Core || s.queue > 0,
        snoop: SimTime(s.snoop_latency),
    }
}

/// Sets and ways of a TLB, the sets a power of two.
fn tlb_shape(tlb: &topology::Tlb) -> (u32, u32) {
    let ways = tlb.ways.max(1);
    let sets = (tlb.entries / ways).max(1);
    let sets = if sets.is_power_of_two() { sets } else { sets.next_power_of_two() / 2 };
    (sets, (tlb.entries / sets).max(1))
}

/// Address ranges that are no memory: between the RAM ranges, and above.
fn holes(m: &topology::Machine) -> Vec<std::ops::Range<u64>> {
    let mut holes = Vec::new();
    let mut at = 0;
    for r in m.ram() {
        if r.base > at {
            holes.push(at..r.base);
        }
        at = r.base + r.size;
    }
    holes.push(at..ADDRESS_END);
    holes
}
