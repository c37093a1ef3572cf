//! Flags of the benches that pass messages, under the names that their tools have.

use clap::Args as ClapArgs;

use super::WorkloadArgs;

/// Values of boot switches.
pub(crate) type Flags = Vec<(&'static str, String)>;

#[derive(Debug, ClapArgs)]
pub(crate) struct HackbenchArgs {
    /// Groups.
    #[arg(long, short, value_name = "N", default_value_t = 10)]
    groups: u64,
    /// Senders, and receivers, of a group.
    #[arg(long, short, value_name = "N", default_value_t = 20)]
    fds: u64,
    /// Messages of a sender to each receiver.
    #[arg(long, short, value_name = "N", default_value_t = 100)]
    loops: u64,
    /// Bytes of a message.
    #[arg(long = "datasize", short = 's', value_name = "BYTES", default_value_t = 100)]
    datasize: u64,
    /// Threads; processes are not modelled.
    #[arg(long, short = 'T', required = true)]
    threads: bool,
    /// Pipes; socket pairs are not modelled.
    #[arg(long, short, required = true)]
    pipe: bool,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

impl HackbenchArgs {
    pub(crate) fn flags(&self) -> Flags {
        numbers(&[
            ("groups", self.groups),
            ("fds", self.fds),
            ("loops", self.loops),
            ("datasize", self.datasize),
        ])
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct CtxswArgs {
    /// Pairs of threads to each LLC.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pairs: u64,
    /// Where the second of a pair is: same_llc, cross_llc, cross_socket.
    #[arg(long, value_name = "WHERE", default_value = "same_llc")]
    partner: String,
    /// Simulated time of the run, us.
    #[arg(long, value_name = "US", default_value_t = 2000)]
    duration_us: u64,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

impl CtxswArgs {
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = numbers(&[("pairs", self.pairs), ("duration_us", self.duration_us)]);
        flags.push(("partner", self.partner.clone()));
        flags
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct StreamArgs {
    /// CPUs that work.
    #[arg(long, value_name = "LIST", default_value = "0-3")]
    on: String,
    /// Words of each of the three arrays of a CPU.
    #[arg(long, value_name = "N", default_value_t = 8192)]
    words: u64,
    /// Rounds of the four kernels.
    #[arg(long, value_name = "N", default_value_t = 2)]
    iters: u64,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

impl StreamArgs {
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = numbers(&[("words", self.words), ("iters", self.iters)]);
        flags.push(("on", self.on.clone()));
        flags
    }
}

/// How many clients, and for how long.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct ClientArgs {
    /// Clients, each with a server of its own.
    #[arg(long, value_name = "N", conflicts_with = "load")]
    clients: Option<u64>,
    /// Clients, per cent of the CPUs.
    #[arg(long, value_name = "PERCENT", default_value_t = 25)]
    load: u64,
    /// Simulated time of the run, us.
    #[arg(long, value_name = "US", default_value_t = 2000)]
    duration_us: u64,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

impl ClientArgs {
    fn flags(&self) -> Flags {
        let clients = self.clients.map_or(("load_percent", self.load), |n| ("clients", n));
        numbers(&[clients, ("duration_us", self.duration_us)])
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct NetperfArgs {
    /// UDP_RR, TCP_RR or TCP_STREAM.
    #[arg(long, short, value_name = "TEST", default_value = "TCP_STREAM")]
    test: String,
    #[command(flatten)]
    pub(crate) run: ClientArgs,
}

impl NetperfArgs {
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = self.run.flags();
        flags.push(("netperf_test", self.test.to_lowercase()));
        flags
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TbenchArgs {
    #[command(flatten)]
    pub(crate) run: ClientArgs,
}

impl TbenchArgs {
    pub(crate) fn flags(&self) -> Flags {
        self.run.flags()
    }
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SysbenchArgs {
    /// Mean time that a server works on a request, ns.
    #[arg(long, value_name = "NS", default_value_t = 70_000)]
    think_ns: u64,
    #[command(flatten)]
    pub(crate) run: ClientArgs,
}

impl SysbenchArgs {
    pub(crate) fn flags(&self) -> Flags {
        let mut flags = self.run.flags();
        flags.push(("think_ns", self.think_ns.to_string()));
        flags
    }
}

fn numbers(numbers: &[(&'static str, u64)]) -> Flags {
    numbers.iter().map(|(key, number)| (*key, number.to_string())).collect()
}
