//! Line classes: what a cache line of the guest kernel holds.
//!
//! The kernel declares the class of each of its lines through the test device; the machine
//! accounts coherence traffic by class and never derives timing from it.

macro_rules! line_classes {
    ($($(#[$doc:meta])* $name:ident = $text:literal,)*) => {
        /// Class of a cache line; the value is what the test device register takes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum LineClass { $($(#[$doc])* $name,)* }

        impl LineClass {
            /// All classes in order of value.
            pub const ALL: &'static [LineClass] = &[$(LineClass::$name,)*];

            /// Name as tables and JSON print it.
            pub const fn name(self) -> &'static str {
                match self { $(LineClass::$name => $text,)* }
            }
        }
    };
}

line_classes! {
    /// Nothing was declared.
    Other = "other",
    /// `thread_info`: flags, cpu, task state. Of an idle task: the line under MONITOR.
    Ti = "TI",
    /// `on_cpu`, `on_rq`, `wake_entry`, `wake_cpu`.
    Ts = "TS",
    /// `pi_lock` of a task.
    Pi = "PI",
    /// Scheduling entity of a task.
    Se = "SE",
    /// Run queue: lock, `nr_running`, `ttwu_pending`, nohz flags, `nr_switches`.
    Rql = "RQL",
    /// Run queue: `curr`, `idle`, `stop`, `next_balance`.
    Rqc = "RQC",
    /// Run queue: clocks.
    Rqk = "RQK",
    /// `cfs_rq`: tree, `h_nr_running`, load.
    Cfs = "CFS",
    /// `cfs_rq`: average and contribution.
    Cfsa = "CFSA",
    /// `cfs_rq`: removed load.
    Cfsr = "CFSR",
    /// Wake list head.
    Wl = "WL",
    /// `call_single_queue` head.
    Csq = "CSQ",
    /// Call-function descriptors that are not on a stack.
    Csd = "CSD",
    /// `tg->load_avg` of a task group.
    Tg = "TG",
    /// Read-mostly part of a task group.
    Tgr = "TGR",
    /// `sd_llc_shared`.
    Sds = "SDS",
    /// Machine-global nohz counters.
    Nohz = "NOHZ",
    /// Machine-global nohz mask.
    Nohzm = "NOHZM",
    /// Root domain.
    Rd = "RD",
    /// Queue node of a queued spinlock.
    Mcs = "MCS",
    /// Private per-CPU state of the kernel and read-mostly switches.
    Pcpu = "PCPU",
    /// Guest-kept counters.
    Counters = "COUNTERS",
    /// Kernel stacks; the csd of a synchronous call lies here.
    Stack = "STACK",
    /// Lines of a benchmark itself: start barrier, ping-pong word, sample buffer.
    Bench = "BENCH",
    /// Wait queue: lock and list.
    Wq = "WQ",
    /// Pipe: mutex, ring, and what the ring holds.
    Pipe = "PIPE",
    /// Socket: lock and positions.
    Sock = "SOCK",
    /// Bucket of a futex.
    Futex = "FUTEX",
    /// Data on the way: pages of pipes, buffers of sockets.
    Page = "PAGE",
}

impl LineClass {
    /// The class that a register value stands for, if there is one.
    pub fn from_value(value: u8) -> Option<LineClass> {
        LineClass::ALL.get(usize::from(value)).copied()
    }

    /// The class of that name, if there is one.
    pub fn from_name(name: &str) -> Option<LineClass> {
        LineClass::ALL.iter().copied().find(|class| class.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_names_round_trip() {
        for (value, &class) in LineClass::ALL.iter().enumerate() {
            assert_eq!(LineClass::from_value(value as u8), Some(class));
            assert_eq!(LineClass::from_name(class.name()), Some(class));
        }
        assert_eq!(LineClass::from_value(LineClass::ALL.len() as u8), None);
    }
}
