//! Boot: from the device tree to all CPUs idling and the control thread running.

use guests_sched::preempt::Times;

use crate::arch::atomic::{AtomicU32, Ordering::Acquire, Ordering::SeqCst};
use crate::config::Config;
use crate::console::{die, kprintln};
use crate::fdt::Fdt;
use crate::link::Link;
use crate::machine::CpuFacts;
use crate::percpu::{Cpu, Line};
use crate::points::point;
use crate::{
    arch, bench, broadcast, counters, cpuidle, domain, group, idle, machine, memory, nohz, rq, tick,
};

/// CPUs that are up, CPU 0 not counted.
static SECONDARIES_UP: Line<AtomicU32> = Line(AtomicU32::new(0));

static CONFIG: Link<Config> = Link::none();

/// The boot switches.
pub(crate) fn config() -> &'static Config {
    CONFIG.get_some()
}

/// Boots CPU 0, then all others, then the workload. CPU 0 keeps the machine's boot stack: it is
/// that of its idle task.
pub(crate) fn start_kernel(fdt: u64) -> ! {
    let Some(tree) = Fdt::at(fdt) else {
        die!(BAD_MACHINE, "no device tree at {fdt:#x}");
    };
    let command_line = machine::read(tree);
    let cpu_count = machine::cpu_count();
    let mut config = Config::from_command_line(command_line);
    config.check_cpus(cpu_count);
    config.policy.times = Times::of_cpus(cpu_count as u64);
    arch::init_config(&config);
    CONFIG.set(Some(memory::alloc_value(0, config)));
    tick::init(arch::init_timer(), config.policy.hz);
    machine::place_areas(size_of::<Cpu>());
    domain::init();
    counters::publish();
    rq::declare_lines();
    nohz::declare_lines();
    idle::init(&config.policy);
    cpuidle::init();

    let cpu = Cpu::init(machine::area_address(0), 0, config.policy);
    arch::init_cpu(cpu);
    broadcast::init();
    cpu.declare_lines();
    domain::declare_lines(0);
    if cpu_count > 1 {
        arch::start_secondary_cpus(Cpu::idle_stack_top_offset(), start_secondary);
        arch::cond_load(&SECONDARIES_UP, Acquire, |up| up as usize + 1 == cpu_count);
    }
    kprintln!("kern: {cpu_count} cpus up");
    point!(boot_done);
    group::init(self::config().cgroup_depth);
    arch::irq_enable();
    bench::start();
    idle::cpu_startup_entry()
}

/// First Rust code of a secondary CPU, on the stack of its idle task.
extern "C" fn start_secondary(facts: &'static CpuFacts) -> ! {
    let id = facts.cpu();
    let cpu = Cpu::init(machine::area_address(id), id, config().policy);
    arch::init_cpu(cpu);
    cpu.declare_lines();
    domain::declare_lines(id);
    SECONDARIES_UP.fetch_add(1, SeqCst);
    arch::irq_enable();
    idle::cpu_startup_entry()
}
