//! Shadow mode (`engine.md` section 12): caches and messages carry data, and every access compares
//! the copy of its own core with flat memory. Under the feature `shadow` each test of the machine
//! does that; here the caches are so small that lines leave all the time, at every level.

#[path = "common/trace.rs"]
mod common;

use common::STORM;
use emu_machine::Options;

/// Sizes of L1, L2 and L3: a few sets, a few lines, and an LLC below its cores.
const SIZES: [[&str; 3]; 3] =
    [["8KiB", "32KiB", "256KiB"], ["1KiB", "4KiB", "16KiB"], ["2KiB", "8KiB", "1KiB"]];

fn cramped(name: &str, sizes: [&str; 3]) -> topology::Machine {
    let caches = ["l1d", "l2", "l3"].iter().zip(sizes);
    let mut set: Vec<String> = caches.map(|(c, size)| format!("cache.{c}.size={size}")).collect();
    if name == "smp-16" {
        set.extend(["smp.packages=2", "smp.llc_width=2", "smp.smt=2"].map(str::to_owned));
    }
    topology::Machine::load(name, &set).expect("a machine")
}

#[test]
fn every_access_finds_its_value_in_the_copy_of_its_own_core() {
    let (mut evictions, mut written, mut passed) = (0, 0, 0);
    // The partner of cpu 0 shares its LLC, its package, or neither.
    for (name, partner) in
        [("duo", 1), ("quad", 3), ("smp-16", 6), ("smp-16", 9), ("epyc-7763-2s", 8)]
    {
        for sizes in SIZES {
            let topology = cramped(name, sizes);
            let cpus = Some(topology.cpus.len().min(16) as u32);
            for bench in [
                format!("ipistorm numipi=40 warmup=5 cpulist=0 offset={partner}"),
                format!("ipistorm numipi=40 warmup=5 cpulist=0 offset={partner} idle=poll"),
                format!("c2c c2c_a=0 c2c_b={partner}"),
            ] {
                let args = format!("bench={bench}");
                let options = Options { cpus, ..Options::default() };
                let (machine, _) = common::run(&topology, &args, options);
                let (llcs, homes) = machine.line_counters();
                evictions += llcs.iter().map(|l| l.evictions).sum::<u64>();
                written += homes.iter().map(|h| h.memory_writes).sum::<u64>();
                passed += homes.iter().map(|h| h.hand_overs).sum::<u64>();
            }
        }
    }
    // Else nothing left a cache, and nothing was tested.
    assert!(evictions > 1000 && written > 1000 && passed > 100);
}

#[cfg(feature = "mutants")]
#[test]
fn a_write_granted_before_the_answers_is_caught() {
    use emu_sim::mutant::{Mutant, Mutation};
    let early = |mutation| {
        std::panic::catch_unwind(|| {
            let options = Options { mutation, ..Options::default() };
            common::trace(&cramped("quad", SIZES[0]), STORM, options)
        })
    };
    assert!(early(Mutation::default()).is_ok());
    let panic = early(Mutation::of(Mutant::EarlyGrant)).expect_err("the mutant passed");
    let text = panic.downcast::<String>().expect("a formatted message");
    assert!(text.contains("of line"), "{text}");
}
