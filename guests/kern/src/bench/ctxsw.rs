//! `bench=ctxsw`: pairs of pinned threads that pass a token to and fro, and sleep meanwhile.
//!
//! `pairs` pairs to each LLC, each thread on a CPU of its own; the partner is in the same LLC, in
//! the next one, or in the one that is half of all LLCs away, which must be on another node. A
//! thread that has the token gives it away by a store and `futex::wake`, and sleeps in
//! `futex::wait` until it is back. It does nothing else. A unit is a pass, and so a switch from
//! one task to another. The run lasts `duration_us`.

use guests_abi::block::SampleKind;
use guests_abi::class::LineClass;
use guests_sched::preempt::Class;

use super::gate::Crowd;
use crate::arch::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use crate::config::Partner;
use crate::console::die;
use crate::percpu::Line;
use crate::samples::{Series, SeriesTable};
use crate::start::config;
use crate::{futex, machine, memory, task, testdev};

/// Value of a token that nobody passes on any more.
const OVER: u32 = 2;

/// One of a pair.
struct Player {
    crowd: &'static Crowd,
    /// Side that has the token: 0, 1, or [`OVER`].
    token: &'static Line<AtomicU32>,
    side: u32,
    series: Series,
}

/// Runs the benchmark; returns the exit code.
pub(super) fn run() -> u64 {
    let config = config();
    futex::init();
    let llcs = (0..machine::cpu_count()).map(machine::llc_id).max().map_or(0, |last| last + 1);
    let pairs = llcs * config.messages.pairs;
    let crowd = Crowd::new(2 * pairs);
    let table = SeriesTable::publish(2 * pairs);
    for pair in 0..pairs {
        let cpus = cpus_of_pair(pair, llcs);
        let token = memory::alloc_value(machine::node(cpus[0]), Line(AtomicU32::new(0)));
        testdev::declare(token, LineClass::Bench);
        for (side, cpu) in cpus.into_iter().enumerate() {
            let peer = cpus[1 - side];
            let series = table.define(2 * pair + side, SampleKind::Units, cpu, peer, 1);
            let player = Player { crowd, token, side: side as u32, series };
            let player = memory::alloc_value(machine::node(cpu), player);
            task::kthread_run(cpu, Class::Normal, play, player);
        }
    }
    crowd.run_for(config.duration_us);
    guests_abi::exit::PASS
}

/// The CPUs of a pair: each LLC has the first of `pairs` pairs, and the second of as many.
fn cpus_of_pair(pair: usize, llcs: usize) -> [usize; 2] {
    let pairs = config().messages.pairs;
    let (llc, at) = (pair / pairs, pair % pairs);
    let partner = config().messages.partner;
    let away = match partner {
        Partner::SameLlc => 0,
        Partner::CrossLlc => 1,
        Partner::CrossSocket => llcs / 2,
    };
    let cpus = [nth_of_llc(llc, at), nth_of_llc((llc + away) % llcs, pairs + at)];
    let [a, b] = cpus;
    let is_apart = match partner {
        Partner::SameLlc => true,
        Partner::CrossLlc => !machine::share_llc(a, b),
        Partner::CrossSocket => machine::node(a) != machine::node(b),
    };
    if !is_apart {
        die!(BAD_SWITCH, "partner: this machine has no cpus that far apart");
    }
    cpus
}

fn nth_of_llc(llc: usize, at: usize) -> usize {
    let cpus = (0..machine::cpu_count()).filter(|&cpu| machine::llc_id(cpu) == llc);
    match cpus.clone().nth(at) {
        Some(cpu) => cpu,
        None => die!(BAD_SWITCH, "pairs: llc {llc} has {} cpus, two to a pair", cpus.count()),
    }
}

extern "C" fn play(player: &'static Player) {
    let Player { crowd, token, side, series } = player;
    series.touch();
    series.finish(1);
    crowd.enter();
    let mut passes = 0;
    loop {
        let holder = token.load(Relaxed);
        if holder == OVER {
            break;
        }
        if holder != *side {
            futex::wait(token, holder);
            continue;
        }
        passes += 1;
        series.record(0, passes);
        let next = if crowd.is_over() { OVER } else { 1 - side };
        token.swap(next, SeqCst);
        futex::wake(token, 1);
    }
    crowd.leave();
}
