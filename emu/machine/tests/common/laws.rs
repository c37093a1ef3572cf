//! Laws of the machine's own counters, which hold at the end of every run of anything
//! (`guest-abi.md` 4).

use emu_machine::Machine;
use emu_sim::CpuId;

/// Checks: IPIs sent = taken + merged + pending + dropped + under way; waits entered = ended +
/// lasting; and per cpu that pending time while masked is part of pending time.
pub(crate) fn check(machine: &Machine) {
    let (mut sent, mut arrived, mut pending) = (0, 0, 0);
    for cpu in (0..machine.cpus() as u32).map(CpuId) {
        let c = machine.counters(cpu);
        sent += c.ipi_sent;
        arrived += c.ipi_taken + c.ipi_merged + c.ipi_dropped;
        pending += c.ipi_pending;
        assert_eq!(c.ipi_accepted, c.ipi_taken + c.ipi_pending, "{cpu}: {c:?}");
        assert!(c.ipi_pend_masked_ps <= c.ipi_pend_ps, "{cpu}: {c:?}");
        assert!(c.irqoff_max_ps <= c.irqoff_ps, "{cpu}: {c:?}");
        let ended = c.idle_wake_write + c.idle_wake_irq + c.idle_wake_other;
        let is_waiting = matches!(machine.run_state(cpu), emu_cpu::thread::RunState::Waiting(_));
        // All but the boot cpu are waiting for their start before anything has run.
        let entered = c.idle_enter + u64::from(cpu.0 != 0);
        assert_eq!(entered, ended + u64::from(is_waiting), "{cpu}, waiting {is_waiting}: {c:?}");
    }
    let under_way = machine.ipis_under_way();
    assert_eq!(sent, arrived + pending + under_way, "pending {pending}, under way {under_way}");
}
