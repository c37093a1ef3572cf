//! The bench driver: one boot per variant, one fork per seed, everything read at the region marks.
//!
//! A variant boots up to the begin of its region; each seed then measures on a fork, so that all
//! seeds of a variant start from the same state and differ by their chance only. Variants run on
//! several host threads; results are kept by index and do not depend on that.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use emu_machine::{Options, Stop, Until};
use emu_observe::{ClassTraffic, Classes, IrqOff, Ledger, Traffic};
use emu_sim::SimTime;
use topology::Machine;

use crate::counters::{Counters, Series, read_samples};
use crate::ending::{Ending, LabError};
use crate::image::kernel;
use crate::laws;
use crate::rig::{Program, Progress, Rig};
use crate::settings::Switches;

/// What all variants of a bench have in common.
#[derive(Clone, Debug)]
pub(crate) struct Frame {
    /// Options but for the seed.
    pub(crate) options: Options,
    /// Seeds, one fork each.
    pub(crate) seeds: Vec<u64>,
    /// Simulated time after which a run is given up.
    pub(crate) limit: SimTime,
    /// Host threads.
    pub(crate) jobs: usize,
    /// Whether to keep the wake ledger.
    pub(crate) ledger: bool,
    /// Whether to sum coherence traffic by class of line.
    pub(crate) lines: bool,
}

/// One thing to boot.
#[derive(Clone, Debug)]
pub(crate) struct Variant {
    /// Name for progress and errors.
    pub(crate) label: String,
    /// Machine with the overrides of the variant.
    pub(crate) machine: Machine,
    /// Command line of the guest.
    pub(crate) bootargs: String,
}

/// What one seed measured.
#[derive(Clone, Debug)]
pub(crate) struct SeedRun {
    /// Length of the region.
    pub(crate) region: SimTime,
    /// What was counted in the region.
    pub(crate) counters: Counters,
    /// What the guest sampled.
    pub(crate) samples: Vec<Series>,
    /// Sections with interrupts off in the region.
    pub(crate) irqoff: IrqOff,
    /// Wakes in the region.
    pub(crate) ledger: Ledger,
    /// Coherence traffic of the region, by value of the class of line.
    pub(crate) traffic: Vec<ClassTraffic>,
}

/// Boots and measures every variant; the results are in the order of the variants.
///
/// Errors: of the first variant, in that order, that fails.
pub(crate) fn run_variants<R: Rig>(
    frame: &Frame,
    variants: &[Variant],
    progress: &dyn Progress,
) -> Result<Vec<Vec<SeedRun>>, LabError> {
    let steps = variants.len() * (frame.seeds.len() + 1);
    progress.begin("measuring", steps as u64);
    let results = in_parallel(frame.jobs, variants.len(), |n| {
        run_variant::<R>(frame, &variants[n], progress)
            .map_err(|error| error.during(variants[n].label.clone()))
    });
    progress.end();
    results.into_iter().collect()
}

/// What benches that sample whole runs are asked for in common.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Machine: name or path.
    pub machine: String,
    /// Overrides as `KEY=VALUE`.
    pub set: Vec<String>,
    /// Boot switches.
    pub switches: Switches,
    /// Seed.
    pub seed: u64,
    /// Simulated time after which a run is given up.
    pub limit: SimTime,
    /// Host threads.
    pub jobs: usize,
}

impl Setup {
    /// Runs a guest with these switches to its success and returns what it sampled.
    ///
    /// Errors: `Input` for settings that do not work, `Ended`, `Laws`.
    pub(crate) fn sample<R: Rig>(
        &self,
        machine: &Machine,
        switches: &Switches,
        progress: &dyn Progress,
    ) -> Result<Vec<Series>, LabError> {
        let options = Options { seed: self.seed, ..Options::default() };
        let bootargs = switches.bootargs_on(machine.isa)?;
        let mut rig = R::build(machine, options, &Program::new(kernel(machine.isa), &bootargs))?;
        let stop = rig.run(&Until { time: self.limit, regions: false }, &mut ());
        passed(&rig, stop)?;
        progress.advance(1, Counters::read(&rig)?.sum("instructions").unwrap_or(0));
        read_samples(&rig)
    }
}

/// Calls `work` for `0..count` on up to `jobs` host threads and returns the results by index.
pub(crate) fn in_parallel<T: Send>(
    jobs: usize,
    count: usize,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let host_thread = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            let result = work(n);
            done.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push((n, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(count) {
            scope.spawn(host_thread);
        }
        host_thread();
    });
    let mut done = done.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    done.sort_by_key(|result| result.0);
    done.into_iter().map(|result| result.1).collect()
}

/// Boots one variant up to the begin of its region.
///
/// Errors: `Ended` when it ends before.
pub(crate) fn boot<R: Rig>(frame: &Frame, variant: &Variant) -> Result<R, LabError> {
    let options = frame.options.clone();
    let image = kernel(variant.machine.isa);
    let program = Program::new(image, &variant.bootargs);
    let mut rig = R::build(&variant.machine, options, &program)?;
    run_to_region(&mut rig, frame.limit, true, &mut ())?;
    Ok(rig)
}

fn run_variant<R: Rig>(
    frame: &Frame,
    variant: &Variant,
    progress: &dyn Progress,
) -> Result<Vec<SeedRun>, LabError> {
    let rig: R = boot(frame, variant)?;
    progress.advance(1, instructions(&rig));
    let seeds = frame.seeds.iter().map(|&seed| {
        let run = measure(&rig, frame, &variant.machine, seed)
            .map_err(|e| e.during(format!("seed {seed}")))?;
        progress.advance(1, run.counters.sum("instructions").unwrap_or(0));
        Ok(run)
    });
    seeds.collect()
}

fn instructions<R: Rig>(rig: &R) -> u64 {
    Counters::read(rig).ok().and_then(|counters| counters.sum("instructions")).unwrap_or(0)
}

/// Measures one seed on a fork of a machine that stands at the begin of its region.
fn measure<R: Rig>(
    booted: &R,
    frame: &Frame,
    machine: &Machine,
    seed: u64,
) -> Result<SeedRun, LabError> {
    let mut rig = booted.clone();
    rig.reseed(seed);
    // No rules, but their points are watched: sections with interrupts off are told by them.
    rig.set_rules(&[])?;
    let before = Counters::read(&rig)?;
    let begun = rig.now();
    let traffic = frame.lines.then(|| {
        let cores = machine.cpus.iter().map(|cpu| cpu.core).collect();
        Traffic::new(classes(&rig), cores)
    });
    let wakes = (IrqOff::new(rig.points()), frame.ledger.then(Ledger::new));
    let mut observers = (wakes, traffic);
    run_to_region(&mut rig, frame.limit, false, &mut observers)?;
    let region = rig.now().saturating_sub(begun);
    let counters = Counters::read(&rig)?.since(&before);
    let samples = read_samples(&rig)?;
    let ((irqoff, ledger), traffic) = observers;
    let traffic = traffic.map_or_else(Vec::new, |traffic| traffic.rows().to_vec());
    let mut ledger = ledger.unwrap_or_default();
    ledger.finish();
    finish(&mut rig, frame.limit, &before)?;
    Ok(SeedRun { region, counters, samples, irqoff, ledger, traffic })
}

/// Classes of the lines that the guest has declared so far.
pub(crate) fn classes<R: Rig>(rig: &R) -> Classes {
    let mut classes = Classes::default();
    for lines in rig.named_lines() {
        classes.declare(lines.address.0, lines.len, lines.class as usize);
    }
    classes
}

/// Runs to the next begin or end of a region.
fn run_to_region<R: Rig>(
    rig: &mut R,
    limit: SimTime,
    wanted: bool,
    observer: &mut impl emu_observe::Observer,
) -> Result<(), LabError> {
    let until = Until { time: limit, regions: true };
    loop {
        match rig.run(&until, observer) {
            Stop::Region { begin, .. } if begin == wanted => return Ok(()),
            Stop::Region { .. } => {}
            stop => return Err(LabError::Ended(Box::new(Ending::of(rig, stop)))),
        }
    }
}

/// Runs to the guest's exit and checks the laws for what was counted since `before`.
///
/// Errors: `Ended` unless the guest passed, `Laws`.
pub(crate) fn finish<R: Rig>(
    rig: &mut R,
    limit: SimTime,
    before: &Counters,
) -> Result<(), LabError> {
    let stop = rig.run(&Until { time: limit, regions: false }, &mut ());
    passed(rig, stop)?;
    let total = Counters::read(rig)?;
    if !total.has_guest() {
        return Ok(());
    }
    let breaches = laws::check_guest(&total.since(before));
    if breaches.is_empty() { Ok(()) } else { Err(LabError::Laws(breaches)) }
}

/// Checks that a run ended by the guest's success, and the laws of the model.
///
/// Errors: `Laws`, else `Ended`.
pub(crate) fn passed<R: Rig>(rig: &R, stop: Stop) -> Result<(), LabError> {
    let breaches = laws::check_machine(rig);
    if !breaches.is_empty() {
        return Err(LabError::Laws(breaches));
    }
    match stop {
        Stop::Exit { code: 0 } => Ok(()),
        stop => Err(LabError::Ended(Box::new(Ending::of(rig, stop)))),
    }
}

#[cfg(test)]
mod tests {
    use super::in_parallel;

    #[test]
    fn results_keep_their_place_whatever_the_number_of_threads() {
        for jobs in [0, 1, 2, 7] {
            assert_eq!(in_parallel(jobs, 5, |n| n * n), [0, 1, 4, 9, 16]);
        }
        assert!(in_parallel(3, 0, |n| n).is_empty());
    }
}
