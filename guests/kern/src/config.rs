//! Boot switches as values; the table of names is in `guests/abi`.

use core::ops::RangeInclusive;

use guests_abi::preset;
use guests_abi::switch::{self, parse_cpu_list, parse_number};
use guests_sched::affine::WaIdle;
use guests_sched::call_idle::CallIdle;
use guests_sched::nohz::Ilb;
use guests_sched::preempt::{Preempt, Times};
use guests_sched::sis::{SchedIdleCpu, Sis};
use guests_sched::tg_load::TgLoad;
use guests_sched::ttwu::{TtwuQueue, TtwuVia};

use crate::arch::ISA;
use crate::console::die;

/// What an idle CPU does.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Idle {
    Poll,
    Mwait,
    /// HLT, or WFI.
    Halt,
    /// What the menu governor chooses.
    Menu,
    /// Polls, then halts, as the haltpoll governor says.
    Haltpoll,
}

/// When newidle balance is entered.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Newidle {
    On,
    Off,
    SkipFromIdle,
}

/// Kind of the kernel's spinlocks.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum LockKind {
    Queued,
    Ticket,
}

/// A deliberate bug; `idle.rs` says what each does, but for pipes that wake nobody.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Broken {
    None,
    NoBarrier,
    FlushFirst,
    DeafPipe,
}

/// When a read wakes a writer that waits for room in a pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum PipeWake {
    /// The pipe was full.
    WasFull,
    /// It was, and is not any more.
    Room,
}

/// The policies: what the kernel's paths read while they run. Each CPU has a copy in its area.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Policy {
    pub(crate) call_idle: CallIdle,
    pub(crate) idle: Idle,
    pub(crate) is_polling_once: bool,
    /// Idle CPUs of arm64 say that they watch their flags.
    pub(crate) is_arm64_polling: bool,
    pub(crate) newidle: Newidle,
    pub(crate) ttwu_queue: TtwuQueue,
    pub(crate) ttwu_via: TtwuVia,
    /// Queued wakes by `ttwu_via=resched` look whether the target polls.
    pub(crate) is_ttwu_poll: bool,
    pub(crate) wa_idle: WaIdle,
    pub(crate) has_wa_prev_idle: bool,
    pub(crate) has_wa_weight: bool,
    pub(crate) sis: Sis,
    /// Scans prefer the cluster of the target.
    pub(crate) has_sis_cluster: bool,
    pub(crate) ilb: Ilb,
    /// Tickless CPUs are counted.
    pub(crate) has_nohz_nr_cpus: bool,
    pub(crate) sched_idle_cpu: SchedIdleCpu,
    pub(crate) preempt: Preempt,
    pub(crate) lock: LockKind,
    /// `nr_running` and `ttwu_pending` lie with `curr` and `idle`, not with the lock.
    pub(crate) is_rq_split: bool,
    pub(crate) is_nohz: bool,
    pub(crate) pipe_wake: PipeWake,
    pub(crate) broken: Broken,
    /// Ticks per second.
    pub(crate) hz: u32,
    /// Cycles added inside `schedule_idle`.
    pub(crate) schedule_idle_cost: u64,
    /// Largest spin before an operation, cycles.
    pub(crate) jitter: u64,
    /// From the number of CPUs, not from a switch.
    pub(crate) times: Times,
    pub(crate) tg_load: TgLoad,
    /// Least time between two updates of a group by a CPU, ns.
    pub(crate) tg_ratelimit_ns: u64,
    /// What is read of a group when a task migrates shares the line of its load.
    pub(crate) is_tg_shared: bool,
    /// Longest exit of an idle state, ns.
    pub(crate) latency_limit_ns: u64,
}

/// The workload.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bench {
    None,
    Idle,
    Ipistorm,
    C2c,
    Atomics,
    Busy,
    Scenario,
    LostCall,
    Hackbench,
    Ctxsw,
    Stream,
    Netperf,
    Tbench,
    Sysbench,
    RtApp,
    DmaTest,
    SchBench,
}

/// Test of netperf.
#[derive(Clone, Copy, Default)]
pub(crate) enum NetperfTest {
    #[default]
    UdpRr,
    TcpRr,
    TcpStream,
}

/// Where the second of a pair is.
#[derive(Clone, Copy, Default)]
pub(crate) enum Partner {
    #[default]
    SameLlc,
    CrossLlc,
    CrossSocket,
}

/// Parameters of the benchmarks that pass messages, and of their controls.
#[derive(Clone, Copy, Default)]
pub(crate) struct Messages {
    pub(crate) groups: usize,
    pub(crate) fds: usize,
    pub(crate) loops: u64,
    pub(crate) datasize: usize,
    pub(crate) pairs: usize,
    pub(crate) partner: Partner,
    pub(crate) words: usize,
    pub(crate) netperf_test: NetperfTest,
    pub(crate) clients: usize,
    pub(crate) load_percent: usize,
    pub(crate) sock_work_ns: u64,
    pub(crate) window: usize,
    pub(crate) think_ns: u64,
}

/// Parameters of `bench=dmatest`.
#[derive(Clone, Copy, Default)]
pub(crate) struct DmaTest {
    pub(crate) iterations: u64,
    pub(crate) threads: usize,
    /// Bytes of a transfer.
    pub(crate) bytes: u64,
    pub(crate) is_noverify: bool,
    pub(crate) is_polled: bool,
    pub(crate) timeout_ms: u64,
}

/// Parameters of `bench=schbench`.
#[derive(Clone, Copy, Default)]
pub(crate) struct SchBench {
    pub(crate) message_threads: usize,
    pub(crate) worker_threads: usize,
    pub(crate) operations: u64,
    pub(crate) cache_footprint_kib: u64,
    pub(crate) sleeps: u64,
    pub(crate) is_no_locking: bool,
    pub(crate) runtime_us: u64,
}

/// How a contended counter is incremented.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counter {
    Atomic,
    Cas,
}

/// Operation of a scenario.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    None,
    CallSingle,
    CallMany,
    Resched,
    Wake,
    /// From the interrupt handler of another CPU.
    WakeFromIrq,
    /// A token goes to a thread of the target and comes back; both sleep meanwhile.
    Pingpong,
    /// The tasks of `busy` may go everywhere.
    Release,
}

/// A list of CPUs, kept as the text of the command line.
#[derive(Clone, Copy)]
pub(crate) struct CpuList(&'static str);

impl CpuList {
    /// The list of a text that has been checked.
    pub(crate) const fn of(text: &'static str) -> CpuList {
        CpuList(text)
    }

    /// Calls `each` for every CPU of the list that exists, in the order of the text.
    pub(crate) fn for_each(self, cpu_count: usize, mut each: impl FnMut(usize)) {
        parse_cpu_list(self.0, |range: RangeInclusive<usize>| {
            range.take_while(|&cpu| cpu < cpu_count).for_each(&mut each);
        });
    }

    /// Number of CPUs of the list that exist.
    pub(crate) fn count(self, cpu_count: usize) -> usize {
        let mut count = 0;
        self.for_each(cpu_count, |_| count += 1);
        count
    }

    /// The CPU at a position of the list.
    pub(crate) fn get(self, cpu_count: usize, position: usize) -> Option<usize> {
        let (mut found, mut at) = (None, 0);
        self.for_each(cpu_count, |cpu| {
            if at == position {
                found = Some(cpu);
            }
            at += 1;
        });
        found
    }
}

/// All switches.
#[derive(Clone, Copy)]
pub(crate) struct Config {
    pub(crate) policy: Policy,
    /// arm64: single instructions for atomics, where the CPUs have them.
    pub(crate) is_lse: bool,
    /// arm64: the event stream runs.
    pub(crate) is_evtstrm: bool,
    pub(crate) cgroup_depth: u64,
    pub(crate) bench: Bench,
    pub(crate) duration_us: u64,
    pub(crate) numipi: u64,
    pub(crate) is_single: bool,
    pub(crate) offset: usize,
    pub(crate) cpulist: CpuList,
    pub(crate) is_wait: bool,
    pub(crate) warmup: u64,
    pub(crate) c2c_a: CpuList,
    pub(crate) c2c_b: CpuList,
    pub(crate) c2c_home: usize,
    pub(crate) iters: u64,
    pub(crate) c2c_samples: u64,
    pub(crate) on: CpuList,
    pub(crate) counter: Counter,
    pub(crate) op: Op,
    pub(crate) pre: Op,
    pub(crate) from: CpuList,
    pub(crate) to: CpuList,
    pub(crate) is_target_running: bool,
    pub(crate) is_wakee_free: bool,
    pub(crate) irq_cpu: CpuList,
    pub(crate) is_updating_blocked: bool,
    pub(crate) busy: CpuList,
    pub(crate) busy_sched_idle: CpuList,
    pub(crate) spinners: u64,
    pub(crate) times: u64,
    pub(crate) gap_us: u64,
    pub(crate) settle_us: u64,
    pub(crate) tries: u64,
    pub(crate) spread: u64,
    pub(crate) is_race: bool,
    pub(crate) bound_us: u64,
    pub(crate) messages: Messages,
    pub(crate) rtapp: &'static str,
    pub(crate) dma_irq_cpu: CpuList,
    pub(crate) dmatest: DmaTest,
    pub(crate) schbench: SchBench,
}

impl Config {
    /// Reads the command line; ends the run on a switch that the table refuses.
    pub(crate) fn from_command_line(text: &'static str) -> Config {
        let mut config = Config::blank();
        for switch in switch::switches(ISA) {
            config.set(switch.name, switch.default);
        }
        // An era first: whatever else the line says overrides it.
        Config::each_switch(text, |key, value| {
            if key == "preset"
                && let Some(era) = preset::find(value)
            {
                era.for_each(|(key, value)| config.set(key, value));
            }
        });
        Config::each_switch(text, |key, value| config.set(key, value));
        config
    }

    /// Calls `each` for every switch of a command line.
    fn each_switch(text: &'static str, mut each: impl FnMut(&'static str, &'static str)) {
        for word in text.split_ascii_whitespace() {
            let Some((key, value)) = word.split_once('=') else {
                die!(BAD_SWITCH, "{word}: expected key=value");
            };
            match switch::check_switch(ISA, key, value) {
                Ok(switch) => each(switch.name, value),
                Err(error) => die!(BAD_SWITCH, "{error}"),
            }
        }
    }

    /// Ends the run when a list names a CPU that does not exist.
    pub(crate) fn check_cpus(&self, cpu_count: usize) {
        let scene =
            [self.from, self.to, self.irq_cpu, self.busy, self.busy_sched_idle, self.dma_irq_cpu];
        for list in [self.cpulist, self.c2c_a, self.c2c_b, self.on].into_iter().chain(scene) {
            parse_cpu_list(list.0, |range| {
                // The defaults may name CPUs that a small machine lacks; only the bench that
                // uses a list refuses it, by finding it empty.
                let is_default = switch::SWITCHES.iter().any(|switch| switch.default == list.0);
                if list.0 != "all" && !is_default && *range.end() >= cpu_count {
                    die!(BAD_SWITCH, "cpu {}: only {cpu_count} cpus", range.end());
                }
            });
        }
    }

    /// Values before the defaults of the table are applied.
    // tidy: table
    fn blank() -> Config {
        Config {
            policy: Policy {
                call_idle: CallIdle::NeedResched,
                idle: Idle::Mwait,
                is_polling_once: false,
                is_arm64_polling: false,
                newidle: Newidle::On,
                ttwu_queue: TtwuQueue::Off,
                ttwu_via: TtwuVia::Csd,
                is_ttwu_poll: true,
                wa_idle: WaIdle::CachePrev,
                has_wa_prev_idle: true,
                has_wa_weight: true,
                sis: Sis::Full,
                has_sis_cluster: false,
                ilb: Ilb::Off,
                has_nohz_nr_cpus: true,
                sched_idle_cpu: SchedIdleCpu::Always,
                preempt: Preempt::Cfs,
                lock: LockKind::Queued,
                is_rq_split: false,
                is_nohz: true,
                pipe_wake: PipeWake::WasFull,
                broken: Broken::None,
                hz: 0,
                schedule_idle_cost: 0,
                jitter: 0,
                times: Times::of_cpus(1),
                tg_load: TgLoad::Threshold,
                tg_ratelimit_ns: 0,
                is_tg_shared: true,
                latency_limit_ns: 0,
            },
            is_lse: false,
            is_evtstrm: false,
            cgroup_depth: 0,
            bench: Bench::None,
            duration_us: 0,
            numipi: 0,
            is_single: true,
            offset: 0,
            cpulist: CpuList(""),
            is_wait: true,
            warmup: 0,
            c2c_a: CpuList(""),
            c2c_b: CpuList(""),
            c2c_home: 0,
            iters: 0,
            c2c_samples: 0,
            on: CpuList(""),
            counter: Counter::Atomic,
            op: Op::None,
            pre: Op::None,
            from: CpuList(""),
            to: CpuList(""),
            is_target_running: false,
            is_wakee_free: false,
            irq_cpu: CpuList(""),
            is_updating_blocked: false,
            busy: CpuList(""),
            busy_sched_idle: CpuList(""),
            spinners: 0,
            times: 0,
            gap_us: 0,
            settle_us: 0,
            tries: 0,
            spread: 0,
            is_race: true,
            bound_us: 0,
            messages: Messages::default(),
            rtapp: "",
            dma_irq_cpu: CpuList(""),
            dmatest: DmaTest::default(),
            schbench: SchBench::default(),
        }
    }

    /// Sets one switch, whose value the table has checked.
    fn set(&mut self, key: &str, value: &'static str) {
        let number = parse_number(value).unwrap_or(0);
        let is_on = value == "1";
        let list = CpuList(value);
        match key {
            "preset" => {}
            "lse" => self.is_lse = is_on,
            "evtstrm" => self.is_evtstrm = is_on,
            "cgroup_depth" => self.cgroup_depth = number,
            "bench" => self.bench = bench(value),
            "duration_us" => self.duration_us = number,
            "numipi" => self.numipi = number,
            "single" => self.is_single = is_on,
            "offset" => self.offset = number as usize,
            "cpulist" => self.cpulist = list,
            "wait" => self.is_wait = is_on,
            "warmup" => self.warmup = number,
            "c2c_a" => self.c2c_a = list,
            "c2c_b" => self.c2c_b = list,
            "c2c_home" => self.c2c_home = number as usize,
            "iters" => self.iters = number,
            "c2c_samples" => self.c2c_samples = number,
            "on" => self.on = list,
            "counter" => self.counter = if value == "cas" { Counter::Cas } else { Counter::Atomic },
            "op" => self.op = op(value),
            "pre" => self.pre = op(value),
            "from" => self.from = list,
            "to" => self.to = list,
            "state" => self.is_target_running = value == "running",
            "wakee" => self.is_wakee_free = value == "free",
            "irq_cpu" => self.irq_cpu = list,
            "blocked" => self.is_updating_blocked = is_on,
            "busy" => self.busy = list,
            "busy_sched_idle" => self.busy_sched_idle = list,
            "spinners" => self.spinners = number,
            "times" => self.times = number,
            "gap_us" => self.gap_us = number,
            "settle_us" => self.settle_us = number,
            "tries" => self.tries = number,
            "spread" => self.spread = number,
            "race" => self.is_race = is_on,
            "bound_us" => self.bound_us = number,
            "rtapp" => self.rtapp = value,
            "dma_irq_cpu" => self.dma_irq_cpu = list,
            _ if self.messages.set(key, value) => {}
            _ if self.dmatest.set(key, number) || self.schbench.set(key, number) => {}
            _ => self.policy.set(key, value),
        }
    }
}

impl Messages {
    /// Sets a switch; returns whether it is one of these.
    fn set(&mut self, key: &str, value: &str) -> bool {
        let number = parse_number(value).unwrap_or(0);
        match key {
            "groups" => self.groups = number as usize,
            "fds" => self.fds = number as usize,
            "loops" => self.loops = number,
            "datasize" => self.datasize = number as usize,
            "pairs" => self.pairs = number as usize,
            "partner" => {
                self.partner = match value {
                    "cross_llc" => Partner::CrossLlc,
                    "cross_socket" => Partner::CrossSocket,
                    _ => Partner::SameLlc,
                }
            }
            "words" => self.words = number as usize,
            "netperf_test" => {
                self.netperf_test = match value {
                    "tcp_rr" => NetperfTest::TcpRr,
                    "tcp_stream" => NetperfTest::TcpStream,
                    _ => NetperfTest::UdpRr,
                }
            }
            "clients" => self.clients = number as usize,
            "load_percent" => self.load_percent = number as usize,
            "sock_work_ns" => self.sock_work_ns = number,
            "sock_window" => self.window = number as usize,
            "think_ns" => self.think_ns = number,
            _ => return false,
        }
        true
    }
}

impl DmaTest {
    /// Sets a switch, if it is one of these.
    fn set(&mut self, key: &str, number: u64) -> bool {
        match key {
            "iterations" => self.iterations = number,
            "threads_per_chan" => self.threads = number as usize,
            // Whole lines.
            "test_buf_size" => self.bytes = number.next_multiple_of(64),
            "noverify" => self.is_noverify = number != 0,
            "polled" => self.is_polled = number != 0,
            "timeout" => self.timeout_ms = number,
            _ => return false,
        }
        true
    }
}

impl SchBench {
    /// Sets a switch, if it is one of these.
    fn set(&mut self, key: &str, number: u64) -> bool {
        match key {
            "message_threads" => self.message_threads = number as usize,
            "worker_threads" => self.worker_threads = number as usize,
            "operations" => self.operations = number,
            "cache_footprint" => self.cache_footprint_kib = number,
            "sleeps" => self.sleeps = number,
            "no_locking" => self.is_no_locking = number != 0,
            "runtime_us" => self.runtime_us = number,
            _ => return false,
        }
        true
    }
}

impl Policy {
    fn set(&mut self, key: &str, value: &str) {
        let number = parse_number(value).unwrap_or(0);
        let is_on = value == "1";
        match key {
            "call_idle" => {
                self.call_idle = CallIdle::from_name(value).unwrap_or(CallIdle::NeedResched);
            }
            "idle" => {
                self.idle = match value {
                    "poll" => Idle::Poll,
                    "halt" | "wfi" => Idle::Halt,
                    "menu" => Idle::Menu,
                    "haltpoll" => Idle::Haltpoll,
                    _ => Idle::Mwait,
                }
            }
            "polling_once" => self.is_polling_once = is_on,
            "arm64_polling" => self.is_arm64_polling = is_on,
            "newidle" => {
                self.newidle = match value {
                    "off" => Newidle::Off,
                    "skip_from_idle" => Newidle::SkipFromIdle,
                    _ => Newidle::On,
                }
            }
            "ttwu_queue" => {
                self.ttwu_queue = TtwuQueue::from_name(value).unwrap_or(TtwuQueue::Off);
            }
            "ttwu_via" => {
                self.ttwu_via = TtwuVia::from_name(value).unwrap_or(TtwuVia::Csd);
            }
            "wa_idle" => self.wa_idle = WaIdle::from_name(value).unwrap_or(WaIdle::CachePrev),
            "wa_prev_idle" => self.has_wa_prev_idle = is_on,
            "wa_weight" => self.has_wa_weight = is_on,
            "sis" => self.sis = Sis::from_name(value).unwrap_or(Sis::Full),
            "sis_cluster" => self.has_sis_cluster = is_on,
            "nohz_nr_cpus" => self.has_nohz_nr_cpus = is_on,
            "ilb" => self.ilb = Ilb::from_name(value).unwrap_or(Ilb::Off),
            "sched_idle_cpu" => {
                let variant = SchedIdleCpu::from_name(value);
                self.sched_idle_cpu = variant.unwrap_or(SchedIdleCpu::Always);
            }
            "ttwu_poll" => self.is_ttwu_poll = is_on,
            "preempt" => self.preempt = Preempt::from_name(value).unwrap_or(Preempt::Cfs),
            "tg_load" => self.tg_load = TgLoad::from_name(value).unwrap_or(TgLoad::Threshold),
            "tg_ratelimit_us" => self.tg_ratelimit_ns = number * 1000,
            "tg_layout" => self.is_tg_shared = value == "shared",
            "lock" => {
                self.lock = if value == "ticket" { LockKind::Ticket } else { LockKind::Queued }
            }
            "rq_layout" => self.is_rq_split = value == "split",
            "nohz" => self.is_nohz = is_on,
            "HZ" => self.hz = number as u32,
            "path_cost.schedule_idle" => self.schedule_idle_cost = number,
            "pipe_wake" => {
                self.pipe_wake = if value == "room" { PipeWake::Room } else { PipeWake::WasFull }
            }
            "broken" => {
                self.broken = match value {
                    "no_barrier" => Broken::NoBarrier,
                    "flush_first" => Broken::FlushFirst,
                    "deaf_pipe" => Broken::DeafPipe,
                    _ => Broken::None,
                }
            }
            "cpu_dma_latency_us" => self.latency_limit_ns = number * 1000,
            "jitter" => self.jitter = number,
            _ => die!(BAD_SWITCH, "{key}: in the table, but not in the kernel"),
        }
    }
}

fn bench(value: &str) -> Bench {
    match value {
        "idle" => Bench::Idle,
        "ipistorm" => Bench::Ipistorm,
        "c2c" => Bench::C2c,
        "atomics" => Bench::Atomics,
        "busy" => Bench::Busy,
        "scenario" => Bench::Scenario,
        "lostcall" => Bench::LostCall,
        "hackbench" => Bench::Hackbench,
        "ctxsw" => Bench::Ctxsw,
        "stream" => Bench::Stream,
        "netperf" => Bench::Netperf,
        "tbench" => Bench::Tbench,
        "sysbench" => Bench::Sysbench,
        "rtapp" => Bench::RtApp,
        "dmatest" => Bench::DmaTest,
        "schbench" => Bench::SchBench,
        _ => Bench::None,
    }
}

fn op(value: &str) -> Op {
    match value {
        "call_single" => Op::CallSingle,
        "call_many" => Op::CallMany,
        "resched" => Op::Resched,
        "wake" => Op::Wake,
        "wake_from_irq" => Op::WakeFromIrq,
        "pingpong" => Op::Pingpong,
        "release" => Op::Release,
        _ => Op::None,
    }
}
