//! Boot switches of the guest kernel: names, legal values, defaults, help.
//!
//! The table holds what works, nothing planned. The kernel refuses anything else on its command
//! line, and the host checks `--guest` and `--vary` against the same table before it boots. A row
//! may hold for one ISA only; a name then has at most one row for each.

use core::fmt;

use crate::{preset, rtapp};

/// Instruction set that a kernel was built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isa {
    /// x86-64.
    X86,
    /// arm64.
    Arm,
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isa::X86 => "x86-64",
            Isa::Arm => "arm64",
        })
    }
}

/// Legal values of a switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A decimal integer in this closed range.
    Integer {
        /// Smallest legal value.
        min: u64,
        /// Largest legal value.
        max: u64,
    },
    /// CPU numbers, as `3`, `0-7`, `1,4-5`, `all` or `none`. CPUs that do not exist are refused at
    /// boot.
    CpuList,
    /// Threads of `bench=rtapp`, as [`crate::rtapp`] spells them.
    Threads,
}

/// One boot switch.
#[derive(Clone, Copy, Debug)]
pub struct Switch {
    /// Key on the command line.
    pub name: &'static str,
    /// What may stand behind the `=`.
    pub values: Values,
    /// Value when the key is absent; checks like any other.
    pub default: &'static str,
    /// One line of help.
    pub help: &'static str,
    /// The only ISA that has it; `None`: all have.
    pub only: Option<Isa>,
}

impl Switch {
    const fn only(self, isa: Isa) -> Switch {
        Switch { only: Some(isa), ..self }
    }

    /// Whether kernels for this ISA have the switch.
    pub fn is_on(&self, isa: Isa) -> bool {
        self.only.is_none_or(|only| only == isa)
    }
}

const fn word(
    name: &'static str,
    words: &'static [&'static str],
    default: &'static str,
    help: &'static str,
) -> Switch {
    Switch { name, values: Values::OneOf(words), default, help, only: None }
}

const fn number(
    name: &'static str,
    min: u64,
    max: u64,
    default: &'static str,
    help: &'static str,
) -> Switch {
    Switch { name, values: Values::Integer { min, max }, default, help, only: None }
}

const fn cpus(name: &'static str, default: &'static str, help: &'static str) -> Switch {
    Switch { name, values: Values::CpuList, default, help, only: None }
}

const ZERO_ONE: &[&str] = &["0", "1"];

/// Most CPUs that one list switch can name.
pub const CPU_LIST_MAX: usize = crate::layout::CPUS_MAX;

/// All boot switches.
#[rustfmt::skip]
pub const SWITCHES: &[Switch] = &[
    // Policies.
    word("preset", preset::NAMES, "none", "policies of a version of Linux; other switches win"),
    word("call_idle", &["revert", "need_resched", "notify_ipi", "sm_idle"], "need_resched",
        "how a remote call reaches an idle CPU"),
    word("idle", &["poll", "mwait", "halt", "menu", "haltpoll"], "mwait", "what an idle CPU does")
        .only(Isa::X86),
    word("idle", &["poll", "wfi", "menu", "haltpoll"], "wfi", "what an idle CPU does")
        .only(Isa::Arm),
    number("cpu_dma_latency_us", 0, 2_000_000_000, "2000000000",
        "idle=menu: states whose exit takes longer are not entered"),
    word("polling_once", ZERO_ONE, "0",
        "1: set POLLING once at the top of the idle loop, clear it only after the wake")
        .only(Isa::X86),
    word("arm64_polling", ZERO_ONE, "0",
        "1: CPUs under idle=poll say so, and are signalled through their flags").only(Isa::Arm),
    word("lse", ZERO_ONE, "1",
        "0: atomics by exclusives even where the CPUs have single instructions").only(Isa::Arm),
    word("evtstrm", ZERO_ONE, "1", "1: an event of about 10 kHz ends a WFE that lasts")
        .only(Isa::Arm),
    word("newidle", &["on", "off", "skip_from_idle"], "on",
        "balance before going idle, once some CPU has had more than one task"),
    word("ilb", &["off", "on", "on_fixed"], "off",
        "busy CPUs kick an idle one to balance for all; on loses kicks that set NEED_RESCHED"),
    word("ttwu_queue", &["off", "always", "cross_llc", "on_cpu", "idle", "l2_skip", "trylock"],
        "idle", "when a wake is queued on the target, instead of locking its run queue"),
    word("ttwu_via", &["csd", "resched"], "csd",
        "what carries a queued wake: the call queue, or a list and the reschedule interrupt"),
    word("ttwu_poll", ZERO_ONE, "1",
        "with ttwu_via=resched: 1 sends no interrupt for a queued wake to a CPU that polls"),
    word("wa_idle", &["off", "this_idle", "cache", "cache_prev"], "cache_prev",
        "rule of wake_affine that asks who is idle"),
    word("wa_prev_idle", ZERO_ONE, "1", "wake_affine: 1 takes prev when it is idle"),
    word("wa_weight", ZERO_ONE, "1", "wake_affine: 1 compares loads when nothing else decided"),
    word("sis", &["target_only", "full", "util"], "full",
        "how far select_idle_sibling looks for an idle CPU"),
    word("sis_cluster", ZERO_ONE, "0", "1: it looks in the cluster of the target first"),
    word("sched_idle_cpu", &["off", "fallback", "always"], "always",
        "what a CPU that runs only SCHED_IDLE tasks counts as for a wake"),
    word("tg_load", &["threshold", "ratelimit", "off"], "threshold",
        "when a CPU adds to tg->load_avg of a group"),
    number("tg_ratelimit_us", 0, 1_000_000, "1000",
        "tg_load=ratelimit: least time between two adds of a CPU"),
    word("tg_layout", &["shared", "alone"], "shared",
        "shared: what a migration reads of a group lies on the line of tg->load_avg"),
    number("cgroup_depth", 0, 16, "0", "groups, each in the one before, around the benchmark"),
    word("preempt", &["cfs", "eevdf", "always", "never"], "cfs",
        "order of the queue and preemption test at wake-up; always and never queue as cfs"),
    word("lock", &["queued", "ticket"], "queued", "kind of the kernel's spinlocks"),
    word("rq_layout", &["classic", "split"], "classic",
        "split: what idle scans read of a run queue is one line, apart from the lock's"),
    word("nohz", ZERO_ONE, "1", "1: no tick on idle CPUs"),
    word("nohz_nr_cpus", ZERO_ONE, "1", "1: tickless CPUs are counted, besides the mask of them"),
    word("HZ", &["100", "250", "1000"], "250", "ticks per second on busy CPUs"),
    number("path_cost.schedule_idle", 0, 1_000_000, "0",
        "cycles of dependent work added inside schedule_idle"),
    word("pipe_wake", &["was_full", "room"], "was_full",
        "a read wakes a writer of a pipe that was full, or only if there is room now (6.14)"),
    word("broken", &["none", "no_barrier", "flush_first", "deaf_pipe"], "none",
        "deliberate bug of the idle loop, or of pipes, for tests of the tests"),
    // What to run.
    word("bench", &["none", "idle", "ipistorm", "c2c", "atomics", "busy", "scenario", "lostcall",
        "hackbench", "ctxsw", "stream", "netperf", "tbench", "sysbench", "rtapp", "dmatest",
        "schbench"], "none", "workload after boot; none exits at once"),
    number("jitter", 0, 63, "63", "largest seeded spin in cycles before each operation"),
    // bench=idle
    number("duration_us", 1, 60_000_000, "1000000",
        "simulated time of the run, for the benches that have one"),
    // bench=ipistorm
    number("numipi", 1, 10_000_000, "2000", "ipistorm: calls per calling CPU"),
    word("single", ZERO_ONE, "1", "ipistorm: 1 calls one CPU, 0 all others"),
    number("offset", 0, 1023, "8", "ipistorm: target is own number plus this, modulo all CPUs"),
    cpus("cpulist", "8", "ipistorm: CPUs that call"),
    word("wait", ZERO_ONE, "1", "ipistorm, scenario: 1 waits until the function ran"),
    number("warmup", 0, 1_000_000, "200", "ipistorm: calls before the measured region"),
    // bench=c2c
    cpus("c2c_a", "0", "c2c: first CPU of each pair"),
    cpus("c2c_b", "1", "c2c: second CPU of each pair"),
    number("c2c_home", 0, 63, "0", "c2c: node that owns the ping-pong line"),
    number("iters", 1, 1_000_000, "100",
        "c2c: round trips per sample; atomics: increments of one CPU; busy, stream: rounds"),
    number("c2c_samples", 1, 100_000, "10", "c2c: samples per pair"),
    // bench=atomics, bench=busy, bench=stream
    cpus("on", "0-1", "atomics, busy, stream: CPUs that work"),
    word("counter", &["atomic", "cas"], "atomic",
        "atomics: increment by one atomic, or by a load and compare-exchange"),
    // bench=scenario
    word("op", &["call_single", "call_many", "resched", "wake", "wake_from_irq", "pingpong",
        "release", "none"], "none", "scenario: operation inside the region"),
    word("pre", &["call_single", "call_many", "resched", "wake", "wake_from_irq", "pingpong",
        "release", "none"], "none", "scenario: what the first caller does just before the region"),
    cpus("from", "0", "scenario, lostcall: CPUs that operate, at the same time"),
    cpus("to", "1", "scenario, lostcall: target CPUs"),
    word("state", &["idle", "running"], "idle", "scenario: what the targets do before"),
    word("wakee", &["pinned", "free"], "pinned",
        "scenario: a wakee stays on its target, or may go anywhere"),
    cpus("irq_cpu", "none", "scenario: CPUs whose interrupts wake in turn, for wake_from_irq"),
    word("blocked", ZERO_ONE, "0",
        "scenario: 1 brings load averages of all CPUs up to date behind each operation"),
    cpus("busy", "none", "scenario: CPUs with an endless task"),
    cpus("busy_sched_idle", "none", "scenario: CPUs with an endless SCHED_IDLE task"),
    number("spinners", 0, 4096, "0", "scenario: endless tasks that may go anywhere from the start"),
    number("times", 1, 1_000_000, "1", "scenario: operations of each caller, back to back"),
    number("gap_us", 0, 100_000, "0", "scenario: time behind each operation"),
    number("settle_us", 1, 100_000, "20", "scenario: time to settle before and after"),
    // bench=lostcall
    number("tries", 1, 100_000_000, "10000", "lostcall: calls"),
    number("spread", 0, 1_000_000, "1024", "lostcall: largest seeded spin before a call, cycles"),
    word("race", ZERO_ONE, "1", "lostcall: 1 asks the target to reschedule before half the calls"),
    number("bound_us", 1, 1_000_000, "50", "lostcall: a call not served within this is lost"),
    // bench=hackbench
    number("groups", 1, 1024, "10", "hackbench: groups"),
    number("fds", 1, 64, "20", "hackbench: senders, receivers and pipes of a group"),
    number("loops", 1, 10_000_000, "100", "hackbench: messages of a sender to each receiver"),
    number("datasize", 1, 65_536, "100", "hackbench: bytes of a message"),
    // bench=ctxsw
    number("pairs", 1, 64, "1", "ctxsw: pairs to each LLC"),
    word("partner", &["same_llc", "cross_llc", "cross_socket"], "same_llc",
        "ctxsw: where the second of a pair is"),
    // bench=stream
    number("words", 8, 16_777_216, "8192", "stream: words of each of the three arrays of a CPU"),
    // bench=netperf, bench=tbench, bench=sysbench
    word("netperf_test", &["udp_rr", "tcp_rr", "tcp_stream"], "udp_rr",
        "netperf: request and response, or a stream"),
    number("clients", 0, 2048, "0",
        "netperf, tbench, sysbench: clients, each with a server; 0 takes load_percent"),
    number("load_percent", 1, 400, "25",
        "netperf, tbench, sysbench: clients, per cent of the CPUs"),
    number("sock_work_ns", 0, 1_000_000, "1500",
        "sockets: time that the protocol takes for a message or segment, a guess"),
    number("sock_window", 70_000, 16_777_216, "131072",
        "sockets: bytes that a receiver has room for"),
    number("think_ns", 0, 1_000_000_000, "70000",
        "sysbench: mean time that a server works on a request"),
    // bench=rtapp; duration_us bounds it
    Switch { name: "rtapp", values: Values::Threads, default: "1xn0@0*0:0/r1000,t10000",
        help: "rtapp: threads and what they do", only: None },
    // bench=dmatest
    number("iterations", 1, 1_000_000, "100", "dmatest: transfers of each thread"),
    number("threads_per_chan", 1, 64, "1", "dmatest: threads that share the channel"),
    number("test_buf_size", 64, 16_777_216, "65536", "dmatest: bytes of a transfer"),
    word("noverify", ZERO_ONE, "0", "dmatest: 1 does not compare what was copied"),
    word("polled", ZERO_ONE, "0", "dmatest: 1 spins on the engine instead of sleeping"),
    number("timeout", 1, 100_000, "3000", "dmatest: ms after which a transfer has failed"),
    cpus("dma_irq_cpu", "0", "dmatest: CPU that the engine interrupts"),
    // bench=schbench
    number("message_threads", 1, 256, "1", "schbench: threads that wake workers"),
    number("worker_threads", 1, 1024, "2", "schbench: workers of each message thread"),
    number("operations", 0, 1000, "5", "schbench: matrix multiplications of a request"),
    number("cache_footprint", 1, 1024, "16", "schbench: KiB of a worker's matrices"),
    number("sleeps", 0, 100, "2", "schbench: naps of 100 us of a request"),
    word("no_locking", ZERO_ONE, "0", "schbench: 1 computes without the lock of the CPU"),
    number("runtime_us", 1, 60_000_000, "100000", "schbench: time after which workers end"),
];

/// Why a switch was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwitchError<'a> {
    /// There is no switch of that name.
    UnknownKey {
        /// What was asked for.
        key: &'a str,
    },
    /// Kernels for this ISA have no switch of that name, others do.
    OtherIsa {
        /// Name of the switch.
        key: &'static str,
        /// The ISA that lacks it.
        isa: Isa,
    },
    /// The switch does not take that value.
    BadValue {
        /// Name of the switch.
        key: &'static str,
        /// What was asked for.
        value: &'a str,
        /// What it takes.
        values: Values,
    },
}

impl fmt::Display for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Values::OneOf(words) => {
                for (at, word) in words.iter().enumerate() {
                    write!(f, "{}{word}", if at == 0 { "" } else { "|" })?;
                }
                Ok(())
            }
            Values::Integer { min, max } => write!(f, "{min}..{max}"),
            Values::CpuList => f.write_str("cpu list such as 0-7,12, all or none"),
            Values::Threads => f.write_str("threads such as 1xn0@5*0:0/r2333,t7777"),
        }
    }
}

impl fmt::Display for SwitchError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SwitchError::UnknownKey { key } => {
                write!(f, "unknown switch {key}")?;
                for (at, near) in near_names(key).enumerate() {
                    write!(f, "{}{near}", if at == 0 { "; did you mean " } else { " or " })?;
                }
                Ok(())
            }
            SwitchError::OtherIsa { key, isa } => write!(f, "{key}: makes no sense on {isa}"),
            SwitchError::BadValue { key, value, values } => {
                write!(f, "{key}={value}: takes {values}")
            }
        }
    }
}

impl core::error::Error for SwitchError<'_> {}

/// The switches of kernels for an ISA.
pub fn switches(isa: Isa) -> impl Iterator<Item = &'static Switch> {
    SWITCHES.iter().filter(move |switch| switch.is_on(isa))
}

/// The switch of that name of kernels for an ISA, if there is one.
pub fn find(isa: Isa, name: &str) -> Option<&'static Switch> {
    switches(isa).find(|switch| switch.name == name)
}

impl Values {
    /// Whether the text is one of the values.
    pub fn allow(self, value: &str) -> bool {
        match self {
            Values::OneOf(words) => words.contains(&value),
            Values::Integer { min, max } => {
                parse_number(value).is_some_and(|number| (min..=max).contains(&number))
            }
            Values::CpuList => parse_cpu_list(value, |_| ()),
            Values::Threads => rtapp::is_legal(value),
        }
    }
}

/// Checks that `key=value` is a legal switch of kernels for an ISA, and returns it.
///
/// Errors: `UnknownKey`, `OtherIsa`, `BadValue`.
pub fn check_switch<'a>(
    isa: Isa,
    key: &'a str,
    value: &'a str,
) -> Result<&'static Switch, SwitchError<'a>> {
    let Some(switch) = find(isa, key) else {
        let other = SWITCHES.iter().find(|switch| switch.name == key);
        return Err(match other {
            Some(switch) => SwitchError::OtherIsa { key: switch.name, isa },
            None => SwitchError::UnknownKey { key },
        });
    };
    if switch.values.allow(value) {
        Ok(switch)
    } else {
        Err(SwitchError::BadValue { key: switch.name, value, values: switch.values })
    }
}

/// A decimal number without sign; `None` when it is none or does not fit.
pub fn parse_number(text: &str) -> Option<u64> {
    // `str::parse` would take a leading plus.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Calls `each` with the inclusive ranges of a CPU list; `all` is the range of every CPU number,
/// `none` has no range.
///
/// Returns whether the text is a list; `each` may have been called before that is known.
pub fn parse_cpu_list(text: &str, mut each: impl FnMut(core::ops::RangeInclusive<usize>)) -> bool {
    if text == "all" {
        each(0..=CPU_LIST_MAX - 1);
        return true;
    }
    if text == "none" {
        return true;
    }
    text.split(',').all(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (parse_number(first), parse_number(last)) {
            (Some(first), Some(last)) if first <= last && last < CPU_LIST_MAX as u64 => {
                each(first as usize..=last as usize);
                true
            }
            _ => false,
        }
    })
}

/// Longest name for which a distance is computed, in bytes.
const NEAR_BYTES_MAX: usize = 40;

/// Names of switches that are close to `key`: two edits at most, or one begins with the other.
pub fn near_names(key: &str) -> impl Iterator<Item = &'static str> {
    let mut last = "";
    let names = SWITCHES.iter().map(|switch| switch.name).filter(move |name| is_near(name, key));
    // A name has its rows one behind the other.
    names.filter(move |name| core::mem::replace(&mut last, name) != *name)
}

fn is_near(name: &str, key: &str) -> bool {
    let is_prefix = key.len() >= 3 && (name.starts_with(key) || key.starts_with(name));
    is_prefix || edit_distance(name.as_bytes(), key.as_bytes()).is_some_and(|edits| edits <= 2)
}

/// Levenshtein distance; `None` for texts too long to be worth it.
fn edit_distance(a: &[u8], b: &[u8]) -> Option<usize> {
    if a.len() > NEAR_BYTES_MAX || b.len() > NEAR_BYTES_MAX {
        return None;
    }
    let mut row = [0usize; NEAR_BYTES_MAX + 1];
    for (at, cell) in row.iter_mut().enumerate() {
        *cell = at;
    }
    for (i, byte_a) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, byte_b) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(!byte_a.eq_ignore_ascii_case(byte_b));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    Some(row[b.len()])
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::string::ToString;
    use std::vec::Vec;

    #[test]
    fn names_are_unique_and_defaults_are_legal() {
        for (at, switch) in SWITCHES.iter().enumerate() {
            for isa in [Isa::X86, Isa::Arm].into_iter().filter(|&isa| switch.is_on(isa)) {
                let same = |other: &&Switch| other.name == switch.name && other.is_on(isa);
                assert_eq!(SWITCHES[..at].iter().find(same).map(|other| other.name), None);
                assert!(check_switch(isa, switch.name, switch.default).is_ok(), "{switch:?}");
            }
        }
    }

    #[test]
    fn values_are_checked() {
        let cases = [
            ("call_idle", "sm_idle", true),
            ("call_idle", "off", false),
            ("numipi", "100000", true),
            ("numipi", "0", false),
            ("numipi", "+5", false),
            ("numipi", "", false),
            ("cpulist", "0-3,9", true),
            ("cpulist", "all", true),
            ("cpulist", "none", true),
            ("cpulist", "3-1", false),
            ("cpulist", "1,", false),
            ("cpulist", "1024", false),
            ("ttwu_queue", "sometimes", false),
            ("idle", "halt", true),
            ("idle", "wfi", false),
            ("lse", "1", false),
        ];
        for (key, value, is_legal) in cases {
            assert_eq!(check_switch(Isa::X86, key, value).is_ok(), is_legal, "{key}={value}");
        }
    }

    #[test]
    fn an_unknown_key_names_its_neighbours() {
        let near = |key| near_names(key).collect::<Vec<_>>();
        assert_eq!(near("cal_idle"), ["call_idle", "wa_idle"]);
        assert!(near("hz").contains(&"HZ"));
        assert_eq!(near("frobnicate"), [""; 0]);
        let text = check_switch(Isa::X86, "numip", "5").expect_err("unknown").to_string();
        assert_eq!(text, "unknown switch numip; did you mean numipi");
        let text = check_switch(Isa::X86, "idle", "sleep").expect_err("bad").to_string();
        assert_eq!(text, "idle=sleep: takes poll|mwait|halt|menu|haltpoll");
    }

    #[test]
    fn a_switch_of_the_other_isa_is_refused() {
        let text = |isa, key, value| match check_switch(isa, key, value) {
            Ok(_) => std::string::String::new(),
            Err(error) => error.to_string(),
        };
        assert_eq!(text(Isa::Arm, "idle", "halt"), "idle=halt: takes poll|wfi|menu|haltpoll");
        assert_eq!(text(Isa::Arm, "polling_once", "1"), "polling_once: makes no sense on arm64");
        assert_eq!(text(Isa::X86, "lse", "1"), "lse: makes no sense on x86-64");
        assert_eq!(text(Isa::Arm, "lse", "1"), "");
    }
}
