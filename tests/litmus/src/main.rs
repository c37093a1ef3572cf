//! The long run of litmus tests: a corpus file, or the classics of this crate.
//!
//! `cargo run --release -p tests_litmus -- --classics arm64 --iterations 1000000`, or
//! `--corpus FILE`. Exit code 1 says that a forbidden state was seen or that allowed sets differ, 2
//! that a run failed.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command-line tool")]

use std::collections::BTreeMap;
use std::ops::Range;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use emu_sim::mutant::Mutation;
use tests_litmus::arm64::random;
use tests_litmus::judge::{Agreement, Allowed};
use tests_litmus::place::{self, Placement};
use tests_litmus::program::Test;
use tests_litmus::report::{Plan, Summary, Verdict};
use tests_litmus::{corpus, syntax};
use topology::Isa;

const USAGE: &str = "\
usage: tests_litmus (--corpus FILE | --classics ISA | --test FILE | --random A..B) [options]
  --classics ISA    x86 or arm64
  --random A..B     arm64 tests of these seeds
  --iterations N    of each test, over all placements (10000); 0 only compares allowed sets
  --placement P     smt, llc, package or socket; may be repeated (all)
  --machine NAME    instead of two packages of two LLCs of four cores (of two siblings on x86)
  --set KEY=V       override of the machine; may be repeated
  --seed N          (1)
  --shuffle         draw windows and host order of every round too
  --only TEXT       tests whose name contains it
  --jobs N          host threads (1)
  --histogram       print all states with their counts";

struct Args {
    tests: Vec<Test>,
    /// The allowed set that somebody states, by test.
    stated: Vec<Option<Vec<String>>>,
    plan: Plan,
    jobs: usize,
    has_histogram: bool,
}

fn main() -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|args| work(&args)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("tests_litmus: {message}");
            ExitCode::from(2)
        }
    }
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Args, String> {
    let (mut corpora, mut files, mut classics) = (Vec::new(), Vec::new(), Vec::new());
    let mut seeds = 0..0;
    let (mut placements, mut machine, mut sets) = (Vec::new(), None, Vec::new());
    let (mut iterations, mut seed, mut jobs) = (10_000, 1, 1);
    let (mut only, mut is_shuffled, mut has_histogram) = (String::new(), false, false);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("`{arg}` needs a value\n{USAGE}"));
        let number = |v: String| v.parse().map_err(|_| format!("`{v}` is no number"));
        match arg.as_str() {
            "--corpus" => corpora.push(value()?),
            "--test" => files.push(value()?),
            "--classics" => classics.push(isa(&value()?)?),
            "--random" => seeds = range(&value()?)?,
            "--iterations" => iterations = number(value()?)?,
            "--placement" => placements.push(placement(&value()?)?),
            "--machine" => machine = Some(value()?),
            "--set" => sets.push(value()?),
            "--seed" => seed = number(value()?)? as u64,
            "--only" => only = value()?,
            "--jobs" => jobs = number(value()?)?.max(1),
            "--shuffle" => is_shuffled = true,
            "--histogram" => has_histogram = true,
            _ => return Err(format!("unknown argument `{arg}`\n{USAGE}")),
        }
    }
    let machines = match machine {
        None => vec![place::default_machine(Isa::X86_64), place::default_machine(Isa::Aarch64)],
        Some(name) => {
            vec![topology::Machine::load(&name, &sets).map_err(|report| report.to_string())?]
        }
    };
    if placements.is_empty() {
        placements = Placement::ALL.to_vec();
    }
    let (mut tests, mut stated) = (Vec::new(), Vec::new());
    for path in corpora {
        let text = read(&path)?;
        for case in corpus::corpus(&text).map_err(|e| format!("{path}: {e}"))? {
            tests.push(case.test);
            stated.push(Some(case.allowed));
        }
    }
    for isa in classics {
        for (_, test) in corpus::classics(&corpus::folder(isa))? {
            stated.push(Some(test.stated.clone().unwrap_or_default()));
            tests.push(test);
        }
    }
    for path in files {
        let test = syntax::parse(&read(&path)?).map_err(|e| format!("{path}: {e}"))?;
        stated.push(None);
        tests.push(test);
    }
    for seed in seeds {
        let text = random::text(seed);
        let test = syntax::parse(&text).map_err(|e| format!("seed {seed}: {e}\n{text}"))?;
        // What is too large for the judge is left out.
        if Allowed::of(&test).is_ok() {
            stated.push(None);
            tests.push(test);
        }
    }
    let (tests, stated): (Vec<_>, Vec<_>) =
        tests.into_iter().zip(stated).filter(|(t, _)| t.name.contains(&only)).unzip();
    if tests.is_empty() {
        return Err(format!("no tests\n{USAGE}"));
    }
    let mutation = Mutation::default();
    let plan = Plan { machines, iterations, placements, seed, is_shuffled, mutation };
    Ok(Args { tests, stated, plan, jobs, has_histogram })
}

fn read(path: &str) -> Result<String, String> {
    std::fs::read_to_string(path).map_err(|e| format!("{path}: {e}"))
}

fn range(text: &str) -> Result<Range<u64>, String> {
    let number = |n: &str| n.parse().map_err(|_| format!("`{text}` is not of the form A..B"));
    let (from, to) = text.split_once("..").ok_or("the seeds are not of the form A..B")?;
    Ok(number(from)?..number(to)?)
}

fn placement(name: &str) -> Result<Placement, String> {
    let found = Placement::ALL.into_iter().find(|p| p.name() == name);
    found.ok_or_else(|| format!("`{name}` is no placement\n{USAGE}"))
}

fn isa(name: &str) -> Result<Isa, String> {
    match name {
        "x86" => Ok(Isa::X86_64),
        "arm64" => Ok(Isa::Aarch64),
        _ => Err(format!("`{name}` is neither x86 nor arm64\n{USAGE}")),
    }
}

/// Whether all sets agree and no forbidden state was seen.
fn work(args: &Args) -> Result<bool, String> {
    let (mut equal, mut narrower, mut differ) = (0, 0, 0);
    for (test, stated) in args.tests.iter().zip(&args.stated) {
        let Some(stated) = stated else { continue };
        let allowed = Allowed::of(test).map_err(|e| format!("{}: {e}", test.name))?;
        match Agreement::of(test, &allowed, stated) {
            Agreement::Equal => equal += 1,
            Agreement::Narrower => narrower += 1,
            Agreement::Differs { ours } => {
                differ += 1;
                println!("{}: stated {stated:?}, found {ours:?}", test.name);
            }
        }
    }
    println!("allowed sets: {equal} equal, {narrower} narrower for locked tests, {differ} differ");
    if args.plan.iterations == 0 {
        return Ok(differ == 0);
    }
    let mut summary = Summary::default();
    let mut fault = None;
    in_order(args, |result| match result {
        Ok(verdict) => {
            println!("{}", verdict.line());
            if args.has_histogram || !verdict.forbidden().is_empty() {
                print!("{}", verdict.histogram());
                if let Some(seed) = verdict.test.name.strip_prefix("random-") {
                    print!("{}", seed.parse().map(random::text).unwrap_or_default());
                }
            }
            summary.add(&verdict);
        }
        Err(e) => {
            println!("{e}");
            fault = Some(e);
        }
    });
    println!("{summary}");
    fault.map_or(Ok(differ == 0 && summary.failed == 0), Err)
}

/// Runs all tests on some host threads, and hands the results on in order.
fn in_order(args: &Args, mut show: impl FnMut(Result<Verdict, String>)) {
    let next = AtomicUsize::new(0);
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..args.jobs {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    let Some(test) = args.tests.get(n) else { break };
                    if sender.send((n, Verdict::of(test, &args.plan))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (n, result) in receiver {
            early.insert(n, result);
            while let Some(result) = early.remove(&due) {
                show(result);
                due += 1;
            }
        }
    });
}
