//! The long run of the random tester: seeds in, a line each, and the least failing case.
//!
//! `cargo run --release -p tests_random -- --machine smp-64 --seeds 0..100`. A line is the seed,
//! the hash of its run, and counts; it is the same for every build and host. Exit code 1 says that
//! a seed failed, and prints the command of the least case that fails too.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]
#![expect(clippy::disallowed_types, reason = "it ends by the host's clock if asked to")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use clap::Parser;
use tests_litmus::plan::Draw;
use tests_random::run::LINES_MAX;
use tests_random::{Case, Host, Report, shrink};

/// Random programs of all cpus over few lines, judged by coherence, the order of the instruction
/// set and the machine's laws.
#[derive(Debug, Parser)]
struct Args {
    /// Machines, taken in turn: smp-N, smp-arm-N, duo, duo-arm or a file's name.
    #[arg(long, value_delimiter = ',', default_value = "smp-64")]
    machine: Vec<String>,
    /// Seeds.
    #[arg(long, value_parser = range, default_value = "0..10")]
    seeds: Range<u64>,
    /// Cpus that run; all of the machine's, if it has not that many.
    #[arg(long, default_value_t = 512)]
    cpus: usize,
    /// Operations of each cpu in a round.
    #[arg(long, default_value_t = 50)]
    ops: usize,
    /// Rounds.
    #[arg(long, default_value_t = 10)]
    rounds: u64,
    /// Lines under test; drawn if not given.
    #[arg(long)]
    lines: Option<u64>,
    /// Host threads.
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Begin no seed after so many seconds.
    #[arg(long)]
    time: Option<u64>,
    /// Draw windows and host order too; changes no line.
    #[arg(long)]
    shuffle: bool,
    /// Step through spins instead of skipping them; changes no line.
    #[arg(long)]
    step_spins: bool,
    /// Picoseconds of a window, at most; changes no line.
    #[arg(long)]
    window: Option<u64>,
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let number = |n: &str| n.parse().map_err(|_| format!("`{n}` is no number"));
    let (from, to) = text.split_once("..").ok_or("not of the form A..B")?;
    Ok(number(from)?..number(to)?)
}

impl Args {
    fn case(&self, seed: u64) -> Case {
        let machine = self.machine[(seed % self.machine.len() as u64) as usize].clone();
        let lines = 1 + Draw::new(seed, 0).below(LINES_MAX);
        let lines = self.lines.unwrap_or(lines);
        let (cpus, ops, rounds) = (self.cpus, self.ops, self.rounds);
        Case { machine, seed, cpus, ops, rounds, lines }
    }

    fn host(&self, seed: u64) -> Host {
        Host {
            steps_spins: self.step_spins,
            shuffle: self.shuffle.then_some(seed),
            window_ps: self.window,
            ..Host::default()
        }
    }
}

fn main() -> ExitCode {
    let args = Args::parse();
    let begin = Instant::now();
    let (mut seeds, mut operations, mut judged, mut failed) = (0_u64, 0, 0, None);
    in_order(&args, begin, |seed, result| {
        seeds += 1;
        match result {
            Ok(report) => {
                println!("{} {seed} {report}", args.case(seed).machine);
                operations += report.operations;
                judged += report.judged;
            }
            Err(e) => {
                println!("{} {seed} FAILED {e}", args.case(seed).machine);
                failed.get_or_insert((seed, e));
            }
        }
    });
    let seconds = begin.elapsed().as_secs();
    eprintln!("{seeds} seeds, {operations} operations, {judged} accesses judged, {seconds} s");
    let Some((seed, _)) = failed else { return ExitCode::SUCCESS };
    // Each try may end in an assertion of the model; the last one is shown.
    std::panic::set_hook(Box::new(|_| {}));
    let least = shrink::shrink(&args.case(seed), |c| shrink::judged(c, &args.host(seed)).is_err());
    if let Err(e) = shrink::judged(&least, &args.host(seed)) {
        println!("least case: {e}");
    }
    println!("{least}");
    ExitCode::FAILURE
}

/// Runs all seeds on some host threads, and hands the results on in order; none begins after the
/// time is over or one has failed.
fn in_order(args: &Args, begin: Instant, mut show: impl FnMut(u64, Result<Report, String>)) {
    let next = AtomicU64::new(args.seeds.start);
    let limit = args.time.map_or(Duration::MAX, Duration::from_secs);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while begin.elapsed() < limit {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= args.seeds.end {
                        break;
                    }
                    let result = shrink::judged(&args.case(seed), &args.host(seed));
                    let is_failed = result.is_err();
                    if is_failed {
                        next.store(args.seeds.end, Ordering::Relaxed);
                    }
                    if sender.send((seed, result)).is_err() || is_failed {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut due) = (BTreeMap::new(), args.seeds.start);
        for (seed, result) in receiver {
            early.insert(seed, result);
            while let Some(result) = early.remove(&due) {
                show(due, result);
                due += 1;
            }
        }
    });
}
