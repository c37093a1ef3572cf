//! Accesses of devices beside running cpus (`engine.md` section 5): on lines that the guest kernel
//! writes to all the time, reads and additions of nothing change no outcome, and one run has one
//! trace. Under the feature `shadow` every access compares copies with flat memory too.

#[path = "common/trace.rs"]
mod common;

use common::{difference, hot_lines, topology};
use emu_machine::{Dma, DmaOp, Machine, Options};
use emu_sim::{LineAddr, PhysAddr, SimTime};

const BENCHES: [&str; 2] =
    ["bench=c2c c2c_a=0 c2c_b=1", "bench=ipistorm numipi=40 warmup=5 cpulist=0 offset=1 idle=poll"];

/// An access to one of the lines every so many nanoseconds: a read, then a far addition of 0.
fn accesses(machine: &mut Machine, lines: &[u64], period_ns: u64, count: u64) {
    for n in 0..count {
        let line = LineAddr(lines[n as usize % lines.len()]);
        let address = PhysAddr(line.base().0 + n % 8 * 8);
        let op = if n % 4 == 0 { DmaOp::Add(0) } else { DmaOp::Read };
        machine.dma(SimTime(1000 * period_ns * (n + 1)), Dma { address, size: 8, op });
    }
}

#[test]
fn accesses_of_devices_beside_cpus_change_no_outcome_and_have_one_trace() {
    for name in ["duo", "quad", "smp-6"] {
        for args in BENCHES {
            let alone = common::trace(&topology(name), args, Options::default());
            let lines = hot_lines(&alone, 12);
            let run = |options| {
                common::run_beside(&topology(name), args, options, |m| {
                    accesses(m, &lines, 90, 2000)
                })
            };
            let (machine, reference) = run(Options::default());
            assert!(machine.dma_done().len() > 1000, "{name}: {}", machine.dma_done().len());
            for seed in 0..2 {
                let (_, other) = run(Options { shuffle_host: Some(seed), ..Options::default() });
                assert_eq!(difference(&reference, &other), None, "{name} {args}");
            }
        }
    }
}

#[test]
fn far_additions_are_never_lost() {
    let free = PhysAddr(0x9_0000);
    let (machine, _) = common::run_beside(&topology("quad"), BENCHES[0], Options::default(), |m| {
        for n in 0..500 {
            let at = SimTime(if n % 2 == 0 { 1_000_000 } else { 1000 * n });
            m.dma(at, Dma { address: free, size: 2, op: DmaOp::Add(1) });
        }
    });
    let mut found: Vec<u64> = machine.dma_done().iter().map(|d| d.value).collect();
    found.sort_unstable();
    assert_eq!(found, (0..500).collect::<Vec<u64>>());
    assert_eq!(machine.read_guest_u64(free.0), 500);
}
