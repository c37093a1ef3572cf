//! SGIs of GICv3 on whole machines: every cluster, cpu by cpu, all, and seeded masks, against an
//! oracle that reads the manual's fields; and how long an SGI takes by distance.
//!
//! Cpu 0 writes ICC_SGI1R_EL1 with one value a step and waits for the event stream; every cpu that
//! takes an SGI counts it in its byte of the step. That a cpu finds itself in each of the 2^16
//! lists of each cluster and range is shown without a machine, in `emu_arm64::gic`.

#[path = "common/words.rs"]
mod words;

use emu_machine::{Machine, Options, Stop, Until};
use emu_observe::{Event, Observer, Record, Wanted};
use emu_sim::{Chance, CpuId, SimTime};

/// Number of cpus, and their affinities as CPU_ON takes them.
const AFFINITIES: u64 = 0x8010_0000;
/// Number of steps, and their values.
const VALUES: u64 = 0x8020_0000;
/// A page for each cpu, with a byte for each step.
const LOG: u64 = 0x8040_0000;
const PAGE: usize = 4096;
/// The last byte of a page says that its cpu is up.
const STEPS_MAX: usize = PAGE - 1;
/// Seeded masks of each cluster.
const MASKS: u64 = 4;
const TO_OTHERS: u64 = 1 << 40;

#[rustfmt::skip]
const GUEST: [u32; 80] = [
    0xd2a1_0014, // mov x20, #0x8000000
    0x5280_0241, // mov w1, #0x12
    0xb900_0281, // str w1, [x20]
    0xd280_0000, // mov x0, #0x0
    0x1400_002c, // b .+176
    0xd280_0039, // mov x25, #0x1
    0xd2b0_021a, // mov x26, #0x80100000
    0xf940_035b, // ldr x27, [x26]
    0xeb1b_033f, // cmp x25, x27
    0x5400_0142, // b.cs .+40
    0xd280_0060, // mov x0, #0x3
    0xf2b8_8000, // movk x0, #0xc400, lsl #16
    0x8b19_0f5a, // add x26, x26, x25, lsl #3
    0xf940_0741, // ldr x1, [x26, #8]
    0x1000_0442, // adr x2, .+136
    0xaa19_03e3, // mov x3, x25
    0xd400_0003, // smc #0x0
    0x9100_0739, // add x25, x25, #0x1
    0x17ff_fff4, // b .-48
    0xd280_0039, // mov x25, #0x1
    0xeb1b_033f, // cmp x25, x27
    0x5400_00c2, // b.cs .+24
    0x8b19_32c1, // add x1, x22, x25, lsl #12
    0x397f_fc22, // ldrb w2, [x1, #4095]
    0x34ff_ffe2, // cbz w2, .-4
    0x9100_0739, // add x25, x25, #0x1
    0x17ff_fffa, // b .-24
    0xd280_1081, // mov x1, #0x84
    0xd518_e101, // msr cntkctl_el1, x1
    0xd2b0_0418, // mov x24, #0x80200000
    0xf840_8719, // ldr x25, [x24], #8
    0xd280_001a, // mov x26, #0x0
    0xeb19_035f, // cmp x26, x25
    0x5400_0162, // b.cs .+44
    0xf900_02fa, // str x26, [x23]
    0xf840_8701, // ldr x1, [x24], #8
    0xd503_3f9f, // dsb sy
    0xd518_cba1, // msr icc_sgi1r_el1, x1
    0xd503_3fdf, // isb
    0xd503_205f, // wfe
    0xd503_205f, // wfe
    0x9400_001d, // bl .+116
    0x9100_075a, // add x26, x26, #0x1
    0x17ff_fff5, // b .-44
    0xd2a1_2009, // mov x9, #0x9000000
    0xf900_0d3f, // str xzr, [x9, #24]
    0xd503_207f, // wfi
    0x17ff_ffff, // b .-4
    0xaa00_03fc, // mov x28, x0
    0xd2a1_4014, // mov x20, #0xa000000
    0x8b1c_4694, // add x20, x20, x28, lsl #17
    0xb900_169f, // str wzr, [x20, #20]
    0x9140_4295, // add x21, x20, #0x10, lsl #12
    0x1280_0001, // mov w1, #0xffffffff
    0xb900_82a1, // str w1, [x21, #128]
    0xb901_02a1, // str w1, [x21, #256]
    0xd280_1fe1, // mov x1, #0xff
    0xd518_4601, // msr icc_pmr_el1, x1
    0xd280_0021, // mov x1, #0x1
    0xd518_cce1, // msr icc_igrpen1_el1, x1
    0xd503_3fdf, // isb
    0xd2b0_0816, // mov x22, #0x80400000
    0x8b1c_32d6, // add x22, x22, x28, lsl #12
    0xd2b0_0617, // mov x23, #0x80300000
    0xb4ff_f8bc, // cbz x28, .-236
    0x5280_0021, // mov w1, #0x1
    0x393f_fec1, // strb w1, [x22, #4095]
    0xd503_207f, // wfi
    0x9400_0002, // bl .+8
    0x17ff_fffe, // b .-8
    0xd538_cc01, // mrs x1, icc_iar1_el1
    0xf10f_f03f, // cmp x1, #0x3fc
    0x5400_00e2, // b.cs .+28
    0xd518_cc21, // msr icc_eoir1_el1, x1
    0xf940_02e2, // ldr x2, [x23]
    0x3862_6ac3, // ldrb w3, [x22, x2]
    0x1100_0463, // add w3, w3, #0x1
    0x3822_6ac3, // strb w3, [x22, x2]
    0x17ff_fff8, // b .-32
    0xd65f_03c0, // ret
];

/// Affinity 3.2.1.0 of a cpu.
fn affinity(mpidr: u64) -> [u64; 4] {
    [mpidr >> 32, mpidr >> 16, mpidr >> 8, mpidr].map(|field| field & 0xff)
}

/// Source: \[GICv3\] ICC_SGI1R_EL1, "Field descriptions".
fn is_addressed(value: u64, [aff3, aff2, aff1, aff0]: [u64; 4], is_sender: bool) -> bool {
    let bits = |high: u32, low: u32| value << (63 - high) >> (63 - high + low);
    if bits(40, 40) == 1 {
        return !is_sender;
    }
    let is_cluster = (aff3, aff2, aff1) == (bits(55, 48), bits(39, 32), bits(23, 16));
    is_cluster && aff0 / 16 == bits(47, 44) && bits(15, 0) / (1 << (aff0 % 16)) % 2 == 1
}

/// The values of all steps: for each cluster each bit alone, all, none and seeded masks; then all
/// others, and a range and a cluster that nobody has.
fn values(topology: &topology::Machine) -> Vec<u64> {
    let field = |mpidr: u64| {
        let [aff3, aff2, aff1, aff0] = affinity(mpidr);
        aff3 << 48 | (aff0 / 16) << 44 | aff2 << 32 | aff1 << 16
    };
    let mut clusters: Vec<u64> = topology.cpus.iter().map(|cpu| field(cpu.mpidr)).collect();
    clusters.sort_unstable();
    clusters.dedup();
    let chance = Chance::new(7);
    let mut values = Vec::new();
    for (n, cluster) in clusters.iter().enumerate() {
        let masks = (0..MASKS).map(|draw| chance.below(1 << 16, n as u32, 0, draw));
        let bits = (0..16).map(|bit| 1 << bit);
        values.extend(bits.chain([0xffff, 0]).chain(masks).map(|mask| cluster | mask));
    }
    values.extend([TO_OTHERS, TO_OTHERS | 0xffff, 15 << 44 | 0xffff, 0xfe << 16 | 0xffff]);
    values.iter().enumerate().map(|(n, value)| value | (n as u64 & 15) << 24).collect()
}

fn machine(name: &str, set: &[&str]) -> (topology::Machine, Machine) {
    let set: Vec<String> = set.iter().map(|&text| text.to_owned()).collect();
    let topology = topology::Machine::load(name, &set).expect("a machine");
    let mut machine = Machine::new(&topology, Options::default()).expect("it is built");
    machine.load(&words::image(&GUEST), "").expect("it fits");
    (topology, machine)
}

/// Hands the guest its tables.
fn fill(machine: &mut Machine, topology: &topology::Machine, values: &[u64]) {
    assert!(values.len() <= STEPS_MAX, "{} steps", values.len());
    let affinities = topology.cpus.iter().map(|cpu| cpu.mpidr & 0xff_00ff_ffff);
    let affinities: Vec<u64> = affinities.collect();
    for (at, words) in [(AFFINITIES, &affinities[..]), (VALUES, values)] {
        let words = [&[words.len() as u64], words].concat();
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        machine.write_guest(at, &bytes);
    }
}

fn run(machine: &mut Machine, observer: &mut impl Observer) {
    let until = Until { time: SimTime::from_us(1_000_000), regions: false };
    assert_eq!(machine.run(&until, observer), Stop::Exit { code: 0 });
    assert_eq!(machine.check_laws(), Ok(()));
}

#[test]
fn every_cluster_is_reached_cpu_by_cpu_whole_and_by_any_mask() {
    for (name, set) in [
        ("smp-arm-384", &[][..]),
        // Aff0 above 15: the range selector.
        ("smp-arm-72", &["smp.llc_width=36"]),
        ("neoverse-n1-2s", &[]),
    ] {
        let (topology, mut machine) = machine(name, set);
        let values = values(&topology);
        fill(&mut machine, &topology, &values);
        run(&mut machine, &mut ());
        for (cpu, place) in topology.cpus.iter().enumerate() {
            let log = machine.read_guest(LOG + (cpu * PAGE) as u64, values.len());
            for (value, taken) in values.iter().zip(log) {
                let wanted = is_addressed(*value, affinity(place.mpidr), cpu == 0);
                assert_eq!(taken, u8::from(wanted), "{name} {set:?} cpu{cpu} {value:#x}");
            }
        }
    }
}

/// When SGIs left, and when each came.
#[derive(Default)]
struct Wires {
    sent: Vec<(u64, SimTime, CpuId)>,
    came: Vec<(u64, SimTime)>,
}

impl Observer for Wires {
    fn wanted(&self) -> Wanted {
        Wanted { wakes: true, ..Wanted::default() }
    }

    fn record(&mut self, r: &Record) {
        match r.event {
            Event::IpiSent { id, to, .. } => self.sent.push((id.n, r.time, to)),
            Event::IpiAccepted { id, .. } => self.came.push((id.n, r.time)),
            _ => {}
        }
    }
}

#[test]
fn an_sgi_takes_as_long_as_it_is_far() {
    let places = [
        ("smp-arm-8", &["smp.packages=2", "smp.llc_width=2"][..]),
        ("smp-arm-8", &["smp.packages=2", "smp.smt=2"]),
        ("neoverse-n1-2s", &[]),
    ];
    for (name, set) in places {
        let (topology, mut machine) = machine(name, set);
        let to_one = |mpidr: u64| {
            let [aff3, aff2, aff1, aff0] = affinity(mpidr);
            aff3 << 48 | (aff0 / 16) << 44 | aff2 << 32 | aff1 << 16 | 1 << (aff0 % 16)
        };
        let values: Vec<u64> = topology.cpus.iter().map(|cpu| to_one(cpu.mpidr)).collect();
        fill(&mut machine, &topology, &values);
        let mut wires = Wires::default();
        run(&mut machine, &mut wires);
        // Inside a core no message is sent.
        let core = |cpu: usize| topology.cpus[cpu].core;
        let others = (0..topology.cpus.len()).filter(|&cpu| core(cpu) != core(0));
        let sent: Vec<usize> = wires.sent.iter().map(|sent| sent.2.index()).collect();
        assert_eq!(sent, others.collect::<Vec<_>>(), "{name} {set:?}");
        let mut taken = Vec::new();
        for (id, left, to) in &wires.sent {
            let came = wires.came.iter().find(|came| came.0 == *id).expect("it came").1;
            // The receiver's next clock edge.
            let wire = topology.ipi_wire(0, to.index());
            let cycle = 1_000_000_000 / topology.cores[core(to.index())].core_khz + 1;
            let took = (came - *left).ps();
            assert!((wire..=wire + cycle).contains(&took), "{name} {to}: {took} for {wire}");
            taken.push(wire);
        }
        taken.sort_unstable();
        taken.dedup();
        assert!(taken.len() >= 2, "{name} {set:?} has one distance only");
    }
}
