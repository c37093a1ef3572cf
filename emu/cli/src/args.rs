//! What can be typed. Each flag is defined once; help, man page and completions come from here.

pub(crate) mod messages;

use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use messages::{CtxswArgs, HackbenchArgs, NetperfArgs, StreamArgs, SysbenchArgs, TbenchArgs};

/// Machine of the benches, where none is named.
pub(crate) const BENCH_MACHINE: &str = "epyc-7763-2s";

/// Most seeds of a bench; each keeps what it measured until the report.
const SEEDS_MAX: u64 = 10_000;

/// Emulates multicore machines at cycle level and says what crossing from one CPU to another
/// costs: an interrupt, a cache line, a wake from an idle state.
#[derive(Debug, Parser)]
#[command(name = "crosscall", version, max_term_width = 100)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an image on a machine.
    Run(Box<RunArgs>),
    /// Measure what cross-CPU calls and line hand-overs cost, or how fast this tool is.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Run what published results need, and say of each whether it comes out.
    Reproduce(ReproduceArgs),
    /// Run a workload over the axes of a file, as a table or a figure.
    Sweep(SweepArgs),
    /// List, show and check machines.
    #[command(subcommand)]
    Machine(MachineCommand),
    /// Run the scenario files of a folder; exits with 1 if one fails.
    Test(TestArgs),
    /// Print a completion script.
    #[command(hide = true)]
    Completions {
        /// Shell to complete for.
        shell: Shell,
    },
    /// Print the man page.
    #[command(hide = true)]
    Man,
}

/// Form of the results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    #[value(alias = "table")]
    Text,
    /// One document with a "schema" member.
    Json,
    /// Comma-separated values with a header line.
    Csv,
}

/// Exit code of `run` when the guest reports failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExitCodeOf {
    /// 1.
    #[default]
    Tool,
    /// The guest's own code, its lower eight bits.
    Guest,
}

/// Exception level at hand-over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum EntryLevel {
    /// The level of operating systems.
    #[default]
    El1,
    /// The level of hypervisors.
    El2,
}

/// Flags that say on which machine.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct MachineArgs {
    /// Use only the first N cpus; caches, homes and nodes stay.
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<u32>,
    /// Override a key of the machine file, dotted, such as idle.c1.exit.store=80ns. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunArgs {
    /// ELF64 executable, or a Linux Image of arm64; kern is the guest kernel that comes with this
    /// tool.
    pub(crate) image: PathBuf,
    /// Machine: a name of `machine list`, duo, quad, smp-N, or the path of a machine file.
    #[arg(long, value_name = "MACHINE", default_value = "quad")]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) on: MachineArgs,
    /// Raw text for the end of the guest's command line. Repeatable.
    #[arg(long, value_name = "TEXT")]
    pub(crate) append: Vec<String>,
    /// Set a boot switch of the guest kernel, checked before anything boots. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Initial RAM disk, named to the guest by the device tree.
    #[arg(long, value_name = "FILE")]
    pub(crate) initrd: Option<PathBuf>,
    /// Names for the addresses of reports in place of the image's: an ELF file such as vmlinux, or
    /// a System.map.
    #[arg(long, value_name = "FILE")]
    pub(crate) symbols: Option<PathBuf>,
    /// Put the image at this physical address as it is, and start it at its first byte.
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) load_at: Option<String>,
    /// Exception level that an arm64 machine starts at.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) entry_level: EntryLevel,
    /// Bytes for the serial port, which takes them from the start of the run while its receiver has
    /// room; what a driver discards as it opens the port is lost. Without it a terminal's keys go
    /// there, and the machine runs no faster than the clock.
    #[arg(long, value_name = "FILE")]
    pub(crate) input: Option<PathBuf>,
    /// Seed of everything that is left to chance.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulated time after which the run ends with code 5: 10s, or none at a terminal.
    #[arg(long, value_name = "TIME")]
    pub(crate) limit: Option<String>,
    /// Console output after which the run ends with code 5, in bytes, KiB, MiB.
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub(crate) max_output: String,
    /// Write what happened; a name that ends in .json gets Chrome trace events for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Trace requests, grants and losses of cache lines too.
    #[arg(long, requires = "trace")]
    pub(crate) trace_lines: bool,
    /// Trace every instruction too.
    #[arg(long, requires = "trace")]
    pub(crate) trace_steps: bool,
    /// Print the wake ledger: each wake's cause, and its cost by stage.
    #[arg(long)]
    pub(crate) ledger: bool,
    /// Print the counters of machine and guest, summed over cpus.
    #[arg(long)]
    pub(crate) counters: bool,
    /// Hold or delay a cpu at a point of the image: CPU:POINT:delay=TIME,
    /// CPU:POINT:delay-up-to=TIME, CPU:POINT:hold=CPU:POINT:TIMES; a CPU may be any. Repeatable.
    #[arg(long, value_name = "RULE")]
    pub(crate) point_rule: Vec<String>,
    /// Form of the results; with json and csv the console is part of them.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
    /// What the exit code says when the guest reports failure.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) exit_code: ExitCodeOf,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// Cross-CPU function calls under each policy of signalling an idle CPU.
    Ipistorm(Box<IpistormArgs>),
    /// Handing a cache line from core to core, by distance, beside published figures.
    C2c(C2cArgs),
    /// Incrementing one counter from several CPUs at the same time, beside published figures.
    Atomics(AtomicsArgs),
    /// CPUs that each work on memory of their own.
    Busy(Box<BusyArgs>),
    /// Groups of senders and receivers that pass messages through pipes.
    Hackbench(Box<HackbenchArgs>),
    /// Pairs of pinned threads that pass a token and sleep meanwhile.
    Ctxsw(Box<CtxswArgs>),
    /// Array kernels, which no policy of the scheduler may change.
    Stream(Box<StreamArgs>),
    /// Requests and responses, or bulk, over loopback sockets.
    Netperf(Box<NetperfArgs>),
    /// A file server's traffic over loopback sockets.
    Tbench(Box<TbenchArgs>),
    /// Transactions of a database, each of 16 requests.
    Sysbench(Box<SysbenchArgs>),
    /// Threads that run, sleep and wait for timers as a file of rt-app says.
    #[command(name = "rt-app")]
    RtApp(Box<RtAppArgs>),
    /// Copies by the DMA engine, whose interrupt wakes the thread that asked for them.
    Dmatest(Box<DmatestArgs>),
    /// Message threads that wake workers, which nap and compute.
    Schbench(Box<SchbenchArgs>),
    /// Speed of the emulator on this host.
    Speed(SpeedArgs),
}

/// Flags that all benches have.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct FrameArgs {
    /// Host threads; results do not depend on it. All by default.
    #[arg(long, short = 'j', value_name = "N")]
    pub(crate) jobs: Option<usize>,
    /// Form of the results.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct IpistormArgs {
    /// Machine: a name of `machine list`, smp-N, or the path of a machine file.
    #[arg(long, value_name = "MACHINE", default_value = BENCH_MACHINE)]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) on: MachineArgs,
    /// Calls of each calling CPU.
    #[arg(long, value_name = "N", default_value_t = 2000)]
    pub(crate) numipi: u64,
    /// 1 calls one CPU, 0 calls all others.
    #[arg(long, value_name = "0|1", default_value_t = 1)]
    pub(crate) single: u8,
    /// The CPU called is the own number plus this, modulo all CPUs. 8 by default, or half of the
    /// CPUs where there are at most 16.
    #[arg(long, value_name = "N")]
    pub(crate) offset: Option<u32>,
    /// CPUs that call, such as 8 or 0-3,16. 8 by default, or 0 where there are at most 16.
    #[arg(long, value_name = "LIST")]
    pub(crate) cpulist: Option<String>,
    /// 1 waits until the function ran.
    #[arg(long, value_name = "0|1", default_value_t = 1)]
    pub(crate) wait: u8,
    /// Calls before the measured ones.
    #[arg(long, value_name = "N", default_value_t = 200)]
    pub(crate) warmup: u64,
    /// Set a boot switch of the guest kernel. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Compare values of a boot switch, or of a machine key as machine.KEY. Repeatable: cross
    /// product. Without call_idle among them all its variants are compared.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub(crate) vary: Vec<String>,
    /// Number of seeds, each measured on a fork of the same boot.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub(crate) seeds: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) limit: String,
    /// Print the wake ledger of each variant.
    #[arg(long)]
    pub(crate) ledger: bool,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct C2cArgs {
    /// Machine: a name of `machine list`, smp-N, or the path of a machine file.
    #[arg(long, value_name = "MACHINE", default_value = BENCH_MACHINE)]
    pub(crate) machine: String,
    /// Override a key of the machine file. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Set a boot switch of the guest kernel, such as iters=100. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Pairs that represent each class.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) pairs: usize,
    /// Fit the machine's path latencies to the published medians, and print every round.
    #[arg(long)]
    pub(crate) fit: bool,
    /// Seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) limit: String,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct AtomicsArgs {
    /// Machine: a name of `machine list`, smp-N, or the path of a machine file.
    #[arg(long, value_name = "MACHINE", default_value = "graviton2")]
    pub(crate) machine: String,
    /// Override a key of the machine file. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) set: Vec<String>,
    /// Set a boot switch of the guest kernel, such as counter=cas or lse=1. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Numbers of CPUs that increment, those of the first cores.
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "1,2,4,8,16")]
    pub(crate) counts: Vec<usize>,
    /// Increments of the fastest CPU.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    pub(crate) iters: u64,
    /// Seed.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) limit: String,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

/// Flags of benches whose variants are compared by one figure.
#[derive(Clone, Debug, ClapArgs)]
pub(crate) struct WorkloadArgs {
    /// Machine: a name of `machine list`, smp-N, or the path of a machine file.
    #[arg(long, value_name = "MACHINE", default_value = BENCH_MACHINE)]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) on: MachineArgs,
    /// Set a boot switch of the guest kernel. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Compare values of a boot switch, or of a machine key as machine.KEY. Repeatable: cross
    /// product. Ratios are to the first.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub(crate) vary: Vec<String>,
    /// Number of seeds, each measured on a fork of the same boot.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub(crate) seeds: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) limit: String,
    /// Print coherence traffic by class of line.
    #[arg(long)]
    pub(crate) lines: bool,
    /// Print the counters of machine and guest, mean of a run.
    #[arg(long)]
    pub(crate) counters: bool,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct BusyArgs {
    /// CPUs that work.
    #[arg(long, value_name = "LIST", default_value = "0-3")]
    pub(crate) on: String,
    /// Rounds of each CPU.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) iters: u64,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RtAppArgs {
    /// File of rt-app, the subset that docs/benchmarks.md describes.
    pub(crate) file: PathBuf,
    /// Machine: a name of `machine list`, smp-N, or the path of a machine file.
    #[arg(long, value_name = "MACHINE", default_value = "hikey-620")]
    pub(crate) machine: String,
    #[command(flatten)]
    pub(crate) on: MachineArgs,
    /// Time to run in place of the file's global.duration, such as 500ms.
    #[arg(long, value_name = "TIME")]
    pub(crate) duration: Option<String>,
    /// Set a boot switch of the guest kernel. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Compare values of a boot switch, or of a machine key as machine.KEY. Repeatable: cross
    /// product.
    #[arg(long, value_name = "KEY=A,B,...")]
    pub(crate) vary: Vec<String>,
    /// Number of seeds, each measured on a fork of the same boot.
    #[arg(long, value_name = "N", default_value_t = 1,
        value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub(crate) seeds: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    pub(crate) limit: String,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct DmatestArgs {
    /// Transfers of each thread.
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) iterations: u64,
    /// Threads that share the channel.
    #[arg(long = "threads_per_chan", value_name = "N", default_value_t = 1)]
    pub(crate) threads_per_chan: u64,
    /// Bytes of a transfer.
    #[arg(long = "test_buf_size", value_name = "BYTES", default_value_t = 65_536)]
    pub(crate) test_buf_size: u64,
    /// 1 does not compare what was copied.
    #[arg(long, value_name = "0|1", default_value_t = 0)]
    pub(crate) noverify: u8,
    /// 1 spins on the engine instead of sleeping.
    #[arg(long, value_name = "0|1", default_value_t = 0)]
    pub(crate) polled: u8,
    /// Time after which a transfer has failed, ms.
    #[arg(long, value_name = "MS", default_value_t = 3000)]
    pub(crate) timeout: u64,
    /// CPU that the engine interrupts.
    #[arg(long = "irq_cpu", value_name = "CPU", default_value_t = 0)]
    pub(crate) irq_cpu: u32,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SchbenchArgs {
    /// Message threads.
    #[arg(short = 'm', long = "message-threads", value_name = "N", default_value_t = 1)]
    pub(crate) message_threads: u64,
    /// Workers of each message thread.
    #[arg(short = 't', long = "threads", value_name = "N", default_value_t = 4)]
    pub(crate) threads: u64,
    /// Time that workers go on for, in ms where the tool has seconds.
    #[arg(short = 'r', long = "runtime", value_name = "MS", default_value_t = 100)]
    pub(crate) runtime: u64,
    /// Matrix multiplications of a request; 0: none.
    #[arg(short = 'n', long = "operations", value_name = "N", default_value_t = 5)]
    pub(crate) operations: u64,
    /// Matrices of a worker, KiB; the tool has 256.
    #[arg(short = 'F', long = "cache_footprint", value_name = "KIB", default_value_t = 16)]
    pub(crate) cache_footprint: u64,
    /// Compute without the lock of the CPU.
    #[arg(short = 'L', long = "no-locking")]
    pub(crate) no_locking: bool,
    /// Naps of 100 us of a request.
    #[arg(long, value_name = "N", default_value_t = 2)]
    pub(crate) sleeps: u64,
    #[command(flatten)]
    pub(crate) workload: WorkloadArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SpeedArgs {
    /// Times each measurement is repeated; the median counts.
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) repeats: usize,
    /// Divide the work of each measurement by this.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) divide: u32,
    /// Form of the results.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,
}

#[derive(Debug, Subcommand)]
pub(crate) enum MachineCommand {
    /// List the machines that come with this tool.
    List,
    /// Show a machine: levels, caches, latencies, idle states, sources.
    Show {
        /// Name or path.
        machine: String,
        /// Override a key of the machine file. Repeatable.
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Check machine files; every fault of a file is reported with its place.
    Check {
        /// Names or paths.
        #[arg(required = true)]
        machines: Vec<String>,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SweepArgs {
    /// Sweep file; tests/sweeps has some.
    pub(crate) file: PathBuf,
    /// Draw the figure: x is the first axis, lines the second, panels the third and fourth.
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) limit: String,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReproduceArgs {
    /// One seed and the smallest scale; the verdicts are indicative.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Only rows whose id begins with this, such as R1 or R0.2. Repeatable.
    #[arg(long, value_name = "ID")]
    pub(crate) only: Vec<String>,
    /// Number of seeds of a full run.
    #[arg(long, value_name = "N", default_value_t = 5,
        value_parser = clap::value_parser!(u64).range(1..=SEEDS_MAX))]
    pub(crate) seeds: u64,
    /// First seed.
    #[arg(long, value_name = "SEED", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Keep finished measurements in this file, and go on from those that it holds.
    #[arg(long, value_name = "FILE")]
    pub(crate) results: Option<PathBuf>,
    /// Simulated time after which a run is given up.
    #[arg(long, value_name = "TIME", default_value = "100s")]
    pub(crate) limit: String,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TestArgs {
    /// Folder with scenario files.
    pub(crate) dir: PathBuf,
    /// Run only scenarios whose id is this. Repeatable.
    #[arg(long, value_name = "ID")]
    pub(crate) id: Vec<String>,
    /// Run only on this machine. Repeatable.
    #[arg(long, value_name = "MACHINE")]
    pub(crate) machine: Vec<String>,
    /// Override a boot switch of every scenario. Repeatable.
    #[arg(long, value_name = "KEY=VALUE")]
    pub(crate) guest: Vec<String>,
    /// Simulated time after which a scenario is given up.
    #[arg(long, value_name = "TIME", default_value = "10s")]
    pub(crate) limit: String,
    /// Print passed scenarios too.
    #[arg(long, short)]
    pub(crate) verbose: bool,
    #[command(flatten)]
    pub(crate) frame: FrameArgs,
}
