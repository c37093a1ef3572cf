//! Counters that the guest kernel keeps, in the order of its counter blocks.
//!
//! The machine keeps the rest (`ipi_sent`, `ipi_taken`, `idle_enter`, wake causes, IRQ-off
//! sections): it sees them without spending a guest instruction.

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// A guest-kept counter; the value is its index in a CPU's block of `u64`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(usize)]
        pub enum Counter { $($(#[$doc])* $name,)* }

        impl Counter {
            /// All counters in order of index.
            pub const ALL: &'static [Counter] = &[$(Counter::$name,)*];
            /// Number of counters.
            pub const COUNT: usize = Counter::ALL.len();
            /// Names in order of index.
            pub const NAMES: &'static [&'static str] = &[$($text,)*];

            /// Name as in the scheduler's documentation.
            pub const fn name(self) -> &'static str {
                Counter::NAMES[self as usize]
            }
        }
    };
}

counters! {
    /// Reschedule IPIs this CPU sent, per target.
    ReschedIpi = "resched_ipi",
    /// Call-function IPIs this CPU sent, per target.
    CallIpi = "call_ipi",
    /// Reschedule IPIs not sent because the target polls.
    ReschedSaved = "resched_saved",
    /// Call-function IPIs not sent because the target polls.
    CallSaved = "call_saved",
    /// `resched_curr` of a remote CPU found NEED_RESCHED already set.
    ReschedDup = "resched_dup",
    /// Calls that found the target's queue not empty and signalled nothing.
    CallFolded = "call_folded",
    /// Atomic read-modify-writes on another CPU's `thread_info.flags`.
    FlagsRmw = "flags_rmw",
    /// Wakes finished by locking a remote run queue.
    WakeDirect = "wake_direct",
    /// Wakes finished by queueing on the target.
    WakeQueued = "wake_queued",
    /// Wakes finished on this CPU's own run queue.
    WakeLocal = "wake_local",
    /// Wakes that had to spin until the wakee's `on_cpu` cleared.
    WakeSpinOncpu = "wake_spin_oncpu",
    /// Run-queue locks of other CPUs taken.
    RqLockRemote = "rq_lock_remote",
    /// Run-queue locks not obtained at the first try.
    RqLockContended = "rq_lock_contended",
    /// `schedule_idle` calls that went through task picking.
    SchedIdleFull = "sched_idle_full",
    /// `schedule_idle` calls that took the SM_IDLE shortcut.
    SchedIdleFast = "sched_idle_fast",
    /// Newidle balance entered.
    NewidleTry = "newidle_try",
    /// Newidle balance walked domains.
    NewidleWalk = "newidle_walk",
    /// Newidle balance pulled a task.
    NewidlePull = "newidle_pull",
    /// Nohz idle balance kicked from here.
    IlbKick = "ilb_kick",
    /// Nohz idle balance executed here.
    IlbRun = "ilb_run",
    /// Migrations at wake-up.
    MigWake = "mig_wake",
    /// Migrations by load balancing.
    MigLb = "mig_lb",
    /// Atomic adds on `tg->load_avg`.
    TgUpdate = "tg_update",
    /// Adds skipped by the 1/64 threshold.
    TgSkipThresh = "tg_skip_thresh",
    /// Adds skipped by the rate limit.
    TgSkipRate = "tg_skip_rate",
    /// Reads of `tg->load_avg`.
    TgRead = "tg_read",
    /// Targets of remote calls: single, csd-queued wakes, kicks, each target of `call_many`.
    CallRemote = "call_remote",
    /// `resched_curr` calls on a remote CPU.
    ReschedRemote = "resched_remote",
    /// Successful wakes.
    WakeDone = "wake_done",
    /// Calls of `bench=lostcall` that were not served in time. Each is repaired by one extra
    /// call IPI, which also counts as `call_ipi` and `call_remote`, so that the laws hold.
    CallLost = "call_lost",
}

/// A conservation law: the sums of both sides over all CPUs are equal.
#[derive(Clone, Copy, Debug)]
pub struct Law {
    /// Name for reports.
    pub name: &'static str,
    /// Counters whose sum must equal `total`.
    pub parts: &'static [Counter],
    /// The counter that the parts divide up.
    pub total: Counter,
}

/// Laws that hold in every run of the guest kernel.
pub const LAWS: &[Law] = &[
    Law {
        name: "calls",
        parts: &[Counter::CallIpi, Counter::CallSaved, Counter::CallFolded],
        total: Counter::CallRemote,
    },
    Law {
        name: "reschedules",
        parts: &[Counter::ReschedIpi, Counter::ReschedSaved, Counter::ReschedDup],
        total: Counter::ReschedRemote,
    },
    Law {
        name: "wakes",
        parts: &[Counter::WakeDirect, Counter::WakeQueued, Counter::WakeLocal],
        total: Counter::WakeDone,
    },
];
