//! Random machines, random scripts: one writer or many readers at every step, every request ends,
//! and no request waits longer than a fair queue makes it wait.
#![allow(clippy::unwrap_used, reason = "tests")]

mod model;

use emu_mem::paths::Paths;
use emu_sim::{CoreId, LineAddr, LlcId, Phase};
use model::{Event, Item, Legs, Op, World, paths};

/// SplitMix64: the test's own dice.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

fn random_paths(d: &mut Dice) -> Paths {
    let shape = (1 + d.below(8) as u32, 1 + d.below(4) as u32, 1 + d.below(3) as u32);
    let zero = d.below(3) == 0;
    let legs = Legs {
        llc_lookup: if zero { 0 } else { d.below(20) },
        llc_service: if zero { 0 } else { d.below(5) },
        home_lookup: if zero { 0 } else { d.below(20) },
        home_service: if zero { 0 } else { d.below(9) },
        memory: if zero { 0 } else { d.below(150) },
        sets: d.pick(&[0, 1, 1, 2, 8]),
        ways: d.pick(&[1, 1, 2, 4]),
        has_owned_state: d.below(2) == 0,
        ..Legs::default()
    };
    let mut p = paths(shape, legs);
    let top = d.pick(&[1, 3, 60]);
    // Legs are fixed per pair, so messages of a pair keep their order (L8).
    let all = [&mut p.llc_home, &mut p.home_llc, &mut p.llc_llc];
    for leg in all.into_iter().flatten().flatten() {
        *leg = 1 + d.below(top);
    }
    for c in 0..p.core_llc.len() {
        p.core_llc[c] = 1 + d.below(top);
        p.llc_core[c] = 1 + d.below(top);
    }
    p
}

/// Longest time of one transaction when nothing else is in its way.
fn longest_transaction(w: &World) -> u64 {
    let p = &w.paths;
    let most = |v: &[Vec<u64>]| v.iter().flatten().copied().max().unwrap();
    let up = p.core_llc.iter().max().unwrap() + p.llc_core.iter().max().unwrap();
    let across = most(&p.llc_home) * 2 + most(&p.home_llc) * 2 + most(&p.llc_llc);
    let held = w.answer_delay.iter().max().unwrap();
    let slices = 64 * (p.home_service + p.llc_service);
    // The LLC may have to finish a transaction of its own, then the snoop, then its own again.
    4 * (up + held + p.llc_lookup) + across + p.home_lookup + 2 * p.memory + slices
}

fn run_seed(seed: u64, ops: u64) -> (u64, u64) {
    let mut d = Dice(seed);
    let mut w = World::new(random_paths(&mut d), seed);
    let cores = w.cores.len() as u64;
    let homes = w.homes.len() as u64;
    for c in 0..w.cores.len() {
        w.answer_delay[c] = d.pick(&[0, 0, 0, 1, 7, 40]);
    }
    let lines: Vec<LineAddr> =
        (0..1 + d.below(6)).map(|i| LineAddr(((d.below(homes) << 20) >> 6) + i)).collect();
    let gap = d.pick(&[1, 4, 50, 400]);
    let mix = d.pick(&[[4, 8, 9, 10], [7, 8, 9, 10], [2, 8, 9, 10], [4, 5, 9, 10]]);
    let forgets = d.below(2) == 0;
    let fair = 2 * (cores + 2) * longest_transaction(&w);
    let mut waits = vec![None; w.cores.len()];
    let (mut left, mut done) = (ops, 0);
    for c in 0..cores as u32 {
        w.op(d.below(gap), CoreId(c), lines[0], Op::Load);
        waits[c as usize] = Some(u64::MAX);
    }
    while let Some(now) = w.step() {
        let events = std::mem::take(&mut w.events);
        for (_, e) in &events {
            if let Event::Performed(c, _, _) = e {
                let since = waits[c.index()].take().unwrap();
                assert!(now.saturating_sub(since) <= fair, "seed {seed}: unfair to {c} {since}");
                done += 1;
                if left > 0 {
                    left -= 1;
                    next_op(
                        &mut w,
                        &mut d,
                        now + d_gap(seed, left, gap),
                        *c,
                        &lines,
                        (mix, forgets),
                    );
                    waits[c.index()] = Some(now + gap + 1);
                }
            }
        }
    }
    w.assert_idle();
    (done, w.homes.iter().map(|h| h.counters().get_s + h.counters().get_m).sum())
}

fn d_gap(seed: u64, n: u64, gap: u64) -> u64 {
    1 + Dice(seed ^ n << 20).below(gap)
}

/// A load, store or flush that reports when it is performed, with an eviction or a watch before.
fn next_op(
    w: &mut World,
    d: &mut Dice,
    at: u64,
    c: CoreId,
    lines: &[LineAddr],
    (mix, forgets): ([u64; 4], bool),
) {
    let line = d.pick(lines);
    let aside = d.pick(lines);
    match d.below(8) {
        0 | 1 => w.op(at, c, aside, Op::Evict),
        2 => w.op(at, c, aside, Op::Watch),
        3 if forgets => w.op(at, c, aside, Op::Forget),
        4 => {
            let llc = LlcId(d.below(w.llcs.len() as u64) as u32);
            let key = emu_sim::Key { seq: at, ..emu_sim::Key::at(at, Phase::Observe) };
            w.agenda.push(key, Item::LlcEvict(llc, aside));
        }
        5 => {
            let key = emu_sim::Key { seq: at, ..emu_sim::Key::at(at, Phase::Observe) };
            w.agenda.push(key, Item::Access(aside, d.below(2) == 0));
        }
        _ => {}
    }
    let op = match d.below(10) {
        n if n < mix[0] => Op::Load,
        n if n < mix[1] => Op::Store,
        n if n < mix[2] => Op::Flush,
        _ => Op::Load,
    };
    w.op(at, c, line, op);
}

#[test]
fn random_scripts_keep_one_writer_and_end() {
    let (mut performed, mut requests) = (0, 0);
    for seed in 0..500 {
        let (p, r) = run_seed(seed, 400);
        performed += p;
        requests += r;
    }
    // The dice must reach the homes, else nothing was tested.
    assert!(performed >= 200_000 && requests > 50_000, "{performed} {requests}");
}
