//! `cargo bench`: how fast the emulator is (N1 to N8), on both instruction sets where they differ.
//!
//! Each sample runs a fork of a machine that was prepared before, so that only the named work is
//! timed. Items are guest instructions (N1 to N4), line requests (N5, N6) and cpus (N7, N8).

use divan::Bencher;
use divan::counter::ItemsCount;
use emu_lab::{alu_loop, alu_loop_arm64, kernel};
use emu_machine::{Image, Machine, Options, Stop, Until};
use emu_sim::{CpuId, SimTime};
use topology::Isa;

const KERNEL: &[u8] = kernel(Isa::X86_64);
const KERNEL_ARM64: &[u8] = kernel(Isa::Aarch64);

/// Machines of 384 cpus.
const LARGE: &str = "epyc-9654-2s";
const LARGE_ARM64: &str = "smp-arm-384";

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

/// Instructions of the busy guest on the first cpus of the machine.
fn busy(bencher: Bencher, cpus: u32, rounds: u32) {
    let args = format!("bench=busy on=0-{} iters={rounds}", cpus - 1);
    from_region(bencher, machine(LARGE, KERNEL, &args, true), |c| c.instructions);
}

/// Runs from the region of interest to the end; items are what is counted meanwhile.
fn from_region(bencher: Bencher, machine: Machine, count: fn(&emu_machine::CpuCounters) -> u64) {
    let start = at_region(machine);
    let items = sum(&to_exit(start.clone()), count) - sum(&start, count);
    bencher.counter(ItemsCount::new(items)).with_inputs(|| start.clone()).bench_values(to_exit);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n2_busy_32_cpus(bencher: Bencher) {
    busy(bencher, 32, 500);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n3_busy_384_cpus(bencher: Bencher) {
    busy(bencher, 384, 50);
}

/// With N3 the ratio of N4.
#[divan::bench(sample_count = 5, sample_size = 1)]
fn n4_busy_16_cpus(bencher: Bencher) {
    busy(bencher, 16, 1000);
}

const HANDOVER: &str = "bench=c2c c2c_a=0 c2c_b=3 iters=20000 c2c_samples=5";

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n5_line_requests(bencher: Bencher) {
    from_region(bencher, machine("quad", KERNEL, HANDOVER, true), |c| c.line_requests);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n5_line_requests_arm64(bencher: Bencher) {
    // By LSE no line moves, and a compare-exchange by exclusives mostly reads.
    let args = "bench=atomics on=0,3 iters=20000 lse=0";
    from_region(bencher, machine("quad-arm", KERNEL_ARM64, args, true), |c| c.line_requests);
}

/// The two of N6: one line, so many waiters.
#[divan::bench(sample_count = 5, sample_size = 1, args = [16, 384])]
fn n6_contended_line(bencher: Bencher, cpus: u32) {
    let args = format!("bench=atomics on=0-{} iters={}", cpus - 1, 800_000 / cpus);
    from_region(bencher, machine(LARGE, KERNEL, &args, true), |c| c.line_requests);
}

fn idle(bencher: Bencher, name: &str, kernel: &[u8]) {
    let start = at_region(machine(name, kernel, "bench=idle duration_us=1000000", true));
    let items = ItemsCount::new(start.cpus());
    bencher.counter(items).with_inputs(|| start.clone()).bench_values(to_exit);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n7_384_cpus_in_mwait_for_a_second(bencher: Bencher) {
    idle(bencher, LARGE, KERNEL);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n7_384_cpus_in_wfi_for_a_second(bencher: Bencher) {
    idle(bencher, LARGE_ARM64, KERNEL_ARM64);
}

fn bring_up(bencher: Bencher, name: &str, kernel: &[u8]) {
    let start = machine(name, kernel, "bench=idle duration_us=1", true);
    let items = ItemsCount::new(start.cpus());
    bencher.counter(items).with_inputs(|| start.clone()).bench_values(at_region);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n8_bring_up_of_384_cpus(bencher: Bencher) {
    bring_up(bencher, LARGE, KERNEL);
}

#[divan::bench(sample_count = 5, sample_size = 1)]
fn n8_bring_up_of_384_cpus_arm64(bencher: Bencher) {
    bring_up(bencher, LARGE_ARM64, KERNEL_ARM64);
}
