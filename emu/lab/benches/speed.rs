//! `cargo bench`: how fast the emulator is (N1, N5, N7, and the bring-up of N8).
//!
//! Each sample runs a fork of a machine that was prepared before, so that only the named work is
//! timed. Items are guest instructions (N1), line requests (N5) and cpus (N7, N8).

use divan::Bencher;
use divan::counter::ItemsCount;
use emu_lab::{alu_loop, alu_loop_arm64, kernel};
use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::{CpuId, SimTime};
use topology::Isa;

const KERNEL: &[u8] = kernel(Isa::X86_64);

fn main() {
    divan::main();
}

const LIMIT: SimTime = SimTime::from_us(100_000_000);

fn machine(name: &str, image: &[u8], args: &str, elide_spins: bool) -> Machine {
    let topology = topology::Machine::load(name, &[]).expect("machine");
    let image = Image::from_elf(image, None).expect("image");
    let options = Options { elide_spins, ..Options::default() };
    let mut machine = Machine::new(&topology, options).expect("options");
    machine.load(&image, args).expect("it fits");
    machine
}

/// Runs to the begin of the region of interest.
fn at_region(mut machine: Machine) -> Machine {
    let stop = machine.run(&Until { time: LIMIT, regions: true }, &mut ());
    assert!(matches!(stop, Stop::Region { begin: true, .. }));
    machine
}

fn to_exit(mut machine: Machine) -> Machine {
    let stop = machine.run(&Until { time: LIMIT, regions: false }, &mut ());
    assert_eq!(stop, Stop::Exit { code: 0 });
    machine
}

fn sum(machine: &Machine, count: impl Fn(&emu_machine::CpuCounters) -> u64) -> u64 {
    (0..machine.cpus() as u32).map(|c| count(&machine.counters(CpuId(c)))).sum()
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n1_integer_loop(bencher: Bencher) {
    let start = machine("duo", &alu_loop(1_000_000), "", false);
    let items = sum(&to_exit(start.clone()), |c| c.instructions);
    bencher.counter(ItemsCount::new(items)).with_inputs(|| start.clone()).bench_values(to_exit);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n1_integer_loop_arm64(bencher: Bencher) {
    let start = machine("duo-arm", &alu_loop_arm64(1_000_000), "", false);
    let items = sum(&to_exit(start.clone()), |c| c.instructions);
    bencher.counter(ItemsCount::new(items)).with_inputs(|| start.clone()).bench_values(to_exit);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n5_line_requests(bencher: Bencher) {
    let args = "bench=c2c c2c_a=0 c2c_b=3 iters=20000 c2c_samples=5";
    let start = at_region(machine("quad", KERNEL, args, true));
    let before = sum(&start, |c| c.line_requests);
    let items = sum(&to_exit(start.clone()), |c| c.line_requests) - before;
    bencher.counter(ItemsCount::new(items)).with_inputs(|| start.clone()).bench_values(to_exit);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n7_384_cpus_in_mwait_for_a_second(bencher: Bencher) {
    let start = at_region(machine("epyc-9654-2s", KERNEL, "bench=idle duration_us=1000000", true));
    bencher
        .counter(ItemsCount::new(start.cpus()))
        .with_inputs(|| start.clone())
        .bench_values(to_exit);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n8_bring_up_of_384_cpus(bencher: Bencher) {
    let start = machine("epyc-9654-2s", KERNEL, "bench=idle duration_us=1", true);
    bencher
        .counter(ItemsCount::new(start.cpus()))
        .with_inputs(|| start.clone())
        .bench_values(at_region);
}
