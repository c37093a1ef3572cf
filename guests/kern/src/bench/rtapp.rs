//! `bench=rtapp`: threads that run, sleep and wait for timers as an rt-app file says
//! (`guests_abi::rtapp`).
//!
//! All threads start at one clock time, just behind the begin of the region, and go on until their
//! loops are done or `duration_us` is over. Of each turn of a phase a thread records what rt-app
//! logs: the time of its runs, the length of the turn, the slack that was left when it waited for
//! its timer, and the time from there to its first instruction behind the wait. Work is counted,
//! not timed: its loop is calibrated once, on CPU 0. Not modelled: locks, barriers, shared memory,
//! deadlines, the log files.

use guests_abi::block::SampleKind;
use guests_abi::device::region;
use guests_abi::rtapp::{self, EVENTS_MAX, Event, PHASES_MAX};
use guests_sched::preempt::Class;

use super::nth_cpu;
use crate::arch;
use crate::arch::atomic::{AtomicU64, Ordering::Relaxed};
use crate::completion::Completion;
use crate::config::CpuList;
use crate::console::die;
use crate::cpumask::CpuMask;
use crate::percpu::Line;
use crate::points::point;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::task::Attributes;
use crate::{group, machine, memory, task, testdev, tick, timer};

/// When all start and when all end, clock times.
#[repr(C)]
struct Times {
    start: AtomicU64,
    end: AtomicU64,
    /// Turns of the calibrated loop in 1024 us.
    turns: AtomicU64,
}

static TIMES: Line<Times> =
    Line(Times { start: AtomicU64::new(0), end: AtomicU64::new(0), turns: AtomicU64::new(0) });

static DONE: Completion = Completion::new();

/// Time to make threads before they start, us: for all, and for each.
const START_US: u64 = 1000;
const START_EACH_US: u64 = 20;

/// Turns of the loop that is timed.
const CALIBRATION_TURNS: u64 = 200_000;

/// Records of one kind that a thread keeps at most.
const RECORDS_MAX: u64 = 1 << 16;

/// What a thread records, in the order of its series.
const KINDS: [SampleKind; 4] =
    [SampleKind::Run, SampleKind::Period, SampleKind::Slack, SampleKind::WakeLatency];

/// A phase, read out of the switch.
#[derive(Clone, Copy)]
struct Phase {
    loops: u64,
    count: usize,
    events: &'static [Event; EVENTS_MAX],
}

static NO_EVENTS: [Event; EVENTS_MAX] = [Event::Run(0); EVENTS_MAX];

/// A thread of the file.
struct Thread {
    loops: u64,
    count: usize,
    phases: [Phase; PHASES_MAX],
    /// Nothing is recorded of an endless loop.
    series: Option<[Series; 4]>,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    let threads = || rtapp::threads(config.rtapp);
    if !rtapp::is_legal(config.rtapp) {
        die!(BAD_SWITCH, "bench=rtapp: rtapp= names no threads");
    }
    let finite = || threads().filter(|thread| !thread.is_endless_loop());
    let recorded = finite().map(|thread| thread.instances).sum::<u64>();
    let all = threads().map(|thread| thread.instances).sum::<u64>();
    calibrate();
    let table = SeriesTable::publish(recorded as usize * KINDS.len());
    let start = arch::clock_ticks() + tick::ticks_from_us(START_US + START_EACH_US * all);
    TIMES.start.store(start, Relaxed);
    TIMES.end.store(start + tick::ticks_from_us(config.duration_us), Relaxed);
    let mut number = 0;
    for thread in threads() {
        for instance in 0..thread.instances as usize {
            let is_recorded = !thread.is_endless_loop();
            make(thread, instance, is_recorded.then_some((&table, number)));
            number += usize::from(is_recorded);
        }
    }
    timer::sleep_until(start - tick::ticks_from_us(START_US / 4));
    testdev::region_begin(region::BENCH);
    if recorded == 0 {
        timer::sleep_until(TIMES.end.load(Relaxed));
    }
    DONE.wait_for(recorded);
    testdev::region_end(region::BENCH);
    guests_abi::exit::PASS
}

/// Times the loop that stands for work.
fn calibrate() {
    arch::spin_cycles(CALIBRATION_TURNS / 16);
    let begin = arch::clock_ticks_ordered();
    arch::spin_cycles(CALIBRATION_TURNS);
    let ticks = arch::clock_ticks_ordered() - begin;
    let turns = CALIBRATION_TURNS * tick::ticks_from_us(1024) / ticks.max(1);
    TIMES.turns.store(turns, Relaxed);
}

/// Makes one instance of a thread, with its four series from that number on.
fn make(of: rtapp::Thread<'static>, instance: usize, record: Option<(&SeriesTable, usize)>) {
    let cpu_count = machine::cpu_count();
    let list = CpuList::of(of.cpus);
    let cpus = list.count(cpu_count);
    if cpus == 0 {
        die!(BAD_SWITCH, "rtapp: {}: no such cpu", of.cpus);
    }
    let cpu = nth_cpu(list, instance % cpus, "rtapp");
    let node = machine::node(cpu);
    let allowed = (cpus > 1).then(|| {
        let mask: &CpuMask = memory::alloc_value(node, CpuMask::new());
        list.for_each(cpu_count, |cpu| mask.insert(cpu));
        mask
    });
    let series = record.map(|(table, number)| {
        let records = records(of) as usize;
        core::array::from_fn(|at| {
            table.define(number * KINDS.len() + at, KINDS[at], cpu, number, records)
        })
    });
    let mut thread = Thread {
        loops: of.loops,
        count: 0,
        phases: [Phase { loops: 0, count: 0, events: &NO_EVENTS }; PHASES_MAX],
        series,
    };
    for (to, phase) in thread.phases.iter_mut().zip(of.phases()) {
        let mut events = NO_EVENTS;
        let mut count = 0;
        for (slot, event) in events.iter_mut().zip(phase.events()) {
            *slot = event;
            count += 1;
        }
        *to = Phase { loops: phase.loops, count, events: memory::alloc_value(node, events) };
        thread.count += 1;
    }
    let class = if of.is_idle { Class::Idle } else { Class::Normal };
    let attributes = Attributes { class, nice: of.nice, allowed, group: group::innermost() };
    task::kthread_run_with(cpu, attributes, live, memory::alloc_value(node, thread));
}

/// Turns that a thread makes at most.
fn records(of: rtapp::Thread<'_>) -> u64 {
    let shortest = of.phases().map(|phase| phase.turn_us()).min().unwrap_or(1).max(1);
    let by_time = config().duration_us / shortest + 2;
    let in_all = of.phases().map(|phase| phase.loops).sum::<u64>().saturating_mul(of.loops);
    let is_endless = of.loops == 0 || of.phases().any(|phase| phase.loops == 0);
    if is_endless { by_time } else { by_time.min(in_all) }.min(RECORDS_MAX)
}

/// Where a thread is.
struct Progress {
    /// Clock time of its timer.
    timer: u64,
    turns: usize,
}

extern "C" fn live(thread: &'static Thread) {
    let start = TIMES.start.load(Relaxed);
    timer::sleep_until(start);
    let Some(series) = &thread.series else {
        loop {
            point!(busy_loop);
            arch::cpu_relax();
        }
    };
    series.iter().for_each(Series::touch);
    let mut progress = Progress { timer: start, turns: 0 };
    let mut loops = 0;
    while (thread.loops == 0 || loops < thread.loops) && is_time_left() {
        for phase in &thread.phases[..thread.count] {
            let mut turns = 0;
            while (phase.loops == 0 || turns < phase.loops) && is_time_left() {
                turn(phase, series, &mut progress);
                turns += 1;
            }
        }
        loops += 1;
    }
    series.iter().for_each(|series| series.finish(progress.turns));
    DONE.complete();
}

fn is_time_left() -> bool {
    arch::clock_ticks() < TIMES.end.load(Relaxed)
}

/// One turn of a phase.
fn turn(phase: &Phase, series: &[Series; 4], progress: &mut Progress) {
    let begin = arch::clock_ticks();
    let (mut run, mut slack, mut late) = (0, 0, 0);
    for event in &phase.events[..phase.count] {
        match *event {
            Event::Run(us) => {
                let begin = arch::clock_ticks();
                arch::spin_cycles(us * TIMES.turns.load(Relaxed) / 1024);
                run += arch::clock_ticks() - begin;
            }
            Event::Sleep(us) => timer::sleep_us(us),
            Event::Timer { period_us, is_absolute } => {
                progress.timer += tick::ticks_from_us(period_us);
                let now = arch::clock_ticks();
                if now < progress.timer {
                    slack += progress.timer - now;
                    timer::sleep_until(progress.timer);
                    late += arch::clock_ticks() - progress.timer;
                } else if !is_absolute {
                    progress.timer = now;
                }
            }
        }
    }
    let values = [run, arch::clock_ticks() - begin, slack, late];
    for (series, value) in series.iter().zip(values) {
        series.record(progress.turns, value);
    }
    if series[0].has_room(progress.turns) {
        progress.turns += 1;
    }
}
