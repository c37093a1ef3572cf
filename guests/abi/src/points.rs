//! Points: marked steps of the guest kernel at which the machine can delay or hold a CPU.
//!
//! The section [`SECTION`] is not loaded. It is a sequence of entries, one per inlined copy of a
//! point: the address (`u64`, little-endian), the name with its NUL, zeros up to a multiple of
//! 8. A CPU *passes* a point when it is about to execute the instruction at that address; a
//! point itself is no instruction. Entries with address 0 belong to code that the linker
//! dropped. Two points may share an address.
//!
//! A point whose name begins with `irqoff_` stands on the instruction that opens an IRQ-off
//! section (or at the entry of a handler): the section is attributed to it.

/// Section that holds the points.
pub const SECTION: &str = ".crosscall.points";

/// One copy of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point<'a> {
    /// Address of the instruction that the point stands before.
    pub address: u64,
    /// Name of the point.
    pub name: &'a str,
}

/// Iterates over the entries of a points section; stops at the first malformed entry.
pub fn parse(section: &[u8]) -> impl Iterator<Item = Point<'_>> {
    let mut at = 0;
    core::iter::from_fn(move || {
        loop {
            let address = u64::from_le_bytes(section.get(at..at + 8)?.try_into().ok()?);
            let rest = &section[at + 8..];
            let name_bytes = rest.iter().position(|&byte| byte == 0)?;
            let name = core::str::from_utf8(&rest[..name_bytes]).ok()?;
            at = (at + 8 + name_bytes + 1).next_multiple_of(8);
            if address != 0 {
                return Some(Point { address, name });
            }
        }
    })
}

macro_rules! points {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Names of the guest kernel's points, one constant each, for drivers that hold by name.
        #[expect(non_upper_case_globals, reason = "the constant is spelled like the point")]
        pub mod name {
            $($(#[$doc])* pub const $name: &str = stringify!($name);)*
        }

        /// All points of the guest kernel, in the order of a call: idle loop, caller, handlers.
        pub const ALL: &[&str] = &[$(name::$name,)*];
    };
}

points! {
    /// `do_idle`: before POLLING is set at the top of the loop.
    idle_begin,
    /// `do_idle`: head of the inner loop, before the need-resched test.
    idle_test,
    /// `idle=poll`: each turn of the polling loop.
    poll_loop,
    /// `idle=halt`: before POLLING is cleared on the way into HLT.
    halt_clear_polling,
    /// `idle=mwait`: before POLLING is set again by the mwait routine.
    mwait_set_polling,
    /// `idle=mwait`: before MONITOR.
    mwait_monitor,
    /// Before the last need-resched test ahead of the wait; IRQs are off.
    idle_last_test,
    /// On the wait instruction itself (STI of STI;HLT, or MWAIT).
    idle_wait,
    /// After the wait, before the flags of the idle task are touched.
    idle_woken,
    /// The idle loop leaves: before POLLING is cleared for good.
    idle_clear_polling,
    /// After POLLING was cleared, before the barrier (if the variant has one) and the flush.
    idle_polling_cleared,
    /// Before `schedule_idle` is decided upon, after the flush.
    idle_flushed,
    /// Opens the IRQ-off section of idle entry.
    irqoff_idle_entry,
    /// Opens the IRQ-off section of the flush in the idle loop.
    irqoff_flush,
    /// Opens the IRQ-off section of `schedule_idle`.
    irqoff_schedule_idle,
    /// `schedule_idle` ends; IRQs are on again.
    schedule_idle_end,
    /// Opens the IRQ-off section of `schedule`.
    irqoff_schedule,
    /// Before the call queue is taken by the exchange.
    csq_take,
    /// Before the function of a call runs on the target.
    call_func,
    /// The function of a call has returned.
    call_func_done,
    /// Before the csd of a synchronous call is unlocked.
    csd_unlock,
    /// Caller: before the csd is pushed.
    call_push,
    /// Caller: the csd is on the queue, the signal not yet decided.
    call_pushed,
    /// Caller: before the flags of the target's idle task are read.
    call_read_flags,
    /// Caller: before the compare-exchange that signals through the flags.
    call_set_flag,
    /// Caller: before the interrupt controller is written.
    call_send_ipi,
    /// Caller: signalled (or found it needless), before the wait.
    call_signalled,
    /// Caller: the csd was seen unlocked.
    call_done,
    /// `resched_curr` of a remote CPU: before the flags are read.
    resched_read_flags,
    /// `resched_curr`: decided and signalled.
    resched_signalled,
    /// `try_to_wake_up` opens its IRQ-off section.
    irqoff_wake,
    /// `try_to_wake_up` is done.
    wake_done,
    /// Opens an IRQ-off section of an rq lock hold that is none of the others.
    irqoff_rq,
    /// Opens the IRQ-off section behind the softirqs of an interrupt or a flush.
    irqoff_softirq,
    /// Opens the IRQ-off section of a wait queue, or of a futex's bucket.
    irqoff_wait_queue,
    /// Opens the IRQ-off section of a call to this CPU itself.
    irqoff_self_call,
    /// Opens an IRQ-off section of the context switch's bookkeeping or of start-up.
    irqoff_other,
    /// Opens the IRQ-off section in which a timer is queued or taken back.
    irqoff_timer,
    /// Opens the IRQ-off section in which the DMA engine is handed a transfer, or polled.
    irqoff_dma,
    /// Entry of the call-function-single handler.
    irqoff_call_single_entry,
    /// Entry of the call-function handler.
    irqoff_call_entry,
    /// Entry of the reschedule handler.
    irqoff_resched_entry,
    /// Entry of the handler of a device's interrupt.
    irqoff_device_entry,
    /// Entry of the timer handler.
    irqoff_timer_entry,
    /// An interrupt handler of the kernel returns.
    handler_exit,
    /// Incoming task of a context switch, before `on_cpu` of the outgoing one is cleared.
    switch_finish,
    /// All CPUs are up and CPU 0 is about to start the workload.
    boot_done,
    /// A benchmark thread is about to begin its operation (after the jitter spin).
    op_begin,
    /// A benchmark thread has finished its operation.
    op_end,
    /// A scenario is set up; its operation follows.
    scenario_ready,
    /// The wakee of a scenario runs.
    wakee_runs,
    /// Each turn of the loop of a task that keeps a CPU busy in a scenario.
    busy_loop,
    /// `bench=lostcall` has given up on a call.
    call_lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_order_and_dropped_code_is_skipped() {
        let mut section = [0u8; 48];
        section[0] = 0x10;
        section[8..12].copy_from_slice(b"one\0");
        section[24..28].copy_from_slice(b"two\0");
        section[32] = 0x30;
        section[40..46].copy_from_slice(b"three\0");
        let mut points = parse(&section);
        assert_eq!(points.next(), Some(Point { address: 0x10, name: "one" }));
        assert_eq!(points.next(), Some(Point { address: 0x30, name: "three" }));
        assert_eq!(points.next(), None);
    }

    #[test]
    fn names_are_unique() {
        for (at, name) in ALL.iter().enumerate() {
            assert!(!ALL[..at].contains(name), "{name}");
        }
    }
}
